//! The request and the response of a script: one body each.
//!
//! A body is JSON text until a script reads it as an object or sets it. From then on the script holds an
//! object, and gets the same one on every read. An object that was set is rendered when the run ends, with
//! all changes made by the script.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rquickjs::function::Opt;
use rquickjs::{Coerced, Ctx, Function, Object, Persistent, Result, Value};

use super::arguments::{refuse, throw};
use super::properties::put;
use crate::worker::engine::Host;

const TOO_LARGE: u16 = 413;
/// The one property of both.
const BODY: &str = "Body";

/// The body of the current run.
#[derive(Default)]
pub(super) struct Body {
    /// The text that the run began with, that was set, or that was appended to.
    json: RefCell<Option<String>>,
    /// The object that the script holds, once the script has read or set the body as an object.
    object: RefCell<Option<Persistent<Value<'static>>>>,
    /// Whether the script has set that object, so that its later changes count.
    is_set: Cell<bool>,
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

    /// Releases the run's body.
    pub(super) fn end(&self) {
        self.json.take();
        self.object.take();
        self.is_set.take();
        self.length_max.take();
    }

    /// The text of the body as the run leaves it.
    pub(super) fn finish(&self, ctx: &Ctx<'_>) -> Result<Option<String>> {
        self.settle(ctx)?;
        Ok(self.json.take())
    }

    /// Renders an object that was set as text, and releases the object.
    fn settle(&self, ctx: &Ctx<'_>) -> Result<()> {
        let object = self.object.take();
        if let Some(object) = object.filter(|_| self.is_set.take()) {
            let json = self.render(ctx, object.restore(ctx)?)?;
            self.json.replace(json);
            // Its `toJSON` may have read the body, which was different at that point.
            self.object.take();
            self.is_set.take();
        }
        Ok(())
    }

    fn get<'js>(&self, ctx: &Ctx<'js>) -> Result<Value<'js>> {
        if let Some(object) = self.object.borrow().clone() {
            return object.restore(ctx);
        }
        let Some(json) = self.json.borrow().clone() else { return Ok(Value::new_undefined(ctx.clone())) };
        let value: Value = ctx.json_parse(json)?;
        self.hold(ctx, &value);
        Ok(value)
    }

    /// A value without JSON, such as a function, leaves no body.
    fn set<'js>(&self, ctx: &Ctx<'js>, value: Value<'js>) -> Result<()> {
        let json = self.render(ctx, value.clone())?;
        let has_text = json.is_some();
        self.json.replace(json);
        self.object.take();
        if has_text {
            self.hold(ctx, &value);
        }
        self.is_set.set(self.object.borrow().is_some());
        Ok(())
    }

    /// Text, numbers and booleans never change, so only objects are held.
    fn hold<'js>(&self, ctx: &Ctx<'js>, value: &Value<'js>) {
        if value.is_object() {
            self.object.replace(Some(Persistent::save(ctx, value.clone())));
        }
    }

    /// The JSON of a value, within the length that a message may have.
    fn render<'js>(&self, ctx: &Ctx<'js>, value: Value<'js>) -> Result<Option<String>> {
        let json = ctx.json_stringify(value)?.map(|json| json.to_string()).transpose()?;
        if json.as_ref().is_some_and(|json| self.is_too_long(json)) {
            return Err(too_large(ctx));
        }
        Ok(json)
    }

    /// Appends to the JSON text of the body, which is not parsed again: a list to a list, and anything else
    /// as text: 1 and 2 are "12".
    fn append<'js>(&self, ctx: &Ctx<'js>, value: Value<'js>) -> Result<()> {
        let piece = ctx.json_stringify(value.clone())?;
        self.settle(ctx)?;
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
        let piece = match piece {
            Some(json) if !extends_list && !value.is_string() => ctx.json_stringify(json)?,
            piece => piece,
        };
        let Some(piece) = piece.map(|piece| piece.to_string()).transpose()? else { return Ok(()) };
        self.object.take();
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

    /// Measures in UTF-16 units, as scripts measure strings; a text has at most as many units as bytes.
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
