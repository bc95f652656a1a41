//! Rarely used parts of the model, in JavaScript that is compiled on first use (`prelude/extension.js`).
//! Until then, functions of the host replace its methods.

use std::rc::Rc;

use rquickjs::context::EvalOptions;
use rquickjs::function::{Args, Rest};
use rquickjs::{Ctx, Function, Object, Persistent, Result, Value};

use super::arguments::failure;
use super::properties::{Getter, put};
use super::state::{Model, Needed, Slot};
use super::{collection, message};
use crate::worker::engine::Host;
use crate::worker::exception::OUR_FILE;

const EXTENSION: &str = include_str!("../../prelude/extension.js");

/// Methods of the collection in the extension.
const METHODS: [&str; 15] = [
    "filter",
    "map",
    "pluck",
    "flatten",
    "unwind",
    "sortBy",
    "sortByDescending",
    "chain",
    "readAttachment",
    "readAttachments",
    "queryAttachments",
    "createAttachment",
    "upsertAttachment",
    "replaceAttachment",
    "deleteAttachment",
];

fn needed<'js>(ctx: &Ctx<'js>, host: &Host, model: &Rc<Model>) -> Result<Needed> {
    let fail = |ctx: Ctx<'js>, number: u16, text: String| {
        failure(&ctx, number, &text).map(|failure| failure.into_object())
    };
    let save = |function| Persistent::save(ctx, function);
    Ok(Needed {
        query: save(collection::query_function(ctx, host, model)?),
        link: save(collection::self_link(ctx, host, model)?),
        append: save(message::append_function(ctx, host, &model.response)?),
        fail: save(host.function(ctx, fail)?),
    })
}

/// Adds the methods of the extension to the collection.
pub(super) fn extend<'js>(
    ctx: &Ctx<'js>,
    host: &Host,
    model: &Rc<Model>,
    collection: &Object<'js>,
) -> Result<()> {
    model.needed.replace(Some(needed(ctx, host, model)?));
    for name in METHODS {
        let model = Rc::clone(model);
        let method = move |ctx: Ctx<'js>, given: Rest<Value<'js>>| -> Result<Value<'js>> {
            let method: Function = extension(&ctx, &model)?.get(name)?;
            let mut arguments = Args::new(ctx, given.len());
            arguments.push_args(given.0)?;
            method.call_arg(arguments)
        };
        put(collection, name, host.function(ctx, method)?)?;
    }
    let model = Rc::clone(model);
    let spatial = move |ctx: Ctx<'js>| extension(&ctx, &model)?.get::<_, Value>("spatial");
    let get = host.function(ctx, spatial)?;
    let spatial = Getter { get, set: None, is_enumerable: true, is_configurable: false };
    spatial.define(ctx, collection, "spatial")
}

/// The methods, by name.
fn extension<'js>(ctx: &Ctx<'js>, model: &Model) -> Result<Object<'js>> {
    let made: Slot = model.extension.borrow().clone();
    if let Some(made) = made {
        return made.restore(ctx);
    }
    let make: Function = ctx.eval_with_options(EXTENSION, ours())?;
    let function = |of: fn(&Needed) -> &Persistent<Function<'static>>| {
        model.needed.borrow().as_ref().map(|needed| of(needed).clone().restore(ctx)).transpose()
    };
    let append = if model.part.get().has_response() { function(|needed| &needed.append)? } else { None };
    let (query, link) = (function(|needed| &needed.query)?, function(|needed| &needed.link)?);
    let made: Object = make.call((query, link, append, function(|needed| &needed.fail)?))?;
    model.extension.replace(Some(Persistent::save(ctx, made.clone())));
    Ok(made)
}

/// Options for the host's own code.
pub(in crate::worker) fn ours() -> EvalOptions {
    let mut options = EvalOptions::default();
    options.filename = Some(OUR_FILE.to_owned());
    options
}
