//! Regular expressions with the syntax of PCRE: groups, classes, look-around, back references, lazy and possessive repeats.
//!
//! `parse.rs` makes a tree of the text, `program.rs` instructions of the tree, `run.rs` runs them. Matching backtracks on an
//! explicit stack and counts its steps, so a pattern that would take for ever is an error (spec §16).

mod class;
mod parse;
mod program;
mod run;

use parse::Flags;
use program::Program;
pub(crate) use run::Found;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    program: Program,
}

impl Pattern {
    /// Compiles a pattern with options among `imsxu`.
    pub fn compile(pattern: &str, options: &str) -> Result<Pattern, String> {
        let mut flags = Flags::default();
        for letter in options.chars() {
            flags.set(letter, true)?;
        }
        let tree = parse::parse(pattern, flags)?;
        Ok(Pattern { program: program::compile(&tree)? })
    }

    /// The first match that begins at or behind a byte.
    pub fn find_at(&self, text: &str, start: usize) -> Result<Option<Found>, String> {
        run::find(&self.program, text, start)
    }

    pub fn is_match(&self, text: &str) -> Result<bool, String> {
        Ok(self.find_at(text, 0)?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    fn first<'a>(pattern: &str, options: &str, text: &'a str) -> Option<&'a str> {
        let found = Pattern::compile(pattern, options).unwrap().find_at(text, 0).unwrap()?;
        Some(&text[found.span.0..found.span.1])
    }

    #[test]
    fn the_syntax_of_pcre_is_understood() {
        assert_eq!(first("a+b", "", "xaab"), Some("aab"));
        assert_eq!(first("^b", "m", "a\nb"), Some("b"));
        assert_eq!(first("(?i)HE(?-i)llo", "", "hello"), Some("hello"));
        assert_eq!(first("[[:alpha:]]+\\d{2,3}?", "", "..ab1234"), Some("ab12"));
        assert_eq!(first("(\\w)\\1", "", "abccd"), Some("cc"));
        assert_eq!(first("foo(?=bar)", "", "foobaz foobar"), Some("foo"));
        assert_eq!(first("(?<!a)b", "", "ab b"), Some("b"));
        assert_eq!(first("a.c", "s", "a\nc"), Some("a\nc"));
        assert_eq!(first("(?<year>\\d{4})-\\k<year>", "", "2024-2024"), Some("2024-2024"));
        assert_eq!(first("a # comment\n b", "x", "ab"), Some("ab"));
        assert_eq!(first("a++a", "", "aaa"), None);
        assert_eq!(first("é", "i", "É"), Some("É"));
        assert!(Pattern::compile("(", "").is_err() && Pattern::compile("[a", "").is_err());
        assert!(Pattern::compile("a{2}{3}", "").is_ok() && Pattern::compile("*a", "").is_err());
    }

    #[test]
    fn endless_backtracking_ends_with_an_error() {
        let pattern = Pattern::compile("(a+)+$", "").unwrap();
        assert!(pattern.find_at(&format!("{}b", "a".repeat(60)), 0).is_err());
    }
}
