//! Request bodies: read whole, within a size and a time.
//!
//! A body that arrives in one piece is passed on without a copy.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use shardlake_model::{Error, ErrorKind, Result};

use crate::message_space::{BodyHold, ConnectionSpace};

/// A whole body, with the room that it takes.
#[derive(Debug)]
pub(crate) struct WholeBody {
    pub bytes: Bytes,
    _hold: Option<BodyHold>,
}

/// Waits for room for a body, then reads it to its end.
pub(crate) async fn receive<B>(
    body: B,
    (size_bytes_max, time_max): (usize, Duration),
    space: &Arc<ConnectionSpace>,
) -> Result<WholeBody>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    if body.is_end_stream() {
        return Ok(WholeBody { bytes: Bytes::new(), _hold: None });
    }
    if body.size_hint().lower() > size_bytes_max as u64 {
        return Err(too_large(size_bytes_max));
    }
    // All of it at once: bodies that each have a part and wait for the rest would wait for one another.
    let announced = body.size_hint().upper().unwrap_or(u64::MAX).min(size_bytes_max as u64);
    let hold = space.take_body(announced, time_max).await?;
    Ok(WholeBody { bytes: Box::pin(read(body, size_bytes_max, time_max)).await?, _hold: hold })
}

/// Reads a body to its end.
async fn read<B>(body: B, size_bytes_max: usize, time_max: Duration) -> Result<Bytes>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    tokio::time::timeout(time_max, collect(body, size_bytes_max)).await.unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Timeout,
            format!(
                "the request body did not arrive within {} seconds: nothing was done",
                time_max.as_secs_f32()
            ),
        ))
    })
}

async fn collect<B>(body: B, size_bytes_max: usize) -> Result<Bytes>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let mut body = std::pin::pin!(body);
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Error::bad_request(format!("the request body broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len().max(rest.len()) + data.len() > size_bytes_max {
            return Err(too_large(size_bytes_max));
        }
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

fn too_large(size_bytes_max: usize) -> Error {
    Error::new(ErrorKind::TooLarge, format!("the request body has more than {size_bytes_max} bytes"))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    const PATIENT: Duration = Duration::from_secs(5);

    fn chunks(parts: &[&'static str]) -> impl Body<Data = Bytes, Error = Infallible> + use<> {
        let frames: Vec<_> =
            parts.iter().map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes())))).collect();
        StreamBody::new(futures::stream::iter(frames))
    }

    #[tokio::test]
    async fn bodies_are_whole_whether_in_one_piece_or_many() {
        assert_eq!(read(Full::new(Bytes::from("abc")), 3, PATIENT).await.expect("fits"), "abc");
        assert_eq!(read(chunks(&["a", "", "bc", "d"]), 4, PATIENT).await.expect("fits"), "abcd");
        assert_eq!(read(Full::new(Bytes::new()), 0, PATIENT).await.expect("empty"), "");
    }

    #[tokio::test]
    async fn bodies_beyond_the_limit_are_refused_announced_or_not() {
        for outcome in [
            read(Full::new(Bytes::from("abcd")), 3, PATIENT).await,
            read(chunks(&["ab", "cd"]), 3, PATIENT).await,
        ] {
            assert_eq!(outcome.expect_err("too large").kind(), ErrorKind::TooLarge);
        }
    }

    #[tokio::test]
    async fn a_body_that_never_ends_times_out() {
        let never =
            StreamBody::new(futures::stream::pending::<std::result::Result<Frame<Bytes>, Infallible>>());
        let error = read(never, 3, Duration::from_millis(5)).await.expect_err("never ends");
        assert_eq!(error.kind(), ErrorKind::Timeout);
    }
}
