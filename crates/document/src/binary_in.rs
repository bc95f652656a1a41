//! Cosmos binary JSON to BSON bytes in one pass, without a tree in between.
//!
//! Accepted are all forms that the published encoders write, see `binary_format.rs`. Refused by name are:
//! names of a dictionary that is not in the document, half-precision numbers, references to anything but an
//! earlier string, text that is not UTF-8, numbers that are not finite, lengths and counts that do not agree
//! with the values.
//!
//! # Bounds
//! A few bytes of this format can stand for much text: a reference to a long string, a character packed into
//! four bits, thousands of empty arrays. The limit of a document is on its JSON text, so the reader counts
//! the least text of the values read so far ([`BinaryInput::spend`]) and stops past the limit. So a document costs
//! as much as the same document as text: the output is bounded before it is written, each byte read and each
//! reference followed counts, and depth is limited by `builder.rs` without machine stack.

use crate::binary_format::marker;
use crate::binary_input::{BinaryInput, End, Span};
use crate::binary_strings::{self, is_string};
use crate::body::Body;
use crate::bson_writer::{Slot, kind};
use crate::builder::Shape;
use crate::error::DocumentError;
use crate::json_out::write_value;
use crate::limits::ParseLimits;
use crate::raw::RawValue;

/// Reads an item: the root must be an object. System properties at its top level are dropped.
pub fn parse_binary_document(bytes: &[u8], limits: &ParseLimits) -> Result<Body, DocumentError> {
    let mut reader = BinaryInput::new(bytes, limits)?;
    let marker = reader.byte()?;
    if !(marker::OBJECT_EMPTY..=marker::OBJECT_EMPTY + marker::COUNT_4).contains(&marker) {
        return Err(DocumentError::NotAnObject);
    }
    reader.builder.drop_system_properties();
    if let Some(slot) = reader.open(Shape::Object, marker - marker::OBJECT_EMPTY, None)? {
        reader.values(slot)?;
    }
    reader.end()?;
    reader.builder.into_body()
}

/// The JSON text of a document of any value.
pub fn json_of_binary(bytes: &[u8], limits: &ParseLimits) -> Result<Vec<u8>, DocumentError> {
    let wrapped = parse_wrapped_value(bytes, limits)?;
    let mut out = Vec::with_capacity(bytes.len());
    write_value(wrapped.raw().get("").unwrap_or(RawValue::Null), &mut out);
    Ok(out)
}

/// Reads any value, as the only member, with an empty name, of a BSON document.
fn parse_wrapped_value(bytes: &[u8], limits: &ParseLimits) -> Result<Body, DocumentError> {
    let mut reader = BinaryInput::new(bytes, limits)?;
    let length_at = reader.builder.writer.reserve_length();
    let slot = reader.builder.writer.member(b"");
    reader.values(slot)?;
    reader.end()?;
    reader.builder.writer.end_document(length_at);
    reader.builder.into_body()
}

impl BinaryInput<'_> {
    /// Reads the value for `slot` and all that follows until every open container is closed.
    fn values(&mut self, mut slot: Slot) -> Result<(), DocumentError> {
        loop {
            let next = match self.value(slot)? {
                Some(inner) => Some(inner),
                None => self.after_value()?,
            };
            match next {
                Some(next) => slot = next,
                None => return Ok(()),
            }
        }
    }

    /// Reads a scalar, an array of numbers or an empty container to its end, or opens a container
    /// and returns the slot of its first value.
    fn value(&mut self, slot: Slot) -> Result<Option<Slot>, DocumentError> {
        let start = self.at();
        let marker = self.byte()?;
        match marker {
            marker::ARRAY_EMPTY..marker::OBJECT_EMPTY => {
                return self.open(Shape::Array, marker - marker::ARRAY_EMPTY, Some(slot));
            }
            marker::OBJECT_EMPTY..marker::NUMBERS_1 => {
                return self.open(Shape::Object, marker - marker::OBJECT_EMPTY, Some(slot));
            }
            marker::NUMBERS_1 | marker::NUMBERS_2 => {
                self.numbers(slot, marker)?;
                return Ok(None);
            }
            marker::NUMBER_ARRAYS_1 | marker::NUMBER_ARRAYS_2 => {
                self.number_arrays(slot, marker)?;
                return Ok(None);
            }
            marker::NULL => {
                self.spend(4)?;
                self.builder.writer.null(slot);
            }
            marker::FALSE | marker::TRUE => {
                self.spend(4)?;
                self.builder.writer.bool(slot, marker == marker::TRUE);
            }
            marker if is_string(marker) => {
                self.builder.writer.out[slot.type_at] = kind::STRING;
                let length_at = self.builder.writer.reserve_length();
                self.text(marker)?;
                self.builder.writer.end_string(length_at);
            }
            marker => self.number(slot, marker, start)?,
        }
        self.builder.finish(slot);
        Ok(None)
    }

    /// A value is complete: moves on to the next one of the innermost container, closing containers on the
    /// way.
    fn after_value(&mut self) -> Result<Option<Slot>, DocumentError> {
        loop {
            let at = self.at();
            let Some(span) = self.spans.last_mut() else { return Ok(None) };
            let is_over = match span.end {
                End::At(end) if at > end => {
                    return Err(self.invalid("a value reaches beyond the array or object that it is in"));
                }
                End::At(end) => at == end,
                End::AfterOne => span.values == 1,
            };
            if !is_over {
                span.values += 1;
                return match self.builder.innermost() {
                    Some(Shape::Object) => self.name().map(Some),
                    _ => Ok(Some(self.element()?)),
                };
            }
            if span.count.is_some_and(|count| count != span.values) {
                return Err(self.invalid("an array or object has not as many values as it says"));
            }
            self.spans.pop();
            self.builder.close()?;
        }
    }

    /// Opens a container of the `form`-th kind of its shape.
    fn open(&mut self, shape: Shape, form: u8, slot: Option<Slot>) -> Result<Option<Slot>, DocumentError> {
        self.spend(1)?;
        self.builder.open(shape, slot, self.at() - 1)?;
        let mut count = None;
        let end = match form {
            0 => End::At(self.at()),
            marker::OF_ONE => End::AfterOne,
            _ => {
                let width = [1, 2, 4][usize::from((form - marker::LENGTH_1) % 3)];
                let length = self.length(width)?;
                if form >= marker::COUNT_1 {
                    count = Some(self.length(width)?);
                }
                match self.at().checked_add(length).filter(|end| *end <= self.bytes.len()) {
                    Some(end) => End::At(end),
                    None => return Err(self.invalid("an array or object is longer than the document")),
                }
            }
        };
        self.spans.push(Span { end, count, values: 0 });
        self.after_value()
    }

    fn element(&mut self) -> Result<Slot, DocumentError> {
        self.spend(1)?;
        Ok(self.builder.element())
    }

    /// Reads a property name.
    fn name(&mut self) -> Result<Slot, DocumentError> {
        let marker = self.byte()?;
        if !is_string(marker) {
            return Err(self.invalid_at(self.at() - 1, "a property name is expected"));
        }
        // The colon, and the comma or bracket before the name.
        self.spend(2)?;
        let type_at = self.builder.begin_name();
        self.text(marker)?;
        self.builder.end_name(type_at)
    }

    /// Appends the text of a string whose marker has just been read.
    fn text(&mut self, marker: u8) -> Result<(), DocumentError> {
        let start = self.builder.writer.out.len();
        binary_strings::append(self, marker)?;
        self.spend(2 + self.builder.writer.out.len() - start)
    }

    /// An array of numbers that share their marker: the marker, a count, the numbers.
    fn numbers(&mut self, slot: Slot, marker: u8) -> Result<(), DocumentError> {
        let item = self.number_marker()?;
        let count = self.length(if marker == marker::NUMBERS_1 { 1 } else { 2 })?;
        self.array_of_numbers(slot, item, count)
    }

    /// An array of such arrays: the marker of the inner ones, that of their numbers, the count in
    /// each, their count.
    fn number_arrays(&mut self, slot: Slot, marker: u8) -> Result<(), DocumentError> {
        let (inner, width) = match marker {
            marker::NUMBER_ARRAYS_1 => (marker::NUMBERS_1, 1),
            _ => (marker::NUMBERS_2, 2),
        };
        if self.byte()? != inner {
            return Err(self.invalid_at(self.at() - 1, "the marker of an array of numbers is expected"));
        }
        let item = self.number_marker()?;
        let (inner_count, count) = (self.length(width)?, self.length(width)?);
        self.spend(1)?;
        self.builder.open(Shape::Array, Some(slot), self.at())?;
        for _ in 0..count {
            let slot = self.element()?;
            self.array_of_numbers(slot, item, inner_count)?;
        }
        self.builder.close()
    }

    fn array_of_numbers(&mut self, slot: Slot, item: u8, count: usize) -> Result<(), DocumentError> {
        self.spend(1)?;
        self.builder.open(Shape::Array, Some(slot), self.at())?;
        for _ in 0..count {
            let slot = self.element()?;
            self.number(slot, item, self.at())?;
            self.builder.finish(slot);
        }
        self.builder.close()
    }

    fn number_marker(&mut self) -> Result<u8, DocumentError> {
        match self.byte()? {
            item @ (marker::FLOAT32 | marker::FLOAT64 | marker::UINT8..=marker::UINT32) => Ok(item),
            _ => Err(self.invalid_at(self.at() - 1, "the type of an array's numbers is expected")),
        }
    }

    /// Reads a number whose marker, at `start`, has been read.
    fn number(&mut self, slot: Slot, marker: u8, start: usize) -> Result<(), DocumentError> {
        self.spend(1)?;
        let integer = match marker {
            0..marker::LITERAL_INTEGERS_END => i64::from(marker),
            marker::NUMBER_UINT8 | marker::UINT8 => i64::from(self.byte()?),
            marker::INT8 => i64::from(self.number_le::<i8>()?),
            marker::NUMBER_INT16 | marker::INT16 => i64::from(self.number_le::<i16>()?),
            marker::NUMBER_INT32 | marker::INT32 => i64::from(self.number_le::<i32>()?),
            marker::UINT32 => i64::from(self.number_le::<u32>()?),
            marker::NUMBER_INT64 | marker::INT64 => self.number_le()?,
            marker::NUMBER_UINT64 => {
                let value = self.number_le::<u64>()?;
                match i64::try_from(value) {
                    Ok(value) => value,
                    Err(_) => return self.builder.large_integer(slot, &value.to_string(), start),
                }
            }
            marker::NUMBER_DOUBLE | marker::FLOAT64 => {
                let value = self.number_le()?;
                return self.double(slot, value, start);
            }
            marker::FLOAT32 => {
                let value = f64::from(self.number_le::<f32>()?);
                return self.double(slot, value, start);
            }
            marker::FLOAT16 => {
                return Err(self.invalid_at(start, "numbers of half precision (CF) are not supported"));
            }
            _ => return Err(self.invalid_at(start, "a value is expected")),
        };
        self.builder.writer.int(slot, integer);
        Ok(())
    }

    fn double(&mut self, slot: Slot, value: f64, offset: usize) -> Result<(), DocumentError> {
        if !value.is_finite() {
            return Err(DocumentError::NumberOutOfRange { offset });
        }
        self.builder.writer.double(slot, value);
        Ok(())
    }

    fn end(&self) -> Result<(), DocumentError> {
        if self.at() < self.bytes.len() {
            return Err(self.invalid("there are bytes behind the end of the value"));
        }
        Ok(())
    }
}
