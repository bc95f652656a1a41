//! Errors of scripts as messages: the error, and its place in the script's own text.

use rquickjs::{Coerced, Ctx, Error, Value};

use super::budget::Budget;
use super::source;
use crate::protocol::{Failure, FailureKind};

const MESSAGE_CHARACTERS_MAX: usize = 4_000;
const STACK_LINES_MAX: usize = 20;
/// File name of the host's own code in stacks.
pub(super) const OUR_FILE: &str = "<shardlake>";

/// The failure for a failed call into the engine.
pub(super) fn failure(ctx: &Ctx<'_>, budget: &Budget, error: Error) -> Failure {
    let failure = match error {
        Error::Exception => thrown(ctx, budget, &ctx.catch()),
        Error::Allocation => budget.memory_failure(),
        error => Failure { kind: FailureKind::Script, message: encountered(&error.to_string(), "") },
    };
    // The budget is checked last: the script may have spent the rest while its error was read.
    budget.failure().unwrap_or(failure)
}

/// The failure for a thrown value.
pub(super) fn thrown<'js>(ctx: &Ctx<'js>, budget: &Budget, value: &Value<'js>) -> Failure {
    if value.is_null() {
        return budget.null_failure();
    }
    let Some(exception) = value.as_exception() else {
        return Failure { kind: FailureKind::Script, message: encountered(&show(ctx, value), "") };
    };
    let message = exception.message().unwrap_or_default();
    let name =
        text(ctx, exception.get("name")).filter(|name| !name.is_empty()).unwrap_or_else(|| "Error".into());
    if name == "InternalError" && message == "out of memory" {
        return budget.memory_failure();
    }
    let number: Option<i32> = exception.get("number").unwrap_or_else(|_| caught(ctx));
    let title = if message.is_empty() { name } else { format!("{name}: {}", shorten(&message)) };
    let stack = exception.stack().unwrap_or_default();
    let kind = match number.map(u16::try_from) {
        Some(Ok(413)) => FailureKind::Size,
        Some(Ok(number @ 1..)) => FailureKind::Numbered(number),
        _ => FailureKind::Script,
    };
    Failure { kind, message: encountered(&title, &own_lines(&stack)) }
}

/// The engine throws null when it has no memory for an error.
pub(super) fn is_out_of_memory<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> bool {
    let Some(exception) = value.as_exception() else { return value.is_null() };
    let name = text(ctx, exception.get("name"));
    name.as_deref() == Some("InternalError") && exception.message().as_deref() == Some("out of memory")
}

/// The failure of a checked text: the place of the mistake in words, without a stack.
pub(super) fn of_check(failure: Failure) -> Failure {
    let Failure { kind, message } = failure;
    let (title, stack) = message.split_once("\r\n").unwrap_or((&message, ""));
    let position = stack.rsplit_once(".js:").and_then(|(_, position)| {
        let (line, column) = position.trim_end_matches(')').split_once(':')?;
        Some(format!(" at line {line}, column {column}"))
    });
    let title = title.replacen("while executing", "while compiling", 1);
    Failure { kind, message: title + position.as_deref().unwrap_or("") }
}

fn encountered(title: &str, stack: &str) -> String {
    let mut message = format!("Encountered exception while executing Javascript. Exception = {title}");
    if !stack.is_empty() {
        message.push_str(&format!("\r\nStack trace: {title}{stack}"));
    }
    message
}

/// A thrown value that is not an error: its text, or its JSON.
fn show<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> String {
    let json = if value.is_object() {
        ctx.json_stringify(value.clone()).unwrap_or_else(|_| caught(ctx))
    } else {
        None
    };
    let shown = match json {
        Some(json) => json.to_string().ok(),
        None => text(ctx, value.get()),
    };
    shown.map_or_else(|| "a value that has no text".into(), |shown| shorten(&shown))
}

fn text(ctx: &Ctx<'_>, value: rquickjs::Result<Coerced<String>>) -> Option<String> {
    value.map(|value| Some(value.0)).unwrap_or_else(|_| caught(ctx))
}

/// Discards an error thrown by a query of the value.
fn caught<T>(ctx: &Ctx<'_>) -> Option<T> {
    let _ = ctx.catch();
    None
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The lines of a stack that are in the script, with the column of the first line corrected.
fn own_lines(stack: &str) -> String {
    let is_own = |line: &&str| {
        line.contains(".js:") && !line.contains(OUR_FILE) && !line.contains(source::ENTRY_OF_STATEMENTS)
    };
    let lines = stack.lines().filter(is_own).take(STACK_LINES_MAX);
    lines.map(|line| format!("\n   {}", without_prefix(line.trim()))).collect()
}

/// Corrects the column of a line: `at f (name.js:1:9)` becomes `at f (name.js:1:7)`, as the engine saw a
/// prefix before the text.
fn without_prefix(line: &str) -> String {
    let (line_text, close) = line.strip_suffix(')').map_or((line, ""), |line| (line, ")"));
    let corrected = line_text.rsplit_once(":1:").and_then(|(before, column)| {
        let column = column.parse::<u32>().ok()?;
        Some(format!("{before}:1:{}{close}", column.saturating_sub(source::PREFIX_LENGTH as u32).max(1)))
    });
    corrected.unwrap_or_else(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_keep_the_lines_of_the_script() {
        let stack = "    at f (p.js:1:35)\n    at shardlakeEntry (p.js:13:2)\n    at <shardlake>:3:4\n    at call (native)\n    at p.js:12:7\n";
        assert_eq!(own_lines(stack), "\n   at f (p.js:1:7)\n   at p.js:12:7");
    }
}
