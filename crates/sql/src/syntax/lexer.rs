//! Splits query text into tokens, one at a time; the lexer is a cursor that can be copied to look ahead.
//!
//! Words are identifiers and keywords alike: which is which depends on the place. Whitespace and comments (`--` to the end of
//! the line, `/* */`) separate tokens. Text that forms no token becomes a bad one, which no rule of the grammar accepts.

use crate::error::{Location, SqlError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    Number,
    String,
    Parameter,
    Symbol(&'static str),
    /// Quoted text without its end, or with a character or escape that no string may have.
    BadString,
    /// A character that starts no token.
    BadCharacter,
    /// Anything else that the grammar has no place for: a comment without end, `12a`, `@`.
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
        let Some(start) = self.skip_space() else {
            // A comment without end; what comes behind its opening does not matter any more.
            let start = self.at;
            self.at = self.text.len();
            return Token { kind: Kind::Bad, start, end: start + "/*".len() };
        };
        let bytes = self.text.as_bytes();
        let Some(&first) = bytes.get(start) else { return Token { kind: Kind::End, start, end: start } };
        let followed_by_digit = bytes.get(start + 1).is_some_and(u8::is_ascii_digit);
        let kind = match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                self.skip_word();
                Kind::Word
            }
            b'0'..=b'9' => self.number(),
            b'.' if followed_by_digit => self.number(),
            b'\'' | b'"' => self.string(first),
            b'@' => {
                self.at += 1;
                if self.skip_word() > 0 { Kind::Parameter } else { Kind::Bad }
            }
            _ => self.symbol(),
        };
        Token { kind, start, end: self.at }
    }

    pub fn peek(&self) -> Token {
        let mut ahead = *self;
        ahead.next()
    }

    /// All of it.
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
            Kind::BadCharacter => SqlError::InvalidToken { token: shown, location },
            _ => SqlError::Syntax { near: shown, location },
        }
    }

    /// Where the next token starts; `None` for a comment without end.
    fn skip_space(&mut self) -> Option<usize> {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("--") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                self.at += trimmed.find("*/")? + 2;
            } else {
                return Some(self.at);
            }
        }
    }

    fn skip_word(&mut self) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = rest.iter().position(|byte| !is_word(byte)).unwrap_or(rest.len());
        self.at += length;
        length
    }

    fn digits(&mut self) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        let length = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        self.at += length;
        length
    }

    fn number(&mut self) -> Kind {
        let bytes = self.text.as_bytes();
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
                return Kind::Bad;
            }
        }
        // `12a` is one mistake, not a number and a name.
        if self.skip_word() > 0 { Kind::Bad } else { Kind::Number }
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
                0x00..=0x1F => break,
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

/// The characters that a string token stands for; `None` if an escape is not one of the language's.
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
            escaped @ ('\'' | '"' | '\\' | '/') => escaped,
            'b' => '\u{8}',
            'f' => '\u{C}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => unicode_escape(&mut characters)?,
            _ => return None,
        });
    }
    Some(out)
}

fn unicode_escape(characters: &mut std::str::Chars<'_>) -> Option<char> {
    fn unit(characters: &mut std::str::Chars<'_>) -> Option<u32> {
        (0..4).try_fold(0, |unit, _| Some(unit * 16 + characters.next()?.to_digit(16)?))
    }
    let high = unit(characters)?;
    if !(0xD800..0xDC00).contains(&high) {
        return char::from_u32(high);
    }
    if characters.next()? != '\\' || characters.next()? != 'u' {
        return None;
    }
    let low = unit(characters)?.checked_sub(0xDC00).filter(|low| *low < 0x400)?;
    char::from_u32(0x10000 + ((high - 0xD800) << 10) + low)
}

pub(crate) fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Words that are no identifiers; `LET`, `RANK`, `ALL`, `FIRST` and `LAST` are, except where their rule applies.
const RESERVED: [&str; 51] = [
    "AND",
    "ARRAY",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "CONVERT",
    "CROSS",
    "DESC",
    "DISTINCT",
    "ELSE",
    "END",
    "ESCAPE",
    "EXISTS",
    "FALSE",
    "FOR",
    "FROM",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INSERT",
    "INTO",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "RIGHT",
    "SELECT",
    "SET",
    "THEN",
    "TOP",
    "TRUE",
    "UDF",
    "UNDEFINED",
    "UPDATE",
    "VALUE",
    "WHEN",
    "WHERE",
    "WITH",
];

pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(word))
}
