//! LIKE patterns: `%` any run of characters, `_` one character, `[a-f]` or `[abc]` one of a set, `[^…]` one not of it.
//! A character after the escape character, or a wildcard in brackets, stands for itself. A `[` without `]` is
//! a character.
//!
//! Matching backtracks to the last `%` only, so it needs at most text × pattern comparisons, which are
//! counted.

use crate::error::SqlError;

/// A pattern that is ready to match.
#[derive(Debug)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
}

impl Pattern {
    pub fn new(pattern: &str, escape: Option<char>) -> Self {
        Pattern { parts: compile(pattern, escape) }
    }

    /// Reports its work to `step` from time to time.
    pub fn matches(
        &self,
        text: &str,
        step: &mut dyn FnMut(u64) -> Result<(), SqlError>,
    ) -> Result<bool, SqlError> {
        matches(text, &self.parts, step)
    }
}

/// Characters that are compared in the time of one step.
const COMPARED_PER_STEP: u64 = 8;
/// Characters that are compared before their steps are counted.
const COMPARED_AT_ONCE: u64 = 1024;

#[derive(Debug)]
enum Part {
    Run,
    One,
    Character(char),
    Set { negated: bool, ranges: Vec<(char, char)> },
}

/// `at` counts bytes of the text.
fn matches(
    text: &str,
    parts: &[Part],
    step: &mut dyn FnMut(u64) -> Result<(), SqlError>,
) -> Result<bool, SqlError> {
    let (mut at, mut part, mut compared) = (0, 0, 0);
    // Where to resume when a part fails: the part after the last run, and the length of text in the run so
    // far.
    let mut resume: Option<(usize, usize)> = None;
    let matches = loop {
        compared += 1;
        if compared == COMPARED_AT_ONCE {
            step(std::mem::take(&mut compared) / COMPARED_PER_STEP)?;
        }
        let next = text[at..].chars().next();
        match (parts.get(part), next) {
            (Some(Part::Run), _) => {
                part += 1;
                resume = Some((part, at));
                continue;
            }
            (None, None) => break true,
            (Some(expected), Some(character)) if expected.accepts(character) => {
                part += 1;
                at += character.len_utf8();
                continue;
            }
            _ => {}
        }
        let Some((resume_part, resume_at)) = &mut resume else { break false };
        let Some(skipped) = text[*resume_at..].chars().next() else { break false };
        *resume_at += skipped.len_utf8();
        (part, at) = (*resume_part, *resume_at);
    };
    step(compared / COMPARED_PER_STEP)?;
    Ok(matches)
}

/// The only text that the pattern matches, if there is only one.
pub(crate) fn without_wildcards(pattern: &str, escape: Option<char>) -> Option<String> {
    let only_character = |part| match part {
        Part::Character(character) => Some(character),
        Part::Set { negated: false, ranges } => match ranges[..] {
            [(low, high)] if low == high => Some(low),
            _ => None,
        },
        Part::Run | Part::One | Part::Set { .. } => None,
    };
    compile(pattern, escape).into_iter().map(only_character).collect()
}

impl Part {
    fn accepts(&self, character: char) -> bool {
        match self {
            Part::Run => true,
            Part::One => true,
            Part::Character(expected) => *expected == character,
            Part::Set { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&character)) != *negated
            }
        }
    }
}

fn compile(pattern: &str, escape: Option<char>) -> Vec<Part> {
    let characters: Vec<char> = pattern.chars().collect();
    let mut parts = Vec::with_capacity(characters.len());
    let mut at = 0;
    while let Some(&character) = characters.get(at) {
        at += 1;
        let part = match character {
            _ if Some(character) == escape => match characters.get(at) {
                Some(escaped) => {
                    at += 1;
                    Part::Character(*escaped)
                }
                None => Part::Character(character),
            },
            '%' => Part::Run,
            '_' => Part::One,
            '[' => match set(&characters[at..]) {
                Some((part, length)) => {
                    at += length;
                    part
                }
                None => Part::Character('['),
            },
            _ => Part::Character(character),
        };
        parts.push(part);
    }
    parts
}

/// Reads a set after its opening bracket; returns its length in characters, the closing bracket included.
fn set(characters: &[char]) -> Option<(Part, usize)> {
    let negated = characters.first() == Some(&'^');
    let start = usize::from(negated);
    // A bracket right at the start belongs to the set.
    let length = characters.get(start + 1..)?.iter().position(|character| *character == ']')? + 1;
    let content = &characters[start..start + length];
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(&low) = content.get(at) {
        match content.get(at + 1..at + 3) {
            Some(['-', high]) => {
                ranges.push((low, *high));
                at += 3;
            }
            _ => {
                ranges.push((low, low));
                at += 1;
            }
        }
    }
    Some((Part::Set { negated, ranges }, start + length + 1))
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    fn matches(text: &str, pattern: &str, escape: Option<char>) -> bool {
        Pattern::new(pattern, escape).matches(text, &mut |_| Ok(())).expect("nobody interrupts")
    }

    #[test]
    fn patterns_match_as_documented() {
        for (text, pattern, expected) in [
            ("", "", true),
            ("", "%", true),
            ("a", "", false),
            ("abc", "abc", true),
            ("abc", "ABC", false),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "%b%", true),
            ("abc", "%%c%%", true),
            ("abc", "a_c", true),
            ("abc", "_", false),
            ("😀", "_", true),
            ("bat", "[a-c]at", true),
            ("dat", "[a-c]at", false),
            ("dat", "[^a-c]at", true),
            ("b", "[abc]", true),
            ("-", "[a-]", true),
            ("5%", "5[%]", true),
            ("5x", "5[%]", false),
            ("[x", "[x", true),
            ("a]", "a[]]", true),
            ("aaaab", "%a%a%b", true),
            ("aaaa", "%a%a%b", false),
        ] {
            assert_eq!(matches(text, pattern, None), expected, "{text} like {pattern}");
        }
        assert!(matches("a%", "a!%", Some('!')));
        assert!(!matches("ab", "a!%", Some('!')));
        assert!(matches("a!", "a!!", Some('!')));
    }

    #[test]
    fn many_runs_take_no_exponential_time() {
        assert!(!matches(&"a".repeat(20_000), &("%a".repeat(50) + "b"), None));
    }
}
