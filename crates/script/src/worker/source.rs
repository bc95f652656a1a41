//! The text of a script, in two forms. One function, written as a declaration, as an expression or as a
//! method of an object (the form in which clients print methods), possibly with comments around it. Or
//! statements, as build tools write them: the first function is the entry, and the rest is in its scope.
//!
//! One function is evaluated as an expression, and the engine prints the resulting function. The text must be
//! exactly that print, except for white space, comments and semicolons. Statements become the body of a
//! function that calls the entry, and the engine must print exactly that function. So a text with a call is
//! refused, as is a text that closes the function early, and no part of a text runs before its script does.

use super::entry::{self, Entry};

pub(super) const NOT_A_FUNCTION: &str =
    "a script is the text of a function, or its first function is a declaration or a variable";

/// The text before and after a script's text, for one way of evaluating it. All beginnings have the same
/// length, so that positions are off by the same.
pub(super) struct Frame {
    before: &'static str,
    after: &'static str,
}

/// The text as an expression: a text with more than an expression fails to compile, and nothing of it runs.
const EXPRESSION: Frame = Frame { before: "                           (", after: "\n)" };
/// Semicolons may follow.
const STATEMENT: Frame = Frame { before: "                          0,", after: "" };
const METHOD: Frame = Frame { before: "                          ({", after: "\n})" };
/// The name is left out of stacks, see `exception.rs`.
const BODY: Frame = Frame { before: "0,function shardlakeEntry(){", after: "" };
pub(super) const ENTRY_OF_STATEMENTS: &str = "at shardlakeEntry ";
pub(super) const PREFIX_LENGTH: usize = BODY.before.len();

/// The end of a printed function that is not written in JavaScript.
const NATIVE: &str = "() {\n    [native code]\n}";

#[derive(Debug, Clone, Copy)]
pub(super) struct FunctionText<'a> {
    pub name: &'a str,
    pub source: &'a str,
}

/// A way to evaluate a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape<'a> {
    Expression,
    Statement,
    Method,
    Body(Entry<'a>),
}

impl<'a> FunctionText<'a> {
    /// The name of the script in positions.
    pub(super) fn file_name(&self) -> String {
        // A readable name, without characters that would end a line or a text of the engine.
        let name: String = self.name.chars().filter(|character| !character.is_control()).collect();
        format!("{name}.js")
    }

    /// Ways to evaluate the text: the first that succeeds counts, and the last reports the error.
    pub(super) fn shapes(&self) -> Vec<Shape<'a>> {
        let entry = entry::of(self.source).map(Shape::Body);
        let alone = match entry {
            _ if self.is_method() => Shape::Method,
            Some(_) => Shape::Expression,
            None => Shape::Statement,
        };
        [alone].into_iter().chain(entry).collect()
    }

    /// Text for the engine. Lines stay the same; columns of the first line are off by [`PREFIX_LENGTH`].
    pub(super) fn expression(&self, shape: Shape<'_>) -> String {
        let (frame, source) = match shape {
            Shape::Expression => (EXPRESSION, self.source.to_owned()),
            Shape::Statement => (STATEMENT, self.source.to_owned()),
            // A comment may be last.
            Shape::Method => (METHOD, self.source.to_owned()),
            Shape::Body(entry) => (BODY, entry.named(self.source)),
        };
        format!("{}{source}{}", frame.before, frame.after)
    }

    /// Whether it begins with a name and a parenthesis. The engine is then given an object with it, because
    /// it would be a call as an expression.
    fn is_method(&self) -> bool {
        let text = skip_trivia(self.source);
        let is_part = |character: char| character.is_alphanumeric() || matches!(character, '_' | '$');
        let end = text.find(|character| !is_part(character)).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let is_name = name.starts_with(|character: char| is_part(character) && !character.is_ascii_digit());
        is_name && !matches!(name, "function" | "async") && skip_trivia(rest).starts_with('(')
    }

    /// Whether the engine printed the text that this shape evaluates.
    pub(super) fn is(&self, shape: Shape<'_>, printed: &str) -> bool {
        match shape {
            Shape::Body(_) => self.expression(shape).strip_prefix("0,") == Some(printed),
            _ => self.is_just(printed),
        }
    }

    /// Whether the text is exactly the function that the engine printed, and not a class or a generator.
    /// Functions not written in JavaScript print a given name, which may be anything.
    fn is_just(&self, printed: &str) -> bool {
        if printed.ends_with(NATIVE) || !(self.is_method() || begins_as_function(printed)) {
            return false;
        }
        let mut rest = skip_trivia(self.source);
        let mut open = 0;
        while let Some(inner) = rest.strip_prefix('(').filter(|_| !rest.starts_with(printed)) {
            rest = skip_trivia(inner);
            open += 1;
        }
        let Some(mut rest) = rest.strip_prefix(printed).map(skip_trivia) else { return false };
        for _ in 0..open {
            let Some(outer) = rest.strip_prefix(')') else { return false };
            rest = skip_trivia(outer);
        }
        while let Some(after) = rest.strip_prefix(';') {
            rest = skip_trivia(after);
        }
        rest.is_empty() && !printed.starts_with("class") && !is_generator(printed)
    }
}

/// Whether the text is also an expression. Methods, getters and setters are not: as an expression, a method
/// may be a call followed by a block.
fn begins_as_function(printed: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || matches!(character, '_' | '$');
    let end = |text: &str| text.find(|character| !is_part(character)).unwrap_or(text.len());
    let (first, after) = printed.split_at(end(printed));
    let after = skip_trivia(after);
    if first == "function"
        || first.is_empty() && after.starts_with('(')
        || !first.is_empty() && after.starts_with("=>")
    {
        return true;
    }
    let (name, behind) = after.split_at(end(after));
    let is_arrow = !name.is_empty() && skip_trivia(behind).starts_with("=>");
    first == "async" && (name == "function" || after.starts_with('(') || is_arrow)
}

fn is_generator(printed: &str) -> bool {
    let printed = printed.strip_prefix("async").map_or(printed, skip_trivia);
    printed.strip_prefix("function").is_some_and(|rest| skip_trivia(rest).starts_with('*'))
}

/// The text after white space and comments.
fn skip_trivia(text: &str) -> &str {
    let mut rest = text.trim_start_matches(is_space);
    loop {
        let after = if let Some(comment) = rest.strip_prefix("//") {
            comment.find(['\n', '\r', '\u{2028}', '\u{2029}']).map_or("", |end| &comment[end..])
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or("", |end| &comment[end + 2..])
        } else {
            return rest;
        };
        rest = after.trim_start_matches(is_space);
    }
}

/// A byte-order mark is white space, as in JavaScript.
fn is_space(character: char) -> bool {
    character.is_whitespace() || character == '\u{feff}'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_just(source: &str, printed: &str) -> bool {
        FunctionText { name: "x", source }.is_just(printed)
    }

    #[test]
    fn a_method_is_a_name_and_a_parenthesis() {
        let is_method = |source| FunctionText { name: "x", source }.is_method();
        for source in ["run() { }", "// one\n$run_2 /* two */ (a) { }", "f()"] {
            assert!(is_method(source), "{source}");
        }
        for source in [
            "function () { }",
            "function run() { }",
            "async (a) => a",
            "(a) => a",
            "a => a",
            "1()",
            "",
            "run",
        ] {
            assert!(!is_method(source), "{source}");
        }
        for frame in [EXPRESSION, STATEMENT, METHOD, BODY] {
            assert_eq!(frame.before.len(), PREFIX_LENGTH, "{}", frame.before);
        }
        assert!(is_just("run() { } // end", "run() { }") && !is_just("run() { }, go() { }", "run() { }"));
    }

    #[test]
    fn comments_and_parentheses_may_surround_a_function_and_nothing_else_may() {
        let function = "function (a) { return a; }";
        for (before, after) in [
            ("", ""),
            ("\u{feff} // one\n", " ;; "),
            ("/* function (a) { return a; } */", "// end"),
            ("( (", ") /**/ )"),
        ] {
            assert!(is_just(&format!("{before}{function}{after}"), function), "{before:?} {after:?}");
        }
        for (before, after) in
            [("", ")("), ("1,", ""), ("(", ""), ("", "()"), ("function(){})(); (", ""), ("", ", 1")]
        {
            assert!(!is_just(&format!("{before}{function}{after}"), function), "{before:?} {after:?}");
        }
        assert!(is_just("(a, b) => a + b;", "(a, b) => a + b"));
        for arrow in ["x => x", "async x => x", "async => async", "async (x) => x", "$a /* */ => 1"] {
            assert!(is_just(arrow, arrow), "{arrow}");
        }
        for call in
            ["\\u0065val()\n{ }", "get\neval()\n{ }", "async *eval()\n{ }", "get a() { }", "[a]() { }"]
        {
            assert!(!is_just(call, call), "{call}");
        }
        assert!(!is_just("class A {}", "class A {}"));
        assert!(!is_just("async function /* */ * a() {}", "async function /* */ * a() {}"));
    }
}
