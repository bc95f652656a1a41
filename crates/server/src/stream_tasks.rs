//! The tasks of HTTP/2 streams, each with a handle that ends it: dropping its task is the one way to reset a single stream.

use std::sync::{Arc, OnceLock};

use hyper::rt::Executor;
use tokio::task::AbortHandle;

tokio::task_local! {
    static STREAM: StreamEnd;
}

/// Ends the stream of the task that asked for it. Set just after the task is spawned.
#[derive(Debug, Clone, Default)]
pub struct StreamEnd(Arc<OnceLock<AbortHandle>>);

impl StreamEnd {
    /// The end of the stream that this task serves; `None` elsewhere.
    pub fn current() -> Option<StreamEnd> {
        STREAM.try_with(StreamEnd::clone).ok()
    }

    /// Whether it had not ended before.
    pub fn end(&self) -> bool {
        let task = self.0.get().filter(|task| !task.is_finished());
        task.inspect(|task| task.abort()).is_some()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct StreamTasks;

impl<F> Executor<F> for StreamTasks
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let end = StreamEnd::default();
        let task = tokio::spawn(STREAM.scope(end.clone(), stream));
        let _set_once = end.0.set(task.abort_handle());
    }
}
