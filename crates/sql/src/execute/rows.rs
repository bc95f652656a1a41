//! Rows as JSON text, written straight from where the values lie; or bodies of items as they are stored, where a query asks for them.

use shardlake_document::write_json_string;

use super::PageLimits;
use crate::bound::Projection;
use crate::error::SqlError;
use crate::evaluate::datum::Datum;
use crate::evaluate::json_text::write_datum;
use crate::evaluate::scope::Scope;
use crate::evaluate::{COPIED_BYTES_PER_STEP, evaluate};

/// Room that there is before a row is written.
const LEAST_ROOM_BYTES: usize = 512;

/// Rows one behind the other in one buffer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Rows {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Of all rows, without what stands between them.
    pub fn size_bytes(&self) -> usize {
        self.text.len()
    }

    /// Each row's JSON text, or its body as BSON.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..*end])
    }

    /// The row with this number.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Some(&self.text[start..end])
    }

    pub fn push_text(&mut self, row: &[u8]) {
        self.text.extend_from_slice(row);
        self.ends.push(self.text.len());
    }

    /// All rows of another page behind these.
    pub fn append(&mut self, other: Rows) {
        if self.is_empty() {
            *self = other;
        } else {
            other.iter().for_each(|row| self.push_text(row));
        }
    }

    /// Writes the row that a projection makes; false when it has no room, and then nothing is written. A row without a value
    /// is none. The first row of a page always has room.
    pub(super) fn push(
        &mut self,
        projection: &Projection,
        scope: &Scope<'_>,
        limits: PageLimits,
    ) -> Result<Pushed, SqlError> {
        if self.len() >= limits.rows {
            return Ok(Pushed::NoRoom);
        }
        let start = self.text.len();
        if start + LEAST_ROOM_BYTES > self.text.capacity() {
            // Rows are copied less often than by doubling.
            self.text.reserve(3 * start + LEAST_ROOM_BYTES);
        }
        if !write_row(projection, scope, &mut self.text)? {
            self.text.truncate(start);
            return Ok(Pushed::NoRow);
        }
        if self.text.len() > limits.size_bytes && !self.is_empty() {
            self.text.truncate(start);
            return Ok(Pushed::NoRoom);
        }
        scope.step((self.text.len() - start) as u64 / COPIED_BYTES_PER_STEP)?;
        self.ends.push(self.text.len());
        Ok(Pushed::Row)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pushed {
    Row,
    /// The projection has no value here.
    NoRow,
    NoRoom,
}

/// Whether a projection makes a row here.
pub(super) fn is_row(projection: &Projection, scope: &Scope<'_>) -> Result<bool, SqlError> {
    match projection {
        Projection::Value(value) => Ok(!evaluate(value, scope)?.is_undefined()),
        Projection::All(_) | Projection::Bodies(_) | Projection::Object(_) => Ok(true),
    }
}

/// Appends the row; false when there is none.
pub(super) fn write_row(
    projection: &Projection,
    scope: &Scope<'_>,
    out: &mut Vec<u8>,
) -> Result<bool, SqlError> {
    match projection {
        Projection::All(slot) => write_datum(&scope.variable(*slot), out),
        Projection::Bodies(slot) => {
            let Datum::Item(item) = scope.variable(*slot) else { return Ok(false) };
            out.extend_from_slice(item.body.as_bytes());
            Ok(true)
        }
        Projection::Value(value) => write_datum(&evaluate(value, scope)?, out),
        Projection::Object(members) => {
            out.push(b'{');
            let first = out.len();
            for (name, member) in members {
                let start = out.len();
                if start > first {
                    out.push(b',');
                }
                write_json_string(name, out);
                out.push(b':');
                if !write_datum(&evaluate(member, scope)?, out)? {
                    out.truncate(start);
                }
            }
            out.push(b'}');
            Ok(true)
        }
    }
}
