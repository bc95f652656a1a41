//! User-defined functions of a query, called from its thread: blocking, in batches, in one worker that the query holds.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use shardlake_model::{Error, Result};

use crate::conversation::{GRACE, failed, lost, overran};
use crate::pool::{Leased, Pool};
use crate::protocol::{Decoder, Encoder, Order, Report, read_frame, write_frame};
use crate::settings::ScriptLimits;

/// User-defined functions made ready for one query. Calls block: they belong beside the threads that serve requests.
#[derive(Debug)]
pub struct Functions {
    /// None after an error that leaves the worker in the middle of something.
    worker: Option<(Leased, io::BufReader<UnixStream>)>,
    names: Vec<String>,
    time: Duration,
    encoder: Encoder,
    buffer: Vec<u8>,
}

impl Functions {
    pub(crate) fn prepare(
        pool: &Arc<Pool>,
        definitions: &[(&str, &str)],
        limits: ScriptLimits,
    ) -> Result<Functions> {
        let lease = pool.lease_blocking()?;
        let stream = blocking_stream(&lease, limits.time).map_err(|error| lost().with_source(error))?;
        let mut functions = Functions {
            worker: Some((lease, io::BufReader::new(stream))),
            names: definitions.iter().map(|(name, _)| (*name).to_owned()).collect(),
            time: limits.time,
            encoder: Encoder::default(),
            buffer: Vec::new(),
        };
        let definitions =
            definitions.iter().map(|(name, source)| ((*name).to_owned(), (*source).to_owned())).collect();
        functions.encoder.order(&Order::Functions { definitions, limits });
        match functions.exchange()? {
            Report::Ready => Ok(functions),
            Report::Failed { failure, spent } => {
                functions.give_back(spent);
                Err(failed(failure.without_number()))
            }
            _ => Err(lost()),
        }
    }

    /// Calls one function for many rows. An argument or result that is undefined is `None`, all others are JSON text.
    pub fn call(&mut self, name: &str, rows: &[Vec<Option<String>>]) -> Result<Vec<Option<String>>> {
        let position = self.names.iter().position(|known| known == name);
        let position = position.ok_or_else(|| {
            Error::bad_request(format!("there is no user-defined function '{name}' in this container"))
        })?;
        self.encoder.call(position as u32, rows);
        match self.exchange()? {
            Report::Results(values) if values.len() == rows.len() => Ok(values),
            Report::Failed { failure, .. } => Err(failed(failure.without_number())),
            _ => Err(lost()),
        }
    }

    /// Sends what is encoded and reads the answer. After an error the worker is gone.
    fn exchange(&mut self) -> Result<Report> {
        let (lease, mut reader) = self.worker.take().ok_or_else(lost)?;
        let time = self.time;
        let outcome = write_frame(reader.get_mut(), self.encoder.bytes())
            .and_then(|()| read_frame(&mut reader, &mut self.buffer))
            .map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => overran(time),
                _ => lost().with_source(error),
            });
        self.encoder.clear();
        if !outcome? {
            return Err(lost());
        }
        let report = Decoder::report(&self.buffer).map_err(|_| lost())?;
        self.worker = Some((lease, reader));
        Ok(report)
    }

    fn give_back(&mut self, spent: bool) {
        let Some((lease, reader)) = self.worker.take() else { return };
        if !spent && reader.get_ref().set_nonblocking(true).is_ok() {
            drop(reader);
            lease.give_back();
        }
    }
}

impl Drop for Functions {
    fn drop(&mut self) {
        self.encoder.order(&Order::Release);
        if let Ok(Report::Ready) = self.exchange() {
            self.give_back(false);
        }
    }
}

/// The timeouts are the watchdog: the worker answers a batch at once, or has been in it for too long.
fn blocking_stream(lease: &Leased, time: Duration) -> io::Result<UnixStream> {
    let stream = lease.stream()?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(time + GRACE))?;
    stream.set_write_timeout(Some(time + GRACE))?;
    Ok(stream)
}
