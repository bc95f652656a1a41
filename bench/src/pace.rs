//! Clients that send requests by the clock, independent of the answers, and record the results.
//!
//! Each connection has a thread of its own and sends its next request when that is due, or at once while it
//! is behind. A request that waited behind others of its connection counts from its due time. A request that
//! was sent in time counts from its sending, since the coarseness of the client's timer is not the server's.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use shardlake_testkit::{RawConnection, Response};

use crate::Outcome;

/// The requests of a client, their rate and their duration.
#[derive(Clone, Copy)]
pub struct Pace<'a> {
    pub address: SocketAddr,
    /// Sent in rotation.
    pub requests: &'a [Vec<u8>],
    /// Requests per second; `u64::MAX` is as many as possible.
    pub rate: u64,
    pub connections: u64,
    pub time: Duration,
}

/// Results of a client.
#[derive(Debug, Default)]
pub struct Got {
    /// Request units of the successful requests.
    pub charged: f64,
    pub refused: u64,
    /// Refusals without the sub status or the waiting time that clients rely on.
    pub misshapen: u64,
    /// Replies that are neither successes nor refusals, and the first of them.
    pub other: u64,
    pub strange: Option<String>,
    /// Microseconds of every request, sorted.
    latencies: Vec<u64>,
}

impl Got {
    pub fn asked(&self) -> usize {
        self.latencies.len()
    }

    /// Microseconds within which a share of the requests was answered.
    pub fn within(&self, share: f64) -> u64 {
        debug_assert!(self.latencies.is_sorted(), "a share of the requests is read from sorted latencies");
        assert!((0.0..=1.0).contains(&share), "a share is a part of all requests");
        self.latencies.get((self.latencies.len() as f64 * share) as usize).copied().unwrap_or(0)
    }

    /// Sum with the results of another client, or of the same one at another time.
    pub fn joined(self, other: Got) -> Got {
        let mut all = self.join(other);
        all.latencies.sort_unstable();
        all
    }

    fn note(&mut self, reply: &Response) {
        match reply.status {
            200..=299 => {
                let charge = reply.header("x-ms-request-charge").and_then(|text| text.parse::<f64>().ok());
                match charge {
                    Some(charge) => self.charged += charge,
                    None => self.note_strange(reply),
                }
            }
            429 => {
                self.refused += 1;
                self.misshapen += u64::from(!is_clean(reply));
            }
            _ => self.note_strange(reply),
        }
    }

    fn note_strange(&mut self, reply: &Response) {
        self.other += 1;
        self.strange.get_or_insert_with(|| reply.to_string());
    }

    fn join(mut self, part: Got) -> Got {
        self.charged += part.charged;
        self.refused += part.refused;
        self.misshapen += part.misshapen;
        self.other += part.other;
        self.strange = self.strange.or(part.strange);
        self.latencies.extend(part.latencies);
        self
    }
}

/// Whether a refusal carries the sub status of throughput, and a wait in whole milliseconds.
fn is_clean(reply: &Response) -> bool {
    reply.header("x-ms-substatus") == Some("3200") && retry_after(reply).is_some_and(|wait| wait >= 1)
}

pub fn retry_after(reply: &Response) -> Option<u64> {
    reply.header("x-ms-retry-after-ms")?.parse().ok()
}

impl Pace<'_> {
    pub fn run(&self) -> Outcome<Got> {
        let start = Instant::now();
        let parts: Result<Vec<Got>, String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.connections)
                .map(|connection| scope.spawn(move || self.converse(start, connection)))
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no client panics")).collect()
        });
        let mut all = parts?.into_iter().fold(Got::default(), Got::join);
        all.latencies.sort_unstable();
        Ok(all)
    }

    /// Two clients concurrently.
    pub fn run_beside(&self, other: &Pace<'_>) -> Outcome<(Got, Got)> {
        std::thread::scope(|scope| {
            let one = scope.spawn(|| self.run().map_err(|error| error.to_string()));
            let other = other.run()?;
            Ok((one.join().expect("no client panics")?, other))
        })
    }

    fn converse(&self, start: Instant, connection: u64) -> Result<Got, String> {
        let mut stream = RawConnection::open(self.address).map_err(|error| error.to_string())?;
        let mut got = Got::default();
        for number in (connection..).step_by(self.connections as usize) {
            let Some(from) = self.wait(start, number) else { break };
            stream
                .send(&self.requests[number as usize % self.requests.len()])
                .map_err(|error| error.to_string())?;
            let reply = stream.read_response("GET").map_err(|error| error.to_string())?;
            got.latencies.push(from.elapsed().as_micros() as u64);
            got.note(&reply);
        }
        Ok(got)
    }

    /// Waits for the time of a request, and returns the time that it counts from; `None` when that is past the end.
    fn wait(&self, start: Instant, number: u64) -> Option<Instant> {
        let due = match self.rate {
            u64::MAX => Instant::now(),
            _ => start + Duration::from_micros(number * 1_000_000 / self.rate),
        };
        let end = start + self.time;
        if due >= end {
            return None;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let now = Instant::now();
        let from = if now - due < Duration::from_millis(2) { now } else { due };
        (now < end).then_some(from)
    }
}
