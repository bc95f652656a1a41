//! The envelopes around the rows of rewritten queries, split as text: a payload is returned byte for byte.

use shardlake_document::Value;

use crate::error::SqlError;
pub(crate) use crate::execute::parse_row as parse;

/// The sort keys in a row of a rewritten query.
pub(crate) fn order_by_items(row: &[u8]) -> Result<Vec<Value>, SqlError> {
    items(member(row, "orderByItems")?.ok_or(SqlError::UnmergeableRow)?)
}

/// A member of an object in JSON text, as text. `name` must need no escapes in JSON.
pub(crate) fn member<'t>(object: &'t [u8], name: &str) -> Result<Option<&'t [u8]>, SqlError> {
    let mut found = None;
    for_each_member(object, |candidate, value| {
        if candidate == name.as_bytes() {
            found = Some(value);
        }
    })
    .ok_or(SqlError::UnmergeableRow)?;
    Ok(found)
}

/// The values inside `[{"item": …}, …]`; undefined where there is no `item`.
pub(crate) fn items(array: &[u8]) -> Result<Vec<Value>, SqlError> {
    match parse(array)? {
        Value::Array(elements) => Ok(elements.into_iter().map(item).collect()),
        _ => Err(SqlError::UnmergeableRow),
    }
}

fn item(element: Value) -> Value {
    match element {
        Value::Object(members) => members
            .into_iter()
            .find_map(|(name, value)| (name == "item").then_some(value))
            .unwrap_or(Value::Undefined),
        _ => Value::Undefined,
    }
}

/// `None` when the text is not an object.
fn for_each_member<'t>(object: &'t [u8], mut visit: impl FnMut(&'t [u8], &'t [u8])) -> Option<()> {
    let mut at = after_space(object, 0);
    if object.get(at) != Some(&b'{') {
        return None;
    }
    at = after_space(object, at + 1);
    if object.get(at) == Some(&b'}') {
        return Some(());
    }
    loop {
        let name_end = string_end(object, at)?;
        let name = &object[at + 1..name_end - 1];
        at = after_space(object, name_end);
        if object.get(at) != Some(&b':') {
            return None;
        }
        let start = after_space(object, at + 1);
        let end = value_end(object, start)?;
        visit(name, &object[start..end]);
        at = after_space(object, end);
        match object.get(at)? {
            b',' => at = after_space(object, at + 1),
            b'}' => return Some(()),
            _ => return None,
        }
    }
}

fn after_space(text: &[u8], at: usize) -> usize {
    let space = text[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
    at + space.count()
}

/// The end of the string that starts here.
fn string_end(text: &[u8], start: usize) -> Option<usize> {
    if text.get(start) != Some(&b'"') {
        return None;
    }
    let mut at = start + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The end of the value that starts here.
fn value_end(text: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut depth) = (start, 0usize);
    loop {
        match text.get(at)? {
            b'"' => at = string_end(text, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' if depth == 0 => return (at > start).then_some(at),
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            b',' if depth == 0 => return (at > start).then_some(at),
            _ => at += 1,
        }
        if depth == 0 && matches!(text[at - 1], b'"' | b'}' | b']') {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_whatever_is_in_them() {
        let row = br#"{"_rid":"a\"}{","orderByItems":[{"item":"]"},{}] , "payload":{"payload":{"x":[1,{"y":"\\"}]}},"n":-1.5e3}"#;
        let text = |name| {
            member(row, name).expect("an object").map(|text| String::from_utf8_lossy(text).into_owned())
        };
        assert_eq!(text("orderByItems").as_deref(), Some(r#"[{"item":"]"},{}]"#));
        assert_eq!(text("payload").as_deref(), Some(r#"{"payload":{"x":[1,{"y":"\\"}]}}"#));
        assert_eq!(text("n").as_deref(), Some("-1.5e3"));
        assert_eq!(text("x"), None);
        assert_eq!(member(b"{}", "x"), Ok(None));
        let found = items(br#"[{"item":1},{},{"item":[2]}]"#).expect("items");
        assert_eq!(found, [Value::Int(1), Value::Undefined, Value::Array(vec![Value::Int(2)])]);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in
            ["", "[]", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":,}", "{\"a\" 1}", "{\"a\\", "{a:1}", "1"]
        {
            assert_eq!(member(text.as_bytes(), "a"), Err(SqlError::UnmergeableRow), "{text}");
        }
    }
}
