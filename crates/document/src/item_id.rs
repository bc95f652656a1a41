//! The identity of an item within its logical partition.
//!
//! The identity is a text, which is part of the item's key. A string id is its own identity; ids of other
//! kinds, which some front ends allow, have a typed form: a tag and a canonical text. Ids that are equal as
//! values (1, 1.0, a 64-bit 1) have one identity. If the string `$num:1` and the number 1 are different ids
//! in a front end, it encodes such strings differently beforehand.
//!
//! | id | identity |
//! |---|---|
//! | string | itself |
//! | number | `$num:` and its digits, or the shortest text of a double; `$dec:`, digits, `E`, exponent for a decimal that is neither |
//! | boolean, null | `$bool:true`, `$bool:false`, `$null` |
//! | ObjectId | `$oid:` and 24 lower-case hex digits |
//! | date | `$date:` and its milliseconds |
//! | UUID (binary of subtype 4) | `$uuid:` and 8-4-4-4-12 lower-case hex digits |
//! | other binary | `$bin:`, its subtype in hex, `:`, base64url without padding |
//! | timestamp | `$ts:` seconds `.` increment |
//! | MinKey, MaxKey | `$minKey`, `$maxKey` |
//! | document, code, symbol, DBPointer | `$hash:` and the SHA-256 of its canonical bytes, in hex: equal ones hash alike |
//! | array, regular expression, undefined | none: it cannot be an id |

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::json_out::write_shortest;
use crate::non_json::{DecimalParts, decimal_parts, hex};
use crate::raw::{BsonKind, NonJson, RawDocument, RawValue};
use sha2::{Digest, Sha256};

/// An item's identity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId(String);

impl ItemId {
    /// `None` for a value that cannot be an id.
    pub fn of_value(value: RawValue<'_>) -> Option<ItemId> {
        identity(value).map(|text| ItemId(text.into_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

impl From<&str> for ItemId {
    fn from(text: &str) -> ItemId {
        ItemId(text.to_owned())
    }
}

impl From<String> for ItemId {
    fn from(text: String) -> ItemId {
        ItemId(text)
    }
}

/// Decodes base64url text without padding.
pub fn bytes_of_url_text(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Bytes as base64url text without padding.
pub fn url_text_of_bytes(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The name of an item in an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemName {
    Id(ItemId),
    /// By its number in its partition, which resource ids carry.
    Ordinal(u64),
}

impl<T: Into<ItemId>> From<T> for ItemName {
    fn from(id: T) -> ItemName {
        ItemName::Id(id.into())
    }
}

/// The identity of a body's property `id`, if there is one.
pub fn identity_of(body: RawDocument<'_>) -> Option<Cow<'_, str>> {
    identity(body.get("id")?)
}

fn identity(value: RawValue<'_>) -> Option<Cow<'_, str>> {
    Some(match value {
        RawValue::String(text) => Cow::Borrowed(text),
        RawValue::Null => Cow::Borrowed("$null"),
        RawValue::Bool(value) => Cow::Owned(format!("$bool:{value}")),
        RawValue::Int(number) => Cow::Owned(format!("$num:{number}")),
        RawValue::Double(number) => Cow::Owned(text_of_double(number)),
        RawValue::NonJson(value) => Cow::Owned(of_non_json(value)?),
        RawValue::Object(_) => Cow::Owned(of_hash(value)),
        RawValue::Array(_) => return None,
    })
}

pub(crate) fn text_of_double(number: f64) -> String {
    if number.is_nan() {
        return "$num:NaN".to_owned();
    }
    if number.is_infinite() {
        return of_infinity(number < 0.0);
    }
    const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;
    if number.fract() == 0.0 && (-TWO_POW_63..TWO_POW_63).contains(&number) {
        return format!("$num:{}", number as i64);
    }
    let mut text = b"$num:".to_vec();
    write_shortest(number, &mut text);
    text.retain(|byte| *byte != b'+');
    String::from_utf8(text).expect("a number is ASCII")
}

fn of_decimal(bits: u128) -> String {
    match decimal_parts(bits) {
        DecimalParts::Nan => text_of_double(f64::NAN),
        DecimalParts::Infinity { negative } => of_infinity(negative),
        DecimalParts::Finite { negative, coefficient, exponent } => {
            text_of_parts(negative, coefficient, exponent)
        }
    }
}

/// Of a decimal number.
pub(crate) fn text_of_parts(negative: bool, mut coefficient: u128, mut exponent: i32) -> String {
    if coefficient == 0 {
        return "$num:0".to_owned();
    }
    while coefficient.is_multiple_of(10) {
        (coefficient, exponent) = (coefficient / 10, exponent + 1);
    }
    let sign = if negative { "-" } else { "" };
    let whole = u32::try_from(exponent)
        .ok()
        .and_then(|exponent| 10u128.checked_pow(exponent)?.checked_mul(coefficient));
    let signed =
        whole.and_then(|whole| i128::try_from(whole).ok()).map(|whole| if negative { -whole } else { whole });
    if let Some(whole) = signed.and_then(|whole| i64::try_from(whole).ok()) {
        return format!("$num:{whole}");
    }
    let double: f64 = format!("{sign}{coefficient}e{exponent}").parse().unwrap_or(f64::NAN);
    if double.is_finite() && is_exactly(double.abs(), coefficient, exponent) {
        return text_of_double(double);
    }
    format!("$dec:{sign}{coefficient}E{exponent}")
}

/// Whether a double is exactly a coefficient without trailing zeros times a power of ten. 767 digits hold every double.
fn is_exactly(double: f64, coefficient: u128, exponent: i32) -> bool {
    let text = format!("{double:.770e}");
    let Some((digits, scale)) = text.split_once('e') else { return false };
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    let kept = digits.trim_end_matches('0');
    let own = coefficient.to_string();
    kept == own && scale.parse::<i32>().is_ok_and(|scale| scale == exponent + own.len() as i32 - 1)
}

fn of_infinity(negative: bool) -> String {
    if negative { "$num:-Infinity".to_owned() } else { "$num:Infinity".to_owned() }
}

/// A text that is equal for equal values only: also of arrays and regular expressions, which cannot be ids.
pub fn hash_text(value: RawValue<'_>) -> String {
    of_hash(value)
}

/// Like [`hash_text`], with texts of the same `sort_key` as equal.
pub fn hash_text_by(value: RawValue<'_>, sort_key: &dyn Fn(&str) -> Vec<u8>) -> String {
    let mut bytes = Vec::new();
    write_canonical(value, sort_key, &mut bytes);
    format!("$hash:{}", hex(&Sha256::digest(&bytes)))
}

fn of_hash(value: RawValue<'_>) -> String {
    hash_text_by(value, &|text| text.as_bytes().to_vec())
}

/// Bytes that are equal for equal values only: kind, length and content, members in order.
fn write_canonical(value: RawValue<'_>, sort_key: &dyn Fn(&str) -> Vec<u8>, out: &mut Vec<u8>) {
    let mut content = Vec::new();
    let kind = match value {
        RawValue::Object(document) => {
            for (name, value) in document.iter() {
                content.extend_from_slice(&(name.len() as u64).to_le_bytes());
                content.extend_from_slice(name.as_bytes());
                write_canonical(value, sort_key, &mut content);
            }
            b'd'
        }
        RawValue::Array(array) => {
            array.iter().for_each(|element| write_canonical(element, sort_key, &mut content));
            b'a'
        }
        RawValue::String(text) => {
            content.extend_from_slice(&sort_key(text));
            b's'
        }
        RawValue::NonJson(value) if of_non_json(value).is_none_or(|text| text.starts_with("$hash:")) => {
            content.push(value.kind().map_or(0, |kind| kind as u8));
            content.extend_from_slice(value.bytes());
            b'v'
        }
        scalar => {
            content.extend_from_slice(identity(scalar).unwrap_or_default().as_bytes());
            b'i'
        }
    };
    out.push(kind);
    out.extend_from_slice(&(content.len() as u64).to_le_bytes());
    out.extend_from_slice(&content);
}

fn of_non_json(value: NonJson<'_>) -> Option<String> {
    let bytes = value.bytes();
    Some(match value.kind()? {
        BsonKind::Double => match f64::from_le_bytes(*bytes.first_chunk()?) {
            number if number.is_infinite() => of_infinity(number < 0.0),
            _ => text_of_double(f64::NAN),
        },
        BsonKind::Decimal128 => of_decimal(u128::from_le_bytes(*bytes.first_chunk()?)),
        BsonKind::Symbol | BsonKind::Code | BsonKind::CodeWithScope | BsonKind::DbPointer => {
            let kind = [bytes, &[value.kind]].concat();
            format!("$hash:{}", hex(&Sha256::digest(&kind)))
        }
        BsonKind::ObjectId => format!("$oid:{}", hex(bytes)),
        BsonKind::Date => format!("$date:{}", i64::from_le_bytes(*bytes.first_chunk()?)),
        BsonKind::Timestamp => {
            let both = u64::from_le_bytes(*bytes.first_chunk()?);
            text_of_timestamp((both >> 32) as u32, both as u32)
        }
        BsonKind::Binary => {
            let (subtype, content) = bytes.get(4..)?.split_first()?;
            text_of_binary(*subtype, content)
        }
        BsonKind::MinKey => "$minKey".to_owned(),
        BsonKind::MaxKey => "$maxKey".to_owned(),
        _ => return None,
    })
}

pub(crate) fn text_of_timestamp(seconds: u32, increment: u32) -> String {
    format!("$ts:{seconds}.{increment}")
}

pub(crate) fn text_of_binary(subtype: u8, content: &[u8]) -> String {
    match (subtype, content.len()) {
        (4, 16) => {
            let digits = hex(content);
            let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
            format!("$uuid:{}", parts.join("-"))
        }
        _ => format!("$bin:{subtype:02x}:{}", url_text_of_bytes(content)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ids_are_one_identity_and_arrays_are_none() {
        let of = |value| ItemId::of_value(value).map(ItemId::into_string);
        for value in [RawValue::Int(1), RawValue::Double(1.0)] {
            assert_eq!(of(value).as_deref(), Some("$num:1"));
        }
        assert_eq!(of(RawValue::Double(-0.0)).as_deref(), Some("$num:0"));
        assert_eq!(of(RawValue::Double(1.5)).as_deref(), Some("$num:1.5"));
        assert_eq!(of(RawValue::String("$num:1")).as_deref(), Some("$num:1"));
        let body = crate::parse_document(br#"{"id":[1],"v":{}}"#, &Default::default()).unwrap();
        assert_eq!(identity_of(body.raw()), None);
    }
}
