//! An answer on its way out: it holds its memory, and keeps its request in flight, until the connection has sent it.
//!
//! The HTTP library takes pieces before the client reads them: one for each HTTP/2 stream even where its window is closed, several
//! for HTTP/1.1. So a piece counts as sent when the library drops it, which it does once its bytes are written.

use std::io;
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
    /// An answer that fails while it is sent ends the connection, for a client that reads no trailers.
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let (is_streaming, takes_trailers) = (self.body.is_streaming(), self.body.takes_trailers());
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if is_streaming {
            // Until the next piece is made, the client has nothing to read.
            self.answering.note_waiting(polled.is_pending());
        }
        let Some(Ok(frame)) = ready!(polled) else { return Poll::Ready(None) };
        if let Some(data) = frame.data_ref().filter(|_| is_streaming) {
            self.answering.note_made(data.len());
        }
        if frame.is_trailers() && !takes_trailers {
            return Poll::Ready(Some(Err(io::Error::other("the answer is not whole"))));
        }
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
