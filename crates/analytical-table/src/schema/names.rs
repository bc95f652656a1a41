//! Names of columns: escapes, comparison, reserved names.
//!
//! Names are equal if their Unicode lower case is. Characters that Spark refuses in a column name, or that
//! break quoting in SQL, are written `_xHHHH_`; so is the first character of a literal `_xHHHH_` in the
//! property's name, so that the escape can be undone. Control characters are escaped too.

use std::borrow::Cow;

/// Columns that the table owns, in lower case. A property at the root with such a name is kept in `_rest`.
const SYSTEM: [&str; 6] = ["_rid", "_ts", "id", "_etag", "_lsn", "_rest"];

/// Whether a root property's name is one of the table's own.
pub fn is_system_column(name: &str) -> bool {
    let may_be = name.len() <= 5 && matches!(name.as_bytes().first(), Some(b'_' | b'i' | b'I'));
    may_be && SYSTEM.contains(&&*lower_case(name))
}

/// The form of a name that comparisons use.
pub fn lower_case(name: &str) -> Cow<'_, str> {
    let is_lower = name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    if is_lower { Cow::Borrowed(name) } else { Cow::Owned(name.to_lowercase()) }
}

/// The column name of a property.
pub fn column_name(property: &str) -> Cow<'_, str> {
    if !property.char_indices().any(|(at, character)| must_escape(property, at, character)) {
        return Cow::Borrowed(property);
    }
    let mut name = String::with_capacity(property.len() + 12);
    for (at, character) in property.char_indices() {
        if must_escape(property, at, character) {
            name.push_str(&format!("_x{:04X}_", u32::from(character)));
        } else {
            name.push(character);
        }
    }
    debug_assert_eq!(property_name(&name), property, "an escape can be undone");
    Cow::Owned(name)
}

/// The property of a column name: the inverse of [`column_name`].
pub fn property_name(column: &str) -> String {
    let mut property = String::with_capacity(column.len());
    let mut rest = column;
    while let Some(character) = rest.chars().next() {
        let escaped = escape_at(rest).and_then(char::from_u32);
        property.push(escaped.unwrap_or(character));
        rest = &rest[if escaped.is_some() { ESCAPE_BYTES } else { character.len_utf8() }..];
    }
    property
}

const ESCAPE_BYTES: usize = "_x0020_".len();

fn must_escape(property: &str, at: usize, character: char) -> bool {
    match character {
        ' ' | ',' | ';' | '{' | '}' | '(' | ')' | '=' | ':' | '`' | '"' => true,
        '_' => escape_at(&property[at..]).is_some(),
        character => character.is_ascii_control(),
    }
}

/// The number of the escape that a text begins with. Hex digits of both cases count, because names that
/// differ by case only are one column.
fn escape_at(text: &str) -> Option<u32> {
    let [b'_', b'x' | b'X', digits @ .., b'_'] = text.as_bytes().get(..ESCAPE_BYTES)? else { return None };
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_can_be_undone() {
        for (property, column) in [
            ("plain", "plain"),
            ("First Name, Last", "First_x0020_Name_x002C__x0020_Last"),
            ("_x0020_", "_x005F_x0020_"),
            ("_x002c_", "_x005F_x002c_"),
            ("_x_x0020_", "_x_x005F_x0020_"),
            ("__x0041__", "__x005F_x0041__"),
            ("a\u{0}b\tc", "a_x0000_b_x0009_c"),
            ("ümlaut ß", "ümlaut_x0020_ß"),
            ("a.b/c~d[0]$", "a.b/c~d[0]$"),
        ] {
            assert_eq!(column_name(property), column);
            assert_eq!(property_name(column), property);
        }
    }

    #[test]
    fn names_of_the_table_are_compared_without_case() {
        for name in ["id", "ID", "_lsn", "_LSN", "_Rest", "_ts"] {
            assert!(is_system_column(name), "{name}");
        }
        for name in ["_id", "_self", "ids", "lsn", "", "_"] {
            assert!(!is_system_column(name), "{name}");
        }
    }
}
