//! Every metric of the server: its name, type, unit, labels and meaning. The page of metrics is written from this table, and so
//! is `docs/metrics.md`.
//!
//! Names follow the OpenMetrics conventions: base units as suffixes, `_total` for counters, ratios from 0 to 1. Values of labels
//! come from the program or from the catalog, and never from what a client sends.

use prometheus_client::metrics::MetricType;

/// A family of metrics.
#[derive(Debug)]
pub struct Described {
    /// Without the unit and without `_total`.
    pub name: &'static str,
    pub kind: Kind,
    pub unit: Option<&'static str>,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

impl Kind {
    pub fn of_the_format(self) -> MetricType {
        match self {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
            Kind::Info => MetricType::Info,
        }
    }
}

macro_rules! metrics {
    ($($constant:ident: $kind:ident $name:literal $([$unit:literal])? ($($label:literal),*) $help:literal;)+) => {
        $(
            pub static $constant: Described = Described {
                name: $name,
                kind: Kind::$kind,
                unit: metrics!(@unit $($unit)?),
                labels: &[$($label),*],
                help: $help,
            };
        )+

        /// In the order of the page.
        pub static ALL: &[&Described] = &[$(&$constant),+];
    };
    (@unit) => { None };
    (@unit $unit:literal) => { Some($unit) };
}

metrics! {
    REQUESTS: Counter "shardlake_requests" ("transport", "operation", "status")
        "Requests of the NoSQL API that were answered, by their HTTP status";
    REQUEST_DURATION: Histogram "shardlake_request_duration" ["seconds"] ("transport", "operation")
        "Time from the headers of a request of the NoSQL API to its answer";
    REQUEST_CHARGE: Counter "shardlake_request_charge" ("operation")
        "Request units charged to requests of the NoSQL API";
    REQUEST_PANICS: Counter "shardlake_request_panics" ()
        "Requests of the NoSQL API that ended because their handler panicked";
    MONGO_COMMANDS: Counter "shardlake_mongo_commands" ("command", "code")
        "Commands of the MongoDB API that were answered, by the name of their error code, or OK; of a write that succeeds in part, the code of its first failed statement";
    MONGO_COMMAND_DURATION: Histogram "shardlake_mongo_command_duration" ["seconds"] ("command")
        "Time from a command of the MongoDB API to its answer";
    MONGO_COMMAND_CHARGE: Counter "shardlake_mongo_command_charge" ("command")
        "Request units charged to commands of the MongoDB API";
    CONNECTIONS: Gauge "shardlake_connections" () "Open connections of all APIs";
    DIRECT_CONNECTIONS: Gauge "shardlake_direct_connections" () "Open connections of clients in Direct mode";
    MONGO_CONNECTIONS: Gauge "shardlake_mongo_connections" () "Open connections of MongoDB drivers";
    CONNECTIONS_MAX: Gauge "shardlake_connections_max" ()
        "Connections that may be open at once, as far as open files are enough";
    CONNECTIONS_REFUSED: Counter "shardlake_connections_refused" ()
        "Connections refused because too many were open";
    CONNECTIONS_OVERDUE: Counter "shardlake_connections_overdue" ()
        "Connections closed because they were idle or slow";
    ANSWERS_ABANDONED: Counter "shardlake_answers_abandoned" ()
        "Answers ended because their clients read nothing of them";
    ANSWERS_WAITING: Gauge "shardlake_answers_waiting" ["bytes"] ()
        "Memory of answers that clients have not read, with the memory that running requests may need";
    BODIES_ARRIVING: Gauge "shardlake_bodies_arriving" ["bytes"] ()
        "Memory of large request bodies that arrive or are processed";
    REQUESTS_WAITING: Gauge "shardlake_requests_waiting" () "Requests that wait for memory before they run";

    DATABASES: Gauge "shardlake_databases" () "Databases";
    CONTAINERS: Gauge "shardlake_containers" () "Containers and collections";
    PARTITIONS: Gauge "shardlake_partitions" () "Physical partitions";
    ITEMS: Gauge "shardlake_items" () "Items and documents";
    ITEMS_SIZE: Gauge "shardlake_items_size" ["bytes"] () "JSON size of all items";
    CONTAINER_REQUESTS: Counter "shardlake_container_requests" ("database", "container", "status")
        "Requests of the NoSQL API to a container that were answered, by their HTTP status";
    CONTAINER_REQUEST_CHARGE: Counter "shardlake_container_request_charge" ("database", "container")
        "Request units charged to requests of the NoSQL API in a container";
    CONTAINER_THROUGHPUT: Gauge "shardlake_container_throughput" ("database", "container")
        "Request units per second of a container now, under autoscale the value that it is scaled to";
    CONTAINER_AUTOSCALE_MAX: Gauge "shardlake_container_autoscale_max_throughput" ("database", "container")
        "Request units per second up to which a container is scaled";
    INDEX_BUILDS: Gauge "shardlake_index_builds" () "Index builds in progress";
    INDEX_BUILD_DONE: Gauge "shardlake_index_build_done" ["ratio"] ("database", "container")
        "Share of the items that the index under construction of a container holds";
    PARTITION_THROUGHPUT: Gauge "shardlake_partition_throughput" ("database", "container", "partition_key_range_id")
        "Request units per second that a partition may spend";
    PARTITION_THROUGHPUT_USED: Gauge "shardlake_partition_throughput_used" ["ratio"] ("database", "container", "partition_key_range_id")
        "Share of its throughput that a partition spent in the busiest second of the last minute";
    PARTITION_SIZE: Gauge "shardlake_partition_size" ["bytes"] ("database", "container", "partition_key_range_id")
        "JSON size of the items of a partition";
    PARTITION_THROTTLED: Counter "shardlake_partition_throttled_requests" ("database", "container", "partition_key_range_id")
        "Operations that a partition refused for lack of request units, since the partition began";
    PARTITION_PURGED: Counter "shardlake_partition_purged_items" ("database", "container", "partition_key_range_id")
        "Items that a partition removed because their time to live ended, since the partition began";
    PARTITIONS_NOT_SHOWN: Gauge "shardlake_partitions_not_shown" ()
        "Partitions without metrics of their own, because only the 1,000 busiest are shown";
    RELOCATIONS: Counter "shardlake_relocations" ("kind", "outcome")
        "Splits, merges and moves of partitions that have ended: done or given_up";
    RELOCATIONS_ACTIVE: Gauge "shardlake_relocations_active" ("kind")
        "Splits, merges and moves of partitions in progress";
    RELOCATION_COPIED: Gauge "shardlake_relocation_copied" ["ratio"] ("database", "container", "kind")
        "Share of the items that the targets of a relocation hold";
    PROJECTION_LAG: Gauge "shardlake_projection_lag" ("projection")
        "Commits that a projection has not looked at";
    PROJECTION_LAG_SECONDS: Gauge "shardlake_projection_lag" ["seconds"] ("projection")
        "Age of the oldest commit that a projection has not looked at";
    PROJECTION_CHANGES: Counter "shardlake_projection_changes" ("projection")
        "Changed items that a projection looked at";
    PROJECTION_APPLIED: Counter "shardlake_projection_applied" ("projection")
        "Items whose copies a projection corrected";
    PROJECTION_DEAD_LETTERS: Counter "shardlake_projection_dead_letters" ("projection")
        "Items whose copies a projection could not correct";
    PROJECTION_STATE: Gauge "shardlake_projection_state" ("projection", "state")
        "1 for the state of a projection, 0 for the other states";
    COPY_STATE: Gauge "shardlake_copy_state" ("kind", "copy", "state")
        "1 for the state of a copy, 0 for the other states";
    COPY_LAG: Gauge "shardlake_copy_lag" ["changes"] ("kind", "copy")
        "Commits of the source that the copy does not have yet";
    COPY_LAG_SECONDS: Gauge "shardlake_copy_lag" ["seconds"] ("kind", "copy")
        "Age of the oldest commit that the copy does not have yet";
    COPY_ROWS: Gauge "shardlake_copy_rows" ("kind", "copy")
        "Rows of the copy";
    COPY_ROWS_WRITTEN: Counter "shardlake_copy_rows_written" ("kind", "copy")
        "Rows that were written since the start";
    COPY_ROWS_DELETED: Counter "shardlake_copy_rows_deleted" ("kind", "copy")
        "Rows that were deleted since the start";
    COPY_REFUSED: Gauge "shardlake_copy_refused" ("kind", "copy")
        "Items of the source that have rows which cannot be written";
    COPY_DUPLICATES: Gauge "shardlake_copy_duplicates" ("kind", "copy")
        "Rows beyond the first of their key, of a unique index";
    COPY_CHANGES: Counter "shardlake_copy_changes" ("kind", "copy")
        "Changes that a function was given";
    COPY_RUNS: Counter "shardlake_copy_runs" ("kind", "copy", "outcome")
        "Runs of a function since the start, by outcome";
    COPY_DEAD_LETTERS: Counter "shardlake_copy_dead_letters" ("kind", "copy")
        "Changes that a function could not handle";
    ANALYTICS_STATE: Gauge "shardlake_analytics_state" ("database", "container", "state")
        "1 for the state of a container's analytical table, 0 for the other states";
    ANALYTICS_LAG: Gauge "shardlake_analytics_lag" ["changes"] ("database", "container")
        "Commits that are not in the table yet";
    ANALYTICS_LAG_SECONDS: Gauge "shardlake_analytics_lag" ["seconds"] ("database", "container")
        "Age of the oldest commit that is not in the table yet";
    ANALYTICS_COMPLETE_TO: Gauge "shardlake_analytics_complete_to_timestamp" ["seconds"] ("database", "container")
        "Everything that was acknowledged before this time, since the Unix epoch, is in the table";
    ANALYTICS_ROWS: Gauge "shardlake_analytics_rows" ("database", "container")
        "Rows that readers of the table see";
    ANALYTICS_ROWS_DELETED: Gauge "shardlake_analytics_rows_deleted" ("database", "container")
        "Rows of the table's files that a deletion vector hides";
    ANALYTICS_FILES: Gauge "shardlake_analytics_files" ("database", "container")
        "Data files of the table's newest version";
    ANALYTICS_SIZE: Gauge "shardlake_analytics_size" ["bytes"] ("database", "container")
        "Size of these files";
    ANALYTICS_COLUMNS: Gauge "shardlake_analytics_columns" ("database", "container")
        "Columns of properties at the root level";
    ANALYTICS_COMMITS: Counter "shardlake_analytics_commits" ("database", "container", "reason")
        "Commits of the table since the server started";
    ANALYTICS_COPIED_ITEMS: Counter "shardlake_analytics_copied_items" ("database", "container")
        "Items that became rows since the server started";
    ANALYTICS_COMPACTED: Counter "shardlake_analytics_compacted" ["bytes"] ("database", "container")
        "Bytes of files that compaction rewrote since the server started";
    ANALYTICS_REST_VALUES: Counter "shardlake_analytics_rest_values" ("database", "container", "reason")
        "Values that no column holds exactly, which are in the column _rest, since the server started";
    ANALYTICS_LOST_HISTORY: Counter "shardlake_analytics_lost_history" ("database", "container")
        "Items that ran out before they were copied: the table's history lacks them. At least 1 where the log no longer has how many";
    ANALYTICS_CPU: Counter "shardlake_analytics_cpu" ["seconds"] ("database", "container")
        "Processor time of following, since the server started";
    SQL_QUERIES: Counter "shardlake_sql_queries" ("outcome")
        "SQL queries over analytical tables by their outcome; absent in builds without them";
    SQL_DURATION: Histogram "shardlake_sql" ["seconds"] () "Time of SQL queries over analytical tables, from the request to the end of the answer";
    SQL_MEMORY: Gauge "shardlake_sql_memory" ["bytes"] () "The most memory that the operators of one such query have held since the server started";
    SQL_RUNNING: Gauge "shardlake_sql_running" () "Such queries that wait or run";
    SCRIPT_CONFINEMENT: Gauge "shardlake_script_confinement" ("layer")
        "1 where the kernel confines script workers by a layer, 0 where it refused; absent before the first script";

    SHARDS: Gauge "shardlake_shards" () "Shards, independent stores that the partitions are placed on";
    SHARD_POISONED: Gauge "shardlake_shard_poisoned" ("shard")
        "1 for a shard that refuses writes until the server is restarted, because a write or sync failed";
    STORAGE_POISONED: Gauge "shardlake_storage_poisoned" () "1 when any shard refuses writes until the server is restarted";
    DISK_SIZE: Gauge "shardlake_disk_size" ["bytes"] () "Disk space that the files of all shards use";
    DATA_DIR_SIZE: Gauge "shardlake_data_dir_size" ["bytes"] () "Size of the file system of the data directory";
    DATA_DIR_FREE: Gauge "shardlake_data_dir_free" ["bytes"] ()
        "Free space of the file system of the data directory for this process";
    SYNC_DURATION: Histogram "shardlake_sync_duration" ["seconds"] ("shard")
        "Time that a group of commits waits for stable storage: fsync, or the answer of the object store";
    JOURNAL_SIZE: Gauge "shardlake_journal_size" ["bytes"] ("shard")
        "Disk space of the journals that the next start would replay after a crash";
    CACHE_LOOKUPS: Counter "shardlake_cache_lookups" ("cache", "outcome")
        "Lookups in the row cache, the range cache and the block cache: hit or miss";
    CACHE_SIZE: Gauge "shardlake_cache_size" ["bytes"] ("cache") "Memory that a cache uses";
    CACHE_CAPACITY: Gauge "shardlake_cache_capacity" ["bytes"] ("cache") "Memory that a cache may use";
    MEMTABLES_WAITING: Gauge "shardlake_memtables_waiting" ("shard")
        "Memtables that wait until they are sorted into tables";
    COMPACTION_DEBT: Gauge "shardlake_compaction_debt_tables" ("shard")
        "Tables of the first level that wait until they are merged; writers are held up when there are too many";
    COMPACTIONS_ACTIVE: Gauge "shardlake_compactions_active" ("shard") "Compactions in progress";
    COMPACTIONS: Counter "shardlake_compactions" ("shard") "Compactions that have ended";
    COMPACTION_TIME: Counter "shardlake_compaction" ["seconds"] ("shard") "Time spent in compactions";
    STORE_REQUESTS: Counter "shardlake_store_requests" ("operation")
        "Requests to the object store, as its price list counts them";
    STORE_FAILURES: Counter "shardlake_store_failures" ("operation")
        "Requests to the object store that failed or were not answered";
    STORE_TRANSFER: Counter "shardlake_store_transfer" ["bytes"] ("operation")
        "Bytes read from and written to the object store";
    STORE_REQUEST_DURATION: Histogram "shardlake_store_request_duration" ["seconds"] ("operation")
        "Time until the object store began to answer";
    STORE_CIRCUIT_OPEN: Gauge "shardlake_store_circuit_open" ("store")
        "1 while requests to a store are refused because it does not answer; store is data, or wal with a WAL store";
    STORE_CIRCUIT_OPENINGS: Counter "shardlake_store_circuit_openings" ("store")
        "Times that a store stopped answering";
    STORE_CIRCUIT_REFUSALS: Counter "shardlake_store_circuit_refusals" ("store")
        "Requests refused because a store does not answer";
    STORE_DISK_CACHE: Counter "shardlake_store_disk_cache_parts" ("outcome")
        "Parts of tables of 256 KiB: Hit on the disk cache, Miss, Damaged, or NotKept because it cannot be written";

    BACKUPS_ACTIVE: Gauge "shardlake_backups_active" () "States of the account that are kept while a client copies them";
    LAST_BACKUP_TIME: Gauge "shardlake_last_backup_timestamp" ["seconds"] ()
        "End of the last backup that was completed, as Unix time; absent before the first";
    LAST_BACKUP_DURATION: Gauge "shardlake_last_backup_duration" ["seconds"] () "Duration of the last completed backup";
    LAST_BACKUP_SIZE: Gauge "shardlake_last_backup_size" ["bytes"] () "Size of all files of the last completed backup";
    LAST_BACKUP_RESULT: Gauge "shardlake_last_backup_result" ("result")
        "1 for the result of the backup that ended last, completed or not: done, failed, or abandoned by its client";
    RESTORE_WINDOW: Gauge "shardlake_restore_window" ["seconds"] ()
        "How far back the log is kept for restores, as configured; absent without a restore window";
    RESTORE_WINDOW_BEGIN: Gauge "shardlake_restore_window_begin_timestamp" ["seconds"] ()
        "Earliest Unix time to which the log of every local shard reaches back; absent without a restore window";
    CERTIFICATE_EXPIRY: Gauge "shardlake_certificate_expiry_timestamp" ["seconds"] ()
        "Unix time at which the TLS certificate expires";

    BUILD: Info "shardlake_build" ("version", "durability", "commit") "The running program";
    PROCESS_CPU: Counter "process_cpu" ["seconds"] () "Processor time of the process, user and system";
    PROCESS_RESIDENT: Gauge "process_resident_memory" ["bytes"] () "Memory of the process that is resident";
    PROCESS_OPEN_FDS: Gauge "process_open_fds" () "Open file descriptors of the process";
    PROCESS_MAX_FDS: Gauge "process_max_fds" () "File descriptors that the process may open";
    PROCESS_START: Gauge "process_start_time" ["seconds"] () "Start of the process as Unix time";
    PROCESS_THREADS: Gauge "process_threads" () "Threads of the process";
}

#[cfg(test)]
impl Described {
    /// The name of the family in the exposition format.
    pub fn family(&self) -> String {
        match self.unit {
            Some(unit) => format!("{}_{unit}", self.name),
            None => self.name.to_owned(),
        }
    }

    /// The names of its samples.
    pub fn samples(&self) -> Vec<String> {
        let family = self.family();
        match self.kind {
            Kind::Counter => vec![format!("{family}_total")],
            Kind::Gauge => vec![family],
            Kind::Histogram => ["bucket", "sum", "count"].map(|part| format!("{family}_{part}")).into(),
            Kind::Info => vec![format!("{family}_info")],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const INTRODUCTION: &str = "\
# Metrics

`GET /metrics` answers OpenMetrics text, which Prometheus reads. It needs no key. This page is written from the table in the code
(`crates/server/src/metric_table.rs`): `UPDATE=1 cargo test -p shardlake --lib metric_table` rewrites it.

Counters are since the start of the server, unless their meaning says otherwise. A family without samples is left out, or has none until its
first event. Labels name databases, containers, operations and commands, and never keys or items: values of labels come from the program or the
catalog, so that clients cannot add series. Of partitions the 1,000 busiest of the last minute are shown.

[alerts.yml](../deploy/prometheus/alerts.yml) has alert rules and [shardlake.json](../deploy/grafana/shardlake.json) a Grafana dashboard over
these metrics.

| metric | type | unit | labels | meaning |
|---|---|---|---|---|
";

    /// The page of the documentation.
    fn documentation() -> String {
        let mut page = INTRODUCTION.to_owned();
        for metric in ALL {
            let name = match metric.kind {
                Kind::Histogram => format!("{}_bucket`, `…_sum`, `…_count", metric.family()),
                _ => metric.samples().concat(),
            };
            let kind = format!("{:?}", metric.kind).to_lowercase();
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let (unit, labels) = (metric.unit.unwrap_or_default(), labels.join(", "));
            page += &format!("| `{name}` | {kind} | {unit} | {labels} | {} |\n", metric.help);
        }
        page
    }

    #[test]
    fn the_documentation_lists_every_metric() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        let page = documentation();
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &page).expect("the page is written");
        }
        let found = std::fs::read_to_string(&path).expect("docs/metrics.md is there");
        assert!(found == page, "docs/metrics.md differs from the table: UPDATE=1 rewrites it");
    }

    #[test]
    fn names_follow_the_conventions() {
        let mut families = BTreeSet::new();
        for metric in ALL {
            let family = metric.family();
            let plain = |text: &str| {
                text.bytes().all(|byte| byte.is_ascii_lowercase() || b"_0123456789".contains(&byte))
            };
            assert!(plain(&family) && metric.labels.iter().all(|label| plain(label)), "{family}");
            assert!(families.insert(family.clone()), "{family} is there twice");
            for suffix in
                ["_total", "_info", "_count", "_sum", "_bucket", "_created", "_percent", "_milliseconds"]
            {
                assert!(!family.ends_with(suffix), "{family}");
            }
            assert!(!metric.help.contains(['\n', '\\']) && !metric.help.ends_with('.'), "{}", metric.help);
        }
        // Of two families, none has the name of a sample of the other.
        for metric in ALL {
            for sample in metric.samples() {
                assert!(sample == metric.family() || !families.contains(&sample), "{sample}");
            }
        }
    }
}
