//! The row of a group against the group as it was counted.

use shardlake_document::{Body, RawDocument, Value, write_json};
use shardlake_partition::{LogicalKey, RowStamp};
use shardlake_sql::{GROUP_STATE, GroupState, Lost};

use crate::at_work::IndexAtWork;
use crate::groups::StoredRow;
use crate::verification::DifferenceKind;

use super::differences::text_of;

/// A group as the items of a view have it.
pub(super) struct Expected<'g> {
    pub id: &'g str,
    pub source: &'g LogicalKey,
    pub keys: &'g [Value],
    pub state: &'g GroupState,
}

/// Result of a comparison.
#[derive(Debug)]
pub(super) enum Verdict {
    Same,
    /// The group has changed meanwhile, and its row cannot be brought to the view.
    Undecided,
    Different {
        kind: DifferenceKind,
        expected: Option<String>,
        found: Option<String>,
    },
}

impl Expected<'_> {
    /// Whether a row is the group's at the LSN of the view, without a look at the changes in between.
    pub fn is_row(&self, at: &IndexAtWork<'_>, row: &StoredRow, upto: u64) -> bool {
        let Some((keys, state)) = row.state(at) else { return false };
        self.has_stamp(at, row.stamp)
            && row.stamp.lsn <= upto
            && self.is_group(at, &keys, &state)
            && self.body(at, &keys, &state).is_some_and(|body| has_outputs(row, &body))
    }

    /// The verdict on a group without a row. `has_changed`: since the LSN that the index has passed.
    pub fn without_row(&self, at: &IndexAtWork<'_>, has_changed: bool) -> Verdict {
        // A row that cannot be written is counted among the refusals.
        let is_refused = || at.entry.status.live().is_refused(&IndexAtWork::row_name(self.id));
        match self.body(at, self.keys, self.state) {
            Some(_) if has_changed => Verdict::Undecided,
            Some(body) if !is_refused() => different(DifferenceKind::Missing, Some(&body), None),
            _ => Verdict::Same,
        }
    }

    /// The verdict on a stored row. `advance` brings a state from an LSN to that of the view, and returns whether there was a change.
    pub fn with_row(
        &self,
        at: &IndexAtWork<'_>,
        row: &StoredRow,
        upto: u64,
        advance: impl FnOnce(&mut GroupState, u64) -> std::result::Result<bool, Lost>,
    ) -> Verdict {
        let expected = self.body(at, self.keys, self.state);
        let kind = match expected {
            Some(_) => DifferenceKind::Other,
            None => DifferenceKind::TooMany,
        };
        let other = || different(kind, expected.as_ref(), Some(text_of(&row.item)));
        // No row is true at an LSN that is still to come.
        if !self.has_stamp(at, row.stamp) || row.stamp.lsn > upto {
            return other();
        }
        let Some((keys, mut state)) = row.state(at) else { return other() };
        // The outputs are those of the row's own state.
        let body = self.body(at, &keys, &state);
        if body.is_none_or(|body| !has_outputs(row, &body)) {
            return other();
        }
        match advance(&mut state, row.stamp.lsn) {
            Err(Lost) => Verdict::Undecided,
            Ok(has_changed) if self.state.is_empty() && state.is_empty() => match has_changed {
                // The index will end the row.
                true => Verdict::Same,
                false => other(),
            },
            Ok(_) if self.is_group(at, &keys, &state) => Verdict::Same,
            Ok(false) => other(),
            Ok(true) => {
                let found = self.body(at, &keys, &state);
                different(kind, expected.as_ref(), found.as_ref().map(json_of))
            }
        }
    }

    fn has_stamp(&self, at: &IndexAtWork<'_>, stamp: RowStamp) -> bool {
        let (generation, source) = (at.record.generation, RowStamp::source_of(self.source));
        stamp == RowStamp { lsn: stamp.lsn, source, generation, number: 0 }
    }

    fn is_group(&self, at: &IndexAtWork<'_>, keys: &[Value], state: &GroupState) -> bool {
        // As they are stored: keys of a view may have parts that no item can have.
        let stored = |keys| at.rows.derivation().group_row(self.id, keys, state).ok();
        let same = |one: Option<Body>, other: Option<Body>| match (one, other) {
            (Some(one), Some(other)) => one.as_bytes() == other.as_bytes(),
            (one, other) => one.is_none() && other.is_none(),
        };
        self.state.agrees_with(state) && (state.is_empty() || same(stored(keys), stored(self.keys)))
    }

    /// The row of the group with a state; `None` for an empty group, and where no item can have the values.
    fn body(&self, at: &IndexAtWork<'_>, keys: &[Value], state: &GroupState) -> Option<Body> {
        let row = || at.rows.derivation().group_row(self.id, keys, state).ok();
        if state.is_empty() { None } else { row() }
    }
}

fn different(kind: DifferenceKind, expected: Option<&Body>, found: Option<String>) -> Verdict {
    Verdict::Different { kind, expected: expected.map(json_of), found }
}

fn json_of(body: &Body) -> String {
    let mut text = Vec::new();
    write_json(body.raw(), &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Whether a stored row has these outputs. States of the same rows may have other bytes.
fn has_outputs(row: &StoredRow, expected: &Body) -> bool {
    outputs(row.item.body()) == outputs(expected.raw())
}

fn outputs(body: RawDocument<'_>) -> Value {
    let Value::Object(mut members) = Value::from_document(body) else { return Value::Undefined };
    members.retain(|(name, _)| name != GROUP_STATE);
    Value::Object(members)
}
