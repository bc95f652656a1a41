//! `$type`, hashes, parts of timestamps.

use super::operator::{Operator, exactly};
use crate::value::Value;

pub(super) fn operator(name: &str) -> Option<Operator> {
    match name {
        "$type" => exactly(1, |_, values| Ok(Value::string(values[0].type_name()))),
        "$toHashedIndexKey" => exactly(1, |_, values| Ok(super::hashed_key::hashed_key(&values[0]))),
        "$tsSecond" => exactly(1, |_, values| super::convert_binary::timestamp_part(&values[0], true)),
        "$tsIncrement" => exactly(1, |_, values| super::convert_binary::timestamp_part(&values[0], false)),
        _ => None,
    }
}
