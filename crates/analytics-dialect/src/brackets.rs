//! T-SQL names in square brackets, rewritten as quoted names.
//!
//! A bracket also begins a list and an index, and a tokenizer cannot decide between the three without the token before the bracket. The
//! rewriting keeps line and column of everything that follows, except after names that have a double quote or a bracket in them.

use sqlparser::tokenizer::Location;

use crate::error::{Checked, refuse};

/// Words that are followed by an expression or a name, never by an index.
const BEFORE_OPERAND: &[&str] = &[
    "ALL",
    "AND",
    "APPLY",
    "AS",
    "BETWEEN",
    "BY",
    "CASE",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "ELSE",
    "EXCEPT",
    "EXPLAIN",
    "FROM",
    "HAVING",
    "ILIKE",
    "IN",
    "INTERSECT",
    "IS",
    "JOIN",
    "LIKE",
    "NOT",
    "ON",
    "OR",
    "PERCENT",
    "QUALIFY",
    "SELECT",
    "THEN",
    "TIES",
    "TOP",
    "UNION",
    "USING",
    "WHEN",
    "WHERE",
    "WITH",
];

/// Longest name that is looked for: 255 characters, and brackets that are doubled.
const NAME_BYTES_MAX: usize = 2 << 10;

pub(crate) struct Rewritten {
    pub text: String,
    pub has_names: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A complete operand, which an index may follow.
    Operand,
    Other,
    /// The word TOP.
    Top,
}

pub(crate) fn rewritten(text: &str) -> Checked<Rewritten> {
    let mut scan = Scan {
        rest: text,
        out: String::with_capacity(text.len()),
        at: Location { line: 1, column: 1 },
        before: Before::Other,
        is_spaced: false,
        groups: Vec::new(),
        has_names: false,
    };
    while let Some(c) = scan.rest.chars().next() {
        scan.step(c)?;
    }
    Ok(Rewritten { text: scan.out, has_names: scan.has_names })
}

struct Scan<'t> {
    rest: &'t str,
    out: String,
    at: Location,
    before: Before,
    /// Whether blanks or a comment separate the last token from the next one.
    is_spaced: bool,
    /// Open parentheses: whether each holds the number of a TOP.
    groups: Vec<bool>,
    has_names: bool,
}

impl Scan<'_> {
    fn step(&mut self, c: char) -> Checked<()> {
        match c {
            c if c.is_whitespace() => self.space(c.len_utf8()),
            '-' if self.rest.starts_with("--") => self.space(self.rest.find('\n').unwrap_or(self.rest.len())),
            '/' if self.rest.starts_with("/*") => self.space(comment_length(self.rest)),
            '\'' => self.token(quoted_length(self.rest, '\'', false), Before::Other),
            '"' => self.token(quoted_length(self.rest, '"', false), Before::Operand),
            '`' => self.token(quoted_length(self.rest, '`', false), Before::Operand),
            '$' => self.token(dollar_length(self.rest), Before::Operand),
            '[' => return self.bracket(),
            '(' => {
                self.groups.push(self.before == Before::Top);
                self.token(1, Before::Other);
            }
            ')' => {
                let is_of_top = self.groups.pop().unwrap_or(false);
                self.token(1, if is_of_top { Before::Other } else { Before::Operand });
            }
            ']' => self.token(1, Before::Operand),
            c if c.is_ascii_digit() => {
                let length = self
                    .rest
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '.')
                    .unwrap_or(self.rest.len());
                self.token(length, Before::Other);
            }
            c if is_of_word(c) => self.word(),
            c => self.token(c.len_utf8(), Before::Other),
        }
        Ok(())
    }

    fn word(&mut self) {
        let length = self.rest.find(|c: char| !is_of_word(c)).unwrap_or(self.rest.len());
        let word = self.rest[..length].to_ascii_uppercase();
        let is_string = self.rest[length..].starts_with('\'');
        if is_string && word == "E" {
            let quoted = quoted_length(&self.rest[length..], '\'', true);
            return self.token(length + quoted, Before::Other);
        }
        let before = match word.as_str() {
            "TOP" => Before::Top,
            word if BEFORE_OPERAND.contains(&word) => Before::Other,
            _ => Before::Operand,
        };
        self.token(length, before);
    }

    fn bracket(&mut self) -> Checked<()> {
        let first = self.rest[1..].trim_start().chars().next();
        let content = content_of(&self.rest[1..]);
        let is_name = first.is_some_and(|c| c.is_alphabetic() || matches!(c, '_' | '#' | '@'));
        let is_plain = content.chars().all(is_of_word);
        let may_be_index = self.before == Before::Operand;
        if !is_name || (may_be_index && (!self.is_spaced || !is_plain)) {
            self.token(1, Before::Other);
            return Ok(());
        }
        if may_be_index {
            return refuse(
                self.at,
                format!("'[{content}]' may be a name or an index here"),
                format!("write AS \"{content}\" for a name, or the index without a blank before it"),
            );
        }
        if content.contains([',', '(', '\'']) {
            return refuse(
                self.at,
                format!("'[{content}]' may be a name or a list here"),
                "write the name in double quotes, or make_array(…) for a list",
            );
        }
        let length = content.len() + 2;
        if !self.rest[1 + content.len()..].starts_with(']') {
            return refuse(self.at, "a name in brackets has no end", "write ] after the name");
        }
        let name = content.replace("]]", "]").replace('"', "\"\"");
        self.out.push('"');
        self.out.push_str(&name);
        self.out.push('"');
        self.has_names = true;
        self.pass(length);
        self.before = Before::Operand;
        self.is_spaced = false;
        Ok(())
    }

    fn space(&mut self, length: usize) {
        self.copy(length);
        self.is_spaced = true;
    }

    fn token(&mut self, length: usize, before: Before) {
        self.copy(length);
        self.before = before;
        self.is_spaced = false;
    }

    fn copy(&mut self, length: usize) {
        self.out.push_str(&self.rest[..length]);
        self.pass(length);
    }

    fn pass(&mut self, length: usize) {
        for c in self.rest[..length].chars() {
            match c {
                '\n' => self.at = Location { line: self.at.line + 1, column: 1 },
                _ => self.at.column += 1,
            }
        }
        self.rest = &self.rest[length..];
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '@' | '#')
}

/// Content up to the closing bracket, of bounded length. A doubled bracket belongs to the content.
fn content_of(rest: &str) -> &str {
    let rest = rest.get(..rest.floor_char_boundary(NAME_BYTES_MAX)).unwrap_or(rest);
    let mut from = 0;
    while let Some(end) = rest[from..].find(']') {
        let end = from + end;
        if !rest[end + 1..].starts_with(']') {
            return &rest[..end];
        }
        from = end + 2;
    }
    rest
}

/// Bytes of a quoted text with its quotes. A doubled quote does not end it, and with `escapes` neither does one after a backslash.
fn quoted_length(rest: &str, quote: char, escapes: bool) -> usize {
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if escapes && c == '\\' {
            chars.next();
        } else if c == quote {
            if chars.peek().is_none_or(|(_, next)| *next != quote) {
                return at + quote.len_utf8();
            }
            chars.next();
        }
    }
    rest.len()
}

/// Bytes of a nested comment.
fn comment_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut at, mut depth) = (0, 0_u32);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => {
                (depth, at) = (depth.saturating_sub(1), at + 2);
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

/// Bytes of a parameter such as `$name`, or of a text between `$tag$` and `$tag$`.
fn dollar_length(rest: &str) -> usize {
    let name = rest[1..].find(|c: char| !is_of_word(c)).map_or(rest.len(), |end| end + 1);
    if !rest[name..].starts_with('$') {
        return name;
    }
    let tag = &rest[..=name];
    rest[tag.len()..].find(tag).map_or(rest.len(), |end| end + 2 * tag.len())
}
