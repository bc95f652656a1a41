//! `console.log`: formats as usual, and keeps lines up to a maximum, only if the caller asked for them.

use std::cell::RefCell;
use std::rc::Rc;

use rquickjs::function::Rest;
use rquickjs::{Coerced, Ctx, Object, Result, Value};

use crate::worker::engine::Host;

const CUT: &str = "\n[the log was cut here]";

/// Receives the output of a script.
pub(in crate::worker) trait Sink {
    /// Whether the output is wanted.
    fn is_kept(&self) -> bool;

    /// Adds the text of one call.
    fn add(&mut self, line: &str);
}

/// The script's output; output past the maximum is left out, with a note.
#[derive(Debug, Default)]
pub(in crate::worker) struct Log {
    /// Whether the caller asked for it.
    pub(super) is_kept: bool,
    pub(super) text: String,
    pub(super) bytes_max: usize,
}

/// The console object; prints into the log, or discards the output.
pub(in crate::worker) fn console<'js>(
    ctx: &Ctx<'js>,
    host: &Host,
    log: Option<Rc<RefCell<dyn Sink>>>,
) -> Result<Object<'js>> {
    let console = Object::new(ctx.clone())?;
    let print = host.function(ctx, move |ctx: Ctx<'js>, given: Rest<Value<'js>>| {
        if let Some(log) = log.as_ref().filter(|log| log.borrow().is_kept()) {
            let line = format(&ctx, &given.0);
            log.borrow_mut().add(&line);
        }
    })?;
    for name in ["log", "info", "warn", "error", "debug"] {
        console.set(name, print.clone())?;
    }
    Ok(console)
}

impl Sink for Log {
    fn is_kept(&self) -> bool {
        self.is_kept
    }

    fn add(&mut self, line: &str) {
        if self.text.ends_with(CUT) {
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let room = self.bytes_max.saturating_sub(self.text.len());
        if line.len() <= room {
            self.text.push_str(line);
        } else {
            self.text.push_str(&line[..line.floor_char_boundary(room)]);
            self.text.push_str(CUT);
        }
    }
}

/// `%s %d %i %f %j %o %%` in the first text; remaining values follow after a space.
fn format<'js>(ctx: &Ctx<'js>, given: &[Value<'js>]) -> String {
    let mut values = given.iter();
    let Some(first) = values.next() else { return String::new() };
    let mut line = String::new();
    let pattern = show(ctx, first);
    let mut rest = pattern.as_str();
    while first.is_string()
        && let Some((before, after)) = rest.split_once('%')
    {
        line.push_str(before);
        let shown = match after.chars().next() {
            Some('%') => Some("%".to_owned()),
            Some('s') => values.next().map(|value| show(ctx, value)),
            Some('d' | 'f') => values.next().map(|value| number(ctx, value).to_string()),
            Some('i') => values.next().map(|value| number(ctx, value).trunc().to_string()),
            Some('j' | 'o' | 'O') => values.next().map(|value| json(ctx, value)),
            _ => None,
        };
        rest = match shown {
            Some(shown) => {
                line.push_str(&shown);
                &after[1..]
            }
            None => {
                line.push('%');
                after
            }
        };
    }
    line.push_str(rest);
    for value in values {
        line.push(' ');
        line.push_str(&show(ctx, value));
    }
    line
}

/// Texts unchanged, objects as JSON, errors as in failures.
fn show<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> String {
    if value.is_object() && !value.is_function() && !value.is_error() {
        return json(ctx, value);
    }
    text(ctx, value).unwrap_or_else(|| json(ctx, value))
}

fn json<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> String {
    match ctx.json_stringify(value.clone()) {
        Ok(Some(json)) => json.to_string().unwrap_or_default(),
        Ok(None) => text(ctx, value).unwrap_or_else(|| "?".into()),
        Err(_) => {
            let _ = ctx.catch();
            "[object]".into()
        }
    }
}

fn text<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> Option<String> {
    value.get::<Coerced<String>>().map(|text| text.0).ok().or_else(|| {
        let _ = ctx.catch();
        None
    })
}

fn number<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> f64 {
    value.get::<Coerced<f64>>().map(|number| number.0).unwrap_or_else(|_| {
        let _ = ctx.catch();
        f64::NAN
    })
}
