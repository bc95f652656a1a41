//! A client that disconnects in the middle of a request, over HTTP/1.1 or HTTP/2.

use crate::http2;
use crate::requests::Wire;
use crate::weather::{LOOK_AGAIN, Weather};
use shardlake_stdx::Random;
use shardlake_testkit::Client;
use std::io::{ErrorKind, Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// How often a client looks for a sync before it disconnects without having seen one.
const LOOKS_MAX: u64 = 300;
const PATIENCE: Duration = Duration::from_secs(30);

/// When a client disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HangUp {
    /// A byte or more of the request is missing.
    BeforeTheEndOfTheRequest,
    AtOnce,
    /// While a sync that began after the request was sent is under way.
    InASync,
    /// After some bytes of the answer.
    InTheAnswer,
    /// The client closes its sending half, and keeps reading.
    HalfClose,
    /// RST_STREAM of HTTP/2; the connection stays open.
    ResetOfAStream,
}

/// The client's knowledge afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// The server cannot have understood the request.
    NeverAsked,
    Status(u16),
    Nothing,
}

#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    pub heard: Heard,
    pub in_a_sync: bool,
}

impl HangUp {
    pub fn choose(random: &Random) -> HangUp {
        match random.below(12) {
            0 => HangUp::BeforeTheEndOfTheRequest,
            1 | 2 => HangUp::AtOnce,
            3..=7 => HangUp::InASync,
            8 => HangUp::InTheAnswer,
            9 => HangUp::HalfClose,
            _ => HangUp::ResetOfAStream,
        }
    }
}

/// Sends the request on its own connection and disconnects.
pub fn send_and_hang_up(
    client: &Client,
    wire: &Wire,
    how: HangUp,
    random: &Random,
    weather: Option<&Weather>,
) -> Result<Outcome> {
    let mut stream = TcpStream::connect_timeout(&client.address(), PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let bytes = wire.signed(client);
    let begun = weather.map_or(0, Weather::begun);
    let mut in_a_sync = false;
    let heard = match how {
        HangUp::BeforeTheEndOfTheRequest => {
            let sent = 1 + random.below(bytes.len() as u64 - 1) as usize;
            stream.write_all(&bytes[..sent])?;
            Heard::NeverAsked
        }
        HangUp::AtOnce => {
            stream.write_all(&bytes)?;
            Heard::Nothing
        }
        HangUp::InASync => {
            stream.write_all(&bytes)?;
            let looks = random.below(LOOKS_MAX);
            in_a_sync = wait_for_a_sync(&stream, weather, begun, looks)?;
            Heard::Nothing
        }
        HangUp::InTheAnswer => {
            stream.write_all(&bytes)?;
            read_a_part(&mut stream, random)?
        }
        HangUp::HalfClose => {
            stream.write_all(&bytes)?;
            stream.shutdown(Shutdown::Write)?;
            read_a_part(&mut stream, random)?
        }
        HangUp::ResetOfAStream => {
            let stream_id = http2::send(&mut stream, &bytes)?;
            in_a_sync = wait_for_a_sync_alone(weather, begun, random.below(LOOKS_MAX));
            http2::reset(&mut stream, stream_id)?;
            Heard::Nothing
        }
    };
    Ok(Outcome { heard, in_a_sync })
}

/// Until a sync is under way that began after `begun`, or the answer is there, or the client loses
/// its patience.
fn wait_for_a_sync(stream: &TcpStream, weather: Option<&Weather>, begun: u64, looks: u64) -> Result<bool> {
    stream.set_read_timeout(Some(LOOK_AGAIN))?;
    for _ in 0..looks {
        match stream.peek(&mut [0]) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            _ => return Ok(false),
        }
        if is_in_a_sync(weather, begun) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn wait_for_a_sync_alone(weather: Option<&Weather>, begun: u64, looks: u64) -> bool {
    (0..looks).any(|_| {
        std::thread::sleep(LOOK_AGAIN);
        is_in_a_sync(weather, begun)
    })
}

fn is_in_a_sync(weather: Option<&Weather>, begun: u64) -> bool {
    weather.is_some_and(|weather| weather.begun() > begun && weather.is_a_sync_under_way())
}

/// The status, where the part of the answer that was read shows it.
fn read_a_part(stream: &mut TcpStream, random: &Random) -> Result<Heard> {
    let mut part = vec![0; 1 + random.below(60) as usize];
    let mut length = 0;
    while length < part.len() {
        match stream.read(&mut part[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        }
    }
    let text = String::from_utf8_lossy(&part[..length]).into_owned();
    let status =
        text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok());
    Ok(status.map_or(Heard::Nothing, Heard::Status))
}
