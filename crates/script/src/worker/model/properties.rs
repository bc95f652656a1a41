//! Properties of the objects that scripts see.

use rquickjs::object::Property;
use rquickjs::{Ctx, Function, IntoJs, Object, Result, Value};

/// A property with a getter.
pub(super) struct Getter<'js> {
    pub(super) get: Function<'js>,
    pub(super) set: Option<Function<'js>>,
    pub(super) is_enumerable: bool,
    pub(super) is_configurable: bool,
}

impl<'js> Getter<'js> {
    pub(super) fn define(self, ctx: &Ctx<'js>, object: &Object<'js>, name: &str) -> Result<()> {
        let constructor: Object = ctx.globals().get("Object")?;
        let define: Function = constructor.get("defineProperty")?;
        let descriptor = Object::new(ctx.clone())?;
        descriptor.set("get", self.get)?;
        self.set.map_or(Ok(()), |set| descriptor.set("set", set))?;
        descriptor.set("enumerable", self.is_enumerable)?;
        descriptor.set("configurable", self.is_configurable)?;
        define.call((object.clone(), name, descriptor))
    }
}

/// Defines a property of an object that scripts see, ignoring setters of its prototype.
pub(in crate::worker) fn put<'js>(object: &Object<'js>, name: &str, value: impl IntoJs<'js>) -> Result<()> {
    object.prop(name, Property::from(value).writable().configurable().enumerable())
}

/// Defines a global that is not enumerable.
pub(in crate::worker) fn define<'js>(ctx: &Ctx<'js>, name: &str, value: Value<'js>) -> Result<()> {
    ctx.globals().prop(name, Property::from(value).writable().configurable())
}
