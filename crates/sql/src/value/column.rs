//! Columns: the values of one property of many items, extracted from their bodies.

use shardlake_document::{Number, RawDocument};

use crate::value::scalar::Scalar;

/// One value for each item, in the items' order. Conditions over plain values read columns instead of the
/// items ([`Execution::test`](crate::Execution::test)).
#[derive(Debug)]
pub struct ScalarColumn {
    cells: Vec<Cell>,
    texts: String,
}

#[derive(Debug, Clone, Copy)]
enum Cell {
    Undefined,
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    /// A position in [`ScalarColumn::texts`].
    Text {
        start: u32,
        length: u32,
    },
    /// An array or an object.
    Elsewhere,
}

impl ScalarColumn {
    /// The values under a name; `None` if they would need more memory than this.
    pub fn new<'a>(
        name: &str,
        bodies: impl ExactSizeIterator<Item = RawDocument<'a>>,
        size_bytes_max: usize,
    ) -> Option<ScalarColumn> {
        let mut column = ScalarColumn { cells: Vec::new(), texts: String::new() };
        let texts_max = size_bytes_max.checked_sub(bodies.len() * size_of::<Cell>())?;
        column.cells.reserve_exact(bodies.len());
        for body in bodies {
            let value = body.get(name).map_or(Some(Scalar::Undefined), Scalar::of_raw);
            let cell = column.cell(value)?;
            if column.texts.len() > texts_max {
                return None;
            }
            column.cells.push(cell);
        }
        column.texts.shrink_to_fit();
        assert!(column.size_bytes() <= size_bytes_max, "a column stays within its memory");
        Some(column)
    }

    fn cell(&mut self, value: Option<Scalar<'_>>) -> Option<Cell> {
        Some(match value {
            None => Cell::Elsewhere,
            Some(Scalar::Undefined) => Cell::Undefined,
            Some(Scalar::Null) => Cell::Null,
            Some(Scalar::Bool(value)) => Cell::Bool(value),
            Some(Scalar::Number(Number::Int(value))) => Cell::Int(value),
            Some(Scalar::Number(Number::Double(value))) => Cell::Double(value),
            Some(Scalar::String(text)) => {
                let start = u32::try_from(self.texts.len()).ok()?;
                self.texts.push_str(text);
                Cell::Text { start, length: u32::try_from(text.len()).ok()? }
            }
        })
    }

    pub fn size_bytes(&self) -> usize {
        self.cells.len() * size_of::<Cell>() + self.texts.len()
    }

    /// The value of the item at this place; `None` for an array or an object.
    #[inline]
    pub(crate) fn value(&self, place: usize) -> Option<Scalar<'_>> {
        Some(match self.cells[place] {
            Cell::Undefined => Scalar::Undefined,
            Cell::Null => Scalar::Null,
            Cell::Bool(value) => Scalar::Bool(value),
            Cell::Int(value) => Scalar::Number(Number::Int(value)),
            Cell::Double(value) => Scalar::Number(Number::Double(value)),
            Cell::Text { start, length } => {
                Scalar::String(&self.texts[start as usize..start as usize + length as usize])
            }
            Cell::Elsewhere => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardlake_document::{ParseLimits, parse_document};

    #[test]
    fn column_has_the_first_values_of_its_name_and_takes_no_more_memory_than_it_may() {
        let bodies: Vec<_> = [r#"{"a":1,"b":2}"#, r#"{"b":"text"}"#, r#"{"a":[]}"#, r#"{"a":"text"}"#]
            .map(|json| parse_document(json.as_bytes(), &ParseLimits::default()).unwrap())
            .into();
        let column = |bytes| ScalarColumn::new("a", bodies.iter().map(|body| body.raw()), bytes);
        let size_bytes = 4 * size_of::<Cell>() + "text".len();
        let whole = column(size_bytes).expect("room");
        assert_eq!(whole.size_bytes(), size_bytes);
        let values: Vec<_> = (0..4).map(|place| whole.value(place)).collect();
        let expected = [
            Some(Scalar::Number(Number::Int(1))),
            Some(Scalar::Undefined),
            None,
            Some(Scalar::String("text")),
        ];
        assert_eq!(values, expected);
        assert!(column(size_bytes - 1).is_none() && column(0).is_none());
    }
}
