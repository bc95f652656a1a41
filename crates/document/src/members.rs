//! Several members of a document by their names, in one walk over it.
//!
//! [`RawDocument::get`] starts at the first member each time. Conditions ask for two or three members of each
//! of many items. A [`Members`] continues from the last found member, and notes members on the way that will
//! be asked for later. Names are compared as words of eight bytes, their final zero included: nearly all are
//! shorter than that.

use crate::bson_writer::kind;
use crate::raw::{
    RawDocument, RawElement, RawValue, first_zero, length_before_zero, named_element, value_length,
};

/// Limit on the members of one walk.
pub const MEMBERS_MAX: usize = 16;

/// Bytes compared as one word.
const WORD_BYTES: usize = 8;

/// The names to look for: each once, none with U+0000.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberNames(Vec<MemberName>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct MemberName {
    name: Box<[u8]>,
    /// The first bytes with the zero after the name, and which bytes of a word these are.
    word: u64,
    mask: u64,
}

impl MemberNames {
    /// `None` for too many names, or for a name that is stored in another form.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<MemberNames> {
        let names: Vec<MemberName> = names.into_iter().map(MemberName::new).collect();
        let is_fit = names.len() <= MEMBERS_MAX && names.iter().all(|name| !name.name.contains(&0));
        let is_once = |(place, name)| !names[..place].contains(name);
        (is_fit && names.iter().enumerate().all(is_once)).then_some(MemberNames(names))
    }
}

impl MemberName {
    fn new(name: &str) -> MemberName {
        let name = name.as_bytes();
        let mut word = [0; WORD_BYTES];
        let mut mask = [0; WORD_BYTES];
        let first = name.len().min(WORD_BYTES);
        word[..first].copy_from_slice(&name[..first]);
        mask[..(name.len() + 1).min(WORD_BYTES)].fill(0xFF);
        MemberName { name: name.into(), word: u64::from_le_bytes(word), mask: u64::from_le_bytes(mask) }
    }

    /// Whether the element's name, from its first word, equals this name.
    #[inline]
    fn is(&self, word: u64, name: &[u8]) -> bool {
        word & self.mask == self.word && (self.name.len() < WORD_BYTES || *self.name == *name)
    }
}

/// The members of one document, by the places of their names.
#[derive(Debug)]
pub struct Members<'n, 'a> {
    names: &'n [MemberName],
    bytes: &'a [u8],
    /// The start of the next element.
    next: usize,
    /// Kinds of the values found: 0 for none.
    kinds: [u8; MEMBERS_MAX],
    /// The starts of those values.
    places: [u32; MEMBERS_MAX],
}

impl<'n, 'a> Members<'n, 'a> {
    pub fn new(names: &'n MemberNames, document: RawDocument<'a>) -> Self {
        let (kinds, places) = ([kind::END; MEMBERS_MAX], [0; MEMBERS_MAX]);
        Members { names: &names.0, bytes: document.as_bytes(), next: 4, kinds, places }
    }

    /// Like [`RawDocument::get`] for the name at this place.
    #[inline]
    pub fn get(&mut self, place: usize) -> Option<RawValue<'a>> {
        if self.kinds[place] == kind::END {
            self.walk_to(place)?;
        }
        let (kind, values) = (self.kinds[place], self.bytes.get(self.places[place] as usize..)?);
        let value = values.get(..value_length(kind, values)?)?;
        RawElement { name: &[], kind, value }.value()
    }

    /// Continues until the member is found.
    fn walk_to(&mut self, place: usize) -> Option<()> {
        loop {
            let (&kind, after_kind) = self.bytes.get(self.next..)?.split_first()?;
            if kind == kind::END {
                return None;
            }
            let (word, length) = match after_kind.first_chunk().map(|first| u64::from_le_bytes(*first)) {
                Some(word) => match first_zero(word) {
                    Some(length) => (word, length),
                    None => (word, length_before_zero(after_kind)?),
                },
                None => (word_of(after_kind), length_before_zero(after_kind)?),
            };
            let (name, values) = (&after_kind[..length], &after_kind[length + 1..]);
            let value_length = value_length(kind, values).filter(|length| *length <= values.len())?;
            let value_at = self.next + 1 + length + 1;
            self.next = value_at + value_length;
            if kind == kind::CODE_WITH_SCOPE && named_element(name, &values[..value_length]).is_some() {
                continue;
            }
            if let Some(met) = self.note(word, name, (kind, value_at))
                && met == place
            {
                return Some(());
            }
        }
    }

    /// The first of several members with one name counts.
    #[inline]
    fn note(&mut self, word: u64, name: &[u8], (kind, value_at): (u8, usize)) -> Option<usize> {
        let met = self.names.iter().position(|wanted| wanted.is(word, name))?;
        if self.kinds[met] != kind::END {
            return None;
        }
        self.places[met] = u32::try_from(value_at).ok()?;
        self.kinds[met] = kind;
        Some(met)
    }
}

/// The bytes of a name shorter than a word.
#[cold]
fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD_BYTES];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::{ParseLimits, parse_document};

    const NAMES: [&str; 8] = ["", "a", "b", "price", "sixteen", "eight888", "a longer name", "a longer nama"];

    fn json() -> impl Strategy<Value = String> {
        let names =
            NAMES.into_iter().chain(["a longer nam", "eight88", "\u{2400}", "pric", "other", "x\\u0000"]);
        let values = ["1", "-7000000000", "2.5", "true", "null", "\"text\"", "[1,2]", "{\"a\":1}", "\"\""];
        let member =
            (proptest::sample::select(names.collect::<Vec<_>>()), proptest::sample::select(values.to_vec()));
        proptest::collection::vec(member, 0..10).prop_map(|mut members| {
            let mut met = HashSet::new();
            members.retain(|(name, _)| met.insert(*name));
            let members = members.iter().map(|(name, value)| format!("\"{name}\":{value}"));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        })
    }

    proptest! {
        #[test]
        fn members_are_those_that_are_found_one_by_one(
            json in json(),
            asked in proptest::collection::vec(0..NAMES.len(), 0..12),
            cut in any::<proptest::sample::Index>(),
        ) {
            let body = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
            let names = MemberNames::new(NAMES).unwrap();
            for length in [body.as_bytes().len(), cut.index(body.as_bytes().len())] {
                let document = RawDocument::assume_valid(&body.as_bytes()[..length]);
                let mut members = Members::new(&names, document);
                for place in &asked {
                    prop_assert_eq!(members.get(*place), document.get(NAMES[*place]), "{} of {}", NAMES[*place], json);
                }
            }
        }
    }

    #[test]
    fn names_are_looked_for_once_and_as_they_are_stored() {
        assert!(MemberNames::new(["a", "b", "a"]).is_none());
        assert!(MemberNames::new(["a\0b"]).is_none());
        let many: Vec<String> = (0..=MEMBERS_MAX).map(|number| number.to_string()).collect();
        assert!(MemberNames::new(many.iter().map(String::as_str)).is_none());
        assert!(MemberNames::new(many[1..].iter().map(String::as_str)).is_some());
    }
}
