//! The object model of stored procedures and triggers: what `getContext()` and `__` give a script, and the turns in
//! which its callbacks run.
//!
//! All of it is functions of the host and not JavaScript: every invocation sets it up anew, which must not compile a text, and
//! what a script does to shared objects cannot reach it. An object is made when the script first asks for it. What scripts use
//! rarely is JavaScript that is compiled then, too (`extension.rs`).
//!
//! No function of the host holds a value of the engine: its collector could not see that, and a cycle through it would never be
//! freed. The values in [`Model`] are let go of before the engine ends.

mod arguments;
mod collection;
mod console;
mod extension;
mod message;
mod numbered;
mod sight;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use rquickjs::context::EvalOptions;
use rquickjs::function::{Opt, This};
use rquickjs::object::{Accessor, Property};
use rquickjs::promise::PromiseState;
use rquickjs::{Array, Ctx, Function, IntoJs, Object, Persistent, Promise, Result, Value};

use super::calls::Calls;
use super::channel::Channel;
use super::exception::OUR_FILE;
use crate::Completion;
use crate::protocol::{OrderedRole, RunOrder};
use crate::store::StoreReply;

use arguments::{failure, refuse};
use console::Log;
pub(super) use console::console;
use message::{Access, Body, message};

/// Global name of the collection.
const SHORTHAND: &str = "__";

const ERROR_CODES: [(&str, u16); 8] = [
    ("BadRequest", 400),
    ("Forbidden", 403),
    ("NotFound", 404),
    ("Conflict", 409),
    ("PreconditionFailed", 412),
    ("RequestEntityTooLarge", 413),
    ("RetryWith", 449),
    ("InternalServerError", 500),
];

/// The state behind the objects of one invocation.
pub(super) struct Model {
    calls: RefCell<Calls>,
    /// Of the calls that were accepted, in order.
    callbacks: RefCell<VecDeque<Callback>>,
    /// What asynchronous functions returned and what has not come to an end.
    promises: RefCell<Vec<Persistent<Promise<'static>>>>,
    /// What the script aborted with.
    aborted: RefCell<Option<Persistent<Value<'static>>>>,
    has_aborted: Cell<bool>,
    request: Rc<Body>,
    response: Rc<Body>,
    log: Rc<RefCell<Log>>,
    logs: bool,
    self_link: String,
    alt_link: String,
    access: Accesses,
    kept: RefCell<Kept>,
    /// The engine's own `Function.prototype.toString`, whatever a script makes of that.
    print: RefCell<Option<Persistent<Function<'static>>>>,
}

/// What of the request and the response the script has.
struct Accesses {
    request: Option<Access>,
    response: Option<Access>,
    /// Of a trigger.
    operation: Option<String>,
}

/// Objects that scripts reach by several ways, as far as they have asked for them.
#[derive(Default)]
struct Kept {
    context: Slot,
    shorthand: Slot,
    collection: Slot,
    request: Slot,
    response: Slot,
    extension: Slot,
}

type Slot = Option<Persistent<Object<'static>>>;

struct Callback {
    function: Option<Persistent<Function<'static>>>,
    has_resource: bool,
}

impl Model {
    pub(super) fn new(order: &RunOrder, calls: Calls) -> Rc<Model> {
        let length_max = order.limits.response_bytes_max;
        let (request, response) = match &order.role {
            OrderedRole::Procedure { .. } => (None, None),
            OrderedRole::PreTrigger { request_body, .. } => (request_body.as_deref(), None),
            OrderedRole::PostTrigger { request_body, response_body, .. } => {
                (request_body.as_deref(), response_body.as_deref())
            }
        };
        Rc::new(Model {
            calls: RefCell::new(calls),
            callbacks: RefCell::default(),
            promises: RefCell::default(),
            aborted: RefCell::default(),
            has_aborted: Cell::default(),
            request: Body::new(request, length_max),
            response: Body::new(response, length_max),
            log: Rc::new(RefCell::new(Log { text: String::new(), bytes_max: order.limits.log_bytes_max })),
            logs: order.logs,
            self_link: order.self_link.clone(),
            alt_link: order.alt_link.clone(),
            access: Accesses::of(&order.role),
            kept: RefCell::default(),
            print: RefCell::default(),
        })
    }

    /// Puts the model into the global object.
    pub(super) fn set_up<'js>(self: &Rc<Self>, ctx: &Ctx<'js>) -> Result<()> {
        numbered::number_errors(ctx)?;
        let print: Function = Function::prototype(ctx.clone()).get("toString")?;
        self.print.replace(Some(Persistent::save(ctx, print)));
        let globals = ctx.globals();
        // What threads share is of no use to one.
        globals.remove("Atomics")?;
        globals.remove("SharedArrayBuffer")?;
        let codes = Object::new(ctx.clone())?;
        ERROR_CODES.iter().try_for_each(|(name, code)| codes.set(*name, *code))?;
        let log = self.logs.then(|| Rc::clone(&self.log));
        let model = Rc::clone(self);
        let get_context = move |ctx: Ctx<'js>| model.context(&ctx);
        define(ctx, "ErrorCodes", codes.into_value())?;
        define(ctx, "console", console(ctx, log)?.into_value())?;
        define(ctx, "getContext", Function::new(ctx.clone(), get_context)?.into_value())?;
        let model = Rc::clone(self);
        let shorthand = move |ctx: Ctx<'js>| model.shorthand(&ctx);
        let replace = |ctx: Ctx<'js>, value: Value<'js>| define(&ctx, SHORTHAND, value);
        globals.prop(SHORTHAND, Accessor::from(shorthand).set(replace).configurable())
    }

    /// What `getContext` returns.
    fn context<'js>(self: &Rc<Self>, ctx: &Ctx<'js>) -> Result<Object<'js>> {
        self.kept(
            ctx,
            |kept| &mut kept.context,
            || {
                let context = Object::new(ctx.clone())?;
                let set = |name: &str, get: fn(&Rc<Model>, &Ctx<'js>) -> Result<Object<'js>>| {
                    let model = Rc::clone(self);
                    put(&context, name, Function::new(ctx.clone(), move |ctx: Ctx<'js>| get(&model, &ctx))?)
                };
                set("getCollection", Model::collection)?;
                let model = Rc::clone(self);
                let abort = move |ctx: Ctx<'js>, reason: Opt<Value<'js>>| -> Result<()> {
                    Err(model.abort(&ctx, reason.0))
                };
                put(&context, "abort", Function::new(ctx.clone(), abort)?)?;
                self.access.request.map_or(Ok(()), |_| set("getRequest", Model::request_object))?;
                self.access.response.map_or(Ok(()), |_| set("getResponse", Model::response_object))?;
                Ok(context)
            },
        )
    }

    /// The global object `__`: the collection, and what else a script has.
    fn shorthand<'js>(self: &Rc<Self>, ctx: &Ctx<'js>) -> Result<Object<'js>> {
        self.kept(
            ctx,
            |kept| &mut kept.shorthand,
            || {
                let shorthand = Object::new_proto(ctx.clone(), Some(&self.collection(ctx)?))?;
                if self.access.request.is_some() {
                    put(&shorthand, "request", self.request_object(ctx)?)?;
                }
                if self.access.response.is_some() {
                    put(&shorthand, "response", self.response_object(ctx)?)?;
                }
                Ok(shorthand)
            },
        )
    }

    fn collection<'js>(self: &Rc<Self>, ctx: &Ctx<'js>) -> Result<Object<'js>> {
        self.kept(ctx, |kept| &mut kept.collection, || collection::collection(ctx, self))
    }

    fn request_object<'js>(self: &Rc<Self>, ctx: &Ctx<'js>) -> Result<Object<'js>> {
        self.kept(ctx, |kept| &mut kept.request, || self.message(ctx, &self.request, self.access.request))
    }

    fn response_object<'js>(self: &Rc<Self>, ctx: &Ctx<'js>) -> Result<Object<'js>> {
        self.kept(
            ctx,
            |kept| &mut kept.response,
            || {
                let response = self.message(ctx, &self.response, self.access.response)?;
                message::refuse_quotas(ctx, &response)?;
                Ok(response)
            },
        )
    }

    fn message<'js>(&self, ctx: &Ctx<'js>, body: &Rc<Body>, access: Option<Access>) -> Result<Object<'js>> {
        let message = message(ctx, body, access.unwrap_or(Access::Read))?;
        if let Some(operation) = self.access.operation.clone() {
            put(&message, "getOperationType", Function::new(ctx.clone(), move || operation.clone())?)?;
        }
        Ok(message)
    }

    /// An object that is made once, when it is first asked for.
    fn kept<'js>(
        &self,
        ctx: &Ctx<'js>,
        slot: fn(&mut Kept) -> &mut Slot,
        make: impl FnOnce() -> Result<Object<'js>>,
    ) -> Result<Object<'js>> {
        let kept = slot(&mut self.kept.borrow_mut()).clone();
        if let Some(kept) = kept {
            return kept.restore(ctx);
        }
        let made = make()?;
        *slot(&mut self.kept.borrow_mut()) = Some(Persistent::save(ctx, made.clone()));
        Ok(made)
    }

    fn abort<'js>(&self, ctx: &Ctx<'js>, reason: Option<Value<'js>>) -> rquickjs::Error {
        let reason = match reason.filter(|reason| !reason.is_undefined()) {
            Some(reason) => reason,
            None => match failure(ctx, arguments::BAD_REQUEST, "the script was aborted") {
                Ok(failure) => failure.into_object().into_value(),
                Err(error) => return error,
            },
        };
        if !self.has_aborted.replace(true) {
            self.aborted.replace(Some(Persistent::save(ctx, reason.clone())));
        }
        ctx.throw(reason)
    }

    /// Calls the script.
    pub(super) fn start<'js>(&self, ctx: &Ctx<'js>, script: Function<'js>, order: &RunOrder) -> Result<()> {
        let mut arguments = rquickjs::function::Args::new(ctx.clone(), 0);
        if let OrderedRole::Procedure { arguments: text } = &order.role {
            let Some(values) = ctx.json_parse(text.as_str())?.into_array() else {
                return Err(refuse(ctx, "the arguments of a stored procedure must be an array"));
            };
            arguments = rquickjs::function::Args::new(ctx.clone(), values.len());
            push_all(&mut arguments, &values)?;
        }
        let result = script.call_arg(arguments)?;
        self.watch(ctx, result);
        Ok(())
    }

    /// The answer to the earliest call that has none.
    pub(super) fn next_answer(&self) -> Option<StoreReply> {
        self.calls.borrow_mut().next_answer()
    }

    /// Calls the callback of that call. Without one a failure is thrown.
    pub(super) fn deliver<'js>(&self, ctx: &Ctx<'js>, reply: StoreReply) -> Result<()> {
        let Some(callback) = self.callbacks.borrow_mut().pop_front() else { return Ok(()) };
        let undefined = || Value::new_undefined(ctx.clone());
        let function = callback.function.map(|function| function.restore(ctx)).transpose()?;
        let (error, resource, options) = match reply.outcome {
            Err(refusal) => {
                let error = failure(ctx, refusal.number, &refusal.message)?;
                if function.is_none() {
                    return Err(error.throw());
                }
                (error.into_object().into_value(), undefined(), Object::new(ctx.clone())?)
            }
            Ok(_) if function.is_none() => return Ok(()),
            Ok(answer) => {
                let options = Object::new(ctx.clone())?;
                answer
                    .continuation
                    .map_or(Ok(()), |continuation| options.set("continuation", continuation))?;
                if answer.not_modified {
                    options.set("notModified", true)?;
                }
                let resource = answer.body.map_or_else(|| Ok(undefined()), |body| ctx.json_parse(body))?;
                (undefined(), resource, options)
            }
        };
        let Some(function) = function else { return Ok(()) };
        let result: Value = if callback.has_resource {
            function.call((This(undefined()), error, resource, options))?
        } else {
            function.call((This(undefined()), error, options))?
        };
        self.watch(ctx, result);
        Ok(())
    }

    /// What an asynchronous function throws counts as thrown.
    fn watch<'js>(&self, ctx: &Ctx<'js>, result: Value<'js>) {
        if let Some(promise) = result.into_promise() {
            self.promises.borrow_mut().push(Persistent::save(ctx, promise));
        }
    }

    /// After each turn: throws what was aborted with, and what asynchronous functions threw.
    pub(super) fn settle(&self, ctx: &Ctx<'_>) -> Result<()> {
        if let Some(reason) = self.aborted.take() {
            let reason = reason.restore(ctx)?;
            return Err(ctx.throw(reason));
        }
        let promises = std::mem::take(&mut *self.promises.borrow_mut());
        let mut pending = Vec::new();
        for promise in promises {
            let promise = promise.restore(ctx)?;
            match promise.state() {
                PromiseState::Resolved => {}
                PromiseState::Pending => pending.push(Persistent::save(ctx, promise)),
                PromiseState::Rejected => return promise.finish(),
            }
        }
        self.promises.borrow_mut().extend(pending);
        Ok(())
    }

    pub(super) fn completion(&self, is_pre_trigger: bool) -> Completion {
        let request_body = self.request.json.take();
        Completion {
            response_body: self.response.json.take(),
            request_body: request_body.filter(|_| is_pre_trigger),
            log: self.printed(),
        }
    }

    /// What `console.log` has printed since it was asked last.
    pub(super) fn printed(&self) -> String {
        std::mem::take(&mut self.log.borrow_mut().text)
    }

    /// Lets go of every value of the engine, and of the channel.
    pub(super) fn end(&self) -> io::Result<Channel> {
        self.callbacks.borrow_mut().clear();
        self.promises.borrow_mut().clear();
        self.aborted.take();
        self.kept.take();
        self.print.take();
        self.calls.borrow_mut().finish()
    }
}

impl Accesses {
    fn of(role: &OrderedRole) -> Accesses {
        let (request, response, operation) = match role {
            OrderedRole::Procedure { .. } => (None, Some(Access::Write), None),
            OrderedRole::PreTrigger { operation, .. } => (Some(Access::Write), None, Some(operation)),
            OrderedRole::PostTrigger { operation, .. } => {
                (Some(Access::Read), Some(Access::Write), Some(operation))
            }
        };
        Accesses { request, response, operation: operation.cloned() }
    }
}

/// A property of an object that scripts see, whatever setters they gave to its prototype.
fn put<'js>(object: &Object<'js>, name: &str, value: impl IntoJs<'js>) -> Result<()> {
    object.prop(name, Property::from(value).writable().configurable().enumerable())
}

/// A global that `for` does not find.
fn define<'js>(ctx: &Ctx<'js>, name: &str, value: Value<'js>) -> Result<()> {
    ctx.globals().prop(name, Property::from(value).writable().configurable())
}

fn push_all<'js>(arguments: &mut rquickjs::function::Args<'js>, values: &Array<'js>) -> Result<()> {
    values.iter::<Value>().try_for_each(|value| arguments.push_arg(value?))
}

fn ours() -> EvalOptions {
    let mut options = EvalOptions::default();
    options.filename = Some(OUR_FILE.to_owned());
    options
}
