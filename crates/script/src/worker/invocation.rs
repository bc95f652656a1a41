//! One run of a stored procedure or trigger: the script is called in an engine with the object model, and
//! then its callbacks one after the other until no data call and no promise is left.

use std::io;
use std::rc::Rc;

use super::calls::Calls;
use super::channel::Channel;
use super::engine::Engine;
use super::model::Model;
use super::source::FunctionText;
use crate::Completion;
use crate::protocol::{Failure, RunOrder};

/// An engine with the object model in it.
pub(super) struct ForRuns {
    model: Rc<Model>,
    engine: Engine,
}

/// How a run ended, and the channel for the next order.
pub(super) struct Ended {
    pub(super) completion: Result<Completion, Failure>,
    /// The output before a failure, if it is to be kept.
    pub(super) failed_log: String,
    pub(super) channel: Channel,
}

impl ForRuns {
    pub(super) fn new() -> Result<ForRuns, Failure> {
        let (engine, model) = Engine::new(Model::new, |model: &Rc<Model>| model.let_go_of_run())?;
        Ok(ForRuns { model, engine })
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// An error is a broken channel.
    pub(super) fn run(&self, order: RunOrder, channel: Channel) -> io::Result<Ended> {
        let ForRuns { model, engine } = self;
        let text = FunctionText { name: &order.name, source: &order.source };
        engine.begin(order.limits, &[text]);
        model.begin(&order, Calls::new(channel, Rc::clone(engine.budget()), order.foresees));
        let completion = complete(engine, &order, text, model);
        let failed_log = if completion.is_err() { model.printed() } else { String::new() };
        Ok(Ended { completion, failed_log, channel: model.end()? })
    }
}

impl Drop for ForRuns {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the model has released the values of the last run at its end.
        unsafe { self.engine.end_last() };
        self.model.let_go();
    }
}

fn complete(
    engine: &Engine,
    order: &RunOrder,
    text: FunctionText<'_>,
    model: &Model,
) -> Result<Completion, Failure> {
    engine.with(|ctx| {
        engine.functions(ctx, &[text])?.into_iter().try_for_each(|script| model.start(ctx, script, order))
    })?;
    settle(engine, model)?;
    while let Some(reply) = model.next_answer() {
        engine.with(|ctx| model.deliver(ctx, reply))?;
        settle(engine, model)?;
    }
    engine.with(|ctx| model.completion(ctx))
}

/// After each turn: runs pending jobs of promises, and reports their errors.
fn settle(engine: &Engine, model: &Model) -> Result<(), Failure> {
    engine.drain_jobs()?;
    engine.with(|ctx| model.settle(ctx))
}
