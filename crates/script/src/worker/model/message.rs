//! The request and the response of a script: one body each, kept as the JSON text that it was when it was set.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rquickjs::function::Opt;
use rquickjs::{Coerced, Ctx, Function, Object, Result, Value};

use super::arguments::{refuse, throw, unsupported};
use super::put;
use crate::worker::engine::Host;

const TOO_LARGE: u16 = 413;
/// The one property of both.
const BODY: &str = "Body";

/// Of the run that there is.
#[derive(Default)]
pub(super) struct Body {
    pub(super) json: RefCell<Option<String>>,
    length_max: Cell<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// The object that scripts see.
pub(super) fn message<'js>(
    ctx: &Ctx<'js>,
    host: &Host,
    body: &Rc<Body>,
    access: Access,
) -> Result<Object<'js>> {
    let message = Object::new(ctx.clone())?;
    let of = || Rc::clone(body);
    let getting = of();
    put(&message, "getBody", host.function(ctx, move |ctx: Ctx<'js>| getting.get(&ctx))?)?;
    let getting = of();
    let get_value =
        move |ctx: Ctx<'js>, name: Coerced<String>| only_body(&ctx, &name.0).and_then(|()| getting.get(&ctx));
    put(&message, "getValue", host.function(ctx, get_value)?)?;
    if access == Access::Read {
        return Ok(message);
    }
    let changes: [(&str, &str, Change); 2] =
        [("setBody", "setValue", Body::set), ("appendBody", "appendValue", Body::append)];
    for (of_body, of_value, change) in changes {
        put(&message, of_body, changing_body(ctx, host, body, change)?)?;
        let changing = of();
        let of_value_function = move |ctx: Ctx<'js>, name: Coerced<String>, value: Opt<Value<'js>>| {
            let value = value.0.unwrap_or_else(|| Value::new_undefined(ctx.clone()));
            only_body(&ctx, &name.0).and_then(|()| change(&changing, &ctx, value))
        };
        put(&message, of_value, host.function(ctx, of_value_function)?)?;
    }
    Ok(message)
}

type Change = for<'js> fn(&Body, &Ctx<'js>, Value<'js>) -> Result<()>;

fn changing_body<'js>(ctx: &Ctx<'js>, host: &Host, body: &Rc<Body>, change: Change) -> Result<Function<'js>> {
    let body = Rc::clone(body);
    let function = move |ctx: Ctx<'js>, value: Opt<Value<'js>>| {
        let value = value.0.unwrap_or_else(|| Value::new_undefined(ctx.clone()));
        change(&body, &ctx, value)
    };
    host.function(ctx, function)
}

pub(super) fn append_function<'js>(ctx: &Ctx<'js>, host: &Host, body: &Rc<Body>) -> Result<Function<'js>> {
    changing_body(ctx, host, body, Body::append)
}

/// What the service tells about quotas has no meaning here, and is refused by name.
pub(super) fn refuse_quotas<'js>(ctx: &Ctx<'js>, host: &Host, response: &Object<'js>) -> Result<()> {
    for name in ["getResourceQuotaCurrentUsage", "getMaxResourceQuota"] {
        let refuse = move |ctx: Ctx<'js>| -> Result<()> { Err(unsupported(&ctx, &format!("{name} is"))) };
        put(response, name, host.function(ctx, refuse)?)?;
    }
    Ok(())
}

fn only_body(ctx: &Ctx<'_>, name: &str) -> Result<()> {
    if name == BODY {
        return Ok(());
    }
    Err(refuse(ctx, format!("there is no property '{name}' here, only '{BODY}'")))
}

impl Body {
    pub(super) fn begin(&self, json: Option<&str>, length_max: usize) {
        self.json.replace(json.map(str::to_owned));
        self.length_max.set(length_max);
    }

    pub(super) fn end(&self) {
        self.json.take();
        self.length_max.take();
    }

    fn get<'js>(&self, ctx: &Ctx<'js>) -> Result<Value<'js>> {
        let json = self.json.borrow().clone();
        json.map_or_else(|| Ok(Value::new_undefined(ctx.clone())), |json| ctx.json_parse(json))
    }

    /// What has no JSON, as a function has none, leaves no body.
    fn set<'js>(&self, ctx: &Ctx<'js>, value: Value<'js>) -> Result<()> {
        let json = ctx.json_stringify(value)?.map(|json| json.to_string()).transpose()?;
        if json.as_ref().is_some_and(|json| self.is_too_long(json)) {
            return Err(too_large(ctx));
        }
        self.json.replace(json);
        Ok(())
    }

    /// A list to a list, and anything else as text: 1 and 2 are "12". On the JSON: what is there is not read again for every piece.
    fn append<'js>(&self, ctx: &Ctx<'js>, value: Value<'js>) -> Result<()> {
        let start = self.json.borrow().as_ref().and_then(|json| json.bytes().next());
        if start.is_none() {
            return self.set(ctx, value);
        }
        let extends_list = start == Some(b'[') && value.is_array();
        if !extends_list && start != Some(b'"') {
            let text =
                rquickjs::String::from_str(ctx.clone(), self.json.borrow().as_deref().unwrap_or_default())?;
            self.set(ctx, text.into_value())?;
        }
        let piece = match ctx.json_stringify(value.clone())? {
            Some(json) if !extends_list && !value.is_string() => ctx.json_stringify(json)?,
            piece => piece,
        };
        let Some(piece) = piece.map(|piece| piece.to_string()).transpose()? else { return Ok(()) };
        let mut slot = self.json.borrow_mut();
        let json = slot.get_or_insert_default();
        let comma = if extends_list && json.len() > 2 && piece.len() > 2 { "," } else { "" };
        if json.len() + piece.len() > self.length_max.get() && self.is_too_long(&format!("{json}{piece}")) {
            drop(slot);
            return Err(too_large(ctx));
        }
        json.pop();
        json.push_str(comma);
        json.push_str(&piece[1..]);
        Ok(())
    }

    /// In the units that the length of a string has in scripts, which are never more than its bytes.
    fn is_too_long(&self, json: &str) -> bool {
        json.len() > self.length_max.get() && json.encode_utf16().count() > self.length_max.get()
    }
}

fn too_large(ctx: &Ctx<'_>) -> rquickjs::Error {
    let message = format!(
        "Resulting message would be too large because of \"{BODY}\". Return from script with current message and use \
         continuation token to call the script again or modify your script."
    );
    throw(ctx, TOO_LARGE, &message)
}
