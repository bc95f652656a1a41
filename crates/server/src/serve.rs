//! A server from start to end.
//!
//! Start: listen (probes get "not yet" from here on) → open the shards, which locks the data directory → keys and certificate →
//! open the account → remember it → seed and demo → ready record. Nothing of the data directory is read or written before it is
//! locked, but for the names of its shards and `account.json`. `start_watch.rs` knows the steps, and ends one that hangs. Shards in an object store are opened after the certificate was loaded, when
//! no other server has them.
//!
//! End, at SIGTERM or SIGINT: say "not ready", stop accepting, let requests in flight finish for a bounded time, close
//! storage. A second signal ends at once, which loses nothing that was acknowledged: the next start replays the journal. A server whose account
//! was taken by another one ends at once, too, with the exit code 3.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use shardlake_account::{Account, AccountOptions, Enforcement, Shards};
use shardlake_admin::{Installation, LogRing};
use shardlake_gateway_mongo::MongoGateway;
use shardlake_gateway_nosql::{Gateway, GatewaySettings, MessageSpace};
use shardlake_model::Limits;
use shardlake_signature::AccountKey;
use shardlake_stdx::{Clock, Random};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::analytics::{self, Stores, Tables};
use crate::backup_metrics;
use crate::config::{Config, Demo};
use crate::connections::Connections;
use crate::demo::{Tour, WebStore};
use crate::descriptors::{self, Descriptors};
use crate::diagnostics;
use crate::explorer::Explorer;
use crate::front::{Certificates, Front};
use crate::home::Home;
use crate::host_check::HostCheck;
use crate::key_store::ServedKeys;
use crate::keys::AccountKeys;
use crate::listener::{self, Bound, Refusal, Slots};
use crate::metrics::{Facts, Metrics};
use crate::mongo::{self, MongoConnections};
use crate::private_file::{self, Secrecy};
use crate::ready::{ReadyRecord, print_for_wait_strategies};
use crate::sampler;
use crate::script_worker;
use crate::seed::{self, Seed};
use crate::start_watch::{StartWatch, Step};
use crate::store_metrics::StoreMetrics;
use crate::tls::Tls;
use crate::{emulator, heat_file, history, memory};

/// The exit code of a server whose account another one has taken.
const FENCED: u8 = 3;
/// How long the shards of a start that was not finished may take to close.
const ABANDON_MAX: Duration = Duration::from_secs(60);

/// What a person at the terminal wants to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Introduction {
    /// At a terminal, or with demo data.
    Default,
    /// Of the command `demo`, always.
    OfDemo,
    /// Of the demo that is a tour of the explorer: the address of its first step.
    OfTour(Tour),
}

/// Runs a server until it is told to stop. `Err` is the line to show.
pub async fn serve(
    config: Config,
    introduction: Introduction,
    log: Arc<LogRing>,
) -> Result<ExitCode, String> {
    let (clock, random) = (Clock::System, Random::System);
    let mut signals = Signals::listen()?;
    let watch = StartWatch::begin()?;
    let files_max = descriptors::raise_limit();
    let bound = listener::bind("--listen", &config.listen)?;
    let bound_for_mongo = mongo::bind(&config.mongo)?;
    let local = bound[0].local;
    let authorities: Vec<String> = bound.iter().map(|bound| bound.authority.clone()).collect();
    let Stores { tables, metrics: store_metrics } = Stores::find(&config, &clock).await?;
    let (mut home, descriptors) = tokio::select! {
        found = Home::find(&config, files_max, (&clock, &random), store_metrics.as_ref()) => found?,
        () = signals.received() => {
            tracing::info!("stopped before it was ready");
            return Ok(ExitCode::SUCCESS);
        }
        reason = watch.given_up() => return Err(reason),
    };
    watch.enter(Step::Keys);
    let keys = AccountKeys::load(&config, &random)?;
    watch.enter(Step::Certificate);
    let tls = Tls::load(&config, clock.now())?;
    let hosts = HostCheck::new(&config, &tls, &keys, &authorities[0]);
    let metrics = Metrics::new(facts(&config, &tls, store_metrics));
    let space = MessageSpace::new(config.limits.message_bytes_max, Limits::default().page_size_bytes_max);
    let timing = (clock.clone(), config.limits.request_max);
    let served = (hosts, Explorer::new(&config));
    let front = Arc::new(Front::new(metrics, served, Certificates::of(&tls), space, timing));
    stand_in(&config, &tls)?;
    let acceptor = TlsAcceptor::from(tls.server.clone());
    let connections = Connections::new(front.clone(), acceptor, config.limits, clock.clone());
    let mut listeners = Listeners::open(bound, connections, &descriptors, &bound_for_mongo);
    listeners.log_fewer_connections(config.limits.connections_max, files_max);

    let started = tokio::select! {
        account = start(&config, introduction, &mut home, &watch, (&clock, &random)) => Some(account),
        () = signals.received() => None,
        reason = watch.given_up() => Some(Err(reason)),
    };
    drop(watch);
    let (account, shards) = match started {
        Some(Ok(opened)) => opened,
        ended => {
            listeners.abort();
            // A start that hangs may have left a shard that does not close. The next start recovers it.
            let abandoned = tokio::time::timeout(ABANDON_MAX, home.abandon()).await;
            let abandoned =
                abandoned.unwrap_or_else(|_| Err("the shards of an unfinished start do not close".into()));
            // What went wrong first says more.
            ended.transpose()?;
            tracing::info!("stopped before it was ready");
            return abandoned.map(|()| ExitCode::SUCCESS);
        }
    };
    front.metrics.show_shards(shards);
    let gateway_for_mongo = |connections_max| mongo::gateway(&account, &config, &keys, connections_max);
    let (mongo_authorities, mongo_gateway) = listeners.open_for_mongo(bound_for_mongo, gateway_for_mongo);
    let served_keys = Arc::new(ServedKeys::new(&keys, config.store.is_some(), random.clone()));
    let installation = Arc::new(installation(&config, &tls, &clock, (log, served_keys.clone())));
    let tables = analytics::start(&config, &account, &front.metrics, tables).await?;
    let gateway = gateway(&config, &account, keys.accepted(), (installation.clone(), tables))?;
    front.open(served_keys.serve(gateway, mongo_gateway));
    backup_metrics::recall(&account, backup_metrics::path(&config).as_deref());
    spawn_recorders(&config, &account, (&installation, &front), &clock);
    let record = ReadyRecord::new(&config, &authorities, keys.source, tls.ca_file, clock.elapsed())
        .with_mongo(&mongo_authorities);
    announce(&config, introduction, record, local)?;

    tokio::select! {
        () = signals.received() => {}
        reason = home.lost() => {
            tracing::error!(reason, "this server ends: it may acknowledge nothing more");
            return Ok(ExitCode::from(FENCED));
        }
    }
    heat_file::keep(&account, heat_file::path(&config).as_deref());
    served_keys.end();
    let code = stop(listeners, &front, &account, &mut signals, config.drain_max).await;
    home.release().await;
    Ok(code)
}

/// Starts the tasks that record samples, the heat of partitions and the last backup.
fn spawn_recorders(
    config: &Config,
    account: &Account,
    (installation, front): (&Installation, &Front),
    clock: &Clock,
) {
    let (rings, metrics) = (installation.process.clone(), front.metrics.clone());
    tokio::spawn(backup_metrics::keep(account.clone(), backup_metrics::path(config)));
    tokio::spawn(sampler::sample(rings, metrics, account.clone(), clock.clone()));
    tokio::spawn(heat_file::keep_now_and_again(account.clone(), heat_file::path(config)));
}

/// Says that the server is ready, to people and to programs.
fn announce(
    config: &Config,
    introduction: Introduction,
    mut record: ReadyRecord,
    local: SocketAddr,
) -> Result<(), String> {
    if matches!(introduction, Introduction::OfTour(_)) {
        record.lead_to_tour();
    }
    let is_terminal = std::io::stderr().is_terminal();
    if introduction != Introduction::Default || config.demo.is_some() || is_terminal {
        record.print_introduction(config.demo.is_some());
    }
    // Logged before it is printed: whoever has read the record finds the line in the log.
    tracing::info!(endpoints = ?record.endpoints, durability = config.durability.name(), "ready");
    let mut printed = record.print();
    if let Some(emulator) = config.emulator.as_ref().filter(|_| printed.is_ok()) {
        let scheme = if emulator.settings.is_https { "https" } else { "http" };
        printed = print_for_wait_strategies(&format!("{scheme}://{local}"));
    }
    printed.map_err(|error| format!("the ready record cannot be printed: {error}"))
}

/// Begins emulator mode, where it is on: the warning, the names without an effect, and the file with the certificate.
fn stand_in(config: &Config, tls: &Tls) -> Result<(), String> {
    let Some(emulator) = &config.emulator else { return Ok(()) };
    tracing::warn!(
        "EMULATOR MODE: any program and any web page that reaches this server can read, change and delete everything in it. \
         Publish its ports to this machine alone, and put no data here that matters; without --emulator the server is closed to others"
    );
    emulator.settings.log();
    let Some(path) = &emulator.pem_file else { return Ok(()) };
    let directory = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written =
        directory.and_then(|()| private_file::write(path, tls.trusted_pem.as_bytes(), Secrecy::Public));
    written.map_err(|error| format!("--emulator-pem '{}' cannot be written: {error}", path.display()))
}

fn gateway(
    config: &Config,
    account: &Account,
    keys: Vec<AccountKey>,
    (installation, tables): (Arc<Installation>, Tables),
) -> Result<Gateway, String> {
    let account_id = config.emulator.as_ref().map(|_| emulator::ACCOUNT_ID.to_owned());
    let account_id = account_id.unwrap_or_else(|| GatewaySettings::default().account_id);
    let settings = GatewaySettings {
        keys,
        clock_skew_max: config.clock_skew_max,
        body_size_bytes_max: config.limits.body_size_bytes_max,
        request_timeout: config.limits.request_max,
        slow_request: config.slow_request,
        merges_queries: config.merges_queries,
        is_account_public: config.emulator.is_some(),
        account_id,
        installation: Some(installation),
        analytics: Some(tables.analytics),
        sql: tables.sql,
        ..GatewaySettings::default()
    };
    Gateway::new(account.clone(), settings).map_err(|error| error.to_string())
}

/// The parts of the page of metrics that stay as they are.
fn facts(config: &Config, tls: &Tls, store: Option<StoreMetrics>) -> Facts {
    Facts {
        durability: config.durability.name(),
        data_dir: config.data_dir.clone(),
        restore_window: config.restore_window,
        certificate_ends: tls.ends,
        store,
    }
}

/// What the program tells operators of itself.
fn installation(
    config: &Config,
    tls: &Tls,
    clock: &Clock,
    (log, keys): (Arc<LogRing>, Arc<ServedKeys>),
) -> Installation {
    let kind = if cfg!(debug_assertions) { "debug" } else { "release" };
    Installation {
        version: env!("CARGO_PKG_VERSION"),
        build: format!("{kind} {} {}", std::env::consts::OS, std::env::consts::ARCH),
        label: config.label.clone(),
        durability: config.durability.name(),
        started_at: clock.now(),
        enforces_throughput: config.throughput == Enforcement::Enforced,
        limits_scale: config.limits_scale.to_string(),
        body_size_bytes_max: config.limits.body_size_bytes_max,
        certificate_ends: tls.ends,
        data_dir: config.data_dir.as_ref().map(|directory| {
            std::path::absolute(directory).unwrap_or_else(|_| directory.clone()).display().to_string()
        }),
        keys: Some(keys),
        process: Arc::default(),
        log,
        diagnostics: diagnostics::describe(&config.described, config.data_dir.as_deref()),
    }
}

async fn start(
    config: &Config,
    introduction: Introduction,
    home: &mut Home,
    watch: &StartWatch,
    (clock, random): (&Clock, &Random),
) -> Result<(Account, Shards), String> {
    watch.enter(Step::OpenStore);
    let shards = home.open(config).await?;
    watch.enter(Step::ArchivedLog);
    history::begin(config, &shards, (clock, random)).await?;
    let limits = match introduction {
        Introduction::OfTour(_) => Tour::limits(),
        Introduction::Default | Introduction::OfDemo => Limits::default().scaled(config.limits_scale),
    };
    let item_index_terms_max = config.index_terms_max.map_or(limits.item_index_terms_max, NonZeroUsize::get);
    let resources_max = match config.resources_max {
        Some(max) => max.get(),
        None => memory::resources_max(memory::available_bytes(), limits.resources_max),
    };
    let options = AccountOptions {
        limits: Limits {
            numbers: config.numbers,
            item_index_terms_max,
            resources_max,
            versions_kept: config.restore_window,
            ..limits
        },
        clock: clock.clone(),
        random: random.clone(),
        consistency: config.consistency,
        throughput: config.throughput,
        capacity: config.capacity,
        burst: config.burst,
        index_dialect: config.index_dialect,
        heat: config.heat,
        scripts: script_worker::settings(),
        analytical: config.analytics.mode(config.data_dir.as_deref()),
        ..AccountOptions::default()
    };
    watch.enter(Step::OpenAccount);
    let account = Account::open(shards.clone(), options)
        .await
        .map_err(|error| format!("the account does not open: {error}"))?;
    watch.enter(Step::Remember);
    home.remember(config).await?;
    home.note_restored(config, &account).await?;
    watch.enter(Step::Heat);
    heat_file::recall(&account, heat_file::path(config).as_deref());
    watch.enter(Step::Seed);
    if let Some(file) = &config.seed {
        let loaded = seed::load(&account, &Seed::read(file)?, file).await?;
        tracing::info!(
            databases_created = loaded.databases_created,
            containers_created = loaded.containers_created,
            items_created = loaded.items_created,
            existing_left_alone = loaded.existing,
            "seed loaded"
        );
    }
    watch.enter(Step::Demo);
    if let Introduction::OfTour(tour) = introduction {
        tour.begin(&account).await.map_err(|error| format!("the demo: {error}"))?;
    }
    if let Some(Demo { customers, seed_number, .. }) = config.demo {
        let started = clock.elapsed();
        let store = WebStore { customers, seed_number };
        let loaded = crate::demo::load(&account, &store, config.data_dir.as_deref()).await?;
        let milliseconds = (clock.elapsed() - started).as_millis() as u64;
        tracing::info!(
            customers,
            milliseconds,
            "{}",
            if loaded { "demo loaded" } else { "demo is there already: left alone" }
        );
    }
    Ok((account, shards))
}

/// The listeners and every connection that came through them.
struct Listeners {
    accepting: Vec<JoinHandle<()>>,
    connections: Arc<Connections>,
    slots: Slots,
    connections_max: usize,
    /// Of one API.
    own_max: usize,
}

impl Listeners {
    fn open(
        bound: Vec<Bound>,
        connections: Connections,
        descriptors: &Descriptors,
        bound_for_mongo: &[Bound],
    ) -> Listeners {
        let connections_max = descriptors.connections_max.min(Semaphore::MAX_PERMITS);
        let own_max = listener::own_max(connections_max, bound_for_mongo);
        connections.front.metrics.connections_max.set(connections_max as i64);
        let connections = Arc::new(connections);
        let slots = Slots {
            connections: Arc::new(Semaphore::new(connections_max)),
            own: Arc::new(Semaphore::new(own_max)),
            refusals: Arc::new(Semaphore::new(descriptors.refusals_max)),
        };
        let accept = |bound: Bound| {
            let (connections, metrics) = (connections.clone(), connections.front.metrics.clone());
            let serve = move |stream| {
                let connections = connections.clone();
                async move { connections.serve(stream).await }
            };
            tokio::spawn(listener::accept(bound.listener, (slots.clone(), Refusal::Http), metrics, serve))
        };
        let accepting = bound.into_iter().map(accept).collect();
        Listeners { accepting, connections, slots, connections_max, own_max }
    }

    /// Begins to accept on the MongoDB API's listeners, under the same bound and one of their own. Clients that came earlier have waited.
    /// Returns their addresses, and the gateway where there are any.
    fn open_for_mongo(
        &mut self,
        bound: Vec<Bound>,
        gateway: impl FnOnce(usize) -> MongoGateway,
    ) -> (Vec<String>, Option<MongoGateway>) {
        let authorities = bound.iter().map(|bound| bound.authority.clone()).collect();
        if bound.is_empty() {
            return (authorities, None);
        }
        let gateway = gateway(self.own_max);
        self.connections.front.metrics.show_mongo(gateway.clone());
        let served =
            Arc::new(MongoConnections { gateway: gateway.clone(), connections: self.connections.clone() });
        let slots = Slots { own: Arc::new(Semaphore::new(self.own_max)), ..self.slots.clone() };
        for bound in bound {
            let (served, metrics) = (served.clone(), self.connections.front.metrics.clone());
            let serve = move |stream| {
                let served = served.clone();
                async move { served.serve(stream).await }
            };
            let accepting = listener::accept(bound.listener, (slots.clone(), Refusal::Close), metrics, serve);
            self.accepting.push(tokio::spawn(accepting));
        }
        (authorities, Some(gateway))
    }

    fn log_fewer_connections(&self, asked: usize, open_files_max: u64) {
        let connections_max = self.connections_max;
        if connections_max < asked {
            tracing::info!(
                connections_max,
                asked,
                open_files_max,
                "fewer connections than --max-connections: the system allows no more open files"
            );
        }
    }

    fn abort(&self) {
        self.accepting.iter().for_each(JoinHandle::abort);
    }

    /// Stops accepting and waits until every connection has ended.
    async fn close(&self) {
        self.abort();
        self.connections.stopping.send_replace(true);
        let all = u32::try_from(self.connections_max).unwrap_or(u32::MAX);
        let _all_ended = self.slots.connections.acquire_many(all).await;
    }
}

async fn stop(
    listeners: Listeners,
    front: &Front,
    account: &Account,
    signals: &mut Signals,
    drain_max: Duration,
) -> ExitCode {
    tracing::info!("stopping");
    front.drain();
    account.items().stop_waiting();
    let closing = async {
        if tokio::time::timeout(drain_max, listeners.close()).await.is_err() {
            tracing::warn!(
                seconds = drain_max.as_secs(),
                "requests were still in flight at the end of the drain"
            );
        }
        account.close().await
    };
    tokio::select! {
        closed = closing => match closed {
            Ok(()) => {
                tracing::info!("stopped");
                ExitCode::SUCCESS
            }
            Err(error) => {
                tracing::error!(%error, "storage did not close cleanly: the next start recovers it");
                ExitCode::FAILURE
            }
        },
        () = signals.received() => {
            tracing::warn!("stopped at once by a second signal: the next start recovers");
            ExitCode::FAILURE
        }
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Signals, String> {
        let on = |kind| signal(kind).map_err(|error| format!("signals cannot be received: {error}"));
        Ok(Signals { terminate: on(SignalKind::terminate())?, interrupt: on(SignalKind::interrupt())? })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
