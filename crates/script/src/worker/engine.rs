//! A JavaScript engine with its limits set, as new for each order.
//!
//! Every order finds the engine as it was when it was made (functions of a query share one order), so nothing can pass from one to the next: no
//! global, no prototype, no symbol. It is made once, with what the host adds to it, and its memory is put back after each order (`heap.rs`). The
//! engine bounds its memory and its stack by itself and asks the budget regularly; what it cannot do is interrupt its own built-in
//! functions, which is why workers are processes that can be killed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rquickjs::context::EvalOptions;
use rquickjs::function::{IntoJsFunc, This};
use rquickjs::object::Property;
use rquickjs::{Context, Ctx, Function, Object, Persistent, Runtime, Value};
use shardlake_stdx::Random;

use super::budget::Budget;
use super::exception;
use super::heap::{Heap, Image};
use super::images::{Images, Texts};
use super::source::{self, FunctionText, Shape};
use crate::protocol::{Failure, FailureKind};
use crate::settings::ScriptLimits;

/// Memory for telling what went wrong.
const TELLING_BYTES: usize = 8 << 20;

/// Let go of in this order: what it holds of the engine, then the engine.
pub(super) struct Engine {
    host: Host,
    context: Context,
    runtime: Runtime,
    heap: Heap,
    /// Of the engine as it was made.
    image: Image,
    images: RefCell<Images>,
    /// The number of the image that is in memory, or that an order has begun with; none is that of the engine as it was made.
    number: Cell<Option<u64>>,
    /// An order has begun since.
    is_used: Cell<bool>,
    /// Has what is of the order let go of, values of the engine above all.
    let_go: Box<dyn Fn()>,
    /// Of the order's random numbers.
    random: Rc<RefCell<Option<Random>>>,
    budget: Rc<Budget>,
}

/// The functions of the host, held for as long as the engine lives: one that a script has let go of would be freed, and be there again
/// when the memory of the engine is put back. So a function of the host is made here and nowhere else, and before an order.
#[derive(Default)]
pub(super) struct Host {
    functions: RefCell<Vec<Persistent<Function<'static>>>>,
    /// The engine's own `Function.prototype.toString`, whatever a script makes of that.
    print: RefCell<Option<Persistent<Function<'static>>>>,
}

impl Host {
    pub(super) fn function<'js, P>(
        &self,
        ctx: &Ctx<'js>,
        function: impl IntoJsFunc<'js, P> + 'js,
    ) -> rquickjs::Result<Function<'js>> {
        let function = Function::new(ctx.clone(), function)?;
        self.functions.borrow_mut().push(Persistent::save(ctx, function.clone()));
        Ok(function)
    }

    /// The text of a function.
    fn print<'js>(&self, ctx: &Ctx<'js>, function: &Value<'js>) -> rquickjs::Result<String> {
        let print = self.print.borrow().clone().ok_or(rquickjs::Error::Unknown)?;
        print.restore(ctx)?.call((This(function.clone()),))
    }

    /// Evaluates a text as a function, and throws the text's errors.
    fn evaluate<'js>(&self, ctx: &Ctx<'js>, text: &FunctionText<'_>) -> rquickjs::Result<Function<'js>> {
        let mut shapes = text.shapes();
        let last = shapes.pop().ok_or(rquickjs::Error::Unknown)?;
        for shape in shapes {
            match self.evaluate_as(ctx, text, shape) {
                Ok(function) => return Ok(function),
                // The end of a budget is caught, too: the next shape meets it again.
                Err(rquickjs::Error::Exception) => drop(ctx.catch()),
                Err(error) => return Err(error),
            }
        }
        self.evaluate_as(ctx, text, last)
    }

    fn evaluate_as<'js>(
        &self,
        ctx: &Ctx<'js>,
        text: &FunctionText<'_>,
        shape: Shape<'_>,
    ) -> rquickjs::Result<Function<'js>> {
        let mut options = EvalOptions::default();
        options.strict = false;
        options.filename = Some(text.file_name());
        let value: Value = ctx.eval_with_options(text.expression(shape), options)?;
        let value = if shape == Shape::Method { only_member(value)? } else { value };
        let Some(function) = value.as_function() else {
            return Err(rquickjs::Exception::throw_syntax(ctx, source::NOT_A_FUNCTION));
        };
        if !text.is(shape, &self.print(ctx, &value)?) {
            return Err(rquickjs::Exception::throw_syntax(ctx, source::NOT_A_FUNCTION));
        }
        Ok(function.clone())
    }
}

impl Drop for Engine {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the order is over, or was given up with all it held.
        unsafe { self.end_last() };
    }
}

impl Engine {
    /// With what `prepare` adds to it, and with that which `prepare` returns, whose values of the engine live as long as it does. `let_go` is called
    /// with it behind each order, and has what is of the order let go of.
    pub(super) fn new<T: Clone + 'static>(
        prepare: impl for<'js> FnOnce(&Ctx<'js>, &Host) -> rquickjs::Result<T>,
        let_go: impl Fn(&T) + 'static,
    ) -> Result<(Engine, T), Failure> {
        let heap = Heap::new().ok_or_else(no_engine)?;
        let runtime = Runtime::new_with_alloc(heap.clone()).map_err(|_| no_engine())?;
        let context = Context::full(&runtime).map_err(|_| no_engine())?;
        let budget = Rc::new(Budget::new(ScriptLimits::default()));
        let polled = Rc::clone(&budget);
        runtime.set_interrupt_handler(Some(Box::new(move || polled.poll())));
        // Promises that nobody looks at may fail in silence, but not for want of memory.
        let told = Rc::clone(&budget);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(move |ctx, _, reason, is_handled| {
            if exception::is_out_of_memory(&ctx, &reason) {
                told.memory_was_short(is_handled);
            }
        })));
        let (host, random) = (Host::default(), Rc::default());
        let prepared = context.with(|ctx| {
            let print: Function = Function::prototype(ctx.clone()).get("toString")?;
            host.print.replace(Some(Persistent::save(&ctx, print)));
            own_random(&ctx, &host, &random)?;
            prepare(&ctx, &host)
        });
        let prepared = prepared.map_err(|_| no_engine())?;
        runtime.run_gc();
        let image = heap.keep();
        let of_order = prepared.clone();
        let engine = Engine {
            host,
            context,
            runtime,
            heap,
            image,
            images: RefCell::default(),
            number: Cell::default(),
            is_used: Cell::default(),
            let_go: Box::new(move || let_go(&of_order)),
            random,
            budget,
        };
        Ok((engine, prepared))
    }

    /// Before an order that runs these texts. One comes after the other: [`Engine::end`] is between them.
    pub(super) fn begin(&self, limits: ScriptLimits, texts: &Texts<'_>) {
        debug_assert!(!self.is_used.get(), "one order after the other");
        let found = self.images.borrow_mut().find(texts);
        if found != self.number.get() {
            self.put_back(found);
        }
        self.is_used.set(true);
        self.budget.begin(limits);
        self.limit(limits);
        if found.is_none() && self.images.borrow_mut().is_worth(texts) {
            self.compile(texts);
            self.limit(limits);
        }
    }

    /// What the engine keeps in the memory that is put back.
    fn limit(&self, limits: ScriptLimits) {
        self.runtime.set_memory_limit(limits.memory_bytes_max);
        self.runtime.set_max_stack_size(limits.stack_bytes_max);
    }

    /// Makes an image that has the functions of these texts. No part of a text that [`FunctionText::is`] a function, as the engine itself prints it,
    /// runs while it is compiled. If some part did, it would see no data of a run and no image of another script.
    fn compile(&self, texts: &Texts<'_>) {
        self.heap.open();
        let made = self.context.with(|ctx| {
            let save = |text| Ok(Persistent::save(&ctx, self.host.evaluate(&ctx, text)?));
            texts.iter().map(save).collect::<rquickjs::Result<Vec<_>>>()
        });
        match made {
            Ok(functions) if self.budget.failure().is_none() => {
                (self.let_go)();
                let image = self.heap.keep();
                self.number.set(Some(self.images.borrow_mut().add(texts, image, functions)));
            }
            failed => {
                drop(failed);
                self.images.borrow_mut().give_up(texts);
                self.put_back(None);
            }
        }
    }

    /// The functions of the texts that the order has begun with.
    pub(super) fn functions<'js>(
        &self,
        ctx: &Ctx<'js>,
        texts: &Texts<'_>,
    ) -> rquickjs::Result<Vec<Function<'js>>> {
        if let Some(number) = self.number.get()
            && let Some(compiled) = self.images.borrow().get(number)
        {
            return compiled.functions(ctx);
        }
        let functions =
            texts.iter().map(|text| self.host.evaluate(ctx, text)).collect::<rquickjs::Result<_>>()?;
        self.images.borrow_mut().note(texts);
        Ok(functions)
    }

    /// Whether a text is a function.
    pub(super) fn evaluate(&self, ctx: &Ctx<'_>, text: &FunctionText<'_>) -> rquickjs::Result<()> {
        self.host.evaluate(ctx, text).map(drop)
    }

    /// After an order, if there was one: the engine is as new.
    ///
    /// # Safety
    ///
    /// Values of the engine that were made during the order are held no more.
    #[allow(unsafe_code)]
    pub(super) unsafe fn end(&self) {
        if self.is_used.replace(false) {
            self.put_back(self.number.get());
        }
    }

    /// Before the engine ends: it is freed as it was made.
    ///
    /// # Safety
    ///
    /// As for [`Engine::end`].
    #[allow(unsafe_code)]
    pub(super) unsafe fn end_last(&self) {
        if self.is_used.replace(false) || self.number.get().is_some() {
            self.put_back(None);
        }
    }

    /// Between orders, or before anything was done in one.
    #[allow(unsafe_code)]
    fn put_back(&self, number: Option<u64>) {
        (self.let_go)();
        self.random.take();
        let images = self.images.borrow();
        let compiled = number.and_then(|number| images.get(number));
        self.number.set(number.filter(|_| compiled.is_some()));
        let image = compiled.map_or(&self.image, |compiled| &compiled.image);
        // SAFETY: between orders nobody holds a value that was made in one: who calls `end` says so. The functions of images are not let go of.
        // What the engine frees with its objects is the functions of the host, and nothing else that is ours; these were made before
        // any image, and are held.
        unsafe { self.heap.put_back(image) };
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

/// The engine's own sequence would begin anew whenever its memory is put back. Each order that asks for one has a sequence of its own, of which
/// no other can be told.
fn own_random(ctx: &Ctx<'_>, host: &Host, sequence: &Rc<RefCell<Option<Random>>>) -> rquickjs::Result<()> {
    const MANTISSA: f64 = (1_u64 << 53) as f64;
    let sequence = Rc::clone(sequence);
    let next = move || {
        let mut sequence = sequence.borrow_mut();
        let random = sequence.get_or_insert_with(|| Random::seeded(Random::System.u64()));
        (random.u64() >> 11) as f64 / MANTISSA
    };
    let next = host.function(ctx, next)?.with_name("random")?;
    let math: Object = ctx.globals().get("Math")?;
    math.prop("random", Property::from(next).writable().configurable())
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
