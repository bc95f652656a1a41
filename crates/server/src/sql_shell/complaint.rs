//! A refusal with its place under the text of the query.

use crate::data::{Failure, Position};

/// Lines for a reader: each message, the line of the query with a mark, and the hint.
pub fn complaint(failure: &Failure, query: &str) -> String {
    let mut out = String::new();
    for mistake in &failure.mistakes {
        let message = match mistake.message.is_empty() {
            true => failure.to_string(),
            false => mistake.message.clone(),
        };
        out.push_str(&format!("error: {message}\n"));
        if let Some((line, mark)) = mistake.position.and_then(|position| marked(query, position)) {
            out.push_str(&format!("  {line}\n  {mark}\n"));
        }
        if let Some(hint) = &mistake.hint {
            out.push_str(&format!("hint: {hint}\n"));
        }
    }
    out
}

/// The line at a place, and a line with a mark below it.
fn marked(query: &str, position: Position) -> Option<(String, String)> {
    let start = byte_of(query, position.start)?;
    let end = byte_of(query, position.end).unwrap_or(query.len()).max(start);
    let line_start = query[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = query[start..].find('\n').map_or(query.len(), |at| start + at);
    let width = |text: &str| text.chars().count();
    let before = width(&query[line_start..start]);
    let marks = width(&query[start..end.min(line_end)]).max(1);
    // Tabs and other control characters are as wide as one character, so that the mark is below its place.
    let line = query[line_start..line_end].replace(char::is_control, " ");
    Some((line, format!("{}{}", " ".repeat(before), "^".repeat(marks))))
}

/// The byte of a place that is counted in UTF-16 code units.
fn byte_of(text: &str, units: usize) -> Option<usize> {
    let mut passed = 0;
    for (at, character) in text.char_indices() {
        if passed >= units {
            return Some(at);
        }
        passed += character.len_utf16();
    }
    (passed >= units).then_some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_below_their_place() {
        let at = |query: &str, start, end| marked(query, Position { start, end });
        let expected = |line: &str, mark: &str| Some((line.to_owned(), mark.to_owned()));
        assert_eq!(at("SELECT x FROM c", 7, 8), expected("SELECT x FROM c", "       ^"));
        assert_eq!(at("SELECT *\nFROM\tcc", 14, 16), expected("FROM cc", "     ^^"));
        assert_eq!(at("SELECT '😀', x", 13, 14), expected("SELECT '😀', x", "            ^"));
        assert_eq!(at("SELECT", 6, 6), expected("SELECT", "      ^"));
        assert_eq!(at("SELECT", 7, 8), None);
    }
}
