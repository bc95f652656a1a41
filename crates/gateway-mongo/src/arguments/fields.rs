//! The fields that a command has: each with its types, in one table, checked in the order in which the client wrote them.
//!
//! Error codes: 40415 for an unknown field, 40413 for a repeated one, 14 for a wrong type, 40414 for a missing one. Null and undefined
//! count as missing. A table marks fields for which the reference has another code: [`Field::coded`], [`Field::not_null`].

use std::sync::Arc;

use shardlake_mql::{Document, Rounding, Value};

use super::generic_names::is_generic;
use crate::errors::{Result, code, error, fail};
use shardlake_mql::Types;

/// One field of a command, or of a document inside a command.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    name: &'static str,
    types: Types,
    is_required: bool,
    /// Error code for a value of another type.
    type_code: i32,
    /// Error code for null, if null does not count as missing.
    null_code: Option<i32>,
}

pub const fn required(name: &'static str, types: Types) -> Field {
    Field { name, types, is_required: true, type_code: code::TYPE_MISMATCH, null_code: None }
}

pub const fn optional(name: &'static str, types: Types) -> Field {
    Field { is_required: false, ..required(name, types) }
}

/// A hint of an index: a name or a key pattern. Commands read it with a parser of its own.
pub const fn hint() -> Field {
    optional("hint", Types::STRING.or(Types::OBJECT)).coded(code::FAILED_TO_PARSE)
}

impl Field {
    /// Sets the code for other types, for a field that the reference reads by a parser of its own.
    pub const fn coded(mut self, code: i32) -> Field {
        self.type_code = code;
        self
    }

    /// Refuses null with this code.
    pub const fn not_null(mut self, code: i32) -> Field {
        self.null_code = Some(code);
        self
    }
}

/// The fields of a document, once they have passed the check.
#[derive(Debug, Clone, Copy)]
pub struct Arguments<'b> {
    context: &'b str,
    body: &'b Document,
}

impl<'b> Arguments<'b> {
    /// The fields of a command. Its first field, which names it, may be of any type unless `fields` lists it. Fields that every command may
    /// have are skipped.
    pub fn of_command(body: &'b Document, fields: &[Field]) -> Result<Arguments<'b>> {
        let name = body.first().map_or("", |(name, _)| &**name);
        let is_free = |place: usize, field: &str| {
            (place == 0 && fields.iter().all(|known| known.name != field)) || is_generic(field)
        };
        Arguments::checked(name, body, fields, is_free)
    }

    /// The fields of a command that ignores unknown fields, as handshakes and commands on sessions do.
    pub fn of_open_command(body: &'b Document, fields: &[Field]) -> Result<Arguments<'b>> {
        let name = body.first().map_or("", |(name, _)| &**name);
        Arguments::checked(name, body, fields, |_, field| fields.iter().all(|known| known.name != field))
    }

    /// The fields of a document that is itself the field `context`.
    pub fn of_document(context: &'b str, body: &'b Document, fields: &[Field]) -> Result<Arguments<'b>> {
        Arguments::checked(context, body, fields, |_, _| false)
    }

    /// The argument of a stage that the server answers, checked by the table of stages.
    pub fn of_stage(stage: &'b str, argument: &'b Value) -> Result<Arguments<'b>> {
        shardlake_mql::check_stage(stage, argument)?;
        match argument {
            Value::Document(body) => Ok(Arguments { context: stage, body }),
            other => Err(wrong_type(stage, other, Types::OBJECT)),
        }
    }

    fn checked(
        context: &'b str,
        body: &'b Document,
        fields: &[Field],
        is_free: impl Fn(usize, &str) -> bool,
    ) -> Result<Arguments<'b>> {
        for (place, (name, value)) in body.iter().enumerate() {
            if is_free(place, name) {
                continue;
            }
            let Some(field) = fields.iter().find(|field| *field.name == **name) else {
                fail!(code::UNKNOWN_FIELD, "BSON field '{context}.{name}' is an unknown field.");
            };
            if body.iter().take(place).any(|(earlier, _)| earlier == name) {
                fail!(code::DUPLICATE_FIELD, "BSON field '{context}.{name}' is a duplicate field");
            }
            match (value, field.null_code) {
                (Value::Null | Value::Undefined, None) => {}
                (Value::Null, Some(code)) => {
                    fail!(code, "BSON field '{context}.{name}' cannot be null");
                }
                (value, _) if field.types.has(value) => {}
                (value, _) => {
                    let error = wrong_type(&format!("{context}.{name}"), value, field.types);
                    return Err(error!(field.type_code, "{}", error.message()));
                }
            }
        }
        let arguments = Arguments { context, body };
        match fields.iter().find(|field| field.is_required && arguments.given(field.name).is_none()) {
            Some(field) => {
                let name = field.name;
                Err(error!(
                    code::MISSING_FIELD,
                    "BSON field '{context}.{name}' is missing but a required field"
                ))
            }
            None => Ok(arguments),
        }
    }

    /// A field that is present and not null.
    pub fn given(&self, name: &str) -> Option<&'b Value> {
        self.body.get(name).filter(|value| !matches!(value, Value::Null | Value::Undefined))
    }

    pub fn document(&self, name: &str) -> Option<&'b Arc<Document>> {
        self.given(name)?.as_document()
    }

    pub fn array(&self, name: &str) -> Option<&'b [Value]> {
        self.given(name)?.as_array().map(|items| items.as_slice())
    }

    pub fn string(&self, name: &str) -> Option<&'b str> {
        self.given(name)?.as_str()
    }

    pub fn bool(&self, name: &str) -> Option<bool> {
        self.given(name).map(Value::is_true)
    }

    /// A number as an integer: see [`truncated`].
    pub fn i64(&self, name: &str) -> Option<i64> {
        self.given(name).and_then(truncated)
    }

    /// A whole number of at least zero; error 2 for a negative one.
    pub fn count(&self, name: &str) -> Result<Option<u64>> {
        match self.i64(name) {
            None => Ok(None),
            Some(number) => u64::try_from(number).map(Some).map_err(|_| {
                let context = self.context;
                error!(
                    code::BAD_VALUE,
                    "BSON field '{context}.{name}' value must be >= 0, actual value '{number}'"
                )
            }),
        }
    }

    /// The documents of an array; error 14 for an item of another type.
    pub fn documents(&self, name: &str) -> Result<Vec<&'b Arc<Document>>> {
        let items = self.array(name).unwrap_or_default();
        let document = |(place, item): (usize, &'b Value)| {
            item.as_document()
                .ok_or_else(|| wrong_type(&format!("{}.{name}.{place}", self.context), item, Types::OBJECT))
        };
        items.iter().enumerate().map(document).collect()
    }
}

/// A number as an integer, in the reference's way: a double loses its fraction, a decimal is rounded, half to even. NaN becomes zero, and a
/// number beyond 64 bits becomes the nearest integer.
pub fn truncated(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(i64::from(*number)),
        Value::Long(number) => Some(*number),
        Value::Decimal(number) => {
            let whole = Value::Decimal(number.to_whole(Rounding::HalfEven));
            whole.to_i64_exact().or_else(|| whole.to_f64().map(|number| number as i64))
        }
        _ => value.to_f64().map(|number| number as i64),
    }
}

pub fn wrong_type(path: &str, value: &Value, expected: Types) -> crate::errors::CommandError {
    let (actual, expected) = (value.type_name(), expected.describe());
    error!(code::TYPE_MISMATCH, "BSON field '{path}' is the wrong type '{actual}', expected {expected}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[Field] = &[
        required("cursors", Types::ARRAY),
        optional("batchSize", Types::NUMBER),
        optional("isFast", Types::BOOL),
    ];

    fn body(fields: &[(&str, Value)]) -> Document {
        let mut body = Document::one("killCursors", "c");
        fields.iter().for_each(|(name, value)| body.push(*name, value.clone()));
        body
    }

    fn code_of(fields: &[(&str, Value)]) -> i32 {
        Arguments::of_command(&body(fields), FIELDS).expect_err("wrong").code()
    }

    #[test]
    fn fields_are_checked_in_the_order_in_which_they_were_written() {
        let list = || ("cursors", Value::array(vec![]));
        assert_eq!(code_of(&[]), 40414);
        assert_eq!(code_of(&[("cursors", Value::Null)]), 40414);
        assert_eq!(code_of(&[("cursors", Value::Int(1)), ("odd", Value::Null)]), 14);
        assert_eq!(code_of(&[("odd", Value::Null), ("cursors", Value::Int(1))]), 40415);
        assert_eq!(code_of(&[list(), list()]), 40413);
        assert_eq!(code_of(&[list(), ("isFast", Value::string("yes"))]), 14);
    }

    #[test]
    fn what_every_command_may_have_is_passed_over_and_null_is_nothing() {
        let body = body(&[
            ("cursors", Value::array(vec![])),
            ("batchSize", Value::Null),
            ("lsid", Value::Int(5)),
            ("$db", Value::string("d")),
            ("comment", Value::MinKey),
        ]);
        let arguments = Arguments::of_command(&body, FIELDS).expect("right");
        assert_eq!(arguments.i64("batchSize"), None);
        assert_eq!(arguments.array("cursors").map(<[Value]>::len), Some(0));
    }

    #[test]
    fn a_table_says_where_a_type_or_null_has_another_code() {
        const FIELDS: &[Field] = &[
            hint(),
            optional("limit", Types::NUMBER).coded(2),
            optional("filter", Types::OBJECT).not_null(14),
        ];
        let code_of = |name: &str, value: Value| {
            let mut body = Document::one("count", "c");
            body.push(name, value);
            Arguments::of_command(&body, FIELDS).err().map(|error| error.code())
        };
        assert_eq!(code_of("hint", Value::Int(1)), Some(9));
        assert_eq!(code_of("hint", Value::Null), None);
        assert_eq!(code_of("limit", Value::string("x")), Some(2));
        assert_eq!(code_of("limit", Value::Null), None);
        assert_eq!(code_of("filter", Value::Null), Some(14));
        assert_eq!(code_of("filter", Value::Int(1)), Some(14));
    }

    #[test]
    fn numbers_lose_their_fractions() {
        assert_eq!(truncated(&Value::Double(-2.9)), Some(-2));
        assert_eq!(truncated(&Value::Double(f64::NAN)), Some(0));
        assert_eq!(truncated(&Value::Double(1e300)), Some(i64::MAX));
    }
}
