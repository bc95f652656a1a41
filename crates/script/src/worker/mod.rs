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

use crate::protocol::{Failure, FailureKind, Order, Report};
use crate::settings::ScriptLimits;

use channel::Channel;
pub(crate) use confinement::Confinement;
use engine::Engine;
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
    while let Some(order) = channel.receive()? {
        match order {
            Order::Check { source } => {
                let limits = ScriptLimits::default();
                confinement.prepare(&limits);
                let checked = check(&source, limits);
                channel.send(&answer(checked.map(|()| Report::Ready), confinement.is_spent()))?;
            }
            Order::Run(run) => {
                confinement.prepare(&run.limits);
                let (completed, returned) = invocation::run(run, channel)?;
                channel = returned;
                let spent = confinement.is_spent();
                channel.send(&match completed {
                    Ok(completion) => Report::Completed {
                        response_body: completion.response_body,
                        request_body: completion.request_body,
                        log: completion.log,
                        spent,
                    },
                    Err(failure) => Report::Failed { failure, spent },
                })?;
            }
            Order::Functions { definitions, limits } => {
                confinement.prepare(&limits);
                functions::serve(&definitions, limits, &mut channel, confinement)?;
            }
            Order::Call { .. } | Order::Release | Order::Reply(_) => {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
    Ok(())
}

fn answer(outcome: Result<Report, Failure>, spent: bool) -> Report {
    outcome.unwrap_or_else(|failure| Report::Failed { failure, spent })
}

/// Refuses a text that is not one function.
fn check(source: &str, limits: ScriptLimits) -> Result<(), Failure> {
    if source.contains('\0') {
        return Err(Failure {
            kind: FailureKind::Script,
            message: "a script has no character U+0000".into(),
        });
    }
    let text = FunctionText { name: "script", source };
    let engine = Engine::new(limits)?;
    engine.with(|ctx| engine::function(ctx, &text).map(drop))
}
