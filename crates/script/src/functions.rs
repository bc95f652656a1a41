//! User-defined functions of a query, called from its thread: blocking, in batches, in one worker that the query holds.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use shardlake_model::{Error, Result};
use shardlake_stdx::Clock;

use crate::endings::{GRACE, START_TIME, failed, lost, overran, worker_lost};
use crate::pool::{Leased, Pool};
use crate::protocol::{Encoder, FailureKind, Order, Report, decode_report, read_frame, write_frame};
use crate::settings::ScriptLimits;
use crate::turns::{Lane, Turn};

/// User-defined functions prepared for one query. Calls block, so they must not run on the threads that serve
/// requests.
#[derive(Debug)]
pub struct Functions {
    /// `None` after an error that leaves the worker in the middle of a call.
    worker: Option<(Leased, io::BufReader<UnixStream>)>,
    names: Vec<String>,
    time: Duration,
    encoder: Encoder,
    buffer: Vec<u8>,
}

impl Functions {
    /// Holds the turn until the functions are dropped.
    pub(crate) fn prepare(
        pool: &Arc<Pool>,
        turn: &Turn,
        definitions: &[(&str, &str)],
        limits: ScriptLimits,
    ) -> Result<Functions> {
        debug_assert!(turn.is_for(Lane::Functions), "scripts and functions take different turns");
        let mut lease = pool.lease(turn)?;
        let stream = lease.blocking_stream().map_err(|error| lost().with_source(error))?;
        let mut functions = Functions {
            worker: Some((lease, io::BufReader::new(stream))),
            names: definitions.iter().map(|(name, _)| (*name).to_owned()).collect(),
            time: limits.time,
            encoder: Encoder::default(),
            buffer: Vec::new(),
        };
        functions.greet()?;
        let definitions =
            definitions.iter().map(|(name, source)| ((*name).to_owned(), (*source).to_owned())).collect();
        functions.encoder.order(&Order::Functions { definitions, limits });
        match functions.exchange()? {
            Report::Ready => Ok(functions),
            Report::Failed { failure, used } => {
                functions.give_back(used.is_spent);
                Err(failed(failure.of_query()))
            }
            _ => Err(lost()),
        }
    }

    /// Calls one function for the first of many rows, and for as many more as fit into a portion's time;
    /// `time` limits the call. An undefined argument or result is `None`, all others are JSON text.
    pub fn call(
        &mut self,
        name: &str,
        rows: &[Vec<Option<String>>],
        time: Duration,
    ) -> Result<Vec<Option<String>>> {
        let position = self.names.iter().position(|known| known == name);
        let position = position.ok_or_else(|| {
            Error::bad_request(format!("there is no user-defined function '{name}' in this container"))
        })?;
        self.time = time;
        self.encoder.call(position as u32, time, rows);
        match self.exchange()? {
            Report::Results { values, processor }
                if values.len() <= rows.len() && values.is_empty() == rows.is_empty() =>
            {
                self.count(processor);
                if let Some((lease, _)) = &self.worker {
                    lease.turn().ended();
                }
                Ok(values)
            }
            Report::Failed { failure, used } => {
                self.count(used.processor);
                if let (FailureKind::Limit, Some((lease, _))) = (failure.kind, &self.worker) {
                    lease.turn().offended();
                }
                Err(failed(failure.of_query()))
            }
            _ => Err(lost()),
        }
    }

    fn count(&self, processor: Duration) {
        if let Some((lease, _)) = &self.worker {
            lease.turn().meter().add(processor);
        }
    }

    /// Reads the first message of a new worker.
    fn greet(&mut self) -> Result<()> {
        let Some((lease, _)) = &self.worker else { return Err(lost()) };
        if lease.is_new() {
            let report =
                self.exchange_within(START_TIME, || worker_lost("a script worker did not start in time"))?;
            let (Report::Confined(confined), Some((lease, _))) = (report, &mut self.worker) else {
                return Err(lost());
            };
            lease.greeted(confined);
        }
        Ok(())
    }

    /// Sends the encoded messages and reads the answer. After an error the worker is lost.
    fn exchange(&mut self) -> Result<Report> {
        let time = self.time;
        let began = Clock::System.elapsed();
        let turn = self.worker.as_ref().map(|(lease, _)| lease.turn().clone());
        let outcome = self.exchange_within(time + GRACE, || {
            if let Some(turn) = &turn {
                turn.offended();
            }
            overran(time)
        });
        if let (Err(_), Some(turn)) = (&outcome, &turn) {
            // The worker did not report its processor time.
            turn.meter().add(Clock::System.elapsed().saturating_sub(began));
        }
        outcome
    }

    /// The timeouts are the watchdog: a worker that does not answer a batch in time is stopped.
    fn exchange_within(&mut self, time: Duration, late: impl FnOnce() -> Error) -> Result<Report> {
        let (mut lease, mut reader) = self.worker.take().ok_or_else(lost)?;
        let stream = reader.get_mut();
        let outcome = stream
            .set_read_timeout(Some(time))
            .and_then(|()| stream.set_write_timeout(Some(time)))
            .and_then(|()| write_frame(stream, self.encoder.bytes()))
            .and_then(|()| read_frame(&mut reader, &mut self.buffer));
        self.encoder.clear();
        match outcome {
            Ok(true) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(late());
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(lost().with_source(error)),
            Ok(false) | Err(_) => return Err(lease.ending_blocking().error()),
        }
        let report = decode_report(&self.buffer).map_err(|_| lost())?;
        self.worker = Some((lease, reader));
        Ok(report)
    }

    fn give_back(&mut self, is_spent: bool) {
        let Some((lease, reader)) = self.worker.take() else { return };
        if !is_spent && reader.get_ref().set_nonblocking(true).is_ok() {
            drop(reader);
            lease.give_back(None);
        }
    }
}

impl Drop for Functions {
    fn drop(&mut self) {
        if self.worker.is_none() {
            return;
        }
        self.encoder.order(&Order::Release);
        if let Ok(Report::Ready) = self.exchange() {
            self.give_back(false);
        }
    }
}
