//! The identity of an item within its logical partition.
//!
//! It is a text, which is part of the item's key. An id that is a string is its own identity; ids of other kinds, which some
//! front ends allow, have a typed form: a tag and a canonical text. Ids that are equal as values (1, 1.0, a 64-bit 1) are one
//! identity. A front end in which the string `$num:1` and the number 1 are different ids spells such strings otherwise before
//! they come here.
//!
//! | id | identity |
//! |---|---|
//! | string | itself |
//! | number | `$num:` and its digits, or the shortest text of a double |
//! | boolean, null | `$bool:true`, `$bool:false`, `$null` |
//! | ObjectId | `$oid:` and 24 lower-case hex digits |
//! | date | `$date:` and its milliseconds |
//! | UUID (binary of subtype 4) | `$uuid:` and 8-4-4-4-12 lower-case hex digits |
//! | other binary | `$bin:`, its subtype in hex, `:`, base64url without padding |
//! | timestamp | `$ts:` seconds `.` increment |
//! | MinKey, MaxKey | `$minKey`, `$maxKey` |
//! | anything else | none: it cannot be an id |

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::json_out::write_double;
use crate::non_json::{NonJson, hex};
use crate::raw::{BsonKind, RawDocument, RawValue};

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

/// How an operation names an item.
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

/// The identity that a body's property `id` gives it, if it gives one.
pub fn identity_of(body: RawDocument<'_>) -> Option<Cow<'_, str>> {
    identity(body.get("id")?)
}

fn identity(value: RawValue<'_>) -> Option<Cow<'_, str>> {
    Some(match value {
        RawValue::String(text) => Cow::Borrowed(text),
        RawValue::Null => Cow::Borrowed("$null"),
        RawValue::Bool(value) => Cow::Owned(format!("$bool:{value}")),
        RawValue::Int(number) => Cow::Owned(format!("$num:{number}")),
        RawValue::Double(number) => Cow::Owned(of_double(number)),
        RawValue::NonJson(value) => Cow::Owned(of_non_json(value)?),
        RawValue::Array(_) | RawValue::Object(_) => return None,
    })
}

fn of_double(number: f64) -> String {
    const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;
    if number.fract() == 0.0 && (-TWO_POW_63..TWO_POW_63).contains(&number) {
        return format!("$num:{}", number as i64);
    }
    let mut text = b"$num:".to_vec();
    write_double(number, &mut text);
    String::from_utf8(text).expect("a number is ASCII")
}

fn of_non_json(value: NonJson<'_>) -> Option<String> {
    let bytes = value.bytes();
    Some(match value.kind()? {
        BsonKind::Double => match f64::from_le_bytes(*bytes.first_chunk()?) {
            f64::INFINITY => "$num:Infinity".to_owned(),
            f64::NEG_INFINITY => "$num:-Infinity".to_owned(),
            _ => "$num:NaN".to_owned(),
        },
        BsonKind::ObjectId => format!("$oid:{}", hex(bytes)),
        BsonKind::Date => format!("$date:{}", i64::from_le_bytes(*bytes.first_chunk()?)),
        BsonKind::Timestamp => {
            let both = u64::from_le_bytes(*bytes.first_chunk()?);
            format!("$ts:{}.{}", both >> 32, both & u64::from(u32::MAX))
        }
        BsonKind::Binary => match bytes.get(4..)?.split_first()? {
            (4, uuid) if uuid.len() == 16 => {
                let digits = hex(uuid);
                let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
                format!("$uuid:{}", parts.join("-"))
            }
            (subtype, content) => format!("$bin:{subtype:02x}:{}", URL_SAFE_NO_PAD.encode(content)),
        },
        BsonKind::MinKey => "$minKey".to_owned(),
        BsonKind::MaxKey => "$maxKey".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ids_are_one_identity_and_containers_are_none() {
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
