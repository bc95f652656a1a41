//! The largest logical partitions and the middle of the bytes, against a model that looks at everything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use shardlake_charge::ChargeTable;
use shardlake_document::parse_item;
use shardlake_model::{
    ConsistencyLevel, Container, ContainerDefinition, ContainerRid, DatabaseRid, KeyComponent, Limits,
    PartitionKey, PartitionKeyDefinition, Preconditions,
};
use shardlake_routing::{Epk, KeyRange, effective_partition_key};
use shardlake_stdx::{Clock, CommitTimes, Guid, Timestamp};
use shardlake_storage::{Shard, ShardOptions};

use super::*;
use crate::{
    CommandContext, ContainerSchema, LogicalKey, Operation, Partition, PartitionIdentity, PartitionUid,
    PartitionWrite, prepare_body,
};

struct Fixture {
    partition: Arc<Partition>,
    shape: Arc<ContainerSchema>,
}

impl Fixture {
    async fn new() -> Fixture {
        let container = Container {
            rid: ContainerRid { database: DatabaseRid(1), number: 1 },
            etag: [0; 16],
            timestamp: 0,
            definition: ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk")),
            kept: None,
            is_collection: false,
            narrowings: Vec::new(),
            bounds: None,
        };
        let limits = Arc::new(Limits::default());
        let shape = ContainerSchema::new(&container, (None, None), limits, ChargeTable::default());
        let identity = PartitionIdentity {
            uid: PartitionUid(3),
            range_id: 0,
            epk_range: KeyRange::full(),
            rid_prefix: 0,
            inherited_prefixes: Vec::new(),
            session_version: 0,
        };
        let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
        let times = CommitTimes::new(Clock::manual(Timestamp(0)));
        let partition = Partition::open((shard, times), identity, Vec::new()).await;
        Fixture {
            partition: Arc::new(partition.expect("opens")),
            shape: Arc::new(shape.expect("a plain container")),
        }
    }

    fn logical(&self, pk: &str) -> LogicalKey {
        let partition_key = PartitionKey::single(KeyComponent::String(pk.to_owned()));
        let epk = effective_partition_key(&self.shape.key_definition, &partition_key);
        LogicalKey { epk, partition_key }
    }

    /// One item of the logical partition with so much padding, or none.
    async fn set(&self, pk: &str, padding: Option<usize>) -> LogicalSize {
        let preconditions = Preconditions::default;
        let operation = match padding {
            Some(padding) => {
                let json = format!(r#"{{"id":"i","pk":"{pk}","pad":"{}"}}"#, "x".repeat(padding));
                let item = prepare_body(
                    parse_item(json.as_bytes(), &Default::default()).expect("a body"),
                    &self.shape,
                )
                .expect("valid");
                Operation::Upsert { item, preconditions: preconditions() }
            }
            None => Operation::Delete { id: "i".into(), preconditions: preconditions() },
        };
        let command = CommandContext {
            now: Timestamp(1_700_000_000_000),
            consistency: ConsistencyLevel::default(),
            etags: vec![Guid([1; 16])],
            patience: Duration::from_secs(60),
            unwanted: Vec::new(),
            commit: Default::default(),
        };
        let logical = self.logical(pk);
        let (key, operations) = (logical.clone(), vec![operation]);
        let command = Arc::new(PartitionWrite { key, operations, context: command });
        let written = self.partition.write(&self.shape, &command).await;
        assert!(written.is_ok() || padding.is_none(), "{written:?}");
        self.partition.logical_size(&logical).await.expect("readable")
    }

    async fn largest(&self, count: usize) -> Vec<(String, u64)> {
        let largest = self.partition.largest_logical_partitions(count).await.expect("readable");
        let name = |key: &LogicalKey| match &key.partition_key.0[0] {
            KeyComponent::String(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        largest.iter().map(|sized| (name(&sized.key), sized.size.size_bytes)).collect()
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_the_list_is_sure_of_is_so(
        changes in prop::collection::vec((0u32..400, prop_oneof![Just(0u64), 1u64..50, 1u64..100_000]), 0..1500),
        count in 1usize..32,
    ) {
        let mut largest = Largest::default();
        largest.complete();
        let mut model = BTreeMap::new();
        for (key, size_bytes) in changes {
            let items = u64::from(size_bytes > 0);
            largest.note(&key.to_be_bytes(), LogicalSize { items, size_bytes });
            model.insert(key, size_bytes);
        }
        model.retain(|_, size| *size > 0);
        let mut expected: Vec<u64> = model.values().copied().collect();
        expected.sort_unstable_by(|a, b| b.cmp(a));
        expected.truncate(count);
        if let Some(first) = largest.first(count, count) {
            let sizes: Vec<u64> = first.iter().map(|(_, size)| size.size_bytes).collect();
            prop_assert_eq!(sizes, expected);
            for (key, size) in first {
                let key = u32::from_be_bytes(key.try_into().expect("four bytes"));
                prop_assert_eq!(model[&key], size.size_bytes);
            }
        }
    }

    #[test]
    fn the_middle_halves_the_bytes_between_logical_partitions(
        paddings in prop::collection::vec(prop_oneof![4 => 0usize..300, 1 => 2000usize..9000], 0..25),
    ) {
        run(async {
            let fixture = Fixture::new().await;
            let mut sizes: BTreeMap<Epk, u64> = BTreeMap::new();
            for (number, padding) in paddings.into_iter().enumerate() {
                let pk = format!("k{number}");
                let size = fixture.set(&pk, Some(padding)).await;
                sizes.insert(fixture.logical(&pk).epk, size.size_bytes);
            }
            let total: u64 = sizes.values().sum();
            // How uneven a cut before a place is; before the first there is nothing to cut off.
            let uneven = |cut: &Epk| {
                let below: u64 = sizes.range(..cut).map(|(_, size)| size).sum();
                (2 * below).abs_diff(total)
            };
            let best = sizes.keys().skip(1).map(uneven).min();
            let median = fixture.partition.size_median().await.expect("readable");
            // Halves are rounded.
            assert!(median.as_ref().map(uneven).unwrap_or(0).abs_diff(best.unwrap_or(0)) <= 2, "{sizes:?} {median:?}");
            assert_eq!(median.is_some(), sizes.len() > 1);
        });
    }
}

#[test]
fn the_largest_are_found_once_and_followed_from_there() {
    run(async {
        let fixture = Fixture::new().await;
        assert_eq!(fixture.largest(5).await, []);
        for number in 0..300 {
            fixture.set(&format!("k{number:03}"), Some(number)).await;
        }
        fixture.partition.core().sequencer.hold().await.largest = None;
        let names =
            |largest: Vec<(String, u64)>| largest.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(fixture.largest(3).await), ["k299", "k298", "k297"]);
        fixture.set("k298", None).await;
        fixture.set("k010", Some(5000)).await;
        let now = fixture.largest(3).await;
        assert_eq!(now[0].1, fixture.set("k010", Some(5000)).await.size_bytes);
        assert_eq!(names(now), ["k010", "k299", "k297"]);
        // More go than are held: the sizes are read again.
        for number in 100..300 {
            fixture.set(&format!("k{number:03}"), None).await;
        }
        assert_eq!(names(fixture.largest(3).await), ["k010", "k099", "k098"]);
        assert_eq!(fixture.largest(1000).await.len(), 32);
    });
}

#[test]
fn one_logical_partition_has_no_middle_but_its_end_is_one() {
    run(async {
        let fixture = Fixture::new().await;
        assert_eq!(fixture.partition.size_median().await.expect("readable"), None);
        fixture.set("a", Some(100)).await;
        assert_eq!(fixture.partition.size_median().await.expect("readable"), None);
        assert_eq!(fixture.set("a", None).await, LogicalSize::default());
        fixture.set("small", Some(1)).await;
        fixture.set("large", Some(100_000)).await;
        let mut places = [fixture.logical("small").epk, fixture.logical("large").epk];
        places.sort();
        assert_eq!(fixture.partition.size_median().await.expect("readable").as_ref(), Some(&places[1]));
    });
}

#[test]
fn the_largest_stay_right_while_everybody_writes() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let fixture = Arc::new(Fixture::new().await);
        let writers = (0..4u64).map(|writer| {
            let fixture = fixture.clone();
            tokio::spawn(async move {
                let random = shardlake_stdx::Random::seeded(writer);
                for _ in 0..400 {
                    let pk = format!("w{writer}-{}", random.below(60));
                    let padding = (random.below(3) > 0).then(|| random.below(2000) as usize);
                    fixture.set(&pk, padding).await;
                    if random.below(40) == 0 {
                        fixture.largest(20).await;
                    }
                    if random.below(200) == 0 {
                        fixture.partition.core().sequencer.hold().await.largest = None;
                    }
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.expect("no writer panics");
        }
        let followed = fixture.largest(20).await;
        assert_eq!(followed.len(), 20);
        fixture.partition.core().sequencer.hold().await.largest = None;
        assert_eq!(fixture.largest(20).await, followed, "the same as read from storage");
    });
}
