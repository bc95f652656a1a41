//! A fresh JavaScript engine with its limits set.
//!
//! Every order gets an engine of its own (functions of a query share one), so nothing can pass from one to the next: no
//! global, no prototype, no symbol. The engine bounds its memory and its stack by itself and asks the budget regularly;
//! what it cannot do is interrupt its own built-in functions, which is why workers are processes that can be killed.

use std::rc::Rc;

use rquickjs::context::EvalOptions;
use rquickjs::{Context, Ctx, Function, Runtime, Value};

use super::budget::Budget;
use super::exception;
use super::source::{self, FunctionText};
use crate::protocol::{Failure, FailureKind};
use crate::settings::ScriptLimits;

/// Memory for telling what went wrong.
const TELLING_BYTES: usize = 8 << 20;

pub(super) struct Engine {
    runtime: Runtime,
    context: Context,
    budget: Rc<Budget>,
}

/// An engine that nothing has run in, made while the worker had nothing else to do.
pub(super) struct Spare {
    runtime: Runtime,
    context: Context,
}

impl Spare {
    pub(super) fn new() -> Option<Spare> {
        let runtime = Runtime::new().ok()?;
        let context = Context::full(&runtime).ok()?;
        Some(Spare { runtime, context })
    }
}

impl Engine {
    pub(super) fn new(spare: Option<Spare>, limits: ScriptLimits) -> Result<Engine, Failure> {
        let Spare { runtime, context } = spare.or_else(Spare::new).ok_or_else(no_engine)?;
        runtime.set_memory_limit(limits.memory_bytes_max);
        runtime.set_max_stack_size(limits.stack_bytes_max);
        let budget = Rc::new(Budget::new(limits));
        let polled = Rc::clone(&budget);
        runtime.set_interrupt_handler(Some(Box::new(move || polled.poll())));
        // Promises that nobody looks at may fail in silence, but not for want of memory.
        let told = Rc::clone(&budget);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(move |ctx, _, reason, is_handled| {
            if exception::is_out_of_memory(&ctx, &reason) {
                told.memory_was_short(is_handled);
            }
        })));
        Ok(Engine { runtime, context, budget })
    }

    pub(super) fn budget(&self) -> &Rc<Budget> {
        &self.budget
    }

    /// Runs `work` inside the engine. What it cannot do because something was thrown becomes a failure that says so.
    pub(super) fn with<T>(
        &self,
        work: impl for<'js> FnOnce(&Ctx<'js>) -> rquickjs::Result<T>,
    ) -> Result<T, Failure> {
        let outcome = self.context.with(|ctx| work(&ctx));
        outcome.map_err(|error| {
            let memory_bytes_max = self.budget.limits().memory_bytes_max;
            // Telling what happened must not fail for the reason it happened for.
            self.runtime.set_memory_limit(memory_bytes_max + TELLING_BYTES);
            let failure = self.context.with(|ctx| exception::failure(&ctx, &self.budget, error));
            self.runtime.set_memory_limit(memory_bytes_max);
            failure
        })
    }

    /// Runs what promises left to do, until nothing is left.
    pub(super) fn drain_jobs(&self) -> Result<(), Failure> {
        while self.runtime.is_job_pending() {
            if let Err(thrown) = self.runtime.execute_pending_job() {
                // Promises carry what scripts throw: here is what there was no memory to carry.
                let is_memory = thrown.0.with(|ctx| exception::is_out_of_memory(&ctx, &ctx.catch()));
                if is_memory {
                    self.budget.memory_was_short(false);
                }
            }
            if self.budget.is_spent() {
                break;
            }
        }
        self.budget.failure().map_or(Ok(()), Err)
    }
}

/// Evaluates an expression that is a function. The text was looked at before: what is wrong is thrown.
pub(super) fn function<'js>(ctx: &Ctx<'js>, text: &FunctionText<'_>) -> rquickjs::Result<Function<'js>> {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(text.file_name());
    let value: Value = ctx.eval_with_options(text.expression(), options)?;
    let value = if text.is_method() { only_member(value)? } else { value };
    let Some(function) = value.as_function() else {
        return Err(rquickjs::Exception::throw_syntax(ctx, source::NOT_ONE_FUNCTION));
    };
    // Asked of the engine and not of the function, which may bring a `toString` of its own.
    let print: Function = Function::prototype(ctx.clone()).get("toString")?;
    let printed: String = print.call((rquickjs::function::This(value.clone()),))?;
    if !text.is_just(&printed) {
        return Err(rquickjs::Exception::throw_syntax(ctx, source::NOT_ONE_FUNCTION));
    }
    Ok(function.clone())
}

/// Of the object that a method was put into; of several the last, and the text will tell that there are others.
fn only_member<'js>(holder: Value<'js>) -> rquickjs::Result<Value<'js>> {
    match holder.as_object().and_then(|object| object.values::<Value<'_>>().last()) {
        Some(member) => member,
        None => Ok(holder),
    }
}

fn no_engine() -> Failure {
    Failure {
        kind: FailureKind::Worker,
        message: "the script engine cannot start: there is no memory".into(),
    }
}
