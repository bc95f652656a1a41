//! Names of the rows of a unique index: in each view the least row of a key has the key's name, and every other one its own.

use shardlake_partition::{LogicalKey, Rank, StoredItem, duplicate_id, key_name, logical_name};

use super::differences::{note, text_of, wrong_name};
use crate::at_work::IndexAtWork;

/// The rows of the key at hand. A chunk of a view cuts no key.
#[derive(Default)]
pub(super) struct Names {
    key: Option<(Vec<u8>, LogicalKey)>,
    /// The least row, with the id that it has.
    least: Option<(Rank, String)>,
    /// The row with the name of the key.
    holder: Option<Rank>,
}

impl Names {
    pub fn add(&mut self, at: &IndexAtWork<'_>, (key, id): (&LogicalKey, &str), row: &StoredItem) {
        let bytes = logical_name(key);
        if self.key.as_ref().is_none_or(|(known, _)| *known != bytes) {
            self.end(at);
            self.key = Some((bytes, key.clone()));
        }
        let Some(rank) = Rank::of(row.body()) else {
            return note(
                at,
                wrong_name(key, id, "a row of a unique index has `_id` and `_row`", text_of(row)),
            );
        };
        let Some(name) = key_name(&key.partition_key) else {
            if id != rank.row {
                note(at, wrong_name(key, id, &rank.row, text_of(row)));
            }
            return;
        };
        if id == name {
            self.holder = Some(rank.clone());
        } else if id != duplicate_id(&name, &rank.row) {
            note(at, wrong_name(key, id, &duplicate_id(&name, &rank.row), text_of(row)));
        }
        if self.least.as_ref().is_none_or(|(least, _)| rank < *least) {
            self.least = Some((rank, id.to_owned()));
        }
    }

    /// The last key has no more rows.
    pub fn end(&mut self, at: &IndexAtWork<'_>) {
        let (key, least, holder) = (self.key.take(), self.least.take(), self.holder.take());
        let (Some((_, key)), Some((least, id))) = (key, least) else { return };
        let Some(name) = key_name(&key.partition_key) else { return };
        if holder.as_ref() != Some(&least) {
            let found = holder.map_or_else(String::new, |holder| holder.row);
            note(at, wrong_name(&key, &id, &name, format!("\"held by {found}\"")));
        }
    }
}
