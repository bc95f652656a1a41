//! Engine with reads that wait until the test releases them, so that a test can count how often an operation waits.
//!
//! All reads that wait at the same time make one round trip together, as they would over a slow store.

use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use bytes::Bytes;
use shardlake_storage::{
    Answer, Batch, Engine, EngineScan, EngineView, Lookup, MemoryEngine, Row, ScanOptions, Value,
};

/// Clones share everything.
#[derive(Clone, Default)]
pub struct SlowEngine {
    memory: Arc<MemoryEngine>,
    reads: Reads,
}

#[derive(Clone, Default)]
struct Reads {
    are_slow: Arc<AtomicBool>,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    reads: Vec<(Arc<AtomicBool>, Waker)>,
    /// Waker of the task that releases them.
    counting: Option<Waker>,
}

impl SlowEngine {
    /// Result of an operation, and how often it waited for reads.
    pub async fn round_trips<T>(&self, operation: impl Future<Output = T>) -> (T, usize) {
        self.reads.are_slow.store(true, Ordering::SeqCst);
        let mut operation = pin!(operation);
        let mut round_trips = 0;
        let outcome = poll_fn(|context| {
            let polled = operation.as_mut().poll(context);
            let waiting = {
                let mut waiting = self.reads.waiting.lock().expect("no holder panics");
                waiting.counting = Some(context.waker().clone());
                std::mem::take(&mut waiting.reads)
            };
            round_trips += usize::from(!waiting.is_empty());
            for (may_go_on, waker) in waiting {
                may_go_on.store(true, Ordering::SeqCst);
                waker.wake();
            }
            polled
        })
        .await;
        self.reads.are_slow.store(false, Ordering::SeqCst);
        (outcome, round_trips)
    }
}

impl Reads {
    fn slow<'a, T: Send + 'a>(&self, answer: Answer<'a, T>) -> Answer<'a, T> {
        if !self.are_slow.load(Ordering::SeqCst) {
            return answer;
        }
        let (reads, may_go_on) = (self.clone(), Arc::new(AtomicBool::new(false)));
        Answer::later(async move {
            poll_fn(|context| {
                if may_go_on.load(Ordering::SeqCst) {
                    return Poll::Ready(());
                }
                let mut waiting = reads.waiting.lock().expect("no holder panics");
                waiting.reads.push((may_go_on.clone(), context.waker().clone()));
                waiting.counting.iter().for_each(Waker::wake_by_ref);
                Poll::Pending
            })
            .await;
            answer.await
        })
    }
}

impl Engine for SlowEngine {
    fn apply(&self, batches: Vec<Batch>) -> Answer<'_, ()> {
        self.memory.apply(batches)
    }

    fn sync(&self) -> Answer<'_, ()> {
        self.memory.sync()
    }

    fn view(&self) -> Box<dyn EngineView> {
        Box::new(SlowView { view: self.memory.view(), reads: self.reads.clone() })
    }

    fn moment(&self) -> u64 {
        self.memory.moment()
    }

    fn flush(&self) -> Answer<'_, ()> {
        self.memory.flush()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.memory.close()
    }

    fn disk_bytes(&self) -> u64 {
        self.memory.disk_bytes()
    }
}

struct SlowView {
    view: Box<dyn EngineView>,
    reads: Reads,
}

impl EngineView for SlowView {
    fn get(&self, key: &[u8]) -> Lookup<Option<Value>> {
        self.reads.slow(self.view.get(key))
    }

    fn get_many(&self, keys: Vec<Bytes>) -> Lookup<Vec<Option<Value>>> {
        self.reads.slow(self.view.get_many(keys))
    }

    fn scan(&self, range: Range<Vec<u8>>, options: ScanOptions) -> Box<dyn EngineScan> {
        Box::new(SlowScan { scan: self.view.scan(range, options), reads: self.reads.clone() })
    }

    fn moment(&self) -> u64 {
        self.view.moment()
    }
}

struct SlowScan {
    scan: Box<dyn EngineScan>,
    reads: Reads,
}

impl EngineScan for SlowScan {
    fn next_chunk(&mut self, rows_max: usize) -> Answer<'_, Vec<Row>> {
        self.reads.slow(self.scan.next_chunk(rows_max))
    }
}
