//! JSON whose values stay the text that they came as, so that numbers keep all of their digits.

use std::fmt;

use serde::de::{Deserializer as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Name and text of each member of an object, in their order; `None` for other values.
pub fn members(json: &str) -> Option<Vec<(String, &RawValue)>> {
    struct Members;
    impl<'de> Visitor<'de> for Members {
        type Value = Vec<(String, &'de RawValue)>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some(member) = map.next_entry()? {
                members.push(member);
            }
            Ok(members)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(json);
    let members = reader.deserialize_map(Members).ok()?;
    reader.end().ok().map(|()| members)
}

/// The texts of the elements of an array; `None` for other values.
pub fn array(json: &str) -> Option<Vec<&RawValue>> {
    struct Elements;
    impl<'de> Visitor<'de> for Elements {
        type Value = Vec<&'de RawValue>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
            let mut found = Vec::new();
            while let Some(element) = elements.next_element()? {
                found.push(element);
            }
            Ok(found)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(json);
    let elements = reader.deserialize_seq(Elements).ok()?;
    reader.end().ok().map(|()| elements)
}

/// The text of a value at a path such as `/address/city`, without the quotes of its names.
pub fn value_at<'j>(json: &'j str, path: &str) -> Option<&'j str> {
    let mut at = json;
    for name in path.split('/').skip(1) {
        let name = name.trim_matches('"');
        // The last of several members of one name counts, as for the server.
        let members = members(at)?;
        at = members.into_iter().rev().find(|(found, _)| found == name)?.1.get();
    }
    Some(at)
}

/// A string without its quotes and escapes; `None` for other values.
pub fn text_of(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}

/// A value as a cell of a table: a string without quotes, `null` as such, and nested values as JSON in one line.
pub fn cell(json: &str) -> String {
    text_of(json).unwrap_or_else(|| compact(json))
}

/// Without the space between tokens.
pub fn compact(json: &str) -> String {
    let (mut out, mut in_string, mut is_escaped) = (String::with_capacity(json.len()), false, false);
    for character in json.chars() {
        if in_string {
            in_string = is_escaped || character != '"';
            is_escaped = character == '\\' && !is_escaped;
        } else if character.is_ascii_whitespace() {
            continue;
        } else {
            in_string = character == '"';
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_the_text_that_they_were() {
        let json = r#"{"big": 12345678901234567890, "far": 1e400, "a": {"b": [1.0, "\u00e4"]}}"#;
        let found: Vec<(String, &str)> =
            members(json).expect("an object").into_iter().map(|(name, raw)| (name, raw.get())).collect();
        assert_eq!(found[0], ("big".to_owned(), "12345678901234567890"));
        assert_eq!(found[1], ("far".to_owned(), "1e400"));
        assert_eq!(value_at(json, "/a/b"), Some(r#"[1.0, "\u00e4"]"#));
        assert_eq!(value_at(r#"{"a":1,"a":2}"#, "/a"), Some("2"));
        assert_eq!(value_at(json, "/a/c"), None);
        assert_eq!(value_at(json, "/big/c"), None);
        assert_eq!(members("[1]").map(|found| found.len()), None);
        assert_eq!(array("[1, {}]").map(|found| found.len()), Some(2));
    }

    #[test]
    fn cells_are_one_line() {
        assert_eq!(cell(r#""a \"b\"""#), "a \"b\"");
        assert_eq!(cell("{ \"a b\" : [ 1,\n \"c\\\" d\" ] }"), r#"{"a b":[1,"c\" d"]}"#);
        assert_eq!(cell("null"), "null");
    }
}
