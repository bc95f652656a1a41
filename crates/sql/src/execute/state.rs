//! The state that a page of an execution hands to the next one: bytes that go through the client, bounded and
//! checked.
//!
//! ```text
//! version u8 | rows still to skip u64 | rows left u64 (all ones: no limit) | next item u64, rows of it already processed u64
//! | 0                                                     nothing else
//! | 1 | hash u128                                         rows up to this hash were returned
//! | 2 | tie u128 | done u32 | count u8 | keys…            sorted rows up to these keys were returned
//! key: kind u8 | length u16 | bytes: 0 and the ordered encoding of a scalar, 1 and the start of a long string, 4 or 5 and the hash
//!      of an array or an object
//! ```
//! A cut key does not distinguish rows with the same beginning: `done` counts the returned ones among them.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use shardlake_document::{Value, decode_ordered, encode_ordered};
use shardlake_stdx::codec::{Reader, Writer};

use super::distinct_hash::DistinctHash;
use super::sort_value::SortValue;
use crate::bound::BoundQuery;
use crate::error::SqlError;

const VERSION: u8 = 1;
/// Limit on the string bytes of all keys of a state.
const KEY_BYTES_MAX: usize = 400;
/// The bytes of a key whose value is empty.
const RESUME_KEY_BYTES_MIN: usize = 3;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// Rows still to skip for `OFFSET`.
    pub skip: u64,
    /// Rows still to return for `LIMIT` or `TOP`.
    pub left: Option<u64>,
    /// The item that the page ended in, by ordinal, and how many of its rows were processed.
    pub rows_of_item: (u64, u64),
    pub resume: Resume,
}

/// The returned rows of a query that collects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Resume {
    Start,
    Hash(u128),
    Sorted { keys: Vec<ResumeKey>, tie: u128, done: u32 },
}

/// A sort key of the last row, or the start of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum ResumeKey {
    Whole(SortValue),
    StartOf(String),
}

impl ResumeKey {
    /// A string is cut after the character that contains the last allowed byte, even if the string ends just
    /// there. So all strings with the same cut beginning get the same key.
    pub fn of(value: &SortValue, bytes_max: usize) -> ResumeKey {
        match value {
            SortValue::Scalar(Value::String(text)) if text.len() >= bytes_max => {
                let mut end = bytes_max;
                while !text.is_char_boundary(end) {
                    end += 1;
                }
                ResumeKey::StartOf(text[..end].to_owned())
            }
            other => ResumeKey::Whole(other.clone()),
        }
    }

    /// Compares a row's key with this one; also equal if this one is cut and the row's key begins with it.
    pub fn compare(&self, value: &SortValue) -> Ordering {
        match self {
            ResumeKey::Whole(whole) => value.cmp(whole),
            ResumeKey::StartOf(start) => match value {
                SortValue::Scalar(Value::String(text)) if text.starts_with(start.as_str()) => Ordering::Equal,
                other => other.cmp(&SortValue::Scalar(Value::String(start.clone()))),
            },
        }
    }

    /// The value, or with true the start of a string. For arrays and objects, the empty one.
    pub fn to_value(&self) -> (Value, bool) {
        match self {
            ResumeKey::Whole(value) => (value.of_its_type(), false),
            ResumeKey::StartOf(start) => (Value::String(start.clone()), true),
        }
    }

    pub fn is_cut(&self) -> bool {
        matches!(self, ResumeKey::StartOf(_))
    }
}

/// The position after a row with these sort keys. Keys after a cut key add nothing.
pub(crate) fn resume_keys<'v>(keys: impl Iterator<Item = &'v SortValue>, bytes_max: usize) -> Vec<ResumeKey> {
    let mut resume = Vec::new();
    for key in keys {
        resume.push(ResumeKey::of(key, bytes_max));
        if resume.last().is_some_and(ResumeKey::is_cut) {
            break;
        }
    }
    resume
}

/// Whether rows with these sort keys resume at the same place.
pub(crate) fn resume_alike<'v>(
    left: impl Iterator<Item = &'v SortValue>,
    right: impl Iterator<Item = &'v SortValue>,
    bytes_max: usize,
) -> bool {
    for (left, right) in left.zip(right) {
        let left = ResumeKey::of(left, bytes_max);
        if left.compare(right).is_ne() {
            return false;
        }
        if left.is_cut() {
            break;
        }
    }
    true
}

impl State {
    /// The first sort key up to which rows were returned.
    pub fn resumes_at(&self) -> Option<(Value, bool)> {
        match &self.resume {
            Resume::Sorted { keys, .. } => keys.first().map(ResumeKey::to_value),
            _ => None,
        }
    }

    pub fn first(query: &BoundQuery) -> State {
        State { skip: query.offset, left: query.limit, rows_of_item: (0, 0), resume: Resume::Start }
    }

    /// Limit on the bytes of each of several keys.
    pub fn key_bytes_max(keys: usize) -> usize {
        KEY_BYTES_MAX / keys.max(1)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        let (item, rows) = self.rows_of_item;
        out.byte(VERSION).be(self.skip).be(self.left.unwrap_or(u64::MAX)).be(item).be(rows);
        match &self.resume {
            Resume::Start => {
                out.byte(0);
            }
            Resume::Hash(hash) => {
                out.byte(1).be(*hash);
            }
            Resume::Sorted { keys, tie, done } => {
                assert!(u8::try_from(keys.len()).is_ok(), "a position has few sort keys");
                out.byte(2).be(*tie).be(*done).byte(keys.len() as u8);
                keys.iter().for_each(|key| write_key(key, &mut out));
            }
        }
        out.into_bytes()
    }

    /// States come back from clients, who may have changed them.
    pub fn decode(bytes: &[u8]) -> Result<State, SqlError> {
        read(&mut Reader::new(bytes)).ok_or(SqlError::InvalidState)
    }
}

pub(crate) fn write_key(key: &ResumeKey, out: &mut Writer) {
    let (kind, bytes) = match key {
        ResumeKey::StartOf(start) => (1, start.clone().into_bytes()),
        ResumeKey::Whole(SortValue::Array(hash)) => (4, hash.to_be_bytes().to_vec()),
        ResumeKey::Whole(SortValue::Object(hash)) => (5, hash.to_be_bytes().to_vec()),
        ResumeKey::Whole(SortValue::Scalar(scalar)) => {
            let mut bytes = Vec::new();
            encode_ordered(scalar, &mut bytes).expect("scalars have an ordered encoding");
            (0, bytes)
        }
    };
    assert!(u16::try_from(bytes.len()).is_ok(), "a sort key in a position is cut to its limit");
    out.byte(kind).be(bytes.len() as u16).bytes(&bytes);
}

fn read(reader: &mut Reader<'_>) -> Option<State> {
    if reader.byte()? != VERSION {
        return None;
    }
    let (skip, left) = (reader.be()?, reader.be()?);
    let rows_of_item = (reader.be()?, reader.be()?);
    let resume = match reader.byte()? {
        0 => Resume::Start,
        1 => Resume::Hash(reader.be()?),
        2 => {
            let (tie, done) = (reader.be()?, reader.be()?);
            let keys = read_keys(reader)?;
            Resume::Sorted { keys, tie, done }
        }
        _ => return None,
    };
    let left = (left != u64::MAX).then_some(left);
    reader.end(State { skip, left, rows_of_item, resume })
}

/// Keys behind their number.
pub(crate) fn read_keys(reader: &mut Reader<'_>) -> Option<Vec<ResumeKey>> {
    let count = usize::from(reader.byte()?);
    reader.list(count, RESUME_KEY_BYTES_MIN, read_key)
}

fn read_key(reader: &mut Reader<'_>) -> Option<ResumeKey> {
    let (kind, length) = (reader.byte()?, reader.be::<u16>()?);
    let bytes = reader.take(usize::from(length))?;
    match kind {
        0 => {
            let (value, rest) = decode_ordered(bytes).ok()?;
            rest.is_empty().then_some(ResumeKey::Whole(SortValue::Scalar(value)))
        }
        1 => Some(ResumeKey::StartOf(std::str::from_utf8(bytes).ok()?.to_owned())),
        4 => Some(ResumeKey::Whole(SortValue::Array(hash_of(bytes)?))),
        5 => Some(ResumeKey::Whole(SortValue::Object(hash_of(bytes)?))),
        _ => None,
    }
}

fn hash_of(bytes: &[u8]) -> Option<DistinctHash> {
    bytes.try_into().ok().map(DistinctHash::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = ResumeKey> {
        let value = prop_oneof![
            Just(Value::Undefined),
            Just(Value::Null),
            any::<i64>().prop_map(Value::Int),
            ".{0,200}".prop_map(Value::String),
            Just(Value::Array(vec![Value::Null])),
        ];
        value.prop_map(|value| ResumeKey::of(&value.into(), State::key_bytes_max(3)))
    }

    fn resume() -> impl Strategy<Value = Resume> {
        prop_oneof![
            Just(Resume::Start),
            any::<u128>().prop_map(Resume::Hash),
            (prop::collection::vec(key(), 0..4), any::<u128>(), any::<u32>())
                .prop_map(|(keys, tie, done)| Resume::Sorted { keys, tie, done }),
        ]
    }

    #[test]
    fn the_bytes_in_tokens_stay_the_same() {
        let keys =
            [Value::Null, Value::Int(5), Value::String("long".repeat(50)), Value::Array(vec![Value::Null])];
        let keys = keys.map(|value| ResumeKey::of(&value.into(), State::key_bytes_max(4))).to_vec();
        let resumes = [Resume::Start, Resume::Hash(1 << 100), Resume::Sorted { keys, tie: 6, done: 7 }];
        let encoded = resumes.map(|resume| {
            let bytes = State { skip: 1, left: Some(2), rows_of_item: (3, 4), resume }.encode();
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        });
        let begin = "010000000000000001000000000000000200000000000000030000000000000004";
        let hash = "103e8e8c77472338352f80ea6235fb6e41";
        let long = "6c6f6e67".repeat(25);
        let sorted =
            format!("02{:032x}{:08x}04000001100000 0920c014000000000000 0100 64{long}0400{hash}", 6, 7);
        let expected = [
            format!("{begin}00"),
            format!("{begin}01{:032x}", 1_u128 << 100),
            format!("{begin}{}", sorted.replace(' ', "")),
        ];
        assert_eq!(encoded, expected);
    }

    proptest! {
        #[test]
        fn states_survive_and_stay_short(skip in any::<u64>(), left in prop::option::of(0..u64::MAX), rows_of_item in any::<(u64, u64)>(), resume in resume()) {
            let state = State { skip, left, rows_of_item, resume };
            let bytes = state.encode();
            prop_assert!(bytes.len() < 520);
            prop_assert_eq!(State::decode(&bytes).expect("its own encoding").encode(), bytes);
        }

        #[test]
        fn foreign_bytes_are_refused_not_fatal(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = State::decode(&bytes);
        }
    }
}
