//! Counts of values that are in `_rest`, by reason, with the first paths.

use std::fmt::Write as _;

/// The reason why a value is in `_rest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The column has another type.
    Type,
    /// The column's number type lacks the number.
    Number,
    /// The name occurred in the same object, in another spelling.
    Spelling,
    /// The table has a column of its own with this name.
    Reserved,
    /// The column's name would be empty or too long.
    Name,
    /// The schema has as many properties as it may.
    Properties,
    /// Too many levels of objects and arrays.
    Levels,
    /// `{}` or `[]`, or nothing but null inside, at a path without a column.
    Empty,
    /// A kind of BSON without a member in full fidelity.
    Kind,
    /// A property of the root with so many values for `_rest` that it is there as a whole.
    Size,
}

/// Values in `_rest`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overflow {
    counts: [u64; Reason::ALL.len()],
    paths: Vec<String>,
}

/// Paths that are recorded.
const PATHS_MAX: usize = 20;

/// The path of a value within its document.
#[derive(Clone, Copy)]
pub(super) struct Path<'p> {
    pub parent: Option<&'p Path<'p>>,
    pub step: Step<'p>,
}

#[derive(Clone, Copy)]
pub(super) enum Step<'p> {
    /// A name, which is UTF-8.
    Member(&'p [u8]),
    Element(usize),
}

impl Reason {
    pub const ALL: [Reason; 10] = {
        use Reason::*;
        [Type, Number, Spelling, Reserved, Name, Properties, Levels, Empty, Kind, Size]
    };

    /// The reason as metrics and the status show it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Type => "type",
            Reason::Number => "number",
            Reason::Spelling => "spelling",
            Reason::Reserved => "reserved",
            Reason::Name => "name",
            Reason::Properties => "properties",
            Reason::Levels => "levels",
            Reason::Empty => "empty",
            Reason::Kind => "kind",
            Reason::Size => "size",
        }
    }
}

impl Overflow {
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize]
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The first different paths, as JSON Pointers with `[]` for each element of an array.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    pub fn merge(&mut self, other: &Overflow) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        for path in &other.paths {
            self.note_path(path);
        }
    }

    pub(super) fn note(&mut self, reason: Reason, path: &Path<'_>) {
        self.counts[reason as usize] += 1;
        if self.paths.len() < PATHS_MAX {
            let mut text = String::new();
            path.write(&mut text, false);
            self.note_path(&text);
        }
    }

    fn note_path(&mut self, path: &str) {
        if self.paths.len() < PATHS_MAX && !self.paths.iter().any(|known| known == path) {
            self.paths.push(path.to_owned());
        }
    }
}

impl Path<'_> {
    /// Appends the path as a JSON Pointer.
    pub fn write(&self, out: &mut String, has_indexes: bool) {
        if let Some(parent) = self.parent {
            parent.write(out, has_indexes);
        }
        out.push('/');
        match self.step {
            Step::Element(index) if has_indexes => {
                write!(out, "{index}").expect("a string takes all text");
            }
            Step::Element(_) => out.push_str("[]"),
            Step::Member(name) => {
                for character in String::from_utf8_lossy(name).chars() {
                    match character {
                        '~' => out.push_str("~0"),
                        '/' => out.push_str("~1"),
                        character => out.push(character),
                    }
                }
            }
        }
    }
}
