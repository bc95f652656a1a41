//! The entry function of a text: the first function, as in the reference.
//!
//! The text is read as tokens; tokens inside brackets are skipped. A mistake here cannot run any code: the
//! engine compiles the text, and an unknown name is an error of the script.

/// The function that a text begins with, or that it first declares or assigns to a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    Named(&'a str),
    /// A declaration without a name, and the position after its keyword.
    Nameless(usize),
}

/// A nameless entry is given this name.
const NAME: &str = "_";

impl Entry<'_> {
    /// The text as statements that end by calling the entry. After the keyword of a nameless function,
    /// columns of its line are off by two.
    pub(super) fn named(self, source: &str) -> String {
        let (before, name, after) = match self {
            Entry::Named(name) => (source, name, ""),
            Entry::Nameless(at) => (&source[..at], NAME, &source[at..]),
        };
        debug_assert!(after.is_empty() || before.ends_with("function"), "a name follows its keyword");
        let insertion = if after.is_empty() { String::new() } else { format!(" {name}") };
        format!("{before}{insertion}{after}\nreturn {name}.apply(this, arguments);}}")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Literal,
    /// Brackets of one kind, with their contents.
    Group(u8),
    /// One character, except for the arrow.
    Sign,
}

#[derive(Debug, Clone, Copy)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
    end: usize,
    /// Whether a line ends before it.
    begins_line: bool,
}

impl Token<'_> {
    fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text == word
    }

    fn is_sign(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign
    }
}

/// Entry of a text. `None` if the first function is an expression, or if brackets or literals are not closed.
pub(super) fn of(source: &str) -> Option<Entry<'_>> {
    let tokens = tokens(source)?;
    for at in 0..tokens.len() {
        let rest = &tokens[at..];
        if begins_statement(&tokens, at) {
            let rest = if rest[0].is_word("async") { &rest[1..] } else { rest };
            if let [function, next, ..] = rest
                && function.is_word("function")
            {
                return match next.kind {
                    Kind::Word => Some(Entry::Named(next.text)),
                    Kind::Group(b'(') => Some(Entry::Nameless(function.end)),
                    _ => None,
                };
            }
        }
        if let [keyword, name, equals, value @ ..] = rest
            && matches!(keyword.text, "const" | "let" | "var")
            && name.kind == Kind::Word
            && equals.is_sign("=")
            && is_function(value)
        {
            return Some(Entry::Named(name.text));
        }
        if rest[0].is_sign("=>") {
            return None;
        }
    }
    None
}

/// Whether a value is itself a function.
fn is_function(value: &[Token<'_>]) -> bool {
    let value = match value {
        [first, rest @ ..]
            if first.is_word("async") && !rest.first().is_some_and(|next| next.is_sign("=>")) =>
        {
            rest
        }
        _ => value,
    };
    match value {
        [first, next, ..] if first.is_word("function") => !next.is_sign("*"),
        [first, next, ..] => matches!(first.kind, Kind::Word | Kind::Group(b'(')) && next.is_sign("=>"),
        _ => false,
    }
}

fn begins_statement(tokens: &[Token<'_>], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|before| tokens[before]) else { return true };
    match before.kind {
        Kind::Group(b'{') => true,
        Kind::Sign => before.text == ";",
        // `async` belongs to the next token.
        _ => tokens[at].begins_line && !before.is_word("async"),
    }
}

/// The tokens outside brackets; `None` if brackets or literals are not closed.
fn tokens(source: &str) -> Option<Vec<Token<'_>>> {
    let mut reader =
        Reader { source, at: 0, open: Vec::new(), tokens: Vec::new(), is_operand: false, begins_line: true };
    while reader.step()? {}
    reader.open.is_empty().then_some(reader.tokens)
}

struct Reader<'a> {
    source: &'a str,
    at: usize,
    /// Brackets, and where each began; a backtick is a value inside a template.
    open: Vec<(u8, usize)>,
    tokens: Vec<Token<'a>>,
    /// Whether the last token is an operand, so that a slash after it divides.
    is_operand: bool,
    begins_line: bool,
}

impl<'a> Reader<'a> {
    /// Reads a token; returns whether there is more.
    fn step(&mut self) -> Option<bool> {
        let start = self.at;
        let rest = &self.source[start..];
        let Some(character) = rest.chars().next() else { return Some(false) };
        if character.is_whitespace() || character == '\u{feff}' {
            self.begins_line |= is_line_end(character);
            self.at += character.len_utf8();
        } else if rest.starts_with("//") {
            self.at += rest.find(is_line_end).unwrap_or(rest.len());
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/")?;
            self.begins_line |= comment[..end].contains(is_line_end);
            self.at += end + 4;
        } else {
            match character {
                '(' | '[' | '{' => {
                    self.open.push((character as u8, start));
                    self.at += 1;
                    self.is_operand = false;
                }
                ')' | ']' | '}' => self.close(character)?,
                '"' | '\'' => {
                    self.skip_quoted(character)?;
                    self.add(Kind::Literal, start, true);
                }
                '`' => self.template(start)?,
                '/' if !self.is_operand => {
                    self.skip_expression()?;
                    self.add(Kind::Literal, start, true);
                }
                _ if is_part(character) => {
                    self.at += rest.find(|character| !is_part(character)).unwrap_or(rest.len());
                    let word = &self.source[start..self.at];
                    self.add(Kind::Word, start, !WORDS_BEFORE_OPERANDS.contains(&word));
                }
                _ => {
                    self.at += if rest.starts_with("=>") { 2 } else { character.len_utf8() };
                    self.add(Kind::Sign, start, false);
                }
            }
        }
        Some(true)
    }

    fn add(&mut self, kind: Kind, start: usize, is_operand: bool) {
        self.is_operand = is_operand;
        if self.open.is_empty() {
            let text = &self.source[start..self.at];
            self.tokens.push(Token { kind, text, end: self.at, begins_line: self.begins_line });
            self.begins_line = false;
        }
    }

    fn close(&mut self, character: char) -> Option<()> {
        let (open, start) = self.open.pop()?;
        self.at += 1;
        match (open, character) {
            (b'(', ')') | (b'[', ']') => self.add(Kind::Group(open), start, true),
            (b'{', '}') => self.add(Kind::Group(open), start, false),
            (b'`', '}') => self.template(start)?,
            _ => return None,
        }
        Some(())
    }

    /// From the backtick, or the end of a value, to the next value or the end.
    fn template(&mut self, start: usize) -> Option<()> {
        if start == self.at {
            self.at += 1;
        }
        loop {
            let rest = &self.source[self.at..];
            let next = rest.find(['\\', '`', '$'])?;
            self.at += next;
            match &rest[next..] {
                end if end.starts_with('`') => {
                    self.at += 1;
                    self.add(Kind::Literal, start, true);
                    return Some(());
                }
                value if value.starts_with("${") => {
                    self.at += 2;
                    self.open.push((b'`', start));
                    self.is_operand = false;
                    return Some(());
                }
                escape if escape.starts_with('\\') => self.at += 1 + escape[1..].chars().next()?.len_utf8(),
                _ => self.at += 1,
            }
        }
    }

    fn skip_quoted(&mut self, quote: char) -> Option<()> {
        let mut characters = self.source[self.at..].char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => drop(characters.next()),
                end if end == quote => {
                    self.at += at + 1;
                    return Some(());
                }
                _ => {}
            }
        }
        None
    }

    /// A regular expression: a slash in brackets does not end it.
    fn skip_expression(&mut self) -> Option<()> {
        let mut is_class = false;
        let mut characters = self.source[self.at..].char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => drop(characters.next()),
                '[' => is_class = true,
                ']' => is_class = false,
                '/' if !is_class => {
                    self.at += at + 1;
                    return Some(());
                }
                end if is_line_end(end) => return None,
                _ => {}
            }
        }
        None
    }
}

/// A slash after one of these begins a regular expression.
const WORDS_BEFORE_OPERANDS: [&str; 12] =
    ["return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do", "instanceof"];

fn is_part(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$')
}

fn is_line_end(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_function_is_the_entry() {
        for (source, name) in [
            ("function main() { help() } function help() { }", "main"),
            ("'use strict'; function main() { }", "main"),
            ("\"use strict\"\nconst a = 1\nasync function main() { }", "main"),
            (
                "var __a = (this && this.__a) || function (x) { return /[}]/.test(`${`}`}`) };\nfunction main() { }",
                "main",
            ),
            ("class A { run() { } } function $run_2(a) { }", "$run_2"),
            ("/* function no() { } */ // function no() { }\nfunction main() { }", "main"),
            ("let x = a / b; let y = '/'; function main() { }", "main"),
            ("const main = async (a) => { }; function help() { }", "main"),
            ("var main = function () { }; function help() { }", "main"),
            ("let main = a => a", "main"),
            ("var f = () => `\\`${ {a: 1} }`, g = 1;", "f"),
        ] {
            assert_eq!(of(source), Some(Entry::Named(name)), "{source}");
        }
        assert_eq!(of("// why\nfunction (a) { } function b() { }"), Some(Entry::Nameless(15)));
    }

    #[test]
    fn expressions_and_what_does_not_end_have_no_entry() {
        for source in [
            "",
            "1",
            "(a) => { } ; function help() { }",
            "a => a",
            "function* main() { }",
            "var a = function* () { }",
            "{ function inner() { }",
            "'open",
            "`${",
            "var a = {main() { }}",
            "new function () { }",
        ] {
            assert_eq!(of(source), None, "{source}");
        }
    }

    #[test]
    fn a_nameless_entry_is_given_a_name() {
        let source = "function (a) { }\nfunction b() { }";
        let entry = of(source).expect("an entry");
        assert_eq!(
            entry.named(source),
            "function _ (a) { }\nfunction b() { }\nreturn _.apply(this, arguments);}"
        );
    }
}
