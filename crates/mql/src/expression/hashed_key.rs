//! `$toHashedIndexKey`: the key of a value in a hashed index, as drivers and shells compute it.
//!
//! The key is the first eight bytes, little endian, of the MD5 of a seed of four zero bytes and the value:
//!
//! | value | bytes |
//! |---|---|
//! | number | class of the type (four bytes), the number cut to 64 bits |
//! | object, array, the scope of a code | class; of each member class, name, zero byte and content; four zero bytes |
//! | any other | class, and the value as in BSON |

use md5::{Digest, Md5};

use crate::decimal::{Decimal, Rounding};
use crate::order::class;
use crate::value::{Document, Value};

/// The first double beyond the integers of 64 bits. By tradition its hash is that of the least integer.
const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;

/// The key of a value. Nothing at all hashes as null.
pub fn hashed_key(value: &Value) -> Value {
    let mut digest = Md5::new();
    digest.update([0; 4]);
    add(&mut digest, None, if value.is_missing() { &Value::Null } else { value });
    let digest = digest.finalize();
    let first = digest.first_chunk().copied().unwrap_or_default();
    Value::Long(i64::from_le_bytes(first))
}

fn add(digest: &mut Md5, name: Option<&str>, value: &Value) {
    digest.update(class(value).to_le_bytes());
    if let Some(name) = name {
        digest.update(name.as_bytes());
        digest.update([0]);
    }
    match value {
        Value::Double(number) => digest.update(cut(*number).to_le_bytes()),
        Value::Int(number) => digest.update(i64::from(*number).to_le_bytes()),
        Value::Long(number) => digest.update(number.to_le_bytes()),
        Value::Decimal(number) => digest.update(rounded(*number).to_le_bytes()),
        Value::Document(document) => add_members(digest, document),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| add(digest, Some(&at.to_string()), item));
            digest.update([0; 4]);
        }
        Value::CodeWithScope(code) => {
            digest.update(code.0.as_bytes());
            digest.update([0]);
            add_members(digest, &code.1);
        }
        other => digest.update(other.content_bytes()),
    }
}

fn add_members(digest: &mut Md5, document: &Document) {
    document.iter().for_each(|(name, value)| add(digest, Some(name), value));
    digest.update([0; 4]);
}

fn cut(number: f64) -> i64 {
    if number == TWO_POW_63 { i64::MIN } else { number as i64 }
}

fn rounded(number: Decimal) -> i64 {
    if number.is_nan() {
        return 0;
    }
    let beyond = if number.is_negative() { i64::MIN } else { i64::MAX };
    let whole = number.to_whole(Rounding::HalfEven).to_integer();
    whole.and_then(|whole| i64::try_from(whole).ok()).unwrap_or(beyond)
}
