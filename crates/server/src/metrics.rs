//! What `/metrics` shows, in the text format of Prometheus.
//!
//! Requests are counted where they are answered; the totals of the account are read when somebody asks. Operations
//! are told apart by method and kind of resource alone; databases and containers have metrics of their own
//! (`container_counters.rs`, `partition_metrics.rs`), and so have projections (`projection_metrics.rs`) and script workers
//! (`script_metrics.rs`) and object stores (`store_metrics.rs`), and names of items and keys never become labels.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use http::{Method, Response, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use shardlake_account::{Account, ProjectionReport};
use shardlake_admin::RequestCounts;
use shardlake_gateway_nosql::MessageSpace;

use crate::container_counters::{ContainerCounters, ContainerLabels};
use crate::store_metrics::StoreMetrics;
use crate::{partition_metrics, projection_metrics, script_metrics};

pub const PREFIX: &str = "shardlake";

/// Seconds. Point operations take tens of microseconds, a durable write a fraction of a millisecond, a slow disk more.
const LATENCY_BUCKETS: [f64; 14] =
    [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0];

/// What a request does, as far as its method and path tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Operation {
    ReadAccount,
    Database,
    Container,
    PartitionKeyRanges,
    /// Of partitions, for clients in Direct mode.
    Addresses,
    Offer,
    ReadItem,
    CreateItem,
    ReplaceItem,
    PatchItem,
    DeleteItem,
    ReadFeed,
    /// Partitions seen or acted upon.
    Operate,
    Other,
}

/// How many there are.
const OPERATIONS: usize = Operation::Other as usize + 1;

impl Operation {
    pub fn of(method: &Method, path: &str) -> Operation {
        // Bytes: each request goes through here, and a text is searched for a character in several times the time.
        let mut segments = path.as_bytes().split(|byte| *byte == b'/').filter(|segment| !segment.is_empty());
        let kinds = [segments.next(), segments.nth(1), segments.nth(1)];
        let is_named = segments.next().is_some();
        match kinds {
            [None, ..] => Operation::ReadAccount,
            [Some(b"offers"), ..] => Operation::Offer,
            [Some(b"_shardlake"), ..] => Operation::Operate,
            [Some(b"addresses"), ..] => Operation::Addresses,
            [Some(b"dbs"), None, _] => Operation::Database,
            [Some(b"dbs"), Some(b"colls"), None] => Operation::Container,
            [Some(b"dbs"), Some(b"colls"), Some(b"pkranges")] => Operation::PartitionKeyRanges,
            [Some(b"dbs"), Some(b"colls"), Some(b"docs")] => match (is_named, method.as_str()) {
                (false, "GET") => Operation::ReadFeed,
                // An upsert, a batch or a query is told apart by headers only.
                (false, "POST") => Operation::CreateItem,
                (true, "GET") => Operation::ReadItem,
                (true, "PUT") => Operation::ReplaceItem,
                (true, "PATCH") => Operation::PatchItem,
                (true, "DELETE") => Operation::DeleteItem,
                _ => Operation::Other,
            },
            _ => Operation::Other,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    operation: Operation,
    status: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: Operation,
}

/// The metrics of one operation, found once: looked up by their labels, they would cost each request three locks that all share.
#[derive(Debug, Default)]
struct Found {
    answered: OnceLock<Counter>,
    durations: OnceLock<Histogram>,
    charges: OnceLock<Counter<f64, AtomicU64>>,
}

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<OperationLabels, Histogram>,
    charges: Family<OperationLabels, Counter<f64, AtomicU64>>,
    found: [Found; OPERATIONS],
    containers_counted: ContainerCounters,
    /// For the course that operators see: requests of clients, without those of operators.
    pub counts: RequestCounts,
    pub connections: Gauge,
    pub direct_connections: Gauge,
    pub connections_max: Gauge,
    pub connections_refused: Counter,
    pub connections_overdue: Counter,
    pub answers_abandoned: Counter,
    answer_bytes: Gauge,
    body_bytes: Gauge,
    requests_waiting: Gauge,
    databases: Gauge,
    containers: Gauge,
    partitions: Gauge,
    items: Gauge,
    size_bytes: Gauge,
    shards: Gauge,
    disk_bytes: Gauge,
    storage_poisoned: Gauge,
}

impl Metrics {
    /// `store` is of an account in an object store.
    pub fn new(durability: &str, store: Option<&StoreMetrics>) -> Metrics {
        let metrics = Metrics {
            registry: Registry::with_prefix(PREFIX),
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS)),
            charges: Family::default(),
            found: Default::default(),
            containers_counted: ContainerCounters::default(),
            counts: RequestCounts::default(),
            connections: Gauge::default(),
            direct_connections: Gauge::default(),
            connections_max: Gauge::default(),
            connections_refused: Counter::default(),
            connections_overdue: Counter::default(),
            answers_abandoned: Counter::default(),
            answer_bytes: Gauge::default(),
            body_bytes: Gauge::default(),
            requests_waiting: Gauge::default(),
            databases: Gauge::default(),
            containers: Gauge::default(),
            partitions: Gauge::default(),
            items: Gauge::default(),
            size_bytes: Gauge::default(),
            shards: Gauge::default(),
            disk_bytes: Gauge::default(),
            storage_poisoned: Gauge::default(),
        };
        metrics.registered(durability, store)
    }

    fn registered(mut self, durability: &str, store: Option<&StoreMetrics>) -> Metrics {
        let to = &mut self.registry;
        to.register("requests", "Requests answered", self.requests.clone());
        let help = "Time from a request's headers to its answer";
        to.register_with_unit("request_duration", help, Unit::Seconds, self.durations.clone());
        to.register("request_charge", "Request units charged", self.charges.clone());
        to.register("connections", "Open connections", self.connections.clone());
        let help =
            "Open connections of clients in Direct mode; the others speak HTTP or the MongoDB protocol";
        to.register("direct_connections", help, self.direct_connections.clone());
        let help = "Connections that there may be, as far as open files are enough";
        to.register("connections_max", help, self.connections_max.clone());
        let refused = self.connections_refused.clone();
        to.register("connections_refused", "Connections refused because there were too many", refused);
        let overdue = self.connections_overdue.clone();
        to.register("connections_overdue", "Connections closed because they were idle or slow", overdue);
        let help = "Answers ended because their client took nothing of them";
        to.register("answers_abandoned", help, self.answers_abandoned.clone());
        let help = "Memory of answers that clients have not taken, with what requests at work may need";
        to.register_with_unit("answers_waiting", help, Unit::Bytes, self.answer_bytes.clone());
        let help = "Memory of large request bodies that arrive or are worked on";
        to.register_with_unit("bodies_arriving", help, Unit::Bytes, self.body_bytes.clone());
        let help = "Requests that wait for memory before they are worked on";
        to.register("requests_waiting", help, self.requests_waiting.clone());
        to.register("databases", "Databases", self.databases.clone());
        to.register("containers", "Containers", self.containers.clone());
        to.register("partitions", "Physical partitions", self.partitions.clone());
        to.register("items", "Items", self.items.clone());
        to.register_with_unit("items_size", "JSON size of all items", Unit::Bytes, self.size_bytes.clone());
        to.register("shards", "Stores that the data is spread over", self.shards.clone());
        let help = "Size of the files of all shards";
        to.register_with_unit("disk_size", help, Unit::Bytes, self.disk_bytes.clone());
        let help = "1 when storage refuses writes until the server is started again";
        to.register("storage_poisoned", help, self.storage_poisoned.clone());
        let build = Info::new(vec![
            ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("durability".to_owned(), durability.to_owned()),
        ]);
        to.register("build", "What is running", build);
        if let Some(store) = store {
            store.register(to);
        }
        self
    }

    /// Counts an answered request.
    pub fn record<B>(
        &self,
        operation: Operation,
        path: &str,
        response: &Response<B>,
        duration: Duration,
        names: impl Fn(&str, &str) -> Option<ContainerLabels>,
    ) {
        let found = &self.found[operation as usize];
        let labels = RequestLabels { operation, status: response.status().as_u16() };
        match response.status() {
            StatusCode::OK => {
                found.answered.get_or_init(|| self.requests.get_or_create(&labels).clone()).inc();
            }
            _ => {
                self.requests.get_or_create(&labels).inc();
            }
        }
        if operation != Operation::Operate {
            let status = response.status();
            self.counts.note(duration, status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT);
        }
        let labels = OperationLabels { operation };
        let durations = found.durations.get_or_init(|| self.durations.get_or_create(&labels).clone());
        durations.observe(duration.as_secs_f64());
        let charge = response.headers().get("x-ms-request-charge").and_then(|value| value.to_str().ok());
        let charge = charge.and_then(|text| text.parse::<f64>().ok());
        if let Some(charge) = charge {
            found.charges.get_or_init(|| self.charges.get_or_create(&labels).clone()).inc_by(charge);
        }
        self.containers_counted.record(path, response, charge, names);
    }

    /// The whole page. `account` is there once the server is ready.
    pub fn render(
        &self,
        account: Option<&Account>,
        projections: &[ProjectionReport],
        space: &MessageSpace,
    ) -> String {
        let total = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.answer_bytes.set(total(space.answer_bytes()));
        self.body_bytes.set(total(space.body_bytes()));
        self.requests_waiting.set(total(space.waiting() as u64));
        if let Some(account) = account {
            let statistics = account.statistics();
            let totals = [
                (&self.databases, statistics.databases),
                (&self.containers, statistics.containers),
                (&self.partitions, statistics.partitions),
                (&self.items, statistics.items),
                (&self.size_bytes, statistics.size_bytes),
                (&self.shards, statistics.shards),
                (&self.disk_bytes, statistics.disk_bytes),
                (&self.storage_poisoned, u64::from(!account.is_writable())),
            ];
            for (gauge, value) in totals {
                gauge.set(total(value));
            }
        }
        let mut page = String::new();
        let written = "writing to a string cannot fail";
        text::encode_registry(&mut page, &self.registry).expect(written);
        let mut counted = Registry::with_prefix(PREFIX);
        self.containers_counted.register(&mut counted);
        text::encode_registry(&mut page, &counted).expect(written);
        if let Some(account) = account {
            partition_metrics::write(&mut page, account);
            script_metrics::write(&mut page, account.script_confinement());
        }
        projection_metrics::write(&mut page, projections);
        text::encode_eof(&mut page).expect(written);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_known_by_method_and_kind_of_resource() {
        let cases = [
            ("GET", "/", Operation::ReadAccount),
            ("POST", "/dbs", Operation::Database),
            ("GET", "/dbs/a", Operation::Database),
            ("POST", "/dbs/a/colls", Operation::Container),
            ("GET", "/dbs/a/colls/b/", Operation::Container),
            ("GET", "/dbs/a/colls/b/pkranges", Operation::PartitionKeyRanges),
            ("GET", "/dbs/a/colls/b/docs", Operation::ReadFeed),
            ("POST", "/dbs/a/colls/b/docs", Operation::CreateItem),
            ("GET", "/dbs/a/colls/b/docs/c", Operation::ReadItem),
            ("PUT", "/dbs/a/colls/b/docs/c", Operation::ReplaceItem),
            ("PATCH", "/dbs/a/colls/b/docs/c", Operation::PatchItem),
            ("DELETE", "/dbs/a/colls/b/docs/c", Operation::DeleteItem),
            ("GET", "/offers/x", Operation::Offer),
            ("GET", "//addresses/", Operation::Addresses),
            ("POST", "/_shardlake/v1/dbs/a/colls/b/partitions/0/split", Operation::Operate),
            ("GET", "/dbs/a/colls/b/sprocs/c", Operation::Other),
            ("GET", "/anything", Operation::Other),
        ];
        for (method, path, operation) in cases {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            assert_eq!(Operation::of(&method, path), operation, "{method} {path}");
        }
    }

    #[test]
    fn the_page_counts_requests_and_charges() {
        let metrics = Metrics::new("sync", None);
        let response =
            Response::builder().status(201).header("x-ms-request-charge", "6.29").body(()).expect("valid");
        let path = "/dbs/a/colls/b/docs";
        metrics.record(Operation::CreateItem, path, &response, Duration::from_micros(300), |_, _| None);
        let page = metrics.render(None, &[], &MessageSpace::new(1 << 30, 4 << 20));
        for line in [
            r#"shardlake_requests_total{operation="CreateItem",status="201"} 1"#,
            r#"shardlake_request_charge_total{operation="CreateItem"} 6.29"#,
            r#"shardlake_request_duration_seconds_bucket{le="0.0005",operation="CreateItem"} 1"#,
            "shardlake_storage_poisoned 0",
            "# EOF",
        ] {
            assert!(page.contains(line), "{line} in\n{page}");
        }
        assert!(page.contains("shardlake_build_info{") && page.contains(r#"durability="sync""#), "{page}");
    }
}
