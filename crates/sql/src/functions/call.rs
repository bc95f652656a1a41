//! The arguments of one call, read by type: each reader returns `None` for an argument of the wrong type, so
//! that a function reads `call.text(0)?` and becomes undefined implicitly.

use std::borrow::Cow;

use shardlake_document::{Number, Value};

use crate::error::SqlError;
use crate::value::context::{EvaluationContext, FunctionContext};
use crate::value::datum::Datum;

/// A result: undefined, a value, or the few errors that evaluation knows.
pub(super) type Applied<'a> = Result<Datum<'a>, SqlError>;

pub(super) struct Call<'c, 'a> {
    pub arguments: &'c [Datum<'a>],
    pub context: &'c FunctionContext,
    pub work: &'c EvaluationContext<'c>,
}

impl<'c, 'a> Call<'c, 'a> {
    /// Counts work beyond reading the arguments once, which is counted for every call.
    pub fn step(&self, steps: u64) -> Result<(), SqlError> {
        self.work.step(steps)
    }

    pub fn count(&self) -> usize {
        self.arguments.len()
    }

    /// An argument, undefined when it was left out.
    pub fn datum(&self, index: usize) -> &'c Datum<'a> {
        self.arguments.get(index).unwrap_or(&Datum::Undefined)
    }

    pub fn text(&self, index: usize) -> Option<&'c Cow<'a, str>> {
        match self.arguments.get(index)? {
            Datum::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn number(&self, index: usize) -> Option<Number> {
        match self.arguments.get(index)? {
            Datum::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub fn double(&self, index: usize) -> Option<f64> {
        self.number(index).map(Number::as_f64)
    }

    /// A number without a fraction, within 64 bits.
    pub fn integer(&self, index: usize) -> Option<i64> {
        whole(self.number(index)?)
    }

    /// [`Call::integer`] for an argument that may be left out.
    pub fn integer_or(&self, index: usize, default: i64) -> Option<i64> {
        if index < self.count() { self.integer(index) } else { Some(default) }
    }

    /// A boolean argument that may be left out: then it is false.
    pub fn flag(&self, index: usize) -> Option<bool> {
        match self.arguments.get(index) {
            None => Some(false),
            Some(Datum::Bool(value)) => Some(*value),
            Some(_) => None,
        }
    }

    /// The elements of an array.
    pub fn elements(&self, index: usize) -> Option<impl Iterator<Item = Datum<'c>> + use<'c>> {
        elements(self.arguments.get(index)?)
    }
}

/// The integer that a number is, when it is one of 64 bits.
pub(super) fn whole(number: Number) -> Option<i64> {
    const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;
    match number {
        Number::Int(value) => Some(value),
        Number::Double(value) if value.trunc() == value && (-TWO_POW_63..TWO_POW_63).contains(&value) => {
            Some(value as i64)
        }
        Number::Double(_) => None,
    }
}

/// The elements of an array, borrowed; `None` for other values.
pub(super) fn elements<'d>(datum: &'d Datum<'_>) -> Option<impl Iterator<Item = Datum<'d>> + use<'d>> {
    let (raw, tree) = match datum {
        Datum::RawArray(array) => (Some(array.iter()), &[][..]),
        Datum::Array(elements) => (None, &elements[..]),
        _ => return None,
    };
    let raw = raw.into_iter().flatten().map(Datum::from_raw);
    Some(raw.chain(tree.iter().map(Datum::from_tree)))
}

/// The members of an object in order; `None` for anything else.
pub(super) fn members<'d>(datum: &'d Datum<'_>) -> Option<Vec<(Cow<'d, str>, Datum<'d>)>> {
    Some(match datum {
        Datum::RawObject(document) => {
            document.iter().map(|(name, value)| (Cow::Borrowed(name), Datum::from_raw(value))).collect()
        }
        Datum::Object(members) => {
            members.iter().map(|(name, value)| (Cow::Borrowed(&name[..]), Datum::from_tree(value))).collect()
        }
        Datum::Item(item) => match item.to_value() {
            Value::Object(members) => {
                members.into_iter().map(|(name, value)| (Cow::Owned(name), Datum::from(value))).collect()
            }
            _ => return None,
        },
        _ => return None,
    })
}

/// The return types of implementations.
pub(super) trait Answer<'a> {
    fn applied(self) -> Applied<'a>;
}

impl<'a> Answer<'a> for Datum<'a> {
    fn applied(self) -> Applied<'a> {
        Ok(self)
    }
}

/// `None` is undefined.
impl<'a> Answer<'a> for Option<Datum<'a>> {
    fn applied(self) -> Applied<'a> {
        Ok(self.unwrap_or(Datum::Undefined))
    }
}

impl<'a> Answer<'a> for Result<Option<Datum<'a>>, SqlError> {
    fn applied(self) -> Applied<'a> {
        Ok(self?.unwrap_or(Datum::Undefined))
    }
}

pub(super) fn int<'a>(value: i64) -> Datum<'a> {
    Datum::Number(Number::Int(value))
}

pub(super) fn owned_text<'a>(text: impl Into<String>) -> Datum<'a> {
    Datum::String(Cow::Owned(text.into()))
}

/// The part of a text between two byte offsets, borrowed when the text is.
pub(super) fn part<'a>(text: &Cow<'a, str>, from: usize, to: usize) -> Datum<'a> {
    Datum::String(match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[from..to]),
        Cow::Owned(text) => Cow::Owned(text[from..to].to_string()),
    })
}
