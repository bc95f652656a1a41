//! The first bytes of a TLS connection, which identify its protocol, and a stream that has them in front again.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of a connection that identify its protocol.
pub const OPENING_BYTES: usize = 8;

/// Whether a connection opens in Direct mode: both kinds in the head of a context are 0. HTTP has letters there.
pub fn is_opening(first: &BytesMut) -> bool {
    first.get(4..OPENING_BYTES).is_some_and(|kinds| kinds == [0; 4])
}

/// A stream some of whose bytes were read ahead.
#[derive(Debug)]
pub struct Rewound<T> {
    first: Bytes,
    inner: T,
}

impl<T> Rewound<T> {
    pub fn new(first: BytesMut, inner: T) -> Rewound<T> {
        Rewound { first: first.freeze(), inner }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Rewound<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.inner).poll_read(context, buffer);
        }
        let length = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..length]);
        self.first.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Rewound<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn what_was_read_ahead_comes_first_and_once() {
        let (near, mut far) = tokio::io::duplex(64);
        far.write_all(b" the rest").await.expect("room");
        far.shutdown().await.expect("an end");
        let mut rewound = Rewound::new(BytesMut::from(&b"first bytes,"[..]), near);
        let mut three = [0; 3];
        rewound.read_exact(&mut three).await.expect("three bytes");
        let mut text = String::new();
        rewound.read_to_string(&mut text).await.expect("the rest");
        assert_eq!((&three, text.as_str()), (b"fir", "st bytes, the rest"));
    }

    #[test]
    fn requests_of_http_open_no_context() {
        for (first, is_direct) in [
            (&b"\x8a\0\0\0\0\0\0\0"[..], true),
            (b"\x8a\0\0\0\0\0\0", false),
            (b"GET / HTTP", false),
            (b"PRI * HTTP", false),
            (b"\x53\x01\0\0\x03\0\x03\0", false),
        ] {
            assert_eq!(is_opening(&BytesMut::from(first)), is_direct, "{first:?}");
        }
    }
}
