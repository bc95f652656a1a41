//! `shardlake demo hot-tenant`: the teaching example of multi-tenant partitioning, run and measured in one command.
//!
//! Six tenants share a container. A is large and D is busy. Keyed by tenant, A fills its logical partition and D
//! exhausts its physical one, while others stand idle; twice the throughput does not help. Keyed by tenant and user, the
//! same items and the same traffic fit.
//!
//! | file | responsibility |
//! |---|---|
//! | `tenants.rs` | the tenants, their items, the two keys |
//! | `traffic.rs` | loads items and sends requests, counting those served and those refused |
//! | `bars.rs` | storage and load, as bars |
//! | `tour.rs` | the same for a browser: a server whose tenants never stop, to be looked at and cured by hand |
//!
//! With `--seconds`, or without a terminal, the demo runs as text, from beginning to end. Everything runs in this process, in memory
//! and against the real clock: budgets, refusals, splits and the diagnosis are the server's own, with limits scaled down so that
//! they are met within seconds.

mod bars;
mod tenants;
mod tour;
mod traffic;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use shardlake_account::{Account, AccountOptions, ContainerHandle, ContainerReport};
use shardlake_model::{Error, Limits, Preconditions, RequestContext, Result, Throughput};
use shardlake_stdx::Random;
use shardlake_storage::{Shard, ShardOptions};

use crate::operate::{bytes, thousands, wrapped};
use tenants::{BUSY, Design, LARGE, TENANTS};
use traffic::{Loaded, Pace, Served};

pub use tour::{LINK as TOUR_LINK, Tour};

pub const DEFAULT_SECONDS: u64 = 8;
const DATABASE: &str = "saas";
/// RU/s: three partitions of 600, enough for all tenants together.
const THROUGHPUT: u64 = 1_800;
/// Time for the partitions to follow a changed throughput.
const SETTLE_MAX: Duration = Duration::from_secs(20);

/// Parameters of the demo: the seconds of traffic of each act, and the seed number.
#[derive(Debug, Clone, Copy)]
pub struct HotTenant {
    pub seconds: u64,
    pub seed_number: u64,
}

/// Results of one act, for the comparison at the end.
struct Act {
    title: String,
    throughput: u64,
    partitions: usize,
    full_items: u64,
    total: Served,
    busy: Served,
    busiest_used: f64,
}

pub async fn run(demo: HotTenant) -> std::result::Result<ExitCode, String> {
    let told = tell(demo, &mut io::stdout()).await;
    match told {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(format!("the demo: {error}")),
    }
}

/// A thousandth of the service's storage and a tenth of its throughput, so that limits are near.
fn limits() -> Limits {
    let limits = Limits::default();
    Limits {
        logical_partition_size_bytes_max: limits.logical_partition_size_bytes_max >> 13,
        physical_partition_size_bytes_max: limits.physical_partition_size_bytes_max >> 13,
        physical_partition_size_bytes_hard_max: limits.physical_partition_size_bytes_hard_max >> 13,
        throughput_per_partition: limits.throughput_per_partition / 10,
        partition_throughput_max: limits.partition_throughput_max / 10,
        ..limits
    }
}

async fn tell(demo: HotTenant, out: &mut impl Write) -> Result<()> {
    let options = AccountOptions {
        limits: limits(),
        random: Random::seeded(demo.seed_number),
        ..AccountOptions::default()
    };
    let shard =
        Shard::open(ShardOptions::memory()).await.map_err(|error| Error::internal(error.to_string()))?;
    let account = Account::open(shard, options).await?;
    let mut stage = Stage { account, demo, out };
    stage.introduce()?;
    let acts = stage.acts().await?;
    stage.compare(&acts)?;
    stage.account.close().await
}

struct Stage<'o, W> {
    account: Account,
    demo: HotTenant,
    out: &'o mut W,
}

impl<W: Write> Stage<'_, W> {
    fn say(&mut self, text: &str) -> Result<()> {
        let written = writeln!(self.out, "{text}").and_then(|()| self.out.flush());
        written.map_err(|error| Error::internal(format!("standard output cannot be written: {error}")))
    }

    fn introduce(&mut self) -> Result<()> {
        let limits = self.account.router().limits().clone();
        self.say(&format!(
            "Six tenants share a container. {LARGE} is large, {BUSY} is busy, the others are ordinary.\n\
             Limits are scaled down: a logical partition holds {} (for 20 GB), a physical one {} (for 50 GB)\n\
             and at most {} RU/s (for 10,000). Each container has {} RU/s; all tenants together ask for less.",
            bytes(limits.logical_partition_size_bytes_max),
            bytes(limits.physical_partition_size_bytes_max),
            thousands(limits.partition_throughput_max),
            thousands(THROUGHPUT),
        ))
    }

    async fn acts(&mut self) -> Result<Vec<Act>> {
        let context = self.context();
        self.account.definitions().create_database(&context, DATABASE, None).await?;
        let (container, loaded) = self.load(1, Design::ByTenant).await?;
        self.say("\n── 2. The traffic, with that key ──")?;
        let title = "key /tenant".to_owned();
        let first = self.traffic(title, &container, Design::ByTenant, &loaded, THROUGHPUT).await?;
        let doubled = 2 * THROUGHPUT;
        self.say(&format!("\n── 3. Would more throughput help? {} RU/s instead ──", thousands(doubled)))?;
        self.raise(&container, doubled).await?;
        let title = "key /tenant, twice the RU/s".to_owned();
        let second = self.traffic(title, &container, Design::ByTenant, &loaded, doubled).await?;
        let (container, loaded) = self.load(4, Design::ByTenantAndUser).await?;
        self.say("\n── 5. The same traffic, with the better key ──")?;
        let title = "key /tenantUser".to_owned();
        let third = self.traffic(title, &container, Design::ByTenantAndUser, &loaded, THROUGHPUT).await?;
        Ok(vec![first, second, third])
    }

    /// Creates a container and stores every tenant's items in it.
    async fn load(&mut self, number: u32, design: Design) -> Result<(ContainerHandle, Vec<Loaded>)> {
        let definition = serde_json::from_value(design.definition()).expect("our own definitions are valid");
        let throughput = Some(Throughput::Manual(THROUGHPUT));
        let context = self.context();
        let container =
            self.account.definitions().create_container(&context, DATABASE, definition, throughput).await?;
        self.say(&format!("\n── {number}. The items, with the partition key {} ──", design.key_path()))?;
        let loaded = traffic::load(&self.account, &container, design).await?;
        let max = self.account.router().limits().logical_partition_size_bytes_max;
        let usage = container.usage();
        let item_bytes = usage.size_bytes / usage.items.max(1);
        self.say("Stored per tenant; a full bar is what one logical partition may hold:")?;
        self.say(bars::storage_of_tenants(&loaded, item_bytes, max).trim_end())?;
        for (tenant, loaded) in TENANTS.iter().zip(&loaded).filter(|(_, loaded)| loaded.refused > 0) {
            self.say(&format!("Tenant {} is refused with 403: {}", tenant.name, loaded.words))?;
        }
        let report = self.account.maintenance().container_report(&container, Duration::from_secs(60)).await?;
        self.say("Stored per physical partition, with its largest logical partitions:")?;
        self.say(bars::storage_of_partitions(&report).trim_end())?;
        Ok((container, loaded))
    }

    async fn traffic(
        &mut self,
        title: String,
        container: &ContainerHandle,
        design: Design,
        loaded: &[Loaded],
        throughput: u64,
    ) -> Result<Act> {
        let duration = Duration::from_secs(self.demo.seconds);
        let pace = Pace { duration, seed_number: self.demo.seed_number, busy_percent: 100 };
        let served = traffic::run(&self.account, container, design, loaded, pace).await?;
        let report = self.account.maintenance().container_report(container, duration).await?;
        self.say(&format!("{} seconds, per tenant:", self.demo.seconds))?;
        self.say(bars::tenants(&served, duration.as_secs_f64()).trim_end())?;
        self.say("Per physical partition, with its hottest key; a full bar is the budget (a second of it can be saved up):")?;
        self.say(bars::load_of_partitions(&report).trim_end())?;
        self.print_neighbours(&report, &served)?;
        self.explain(&report)?;
        Ok(act(title, throughput, &report, loaded, &served))
    }

    /// Names the tenants that are refused because they share a partition with the busy tenant, and the idle ones.
    fn print_neighbours(&mut self, report: &ContainerReport, served: &[Served]) -> Result<()> {
        let refused =
            TENANTS.iter().zip(served).filter(|(tenant, served)| tenant.name != BUSY && served.refused > 0);
        let names: Vec<&str> = refused.map(|(tenant, _)| tenant.name).collect();
        let refusing =
            report.partitions.iter().filter(|partition| partition.heat.totals.throttled > 0).count();
        match (names.is_empty(), refusing) {
            (_, 0) => self.say("Nobody is refused."),
            (true, _) => self.say(&format!("Only {BUSY} is refused: nobody else is in its partition.")),
            (false, 1) => self.say(&format!(
                "{} did nothing wrong and are refused too: they share a partition with {BUSY}, while others stand idle.",
                names.join(", ")
            )),
            (false, _) => Ok(()),
        }
    }

    /// Prints the diagnosis, as `shardlake partitions` does.
    fn explain(&mut self, report: &ContainerReport) -> Result<()> {
        self.say("The server's diagnosis:")?;
        for finding in &report.diagnosis {
            self.say(&format!("  ► {}", wrapped(&finding.summary, "    ").trim_start()))?;
            self.say(&wrapped(&finding.remedy, "    "))?;
        }
        Ok(())
    }

    /// Raises the throughput, and waits until the partitions have been split for it.
    async fn raise(&mut self, container: &ContainerHandle, throughput: u64) -> Result<()> {
        let offer = self.account.router().throughput_of(container).own;
        let offer = offer.ok_or_else(|| Error::internal("the container has lost its throughput"))?;
        let (rid, wanted) = (offer.rid.to_string(), Throughput::Manual(throughput));
        let context = self.context();
        self.account.definitions().replace_offer(&context, &rid, wanted, &Preconditions::default()).await?;
        let clock = self.account.router().clock().clone();
        let deadline = clock.elapsed() + SETTLE_MAX;
        while clock.elapsed() < deadline {
            let current = self.account.router().container(DATABASE, Design::ByTenant.container())?;
            if current.relocation().is_none()
                && !self.account.maintenance().is_throughput_pending(&offer).await?
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let current = self.account.router().container(DATABASE, Design::ByTenant.container())?;
        let ranges = current.partition_key_ranges();
        let ids: Vec<String> = ranges.iter().map(|range| range.id.to_string()).collect();
        self.say(&format!(
            "That is more than three partitions may hand out, so one was split while it was used: there are {} now ({}).",
            ids.len(),
            ids.join(", "),
        ))
    }

    fn compare(&mut self, acts: &[Act]) -> Result<()> {
        self.say("\n── The same items and the same traffic, side by side ──")?;
        type Cell = fn(&Act) -> String;
        let rows: [(&str, Cell); 7] = [
            ("", |act| act.title.clone()),
            ("throughput paid for", |act| format!("{} RU/s", thousands(act.throughput))),
            ("physical partitions", |act| act.partitions.to_string()),
            ("items refused: key is full", |act| thousands(act.full_items)),
            ("requests answered 429", |act| format!("{:.1} %", act.total.refused_share() * 100.0)),
            ("of the busy tenant's", |act| format!("{:.1} %", act.busy.refused_share() * 100.0)),
            ("busiest partition at", |act| format!("{:.0} % of its budget", act.busiest_used * 100.0)),
        ];
        for (name, cell) in rows {
            let cells: Vec<String> = acts.iter().map(|act| format!("{:>28}", cell(act))).collect();
            self.say(&format!("{name:<27}{}", cells.join("")))?;
        }
        self.say(
            "\nA key with many values, each of them small and none of them hot, is what spreads storage and load. Where queries\n\
             must find a whole tenant, the hierarchical key /tenant, /user keeps its items near one another, and a tenant may\n\
             outgrow a partition all the same.",
        )
    }

    fn context(&self) -> RequestContext {
        RequestContext::internal(self.account.router().clock(), self.account.router().random().guid())
    }
}

fn act(
    title: String,
    throughput: u64,
    report: &ContainerReport,
    loaded: &[Loaded],
    served: &[Served],
) -> Act {
    let mut total = Served::default();
    served.iter().for_each(|served| total.add(served));
    let busy = TENANTS.iter().position(|tenant| tenant.name == BUSY).expect("the busy tenant is one of them");
    let used = report.partitions.iter().map(|partition| {
        let used = partition.heat.totals.ru / f64::from(partition.heat.window_seconds.max(1));
        partition.budget.map_or(0.0, |budget| used * 100.0 / budget.rate_centi.max(1) as f64)
    });
    Act {
        title,
        throughput,
        partitions: report.partitions.len(),
        full_items: loaded.iter().map(|loaded| loaded.refused).sum(),
        total,
        busy: served[busy],
        busiest_used: used.fold(0.0, f64::max),
    }
}
