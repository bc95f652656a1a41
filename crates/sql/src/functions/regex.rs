//! Regular expressions, in time linear in the text: no look-around and no back-references, which need more.
//!
//! A constant pattern is compiled once for a query. A pattern that is not valid, or too large, is an error
//! and not undefined: the query is wrong for all items. The reference calls its patterns
//! "PCRE-like"; patterns that both accept have the same meaning.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};
use shardlake_document::Value;

use crate::error::SqlError;
use crate::functions::call::Call;
use crate::value::datum::{Datum, grow, value_size};

/// Steps of a search besides reading the text; the same again for every [`SEARCHED_BYTES`] of it.
const SEARCH_STEPS: u64 = 8;
const SEARCHED_BYTES: u64 = 64;
/// Steps to compile a pattern for one row, and for each byte of the pattern.
const COMPILE_STEPS: u64 = 1000;
const COMPILE_STEPS_PER_BYTE: u64 = 100;

/// Bytes of a compiled pattern.
const COMPILED_BYTES_MAX: usize = 1024 * 1024;

/// A compiled pattern, or why there is none.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(Result<Regex, SqlError>);

impl Pattern {
    /// `modifiers` are any of `m`, `s`, `i` and `x`.
    pub fn compile(pattern: &str, modifiers: &str) -> Pattern {
        Pattern(compile(pattern, modifiers))
    }
}

fn compile(pattern: &str, modifiers: &str) -> Result<Regex, SqlError> {
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(COMPILED_BYTES_MAX).dfa_size_limit(COMPILED_BYTES_MAX);
    for modifier in modifiers.chars() {
        match modifier {
            'm' => builder.multi_line(true),
            's' => builder.dot_matches_new_line(true),
            'i' => builder.case_insensitive(true),
            'x' => builder.ignore_whitespace(true),
            other => {
                let reason = format!("the modifier '{other}' is none of m, s, i and x");
                return Err(SqlError::Pattern { reason });
            }
        };
    }
    builder.build().map_err(|error| SqlError::Pattern { reason: reason(pattern, &error) })
}

fn reason(pattern: &str, error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "it is too large once compiled".into(),
        _ if pattern.contains("(?=") || pattern.contains("(?!") || pattern.contains("(?<") => {
            "look-around is not supported, because it cannot be matched in linear time".into()
        }
        // The last line describes the mistake; the lines before it draw the pattern.
        error => {
            error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
    }
}

/// The pattern of a call: compiled before, or now. `modifiers_at` is the place of the modifiers among the arguments.
fn pattern<'c>(
    call: &Call<'c, '_>,
    prepared: Option<&'c Pattern>,
    modifiers_at: usize,
) -> Result<Option<Cow<'c, Regex>>, SqlError> {
    let text_bytes = call.text(0).map_or(0, |text| text.len()) as u64;
    call.step(SEARCH_STEPS * (1 + text_bytes / SEARCHED_BYTES))?;
    if let Some(Pattern(compiled)) = prepared {
        return compiled.as_ref().map(|regex| Some(Cow::Borrowed(regex))).map_err(Clone::clone);
    }
    let modifiers = match call.arguments.get(modifiers_at) {
        None => "",
        Some(Datum::String(modifiers)) => modifiers,
        Some(_) => return Ok(None),
    };
    let Some(pattern) = call.text(1) else { return Ok(None) };
    call.step(COMPILE_STEPS + COMPILE_STEPS_PER_BYTE * pattern.len() as u64)?;
    compile(pattern, modifiers).map(|regex| Some(Cow::Owned(regex)))
}

type Found<'a> = Result<Option<Datum<'a>>, SqlError>;

/// `REGEXMATCH(text, pattern[, modifiers])`
pub(super) fn matches<'a>(call: &Call<'_, 'a>, prepared: Option<&Pattern>) -> Found<'a> {
    let (Some(text), Some(regex)) = (call.text(0), pattern(call, prepared, 2)?) else { return Ok(None) };
    Ok(Some(Datum::Bool(regex.is_match(text))))
}

/// `RegexExtract(text, pattern[, modifiers[, group]])`: the first match or one of its groups.
pub(super) fn extract<'a>(call: &Call<'_, 'a>, prepared: Option<&Pattern>) -> Found<'a> {
    let (Some(text), Some(regex)) = (call.text(0), pattern(call, prepared, 2)?) else { return Ok(None) };
    let Some(group) = call.integer_or(3, 0).and_then(|group| usize::try_from(group).ok()) else {
        return Ok(None);
    };
    let found = regex.captures(text).and_then(|captures| Some(captures.get(group)?.as_str().to_owned()));
    Ok(found.map(|found| Datum::String(Cow::Owned(found))))
}

/// `RegexExtractAll(text, pattern[, modifiers[, group]])`: all matches, or one group of each. A match without
/// that group is left out.
pub(super) fn extract_all<'a>(call: &Call<'_, 'a>, prepared: Option<&Pattern>) -> Found<'a> {
    let (Some(text), Some(regex)) = (call.text(0), pattern(call, prepared, 2)?) else { return Ok(None) };
    let Some(group) = call.integer_or(3, 0).and_then(|group| usize::try_from(group).ok()) else {
        return Ok(None);
    };
    let (mut all, mut size) = (Vec::new(), 0);
    for captures in regex.captures_iter(text) {
        if let Some(found) = captures.get(group) {
            let found = Value::String(found.as_str().to_owned());
            grow(&mut size, value_size(&found))?;
            all.push(found);
        }
    }
    Ok((!all.is_empty()).then(|| Datum::from(Value::Array(all))))
}

/// `RegexReplace(text, pattern, replacement[, modifiers])` for the first match, `RegexReplaceAll` for all. `$1` and `${name}` in
/// the replacement stand for groups.
pub(super) fn replace<'a>(call: &Call<'_, 'a>, prepared: Option<&Pattern>, matches_max: usize) -> Found<'a> {
    let (Some(text), Some(regex)) = (call.text(0), pattern(call, prepared, 3)?) else { return Ok(None) };
    let Some(replacement) = call.text(2) else { return Ok(None) };
    let (mut out, mut copied_to, mut size) = (String::new(), 0, 0);
    for captures in regex.captures_iter(text).take(matches_max) {
        let Some(whole) = captures.get(0) else { continue };
        out.push_str(&text[copied_to..whole.start()]);
        captures.expand(replacement, &mut out);
        copied_to = whole.end();
        let grown = out.len() - size;
        grow(&mut size, grown)?;
    }
    out.push_str(&text[copied_to..]);
    let grown = out.len() - size;
    grow(&mut size, grown)?;
    Ok(Some(Datum::String(Cow::Owned(out))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_cannot_be_matched_in_linear_time_or_space_are_refused_with_a_reason() {
        for (pattern, modifiers, word) in [
            ("a(?=b)", "", "look-around"),
            (r"(a)\1", "", "backreferences"),
            ("a{1000}{1000}", "", "large"),
            ("(", "", "unclosed"),
            ("a", "q", "'q'"),
        ] {
            let SqlError::Pattern { reason } = compile(pattern, modifiers).expect_err(pattern) else {
                panic!("another kind of error")
            };
            assert!(reason.contains(word), "{pattern}: {reason}");
        }
    }

    #[test]
    fn modifiers_change_what_matches() {
        let matches = |pattern, modifiers, text| compile(pattern, modifiers).expect(pattern).is_match(text);
        assert!(matches("ABC", "i", "xabcx"));
        assert!(!matches("ABC", "", "xabcx"));
        assert!(matches("^b", "m", "a\nb"));
        assert!(matches("a.b", "s", "a\nb"));
        assert!(matches("a b # comment", "x", "ab"));
    }
}
