//! Options of the aggregation stages: one table, which the parser of pipelines, the server and `docs/mongodb-stages.md` read.
//!
//! | file | purpose |
//! |---|---|
//! | `mod.rs` | entries of the table, and the check of an argument against its entry |
//! | `table.rs` | stages that run over documents |
//! | `server.rs` | stages that the server answers, and those that it refuses |
//! | `reference.rs` | the page, and a test of every entry |
//!
//! An argument is checked in the order in which the client wrote its fields; missing fields are reported last. A stage's own
//! parser reads an argument that has passed, and checks only rules that join several fields.

#[cfg(test)]
mod reference;
mod server;
mod table;

use std::sync::Arc;

use crate::decimal::Rounding;
use crate::error::{Error, Result};
use crate::types::Types;
use crate::value::{Document, Str, Value};

/// An error of the table. In its text `{stage}`, `{field}`, `{value}`, `{type}` and `{expected}` stand for the names and values at hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    code: i32,
    text: &'static str,
}

const fn refusal(code: i32, text: &'static str) -> Refusal {
    Refusal { code, text }
}

const WRONG_TYPE: Refusal =
    refusal(14, "BSON field '{stage}.{field}' is the wrong type '{type}', expected {expected}");
const UNKNOWN: Refusal = refusal(40415, "BSON field '{stage}.{field}' is an unknown field.");
const MISSING: Refusal = refusal(40414, "BSON field '{stage}.{field}' is missing but a required field");
const DUPLICATE: Refusal = refusal(40413, "BSON field '{stage}.{field}' is a duplicate field");
const NO_VALUE: Refusal =
    refusal(2, "Enumeration value '{value}' for field '{stage}.{field}' is not a valid value.");

/// A condition on the value of a field beyond its type.
#[derive(Clone, Copy, Debug)]
enum Range {
    /// A number without a fraction that fits 64 bits.
    Whole,
    /// A number without a fraction that fits 32 bits.
    Whole32,
    /// A number of at least zero, with or without a fraction.
    NotNegative,
    /// A number above zero.
    Positive,
    /// A number of at least one, once the fraction of a double is cut off and a decimal is rounded.
    One,
    /// A string or an object with content.
    NotEmpty,
    /// An array with items, if it is an array.
    Items,
    /// One of these, if it is a string.
    OneOf(&'static [&'static str]),
}

impl Range {
    fn has(self, value: &Value) -> bool {
        let number = value.to_f64();
        match self {
            Range::Whole => value.to_i64_exact().is_some(),
            Range::Whole32 => value.to_i32_exact().is_some(),
            Range::NotNegative => number.is_some_and(|number| number >= 0.0),
            Range::Positive => number.is_some_and(|number| number > 0.0),
            Range::One => match value {
                Value::Decimal(number) => number.to_whole(Rounding::HalfEven).to_f64() >= 1.0,
                _ => number.is_some_and(|number| number >= 1.0),
            },
            Range::NotEmpty => match value {
                Value::String(text) => !text.is_empty(),
                Value::Document(members) => !members.is_empty(),
                _ => true,
            },
            Range::Items => value.as_array().is_none_or(|items| !items.is_empty()),
            Range::OneOf(words) => value.as_str().is_none_or(|word| words.contains(&word)),
        }
    }
}

/// How null, or undefined, counts in a field.
#[derive(Clone, Copy, Debug)]
enum Null {
    /// As a value of another type.
    Value,
    /// As if the field was not there.
    Missing,
    Refused(Refusal),
}

/// One field of an argument.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    name: &'static str,
    types: Types,
    wrong: Refusal,
    /// The error where a required field is missing.
    missing: Option<Refusal>,
    null: Null,
    ranges: &'static [(Range, Refusal)],
    /// The types of the items of an array.
    items: Option<(Types, Refusal)>,
    /// The fields of a document, or of each document of an array.
    inner: Option<&'static StageOptions>,
    /// Refused with every value.
    refused: Option<Refusal>,
}

const fn optional(name: &'static str, types: Types) -> Field {
    Field {
        name,
        types,
        wrong: WRONG_TYPE,
        missing: None,
        null: Null::Value,
        ranges: &[],
        items: None,
        inner: None,
        refused: None,
    }
}

const fn required(name: &'static str, types: Types) -> Field {
    optional(name, types).or_missing(MISSING)
}

impl Field {
    const fn or_missing(mut self, refusal: Refusal) -> Field {
        self.missing = Some(refusal);
        self
    }

    const fn or_wrong(mut self, refusal: Refusal) -> Field {
        self.wrong = refusal;
        self
    }

    const fn null(mut self, null: Null) -> Field {
        self.null = null;
        self
    }

    const fn within(mut self, ranges: &'static [(Range, Refusal)]) -> Field {
        self.ranges = ranges;
        self
    }

    const fn of(mut self, types: Types, refusal: Refusal) -> Field {
        self.items = Some((types, refusal));
        self
    }

    const fn with(mut self, inner: &'static StageOptions) -> Field {
        self.inner = Some(inner);
        self
    }

    const fn refused(mut self, refusal: Refusal) -> Field {
        self.refused = Some(refusal);
        self
    }
}

/// The fields that an argument may have.
#[derive(Clone, Copy, Debug)]
enum Fields {
    /// The argument is a value, an expression, or a document of the client's own names.
    Free,
    /// The client's own names, and these. The stage's parser reports a missing one, after errors of the others.
    Open(&'static [Field]),
    Named {
        fields: &'static [Field],
        unknown: Refusal,
        duplicate: Option<Refusal>,
    },
}

/// Who runs a stage.
#[derive(Clone, Copy, Debug)]
pub(super) enum Runs {
    Here,
    /// The server answers the stage if it is the first of a pipeline.
    OnServer,
    Refused(Refusal),
}

/// The argument of one stage, or of a document inside an argument.
#[derive(Clone, Copy, Debug)]
pub(super) struct StageOptions {
    name: &'static str,
    argument: Types,
    wrong: Refusal,
    ranges: &'static [(Range, Refusal)],
    fields: Fields,
    pub runs: Runs,
}

const fn stage(name: &'static str, argument: Types, wrong: Refusal) -> StageOptions {
    StageOptions { name, argument, wrong, ranges: &[], fields: Fields::Free, runs: Runs::Here }
}

/// A document whose own type its field checks.
const fn inner(name: &'static str, fields: &'static [Field]) -> StageOptions {
    stage(name, Types::OBJECT, WRONG_TYPE).fields(fields, UNKNOWN)
}

impl StageOptions {
    const fn within(mut self, ranges: &'static [(Range, Refusal)]) -> StageOptions {
        self.ranges = ranges;
        self
    }

    const fn fields(mut self, fields: &'static [Field], unknown: Refusal) -> StageOptions {
        self.fields = Fields::Named { fields, unknown, duplicate: None };
        self
    }

    const fn open(mut self, fields: &'static [Field]) -> StageOptions {
        self.fields = Fields::Open(fields);
        self
    }

    /// Refuses a field that is written twice.
    const fn once(mut self) -> StageOptions {
        if let Fields::Named { fields, unknown, .. } = self.fields {
            self.fields = Fields::Named { fields, unknown, duplicate: Some(DUPLICATE) };
        }
        self
    }

    const fn on_server(mut self) -> StageOptions {
        self.runs = Runs::OnServer;
        self
    }

    /// Checks an argument, and gives its fields.
    pub fn check<'v>(&'static self, argument: &'v Value) -> Result<Options<'v>> {
        if !self.argument.has(argument) {
            return Err(self.error(self.wrong, "", argument, self.argument));
        }
        for (range, refusal) in self.ranges {
            if !range.has(argument) {
                return Err(self.error(*refusal, "", argument, self.argument));
            }
        }
        if let Value::Document(document) = argument {
            self.check_fields(document)?;
        }
        Ok(Options { table: self, argument })
    }

    fn check_fields(&'static self, document: &Document) -> Result<()> {
        let Fields::Named { fields, unknown, duplicate } = self.fields else { return Ok(()) };
        for (at, (name, value)) in document.iter().enumerate() {
            let Some(field) = fields.iter().find(|field| *field.name == **name) else {
                return Err(self.error(unknown, name, value, Types::ANY));
            };
            if let Some(refusal) = duplicate
                && document.iter().take(at).any(|(earlier, _)| earlier == name)
            {
                return Err(self.error(refusal, name, value, field.types));
            }
            self.check_field(field, value)?;
        }
        let is_absent = |field: &Field| document.get(field.name).is_none_or(|value| field.is_absent(value));
        for field in fields {
            if let Some(refusal) = field.missing
                && is_absent(field)
            {
                return Err(self.error(refusal, field.name, &Value::Missing, field.types));
            }
        }
        Ok(())
    }

    fn check_field(&'static self, field: &Field, value: &Value) -> Result<()> {
        let failed = |refusal| Err(self.error(refusal, field.name, value, field.types));
        if let Some(refusal) = field.refused {
            return failed(refusal);
        }
        match (value, field.null) {
            (Value::Null | Value::Undefined, Null::Missing) => return Ok(()),
            (Value::Null | Value::Undefined, Null::Refused(refusal)) => return failed(refusal),
            (value, _) if !field.types.has(value) => return failed(field.wrong),
            _ => {}
        }
        if let Some((_, refusal)) = field.ranges.iter().find(|(range, _)| !range.has(value)) {
            return failed(*refusal);
        }
        if let (Some((types, refusal)), Value::Array(items)) = (field.items, value)
            && let Some((at, item)) = items.iter().enumerate().find(|(_, item)| !types.has(item))
        {
            return Err(self.error(refusal, &format!("{}.{at}", field.name), item, types));
        }
        match (field.inner, value) {
            (Some(inner), Value::Document(document)) => inner.check_fields(document),
            (Some(inner), Value::Array(items)) => {
                items.iter().filter_map(Value::as_document).try_for_each(|item| inner.check_fields(item))
            }
            _ => Ok(()),
        }
    }

    fn error(&self, refusal: Refusal, field: &str, value: &Value, expected: Types) -> Error {
        // The value is last: its own text may have braces.
        let text = refusal
            .text
            .replace("{stage}", self.name)
            .replace("{type}", value.type_name())
            .replace("{expected}", &expected.describe())
            .replace("{field}", field);
        let text = match refusal.text.contains("{value}") {
            true => text.replacen("{value}", &shown(value), 1),
            false => text,
        };
        Error::new(refusal.code, text)
    }

    fn field(&self, name: &str) -> Option<&'static Field> {
        match self.fields {
            Fields::Named { fields, .. } | Fields::Open(fields) => {
                fields.iter().find(|field| field.name == name)
            }
            Fields::Free => None,
        }
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Field {
    fn is_absent(&self, value: &Value) -> bool {
        matches!(self.null, Null::Missing) && matches!(value, Value::Null | Value::Undefined)
    }
}

/// An argument that has passed its check.
#[derive(Clone, Copy)]
pub(super) struct Options<'v> {
    table: &'static StageOptions,
    argument: &'v Value,
}

impl<'v> Options<'v> {
    /// The name of the stage.
    pub fn stage(&self) -> &'static str {
        self.table.name
    }

    /// The argument as a whole.
    pub fn argument(&self) -> &'v Value {
        self.argument
    }

    /// The argument where it is a document.
    pub fn document(&self) -> Option<&'v Arc<Document>> {
        self.argument.as_document()
    }

    /// A field that is given.
    pub fn get(&self, name: &str) -> Option<&'v Value> {
        let value = self.document()?.get(name)?;
        let is_absent = self.table.field(name).is_some_and(|field| field.is_absent(value));
        (!is_absent).then_some(value)
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// A required field; null where the argument is no document.
    pub fn value(&self, name: &str) -> &'v Value {
        self.get(name).unwrap_or(&Value::Null)
    }

    pub fn text(&self, name: &str) -> Option<&'v Str> {
        match self.get(name)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn inner(&self, name: &str) -> Option<&'v Arc<Document>> {
        self.get(name)?.as_document()
    }

    /// The items of an array.
    pub fn items(&self, name: &str) -> Option<&'v [Value]> {
        self.get(name)?.as_array().map(|items| items.as_slice())
    }
}

/// The entry of a stage.
pub(super) fn of(name: &str) -> Option<&'static StageOptions> {
    table::STAGES.iter().chain(server::STAGES).find(|stage| stage.name == name)
}

/// Whether the server answers a stage.
pub(super) fn is_answered(name: &str) -> bool {
    of(name).is_some_and(|stage| matches!(stage.runs, Runs::OnServer))
}

/// Checks the argument of a stage that the server answers; error 40324 for any other name.
pub fn check_stage(name: &str, argument: &Value) -> Result<()> {
    match of(name) {
        Some(stage) => stage.check(argument).map(|_| ()),
        None => Err(unknown(name)),
    }
}

/// The error for a name that is no stage's.
pub(super) fn unknown(name: &str) -> Error {
    Error::new(40324, format!("Unrecognized pipeline stage name: '{name}'"))
}

/// The options of an argument that another stage has made.
pub(super) fn made<'v>(name: &str, argument: &'v Value) -> Result<Options<'v>> {
    of(name).ok_or_else(|| unknown(name))?.check(argument)
}

impl Refusal {
    /// The error of a stage that is refused.
    pub fn of_stage(self, name: &str) -> Error {
        Error::new(self.code, self.text.replace("{stage}", name))
    }
}
