//! The pool's end of a worker's socket, for code in the server's runtime: frames out, frames in.
//!
//! It stays with the worker from one order to the next, because joining the runtime and leaving it costs a
//! handful of system calls. Another runtime makes its own line.

use std::io;
use std::os::unix::net::UnixStream;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::runtime::{Handle, Id};

use crate::protocol::{Encoder, HEADER_BYTES, Malformed, Report, decode_report, frame_length};

/// Buffer capacity kept after a large message.
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
    /// Must be called in a runtime, for a stream that does not block.
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

    /// Sends the encoded frames.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        self.stream.get_mut().write_all(self.encoder.bytes()).await?;
        self.encoder.clear();
        Ok(())
    }

    /// Reads and decodes one frame.
    pub(crate) async fn read(&mut self) -> io::Result<Result<Report, Malformed>> {
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header).await?;
        let length = frame_length(header)?;
        self.buffer.clear();
        // The buffer grows with the bytes that arrive, not with the announced length.
        if (&mut self.stream).take(length as u64).read_to_end(&mut self.buffer).await? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(decode_report(&self.buffer))
    }

    /// Whether all received bytes were read.
    pub(crate) fn is_quiet(&self) -> bool {
        self.stream.buffer().is_empty()
    }

    /// The line without its buffers' contents, for the next order.
    pub(crate) fn at_rest(mut self) -> Line {
        self.encoder.clear();
        self.encoder.shrink_to(KEPT_BYTES);
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_BYTES);
        self
    }
}
