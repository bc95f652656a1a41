//! Rows to a batch of columns: one walk over each document.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, StringBuilder};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{Field as ArrowField, Schema};
use shardlake_document::{BsonKind, NonJson, RawArray, RawDocument, RawElement, RawValue};

use crate::schema::{
    Exclusions, Member, Rules, SchemaLimits, TableSchema, binary_of, double_of_long, inner_exclusions,
    is_system_column, long_of_double, member_of, microseconds_of,
};

use super::columns::{Column, ListColumn, ObjectColumn, ValueColumn};
use super::overflow::{Overflow, Path, Reason, Step};
use super::rest::Rest;
use super::row::Row;

/// Bytes of the bodies of one batch, so that no column exceeds its 32-bit offsets.
pub const BATCH_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Rows of one batch.
const BATCH_ROWS_MAX: usize = 65_536;

/// Divides rows into parts that are each short enough for [`shred`].
pub fn batches_of<'r, 'a>(rows: &'r [Row<'a>]) -> impl Iterator<Item = &'r [Row<'a>]> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let is_over = |row: &Row<'_>| {
            bytes += row.body.as_bytes().len();
            bytes > BATCH_BYTES_MAX
        };
        let fitting = rest.iter().position(is_over).unwrap_or(rest.len());
        // One item is far shorter than a batch may be.
        let (batch, after) = rest.split_at(fitting.clamp(1, BATCH_ROWS_MAX).min(rest.len()));
        rest = after;
        (!batch.is_empty()).then_some(batch)
    })
}

/// The columns of a batch of rows.
#[derive(Debug, Clone)]
pub struct Shredded {
    /// Columns in the schema's order, without those that are NULL in all rows.
    pub batch: RecordBatch,
    pub overflow: Overflow,
}

/// Puts rows into the columns of a schema, which should have learned from them first. The bodies together
/// are at most [`BATCH_BYTES_MAX`] long.
pub fn shred(schema: &TableSchema, rows: &[Row<'_>]) -> Shredded {
    let bytes: usize = rows.iter().map(|row| row.body.as_bytes().len()).sum();
    assert!(bytes <= BATCH_BYTES_MAX, "a batch of at most {BATCH_BYTES_MAX} bytes");
    let mut shredder = Shredder::new(schema, BTreeSet::new());
    let root = shredder.columns(schema, rows);
    if shredder.too_long.is_empty() {
        return root.shredded(shredder);
    }
    let mut shredder = Shredder::new(schema, shredder.too_long);
    let root = shredder.columns(schema, rows);
    assert!(shredder.too_long.is_empty(), "the texts of other properties are as long as before");
    root.shredded(shredder)
}

struct Columns<'s> {
    root: ObjectColumn<'s>,
    system: SystemColumns,
    rows: usize,
}

impl Columns<'_> {
    fn shredded(self, shredder: Shredder) -> Shredded {
        Shredded { batch: self.system.batch(self.root, self.rows), overflow: shredder.rest.overflow }
    }
}

struct SystemColumns {
    rid: StringBuilder,
    timestamp: Int64Builder,
    id: StringBuilder,
    etag: StringBuilder,
    lsn: Int64Builder,
    rest: StringBuilder,
}

impl SystemColumns {
    fn new(rows: usize) -> SystemColumns {
        SystemColumns {
            rid: StringBuilder::with_capacity(rows, 0),
            timestamp: Int64Builder::with_capacity(rows),
            id: StringBuilder::with_capacity(rows, 0),
            etag: StringBuilder::with_capacity(rows, 0),
            lsn: Int64Builder::with_capacity(rows),
            rest: StringBuilder::with_capacity(rows, 0),
        }
    }

    fn append(&mut self, row: &Row<'_>, id: Option<&str>) {
        self.rid.append_value(row.rid);
        self.timestamp.append_value(signed(row.timestamp_seconds));
        self.id.append_option(id);
        self.etag.append_value(row.etag);
        self.lsn.append_value(signed(row.lsn));
    }

    fn batch(mut self, root: ObjectColumn<'_>, rows: usize) -> RecordBatch {
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            ("_rid", Arc::new(self.rid.finish())),
            ("_ts", Arc::new(self.timestamp.finish())),
            ("id", Arc::new(self.id.finish())),
            ("_etag", Arc::new(self.etag.finish())),
        ];
        for (field, column) in root.fields.iter().zip(root.columns) {
            columns.extend(column.finish(rows, false).map(|array| (&*field.column, array)));
        }
        columns.push(("_lsn", Arc::new(self.lsn.finish())));
        columns.push(("_rest", Arc::new(self.rest.finish())));
        columns.retain(|(name, array)| !matches!(*name, "id" | "_rest") || array.null_count() < rows);
        let field =
            |(name, array): &(&str, ArrayRef)| ArrowField::new(*name, array.data_type().clone(), true);
        let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        RecordBatch::try_new(Arc::new(schema), arrays).expect("columns of one length and of their own types")
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).expect("seconds and LSNs stay below 2^63")
}

struct Shredder {
    rules: Rules,
    is_full_fidelity: bool,
    rest: Rest,
    /// Properties of the root, by row and place in the document, that are kept whole in `_rest`.
    whole: BTreeSet<(usize, usize)>,
    /// Such properties, found now.
    too_long: BTreeSet<(usize, usize)>,
}

/// A value to be put into a column.
#[derive(Clone, Copy)]
struct Part<'a, 'p> {
    element: &'p RawElement<'a>,
    path: &'p Path<'p>,
    exclude: Option<&'p Exclusions>,
    /// Properties of the root have depth 1.
    depth: usize,
}

impl<'a> Part<'a, '_> {
    /// Damaged bytes are shown as null.
    #[inline]
    fn value(&self) -> RawValue<'a> {
        self.element.value().unwrap_or(RawValue::Null)
    }
}

impl Shredder {
    fn new(schema: &TableSchema, whole: BTreeSet<(usize, usize)>) -> Shredder {
        let rules = Rules { mode: schema.mode(), limits: schema.limits() };
        let is_full_fidelity = rules.mode.is_full_fidelity();
        Shredder { rules, is_full_fidelity, rest: Rest::new(), whole, too_long: BTreeSet::new() }
    }

    fn columns<'s>(&mut self, schema: &'s TableSchema, rows: &[Row<'_>]) -> Columns<'s> {
        let mut root = ObjectColumn::new(schema.fields());
        let mut system = SystemColumns::new(rows.len());
        let exclude = schema.exclusions().some();
        for (position, row) in rows.iter().enumerate() {
            let id = self.root(&mut root, position, row.body, exclude);
            system.append(row, id);
            self.rest.take(|text| system.rest.append_option(text));
        }
        Columns { root, system, rows: rows.len() }
    }

    /// Puts a document into the columns of the root. Returns its `id`.
    fn root<'a>(
        &mut self,
        column: &mut ObjectColumn<'_>,
        position: usize,
        document: RawDocument<'a>,
        exclude: Option<&Exclusions>,
    ) -> Option<&'a str> {
        column.begin(position);
        let (mut next, mut id) = (0, None);
        for (place, element) in document.elements().enumerate() {
            if element.name_bytes() == b"id"
                && let Some(RawValue::String(text)) = element.value()
            {
                id = Some(text);
                continue;
            }
            let path = Path { parent: None, step: Step::Member(element.name_bytes()) };
            let part = Part { element: &element, path: &path, exclude, depth: 1 };
            if !self.whole.is_empty() && self.whole.contains(&(position, place)) {
                self.whole_member(column, position, part);
                continue;
            }
            let start = self.rest.begin(element.bytes().len());
            self.member(column, position, &mut next, part);
            if self.rest.end(start) {
                self.too_long.insert((position, place));
            }
        }
        id
    }

    fn whole_member(&mut self, column: &mut ObjectColumn<'_>, position: usize, part: Part<'_, '_>) {
        let exclude = inner_exclusions(part.exclude, part.element).expect("an excluded member has no text");
        let index = column.fields.find(part.element.name_bytes(), &mut 0);
        let index = index.expect("a member without a column has one text");
        column.columns[index].fill(position + 1);
        self.keep(Part { exclude, ..part }, Reason::Size);
    }

    fn object(
        &mut self,
        column: &mut ObjectColumn<'_>,
        position: usize,
        document: RawDocument<'_>,
        whole: Part<'_, '_>,
    ) {
        column.begin(position);
        let mut next = 0;
        for element in document.elements() {
            let path = Path { parent: Some(whole.path), step: Step::Member(element.name_bytes()) };
            let part =
                Part { element: &element, path: &path, exclude: whole.exclude, depth: whole.depth + 1 };
            self.member(column, position, &mut next, part);
        }
    }

    /// Puts a member into its field's column.
    #[inline]
    fn member(
        &mut self,
        column: &mut ObjectColumn<'_>,
        position: usize,
        next: &mut usize,
        part: Part<'_, '_>,
    ) {
        let Some(exclude) = inner_exclusions(part.exclude, part.element) else { return };
        let part = Part { exclude, ..part };
        match column.fields.find(part.element.name_bytes(), next) {
            Some(index) => {
                let column = &mut column.columns[index];
                if column.len() > position {
                    return self.keep(part, Reason::Spelling);
                }
                self.value(column, position, part);
            }
            None => self.without_column(part.element.name().unwrap_or_default(), part),
        }
    }

    fn array(
        &mut self,
        column: &mut ListColumn<'_>,
        position: usize,
        array: RawArray<'_>,
        whole: Part<'_, '_>,
    ) {
        let start = column.begin(position);
        let mut count = 0;
        for element in array.elements() {
            let path = Path { parent: Some(whole.path), step: Step::Element(count) };
            let part =
                Part { element: &element, path: &path, exclude: whole.exclude, depth: whole.depth + 1 };
            self.value(&mut column.element, start + count, part);
            count += 1;
        }
        column.end_at(start + count);
    }

    fn value(&mut self, column: &mut Column<'_>, position: usize, part: Part<'_, '_>) {
        column.fill(position);
        if let (Column::String(column), Some(text)) = (&mut *column, text_bytes(part.element)) {
            return column.append(text);
        }
        if let Column::Value(column) = column {
            return self.full_value(column, position, part);
        }
        match (&mut *column, part.value()) {
            (Column::Long(builder), RawValue::Int(number)) => builder.append_value(number),
            (Column::Double(builder), RawValue::Double(number)) => builder.append_value(number),
            (Column::Boolean(builder), RawValue::Bool(value)) => builder.append_value(value),
            (Column::Object(column), RawValue::Object(document)) => {
                self.object(column, position, document, part);
            }
            (Column::List(column), RawValue::Array(array)) => self.array(column, position, array, part),
            (Column::Long(builder), RawValue::Double(number)) => match long_of_double(number) {
                Some(number) => builder.append_value(number),
                None => self.misfit(column, position, part, Reason::Number),
            },
            (Column::Double(builder), RawValue::Int(number)) => match double_of_long(number) {
                Some(number) => builder.append_value(number),
                None => self.misfit(column, position, part, Reason::Number),
            },
            (Column::Object(column), RawValue::NonJson(value)) => {
                self.object(column, position, value.shown().raw(), part);
            }
            (column, _) => self.misfit(column, position, part, Reason::Type),
        }
    }

    fn misfit(&mut self, column: &mut Column<'_>, position: usize, part: Part<'_, '_>, reason: Reason) {
        column.fill(position + 1);
        self.keep(part, reason);
    }

    /// Puts a value into the member for its type.
    fn full_value(&mut self, column: &mut ValueColumn<'_>, position: usize, part: Part<'_, '_>) {
        let member = member_of(self.rules.mode, part.element);
        let Some((member, index)) = member.and_then(|member| Some((member, column.members.find(member)?)))
        else {
            column.skip(position);
            return self.without_column("-", part);
        };
        column.begin(position);
        let inner = &mut column.columns[index];
        if matches!(member, Member::String | Member::Bool | Member::Object | Member::Array) {
            return self.value(inner, position, part);
        }
        inner.fill(position);
        match (inner, part.value()) {
            (Column::Double(builder), RawValue::Int(number)) => {
                builder.append_value(double_of_long(number).expect("other integers are `int64`"));
            }
            (Column::Double(builder), RawValue::NonJson(number)) => {
                builder.append_value(number.number().expect("a double that is not finite"));
            }
            (Column::Integer(builder), RawValue::Int(number)) => {
                builder.append_value(i32::try_from(number).expect("four bytes"));
            }
            (Column::Boolean(builder), RawValue::Null) => builder.append_value(true),
            (Column::String(column), RawValue::NonJson(value)) => {
                column.append(shown_text(value, member).as_bytes());
            }
            (Column::Timestamp(builder), RawValue::NonJson(value)) => {
                builder.append_value(microseconds_of(&value).expect("other dates have no member"));
            }
            (Column::Binary(builder), RawValue::NonJson(value)) => {
                builder.append_value(binary_of(&value).expect("other subtypes have no member"));
            }
            (inner, _) => self.value(inner, position, part),
        }
    }

    /// Keeps a value of a path that has no column, or no member for the value's type.
    #[cold]
    fn without_column(&mut self, name: &str, part: Part<'_, '_>) {
        let reason = self.reason(name, &part);
        self.keep(part, reason);
    }

    fn reason(&self, name: &str, part: &Part<'_, '_>) -> Reason {
        let makes = |rules: Rules| rules.makes_column(part.element, part.exclude, part.depth);
        let deep = SchemaLimits { levels: usize::MAX, ..self.rules.limits };
        match () {
            () if part.depth == 1 && is_system_column(name) => Reason::Reserved,
            () if !self.rules.fits_name(name) => Reason::Name,
            () if makes(self.rules) => Reason::Properties,
            () if makes(Rules { limits: deep, ..self.rules }) => Reason::Levels,
            () if self.is_full_fidelity && member_of(self.rules.mode, part.element).is_none() => Reason::Kind,
            () => Reason::Empty,
        }
    }

    /// Writes a value to `_rest`. Null is as missing in well-defined mode.
    fn keep(&mut self, part: Part<'_, '_>, reason: Reason) {
        let value = part.value();
        if self.is_full_fidelity || !matches!(value, RawValue::Null) {
            self.rest.add(part.path, value, part.exclude, reason);
        }
    }
}

/// The bytes of a string, without the length before and the zero after them. The column checks them.
#[inline]
fn text_bytes<'a>(element: &RawElement<'a>) -> Option<&'a [u8]> {
    if element.kind() != Some(BsonKind::String) {
        return None;
    }
    let bytes = element.bytes();
    bytes.get(4..bytes.len().checked_sub(1)?)
}

/// The text of an ObjectId or a decimal.
fn shown_text(value: NonJson<'_>, member: Member) -> String {
    let name = if member == Member::ObjectId { "$oid" } else { "$numberDecimal" };
    let shown = value.shown();
    let Some(RawValue::String(text)) = shown.raw().get(name) else {
        unreachable!("the JSON form of a {} has a text", member.name())
    };
    text.to_owned()
}
