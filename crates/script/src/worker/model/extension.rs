//! What scripts use rarely, in JavaScript that is compiled when it is first asked for (`prelude/extension.js`): functions of
//! the host stand for its methods until then.

use std::rc::Rc;

use rquickjs::function::{Args, Rest};
use rquickjs::object::Accessor;
use rquickjs::{Ctx, Function, Object, Result, Value};

use super::arguments::failure;
use super::{Model, collection, message, ours, put};

const EXTENSION: &str = include_str!("../../prelude/extension.js");

/// Methods of the collection that the extension brings.
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

pub(super) fn extend<'js>(ctx: &Ctx<'js>, model: &Rc<Model>, collection: &Object<'js>) -> Result<()> {
    for name in METHODS {
        let model = Rc::clone(model);
        let method = move |ctx: Ctx<'js>, given: Rest<Value<'js>>| -> Result<Value<'js>> {
            let method: Function = extension(&ctx, &model)?.get(name)?;
            let mut arguments = Args::new(ctx, given.len());
            arguments.push_args(given.0)?;
            method.call_arg(arguments)
        };
        put(collection, name, Function::new(ctx.clone(), method)?)?;
    }
    let model = Rc::clone(model);
    let spatial = move |ctx: Ctx<'js>| extension(&ctx, &model)?.get::<_, Value>("spatial");
    collection.prop("spatial", Accessor::from(spatial).enumerable())
}

/// The methods, by name.
fn extension<'js>(ctx: &Ctx<'js>, model: &Rc<Model>) -> Result<Object<'js>> {
    model.kept(
        ctx,
        |kept| &mut kept.extension,
        || {
            let make: Function = ctx.eval_with_options(EXTENSION, ours())?;
            // Functions of its own: a script may have replaced those of its objects.
            let (query, link) = (collection::query_function(ctx, model)?, collection::self_link(ctx, model)?);
            let append = match model.access.response {
                Some(_) => Some(message::append_function(ctx, &model.response)?),
                None => None,
            };
            let fail = |ctx: Ctx<'js>, number: u16, text: String| {
                failure(&ctx, number, &text).map(|e| e.into_object())
            };
            make.call((query, link, append, Function::new(ctx.clone(), fail)?))
        },
    )
}
