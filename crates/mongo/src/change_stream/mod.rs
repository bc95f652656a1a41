//! Change streams: changes in a collection, a database or everywhere, event by event (spec mongo.md §18).
//!
//! | file | purpose |
//! |---|---|
//! | `mod.rs` | options and targets; batches of events, and waiting for the next |
//! | `opening.rs` | where a stream begins, or continues |
//! | `followed.rs` | the containers that a stream follows: their choice, renames and ends |
//! | `ended.rs` | containers that were created and dropped between two reads of the catalog |
//! | `merge.rs` | the next of all their changes |
//! | `events.rs`, `difference.rs` | a change as an event; the difference that an update made |
//! | `token.rs` | resume tokens |
//!
//! A stream reads the change logs of its containers (`shardlake-items`, `version_reader.rs`), which report every change
//! exactly once and in order for each document. Renames and ends of collections are not in the logs; they follow from
//! the catalog:
//!
//! * A rename is kept with the container, with its time, and is reported between the changes before and after that time.
//!   The time is later than that of every commit that was acknowledged before, and no commit that begins afterwards has
//!   an earlier one.
//! * The data of a dropped collection is deleted with it. A stream that had read everything reports the drop. Any other
//!   stream fails because its history is lost (286); it never skips changes silently.

mod difference;
mod ended;
mod events;
mod followed;
mod merge;
mod opening;
mod token;

use std::collections::VecDeque;
use std::time::Duration;

use shardlake_items::any_changed;
use shardlake_mql::{Context, Document, Env, Pipeline, Value, identical};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::collections::{Collections, Namespace};
use crate::failure::{Failure, Result};
use crate::request::Request;

pub use events::{cluster_time_now, milliseconds_of, operation_time};
pub use token::Token;

use ended::Ends;
use followed::Followed;
use token::{Scope, TokenKind};

/// Longest wait for changes: a commit whose writer was cancelled wakes no reader, so readers look for such commits
/// regularly.
const WAIT_SLICE: Duration = Duration::from_secs(1);
pub const CHANGE_STREAM_FATAL: i32 = 280;
pub const HISTORY_LOST: i32 = 286;

/// Target of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    Collection(Namespace),
    Database(String),
    Everything,
}

impl Watched {
    fn scope(&self) -> Scope {
        match self {
            Watched::Collection(_) => Scope::Collection,
            Watched::Database(_) => Scope::Database,
            Watched::Everything => Scope::Everything,
        }
    }
}

/// Which version of the document an update's event shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FullDocument {
    #[default]
    Default,
    /// The version at the time when the event is read.
    UpdateLookup,
    WhenAvailable,
    Required,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BeforeChange {
    #[default]
    Off,
    WhenAvailable,
    Required,
}

#[derive(Debug, Clone, Default)]
pub enum StreamStart {
    #[default]
    Now,
    /// With the writes in that millisecond and later.
    At(u64),
    ResumeAfter(Token),
    /// Like `ResumeAfter`, also behind the event that ended a stream.
    StartAfter(Token),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamOptions {
    pub full_document: FullDocument,
    pub before: BeforeChange,
}

/// How much a batch may hold, and how long an empty one waits.
#[derive(Debug, Clone, Copy)]
pub struct StreamRoom {
    pub documents_max: usize,
    pub size_bytes_max: usize,
    pub wait: Duration,
}

#[derive(Debug)]
pub struct StreamBatch {
    /// As BSON.
    pub events: Vec<Vec<u8>>,
    /// The resume token behind everything that was read.
    pub token: Document,
    /// The stream has reported its end.
    pub is_last: bool,
}

#[derive(Debug)]
pub struct ChangeStream {
    collections: Collections,
    watched: Watched,
    options: StreamOptions,
    /// The stages behind `$changeStream`.
    pipeline: Pipeline,
    /// Its stages have expressions, which run on the blocking pool.
    evaluates: bool,
    env: Env,
    followed: Vec<Followed>,
    /// Events from the catalog, to be reported next.
    pending: VecDeque<Told>,
    /// An event that the stages have not processed yet: a cancelled call loses nothing.
    at_work: Option<Told>,
    /// Events that have passed the stages, for the next batches.
    ready: VecDeque<Ready>,
    catalog: watch::Receiver<u64>,
    ends: Ends,
    /// Time of the last event.
    time_ms: u64,
    kind: TokenKind,
    /// An event was read and cannot be reported: nothing may come after it.
    broken: Option<Failure>,
}

/// The command is over, by its time or because it was interrupted.
const TIME_IS_OVER: i32 = 50;

/// The client's budget is spent: the stream continues later.
const TOO_MANY_REQUESTS: i32 = 16500;

fn retry_after(failure: &Failure) -> Duration {
    let told = failure.details.get("retryAfterMs").and_then(Value::to_i64_exact);
    Duration::from_millis(told.and_then(|told| u64::try_from(told).ok()).unwrap_or(0).max(1))
}

/// An event, and the state for a stream that is resumed behind it.
#[derive(Debug, Clone)]
struct Told {
    event: Document,
    time_ms: u64,
    kind: TokenKind,
    /// The event completes the ends up to this version of the catalog.
    ends_told: Option<u64>,
}

#[derive(Debug)]
struct Ready {
    bytes: Vec<u8>,
    token: Document,
    is_end: bool,
}

/// Stages of a change stream read no other collection.
struct NoOthers;

impl shardlake_mql::Collections for NoOthers {
    fn documents(&self, _database: Option<&str>, collection: &str) -> shardlake_mql::Result<Vec<Value>> {
        let words = format!("a change stream does not read the collection '{collection}'");
        Err(shardlake_mql::Error::new(20, words))
    }
}

impl ChangeStream {
    /// The next events. Where there are none, waits for one.
    pub async fn next(&mut self, request: &Request, room: StreamRoom) -> Result<StreamBatch> {
        let until = Instant::now() + room.wait;
        self.env.set_time(request.time_test());
        loop {
            let filled = self.fill(request, room).await;
            if !self.ready.is_empty() {
                // An error comes again with the next call.
                return Ok(self.hand_out(room));
            }
            let pause = match filled {
                Err(failure) if failure.code == TOO_MANY_REQUESTS => Some(retry_after(&failure)),
                Err(failure) => return Err(failure),
                Ok(()) => None,
            };
            let is_over = self.is_at_end() || self.collections.queries.items().waiting_is_over();
            if is_over || Instant::now() >= until {
                return Ok(self.hand_out(room));
            }
            match pause {
                Some(pause) => tokio::time::sleep_until(until.min(Instant::now() + pause)).await,
                None => self.wait(until).await,
            }
        }
    }

    /// The resume token before the first batch.
    pub fn token(&self) -> Document {
        self.token_here(self.kind)
    }

    fn token_here(&self, kind: TokenKind) -> Document {
        let containers = match kind {
            TokenKind::Events => self.followed.iter().map(Followed::position).collect(),
            TokenKind::Invalidate | TokenKind::Nothing => Vec::new(),
        };
        let (scope, time_ms, ends_told) = (self.watched.scope(), self.time_ms, Some(self.ends.told));
        Token { kind, scope, time_ms, ends_told, containers }.document()
    }

    fn is_at_end(&self) -> bool {
        self.kind == TokenKind::Nothing && self.pending.is_empty()
    }

    async fn fill(&mut self, request: &Request, room: StreamRoom) -> Result<()> {
        if let Some(failure) = &self.broken {
            return Err(failure.clone());
        }
        let mut bytes: usize = self.ready.iter().map(|ready| ready.bytes.len()).sum();
        while self.ready.len() < room.documents_max && bytes < room.size_bytes_max {
            if self.at_work.is_none() {
                self.at_work = self.advance(request).await?;
            }
            // Kept while its stages are awaited, so that a cancelled call loses nothing.
            let told = if self.evaluates { self.at_work.clone() } else { self.at_work.take() };
            let Some(told) = told else { return Ok(()) };
            let is_end = told.kind == TokenKind::Nothing;
            let shown = match self.shown(told).await {
                // The event is evaluated again by the next call.
                Err(failure) if failure.code == TIME_IS_OVER => return Err(failure),
                Err(failure) => {
                    self.broken = Some(failure.clone());
                    return Err(failure);
                }
                Ok(shown) => shown,
            };
            self.at_work = None;
            if let Some(ready) = shown {
                bytes += ready.bytes.len();
                self.ready.push_back(ready);
            } else if is_end {
                return Ok(());
            }
        }
        Ok(())
    }

    /// An event through the stages, with its token.
    async fn shown(&mut self, told: Told) -> Result<Option<Ready>> {
        let Told { mut event, time_ms, kind, ends_told } = told;
        self.time_ms = time_ms;
        self.ends.told = ends_told.unwrap_or(self.ends.told);
        self.kind = kind;
        let token = self.token_here(kind);
        event.push_front("_id", Value::document(token.clone()));
        let (pipeline, env) = (self.pipeline.clone(), self.env.clone());
        let work = move || {
            let mut context =
                Context { env, collections: &NoOthers, indexes: Vec::new(), memory_bytes_max: 16 << 20 };
            let input = std::iter::once(Ok(Value::document(event)));
            pipeline.run(input, &mut context).map(|mut shown| shown.pop())
        };
        let shown = match self.evaluates {
            false => work(),
            true => tokio::task::spawn_blocking(work)
                .await
                .map_err(|_| Failure::new(1, "the stages of a change stream ended without an answer"))?,
        };
        let Some(shown) = shown? else { return Ok(None) };
        let Value::Document(shown) = shown else { return Ok(None) };
        if !identical(&shown.value("_id"), &Value::document(token.clone())) {
            let words = "Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. Modifying the _id field of an event makes it impossible to resume the stream from that point. Only transformations that retain the unmodified _id field are allowed.";
            return Err(Failure::new(CHANGE_STREAM_FATAL, words));
        }
        Ok(Some(Ready { bytes: shown.to_bytes(), token, is_end: kind == TokenKind::Nothing }))
    }

    fn hand_out(&mut self, room: StreamRoom) -> StreamBatch {
        let (mut events, mut size, mut token, mut is_last) = (Vec::new(), 0, None, false);
        while let Some(ready) = self.ready.front() {
            let is_full =
                events.len() >= room.documents_max || size + ready.bytes.len() > room.size_bytes_max;
            if is_full && !events.is_empty() {
                break;
            }
            let Some(Ready { bytes, token: behind, is_end }) = self.ready.pop_front() else { break };
            size += bytes.len();
            events.push(bytes);
            (token, is_last) = (Some(behind), is_end);
        }
        if self.ready.is_empty() {
            // Events that the stages dropped were read, too.
            token = Some(self.token_here(self.kind));
            is_last |= self.is_at_end();
        }
        StreamBatch { events, token: token.unwrap_or_else(|| self.token_here(self.kind)), is_last }
    }

    /// Waits until something may have changed, at most until this time.
    async fn wait(&mut self, until: Instant) {
        let time_max = WAIT_SLICE.min(until.saturating_duration_since(Instant::now()));
        // A clone: versions that it sees stay new for the original.
        let mut catalog = self.catalog.clone();
        let mut places = Vec::new();
        self.followed.iter().for_each(|followed| followed.reader.places(&mut places));
        tokio::select! {
            () = any_changed(places, time_max) => {}
            // The sender lives as long as the account.
            _ = catalog.changed() => {}
        }
    }
}
