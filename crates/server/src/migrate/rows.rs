//! Making a shard equal to another one, whatever engines they are over.
//!
//! Both are read in parallel in the order of their keys; only rows that differ are written. So a copy that was cut off continues, and
//! a copy that was made while the source was in use is brought up to date by reading both.

use std::collections::VecDeque;

use shardlake_storage::{Batch, BulkLoad, PendingCommit, Row, Scan, ScanOptions, Shard, StorageError, View};

use crate::progress::Progress;

const COMMIT_OPS_MAX: usize = 2048;
const COMMIT_BYTES_MAX: usize = 1 << 20;
/// Commits that may be under way at a time.
const COMMITS_MAX: usize = 16;
/// Upper bound of all keys: their first four bytes are the number of a partition, which never gets so high.
const END: [u8; 8] = [0xff; 8];

/// Counts of the rows read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Evened {
    pub rows: u64,
    pub put: u64,
    pub deleted: u64,
}

/// Makes `to` have the rows of `from` and no others, durably.
pub async fn even_out(from: &View, to: &Shard, progress: &Progress) -> Result<Evened, StorageError> {
    let target = to.view();
    let mut there = Rows::of(&target);
    if there.peek().await?.is_none() {
        return fill(from, to, progress).await;
    }
    let mut from = Rows::of(from);
    let mut writing = Writing { shard: to, batch: Batch::new(), under_way: VecDeque::new() };
    let mut evened = Evened::default();
    loop {
        match difference(&mut from, &mut there).await? {
            Step::End => break,
            Step::Same => evened.rows += 1,
            Step::Missing((key, value)) | Step::Other((key, value)) => {
                writing.batch.put(key, value);
                evened.put += 1;
                evened.rows += 1;
            }
            Step::Extra((key, _)) => {
                writing.batch.delete(key);
                evened.deleted += 1;
            }
        }
        progress.advance(1);
        writing.write_when_full().await?;
    }
    writing.finish().await?;
    Ok(evened)
}

/// The quick way into a shard that has nothing.
async fn fill(from: &View, to: &Shard, progress: &Progress) -> Result<Evened, StorageError> {
    let mut load = to.bulk_load();
    let pushed = push_all(from, &mut load, progress).await;
    // The load ends also after a failure: the target is read again, or closed, next.
    let loaded = load.finish().await;
    pushed?;
    let rows = loaded?;
    to.flush().await?;
    Ok(Evened { rows, put: rows, deleted: 0 })
}

async fn push_all(from: &View, load: &mut BulkLoad, progress: &Progress) -> Result<(), StorageError> {
    let mut scan = scan(from);
    while let Some(rows) = scan.next_chunk().await? {
        let count = rows.len() as u64;
        load.push(rows).await?;
        progress.advance(count);
    }
    Ok(())
}

/// The number of rows of both, or the key of the first difference.
pub async fn compare(
    from: &View,
    to: &View,
    progress: &Progress,
) -> Result<Result<u64, Vec<u8>>, StorageError> {
    let (mut from, mut to) = (Rows::of(from), Rows::of(to));
    let mut rows = 0;
    loop {
        match difference(&mut from, &mut to).await? {
            Step::End => return Ok(Ok(rows)),
            Step::Same => {
                rows += 1;
                progress.advance(1);
            }
            Step::Missing((key, _)) | Step::Other((key, _)) | Step::Extra((key, _)) => {
                return Ok(Err(key.to_vec()));
            }
        }
    }
}

/// The next row of either.
enum Step {
    Same,
    /// Only in the first.
    Missing(Row),
    /// The row of the first; the second has another value for the key.
    Other(Row),
    /// Only in the second.
    Extra(Row),
    End,
}

async fn difference(from: &mut Rows, to: &mut Rows) -> Result<Step, StorageError> {
    let order = match (from.peek().await?, to.peek().await?) {
        (None, None) => return Ok(Step::End),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (Some(left), Some(right)) => left.0.cmp(&right.0),
    };
    let step = match order {
        std::cmp::Ordering::Less => from.take().map(Step::Missing),
        std::cmp::Ordering::Greater => to.take().map(Step::Extra),
        std::cmp::Ordering::Equal => match (from.take(), to.take()) {
            (Some(left), Some(right)) if left.1 == right.1 => Some(Step::Same),
            (left, _) => left.map(Step::Other),
        },
    };
    Ok(step.expect("a row that was looked at is there"))
}

fn scan(view: &View) -> Scan {
    view.scan(vec![0]..END.to_vec(), ScanOptions::SWEEP)
}

/// All rows of a view, one after the other.
struct Rows {
    scan: Scan,
    ahead: VecDeque<Row>,
}

impl Rows {
    fn of(view: &View) -> Rows {
        Rows { scan: scan(view), ahead: VecDeque::new() }
    }

    async fn peek(&mut self) -> Result<Option<&Row>, StorageError> {
        if self.ahead.is_empty()
            && let Some(rows) = self.scan.next_chunk().await?
        {
            self.ahead.extend(rows);
        }
        Ok(self.ahead.front())
    }

    fn take(&mut self) -> Option<Row> {
        self.ahead.pop_front()
    }
}

struct Writing<'a> {
    shard: &'a Shard,
    batch: Batch,
    under_way: VecDeque<PendingCommit>,
}

impl Writing<'_> {
    async fn write_when_full(&mut self) -> Result<(), StorageError> {
        match self.batch.len() >= COMMIT_OPS_MAX || self.batch.size_bytes() >= COMMIT_BYTES_MAX {
            true => self.write().await,
            false => Ok(()),
        }
    }

    async fn write(&mut self) -> Result<(), StorageError> {
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return Ok(());
        }
        let turn = self.shard.turn_for(batch.len()).await?;
        self.under_way.push_back(self.shard.commit_in_turn(batch, turn)?);
        while self.under_way.len() > COMMITS_MAX {
            self.wait().await?;
        }
        Ok(())
    }

    async fn wait(&mut self) -> Result<(), StorageError> {
        match self.under_way.pop_front() {
            Some(commit) => commit.await,
            None => Ok(()),
        }
    }

    async fn finish(mut self) -> Result<(), StorageError> {
        self.write().await?;
        while !self.under_way.is_empty() {
            self.wait().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use shardlake_storage::ShardOptions;

    use super::*;
    use crate::progress::Unit;

    async fn shard(rows: &[(&str, &str)]) -> Shard {
        let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
        let mut batch = Batch::new();
        for (key, value) in rows {
            batch.put(key.as_bytes().to_vec(), value.as_bytes().to_vec());
        }
        shard.commit(batch).expect("queued").await.expect("committed");
        shard
    }

    #[tokio::test]
    async fn only_differences_are_written_and_every_difference_is_found() {
        let from = shard(&[("a", "1"), ("b", "2"), ("d", "4"), ("e", "5")]).await;
        let progress = Progress::begin("test", Unit::Rows, None);
        let same = Evened { rows: 4, put: 0, deleted: 0 };
        for (to, expected) in [
            (&[][..], Evened { put: 4, ..same }),
            (&[("a", "1"), ("b", "2"), ("d", "4"), ("e", "5")], same),
            (
                &[("b", "2"), ("c", "3"), ("d", "4"), ("e", "5"), ("f", "6")],
                Evened { put: 1, deleted: 2, ..same },
            ),
            (&[("a", "1"), ("b", "x"), ("d", "4")], Evened { put: 2, ..same }),
        ] {
            let to = shard(to).await;
            let differs = expected != same;
            let before = compare(&from.view(), &to.view(), &progress).await.expect("reads");
            assert_eq!(before.is_err(), differs, "{expected:?}");
            assert_eq!(even_out(&from.view(), &to, &progress).await.expect("writes"), expected);
            assert_eq!(compare(&from.view(), &to.view(), &progress).await.expect("reads"), Ok(4));
        }
    }
}
