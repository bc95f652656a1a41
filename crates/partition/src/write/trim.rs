//! Keeps logical partitions within the bounds of their container: items that a create adds beyond
//! the bounds replace the oldest items, in the same commit.
//!
//! A create that would have to remove very many items is preceded by commits that only remove, each
//! a bounded number of items that the create needs removed in any case (`reclaim.rs`). The same
//! commits bring a logical partition within new bounds.

use shardlake_model::{Bounds, Error, ErrorKind};
use shardlake_routing::LogicalKey;
use shardlake_stdx::Timestamp;

use super::transaction::{ItemName, Transaction};
use crate::item::rendered_size;
use crate::keys;
use crate::log::entry::ChangeKind;
use crate::oldest::Placed;
use crate::read_set::{Plan, Stop};
use crate::shape::ContainerSchema;
use crate::sizes::LogicalSize;

/// Items that one commit removes.
const REMOVED_MAX: usize = 2048;
/// Index rows of a commit that only removes.
const POSTINGS_MAX: usize = 8192;
/// Items that are asked for at a time where the engine does not have them at hand.
const AHEAD_MAX: usize = 256;

/// Why items are refused that are more than the bounds of their logical partition allow.
pub const BEYOND_BOUNDS: &str = "the items are more than the container keeps";

fn is_within(bounds: Bounds, size: LogicalSize, shape: &ContainerSchema, now: Timestamp) -> bool {
    let added = rendered_size(0, shape, now.seconds()) as u64;
    bounds.allow(size.items, size.size_bytes.saturating_sub(size.items * added))
}

/// Items removed from a logical partition.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Trimmed {
    pub charge_centi: u64,
    pub items: usize,
    /// Nothing more has to go.
    pub is_within: bool,
}

impl Transaction<'_> {
    /// Removes the oldest items until the logical partition has room for items of such a size, besides those that the
    /// transaction has written; a bounded number.
    pub fn trim(&mut self, logical: &LogicalKey, room_for: LogicalSize) -> Plan<Trimmed> {
        let Some(bounds) = self.input.shape.bounds else {
            return Ok(Trimmed { is_within: true, ..Trimmed::default() });
        };
        let mut trimmed = Trimmed::default();
        let fits = |size: LogicalSize, shape: &ContainerSchema, now| {
            let size = LogicalSize {
                items: size.items + room_for.items,
                size_bytes: size.size_bytes + room_for.size_bytes,
            };
            is_within(bounds, size, shape, now)
        };
        if fits(self.size_now(logical)?, self.input.shape, self.input.now) {
            return Ok(Trimmed { is_within: true, ..trimmed });
        }
        if !fits(LogicalSize::default(), self.input.shape, self.input.now) {
            return Err(Error::new(ErrorKind::TooLarge, BEYOND_BOUNDS).into());
        }
        let prefix = keys::logical_prefix(self.input.origin.uid, logical);
        let Some(oldest) = self.input.oldest.filter(|oldest| oldest.is_of(&prefix)) else {
            return Err(Stop::Oldest(prefix));
        };
        let (items, has_gap) = oldest.items();
        let items: Vec<Placed> = items.take(REMOVED_MAX + 1).cloned().collect();
        // With small items, a few replace each new one.
        let ahead =
            if self.input.switches.is_clients { (4 * self.created()).clamp(8, AHEAD_MAX) } else { AHEAD_MAX };
        for (place, placed) in items.iter().enumerate() {
            let is_much =
                trimmed.items > 0 && !self.input.switches.is_clients && self.postings() >= POSTINGS_MAX;
            if trimmed.items == REMOVED_MAX || is_much {
                return Ok(trimmed);
            }
            if place % ahead == 0 {
                self.want(items[place..].iter().take(ahead))?;
            }
            let Some(item) = self.item(&placed.key)?.filter(|item| item.envelope().ordinal == placed.ordinal)
            else {
                // The transaction has removed it itself.
                continue;
            };
            let (_, id) =
                keys::parse_item_key(&placed.key[keys::HEADER..]).ok_or_else(crate::malformed_key)?;
            let name = ItemName { logical, id, key: placed.key.clone() };
            self.set_trimming(true);
            let removed = self.end_charged(&name, item, ChangeKind::Delete);
            self.set_trimming(false);
            trimmed.charge_centi += removed?;
            trimmed.items += 1;
            if fits(self.size_now(logical)?, self.input.shape, self.input.now) {
                return Ok(Trimmed { is_within: true, ..trimmed });
            }
        }
        match has_gap {
            true => Err(Stop::Oldest(prefix)),
            false => Err(Error::new(ErrorKind::TooLarge, BEYOND_BOUNDS).into()),
        }
    }

    /// Asks for items in one go, where the engine does not have them at hand.
    fn want<'p>(&self, items: impl Iterator<Item = &'p Placed>) -> Plan<()> {
        let mut wanted = Vec::new();
        for placed in items {
            match self.get(&placed.key) {
                Ok(_) => {}
                Err(Stop::Wanted(keys)) => wanted.extend(keys),
                Err(stop) => return Err(stop),
            }
        }
        if wanted.is_empty() { Ok(()) } else { Err(Stop::Wanted(wanted)) }
    }

    /// Makes room for the items that the transaction has created. Gives the charge of removing others.
    pub fn keep_within_bounds(&mut self, logical: &LogicalKey) -> Plan<u64> {
        if self.input.shape.bounds.is_none() || self.created() == 0 {
            return Ok(0);
        }
        let trimmed = self.trim(logical, LogicalSize::default())?;
        match trimmed.is_within {
            true => Ok(trimmed.charge_centi),
            false => {
                let words = "the items take the place of more others than one commit removes: retry";
                Err(Error::new(ErrorKind::LogicalPartitionFull, words).into())
            }
        }
    }
}
