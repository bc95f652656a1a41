//! Splits query text into tokens, one at a time; the lexer is a cursor that can be copied to look ahead.
//!
//! Words are both identifiers and keywords, depending on the place. Whitespace and comments (`--` to the end
//! of the line) separate tokens. Invalid text becomes a bad token, which no rule of the grammar accepts.

use crate::error::{Location, SqlError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    Number,
    String,
    Parameter,
    Symbol(&'static str),
    /// Quoted text without its end, or with a `\u` that four digits do not follow.
    BadString,
    /// `12a`, `1.5e`, or a number beyond the largest double.
    BadNumber,
    /// A character that starts no token.
    BadCharacter,
    /// Other characters without a place in the grammar: `@`.
    Bad,
    End,
}

/// Offsets are bytes of the query text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Lexer<'t> {
    pub text: &'t str,
    at: usize,
}

/// Longer ones first.
const SYMBOLS: [&str; 31] = [
    ">>>", "<<", ">>", "<=", ">=", "!=", "<>", "||", "??", "(", ")", "[", "]", "{", "}", ",", ".", ":", "?",
    "*", "/", "%", "+", "-", "|", "&", "^", "~", "=", "<", ">",
];

impl<'t> Lexer<'t> {
    pub fn new(text: &'t str) -> Self {
        Lexer { text, at: 0 }
    }

    pub fn next(&mut self) -> Token {
        self.skip_space();
        let start = self.at;
        let bytes = self.text.as_bytes();
        let Some(&first) = bytes.get(start) else { return Token { kind: Kind::End, start, end: start } };
        let followed_by_digit = bytes.get(start + 1).is_some_and(u8::is_ascii_digit);
        let kind = match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                self.skip_word();
                Kind::Word
            }
            0x80.. if self.text[start..].starts_with(char::is_alphabetic) => {
                self.skip_word();
                Kind::Word
            }
            b'0'..=b'9' => self.number(),
            b'.' if followed_by_digit => self.number(),
            b'\'' | b'"' => self.string(first),
            b'@' => {
                self.at += 1;
                let starts_a_name = self.text[self.at..].starts_with(is_start_of_name);
                if starts_a_name && self.skip_word() > 0 { Kind::Parameter } else { Kind::Bad }
            }
            _ => self.symbol(),
        };
        debug_assert!(self.at > start, "each token has characters, so that a text ends");
        debug_assert!(self.text.is_char_boundary(self.at), "a token ends between characters");
        Token { kind, start, end: self.at }
    }

    pub fn peek(&self) -> Token {
        let mut ahead = *self;
        ahead.next()
    }

    /// The whole text.
    pub fn text(&self) -> &'t str {
        self.text
    }

    pub fn text_of(&self, token: Token) -> &'t str {
        &self.text[token.start..token.end]
    }

    pub fn location(&self, token: Token) -> Location {
        Location::in_text(self.text, token.start, token.end)
    }

    pub fn syntax_error(&self, token: Token) -> SqlError {
        const SHOWN_MAX: usize = 100;
        let location = self.location(token);
        let shown: String = self.text_of(token).chars().take(SHOWN_MAX).collect();
        match token.kind {
            Kind::End => SqlError::UnexpectedEnd { location },
            Kind::BadString => SqlError::InvalidString { token: shown, location },
            Kind::BadNumber => SqlError::InvalidNumber { token: shown, location },
            // The reference prints texts up to their first zero character.
            Kind::BadCharacter => SqlError::InvalidToken { token: shown.replace('\0', ""), location },
            _ => SqlError::Syntax { near: shown, location },
        }
    }

    fn skip_space(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with("--") {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    /// ASCII is checked first: other letters are rare.
    fn skip_word(&mut self) -> usize {
        let start = self.at;
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            let length = rest.iter().position(|byte| !is_word(byte)).unwrap_or(rest.len());
            self.at += length;
            match self.text[self.at..].chars().next() {
                Some(next) if !next.is_ascii() && next.is_alphanumeric() => self.at += next.len_utf8(),
                _ => return self.at - start,
            }
        }
    }

    fn digits(&mut self) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        let length = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        self.at += length;
        length
    }

    fn number(&mut self) -> Kind {
        let bytes = self.text.as_bytes();
        let start = self.at;
        if bytes[start] == b'0' && matches!(bytes.get(start + 1), Some(b'x' | b'X')) {
            self.skip_word();
            return if hexadecimal(&self.text[start..self.at]).is_some() {
                Kind::Number
            } else {
                Kind::BadNumber
            };
        }
        self.digits();
        if bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits();
        }
        if let Some(b'e' | b'E') = bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = bytes.get(self.at) {
                self.at += 1;
            }
            if self.digits() == 0 {
                self.skip_word();
                return Kind::BadNumber;
            }
        }
        // `12a` is one mistake, not a number and a name.
        if self.skip_word() > 0 {
            return Kind::BadNumber;
        }
        let is_finite = self.text[start..self.at].parse().is_ok_and(f64::is_finite);
        if is_finite { Kind::Number } else { Kind::BadNumber }
    }

    fn string(&mut self, quote: u8) -> Kind {
        let bytes = self.text.as_bytes();
        self.at += 1;
        while let Some(&byte) = bytes.get(self.at) {
            self.at += 1;
            match byte {
                _ if byte == quote => return Kind::String,
                // The escaped character may be a quote; if it is longer than a byte, its rest is like any other text.
                b'\\' if self.at < bytes.len() => self.at += 1,
                _ => {}
            }
        }
        self.at = self.text.len();
        Kind::BadString
    }

    fn symbol(&mut self) -> Kind {
        let rest = &self.text[self.at..];
        match SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            Some(symbol) => {
                self.at += symbol.len();
                Kind::Symbol(symbol)
            }
            None => {
                self.at += rest.chars().next().map_or(0, char::len_utf8);
                Kind::BadCharacter
            }
        }
    }
}

/// Value of `0x1F`; `None` without digits and beyond 64 bits.
pub(crate) fn hexadecimal(token: &str) -> Option<u64> {
    let digits = token.strip_prefix("0x").or_else(|| token.strip_prefix("0X"))?;
    u64::from_str_radix(digits, 16).ok()
}

/// The characters of a string token; `None` if four digits do not follow `\u`. A character that needs no
/// escape may also follow `\`.
pub(crate) fn unquote(token: &str) -> Option<String> {
    let content = token.get(1..token.len() - 1)?;
    let mut out = String::with_capacity(content.len());
    let mut characters = content.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        out.push(match characters.next()? {
            'b' => '\u{8}',
            'f' => '\u{C}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => unicode_escape(&mut characters)?,
            escaped => escaped,
        });
    }
    Some(out)
}

/// Half of a pair of surrogates without the other half is not a character: U+FFFD replaces it.
fn unicode_escape(characters: &mut std::str::Chars<'_>) -> Option<char> {
    fn unit(characters: &mut std::str::Chars<'_>) -> Option<u32> {
        (0..4).try_fold(0, |unit, _| Some(unit * 16 + characters.next()?.to_digit(16)?))
    }
    let first = unit(characters)?;
    if !(0xD800..0xDC00).contains(&first) {
        return Some(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    let mut ahead = characters.clone();
    let second = match (ahead.next(), ahead.next()) {
        (Some('\\'), Some('u')) => unit(&mut ahead).filter(|unit| (0xDC00..0xE000).contains(unit)),
        _ => None,
    };
    let Some(second) = second else { return Some(char::REPLACEMENT_CHARACTER) };
    *characters = ahead;
    char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))
}

/// A letter of any script, or an underscore; digits may follow.
fn is_start_of_name(character: char) -> bool {
    character.is_alphabetic() || character == '_'
}

pub(crate) fn is_identifier(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(is_start_of_name)
        && characters.all(|character| character.is_alphanumeric() || character == '_')
}

/// Reserved in lower case only: in any other case, these are names.
const RESERVED_IN_LOWER_CASE: [&str; 5] = ["false", "null", "true", "udf", "undefined"];

/// Words of the grammar, which are never names; `LET`, `RANK`, `ALL`, `FIRST` and `LAST` are names, except where their rule
/// applies.
pub const RESERVED: [&str; 46] = [
    "AND", "ARRAY", "AS", "ASC", "BETWEEN", "BY", "CASE", "CAST", "CONVERT", "CROSS", "DESC", "DISTINCT",
    "ELSE", "END", "ESCAPE", "EXISTS", "FOR", "FROM", "GROUP", "HAVING", "IN", "INNER", "INSERT", "INTO",
    "IS", "JOIN", "LEFT", "LIKE", "LIMIT", "NOT", "OFFSET", "ON", "OR", "ORDER", "OUTER", "OVER", "RIGHT",
    "SELECT", "SET", "THEN", "TOP", "UPDATE", "VALUE", "WHEN", "WHERE", "WITH",
];

pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(word))
        || RESERVED_IN_LOWER_CASE.contains(&word)
}
