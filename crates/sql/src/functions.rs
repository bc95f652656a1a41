//! The built-in functions: their names, argument counts and meaning.
//!
//! Names ignore case and underscores, so every spelling of the reference (`STRING_EQUALS`, `StringEquals`) is one name. An
//! argument that is undefined or has the wrong type makes the result undefined, except for the type checks, which are always
//! `true` or `false`. Functions of the language that are not here yet are refused by name.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use shardlake_document::{Number, RawValue, Value};
use shardlake_stdx::Timestamp;

use crate::error::{Location, SqlError};
use crate::evaluate::datum::{Datum, DatumType};
use crate::evaluate::operators::number_datum;

/// What functions may depend on beside their arguments.
#[derive(Debug, Default)]
pub(crate) struct FunctionContext {
    /// When the query began.
    pub now: Timestamp,
    pub geometry: GeometryKind,
    /// The state of `RAND`.
    pub random: Cell<u64>,
}

/// How the coordinates of spatial values are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GeometryKind {
    /// Longitude and latitude on the WGS-84 ellipsoid.
    #[default]
    Geography,
    /// The plane.
    Geometry,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    IsArray,
    IsBool,
    IsDateTime,
    IsDefined,
    IsFiniteNumber,
    IsInteger,
    IsNull,
    IsNumber,
    IsObject,
    IsPrimitive,
    IsString,
    Contains,
    StartsWith,
    EndsWith,
    Length,
    Lower,
    Upper,
    ArrayContains,
    ArrayLength,
    Abs,
}

/// Name without underscores, function, fewest and most arguments.
const FUNCTIONS: [(&str, Function, usize, usize); 21] = [
    ("ISARRAY", Function::IsArray, 1, 1),
    ("ISBOOL", Function::IsBool, 1, 1),
    ("ISBOOLEAN", Function::IsBool, 1, 1),
    ("ISDATETIME", Function::IsDateTime, 1, 1),
    ("ISDEFINED", Function::IsDefined, 1, 1),
    ("ISFINITENUMBER", Function::IsFiniteNumber, 1, 1),
    ("ISINTEGER", Function::IsInteger, 1, 1),
    ("ISNULL", Function::IsNull, 1, 1),
    ("ISNUMBER", Function::IsNumber, 1, 1),
    ("ISOBJECT", Function::IsObject, 1, 1),
    ("ISPRIMITIVE", Function::IsPrimitive, 1, 1),
    ("ISSTRING", Function::IsString, 1, 1),
    ("CONTAINS", Function::Contains, 2, 3),
    ("STARTSWITH", Function::StartsWith, 2, 3),
    ("ENDSWITH", Function::EndsWith, 2, 3),
    ("LENGTH", Function::Length, 1, 1),
    ("LOWER", Function::Lower, 1, 1),
    ("UPPER", Function::Upper, 1, 1),
    ("ARRAYCONTAINS", Function::ArrayContains, 2, 3),
    ("ARRAYLENGTH", Function::ArrayLength, 1, 1),
    ("ABS", Function::Abs, 1, 1),
];

/// Functions of engine.md §3 that are known and not there yet.
const UNSUPPORTED: &str = "AVG COUNT MAX MIN SUM COUNTIF MAKELIST MAKESET \
    CONCAT CONTAINSALLCI CONTAINSALLCS CONTAINSANYCI CONTAINSANYCS STRINGEQUALS INDEXOF LASTINDEXOF LEFT RIGHT SUBSTRING \
    LTRIM RTRIM TRIM REPLACE REPLICATE REVERSE REGEXMATCH REGEXEXTRACT REGEXEXTRACTALL STRINGJOIN STRINGSPLIT \
    SUBSTRINGAFTER SUBSTRINGBEFORE LASTSUBSTRINGAFTER LASTSUBSTRINGBEFORE TOSTRING STRINGTOARRAY STRINGTOBOOLEAN \
    STRINGTONULL STRINGTONUMBER STRINGTOOBJECT \
    ARRAYCONCAT ARRAYCONTAINSANY ARRAYCONTAINSALL ARRAYSLICE ARRAYAVG ARRAYMAX ARRAYMEDIAN ARRAYMIN ARRAYSUM CHOOSE \
    OBJECTTOARRAY SETINTERSECT SETUNION SETDIFFERENCE SETEQUAL ALL FIRST LAST \
    ACOS ASIN ATAN ATN2 CEILING COS COT DEGREES EXP FLOOR LOG LOG10 PI POWER RADIANS RAND ROUND SIGN SIN SQRT SQUARE TAN \
    TRUNC NUMBERBIN INTADD INTSUB INTMUL INTMULTIPLY INTDIV INTMOD INTBITAND INTBITOR INTBITXOR INTBITNOT \
    INTBITLEFTSHIFT INTBITRIGHTSHIFT \
    DATETIMEADD DATETIMEDIFF DATETIMEPART DATETIMEBIN DATETIMEFROMPARTS DATETIMETOTICKS TICKSTODATETIME \
    DATETIMETOTIMESTAMP TIMESTAMPTODATETIME GETCURRENTDATETIME GETCURRENTTICKS GETCURRENTTIMESTAMP \
    GETCURRENTDATETIMESTATIC GETCURRENTTICKSSTATIC GETCURRENTTIMESTAMPSTATIC NOW AGO YEAR MONTH DAY DATETIMEFORMAT \
    IIF DOCUMENTID HASH STDISTANCE STWITHIN STINTERSECTS STAREA STISVALID STISVALIDDETAILED \
    FULLTEXTCONTAINS FULLTEXTCONTAINSALL FULLTEXTCONTAINSANY FULLTEXTSCORE RRF VECTORDISTANCE";

/// Looks a function up and checks its number of arguments.
pub(crate) fn find(
    name: &str,
    argument_count: usize,
    locate: impl FnOnce() -> Location,
) -> Result<Function, SqlError> {
    let key = name.replace('_', "").to_ascii_uppercase();
    let Some(&(_, function, fewest, most)) = FUNCTIONS.iter().find(|(candidate, ..)| *candidate == key)
    else {
        return Err(if UNSUPPORTED.split_ascii_whitespace().any(|candidate| candidate == key) {
            SqlError::unsupported(format!("the function {}", name.to_ascii_uppercase()))
        } else {
            SqlError::UnknownFunction { name: name.to_string(), location: locate() }
        });
    };
    if (fewest..=most).contains(&argument_count) {
        return Ok(function);
    }
    let expected = if fewest == most { fewest.to_string() } else { format!("{fewest} to {most}") };
    Err(SqlError::ArgumentCount { name: name.to_ascii_uppercase(), expected, location: locate() })
}

/// What a function makes once of its constant arguments, such as a compiled regular expression.
#[derive(Debug)]
pub(crate) enum PreparedCall {}

/// `constants` holds each argument that is constant.
pub(crate) fn prepare(_function: Function, _constants: &[Option<&Value>]) -> Option<Arc<PreparedCall>> {
    None
}

impl Function {
    /// The same arguments always give the same result within one query, so that constant calls can be folded.
    pub fn is_pure(self) -> bool {
        true
    }

    /// [`Function::apply`] with what [`prepare`] has made of the constant arguments.
    pub fn apply_prepared<'a>(
        self,
        prepared: &PreparedCall,
        _arguments: &[Datum<'a>],
        _context: &FunctionContext,
    ) -> Result<Datum<'a>, SqlError> {
        match *prepared {}
    }

    /// `arguments` has a length that [`find`] accepted.
    pub fn apply<'a>(
        self,
        arguments: &[Datum<'a>],
        _context: &FunctionContext,
    ) -> Result<Datum<'a>, SqlError> {
        let first = &arguments[0];
        Ok(match self {
            Function::IsArray => Datum::Bool(first.datum_type() == DatumType::Array),
            Function::IsBool => Datum::Bool(first.datum_type() == DatumType::Bool),
            Function::IsDateTime => Datum::Bool(matches!(first, Datum::String(text) if is_date_time(text))),
            Function::IsDefined => Datum::Bool(!first.is_undefined()),
            Function::IsFiniteNumber => {
                Datum::Bool(matches!(first, Datum::Number(number) if number.as_f64().is_finite()))
            }
            Function::IsInteger => Datum::Bool(matches!(first, Datum::Number(number) if is_integer(*number))),
            Function::IsNull => Datum::Bool(first.datum_type() == DatumType::Null),
            Function::IsNumber => Datum::Bool(first.datum_type() == DatumType::Number),
            Function::IsObject => Datum::Bool(first.datum_type() == DatumType::Object),
            Function::IsPrimitive => {
                use DatumType::{Bool, Null, Number, String};
                Datum::Bool(matches!(first.datum_type(), Null | Bool | Number | String))
            }
            Function::IsString => Datum::Bool(first.datum_type() == DatumType::String),
            Function::Contains => search(arguments, |text, part| text.contains(part)),
            Function::StartsWith => search(arguments, |text, part| text.starts_with(part)),
            Function::EndsWith => search(arguments, |text, part| text.ends_with(part)),
            Function::Length => match first {
                Datum::String(text) => count_datum(text.chars().map(char::len_utf16).sum()),
                _ => Datum::Undefined,
            },
            Function::Lower => map_characters(first, |character| single(character.to_lowercase())),
            Function::Upper => map_characters(first, |character| single(character.to_uppercase())),
            Function::ArrayContains => array_contains(arguments),
            Function::ArrayLength => match first {
                Datum::RawArray(array) => count_datum(array.len()),
                Datum::Array(elements) => count_datum(elements.len()),
                _ => Datum::Undefined,
            },
            Function::Abs => match first {
                Datum::Number(Number::Int(value)) => match value.checked_abs() {
                    Some(value) => Datum::Number(Number::Int(value)),
                    None => number_datum(-(*value as f64)),
                },
                Datum::Number(Number::Double(value)) => Datum::Number(Number::Double(value.abs())),
                _ => Datum::Undefined,
            },
        })
    }
}

fn count_datum<'a>(count: usize) -> Datum<'a> {
    Datum::Number(Number::Int(count as i64))
}

/// An optional boolean argument: `None` when it is there and no boolean.
fn flag(arguments: &[Datum<'_>], index: usize) -> Option<bool> {
    match arguments.get(index) {
        None => Some(false),
        Some(Datum::Bool(value)) => Some(*value),
        Some(_) => None,
    }
}

/// A test of a text for a part of it, with an optional flag to ignore case.
fn search<'a>(arguments: &[Datum<'a>], test: fn(&str, &str) -> bool) -> Datum<'a> {
    let ignores_case = flag(arguments, 2);
    let (Datum::String(text), Datum::String(part), Some(ignores_case)) =
        (&arguments[0], &arguments[1], ignores_case)
    else {
        return Datum::Undefined;
    };
    if !ignores_case {
        return Datum::Bool(test(text, part));
    }
    let fold = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<String>();
    Datum::Bool(test(&fold(text), &fold(part)))
}

fn map_characters<'a>(datum: &Datum<'_>, map: fn(char) -> Option<char>) -> Datum<'a> {
    let Datum::String(text) = datum else { return Datum::Undefined };
    let mapped = text.chars().map(|character| map(character).unwrap_or(character)).collect();
    Datum::String(Cow::Owned(mapped))
}

/// The invariant culture maps one character to one: `ß` has no upper case of its own.
fn single(mut mapped: impl Iterator<Item = char>) -> Option<char> {
    let first = mapped.next();
    if mapped.next().is_none() { first } else { None }
}

fn is_integer(number: Number) -> bool {
    const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;
    match number {
        Number::Int(_) => true,
        Number::Double(value) => value.trunc() == value && (-TWO_POW_63..TWO_POW_63).contains(&value),
    }
}

/// Equality with an element or, with the flag, equality of the wanted members with those of an element.
fn array_contains<'a>(arguments: &[Datum<'a>]) -> Datum<'a> {
    let (array, wanted) = (&arguments[0], &arguments[1]);
    let Some(is_partial) = flag(arguments, 2) else { return Datum::Undefined };
    if wanted.is_undefined() {
        return Datum::Undefined;
    }
    let is_found = |element: Datum<'_>| {
        if is_partial { has_members(&element, wanted) } else { element.equals(wanted) == Some(true) }
    };
    match array {
        Datum::RawArray(array) => Datum::Bool(array.iter().map(Datum::from_raw).any(is_found)),
        Datum::Array(elements) => Datum::Bool(elements.iter().map(Datum::from_tree).any(is_found)),
        _ => Datum::Undefined,
    }
}

fn has_members(element: &Datum<'_>, wanted: &Datum<'_>) -> bool {
    let has = |name: &str, value: Datum<'_>| element.view().property(name).equals(&value) == Some(true);
    match wanted {
        _ if element.datum_type() != DatumType::Object => element.equals(wanted) == Some(true),
        Datum::RawObject(wanted) => {
            wanted.iter().all(|(name, value): (&str, RawValue<'_>)| has(name, Datum::from_raw(value)))
        }
        Datum::Object(wanted) => {
            wanted.iter().all(|(name, value): &(String, Value)| has(name, Datum::from_tree(value)))
        }
        _ => false,
    }
}

/// `YYYY-MM-DD`, optionally with `Thh:mm:ss`, a fraction of up to seven digits and `Z`.
fn is_date_time(text: &str) -> bool {
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    is_date(date) && time.is_none_or(is_time)
}

/// The value of exactly `count` digits.
fn digits(text: &str, count: usize) -> Option<u32> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

fn is_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut part = |count| digits(parts.next()?, count);
    let (Some(year), Some(month), Some(day)) = (part(4), part(2), part(2)) else { return false };
    let is_leap_year = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u32::from(is_leap_year),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    year >= 1 && (1..=days).contains(&day) && parts.next().is_none()
}

fn is_time(text: &str) -> bool {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (clock, fraction) = match text.split_once('.') {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (text, None),
    };
    let mut parts = clock.split(':');
    let mut part = |below| parts.next().and_then(|text| digits(text, 2)).is_some_and(|value| value < below);
    let is_clock = part(24) && part(60) && part(60) && parts.next().is_none();
    is_clock && fraction.is_none_or(|fraction| (1..=7).any(|count| digits(fraction, count).is_some()))
}
