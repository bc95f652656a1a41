//! Requests to the object store, for operators: how many, how large, how quick.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
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

#[derive(Debug, Clone)]
pub struct StoreMetrics {
    requests: Family<Labels, Counter>,
    failures: Family<Labels, Counter>,
    bytes: Family<Labels, Counter>,
    durations: Family<Labels, Histogram>,
}

impl Default for StoreMetrics {
    fn default() -> StoreMetrics {
        StoreMetrics {
            requests: Family::default(),
            failures: Family::default(),
            bytes: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS)),
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
    }

    #[cfg(feature = "object-storage")]
    pub fn observe(&self) -> shardlake_cluster::Observe {
        use shardlake_cluster::{StoreOperation, StoreRequest};
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
