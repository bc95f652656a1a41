//! Where a query continues: opaque bytes of bounded length that a continuation token carries.
//!
//! ```text
//! version u8 | access | executor state (the rest)
//! access: 0                                                    from the start (the state alone gives the place)
//!         1 | key                                              a scan in key order, after an item
//!         2 | plan u32 | choices (u8 count, u8 each) | place   the spans of an index access
//!         3 | plan u32 | segment u8 | ordinal u64 or place     an ordered access
//!         4 | key (u16 length, bytes)                           a scan in the order of creation, after an item: the key of its row `N` (keys.rs)
//! place:  branch u16 | range u16 | key | whether inside a group u8
//! key:    1 | key (u16 length, bytes)
//!         2 | start of the key (u16 length, bytes) | xxh3-128 of the whole key
//! ```
//! Numbers are big-endian. `plan` is the fingerprint of the filter plan or of the order. A place is valid under the same
//! fingerprint.

use shardlake_model::{Error, Result};
use xxhash_rust::xxh3::xxh3_128;

const VERSION: u8 = 3;
/// A longer key is kept as its start and its hash.
const KEY_BYTES_MAX: usize = 320;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position {
    pub access: AccessPosition,
    /// The executor's state to resume from; `None` when it has nothing pending.
    pub state: Option<Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AccessPosition {
    Start,
    Scan(KeyPosition),
    /// The key of a row `N`, whole: its last part is a number, which a hash would lose.
    Created(Vec<u8>),
    Spans {
        plan: u32,
        choices: Vec<u8>,
        place: Place,
    },
    Ordered {
        plan: u32,
        at: OrderedPosition,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OrderedPosition {
    /// Behind an ordinal, among the items without the property.
    Undefined(u64),
    Postings(Place),
}

/// The last posting that was dealt with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub branch: u16,
    pub range: u16,
    /// Index value and ordinal.
    pub after: KeyPosition,
    /// Inside a group of items whose values are alike as far as the index holds them: the value is
    /// their common part, and the ordinal that of the last one, in the order of their own values.
    pub in_group: bool,
}

/// The last key that was dealt with, without the common prefix of the keys of its scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyPosition {
    Key(Vec<u8>),
    Cut { start: Vec<u8>, hash: u128 },
}

/// The position of an execution that starts again from the first item with a state.
pub fn position_of_state(state: &[u8]) -> Vec<u8> {
    Position { access: AccessPosition::Start, state: Some(state.to_vec()) }.encode()
}

/// The state in such a position; `None` at the start.
pub fn state_of_position(position: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
    Ok(position.map(Position::decode).transpose()?.and_then(|position| position.state))
}

impl KeyPosition {
    pub fn of(key: &[u8]) -> KeyPosition {
        if key.len() <= KEY_BYTES_MAX {
            return KeyPosition::Key(key.to_vec());
        }
        KeyPosition::Cut { start: key[..KEY_BYTES_MAX].to_vec(), hash: xxh3_128(key) }
    }
}

impl Position {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match &self.access {
            AccessPosition::Start => out.push(0),
            AccessPosition::Scan(item) => {
                out.push(1);
                push_key(&mut out, item);
            }
            AccessPosition::Created(key) => {
                out.push(4);
                push_bytes(&mut out, key);
            }
            AccessPosition::Spans { plan, choices, place } => {
                out.push(2);
                out.extend_from_slice(&plan.to_be_bytes());
                out.push(choices.len() as u8);
                out.extend_from_slice(choices);
                push_place(&mut out, place);
            }
            AccessPosition::Ordered { plan, at } => {
                out.push(3);
                out.extend_from_slice(&plan.to_be_bytes());
                match at {
                    OrderedPosition::Undefined(ordinal) => {
                        out.push(0);
                        out.extend_from_slice(&ordinal.to_be_bytes());
                    }
                    OrderedPosition::Postings(place) => {
                        out.push(1);
                        push_place(&mut out, place);
                    }
                }
            }
        }
        match &self.state {
            None => out.push(0),
            Some(state) => {
                out.push(1);
                out.extend_from_slice(state);
            }
        }
        out
    }

    /// Tokens come back from clients: anything may be in them.
    pub fn decode(bytes: &[u8]) -> Result<Position> {
        read_position(&mut Reader(bytes)).ok_or_else(|| Error::bad_request("Invalid Continuation Token"))
    }
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn push_key(out: &mut Vec<u8>, item: &KeyPosition) {
    match item {
        KeyPosition::Key(key) => {
            out.push(1);
            push_bytes(out, key);
        }
        KeyPosition::Cut { start, hash } => {
            out.push(2);
            push_bytes(out, start);
            out.extend_from_slice(&hash.to_be_bytes());
        }
    }
}

fn push_place(out: &mut Vec<u8>, place: &Place) {
    out.extend_from_slice(&place.branch.to_be_bytes());
    out.extend_from_slice(&place.range.to_be_bytes());
    push_key(out, &place.after);
    out.push(u8::from(place.in_group));
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = usize::from(self.u16()?);
        self.take(length).map(<[u8]>::to_vec)
    }
}

fn read_position(reader: &mut Reader<'_>) -> Option<Position> {
    if reader.u8()? != VERSION {
        return None;
    }
    let access = match reader.u8()? {
        0 => AccessPosition::Start,
        1 => AccessPosition::Scan(read_key(reader)?),
        2 => {
            let plan = reader.u32()?;
            let count = usize::from(reader.u8()?);
            let choices = reader.take(count)?.to_vec();
            AccessPosition::Spans { plan, choices, place: read_place(reader)? }
        }
        3 => {
            let plan = reader.u32()?;
            let at = match reader.u8()? {
                0 => OrderedPosition::Undefined(u64::from_be_bytes(reader.array()?)),
                1 => OrderedPosition::Postings(read_place(reader)?),
                _ => return None,
            };
            AccessPosition::Ordered { plan, at }
        }
        4 => AccessPosition::Created(reader.bytes()?),
        _ => return None,
    };
    let state = match reader.u8()? {
        0 if reader.0.is_empty() => None,
        1 => Some(reader.0.to_vec()),
        _ => return None,
    };
    Some(Position { access, state })
}

fn read_key(reader: &mut Reader<'_>) -> Option<KeyPosition> {
    let kind = reader.u8()?;
    let bytes = reader.bytes()?;
    match kind {
        1 if bytes.len() <= KEY_BYTES_MAX => Some(KeyPosition::Key(bytes)),
        2 if bytes.len() == KEY_BYTES_MAX => {
            Some(KeyPosition::Cut { start: bytes, hash: u128::from_be_bytes(reader.array()?) })
        }
        _ => None,
    }
}

fn read_place(reader: &mut Reader<'_>) -> Option<Place> {
    let (branch, range, after) = (reader.u16()?, reader.u16()?, read_key(reader)?);
    let in_group = match reader.u8()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    Some(Place { branch, range, after, in_group })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place() -> impl Strategy<Value = Place> {
        (any::<u16>(), any::<u16>(), key(), any::<bool>())
            .prop_map(|(branch, range, after, in_group)| Place { branch, range, after, in_group })
    }

    fn key() -> impl Strategy<Value = KeyPosition> {
        prop::collection::vec(any::<u8>(), 1..700).prop_map(|key| KeyPosition::of(&key))
    }

    fn access() -> impl Strategy<Value = AccessPosition> {
        prop_oneof![
            Just(AccessPosition::Start),
            key().prop_map(AccessPosition::Scan),
            prop::collection::vec(any::<u8>(), 8..320).prop_map(AccessPosition::Created),
            (any::<u32>(), prop::collection::vec(any::<u8>(), 0..9), place())
                .prop_map(|(plan, choices, place)| AccessPosition::Spans { plan, choices, place }),
            (any::<u32>(), any::<u64>()).prop_map(|(plan, ordinal)| AccessPosition::Ordered {
                plan,
                at: OrderedPosition::Undefined(ordinal)
            }),
            (any::<u32>(), place()).prop_map(|(plan, place)| AccessPosition::Ordered {
                plan,
                at: OrderedPosition::Postings(place)
            }),
        ]
    }

    proptest! {
        #[test]
        fn positions_survive_and_stay_short(access in access(), state in prop::option::of(prop::collection::vec(any::<u8>(), 0..100))) {
            let position = Position { access, state };
            let bytes = position.encode();
            prop_assert!(bytes.len() < 520);
            prop_assert_eq!(Position::decode(&bytes).expect("its own encoding"), position);
        }

        #[test]
        fn foreign_bytes_are_refused_not_fatal(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Position::decode(&bytes);
        }
    }
}
