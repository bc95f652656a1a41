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

use shardlake_document::{Value, decode_ordered, encode_ordered};

use super::distinct_hash::DistinctHash;
use super::sort_value::SortValue;
use crate::bound::BoundQuery;
use crate::error::SqlError;

const VERSION: u8 = 1;
/// Limit on the string bytes of all keys of a state.
const KEY_BYTES_MAX: usize = 400;

#[derive(Debug, Clone, PartialEq)]
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
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Resume {
    Start,
    Hash(u128),
    Sorted { keys: Vec<ResumeKey>, tie: u128, done: u32 },
}

/// A sort key of the last row, or the start of it.
#[derive(Debug, Clone, PartialEq)]
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
        let mut out = vec![VERSION];
        let (item, rows) = self.rows_of_item;
        for number in [self.skip, self.left.unwrap_or(u64::MAX), item, rows] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        match &self.resume {
            Resume::Start => out.push(0),
            Resume::Hash(hash) => {
                out.push(1);
                out.extend_from_slice(&hash.to_be_bytes());
            }
            Resume::Sorted { keys, tie, done } => {
                out.push(2);
                out.extend_from_slice(&tie.to_be_bytes());
                out.extend_from_slice(&done.to_be_bytes());
                out.push(keys.len() as u8);
                keys.iter().for_each(|key| push_key(key, &mut out));
            }
        }
        out
    }

    /// States come back from clients, who may have changed them.
    pub fn decode(bytes: &[u8]) -> Result<State, SqlError> {
        read(&mut Reader(bytes)).ok_or(SqlError::InvalidState)
    }
}

pub(crate) fn push_key(key: &ResumeKey, out: &mut Vec<u8>) {
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
    out.push(kind);
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(&bytes);
}

pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
}

fn read(reader: &mut Reader<'_>) -> Option<State> {
    if reader.array()? != [VERSION] {
        return None;
    }
    let (skip, left) = (reader.u64()?, reader.u64()?);
    let rows_of_item = (reader.u64()?, reader.u64()?);
    let resume = match reader.array()? {
        [0] => Resume::Start,
        [1] => Resume::Hash(u128::from_be_bytes(reader.array()?)),
        [2] => {
            let (tie, done) = (u128::from_be_bytes(reader.array()?), u32::from_be_bytes(reader.array()?));
            let [count] = reader.array()?;
            let keys = (0..count).map(|_| read_key(reader)).collect::<Option<_>>()?;
            Resume::Sorted { keys, tie, done }
        }
        _ => return None,
    };
    let left = (left != u64::MAX).then_some(left);
    reader.0.is_empty().then_some(State { skip, left, rows_of_item, resume })
}

pub(crate) fn read_key(reader: &mut Reader<'_>) -> Option<ResumeKey> {
    let [kind] = reader.array()?;
    let length = usize::from(u16::from_be_bytes(reader.array()?));
    let bytes = reader.take(length)?;
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
