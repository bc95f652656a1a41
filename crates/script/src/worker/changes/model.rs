//! The object model of functions over changes: `context` and its containers.
//!
//! The methods are functions of the host behind a little JavaScript (`prelude/changes.js`). They are made
//! once, before the memory of the engine is kept; the state of a run is put into [`Model`] before it and
//! released after it. No function of the host holds a value of the engine.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::rc::Rc;

use rquickjs::function::Rest;
use rquickjs::promise::PromiseState;
use rquickjs::{Coerced, Ctx, Function, Object, Persistent, Result, Value};

use super::containers::{Container, place_of};
use super::lines::Lines;
use super::methods;
use super::reads::{Answer, Reads, Waiting, Wanted};
use super::state::Model;
use super::writes::Refusal;
use crate::function_store::QUERY_ROWS_MAX;
use crate::protocol::{ChangesDone, ChangesOrder, Failure, FailureKind};
use crate::worker::channel::Channel;
use crate::worker::engine::Host;
use crate::worker::model::{console, define, failure, kind, number_errors, ours, put, refuse};

const GLUE: &str = include_str!("../../prelude/changes.js");
/// Characters of a dead letter's reason.
const REASON_CHARACTERS_MAX: usize = 1_000;
const NEVER_SETTLES: &str = "the function waits for a promise that never settles: only reads of 'context' and other \
                             promises that the function resolves itself can be awaited";

impl Model {
    /// Puts the global objects into the engine.
    pub(super) fn new(ctx: &Ctx<'_>, host: &Host) -> Result<Rc<Model>> {
        let model = Rc::new(Model::default());
        let made = model.make(ctx, host);
        if made.is_err() {
            model.let_go();
        }
        made.map(|()| model)
    }

    fn make<'js>(self: &Rc<Self>, ctx: &Ctx<'js>, host: &Host) -> Result<()> {
        number_errors(ctx, host)?;
        let globals = ctx.globals();
        // Shared memory is useless to a single thread.
        globals.remove("Atomics")?;
        globals.remove("SharedArrayBuffer")?;
        define(ctx, "console", console(ctx, host, Some(self.log.clone()))?.into_value())?;
        let model = Rc::clone(self);
        let find = move |ctx: Ctx<'js>, name: Value<'js>| model.find(&ctx, &name);
        let model = Rc::clone(self);
        let call = move |ctx: Ctx<'js>, place: usize, method: String, given: Rest<Value<'js>>| {
            methods::call(&model, &ctx, place, &method, given.0)
        };
        let model = Rc::clone(self);
        let letter =
            move |ctx: Ctx<'js>, change: Value<'js>, reason: Value<'js>| model.letter(&ctx, &change, &reason);
        let host_functions =
            (host.function(ctx, find)?, host.function(ctx, call)?, host.function(ctx, letter)?);
        let make: Function = ctx.eval_with_options(GLUE, ours())?;
        let methods: Object = make.call(host_functions)?;
        self.methods.replace(Some(Persistent::save(ctx, methods)));
        Ok(())
    }

    /// Sets up the state of a run. An error is a mistake of the server.
    pub(super) fn begin(&self, order: &ChangesOrder, reads: Reads) -> std::result::Result<(), Failure> {
        assert!(self.reads.borrow().is_none(), "one run after the other");
        assert!(self.changes.borrow().is_empty(), "nothing of an earlier run is left");
        self.reads.replace(Some(reads));
        self.log.replace(Lines::up_to(order.limits.log_bytes_max));
        let containers = order.containers.iter().map(Container::of).collect::<std::result::Result<_, _>>();
        let containers = containers.map_err(|message| Failure { kind: FailureKind::Worker, message })?;
        self.containers.replace(containers);
        Ok(())
    }

    /// Calls the function.
    pub(super) fn start<'js>(
        &self,
        ctx: &Ctx<'js>,
        function: Function<'js>,
        order: &ChangesOrder,
    ) -> Result<()> {
        let changes = ctx.json_parse(order.changes.as_str())?;
        let Some(list) = changes.as_array() else { return Err(refuse(ctx, "the changes are no array")) };
        for (place, change) in list.iter::<Value>().enumerate() {
            let change = change?;
            self.places.borrow_mut().insert(address(&change), place as u32);
            self.changes.borrow_mut().push(Persistent::save(ctx, change));
        }
        let result: Value = function.call((changes, self.context(ctx, order)?))?;
        self.promise.replace(result.into_promise().map(|promise| Persistent::save(ctx, promise)));
        Ok(())
    }

    fn context<'js>(&self, ctx: &Ctx<'js>, order: &ChangesOrder) -> Result<Object<'js>> {
        let methods = self.methods.borrow().clone().ok_or(rquickjs::Error::Unknown)?.restore(ctx)?;
        let context = Object::new(ctx.clone())?;
        for name in ["container", "deadLetter"] {
            put(&context, name, methods.get::<_, Function>(name)?)?;
        }
        put(&context, "function", order.name.as_str())?;
        put(&context, "version", order.version as f64)?;
        put(&context, "attempt", order.attempt)?;
        Ok(context)
    }

    fn find(&self, ctx: &Ctx<'_>, name: &Value<'_>) -> Result<usize> {
        match name.as_string() {
            Some(name) => place_of(ctx, &self.containers.borrow(), &name.to_string()?),
            None => Err(refuse(ctx, format!("the name of a container is a text, and not {}", kind(name)))),
        }
    }

    /// Gives up a change. A later reason for the same change replaces the earlier one.
    fn letter<'js>(&self, ctx: &Ctx<'js>, change: &Value<'js>, reason: &Value<'js>) -> Result<()> {
        let place = self.places.borrow().get(&address(change)).copied();
        let Some(place) = place.filter(|place| self.is_change(ctx, *place, change)) else {
            return Err(refuse(
                ctx,
                "deadLetter takes one of the changes that the function was given, not a copy",
            ));
        };
        let reason = match reason.is_undefined() {
            true => "the function gave no reason".to_owned(),
            false => reason.get::<Coerced<String>>()?.0.chars().take(REASON_CHARACTERS_MAX).collect(),
        };
        self.letters.borrow_mut().insert(place, reason);
        Ok(())
    }

    fn is_change<'js>(&self, ctx: &Ctx<'js>, place: u32, change: &Value<'js>) -> bool {
        let own = self.changes.borrow().get(place as usize).cloned();
        own.is_some_and(|own| own.restore(ctx).is_ok_and(|own| own == *change))
    }

    pub(super) fn next_answer(&self) -> Option<(Waiting, Answer)> {
        self.reads.borrow_mut().as_mut()?.next_answer()
    }

    /// Settles the promise of a read.
    pub(super) fn deliver<'js>(&self, ctx: &Ctx<'js>, waiting: Waiting, answer: Answer) -> Result<()> {
        let seen = match answer {
            Ok(text) => self.seen(ctx, &waiting.wanted, text)?,
            Err(failed) => Err(Refusal { number: failed.number, message: failed.message }),
        };
        match seen {
            Ok(value) => waiting.resolve(ctx, value),
            Err(refusal) => {
                let reason = failure(ctx, refusal.number, &refusal.message)?;
                waiting.reject(ctx, reason.into_object().into_value())
            }
        }
    }

    /// The item or the rows, as the function gets them.
    fn seen<'js>(
        &self,
        ctx: &Ctx<'js>,
        wanted: &Wanted,
        text: Option<String>,
    ) -> Result<std::result::Result<Value<'js>, Refusal>> {
        let parsed = |text: Option<String>| match text {
            Some(json) => ctx.json_parse(json),
            None => Ok(Value::new_undefined(ctx.clone())),
        };
        match wanted {
            Wanted::Item(name, patches) => {
                let item = self.writes.borrow_mut().read(name.clone(), patches, text);
                item.map_or_else(|refusal| Ok(Err(refusal)), |item| parsed(item).map(Ok))
            }
            Wanted::Rows { rows_max } => {
                let rows = parsed(text)?;
                Ok(check_rows(&rows, *rows_max).map(|()| rows))
            }
        }
    }

    /// Throws the error of a function that has failed.
    pub(super) fn check(&self, ctx: &Ctx<'_>) -> Result<PromiseState> {
        let Some(promise) = self.promise.borrow().clone() else { return Ok(PromiseState::Resolved) };
        let promise = promise.restore(ctx)?;
        match promise.state() {
            PromiseState::Rejected => promise.finish().map(|()| PromiseState::Rejected),
            state => Ok(state),
        }
    }

    /// The results of a function that has ended and waits for nothing.
    pub(super) fn done(&self, ctx: &Ctx<'_>) -> Result<ChangesDone> {
        if self.check(ctx)? == PromiseState::Pending {
            return Err(refuse(ctx, NEVER_SETTLES));
        }
        let letters: Vec<_> = self.letters.take().into_iter().collect();
        assert!(letters.len() <= self.changes.borrow().len(), "each change has one letter");
        Ok(ChangesDone { writes: self.writes.take().into_orders(), letters })
    }

    /// The output since the last call.
    pub(super) fn printed(&self) -> Vec<String> {
        self.log.borrow_mut().take()
    }

    /// Ends a run; returns the channel.
    pub(super) fn end(&self) -> io::Result<Channel> {
        let reads = self.reads.take();
        self.let_go_of_run();
        reads.map_or_else(|| Err(io::ErrorKind::NotConnected.into()), Reads::finish)
    }

    /// Releases the state of a run: above all values of the engine, and data that later runs must not see.
    pub(super) fn let_go_of_run(&self) {
        self.promise.take();
        self.changes.take();
        self.places.take();
        self.letters.take();
        self.writes.take();
        self.containers.take();
        self.log.take();
    }

    /// Releases the model's values before the engine ends.
    pub(super) fn let_go(&self) {
        self.let_go_of_run();
        self.methods.take();
    }
}

/// Identifies an object for as long as it is held.
fn address(value: &Value<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn check_rows(rows: &Value<'_>, rows_max: Option<u32>) -> std::result::Result<(), Refusal> {
    let Some(rows) = rows.as_array() else {
        return Err(Refusal { number: 500, message: "the answer to a query is no array".into() });
    };
    let max = rows_max.unwrap_or(QUERY_ROWS_MAX);
    if rows.len() <= max as usize {
        return Ok(());
    }
    let message = match rows_max {
        Some(max) => format!("the answer to a query has more than the {max} rows that it may have"),
        None => format!(
            "the query has more than {max} rows: give it a condition, or a 'max' to get only the first of them"
        ),
    };
    Err(Refusal { number: 413, message })
}
