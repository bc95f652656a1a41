//! `shardlake demo split`: a partition grows until it is split, while items are being stored, in one command.
//!
//! Everything runs in this process, in memory and against the real clock, with the size of a partition scaled down to a megabyte.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use shardlake_account::{
    Account, AccountOptions, ContainerHandle, ContainerReport, RelocationReport, WriteCommand, item_of_json,
};
use shardlake_model::{Error, Limits, RequestContext, Result};
use shardlake_storage::{Shard, ShardOptions};

use super::bars::bar;
use crate::operate::{bytes, counted, thousands};

const DATABASE: &str = "shop";
const CONTAINER: &str = "orders";
/// 50 GB become 1.5 MiB.
const SCALE_BITS: u32 = 15;
const CUSTOMERS: u64 = 500;
/// An order with this is about as large as one of a small shop.
const NOTE: &str = "Leave with the neighbour if nobody is at home; the bell does not work, so please knock twice and wait a moment. ";
/// Between two looks at the partitions.
const LOOK_AFTER_ITEMS: u64 = 20;
/// Once the partition is full, orders come slowly enough for it not to grow much further.
const PAUSE: Duration = Duration::from_millis(20);
/// Looks, once it is full, after which something must be wrong.
const LOOKS_MAX: u32 = 6_000;
/// Orders that are stored after the split, so that both partitions are seen to grow.
const ORDERS_AFTER: u64 = 400;

pub async fn run() -> std::result::Result<ExitCode, String> {
    match tell(&mut io::stdout()).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(format!("the demo: {error}")),
    }
}

fn limits() -> Limits {
    let limits = Limits::default();
    Limits {
        physical_partition_size_bytes_max: limits.physical_partition_size_bytes_max >> SCALE_BITS,
        physical_partition_size_bytes_hard_max: limits.physical_partition_size_bytes_hard_max >> SCALE_BITS,
        ..limits
    }
}

async fn tell(out: &mut impl Write) -> Result<()> {
    let options = AccountOptions { limits: limits(), ..AccountOptions::default() };
    let shard =
        Shard::open(ShardOptions::memory()).await.map_err(|error| Error::internal(error.to_string()))?;
    let account = Account::open(shard, options).await?;
    let mut stage = Stage { account, orders: 0, out };
    stage.introduce().await?;
    stage.fill().await?;
    stage.grow().await?;
    stage.account.close().await
}

struct Stage<'o, W> {
    account: Account,
    orders: u64,
    out: &'o mut W,
}

impl<W: Write> Stage<'_, W> {
    async fn introduce(&mut self) -> Result<()> {
        let max = bytes(self.account.router().limits().physical_partition_size_bytes_max);
        self.say(&format!(
            "A physical partition is split when it holds more than 50 GB. Here {max} stand for them, and everything is in memory.\n\
             The container {DATABASE}/{CONTAINER} has the partition key /customer. A full bar is what one partition may hold.\n"
        ))?;
        let context = self.context();
        self.account.definitions().create_database(&context, DATABASE, None).await?;
        let key = json!({ "paths": ["/customer"], "kind": "Hash", "version": 2 });
        let definition = serde_json::from_value(json!({ "id": CONTAINER, "partitionKey": key }));
        let definition = definition.expect("our own definitions are valid");
        self.account.definitions().create_container(&context, DATABASE, definition, None).await?;
        self.show(&self.report().await?)
    }

    /// Stores orders until the partition is full, and continues until it has been split.
    async fn fill(&mut self) -> Result<()> {
        let max = self.account.router().limits().physical_partition_size_bytes_max;
        let (mut quarters, mut looks) = (0, 0);
        let mut orders = LOOK_AFTER_ITEMS;
        loop {
            self.store(orders).await?;
            let report = self.report().await?;
            let is_split = report.partitions.len() > 1 && report.relocation.is_none();
            // The result is reported shortly after the split is done.
            if let Some(ended) = report.container.last_relocation().filter(|_| is_split) {
                return self.print_split(&report, ended.map_err(Error::internal)?);
            }
            let size = report.partitions[0].size_bytes;
            if size * 4 / max > quarters && looks == 0 {
                quarters = size * 4 / max;
                self.show(&report)?;
            }
            if size > max || looks > 0 {
                if looks == 0 {
                    self.say(&format!(
                        "     partition 0 {}\n     Orders go on being stored meanwhile.",
                        report.partitions[0].next
                    ))?;
                }
                looks += 1;
                // Far below the size at which a partition takes no more, however long the split takes.
                orders = u64::from(size * 2 < max * 3);
                tokio::time::sleep(PAUSE).await;
            }
            if looks == LOOKS_MAX {
                return Err(Error::internal("the partition is full and was not split"));
            }
        }
    }

    fn print_split(&mut self, report: &ContainerReport, split: RelocationReport) -> Result<()> {
        let ids = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        self.say(&format!(
            "\n     split of {} into {}: {} in {} ms, writers were held for {:.1} ms\n",
            ids(&split.sources),
            ids(&split.targets),
            counted(split.items, "item"),
            split.duration.as_millis(),
            split.pause.as_secs_f64() * 1e3,
        ))?;
        self.show(report)
    }

    async fn grow(&mut self) -> Result<()> {
        self.store(ORDERS_AFTER).await?;
        self.say(&format!(
            "\n     after {} more, which go to either by their customer:\n",
            counted(ORDERS_AFTER, "order")
        ))?;
        let report = self.report().await?;
        self.show(&report)?;
        let items: u64 = report.partitions.iter().map(|partition| partition.items).sum();
        self.say(&format!(
            "\n{} were stored and {} are there: none lost, none twice. Sessions, queries and feeds of clients go on through a split.\n\
             The same on a server: `shardlake serve --limits-scale 1/30000`, beside it `shardlake partitions {DATABASE}/{CONTAINER} --watch`.",
            counted(self.orders, "order"),
            thousands(items),
        ))
    }

    async fn store(&mut self, orders: u64) -> Result<()> {
        let container = self.container()?;
        for _ in 0..orders {
            let number = self.orders;
            let customer = format!("c{}", number % CUSTOMERS);
            let order = json!({ "id": format!("o{number}"), "customer": customer, "note": NOTE.repeat(7) });
            let body = order.to_string();
            let body = item_of_json(body.as_bytes(), self.account.router().limits())?;
            self.account.items().write_item(&self.context(), &container, WriteCommand::create(body)).await?;
            self.orders += 1;
        }
        Ok(())
    }

    fn container(&self) -> Result<ContainerHandle> {
        self.account.router().container(DATABASE, CONTAINER)
    }

    async fn report(&self) -> Result<ContainerReport> {
        self.account.maintenance().container_report(&self.container()?, Duration::from_secs(60)).await
    }

    fn show(&mut self, report: &ContainerReport) -> Result<()> {
        let max = self.account.router().limits().physical_partition_size_bytes_max;
        let count = counted(report.partitions.len() as u64, "partition");
        for (place, partition) in report.partitions.iter().enumerate() {
            let count = if place == 0 { count.as_str() } else { "" };
            self.say(&format!(
                "  {:>2} {} {:>9}  {:<11}  {count}",
                partition.range.id,
                bar(partition.size_bytes as f64, max as f64),
                bytes(partition.size_bytes),
                counted(partition.items, "item"),
            ))?;
        }
        Ok(())
    }

    fn say(&mut self, text: &str) -> Result<()> {
        let written = writeln!(self.out, "{text}").and_then(|()| self.out.flush());
        written.map_err(|error| Error::internal(format!("standard output cannot be written: {error}")))
    }

    fn context(&self) -> RequestContext {
        RequestContext::internal(self.account.router().clock(), self.account.router().random().guid())
    }
}
