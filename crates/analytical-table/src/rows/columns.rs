//! Columns while they grow.
//!
//! A column is as long as its last value needs. Rows without a value cost nothing: NULLs are filled in before
//! the next value, and at the end. So the length of a column also records whether the current row has had a
//! value, or a NULL, in it.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Float64Builder, Int32Builder, Int64Builder, TimestampMicrosecondBuilder,
};
use arrow_array::{Array, ArrayRef, ListArray, StringArray, StructArray};
use arrow_buffer::{Buffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::Field as ArrowField;

use crate::schema::{ColumnType, ELEMENT, Fields, Members, Scalar};

pub(super) enum Column<'s> {
    String(TextColumn),
    Boolean(BooleanBuilder),
    Integer(Int32Builder),
    Long(Int64Builder),
    Double(Float64Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Binary(BinaryBuilder),
    Object(ObjectColumn<'s>),
    List(ListColumn<'s>),
    Value(ValueColumn<'s>),
}

/// A column of strings, whose bytes are checked all at once in the end.
pub(super) struct TextColumn {
    offsets: Vec<i32>,
    bytes: Vec<u8>,
    validity: NullBufferBuilder,
}

pub(super) struct ObjectColumn<'s> {
    pub fields: &'s Fields,
    pub columns: Vec<Column<'s>>,
    validity: Validity,
}

pub(super) struct ListColumn<'s> {
    pub element: Box<Column<'s>>,
    offsets: Vec<i32>,
    validity: Validity,
}

pub(super) struct ValueColumn<'s> {
    pub members: &'s Members,
    pub columns: Vec<Column<'s>>,
    validity: Validity,
}

struct Validity {
    bits: NullBufferBuilder,
    has_values: bool,
}

impl<'s> Column<'s> {
    pub fn new(column_type: &'s ColumnType) -> Column<'s> {
        match column_type {
            ColumnType::Scalar(scalar) => Column::of_scalar(*scalar),
            ColumnType::Object(fields) => Column::Object(ObjectColumn::new(fields)),
            ColumnType::List(element) => {
                let element =
                    element.as_ref().expect("a complete schema has no list without an element type");
                let element = Box::new(Column::new(element));
                Column::List(ListColumn { element, offsets: vec![0], validity: Validity::new() })
            }
            ColumnType::Value(members) => {
                let columns = members.iter().map(|(_, inner)| Column::new(inner)).collect();
                Column::Value(ValueColumn { members, columns, validity: Validity::new() })
            }
        }
    }

    fn of_scalar(scalar: Scalar) -> Column<'s> {
        match scalar {
            Scalar::String => Column::String(TextColumn::new()),
            Scalar::Boolean => Column::Boolean(BooleanBuilder::with_capacity(0)),
            Scalar::Integer => Column::Integer(Int32Builder::with_capacity(0)),
            Scalar::Long => Column::Long(Int64Builder::with_capacity(0)),
            Scalar::Double => Column::Double(Float64Builder::with_capacity(0)),
            Scalar::Timestamp => Column::Timestamp(
                TimestampMicrosecondBuilder::with_capacity(0).with_data_type(scalar.arrow()),
            ),
            Scalar::Binary => Column::Binary(BinaryBuilder::with_capacity(0, 0)),
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        use arrow_array::builder::ArrayBuilder as _;
        match self {
            Column::String(column) => column.validity.len(),
            Column::Boolean(builder) => builder.len(),
            Column::Integer(builder) => builder.len(),
            Column::Long(builder) => builder.len(),
            Column::Double(builder) => builder.len(),
            Column::Timestamp(builder) => builder.len(),
            Column::Binary(builder) => builder.len(),
            Column::Object(column) => column.validity.len(),
            Column::List(column) => column.validity.len(),
            Column::Value(column) => column.validity.len(),
        }
    }

    /// Appends NULLs up to a length.
    #[inline]
    pub fn fill(&mut self, length: usize) {
        let missing = length.saturating_sub(self.len());
        if missing > 0 {
            self.append_nulls(missing);
        }
    }

    #[cold]
    fn append_nulls(&mut self, missing: usize) {
        match self {
            Column::String(column) => column.append_nulls(missing),
            Column::Boolean(builder) => builder.append_nulls(missing),
            Column::Integer(builder) => builder.append_nulls(missing),
            Column::Long(builder) => builder.append_nulls(missing),
            Column::Double(builder) => builder.append_nulls(missing),
            Column::Timestamp(builder) => builder.append_nulls(missing),
            Column::Binary(builder) => builder.append_nulls(missing),
            Column::Object(column) => column.validity.append_nulls(missing),
            Column::List(column) => {
                column.validity.append_nulls(missing);
                let end = column.end();
                column.offsets.resize(column.offsets.len() + missing, end);
            }
            Column::Value(column) => column.validity.append_nulls(missing),
        }
    }

    /// The array of a complete column; `None` if all of it is NULL, unless it is needed.
    pub fn finish(mut self, length: usize, is_needed: bool) -> Option<ArrayRef> {
        self.fill(length);
        assert_eq!(self.len(), length, "a column has one value for each row");
        let array: ArrayRef = match self {
            Column::String(column) => Arc::new(column.finish()),
            Column::Boolean(mut builder) => Arc::new(builder.finish()),
            Column::Integer(mut builder) => Arc::new(builder.finish()),
            Column::Long(mut builder) => Arc::new(builder.finish()),
            Column::Double(mut builder) => Arc::new(builder.finish()),
            Column::Timestamp(mut builder) => Arc::new(builder.finish()),
            Column::Binary(mut builder) => Arc::new(builder.finish()),
            Column::Object(column) => return column.finish(length, is_needed),
            Column::List(column) => return column.finish(is_needed),
            Column::Value(column) => {
                let names = column.members.iter().map(|(member, _)| member.name());
                return finish_struct(names.zip(column.columns), column.validity, length, is_needed);
            }
        };
        (is_needed || array.null_count() < length).then_some(array)
    }
}

impl TextColumn {
    fn new() -> TextColumn {
        TextColumn { offsets: vec![0], bytes: Vec::new(), validity: NullBufferBuilder::new(0) }
    }

    #[inline]
    pub fn append(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.validity.append_non_null();
        self.offsets.push(self.end());
    }

    fn append_nulls(&mut self, missing: usize) {
        self.validity.append_n_nulls(missing);
        let end = self.end();
        self.offsets.resize(self.offsets.len() + missing, end);
    }

    #[inline]
    fn end(&self) -> i32 {
        i32::try_from(self.bytes.len()).expect("a batch is shorter than 2 GB")
    }

    fn finish(self) -> StringArray {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        StringArray::try_new(offsets, Buffer::from_vec(self.bytes), self.validity.build())
            .expect("strings of a valid document are UTF-8")
    }
}

impl<'s> ObjectColumn<'s> {
    pub fn new(fields: &'s Fields) -> ObjectColumn<'s> {
        let columns = fields.iter().map(|field| Column::new(&field.column_type)).collect();
        ObjectColumn { fields, columns, validity: Validity::new() }
    }

    /// Begins the object at a position.
    pub fn begin(&mut self, position: usize) {
        self.validity.begin(position);
    }

    fn finish(self, length: usize, is_needed: bool) -> Option<ArrayRef> {
        let names = self.fields.iter().map(|field| &*field.column);
        finish_struct(names.zip(self.columns), self.validity, length, is_needed)
    }
}

impl ListColumn<'_> {
    /// Begins the list at a position. Returns the position of its first element.
    pub fn begin(&mut self, position: usize) -> usize {
        let end = self.end();
        self.offsets.resize(position + 1, end);
        self.validity.begin(position);
        end as usize
    }

    /// Ends the list that was begun, before the position of the next one's first element.
    pub fn end_at(&mut self, position: usize) {
        self.offsets.push(i32::try_from(position).expect("a batch has less elements than bytes"));
    }

    fn end(&self) -> i32 {
        *self.offsets.last().expect("offsets begin with zero")
    }

    fn finish(self, is_needed: bool) -> Option<ArrayRef> {
        if !self.validity.has_values && !is_needed {
            return None;
        }
        let end = self.end() as usize;
        let values = self.element.finish(end, true).expect("a needed array is made");
        let field = Arc::new(ArrowField::new(ELEMENT, values.data_type().clone(), true));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        Some(Arc::new(ListArray::new(field, offsets, values, self.validity.bits.build())))
    }
}

impl ValueColumn<'_> {
    /// Begins the value at a position.
    pub fn begin(&mut self, position: usize) {
        self.validity.begin(position);
    }

    /// Makes the value at a position NULL.
    pub fn skip(&mut self, position: usize) {
        self.validity.append_nulls(position + 1 - self.validity.len());
    }
}

/// A struct of the fields that have values. If none has, the first one is kept, which records where the
/// struct itself is NULL: Parquet has no struct without fields.
fn finish_struct<'s, 'n>(
    fields: impl Iterator<Item = (&'n str, Column<'s>)>,
    validity: Validity,
    length: usize,
    is_needed: bool,
) -> Option<ArrayRef> {
    if !validity.has_values && !is_needed {
        return None;
    }
    let mut arrays: Vec<(&str, ArrayRef)> = Vec::new();
    let mut first = None;
    for (name, column) in fields {
        if first.is_none() && arrays.is_empty() {
            first = Some((name, column.shape()));
        }
        arrays.extend(column.finish(length, false).map(|array| (name, array)));
    }
    if let (true, Some((name, shape))) = (arrays.is_empty(), first) {
        arrays.push((name, shape.finish(length, true).expect("a needed array is made")));
    }
    let fields =
        arrays.iter().map(|(name, array)| ArrowField::new(*name, array.data_type().clone(), true)).collect();
    let arrays = arrays.into_iter().map(|(_, array)| array).collect();
    Some(Arc::new(StructArray::new(fields, arrays, validity.bits.build())))
}

impl<'s> Column<'s> {
    /// An empty column of the same type, with the first of all fields only.
    fn shape(&self) -> Column<'s> {
        match self {
            Column::String(_) => Column::of_scalar(Scalar::String),
            Column::Boolean(_) => Column::of_scalar(Scalar::Boolean),
            Column::Integer(_) => Column::of_scalar(Scalar::Integer),
            Column::Long(_) => Column::of_scalar(Scalar::Long),
            Column::Double(_) => Column::of_scalar(Scalar::Double),
            Column::Timestamp(_) => Column::of_scalar(Scalar::Timestamp),
            Column::Binary(_) => Column::of_scalar(Scalar::Binary),
            Column::Object(column) => Column::Object(ObjectColumn {
                fields: column.fields,
                columns: column.columns.iter().take(1).map(Column::shape).collect(),
                validity: Validity::new(),
            }),
            Column::List(column) => Column::List(ListColumn {
                element: Box::new(column.element.shape()),
                offsets: vec![0],
                validity: Validity::new(),
            }),
            Column::Value(column) => Column::Value(ValueColumn {
                members: column.members,
                columns: column.columns.iter().take(1).map(Column::shape).collect(),
                validity: Validity::new(),
            }),
        }
    }
}

impl Validity {
    fn new() -> Validity {
        Validity { bits: NullBufferBuilder::new(0), has_values: false }
    }

    fn len(&self) -> usize {
        self.bits.len()
    }

    fn append_nulls(&mut self, missing: usize) {
        self.bits.append_n_nulls(missing);
    }

    #[inline]
    fn begin(&mut self, position: usize) {
        let missing = position - self.bits.len();
        if missing > 0 {
            self.bits.append_n_nulls(missing);
        }
        self.bits.append_non_null();
        self.has_values = true;
    }
}
