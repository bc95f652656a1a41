//! Throughput in force: the budget of each container, its state, and its division over partitions by hand.
//!
//! Budgets are made from the catalog. Whenever a catalog is about to be published,
//! [`Serving::follow_throughput`] gives every container's budget its ranges and its allowance.
//! Budgets outlive the entries that refer to them, so debts and credit do too. Lock order: the
//! budgets of databases, then one partition's at a time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use shardlake_capacity::budget::{
    Allowance, BudgetReport, BudgetRules, Burst, PartitionBudget, RangeThroughput, scaled_throughput,
    serverless_throughput, shares_of,
};
use shardlake_catalog::{Change, ContainerRecord, Definitions, RangeRecord};
use shardlake_model::{DatabaseRid, Error, Limits, Offer, RequestContext, Result, Throughput};

use crate::ContainerHandle;
use crate::Serving;
use crate::container_handle::ContainerEntry;
use crate::handle::PartitionHandle;
use crate::history::EpochRange;
use crate::live_catalog::LiveCatalog;
use crate::refusals::was_deleted;

/// Whether budgets refuse anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Enforcement {
    /// Where a throughput was asked for.
    #[default]
    Enforced,
    /// Nothing is refused; charges are still reported.
    Unlimited,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CapacityMode {
    #[default]
    Provisioned,
    /// Containers have no throughput to set; each may use a fixed one.
    Serverless,
}

/// Rules for all containers of the account.
#[derive(Debug, Clone, Copy)]
pub struct ThroughputRules {
    pub enforcement: Enforcement,
    pub capacity: CapacityMode,
    pub burst: Burst,
}

/// Charges in hundredths of a request unit.
#[derive(Debug, Clone)]
pub struct ThroughputReport {
    /// The container's own offer.
    pub own: Option<Arc<Offer>>,
    /// The database's offer, where the container has none.
    pub shared: Option<Arc<Offer>>,
    /// RU/s that autoscale is at.
    pub scaled_to: Option<u64>,
    /// By range id; empty where nothing is limited.
    pub partitions: Vec<(u32, BudgetReport)>,
    /// The throughput that the containers of the database share.
    pub database: Option<BudgetReport>,
}

/// Budgets of the databases with containers that share a throughput.
#[derive(Debug, Default)]
pub(crate) struct DatabaseBudgets(Mutex<FxHashMap<DatabaseRid, Arc<PartitionBudget>>>);

impl Serving {
    /// Brings the budgets in line with a catalog that is about to be shown, where its change concerns them.
    pub fn follow_throughput_of(&self, catalog: &LiveCatalog, change: &Change) {
        let concerns =
            !(change.databases.is_empty() && change.containers.is_empty() && change.offers.is_empty());
        if concerns {
            self.follow_throughput(catalog);
        }
    }

    fn follow_throughput(&self, catalog: &LiveCatalog) {
        let now = self.0.clock.elapsed();
        let rules = self.budget_rules();
        let offers: FxHashMap<&str, &Offer> = catalog
            .definitions
            .offers
            .values()
            .map(|offer| (offer.resource_rid.as_str(), &**offer))
            .collect();
        let mut shared = self.0.database_budgets.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = FxHashMap::default();
        for database in catalog.databases.values() {
            let rid = database.database.rid;
            let of_database = offers.get(rid.to_string().as_str()).filter(|offer| offer.enforced);
            let budget = of_database.map(|offer| {
                let rate_centi = offer.throughput.maximum() * 100;
                let known = shared.remove(&rid);
                let budget =
                    known.unwrap_or_else(|| Arc::new(PartitionBudget::new(rate_centi, rules.burst, now)));
                budget.set_rate(rate_centi, rules.burst, now);
                kept.insert(rid, budget.clone());
                budget
            });
            for container in database.containers.values() {
                let offer = offers.get(container.rid_text()).copied();
                let allowance = self.allowance(container, offer, budget.as_ref());
                follow(container, &allowance, rules, now);
            }
        }
        *shared = kept;
    }

    fn allowance(
        &self,
        container: &ContainerEntry,
        offer: Option<&Offer>,
        of_database: Option<&Arc<PartitionBudget>>,
    ) -> Allowance {
        let rules = self.0.throughput;
        match (rules.enforcement, rules.capacity, offer, of_database) {
            (Enforcement::Unlimited, ..) => Allowance::Unlimited,
            (_, CapacityMode::Serverless, ..) => {
                Allowance::Own { throughput: serverless_throughput(container.record.ranges.len()) }
            }
            (_, _, Some(offer), _) if offer.enforced => {
                Allowance::Own { throughput: offer.throughput.maximum() }
            }
            (_, _, None, Some(budget)) => Allowance::Shared(budget.clone()),
            _ => Allowance::Unlimited,
        }
    }

    fn budget_rules(&self) -> BudgetRules {
        // Serverless containers have no idle capacity to bank.
        let burst = match self.0.throughput.capacity {
            CapacityMode::Provisioned => self.0.throughput.burst,
            CapacityMode::Serverless => Burst::Off,
        };
        BudgetRules { burst, partition_throughput_max: self.0.limits.partition_throughput_max }
    }

    /// Refuses to set a throughput of a serverless account.
    pub fn check_has_throughput(&self) -> Result<()> {
        match self.0.throughput.capacity {
            CapacityMode::Provisioned => Ok(()),
            CapacityMode::Serverless => Err(Error::bad_request(
                "Setting offer throughput or autopilot on container is not supported for serverless accounts.",
            )),
        }
    }

    pub fn capacity_mode(&self) -> CapacityMode {
        self.0.throughput.capacity
    }

    /// How a container's budgets stand now.
    pub fn throughput_of(&self, container: &ContainerHandle) -> ThroughputReport {
        let entry = &container.entry;
        let now = self.0.clock.elapsed();
        let catalog = self.0.catalog.load();
        let own = catalog.offer_of(entry.rid_text()).cloned();
        let shared = match own {
            Some(_) => None,
            None => catalog.offer_of(&entry.database.rid.to_string()).cloned(),
        };
        let budgets = self.0.database_budgets.0.lock().unwrap_or_else(PoisonError::into_inner);
        let database = shared.as_ref().and_then(|_| budgets.get(&entry.database.rid)).cloned();
        drop(budgets);
        let partitions = entry.budget.report(now);
        let database = database.map(|budget| budget.report(now));
        let scaled_to = match own.as_ref().or(shared.as_ref()).map(|offer| offer.throughput) {
            Some(Throughput::Autoscale(autoscale)) => Some(match database {
                Some(report) => scaled_throughput(autoscale.max_throughput, &[(0, report)]),
                None => scaled_throughput(autoscale.max_throughput, &partitions),
            }),
            _ => None,
        };
        ThroughputReport { own, shared, scaled_to, partitions, database }
    }

    /// Gives named partitions shares of their own in RU/s; the others keep theirs, and the sum must stay the container's
    /// throughput. No shares at all mean equal ones again.
    pub async fn redistribute(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        shares: &[(u32, u64)],
    ) -> Result<ContainerHandle> {
        self.redistribute_by(ctx, container, shares, SumRule::Kept).await
    }

    /// Like [`Serving::redistribute`], but the sum becomes the container's throughput.
    pub async fn redistribute_and_resize(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        shares: &[(u32, u64)],
    ) -> Result<ContainerHandle> {
        self.redistribute_by(ctx, container, shares, SumRule::Followed).await
    }

    async fn redistribute_by(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        shares: &[(u32, u64)],
        rule: SumRule,
    ) -> Result<ContainerHandle> {
        self.check_has_throughput()?;
        let (serving, rid, now) = (self.clone(), container.entry.record.container.rid, ctx.now);
        let shares = shares.to_vec();
        let plan = move |_: &LiveCatalog, draft: &mut Definitions| {
            let record = draft.containers.get(&rid).ok_or_else(was_deleted)?;
            let mut record = ContainerRecord::clone(record);
            let offer = draft.offer_of(&rid.to_string()).cloned().ok_or_else(|| {
                Error::bad_request(
                    "the container has no throughput of its own to divide: its database shares one",
                )
            })?;
            let limits = serving.limits();
            let total = divide(&mut record.ranges, offer.throughput.maximum(), &shares, limits)?;
            let mut offer = Offer { enforced: true, ..Offer::clone(&offer) };
            if total != offer.throughput.maximum() {
                if rule == SumRule::Kept {
                    return Err(Error::bad_request(format!(
                        "the shares of all partitions add up to {total} RU/s, and the container has {}",
                        offer.throughput.maximum()
                    )));
                }
                offer.throughput = offer.throughput.resized(total);
                offer.throughput.validate(limits, offer.minimum(offer.throughput, limits) as i64)?;
                offer.highest_throughput = offer.highest_throughput.max(total);
                (offer.timestamp, offer.etag) = (now.seconds(), serving.random().guid().0);
            }
            draft.containers.put(rid, record);
            draft.offers.put(offer.rid, offer);
            Ok(())
        };
        self.change(plan).await?;
        Ok(ContainerHandle { entry: self.entry_of_rid(rid)?, by_rid: container.by_rid })
    }
}

/// Whether shares may change the total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SumRule {
    Kept,
    Followed,
}

/// Sets the shares, and returns their sum.
fn divide(ranges: &mut [RangeRecord], total: u64, shares: &[(u32, u64)], limits: &Limits) -> Result<u64> {
    let max = limits.partition_throughput_max;
    let by_hand: Vec<_> = ranges.iter().map(|range| range.throughput).collect();
    if shares.is_empty() {
        ranges.iter_mut().for_each(|range| range.throughput = None);
        return Ok(total);
    }
    for (range, share) in ranges.iter_mut().zip(shares_of(total, &by_hand)) {
        range.throughput = Some(share);
    }
    for (at, (range_id, share)) in shares.iter().enumerate() {
        if *share == 0 || *share > max {
            return Err(Error::bad_request(format!(
                "partition key range '{range_id}' cannot have {share} RU/s: a partition has 1 to {max}"
            )));
        }
        if shares[..at].iter().any(|(earlier, _)| earlier == range_id) {
            return Err(Error::bad_request(format!("partition key range '{range_id}' is named twice")));
        }
        let range = ranges.iter_mut().find(|range| range.range_id == *range_id);
        let range = range.ok_or_else(|| {
            Error::bad_request(format!("the container has no partition key range '{range_id}'"))
        })?;
        range.throughput = Some(*share);
    }
    let sum = |sum: u64, range: &RangeRecord| sum.saturating_add(range.throughput.unwrap_or(0));
    Ok(ranges.iter().fold(0, sum))
}

fn follow<'c>(container: &'c ContainerEntry, allowance: &Allowance, rules: BudgetRules, now: Duration) {
    let of_range = |range: &'c RangeRecord| -> RangeThroughput<'c> {
        RangeThroughput { range_id: range.range_id, parents: &range.parents, by_hand: range.throughput }
    };
    let ranges: Vec<_> = container.record.ranges.iter().map(of_range).collect();
    container.budget.follow(&ranges, allowance, rules, now);
    let rates = container.budget.report(now);
    let of_partition = |partition: &PartitionHandle| EpochRange {
        range_id: partition.range_id(),
        range: partition.epk_range().clone(),
        budget_centi: rates
            .iter()
            .find(|(range_id, _)| *range_id == partition.range_id())
            .map(|(_, report)| report.rate_centi),
    };
    container.history.note(now, container.map.iter().map(of_partition).collect());
}
