//! Request body that counts its unread bytes.
//!
//! The unread bytes of a refused request stand before the next request on an HTTP/1.1 connection. The HTTP library discards them
//! if they are few and have arrived, and ends the connection otherwise; clients send a body behind its headers, so either may
//! happen. The answer must announce that the connection ends: otherwise the client sends its next request into a closing one.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};

pub struct CountedBody<B> {
    inner: B,
    left: Left,
}

/// Unread bytes of a body, as far as its length is known; `None` where there is no body.
#[derive(Clone)]
pub struct Left(Option<Arc<AtomicU64>>);

impl Left {
    /// Whether the connection has to end because of them.
    pub fn is_in_the_way(&self) -> bool {
        self.0.as_ref().is_some_and(|left| left.load(Ordering::Relaxed) > 0)
    }
}

impl<B: Body> CountedBody<B> {
    pub fn new(inner: B) -> (CountedBody<B>, Left) {
        // A body of unknown length is in the way until its end was seen.
        let length = inner.size_hint().upper().unwrap_or(u64::MAX);
        let left = Left((length > 0).then(|| Arc::new(AtomicU64::new(length))));
        (CountedBody { inner, left: left.clone() }, left)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for CountedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        let Some(left) = &self.left.0 else { return Poll::Ready(frame) };
        match &frame {
            None => left.store(0, Ordering::Relaxed),
            Some(Ok(frame)) if left.load(Ordering::Relaxed) != u64::MAX => {
                let size_bytes = frame.data_ref().map_or(0, Buf::remaining) as u64;
                left.fetch_sub(size_bytes.min(left.load(Ordering::Relaxed)), Ordering::Relaxed);
            }
            Some(_) => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use http_body_util::{BodyExt, Full, StreamBody};

    use super::*;

    #[tokio::test]
    async fn a_body_is_in_the_way_until_it_was_read() {
        let (body, left) = CountedBody::new(Full::new(Bytes::from(vec![0; 10_000])));
        assert!(left.is_in_the_way());
        body.collect().await.expect("memory does not fail");
        assert!(!left.is_in_the_way());
        let (_small, left) = CountedBody::new(Full::new(Bytes::from_static(b"{}")));
        assert!(left.is_in_the_way(), "it may still be on its way");
        let (_none, left) = CountedBody::new(Full::new(Bytes::new()));
        assert!(!left.is_in_the_way());
    }

    #[tokio::test]
    async fn a_body_of_unknown_length_is_in_the_way_until_its_end() {
        let frames = [Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(b"a")))];
        let (mut body, left) = CountedBody::new(StreamBody::new(futures::stream::iter(frames).boxed()));
        body.frame().await.expect("a frame").expect("memory does not fail");
        assert!(left.is_in_the_way());
        assert!(body.frame().await.is_none());
        assert!(!left.is_in_the_way());
    }
}
