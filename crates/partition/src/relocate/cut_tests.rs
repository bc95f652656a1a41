//! Partitions that are cut and joined at random places of the key space while they are written to: together
//! they hold the items of a model, and each of them is right.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use shardlake_model::{ErrorKind, KeyComponent, PartitionUid, Preconditions};
use shardlake_routing::{Epk, KeyRange, LogicalKey};
use shardlake_storage::{Shard, ShardOptions};

use super::{Haste, Relocation, RelocationTarget};
use crate::test_fixture::{Settings, TestContainer, block_on};
use crate::{Operation, Partition, PartitionIdentity};

/// Value by partition key and id.
type Model = BTreeMap<(String, String), i64>;

#[derive(Debug, Clone)]
pub(crate) enum Write {
    Upsert(u8, u8, i64),
    Delete(u8, u8),
}

/// A change of the cuts, with writes before its copy, behind it, and behind the first catching up.
#[derive(Debug, Clone)]
pub(crate) struct Move {
    /// Splits this one of the partitions in two, or joins all of them.
    pub splits: Option<usize>,
    /// Where it is cut, if that lies in its range.
    pub at: u8,
    pub writes: [Vec<Write>; 3],
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        3 => (0..12u8, 0..3u8, 0..1000i64).prop_map(|(pk, id, value)| Write::Upsert(pk, id, value)),
        1 => (0..12u8, 0..3u8).prop_map(|(pk, id)| Write::Delete(pk, id)),
    ]
}

fn one_move() -> impl Strategy<Value = Move> {
    let writes = || prop::collection::vec(write(), 0..25);
    let splits = prop_oneof![3 => (0..8usize).prop_map(Some), 1 => Just(None)];
    (splits, 1..63u8, [writes(), writes(), writes()]).prop_map(|(splits, at, writes)| Move {
        splits,
        at,
        writes,
    })
}

/// A partition where it lies.
pub(crate) struct Place {
    pub identity: PartitionIdentity,
    shard: Shard,
    pub partition: Arc<Partition>,
}

pub(crate) struct Run {
    pub container: TestContainer,
    /// In the order of the key space.
    pub places: Vec<Place>,
    model: Model,
    last_uid: u32,
}

/// The range between two bounds.
fn between(min: &Epk, max: &Epk) -> KeyRange {
    KeyRange { min: min.clone(), max: max.clone() }
}

impl Run {
    async fn new() -> Run {
        Run::with(Settings { default_ttl: None, is_unique: true, retention: None }).await
    }

    pub async fn with(settings: Settings) -> Run {
        let container = TestContainer::new(&settings);
        let mut run = Run { container, places: Vec::new(), model: Model::new(), last_uid: 2 };
        let identity = run.identity(KeyRange::full(), Vec::new());
        let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
        let partition = run.container.open(&shard, &identity).await;
        run.places.push(Place { identity, shard, partition });
        run
    }

    fn identity(&mut self, epk_range: KeyRange, inherited_prefixes: Vec<u32>) -> PartitionIdentity {
        self.last_uid += 1;
        PartitionIdentity {
            uid: PartitionUid(self.last_uid),
            range_id: self.last_uid,
            epk_range,
            rid_prefix: self.last_uid,
            inherited_prefixes,
            session_version: 0,
        }
    }

    pub fn owner(&self, logical: &LogicalKey) -> &Place {
        let mut owners = self.places.iter().filter(|place| place.identity.epk_range.contains(&logical.epk));
        let owner = owners.next().expect("the key space is covered");
        assert!(owners.next().is_none(), "by one partition each");
        owner
    }

    async fn write(&mut self, write: &Write) {
        let (pk, id, value) = match *write {
            Write::Upsert(pk, id, value) => (pk, id, Some(value)),
            Write::Delete(pk, id) => (pk, id, None),
        };
        let (pk, name) = (format!("key {pk}"), format!("i{id}"));
        let operation = match value {
            Some(value) => {
                let json = format!(r#"{{"id":"{name}","pk":"{pk}","u":{id},"v":{value}}}"#);
                let item = self.container.body(&json);
                Operation::Upsert { item, preconditions: Preconditions::default() }
            }
            None => Operation::Delete { id: name.clone(), preconditions: Preconditions::default() },
        };
        let place = self.owner(&self.container.logical(&pk));
        let reply = self.container.execute(&place.partition, &pk, vec![operation]).await.expect("answers");
        let key = (pk, name);
        match (reply.outcome, value) {
            (Ok(_), Some(value)) => drop(self.model.insert(key, value)),
            (Ok(_), None) => assert!(self.model.remove(&key).is_some(), "{key:?} was there"),
            (Err(failure), None) => {
                assert_eq!(failure.error.kind(), ErrorKind::NotFound);
                assert!(!self.model.contains_key(&key), "{key:?} is there");
            }
            (Err(failure), Some(_)) => panic!("{key:?}: {}", failure.error),
        }
    }

    async fn write_all(&mut self, writes: &[Write]) {
        for write in writes {
            self.write(write).await;
        }
    }

    /// The ranges that take the place of some partitions.
    fn ranges(&self, Move { splits, at, .. }: &Move) -> (std::ops::Range<usize>, Vec<KeyRange>) {
        let Some(number) = splits else {
            return (0..self.places.len(), vec![KeyRange::full()]);
        };
        let number = number % self.places.len();
        let range = &self.places[number].identity.epk_range;
        let cut = Epk::from(vec![*at]);
        let ranges = match range.contains(&cut) && cut != range.min {
            true => vec![between(&range.min, &cut), between(&cut, &range.max)],
            false => vec![range.clone()],
        };
        (number..number + 1, ranges)
    }

    pub async fn relocate(&mut self, one: &Move) {
        self.write_all(&one.writes[0]).await;
        let (replaced, ranges) = self.ranges(one);
        let sources: Vec<Arc<Partition>> =
            self.places[replaced.clone()].iter().map(|place| place.partition.clone()).collect();
        let mut prefixes: Vec<u32> = self.places[replaced.clone()]
            .iter()
            .flat_map(|place| {
                place.identity.inherited_prefixes.iter().copied().chain([place.identity.rid_prefix])
            })
            .collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        let mut targets = Vec::new();
        for range in ranges {
            let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
            targets.push(RelocationTarget { identity: self.identity(range, prefixes.clone()), shard });
        }
        let (shape, layouts) = (self.container.shape.clone(), self.container.shape.maintained());
        let mut relocation =
            Relocation::new(sources.clone(), targets.clone(), shape, layouts, Arc::default());
        relocation.copy().await.expect("copied");
        self.write_all(&one.writes[1]).await;
        relocation.catch_up(Haste::Hurried).await.expect("caught up");
        self.write_all(&one.writes[2]).await;
        let lsn = sources.iter().map(|source| source.durable_lsn()).max().unwrap_or(0);
        let cutover = relocation.cut_over(&self.container.clock, Duration::from_secs(60)).await;
        cutover.expect("nothing fails").expect("time stands still").complete();
        relocation.clean_up().await.expect("cleaned up");
        for source in &sources {
            assert_eq!(source.check_open().expect_err("it has moved").kind(), ErrorKind::PartitionGone);
        }
        let mut places = Vec::new();
        for RelocationTarget { identity, shard } in targets {
            let partition = self.container.open(&shard, &identity).await;
            assert!(partition.durable_lsn() > lsn, "LSNs go on behind those of the sources");
            places.push(Place { identity, shard, partition });
        }
        self.places.splice(replaced, places);
    }

    async fn check(&self) {
        let (mut found, mut bytes) = (Model::new(), 0);
        for Place { identity, shard, partition } in &self.places {
            let items = self.container.items(partition).await;
            let report = self.container.verify(shard, identity).await;
            assert_eq!((report.items, partition.items()), (items.len() as u64, items.len() as u64));
            let own: usize = items.iter().map(|item| item.json_size_bytes()).sum();
            assert_eq!(partition.size_bytes(), own as u64);
            bytes += own;
            for item in &items {
                let json: serde_json::Value = serde_json::from_slice(&item.json_text()).expect("JSON");
                let text = |name: &str| json[name].as_str().expect("a text").to_owned();
                let value = json["v"].as_i64().expect("a number");
                assert_eq!(found.insert((text("pk"), text("id")), value), None, "in one partition");
            }
            // By the index as well, which moved with them.
            let text = "SELECT VALUE c.v FROM c WHERE c.v >= 0 ORDER BY c.v";
            let by_index = self.container.ids(partition, text, &self.container.shape).await;
            assert_eq!(by_index.len(), items.len());
            let by_scan = self.container.ids(partition, text, &self.container.bare).await;
            assert_eq!(by_index, by_scan);
        }
        assert_eq!(found, self.model);
        let mut sum = 0;
        for pk in self.model.keys().map(|(pk, _)| pk).collect::<std::collections::BTreeSet<_>>() {
            let logical = self.container.logical(pk);
            assert!(matches!(&logical.partition_key.0[..], [KeyComponent::String(_)]));
            let size = self.owner(&logical).partition.logical_size(&logical).await.expect("readable");
            sum += size.size_bytes;
        }
        assert_eq!(sum, bytes as u64, "sizes of logical partitions move with them");
    }
}

async fn hold_the_items_of_a_model(moves: Vec<Move>) {
    let mut run = Run::new().await;
    for one in &moves {
        run.relocate(one).await;
        run.check().await;
    }
    // Back to one partition.
    let [first, ..] = &moves[..] else { return };
    run.relocate(&Move { splits: None, ..first.clone() }).await;
    assert_eq!(run.places.len(), 1);
    run.check().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn cut_and_joined_partitions_hold_the_items_of_a_model(moves in prop::collection::vec(one_move(), 1..5)) {
        block_on(hold_the_items_of_a_model(moves));
    }
}
