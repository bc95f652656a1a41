//! The text of an answer, in pieces whose memory is freed when they are sent.
//!
//! A page is written row by row into pieces of some 32 KB ([`PageText`]), and its rows go as they are written: nothing holds the page
//! twice, and a client that has taken half of it leaves half in memory. The length is known before the first byte is sent.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use hyper::body::{Body, Frame, SizeHint};

use shardlake_admin::{AnswerPiece, AnswerSource};

use crate::message_space::AnswerHold;

/// Bytes handed to the connection at once. A client has to read as many within its time (`--request-seconds`).
const PIECE_BYTES: usize = 32 << 10;

/// A text as it was written: most in one piece, pages in many.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Text(Vec<Bytes>);

impl Text {
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the body is Cosmos binary JSON, by its first byte.
    pub fn is_binary(&self) -> bool {
        self.0.first().is_some_and(|piece| shardlake_document::is_binary(piece))
    }

    /// The whole text in one piece.
    pub fn into_vec(mut self) -> Vec<u8> {
        match self.0.len() {
            1 => self.0.remove(0).into(),
            _ => self.0.concat(),
        }
    }

    pub(crate) fn of_pieces(pieces: impl IntoIterator<Item = Vec<u8>>) -> Text {
        Text(pieces.into_iter().map(Bytes::from).collect())
    }
}

impl From<Vec<u8>> for Text {
    fn from(text: Vec<u8>) -> Text {
        Text(vec![text.into()])
    }
}

impl From<Bytes> for Text {
    fn from(text: Bytes) -> Text {
        Text(vec![text])
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        text.into_bytes().into()
    }
}

/// The envelope of a feed, as its rows are written into it.
pub(crate) struct PageText {
    done: Vec<Bytes>,
    open: Vec<u8>,
    rows: usize,
}

impl PageText {
    /// `size_bytes` is the expected size of the rows.
    pub fn of_container(rid: &str, size_bytes: usize) -> PageText {
        let mut open = Vec::with_capacity((size_bytes + 64).min(PIECE_BYTES + PIECE_BYTES / 8));
        open.extend_from_slice(b"{\"_rid\":\"");
        open.extend_from_slice(rid.as_bytes());
        open.extend_from_slice(b"\",\"Documents\":[");
        PageText { done: Vec::new(), open, rows: 0 }
    }

    pub fn row(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.rows > 0 {
            self.open.push(b',');
        }
        self.rows += 1;
        write(&mut self.open);
        if self.open.len() >= PIECE_BYTES {
            let next = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8);
            self.done.push(std::mem::replace(&mut self.open, next).into());
        }
    }

    pub fn finish(mut self) -> Text {
        self.open.extend_from_slice(format!("],\"_count\":{}}}", self.rows).as_bytes());
        self.done.push(self.open.into());
        Text(self.done)
    }
}

/// The header behind an answer that ends without its end, with the reason.
pub(crate) const ERROR_TRAILER: &str = "x-shardlake-error";

/// An answer that is made while it is sent.
#[derive(Debug)]
pub(crate) struct Streamed {
    pub source: AnswerSource,
    pub takes_trailers: bool,
}

/// A text on its way to the client, with the memory that it holds. Dropping it gives the memory back.
#[derive(Debug, Default)]
pub struct AnswerBody {
    /// The rest of the answer, behind the pieces.
    streamed: Option<Streamed>,
    pieces: VecDeque<Bytes>,
    left_bytes: u64,
    hold: Option<Arc<AnswerHold>>,
}

impl AnswerBody {
    pub(crate) fn holding(mut self, hold: Option<Arc<AnswerHold>>) -> AnswerBody {
        self.hold = hold;
        self
    }

    /// For a connection that gives the memory back as it sends.
    pub fn take_hold(&mut self) -> Option<Arc<AnswerHold>> {
        self.hold.take()
    }

    /// Bytes that are made already, and not sent.
    pub fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    pub(crate) fn streaming(streamed: Streamed) -> AnswerBody {
        AnswerBody { streamed: Some(streamed), ..AnswerBody::default() }
    }

    /// Whether more of the answer may be made.
    pub fn is_streaming(&self) -> bool {
        self.streamed.is_some()
    }

    /// Whether a failure can be sent behind the answer. Where it cannot, the connection has to break.
    pub fn takes_trailers(&self) -> bool {
        self.streamed.as_ref().is_none_or(|streamed| streamed.takes_trailers)
    }

    fn poll_streamed(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        let Some(streamed) = &mut self.streamed else { return Poll::Ready(None) };
        Poll::Ready(match ready!(streamed.source.poll_piece(context)) {
            Some(AnswerPiece::Data(data)) => Some(Frame::data(data)),
            Some(AnswerPiece::Failed(reason)) => {
                self.streamed = None;
                Some(Frame::trailers(error_trailer(&reason)))
            }
            None => {
                self.streamed = None;
                None
            }
        })
    }

    fn next_piece(&mut self) -> Option<Bytes> {
        let mut piece = self.pieces.pop_front()?;
        if piece.len() > PIECE_BYTES {
            let rest = piece.split_off(PIECE_BYTES);
            self.pieces.push_front(rest);
        }
        assert!(self.left_bytes >= piece.len() as u64, "each piece of an answer is counted");
        assert!(
            !self.pieces.is_empty() || self.left_bytes == piece.len() as u64,
            "the last piece of an answer is all that is left of it"
        );
        self.left_bytes -= piece.len() as u64;
        Some(piece)
    }
}

impl From<Text> for AnswerBody {
    fn from(text: Text) -> AnswerBody {
        let left_bytes = text.len() as u64;
        let pieces = text.0.into_iter().filter(|piece| !piece.is_empty()).collect();
        AnswerBody { pieces, left_bytes, ..AnswerBody::default() }
    }
}

impl From<Bytes> for AnswerBody {
    fn from(text: Bytes) -> AnswerBody {
        Text(vec![text]).into()
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.next_piece() {
            Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece)))),
            None => self.poll_streamed(context).map(|frame| frame.map(Ok)),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left_bytes == 0 && self.streamed.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.streamed {
            None => SizeHint::with_exact(self.left_bytes),
            Some(_) => SizeHint::default(),
        }
    }
}

/// Characters that a header cannot have are replaced.
fn error_trailer(reason: &str) -> HeaderMap {
    let text: String = reason
        .chars()
        .map(|character| if matches!(character, ' '..='~') { character } else { '?' })
        .collect();
    let value =
        HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("the answer is not whole"));
    HeaderMap::from_iter([(HeaderName::from_static(ERROR_TRAILER), value)])
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_page_is_sent_in_pieces_and_is_the_same_text() {
        let row = format!("\"{}\"", "x".repeat(1000));
        let mut page = PageText::of_container("rid", row.len() * 100);
        (0..100).for_each(|_| page.row(|out| out.extend_from_slice(row.as_bytes())));
        let rows = vec![row.as_str(); 100].join(",");
        let whole = format!("{{\"_rid\":\"rid\",\"Documents\":[{rows}],\"_count\":100}}");
        let mut body = AnswerBody::from(page.finish());
        assert_eq!(body.size_hint().exact(), Some(whole.len() as u64));
        let (mut text, mut pieces) = (Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame;
            let piece = frame.into_data().expect("data");
            assert!(piece.len() <= PIECE_BYTES);
            text.extend_from_slice(&piece);
            pieces += 1;
            assert_eq!(body.left_bytes(), (whole.len() - text.len()) as u64);
        }
        assert_eq!(String::from_utf8(text).expect("UTF-8"), whole);
        assert!(pieces > 3, "{pieces}");
        assert!(body.is_end_stream());
    }

    #[test]
    fn a_text_in_one_piece_is_given_out_as_it_is() {
        assert_eq!(Text::from("{}".to_owned()).into_vec(), b"{}");
        assert_eq!(Text::of_pieces([b"a".to_vec(), b"b".to_vec()]).into_vec(), b"ab");
        assert!(AnswerBody::from(Text::default()).is_end_stream());
    }
}
