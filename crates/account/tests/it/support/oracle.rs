//! Allowed results of a crash, given the requested writes.
//!
//! The oracle knows every write's effect and the result that its client got. After a restart the items of a
//! logical partition must result from *all* acknowledged writes, *any* of the writes without an answer, and
//! *no* refused write, in the order of the requests. The writes of one logical partition come from one
//! client, which makes one request at a time and may abandon it; so that order is the only one.

use std::collections::{BTreeMap, BTreeSet};

use super::everything::Items;

/// The items of one logical partition.
type State = BTreeMap<String, u64>;

/// Effects of one write, all or nothing: a value or a deletion by id.
pub type Effects = Vec<(String, Option<u64>)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// No answer yet; or the client has disconnected, or the server failed.
    Nothing,
    Acknowledged,
    Refused,
}

#[derive(Debug)]
struct Write {
    effects: Effects,
    told: Told,
}

#[derive(Debug, Default)]
pub struct Oracle {
    writes: BTreeMap<String, Vec<Write>>,
}

/// A write that was asked for.
#[derive(Debug)]
#[must_use = "a write without an answer may or may not have happened"]
pub struct Asked {
    pk: String,
    place: usize,
}

impl Oracle {
    /// Before the write is sent.
    pub fn asks(&mut self, pk: &str, effects: Effects) -> Asked {
        let writes = self.writes.entry(pk.to_owned()).or_default();
        writes.push(Write { effects, told: Told::Nothing });
        Asked { pk: pk.to_owned(), place: writes.len() - 1 }
    }

    pub fn acknowledged(&mut self, asked: &Asked) {
        self.note(asked, Told::Acknowledged);
    }

    /// The answer was a refusal: nothing was changed.
    pub fn refused(&mut self, asked: &Asked) {
        self.note(asked, Told::Refused);
    }

    fn note(&mut self, asked: &Asked, told: Told) {
        let write = &mut self.writes.get_mut(&asked.pk).expect("asked for")[asked.place];
        assert_eq!(write.told, Told::Nothing, "a write has one answer");
        write.told = told;
    }

    pub fn acknowledged_writes(&self) -> usize {
        let all = self.writes.values().flatten();
        all.filter(|write| write.told == Told::Acknowledged).count()
    }

    /// Description of the items that no possible history has left; empty if all is well.
    pub fn check(&self, stored: &Items) -> Result<(), String> {
        let mut found: BTreeMap<&str, State> = BTreeMap::new();
        for ((pk, id), value) in stored {
            found.entry(pk).or_default().insert(id.clone(), *value);
        }
        for (pk, writes) in &self.writes {
            let found = found.remove(&pk[..]).unwrap_or_default();
            let possible = possible_states(writes);
            if !possible.contains(&found) {
                return Err(format!("{pk} holds {found:?}, but only {possible:?} can be of {writes:?}"));
            }
        }
        match found.first_key_value() {
            Some((pk, state)) => Err(format!("{pk} holds {state:?}, which nobody wrote")),
            None => Ok(()),
        }
    }
}

fn possible_states(writes: &[Write]) -> BTreeSet<State> {
    let mut states = BTreeSet::from([State::new()]);
    for write in writes {
        let after = |before: &State| {
            let mut state = before.clone();
            for (id, value) in &write.effects {
                match value {
                    Some(value) => drop(state.insert(id.clone(), *value)),
                    None => drop(state.remove(id)),
                }
            }
            state
        };
        match write.told {
            Told::Acknowledged => states = states.iter().map(after).collect(),
            Told::Refused => {}
            Told::Nothing => states.extend(states.iter().map(after).collect::<Vec<_>>()),
        }
    }
    states
}

/// Histories that the oracle must distinguish.
mod tests {
    use super::*;

    fn put(id: &str, value: u64) -> Effects {
        vec![(id.to_owned(), Some(value))]
    }

    fn deletion(id: &str) -> Effects {
        vec![(id.to_owned(), None)]
    }

    fn twins(value: u64) -> Effects {
        [put("left", value), put("right", value)].concat()
    }

    fn oracle(history: Vec<(Effects, Told)>) -> Oracle {
        let mut oracle = Oracle::default();
        for (effects, told) in history {
            let asked = oracle.asks("a", effects);
            if told != Told::Nothing {
                oracle.note(&asked, told);
            }
        }
        oracle
    }

    fn stored(items: &[(&str, u64)]) -> Items {
        items.iter().map(|(id, value)| (("a".to_owned(), (*id).to_owned()), *value)).collect()
    }

    use Told::{Acknowledged, Nothing, Refused};

    #[test]
    fn a_lost_create_is_refused() {
        let oracle = oracle(vec![(put("1", 1), Acknowledged)]);
        oracle.check(&stored(&[])).expect_err("it was acknowledged");
        oracle.check(&stored(&[("1", 1)])).expect("as acknowledged");
    }

    #[test]
    fn a_resurrected_delete_is_refused() {
        let oracle = oracle(vec![(put("1", 1), Acknowledged), (deletion("1"), Acknowledged)]);
        oracle.check(&stored(&[("1", 1)])).expect_err("its deletion was acknowledged");
        oracle.check(&stored(&[])).expect("as acknowledged");
    }

    #[test]
    fn a_stale_version_is_refused() {
        let oracle = oracle(vec![(put("1", 1), Acknowledged), (put("1", 2), Acknowledged)]);
        oracle.check(&stored(&[("1", 1)])).expect_err("the second version was acknowledged");
        oracle.check(&stored(&[("1", 2)])).expect("as acknowledged");
    }

    #[test]
    fn a_torn_batch_is_refused_whatever_its_client_was_told() {
        for told in [Acknowledged, Nothing] {
            let oracle = oracle(vec![(twins(1), Acknowledged), (twins(2), told)]);
            oracle.check(&stored(&[("left", 2), ("right", 1)])).expect_err("half a batch");
            oracle.check(&stored(&[("left", 2)])).expect_err("half a batch");
            oracle.check(&stored(&[("left", 2), ("right", 2)])).expect("all of it");
        }
    }

    #[test]
    fn a_refused_write_that_is_there_is_refused() {
        let oracle = oracle(vec![(put("1", 1), Acknowledged), (put("1", 2), Refused)]);
        oracle.check(&stored(&[("1", 2)])).expect_err("it was refused");
        oracle.check(&stored(&[("1", 1)])).expect("as acknowledged");
    }

    #[test]
    fn an_item_that_nobody_wrote_is_refused() {
        let items = Items::from([(("b".to_owned(), "1".to_owned()), 1)]);
        oracle(vec![]).check(&items).expect_err("nobody wrote it");
    }

    #[test]
    fn writes_without_an_answer_may_have_happened_in_their_order() {
        let oracle =
            oracle(vec![(put("1", 1), Acknowledged), (put("1", 2), Nothing), (deletion("1"), Nothing)]);
        for possible in [&[("1", 1)][..], &[("1", 2)], &[]] {
            oracle.check(&stored(possible)).expect("possible");
        }
        oracle.check(&stored(&[("1", 3)])).expect_err("nobody wrote that");
    }

    #[test]
    fn an_acknowledged_write_hides_the_ones_before_it() {
        let oracle = oracle(vec![(put("1", 1), Nothing), (put("1", 2), Acknowledged)]);
        oracle.check(&stored(&[("1", 1)])).expect_err("the later one was acknowledged");
        oracle.check(&stored(&[("1", 2)])).expect("as acknowledged");
    }
}
