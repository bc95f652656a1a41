//! The configuration a server runs with: every setting with its value, checked against the others.
//!
//! [`Settings`](crate::settings::Settings) documents each of them; here are the defaults and the rules between them.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use shardlake_account::SHARDS_MAX;
use shardlake_account::sql::Dialect;
use shardlake_account::{CapacityMode, Enforcement, HeatRecording};
use shardlake_model::{ConsistencyLevel, LimitScale, Numbers};

use crate::analytics_config::AnalyticsConfig;
use crate::emulator::{self, Emulated, Secret};
use crate::settings::{
    CapacityName, DemoName, DurabilityMode, ExplorerMode, HeatMode, LogFormat, NumbersRule, QueryMerge,
    Settings, ThroughputMode,
};
use crate::time_text::time;
use crate::tracing_export;

const DEFAULT_LISTEN: &str = "127.0.0.1:8081";
/// Of a server with demo data.
const DEMO_MONGO_LISTEN: &str = "127.0.0.1:27017";
const DEFAULT_DATA_DIR: &str = "shardlake-data";
/// The HTTP library reads headers into a buffer of at least this size.
const HEADER_SIZE_BYTES_MIN: u64 = 8 * 1024;
/// Sixty pages of 4 MB, and as much for bodies; less than the default cache and write buffer twice over.
const MESSAGE_BYTES_DEFAULT: u64 = 512 << 20;
const DISK_CACHE_BYTES: u64 = 10 << 30;
/// A few reads and scans at a time.
const DISK_CACHE_BYTES_MIN: u64 = 16 << 20;
const LABEL_CHARS_MAX: usize = 40;
/// Room for three pages.
const MESSAGE_BYTES_MIN: u64 = 32 << 20;

#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `None` only with [`DurabilityMode::Memory`].
    pub data_dir: Option<PathBuf>,
    pub durability: DurabilityMode,
    /// Where the data lies if not in `data_dir`, which is there then.
    pub store: Option<StoreConfig>,
    /// For how long the log is kept, for restores to a moment; `None`: not at all.
    pub restore_window: Option<Duration>,
    /// `None`: as many as there are.
    pub shards: Option<u16>,
    pub cache_size_bytes: u64,
    pub write_buffer_size_bytes: u64,
    pub listen: Vec<ListenAddress>,
    pub mongo: MongoConfig,
    pub tls_names: Vec<String>,
    pub tls_files: Option<TlsFiles>,
    pub key_file: Option<PathBuf>,
    pub clock_skew_max: Duration,
    pub consistency: ConsistencyLevel,
    pub explorer: ExplorerMode,
    /// The name of the installation in the explorer.
    pub label: Option<String>,
    pub throughput: Enforcement,
    pub capacity: CapacityMode,
    pub burst: bool,
    pub index_dialect: Dialect,
    pub heat: HeatRecording,
    pub limits: ConnectionLimits,
    pub limits_scale: LimitScale,
    /// Most indexed values of one item. `None` stands for the most that 2 MB of JSON can have.
    pub index_terms_max: Option<NonZeroUsize>,
    /// Databases and containers. `None`: as many as the machine's memory allows.
    pub resources_max: Option<NonZeroUsize>,
    pub numbers: Numbers,
    /// The server merges queries over several partitions unasked.
    pub merges_queries: bool,
    /// The server stands in for an emulator.
    pub emulator: Option<EmulatorConfig>,
    pub drain_max: Duration,
    pub seed: Option<PathBuf>,
    pub demo: Option<Demo>,
    pub log_format: LogFormat,
    pub log_level: String,
    pub slow_request: Option<Duration>,
    /// Every setting with its value and its place, for reports of problems.
    pub described: serde_json::Value,
    pub otlp_endpoint: Option<String>,
    pub analytics: AnalyticsConfig,
}

/// One `--listen`: its text and its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    /// Host as clients should use it: as written, or a loopback address for "all interfaces".
    pub host: String,
    pub addresses: Vec<SocketAddr>,
    /// A port in use is logged instead of an error: no setting asks for it.
    pub is_optional: bool,
}

/// Emulator mode, apart from the settings that it shares with others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EmulatorConfig {
    pub settings: Emulated,
    /// Receives the certificate that clients are to trust.
    pub pem_file: Option<PathBuf>,
}

/// The listeners for MongoDB's drivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MongoConfig {
    pub listen: Vec<ListenAddress>,
    /// An address that another program has is no error: it was not requested by name.
    pub is_optional: bool,
    pub has_test_commands: bool,
}

/// An account in an object store, and this server among those that may serve it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    pub url: String,
    /// Of the store of the log, where it has one of its own.
    pub log_url: Option<String>,
    pub disk_cache: Option<DiskCacheConfig>,
    pub node_name: String,
    pub lease: Duration,
    pub manner: Manner,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskCacheConfig {
    pub directory: PathBuf,
    pub bytes_max: u64,
}

/// The behaviour where another server has the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Refuse,
    StandBy,
    TakeOver,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsFiles {
    Pem {
        certificate: PathBuf,
        key: PathBuf,
    },
    /// One file with certificates and key: PKCS#12, or PEM.
    Bundle {
        file: PathBuf,
        secret: Option<Secret>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub connections_max: usize,
    pub header_size_bytes_max: usize,
    pub body_size_bytes_max: usize,
    /// Of all connections together.
    pub message_bytes_max: u64,
    pub request_max: Duration,
    pub header_max: Duration,
    pub idle_max: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demo {
    pub name: DemoName,
    pub customers: u64,
    pub seed_number: u64,
}

impl Config {
    pub fn new(mut settings: Settings) -> Result<Config, String> {
        let analytics = AnalyticsConfig::of(&settings)?;
        let durability = settings.durability.unwrap_or(DurabilityMode::Sync);
        let store = store(&settings, durability)?;
        let limits = ConnectionLimits::new(&settings)?;
        let nowhere = durability == DurabilityMode::Memory && settings.data_dir.is_none();
        let data_dir = settings.data_dir.unwrap_or_else(|| PathBuf::from(DEFAULT_DATA_DIR));
        let mut emulated = settings.emulated.take();
        let listen = listeners(settings.listen, emulated.as_mut(), settings.explorer)?;
        let mongo = mongo(
            settings.mongo_listen,
            settings.demo.is_some(),
            settings.mongo_test_commands.unwrap_or(false),
        )?;
        let tls_files = tls_files(settings.tls_cert, settings.tls_key, emulated.as_ref())?;
        if settings.demo.is_none()
            && (settings.demo_customers.is_some() || settings.demo_seed_number.is_some())
        {
            return Err("--demo-customers and --demo-seed-number need --demo".into());
        }
        if settings.burst_capacity == Some(true) && settings.capacity_mode == Some(CapacityName::Serverless) {
            return Err(
                "--burst-capacity needs provisioned throughput: leave out --capacity-mode serverless".into(),
            );
        }
        Ok(Config {
            store,
            restore_window: restore_window(settings.restore_window.as_deref(), durability)?,
            data_dir: (!nowhere).then_some(data_dir),
            durability,
            shards: settings.shards.map(shards).transpose()?,
            cache_size_bytes: settings.cache_size.map_or(256 << 20, |size| size.0),
            write_buffer_size_bytes: settings.write_buffer_size.map_or(32 << 20, |size| size.0),
            listen,
            mongo,
            tls_names: settings.tls_name.unwrap_or_default(),
            tls_files,
            key_file: settings.key_file,
            clock_skew_max: Duration::from_secs(settings.clock_skew.unwrap_or(900)),
            consistency: consistency(settings.consistency.as_deref())?,
            explorer: settings.explorer.unwrap_or(ExplorerMode::Auto),
            label: settings.explorer_label.map(label).transpose()?,
            throughput: match settings.throughput {
                None | Some(ThroughputMode::Enforced) => Enforcement::Enforced,
                Some(ThroughputMode::Unlimited) => Enforcement::Unlimited,
            },
            capacity: match settings.capacity_mode {
                None | Some(CapacityName::Provisioned) => CapacityMode::Provisioned,
                Some(CapacityName::Serverless) => CapacityMode::Serverless,
            },
            burst: settings.burst_capacity.unwrap_or(false),
            index_dialect: match settings.strict_gsi {
                Some(true) => Dialect::Strict,
                None | Some(false) => Dialect::Shardlake,
            },
            heat: match settings.heat {
                None | Some(HeatMode::On) => HeatRecording::On,
                Some(HeatMode::Off) => HeatRecording::Off,
            },
            limits,
            limits_scale: settings.limits_scale.unwrap_or_default(),
            index_terms_max: settings.max_index_terms,
            resources_max: settings.max_containers,
            numbers: match settings.numbers {
                None | Some(NumbersRule::Exact) => Numbers::Exact,
                Some(NumbersRule::Rounded) => Numbers::Rounded,
            },
            merges_queries: settings.query_merge == Some(QueryMerge::Server),
            emulator: emulated.map(|read| EmulatorConfig { settings: read, pem_file: settings.emulator_pem }),
            drain_max: Duration::from_secs(settings.drain_seconds.unwrap_or(10)),
            seed: settings.seed,
            demo: settings.demo.map(|name| Demo {
                name,
                customers: settings.demo_customers.unwrap_or(crate::demo::defaults::DEFAULT_CUSTOMERS),
                seed_number: settings.demo_seed_number.unwrap_or(crate::demo::defaults::DEFAULT_SEED_NUMBER),
            }),
            log_format: settings.log_format.unwrap_or(LogFormat::Text),
            log_level: settings.log_level.unwrap_or_else(|| "info".to_owned()),
            slow_request: Some(Duration::from_millis(settings.slow_request_ms.unwrap_or(1000)))
                .filter(|threshold| !threshold.is_zero()),
            described: serde_json::Value::Null,
            analytics,
            otlp_endpoint: settings.otlp_endpoint.map(|url| tracing_export::checked(&url)).transpose()?,
        })
    }

    /// Whether the emulators' well-known key may open the account.
    pub fn may_have_well_known_key(&self) -> bool {
        self.emulator.is_some() || self.is_loopback_only()
    }

    /// Whether only this machine can reach the server.
    pub fn is_loopback_only(&self) -> bool {
        let listeners = self.listen.iter().chain(&self.mongo.listen);
        listeners.flat_map(|listen| &listen.addresses).all(|address| address.ip().is_loopback())
    }
}

/// Listeners of the REST API. Emulator mode adds those of the emulators, unless a flag names all of them.
fn listeners(
    listen: Option<Vec<String>>,
    emulated: Option<&mut Emulated>,
    explorer: Option<ExplorerMode>,
) -> Result<Vec<ListenAddress>, String> {
    let Some(emulated) = emulated.filter(|emulated| !emulated.has_listen_flag) else {
        let listen = listen.unwrap_or_else(|| vec![DEFAULT_LISTEN.to_owned()]);
        return ListenAddress::parse_all("--listen", &listen);
    };
    let on_all = |port: u16| format!("0.0.0.0:{port}");
    let mut all = vec![ListenAddress::parse("--port", &on_all(emulated.port.unwrap_or(emulator::PORT)))?];
    let mut add = |found: ListenAddress| {
        let port = found.addresses[0].port();
        let is_new = port == 0 || all.iter().all(|known| known.addresses[0].port() != port);
        if is_new {
            all.push(found);
        }
        is_new
    };
    let listen = listen.unwrap_or_default();
    for (text, found) in listen.iter().zip(ListenAddress::parse_all("--listen", &listen)?) {
        if !add(found) {
            emulated.not_served.push(text.clone());
        }
    }
    let explorer_port = Some((emulated.explorer_port, emulator::EXPLORER_PORT));
    let explorer_port = explorer_port.filter(|_| explorer != Some(ExplorerMode::Off));
    for (given, default) in explorer_port.into_iter().chain([(emulated.health_port, emulator::HEALTH_PORT)]) {
        let found = ListenAddress::parse("--port", &on_all(given.unwrap_or(default)))?;
        let _known = add(ListenAddress { is_optional: given.is_none(), ..found });
    }
    debug_assert!(!all[0].is_optional, "the API is served, or the start fails");
    Ok(all)
}

impl ConnectionLimits {
    fn new(settings: &Settings) -> Result<ConnectionLimits, String> {
        Ok(ConnectionLimits {
            connections_max: positive("--max-connections", settings.max_connections.unwrap_or(10_000))?,
            header_size_bytes_max: settings
                .max_header_size
                .map_or(64 << 10, |size| size.0.max(HEADER_SIZE_BYTES_MIN))
                as usize,
            body_size_bytes_max: settings.max_body_size.map_or(4 << 20, |size| size.0) as usize,
            message_bytes_max: settings
                .message_memory
                .map_or(MESSAGE_BYTES_DEFAULT, |size| size.0.max(MESSAGE_BYTES_MIN)),
            request_max: seconds("--request-seconds", settings.request_seconds, 60)?,
            header_max: seconds("--header-seconds", settings.header_seconds, 20)?,
            idle_max: seconds("--idle-seconds", settings.idle_seconds, 300)?,
        })
    }
}

fn mongo(listen: Option<Vec<String>>, is_demo: bool, has_test_commands: bool) -> Result<MongoConfig, String> {
    let is_optional = listen.is_none();
    let default = || if is_demo { vec![DEMO_MONGO_LISTEN.to_owned()] } else { Vec::new() };
    let listen = ListenAddress::parse_all("--mongo-listen", &listen.unwrap_or_else(default))?;
    Ok(MongoConfig { listen, is_optional, has_test_commands })
}

fn positive(name: &str, number: usize) -> Result<usize, String> {
    if number == 0 { Err(format!("{name} must be at least 1")) } else { Ok(number) }
}

fn shards(number: u16) -> Result<u16, String> {
    match usize::from(number) {
        1..=SHARDS_MAX => Ok(number),
        _ => Err(format!("--shards must be at least 1 and at most {SHARDS_MAX}")),
    }
}

fn seconds(name: &str, given: Option<u64>, default: u64) -> Result<Duration, String> {
    match given.unwrap_or(default) {
        0 => Err(format!("{name} must be at least 1")),
        seconds => Ok(Duration::from_secs(seconds)),
    }
}

fn restore_window(text: Option<&str>, durability: DurabilityMode) -> Result<Option<Duration>, String> {
    let Some(text) = text else { return Ok(None) };
    if durability == DurabilityMode::Memory {
        return Err("--restore-window keeps a log on disk: leave out --durability memory".into());
    }
    time("--restore-window", text).map(Some)
}

fn store(settings: &Settings, durability: DurabilityMode) -> Result<Option<StoreConfig>, String> {
    let (standby, take_over) = (settings.standby.unwrap_or(false), settings.take_over.unwrap_or(false));
    let Some(url) = settings.store.clone() else {
        let is_any = standby
            || take_over
            || settings.lease.is_some()
            || settings.node_name.is_some()
            || settings.wal_store.is_some()
            || settings.disk_cache.is_some()
            || settings.disk_cache_bytes.is_some();
        return match is_any {
            true => Err(
                "--node-name, --lease, --standby, --take-over, --wal-store, --disk-cache and --disk-cache-bytes need --store"
                    .into(),
            ),
            false => Ok(None),
        };
    };
    if !cfg!(feature = "object-storage") {
        return Err(
            "--store needs a build with object storage: cargo build --release --features object-storage"
                .into(),
        );
    }
    if durability != DurabilityMode::Sync {
        return Err(
            "--store acknowledges a write when the store has it: leave out --durability, or --store".into()
        );
    }
    let manner = match (standby, take_over) {
        (true, true) => {
            return Err(
                "--standby waits for the other server and --take-over does not: give one of them".into()
            );
        }
        (true, false) => Manner::StandBy,
        (false, true) => Manner::TakeOver,
        (false, false) => Manner::Refuse,
    };
    let node_name = settings.node_name.clone();
    Ok(Some(StoreConfig {
        log_url: log_url(settings.wal_store.as_deref(), &url)?,
        disk_cache: disk_cache(settings)?,
        url,
        node_name: node_name.unwrap_or_else(machine_name),
        lease: seconds("--lease", settings.lease, 9)?,
        manner,
    }))
}

/// Of a log that has a store of its own.
pub fn log_url(log: Option<&str>, store: &str) -> Result<Option<String>, String> {
    let Some(log) = log else { return Ok(None) };
    let (log, store) = (log.trim_end_matches('/'), store.trim_end_matches('/'));
    let is_in =
        |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
    if log == store || is_in(log, store) || is_in(store, log) {
        return Err(format!(
            "--wal-store '{log}' and --store '{store}' are one place, or one lies in the other: name two places, or leave out --wal-store"
        ));
    }
    Ok(Some(log.to_owned()))
}

fn disk_cache(settings: &Settings) -> Result<Option<DiskCacheConfig>, String> {
    let Some(directory) = settings.disk_cache.clone() else {
        return match settings.disk_cache_bytes {
            Some(_) => Err("--disk-cache-bytes needs --disk-cache".into()),
            None => Ok(None),
        };
    };
    if settings.data_dir.as_ref().is_some_and(|data_dir| directory == *data_dir) {
        return Err(
            "--disk-cache and --data-dir are one directory: name a directory of its own for each".into()
        );
    }
    let bytes_max = settings.disk_cache_bytes.map_or(DISK_CACHE_BYTES, |size| size.0);
    if bytes_max < DISK_CACHE_BYTES_MIN {
        return Err("--disk-cache-bytes must be at least 16MiB".into());
    }
    Ok(Some(DiskCacheConfig { directory, bytes_max }))
}

/// As other machines know it.
pub fn machine_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn consistency(name: Option<&str>) -> Result<ConsistencyLevel, String> {
    let Some(name) = name else { return Ok(ConsistencyLevel::default()) };
    ConsistencyLevel::parse(name).ok_or_else(|| {
        format!(
            "--consistency '{name}' is none of Strong, BoundedStaleness, Session, ConsistentPrefix, Eventual"
        )
    })
}

fn tls_files(
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    emulated: Option<&Emulated>,
) -> Result<Option<TlsFiles>, String> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles::Pem { certificate, key })),
        (None, None) => Ok(emulated.and_then(|emulated| {
            let file = emulated.certificate.clone()?;
            Some(TlsFiles::Bundle { file, secret: emulated.certificate_secret.clone() })
        })),
        _ => Err("--tls-cert and --tls-key belong together: give both or neither".into()),
    }
}

/// Short, and a line: it is shown in a band.
fn label(text: String) -> Result<String, String> {
    let length = text.chars().count();
    if text.trim().is_empty() || length > LABEL_CHARS_MAX || text.chars().any(char::is_control) {
        return Err(format!("--explorer-label is one line of 1 to {LABEL_CHARS_MAX} characters"));
    }
    Ok(text)
}

impl ListenAddress {
    fn parse_all(setting: &str, texts: &[String]) -> Result<Vec<ListenAddress>, String> {
        texts.iter().map(|text| ListenAddress::parse(setting, text)).collect()
    }

    /// The first address, as a setting would name it.
    pub fn text(&self) -> String {
        self.addresses[0].to_string()
    }

    fn parse(setting: &str, text: &str) -> Result<ListenAddress, String> {
        let malformed =
            || format!("{setting} '{text}' is no address with a port: write 127.0.0.1:8081 or [::1]:8081");
        let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
        let port: u16 = port.parse().map_err(|_| malformed())?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let resolved = (bare, port).to_socket_addrs();
        let mut addresses: Vec<SocketAddr> = resolved
            .map_err(|error| format!("{setting} '{text}': '{host}' has no address: {error}"))?
            .collect();
        addresses.sort_by_key(|address| address.is_ipv6());
        addresses.dedup();
        if addresses.is_empty() {
            return Err(format!("{setting} '{text}': '{host}' has no address"));
        }
        // A free port is taken once: the same number need not be free on a second address.
        if port == 0 {
            addresses.truncate(1);
        }
        let host = host_for_clients(host, addresses[0].ip());
        Ok(ListenAddress { host, addresses, is_optional: false })
    }
}

fn host_for_clients(written: &str, address: IpAddr) -> String {
    match address {
        address if !address.is_unspecified() => written.to_owned(),
        IpAddr::V4(_) => "127.0.0.1".to_owned(),
        IpAddr::V6(_) => "[::1]".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "object-storage")]
    use crate::byte_size::ByteSize;

    fn listening(text: &str) -> Result<Config, String> {
        Config::new(Settings { listen: Some(vec![text.to_owned()]), ..Settings::default() })
    }

    #[test]
    fn the_defaults_are_what_the_help_says() {
        let config = Config::new(Settings::default()).expect("defaults are valid");
        assert_eq!(config.listen[0].addresses[0].to_string(), "127.0.0.1:8081");
        assert_eq!(config.data_dir.as_deref(), Some("shardlake-data".as_ref()));
        assert_eq!(config.clock_skew_max, Duration::from_secs(900));
        assert_eq!(config.limits.idle_max, Duration::from_secs(300));
        assert!(config.is_loopback_only());
    }

    #[test]
    fn addresses_that_emulator_mode_does_not_serve_are_listed() {
        let emulated = Emulated { port: Some(9000), ..Emulated::default() };
        let listen = ["127.0.0.1:9000", "127.0.0.1:9001", "127.0.0.1:8080"].map(str::to_owned);
        let settings =
            Settings { listen: Some(listen.into()), emulated: Some(emulated), ..Settings::default() };
        let config = Config::new(settings).expect("valid");
        let served: Vec<String> = config.listen.iter().map(ListenAddress::text).collect();
        assert_eq!(served, ["0.0.0.0:9000", "127.0.0.1:9001", "127.0.0.1:8080", "0.0.0.0:1234"]);
        assert_eq!(config.emulator.expect("on").settings.not_served, ["127.0.0.1:9000"]);
    }

    #[test]
    fn memory_needs_no_directory() {
        let memory = Settings { durability: Some(DurabilityMode::Memory), ..Settings::default() };
        assert_eq!(Config::new(memory.clone()).expect("valid").data_dir, None);
        let kept = Settings { data_dir: Some("x".into()), ..memory };
        assert_eq!(Config::new(kept).expect("valid").data_dir, Some("x".into()));
    }

    #[cfg(feature = "object-storage")]
    #[test]
    fn a_store_is_refused_what_contradicts_it() {
        let stored = Settings { store: Some("file:///x".into()), ..Settings::default() };
        let store = Config::new(stored.clone()).expect("valid").store.expect("a store");
        assert_eq!((store.lease, store.manner), (Duration::from_secs(9), Manner::Refuse));
        let memory = Settings { durability: Some(DurabilityMode::Memory), ..stored.clone() };
        assert!(Config::new(memory).expect_err("memory").contains("--durability"));
        let both = Settings { standby: Some(true), take_over: Some(true), ..stored.clone() };
        assert!(Config::new(both).expect_err("both").contains("--take-over"));
        let none = Settings { store: None, standby: Some(true), ..stored.clone() };
        assert!(Config::new(none).expect_err("no store").contains("--store"));
        let none = Settings { wal_store: Some("file:///y".into()), ..Settings::default() };
        assert!(Config::new(none).expect_err("no store").contains("--wal-store"));
        for place in ["file:///x", "file:///x/", "file:///x/log", "file:///"] {
            let same = Settings { wal_store: Some(place.into()), ..stored.clone() };
            assert!(Config::new(same).expect_err(place).contains("--wal-store"), "{place}");
        }
        let apart = Settings { wal_store: Some("file:///xy/".into()), ..stored.clone() };
        let store = Config::new(apart).expect("valid").store.expect("a store");
        assert_eq!(store.log_url.as_deref(), Some("file:///xy"));
        let bytes = |bytes| Settings { disk_cache_bytes: Some(ByteSize(bytes)), ..stored.clone() };
        assert!(Config::new(bytes(1 << 30)).expect_err("no directory").contains("--disk-cache"));
        let small = Settings { disk_cache: Some("cache".into()), ..bytes(1 << 20) };
        assert!(Config::new(small).expect_err("too small").contains("16MiB"));
        let both = Settings { disk_cache: Some("d".into()), data_dir: Some("d".into()), ..stored };
        assert!(Config::new(both).expect_err("one directory").contains("--data-dir"));
    }

    #[test]
    fn addresses_say_who_can_reach_the_server() {
        assert!(listening("[::1]:0").expect("valid").is_loopback_only());
        assert!(listening("localhost:0").expect("valid").is_loopback_only());
        let open = listening("0.0.0.0:0").expect("valid");
        assert!(!open.is_loopback_only());
        assert_eq!(open.listen[0].host, "127.0.0.1");
        for wrong in ["8081", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"] {
            assert!(listening(wrong).expect_err(wrong).contains(wrong));
        }
    }

    #[test]
    fn emulator_mode_serves_the_ports_of_the_emulators() {
        let ports = |emulated: Emulated, more: Settings| -> Vec<(u16, bool)> {
            let config = Config::new(Settings { emulated: Some(emulated), ..more }).expect("valid");
            assert!(config.may_have_well_known_key());
            let listen = config.listen.iter();
            listen.map(|listen| (listen.addresses[0].port(), listen.is_optional)).collect()
        };
        let all = vec![(8081, false), (1234, true), (8080, true)];
        assert_eq!(ports(Emulated::default(), Settings::default()), all);
        let off = Settings { explorer: Some(ExplorerMode::Off), ..Settings::default() };
        assert_eq!(ports(Emulated::default(), off), [(8081, false), (8080, true)]);
        let same = Emulated { port: Some(8080), explorer_port: Some(7), ..Emulated::default() };
        assert_eq!(ports(same, Settings::default()), [(8080, false), (7, false)]);
        let listen = |text: &str| Settings { listen: Some(vec![text.to_owned()]), ..Settings::default() };
        let image = ports(Emulated::default(), listen("0.0.0.0:8081"));
        assert_eq!(image, all, "a variable of the image names the port of the API");
        let flag = Emulated { has_listen_flag: true, ..Emulated::default() };
        assert_eq!(ports(flag, listen("127.0.0.1:9")), [(9, false)]);
    }

    #[test]
    fn settings_that_contradict_one_another_are_refused() {
        let half = Settings { tls_cert: Some("x".into()), ..Settings::default() };
        assert!(Config::new(half).expect_err("half").contains("--tls-key"));
        let zero = Settings { idle_seconds: Some(0), ..Settings::default() };
        assert!(Config::new(zero).expect_err("zero").contains("--idle-seconds"));
        for shards in [0, 65] {
            let shards = Settings { shards: Some(shards), ..Settings::default() };
            assert!(Config::new(shards).expect_err("shards").contains("--shards"));
        }
        let no_demo = Settings { demo_customers: Some(1), ..Settings::default() };
        assert!(Config::new(no_demo).expect_err("no demo").contains("--demo"));
        let burst = Settings {
            burst_capacity: Some(true),
            capacity_mode: Some(CapacityName::Serverless),
            ..Settings::default()
        };
        assert!(Config::new(burst).expect_err("burst").contains("--capacity-mode"));
        for text in ["", " ", "a\nb", &"x".repeat(41)] {
            let label = Settings { explorer_label: Some(text.to_owned()), ..Settings::default() };
            assert!(Config::new(label).expect_err("label").contains("--explorer-label"), "{text:?}");
        }
        let level = Settings { consistency: Some("x".into()), ..Settings::default() };
        assert!(Config::new(level).expect_err("level").contains("Eventual"));
    }
}
