//! An answer of an engine: there at once, or to be waited for.
//!
//! An engine on a local disk answers nearly every read in the call, and then nothing is boxed and nothing awaits. A
//! caller that may wait writes `view.get(key).await`; a caller that must not matches on the answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;

use crate::{StorageError, witness};

#[must_use = "an answer that is to come does nothing unless it is awaited"]
pub enum Answer<'a, T> {
    Now(Result<T, StorageError>),
    Later(BoxFuture<'a, Result<T, StorageError>>),
}

/// The answer to a read of keys. It borrows nothing, so that a caller may continue before it comes.
pub type Lookup<T> = Answer<'static, T>;

impl<'a, T> Answer<'a, T> {
    pub fn later(answer: impl Future<Output = Result<T, StorageError>> + Send + 'a) -> Self {
        Answer::Later(Box::pin(answer))
    }

    /// Waits where the answer is to come.
    pub async fn resolve(self) -> Result<T, StorageError> {
        self.await
    }
}

impl<'a, T> IntoFuture for Answer<'a, T> {
    type Output = Result<T, StorageError>;
    type IntoFuture = Resolve<'a, T>;

    fn into_future(self) -> Resolve<'a, T> {
        Resolve(Some(self))
    }
}

/// An answer that is awaited.
pub struct Resolve<'a, T>(Option<Answer<'a, T>>);

// The value is moved out, never pinned.
impl<T> Unpin for Resolve<'_, T> {}

impl<T> Future for Resolve<'_, T> {
    type Output = Result<T, StorageError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(Answer::Later(answer)) = &mut self.0 {
            witness::may_wait("a read");
            return answer.as_mut().poll(context);
        }
        match self.0.take() {
            Some(Answer::Now(answer)) => Poll::Ready(answer),
            _ => unreachable!("an answer is not awaited again"),
        }
    }
}
