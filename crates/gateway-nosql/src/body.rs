//! Request bodies: read whole, within a size and a time.
//!
//! A body that arrives in one piece is passed on without a copy. A body has its memory from the start, so that while memory is
//! short, slow bodies are cut: a few clients that send a byte now and then would keep it from everyone else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use shardlake_model::{Error, ErrorKind, Result};

use tokio::time::Instant;

use crate::message_space::{BodyHold, ConnectionSpace};

/// While memory is short, a body has this time, and more by its rate.
const START: Duration = Duration::from_secs(2);
const BYTES_PER_SECOND_MIN: u64 = 64 << 10;
const LOOK: Duration = Duration::from_secs(1);

/// A whole body, with its memory permit.
#[derive(Debug, Default)]
pub(crate) struct WholeBody {
    pub bytes: Bytes,
    _hold: Option<BodyHold>,
}

/// Waits for memory for a body, then reads the body to its end.
pub(crate) async fn receive<B>(
    body: B,
    (size_bytes_max, time_max): (usize, Duration),
    space: &Arc<ConnectionSpace>,
) -> Result<WholeBody>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    if body.size_hint().lower() > size_bytes_max as u64 {
        return Err(too_large(size_bytes_max));
    }
    // All of it at once: bodies that each have a part and wait for the rest would wait for one another.
    let announced = body.size_hint().upper().unwrap_or(u64::MAX).min(size_bytes_max as u64);
    let hold = space.take_body(announced, time_max).await?;
    let is_short = || hold.is_some() && space.is_short_for_bodies();
    let bytes = Box::pin(read(body, (size_bytes_max, time_max), is_short)).await?;
    Ok(WholeBody { bytes, _hold: hold })
}

/// Reads a body to its end.
async fn read<B>(
    body: B,
    (size_bytes_max, time_max): (usize, Duration),
    is_short: impl Fn() -> bool,
) -> Result<Bytes>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let arrived = AtomicU64::new(0);
    let mut whole = std::pin::pin!(collect(body, size_bytes_max, &arrived));
    let began = Instant::now();
    loop {
        let left = time_max.saturating_sub(began.elapsed());
        if let Ok(whole) = tokio::time::timeout(left.min(LOOK), whole.as_mut()).await {
            return whole;
        }
        let why = if began.elapsed() >= time_max {
            format!("did not arrive within {} seconds", time_max.as_secs_f32())
        } else if is_short() && is_slow(arrived.load(Ordering::Relaxed), began.elapsed()) {
            format!(
                "arrived at less than {BYTES_PER_SECOND_MIN} bytes a second while other requests need the memory"
            )
        } else {
            continue;
        };
        return Err(Error::new(ErrorKind::Timeout, format!("the request body {why}: nothing was done")));
    }
}

fn is_slow(arrived: u64, elapsed: Duration) -> bool {
    elapsed > START + Duration::from_millis(arrived.saturating_mul(1000) / BYTES_PER_SECOND_MIN)
}

async fn collect<B>(body: B, size_bytes_max: usize, arrived: &AtomicU64) -> Result<Bytes>
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
        arrived.fetch_add(data.len() as u64, Ordering::Relaxed);
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

    const PATIENT: Duration = Duration::from_secs(60);

    async fn read<B>(body: B, size_bytes_max: usize, time_max: Duration) -> Result<Bytes>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        super::read(body, (size_bytes_max, time_max), || false).await
    }

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

    /// How many seconds a body without an end is read that sends so many bytes in each.
    async fn seconds_of(bytes_per_second: usize, is_short: bool) -> u64 {
        let (ticks, clock) = (AtomicU64::new(0), tokio::time::interval(LOOK));
        let frames = futures::stream::unfold(clock, |mut clock| async {
            clock.tick().await;
            ticks.fetch_add(1, Ordering::Relaxed);
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; bytes_per_second]))), clock))
        });
        let error = super::read(StreamBody::new(frames), (64 << 20, PATIENT), || is_short).await;
        assert_eq!(error.expect_err("no end").kind(), ErrorKind::Timeout);
        ticks.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn slow_bodies_are_cut_while_memory_is_short() {
        assert!(seconds_of(1, true).await <= 5);
        assert!(seconds_of(1, false).await >= PATIENT.as_secs());
        let fast = 2 * BYTES_PER_SECOND_MIN as usize;
        assert!(seconds_of(fast, true).await >= PATIENT.as_secs());
    }
}
