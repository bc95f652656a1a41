//! Requests to the object store, for operators: how many, how large, how quick.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use shardlake_stdx::DurationHistogram;

use crate::exposition::Page;
use crate::metric_table as table;

/// Kinds of requests, as in price lists. Builds without object storage make no requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "object-storage"), allow(dead_code))]
pub enum Operation {
    Get,
    Put,
    List,
    Delete,
}

const OPERATIONS: [&str; 4] = ["Get", "Put", "List", "Delete"];

/// Outcome of a read or a write of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "object-storage"), allow(dead_code))]
enum Outcome {
    Hit,
    Miss,
    Damaged,
    NotKept,
}

const OUTCOMES: [&str; 4] = ["Hit", "Miss", "Damaged", "NotKept"];

#[derive(Debug, Default)]
struct OfOperation {
    requests: AtomicU64,
    failures: AtomicU64,
    bytes: AtomicU64,
    durations: DurationHistogram,
}

#[derive(Debug, Default)]
struct Circuit {
    is_open: AtomicBool,
    openings: AtomicU64,
    refusals: AtomicU64,
}

#[derive(Debug, Clone, Default)]
pub struct StoreMetrics {
    operations: Arc<[OfOperation; 4]>,
    circuit: Arc<Circuit>,
    /// Of the WAL store, where that is another one.
    wal_circuit: Arc<Circuit>,
    disk_cache: Arc<[AtomicU64; 4]>,
}

impl StoreMetrics {
    pub fn write(&self, page: &mut Page) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for (name, of) in OPERATIONS.into_iter().zip(&*self.operations) {
            page.family(&table::STORE_REQUESTS).push([name], count(&of.requests));
            page.family(&table::STORE_FAILURES).push([name], count(&of.failures));
            page.family(&table::STORE_TRANSFER).push([name], count(&of.bytes));
            page.family(&table::STORE_REQUEST_DURATION).push([name], of.durations.counts());
        }
        for (name, circuit) in [("data", &self.circuit), ("wal", &self.wal_circuit)] {
            let is_open = circuit.is_open.load(Ordering::Relaxed);
            page.family(&table::STORE_CIRCUIT_OPEN).push([name], is_open);
            page.family(&table::STORE_CIRCUIT_OPENINGS).push([name], count(&circuit.openings));
            page.family(&table::STORE_CIRCUIT_REFUSALS).push([name], count(&circuit.refusals));
        }
        for (name, parts) in OUTCOMES.into_iter().zip(&*self.disk_cache) {
            page.family(&table::STORE_DISK_CACHE).push([name], count(parts));
        }
    }

    #[cfg(feature = "object-storage")]
    pub fn observe_circuit(
        &self,
    ) -> impl Fn(shardlake_storage::object::CircuitEvent) + Send + Sync + 'static {
        observe(&self.circuit)
    }

    #[cfg(feature = "object-storage")]
    pub fn observe_log_circuit(
        &self,
    ) -> impl Fn(shardlake_storage::object::CircuitEvent) + Send + Sync + 'static {
        observe(&self.wal_circuit)
    }

    #[cfg(feature = "object-storage")]
    pub fn observe_disk_cache(
        &self,
    ) -> impl Fn(shardlake_storage::object::DiskCacheEvent) + Send + Sync + 'static {
        use shardlake_storage::object::DiskCacheEvent;
        let metrics = self.disk_cache.clone();
        move |event| {
            let outcome = match event {
                DiskCacheEvent::Hit => Outcome::Hit,
                DiskCacheEvent::Miss => Outcome::Miss,
                DiskCacheEvent::Damaged => Outcome::Damaged,
                DiskCacheEvent::NotKept => Outcome::NotKept,
            };
            metrics[outcome as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    #[cfg(feature = "object-storage")]
    pub fn observe(&self) -> shardlake_lease::Observe {
        use shardlake_lease::{StoreOperation, StoreRequest};
        let metrics = self.clone();
        Arc::new(move |request: StoreRequest| {
            let operation = match request.operation {
                StoreOperation::Get => Operation::Get,
                StoreOperation::Put => Operation::Put,
                StoreOperation::List => Operation::List,
                StoreOperation::Delete => Operation::Delete,
            };
            metrics.record(operation, request.is_answered, request.bytes, request.duration);
        })
    }

    #[cfg_attr(not(feature = "object-storage"), allow(dead_code))]
    fn record(&self, operation: Operation, is_answered: bool, bytes: u64, duration: Duration) {
        let of = &self.operations[operation as usize];
        of.requests.fetch_add(1, Ordering::Relaxed);
        of.bytes.fetch_add(bytes, Ordering::Relaxed);
        if !is_answered {
            of.failures.fetch_add(1, Ordering::Relaxed);
        }
        if !duration.is_zero() {
            of.durations.observe(duration);
        }
    }
}

#[cfg(feature = "object-storage")]
fn observe(
    circuit: &Arc<Circuit>,
) -> impl Fn(shardlake_storage::object::CircuitEvent) + Send + Sync + 'static {
    use shardlake_storage::object::CircuitEvent;
    let circuit = circuit.clone();
    move |event| match event {
        CircuitEvent::Opened => {
            circuit.is_open.store(true, Ordering::Relaxed);
            circuit.openings.fetch_add(1, Ordering::Relaxed);
        }
        CircuitEvent::Closed => circuit.is_open.store(false, Ordering::Relaxed),
        CircuitEvent::Refused => drop(circuit.refusals.fetch_add(1, Ordering::Relaxed)),
    }
}
