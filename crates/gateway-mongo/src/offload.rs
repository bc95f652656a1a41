//! Offloading of commands that evaluate expressions to the blocking pool.
//!
//! An expression may run for as long as its command may, and a filter of many parts compares each of them with each element of an array. On
//! a thread that serves connections this would block the clients of both APIs. The server could neither kill the command nor notice that
//! its client has disconnected. So the command's future is polled on the blocking pool:
//!
//! ```text
//! connection   waits ──────────────┬─ woken ── waits ───────┬─ ready
//! a place          poll ── pending ┘              poll ─────┘
//! ```
//! While a command waits, for a document that a transaction holds or for its store, it has neither a permit (`a place`) nor a thread.
//! Pipelines (`aggregate`) offload their stages by themselves.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use shardlake_mql::Document;
use tokio::sync::{Notify, Semaphore};

use crate::call::Connection;
use crate::deployment::Deployment;
use crate::dispatch::{self, Answered, Asked};
use crate::errors::{code, error};

/// [`dispatch::answer`], on the blocking pool.
pub fn answer<'a>(
    deployment: &'a Arc<Deployment>,
    connection: &'a Arc<Connection>,
    asked: Asked,
) -> BoxFuture<'a, Answered> {
    let time = time_of(deployment, &asked.body);
    let (deployment, connection) = (deployment.clone(), connection.clone());
    let places = deployment.places.0.clone();
    let answering = async move { dispatch::answer(&deployment, &connection, asked).await };
    async move {
        // The command's own time begins when it does.
        let Ok(Ok(place)) = tokio::time::timeout(time, places.clone().acquire_owned()).await else {
            let words = "operation exceeded time limit: it waited for other commands that evaluate";
            return dispatch::failed("", &error!(code::MAX_TIME_EXPIRED, "{words}"));
        };
        drop(place);
        polled_beside(answering.boxed(), &places).await.unwrap_or_else(|| {
            dispatch::failed("", &error!(code::INTERNAL_ERROR, "a defect of the server: see its log"))
        })
    }
    .boxed()
}

/// Polls a future on the blocking pool. `None` if a poll panicked.
async fn polled_beside<T: Send + 'static>(
    mut future: BoxFuture<'static, T>,
    places: &Arc<Semaphore>,
) -> Option<T> {
    let bell = Arc::new(Bell(Notify::new()));
    let waker = Waker::from(bell.clone());
    loop {
        let place = places.clone().acquire_owned().await.ok()?;
        let waker = waker.clone();
        let poll = move || {
            let _place = place;
            let poll = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
            (future, poll)
        };
        let (polled, poll) = tokio::task::spawn_blocking(poll).await.ok()?;
        match poll {
            Poll::Ready(result) => return Some(result),
            Poll::Pending => future = polled,
        }
        bell.0.notified().await;
    }
}

/// Waker that remembers one wake for the next wait.
struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

fn time_of(deployment: &Deployment, body: &Document) -> Duration {
    let own = body.get("maxTimeMS").and_then(|time| time.to_i64_exact());
    let own = own.and_then(|time| u64::try_from(time).ok()).filter(|time| *time > 0);
    let longest = deployment.settings.request_timeout;
    own.map_or(longest, |time| longest.min(Duration::from_millis(time)))
}
