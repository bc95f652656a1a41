//! An answer on its way to the client.

use std::task::{Context, Poll, ready};

use shardlake_admin::{AnswerPiece, PieceSource};
use shardlake_analytics_sql::{Answer, Piece};

#[derive(Debug)]
pub(super) struct AnswerStream(pub Answer);

impl PieceSource for AnswerStream {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<AnswerPiece>> {
        Poll::Ready(match ready!(self.0.poll_next(context)) {
            Some(Piece::Data(data)) => Some(AnswerPiece::Data(data)),
            Some(Piece::End(_)) => None,
            Some(Piece::Failed(failure)) => Some(AnswerPiece::Failed(failure.message)),
            // A task that ended without an outcome.
            None => Some(AnswerPiece::Failed("the query ended without an outcome".into())),
        })
    }
}
