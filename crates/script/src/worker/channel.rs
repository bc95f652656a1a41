//! The worker's end of the socket: blocking, one message at a time.

use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;

use crate::protocol::{Encoder, Order, Report, decode_order, read_frame, write_frame};

pub(super) struct Channel {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    encoder: Encoder,
    buffer: Vec<u8>,
}

impl Channel {
    pub(super) fn new(stream: UnixStream) -> io::Result<Channel> {
        stream.set_nonblocking(false)?;
        let writer = stream.try_clone()?;
        Ok(Channel {
            reader: BufReader::new(stream),
            writer,
            encoder: Encoder::default(),
            buffer: Vec::new(),
        })
    }

    /// The next order; `None` when the pool has closed the socket.
    pub(super) fn receive(&mut self) -> io::Result<Option<Order<'static>>> {
        if !read_frame(&mut self.reader, &mut self.buffer)? {
            return Ok(None);
        }
        let order = decode_order(&self.buffer).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        // Releases the capacity of a large message.
        self.buffer.shrink_to(KEPT_BYTES);
        Ok(Some(order))
    }

    /// Buffers a report; it is sent with the next message.
    pub(super) fn put(&mut self, report: &Report) {
        self.encoder.report(report);
    }

    pub(super) fn send(&mut self, report: &Report) -> io::Result<()> {
        self.put(report);
        let sent = write_frame(&mut self.writer, self.encoder.bytes());
        self.encoder.clear();
        self.encoder.shrink_to(KEPT_BYTES);
        sent
    }
}

const KEPT_BYTES: usize = 1 << 20;
