//! Throughput in force: which budget each container lives by, and its division over partitions by hand.
//!
//! Budgets are made from the catalog. Whenever one is about to be published, [`Account::follow_throughput`] gives every
//! container's budget its ranges and its allowance; budgets outlive the entries that refer to them, so debts and credit do too.
//! Order of locks: the budgets of databases, then one partition's at a time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use shardlake_cluster::budget::{
    Allowance, BudgetRules, Burst, PartitionBudget, RangeThroughput, serverless_throughput,
};
use shardlake_model::{DatabaseRid, Error, Offer, Result};

use crate::Account;
use crate::catalog::{Catalog, RangeRecord};
use crate::container_handle::ContainerEntry;

/// Whether budgets refuse anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Enforcement {
    /// Where a throughput was asked for.
    #[default]
    Enforced,
    /// Nothing is refused; charges are reported all the same.
    Unlimited,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CapacityMode {
    #[default]
    Provisioned,
    /// Containers have no throughput to set; each may use a fixed one.
    Serverless,
}

/// What holds for all containers of the account.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThroughputRules {
    pub enforcement: Enforcement,
    pub capacity: CapacityMode,
    pub burst: Burst,
}

/// Of the databases whose containers share a throughput.
#[derive(Debug, Default)]
pub(crate) struct DatabaseBudgets(Mutex<FxHashMap<DatabaseRid, Arc<PartitionBudget>>>);

impl Account {
    /// Brings all budgets in line with a catalog.
    pub(crate) fn follow_throughput(&self, catalog: &Catalog) {
        let now = self.0.clock.elapsed();
        let rules = self.budget_rules();
        let offers: FxHashMap<&str, &Offer> =
            catalog.offers.values().map(|offer| (offer.resource_rid.as_str(), &**offer)).collect();
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
                Allowance::Own { throughput: serverless_throughput(container.ranges.len()) }
            }
            (_, _, Some(offer), _) if offer.enforced => {
                Allowance::Own { throughput: offer.throughput.maximum() }
            }
            (_, _, None, Some(budget)) => Allowance::Shared(budget.clone()),
            _ => Allowance::Unlimited,
        }
    }

    fn budget_rules(&self) -> BudgetRules {
        // What is paid for by use has no idle capacity to bank.
        let burst = match self.0.throughput.capacity {
            CapacityMode::Provisioned => self.0.throughput.burst,
            CapacityMode::Serverless => Burst::Off,
        };
        BudgetRules { burst, partition_throughput_max: self.0.limits.partition_throughput_max }
    }

    /// Refuses to set a throughput where there is none to set.
    pub(crate) fn check_has_throughput(&self) -> Result<()> {
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
}

fn follow(container: &ContainerEntry, allowance: &Allowance, rules: BudgetRules, now: Duration) {
    let of_range =
        |range: &RangeRecord| RangeThroughput { range_id: range.range_id, by_hand: range.throughput };
    let ranges: Vec<_> = container.ranges.iter().map(of_range).collect();
    container.budget.follow(&ranges, allowance, rules, now);
}
