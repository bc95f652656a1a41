//! Possible states of the account, given the operations of one client on its own part.
//!
//! A client knows of each operation whether it was answered, or is *pending*: the client hung up or
//! the server was killed first. A pending operation may take effect at any later moment, once or
//! never. The oracle therefore keeps every possible *world*, a state with the operations that are
//! still pending in it. Each answer removes the worlds in which it could not have been given; after
//! a restart exactly one of the remaining worlds must equal the stored state.
//!
//! ```text
//! create a → 201      {a}
//! delete a  hung up   {a, pending delete}
//! read a   → gone     {}                        the delete has taken effect
//! create a → 201      {a}
//! restart             stored must be {a}: the delete cannot happen twice
//! ```

use crate::model::{Operation, Question, Seen, State};
use std::collections::{BTreeMap, BTreeSet};

/// A client with more pending operations than this, as one whose server answers 503 again and again, waits for the next
/// restart.
const PENDING_MAX: usize = 3;
/// A client that sees more possible worlds does nothing more before the next restart.
const WORLDS_MAX: usize = 400;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    state: State,
    /// Numbers of the operations that may still take effect, ascending.
    pending: Vec<u64>,
}

#[derive(Debug)]
pub struct Worlds {
    worlds: Vec<World>,
    operations: BTreeMap<u64, Operation>,
    next_number: u64,
}

/// An answer or a stored state that no world explains.
#[derive(Debug)]
pub struct Contradiction {
    pub message: String,
    /// The possible state that is most like the observed one.
    pub nearest: State,
}

impl Worlds {
    pub fn new(state: State) -> Worlds {
        let worlds = vec![World { state, pending: Vec::new() }];
        Worlds { worlds, operations: BTreeMap::new(), next_number: 0 }
    }

    /// One of the possible states, to choose the next operation by.
    pub fn believed(&self) -> &State {
        &self.worlds[0].state
    }

    pub fn pending(&self) -> usize {
        self.worlds.iter().map(|world| world.pending.len()).max().unwrap_or(0)
    }

    pub fn may_have_more_pending(&self) -> bool {
        self.pending() < PENDING_MAX && !self.is_full()
    }

    /// Whether its client does nothing more before the next restart: orders of many more operations take hours to follow.
    pub fn has_too_many_pending(&self) -> bool {
        self.pending() > PENDING_MAX
    }

    pub fn is_full(&self) -> bool {
        self.worlds.len() > WORLDS_MAX
    }

    /// The server answered with this status.
    pub fn answered(&mut self, operation: &Operation, status: u16) -> Result<(), Contradiction> {
        if let [World { state, pending }] = &mut *self.worlds
            && pending.is_empty()
        {
            let expected = state.apply(operation);
            return if is_the_same(expected, status) {
                Ok(())
            } else {
                let message = format!("{operation:?} was answered with {status}, not with {expected}");
                Err(Contradiction { message, nearest: state.clone() })
            };
        }
        let mut expected = BTreeSet::new();
        let after = self.reachable().into_iter().filter_map(|mut world| {
            let answer = world.state.apply(operation);
            expected.insert(answer);
            is_the_same(answer, status).then_some(world)
        });
        let after: Vec<World> = after.collect();
        self.keep(after, || {
            format!("{operation:?} was answered with {status}, only {expected:?} were possible")
        })
    }

    /// The operation was sent and its answer was not received.
    pub fn unanswered(&mut self, operation: Operation) {
        let number = self.next_number;
        self.next_number += 1;
        self.operations.insert(number, operation);
        self.worlds.iter_mut().for_each(|world| world.pending.push(number));
    }

    pub fn seen(&mut self, question: &Question, seen: &Seen) -> Result<(), Contradiction> {
        let mut expected = Vec::new();
        let after = self.reachable().into_iter().filter(|world| {
            let answer = world.state.look(question);
            let is_possible = answer == *seen;
            expected.push(answer);
            is_possible
        });
        let after: Vec<World> = after.collect();
        expected.dedup();
        self.keep(after, || format!("{question:?} showed {seen:?}, only {expected:?} were possible"))
    }

    /// After a restart nothing is pending any more: the stored state is the truth, if it was
    /// possible. Returns how many pending operations took effect; where several numbers explain
    /// the stored state, the smallest.
    pub fn settle(&mut self, stored: &State) -> Result<usize, Contradiction> {
        let before = self.pending();
        let reachable = self.reachable();
        let explained =
            reachable.iter().filter(|world| world.state == *stored).map(|world| world.pending.len()).max();
        let contradiction = || {
            let nearest = reachable.iter().min_by_key(|world| distance(&world.state, stored));
            let pending: Vec<_> = self.operations.values().collect();
            Contradiction {
                message: format!("what is stored was not possible; pending were {pending:?}"),
                nearest: nearest.expect("a world is always left").state.clone(),
            }
        };
        let result = explained.map(|left| before.saturating_sub(left)).ok_or_else(contradiction);
        *self = Worlds { next_number: self.next_number, ..Worlds::new(stored.clone()) };
        result
    }

    /// Operations that may still take effect.
    pub fn pending_operations(&self) -> impl Iterator<Item = &Operation> {
        self.operations.values()
    }

    /// Every world that pending operations, in any order, may have made of the present ones.
    fn reachable(&self) -> BTreeSet<World> {
        let mut found: BTreeSet<World> = self.worlds.iter().cloned().collect();
        let mut unvisited: Vec<World> = self.worlds.clone();
        while let Some(world) = unvisited.pop() {
            for index in 0..world.pending.len() {
                let mut next = world.clone();
                let number = next.pending.remove(index);
                next.state.apply(&self.operations[&number]);
                if found.insert(next.clone()) {
                    unvisited.push(next);
                }
            }
        }
        found
    }

    fn keep(&mut self, after: Vec<World>, message: impl FnOnce() -> String) -> Result<(), Contradiction> {
        if after.is_empty() {
            let nearest = self.worlds[0].state.clone();
            let pending: Vec<_> = self.operations.values().collect();
            return Err(Contradiction {
                message: format!("{}; pending were {pending:?}", message()),
                nearest,
            });
        }
        self.worlds = without_dominated(after);
        let worlds = &self.worlds;
        self.operations.retain(|number, _| worlds.iter().any(|world| world.pending.contains(number)));
        Ok(())
    }
}

/// Removes each world that differs from another one only in having fewer pending operations: the
/// other one allows every state that it allows.
fn without_dominated(worlds: Vec<World>) -> Vec<World> {
    let mut kept: Vec<World> = Vec::new();
    for world in worlds {
        let covers = |a: &World, b: &World| {
            a.state == b.state && b.pending.iter().all(|number| a.pending.contains(number))
        };
        if !kept.iter().any(|other| covers(other, &world)) {
            kept.retain(|other| !covers(&world, other));
            kept.push(world);
        }
    }
    kept
}

/// A batch may be refused as a whole or in a part.
fn is_the_same(expected: u16, status: u16) -> bool {
    expected == status || (expected == 207 && (400..=409).contains(&status))
}

fn distance(a: &State, b: &State) -> usize {
    crate::difference::differences(a, b).len()
}
