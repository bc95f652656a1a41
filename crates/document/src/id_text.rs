//! Ids as texts: which value a text stands for, and which text stands for a text.
//!
//! Every value has one spelling, which the identity of an item has (`item_id.rs`). Any other text stands for itself, though it
//! may begin like one of them: `$num:1` is a number, `$num:01` and `$num:abc` are texts. A text that cannot be an id as it is, or
//! is the spelling of something, is spelled `$str:` and its escaped form.

use std::borrow::Cow;

use crate::item_id::{bytes_of_url_text, text_of_binary, text_of_double, text_of_parts, text_of_timestamp};
use crate::non_json::hex;

const TEXT: &str = "$str:";
/// Identities of values that are kept as values: no id has such a text, and no text such an identity.
const KEPT_AS_VALUES: [&str; 2] = ["$hash:", "$bin:02:"];
/// Binary values whose content begins with a length of its own.
const OLD_BINARY: u8 = 2;
const UUID: u8 = 4;
/// No id is longer. Longer texts are spelled by themselves, which also bounds the nesting of `$str:`.
pub const ID_BYTES_MAX: usize = 1023;

/// The value that an id stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum IdValue<'i> {
    Text(Cow<'i, str>),
    Null,
    MinKey,
    MaxKey,
    Bool(bool),
    Int(i64),
    Double(f64),
    /// Digits, `E`, exponent.
    Decimal(&'i str),
    ObjectId([u8; 12]),
    /// Milliseconds since 1970.
    Date(i64),
    Timestamp(u32, u32),
    /// Subtype and content.
    Binary(u8, Vec<u8>),
}

/// The value that an id stands for.
pub fn value_of_id(id: &str) -> IdValue<'_> {
    let typed = id.strip_prefix('$').filter(|_| id.len() <= ID_BYTES_MAX);
    typed.and_then(|typed| typed_value(id, typed)).unwrap_or(IdValue::Text(Cow::Borrowed(id)))
}

/// The text that an id stands for; `None` where it stands for another value.
pub fn text_of_id(id: &str) -> Option<Cow<'_, str>> {
    match value_of_id(id) {
        IdValue::Text(text) => Some(text),
        _ => None,
    }
}

/// The id that stands for a text.
pub fn id_of_text(text: &str) -> Cow<'_, str> {
    let can_be_an_id = !text.is_empty() && !text.contains(['/', '\\', '?', '#']);
    let stands_for_itself = || matches!(value_of_id(text), IdValue::Text(Cow::Borrowed(_)));
    let is_of_a_value = KEPT_AS_VALUES.iter().any(|form| text.starts_with(form));
    match can_be_an_id && !is_of_a_value && stands_for_itself() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("{TEXT}{}", escaped_id(text))),
    }
}

fn typed_value<'i>(id: &'i str, typed: &'i str) -> Option<IdValue<'i>> {
    let Some((tag, text)) = typed.split_once(':') else {
        return match typed {
            "null" => Some(IdValue::Null),
            "minKey" => Some(IdValue::MinKey),
            "maxKey" => Some(IdValue::MaxKey),
            _ => None,
        };
    };
    let (value, spelling) = match tag {
        "str" => {
            let own = unescaped_id(text)?;
            let spelling = id_of_text(&own).into_owned();
            (IdValue::Text(Cow::Owned(own)), spelling)
        }
        "bool" => {
            let own: bool = text.parse().ok()?;
            (IdValue::Bool(own), format!("$bool:{own}"))
        }
        "num" => read_number(text)?,
        "dec" => (IdValue::Decimal(text), spelling_of_decimal(text)?),
        "oid" => {
            let own: [u8; 12] = bytes_of_hex(text)?.try_into().ok()?;
            (IdValue::ObjectId(own), format!("$oid:{}", hex(&own)))
        }
        "date" => {
            let own: i64 = text.parse().ok()?;
            (IdValue::Date(own), format!("$date:{own}"))
        }
        "ts" => {
            let (seconds, increment) = text.split_once('.')?;
            let (seconds, increment) = (seconds.parse().ok()?, increment.parse().ok()?);
            (IdValue::Timestamp(seconds, increment), text_of_timestamp(seconds, increment))
        }
        "uuid" => {
            let own = bytes_of_hex(&text.replace('-', ""))?;
            let spelling = text_of_binary(UUID, &own);
            (IdValue::Binary(UUID, own), spelling)
        }
        "bin" => {
            let (subtype, content) = text.split_once(':')?;
            let subtype = u8::from_str_radix(subtype, 16).ok().filter(|subtype| *subtype != OLD_BINARY)?;
            let own = bytes_of_url_text(content)?;
            let spelling = text_of_binary(subtype, &own);
            (IdValue::Binary(subtype, own), spelling)
        }
        _ => return None,
    };
    (spelling == id).then_some(value)
}

fn read_number(text: &str) -> Option<(IdValue<'_>, String)> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some((IdValue::Int(whole), format!("$num:{whole}")));
    }
    let number = match text {
        "NaN" => f64::NAN,
        "Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        _ => text.parse().ok().filter(|number: &f64| number.is_finite())?,
    };
    Some((IdValue::Double(number), text_of_double(number)))
}

fn spelling_of_decimal(text: &str) -> Option<String> {
    /// Digits of a coefficient, and the exponents of coefficients of one digit and of so many.
    const DIGITS: usize = 34;
    const EXPONENT_MIN: i32 = -6176;
    const EXPONENT_MAX: i32 = 6111;
    let (coefficient, exponent) = text.split_once('E')?;
    let (negative, digits) = match coefficient.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, coefficient),
    };
    let exponent: i32 = exponent.parse().ok()?;
    let zeros_behind = DIGITS.checked_sub(digits.len())?;
    let is_decimal = (EXPONENT_MIN..=EXPONENT_MAX + zeros_behind as i32).contains(&exponent);
    is_decimal.then_some(text_of_parts(negative, digits.parse().ok()?, exponent))
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

/// A text in characters that an id may have: the others as `%2F`.
pub fn escaped_id(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let last = text.chars().count().saturating_sub(1);
    for (at, c) in text.chars().enumerate() {
        let hides = matches!(c, '%' | '/' | '\\' | '?' | '#') || c.is_control();
        if hides || (c == '$' && at == 0) || (c == ' ' && at == last) {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| out.push_str(&format!("%{byte:02X}")));
        } else {
            out.push(c);
        }
    }
    out
}

/// The text again.
pub fn unescaped_id(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        out.push((digit(bytes.next()?)? * 16 + digit(bytes.next()?)?) as u8);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_prefixes_of_texts_are_bounded_by_the_length_of_ids() {
        for (count, is_id) in [(200, true), (50_000, false)] {
            let nested = TEXT.repeat(count) + "a";
            assert_eq!(nested.len() <= ID_BYTES_MAX, is_id);
            let id = id_of_text(&nested);
            assert_eq!(text_of_id(&id).as_deref(), Some(&*nested), "{count}");
        }
    }

    #[test]
    fn texts_that_only_begin_like_values_are_texts() {
        for text in [
            "$num:abc",
            "$num:01",
            "$num:+1",
            "$num:1.0",
            "$num:inf",
            "$oid:1",
            "$oid:0123456789ABCDEF01234567",
            "$bool:",
            "$bool:yes",
            "$date:1.5",
            "$ts:1",
            "$ts:01.1",
            "$uuid:0",
            "$bin:00",
            "$bin:0:",
            "$bin:02:AAAA",
            "$null:",
            "$minkey",
            "$dec:1E0",
            "$dec:1E-6177",
            "$dec:1E6145",
            "$dec:10E6000",
            "$str:a",
            "$str:%2f",
            "$str:%",
            "$hash:0",
            "$",
            "$num",
            "",
        ] {
            assert_eq!(value_of_id(text), IdValue::Text(Cow::Borrowed(text)));
            assert_eq!(text_of_id(&id_of_text(text)).as_deref(), Some(text));
        }
        assert_eq!(text_of_id("$dec:1E6144"), None);
        assert_eq!(text_of_id("$dec:1E-6176"), None);
    }

    #[test]
    fn a_text_that_is_spelled_like_a_value_is_hidden() {
        for text in [
            "$num:1",
            "$null",
            "$hash:0",
            "$bin:02:AAAA",
            "$str:%2F",
            "a/b",
            "$oid:0123456789abcdef01234567",
            "",
        ] {
            let id = id_of_text(text);
            assert!(id.starts_with(TEXT), "{id}");
            assert_eq!(text_of_id(&id).as_deref(), Some(text));
        }
        assert_eq!(id_of_text("$num:abc"), "$num:abc");
    }
}
