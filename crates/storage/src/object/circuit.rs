//! Requests to a store that fails are refused at once, but for one a second which tries it.
//!
//! ```text
//! closed ── 10 failures within 5 s, no answer between them ──▶ open ── an answer ──▶ closed
//!                                                              │  ▲
//!                                             one try a second └──┘ it fails
//! ```
//! While it is open, requests are refused at once with a time to retry, instead of after the ten
//! seconds that a read waits. A "no" is an answer: that an object is missing, or exists. The lease
//! is renewed past the circuit, since that has a deadline of its own.
//!
//! Where the log lies in a store of its own, each of the two has a circuit: reads need the one, and writes the other, and the first only
//! when no more fits into memory.
//!
//! Writes to the log are repeated until the store takes them: a writer that gives up loses the
//! shard. So its attempts are the tries of an idle server, and no acknowledged write depends on the
//! circuit.

use std::collections::VecDeque;
use std::fmt::{Debug, Display, Formatter};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use shardlake_stdx::Clock;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::watch;

use super::objects::{LOG, below};

const FAILURES_MAX: usize = 10;
const FAILURES_WITHIN: Duration = Duration::from_secs(5);
const TRY_AFTER: Duration = Duration::from_secs(1);

/// Events that an operator may want to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitEvent {
    Opened,
    Closed,
    /// A request that was not made.
    Refused,
}

/// Those of the stores of an account: two where the log lies in a store of its own, so that one of them may fail without the other.
#[derive(Debug, Clone)]
pub struct Circuits {
    pub data: Arc<Circuit>,
    pub log: Arc<Circuit>,
}

impl Circuits {
    pub fn of_one_store(circuit: Arc<Circuit>) -> Circuits {
        Circuits { data: circuit.clone(), log: circuit }
    }
}

/// One for all shards of a store.
pub struct Circuit {
    clock: Clock,
    /// As messages call it.
    store: &'static str,
    observe: Box<dyn Fn(CircuitEvent) + Send + Sync>,
    state: Mutex<State>,
    /// Grows with each failure that leaves the circuit open.
    failures_while_open: watch::Sender<u64>,
}

#[derive(Debug)]
enum State {
    /// When requests failed since the last answer.
    Closed {
        failures: VecDeque<Duration>,
    },
    Open {
        try_at: Duration,
    },
}

impl Circuit {
    pub fn new(clock: Clock, observe: impl Fn(CircuitEvent) + Send + Sync + 'static) -> Circuit {
        let state = Mutex::new(State::Closed { failures: VecDeque::new() });
        let (store, observe) = ("the object store", Box::new(observe));
        Circuit { clock, store, observe, state, failures_while_open: watch::Sender::new(0) }
    }

    /// Circuit of a store that has nothing but the log.
    pub fn of_log(clock: Clock, observe: impl Fn(CircuitEvent) + Send + Sync + 'static) -> Circuit {
        Circuit { store: "the store of the log", ..Circuit::new(clock, observe) }
    }

    /// Whether a request would be refused now.
    pub fn refuses(&self) -> bool {
        matches!(&*self.state(), State::Open { try_at } if self.clock.elapsed() < *try_at)
    }

    /// Ends when a request is refused, or has failed while the circuit is open.
    pub async fn refused(&self) {
        let mut failures = self.failures_while_open.subscribe();
        if !self.refuses() {
            // The sender lives as long as this.
            let _changed = failures.changed().await;
        }
    }

    /// Notes that a request timed out, or that its answer shows a failure of the store.
    pub fn note_failure(&self) {
        let now = self.clock.elapsed();
        let mut state = self.state();
        let opens = match &mut *state {
            State::Open { .. } => false,
            State::Closed { failures } => {
                failures.push_back(now);
                while failures.front().is_some_and(|first| *first + FAILURES_WITHIN < now) {
                    failures.pop_front();
                }
                assert!(failures.len() <= FAILURES_MAX, "a circuit opens at its limit");
                failures.len() >= FAILURES_MAX
            }
        };
        if opens {
            *state = State::Open { try_at: now + TRY_AFTER };
        }
        let is_open = matches!(*state, State::Open { .. });
        drop(state);
        if opens {
            tracing::warn!("{} does not answer: requests are refused until it does", self.store);
            (self.observe)(CircuitEvent::Opened);
        }
        if is_open {
            self.failures_while_open.send_modify(|failures| *failures += 1);
        }
    }

    pub fn note_answer(&self) {
        let before = std::mem::replace(&mut *self.state(), State::Closed { failures: VecDeque::new() });
        if matches!(before, State::Open { .. }) {
            tracing::info!("{} answers again", self.store);
            (self.observe)(CircuitEvent::Closed);
        }
    }

    /// Whether a request may be made; of those that come while the circuit is open, one a second.
    fn admits(&self) -> bool {
        let now = self.clock.elapsed();
        let is_admitted = match &mut *self.state() {
            State::Closed { .. } => true,
            State::Open { try_at } if now >= *try_at => {
                *try_at = now + TRY_AFTER;
                true
            }
            State::Open { .. } => false,
        };
        if !is_admitted {
            (self.observe)(CircuitEvent::Refused);
        }
        is_admitted
    }

    fn note<T>(&self, outcome: &Result<T>) {
        match outcome {
            Ok(_)
            | Err(
                Error::NotFound { .. }
                | Error::AlreadyExists { .. }
                | Error::Precondition { .. }
                | Error::NotModified { .. }
                | Error::NotSupported { .. }
                | Error::NotImplemented { .. },
            ) => self.note_answer(),
            Err(_) => self.note_failure(),
        }
    }

    async fn request<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        if !self.admits() {
            return Err(refused());
        }
        let outcome = request.await;
        self.note(&outcome);
        outcome
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused() -> Error {
    Error::Generic { store: "shardlake", source: "the store does not answer: no request was made".into() }
}

impl Debug for Circuit {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Debug::fmt(&*self.state(), f)
    }
}

/// The store of a shard behind its circuits.
pub(super) struct Guarded {
    store: Arc<dyn ObjectStore>,
    circuits: Circuits,
    /// The folder of the shard's log.
    log: Path,
}

impl Guarded {
    pub fn over(store: Arc<dyn ObjectStore>, circuits: Circuits, shard: &Path) -> Arc<dyn ObjectStore> {
        Arc::new(Guarded { store, circuits, log: below(shard, LOG) })
    }

    /// For an object, or a folder.
    fn circuit(&self, location: &Path) -> &Arc<Circuit> {
        match location.prefix_matches(&self.log) {
            true => &self.circuits.log,
            false => &self.circuits.data,
        }
    }

    fn listed(
        &self,
        prefix: Option<&Path>,
        listed: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let circuit = self.circuit(prefix.unwrap_or(&Path::default())).clone();
        if !circuit.admits() {
            return stream::once(async { Err(refused()) }).boxed();
        }
        listed.inspect(move |object| circuit.note(object)).boxed()
    }
}

impl Debug for Guarded {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Debug::fmt(&self.store, f)
    }
}

impl Display for Guarded {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Display::fmt(&self.store, f)
    }
}

#[async_trait]
impl ObjectStore for Guarded {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.circuit(location).request(self.store.put_opts(location, payload, opts)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.circuit(location).request(self.store.put_multipart_opts(location, opts)).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.circuit(location).request(self.store.get_opts(location, options)).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.circuit(location).request(self.store.get_ranges(location, ranges)).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(prefix, self.store.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(prefix, self.store.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.circuit(prefix.unwrap_or(&Path::default())).request(self.store.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.circuit(to).request(self.store.copy_opts(from, to, options)).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use shardlake_stdx::Timestamp;

    use super::*;

    #[test]
    fn it_opens_after_ten_failures_in_a_row_within_five_seconds_and_tries_once_a_second() {
        let clock = Clock::manual(Timestamp(1_000_000));
        let events = Arc::new([const { AtomicU64::new(0) }; 3]);
        let counts = events.clone();
        let circuit = Circuit::new(clock.clone(), move |event| {
            counts[event as usize].fetch_add(1, Ordering::Relaxed);
        });
        let fail = |times: u32| (0..times).for_each(|_| circuit.note_failure());
        fail(9);
        circuit.note_answer();
        fail(9);
        assert!(circuit.admits(), "an answer came between");
        clock.advance(Duration::from_millis(5_001));
        fail(9);
        assert!(circuit.admits(), "the first nine are too long ago");
        fail(1);
        assert!(circuit.refuses() && !circuit.admits());
        clock.advance(Duration::from_millis(999));
        assert!(!circuit.admits());
        clock.advance(Duration::from_millis(1));
        assert!(!circuit.refuses());
        assert!(circuit.admits(), "one request tries the store");
        assert!(!circuit.admits(), "and no second one");
        fail(1);
        assert!(circuit.refuses());
        clock.advance(Duration::from_secs(1));
        assert!(circuit.admits());
        circuit.note_answer();
        assert!(circuit.admits() && circuit.admits());
        let counted = events.iter().map(|count| count.load(Ordering::Relaxed)).collect::<Vec<_>>();
        assert_eq!(counted, [1, 1, 3]);
    }
}
