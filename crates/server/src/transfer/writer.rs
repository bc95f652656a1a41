//! Concurrent writes of items in bulk requests, which obey the waits that a throttling server asks for.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use clap::ValueEnum;
use futures::{Stream, StreamExt};
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use shardlake_stdx::Clock;
use tokio::sync::{mpsc, watch};

use super::records::{Entry, Records, Refusal, Shape};
use crate::data::{Address, DataClient, Failure, PAUSES, Place, Request, own_sentence, text_of, value_at};

/// Items and bytes of a request.
const BATCH_ITEMS: usize = 100;
const BATCH_BYTES: usize = 512 << 10;
/// Items of the first request, whose charge is measured.
const PROBE_ITEMS: usize = 20;
/// A server that takes no write for this time is not waited for any longer.
const THROTTLED_MAX: Duration = Duration::from_secs(600);
const WAIT_MAX: Duration = Duration::from_secs(30);
const PASSING_WAIT: Duration = Duration::from_millis(200);
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Items whose id exists are refused
    Insert,
    /// Items whose id exists are replaced: the same import may be repeated
    Upsert,
}

pub struct Writer<'c> {
    pub client: &'c DataClient,
    pub place: Place,
    /// Paths of the partition key.
    pub paths: Vec<String>,
    pub mode: Mode,
    pub concurrency: usize,
    pub stop: Stop,
}

/// Ends an import early: no further batch is sent, those on their way are finished, and nothing waits.
#[derive(Debug, Clone)]
pub struct Stop(watch::Sender<bool>);

impl Default for Stop {
    fn default() -> Self {
        Stop(watch::Sender::new(false))
    }
}

impl Stop {
    pub fn set(&self) {
        self.0.send_replace(true);
    }

    /// Returns when it is set.
    pub async fn wait(&self) {
        // The sender lives as long as `self`.
        let mut changes = self.0.subscribe();
        let _set = changes.wait_for(|is_set| *is_set).await.is_ok();
    }

    fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Sleeps, or fails at once when it is set.
    async fn pause(&self, time: Duration) -> Result<(), Failure> {
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            () = self.wait() => Err(Failure::of_connection("cancelled".to_owned())),
        }
    }
}

/// The outcome of one or more batches.
#[derive(Debug, Default)]
pub struct Written {
    pub items: u64,
    pub charge: f64,
    pub refusals: Vec<Refusal>,
    /// Writes that were throttled, and sent again.
    pub throttled: u64,
    /// Why no further batch should be sent.
    pub error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OneResult {
    status_code: u16,
    #[serde(default)]
    request_charge: f64,
    #[serde(default)]
    retry_after_milliseconds: Option<u64>,
    #[serde(default)]
    message: String,
}

/// Items for one request, and records that are no items.
#[derive(Debug, Default)]
pub struct Batch {
    /// Each with the hash of its identity.
    entries: Vec<(u64, Entry)>,
    refusals: Vec<Refusal>,
    size_bytes: usize,
}

/// A batch, the end of the file, or the reason why it cannot be read on.
type Fed = Result<Option<Batch>, String>;

impl Batch {
    /// The first items of a file; `None` for a file without any.
    pub fn probe(records: &mut Records, shape: &Shape, paths: &[String]) -> Fed {
        let mut batch = Batch::default();
        while batch.len() < PROBE_ITEMS && batch.size_bytes < BATCH_BYTES {
            let Some(raw) = records.next()? else { break };
            match shape.entry(raw) {
                Ok(entry) => batch.push(identity(&entry.item, paths), entry),
                Err(refusal) => batch.refusals.push(refusal),
            }
        }
        Ok((batch.len() > 0).then_some(batch))
    }

    fn push(&mut self, identity: u64, entry: Entry) {
        self.size_bytes += entry.item.len();
        self.entries.push((identity, entry));
    }

    fn len(&self) -> usize {
        self.entries.len() + self.refusals.len()
    }

    fn is_full(&self) -> bool {
        self.len() >= BATCH_ITEMS || self.size_bytes >= BATCH_BYTES
    }

    /// Entries by request. No request has two versions of an item, and versions stay in their order.
    fn rounds(entries: Vec<(u64, Entry)>) -> VecDeque<Vec<Entry>> {
        let (mut rounds, mut next) = (VecDeque::<Vec<Entry>>::new(), HashMap::<u64, usize>::new());
        for (identity, entry) in entries {
            let round = next.entry(identity).or_default();
            match rounds.get_mut(*round) {
                Some(entries) => entries.push(entry),
                None => rounds.push_back(vec![entry]),
            }
            *round += 1;
        }
        rounds
    }
}

/// Distributes the records over lanes. All versions of an item are in the same lane, in the order of the file.
fn feed(mut records: Records, shape: &Shape, paths: &[String], lanes: &[mpsc::Sender<Fed>]) {
    let mut batches: Vec<Batch> = lanes.iter().map(|_| Batch::default()).collect();
    let outcome = loop {
        let entry = match records.next() {
            Ok(Some(raw)) => shape.entry(raw),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        let lane = match entry {
            Ok(entry) => {
                let identity = identity(&entry.item, paths);
                let lane = (identity % lanes.len() as u64) as usize;
                batches[lane].push(identity, entry);
                lane
            }
            Err(refusal) => {
                batches[0].refusals.push(refusal);
                0
            }
        };
        if batches[lane].is_full() {
            let batch = std::mem::take(&mut batches[lane]);
            if lanes[lane].blocking_send(Ok(Some(batch))).is_err() {
                return;
            }
        }
    };
    let rests = lanes.iter().zip(batches).filter(|(_, batch)| batch.len() > 0);
    let rests = rests.map(|(lane, batch)| (lane, Ok(Some(batch))));
    let error = outcome.err().map(|error| (&lanes[0], Err(error)));
    let ends = lanes.iter().map(|lane| (lane, Ok(None)));
    for (lane, fed) in rests.chain(error).chain(ends) {
        if lane.blocking_send(fed).is_err() {
            return;
        }
    }
}

impl Writer<'_> {
    /// Writes all records. `each` is called after each batch, and ends the import by an error.
    pub async fn write_all(
        &self,
        records: Records,
        shape: Shape,
        mut each: impl FnMut(Written) -> Result<(), String>,
    ) -> Result<(), String> {
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..self.concurrency).map(|_| mpsc::channel::<Fed>(1)).unzip();
        let paths = self.paths.clone();
        // A thread of its own: nothing waits for it where standard input stays silent after Ctrl-C.
        std::thread::spawn(move || feed(records, &shape, &paths, &senders));
        let lanes = receivers.into_iter().map(|receiver| Box::pin(self.lane(receiver)));
        let mut outcomes = futures::stream::select_all(lanes);
        let mut first_error = Ok(());
        while let Some(written) = outcomes.next().await {
            if let Err(error) = each(written) {
                self.stop.set();
                first_error = first_error.and(Err(error));
            }
        }
        first_error
    }

    /// Writes batches one after the other.
    fn lane(&self, receiver: mpsc::Receiver<Fed>) -> impl Stream<Item = Written> {
        futures::stream::unfold(receiver, move |mut receiver| async move {
            let fed = tokio::select! {
                biased;
                () = self.stop.wait() => return None,
                fed = receiver.recv() => fed,
            };
            // Without a mark of its end, the file was not read to its end.
            let written = match fed.unwrap_or_else(|| Err("the file's reader failed".to_owned())) {
                Ok(Some(batch)) => self.write(batch).await,
                Ok(None) => return None,
                Err(error) => Written { error: Some(error), ..Written::default() },
            };
            Some((written, receiver))
        })
    }

    pub async fn write(&self, batch: Batch) -> Written {
        let mut written = Written { refusals: batch.refusals, ..Written::default() };
        let mut groups = Batch::rounds(batch.entries);
        while let Some(entries) = groups.pop_front() {
            match self.write_group(entries, &mut written).await {
                Ok(None) if self.stop.is_set() => break,
                Ok(None) => {}
                Ok(Some(entries)) => {
                    // Before later versions of the same items.
                    entries.into_iter().rev().for_each(|entry| groups.push_front(vec![entry]));
                }
                Err(error) => {
                    written.error = Some(error);
                    break;
                }
            }
        }
        written
    }

    /// The same entries where the server refuses the request as a whole: each is then sent alone.
    async fn write_group(
        &self,
        mut entries: Vec<Entry>,
        written: &mut Written,
    ) -> Result<Option<Vec<Entry>>, String> {
        let mut last_success = Clock::System.elapsed();
        while !entries.is_empty() {
            let results = match self.send(&entries).await {
                Ok(results) => results,
                Err(failure) if is_of_the_items(&failure) && entries.len() > 1 => return Ok(Some(entries)),
                Err(failure) if is_of_the_items(&failure) => {
                    let reason = failure.to_string();
                    written.refusals.extend(entries.drain(..).map(|entry| entry.refused(reason.clone())));
                    break;
                }
                Err(failure) => return Err(failure.to_string()),
            };
            let (mut again, mut wait) = (Vec::new(), Duration::ZERO);
            for (entry, result) in entries.into_iter().zip(results) {
                written.charge += result.request_charge;
                match result.status_code {
                    200..=299 => {
                        written.items += 1;
                        last_success = Clock::System.elapsed();
                    }
                    429 => {
                        let asked = result.retry_after_milliseconds.unwrap_or(100);
                        wait = wait.max(Duration::from_millis(asked)).min(WAIT_MAX);
                        written.throttled += 1;
                        again.push(entry);
                    }
                    // The partition moves, or the server cannot take the write at present.
                    status if self.is_passing(status) => {
                        wait = wait.max(PASSING_WAIT);
                        again.push(entry);
                    }
                    _ => written.refusals.push(entry.refused(result.reason())),
                }
            }
            entries = again;
            if !entries.is_empty() {
                if Clock::System.elapsed().saturating_sub(last_success) > THROTTLED_MAX {
                    return Err(
                        "the server takes no write for ten minutes: if it throttles, raise the throughput with --throughput".into()
                    );
                }
                self.stop.pause(wait).await?;
            }
        }
        Ok(None)
    }

    fn is_passing(&self, status: u16) -> bool {
        // A write that timed out may have been done: to insert it again would report a conflict.
        matches!(status, 410 | 449 | 503) || status == 408 && self.mode == Mode::Upsert
    }

    /// A result for each entry.
    async fn send(&self, entries: &[Entry]) -> Result<Vec<OneResult>, Failure> {
        let request = self.request(entries);
        let (mut pauses, mut waited) = (PAUSES.into_iter(), Duration::ZERO);
        let answer = loop {
            match self.client.send_once(&request).await {
                Ok(answer) => break answer,
                Err(Failure { retry_after: Some(wait), .. }) if waited < THROTTLED_MAX => {
                    let wait = wait.min(WAIT_MAX);
                    waited += wait;
                    self.stop.pause(wait).await?;
                }
                Err(failure) => match pauses.next() {
                    // An insert whose answer is lost may have been done: to repeat it would report a conflict.
                    Some(pause)
                        if failure.is_passing()
                            && (failure.status.is_some() || self.mode == Mode::Upsert) =>
                    {
                        self.stop.pause(pause).await?;
                    }
                    _ => return Err(failure),
                },
            }
        };
        let results: Vec<OneResult> = serde_json::from_slice(answer.body())
            .map_err(|error| Failure::of_connection(format!("the answer has no results: {error}")))?;
        match results.len() == entries.len() {
            true => Ok(results),
            false => Err(Failure::of_connection("the answer has another number of results".to_owned())),
        }
    }

    fn request(&self, entries: &[Entry]) -> Request {
        let kind = match self.mode {
            Mode::Insert => "Create",
            Mode::Upsert => "Upsert",
        };
        assert!(!entries.is_empty(), "the server refuses a request of no operations");
        let mut body = String::from("[");
        for Entry { item, .. } in entries {
            let separator = if body.len() == 1 { "" } else { "," };
            let key = json!(key_of(item, &self.paths));
            body.push_str(&format!(
                "{separator}{{\"operationType\":\"{kind}\",\"partitionKey\":{key},\"resourceBody\":{item}}}"
            ));
        }
        body.push(']');
        Request::post(Address::items(&self.place.database, &self.place.container), body)
            .header("x-ms-cosmos-is-batch-request", "true")
            .header("x-ms-cosmos-batch-atomic", "false")
            .header("x-ms-cosmos-batch-continue-on-error", "true")
            .header("prefer", "return=minimal")
    }
}

impl Entry {
    fn refused(self, reason: String) -> Refusal {
        Refusal { line: self.line, reason, text: self.item }
    }
}

impl OneResult {
    fn reason(&self) -> String {
        match self.status_code {
            409 => "an item with this id exists in its logical partition".to_owned(),
            status if self.message.is_empty() => format!("the server answered {status}"),
            _ => own_sentence(&self.message),
        }
    }
}

/// Whether the items are the reason, and not the server or the key.
fn is_of_the_items(failure: &Failure) -> bool {
    matches!(failure.status, Some(StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE))
}

/// The partition key as the text of an array; a property that is not there is `{}`.
fn key_of(item: &str, paths: &[String]) -> String {
    let values: Vec<&str> = paths.iter().map(|path| value_at(item, path).unwrap_or("{}")).collect();
    format!("[{}]", values.join(","))
}

/// A hash of id and partition key. Texts of equal values have the same; two items that share one by chance are only written in order.
fn identity(item: &str, paths: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    value_at(item, "/id").and_then(text_of).hash(&mut hasher);
    for path in paths {
        let value = value_at(item, path).map(serde_json::from_str::<serde_json::Value>);
        match value {
            // Adding zero makes -0 and 0 the same.
            Some(Ok(serde_json::Value::Number(number))) => {
                (number.as_f64().unwrap_or_default() + 0.0).to_bits().hash(&mut hasher);
            }
            Some(Ok(value)) => value.to_string().hash(&mut hasher),
            Some(Err(_)) | None => 0_u8.hash(&mut hasher),
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_an_item_are_in_requests_of_their_own() {
        let identity = |item: &str| identity(item, &["/pk".to_owned()]);
        assert_eq!(identity(r#"{"id":"a","pk":1}"#), identity(r#"{"pk":1.0,"x":2,"id":"\u0061"}"#));
        assert_ne!(identity(r#"{"id":"a","pk":1}"#), identity(r#"{"id":"a","pk":"1"}"#));
        assert_ne!(identity(r#"{"id":"a","pk":1}"#), identity(r#"{"id":"b","pk":1}"#));
        let entry = |line, hash| (hash, Entry { line, item: String::new() });
        let entries = vec![entry(1, 7), entry(2, 8), entry(3, 7), entry(4, 7), entry(5, 9), entry(6, 8)];
        let rounds = Batch::rounds(entries);
        let lines = rounds.iter().map(|round| round.iter().map(|entry| entry.line).collect::<Vec<_>>());
        assert_eq!(lines.collect::<Vec<_>>(), [vec![1, 2, 5], vec![3, 6], vec![4]]);
    }

    #[test]
    fn keys_keep_their_text() {
        let paths = |list: &[&str]| list.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let item = r#"{"a":{"b":12345678901234567890},"c":"x\u00e4"}"#;
        assert_eq!(key_of(item, &paths(&["/a/b"])), "[12345678901234567890]");
        assert_eq!(key_of(item, &paths(&["/c", "/d"])), r#"["x\u00e4",{}]"#);
    }
}
