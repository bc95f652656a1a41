//! The search for an order that explains a history (Wing and Gong, with Lowe's memory of configurations).
//!
//! A configuration is the set of operations that have taken effect, and the items at that point. From there,
//! the next operation can be any that was requested before the first answer still outstanding, if it can give
//! its own answer. The search is depth-first, in the order of the answers, assumes of as few unanswered
//! operations as it can that they happened, and never enters a configuration twice. It is exponential only in
//! the number of operations that are open at one time, and a bound on the configurations ends it with
//! [`Verdict::Undecided`] where that is too many.
//!
//! Logical partitions are independent of each other, and so are the items of one in which no
//! operation touches two: a history is explained when each of these is. An operation that changes
//! nothing and could take effect now takes effect now, since a later effect would allow no other
//! order. Operations without an answer may take effect at any time after their request, or never.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use crate::history::model::{Action, Item, Reply, SeenItem};
use crate::history::record::Call;

/// Configurations of one part of a history before the search gives up.
const CONFIGURATIONS_MAX: usize = 200_000;
/// Calls that a report shows.
const CALLS_SHOWN_MAX: usize = 12;

/// Result of the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order. The number of calls that it puts in order.
    Possible { calls: usize },
    /// There is none: a description of the calls that the longest orders found cannot continue with.
    Impossible { report: String },
    /// The search was given up: a description of its progress.
    Undecided { report: String },
}

impl Verdict {
    pub fn is_possible(&self) -> bool {
        matches!(self, Verdict::Possible { .. })
    }
}

/// Checks every logical partition of a history that began with no items.
pub fn check(calls: &[Call]) -> Verdict {
    check_with_bound(calls, CONFIGURATIONS_MAX)
}

pub fn check_with_bound(calls: &[Call], configurations_max: usize) -> Verdict {
    let mut undecided = None;
    for part in parts(calls) {
        match Search::new(&part).run(configurations_max) {
            Verdict::Possible { .. } => {}
            Verdict::Undecided { report } => undecided = Some(report),
            impossible => return impossible,
        }
    }
    undecided.map_or(Verdict::Possible { calls: calls.len() }, |report| Verdict::Undecided { report })
}

/// The independent parts: whole logical partitions, or their items where no call touches two.
fn parts(calls: &[Call]) -> Vec<Vec<&Call>> {
    let mut by_logical: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in calls {
        by_logical.entry(&call.logical).or_default().push(call);
    }
    let mut parts = Vec::new();
    for calls in by_logical.into_values() {
        if calls.iter().any(|call| call.actions.len() != 1) {
            parts.push(calls);
            continue;
        }
        let mut by_item: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
        for call in calls {
            by_item.entry(&call.actions[0].0).or_default().push(call);
        }
        parts.extend(by_item.into_values());
    }
    parts
}

type Items = Vec<Option<Item>>;

/// The calls before `done_before` and those listed have taken effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Configuration {
    done_before: usize,
    done_beyond: Vec<u32>,
    /// Those of the calls without an answer that have taken effect.
    done_perhaps: Vec<u32>,
    items: Items,
}

struct Search<'a> {
    ids: Vec<&'a str>,
    /// By question.
    answered: Vec<&'a Call>,
    unanswered: Vec<&'a Call>,
}

impl<'a> Search<'a> {
    fn new(calls: &[&'a Call]) -> Search<'a> {
        let seen = |call: &&'a Call| match &call.reply {
            Reply::Snapshot(items) => items.iter().map(|item| &item.id[..]).collect(),
            _ => Vec::new(),
        };
        let mut ids: Vec<&str> =
            calls.iter().flat_map(|call| call.actions.iter().map(|(id, _)| &id[..])).collect();
        ids.extend(calls.iter().flat_map(seen));
        ids.sort_unstable();
        ids.dedup();
        let of = |wanted: fn(&Call) -> bool| {
            let mut calls: Vec<&Call> = calls.iter().copied().filter(|call| wanted(call)).collect();
            calls.sort_by_key(|call| call.asked);
            calls
        };
        Search {
            ids,
            answered: of(|call| !matches!(call.reply, Reply::Unknown | Reply::Refused)),
            unanswered: of(|call| {
                call.reply == Reply::Unknown && call.actions.iter().any(|(_, action)| action.writes())
            }),
        }
    }

    fn run(&self, configurations_max: usize) -> Verdict {
        let start = Configuration {
            done_before: 0,
            done_beyond: Vec::new(),
            done_perhaps: Vec::new(),
            items: vec![None; self.ids.len()],
        };
        let mut known = HashSet::from([start.clone()]);
        let mut furthest = start.clone();
        // By the number of unanswered calls that are supposed to have happened: the fewer, the sooner.
        let mut open = vec![vec![start]];
        while let Some(configuration) = open.iter_mut().find_map(Vec::pop) {
            if configuration.done_before == self.answered.len() {
                return Verdict::Possible { calls: self.answered.len() };
            }
            if known.len() > configurations_max {
                return Verdict::Undecided { report: self.report(&furthest) };
            }
            if configuration.done() > furthest.done() {
                furthest = configuration.clone();
            }
            for next in self.successors(&configuration) {
                if known.insert(next.clone()) {
                    let supposed = next.done_perhaps.len();
                    if open.len() <= supposed {
                        open.push(Vec::new());
                    }
                    open[supposed].push(next);
                }
            }
        }
        Verdict::Impossible { report: self.report(&furthest) }
    }

    /// Most promising last.
    fn successors(&self, from: &Configuration) -> Vec<Configuration> {
        let (mut candidates, horizon) = self.candidates(from);
        candidates.sort_by_key(|at| std::cmp::Reverse(self.answered[*at].answered));
        let mut next = Vec::new();
        for (at, call) in self.unanswered.iter().enumerate() {
            if call.asked >= horizon || from.done_perhaps.contains(&(at as u32)) {
                continue;
            }
            if let Some(items) = self.happen_unseen(call, &from.items).filter(|items| *items != from.items) {
                next.push(from.with_perhaps(at as u32, items));
            }
        }
        for at in candidates {
            let Some(items) = self.happen(self.answered[at], &from.items) else { continue };
            let after = from.with(at, items);
            if after.items == from.items {
                return vec![after];
            }
            next.push(after);
        }
        next
    }

    /// The answered calls that may be next, and the first answer still outstanding.
    fn candidates(&self, from: &Configuration) -> (Vec<usize>, u64) {
        let mut horizon = u64::MAX;
        let mut candidates = Vec::new();
        for (at, call) in self.answered.iter().enumerate().skip(from.done_before) {
            if call.asked > horizon {
                break;
            }
            if !from.done_beyond.contains(&(at as u32)) {
                horizon = horizon.min(call.answered);
                candidates.push(at);
            }
        }
        candidates.retain(|at| self.answered[*at].asked < horizon);
        (candidates, horizon)
    }

    fn slot(&self, id: &str) -> usize {
        self.ids.binary_search(&id).expect("every id of the part is listed")
    }

    /// The items after the call, if it can have had its answer here.
    fn happen(&self, call: &Call, items: &Items) -> Option<Items> {
        match &call.reply {
            Reply::Done(answers) if answers.len() == call.actions.len() => {
                let mut items = items.clone();
                for ((id, action), answer) in call.actions.iter().zip(answers) {
                    let slot = self.slot(id);
                    items[slot] = action.succeed(items[slot], Some(answer))?;
                }
                Some(items)
            }
            Reply::Failed { index, failure } => {
                let mut before = items.clone();
                let ((id, failed), earlier) = call.actions.get(..=*index)?.split_last()?;
                self.apply(earlier, &mut before)?;
                failed.may_fail(before[self.slot(id)], *failure).then(|| items.clone())
            }
            Reply::Snapshot(seen) => self.look(seen, items),
            Reply::Done(_) | Reply::Refused | Reply::Unknown => None,
        }
    }

    fn happen_unseen(&self, call: &Call, items: &Items) -> Option<Items> {
        let mut items = items.clone();
        self.apply(&call.actions, &mut items)?;
        Some(items)
    }

    fn apply(&self, actions: &[(String, Action)], items: &mut Items) -> Option<()> {
        for (id, action) in actions {
            let slot = self.slot(id);
            items[slot] = action.succeed(items[slot], None)?;
        }
        Some(())
    }

    fn look(&self, seen: &[SeenItem], items: &Items) -> Option<Items> {
        let mut after = vec![None; items.len()];
        for SeenItem { id, value, etag } in seen {
            let slot = self.slot(id);
            let item = items[slot]?;
            let fits = item.value == *value && item.etag.is_none_or(|own| own == *etag);
            // An item that is seen twice does not fit either.
            if !fits || after[slot].is_some() {
                return None;
            }
            after[slot] = Some(Item { value: *value, etag: Some(*etag) });
        }
        let missed = items.iter().zip(&after).any(|(item, seen)| item.is_some() != seen.is_some());
        (!missed).then_some(after)
    }

    fn report(&self, furthest: &Configuration) -> String {
        let (candidates, _) = self.candidates(furthest);
        let first = self.answered.first();
        let mut text = format!(
            "no order explains logical partition {:?}: {} of {} calls fit (and {} have no answer), then the items are\n",
            first.map(|call| &call.logical),
            furthest.done(),
            self.answered.len(),
            self.unanswered.len()
        );
        for (id, item) in self.ids.iter().zip(&furthest.items) {
            let _ = writeln!(text, "  {id}: {item:?}");
        }
        let before = furthest.done_before.saturating_sub(CALLS_SHOWN_MAX);
        let _ = writeln!(text, "and none of the calls marked > can be next:");
        let shown = before..(furthest.done_before + CALLS_SHOWN_MAX).min(self.answered.len());
        for at in shown {
            let mark = if candidates.contains(&at) { '>' } else { ' ' };
            let Call { client, actions, asked, answered, reply, .. } = self.answered[at];
            let _ = writeln!(text, "{mark} {asked}..{answered} client {client}: {actions:?} = {reply:?}");
        }
        for Call { client, actions, asked, .. } in &self.unanswered {
            let _ = writeln!(text, "? {asked}.. client {client}: {actions:?}");
        }
        text
    }
}

impl Configuration {
    fn done(&self) -> usize {
        self.done_before + self.done_beyond.len()
    }

    fn with(&self, at: usize, items: Items) -> Configuration {
        let mut next = Configuration { items, ..self.clone() };
        let place = next.done_beyond.partition_point(|other| (*other as usize) < at);
        next.done_beyond.insert(place, at as u32);
        // Calls that have become contiguous move into the prefix.
        let run = (next.done_before..).zip(&next.done_beyond);
        let contiguous = run.take_while(|(expected, at)| *expected == **at as usize).count();
        next.done_beyond.drain(..contiguous);
        next.done_before += contiguous;
        next
    }

    fn with_perhaps(&self, at: u32, items: Items) -> Configuration {
        let mut next = Configuration { items, ..self.clone() };
        let place = next.done_perhaps.partition_point(|other| *other < at);
        next.done_perhaps.insert(place, at);
        next
    }
}
