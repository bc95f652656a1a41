//! The state that a page of a merge hands to the next one: bytes that go through the client, bounded whatever
//! the number of sources.
//!
//! ```text
//! version u8 | sources u16 | rows still to skip u64 | rows left u64 (all ones: no limit) | kind u8 | kind's own
//! 0 drain:   source u16, cursor
//! 1 ordered: keys u8, each as an execution's state has it; then
//!            0 | source u16 | cursor   sources before it resume behind the keys, sources after it at the keys, itself at the cursor
//!            1 | done u64              all resume at the keys; this many merged rows were returned
//!            2                         all resume behind the keys
//! 2 hashes:  hash u128                 rows and groups up to this hash were returned
//! 3 groups:  rows u64                  this many rows of ordered groups were returned
//! cursor: position u16 and bytes (length all ones: the start) | processed rows behind it u64
//! ```

use shardlake_stdx::codec::{Reader, Writer};

use crate::error::SqlError;
use crate::execute::state::{ResumeKey, read_keys, write_key};

const VERSION: u8 = 1;
/// Limit on the string bytes of all keys of a state.
const KEY_BYTES_MAX: usize = 200;
/// A longer position of a source is replaced by counting rows.
const POSITION_BYTES_MAX: usize = 280;
const NO_POSITION: u16 = u16::MAX;
const _: () =
    assert!(POSITION_BYTES_MAX < NO_POSITION as usize, "the length of a position is never that of none");

#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    pub sources: u16,
    pub skip: u64,
    pub left: Option<u64>,
    pub resume: Resume,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Resume {
    Drain { source: u16, cursor: Cursor },
    Ordered { keys: Vec<ResumeKey>, at: OrderedAt },
    Hashes(u128),
    OrderedGroups(u64),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum OrderedAt {
    Source { source: u16, cursor: Cursor },
    Keys { done: u64 },
    BehindKeys,
}

/// A place in the rows of one source.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Cursor {
    /// The source's own position; `None` is its start.
    pub position: Option<Vec<u8>>,
    /// Processed rows after the position.
    pub done: u64,
}

impl Cursor {
    pub fn has_room_for(position: &[u8]) -> bool {
        position.len() <= POSITION_BYTES_MAX
    }
}

impl State {
    /// Limit on the bytes of each of several keys.
    pub fn key_bytes_max(keys: usize) -> usize {
        KEY_BYTES_MAX / keys.max(1)
    }

    /// Whether the state has the same meaning for another number of sources, as after a change of ranges.
    pub fn fits(&self, sources: usize) -> bool {
        let names_source = matches!(
            self.resume,
            Resume::Drain { .. } | Resume::Ordered { at: OrderedAt::Source { .. }, .. }
        );
        !names_source || usize::from(self.sources) == sources
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.byte(VERSION).be(self.sources).be(self.skip).be(self.left.unwrap_or(u64::MAX));
        match &self.resume {
            Resume::Drain { source, cursor } => write_place(*source, cursor, out.byte(0)),
            Resume::Ordered { keys, at } => {
                assert!(u8::try_from(keys.len()).is_ok(), "a position has few sort keys");
                out.byte(1).byte(keys.len() as u8);
                keys.iter().for_each(|key| write_key(key, &mut out));
                match at {
                    OrderedAt::Source { source, cursor } => write_place(*source, cursor, out.byte(0)),
                    OrderedAt::Keys { done } => {
                        out.byte(1).be(*done);
                    }
                    OrderedAt::BehindKeys => {
                        out.byte(2);
                    }
                }
            }
            Resume::Hashes(hash) => {
                out.byte(2).be(*hash);
            }
            Resume::OrderedGroups(rows) => {
                out.byte(3).be(*rows);
            }
        }
        out.into_bytes()
    }

    /// States come back from clients, who may have changed them.
    pub fn decode(bytes: &[u8]) -> Result<State, SqlError> {
        read(&mut Reader::new(bytes)).ok_or(SqlError::InvalidState)
    }
}

fn write_place(source: u16, cursor: &Cursor, out: &mut Writer) {
    let has_room = |position: &Vec<u8>| position.len() < usize::from(NO_POSITION);
    assert!(cursor.position.as_ref().is_none_or(has_room), "the length of a position fits its field");
    out.be(source);
    match &cursor.position {
        Some(position) => out.be(position.len() as u16).bytes(position),
        None => out.be(NO_POSITION),
    };
    out.be(cursor.done);
}

fn read(reader: &mut Reader<'_>) -> Option<State> {
    if reader.byte()? != VERSION {
        return None;
    }
    let sources = reader.be()?;
    let (skip, left) = (reader.be()?, reader.be()?);
    let resume = match reader.byte()? {
        0 => {
            let (source, cursor) = read_place(reader, sources)?;
            Resume::Drain { source, cursor }
        }
        1 => {
            let keys = read_keys(reader)?;
            Resume::Ordered { keys, at: read_ordered_at(reader, sources)? }
        }
        2 => Resume::Hashes(reader.be()?),
        3 => Resume::OrderedGroups(reader.be()?),
        _ => return None,
    };
    let left = (left != u64::MAX).then_some(left);
    reader.end(State { sources, skip, left, resume })
}

fn read_ordered_at(reader: &mut Reader<'_>, sources: u16) -> Option<OrderedAt> {
    match reader.byte()? {
        0 => {
            let (source, cursor) = read_place(reader, sources)?;
            Some(OrderedAt::Source { source, cursor })
        }
        1 => Some(OrderedAt::Keys { done: reader.be()? }),
        2 => Some(OrderedAt::BehindKeys),
        _ => None,
    }
}

fn read_place(reader: &mut Reader<'_>, sources: u16) -> Option<(u16, Cursor)> {
    let source = reader.be()?;
    let position = match reader.be()? {
        NO_POSITION => None,
        length => Some(reader.take(usize::from(length))?.to_vec()),
    };
    let done = reader.be()?;
    (source < sources).then_some((source, Cursor { position, done }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use shardlake_document::Value;

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

    fn cursor() -> impl Strategy<Value = Cursor> {
        let position = prop::option::of(prop::collection::vec(any::<u8>(), 0..=POSITION_BYTES_MAX));
        (position, any::<u64>()).prop_map(|(position, done)| Cursor { position, done })
    }

    fn resume() -> impl Strategy<Value = Resume> {
        let at = prop_oneof![
            (0..9u16, cursor()).prop_map(|(source, cursor)| OrderedAt::Source { source, cursor }),
            any::<u64>().prop_map(|done| OrderedAt::Keys { done }),
            Just(OrderedAt::BehindKeys),
        ];
        prop_oneof![
            (0..9u16, cursor()).prop_map(|(source, cursor)| Resume::Drain { source, cursor }),
            (prop::collection::vec(key(), 0..4), at).prop_map(|(keys, at)| Resume::Ordered { keys, at }),
            any::<u128>().prop_map(Resume::Hashes),
            any::<u64>().prop_map(Resume::OrderedGroups),
        ]
    }

    #[test]
    fn the_bytes_in_tokens_stay_the_same() {
        let cursor = || Cursor { position: Some(b"position".to_vec()), done: 5 };
        let keys = || vec![ResumeKey::of(&Value::Int(4).into(), State::key_bytes_max(1))];
        let resumes = [
            Resume::Drain { source: 3, cursor: Cursor::default() },
            Resume::Ordered { keys: keys(), at: OrderedAt::Source { source: 3, cursor: cursor() } },
            Resume::Ordered { keys: keys(), at: OrderedAt::Keys { done: 6 } },
            Resume::Ordered { keys: keys(), at: OrderedAt::BehindKeys },
            Resume::Hashes(1 << 100),
            Resume::OrderedGroups(7),
        ];
        let encoded = resumes.map(|resume| {
            let bytes = State { sources: 9, skip: 1, left: None, resume }.encode();
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        });
        let begin = "0100090000000000000001ffffffffffffffff";
        let key = "0100000920c010000000000000";
        let expected = [
            format!("{begin}000003ffff{:016x}", 0),
            format!("{begin}01{key}0000030008706f736974696f6e{:016x}", 5),
            format!("{begin}01{key}01{:016x}", 6),
            format!("{begin}01{key}02"),
            format!("{begin}02{:032x}", 1_u128 << 100),
            format!("{begin}03{:016x}", 7),
        ];
        assert_eq!(encoded, expected);
    }

    proptest! {
        #[test]
        fn states_survive_and_stay_short(skip in any::<u64>(), left in prop::option::of(0..u64::MAX), resume in resume()) {
            let state = State { sources: 9, skip, left, resume };
            let bytes = state.encode();
            prop_assert!(bytes.len() < 600, "{} bytes", bytes.len());
            prop_assert_eq!(State::decode(&bytes).expect("its own encoding").encode(), bytes);
        }

        #[test]
        fn foreign_bytes_are_refused_not_fatal(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = State::decode(&bytes);
        }
    }
}
