//! The pool's side of one order that runs in the server's runtime: sends it, answers the calls of the data, reads how it ended.
//!
//! The watchdog is here: a worker that neither asks nor ends within the script's time and a grace is killed, by dropping its lease.
//! Time that the store takes is not the script's.

use std::time::Duration;

use shardlake_model::{Error, ErrorKind, Result};
use shardlake_stdx::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::pool::Leased;
use crate::protocol::{Decoder, Encoder, Failure, FailureKind, HEADER_BYTES, Order, Report, frame_length};
use crate::store::Store;

/// Beyond the script's time, in which a worker should end it by itself.
pub(crate) const GRACE: Duration = Duration::from_millis(500);
/// Answers go out when so many bytes of them are ready.
const FLUSH_BYTES: usize = 64 << 10;

pub(crate) struct Conversation {
    lease: Leased,
    stream: BufReader<UnixStream>,
    encoder: Encoder,
    buffer: Vec<u8>,
    /// What is left of the script's time.
    time_left: Duration,
    time: Duration,
}

impl Conversation {
    pub(crate) fn new(lease: Leased, time: Duration) -> Result<Conversation> {
        let stream =
            lease.stream().and_then(UnixStream::from_std).map_err(|error| lost().with_source(error))?;
        Ok(Conversation {
            lease,
            stream: BufReader::new(stream),
            encoder: Encoder::default(),
            buffer: Vec::new(),
            time_left: time + GRACE,
            time,
        })
    }

    pub(crate) async fn send(&mut self, order: &Order) -> Result<()> {
        self.encoder.order(order);
        self.flush().await
    }

    /// The next report that is no call of the data; those are answered.
    pub(crate) async fn outcome(&mut self, store: &mut dyn Store) -> Result<Report> {
        loop {
            match self.receive().await? {
                Report::Store(requests) => {
                    for request in requests {
                        let reply = store.call(request).await;
                        self.encoder.order(&Order::Reply(reply));
                        if self.encoder.bytes().len() >= FLUSH_BYTES {
                            self.flush().await?;
                        }
                    }
                    self.flush().await?;
                }
                ended => return Ok(ended),
            }
        }
    }

    /// The next report of an order that has no data to call.
    pub(crate) async fn receive(&mut self) -> Result<Report> {
        let (stream, buffer) = (&mut self.stream, &mut self.buffer);
        timed(&mut self.time_left, self.time, async {
            let mut header = [0; HEADER_BYTES];
            stream.read_exact(&mut header).await?;
            let length = frame_length(header)?;
            buffer.clear();
            // The buffer grows with what arrives, not with what was announced.
            if stream.take(length as u64).read_to_end(buffer).await? < length {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            Ok(())
        })
        .await?;
        Decoder::report(&self.buffer).map_err(|_| lost())
    }

    async fn flush(&mut self) -> Result<()> {
        let (stream, bytes) = (self.stream.get_mut(), self.encoder.bytes());
        timed(&mut self.time_left, self.time, stream.write_all(bytes)).await?;
        self.encoder.clear();
        Ok(())
    }

    /// After the report that ends the order.
    pub(crate) fn end(self, spent: bool) {
        drop(self.stream);
        if !spent {
            self.lease.give_back();
        }
    }
}

/// Waits for the worker, out of its time.
async fn timed<T>(
    left: &mut Duration,
    time: Duration,
    work: impl Future<Output = std::io::Result<T>>,
) -> Result<T> {
    let start = Clock::System.elapsed();
    let outcome = tokio::time::timeout(*left, work).await;
    *left = left.saturating_sub(Clock::System.elapsed() - start);
    match outcome {
        Ok(done) => done.map_err(|error| lost().with_source(error)),
        Err(_) => Err(overran(time)),
    }
}

pub(crate) fn overran(time: Duration) -> Error {
    let seconds = time.as_secs_f32();
    Error::new(
        ErrorKind::Forbidden,
        format!(
            "the script ran for more than {seconds} s in a built-in function and was killed; nothing it wrote is kept"
        ),
    )
}

/// A worker that ended by itself, or spoke nonsense: most likely it ran out of memory outside of the engine.
pub(crate) fn lost() -> Error {
    Error::new(
        ErrorKind::Forbidden,
        "the script's worker ended, most likely out of memory; nothing the script wrote is kept",
    )
}

/// A number that the script threw becomes the sub-status.
pub(crate) fn failed(failure: Failure) -> Error {
    let kind = match failure.kind {
        FailureKind::Script => ErrorKind::BadRequest,
        FailureKind::Numbered(number) => {
            return Error::bad_request(failure.message).with_substatus(number.into());
        }
        FailureKind::Limit => ErrorKind::Forbidden,
        FailureKind::Size => ErrorKind::TooLarge,
        FailureKind::Worker => ErrorKind::Internal,
    };
    Error::new(kind, failure.message)
}
