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
use shardlake_stdx::codec::{Reader, Writer};
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
        let mut out = Writer::default();
        out.byte(VERSION);
        match &self.access {
            AccessPosition::Start => {
                out.byte(0);
            }
            AccessPosition::Scan(item) => write_key(out.byte(1), item),
            AccessPosition::Created(key) => write_bytes(out.byte(4), key),
            AccessPosition::Spans { plan, choices, place } => {
                out.byte(2).be(*plan).byte(choices.len() as u8).bytes(choices);
                write_place(&mut out, place);
            }
            AccessPosition::Ordered { plan, at: OrderedPosition::Undefined(ordinal) } => {
                out.byte(3).be(*plan).byte(0).be(*ordinal);
            }
            AccessPosition::Ordered { plan, at: OrderedPosition::Postings(place) } => {
                write_place(out.byte(3).be(*plan).byte(1), place);
            }
        }
        match &self.state {
            None => out.byte(0),
            Some(state) => out.byte(1).bytes(state),
        };
        out.into_bytes()
    }

    /// Tokens come back from clients: anything may be in them.
    pub fn decode(bytes: &[u8]) -> Result<Position> {
        read_position(&mut Reader::new(bytes)).ok_or_else(|| Error::bad_request("Invalid Continuation Token"))
    }
}

fn write_bytes(out: &mut Writer, bytes: &[u8]) {
    debug_assert!(bytes.len() <= usize::from(u16::MAX), "long keys are there by their hash");
    out.be(bytes.len() as u16).bytes(bytes);
}

fn write_key(out: &mut Writer, item: &KeyPosition) {
    match item {
        KeyPosition::Key(key) => write_bytes(out.byte(1), key),
        KeyPosition::Cut { start, hash } => {
            write_bytes(out.byte(2), start);
            out.be(*hash);
        }
    }
}

fn write_place(out: &mut Writer, place: &Place) {
    write_key(out.be(place.branch).be(place.range), &place.after);
    out.byte(u8::from(place.in_group));
}

fn read_bytes(reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    let length = reader.be::<u16>()?;
    reader.take(usize::from(length)).map(<[u8]>::to_vec)
}

fn read_position(reader: &mut Reader<'_>) -> Option<Position> {
    if reader.byte()? != VERSION {
        return None;
    }
    let access = match reader.byte()? {
        0 => AccessPosition::Start,
        1 => AccessPosition::Scan(read_key(reader)?),
        2 => {
            let plan = reader.be()?;
            let count = usize::from(reader.byte()?);
            let choices = reader.take(count)?.to_vec();
            AccessPosition::Spans { plan, choices, place: read_place(reader)? }
        }
        3 => {
            let plan = reader.be()?;
            let at = match reader.byte()? {
                0 => OrderedPosition::Undefined(reader.be()?),
                1 => OrderedPosition::Postings(read_place(reader)?),
                _ => return None,
            };
            AccessPosition::Ordered { plan, at }
        }
        4 => AccessPosition::Created(read_bytes(reader)?),
        _ => return None,
    };
    let state = match reader.byte()? {
        0 if reader.is_empty() => None,
        1 => Some(reader.rest().to_vec()),
        _ => return None,
    };
    Some(Position { access, state })
}

fn read_key(reader: &mut Reader<'_>) -> Option<KeyPosition> {
    let kind = reader.byte()?;
    let bytes = read_bytes(reader)?;
    match kind {
        1 if bytes.len() <= KEY_BYTES_MAX => Some(KeyPosition::Key(bytes)),
        2 if bytes.len() == KEY_BYTES_MAX => Some(KeyPosition::Cut { start: bytes, hash: reader.be()? }),
        _ => None,
    }
}

fn read_place(reader: &mut Reader<'_>) -> Option<Place> {
    let (branch, range, after) = (reader.be()?, reader.be()?, read_key(reader)?);
    let in_group = match reader.byte()? {
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

    #[test]
    fn the_bytes_in_tokens_stay_the_same() {
        let place = |after| Place { branch: 1, range: 0x0203, after: KeyPosition::of(after), in_group: true };
        let spans = AccessPosition::Spans { plan: 0x0405_0607, choices: vec![8, 9], place: place(b"key") };
        let at = OrderedPosition::Postings(place(&[b'k'; 321]));
        let accesses = [
            AccessPosition::Start,
            AccessPosition::Scan(KeyPosition::of(b"item")),
            AccessPosition::Created(b"creation".to_vec()),
            spans,
            AccessPosition::Ordered { plan: 10, at: OrderedPosition::Undefined(11) },
            AccessPosition::Ordered { plan: 12, at },
        ];
        let encoded = accesses.map(|access| {
            let state = (access != AccessPosition::Start).then(|| b"state".to_vec());
            let bytes = Position { access, state }.encode();
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        });
        let state = "017374617465";
        let expected = [
            "030000".to_owned(),
            format!("03010100046974656d{state}"),
            format!("030400086372656174696f6e{state}"),
            format!("030204050607020809000102030100036b657901{state}"),
            format!("03030000000a00000000000000000b{state}"),
            format!(
                "03030000000c0100010203020140{}e8736cdaf9164c82294f0c3168b61f8001{state}",
                "6b".repeat(320)
            ),
        ];
        assert_eq!(encoded, expected);
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
