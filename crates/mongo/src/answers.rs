//! Answers of retryable statements, stored with their writes.

use shardlake_mql::Document;
pub use shardlake_partition::{SessionName, SessionWrite};
use shardlake_partition::{forget_statements, kept_statements, wait_for_queued};
use shardlake_stdx::Timestamp;

use crate::collections::Collections;
use crate::failure::{Failure, Result};

/// The statements of an `insert`, one for each document.
#[derive(Debug)]
pub struct NumberedInserts {
    pub write: SessionWrite,
    pub statements: Vec<i32>,
}

/// Stored answers of a session's last write.
#[derive(Debug)]
pub struct KeptAnswers {
    pub number: i64,
    /// It was a transaction, and it was committed.
    pub is_committed: bool,
    pub answers: Vec<(i32, Document)>,
}

impl Collections {
    /// The stored answers of a session's last write, from any shard. `waits` for queued writes.
    pub async fn kept_answers(
        &self,
        session: SessionName,
        now: Timestamp,
        waits: bool,
    ) -> Result<Option<KeptAnswers>> {
        if waits {
            for shard in self.queries.router().stores().iter() {
                wait_for_queued(shard).await?;
            }
        }
        let Some(kept) = kept_statements(self.queries.router().stores().iter(), session, now).await? else {
            return Ok(None);
        };
        let answer = |(statement, bytes): (i32, bytes::Bytes)| match Document::from_bytes(&bytes) {
            Ok(answer) => Ok((statement, answer)),
            Err(error) => Err(Failure::new(1, format!("what is kept of a statement is malformed: {error}"))),
        };
        let answers = kept.answers.into_iter().map(answer).collect::<Result<Vec<_>>>()?;
        Ok(Some(KeptAnswers { number: kept.number, is_committed: kept.is_committed, answers }))
    }

    /// Deletes answers that no client may ask for any more; returns the number of rows.
    pub async fn forget_answers(&self, now: Timestamp) -> Result<usize> {
        let mut forgotten = 0;
        for shard in self.queries.router().stores().iter() {
            forgotten += forget_statements(shard, now).await?;
        }
        Ok(forgotten)
    }
}
