//! Stored answers of statements that may be repeated: rows that are written with the items that the
//! statements changed, in one commit, so that after a crash either both are there or none.
//!
//! ```text
//! 2^32-1 u32 | W | generation u32 | session 16 bytes | first statement i32 → number i64 | count u16 | statements i32… | answer
//! ```
//!
//! They are the shard's, and no partition's: a statement that comes again may mean another
//! document, which is elsewhere, and partitions are split and moved. A session is looked up once
//! after a start, on all shards. A generation is five minutes: a row is replaced by the session's
//! next write within its generation, and whole generations are deleted, so that rows which were
//! just written are never deleted.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use shardlake_model::{Error, ErrorKind, PartitionUid, Result};
use shardlake_mql::write::{AnswerForm, ChangeOutcome};
use shardlake_stdx::Timestamp;
use shardlake_storage::{Batch, ScanOptions, Shard};

/// The number that no partition has. Rows of a shard that are no partition's lie under it.
pub(crate) const NO_PARTITION: PartitionUid = PartitionUid(u32::MAX);
const STATEMENTS: [u8; 5] = [0xFF, 0xFF, 0xFF, 0xFF, b'W'];
const GENERATION_MS: u64 = 5 * 60 * 1000;
/// Generations in which a session is looked up; more than the time for which clients may come again, which is 30 minutes.
const GENERATIONS: u64 = 8;
/// The statement that stands for the commit of a transaction.
const COMMIT: i32 = -1;
/// Rows that are deleted in one commit.
const FORGOTTEN_AT_A_TIME: usize = 512;

/// Which session, of which user: a digest of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionName(pub [u8; 16]);

/// A write of a session that may come again.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct SessionWrite {
    pub session: SessionName,
    /// It grows with each of the session's writes.
    pub number: i64,
    #[serde(with = "milliseconds")]
    pub now: Timestamp,
}

/// A time as its number of milliseconds.
mod milliseconds {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use shardlake_stdx::Timestamp;

    pub fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        time.milliseconds().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        u64::deserialize(deserializer).map(Timestamp)
    }
}

/// The stored answer of the statements of one commit, which all have the same answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementRow {
    key: Bytes,
    value: Bytes,
}

/// Statements whose answer a commit stores next to its items.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StatementNote {
    pub write: SessionWrite,
    pub statements: Vec<i32>,
    pub answer: AnswerForm,
}

impl StatementNote {
    /// The row for the outcome of the commit's change, if it has a change; `None` if there is no answer to store.
    pub fn row(&self, outcome: Option<&ChangeOutcome>) -> Option<StatementRow> {
        let answer = self.answer.of_commit(outcome)?;
        Some(self.write.row(&self.statements, &answer.to_bytes()))
    }
}

/// The stored answers of a session's last write.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KeptStatements {
    pub number: i64,
    /// It was a transaction, and it was committed.
    pub is_committed: bool,
    pub answers: Vec<(i32, Bytes)>,
}

fn generation_of(now: Timestamp) -> u64 {
    now.milliseconds() / GENERATION_MS
}

fn session_prefix(generation: u64, session: SessionName) -> Vec<u8> {
    let mut key = generation_start(generation);
    key.extend_from_slice(&session.0);
    key
}

fn generation_start(generation: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(29);
    key.extend_from_slice(&STATEMENTS);
    key.extend_from_slice(&u32::try_from(generation).unwrap_or(u32::MAX).to_be_bytes());
    key
}

impl SessionWrite {
    /// `statements` are not none, and fewer than 2^16.
    pub fn row(&self, statements: &[i32], answer: &[u8]) -> StatementRow {
        let first = statements.first().copied().unwrap_or_default();
        let mut key = session_prefix(generation_of(self.now), self.session);
        key.extend_from_slice(&first.to_be_bytes());
        let count = u16::try_from(statements.len()).expect("a commit has fewer statements");
        let mut value = Vec::with_capacity(10 + 4 * statements.len() + answer.len());
        value.extend_from_slice(&self.number.to_le_bytes());
        value.extend_from_slice(&count.to_le_bytes());
        statements.iter().for_each(|statement| value.extend_from_slice(&statement.to_le_bytes()));
        value.extend_from_slice(answer);
        StatementRow { key: key.into(), value: value.into() }
    }

    /// For the commit of a transaction.
    pub fn commit_row(&self) -> StatementRow {
        self.row(&[COMMIT], &[])
    }
}

impl StatementRow {
    pub(crate) fn add_to(self, batch: &mut Batch) {
        batch.put(self.key, self.value);
    }
}

impl KeptStatements {
    /// Adds the content of a row, unless it is of an earlier write.
    fn add(&mut self, value: &Bytes) -> Option<()> {
        let (number, rest) = value.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let (number, count) = (i64::from_le_bytes(*number), usize::from(u16::from_le_bytes(*count)));
        let (statements, answer) = rest.split_at_checked(4 * count)?;
        if number < self.number {
            return Some(());
        }
        if number > self.number {
            *self = KeptStatements { number, ..KeptStatements::default() };
        }
        let answer = value.slice_ref(answer);
        for statement in statements.as_chunks::<4>().0 {
            match i32::from_le_bytes(*statement) {
                COMMIT => self.is_committed = true,
                statement => self.answers.push((statement, answer.clone())),
            }
        }
        Some(())
    }
}

/// The last write of a session, from the rows of all shards; `None` where no shard has any.
pub async fn kept_statements<'s>(
    shards: impl IntoIterator<Item = &'s Shard>,
    session: SessionName,
    now: Timestamp,
) -> Result<Option<KeptStatements>> {
    let mut kept = KeptStatements { number: -1, ..KeptStatements::default() };
    let last = generation_of(now);
    for shard in shards {
        let view = shard.view();
        // The clock of the server before may have been ahead of this one's.
        for generation in last.saturating_sub(GENERATIONS)..=last + 1 {
            let start = session_prefix(generation, session);
            let end = [&*start, &[0xFF; 5]].concat();
            let mut scan = view.scan(start..end, ScanOptions::default());
            while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
                for (_, value) in rows {
                    kept.add(&value).ok_or_else(|| {
                        Error::new(ErrorKind::Corrupt, "what is kept of a statement is malformed")
                    })?;
                }
            }
        }
    }
    Ok((kept.number >= 0).then_some(kept))
}

/// Returns when every commit that is queued now is there, or will never be.
pub async fn wait_for_queued(shard: &Shard) -> Result<()> {
    shard.commit(Batch::new()).map_err(crate::storage_error)?.await.map_err(crate::storage_error)
}

/// Deletes rows that are too old to be asked for; returns their number.
pub async fn forget_statements(shard: &Shard, now: Timestamp) -> Result<usize> {
    let end = generation_start(generation_of(now).saturating_sub(GENERATIONS));
    let mut start = generation_start(0);
    let mut forgotten = 0;
    loop {
        let options = ScanOptions { limit: Some(FORGOTTEN_AT_A_TIME), ..ScanOptions::default() };
        let view = shard.view();
        let mut scan = view.scan(start.clone()..end.clone(), options);
        let mut batch = Batch::new();
        while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
            rows.into_iter().for_each(|(key, _)| batch.delete(key));
        }
        let Some(last) = batch.iter().next_back() else { return Ok(forgotten) };
        start = [last.key(), &[0][..]].concat();
        forgotten += batch.len();
        shard.commit(batch).map_err(crate::storage_error)?.await.map_err(crate::storage_error)?;
    }
}

/// Whether a key is of such a row.
pub fn is_statement_key(key: &[u8]) -> bool {
    key.starts_with(&STATEMENTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardlake_storage::ShardOptions;

    const NOW: Timestamp = Timestamp(1_700_000_000_000);
    const SESSION: SessionName = SessionName([7; 16]);

    fn write(number: i64, minutes: u64) -> SessionWrite {
        let now = Timestamp(NOW.milliseconds() + minutes * 60_000);
        SessionWrite { session: SESSION, number, now }
    }

    async fn put(shard: &Shard, rows: impl IntoIterator<Item = StatementRow>) {
        let mut batch = Batch::new();
        rows.into_iter().for_each(|row| row.add_to(&mut batch));
        shard.commit(batch).unwrap().await.unwrap();
    }

    async fn kept(shards: &[Shard], minutes: u64) -> Option<KeptStatements> {
        kept_statements(shards, SESSION, write(0, minutes).now).await.unwrap()
    }

    #[tokio::test]
    async fn only_the_last_write_of_a_session_is_known() {
        let shards = [
            Shard::open(ShardOptions::memory()).await.unwrap(),
            Shard::open(ShardOptions::memory()).await.unwrap(),
        ];
        assert_eq!(kept(&shards, 0).await, None);
        put(&shards[0], [write(3, 0).row(&[0, 1, 5], b"x"), write(3, 0).row(&[2], b"y")]).await;
        put(&shards[1], [write(3, 9).row(&[7], b"z")]).await;
        let other = SessionWrite { session: SessionName([8; 16]), ..write(9, 0) };
        put(&shards[0], [other.row(&[0], b"other")]).await;
        let mut found = kept(&shards, 12).await.unwrap();
        found.answers.sort_unstable();
        let answers = [(0, "x"), (1, "x"), (2, "y"), (5, "x"), (7, "z")];
        let answers = answers.map(|(statement, answer)| (statement, Bytes::from(answer))).to_vec();
        assert_eq!(found, KeptStatements { number: 3, is_committed: false, answers });
        put(&shards[0], [write(4, 10).commit_row()]).await;
        let found = kept(&shards, 12).await.unwrap();
        assert_eq!(found, KeptStatements { number: 4, is_committed: true, answers: Vec::new() });
    }

    #[tokio::test]
    async fn what_nobody_can_ask_for_is_deleted_and_nothing_else() {
        let shard = Shard::open(ShardOptions::memory()).await.unwrap();
        let rows =
            (0..2_000).map(|n| SessionWrite { session: SessionName([9; 16]), ..write(1, 0) }.row(&[n], b""));
        put(&shard, rows).await;
        put(&shard, [write(1, 10).row(&[0], b"a")]).await;
        assert_eq!(forget_statements(&shard, write(0, 39).now).await.unwrap(), 0, "within their time");
        assert_eq!(forget_statements(&shard, write(0, 49).now).await.unwrap(), 2_000);
        let shards = [shard];
        assert_eq!(kept(&shards, 49).await.unwrap().number, 1);
        assert_eq!(forget_statements(&shards[0], write(0, 60).now).await.unwrap(), 1);
        assert_eq!(kept(&shards, 60).await, None);
    }
}
