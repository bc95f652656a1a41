//! Rows as JSON text, written without intermediate copies; or stored bodies of items, if a query asks for
//! them.

use serde::{Deserialize, Serialize};
use shardlake_document::{NESTING_CEILING, ParseLimits, Value, write_json_string};

use super::limits::PageLimits;
use crate::bound::{Expression, Projection};
use crate::error::SqlError;
use crate::evaluate::evaluate;
use crate::evaluate::scope::Scope;
use crate::value::datum::Datum;
use crate::value::json_text::write_datum;
use crate::value::meter::COPIED_BYTES_PER_STEP;

/// Minimum free capacity before a row is written.
const LEAST_ROOM_BYTES: usize = 512;

/// Size at which a part is full. A page is rows of 4 MB at most, so it has about a hundred parts.
const PART_BYTES: usize = 32 << 10;

/// Consecutive rows, in parts. A page grows without being copied. A writer of an answer releases each part
/// once it is written ([`Rows::into_parts`]), so that a page is never in memory twice.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Rows {
    parts: Vec<RowsPart>,
    len: usize,
    size_bytes: usize,
}

/// Rows in one buffer. A row that is larger than a part has its own part.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RowsPart {
    /// The number of its first row among all rows.
    first: usize,
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl RowsPart {
    /// Each row's JSON text, or its body as BSON.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..*end])
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Some(&self.text[start..end])
    }

    /// Makes space for a row. Short pages stay short, and longer ones are copied less often than by doubling.
    fn reserve(&mut self, row_bytes: usize) {
        let start = self.text.len();
        if start + row_bytes > self.text.capacity() {
            let wanted = (4 * start).min(PART_BYTES + PART_BYTES / 8).max(start + row_bytes);
            self.text.reserve_exact(wanted - start);
        }
    }
}

/// The value of a row's text.
pub(crate) fn parse_row(text: &[u8]) -> Result<Value, SqlError> {
    let limits =
        ParseLimits { nesting_max: NESTING_CEILING, size_max_bytes: text.len(), ..ParseLimits::default() };
    Value::from_json(text, &limits).map_err(|_| SqlError::UnmergeableRow)
}

impl PartialEq for Rows {
    /// The division into parts does not matter.
    fn eq(&self, other: &Rows) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl Eq for Rows {}

impl Rows {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of all rows, without separators.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Each row's JSON text, or its body as BSON.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().flat_map(RowsPart::iter)
    }

    /// The parts in the order of their rows. Dropping a part releases its memory.
    pub fn into_parts(self) -> impl Iterator<Item = RowsPart> {
        self.parts.into_iter()
    }

    /// The row with this number.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let part = self.parts.partition_point(|part| part.first <= index).checked_sub(1)?;
        self.parts[part].get(index - self.parts[part].first)
    }

    pub fn push_text(&mut self, row: &[u8]) {
        let part = self.open_part();
        part.reserve(row.len());
        part.text.extend_from_slice(row);
        self.close_row(row.len());
    }

    /// Appends all rows of another page. Few bytes are copied, so that many short pages do not become many
    /// short parts.
    pub fn append(&mut self, other: Rows) {
        if self.is_empty() {
            *self = other;
        } else if other.size_bytes <= PART_BYTES / 4 {
            other.iter().for_each(|row| self.push_text(row));
        } else {
            let before = self.len;
            self.len += other.len;
            self.size_bytes += other.size_bytes;
            let parts = other.parts.into_iter();
            self.parts.extend(parts.map(|part| RowsPart { first: part.first + before, ..part }));
            debug_assert!(
                self.parts.is_sorted_by(|left, right| left.first < right.first),
                "the parts of a page are in the order of their rows"
            );
        }
    }

    /// The part that the next row is written into.
    fn open_part(&mut self) -> &mut RowsPart {
        if self.parts.last().is_none_or(|part| part.text.len() >= PART_BYTES) {
            self.parts.push(RowsPart { first: self.len, ..RowsPart::default() });
        }
        self.parts.last_mut().expect("a part was just made where there was none")
    }

    /// Ends a row after the last write into the open part.
    fn close_row(&mut self, row_bytes: usize) {
        let part = self.parts.last_mut().expect("a row was written into a part");
        assert!(part.text.len() >= row_bytes, "a row is written before it is counted");
        part.ends.push(part.text.len());
        self.len += 1;
        self.size_bytes += row_bytes;
    }

    /// Writes the row of a projection; false, without writing, if the row does not fit. A row without a value
    /// is dropped. The first row of a page always fits.
    pub(super) fn push(
        &mut self,
        projection: &Projection,
        scope: &Scope<'_>,
        limits: PageLimits,
    ) -> Result<Pushed, SqlError> {
        if self.len() >= limits.rows {
            return Ok(Pushed::NoRoom);
        }
        let (before, is_first) = (self.size_bytes, self.is_empty());
        let part = self.open_part();
        let start = part.text.len();
        part.reserve(LEAST_ROOM_BYTES);
        if !write_row(projection, scope, &mut part.text)? {
            part.text.truncate(start);
            return Ok(Pushed::NoRow);
        }
        let row_bytes = part.text.len() - start;
        if before + row_bytes > limits.size_bytes && !is_first {
            part.text.truncate(start);
            return Ok(Pushed::NoRoom);
        }
        scope.step(row_bytes as u64 / COPIED_BYTES_PER_STEP)?;
        self.close_row(row_bytes);
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

/// Whether a projection has a row here.
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

/// Evaluates the expressions of a row, for the calls in them.
pub(super) fn evaluate_projection(projection: &Projection, row: &Scope<'_>) -> Result<(), SqlError> {
    match projection {
        Projection::All(_) | Projection::Bodies(_) => Ok(()),
        Projection::Value(value) => evaluate(value, row).map(|_| ()),
        Projection::Object(members) => evaluate_all(members.iter().map(|(_, value)| value), row),
    }
}

/// Evaluates all expressions, none of which waits for another.
pub(super) fn evaluate_all<'e>(
    expressions: impl Iterator<Item = &'e Expression>,
    row: &Scope<'_>,
) -> Result<(), SqlError> {
    let mut outcome = Ok(());
    for expression in expressions {
        match evaluate(expression, row) {
            Ok(_) => {}
            Err(SqlError::AwaitsUserFunction) => outcome = Err(SqlError::AwaitsUserFunction),
            Err(error) => return Err(error),
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes around those that matter, some rows larger than a part.
    fn rows(count: usize, turn: usize) -> (Rows, Vec<Vec<u8>>) {
        let texts: Vec<Vec<u8>> = (0..count)
            .map(|n| {
                vec![b'a' + (n % 26) as u8; [1, 37, 900, PART_BYTES - 1, 3 * PART_BYTES][(n * n + turn) % 5]]
            })
            .collect();
        let mut rows = Rows::default();
        texts.iter().for_each(|text| rows.push_text(text));
        (rows, texts)
    }

    #[test]
    fn rows_are_found_by_number_and_in_order_however_they_are_divided() {
        for (count, more, turn) in [(0, 3, 0), (1, 0, 1), (9, 1, 2), (40, 40, 3), (200, 7, 4)] {
            let (mut all, mut texts) = rows(count, turn);
            let (other, others) = rows(more, turn + 1);
            all.append(other);
            texts.extend(others);
            assert_eq!(all.len(), texts.len());
            assert_eq!(all.size_bytes(), texts.iter().map(Vec::len).sum::<usize>());
            assert!(all.iter().eq(texts.iter().map(Vec::as_slice)));
            for (at, text) in texts.iter().enumerate() {
                assert_eq!(all.get(at), Some(text.as_slice()), "row {at}");
            }
            assert_eq!(all.get(texts.len()), None);
            let mut again = Rows::default();
            texts.iter().for_each(|text| again.push_text(text));
            assert_eq!(all, again);
            assert!(
                all.into_parts()
                    .flat_map(|part| part.iter().map(<[u8]>::to_vec).collect::<Vec<_>>())
                    .eq(texts)
            );
        }
    }

    #[test]
    fn parts_hold_little_more_than_their_rows() {
        let mut all = Rows::default();
        (0..5_000).for_each(|_| all.push_text(&[b'x'; 700]));
        let parts: Vec<RowsPart> = all.into_parts().collect();
        assert!(parts.len() > 100, "{} parts", parts.len());
        for part in &parts {
            assert!(part.text.capacity() <= PART_BYTES + PART_BYTES / 8, "{}", part.text.capacity());
        }
        let mut short = Rows::default();
        short.push_text(b"1");
        assert!(short.parts[0].text.capacity() < LEAST_ROOM_BYTES);
    }

    #[test]
    fn many_short_pages_are_few_parts() {
        let mut all = Rows::default();
        for _ in 0..1_000 {
            let mut page = Rows::default();
            page.push_text(&[b'x'; 40]);
            all.append(page);
        }
        assert_eq!(all.len(), 1_000);
        assert!(all.parts.len() <= 2, "{} parts", all.parts.len());
    }
}
