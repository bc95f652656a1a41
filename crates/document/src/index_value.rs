//! Index values: the ordered encoding, cut to a bounded length.
//!
//! An array or object is its type tag alone: the index knows that it exists, and where it sorts among the
//! other types. A string whose encoding is longer than [`INDEX_STRING_BYTES_MAX`] is cut there and marked. It
//! still sorts right against every value that differs within the cut; equal cuts leave the rest open, so
//! readers look at the item itself. As in the ordered encoding, no index value is a prefix of another.

use crate::order::{TypeTag, decode_ordered, encode_ordered, encode_ordered_raw};
use crate::raw::RawValue;
use crate::value::Value;

/// Bytes of a string's ordered encoding, without its tag and end mark, that an index value keeps.
pub const INDEX_STRING_BYTES_MAX: usize = 120;

/// Ends a cut string. Greater than the end mark of an exact string of the same length.
const CUT: u8 = 0xFF;

/// Appends a value of a document; false when the encoding does not determine the value.
pub fn encode_index_value_raw(value: RawValue<'_>, out: &mut Vec<u8>) -> bool {
    if matches!(value, RawValue::Array(_) | RawValue::Object(_) | RawValue::NonJson(_)) {
        out.push(TypeTag::of_raw(value) as u8);
        return false;
    }
    let start = out.len();
    encode_ordered_raw(value, out).expect("scalars have an ordered encoding");
    cut(start, out)
}

/// Appends any value, undefined included; false when the encoding does not determine the value.
pub fn encode_index_value(value: &Value, out: &mut Vec<u8>) -> bool {
    if matches!(value, Value::Array(_) | Value::Object(_)) {
        out.push(TypeTag::of(value) as u8);
        return false;
    }
    let start = out.len();
    encode_ordered(value, out).expect("scalars have an ordered encoding");
    cut(start, out)
}

fn cut(start: usize, out: &mut Vec<u8>) -> bool {
    let is_long = out[start] == TypeTag::String as u8 && out.len() - start > INDEX_STRING_BYTES_MAX + 2;
    if is_long {
        out.truncate(start + 1 + INDEX_STRING_BYTES_MAX);
        out.push(CUT);
    }
    !is_long
}

/// The length of the index value at the start of `bytes`; `None` when there is none.
pub fn index_value_length(bytes: &[u8]) -> Option<usize> {
    let tag = *bytes.first()?;
    if tag == TypeTag::Array as u8 || tag == TypeTag::Object as u8 {
        return Some(1);
    }
    if tag == TypeTag::String as u8
        && bytes.get(1..)?.iter().take(INDEX_STRING_BYTES_MAX).all(|byte| *byte != 0)
    {
        // Exact strings of the greatest length end in a zero here, cut ones in their mark.
        return (bytes.len() > INDEX_STRING_BYTES_MAX + 1).then_some(INDEX_STRING_BYTES_MAX + 2);
    }
    let (_, rest) = decode_ordered(bytes).ok()?;
    Some(bytes.len() - rest.len())
}

/// The value, if the index knows all of it: `None` for cut strings, arrays and objects.
pub fn decode_index_value(bytes: &[u8]) -> Option<Value> {
    let is_cut = bytes.first() == Some(&(TypeTag::String as u8))
        && bytes.len() == INDEX_STRING_BYTES_MAX + 2
        && bytes.last() == Some(&CUT);
    if is_cut {
        return None;
    }
    decode_ordered(bytes).ok().map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::compare;
    use proptest::prelude::*;

    fn encoded(value: &Value) -> (Vec<u8>, bool) {
        let mut out = Vec::new();
        let exact = encode_index_value(value, &mut out);
        (out, exact)
    }

    fn scalar() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Undefined),
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            (-1e9f64..1e9).prop_map(Value::Double),
            "[a-c\u{e000}\u{1F600}]{0,6}".prop_map(Value::String),
            "[ab]{117,123}".prop_map(Value::String),
        ]
    }

    proptest! {
        #[test]
        fn index_values_sort_like_their_values_up_to_the_cut(left in scalar(), right in scalar()) {
            let ((a, left_exact), (b, right_exact)) = (encoded(&left), encoded(&right));
            if a != b {
                prop_assert_eq!(a.cmp(&b), compare(&left, &right));
            } else {
                prop_assert!(compare(&left, &right).is_eq() || !(left_exact || right_exact));
            }
        }

        #[test]
        fn lengths_and_exact_values_come_back(value in scalar(), tail in prop::collection::vec(any::<u8>(), 0..9)) {
            let (mut bytes, exact) = encoded(&value);
            let length = bytes.len();
            let decoded = decode_index_value(&bytes);
            prop_assert_eq!(decoded.is_some(), exact);
            if let Some(decoded) = decoded {
                prop_assert!(compare(&decoded, &value).is_eq());
            }
            bytes.extend_from_slice(&tail);
            prop_assert_eq!(index_value_length(&bytes), Some(length));
        }
    }

    #[test]
    fn the_longest_exact_string_and_the_shortest_cut_one_differ() {
        let exact = Value::String("a".repeat(INDEX_STRING_BYTES_MAX));
        let longer = Value::String("a".repeat(INDEX_STRING_BYTES_MAX + 1));
        assert!(encoded(&exact).1 && !encoded(&longer).1);
        assert!(encoded(&exact).0 < encoded(&longer).0);
    }
}
