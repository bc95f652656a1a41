//! Every engine against the model, on random histories. `PROPTEST_CASES=5000` makes it a long run, as before a new version
//! of an engine.

use std::ops::Range;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::slow::SlowEngine;
use shardlake_storage::suite::{Opener, Step, check};
use shardlake_storage::{ScanOptions, Shard, ShardOptions, StorageError};
use std::sync::Arc;
use std::time::Duration;

/// Few keys, so that histories meet them again; with the extremes of bytes, and one a prefix of another.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![5 => vec(prop::sample::select(vec![0u8, 1, b'a', 0xFE]), 1..5), 2 => posting()]
}

/// A key that the local engine takes for a posting (`key_kinds.rs`): of one of three paths, and the path alone.
fn posting() -> impl Strategy<Value = Vec<u8>> {
    let path = prop::sample::select(vec![[0u8; 10], [1; 10], [0xFE; 10]]);
    (path, vec(prop::sample::select(vec![0u8, b'a', 0xFE]), 0..4))
        .prop_map(|(path, rest)| [&[0, 0, 0, 1, b'X'], &path[..], &rest].concat())
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => vec(any::<u8>(), 0..20),
        1 => (any::<u8>(), 1000..5000usize).prop_map(|(byte, length)| vec![byte; length]),
        1 => Just(vec![7; 100_000]),
    ]
}

/// Either way round, so that some are empty.
fn range() -> impl Strategy<Value = Range<Vec<u8>>> {
    prop_oneof![(key(), key()).prop_map(|(a, b)| a..b), Just(vec![0]..vec![0xFF])]
}

pub fn step() -> impl Strategy<Value = Step> {
    // Postings have no values.
    let op = prop_oneof![
        2 => (key(), prop::option::weighted(0.7, value())),
        1 => (posting(), prop::option::weighted(0.7, Just(Vec::new()))),
    ];
    let options = (any::<bool>(), prop::option::of(0..600usize), any::<bool>());
    let options = options.prop_map(|(reverse, limit, sweeps)| {
        let options = if sweeps { ScanOptions::SWEEP } else { ScanOptions::default() };
        ScanOptions { reverse, limit, ..options }
    });
    prop_oneof![
        10 => vec(vec(op, 0..12), 1..6).prop_map(Step::Commit),
        4 => key().prop_map(Step::Get),
        2 => vec(key(), 0..200).prop_map(Step::GetMany),
        4 => (range(), options).prop_map(|(range, options)| Step::Scan(range, options)),
        1 => range().prop_map(Step::DropRange),
        1 => btree_map(vec(any::<u8>(), 1..3), vec(any::<u8>(), 0..8), 0..700)
            .prop_map(|rows| Step::Ingest(rows.into_iter().filter(|(key, _)| key[0] != 0xFF).collect())),
        2 => Just(Step::TakeView),
        2 => Just(Step::ReadView),
        1 => Just(Step::Flush),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::ReadCheckpoint),
        1 => (any::<bool>(), any::<bool>())
            .prop_map(|(is_clean, is_new_owner)| Step::Restart { is_clean, is_new_owner }),
    ]
}

struct Local {
    directory: tempfile::TempDir,
    slow_read: Duration,
}

impl Local {
    /// In memory where there is such a place: nothing is killed here, and syncs are thousands.
    fn new(slow_read: Duration) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Local { directory: directory.expect("a directory"), slow_read }
    }
}

impl Opener for Local {
    async fn open(&mut self, epoch: u64) -> Result<Shard, StorageError> {
        // Small, so that histories reach several tables, merges and evictions from the cache.
        let options = ShardOptions {
            memtable_bytes: 128 * 1024,
            cache_bytes: 512 * 1024,
            epoch: Some(epoch),
            slow_read: self.slow_read,
            ..ShardOptions::local(self.directory.path())
        };
        Shard::open(options).await
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn keeps_checkpoints(&self) -> bool {
        true
    }
}

struct Memory;

impl Opener for Memory {
    async fn open(&mut self, _epoch: u64) -> Result<Shard, StorageError> {
        let shard = Shard::open(ShardOptions::memory()).await?;
        // No range in memory has keys of two first bytes.
        shard.scans_hot(|_| 1, |rows| Some((0..rows.len() as u32).rev().collect()));
        Ok(shard)
    }

    fn is_durable(&self) -> bool {
        false
    }
}

struct Fault(FaultEngine);

impl Opener for Fault {
    async fn open(&mut self, epoch: u64) -> Result<Shard, StorageError> {
        self.0 = self.0.take_over(epoch)?;
        Shard::with_engine(Arc::new(self.0.clone()), &ShardOptions::local(""))
    }

    fn is_durable(&self) -> bool {
        true
    }
}

/// Far away by tokio's clock, which stands still but for these delays.
struct Slow(SlowEngine);

impl Opener for Slow {
    async fn open(&mut self, epoch: u64) -> Result<Shard, StorageError> {
        self.0 = SlowEngine::over(self.0.disk().take_over(epoch)?);
        Shard::with_engine(Arc::new(self.0.clone()), &ShardOptions::local(""))
    }

    fn is_durable(&self) -> bool {
        true
    }
}

fn run(opener: &mut impl Opener, steps: Vec<Step>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(check(opener, steps));
}

fn run_paused(opener: &mut impl Opener, steps: Vec<Step>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(check(opener, steps));
}

pub fn cases(usual: u32) -> ProptestConfig {
    const UNSET: u32 = 256;
    let from_environment = ProptestConfig::default().cases;
    let cases = if from_environment == UNSET { usual } else { from_environment };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(12))]
    #[test]
    fn the_local_engine_agrees_with_the_model(steps in vec(step(), 1..60)) {
        run(&mut Local::new(Duration::MAX), steps);
    }
}

proptest! {
    #![proptest_config(cases(4))]
    #[test]
    fn the_local_engine_on_a_slow_disk_agrees_with_the_model(steps in vec(step(), 1..60)) {
        run(&mut Local::new(Duration::ZERO), steps);
    }
}

proptest! {
    #![proptest_config(cases(48))]
    #[test]
    fn the_memory_engine_agrees_with_the_model(steps in vec(step(), 1..60)) {
        run(&mut Memory, steps);
    }

    #[test]
    fn the_fault_engine_without_faults_agrees_with_the_model(steps in vec(step(), 1..60)) {
        run(&mut Fault(FaultEngine::new()), steps);
    }

    #[test]
    fn the_slow_engine_agrees_with_the_model(steps in vec(step(), 1..60)) {
        run_paused(&mut Slow(SlowEngine::new()), steps);
    }
}
