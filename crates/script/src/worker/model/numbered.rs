//! The numbered `Error` of scripts: `new Error(404, 'no such order')`.
//!
//! A proxy of the engine's own `Error`, whose two traps are functions of the host.

use rquickjs::function::Args;
use rquickjs::object::Property;
use rquickjs::proxy::ProxyHandler;
use rquickjs::{Array, Constructor, Ctx, Object, Proxy, Result, Value};

use crate::worker::engine::Host;

/// Replaces the global `Error` by the proxy.
pub(in crate::worker) fn number_errors(ctx: &Ctx<'_>, host: &Host) -> Result<()> {
    let globals = ctx.globals();
    let error: Object = globals.get("Error")?;
    let prototype: Object = error.get("prototype")?;
    let handler = Object::new(ctx.clone())?;
    handler.set("construct", host.function(ctx, construct)?)?;
    handler.set("apply", host.function(ctx, apply)?)?;
    let numbered = Proxy::new(ctx.clone(), error, ProxyHandler::from_object(handler)?)?.into_value();
    for (holder, name) in [(globals, "Error"), (prototype, "constructor")] {
        holder.prop(name, Property::from(numbered.clone()).writable().configurable())?;
    }
    Ok(())
}

fn apply<'js>(
    ctx: Ctx<'js>,
    target: Constructor<'js>,
    _this: Value<'js>,
    given: Array<'js>,
) -> Result<Object<'js>> {
    let made = target.clone().into_value();
    construct(ctx, target, given, made)
}

/// `made` is the class of the new instance.
fn construct<'js>(
    ctx: Ctx<'js>,
    target: Constructor<'js>,
    given: Array<'js>,
    made: Value<'js>,
) -> Result<Object<'js>> {
    let first: Value = given.get(0)?;
    let is_numbered = given.len() >= 2 && first.is_number();
    let mut arguments = Args::new(ctx, given.len());
    arguments.this(made)?;
    if is_numbered {
        arguments.push_arg(given.get::<Value>(1)?)?;
    } else {
        super::push_all(&mut arguments, &given)?;
    }
    let error: Object = arguments.construct(&target)?;
    if is_numbered {
        error.set("number", first)?;
    }
    Ok(error)
}
