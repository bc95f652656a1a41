//! One run of a stored procedure or trigger: the object model is set up, the script is called, and then its
//! callbacks one after the other until no call of the data and no promise is left.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use rquickjs::context::EvalOptions;
use rquickjs::{Ctx, Function, Object, Persistent, Value};

use super::calls::Calls;
use super::channel::Channel;
use super::engine::{self, Engine};
use super::exception::OUR_FILE;
use super::source::FunctionText;
use crate::Completion;
use crate::protocol::{Failure, OrderedRole, RunOrder};
use crate::store::{StoreOperation, StoreReply, StoreRequest};

const CORE: &str = include_str!("../prelude/core.js");
const EXTENSION: &str = include_str!("../prelude/extension.js");

/// Added to the number of an operation: the document must bring its id.
const BRINGS_ID: usize = 16;

type Shared<T> = Rc<RefCell<T>>;

/// The channel comes back for the next order; an error is a broken channel.
pub(super) fn run(order: RunOrder, channel: Channel) -> io::Result<(Result<Completion, Failure>, Channel)> {
    let engine = match Engine::new(order.limits) {
        Ok(engine) => engine,
        Err(failure) => return Ok((Err(failure), channel)),
    };
    let calls = Rc::new(RefCell::new(Calls::new(channel, Rc::clone(engine.budget()))));
    let completion = complete(&engine, &order, &calls);
    drop(engine);
    let calls = Rc::into_inner(calls).expect("the engine held the only other references");
    Ok((completion, calls.into_inner().finish()?))
}

fn complete(engine: &Engine, order: &RunOrder, calls: &Shared<Calls>) -> Result<Completion, Failure> {
    let log = Rc::new(RefCell::new(Log { text: String::new(), bytes_max: order.limits.log_bytes_max }));
    let model = engine.with(|ctx| {
        let model = set_up(ctx, order, calls, &log)?;
        let script = engine::function(ctx, &FunctionText { name: &order.name, source: &order.source })?;
        let arguments = match &order.role {
            OrderedRole::Procedure { arguments } => arguments,
            OrderedRole::PreTrigger { .. } | OrderedRole::PostTrigger { .. } => "[]",
        };
        model.get::<_, Function>("start")?.call::<_, ()>((script, arguments))?;
        Model::of(ctx, &model)
    })?;
    settle(engine, &model)?;
    loop {
        let Some(reply) = calls.borrow_mut().next_answer() else { break };
        engine.with(|ctx| model.deliver(ctx, reply))?;
        settle(engine, &model)?;
    }
    let (response_body, request_body) = engine.with(|ctx| model.bodies(ctx))?;
    let log = std::mem::take(&mut log.borrow_mut().text);
    Ok(Completion { response_body, request_body, log })
}

/// After each turn: what promises left, and what they threw.
fn settle(engine: &Engine, model: &Model) -> Result<(), Failure> {
    engine.drain_jobs()?;
    engine.with(|ctx| model.settle.clone().restore(ctx)?.call::<_, ()>(()))
}

/// What the host calls of the object model.
struct Model {
    deliver: Persistent<Function<'static>>,
    settle: Persistent<Function<'static>>,
    response_body: Persistent<Function<'static>>,
    request_body: Persistent<Function<'static>>,
}

impl Model {
    fn of<'js>(ctx: &Ctx<'js>, model: &Object<'js>) -> rquickjs::Result<Model> {
        let function = |name: &str| -> rquickjs::Result<_> {
            Ok(Persistent::save(ctx, model.get::<_, Function>(name)?))
        };
        Ok(Model {
            deliver: function("deliver")?,
            settle: function("settle")?,
            response_body: function("responseBody")?,
            request_body: function("requestBody")?,
        })
    }

    fn deliver(&self, ctx: &Ctx<'_>, reply: StoreReply) -> rquickjs::Result<()> {
        let deliver = self.deliver.clone().restore(ctx)?;
        match reply.outcome {
            Ok(answer) => {
                let body = match answer.body {
                    Some(body) => ctx.json_parse(body)?,
                    None => Value::new_undefined(ctx.clone()),
                };
                deliver.call((true, 0, "", body, answer.continuation, answer.not_modified))
            }
            Err(failure) => {
                let (none, nothing) = (Value::new_undefined(ctx.clone()), None::<String>);
                deliver.call((false, failure.number, failure.message, none, nothing, false))
            }
        }
    }

    fn bodies(&self, ctx: &Ctx<'_>) -> rquickjs::Result<(Option<String>, Option<String>)> {
        let response_body = self.response_body.clone().restore(ctx)?.call(())?;
        Ok((response_body, self.request_body.clone().restore(ctx)?.call(())?))
    }
}

fn set_up<'js>(
    ctx: &Ctx<'js>,
    order: &RunOrder,
    calls: &Shared<Calls>,
    log: &Shared<Log>,
) -> rquickjs::Result<Object<'js>> {
    let core: Function = ctx.eval_with_options(CORE, ours())?;
    let host = Object::new(ctx.clone())?;
    let submitting = Rc::clone(calls);
    let call = move |operation: usize,
                     link: String,
                     body: Option<String>,
                     if_match: Option<String>,
                     if_none_match: Option<String>,
                     page_size: Option<f64>,
                     continuation: Option<String>| {
        submitting.borrow_mut().submit(StoreRequest {
            operation: StoreOperation::ALL[operation % BRINGS_ID],
            link,
            body,
            if_match,
            if_none_match,
            page_size: page_size.map(|size| size as i64),
            continuation,
            disables_id_generation: operation >= BRINGS_ID,
        })
    };
    host.set("call", Function::new(ctx.clone(), call)?)?;
    let logging = Rc::clone(log);
    host.set("log", Function::new(ctx.clone(), move |line: String| logging.borrow_mut().add(&line))?)?;
    let extension = |ctx: Ctx<'js>| ctx.eval_with_options::<Function, _>(EXTENSION, ours());
    host.set("extension", Function::new(ctx.clone(), extension)?)?;
    core.call((host, config(ctx, order)?))
}

fn config<'js>(ctx: &Ctx<'js>, order: &RunOrder) -> rquickjs::Result<Object<'js>> {
    let config = Object::new(ctx.clone())?;
    config.set("selfLink", order.self_link.as_str())?;
    config.set("altLink", order.alt_link.as_str())?;
    config.set("logs", order.logs)?;
    config.set("responseMax", order.limits.response_bytes_max as f64)?;
    match &order.role {
        OrderedRole::Procedure { .. } => config.set("role", "procedure")?,
        OrderedRole::PreTrigger { operation, request_body } => {
            config.set("role", "pre")?;
            config.set("operation", operation.as_str())?;
            config.set("requestBody", request_body.as_deref())?;
        }
        OrderedRole::PostTrigger { operation, request_body, response_body } => {
            config.set("role", "post")?;
            config.set("operation", operation.as_str())?;
            config.set("requestBody", request_body.as_deref())?;
            config.set("responseBody", response_body.as_deref())?;
        }
    }
    Ok(config)
}

fn ours() -> EvalOptions {
    let mut options = EvalOptions::default();
    options.filename = Some(OUR_FILE.to_owned());
    options
}

/// What the script printed, up to a maximum; what is past it is left out and said to be.
struct Log {
    text: String,
    bytes_max: usize,
}

const CUT: &str = "\n[the log was cut here]";

impl Log {
    fn add(&mut self, line: &str) {
        if self.text.ends_with(CUT) {
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let room = self.bytes_max.saturating_sub(self.text.len());
        if line.len() <= room {
            self.text.push_str(line);
        } else {
            self.text.push_str(&line[..line.floor_char_boundary(room)]);
            self.text.push_str(CUT);
        }
    }
}
