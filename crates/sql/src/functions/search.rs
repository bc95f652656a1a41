//! Functions that search one text in another.
//!
//! Comparison is ordinal: by characters, in all languages alike. Ignoring case maps each character to one upper-case
//! character, as the invariant culture does. Positions count UTF-16 code units. An empty text is found everywhere.

use std::borrow::Cow;

use crate::error::SqlError;
use crate::functions::call::{Call, int, part};
use crate::functions::string::{byte_of_unit, fold, units};
use crate::value::datum::Datum;

/// How the parts of a test count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantifier {
    All,
    Any,
}

#[derive(Clone, Copy)]
pub(super) enum Which {
    First,
    Last,
}

pub(super) fn contains<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let (text, part, ignores_case) = (call.text(0)?, call.text(1)?, call.flag(2)?);
    Some(Datum::Bool(contains_text(text, part, ignores_case)))
}

pub(super) fn starts_with<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let (text, part, ignores_case) = (call.text(0)?, call.text(1)?, call.flag(2)?);
    let found = if ignores_case { begins(text.chars(), part.chars()) } else { text.starts_with(&**part) };
    Some(Datum::Bool(found))
}

pub(super) fn ends_with<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let (text, part, ignores_case) = (call.text(0)?, call.text(1)?, call.flag(2)?);
    let found =
        if ignores_case { begins(text.chars().rev(), part.chars().rev()) } else { text.ends_with(&**part) };
    Some(Datum::Bool(found))
}

pub(super) fn string_equals<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let (left, right, ignores_case) = (call.text(0)?, call.text(1)?, call.flag(2)?);
    let equal = if ignores_case { left.chars().map(fold).eq(right.chars().map(fold)) } else { left == right };
    Some(Datum::Bool(equal))
}

/// AND or OR of `CONTAINS` with each part, in three-valued logic.
pub(super) fn contains_each<'a>(
    call: &Call<'_, 'a>,
    quantifier: Quantifier,
    ignores_case: bool,
) -> Result<Option<Datum<'a>>, SqlError> {
    let (text, text_steps) = (call.text(0), call.datum(0).read_steps());
    let tests = (1..call.count()).map(|index| {
        call.step(1 + text_steps)?;
        Ok(text.zip(call.text(index)).map(|(text, part)| contains_text(text, part, ignores_case)))
    });
    Ok(combine(quantifier, tests)?.map(Datum::Bool))
}

/// AND or OR of tests, some of which are undefined.
pub(super) fn combine(
    quantifier: Quantifier,
    tests: impl Iterator<Item = Result<Option<bool>, SqlError>>,
) -> Result<Option<bool>, SqlError> {
    let decisive = quantifier == Quantifier::Any;
    let mut result = Some(!decisive);
    for test in tests {
        match test? {
            Some(value) if value == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

pub(super) fn index_of<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let (text, part) = (call.text(0)?, call.text(1)?);
    let start = usize::try_from(call.integer_or(2, 0)?.max(0)).unwrap_or(usize::MAX);
    let Some(from) = byte_of_unit(text, start) else { return Some(int(-1)) };
    let found = text[from.byte..].find(&**part);
    Some(int(found.map_or(-1, |at| units(&text[..from.byte + at]) as i64)))
}

/// The last place that ends, with all of the wanted text, at the given position at the latest.
pub(super) fn last_index_of<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let (text, part) = (call.text(0)?, call.text(1)?);
    let last = call.integer_or(2, i64::MAX)?;
    let Ok(last) = usize::try_from(last) else { return Some(int(-1)) };
    if part.is_empty() {
        // The empty text is found before the last character at the latest.
        let length = units(text);
        let is_within = call.count() < 3 || last <= length;
        return Some(int(if is_within { last.min(length.saturating_sub(1)) as i64 } else { -1 }));
    }
    let to = byte_of_unit(text, last.saturating_add(1)).map_or(text.len(), |to| to.character);
    let found = text[..to].rfind(&**part);
    Some(int(found.map_or(-1, |at| units(&text[..at]) as i64)))
}

/// The text after the wanted one; undefined without a match.
pub(super) fn after<'a>(call: &Call<'_, 'a>, which: Which) -> Option<Datum<'a>> {
    let (text, wanted) = (call.text(0)?, call.text(1)?);
    let from = position(text, wanted, which)? + wanted.len();
    Some(part(text, from, text.len()))
}

/// The text before the wanted one; undefined without a match.
pub(super) fn before<'a>(call: &Call<'_, 'a>, which: Which) -> Option<Datum<'a>> {
    let (text, wanted) = (call.text(0)?, call.text(1)?);
    Some(part(text, 0, position(text, wanted, which)?))
}

fn position(text: &str, wanted: &str, which: Which) -> Option<usize> {
    match which {
        Which::First => text.find(wanted),
        Which::Last => text.rfind(wanted),
    }
}

/// Folding makes copies, so that the search itself is linear in both texts.
fn contains_text(text: &str, part: &str, ignores_case: bool) -> bool {
    if !ignores_case {
        return text.contains(part);
    }
    folded(text).contains(&*folded(part))
}

fn begins(mut text: impl Iterator<Item = char>, mut part: impl Iterator<Item = char>) -> bool {
    part.all(|wanted| text.next().is_some_and(|character| fold(character) == fold(wanted)))
}

fn folded(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        let has_lower = text.bytes().any(|byte| byte.is_ascii_lowercase());
        return if has_lower { Cow::Owned(text.to_ascii_uppercase()) } else { Cow::Borrowed(text) };
    }
    Cow::Owned(text.chars().map(fold).collect())
}
