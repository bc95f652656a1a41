//! Functions from texts to texts.
//!
//! Lengths and positions count UTF-16 code units, as clients do. A cut through a character outside the basic
//! plane would leave half of a surrogate pair, which is not a valid text: U+FFFD replaces it. `REVERSE` keeps
//! characters whole.

use std::borrow::Cow;
use std::collections::HashSet;

use shardlake_document::Value;

use crate::error::SqlError;
use crate::functions::call::{Call, int, owned_text, part};
use crate::value::datum::{Datum, grow};

/// The longest text that `REPLICATE` makes, in code units.
const REPLICATE_UNITS_MAX: usize = 10_000;

/// The place of a code unit in the bytes of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnitPlace {
    /// The start of the first character that begins at the unit or later.
    pub byte: usize,
    /// The start of the character that the unit belongs to; differs from `byte` for the second half of a pair.
    pub character: usize,
}

/// `None` beyond the end; the end itself is a place.
pub(super) fn byte_of_unit(text: &str, unit: usize) -> Option<UnitPlace> {
    if text.is_ascii() {
        return (unit <= text.len()).then_some(UnitPlace { byte: unit, character: unit });
    }
    let mut at = 0;
    for (byte, character) in text.char_indices() {
        if at == unit {
            return Some(UnitPlace { byte, character: byte });
        }
        at += character.len_utf16();
        if at > unit {
            return Some(UnitPlace { byte: byte + character.len_utf8(), character: byte });
        }
    }
    (at == unit).then_some(UnitPlace { byte: text.len(), character: text.len() })
}

/// The length in UTF-16 code units.
pub(super) fn units(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(char::len_utf16).sum() }
}

/// The upper-case character of the invariant culture: one for one, and never an ASCII letter for another character.
pub(super) fn fold(character: char) -> char {
    if character.is_ascii() {
        return character.to_ascii_uppercase();
    }
    let mut upper = character.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) if !upper.is_ascii() => upper,
        _ => character,
    }
}

/// The units from `start` (inclusive) to `end` (exclusive), cut at the end of the text.
fn cut<'a>(text: &Cow<'a, str>, start: usize, end: usize) -> Datum<'a> {
    let Some(from) = byte_of_unit(text, start).filter(|_| start < end) else { return owned_text("") };
    let whole = UnitPlace { byte: text.len(), character: text.len() };
    let to = byte_of_unit(text, end).unwrap_or(whole);
    let (splits_first, splits_last) = (from.character != from.byte, to.character != to.byte);
    if !splits_first && !splits_last {
        return part(text, from.byte, to.byte);
    }
    let mut out = String::new();
    if splits_first {
        out.push('\u{FFFD}');
    }
    out.push_str(text.get(from.byte..to.character).unwrap_or_default());
    if splits_last {
        out.push('\u{FFFD}');
    }
    owned_text(out)
}

pub(super) fn length<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    Some(int(units(call.text(0)?) as i64))
}

pub(super) fn left<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let (text, count) = (call.text(0)?, call.integer(1)?);
    Some(cut(text, 0, non_negative(count)))
}

pub(super) fn right<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let (text, count) = (call.text(0)?, call.integer(1)?);
    let length = units(text);
    Some(cut(text, length.saturating_sub(non_negative(count)), length))
}

/// A start outside the text or a length below one gives the empty text.
pub(super) fn substring<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let (text, start, length) = (call.text(0)?, call.integer(1)?, call.integer(2)?);
    let Ok(start) = usize::try_from(start) else { return Some(owned_text("")) };
    Some(cut(text, start, start.saturating_add(non_negative(length))))
}

fn non_negative(count: i64) -> usize {
    usize::try_from(count).unwrap_or(0)
}

pub(super) fn concat<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    let mut size = 0;
    for argument in call.arguments {
        let Datum::String(text) = argument else { return Ok(None) };
        grow(&mut size, text.len())?;
    }
    let mut out = String::with_capacity(size);
    for argument in call.arguments {
        if let Datum::String(text) = argument {
            out.push_str(text);
        }
    }
    Ok(Some(owned_text(out)))
}

pub(super) fn lower<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let text = call.text(0)?;
    if text.is_ascii() {
        return Some(owned_text(text.to_ascii_lowercase()));
    }
    Some(owned_text(text.chars().map(lower_character).collect::<String>()))
}

/// One character for one, as in the invariant culture: a character with a longer lower case is unchanged.
fn lower_character(character: char) -> char {
    let mut lower = character.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) => lower,
        _ => character,
    }
}

pub(super) fn upper<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let text = call.text(0)?;
    if text.is_ascii() {
        return Some(owned_text(text.to_ascii_uppercase()));
    }
    Some(owned_text(text.chars().map(fold).collect::<String>()))
}

/// Removes white space, or the characters of the second argument, from one or both ends.
pub(super) fn trim<'a>(call: &Call<'_, 'a>, at_start: bool, at_end: bool) -> Option<Datum<'a>> {
    let text = call.text(0)?;
    // An empty text of characters means the default.
    let characters = if call.count() > 1 { Some(call.text(1)?) } else { None };
    let characters = characters.filter(|characters| !characters.is_empty());
    let characters: Option<HashSet<char>> = characters.map(|characters| characters.chars().collect());
    let goes = |character: char| match &characters {
        Some(characters) => characters.contains(&character),
        None => character.is_whitespace(),
    };
    let rest = if at_start { text.trim_start_matches(goes) } else { text };
    let from = text.len() - rest.len();
    let rest = if at_end { rest.trim_end_matches(goes) } else { rest };
    Some(part(text, from, from + rest.len()))
}

/// Replaces every occurrence; the empty text cannot be replaced.
pub(super) fn replace<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    let (Some(text), Some(wanted), Some(replacement)) = (call.text(0), call.text(1), call.text(2)) else {
        return Ok(None);
    };
    if wanted.is_empty() {
        return Ok(None);
    }
    let count = text.matches(&**wanted).count();
    let mut size = text.len() - count * wanted.len();
    grow(&mut size, count.saturating_mul(replacement.len()))?;
    Ok(Some(owned_text(text.replace(&**wanted, replacement))))
}

pub(super) fn replicate<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let (text, count) = (call.text(0)?, usize::try_from(call.integer(1)?).ok()?);
    let is_short = units(text).checked_mul(count).is_some_and(|length| length <= REPLICATE_UNITS_MAX);
    is_short.then(|| owned_text(if text.is_empty() { String::new() } else { text.repeat(count) }))
}

pub(super) fn reverse<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    Some(owned_text(call.text(0)?.chars().rev().collect::<String>()))
}

/// Joins the texts of an array; undefined when there is anything else in it.
pub(super) fn join<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    let (Some(elements), Some(separator)) = (call.elements(0), call.text(1)) else { return Ok(None) };
    let (mut out, mut size) = (String::new(), 0);
    for (index, element) in elements.enumerate() {
        let Datum::String(text) = element else { return Ok(None) };
        grow(&mut size, separator.len() + text.len())?;
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(&text);
    }
    Ok(Some(owned_text(out)))
}

/// The empty separator splits nothing.
pub(super) fn split<'a>(call: &Call<'_, 'a>) -> Result<Option<Datum<'a>>, SqlError> {
    let (Some(text), Some(separator)) = (call.text(0), call.text(1)) else { return Ok(None) };
    let mut parts = Vec::new();
    if separator.is_empty() {
        parts.push(Value::String(text.to_string()));
        return Ok(Some(Datum::Array(Cow::Owned(parts))));
    }
    let mut size = 0;
    for part in text.split(&**separator) {
        grow(&mut size, part.len() + size_of::<Value>())?;
        parts.push(Value::String(part.to_string()));
    }
    Ok(Some(Datum::Array(Cow::Owned(parts))))
}
