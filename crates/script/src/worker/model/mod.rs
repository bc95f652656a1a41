//! The object model of stored procedures and triggers: `getContext()`, `__`, and the turns in which callbacks
//! run.
//!
//! All of it but the extension is functions of the host and not JavaScript. It is made once, before the
//! memory of the engine is kept, and serves one run after the other. Its objects are as new for each run
//! (`heap.rs`); the state of a run is put into [`Model`] before it and released after it. Rarely used parts
//! are JavaScript that is compiled on first use (`extension.rs`).
//!
//! No function of the host holds a value of the engine: the engine's collector could not see it, and a cycle
//! through it would never be freed.

mod arguments;
mod collection;
mod console;
mod extension;
mod message;
mod numbered;
mod properties;
mod sight;
mod state;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use rquickjs::function::{Args, Opt, This};
use rquickjs::promise::PromiseState;
use rquickjs::{Array, Coerced, Ctx, Function, Object, Persistent, Result, Value};

use super::calls::Calls;
use super::channel::Channel;
use super::engine::Host;
use crate::Completion;
use crate::protocol::{OrderedRole, RunOrder};
use crate::store::StoreReply;

pub(super) use arguments::{Arguments, failure, is_nothing, kind, refuse, throw};
use console::Log;
pub(super) use console::{Sink, console};
pub(super) use extension::ours;
use message::{Access, Body, message};
pub(super) use numbered::number_errors;
use properties::Getter;
pub(super) use properties::{define, put};
pub(super) use state::Model;
use state::{Face, Links, Part, QuotaText, Quotas, Slot};

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

impl Model {
    /// Puts the model into the global object.
    pub(super) fn new(ctx: &Ctx<'_>, host: &Host) -> Result<Rc<Model>> {
        let model = Rc::new(Model {
            calls: RefCell::default(),
            callbacks: RefCell::default(),
            promises: RefCell::default(),
            aborted: RefCell::default(),
            has_aborted: Cell::default(),
            request: Rc::default(),
            response: Rc::default(),
            quotas: RefCell::default(),
            log: Rc::default(),
            links: RefCell::default(),
            part: Cell::new(Part::Procedure),
            operation: RefCell::default(),
            extension: RefCell::default(),
            collection: RefCell::default(),
            faces: RefCell::default(),
            needed: RefCell::default(),
            print: RefCell::default(),
        });
        let made = model.make(ctx, host);
        if made.is_err() {
            model.let_go();
        }
        made.map(|()| model)
    }

    fn make<'js>(self: &Rc<Self>, ctx: &Ctx<'js>, host: &Host) -> Result<()> {
        number_errors(ctx, host)?;
        let print: Function = Function::prototype(ctx.clone()).get("toString")?;
        self.print.replace(Some(Persistent::save(ctx, print)));
        let globals = ctx.globals();
        // Shared memory is useless to a single thread.
        globals.remove("Atomics")?;
        globals.remove("SharedArrayBuffer")?;
        let collection = collection::collection(ctx, host, self)?;
        extension::extend(ctx, host, self, &collection)?;
        self.collection.replace(Some(Persistent::save(ctx, collection)));
        for part in Part::ALL {
            let face = self.face(ctx, host, part)?;
            self.faces.borrow_mut().push(face);
        }
        let codes = Object::new(ctx.clone())?;
        ERROR_CODES.iter().try_for_each(|(name, code)| codes.set(*name, *code))?;
        define(ctx, "ErrorCodes", codes.into_value())?;
        define(ctx, "console", console(ctx, host, Some(self.log.clone()))?.into_value())?;
        let model = Rc::clone(self);
        let get_context = move |ctx: Ctx<'js>| model.seen(&ctx, |face| &face.context);
        define(ctx, "getContext", host.function(ctx, get_context)?.into_value())?;
        let model = Rc::clone(self);
        let shorthand = move |ctx: Ctx<'js>| model.seen(&ctx, |face| &face.shorthand);
        let replace = |ctx: Ctx<'js>, value: Value<'js>| define(&ctx, SHORTHAND, value);
        let (get, set) = (host.function(ctx, shorthand)?, Some(host.function(ctx, replace)?));
        let getter = Getter { get, set, is_enumerable: false, is_configurable: true };
        getter.define(ctx, &globals, SHORTHAND)
    }

    /// The objects for scripts of that part: the result of `getContext`, and the global object `__` with the
    /// collection and the part's other members.
    fn face<'js>(self: &Rc<Self>, ctx: &Ctx<'js>, host: &Host, part: Part) -> Result<Face> {
        let context = Object::new(ctx.clone())?;
        let set = |name: &str, get: fn(&Model, &Ctx<'js>) -> Result<Object<'js>>| {
            let model = Rc::clone(self);
            put(&context, name, host.function(ctx, move |ctx: Ctx<'js>| get(&model, &ctx))?)
        };
        set("getCollection", |model, ctx| model.collection(ctx))?;
        let model = Rc::clone(self);
        let abort =
            move |ctx: Ctx<'js>, reason: Opt<Value<'js>>| -> Result<()> { Err(model.abort(&ctx, reason.0)) };
        put(&context, "abort", host.function(ctx, abort)?)?;
        let shorthand = Object::new_proto(ctx.clone(), Some(&self.collection(ctx)?))?;
        let save = |object: &Object<'js>| Some(Persistent::save(ctx, object.clone()));
        let mut face = Face::default();
        if let Some(access) = part.request() {
            set("getRequest", |model, ctx| model.seen(ctx, |face| &face.request))?;
            let request = self.message(ctx, host, (part, &self.request), access)?;
            face.request = save(&request);
            put(&shorthand, "request", request)?;
        }
        if part.has_response() {
            set("getResponse", |model, ctx| model.seen(ctx, |face| &face.response))?;
            let response = self.message(ctx, host, (part, &self.response), Access::Write)?;
            self.put_quotas(ctx, host, &response)?;
            face.response = save(&response);
            put(&shorthand, "response", response)?;
        }
        (face.context, face.shorthand) = (save(&context), save(&shorthand));
        Ok(face)
    }

    fn message<'js>(
        self: &Rc<Self>,
        ctx: &Ctx<'js>,
        host: &Host,
        (part, body): (Part, &Rc<Body>),
        access: Access,
    ) -> Result<Object<'js>> {
        let message = message(ctx, host, body, access)?;
        if part != Part::Procedure {
            let model = Rc::clone(self);
            let operation = move || model.operation.borrow().clone();
            put(&message, "getOperationType", host.function(ctx, operation)?)?;
        }
        Ok(message)
    }

    /// The methods of a response for the use and the limit of the container's storage.
    fn put_quotas<'js>(self: &Rc<Self>, ctx: &Ctx<'js>, host: &Host, response: &Object<'js>) -> Result<()> {
        let texts: [(&str, QuotaText); 2] = [
            ("getResourceQuotaCurrentUsage", |quotas| &quotas.usage),
            ("getMaxResourceQuota", |quotas| &quotas.max),
        ];
        for (name, text) in texts {
            let model = Rc::clone(self);
            put(response, name, host.function(ctx, move || text(&model.quotas.borrow()).clone())?)?;
        }
        Ok(())
    }

    fn collection<'js>(&self, ctx: &Ctx<'js>) -> Result<Object<'js>> {
        restored(ctx, &self.collection.borrow())
    }

    /// The object that scripts of the present part see.
    fn seen<'js>(&self, ctx: &Ctx<'js>, of: fn(&Face) -> &Slot) -> Result<Object<'js>> {
        restored(ctx, of(&self.faces.borrow()[self.part.get() as usize]))
    }

    /// Sets up the state of a run.
    pub(super) fn begin(&self, order: &RunOrder, calls: Calls) {
        let (request, response, operation) = match &order.role {
            OrderedRole::Procedure { .. } => (None, None, ""),
            OrderedRole::PreTrigger { operation, request_body } => {
                (request_body.as_deref(), None, operation.as_str())
            }
            OrderedRole::PostTrigger { operation, request_body, response_body } => {
                (request_body.as_deref(), response_body.as_deref(), operation.as_str())
            }
        };
        let length_max = order.limits.response_bytes_max;
        self.request.begin(request, length_max);
        self.response.begin(response, length_max);
        self.part.set(Part::of(&order.role));
        self.operation.replace(operation.to_owned());
        self.quotas.replace(Quotas { usage: order.usage.clone(), max: order.quota.clone() });
        self.links.replace(Links { own: order.self_link.clone(), alt: order.alt_link.clone() });
        self.log.replace(Log {
            is_kept: order.logs,
            text: String::new(),
            bytes_max: order.limits.log_bytes_max,
        });
        self.calls.replace(Some(calls));
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
        let arguments = match &order.role {
            OrderedRole::Procedure { arguments } => listed(ctx, &ctx.json_parse(arguments.as_str())?)?,
            _ => Args::new(ctx.clone(), 0),
        };
        let result = script.call_arg(arguments)?;
        self.watch(ctx, result);
        Ok(())
    }

    /// The answer to the earliest unanswered call.
    pub(super) fn next_answer(&self) -> Option<StoreReply> {
        self.calls.borrow_mut().as_mut()?.next_answer()
    }

    /// Calls the callback of that call. A failure without a callback is thrown.
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

    /// An error in an asynchronous function counts as thrown.
    fn watch<'js>(&self, ctx: &Ctx<'js>, result: Value<'js>) {
        if let Some(promise) = result.into_promise() {
            self.promises.borrow_mut().push(Persistent::save(ctx, promise));
        }
    }

    /// After each turn: throws the reason of an abort, and errors of asynchronous functions.
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

    /// The bodies and the log at the end of the run. Data calls of a `toJSON` are refused meanwhile.
    pub(super) fn completion(&self, ctx: &Ctx<'_>) -> Result<Completion> {
        if let Some(calls) = self.calls.borrow_mut().as_mut() {
            calls.accept_no_more();
        }
        let is_pre_trigger = self.part.get() == Part::PreTrigger;
        let response_body = self.response.finish(ctx)?;
        let request_body = if is_pre_trigger { self.request.finish(ctx)? } else { None };
        Ok(Completion { response_body, request_body, log: self.printed() })
    }

    /// The output of `console.log` since the last call.
    pub(super) fn printed(&self) -> String {
        std::mem::take(&mut self.log.borrow_mut().text)
    }

    /// Ends a run; returns the channel.
    pub(super) fn end(&self) -> io::Result<Channel> {
        let calls = self.calls.take();
        self.let_go_of_run();
        calls.map_or_else(|| Err(io::ErrorKind::NotConnected.into()), |mut calls| calls.finish())
    }

    /// Releases the state of a run: above all values of the engine, and data that later runs must not see.
    pub(super) fn let_go_of_run(&self) {
        self.callbacks.borrow_mut().clear();
        self.promises.borrow_mut().clear();
        self.aborted.take();
        self.extension.take();
        self.has_aborted.set(false);
        self.request.end();
        self.response.end();
        self.links.take();
        self.quotas.take();
        self.part.set(Part::Procedure);
        self.operation.take();
        self.log.take();
    }

    /// Releases the model's values before the engine ends.
    pub(super) fn let_go(&self) {
        self.let_go_of_run();
        self.collection.take();
        self.faces.borrow_mut().clear();
        self.needed.take();
        self.print.take();
    }
}

/// The object in a filled slot.
fn restored<'js>(ctx: &Ctx<'js>, slot: &Slot) -> Result<Object<'js>> {
    slot.clone().ok_or(rquickjs::Error::Unknown)?.restore(ctx)
}

/// Limit on arguments: more overflow the engine's own `Function.prototype.apply`.
const ARGUMENTS_MAX: f64 = 65_534.0;

/// The arguments of a call, from a list-like value as in `Function.prototype.apply`.
fn listed<'js>(ctx: &Ctx<'js>, list: &Value<'js>) -> Result<Args<'js>> {
    if is_nothing(list) {
        return Ok(Args::new(ctx.clone(), 0));
    }
    let Some(list) = list.as_object() else {
        let message = format!("the arguments of a stored procedure must be a list, and are {}", kind(list));
        return Err(refuse(ctx, message));
    };
    let length = list.get::<_, Coerced<f64>>("length")?.0.max(0.0);
    if length > ARGUMENTS_MAX {
        return Err(refuse(ctx, format!("a stored procedure takes at most {ARGUMENTS_MAX} arguments")));
    }
    let length = length as u32;
    let mut arguments = Args::new(ctx.clone(), length as usize);
    (0..length).try_for_each(|place| arguments.push_arg(list.get::<_, Value>(place)?))?;
    Ok(arguments)
}

fn push_all<'js>(arguments: &mut Args<'js>, values: &Array<'js>) -> Result<()> {
    values.iter::<Value>().try_for_each(|value| arguments.push_arg(value?))
}
