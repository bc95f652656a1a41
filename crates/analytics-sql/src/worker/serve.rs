//! Orders from the socket, answers to it.
//!
//! One thread reads the socket, so that a worker ends at once when its server has ended or has dropped it, also in the middle of a query.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::mpsc;

use super::confinement;
use super::run;
use crate::protocol::{Failure, FailureKind, Message};
use crate::table::Footers;

/// Planning recurses with the depth of a statement. The memory is reserved, not used.
const STACK_BYTES: usize = 64 << 20;

/// Serves the socket that is this process's standard input.
pub fn worker_main() -> ExitCode {
    confinement::confine();
    let served = std::thread::Builder::new().name("sql".into()).stack_size(STACK_BYTES).spawn(serve);
    match served.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(()))) => ExitCode::SUCCESS,
        // The server learns of it by the end of the stream.
        _ => ExitCode::FAILURE,
    }
}

fn serve() -> io::Result<()> {
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (sender, orders) = mpsc::sync_channel(4);
    let mut incoming = socket.try_clone()?;
    std::thread::Builder::new().name("orders".into()).spawn(move || {
        while let Ok(Some(message)) = Message::read(&mut incoming) {
            if sender.send(message).is_err() {
                break;
            }
        }
        // A query that runs returns to no caller.
        #[allow(clippy::disallowed_methods)]
        std::process::exit(0);
    })?;
    let footers = Footers::default();
    while let Ok(message) = orders.recv() {
        let Message::Order(order) = message else { return Err(io::ErrorKind::InvalidData.into()) };
        let order = order.decode()?;
        confinement::prepare(&order.limits);
        let ran = std::panic::catch_unwind(AssertUnwindSafe(|| match order.names_only {
            true => run::names(&order, &footers).map(Message::Names),
            false => {
                run::run(&order, &footers, &mut socket).map(|(last, figures)| Message::End(last, figures))
            }
        }));
        let is_defect = ran.is_err();
        let ended = match ran {
            Ok(Ok(ended)) => ended,
            Ok(Err(failure)) => Message::Failed(failure),
            Err(_) => Message::Failed(Failure::new(
                FailureKind::Internal,
                "the query engine has a defect with this statement: write it in another way, and report it",
            )),
        };
        ended.send(&mut socket)?;
        if is_defect {
            return Err(io::Error::other("a defect"));
        }
    }
    Ok(())
}
