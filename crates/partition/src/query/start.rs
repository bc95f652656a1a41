//! Where a walk in the order of an index begins, when rows before it are not wanted.

use std::ops::Range;

use shardlake_document::{Value, encode_index_value};
use shardlake_sql::{Alike, IndexRef, OrderAccess, ResumeFilter, ValueRange};

use super::reader::Reader;
use crate::keys;

/// Where the rows that are to come begin, in the order of a query.
pub(super) struct Start {
    /// Keys of the first items, as far as known: each a value, or with true the start of a string.
    keys: Vec<(Value, bool)>,
    alike: Alike,
}

impl Start {
    /// `state`: the first sort key of the last row that is out, which others may have as well.
    pub fn all(filter: Option<&ResumeFilter>, state: Option<(Value, bool)>) -> Vec<Start> {
        let of_filter = filter.map(|filter| Start { keys: filter.keys(), alike: filter.alike() });
        let of_state = state.map(|key| Start { keys: vec![key], alike: Alike::All });
        of_filter.into_iter().chain(of_state).collect()
    }

    /// How the entries begin that the order has at the keys, and whether that is all that they hold before the ordinal.
    fn entry(&self, reader: &Reader<'_>, order: &OrderAccess) -> (Vec<u8>, bool) {
        let members = match (&order.index, &reader.layout) {
            (IndexRef::Composite(number), Some(layout)) => {
                layout.composites[*number].members.get(order.members_behind..).unwrap_or_default()
            }
            _ => &[],
        };
        let mut entry = order.behind.clone();
        for (number, (value, is_start)) in self.keys.iter().enumerate() {
            let start = entry.len();
            let is_whole = encode_index_value(value, &mut entry);
            if *is_start && is_whole {
                entry.pop();
            }
            if members.get(number).is_some_and(|member| member.inverted) {
                entry[start..].iter_mut().for_each(|byte| *byte = !*byte);
            }
            if *is_start || !is_whole {
                return (entry, false);
            }
        }
        let is_whole = members.len() <= self.keys.len();
        (entry, is_whole)
    }

    /// Those of the items without the property that are to come.
    pub fn undefined(&self, order: &OrderAccess, ordinals: Range<u64>) -> Range<u64> {
        let is_at = matches!(&self.keys[..], [(value, _)] if value.is_undefined());
        match (is_at, self.alike, order.reverse) {
            (false, _, true) | (true, Alike::All, _) => ordinals,
            (false, _, false) | (true, Alike::None, _) => 0..0,
            (true, Alike::FromItem(first), false) => ordinals.start.max(first)..ordinals.end,
            (true, Alike::FromItem(first), true) => ordinals.start..ordinals.end.min(first.saturating_add(1)),
        }
    }
}

/// The rest of the walk when rows before some keys are not wanted: there is no use in walking over those.
pub(super) fn narrowed(reader: &Reader<'_>, order: &OrderAccess, starts: &[Start]) -> OrderAccess {
    let mut order = order.clone();
    for start in starts {
        let (mut entry, is_whole) = start.entry(reader, &order);
        let mut passes_over_alike = false;
        match start.alike {
            Alike::FromItem(ordinal) if is_whole => entry.extend_from_slice(&ordinal.to_be_bytes()),
            Alike::None => passes_over_alike = is_whole,
            Alike::FromItem(_) | Alike::All => {}
        }
        let mut range = order.range.take().unwrap_or_else(whole_index);
        match (order.reverse, passes_over_alike) {
            (false, false) => range.start = range.start.max(entry),
            (false, true) => range.start = range.start.max(keys::after_prefix(&entry)),
            (true, false) => range.end = range.end.min(keys::after_prefix(&entry)),
            (true, true) => range.end = range.end.min(entry),
        }
        order.range = Some(range);
    }
    order
}

fn whole_index() -> ValueRange {
    ValueRange { start: vec![], end: vec![0xFF; 3] }
}
