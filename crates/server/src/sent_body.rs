//! An answer on its way out: it holds its memory, and keeps its request in flight, until the connection has sent it.
//!
//! The HTTP library takes pieces before the client reads them: one for each HTTP/2 stream even where its window is closed, several
//! for HTTP/1.1. So a piece counts as sent when the library drops it, which it does once its bytes are written.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use shardlake_gateway_nosql::AnswerBody;

use crate::watched_io::Answering;

pub struct SentBody {
    body: AnswerBody,
    answering: Arc<Answering>,
}

impl SentBody {
    pub fn new(body: AnswerBody, answering: Arc<Answering>) -> SentBody {
        SentBody { body, answering }
    }
}

impl Body for SentBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(Ok(frame)) = ready!(Pin::new(&mut self.body).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let answering = self.answering.clone();
        Poll::Ready(Some(Ok(frame.map_data(|bytes| Bytes::from_owner(Piece { bytes, answering })))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

struct Piece {
    bytes: Bytes,
    answering: Arc<Answering>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.answering.note_sent(self.bytes.len());
    }
}
