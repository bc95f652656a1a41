//! Unique values within a transaction: the item of a logical partition that has them, and the item
//! that gets them.

use bytes::Bytes;
use shardlake_document::{Misfit, UNIQUE_COMBINATIONS_MAX};
use shardlake_model::{Error, ErrorKind};
use shardlake_routing::LogicalKey;

use super::transaction::{Claim, Transaction};
use crate::item::StoredItem;
use crate::keys;
use crate::read_set::{Plan, Stop};
use crate::shape::ContainerSchema;

impl Transaction<'_> {
    pub fn claim_unique_keys(
        &mut self,
        logical: &LogicalKey,
        id: &str,
        item: &StoredItem,
        claim: Claim,
    ) -> Plan<()> {
        if self.input.switches.is_outdated {
            // A repeated request uses the definition in force.
            return Err(Stop::Error(Error::new(
                ErrorKind::PartitionGone,
                "the unique keys of the container have changed",
            )));
        }
        let shape = self.input.shape;
        let own = shape.unique_keys_of(self.input.origin.uid, logical, item.body());
        check_fit(shape, item)?;
        check_count(shape, &own)?;
        for (index, key) in own {
            if claim == Claim::IfFree
                && let Some(holder) = self.get(&key)?
                && holder != id.as_bytes()
                && self.has_still(logical, &holder, &key)?
            {
                return Err(Stop::Error(violation(shape, index)));
            }
            self.write(key, Some(Bytes::copy_from_slice(id.as_bytes())));
        }
        Ok(())
    }

    pub fn release_unique_keys(&mut self, logical: &LogicalKey, id: &str, old: &StoredItem) -> Plan<()> {
        let keys = self.input.shape.unique_keys_of(self.input.origin.uid, logical, old.body());
        let keys: Vec<Bytes> = keys.into_iter().map(|(_, key)| key).collect();
        for (key, holder) in keys.iter().zip(self.get_all(&keys)?) {
            // An item that outlived its time may have lost the value to another one.
            if holder.is_some_and(|holder| holder == id.as_bytes()) {
                self.write(key.clone(), None);
            }
        }
        Ok(())
    }

    /// The values of keys; where some are wanted, all of these are named together.
    fn get_all(&self, keys: &[Bytes]) -> Plan<Vec<Option<Bytes>>> {
        let (mut values, mut wanted) = (Vec::with_capacity(keys.len()), Vec::new());
        for key in keys {
            match self.get(key) {
                Ok(value) => values.push(value),
                Err(Stop::Wanted(more)) => wanted.extend(more),
                Err(other) => return Err(other),
            }
        }
        if wanted.is_empty() { Ok(values) } else { Err(Stop::Wanted(wanted)) }
    }

    /// Whether the item that was given a unique value is there and has it. Where unique keys come and go, rows outlive them.
    fn has_still(&self, logical: &LogicalKey, id: &[u8], key: &Bytes) -> Plan<bool> {
        let id = std::str::from_utf8(id).map_err(crate::corrupt)?;
        let holder = self.item(&keys::item_key(self.input.origin.uid, logical, id))?;
        let Some(holder) = holder.filter(|item| !item.is_expired(self.input.now.seconds())) else {
            return Ok(false);
        };
        if !self.input.shape.is_collection {
            return Ok(true);
        }
        let own = self.input.shape.unique_keys_of(self.input.origin.uid, logical, holder.body());
        Ok(own.iter().any(|(_, own)| own == key))
    }
}

fn check_fit(shape: &ContainerSchema, item: &StoredItem) -> Plan<()> {
    let Some((place, misfit)) = shape.misfit_of(item.body()) else { return Ok(()) };
    let path = |field: usize| format!("/{}", shape.unique_keys[place][field].0.join("/"));
    let words = match misfit {
        Misfit::Parallel(one, other) => format!(
            "the unique index of {} takes no item with arrays in both {} and {}",
            names_of(shape, place),
            path(one),
            path(other)
        ),
        Misfit::Ambiguous(field) => {
            format!("{} names an element by its position and a property of one as well", path(field))
        }
    };
    Err(Stop::Error(Error::bad_request(words)))
}

/// Items with more values than the limit are refused: the values beyond it could not be
/// distinguished.
fn check_count(shape: &ContainerSchema, own: &[(usize, Bytes)]) -> Plan<()> {
    if own.len() <= UNIQUE_COMBINATIONS_MAX {
        return Ok(());
    }
    let of = |place: usize| own.iter().filter(|(index, _)| *index == place).count();
    match (0..shape.unique_keys.len()).find(|place| of(*place) > UNIQUE_COMBINATIONS_MAX) {
        None => Ok(()),
        Some(place) => Err(Stop::Error(Error::bad_request(format!(
            "an item may have at most {UNIQUE_COMBINATIONS_MAX} values, elements of arrays, in the unique index of {}",
            names_of(shape, place)
        )))),
    }
}

fn names_of(shape: &ContainerSchema, place: usize) -> String {
    let names: Vec<String> =
        shape.unique_keys[place].iter().map(|path| format!("/{}", path.0.join("/"))).collect();
    names.join(", ")
}

fn violation(shape: &ContainerSchema, index: usize) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!(
            "Unique index constraint violation: another item of this logical partition has the same {}",
            names_of(shape, index)
        ),
    )
}
