//! The counters of the server, and the page that `/metrics` shows.
//!
//! Requests are counted where they are answered. Everything else is read when the page is written: `metric_table.rs` has all
//! names and meanings, `exposition.rs` the format.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use http::{Response, StatusCode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use shardlake_account::{Account, FunctionReport, IndexReport, ProjectionReport, Shards};
use shardlake_admin::RequestCounts;
use shardlake_analytics::{Analytics, TableReport};
use shardlake_gateway_mongo::MongoGateway;
use shardlake_gateway_nosql::{MessageSpace, OperationName};
use shardlake_stdx::Timestamp;

use crate::container_counters::{ContainerCounters, ContainerLabels};
use crate::exposition::{Page, Value};
use crate::metric_table as table;
use crate::request_metrics::{RequestMetrics, Transport};
use crate::store_metrics::StoreMetrics;
use crate::{
    analytics_metrics, backup_metrics, copy_metrics, partition_metrics, process_metrics, projection_metrics,
    script_metrics, storage_metrics,
};

/// Reports of everything that follows a change log.
#[derive(Debug, Default)]
pub struct Followers {
    pub projections: Vec<ProjectionReport>,
    pub indexes: Vec<IndexReport>,
    pub functions: Vec<FunctionReport>,
    pub tables: Vec<TableReport>,
}

/// What is known of the server before it serves.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub durability: &'static str,
    pub data_dir: Option<PathBuf>,
    pub restore_window: Option<Duration>,
    pub certificate_ends: Option<Timestamp>,
    /// Of an account in an object store.
    pub store: Option<StoreMetrics>,
}

#[derive(Default)]
pub struct Metrics {
    facts: Facts,
    requests: RequestMetrics,
    containers_counted: ContainerCounters,
    /// Set when the account is open.
    shards: OnceLock<Shards>,
    /// Set when the MongoDB API is served.
    mongo: OnceLock<MongoGateway>,
    analytics: OnceLock<Analytics>,
    #[cfg(feature = "analytics-sql")]
    sql: OnceLock<shardlake_analytics_sql::Pool>,
    /// For the course that operators see: requests of clients, without those of operators.
    pub counts: RequestCounts,
    pub connections: Gauge,
    pub direct_connections: Gauge,
    pub connections_max: Gauge,
    pub connections_refused: Counter,
    pub connections_overdue: Counter,
    pub answers_abandoned: Counter,
}

impl Metrics {
    pub fn new(facts: Facts) -> Metrics {
        Metrics { facts, ..Metrics::default() }
    }

    /// From here on the shards are shown.
    pub fn show_shards(&self, shards: Shards) {
        let _set_once = self.shards.set(shards);
    }

    /// From here on the commands of the MongoDB API are shown.
    pub fn show_mongo(&self, gateway: MongoGateway) {
        let _set_once = self.mongo.set(gateway);
    }

    /// From here on the analytical tables are shown.
    pub fn show_analytics(&self, analytics: Analytics) {
        let _set_once = self.analytics.set(analytics);
    }

    /// From here on SQL queries over the tables are shown.
    #[cfg(feature = "analytics-sql")]
    pub fn show_sql(&self, pool: shardlake_analytics_sql::Pool) {
        let _set_once = self.sql.set(pool);
    }

    /// The analytical tables, once there are any.
    pub async fn tables(&self) -> Vec<TableReport> {
        match self.analytics.get() {
            Some(analytics) => analytics.reports().await,
            None => Vec::new(),
        }
    }

    /// Counts an answered request.
    pub fn record<B>(
        &self,
        (transport, operation): (Transport, OperationName),
        path: &str,
        response: &Response<B>,
        duration: Duration,
        names: impl Fn(&str, &str) -> Option<ContainerLabels>,
    ) {
        let status = response.status();
        let charge = response.headers().get("x-ms-request-charge").and_then(|value| value.to_str().ok());
        let charge = charge.and_then(|text| text.parse::<f64>().ok());
        self.requests.note((transport, operation), status, duration, charge);
        if !operation.is_of_admin() {
            self.counts.note(duration, status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT);
        }
        self.containers_counted.record(path, response, charge, names);
    }

    pub fn note_panic(&self) {
        self.requests.note_panic();
    }

    /// The whole page. `account` is there once the server is ready.
    pub fn render(&self, account: Option<&Account>, followers: &Followers, space: &MessageSpace) -> String {
        let mut page = Page::default();
        self.requests.write(&mut page);
        self.write_mongo(&mut page);
        self.write_connections(&mut page, space);
        self.containers_counted.write(&mut page);
        self.write_facts(&mut page);
        process_metrics::write(&mut page);
        process_metrics::write_disk(&mut page, self.facts.data_dir.as_deref());
        if let Some(account) = account {
            write_totals(&mut page, account);
            partition_metrics::write(&mut page, account);
            projection_metrics::write(&mut page, &followers.projections);
            copy_metrics::write(&mut page, &followers.indexes);
            copy_metrics::write_functions(&mut page, &followers.functions);
            analytics_metrics::write(&mut page, &followers.tables);
            #[cfg(feature = "analytics-sql")]
            if let Some(pool) = self.sql.get() {
                crate::sql_tables::write_metrics(&mut page, pool);
            }
            script_metrics::write(&mut page, account.procedures().script_confinement());
            backup_metrics::write(&mut page, account);
        }
        if let Some(shards) = self.shards.get() {
            storage_metrics::write(&mut page, shards);
        }
        if let Some(store) = &self.facts.store {
            store.write(&mut page);
        }
        page.text()
    }

    fn write_connections(&self, page: &mut Page, space: &MessageSpace) {
        let gauge = |gauge: &Gauge| u64::try_from(gauge.get()).unwrap_or(0);
        page.set(&table::CONNECTIONS, gauge(&self.connections));
        page.set(&table::DIRECT_CONNECTIONS, gauge(&self.direct_connections));
        page.set(&table::CONNECTIONS_MAX, gauge(&self.connections_max));
        page.set(&table::CONNECTIONS_REFUSED, self.connections_refused.get());
        page.set(&table::CONNECTIONS_OVERDUE, self.connections_overdue.get());
        page.set(&table::ANSWERS_ABANDONED, self.answers_abandoned.get());
        page.set(&table::ANSWERS_WAITING, space.answer_bytes());
        page.set(&table::BODIES_ARRIVING, space.body_bytes());
        page.set(&table::REQUESTS_WAITING, space.waiting() as u64);
    }

    fn write_mongo(&self, page: &mut Page) {
        let Some(mongo) = self.mongo.get() else { return };
        page.set(&table::MONGO_CONNECTIONS, mongo.connections() as u64);
        for report in mongo.commands() {
            for (code, count) in &report.outcomes {
                page.family(&table::MONGO_COMMANDS).push([report.name, code], *count);
            }
            if report.charge_centi > 0 {
                let charge = report.charge_centi as f64 / 100.0;
                page.family(&table::MONGO_COMMAND_CHARGE).push([report.name], charge);
            }
            page.family(&table::MONGO_COMMAND_DURATION).push([report.name], report.latency);
        }
    }

    fn write_facts(&self, page: &mut Page) {
        let commit = crate::version::COMMIT;
        let build = [env!("CARGO_PKG_VERSION"), self.facts.durability, commit];
        page.family(&table::BUILD).push(build, Value::Info);
        let ends = self.facts.certificate_ends;
        page.set_some(&table::CERTIFICATE_EXPIRY, ends.map(|ends| ends.milliseconds() as f64 / 1e3));
        page.set_some(&table::RESTORE_WINDOW, self.facts.restore_window.map(|window| window.as_secs()));
    }
}

fn write_totals(page: &mut Page, account: &Account) {
    let statistics = account.statistics();
    for (described, value) in [
        (&table::DATABASES, statistics.databases),
        (&table::CONTAINERS, statistics.containers),
        (&table::PARTITIONS, statistics.partitions),
        (&table::ITEMS, statistics.items),
        (&table::ITEMS_SIZE, statistics.size_bytes),
        (&table::SHARDS, statistics.shards),
        (&table::DISK_SIZE, statistics.disk_bytes),
        (&table::STORAGE_POISONED, u64::from(!account.router().is_writable())),
    ] {
        page.set(described, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_counts_requests_and_charges() {
        let metrics = Metrics::new(Facts { durability: "sync", ..Facts::default() });
        let response =
            Response::builder().status(201).header("x-ms-request-charge", "6.29").body(()).expect("valid");
        let path = "/dbs/a/colls/b/docs";
        let create = (Transport::Http, OperationName::CreateItem);
        metrics.record(create, path, &response, Duration::from_micros(300), |_, _| None);
        let page = metrics.render(None, &Followers::default(), &MessageSpace::new(1 << 30, 4 << 20));
        for line in [
            r#"shardlake_requests_total{transport="http",operation="CreateItem",status="201"} 1"#,
            r#"shardlake_request_charge_total{operation="CreateItem"} 6.29"#,
            r#"shardlake_request_duration_seconds_bucket{le="0.0005",transport="http",operation="CreateItem"} 1"#,
            "shardlake_connections 0",
            "# EOF",
        ] {
            assert!(page.contains(line), "{line} in\n{page}");
        }
        assert!(page.contains("shardlake_build_info{") && page.contains(r#"durability="sync""#), "{page}");
    }
}
