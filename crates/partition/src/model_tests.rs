//! Random operations on a partition against a model: items, unique values, times to live, sizes, the change
//! log and ended versions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use shardlake_document::{PatchOperation, Value};
use shardlake_model::{ConsistencyLevel, ErrorKind, Preconditions, PreviousImages};
use shardlake_routing::KeyRange;
use shardlake_storage::{Shard, ShardOptions};

use crate::test_fixture::{BEGIN, Settings, TestContainer, block_on, identity};
use crate::{
    Change, ChangeFeedMode, ChangeKind, ChangeSink, FeedFilter, FeedLook, ItemReply, LogOperation, Operation,
    PageLimits, Partition, StoredItem,
};

/// Partition key and id.
type Name = (String, String);

/// A stored version.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    lsn: u64,
    value: i64,
    unique: i64,
    ttl: Option<i64>,
    written_s: u64,
    size_bytes: u64,
}

/// An operation as the log reports it, and the values of the versions that it wrote and ended.
type Logged = (u64, ChangeKind, Name, Option<i64>, Option<i64>);

#[derive(Debug, Clone)]
enum Write {
    Create(u8, i64, i64, Option<i64>),
    Upsert(u8, i64, i64, Option<i64>),
    /// Also under another id.
    Replace(u8, u8, i64, i64, Option<i64>),
    /// Changes the value alone.
    Patch(u8, i64),
    Delete(u8),
}

#[derive(Debug, Clone)]
enum Act {
    One(u8, Write),
    Batch(u8, Vec<Write>),
    DeleteKey(u8),
    Wait(u64),
    Sweep,
    Compact,
    Reopen,
}

fn write() -> impl Strategy<Value = Write> {
    let (id, value, unique) = (|| 0..4u8, || 0..100i64, || 0..6i64);
    let ttl = || prop_oneof![3 => Just(None), 1 => Just(Some(-1)), 2 => (1..20i64).prop_map(Some)];
    prop_oneof![
        3 => (id(), value(), unique(), ttl()).prop_map(|(id, value, unique, ttl)| Write::Create(id, value, unique, ttl)),
        4 => (id(), value(), unique(), ttl()).prop_map(|(id, value, unique, ttl)| Write::Upsert(id, value, unique, ttl)),
        3 => (id(), id(), value(), unique(), ttl())
            .prop_map(|(id, to, value, unique, ttl)| Write::Replace(id, to, value, unique, ttl)),
        2 => (id(), value()).prop_map(|(id, value)| Write::Patch(id, value)),
        2 => id().prop_map(Write::Delete),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        10 => (0..3u8, write()).prop_map(|(pk, write)| Act::One(pk, write)),
        4 => (0..3u8, prop::collection::vec(write(), 1..6)).prop_map(|(pk, writes)| Act::Batch(pk, writes)),
        1 => (0..3u8).prop_map(Act::DeleteKey),
        4 => (1..12u64).prop_map(Act::Wait),
        1 => Just(Act::Sweep),
        1 => Just(Act::Compact),
        1 => Just(Act::Reopen),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    let default_ttl = prop_oneof![Just(None), Just(Some(-1)), Just(Some(15))];
    let retention = prop_oneof![Just(None), Just(Some(Duration::from_secs(24 * 3600)))];
    (default_ttl, any::<bool>(), retention).prop_map(|(default_ttl, is_unique, retention)| Settings {
        default_ttl,
        is_unique,
        retention,
    })
}

fn pk(number: u8) -> String {
    format!("p{number}")
}

fn id(number: u8) -> String {
    format!("i{number}")
}

fn no_conditions() -> Preconditions {
    Preconditions::default()
}

/// Every stored item, and the history of all.
struct Model {
    settings: Settings,
    stored: BTreeMap<Name, Version>,
    log: Vec<Logged>,
}

impl Model {
    fn is_live(&self, version: &Version, now_s: u64) -> bool {
        let Some(default_ttl) = self.settings.default_ttl else { return true };
        match version.ttl.unwrap_or(default_ttl) {
            -1 => true,
            seconds => version.written_s + seconds as u64 > now_s,
        }
    }

    fn live(&self, now_s: u64) -> impl Iterator<Item = (&Name, &Version)> {
        self.stored.iter().filter(move |(_, version)| self.is_live(version, now_s))
    }

    fn live_one(&self, pk: &str, id: &str, now_s: u64) -> Option<&Version> {
        let name = (pk.to_owned(), id.to_owned());
        self.stored.get(&name).filter(|version| self.is_live(version, now_s))
    }

    /// The effect of a write, or the kind of its refusal.
    fn apply(&mut self, pk: &str, write: &Write, now_s: u64) -> Result<(), ErrorKind> {
        let (from, to, value, unique, ttl) = match *write {
            Write::Create(number, value, unique, ttl) => {
                if self.live_one(pk, &id(number), now_s).is_some() {
                    return Err(ErrorKind::Conflict);
                }
                (None, number, value, unique, ttl)
            }
            Write::Upsert(number, value, unique, ttl) => (Some(number), number, value, unique, ttl),
            Write::Replace(number, to, value, unique, ttl) => {
                self.live_one(pk, &id(number), now_s).ok_or(ErrorKind::NotFound)?;
                if number != to && self.live_one(pk, &id(to), now_s).is_some() {
                    return Err(ErrorKind::Conflict);
                }
                (Some(number), to, value, unique, ttl)
            }
            Write::Patch(number, value) => {
                let version = self.live_one(pk, &id(number), now_s).ok_or(ErrorKind::NotFound)?;
                (Some(number), number, value, version.unique, version.ttl)
            }
            Write::Delete(number) => {
                self.live_one(pk, &id(number), now_s).ok_or(ErrorKind::NotFound)?;
                self.stored.remove(&(pk.to_owned(), id(number)));
                return Ok(());
            }
        };
        let from = from.map(id);
        let has_value = |(name, version): (&Name, &Version)| {
            name.0 == pk && Some(&name.1) != from.as_ref() && version.unique == unique
        };
        if self.settings.is_unique && self.live(now_s).any(has_value) {
            return Err(ErrorKind::Conflict);
        }
        if let Some(from) = from.filter(|from| *from != id(to)) {
            self.stored.remove(&(pk.to_owned(), from));
        }
        // LSN and size are those of the reply.
        let version = Version { lsn: 0, value, unique, ttl, written_s: now_s, size_bytes: 0 };
        self.stored.insert((pk.to_owned(), id(to)), version);
        Ok(())
    }

    /// Notes the difference that a commit makes; `now_s` decides which of the old items had run out.
    fn note_commit(&mut self, before: &BTreeMap<Name, Version>, lsn: u64, now_s: u64) {
        let names: std::collections::BTreeSet<&Name> = before.keys().chain(self.stored.keys()).collect();
        let mut logged = Vec::new();
        for name in names {
            let (old, new) = (before.get(name), self.stored.get(name));
            if old == new {
                continue;
            }
            let value = |version: Option<&Version>| version.map(|version| version.value);
            match (old, new) {
                (Some(old), new) if !self.is_live(old, now_s) => {
                    logged.push((lsn, ChangeKind::Expire, name.clone(), None, Some(old.value)));
                    if new.is_some() {
                        logged.push((lsn, ChangeKind::Create, name.clone(), value(new), None));
                    }
                }
                (old, new) => {
                    let kind = match (old, new) {
                        (None, _) => ChangeKind::Create,
                        (_, None) => ChangeKind::Delete,
                        _ => ChangeKind::Replace,
                    };
                    logged.push((lsn, kind, name.clone(), value(new), value(old)));
                }
            }
        }
        self.log.extend(logged);
    }

    /// A commit of the server that removed some of the items which had run out.
    fn note_removed(&mut self, is_gone: impl Fn(&Name) -> bool, lsn: u64, now_s: u64) {
        let before = self.stored.clone();
        self.stored.retain(|name, _| !is_gone(name));
        self.note_commit(&before, lsn, now_s);
    }
}

/// A partition, and the model that it is to be like.
struct Run {
    container: TestContainer,
    shard: Shard,
    partition: Arc<Partition>,
    model: Model,
    is_compacted: bool,
}

impl Run {
    async fn new(settings: Settings) -> Run {
        let container = TestContainer::new(&settings);
        let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
        let partition = container.open(&shard, &identity(3)).await;
        let model = Model { settings, stored: BTreeMap::new(), log: Vec::new() };
        Run { container, shard, partition, model, is_compacted: false }
    }

    fn now_s(&self) -> u64 {
        self.container.clock.now().seconds()
    }

    fn operation(&self, pk: &str, write: &Write) -> Operation {
        let body = |number: u8, value: i64, unique: i64, ttl: Option<i64>| {
            let ttl = ttl.map(|seconds| format!(r#","ttl":{seconds}"#)).unwrap_or_default();
            let id = id(number);
            let json = format!(r#"{{"id":"{id}","pk":"{pk}","v":{value},"u":{unique}{ttl}}}"#);
            self.container.body(&json)
        };
        match *write {
            Write::Create(number, value, unique, ttl) => {
                Operation::Create { item: body(number, value, unique, ttl) }
            }
            Write::Upsert(number, value, unique, ttl) => {
                Operation::Upsert { item: body(number, value, unique, ttl), preconditions: no_conditions() }
            }
            Write::Replace(number, to, value, unique, ttl) => {
                let item = body(to, value, unique, ttl);
                Operation::Replace { id: id(number), item, preconditions: no_conditions() }
            }
            Write::Patch(number, value) => Operation::Patch {
                id: id(number),
                operations: vec![PatchOperation::Set {
                    path: vec!["v".to_owned()],
                    value: Value::Int(value),
                }],
                condition: None,
                preconditions: no_conditions(),
            },
            Write::Delete(number) => Operation::Delete { id: id(number), preconditions: no_conditions() },
        }
    }

    /// Executes writes as one transaction, and compares the outcome with the model's.
    async fn execute(&mut self, pk: &str, writes: &[Write]) {
        let now_s = self.now_s();
        let operations = writes.iter().map(|write| self.operation(pk, write)).collect();
        let reply = self.container.execute(&self.partition, pk, operations).await.expect("answers");
        let before = self.model.stored.clone();
        let mut expected = Ok(());
        for (index, write) in writes.iter().enumerate() {
            if let Err(kind) = self.model.apply(pk, write, now_s) {
                expected = Err((index, kind));
                self.model.stored.clone_from(&before);
                break;
            }
        }
        match reply.outcome {
            Err(failure) => assert_eq!(Err((failure.index, failure.error.kind())), expected, "{writes:?}"),
            Ok(replies) => {
                assert_eq!(expected, Ok(()), "{writes:?}");
                assert_eq!(replies.len(), writes.len());
                for reply in &replies {
                    assert_eq!(reply.meta.lsn, reply.meta.item_lsn, "of one commit");
                    self.note_reply(pk, reply);
                }
                self.model.note_commit(&before, replies[0].meta.lsn, now_s);
            }
        }
    }

    /// Takes over LSN and size of a version from its reply.
    fn note_reply(&mut self, pk: &str, reply: &ItemReply) {
        let Some(item) = &reply.item else { return };
        let name = (pk.to_owned(), json_of(item)["id"].as_str().expect("an id").to_owned());
        if let Some(version) = self.model.stored.get_mut(&name) {
            (version.lsn, version.size_bytes) = (reply.meta.lsn, item.json_size_bytes() as u64);
        }
    }

    async fn act(&mut self, act: &Act) {
        match act {
            Act::One(number, write) => self.execute(&pk(*number), std::slice::from_ref(write)).await,
            Act::Batch(number, writes) => self.execute(&pk(*number), writes).await,
            Act::DeleteKey(number) => self.delete_key(&pk(*number)).await,
            Act::Wait(seconds) => self.container.clock.advance(Duration::from_secs(*seconds)),
            Act::Sweep => self.sweep().await,
            Act::Compact => {
                self.container.compact(&self.partition).await;
                self.is_compacted |= self.model.settings.retention.is_none();
            }
            Act::Reopen => {
                self.partition = self.container.open(&self.shard, &identity(3)).await;
            }
        }
    }

    async fn delete_key(&mut self, pk: &str) {
        let now_s = self.now_s();
        let live = self.model.live(now_s).filter(|(name, _)| name.0 == pk).count() as u64;
        let (logical, command) = (self.container.logical(pk), self.container.command(1));
        let deleted = self.partition.delete_logical_partition(&self.container.shape, &command, &logical);
        let (deleted, _) = deleted.await.expect("deleted");
        assert_eq!(deleted, live);
        let lsn = self.partition.durable_lsn();
        self.model.note_removed(|name| name.0 == pk, lsn, now_s);
    }

    async fn sweep(&mut self) {
        let now_s = self.now_s();
        let before = self.partition.durable_lsn();
        self.container.sweep(&self.partition).await;
        let gone: Vec<Name> = self.model.stored.keys().cloned().collect();
        let is_live = |name: &Name| self.model.live_one(&name.0, &name.1, now_s).is_some();
        let gone: Vec<Name> = gone.into_iter().filter(|name| !is_live(name)).collect();
        // A commit for each queue of ends, or two.
        let page = self.partition.changes(&KeyRange::full(), before, 100).await.expect("readable");
        let mut removed = Vec::new();
        for (lsn, entry) in page.entries {
            let names: Vec<Name> = entry.operations.iter().map(|operation| name_of(&operation.key)).collect();
            assert!(entry.operations.iter().all(|operation| operation.kind == ChangeKind::Expire));
            self.model.note_removed(|name| names.contains(name), lsn, now_s);
            removed.extend(names);
        }
        removed.sort_unstable();
        assert_eq!(removed, gone, "all whose time has run out, and no others");
    }

    async fn check(&self) {
        self.check_items().await;
        self.check_sizes().await;
        self.check_log().await;
        if self.model.settings.retention.is_some() {
            self.check_versions().await;
        }
        let report = self.container.verify(&self.shard, &identity(3)).await;
        assert_eq!(report.items, self.model.stored.len() as u64);
    }

    async fn check_items(&self) {
        let now_s = self.now_s();
        let items = self.container.items(&self.partition).await;
        let found: BTreeMap<Name, Version> = items.iter().map(version_of).collect();
        assert_eq!(found.len(), items.len(), "no item comes twice");
        let live: BTreeMap<Name, Version> =
            self.model.live(now_s).map(|(name, version)| (name.clone(), version.clone())).collect();
        assert_eq!(found, live);
        for (name, _) in self.model.stored.iter() {
            let (command, logical) = (self.container.command(1), self.container.logical(&name.0));
            let none = no_conditions();
            let read = self.partition.read(&self.container.shape, &command, &logical, &name.1, &none).await;
            match self.model.live_one(&name.0, &name.1, now_s) {
                Some(version) => {
                    let item = read.expect("there").item.expect("a read has an item");
                    assert_eq!(version_of(&item), (name.clone(), version.clone()));
                }
                None => assert_eq!(read.expect_err("it has run out").kind(), ErrorKind::NotFound),
            }
        }
        // The index names the same items.
        for value in [0, 50] {
            let text = format!("SELECT VALUE c.v FROM c WHERE c.v >= {value} ORDER BY c.v");
            let found = self.container.ids(&self.partition, &text, &self.container.shape).await;
            let mut expected: Vec<i64> =
                live.values().map(|version| version.value).filter(|found| *found >= value).collect();
            expected.sort_unstable();
            assert_eq!(found, expected.iter().map(i64::to_string).collect::<Vec<_>>(), "{text}");
        }
    }

    async fn check_sizes(&self) {
        let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (name, version) in &self.model.stored {
            let sum = sums.entry(&name.0).or_default();
            *sum = (sum.0 + 1, sum.1 + version.size_bytes);
        }
        for number in 0..3 {
            let pk = pk(number);
            let size = self.partition.logical_size(&self.container.logical(&pk)).await.expect("readable");
            let expected = sums.get(&*pk).copied().unwrap_or_default();
            assert_eq!((size.items, size.size_bytes), expected, "{pk}");
        }
        let (items, bytes) = sums.values().fold((0, 0), |total, size| (total.0 + size.0, total.1 + size.1));
        assert_eq!((self.partition.items(), self.partition.size_bytes()), (items, bytes));
        let largest = self.partition.largest_logical_partitions(3).await.expect("readable");
        let mut expected: Vec<u64> = sums.values().map(|(_, size_bytes)| *size_bytes).collect();
        expected.sort_unstable_by(|one, other| other.cmp(one));
        let largest: Vec<u64> = largest.iter().map(|sized| sized.size.size_bytes).collect();
        assert_eq!(largest, expected);
    }

    /// The log leads to the stored items: each operation follows the one before on its item.
    async fn check_log(&self) {
        let page = self.partition.changes(&KeyRange::full(), 0, 10_000).await.expect("readable");
        assert!(page.is_last);
        assert_eq!(page.last_lsn, self.partition.durable_lsn());
        let mut alive: BTreeMap<Name, u64> = BTreeMap::new();
        let mut logged = Vec::new();
        for (lsn, entry) in page.entries {
            for LogOperation { kind, key, previous_lsn, .. } in entry.operations {
                let name = name_of(&key);
                let before = alive.remove(&name).unwrap_or(0);
                assert!(self.is_compacted || previous_lsn == before, "{name:?} at LSN {lsn}");
                if matches!(kind, ChangeKind::Create | ChangeKind::Replace) {
                    alive.insert(name.clone(), lsn);
                }
                logged.push((lsn, kind, name));
            }
        }
        let stored: BTreeMap<Name, u64> =
            self.model.stored.iter().map(|(name, version)| (name.clone(), version.lsn)).collect();
        if self.is_compacted {
            // A deletion may have been compacted before the version that it ended.
            alive.retain(|name, _| stored.contains_key(name));
        }
        assert_eq!(alive, stored);
        if !self.is_compacted {
            logged.sort_by_key(|(lsn, kind, name)| (*lsn, name.clone(), *kind != ChangeKind::Expire));
            let expected: Vec<_> =
                self.model.log.iter().map(|(lsn, kind, name, ..)| (*lsn, *kind, name.clone())).collect();
            assert_eq!(logged, expected);
        }
    }

    /// Every version that was written is reported, with the version that it ended.
    async fn check_versions(&self) {
        let mut after = 0;
        let mut reported = Reported::default();
        loop {
            let look = FeedLook {
                shape: &self.container.shape,
                filter: &FeedFilter::Range(KeyRange::full()),
                mode: ChangeFeedMode::AllVersionsAndDeletes,
                images: PreviousImages { of_replaces: true, of_deletes: true },
                after,
                since: None,
                limits: PageLimits { items: 5, size_bytes: 1 << 20 },
                now: self.container.clock.now(),
                consistency: ConsistencyLevel::default(),
                clock: &self.container.clock,
                until: Duration::MAX,
            };
            let found = self.partition.read_changes(&look, &mut reported).await.expect("kept");
            after = found.last_lsn;
            if found.is_last {
                break;
            }
        }
        let mut reported = reported.0;
        reported.sort_by_key(|(lsn, kind, name, ..)| (*lsn, name.clone(), *kind != ChangeKind::Expire));
        assert_eq!(reported, self.model.log);
    }
}

/// The changes that a feed reports.
#[derive(Default)]
struct Reported(Vec<Logged>);

impl ChangeSink for Reported {
    fn push(&mut self, change: &Change<'_>) {
        let Change::Version { kind, lsn, current, previous, id, partition_key, .. } = change else {
            panic!("all versions are asked for: {change:?}");
        };
        let shardlake_model::KeyComponent::String(pk) = &partition_key.0[0] else { panic!("a text") };
        let value =
            |item: &Option<&StoredItem>| item.map(|item| json_of(item)["v"].as_i64().expect("a number"));
        self.0.push((*lsn, *kind, (pk.clone(), (*id).to_owned()), value(current), value(previous)));
    }

    fn size_bytes(&self) -> usize {
        self.0.len()
    }

    fn cut(&mut self, size_bytes: usize) {
        self.0.truncate(size_bytes);
    }
}

fn json_of(item: &StoredItem) -> serde_json::Value {
    serde_json::from_slice(&item.json_text()).expect("JSON")
}

fn name_of(key: &[u8]) -> Name {
    let (logical, id) = crate::item_of_position(key).expect("an item's key");
    let shardlake_model::KeyComponent::String(pk) = &logical.partition_key.0[0] else { panic!("a text") };
    (pk.clone(), id)
}

fn version_of(item: &StoredItem) -> (Name, Version) {
    let json = json_of(item);
    let text = |name: &str| json[name].as_str().expect("a text").to_owned();
    let number = |name: &str| json[name].as_i64().expect("a number");
    let version = Version {
        lsn: item.lsn(),
        value: number("v"),
        unique: number("u"),
        ttl: json["ttl"].as_i64(),
        written_s: number("_ts") as u64,
        size_bytes: item.json_size_bytes() as u64,
    };
    ((text("pk"), text("id")), version)
}

async fn is_like_its_model(settings: Settings, acts: Vec<Act>) {
    let mut run = Run::new(settings).await;
    for (number, act) in acts.iter().enumerate() {
        run.act(act).await;
        if number % 8 == 7 {
            run.check_items().await;
        }
    }
    run.check().await;
    // Everything comes from storage after a start.
    run.act(&Act::Reopen).await;
    run.check().await;
    assert!(run.container.clock.now() >= BEGIN);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn a_partition_is_like_its_model(settings in settings(), acts in prop::collection::vec(act(), 1..60)) {
        block_on(is_like_its_model(settings, acts));
    }
}

/// The same without chance: each kind of operation on one item, and its traces.
#[test]
fn an_item_is_created_replaced_expired_and_created_again() {
    let settings =
        Settings { default_ttl: Some(10), is_unique: true, retention: Some(Duration::from_secs(3600)) };
    let one = |write| Act::One(0, write);
    let acts = vec![
        one(Write::Create(1, 5, 1, None)),
        one(Write::Create(1, 6, 2, None)),
        one(Write::Create(2, 7, 1, None)),
        one(Write::Patch(1, 8)),
        Act::Wait(11),
        one(Write::Create(2, 9, 1, None)),
        one(Write::Create(1, 10, 2, Some(-1))),
        Act::Sweep,
        one(Write::Replace(1, 3, 11, 3, None)),
        Act::Batch(0, vec![Write::Delete(3), Write::Create(3, 12, 4, None), Write::Delete(2)]),
        Act::Wait(30),
        Act::Sweep,
        Act::DeleteKey(0),
    ];
    block_on(is_like_its_model(settings, acts));
}
