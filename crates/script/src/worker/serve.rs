//! Serves orders from a socket, one at a time.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use super::changes::ForChanges;
use super::channel::Channel;
use super::confinement::{Confinement, processor_time};
use super::engine::Engine;
use super::invocation::ForRuns;
use super::sandbox::confine;
use super::source::FunctionText;
use super::{exception, functions};
use crate::Completion;
use crate::confined::Confined;
use crate::protocol::{Failure, FailureKind, Order, Report, Used};
use crate::settings::ScriptLimits;

/// Serves standard input, which is a socket, as a worker. For the `main` of the program that
/// [`crate::WorkerKind::Process`] names, before it starts anything else.
pub fn worker_main() -> ExitCode {
    let Ok(socket) = io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::FAILURE };
    let Ok(channel) = Channel::new(UnixStream::from(socket)) else { return ExitCode::FAILURE };
    let confinement = Confinement::of_process();
    // Libraries have read the files that they need once; everything that has to be opened is open.
    processor_time();
    match serve(channel, confinement, confine()) {
        Ok(()) => ExitCode::SUCCESS,
        // The pool learns of it by the end of the stream.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Serves on a thread of the server, without confinement.
pub(crate) fn serve_on_thread(stream: UnixStream) -> io::Result<()> {
    serve(Channel::new(stream)?, Confinement::of_thread(), Confined::default())
}

/// Serves until the pool closes the stream. An error means a broken stream or an invalid order.
fn serve(mut channel: Channel, mut confinement: Confinement, confined: Confined) -> io::Result<()> {
    channel.send(&Report::Confined(confined))?;
    let mut engines = Engines::default();
    while let Some(order) = channel.receive()? {
        let began = processor_time();
        let used = |confinement: &Confinement| Used {
            processor: processor_time().saturating_sub(began),
            is_spent: confinement.is_spent(),
        };
        match order {
            Order::Check { source } => {
                let limits = ScriptLimits::of_check();
                confinement.prepare(&limits);
                let checked = engines.for_functions().and_then(|engine| {
                    engine.begin(limits, &[]);
                    check(&source, engine).map(|()| Completion::default())
                });
                channel.send(&completed(checked, used(&confinement)))?;
            }
            Order::Run(run) => {
                confinement.prepare(&run.limits);
                match engines.for_runs() {
                    Ok(engine) => {
                        let ended = engine.run(run, channel)?;
                        channel = ended.channel;
                        if !ended.failed_log.is_empty() {
                            channel.send(&Report::Log(ended.failed_log))?;
                        }
                        channel.send(&completed(ended.completion, used(&confinement)))?;
                    }
                    Err(failure) => channel.send(&completed(Err(failure), used(&confinement)))?,
                }
            }
            Order::Functions { definitions, limits } => {
                confinement.prepare(&limits);
                functions::serve(&definitions, limits, engines.for_functions(), &mut channel, &confinement)?;
            }
            Order::Changes(order) => {
                confinement.prepare(&order.limits);
                match engines.for_changes() {
                    Ok(engine) => {
                        let ended = engine.run(&order, channel)?;
                        channel = ended.channel;
                        let (ended, log) = (ended.done, ended.log);
                        channel.send(&Report::Changes { ended, log, used: used(&confinement) })?;
                    }
                    Err(failure) => {
                        let (ended, log) = (Err(failure), Vec::new());
                        channel.send(&Report::Changes { ended, log, used: used(&confinement) })?;
                    }
                }
            }
            Order::Call { .. } | Order::Release | Order::Reply(_) | Order::Answer(_) => {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        // The answer has been sent, so restoring the engines delays no client.
        engines.end_order();
    }
    Ok(())
}

/// The engines of a worker, each made when it is first needed.
#[derive(Default)]
struct Engines {
    runs: Option<ForRuns>,
    functions: Option<Engine>,
    changes: Option<ForChanges>,
}

impl Engines {
    fn for_runs(&mut self) -> Result<&ForRuns, Failure> {
        if self.runs.is_none() {
            self.runs = Some(ForRuns::new()?);
        }
        Ok(self.runs.as_ref().expect("it was made"))
    }

    fn for_functions(&mut self) -> Result<&Engine, Failure> {
        if self.functions.is_none() {
            self.functions = Some(functions::engine()?);
        }
        Ok(self.functions.as_ref().expect("it was made"))
    }

    fn for_changes(&mut self) -> Result<&ForChanges, Failure> {
        if self.changes.is_none() {
            self.changes = Some(ForChanges::new()?);
        }
        Ok(self.changes.as_ref().expect("it was made"))
    }

    /// Restores all engines.
    #[allow(unsafe_code)]
    fn end_order(&self) {
        let others = self.functions.iter().chain(self.changes.iter().map(ForChanges::engine));
        for engine in self.runs.iter().map(ForRuns::engine).chain(others) {
            // SAFETY: the values of an order were dropped with it, and the models have released those of the
            // run.
            unsafe { engine.end() };
        }
    }
}

fn completed(completion: Result<Completion, Failure>, used: Used) -> Report {
    match completion {
        Ok(Completion { response_body, request_body, log }) => {
            Report::Completed { response_body, request_body, log, used }
        }
        Err(failure) => Report::Failed { failure, used },
    }
}

/// Refuses a text without an entry.
fn check(source: &str, engine: &Engine) -> Result<(), Failure> {
    if source.contains('\0') {
        return Err(Failure {
            kind: FailureKind::Script,
            message: "a script has no character U+0000".into(),
        });
    }
    let text = FunctionText { name: "script", source };
    engine.with(|ctx| engine.evaluate(ctx, &text)).map_err(exception::of_check)
}
