//! Requirements on every engine, checked against a sorted map: random histories of commits, reads,
//! views held across writes, scans, range drops, flushes and restarts. An engine's tests call
//! [`check`] with ways to open it.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::ops::{Bound, Range};

use crate::{Batch, CachedView, RangeStats, Row, ScanOptions, Shard, StorageError};

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;
/// `None` deletes the key.
pub type Write = (Vec<u8>, Option<Vec<u8>>);

#[derive(Debug, Clone)]
pub enum Step {
    /// Batches committed one behind the other without waiting.
    Commit(Vec<Vec<Write>>),
    Get(Vec<u8>),
    GetMany(Vec<Vec<u8>>),
    Scan(Range<Vec<u8>>, ScanOptions),
    DropRange(Range<Vec<u8>>),
    Ingest(Model),
    TakeView,
    /// Reads everything of the oldest snapshot taken, and gives it up.
    ReadView,
    Flush,
    Checkpoint,
    /// Reads everything of the oldest checkpoint, and removes it.
    ReadCheckpoint,
    /// Restarts the shard; cleanly or as after a crash of the process.
    Restart {
        is_clean: bool,
        is_new_owner: bool,
    },
}

/// Opens the same shard again and again; an engine that keeps nothing gives an error after the first time.
pub trait Opener {
    fn open(&mut self, epoch: u64) -> impl Future<Output = Result<Shard, StorageError>>;
    /// Whether commits that were acknowledged are still there after a restart.
    fn is_durable(&self) -> bool;
    /// Whether checkpoints are, too.
    fn keeps_checkpoints(&self) -> bool {
        false
    }
}

/// Runs a history.
///
/// # Panics
/// When the engine and the map disagree.
pub async fn check(opener: &mut impl Opener, steps: Vec<Step>) {
    let mut epoch = 1;
    let mut shard = opener.open(epoch).await.expect("opens");
    let mut model = Model::new();
    let mut views: Vec<(CachedView, Model)> = Vec::new();
    let mut checkpoints: VecDeque<(String, Model)> = VecDeque::new();
    let mut names = (0..).map(|number| format!("checkpoint-{number}"));
    for step in steps {
        match step {
            Step::Commit(batches) => commit(&shard, &mut model, batches).await,
            Step::Get(key) => check_value(&shard, &model, &key).await,
            Step::GetMany(keys) => check_many(&shard.cached_view(), &model, keys).await,
            Step::Scan(range, options) => check_scan(&shard.cached_view(), &model, range, options).await,
            Step::DropRange(range) => {
                let doomed: Vec<_> = keys_in(&model, &range);
                let deleted = shard.drop_range(range.start, range.end).await.expect("drops succeed");
                assert_eq!(deleted, doomed.len() as u64, "keys dropped");
                doomed.iter().for_each(|key| assert!(model.remove(key).is_some()));
            }
            Step::Ingest(rows) => {
                let mut load = shard.bulk_load();
                for (key, value) in &rows {
                    load.push(vec![(key.clone().into(), value.clone().into())]).await.expect("takes rows");
                }
                assert_eq!(load.finish().await.expect("loads"), rows.len() as u64);
                model.extend(rows);
            }
            Step::TakeView => views.push((shard.cached_view(), model.clone())),
            Step::ReadView if views.is_empty() => {}
            Step::ReadView => {
                let (view, model) = views.remove(0);
                check_everything(&view, &model).await;
            }
            Step::Checkpoint => {
                let name = names.next().expect("names are endless");
                shard.checkpoint(&name).await.expect("makes a checkpoint");
                let again = shard.checkpoint(&name).await;
                assert!(matches!(again, Err(StorageError::CheckpointExists)), "{again:?}");
                checkpoints.push_back((name, model.clone()));
            }
            Step::ReadCheckpoint if checkpoints.is_empty() => {}
            Step::ReadCheckpoint => {
                let (name, model) = checkpoints.pop_front().expect("there is one");
                read_checkpoint(&shard, &name, &model).await;
            }
            Step::Flush => shard.flush().await.expect("flushes succeed"),
            Step::Restart { is_clean, is_new_owner } if opener.is_durable() => {
                if is_clean {
                    shard.close().await.expect("closes");
                }
                views.clear();
                checkpoints.retain(|_| opener.keeps_checkpoints());
                drop(shard);
                if epoch > 1 {
                    let refused = opener.open(epoch - 1).await;
                    let is_fenced =
                        matches!(refused, Err(StorageError::Fenced { epoch: found }) if found == epoch);
                    assert!(is_fenced, "the owner of before is refused: {refused:?}");
                }
                epoch += u64::from(is_new_owner);
                shard = opener.open(epoch).await.expect("opens");
            }
            Step::Restart { .. } => {}
        }
        assert_eq!(shard.durable(), shard.applied(), "all commits were awaited");
    }
    for (view, model) in views {
        check_everything(&view, &model).await;
    }
    for (name, model) in checkpoints {
        read_checkpoint(&shard, &name, &model).await;
    }
    check_everything(&shard.cached_view(), &model).await;
    shard.close().await.expect("closes");
}

async fn read_checkpoint(shard: &Shard, name: &str, model: &Model) {
    let kept = shard.open_checkpoint(name).await.expect("the checkpoint opens");
    check_everything(&kept.cached_view(), model).await;
    drop(kept);
    shard.remove_checkpoint(name).await.expect("removes the checkpoint");
    let gone = shard.open_checkpoint(name).await;
    assert!(matches!(gone, Err(StorageError::CheckpointMissing)), "{gone:?}");
}

/// By every way to read one key.
async fn check_value(shard: &Shard, model: &Model, key: &[u8]) {
    let value = shard.get(key).await.expect("reads succeed");
    assert_eq!(value.as_deref(), model.get(key).map(Vec::as_slice), "value of {key:?}");
    let applied = shard.lookup_applied(key).await.expect("reads succeed");
    assert_eq!(applied, value, "nothing is on its way to {key:?}");
    // Perhaps kept by an earlier step, then kept by this one.
    for _ in 0..2 {
        let found = shard.get_hot(key).await.expect("reads succeed");
        assert_eq!(found.map(|found| found.value), value, "hot row of {key:?}");
    }
}

async fn commit(shard: &Shard, model: &mut Model, batches: Vec<Vec<Write>>) {
    let before = shard.applied();
    let mut pending = Vec::new();
    for ops in batches {
        let mut batch = Batch::new();
        for (key, value) in ops {
            match value {
                Some(value) => {
                    batch.put(key.clone(), value.clone());
                    model.insert(key, value);
                }
                None => {
                    batch.delete(key.clone());
                    model.remove(&key);
                }
            }
        }
        pending.push(shard.commit(batch).expect("the queue has room"));
    }
    for (index, commit) in pending.into_iter().enumerate() {
        assert_eq!(commit.seq(), before + 1 + index as u64, "commits are numbered in order");
        commit.await.expect("commits succeed");
        assert!(shard.view().seq() > before + index as u64, "readers see what was acknowledged");
    }
    let (view, applied) = (shard.view(), shard.applied_view());
    assert_eq!((view.seq(), applied.seq()), (shard.applied(), shard.applied()), "all of it is acknowledged");
}

/// A key may be asked for more than once.
async fn check_many(hot: &CachedView, model: &Model, keys: Vec<Vec<u8>>) {
    let expected: Vec<_> = keys.iter().map(|key| model.get(key).map(Vec::as_slice)).collect();
    let asked = || keys.iter().cloned().map(Into::into).collect();
    let found = hot.view().get_many(asked()).await.expect("reads succeed");
    assert!(found.iter().map(Option::as_deref).eq(expected.iter().copied()), "values of {keys:?}");
    // Perhaps kept by an earlier step, then kept by this one.
    for _ in 0..2 {
        let found = hot.get_many(asked()).await.expect("reads succeed");
        assert!(found.iter().map(Option::as_deref).eq(expected.iter().copied()), "hot values of {keys:?}");
    }
}

async fn check_everything(hot: &CachedView, model: &Model) {
    let everything = vec![0]..vec![0xFF; 8];
    for reverse in [false, true] {
        let options = ScanOptions { reverse, ..ScanOptions::default() };
        check_scan(hot, model, everything.clone(), options).await;
    }
    check_many(hot, model, model.keys().cloned().collect()).await;
}

async fn check_scan(hot: &CachedView, model: &Model, range: Range<Vec<u8>>, options: ScanOptions) {
    let view = hot.view();
    let mut expected: Vec<_> = keys_in(model, &range);
    if options.reverse {
        expected.reverse();
    }
    expected.truncate(options.limit.unwrap_or(usize::MAX));
    let mut found: Vec<Row> = Vec::new();
    let mut scan = view.scan(range.clone(), options);
    while let Some(chunk) = scan.next_chunk().await.expect("scans succeed") {
        assert!(!chunk.is_empty() && chunk.len() <= ScanOptions::CHUNK_ROWS, "size of a chunk");
        found.extend(chunk);
    }
    assert!(scan.next_chunk().await.expect("scans succeed").is_none(), "an ended scan stays ended");
    let mut counted = 0;
    let mut scan = view.scan(range.clone(), options);
    while let Some(rows) = scan.count_chunk().await.expect("counts succeed") {
        counted += rows;
    }
    assert_eq!(counted, found.len(), "rows counted of {range:?} {options:?}");
    let found_keys: Vec<_> = found.iter().map(|(key, _)| key.to_vec()).collect();
    assert_eq!(found_keys, expected, "keys of {range:?} {options:?}");
    for (key, value) in &found {
        assert_eq!(value[..], model[&key[..]], "value of {key:?}");
    }
    check_hot_scan(hot, &found, range, options).await;
}

/// The range may be cached by an earlier step; a range that is scanned twice is cached, and read or
/// counted from the cache then.
async fn check_hot_scan(hot: &CachedView, expected: &[Row], range: Range<Vec<u8>>, options: ScanOptions) {
    for rows_max in [ScanOptions::CHUNK_ROWS, 3, 100] {
        let mut found: Vec<Row> = Vec::new();
        let mut scan = hot.scan(range.clone(), options);
        while let Some(chunk) = scan.next_rows(rows_max).await.expect("scans succeed") {
            // Rows that were read ahead come as they are.
            assert!(!chunk.is_empty() && chunk.len() <= ScanOptions::CHUNK_ROWS, "size of a hot chunk");
            found.extend(chunk);
        }
        assert!(found == expected, "hot rows of {range:?} {options:?}, {rows_max} at a time");
        let (mut counted, mut is_first) = (0, true);
        let mut scan = hot.scan(range.clone(), options);
        loop {
            // A count may follow on rows that were read.
            let rows = if is_first && rows_max == 3 {
                scan.next_rows(rows_max).await.map(|rows| rows.map(|rows| rows.len()))
            } else {
                scan.count_chunk().await
            };
            is_first = false;
            let Some(rows) = rows.expect("counts succeed") else { break };
            counted += rows;
        }
        assert_eq!(counted, expected.len(), "hot rows counted of {range:?} {options:?}");
    }
}

fn keys_in(model: &Model, range: &Range<Vec<u8>>) -> Vec<Vec<u8>> {
    if range.is_empty() {
        return Vec::new();
    }
    let bounds = (Bound::Included(&range.start), Bound::Excluded(&range.end));
    model.range::<Vec<u8>, _>(bounds).map(|(key, _)| key.clone()).collect()
}

/// Counting a range agrees with the map; kept apart from [`check`] because it takes no random input.
///
/// # Panics
/// When it does not.
pub async fn check_stats(shard: &Shard, model: &Model) {
    let size_bytes = model.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
    let expected = RangeStats { keys: model.len() as u64, size_bytes };
    assert_eq!(shard.stats(vec![0], vec![0xFF; 8]).await.expect("reads succeed"), expected);
}
