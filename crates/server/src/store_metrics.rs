//! Requests to the object store, for operators: how many, how large, how quick.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Seconds. A directory takes a millisecond, a cloud tens, one far away or overloaded more.
const LATENCY_BUCKETS: [f64; 12] = [0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// As in price lists. Builds without object storage make no requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[cfg_attr(not(feature = "object-storage"), allow(dead_code))]
pub enum Operation {
    Get,
    Put,
    List,
    Delete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    operation: Operation,
}

/// Of a read or a write of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[cfg_attr(not(feature = "object-storage"), allow(dead_code))]
enum Outcome {
    Hit,
    Miss,
    Damaged,
    NotKept,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DiskCacheLabels {
    outcome: Outcome,
}

#[derive(Debug, Clone, Default)]
struct CircuitMetrics {
    open: Gauge,
    openings: Counter,
    refusals: Counter,
}

#[derive(Debug, Clone)]
pub struct StoreMetrics {
    requests: Family<Labels, Counter>,
    failures: Family<Labels, Counter>,
    bytes: Family<Labels, Counter>,
    durations: Family<Labels, Histogram>,
    circuit: CircuitMetrics,
    /// Of the store of the log, where that is another one.
    log_circuit: CircuitMetrics,
    disk_cache: Family<DiskCacheLabels, Counter>,
}

impl Default for StoreMetrics {
    fn default() -> StoreMetrics {
        StoreMetrics {
            requests: Family::default(),
            failures: Family::default(),
            bytes: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS)),
            circuit: CircuitMetrics::default(),
            log_circuit: CircuitMetrics::default(),
            disk_cache: Family::default(),
        }
    }
}

impl StoreMetrics {
    pub fn register(&self, to: &mut Registry) {
        let help = "Requests to the object store, as its price list counts them";
        to.register("store_requests", help, self.requests.clone());
        let help = "Requests to the object store that failed or were not answered";
        to.register("store_failures", help, self.failures.clone());
        let help = "Bytes read from and written to the object store";
        to.register_with_unit("store_transfer", help, Unit::Bytes, self.bytes.clone());
        let help = "Time until the object store began to answer";
        to.register_with_unit("store_request_duration", help, Unit::Seconds, self.durations.clone());
        self.circuit.register(to, "store_circuit", "the object store");
        self.log_circuit.register(to, "store_log_circuit", "the store of the log");
        let help = "Parts of tables of 256 KiB: read from the disk cache, fetched from the store, damaged on disk, not written";
        to.register("store_disk_cache_parts", help, self.disk_cache.clone());
    }

    #[cfg(feature = "object-storage")]
    pub fn observe_circuit(
        &self,
    ) -> impl Fn(shardlake_storage::object::CircuitEvent) + Send + Sync + 'static {
        self.circuit.observe()
    }

    #[cfg(feature = "object-storage")]
    pub fn observe_log_circuit(
        &self,
    ) -> impl Fn(shardlake_storage::object::CircuitEvent) + Send + Sync + 'static {
        self.log_circuit.observe()
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
            metrics.get_or_create(&DiskCacheLabels { outcome }).inc();
        }
    }

    #[cfg(feature = "object-storage")]
    pub fn observe(&self) -> shardlake_lease::Observe {
        use shardlake_lease::{StoreOperation, StoreRequest};
        let metrics = self.clone();
        std::sync::Arc::new(move |request: StoreRequest| {
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
        let labels = Labels { operation };
        self.requests.get_or_create(&labels).inc();
        self.bytes.get_or_create(&labels).inc_by(bytes);
        if !is_answered {
            self.failures.get_or_create(&labels).inc();
        }
        if !duration.is_zero() {
            self.durations.get_or_create(&labels).observe(duration.as_secs_f64());
        }
    }
}

impl CircuitMetrics {
    fn register(&self, to: &mut Registry, name: &str, store: &str) {
        let help = format!("1 while requests are refused because {store} does not answer");
        to.register(format!("{name}_open"), help, self.open.clone());
        let help = format!("How often {store} stopped answering");
        to.register(format!("{name}_openings"), help, self.openings.clone());
        let help = format!("Requests to {store} that were not made because it did not answer");
        to.register(format!("{name}_refusals"), help, self.refusals.clone());
    }

    #[cfg(feature = "object-storage")]
    fn observe(&self) -> impl Fn(shardlake_storage::object::CircuitEvent) + Send + Sync + 'static {
        use shardlake_storage::object::CircuitEvent;
        let metrics = self.clone();
        move |event| match event {
            CircuitEvent::Opened => {
                metrics.open.set(1);
                metrics.openings.inc();
            }
            CircuitEvent::Closed => drop(metrics.open.set(0)),
            CircuitEvent::Refused => drop(metrics.refusals.inc()),
        }
    }
}
