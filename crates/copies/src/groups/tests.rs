//! The upkeep of groups as a model: one source, a follower that stops before any write of a row and continues
//! from its saved position, to another end.
//!
//! The states of groups and the way from row to row (`plan.rs`) are the product's. Mistakes that the model makes
//! on purpose must be noticed.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use shardlake_document::Value;
use shardlake_sql::{Argument, Derivation, DeriveSource, Dialect, GroupState, derive};

use super::plan::{Counted, ItemHistory, advance};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    /// Changes are counted from the position, and not from the row's LSN.
    StampIgnored,
    /// A missing row is taken for an empty group after an interruption, too.
    MissingIsEmpty,
    PositionFirst,
    /// The contributions before an item's last change of a round, not those before the first one.
    LastEndedUsed,
    LostEnd,
    LostExtremeUsed,
}

#[derive(Debug, Clone)]
enum Act {
    /// One commit: items, each with its new group and number, or deleted.
    Commit(BTreeMap<u8, Option<(u8, i64)>>),
    /// One commit that deletes all items with a number below.
    Purge(i64),
    /// A round up to the last commit, which stops after so many rows.
    Round(Option<u8>),
}

fn act() -> impl Strategy<Value = Act> {
    // Equal numbers hide a wrong count from the extremes.
    let number = prop_oneof![1 => -20..20i64, 1 => 0..2i64];
    let one = prop::option::weighted(0.7, (0..3u8, number));
    prop_oneof![
        3 => prop::collection::btree_map(0..40u8, one, 1..20).prop_map(Act::Commit),
        1 => (-15..20i64).prop_map(Act::Purge),
        2 => prop::option::weighted(0.6, 0..4u8).prop_map(Act::Round),
    ]
}

type Items = BTreeMap<u8, (u8, i64)>;

struct Logged {
    lsn: u64,
    item: u8,
    /// `None` for a replacement with the same contributions.
    before: Option<Vec<Counted>>,
}

struct Model {
    bug: Option<Bug>,
    derivation: Derivation,
    items: Items,
    log: Vec<Logged>,
    lsn: u64,
    position: u64,
    /// The follower has applied every round to its end.
    is_settled: bool,
    /// By id: the LSN of the row, and its state.
    rows: BTreeMap<String, (u64, GroupState)>,
}

fn counted((group, number): (u8, i64)) -> Counted {
    let mut value = Vec::new();
    shardlake_document::encode_ordered(&Value::Int(number), &mut value).expect("a number");
    let extreme = Argument::Extreme(value);
    let number = Argument::Number(number as f64 * 0.1);
    (format!("group {group}"), vec![Argument::Counted, number, extreme.clone(), extreme])
}

impl Model {
    fn new(bug: Option<Bug>) -> Model {
        let text =
            "SELECT c.g, COUNT(1) AS n, SUM(c.x) AS s, MIN(c.x) AS low, MAX(c.x) AS high FROM c GROUP BY c.g";
        let derivation = derive(text, &DeriveSource::default(), Dialect::Shardlake).expect("valid");
        Model {
            bug,
            derivation,
            items: Items::new(),
            log: Vec::new(),
            lsn: 0,
            position: 0,
            is_settled: true,
            rows: BTreeMap::new(),
        }
    }

    fn commit(&mut self, writes: &BTreeMap<u8, Option<(u8, i64)>>) {
        self.lsn += 1;
        for (item, new) in writes {
            let old = match new {
                Some(new) => self.items.insert(*item, *new),
                None => self.items.remove(item),
            };
            if old.is_none() && new.is_none() {
                continue;
            }
            let is_same = old.is_some() && old == *new;
            let before = (!is_same).then(|| old.map(counted).into_iter().collect());
            self.log.push(Logged { lsn: self.lsn, item: *item, before });
        }
    }

    fn histories(&self) -> BTreeMap<u8, ItemHistory> {
        let mut found: BTreeMap<u8, ItemHistory> = BTreeMap::new();
        for Logged { lsn, item, before } in self.log.iter().filter(|logged| logged.lsn > self.position) {
            let history = found.entry(*item).or_default();
            history.now = self.items.get(item).map(|item| vec![counted(*item)]);
            history.before.extend(before.clone().map(|before| (*lsn, before)));
        }
        if self.bug == Some(Bug::LastEndedUsed) {
            found.values_mut().for_each(|history| history.before.reverse());
        }
        found
    }

    fn recounted(&self, id: &str) -> GroupState {
        let mut state = self.derivation.new_group();
        let of_group = self.items.values().map(|item| counted(*item)).filter(|(group, _)| group == id);
        of_group.for_each(|(_, arguments)| state.add(&arguments));
        state
    }

    fn round(&mut self, stops: Option<u8>) {
        let histories = self.histories();
        let of_history = |history: &ItemHistory| {
            let before = history.before.iter().flat_map(|(_, before)| before);
            before.chain(history.now.iter().flatten()).map(|(id, _)| id.clone()).collect::<Vec<_>>()
        };
        let groups: BTreeSet<String> = histories.values().flat_map(of_history).collect();
        let is_settled = std::mem::replace(&mut self.is_settled, false);
        let after = self.position;
        if self.bug == Some(Bug::PositionFirst) {
            self.position = self.lsn;
        }
        for (number, id) in groups.into_iter().enumerate() {
            if stops.is_some_and(|stops| number >= usize::from(stops)) {
                return;
            }
            let empty = || Some((after, self.derivation.new_group()));
            let missing = || if is_settled || self.bug == Some(Bug::MissingIsEmpty) { empty() } else { None };
            let known = self.rows.get(&id).cloned().or_else(missing);
            let advanced = known.map(|(stamp, mut state)| {
                let stamp = if self.bug == Some(Bug::StampIgnored) { after } else { stamp };
                advance(&mut state, (&id, stamp), histories.values()).map(|_| state.clone()).or_else(|lost| {
                    if self.bug == Some(Bug::LostExtremeUsed) { Ok(state) } else { Err(lost) }
                })
            });
            let state = match advanced {
                Some(Ok(state)) => state,
                _ => self.recounted(&id),
            };
            match state.is_empty() && self.bug != Some(Bug::LostEnd) {
                true => drop(self.rows.remove(&id)),
                false => drop(self.rows.insert(id, (self.lsn, state))),
            }
        }
        (self.position, self.is_settled) = (self.lsn, true);
    }

    fn row(&self, id: &str, state: &GroupState) -> Value {
        let row = self.derivation.group_row(id, &[Value::Undefined], state).expect("a row");
        let Value::Object(mut members) = Value::from_document(row.raw()) else { panic!("an object") };
        members.retain(|(name, _)| name != "_state");
        Value::Object(members)
    }

    fn run(mut self, acts: &[Act]) -> Result<(), String> {
        for act in acts {
            match act {
                Act::Commit(writes) => self.commit(writes),
                Act::Purge(limit) => {
                    let gone = self.items.iter().filter(|(_, (_, number))| number < limit);
                    let gone = gone.map(|(item, _)| (*item, None)).collect();
                    self.commit(&gone);
                }
                Act::Round(stops) => self.round(*stops),
            }
        }
        self.round(None);
        let found: BTreeMap<_, _> =
            self.rows.iter().map(|(id, (_, state))| (id.clone(), self.row(id, state))).collect();
        let ids: BTreeSet<String> = self.items.values().map(|item| counted(*item).0).collect();
        let expected: BTreeMap<_, _> =
            ids.into_iter().map(|id| (id.clone(), self.row(&id, &self.recounted(&id)))).collect();
        if found == expected { Ok(()) } else { Err(format!("{found:?} instead of {expected:?}")) }
    }
}

fn cases(bug: Option<Bug>, cases: u32) -> Result<(), String> {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let acts = prop::collection::vec(act(), 1..25);
    let run = |acts: Vec<Act>| Model::new(bug).run(&acts).map_err(TestCaseError::fail);
    TestRunner::new(config).run(&acts, run).map_err(|error| error.to_string())
}

#[test]
fn groups_are_those_of_the_items_whenever_their_follower_stops() {
    cases(None, 4000).expect("rows are right");
}

#[test]
fn mistakes_are_noticed() {
    for bug in [
        Bug::StampIgnored,
        Bug::MissingIsEmpty,
        Bug::PositionFirst,
        Bug::LastEndedUsed,
        Bug::LostEnd,
        Bug::LostExtremeUsed,
    ] {
        cases(Some(bug), 2000).expect_err(&format!("{bug:?} is noticed"));
    }
}
