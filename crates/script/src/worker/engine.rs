//! A JavaScript engine with its limits set, as new for each order.
//!
//! Every order finds the engine in its original state (functions of a query share one order), so no global,
//! prototype or symbol can pass from one order to the next. The engine is made once, with the host's
//! additions, and its memory is restored after each order (`heap.rs`). The engine bounds its memory and its
//! stack by itself and asks the budget regularly. It cannot interrupt its own built-in functions, which is
//! why workers are processes that can be killed.

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
use super::rejections::Rejections;
use super::source::{self, FunctionText, Shape};
use crate::protocol::{Failure, FailureKind};
use crate::settings::ScriptLimits;

/// Memory for error messages.
const TELLING_BYTES: usize = 8 << 20;

/// The fields are dropped in this order: holders of engine values first, then the engine.
pub(super) struct Engine {
    host: Host,
    context: Context,
    runtime: Runtime,
    heap: Heap,
    /// The engine's original state.
    image: Image,
    images: RefCell<Images>,
    /// The number of the image that is in memory, or that an order has begun with; `None` for the engine's
    /// original state.
    number: Cell<Option<u64>>,
    /// Whether an order has begun since.
    is_used: Cell<bool>,
    /// Releases the state of an order, above all values of the engine.
    let_go: Box<dyn Fn()>,
    /// The random numbers of the order.
    random: Rc<RefCell<Option<Random>>>,
    budget: Rc<Budget>,
    rejections: Rc<Rejections>,
}

/// The functions of the host, held for as long as the engine lives. A function that a script releases would
/// otherwise be freed, and exist again when the memory of the engine is restored. So functions of the host
/// are made only here, and before an order.
#[derive(Default)]
pub(super) struct Host {
    functions: RefCell<Vec<Persistent<Function<'static>>>>,
    /// The engine's own `Function.prototype.toString`, which scripts may replace.
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
                // The end of a budget is caught, too: the next shape fails with it again.
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
        // SAFETY: the order has ended, or was abandoned with all its values.
        unsafe { self.end_last() };
    }
}

impl Engine {
    /// An engine with the additions of `prepare`. Values of the engine in the result of `prepare` live as
    /// long as the engine. After each order `let_go` is called with that result to release the state of the
    /// order.
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
        // Of unhandled rejections only lack of memory ends every order.
        let told = Rc::clone(&budget);
        let rejections = Rc::new(Rejections::default());
        let noted = Rc::clone(&rejections);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(
            move |ctx, promise, reason, is_handled| {
                noted.note(&ctx, &promise, &reason, is_handled);
                if exception::is_out_of_memory(&ctx, &reason) {
                    told.memory_was_short(is_handled);
                }
            },
        )));
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
            rejections,
        };
        Ok((engine, prepared))
    }

    /// Begins an order that runs these texts. Orders do not overlap: [`Engine::end`] is called between them.
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

    /// Sets the limits of the engine on its memory and stack.
    fn limit(&self, limits: ScriptLimits) {
        self.runtime.set_memory_limit(limits.memory_bytes_max);
        self.runtime.set_max_stack_size(limits.stack_bytes_max);
    }

    /// Makes an image that contains the functions of these texts. If the engine prints a text as a function
    /// ([`FunctionText::is`]), no part of the text runs while it is compiled. A part that ran would see no
    /// data of a run and no image of another script.
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

    /// Ends an order, if one has begun, and restores the engine.
    ///
    /// # Safety
    ///
    /// No values of the engine that were made during the order are held.
    #[allow(unsafe_code)]
    pub(super) unsafe fn end(&self) {
        if self.is_used.replace(false) {
            self.put_back(self.number.get());
        }
    }

    /// Restores the original state before the engine is freed.
    ///
    /// # Safety
    ///
    /// The same as for [`Engine::end`].
    #[allow(unsafe_code)]
    pub(super) unsafe fn end_last(&self) {
        if self.is_used.replace(false) || self.number.get().is_some() {
            self.put_back(None);
        }
    }

    /// Restores an image, between orders or before anything was done in one.
    #[allow(unsafe_code)]
    fn put_back(&self, number: Option<u64>) {
        (self.let_go)();
        self.rejections.end();
        self.random.take();
        let images = self.images.borrow();
        let compiled = number.and_then(|number| images.get(number));
        self.number.set(number.filter(|_| compiled.is_some()));
        let image = compiled.map_or(&self.image, |compiled| &compiled.image);
        // SAFETY: between orders no value of an order is held: callers of `end` promise it. The functions of
        // images are not released. Of our objects, the engine frees only functions of the host; these were
        // made before any image, and are held.
        unsafe { self.heap.put_back(image) };
    }

    /// Rejected promises without a handler.
    pub(super) fn rejections(&self) -> &Rejections {
        &self.rejections
    }

    pub(super) fn budget(&self) -> &Rc<Budget> {
        &self.budget
    }

    /// Runs `work` inside the engine. A thrown error becomes a failure that describes it.
    pub(super) fn with<T>(
        &self,
        work: impl for<'js> FnOnce(&Ctx<'js>) -> rquickjs::Result<T>,
    ) -> Result<T, Failure> {
        let outcome = self.context.with(|ctx| work(&ctx));
        outcome.map_err(|error| {
            let memory_bytes_max = self.budget.limits().memory_bytes_max;
            // The message must not fail for the same reason as the script.
            self.runtime.set_memory_limit(memory_bytes_max + TELLING_BYTES);
            let failure = self.context.with(|ctx| exception::failure(&ctx, &self.budget, error));
            self.runtime.set_memory_limit(memory_bytes_max);
            failure
        })
    }

    /// Runs the pending jobs of promises, until none is left.
    pub(super) fn drain_jobs(&self) -> Result<(), Failure> {
        while self.runtime.is_job_pending() {
            if let Err(thrown) = self.runtime.execute_pending_job() {
                // Promises carry the errors of scripts; only lack of memory is reported here.
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

/// The engine's own sequence would begin anew whenever its memory is restored. Each order that needs random
/// numbers has its own sequence, which does not reveal any other.
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

/// The member of the object that holds a method; of several members the last. The check of the text then
/// finds the others.
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
