//! The shape of items: properties of the server, and partition keys.

use serde_json::value::RawValue;

use super::json_text::array;

/// Members that the server adds to items.
pub const SYSTEM: [&str; 5] = ["_rid", "_self", "_etag", "_attachments", "_ts"];
/// Members by which a row is recognised as a whole item.
const OF_ITEMS: [&str; 3] = ["_rid", "_self", "_etag"];

/// Whether a row is a stored item, and not a value that a query has made.
pub fn is_item(members: &[(String, &RawValue)]) -> bool {
    OF_ITEMS.iter().all(|wanted| members.iter().any(|(name, _)| name == wanted))
}

/// A key as the array that the protocol wants; a single value may be written without brackets.
pub fn partition_key(text: &str) -> Result<String, String> {
    if array(text).is_some() {
        return Ok(text.to_owned());
    }
    match serde_json::from_str::<&RawValue>(text) {
        Ok(_) if !text.trim_start().starts_with('{') => Ok(format!("[{text}]")),
        _ => Err(format!("the partition key {text} is no JSON value: write '[\"ada\"]' or '\"ada\"'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_json_with_or_without_brackets() {
        assert_eq!(partition_key("[\"a\", 1]").as_deref(), Ok("[\"a\", 1]"));
        assert_eq!(partition_key("\"a\"").as_deref(), Ok("[\"a\"]"));
        assert_eq!(partition_key("12345678901234567890").as_deref(), Ok("[12345678901234567890]"));
        for wrong in ["ada", "", "{\"a\":1}", "[1"] {
            assert!(partition_key(wrong).is_err(), "{wrong}");
        }
    }
}
