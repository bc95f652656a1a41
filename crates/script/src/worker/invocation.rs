//! One run of a stored procedure or trigger: the object model is set up, the script is called, and then its
//! callbacks one after the other until no call of the data and no promise is left.

use std::io;
use std::rc::Rc;

use super::calls::Calls;
use super::channel::Channel;
use super::engine::{self, Engine, Spare};
use super::model::Model;
use super::source::FunctionText;
use crate::Completion;
use crate::protocol::{Failure, OrderedRole, RunOrder};

/// How a run ended, and the channel for the next order.
pub(super) struct Ended {
    pub(super) completion: Result<Completion, Failure>,
    /// What was printed before it failed, if that is to be kept.
    pub(super) failed_log: String,
    pub(super) channel: Channel,
    /// Dropped after the pool was told, which then has less to wait for.
    pub(super) engine: Option<Engine>,
}

/// An error is a broken channel.
pub(super) fn run(order: RunOrder, channel: Channel, spare: Option<Spare>) -> io::Result<Ended> {
    let engine = match Engine::new(spare, order.limits) {
        Ok(engine) => engine,
        Err(failure) => {
            return Ok(Ended { completion: Err(failure), failed_log: String::new(), channel, engine: None });
        }
    };
    let model = Model::new(&order, Calls::new(channel, Rc::clone(engine.budget()), order.foresees));
    let completion = complete(&engine, &order, &model);
    let failed_log = if completion.is_err() { model.printed() } else { String::new() };
    Ok(Ended { completion, failed_log, channel: model.end()?, engine: Some(engine) })
}

fn complete(engine: &Engine, order: &RunOrder, model: &Rc<Model>) -> Result<Completion, Failure> {
    engine.with(|ctx| {
        model.set_up(ctx)?;
        let script = engine::function(ctx, &FunctionText { name: &order.name, source: &order.source })?;
        model.start(ctx, script, order)
    })?;
    settle(engine, model)?;
    while let Some(reply) = model.next_answer() {
        engine.with(|ctx| model.deliver(ctx, reply))?;
        settle(engine, model)?;
    }
    Ok(model.completion(matches!(order.role, OrderedRole::PreTrigger { .. })))
}

/// After each turn: what promises left to do, and what they threw.
fn settle(engine: &Engine, model: &Model) -> Result<(), Failure> {
    engine.drain_jobs()?;
    engine.with(|ctx| model.settle(ctx))
}
