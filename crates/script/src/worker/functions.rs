//! User-defined functions of one query: prepared once, called for batches of rows in one engine.

use std::io;

use rquickjs::{Ctx, Function, Persistent, Value};

use super::channel::Channel;
use super::confinement::Confinement;
use super::engine::{self, Engine, Spare};
use super::model;
use super::source::FunctionText;
use crate::protocol::{Failure, FailureKind, Order, Report};
use crate::settings::ScriptLimits;

type Prepared = Persistent<Function<'static>>;

/// Serves calls until the functions are released. An error is a broken stream or order.
pub(super) fn serve(
    definitions: &[(String, String)],
    limits: ScriptLimits,
    spare: Option<Spare>,
    channel: &mut Channel,
    confinement: &mut Confinement,
) -> io::Result<()> {
    let (engine, functions) = match prepare(definitions, limits, spare) {
        Ok(prepared) => prepared,
        Err(failure) => return channel.send(&Report::Failed { failure, spent: confinement.is_spent() }),
    };
    channel.send(&Report::Ready)?;
    loop {
        match channel.receive()? {
            Some(Order::Call { function, rows }) => {
                confinement.renew(&limits);
                engine.budget().renew();
                let results = call(&engine, functions.get(function as usize), &rows);
                channel.send(
                    &results.map_or_else(|failure| Report::Failed { failure, spent: false }, Report::Results),
                )?;
            }
            Some(Order::Release) => return channel.send(&released(confinement.is_spent())),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn released(spent: bool) -> Report {
    if !spent {
        return Report::Ready;
    }
    let failure = Failure { kind: FailureKind::Worker, message: "the worker has served long enough".into() };
    Report::Failed { failure, spent }
}

fn prepare(
    definitions: &[(String, String)],
    limits: ScriptLimits,
    spare: Option<Spare>,
) -> Result<(Engine, Vec<Prepared>), Failure> {
    let engine = Engine::new(spare, limits)?;
    let functions = engine.with(|ctx| {
        // There is nothing to print to, which is no reason to fail.
        ctx.globals().set("console", model::console(ctx, None)?)?;
        let compile = |(name, source): &(String, String)| {
            Ok(Persistent::save(ctx, engine::function(ctx, &FunctionText { name, source })?))
        };
        definitions.iter().map(compile).collect::<rquickjs::Result<Vec<_>>>()
    })?;
    Ok((engine, functions))
}

fn call(
    engine: &Engine,
    function: Option<&Prepared>,
    rows: &[Vec<Option<String>>],
) -> Result<Vec<Option<String>>, Failure> {
    let Some(function) = function else {
        return Err(Failure { kind: FailureKind::Worker, message: "there is no such function".into() });
    };
    engine.with(|ctx| {
        let function = function.clone().restore(ctx)?;
        rows.iter().map(|row| call_row(ctx, &function, row)).collect()
    })
}

fn call_row<'js>(
    ctx: &Ctx<'js>,
    function: &Function<'js>,
    row: &[Option<String>],
) -> rquickjs::Result<Option<String>> {
    let mut arguments = rquickjs::function::Args::new(ctx.clone(), row.len());
    for value in row {
        arguments.push_arg(match value {
            Some(json) => ctx.json_parse(json.as_str())?,
            None => Value::new_undefined(ctx.clone()),
        })?;
    }
    let result: Value = function.call_arg(arguments)?;
    ctx.json_stringify(result)?.map(|json| json.to_string()).transpose()
}
