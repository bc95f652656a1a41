//! Background maintenance of an account: splits, merges and moves, index builds, purging, compaction; and its
//! reports of partitions to operators.
//!
//! | file | contents |
//! |---|---|
//! | `relocation.rs`, `relocation_run.rs` | split, merge and move: their plans and records, and the work |
//! | `balance.rs` | begins the splits that size and throughput require |
//! | `index_build.rs` | fills new generations of an index, and deletes old ones |
//! | `purge.rs` | removes expired items |
//! | `compaction.rs` | keeps the change logs small |
//! | `log_holds.rs` | stores how far the followers of change logs are |
//! | `heat_map.rs`, `pulse.rs` | heat over time: of a container's hash space, of all containers |
//! | `kept_heat.rs`, `earlier_heat.rs` | heat that outlives the process: stored and read back; drawn into the map |
//! | `key_report.rs` | one logical partition |
//! | `reports.rs`, `partitions.rs`, `partition_descriptions.rs`, `partition_loads.rs`, `diagnosis.rs` | physical partitions as an operator sees them |
//! | `verify.rs` | checks everything stored against itself |
//!
//! [`Upkeep`] is the API. No request calls it while it is served: the tasks look at the catalog now and
//! again, and whenever it changes. They hold the account weakly, so that dropping the account ends them.

mod balance;
mod compaction;
mod diagnosis;
mod earlier_heat;
mod heat_map;
mod index_build;
mod kept_heat;
mod key_report;
mod log_holds;
mod partition_descriptions;
mod partition_loads;
mod partitions;
mod pulse;
mod purge;
mod relocation;
mod relocation_run;
mod reports;
mod verify;

use std::sync::{Arc, Weak};

use shardlake_router::Serving;
use tokio::sync::Mutex;

pub use heat_map::{
    HEAT_MAP_BEFORE, HEAT_ROWS_MAX, HeatMap, HeatMapRequest, HeatMeasure, RowSpan, ThrottledRows, periods_of,
};
pub use key_report::{KeyHeat, KeyReport};
use partition_loads::RelocationCounts;
pub use partition_loads::{ContainerLoad, PartitionLoad, RelocationLoad};
pub use pulse::{AccountPulse, ContainerPulse, PulseSpan};
pub use relocation::{RelocationHooks, RelocationTicket, SplitAt};
pub use reports::{ContainerReport, LargeKey, RangeReport};
pub use verify::{VerifyReport, verify, verify_shards};

/// When expired items are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Purging {
    #[default]
    InBackground,
    /// By [`Upkeep::purge_expired`] alone, for tests.
    WhenAsked,
}

/// The work in the background of one account, and the orders that an operator may give. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Upkeep(Arc<UpkeepState>);

#[derive(Debug)]
struct UpkeepState {
    router: Serving,
    hooks: RelocationHooks,
    /// Held by the task that fills a generation of an index.
    index_builds: Mutex<()>,
    relocations: RelocationCounts,
}

impl Upkeep {
    /// Continues interrupted work, and begins the background maintenance of everything that is served.
    pub fn start(router: Serving, hooks: RelocationHooks, purging: Purging) -> Upkeep {
        let upkeep = Upkeep(Arc::new(UpkeepState {
            router,
            hooks,
            index_builds: Mutex::new(()),
            relocations: RelocationCounts::default(),
        }));
        for container in upkeep.0.router.catalog().load().containers() {
            if container.record.relocation.is_some() {
                upkeep.relocate_in_background(container);
            }
        }
        upkeep.router().drop_strays_in_background();
        index_build::start(&upkeep);
        balance::start(&upkeep);
        compaction::start(&upkeep);
        log_holds::start(&upkeep);
        if purging == Purging::InBackground {
            purge::start(&upkeep);
        }
        upkeep
    }

    pub fn router(&self) -> &Serving {
        &self.0.router
    }
}

/// Weak reference to the account that a task keeps between two steps.
struct Held(Weak<UpkeepState>);

impl Held {
    fn of(upkeep: &Upkeep) -> Held {
        Held(Arc::downgrade(&upkeep.0))
    }

    /// `None` once the account is closed, or dropped.
    fn upkeep(&self) -> Option<Upkeep> {
        self.0.upgrade().map(Upkeep).filter(|upkeep| !upkeep.router().is_closing())
    }
}
