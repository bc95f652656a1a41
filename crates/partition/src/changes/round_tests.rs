//! Rounds against a model: a copy that applies pages shows no half of a transaction, also where
//! partitions are split and joined between two pages.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use shardlake_model::{ErrorKind, Preconditions};
use shardlake_routing::KeyRange;

use crate::relocate::cut_tests::{Move, Run};
use crate::test_fixture::{Settings, block_on};
use crate::{
    ChangeKind, Image, Images, ItemsRound, LogChange, Operation, Round, RoundError, StoredItem,
    item_of_position,
};

/// Values by id, of one logical partition.
type Items = BTreeMap<String, i64>;

#[derive(Debug, Clone)]
enum Act {
    /// One transaction: new values, or deletions of items that exist.
    Write(u8, Vec<(u8, Option<i64>)>),
    /// Reads the next page of a part, which begins a round where there is none.
    Page(u8),
    Split(u8, u8),
    Join,
}

fn act() -> impl Strategy<Value = Act> {
    let one = (0..6u8, prop_oneof![3 => (0..1000i64).prop_map(Some), 1 => Just(None)]);
    prop_oneof![
        8 => (0..6u8, prop::collection::vec(one, 1..6)).prop_map(|(pk, writes)| Act::Write(pk, writes)),
        8 => any::<u8>().prop_map(Act::Page),
        1 => (any::<u8>(), 1..63u8).prop_map(|(number, at)| Act::Split(number, at)),
        1 => Just(Act::Join),
    ]
}

/// A part of the hash space that is read up to an LSN.
struct Part {
    span: KeyRange,
    after: u64,
    round: Option<Round>,
    /// The model when the round began.
    expected: BTreeMap<String, Items>,
    /// The copy before the round.
    before: BTreeMap<String, Items>,
}

struct Follower {
    run: Run,
    images: Images,
    parts: Vec<Part>,
    copy: BTreeMap<String, Items>,
    model: BTreeMap<String, Items>,
    /// Every state that a transaction left.
    states: Vec<(String, Items)>,
}

fn part(span: KeyRange, after: u64) -> Part {
    Part { span, after, round: None, expected: BTreeMap::new(), before: BTreeMap::new() }
}

fn pk(number: u8) -> String {
    format!("key {number}")
}

impl Follower {
    async fn new(images: Images) -> Follower {
        let retention = (images == Images::All).then_some(Duration::from_secs(24 * 3600));
        let run = Run::with(Settings { default_ttl: None, is_unique: false, retention }).await;
        let parts = vec![part(KeyRange::full(), 0)];
        let empty = BTreeMap::new;
        Follower { run, images, parts, copy: empty(), model: empty(), states: Vec::new() }
    }

    async fn write(&mut self, pk: String, writes: &[(u8, Option<i64>)]) {
        let items = self.model.entry(pk.clone()).or_default();
        let mut operations = Vec::new();
        for (id, value) in writes {
            let (id, preconditions) = (format!("i{id}"), Preconditions::default());
            match value {
                Some(value) => {
                    let json = format!(r#"{{"id":"{id}","pk":"{pk}","v":{value}}}"#);
                    let item = self.run.container.body(&json);
                    operations.push(Operation::Upsert { item, preconditions });
                    items.insert(id, *value);
                }
                None if items.remove(&id).is_some() => {
                    operations.push(Operation::Delete { id, preconditions })
                }
                None => {}
            }
        }
        if operations.is_empty() {
            return;
        }
        self.states.push((pk.clone(), items.clone()));
        let place = self.run.owner(&self.run.container.logical(&pk));
        let reply = self.run.container.execute(&place.partition, &pk, operations).await.expect("answers");
        reply.outcome.expect("written");
    }

    /// The partitions that have a part now.
    fn divide(&mut self, number: usize) {
        let Part { span, after, .. } = &self.parts[number];
        let owners = self.run.places.iter().map(|place| place.identity.epk_range.intersection(span));
        let divided: Vec<Part> =
            owners.filter(|span| !span.is_empty()).map(|span| part(span, *after)).collect();
        self.parts.splice(number..=number, divided);
    }

    async fn page(&mut self, number: usize) {
        if self.parts[number].round.is_none() {
            self.divide(number);
            let (span, after) = (self.parts[number].span.clone(), self.parts[number].after);
            let place = self.run.places.iter().find(|place| place.identity.epk_range.contains_range(&span));
            let place = place.expect("a part is divided by the ranges");
            let round = place.partition.log_round(&span, after).await.expect("nothing is compacted");
            assert_eq!(round.upto(), place.partition.durable_lsn());
            let part = &mut self.parts[number];
            part.round = Some(round.with(self.images).in_pages_of(2));
            (part.expected, part.before) = (self.model.clone(), self.copy.clone());
        }
        let is_own = self.is_in(&self.parts[number].span);
        let Part { round, after, .. } = &mut self.parts[number];
        let round = round.as_mut().expect("it was just begun");
        match round.next_page().await {
            Ok(Some(page)) => {
                assert!(page.upto > *after || page.changes.is_empty());
                assert!(page.changes.iter().all(|change| change.lsn > *after && change.lsn <= page.upto));
                *after = page.upto;
                page.changes.into_iter().for_each(|change| apply(&self.run, &mut self.copy, change));
                if self.images == Images::All {
                    self.check_states(&is_own);
                }
            }
            Ok(None) => {
                round.durable().await.expect("in memory");
                let part = &mut self.parts[number];
                (part.after, part.round) = (part.round.take().expect("it was read").upto(), None);
                let expected = std::mem::take(&mut part.expected);
                for (pk, items) in expected.iter().filter(|(pk, _)| is_own.contains(pk)) {
                    assert_eq!(
                        self.copy.get(pk).unwrap_or(&Items::new()),
                        items,
                        "{pk} at the end of a round"
                    );
                }
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::PartitionGone, "{error}");
                let after = round.after();
                let part = &mut self.parts[number];
                part.round = None;
                // A copy of live versions is complete at the end of a round alone.
                if self.images == Images::Latest {
                    part.after = after;
                    let before = std::mem::take(&mut part.before);
                    for pk in &is_own {
                        self.copy.insert(pk.clone(), before.get(pk).cloned().unwrap_or_default());
                    }
                }
            }
        }
    }

    /// The partition keys inside a span.
    fn is_in(&self, span: &KeyRange) -> Vec<String> {
        (0..6).map(pk).filter(|pk| span.contains(&self.run.container.logical(pk).epk)).collect()
    }

    fn check_states(&self, pks: &[String]) {
        for (pk, items) in self.copy.iter().filter(|(pk, items)| pks.contains(pk) && !items.is_empty()) {
            let is_known = self.states.iter().any(|(known, state)| known == pk && state == items);
            assert!(is_known, "{pk} was never as the copy has it: {items:?}");
        }
    }

    async fn act(&mut self, act: &Act) {
        match act {
            Act::Write(number, writes) => self.write(pk(*number), writes).await,
            Act::Page(number) => self.page(usize::from(*number) % self.parts.len()).await,
            Act::Split(number, at) => self.relocate(Some(usize::from(*number)), *at).await,
            Act::Join => self.relocate(None, 1).await,
        }
    }

    async fn relocate(&mut self, splits: Option<usize>, at: u8) {
        self.run.relocate(&Move { splits, at, writes: Default::default() }).await;
    }

    /// Reads every part to its end.
    async fn finish(&mut self) {
        for _ in 0..2 {
            for number in 0.. {
                if number >= self.parts.len() {
                    break;
                }
                self.page(number).await;
                while self.parts[number].round.is_some() {
                    self.page(number).await;
                }
            }
        }
        let live = |items: &BTreeMap<String, Items>| {
            items.clone().into_iter().filter(|(_, items)| !items.is_empty()).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(live(&self.copy), live(&self.model));
    }
}

impl Follower {
    /// The last change of the item `i0` of the first key ended the version of `lsn`, which had another ordinal.
    async fn assert_joined(&self, lsn: u64) {
        let logical = self.run.container.logical(&pk(0));
        let round = self.run.owner(&logical).partition.log_round(&KeyRange::full(), 0).await;
        let (mut round, mut changes) = (round.expect("nothing is compacted"), Vec::new());
        while let Some(page) = round.next_page().await.expect("readable") {
            changes.extend(page.changes);
        }
        changes
            .retain(|change| item_of_position(&change.key).is_ok_and(|(found, _)| found.epk == logical.epk));
        let [created, replaced] = &changes[..] else { panic!("two changes, not {changes:?}") };
        assert_eq!((created.lsn, created.kind, created.ended_ordinal), (lsn, ChangeKind::Create, None));
        assert_eq!((replaced.kind, replaced.previous_lsn), (ChangeKind::Replace, lsn));
        assert_eq!(replaced.ended_ordinal, Some(created.ordinal));
        assert_ne!(replaced.ordinal, created.ordinal);
    }
}

fn apply(run: &Run, copy: &mut BTreeMap<String, Items>, change: LogChange) {
    let (logical, id) = item_of_position(&change.key).expect("well-formed");
    let shape = &run.container.shape;
    let pk = match &logical.partition_key.0[..] {
        [shardlake_model::KeyComponent::String(pk)] => pk.clone(),
        other => panic!("{other:?}"),
    };
    let items = copy.entry(pk).or_default();
    match (change.kind, change.new) {
        (ChangeKind::Delete, Image::NotAsked) => drop(items.remove(&id)),
        (_, Image::Record(record)) => {
            let item = StoredItem::decode(record, shape).expect("intact");
            assert_eq!(item.lsn(), change.lsn);
            let json: serde_json::Value = serde_json::from_slice(&item.json_text()).expect("JSON");
            items.insert(id, json["v"].as_i64().expect("a number"));
        }
        (_, Image::LaterVersion | Image::Gone) => {}
        other => panic!("{other:?}"),
    }
}

async fn copies_without_half_transactions(images: Images, acts: Vec<Act>) {
    let mut follower = Follower::new(images).await;
    for act in &acts {
        follower.act(act).await;
    }
    follower.finish().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn no_end_of_a_round_shows_half_a_transaction(acts in prop::collection::vec(act(), 1..60)) {
        block_on(copies_without_half_transactions(Images::Latest, acts));
    }

    #[test]
    fn no_page_of_all_versions_shows_half_a_transaction(acts in prop::collection::vec(act(), 1..60)) {
        block_on(copies_without_half_transactions(Images::All, acts));
    }
}

#[test]
fn first_copy_and_rounds_behind_it_are_the_items() {
    block_on(async {
        let mut follower = Follower::new(Images::Latest).await;
        for number in 0..6 {
            let writes: Vec<_> = (0..6).map(|id| (id, Some(i64::from(number)))).collect();
            follower.write(pk(number), &writes).await;
        }
        let (mut left, mut chunks) = (Some(KeyRange::full()), 0);
        follower.parts.clear();
        while let Some(span) = left {
            let partition = follower.run.places[0].partition.clone();
            let mut chunk: ItemsRound = partition.items_round(&span, 4).await.expect("begins");
            while let Some(page) = chunk.next_page().await.expect("readable") {
                for row in page {
                    let (logical, id) = item_of_position(&row.key).expect("well-formed");
                    let item = StoredItem::decode(row.record, &follower.run.container.shape).expect("intact");
                    let json: serde_json::Value = serde_json::from_slice(&item.json_text()).expect("JSON");
                    assert!(span.contains(&logical.epk));
                    let pk = json["pk"].as_str().expect("a text").to_owned();
                    let items = follower.copy.entry(pk).or_default();
                    assert_eq!(items.insert(id, json["v"].as_i64().expect("a number")), None, "once");
                }
            }
            let covered = chunk.covered().expect("it was read to its end");
            let pks = follower.is_in(&covered);
            assert_eq!(follower.copy.len() - follower.parts.len(), pks.len(), "whole logical partitions");
            assert!(pks.len() <= 1 || chunk.rest().is_none(), "six items are more than four");
            chunk.durable().await.expect("in memory");
            follower.parts.push(part(covered, chunk.upto()));
            left = chunk.rest();
            chunks += 1;
            // Between two chunks: in parts that are copied, and in others.
            for number in 0..6 {
                follower.write(pk(number), &[(1, None), (2, Some(100 + chunks))]).await;
            }
        }
        assert!(chunks >= 6, "{chunks} chunks");
        follower.finish().await;
    });
}

#[test]
fn position_below_a_compacted_operation_or_above_the_log_is_refused() {
    block_on(async {
        let mut follower = Follower::new(Images::Latest).await;
        for value in 0..10 {
            follower.write(pk(0), &[(0, Some(value))]).await;
        }
        let partition = follower.run.places[0].partition.clone();
        assert!(partition.log_round(&KeyRange::full(), 3).await.is_ok());
        follower.run.container.compact(&partition).await;
        let hole = partition.log_round(&KeyRange::full(), 3).await;
        assert!(matches!(hole, Err(RoundError::Hole { compacted_to: 9 })), "{hole:?}");
        assert!(partition.log_round(&KeyRange::full(), 9).await.is_ok(), "nothing above it is missing");
        assert!(
            partition.log_round(&KeyRange::full(), 0).await.is_ok(),
            "who has seen nothing misses nothing"
        );
        assert!(partition.log_round_over_holes(&KeyRange::full(), 3).await.is_ok());
        let ahead = partition.log_round(&KeyRange::full(), 11).await;
        assert!(matches!(ahead, Err(RoundError::Ahead { last: 10 })), "{ahead:?}");
    });
}

/// Analytics finds the row of the ended version by its own ordinal.
#[test]
fn an_item_deleted_and_created_at_once_names_both_ordinals() {
    block_on(async {
        let mut follower = Follower::new(Images::Latest).await;
        follower.write(pk(0), &[(0, Some(1))]).await;
        follower.relocate(Some(0), 32).await;
        let owner = |pk: &str| follower.run.owner(&follower.run.container.logical(pk));
        let (first, pks) = (owner(&pk(0)), (0..6).map(pk));
        let other = pks.into_iter().find(|pk| owner(pk).identity.uid != first.identity.uid);
        let json = format!(r#"{{"id":"i0","pk":"{}","v":2}}"#, pk(0));
        let delete = Operation::Delete { id: "i0".to_owned(), preconditions: Preconditions::default() };
        let anew = vec![delete, Operation::Create { item: follower.run.container.body(&json) }];
        let reply = follower.run.container.execute(&first.partition, &pk(0), anew).await;
        reply.expect("answers").outcome.expect("written");
        let lsn = first.partition.durable_lsn();
        follower.assert_joined(1).await;
        let other = other.expect("the split is between keys");
        follower.write(other.clone(), &[(0, Some(1))]).await;
        assert_eq!(follower.run.owner(&follower.run.container.logical(&other)).partition.durable_lsn(), lsn);
        // Entries of one LSN become one.
        follower.relocate(None, 1).await;
        follower.assert_joined(1).await;
    });
}
