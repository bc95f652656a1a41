//! User-defined functions of one query: prepared once, called for batches of rows in one engine.

use std::io;
use std::time::Duration;

use rquickjs::{Ctx, Function, Persistent, Value};

use super::channel::Channel;
use super::confinement::{Confinement, processor_time};
use super::engine::{Engine, Host};
use super::model;
use super::source::FunctionText;
use crate::protocol::{Failure, FailureKind, Order, PORTION_TIME, Report, Used};
use crate::settings::ScriptLimits;

type Prepared = Persistent<Function<'static>>;

/// Serves calls until the functions are released. An error is a broken stream or order.
pub(super) fn serve(
    definitions: &[(String, String)],
    limits: ScriptLimits,
    engine: Result<&Engine, Failure>,
    channel: &mut Channel,
    confinement: &Confinement,
) -> io::Result<()> {
    let prepared = engine.and_then(|engine| {
        let texts: Vec<_> = definitions.iter().map(|(name, source)| FunctionText { name, source }).collect();
        engine.begin(limits, &texts);
        Ok((engine, prepare(&texts, engine)?))
    });
    let (engine, functions) = match prepared {
        Ok(prepared) => prepared,
        Err(failure) => return channel.send(&Report::Failed { failure, used: nothing(confinement) }),
    };
    channel.send(&Report::Ready)?;
    loop {
        match channel.receive()? {
            Some(Order::Call { function, time, rows }) => {
                let began = processor_time();
                confinement.renew(time);
                engine.budget().renew(time);
                let results = call(engine, functions.get(function as usize), &rows);
                let processor = processor_time().saturating_sub(began);
                channel.send(&match results {
                    Ok(values) => Report::Results { values, processor },
                    Err(failure) => Report::Failed { failure, used: Used { processor, is_spent: false } },
                })?;
            }
            Some(Order::Release) => return channel.send(&released(confinement)),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn nothing(confinement: &Confinement) -> Used {
    Used { processor: Duration::ZERO, is_spent: confinement.is_spent() }
}

fn released(confinement: &Confinement) -> Report {
    let used = nothing(confinement);
    if !used.is_spent {
        return Report::Ready;
    }
    let failure = Failure { kind: FailureKind::Worker, message: "the worker has served long enough".into() };
    Report::Failed { failure, used }
}

/// An engine for functions.
pub(super) fn engine() -> Result<Engine, Failure> {
    let prepare = |ctx: &Ctx<'_>, host: &Host| {
        model::number_errors(ctx, host)?;
        // Functions have no output; printing is ignored.
        ctx.globals().set("console", model::console(ctx, host, None)?)
    };
    let prepared = Engine::new(prepare, |()| ());
    prepared.map(|(engine, ())| engine)
}

fn prepare(texts: &[FunctionText<'_>], engine: &Engine) -> Result<Vec<Prepared>, Failure> {
    engine.with(|ctx| {
        let functions = engine.functions(ctx, texts)?;
        Ok(functions.into_iter().map(|function| Persistent::save(ctx, function)).collect())
    })
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
        let mut values = Vec::with_capacity(rows.len());
        for row in rows {
            values.push(call_row(ctx, &function, row)?);
            // Finished results are sent without waiting for the rest, so that they cannot be lost with it.
            if engine.budget().taken() >= PORTION_TIME {
                break;
            }
        }
        Ok(values)
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
