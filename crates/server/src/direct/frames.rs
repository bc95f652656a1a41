//! Frames as they arrive. Lengths are announced by strangers: memory is taken for arrived bytes, never for announced ones.

use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use shardlake_gateway_direct::{BadFrame, Context, frame_length, request_head};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::config::ConnectionLimits;
use crate::direct::frame_body::{BodySender, FrameBody};

/// The size of a read: as much as a TLS record holds.
const READ_BYTES: usize = 16 << 10;
/// With fewer free bytes than this, the buffer grows.
const ROOM_BYTES_MIN: usize = 1 << 10;
/// Bytes of a refused body that are read, so that the connection can be used further.
const SKIPPED_BYTES_MAX: u64 = 16 << 20;

/// A protocol error as an error of the connection.
pub fn bad(bad: BadFrame) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, bad)
}

pub struct Frames<R> {
    io: R,
    buffer: BytesMut,
    /// Maximum size of head and tokens.
    frame_bytes_max: usize,
    /// From the first byte of a frame to its last token.
    header_max: Duration,
    /// For a body that is skipped.
    request_max: Duration,
}

/// A body that has not arrived as a whole.
pub struct Rest {
    left: u64,
    sender: BodySender,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub fn new(io: R, first: BytesMut, limits: &ConnectionLimits) -> Frames<R> {
        Frames {
            io,
            buffer: first,
            frame_bytes_max: limits.header_size_bytes_max,
            header_max: limits.header_max,
            request_max: limits.request_max,
        }
    }

    /// The first frame. `None`: the client has ended before.
    pub async fn context(&mut self, bytes_max: usize) -> io::Result<Option<Context>> {
        let usual_max = std::mem::replace(&mut self.frame_bytes_max, bytes_max);
        let frame = tokio::time::timeout(self.header_max, self.next()).await??;
        self.frame_bytes_max = usual_max;
        let Some(frame) = frame else { return Ok(None) };
        let head = request_head(&frame).map_err(bad)?;
        Context::of(&head).map(Some).map_err(bad)
    }

    /// Head and tokens of the next frame. `None`: the client has ended. May be dropped and asked again.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if let Some(frame) = self.arrived()? {
            return Ok(Some(frame));
        }
        // How long a connection may be idle between frames is watched elsewhere.
        if self.buffer.is_empty() && !self.fill().await? {
            return Ok(None);
        }
        if let Some(frame) = self.arrived()? {
            return Ok(Some(frame));
        }
        tokio::time::timeout(self.header_max, self.whole()).await?.map(Some)
    }

    async fn whole(&mut self) -> io::Result<Bytes> {
        loop {
            if !self.fill().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(frame) = self.arrived()? {
                return Ok(frame);
            }
        }
    }

    fn arrived(&mut self) -> io::Result<Option<Bytes>> {
        match frame_length(&self.buffer, self.frame_bytes_max).map_err(bad)? {
            Some(length) if self.buffer.len() >= length => {
                assert!(length > 0, "a frame has its length");
                Ok(Some(self.buffer.split_to(length).freeze()))
            }
            _ => Ok(None),
        }
    }

    /// Whether something came.
    async fn fill(&mut self) -> io::Result<bool> {
        if self.buffer.capacity() - self.buffer.len() < ROOM_BYTES_MIN {
            self.buffer.reserve(READ_BYTES);
        }
        Ok(self.io.read_buf(&mut self.buffer).await? > 0)
    }

    /// The body behind a frame, and its missing rest, for [`Frames::send_body`].
    pub async fn body(&mut self, has_body: bool) -> io::Result<(FrameBody, Option<Rest>)> {
        if !has_body {
            return Ok((FrameBody::whole(Bytes::new()), None));
        }
        let length = tokio::time::timeout(self.header_max, self.body_length()).await??;
        if self.buffer.len() as u64 >= length {
            let body = self.buffer.split_to(length as usize).freeze();
            return Ok((FrameBody::whole(body), None));
        }
        let (sender, body) = FrameBody::in_parts(length);
        Ok((body, Some(Rest { left: length, sender })))
    }

    async fn body_length(&mut self) -> io::Result<u64> {
        while self.buffer.len() < 4 {
            if !self.fill().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.buffer.get_u32_le().into())
    }

    /// Hands a body over as it arrives. The body of a refused request is skipped; `false`: it is too large for that, and the
    /// connection has to end.
    pub async fn send_body(&mut self, mut rest: Rest) -> io::Result<bool> {
        while rest.left > 0 {
            if self.buffer.is_empty() {
                let arrived = tokio::select! {
                    arrived = self.fill() => arrived?,
                    () = rest.sender.closed() => return self.skip(rest.left).await,
                };
                if !arrived {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            let part = self.part(&mut rest.left);
            // It waits for the request to take the part before, and reads no further meanwhile.
            if !rest.sender.send(part).await {
                return self.skip(rest.left).await;
            }
        }
        Ok(true)
    }

    async fn skip(&mut self, mut left: u64) -> io::Result<bool> {
        if left > SKIPPED_BYTES_MAX {
            return Ok(false);
        }
        let time_max = self.request_max;
        let skipping = async {
            while left > 0 {
                if self.buffer.is_empty() && !self.fill().await? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.part(&mut left);
            }
            Ok(true)
        };
        tokio::time::timeout(time_max, skipping).await?
    }

    /// The arrived bytes, up to the end of the body.
    fn part(&mut self, left: &mut u64) -> Bytes {
        let length = (self.buffer.len() as u64).min(*left);
        assert!(length <= *left, "a body ends at its length");
        *left -= length;
        self.buffer.split_to(length as usize).freeze()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::io::{AsyncWriteExt, DuplexStream};

    use super::*;

    const HEADER_MAX: Duration = Duration::from_secs(10);

    fn frames() -> (DuplexStream, Frames<DuplexStream>) {
        let (client, server) = tokio::io::duplex(1 << 20);
        let frames = Frames {
            io: server,
            buffer: BytesMut::new(),
            frame_bytes_max: 1000,
            header_max: HEADER_MAX,
            request_max: HEADER_MAX,
        };
        (client, frames)
    }

    fn frame(length: u32) -> Vec<u8> {
        let mut frame = length.to_le_bytes().to_vec();
        frame.resize(length as usize, 1);
        frame
    }

    #[tokio::test(start_paused = true)]
    async fn frames_are_cut_where_they_end_however_they_arrive() {
        let (mut client, mut frames) = frames();
        let sent = [frame(24), frame(100), frame(1000)].concat();
        let sending = async {
            for byte in &sent {
                client.write_all(&[*byte]).await.expect("room");
                tokio::task::yield_now().await;
            }
            drop(client);
        };
        let reading = async {
            let mut lengths = Vec::new();
            while let Some(frame) = frames.next().await.expect("frames") {
                lengths.push(frame.len());
            }
            lengths
        };
        let ((), lengths) = tokio::join!(sending, reading);
        assert_eq!(lengths, [24, 100, 1000]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_frame_that_does_not_end_in_its_time_ends_the_connection() {
        let (mut client, mut frames) = frames();
        client.write_all(&frame(100)[..50]).await.expect("room");
        let error = frames.next().await.expect_err("half a frame");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn no_memory_is_taken_for_what_is_announced() {
        for length in [u32::MAX, 1001, 23, 0] {
            let (mut client, mut frames) = frames();
            client.write_all(&length.to_le_bytes()).await.expect("room");
            let error = frames.next().await.expect_err("no frame");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{length}");
            assert!(frames.buffer.capacity() <= READ_BYTES);
        }
        let (mut client, mut frames) = frames();
        client.write_all(&u32::MAX.to_le_bytes()).await.expect("room");
        let (_body, rest) = frames.body(true).await.expect("a length");
        assert_eq!(rest.map(|rest| rest.left), Some(u64::from(u32::MAX)));
        assert!(frames.buffer.capacity() <= READ_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_body_is_handed_over_in_parts_and_a_refused_one_is_skipped() {
        let (mut client, mut frames) = frames();
        let body: Vec<u8> = (0..100_000_u32).map(|byte| byte as u8).collect();
        for _ in 0..2 {
            client.write_all(&100_000_u32.to_le_bytes()).await.expect("room");
            client.write_all(&body).await.expect("room");
        }
        client.write_all(&frame(24)).await.expect("room");
        let (wanted, rest) = frames.body(true).await.expect("a length");
        let (read, sent) = tokio::join!(wanted.collect(), frames.send_body(rest.expect("a part is missing")));
        assert!(sent.expect("all of it"));
        assert_eq!(read.expect("a body").to_bytes(), body);
        let (unwanted, rest) = frames.body(true).await.expect("a length");
        drop(unwanted);
        assert!(frames.send_body(rest.expect("a part is missing")).await.expect("all of it"));
        assert_eq!(frames.next().await.expect("a frame").map(|frame| frame.len()), Some(24));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_too_large_to_skip_ends_the_connection() {
        let (mut client, mut frames) = frames();
        client.write_all(&(20_u32 << 20).to_le_bytes()).await.expect("room");
        client.write_all(b"a part").await.expect("room");
        let (unwanted, rest) = frames.body(true).await.expect("a length");
        drop(unwanted);
        assert!(!frames.send_body(rest.expect("most is missing")).await.expect("an answer"));
    }
}
