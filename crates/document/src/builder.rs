//! Builder of a BSON document, driven by the reader of some format.
//!
//! The readers (`json_in.rs`) know a format's grammar. Rules that all formats share are here: open
//! containers, the limit of nesting, names that occur twice, system properties that are dropped. So an item
//! becomes the same bytes in every format.
//!
//! A reader calls [`Builder::open`], then for each value [`Builder::element`], or
//! [`Builder::begin_name`] and [`Builder::end_name`]; it writes the value into the slot, calls
//! [`Builder::finish`], and at the end of the container [`Builder::close`]. Names and strings are
//! written straight into the output. The stack of open containers is explicit, so depth costs no
//! machine stack.
//!
//! The last of several members with one name counts, in the place of the first, as in JavaScript. Duplicates
//! are looked for when an object closes: every pair of a small object, neighbours after sorting in a large
//! one.
//!
//! # Integers beyond 64 bits
//! Such an integer becomes a double, which can hold only a few of them. Where numbers must be kept exactly
//! ([`Numbers::Exact`]) it is accepted if it is the double's value, or the shortest text of the double, which
//! is how JavaScript writes its numbers up to 10²¹. Any other would read back as another number and is
//! refused.

use std::collections::HashMap;
use std::ops::Range;

use shardlake_model::Numbers;

use crate::body::{Body, system_property_index};
use crate::bson_writer::{BsonWriter, Slot, kind};
use crate::error::DocumentError;
use crate::limits::{NESTING_CEILING, ParseLimits};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Object,
    Array,
}

/// An object or array that is still open.
struct Frame {
    shape: Shape,
    /// `None` for the root, which has no name.
    slot: Option<Slot>,
    length_at: usize,
    /// For objects: the start of its names in `Builder::names`.
    names_start: usize,
    /// For arrays: the index of the next element.
    next_index: usize,
}

/// The place of a property name in the output, with its first bytes for quick comparison.
#[derive(Clone, Copy)]
struct Name {
    prefix: u64,
    start: usize,
    length: usize,
    /// The start of the member.
    member_at: usize,
}

pub(crate) struct Builder {
    pub writer: BsonWriter,
    nesting_max: usize,
    numbers: Numbers,
    stack: Vec<Frame>,
    /// Names of all open objects, innermost last.
    names: Vec<Name>,
    drops_system_properties: bool,
    /// Set while the value of a system property is read: the place at which the output is cut afterwards.
    discard: Option<usize>,
}

impl Builder {
    pub fn new(capacity: usize, limits: &ParseLimits) -> Builder {
        Builder {
            writer: BsonWriter::with_capacity(capacity),
            nesting_max: limits.nesting_max.min(NESTING_CEILING),
            numbers: limits.numbers,
            stack: Vec::with_capacity(8),
            names: Vec::with_capacity(32),
            drops_system_properties: false,
            discard: None,
        }
    }

    /// Makes the root an item: system properties at its top level are dropped.
    pub fn drop_system_properties(&mut self) {
        self.drops_system_properties = true;
    }

    /// The shape of the innermost container that is open.
    #[inline]
    pub fn innermost(&self) -> Option<Shape> {
        self.stack.last().map(|frame| frame.shape)
    }

    /// Opens a container in `slot`, or the root. `offset` is the place of the container in the text.
    pub fn open(&mut self, shape: Shape, slot: Option<Slot>, offset: usize) -> Result<(), DocumentError> {
        if self.stack.len() >= self.nesting_max {
            return Err(DocumentError::TooDeep { nesting_max: self.nesting_max, offset });
        }
        let kind = if shape == Shape::Object { kind::DOCUMENT } else { kind::ARRAY };
        let length_at = match slot {
            Some(slot) => self.writer.begin_document(slot, kind),
            None => self.writer.reserve_length(),
        };
        self.stack.push(Frame { shape, slot, length_at, names_start: self.names.len(), next_index: 0 });
        Ok(())
    }

    /// Closes the innermost container.
    pub fn close(&mut self) -> Result<(), DocumentError> {
        let frame = self.stack.pop().expect("only called with an open container");
        if frame.shape == Shape::Object {
            self.keep_last_of_each_name(frame.names_start);
            self.names.truncate(frame.names_start);
        }
        self.writer.end_document(frame.length_at);
        if let Some(slot) = frame.slot {
            self.finish(slot);
        }
        Ok(())
    }

    /// The value of `slot` is complete.
    #[inline]
    pub fn finish(&mut self, slot: Slot) {
        self.writer.finish(slot);
        if self.discard == Some(slot.type_at) {
            self.writer.out.truncate(slot.type_at);
            self.discard = None;
        }
    }

    /// The slot of the next element of the innermost container, an array.
    #[inline]
    pub fn element(&mut self) -> Slot {
        debug_assert_eq!(self.innermost(), Some(Shape::Array), "only arrays have elements without names");
        let frame = self.stack.last_mut().expect("only called inside an array");
        let index = frame.next_index;
        frame.next_index += 1;
        self.writer.element(index)
    }

    /// Begins the name of a member: the reader appends the name to the output, and passes the returned
    /// position on to [`Builder::end_name`].
    #[inline]
    pub fn begin_name(&mut self) -> usize {
        let type_at = self.writer.out.len();
        self.writer.out.push(kind::END);
        type_at
    }

    /// Ends the name that [`Builder::begin_name`] began, and returns the slot of its value.
    pub fn end_name(&mut self, type_at: usize) -> Result<Slot, DocumentError> {
        if self.drops_system_properties && self.stack.len() == 1 {
            self.note_system_property(type_at);
        }
        let name = &self.writer.out[type_at + 1..];
        let (prefix, length, has_nul) = (prefix(name), name.len(), name.contains(&0));
        let slot = self.writer.member_in_place(type_at, has_nul);
        // The exact name precedes the value; in the wrapped form a zero, the scope's length and a type byte
        // are between the two.
        let start = if has_nul { slot.type_at - 4 - 1 - length } else { type_at + 1 };
        if self.discard != Some(slot.type_at) {
            self.names.push(Name { prefix, start, length, member_at: type_at });
        }
        Ok(slot)
    }

    /// Writes an integer beyond 64 bits, from its digits and an optional sign. `offset` is the place of the
    /// integer in the text.
    #[cold]
    pub fn large_integer(&mut self, slot: Slot, text: &str, offset: usize) -> Result<(), DocumentError> {
        let value: f64 = text.parse().expect("a run of digits is a number");
        if !value.is_finite() {
            return Err(DocumentError::NumberOutOfRange { offset });
        }
        let is_kept = || text == format!("{value:.0}") || text == format!("{value}");
        if self.numbers == Numbers::Exact && self.discard.is_none() && !is_kept() {
            return Err(DocumentError::NumberNotKept { path: self.path(), number: shortened(text) });
        }
        self.writer.double(slot, value);
        Ok(())
    }

    /// The path of the value that is being read: names and indexes, each after a slash.
    fn path(&self) -> String {
        let mut path = String::new();
        for (level, frame) in self.stack.iter().enumerate() {
            let names_end = self.stack.get(level + 1).map_or(self.names.len(), |inner| inner.names_start);
            match (frame.shape, self.names[..names_end].last()) {
                (Shape::Object, Some(name)) => {
                    let name = &self.writer.out[name.start..name.start + name.length];
                    path.push('/');
                    path.push_str(&String::from_utf8_lossy(name));
                }
                (Shape::Object, None) => {}
                (Shape::Array, _) => path.push_str(&format!("/{}", frame.next_index - 1)),
            }
        }
        path
    }

    pub fn into_body(self) -> Result<Body, DocumentError> {
        assert!(self.stack.is_empty(), "a body is whole when each of its containers is closed");
        assert!(self.discard.is_none(), "a member that is dropped is dropped whole");
        Body::from_writer(self.writer.out)
    }

    fn note_system_property(&mut self, type_at: usize) {
        if system_property_index(&self.writer.out[type_at + 1..]).is_some() {
            self.discard = Some(type_at);
        }
    }

    fn keep_last_of_each_name(&mut self, names_start: usize) {
        const PAIRWISE_MAX: usize = 24;
        let out = &self.writer.out;
        let text = |name: &Name| &out[name.start..name.start + name.length];
        let same = |a: &Name, b: &Name| a.prefix == b.prefix && a.length == b.length && text(a) == text(b);
        let names = &mut self.names[names_start..];
        let has_twins = if names.len() <= PAIRWISE_MAX {
            let twin = |index: usize| names[..index].iter().any(|earlier| same(earlier, &names[index]));
            (1..names.len()).any(twin)
        } else {
            names.sort_unstable_by(|a, b| a.prefix.cmp(&b.prefix).then_with(|| text(a).cmp(text(b))));
            (1..names.len()).any(|index| same(&names[index - 1], &names[index]))
        };
        if has_twins {
            self.drop_earlier_twins(names_start);
        }
    }

    /// Keeps the last member of each name, in the place of the first.
    #[cold]
    fn drop_earlier_twins(&mut self, names_start: usize) {
        let out = &mut self.writer.out;
        let mut names = self.names[names_start..].to_vec();
        names.sort_unstable_by_key(|name| name.member_at);
        let Some(begin) = names.first().map(|name| name.member_at) else { return };
        let ends: Vec<usize> = names.iter().skip(1).map(|name| name.member_at).chain([out.len()]).collect();
        let mut places: HashMap<&[u8], usize> = HashMap::new();
        let mut members: Vec<Range<usize>> = Vec::with_capacity(names.len());
        for (name, end) in names.iter().zip(ends) {
            let place = *places.entry(&out[name.start..name.start + name.length]).or_insert(members.len());
            match members.get_mut(place) {
                Some(earlier) => *earlier = name.member_at..end,
                None => members.push(name.member_at..end),
            }
        }
        let kept: Vec<u8> = members.into_iter().flat_map(|member| out[member].iter().copied()).collect();
        assert!(begin + kept.len() <= out.len(), "dropping earlier twins never lengthens a document");
        out.truncate(begin);
        out.extend_from_slice(&kept);
    }
}

/// Shortens a number for a message, so that it is still recognisable.
fn shortened(text: &str) -> String {
    const LENGTH_MAX: usize = 40;
    match text.get(..LENGTH_MAX) {
        Some(start) if text.len() > LENGTH_MAX => format!("{start}…"),
        _ => text.to_owned(),
    }
}

/// The first eight bytes, padded with zeros.
fn prefix(name: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = name.len().min(8);
    bytes[..length].copy_from_slice(&name[..length]);
    u64::from_be_bytes(bytes)
}
