//! The worker's side: serves one order at a time from a socket until that ends.
//!
//! A worker has no files, no network and no environment to speak of; what it has is one socket and a processor. Nothing of an order
//! outlives it: the engine is dropped with all it allocated.

mod budget;
mod calls;
mod channel;
mod confinement;
mod engine;
mod exception;
mod functions;
mod invocation;
mod model;
mod source;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use crate::Completion;
use crate::protocol::{Failure, FailureKind, Order, Report};
use crate::settings::ScriptLimits;

use channel::Channel;
pub(crate) use confinement::Confinement;
use engine::{Engine, Spare};
use source::FunctionText;

/// Serves standard input, which is a socket, as a worker. For the `main` of the program that
/// [`crate::WorkerKind::Process`] names, before it starts anything else.
pub fn worker_main() -> ExitCode {
    let Ok(socket) = io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::FAILURE };
    match serve(UnixStream::from(socket), &mut Confinement::of_process()) {
        Ok(()) => ExitCode::SUCCESS,
        // The pool learns of it by the end of the stream.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Serves until the other side closes the stream. An error is a broken stream or order.
pub(crate) fn serve(stream: UnixStream, confinement: &mut Confinement) -> io::Result<()> {
    let mut channel = Channel::new(stream)?;
    let mut spare = None;
    while let Some(order) = channel.receive()? {
        let used = spare.take();
        match order {
            Order::Check { source } => {
                let limits = ScriptLimits::of_check();
                confinement.prepare(&limits);
                let checked = check(&source, limits, used);
                channel.send(&answer(checked.map(|()| Report::Ready), confinement.is_spent()))?;
            }
            Order::Run(run) => {
                confinement.prepare(&run.limits);
                let ended = invocation::run(run, channel, used)?;
                channel = ended.channel;
                channel.send(&completed(ended.completion, confinement.is_spent()))?;
                drop(ended.engine);
            }
            Order::Functions { definitions, limits } => {
                confinement.prepare(&limits);
                functions::serve(&definitions, limits, used, &mut channel, confinement)?;
            }
            Order::Call { .. } | Order::Release | Order::Reply(_) => {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        // Whoever waits for the answer has it already.
        spare = Spare::new();
    }
    Ok(())
}

fn completed(completion: Result<Completion, Failure>, spent: bool) -> Report {
    let completed = |Completion { response_body, request_body, log }| Report::Completed {
        response_body,
        request_body,
        log,
        spent,
    };
    answer(completion.map(completed), spent)
}

fn answer(outcome: Result<Report, Failure>, spent: bool) -> Report {
    outcome.unwrap_or_else(|failure| Report::Failed { failure, spent })
}

/// Refuses a text that is not one function.
fn check(source: &str, limits: ScriptLimits, spare: Option<Spare>) -> Result<(), Failure> {
    if source.contains('\0') {
        return Err(Failure {
            kind: FailureKind::Script,
            message: "a script has no character U+0000".into(),
        });
    }
    let text = FunctionText { name: "script", source };
    let engine = Engine::new(spare, limits)?;
    engine.with(|ctx| engine::function(ctx, &text).map(drop)).map_err(exception::of_check)
}
