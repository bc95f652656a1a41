//! The load generator: a number of keep-alive connections, each sending its next request when the last is answered.
//!
//! Requests are signed ahead; a reply is read only as far as its status and length. One thread drives all connections.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::cpu::Cpu;
use crate::requests::Requests;
use crate::{Outcome, mongo_messages};

#[derive(Debug, Clone, Copy, Default)]
pub struct Measured {
    pub per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// CPU time of the server per operation.
    pub cpu_us: f64,
}

/// Drives `requests` for some time; requests of the first tenth are not counted.
pub fn drive(
    address: SocketAddr,
    connections: usize,
    duration: Duration,
    requests: Arc<dyn Requests>,
    server: u32,
) -> Outcome<Measured> {
    let target = Target { address, connections, server };
    drive_after(duration / 10, target, duration, requests)
}

/// Where requests go to, over how many connections, and the process that serves them.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub address: SocketAddr,
    pub connections: usize,
    pub server: u32,
}

/// As [`drive`], after a warm-up of another length: none for a server that was started just now, if its first
/// request counts. Each connection ends with a counted answer, even if one takes longer than `duration`.
pub fn drive_after(
    warm_up: Duration,
    target: Target,
    duration: Duration,
    requests: Arc<dyn Requests>,
) -> Outcome<Measured> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut latencies, busy, seconds) = runtime.block_on(async {
        let started = Instant::now();
        let warm_until = started + warm_up;
        let until = started + duration;
        let warm_cpu = warm_up.is_zero().then(|| Cpu::of(target.server));
        let tasks: Vec<_> = (0..target.connections)
            .map(|connection| {
                tokio::spawn(converse(target.address, connection, requests.clone(), warm_until, until))
            })
            .collect();
        tokio::time::sleep_until(warm_until.into()).await;
        let warm_cpu = warm_cpu.unwrap_or_else(|| Cpu::of(target.server));
        let mut all = Vec::new();
        for task in tasks {
            all.extend(task.await.expect("no connection panics")?);
        }
        io::Result::Ok((all, warm_cpu.seconds(), warm_until.elapsed().as_secs_f64()))
    })?;
    let count = latencies.len();
    if count == 0 {
        return Err("no request was answered".into());
    }
    assert!(seconds > 0.0, "a rate is of a time that has passed");
    latencies.sort_unstable();
    let at = |share: f64| f64::from(latencies[((count - 1) as f64 * share) as usize]);
    Ok(Measured {
        per_second: count as f64 / seconds,
        p50_us: at(0.50),
        p99_us: at(0.99),
        cpu_us: busy * 1e6 / count as f64,
    })
}

async fn converse(
    address: SocketAddr,
    connection: usize,
    requests: Arc<dyn Requests>,
    warm_until: Instant,
    until: Instant,
) -> io::Result<Vec<u32>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut latencies = Vec::with_capacity(1 << 16);
    let (mut request, mut reply) = (Vec::with_capacity(4096), vec![0; 16 * 1024]);
    for number in 0.. {
        request.clear();
        requests.next(connection, number, &mut request);
        let sent = Instant::now();
        if sent >= until && !latencies.is_empty() {
            break;
        }
        stream.write_all(&request).await?;
        let status = match requests.are_messages() {
            true => read_message(&mut stream, &mut reply).await?,
            false => read_reply(&mut stream, &mut reply).await?,
        };
        if status != requests.expected_status() {
            return Err(io::Error::other(format!(
                "a reply had status {status}: {}",
                String::from_utf8_lossy(&reply[..400])
            )));
        }
        if sent >= warm_until {
            latencies.push(sent.elapsed().as_micros() as u32);
        }
    }
    Ok(latencies)
}

/// One answer of the MongoDB API.
async fn read_message(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<u16> {
    let mut filled = 0;
    loop {
        if filled == buffer.len() {
            buffer.resize(buffer.len() * 2, 0);
        }
        let count = stream.read(&mut buffer[filled..]).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += count;
        if mongo_messages::length(&buffer[..filled]).is_some_and(|total| filled >= total) {
            return Ok(mongo_messages::status(&buffer[..filled]));
        }
    }
}

/// A connection to the MongoDB API, for commands one after the other.
pub struct Messages(std::net::TcpStream);

impl Messages {
    pub fn open(address: SocketAddr) -> io::Result<Messages> {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Messages(stream))
    }

    /// Sends a command, which must succeed.
    pub fn run(&mut self, message: &[u8]) -> io::Result<()> {
        self.0.write_all(message)?;
        let mut reply = vec![0; 16];
        self.0.read_exact(&mut reply)?;
        let length = mongo_messages::length(&reply).unwrap_or(0).max(reply.len());
        reply.resize(length, 0);
        self.0.read_exact(&mut reply[16..])?;
        if mongo_messages::status(&reply) == mongo_messages::SUCCESS {
            return Ok(());
        }
        let shown = String::from_utf8_lossy(&reply[..reply.len().min(400)]).into_owned();
        Err(io::Error::other(format!("a command failed: {shown}")))
    }
}

/// Reads one reply to its end; gives its status.
async fn read_reply(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<u16> {
    let mut filled = 0;
    loop {
        if filled == buffer.len() {
            buffer.resize(buffer.len() * 2, 0);
        }
        let count = stream.read(&mut buffer[filled..]).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += count;
        let head = &buffer[..filled];
        if let Some(end) = find(head, b"\r\n\r\n") {
            let total = end + 4 + content_length(&head[..end]);
            if filled >= total {
                let digits = std::str::from_utf8(&head[9..12]).unwrap_or("0");
                return Ok(digits.parse().unwrap_or(0));
            }
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn content_length(head: &[u8]) -> usize {
    let name = b"content-length: ";
    let lines = head.split(|byte| *byte == b'\n');
    let line = lines
        .into_iter()
        .find(|line| line.len() > name.len() && line[..name.len()].eq_ignore_ascii_case(name));
    let digits = line.map(|line| line[name.len()..].trim_ascii());
    digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()).unwrap_or(0)
}
