//! The same items and the same traffic for either design: loaded at once, then asked for at a steady rate.
//!
//! Every tenant sends requests at its own rate, independent of the answers, as users do; a refused request is counted and not retried,
//! so that served and refused requests add up to all requests. The seed number alone decides which items are requested.

use std::time::Duration;

use shardlake_account::{Account, ContainerHandle, ItemRead, ReadCommand, WriteCommand, item_of_json};
use shardlake_model::{Error, ErrorKind, PartitionKey, Preconditions, Priority, RequestContext, Result};
use shardlake_stdx::Random;

use super::tenants::{BUSY, Design, TENANTS, Tenant};

/// Between two looks at how many requests are due.
const TICK: Duration = Duration::from_millis(5);

/// For how long, and how the requests are chosen.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub duration: Duration,
    pub seed_number: u64,
    /// Share of the busy tenant's reads, in percent.
    pub busy_percent: u64,
}

/// Results of loading one tenant's items.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    pub stored: u64,
    /// Items refused because the logical partition was full; `words` holds the message.
    pub refused: u64,
    pub words: String,
}

/// Requests of one tenant that were served and refused, with their request units.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Served {
    pub served: u64,
    pub refused: u64,
    pub served_ru: f64,
    pub refused_ru: f64,
}

impl Served {
    pub fn refused_share(&self) -> f64 {
        self.refused as f64 / (self.served + self.refused).max(1) as f64
    }

    pub fn add(&mut self, other: &Served) {
        self.served += other.served;
        self.refused += other.refused;
        self.served_ru += other.served_ru;
        self.refused_ru += other.refused_ru;
    }
}

/// Stores every tenant's items, in the order of [`TENANTS`]. Loading is work of the server's own: no budget is asked.
pub async fn load(account: &Account, container: &ContainerHandle, design: Design) -> Result<Vec<Loaded>> {
    let mut all = Vec::with_capacity(TENANTS.len());
    for tenant in &TENANTS {
        let mut loaded = Loaded::default();
        for item in 0..tenant.items {
            let context =
                RequestContext::internal(account.router().clock(), account.router().random().guid());
            let body = item_of_json(&tenant.item(item, 0), account.router().limits())?;
            let key = Some(PartitionKey::single(design.key_of(tenant, item)));
            let command = WriteCommand { key, ..WriteCommand::create(body) };
            match account.items().write_item(&context, container, command).await {
                Ok(_) => loaded.stored += 1,
                Err(error) if error.kind() == ErrorKind::LogicalPartitionFull => {
                    loaded.refused += 1;
                    loaded.words = error.message().to_owned();
                }
                Err(error) => return Err(error),
            }
        }
        all.push(loaded);
    }
    Ok(all)
}

/// Runs the traffic of all tenants at once; returns the counts in the order of [`TENANTS`]. `loaded` are the existing items.
pub async fn run(
    account: &Account,
    container: &ContainerHandle,
    design: Design,
    loaded: &[Loaded],
    pace: Pace,
) -> Result<Vec<Served>> {
    let tenant = |(place, tenant): (usize, &'static Tenant)| {
        let random = Random::seeded(pace.seed_number.wrapping_mul(31).wrapping_add(place as u64));
        let is_busy = tenant.name == BUSY;
        let reads_per_second = tenant.reads_per_second * if is_busy { pace.busy_percent } else { 100 } / 100;
        let traffic = Traffic {
            account: account.clone(),
            container: container.clone(),
            design,
            tenant,
            reads_per_second,
            items: loaded[place].stored.max(1),
            random,
        };
        tokio::spawn(traffic.run(pace.duration))
    };
    let running: Vec<_> = TENANTS.iter().enumerate().map(tenant).collect();
    let mut all = Vec::with_capacity(running.len());
    for one in running {
        all.push(one.await.map_err(|error| Error::internal(format!("a tenant's task failed: {error}")))??);
    }
    Ok(all)
}

struct Traffic {
    account: Account,
    container: ContainerHandle,
    design: Design,
    tenant: &'static Tenant,
    reads_per_second: u64,
    items: u64,
    random: Random,
}

/// Requests of one kind: their number and request units.
#[derive(Debug, Default)]
struct Counted {
    served: u64,
    refused: u64,
    ru: f64,
}

impl Traffic {
    async fn run(self, duration: Duration) -> Result<Served> {
        let clock = self.account.router().clock().clone();
        let started = clock.elapsed();
        let (mut reads, mut writes) = (Counted::default(), Counted::default());
        loop {
            let passed = (clock.elapsed() - started).min(duration);
            while reads.served + reads.refused < due(self.reads_per_second, passed) {
                reads.count(self.read().await)?;
            }
            while writes.served + writes.refused < due(self.tenant.writes_per_second, passed) {
                let version = writes.served + writes.refused + 1;
                writes.count(self.write(version).await)?;
            }
            if passed == duration {
                break;
            }
            tokio::time::sleep(TICK).await;
        }
        let mut served = reads.summed();
        served.add(&writes.summed());
        Ok(served)
    }

    async fn read(&self) -> Result<u64> {
        let item = self.random.below(self.items);
        let key = PartitionKey::single(self.design.key_of(self.tenant, item));
        let read =
            ItemRead { item: self.tenant.item_id(item).into(), preconditions: Preconditions::default() };
        let command = ReadCommand { key: Some(key), read };
        let reply = self.account.items().read(&self.context(), &self.container, command).await?;
        Ok(reply.meta.charge_centi)
    }

    async fn write(&self, version: u64) -> Result<u64> {
        let item = self.random.below(self.items);
        let body = item_of_json(&self.tenant.item(item, version), self.account.router().limits())?;
        let command = WriteCommand::upsert(body);
        let written = self.account.items().write_item(&self.context(), &self.container, command).await?;
        Ok(written.meta.charge_centi)
    }

    /// The context of a client's request, so that budgets apply.
    fn context(&self) -> RequestContext {
        let context =
            RequestContext::internal(self.account.router().clock(), self.account.router().random().guid());
        RequestContext { priority: Priority::High, ..context }
    }
}

impl Counted {
    fn count(&mut self, outcome: Result<u64>) -> Result<()> {
        match outcome {
            Ok(charge_centi) => {
                self.served += 1;
                self.ru += charge_centi as f64 / 100.0;
            }
            // A full logical partition takes no larger item; the traffic rewrites items at their size.
            Err(error)
                if matches!(error.kind(), ErrorKind::TooManyRequests | ErrorKind::LogicalPartitionFull) =>
            {
                self.refused += 1;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Sums the counts; a refused request counts with the mean cost of the served ones.
    fn summed(&self) -> Served {
        let mean = self.ru / self.served.max(1) as f64;
        Served {
            served: self.served,
            refused: self.refused,
            served_ru: self.ru,
            refused_ru: mean * self.refused as f64,
        }
    }
}

fn due(per_second: u64, passed: Duration) -> u64 {
    (u128::from(per_second) * passed.as_micros() / 1_000_000) as u64
}
