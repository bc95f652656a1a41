//! The pool's end of a worker's socket, for those who wait in the server's runtime: frames out, frames in.
//!
//! It stays with the worker from one order to the next, because joining the runtime and leaving it takes a handful of system
//! calls. Another runtime makes a line of its own.

use std::io;
use std::os::unix::net::UnixStream;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::runtime::{Handle, Id};

use crate::protocol::{Encoder, HEADER_BYTES, Malformed, Report, decode_report, frame_length};

/// What one large message took is not held for ever.
const KEPT_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Line {
    stream: BufReader<tokio::net::UnixStream>,
    /// Frames that were not sent yet.
    pub encoder: Encoder,
    buffer: Vec<u8>,
    runtime: Id,
}

impl Line {
    /// In a runtime. The stream does not block.
    pub(crate) fn new(stream: &UnixStream) -> io::Result<Line> {
        stream.set_nonblocking(true)?;
        Ok(Line {
            stream: BufReader::new(tokio::net::UnixStream::from_std(stream.try_clone()?)?),
            encoder: Encoder::default(),
            buffer: Vec::new(),
            runtime: Handle::current().id(),
        })
    }

    pub(crate) fn is_of_this_runtime(&self) -> bool {
        Handle::current().id() == self.runtime
    }

    /// Sends what was encoded.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        self.stream.get_mut().write_all(self.encoder.bytes()).await?;
        self.encoder.clear();
        Ok(())
    }

    /// One frame, and what it says.
    pub(crate) async fn read(&mut self) -> io::Result<Result<Report, Malformed>> {
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header).await?;
        let length = frame_length(header)?;
        self.buffer.clear();
        // The buffer grows with what arrives, not with what was announced.
        if (&mut self.stream).take(length as u64).read_to_end(&mut self.buffer).await? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(decode_report(&self.buffer))
    }

    /// Whether everything was read that has arrived.
    pub(crate) fn is_quiet(&self) -> bool {
        self.stream.buffer().is_empty()
    }

    /// Until the next order.
    pub(crate) fn at_rest(mut self) -> Line {
        self.encoder.clear();
        self.encoder.shrink_to(KEPT_BYTES);
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_BYTES);
        self
    }
}
