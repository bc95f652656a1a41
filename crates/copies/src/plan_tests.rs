//! The upkeep of an index as a model: one source, two partitions of the index, a follower that stops after
//! any step and continues from its saved position, to another end.
//!
//! The rules for rows (`RowStamp`) and the order of steps (`steps`) are the product's. Mistakes that the
//! model makes on purpose must be noticed.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use shardlake_document::{Value, partition_key_text};
use shardlake_model::{KeyComponent, PartitionKey, PartitionKeyDefinition};
use shardlake_routing::effective_partition_key;
use shardlake_sql::DerivedRow;

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    PositionFirst,
    LostEnd,
    /// Only the rows that ended with an item's first change of a round.
    FirstEndedOnly,
    /// A write of an earlier attempt arrives after the next steps.
    LateWrite,
    /// Rows end before others are written.
    EndFirst,
    /// Rows go back to earlier versions.
    StampIgnored,
}

#[derive(Debug, Clone)]
enum Act {
    /// One commit: items with their new keys, or deletions. Each item may come several times.
    Commit(Vec<(u8, Option<u8>)>),
    /// A round over so many commits, which stops after so many steps and rows.
    Round { commits: u8, view: u8, stops: Option<u8> },
}

fn act() -> impl Strategy<Value = Act> {
    let one = (0..3u8, prop_oneof![3 => (0..4u8).prop_map(Some), 1 => Just(None)]);
    prop_oneof![
        3 => prop::collection::vec(one, 1..4).prop_map(Act::Commit),
        2 => (1..6u8, 0..4u8, prop::option::weighted(0.6, 0..7u8))
            .prop_map(|(commits, view, stops)| Act::Round { commits, view, stops }),
    ]
}

#[derive(Debug, Clone)]
struct Logged {
    lsn: u64,
    item: u8,
    /// It left a version.
    writes: bool,
    ended: Option<u8>,
}

struct Model {
    bug: Option<Bug>,
    /// Key and LSN of each item.
    items: BTreeMap<u8, (u8, u64)>,
    /// The items after each commit, by LSN.
    views: Vec<BTreeMap<u8, (u8, u64)>>,
    log: Vec<Logged>,
    position: u64,
    /// Rows by key and id, of two partitions: keys are even or odd.
    rows: [BTreeMap<(String, String), RowStamp>; 2],
    late: Vec<CopyRow>,
    wrong: Option<String>,
}

struct First;

impl Generation for First {
    fn generation(&self) -> u16 {
        1
    }

    fn logical(&self, key: PartitionKey) -> LogicalKey {
        let epk = effective_partition_key(&PartitionKeyDefinition::hash("/k"), &key);
        LogicalKey { epk, partition_key: key }
    }
}

fn key(number: u8) -> PartitionKey {
    PartitionKey::single(KeyComponent::String(format!("k{number}")))
}

fn id(item: u8) -> String {
    format!("row of {item}")
}

impl Model {
    fn new(bug: Option<Bug>) -> Model {
        Model {
            bug,
            items: BTreeMap::new(),
            views: vec![BTreeMap::new()],
            log: Vec::new(),
            position: 0,
            rows: Default::default(),
            late: Vec::new(),
            wrong: None,
        }
    }

    fn commit(&mut self, writes: &[(u8, Option<u8>)]) {
        let (lsn, before) = (self.views.len() as u64, self.items.clone());
        for (item, new) in writes {
            match new {
                Some(key) => drop(self.items.insert(*item, (*key, lsn))),
                None => drop(self.items.remove(item)),
            }
        }
        for (item, _) in writes {
            let (old, new) = (before.get(item).map(|old| old.0), self.items.get(item).map(|new| new.0));
            if self.log.iter().any(|logged| logged.lsn == lsn && logged.item == *item) {
                continue;
            }
            // A row that a commit only passes through ends as well: so does the netting of operations.
            let passed = writes.iter().filter(|(other, _)| other == item).count() > 1;
            let ended = old.filter(|old| passed || new != Some(*old));
            if old.is_some() || new.is_some() {
                self.log.push(Logged { lsn, item: *item, writes: new.is_some(), ended });
            }
        }
        self.views.push(self.items.clone());
    }

    /// The changes of a page, as the follower reads them from a view.
    fn changes(&self, after: u64, upto: u64, view: u64) -> Vec<ItemChange> {
        let view = &self.views[view as usize];
        let (mut seen, mut written) = (Vec::new(), Vec::new());
        let page = self.log.iter().filter(|logged| logged.lsn > after && logged.lsn <= upto);
        let change = |logged: &Logged| {
            let is_first = !seen.contains(&logged.item);
            seen.push(logged.item);
            let is_first_write = logged.writes && !written.contains(&logged.item);
            if logged.writes {
                written.push(logged.item);
            }
            let row = |(k, lsn): (u8, u64)| {
                let body = Value::Object(Vec::new()).to_body().expect("a body");
                let row = DerivedRow { number: 0, id: id(logged.item), body };
                (lsn, vec![KeyedRow { key: First.logical(key(k)), row }])
            };
            let counts = self.bug != Some(Bug::FirstEndedOnly) || is_first;
            let ended = logged.ended.filter(|_| counts);
            ItemChange {
                lsn: logged.lsn,
                logical: First.logical(key(100 + logged.item)),
                newest: view.get(&logged.item).copied().filter(|_| is_first_write).map(row),
                ended: ended
                    .map(|k| EndedIndexRow { number: 0, id: id(logged.item), key: key(k) })
                    .into_iter()
                    .collect(),
            }
        };
        page.map(change).collect()
    }

    fn round(&mut self, commits: u8, view: u8, mut stops: Option<u8>) {
        let last = self.views.len() as u64 - 1;
        let upto = (self.position + u64::from(commits)).min(last);
        let view = (upto + u64::from(view)).min(last);
        let mut steps = steps(&First, self.changes(self.position, upto, view), upto);
        match self.bug {
            Some(Bug::PositionFirst) => steps.rotate_right(1),
            Some(Bug::EndFirst) => steps.swap(0, 1),
            _ => {}
        }
        let mut goes_on = move || match &mut stops {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        };
        let late = std::mem::take(&mut self.late);
        for step in steps {
            match step {
                Step::Write(rows) | Step::End(rows) => {
                    for row in rows {
                        if !goes_on() {
                            if self.bug == Some(Bug::LateWrite) {
                                self.late.push(row);
                            }
                            return;
                        }
                        self.apply(&row);
                    }
                }
                Step::Done(upto) => {
                    if !goes_on() {
                        return;
                    }
                    self.position = upto;
                }
            }
        }
        // Writes of an earlier attempt without an answer.
        late.iter().for_each(|row| self.apply(row));
    }

    fn apply(&mut self, row: &CopyRow) {
        let name = (partition_key_text(&row.key.partition_key), row.id.clone());
        let partition = usize::from(name.0.ends_with("1\"]") || name.0.ends_with("3\"]"));
        let rows = &mut self.rows[partition];
        let stored = rows.get(&name).copied();
        let ignores = matches!(self.bug, Some(Bug::StampIgnored | Bug::LateWrite));
        match (&row.body, stored) {
            (None, Some(stored)) => {
                let is_ended = ignores || row.stamp.ends(stored).expect("of one item");
                if is_ended && self.bug != Some(Bug::LostEnd) {
                    rows.remove(&name);
                }
            }
            (Some(_), stored) => {
                let is_newer = stored.is_none_or(|stored| row.stamp.replaces(stored).expect("of one item"));
                if is_newer || ignores {
                    if stored.is_some_and(|stored| stored.lsn > row.stamp.lsn) {
                        self.wrong = Some(format!("{name:?} went back"));
                    }
                    rows.insert(name, row.stamp);
                }
            }
            _ => {}
        }
    }

    /// An item that has existed since the position is at some key.
    fn check_there(&mut self) {
        let since = &self.views[self.position as usize];
        let is_steady = |item: &u8| {
            (self.position as usize..self.views.len()).all(|lsn| self.views[lsn].contains_key(item))
        };
        for item in since.keys().filter(|item| is_steady(item)) {
            if !self.rows.iter().flat_map(BTreeMap::keys).any(|(_, row)| *row == id(*item)) {
                self.wrong = Some(format!("item {item} is at no key"));
            }
        }
    }

    fn run(mut self, acts: &[Act]) -> Result<(), String> {
        for act in acts {
            match act {
                Act::Commit(writes) => self.commit(writes),
                Act::Round { commits, view, stops } => self.round(*commits, *view, *stops),
            }
            self.check_there();
            if let Some(wrong) = self.wrong {
                return Err(wrong);
            }
        }
        self.round(u8::MAX, u8::MAX, None);
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let found: BTreeMap<(String, String), u64> =
            self.rows.iter().flatten().map(|(name, stamp)| (name.clone(), stamp.lsn)).collect();
        let row = |(item, (k, lsn)): (&u8, &(u8, u64))| ((partition_key_text(&key(*k)), id(*item)), *lsn);
        let expected: BTreeMap<_, _> = self.items.iter().map(row).collect();
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
fn an_index_is_its_definition_whenever_its_follower_stops() {
    cases(None, 4000).expect("rows are right");
}

#[test]
fn mistakes_are_noticed() {
    for bug in [
        Bug::PositionFirst,
        Bug::LostEnd,
        Bug::FirstEndedOnly,
        Bug::LateWrite,
        Bug::EndFirst,
        Bug::StampIgnored,
    ] {
        cases(Some(bug), 2000).expect_err(&format!("{bug:?} is noticed"));
    }
}
