//! Times of versions and of their commits, and records of version 2 among those of version 3.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use proptest::prelude::*;
use shardlake_document::Record;
use shardlake_model::Preconditions;
use shardlake_stdx::{Clock, HybridTime};
use shardlake_storage::{Batch, ScanOptions, Shard, ShardOptions};

use crate::keys::{self, PartitionUid};
use crate::test_fixture::{BEGIN, Settings, TestContainer, block_on, identity};
use crate::{LogEntry, Operation, Partition, verify_partition};

const UID: PartitionUid = PartitionUid(3);

/// A partition with versions kept, at a clock that tests set.
struct Run {
    container: TestContainer,
    shard: Shard,
    partition: Arc<Partition>,
}

impl Run {
    async fn new() -> Run {
        let settings = Settings { default_ttl: Some(-1), is_unique: false, retention: None };
        let container = TestContainer::new(&settings);
        let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
        let partition = container.open(&shard, &identity(UID.0)).await;
        Run { container, shard, partition }
    }

    async fn open_again(&mut self) {
        self.partition = self.container.open(&self.shard, &identity(UID.0)).await;
    }

    fn set_clock(&self, milliseconds: u64) {
        let Clock::Manual(hands) = &self.container.clock else { unreachable!("it was made so") };
        hands.store(milliseconds, Ordering::SeqCst);
    }

    fn upsert(&self, id: &str, value: u8) -> Operation {
        let body = format!(r#"{{"id":"{id}","pk":"p","v":{value},"ttl":{}}}"#, 1_000 + u32::from(value));
        Operation::Upsert { item: self.container.body(&body), preconditions: Preconditions::default() }
    }

    async fn execute(&self, operations: Vec<Operation>) {
        self.container.execute(&self.partition, "p", operations).await.expect("written");
    }

    async fn rows(&self, space: u8) -> Vec<(Bytes, Bytes)> {
        let (start, end) = keys::space_range(UID, space);
        let mut scan = self.shard.view().scan(start..end, ScanOptions::default());
        let mut rows = Vec::new();
        while let Some(chunk) = scan.next_chunk().await.expect("readable") {
            rows.extend(chunk);
        }
        rows
    }

    /// Items as clients see them, in the order of their creation.
    async fn texts(&self) -> Vec<String> {
        let items = self.container.items(&self.partition).await;
        items.iter().map(|item| String::from_utf8_lossy(&item.json_text()).into_owned()).collect()
    }

    async fn versions(&self) -> Vec<u8> {
        self.rows(keys::ITEMS).await.iter().map(|(_, record)| record[0]).collect()
    }

    /// Stores each item as programs before version 3 did.
    async fn store_as_version_2(&self) {
        let mut batch = Batch::new();
        for (key, record) in self.rows(keys::ITEMS).await {
            if record[0] != 2 {
                batch.put(key, version_2(&record));
            }
        }
        if !batch.is_empty() {
            self.shard.commit(batch).expect("queued").await.expect("written");
        }
    }
}

/// A record in the layout of version 2: whole seconds, and no region.
fn version_2(record: &[u8]) -> Vec<u8> {
    let seconds = Record::decode(record).expect("its own").envelope.timestamp_seconds();
    let mut old = [&[2], &record[1..14], &seconds.to_le_bytes(), &record[22..54], &record[55..]].concat();
    let checksum = crc32fast::hash(&[&old[..1], &old[5..]].concat());
    old[1..5].copy_from_slice(&checksum.to_le_bytes());
    old
}

#[test]
fn records_of_version_2_are_read_and_only_writes_replace_them() {
    block_on(async {
        let mut run = Run::new().await;
        run.set_clock(BEGIN.milliseconds() + 789);
        run.execute(["a", "b", "c"].map(|id| run.upsert(id, 1)).into()).await;
        let texts = run.texts().await;
        assert_eq!(run.versions().await, [3, 3, 3]);
        run.store_as_version_2().await;
        assert_eq!(run.versions().await, [2, 2, 2]);
        run.open_again().await;
        assert_eq!(run.texts().await, texts, "etag, `_ts` and the size of the text stay");
        run.container.verify(&run.shard, &identity(UID.0)).await;
        let found = run.container.ids(
            &run.partition,
            "SELECT VALUE c.id FROM c WHERE c._ts = 1700000000",
            &run.container.shape,
        );
        assert_eq!(found.await, ["\"a\"", "\"b\"", "\"c\""]);
        run.execute(vec![run.upsert("b", 2)]).await;
        assert_eq!(run.versions().await, [2, 3, 2]);
        let delete = |id: &str| Operation::Delete { id: id.into(), preconditions: Preconditions::default() };
        run.execute(vec![delete("a")]).await;
        assert_eq!(run.versions().await, [3, 2]);
        run.container.verify(&run.shard, &identity(UID.0)).await;
        run.set_clock(BEGIN.milliseconds() + 1_001_000);
        run.container.sweep(&run.partition).await;
        let left = run.container.items(&run.partition).await;
        assert_eq!(left.len(), 1, "the time to live of a record of version 2 ends like another's");
    });
}

#[test]
fn verification_reports_a_version_of_another_time_than_its_commit() {
    block_on(async {
        let run = Run::new().await;
        run.execute(vec![run.upsert("a", 1)]).await;
        let (key, stored) = run.rows(keys::ITEMS).await.remove(0);
        let record = Record::decode(&stored).expect("its own");
        let mut envelope = record.envelope;
        envelope.time = envelope.time.next();
        let mut batch = Batch::new();
        batch.put(key, Record::encode(&envelope, record.body));
        run.shard.commit(batch).expect("queued").await.expect("written");
        let report = verify_partition(&run.shard, &identity(UID.0), &run.container.shape, &|_| ()).await;
        let problems = report.expect("readable").problems;
        assert!(problems[0].contains("its time differs from that of its commit"), "{problems:?}");
    });
}

#[derive(Debug, Clone)]
enum Act {
    /// One transaction of upserts by id and value, and deletions.
    Write(Vec<(u8, Option<u8>)>),
    /// The clock stands at so many milliseconds behind the beginning.
    Clock(u64),
    OpenAgain,
    StoreAsVersion2,
}

fn act() -> impl Strategy<Value = Act> {
    let one = (0..4u8, prop::option::weighted(0.7, any::<u8>()));
    prop_oneof![
        8 => prop::collection::vec(one, 1..5).prop_map(Act::Write),
        3 => (0..5_000u64).prop_map(Act::Clock),
        1 => Just(Act::OpenAgain),
        1 => Just(Act::StoreAsVersion2),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Also where the clock goes back, in one run and between two.
    #[test]
    fn items_and_the_log_have_one_time_and_times_rise(acts in prop::collection::vec(act(), 1..40)) {
        block_on(async {
            let mut run = Run::new().await;
            let mut live = BTreeMap::new();
            for act in acts {
                match act {
                    Act::Clock(ms) => run.set_clock(BEGIN.milliseconds() + ms),
                    Act::OpenAgain => run.open_again().await,
                    Act::StoreAsVersion2 => run.store_as_version_2().await,
                    Act::Write(steps) => {
                        let mut operations = Vec::new();
                        for (id, value) in steps {
                            let id = id.to_string();
                            match value {
                                Some(value) => {
                                    operations.push(run.upsert(&id, value));
                                    live.insert(id, value);
                                }
                                None if live.remove(&id).is_some() => {
                                    let preconditions = Preconditions::default();
                                    operations.push(Operation::Delete { id, preconditions });
                                }
                                None => {}
                            }
                        }
                        if !operations.is_empty() {
                            run.execute(operations).await;
                        }
                    }
                }
            }
            let (mut last, mut times) = (HybridTime::default(), BTreeMap::new());
            for (key, entry) in run.rows(keys::CHANGE_LOG).await {
                let entry = LogEntry::decode(&entry).expect("its own");
                prop_assert!(entry.time > last, "{:?} after {:?}", entry.time, last);
                last = entry.time;
                times.insert(keys::log_lsn(&key).expect("its own"), entry.time);
            }
            let items = run.rows(keys::ITEMS).await;
            prop_assert_eq!(items.len(), live.len());
            for (key, record) in items {
                let envelope = Record::decode(&record).expect("its own").envelope;
                let time = times[&envelope.lsn];
                let expected = if record[0] == 2 { HybridTime::from_seconds(time.seconds()) } else { time };
                prop_assert_eq!(envelope.time, expected);
                let row = run.shard.view().get(&keys::ordinal_key(UID, envelope.ordinal)).await.expect("readable");
                prop_assert_eq!(row.as_deref(), Some(&key[keys::HEADER..]), "its ordinal row names it");
            }
            run.container.verify(&run.shard, &identity(UID.0)).await;
            Ok(())
        })?;
    }
}
