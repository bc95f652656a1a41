//! One run of a stored procedure or trigger: the object model is set up, the script is called, and then its
//! callbacks one after the other until no call of the data and no promise is left.

use std::io;
use std::rc::Rc;

use super::calls::Calls;
use super::channel::Channel;
use super::engine::{self, Engine};
use super::model::Model;
use super::source::FunctionText;
use crate::Completion;
use crate::protocol::{Failure, OrderedRole, RunOrder};

/// The channel comes back for the next order; an error is a broken channel.
pub(super) fn run(order: RunOrder, channel: Channel) -> io::Result<(Result<Completion, Failure>, Channel)> {
    let engine = match Engine::new(order.limits) {
        Ok(engine) => engine,
        Err(failure) => return Ok((Err(failure), channel)),
    };
    let model = Model::new(&order, Calls::new(channel, Rc::clone(engine.budget())));
    let completion = complete(&engine, &order, &model);
    model.clear();
    drop(engine);
    let model = Rc::into_inner(model).expect("the engine held the only other references");
    Ok((completion, model.into_calls().finish()?))
}

fn complete(engine: &Engine, order: &RunOrder, model: &Rc<Model>) -> Result<Completion, Failure> {
    engine.with(|ctx| {
        model.set_up(ctx, order)?;
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
