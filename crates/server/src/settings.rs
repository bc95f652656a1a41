//! Settings of the server, and the three places to set them: flags, environment variables, a TOML file.
//!
//! There is one struct, [`Settings`], and every field of it is optional: a layer holds the settings that were given there. The flag
//! `--data-dir`, the variable `SHARDLAKE_DATA_DIR` and the key `data-dir` of the file are one setting; a flag wins over
//! a variable, a variable over the file. A name that no setting has is an error in flags and files, because a setting
//! that is silently ignored is worse than a server that does not start; a variable is one where it looks like a misspelled setting, and
//! gets a warning otherwise, since it may belong to another program. `layers.rs` brings the three together. Lists are written with commas in a variable.
//! `config.rs` fills in defaults and checks settings that belong together. `docs/settings.md` is generated from the help texts.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Deserializer, Serialize};
use shardlake_model::LimitScale;

use crate::byte_size::ByteSize;
use crate::emulator::Emulated;

/// Every setting of the server. The comments are its help texts.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Settings {
    /// Where everything is kept: data, certificates, generated keys [default: shardlake-data; with --durability memory: nowhere]
    ///
    /// One server owns the directory at a time. Moving or copying it while no server runs moves or copies the account.
    #[arg(long, value_name = "DIR", help_heading = "Storage")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<PathBuf>,

    /// When a write is acknowledged: sync, async or memory [default: sync]
    ///
    /// sync: when it is on stable storage; no acknowledged write is lost, whatever stops the machine.
    /// async: when the operating system has it, which flushes it within a tenth of a second; killing the server
    /// loses nothing, a power cut the latest writes. memory: nothing is stored; a stop loses everything.
    #[arg(long, value_name = "MODE", help_heading = "Storage")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<DurabilityMode>,

    /// Stores that data is spread over, 1 to 64 [default: as many as the data directory has; 1 in a new one]
    ///
    /// Each is a directory of its own with its own journal, and partitions can be moved between them. More can be added at any
    /// start; starting with fewer than there are is refused.
    #[arg(long, value_name = "NUMBER", help_heading = "Storage")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shards: Option<u16>,

    /// Object store to keep the data in, instead of the data directory: s3://BUCKET/PREFIX, az://…, gs://… or file:///DIR
    ///
    /// Every acknowledged write is in the store, and another server can continue with the account: one at a time serves it. The data directory
    /// then holds certificates and keys only. Credentials and options come from the environment, as AWS_ACCESS_KEY_ID, AWS_REGION,
    /// AWS_ENDPOINT, AZURE_STORAGE_ACCOUNT_NAME, GOOGLE_SERVICE_ACCOUNT. Needs a build with the feature object-storage.
    #[arg(long, value_name = "URL", help_heading = "Object store")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,

    /// Another store to keep the log of writes in, such as a class with short latencies: a URL like that of --store [default: that of --store]
    ///
    /// A write is acknowledged when the log has it, so that this store decides how long a write takes; the data goes to --store later. It
    /// is chosen when the account is made and named at every start. Without this store, the last acknowledged writes are lost. Variables such
    /// as WAL_AWS_ENDPOINT hold credentials and options that differ from those of --store.
    #[arg(long, value_name = "URL", help_heading = "Object store")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal_store: Option<String>,

    /// Directory on a local disk for data that was read from the store, so that it is not fetched again [default: none]
    ///
    /// It may be lost, damaged or full at any time: then reads go to the store. One server uses it at a time.
    #[arg(long, value_name = "DIR", help_heading = "Object store")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_cache: Option<PathBuf>,

    /// Bytes on disk of --disk-cache, of all shards together [default: 10GiB, at least 16MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Object store")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_cache_bytes: Option<ByteSize>,

    /// Keep the log of all writes for so long, such as 12h or 7d, for restores to any point in time between two backups [default: not at all]
    ///
    /// It takes as many bytes as were written in that time. `shardlake backup create` copies it with each backup, so that the time should be
    /// longer than that between two backups; `shardlake backup restore --time` uses it. Containers without a change feed policy keep all versions and
    /// deletes for as long.
    #[arg(long, value_name = "TIME", help_heading = "Storage")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_window: Option<String>,

    /// Name of this server in the messages of the account's other servers [default: the machine's name]
    #[arg(long, value_name = "NAME", help_heading = "Object store")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,

    /// Seconds for which a server owns the account without renewing it [default: 9, at least 1]
    ///
    /// A spare takes over so long after the owner has died. An owner that cannot reach the store for so long answers 503 until it can.
    #[arg(long, value_name = "SECONDS", help_heading = "Object store")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<u64>,

    /// Wait until no other server serves the account, then serve it; without it a start while another server serves it is refused
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Object store")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby: Option<bool>,

    /// Take the account from the server that has it, at once
    ///
    /// Nothing that was acknowledged is lost. For as long as its lease lasts, the other server may answer reads that are out of date; then
    /// it ends.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Object store")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub take_over: Option<bool>,

    /// Memory for data that was read from disk, of all shards together [default: 256MiB]
    ///
    /// Three eighths are for items that are read again, a quarter for ranges that are scanned again, the rest for blocks. More makes reads
    /// of data that does not fit faster; it is taken as data is read, never at once.
    #[arg(long, value_name = "SIZE", help_heading = "Storage")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_size: Option<ByteSize>,

    /// Memory for writes before they are sorted to disk, of all shards together [default: 32MiB]
    ///
    /// More makes long bursts of writes smoother and a start after a crash slower. A few of these can exist at once.
    #[arg(long, value_name = "SIZE", help_heading = "Storage")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_buffer_size: Option<ByteSize>,

    /// Serve in place of Microsoft's emulators: with the well-known key and any host name on all interfaces
    ///
    /// For tests and for machines that only trusted programs reach: each of them can read and change everything. The ports 8081, 8080
    /// (/ready) and 1234 (explorer) are served, and the arguments and variables of both emulators are understood: docs/emulator.md.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Emulator")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulator: Option<bool>,

    /// File to write the certificate to that clients of --emulator are to trust (PEM) [default: none]
    #[arg(long, value_name = "FILE", help_heading = "Emulator")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulator_pem: Option<PathBuf>,

    /// Settings that emulator mode reads from arguments and variables of its own.
    #[arg(skip)]
    #[serde(skip)]
    pub emulated: Option<Emulated>,

    /// Address to serve on, repeatable; port 0 takes a free one [default: 127.0.0.1:8081]
    ///
    /// Plain HTTP and TLS share the port. Anything but a loopback address makes the account reachable for others:
    /// then it has keys of its own, see --key-file.
    #[arg(long, value_name = "ADDR:PORT", value_delimiter = ',', help_heading = "Network")]
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "one_or_many")]
    pub listen: Option<Vec<String>>,

    /// Address to serve MongoDB's drivers on, repeatable; port 0 takes a free one [default: none; 127.0.0.1:27017 with demo data if it is free]
    ///
    /// Plain and TLS share the port. Anything but a loopback address makes the account reachable for others, as with --listen: clients then
    /// prove with a key of the account, or with a user's password, who they are.
    #[arg(long, value_name = "ADDR:PORT", value_delimiter = ',', help_heading = "Network")]
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "one_or_many")]
    pub mongo_listen: Option<Vec<String>>,

    /// Have commands that test suites of MongoDB's drivers need, such as fail points; never where data matters
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Network")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mongo_test_commands: Option<bool>,

    /// Further name or address for the server's certificate, repeatable
    ///
    /// localhost, the loopback addresses and this machine's name are always in it. A new name makes a new
    /// certificate at the next start, signed by the same authority, so that clients need not learn to trust anything new.
    /// While the well-known key is accepted, requests by other names than these are refused; with keys of its own the server answers
    /// them, but refers clients to its address. *.example.com stands for every name directly below.
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = "Network")]
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "one_or_many")]
    pub tls_name: Option<Vec<String>>,

    /// Certificate chain to serve instead of a generated one (PEM); needs --tls-key
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,

    /// Account keys, as JSON: primary, secondary, primaryReadonly, secondaryReadonly
    ///
    /// Without it the key of the official emulator is used while every listener is a loopback address; otherwise
    /// keys are generated into keys.json in the data directory, readable by its owner only.
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,

    /// Seconds that a request's date may be off [default: 900]
    ///
    /// More helps clients with wrong clocks and lengthens the time in which a recorded request can be replayed.
    #[arg(long, value_name = "SECONDS", help_heading = "Access")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_skew: Option<u64>,

    /// Consistency that the account reports and requests get unless they ask for less [default: Session]
    #[arg(long, value_name = "LEVEL", help_heading = "Access")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consistency: Option<String>,

    /// Whether the explorer is served at /_explorer/: auto, on or off [default: auto]
    ///
    /// auto: while every listener is a loopback address. Its pages hold no data: a browser asks for the data by requests that it signs
    /// with the key that its user types, like any client.
    #[arg(long, value_name = "MODE", help_heading = "Access")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explorer: Option<ExplorerMode>,

    /// Name of this installation in the explorer, in a coloured band, such as PRODUCTION
    ///
    /// With one, the explorer writes only after its lock has been opened.
    #[arg(long, value_name = "TEXT", help_heading = "Access")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explorer_label: Option<String>,

    /// Whether requests are held to the throughput of their container: enforced or unlimited [default: enforced]
    ///
    /// enforced: a container whose throughput was asked for, by a client or a seed, answers 429 beyond it; a container that only has
    /// the default of 400 RU/s is not held to it. unlimited: nothing is refused; request charges are reported all the same.
    #[arg(long, value_name = "MODE", help_heading = "Throughput")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<ThroughputMode>,

    /// How throughput is had: provisioned or serverless [default: provisioned]
    ///
    /// serverless: there is none to set, requests that try are refused, and each container may use 5,000 RU/s, or 1,000
    /// for each of its partitions where that is more.
    #[arg(long, value_name = "MODE", help_heading = "Throughput")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_mode: Option<CapacityName>,

    /// Let partitions under 3,000 RU/s bank up to 300 seconds of unused throughput, and spend it at up to 3,000 RU/s
    ///
    /// Short bursts then meet fewer 429s; how many depends on what happened before.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Throughput")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_capacity: Option<bool>,

    /// Whether the load of partitions is counted: on or off [default: on]
    ///
    /// off: for measuring the cost of counting. The operator's interface then shows no load, and nothing is diagnosed.
    #[arg(long, value_name = "MODE", help_heading = "Throughput")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heat: Option<HeatMode>,

    /// Factor by which partitions are smaller and slower than the service's, such as 0.001 or 1/1000 [default: 1]
    ///
    /// It shrinks the 20 GB of a logical partition, the 50 GB and 10,000 RU/s of a physical one and the RU/s that one is
    /// made for, so that full partitions, splits and throttling can be seen with little data. Items and the
    /// throughput that may be asked for keep their limits. In a settings file also as limits.scale.
    #[arg(long, value_name = "FACTOR", help_heading = "Limits")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits_scale: Option<LimitScale>,

    /// The other way to write `limits-scale` in a file; [`Settings::fold_tables`] takes it away.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsTable>,

    /// Values of one item that its container may index, distinct per path; more is answered 413
    /// [default: 1048576]
    ///
    /// 2 MB of JSON cannot hold more than the default. Of an item with more than 8192, the index
    /// summarises the large arrays: its commit stays short, and queries by the elements of such an
    /// array read every item with a summary of it. A lower value refuses such items; documents of
    /// MongoDB's clients, of up to 16 MB, may need a higher one.
    #[arg(long, value_name = "NUMBER", help_heading = "Limits")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_index_terms: Option<NonZeroUsize>,

    /// Databases and containers (collections) of the account together [default: 10000, or as many as an
    /// eighth of the memory holds at 64 KiB each, and no fewer than 500]
    ///
    /// Each takes memory while it is there: some 20 KB when it is empty, and more while it is used. One
    /// more is answered 400, and 12501 to MongoDB's clients. A lower value than there are already
    /// refuses new ones only.
    #[arg(long, value_name = "NUMBER", help_heading = "Limits")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_containers: Option<NonZeroUsize>,

    /// Integers in items that neither 64 bits nor a double hold: exact or rounded [default: exact]
    ///
    /// exact: an item with such a number is refused, and the answer names it; a client sends it as a string instead. rounded:
    /// it becomes the nearest double, as in the service. Other numbers are the same in both.
    #[arg(long, value_name = "RULE", help_heading = "Data")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numbers: Option<NumbersRule>,

    /// Side that merges queries over several partitions: client or server [default: client]
    ///
    /// client: a query that needs a merge is answered 400 with its plan, as by the service, and the SDKs merge. server: the server merges
    /// and answers such a query. Clients without a merge of their own need the server's, such as Go, PowerShell and REST.
    #[arg(long, value_name = "MODE", help_heading = "Data")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_merge: Option<QueryMerge>,

    /// Connections at once; further ones are answered 503 and closed [default: 10000]
    #[arg(long, value_name = "NUMBER", help_heading = "Limits")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<usize>,

    /// Size of a request's line and headers; more is answered 431, and so are more than 100 headers [default: 64KiB, at least 8KiB]
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_header_size: Option<ByteSize>,

    /// Size of a request's body; more is answered 413 [default: 4MiB]
    ///
    /// An item has at most 2 MB whatever is set here; bulk requests need the rest.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_body_size: Option<ByteSize>,

    /// Memory for requests and answers on their way [default: 512MiB, at least 32MiB]
    ///
    /// Half is for bodies that arrive, half for answers that clients have not taken yet; a connection gets an eighth of either.
    /// A request for which there is none waits, and is answered 503 after ten seconds.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_memory: Option<ByteSize>,

    /// Seconds for a request, from its headers to its answer; then 408. A client that takes nothing of its answer for as
    /// long is cut off [default: 60]
    #[arg(long, value_name = "SECONDS", help_heading = "Limits")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_seconds: Option<u64>,

    /// Seconds for the headers of a request to arrive once begun, and for a TLS handshake; then the connection is closed [default: 20]
    #[arg(long, value_name = "SECONDS", help_heading = "Limits")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_seconds: Option<u64>,

    /// Seconds that a connection may be idle before it is closed [default: 300]
    ///
    /// Clients that keep pooled connections for longer meet closed ones.
    #[arg(long, value_name = "SECONDS", help_heading = "Limits")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<u64>,

    /// Seconds for requests in flight to finish after SIGTERM [default: 10]
    #[arg(long, value_name = "SECONDS", help_heading = "Limits")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_seconds: Option<u64>,

    /// Refuse definitions of global secondary indexes that go beyond the reference's
    ///
    /// For applications that are tested here and run there: only SELECT of properties or of *, at most 5 indexes of a container, none of an
    /// index, and no manual throughput. Indexes that exist already stay. Without it: docs/copies.md.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Global secondary indexes")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_gsi: Option<bool>,

    /// Whether containers may have an analytical store: on or off [default: on]
    ///
    /// A container with analyticalStorageTtl gets an open table (Parquet files under a Delta log) that follows it and takes no request
    /// units: docs/analytics.md. off: nothing is followed, existing tables stay as they are, new ones are answered 501. Needs a build with
    /// the feature analytics.
    #[arg(long, value_name = "MODE", help_heading = "Analytical store")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analytics: Option<AnalyticsSwitch>,

    /// Place of the tables: a directory, or s3://BUCKET/PREFIX, az://…, gs://… or file:///DIR [default: analytics in the data directory, or
    /// below --store]
    ///
    /// Other programs read them there, and must not write. The place belongs to one account. Credentials come from the environment as for
    /// --store; variables such as ANALYTICS_AWS_ENDPOINT hold those that differ. Key files of tables in a store lie in the data directory.
    #[arg(long, value_name = "PLACE", help_heading = "Analytical store")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analytics_root: Option<PathBuf>,

    /// Schema of new tables: well-defined or full-fidelity [default: well-defined]
    ///
    /// well-defined: a column has the type of the first value at its path; other values are in the column _rest. full-fidelity: each value has
    /// a member for each type. Collections made over the MongoDB API always begin with full-fidelity.
    #[arg(long, value_name = "SCHEMA", help_heading = "Analytical store")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analytics_schema: Option<AnalyticsSchema>,

    /// Keep old versions of tables and files without rows for so long, such as 1h or 7d [default: 24h, from 1h to 365d]
    ///
    /// Readers of a version may take so long before its files are deleted.
    #[arg(long, value_name = "TIME", help_heading = "Analytical store")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analytics_retention: Option<String>,

    /// Most bytes that tables are written with in each second, over all of them [default: 64MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Analytical store")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analytics_write_rate: Option<ByteSize>,

    /// Most properties of a table over all levels, 1 to 4000; the values of others are in the column _rest [default: 1000]
    #[arg(long, value_name = "NUMBER", help_heading = "Analytical store")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analytics_properties: Option<u16>,

    /// Memory of one SQL query over tables, such as 2GiB [default: a quarter of the machine's, at most 4GiB]
    ///
    /// A query that needs more puts intermediate results on the disk (--analytics-sql-spill), or is refused. Needs a build with the
    /// feature analytics-sql.
    #[arg(long, value_name = "SIZE", help_heading = "Analytical store")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analytics_sql_memory: Option<ByteSize>,

    /// Disk for intermediate results of one SQL query over tables, in the data directory [default: 16GiB]
    #[arg(long, value_name = "SIZE", help_heading = "Analytical store")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analytics_sql_spill: Option<ByteSize>,

    /// SQL queries over tables that run at a time; 16 more wait [default: 1 on up to 4 cores, else a quarter of the cores]
    #[arg(long, value_name = "NUMBER", help_heading = "Analytical store")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analytics_sql_workers: Option<u16>,

    /// Databases, containers and items to create at start where they are missing (JSON)
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<PathBuf>,

    /// Load a demo data set at start, unless its database is there already: webstore
    #[arg(long, value_name = "NAME", help_heading = "Data")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demo: Option<DemoName>,

    /// Customers in the demo [default: 500]
    #[arg(long, value_name = "NUMBER", help_heading = "Data")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demo_customers: Option<u64>,

    /// The demo's seed number: the same number makes the same data [default: 1]
    #[arg(long, value_name = "NUMBER", help_heading = "Data")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demo_seed_number: Option<u64>,

    /// How log lines on standard error look: text or json [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = "Logs")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_format: Option<LogFormat>,

    /// Level of the log: error, warn, info, debug, trace, or per crate as in info,shardlake_storage=debug [default: info]
    #[arg(long, value_name = "LEVEL", help_heading = "Logs")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_level: Option<String>,

    /// Requests that take at least so many milliseconds are logged, with their charge; 0: none is [default: 1000]
    ///
    /// At most ten lines a second. Requests that wait for changes because their client asks them to do not count.
    #[arg(long, value_name = "MILLISECONDS", help_heading = "Logs")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_request_ms: Option<u64>,

    /// Collector that gets a trace of every request, as OTLP over plain HTTP, such as http://localhost:4318
    ///
    /// Needs a build with the feature otlp. The variables OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME and OTEL_BSP_* of OpenTelemetry apply.
    /// Traces that the collector does not take in time are dropped; requests never wait for it.
    #[arg(long, value_name = "URL", help_heading = "Logs")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp_endpoint: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsTable {
    pub scale: LimitScale,
}

impl Settings {
    /// Settings that a file may also write as a table become those of flags and variables.
    pub fn fold_tables(mut self) -> Result<Settings, String> {
        if let Some(table) = self.limits.take()
            && self.limits_scale.replace(table.scale).is_some()
        {
            return Err("limits.scale and limits-scale are one setting: write one of them".into());
        }
        Ok(self)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DurabilityMode {
    Sync,
    Async,
    Memory,
}

impl DurabilityMode {
    pub fn name(self) -> &'static str {
        match self {
            DurabilityMode::Sync => "sync",
            DurabilityMode::Async => "async",
            DurabilityMode::Memory => "memory",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExplorerMode {
    Auto,
    On,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NumbersRule {
    Exact,
    Rounded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueryMerge {
    Client,
    Server,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HeatMode {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThroughputMode {
    Enforced,
    Unlimited,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CapacityName {
    Provisioned,
    Serverless,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnalyticsSwitch {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnalyticsSchema {
    WellDefined,
    FullFidelity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DemoName {
    Webstore,
}

/// A list, or a single text that stands for a list of one.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        One(String),
        Many(Vec<String>),
    }
    Ok(Some(match Written::deserialize(deserializer)? {
        Written::One(text) => vec![text],
        Written::Many(texts) => texts,
    }))
}
