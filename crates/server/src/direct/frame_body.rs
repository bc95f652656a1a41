//! The body behind a frame, as the gateway reads bodies.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use thiserror::Error;
use tokio::sync::mpsc;

/// A body: as a whole where it came with its frame, else in parts.
#[derive(Debug)]
pub struct FrameBody {
    left: u64,
    source: Source,
    is_broken_off: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Source {
    Whole(Bytes),
    Parts(mpsc::Receiver<Bytes>),
}

/// Where the parts of a body go.
#[derive(Debug)]
pub struct BodySender(mpsc::Sender<Bytes>);

/// The connection has ended within a body.
#[derive(Debug, Clone, Copy, Error)]
#[error("the connection ended")]
pub struct BrokenOff;

impl FrameBody {
    pub fn whole(bytes: Bytes) -> FrameBody {
        FrameBody::new(bytes.len() as u64, Source::Whole(bytes))
    }

    pub fn in_parts(length: u64) -> (BodySender, FrameBody) {
        // One part waits while the next one arrives.
        let (sender, parts) = mpsc::channel(1);
        (BodySender(sender), FrameBody::new(length, Source::Parts(parts)))
    }

    fn new(left: u64, source: Source) -> FrameBody {
        FrameBody { left, source, is_broken_off: Arc::default() }
    }

    /// Set when the reader of the body meets its early end.
    pub fn is_broken_off(&self) -> Arc<AtomicBool> {
        self.is_broken_off.clone()
    }
}

impl BodySender {
    /// Waits until the channel accepts the part. `false`: the request was answered without the body.
    pub async fn send(&self, part: Bytes) -> bool {
        self.0.send(part).await.is_ok()
    }

    /// Until the request is answered without the body.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

impl Body for FrameBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let part = match &mut self.source {
            Source::Whole(bytes) => Some(std::mem::take(bytes)),
            Source::Parts(parts) => ready!(parts.poll_recv(context)),
        };
        let Some(part) = part else {
            self.is_broken_off.store(true, Ordering::Relaxed);
            return Poll::Ready(Some(Err(BrokenOff)));
        };
        self.left -= part.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_body_that_breaks_off_is_an_error() {
        let (sender, body) = FrameBody::in_parts(10);
        assert!(sender.send(Bytes::from_static(b"part")).await);
        drop(sender);
        let is_broken_off = body.is_broken_off();
        assert!(body.collect().await.is_err());
        assert!(is_broken_off.load(Ordering::Relaxed));
        let whole = FrameBody::whole(Bytes::from_static(b"whole"));
        assert_eq!(whole.size_hint().exact(), Some(5));
        assert_eq!(whole.collect().await.expect("memory does not fail").to_bytes(), "whole");
        assert!(FrameBody::whole(Bytes::new()).is_end_stream());
    }
}
