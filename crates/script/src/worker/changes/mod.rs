//! One run of a function over changes: it is called in an engine with its object model, and then its promises
//! are settled one after the other until it waits for none.

mod containers;
mod keys;
mod lines;
mod methods;
mod model;
mod reads;
mod state;
mod writes;

use std::io;
use std::rc::Rc;

use super::channel::Channel;
use super::engine::Engine;
use super::source::FunctionText;
use crate::protocol::{ChangesDone, ChangesOrder, Failure};
use reads::Reads;
use state::Model;

/// An engine for functions over changes.
pub(super) struct ForChanges {
    model: Rc<Model>,
    engine: Engine,
}

/// How a run ended, and the channel for the next order.
pub(super) struct Ended {
    pub(super) done: Result<ChangesDone, Failure>,
    pub(super) log: Vec<String>,
    pub(super) channel: Channel,
}

impl ForChanges {
    pub(super) fn new() -> Result<ForChanges, Failure> {
        let (engine, model) = Engine::new(Model::new, |model: &Rc<Model>| model.let_go_of_run())?;
        Ok(ForChanges { model, engine })
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// An error is a broken channel.
    pub(super) fn run(&self, order: &ChangesOrder, channel: Channel) -> io::Result<Ended> {
        let ForChanges { model, engine } = self;
        let text = FunctionText { name: &order.name, source: &order.source };
        engine.begin(order.limits, &[text]);
        let begun = model.begin(order, Reads::new(channel, Rc::clone(engine.budget())));
        let done = begun.and_then(|()| complete(engine, order, text, model));
        let log = model.printed();
        Ok(Ended { done, log, channel: model.end()? })
    }
}

impl Drop for ForChanges {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the model has released the values of the last run at its end.
        unsafe { self.engine.end_last() };
        self.model.let_go();
    }
}

fn complete(
    engine: &Engine,
    order: &ChangesOrder,
    text: FunctionText<'_>,
    model: &Model,
) -> Result<ChangesDone, Failure> {
    engine.rejections().watch();
    engine.with(|ctx| {
        engine.functions(ctx, &[text])?.into_iter().try_for_each(|function| model.start(ctx, function, order))
    })?;
    settle(engine, model)?;
    while let Some((waiting, answer)) = model.next_answer() {
        engine.with(|ctx| model.deliver(ctx, waiting, answer))?;
        settle(engine, model)?;
    }
    engine.with(|ctx| {
        let done = model.done(ctx)?;
        engine.rejections().check(ctx)?;
        Ok(done)
    })
}

/// Runs pending jobs of promises, and reports the function's error.
fn settle(engine: &Engine, model: &Model) -> Result<(), Failure> {
    engine.drain_jobs()?;
    engine.with(|ctx| model.check(ctx).map(drop))
}
