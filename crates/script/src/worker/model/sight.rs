//! Whether a callback can look at the document that it is called with. If it cannot, the document need not be
//! sent to the worker, and the answer can be foreseen.
//!
//! The callback's text decides, in favour only if there is no doubt: a plain function or arrow function of
//! plain parameters whose second one, the document, is named nowhere else. Texts that might reach a parameter
//! in another way (`arguments`, `eval`, escapes in names) count as looking.

use rquickjs::function::This;
use rquickjs::{Ctx, Function, Result};

use super::state::Model;

/// Longer texts are not analysed.
const TEXT_BYTES_MAX: usize = 4096;

pub(super) fn sees_resource<'js>(ctx: &Ctx<'js>, model: &Model, callback: &Function<'js>) -> bool {
    let print = model.print.borrow().clone();
    let text = || -> Result<Option<String>> {
        let Some(print) = print else { return Ok(None) };
        print.restore(ctx)?.call((This(callback.clone()),)).map(Some)
    };
    match text() {
        Ok(text) => text.is_none_or(|text| mentions_second(&text)),
        Err(_) => {
            // An answer without memory for the text: yes.
            let _ = ctx.catch();
            true
        }
    }
}

/// Whether a function with this text may look at its second argument.
fn mentions_second(text: &str) -> bool {
    if text.len() > TEXT_BYTES_MAX || text.contains('\\') {
        return true;
    }
    let hidden_ways = ["arguments", "eval", "[native code]"];
    if hidden_ways.into_iter().any(|way| text.contains(way)) {
        return true;
    }
    let Some(parameters) = parameters(text) else { return true };
    match parameters.get(1) {
        None => false,
        Some(second) => words(text).filter(|word| word == second).count() > 1,
    }
}

/// The names of a function's parameters; `None` if a parameter is not a plain name, or for other kinds of
/// functions.
fn parameters(text: &str) -> Option<Vec<&str>> {
    let (head, rest) = text.split_once('(')?;
    let (list, body) = rest.split_once(')')?;
    let is_arrow = head.is_empty() && body.trim_start().starts_with("=>");
    let is_function = head.strip_prefix("function").is_some_and(|name| {
        let name = name.trim();
        (name.is_empty() || (is_name(name) && head.contains(' '))) && body.trim_start().starts_with('{')
    });
    if !is_arrow && !is_function {
        return None;
    }
    let names: Vec<&str> = list.split(',').map(str::trim).collect();
    if names == [""] {
        return Some(Vec::new());
    }
    names.iter().all(|name| is_name(name)).then_some(names)
}

fn is_name(text: &str) -> bool {
    !text.starts_with(|first: char| first.is_ascii_digit()) && !text.is_empty() && text.bytes().all(is_part)
}

fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_ascii() || !is_part(character as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_that_cannot_look_are_told_from_those_that_may() {
        for blind in [
            "function () { count++; }",
            "function done(error) { if (error) throw error; }",
            "function callback(err, doc, options) { if (err) throw err; count++; next(); }",
            "(error) => { if (error) throw error; }",
            "(error, $doc) => next(error)",
            "function ( error , documents ) { document = 1; }",
        ] {
            assert!(!mentions_second(blind), "{blind}");
        }
        for seeing in [
            "function (error, doc) { setBody(doc); }",
            "(error, doc) => doc",
            "function (error, doc) { return { doc }; }",
            "function (error, doc) { return `${doc.id}`; }",
            "function (error) { return arguments[1]; }",
            "() => arguments[1]",
            "function (error, doc) { return eval('do' + 'c'); }",
            "function (error, doc) { return d\\u006fc; }",
            "function (...all) { return all; }",
            "function (error, { id }) { }",
            "function (error, doc = 1) { }",
            "function (error, copy = ((a) => a)) { }",
            "function (error, /* doc */ d) { }",
            "function (error, doc /* ) */, copy = doc) { }",
            "async function (error, doc) { }",
            "async (error) => 1",
            "function* (error) { yield 1; }",
            "error => 1",
            "class Callback { constructor(error, doc) { } }",
            "done(error) { }",
            "get(error) { }",
            "function bound done() {\n    [native code]\n}",
            "function\u{a0}é(error) { }",
        ] {
            assert!(mentions_second(seeing), "{seeing}");
        }
        assert!(mentions_second(&format!("function (error) {{ {} }}", " ".repeat(TEXT_BYTES_MAX))));
    }
}
