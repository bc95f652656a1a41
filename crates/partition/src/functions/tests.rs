//! Writes of functions: in order, all or none, and each once, although batches are sent again while the
//! partition is split and joined.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use shardlake_document::{Number, PatchOperation, parse_item};
use shardlake_model::{ErrorKind, Preconditions};
use shardlake_routing::KeyRange;
use shardlake_stdx::Random;
use shardlake_storage::{Shard, ShardOptions};

use super::*;
use crate::Partition;
use crate::relocate::cut_tests::{Move, Run};
use crate::test_fixture::{Settings, TestContainer, block_on, identity};

const FUNCTION: u32 = 9;

fn settings() -> Settings {
    Settings { default_ttl: None, is_unique: false, retention: None }
}

fn body(pk: &str, id: &str, count: u64) -> Vec<u8> {
    let json = format!(r#"{{"id":"{id}","pk":"{pk}","n":{count}}}"#);
    parse_item(json.as_bytes(), &Default::default()).expect("a body").as_bytes().to_vec()
}

fn write(container: &TestContainer, pk: &str, operation: FunctionOperation) -> FunctionWrite {
    FunctionWrite { key: container.logical(pk), etag: Random::System.guid(), operation }
}

fn create(container: &TestContainer, pk: &str, id: &str) -> FunctionWrite {
    write(container, pk, FunctionOperation::Create { body: body(pk, id, 0) })
}

fn increment(container: &TestContainer, pk: &str, id: &str) -> FunctionWrite {
    let by = PatchOperation::Increment { path: vec!["n".to_owned()], by: Number::Int(1) };
    let (id, preconditions) = (id.to_owned(), Preconditions::default());
    write(container, pk, FunctionOperation::Patch { id, operations: vec![by], preconditions })
}

fn delete(container: &TestContainer, pk: &str, id: &str) -> FunctionWrite {
    let (id, preconditions) = (id.to_owned(), Preconditions::default());
    write(container, pk, FunctionOperation::Delete { id, preconditions })
}

fn batch(upto: u64, writes: Vec<FunctionWrite>) -> FunctionBatch {
    FunctionBatch { function: FUNCTION, span: KeyRange::full(), upto, writes }
}

async fn apply(container: &TestContainer, partition: &Partition, batch: &FunctionBatch) -> FunctionOutcome {
    let reply = partition.apply_function(&container.shape, &container.command(0), batch).await;
    reply.expect("answers").outcome
}

/// The number `n` of each item, by partition key and id.
async fn counts(container: &TestContainer, partition: &Partition) -> BTreeMap<String, u64> {
    let items = container.items(partition).await;
    let of = |item: &crate::StoredItem| {
        let json: serde_json::Value = serde_json::from_slice(&item.json_text()).expect("JSON");
        let text = |name: &str| json[name].as_str().expect("a text").to_owned();
        (format!("{}/{}", text("pk"), text("id")), json["n"].as_u64().expect("a count"))
    };
    items.iter().map(of).collect()
}

#[tokio::test]
async fn a_batch_is_one_commit_in_order_and_is_applied_once() {
    let container = TestContainer::new(&settings());
    let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
    let partition = container.open(&shard, &identity(3)).await;
    let first = batch(
        7,
        vec![
            create(&container, "b", "1"),
            create(&container, "a", "1"),
            increment(&container, "b", "1"),
            increment(&container, "b", "1"),
            create(&container, "b", "2"),
            delete(&container, "b", "2"),
        ],
    );
    assert_eq!(apply(&container, &partition, &first).await, FunctionOutcome::Applied { left_out: 0 });
    assert_eq!(partition.durable_lsn(), 1, "one commit");
    let expected = BTreeMap::from([("a/1".to_owned(), 0), ("b/1".to_owned(), 2)]);
    assert_eq!(counts(&container, &partition).await, expected);
    // Again, and with other writes for the same changes, as a second run of the function may have.
    assert_eq!(apply(&container, &partition, &first).await, FunctionOutcome::Applied { left_out: 6 });
    let other = batch(5, vec![increment(&container, "a", "1")]);
    assert_eq!(apply(&container, &partition, &other).await, FunctionOutcome::Applied { left_out: 1 });
    assert_eq!((counts(&container, &partition).await, partition.durable_lsn()), (expected, 1));
    let progress = partition.function_progress(FUNCTION).await.expect("readable");
    let whole = KeyRange::full();
    let expected = FunctionProgress { function: FUNCTION, source: whole.clone(), target: whole, upto: 7 };
    assert_eq!(progress, [expected]);
    assert_eq!(partition.function_progress(FUNCTION + 1).await.expect("readable"), []);
    let mut round = partition.log_round(&KeyRange::full(), 0).await.expect("no hole");
    let page = round.next_page().await.expect("readable").expect("a page");
    assert!(page.changes.iter().all(|change| change.origin == FUNCTION), "commits name their function");
    container.verify(&shard, &identity(3)).await;
    partition.forget_function(FUNCTION).await.expect("forgotten");
    assert_eq!(partition.function_progress(FUNCTION).await.expect("readable"), []);
}

#[tokio::test]
async fn a_refused_write_refuses_the_batch_and_is_named() {
    let container = TestContainer::new(&settings());
    let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
    let partition = container.open(&shard, &identity(3)).await;
    let wrong_key = FunctionOperation::Create { body: body("b", "9", 0) };
    for (last, kind) in [
        (create(&container, "a", "1"), ErrorKind::Conflict),
        (delete(&container, "b", "none"), ErrorKind::NotFound),
        (write(&container, "a", wrong_key), ErrorKind::BadRequest),
    ] {
        let writes = vec![create(&container, "c", "1"), create(&container, "a", "1"), last];
        let outcome = apply(&container, &partition, &batch(3, writes)).await;
        let FunctionOutcome::Refused(refused) = outcome else { panic!("{outcome:?}") };
        assert_eq!((refused.place, refused.kind), (2, kind), "{}", refused.reason);
    }
    assert_eq!((partition.items(), partition.durable_lsn()), (0, 0));
    assert_eq!(partition.function_progress(FUNCTION).await.expect("readable"), []);
    let many = (0..=FunctionBatch::WRITES_MAX).map(|id| create(&container, "a", &id.to_string())).collect();
    let refused = partition.apply_function(&container.shape, &container.command(0), &batch(4, many)).await;
    assert_eq!(refused.expect_err("refused").kind(), ErrorKind::BadRequest);
}

#[derive(Debug, Clone)]
enum Act {
    /// Counts up at these keys, for the next change; sent to so many partitions only before the function's
    /// task is lost, and begun anew.
    Run(Vec<u8>, u8),
    Split(u8, u8),
    Join,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (prop::collection::vec(0..12u8, 1..6), 0..4u8).prop_map(|(keys, sent)| Act::Run(keys, sent)),
        2 => (any::<u8>(), 1..63u8).prop_map(|(number, at)| Act::Split(number, at)),
        1 => Just(Act::Join),
    ]
}

struct Counting {
    target: Run,
    model: BTreeMap<String, u64>,
    /// The batch that is not whole, if there is one.
    open: Option<(u64, Vec<u8>)>,
    last: u64,
}

impl Counting {
    fn batches(&self, upto: u64, keys: &[u8]) -> Vec<(Arc<Partition>, FunctionBatch)> {
        let mut by_place: BTreeMap<u32, (Arc<Partition>, FunctionBatch)> = BTreeMap::new();
        for key in keys {
            let write = increment(&self.target.container, &format!("key {key}"), "i");
            let place = self.target.owner(&write.key);
            let entry = by_place.entry(place.identity.uid.0);
            let (_, batch) = entry.or_insert_with(|| (place.partition.clone(), batch(upto, Vec::new())));
            batch.writes.push(write);
        }
        by_place.into_values().collect()
    }

    /// Sends the open batch to some of its partitions, or to all.
    async fn send(&mut self, partitions: usize) {
        let Some((upto, keys)) = self.open.clone() else { return };
        let batches = self.batches(upto, &keys);
        let is_whole = batches.len() <= partitions;
        for (partition, batch) in batches.into_iter().take(partitions) {
            let outcome = apply(&self.target.container, &partition, &batch).await;
            assert!(matches!(outcome, FunctionOutcome::Applied { .. }), "{outcome:?}");
        }
        if is_whole {
            self.open = None;
        }
    }

    async fn run(mut self, acts: Vec<Act>) {
        for key in 0..12 {
            let pk = format!("key {key}");
            let write = create(&self.target.container, &pk, "i");
            let place = self.target.owner(&write.key);
            let batch = FunctionBatch { function: FUNCTION + 1, ..batch(1, vec![write]) };
            // Progress of another function does not count.
            let batch = FunctionBatch { upto: 1 + key, ..batch };
            apply(&self.target.container, &place.partition, &batch).await;
            self.model.insert(format!("{pk}/i"), 0);
        }
        for act in acts {
            let none = || [vec![], vec![], vec![]];
            match act {
                Act::Run(keys, sent) => {
                    self.send(usize::MAX).await;
                    self.last += 1;
                    for key in &keys {
                        *self.model.get_mut(&format!("key {key}/i")).expect("a key") += 1;
                    }
                    self.open = Some((self.last, keys));
                    self.send(usize::from(sent)).await;
                }
                Act::Split(number, at) => {
                    let splits = Some(usize::from(number));
                    self.target.relocate(&Move { splits, at, writes: none() }).await;
                }
                Act::Join => self.target.relocate(&Move { splits: None, at: 1, writes: none() }).await,
            }
        }
        self.send(usize::MAX).await;
        let mut found = BTreeMap::new();
        for place in &self.target.places {
            found.extend(counts(&self.target.container, &place.partition).await);
        }
        assert_eq!(found, self.model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn counts_are_exact_while_the_target_is_split_and_joined(acts in prop::collection::vec(act(), 1..40)) {
        block_on(async {
            let target = Run::with(settings()).await;
            Counting { target, model: BTreeMap::new(), open: None, last: 0 }.run(acts).await;
        });
    }
}
