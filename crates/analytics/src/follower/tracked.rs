//! A container's table as all parts of its follower know it.

use std::sync::Arc;
use std::time::Duration;

use shardlake_analytical_table::log::Place;
use shardlake_analytical_table::rows::Reason;
use shardlake_analytical_table::table::Table;
use shardlake_catalog::{AnalyticalRecord, Holder, PlaceRecord};
use shardlake_model::ContainerRid;
use shardlake_router::Serving;

use super::places::range_of;
use super::step::StepError;
use crate::status::Status;

/// Paths of values without a column that reports name.
const PATHS_MAX: usize = 20;

pub struct Tracked {
    pub rid: ContainerRid,
    /// Database and container.
    pub names: (String, String),
    /// Below the root.
    pub folder: String,
    pub record: Arc<AnalyticalRecord>,
    pub status: Arc<Status>,
    /// When the parts of the upkeep ran last, in terms of the clock's elapsed time.
    pub retained: Option<Duration>,
    pub vacuumed: Option<Duration>,
    /// The compaction that an operator asked for and that is under way.
    pub order: Option<Order>,
}

/// A compaction that was asked for.
pub struct Order {
    pub number: u64,
    /// Whether every file with a deletion vector is rewritten.
    pub purge: bool,
    /// Files that were rewritten so far.
    pub files: usize,
}

impl Tracked {
    pub fn count_commit(&self, reason: &str) {
        *self.status.live().counts.commits.entry(reason.to_owned()).or_default() += 1;
    }

    /// The files are closed: an order that is under way begins again.
    pub fn put_back_order(&mut self) {
        if let Some(order) = self.order.take() {
            self.status.live().orders.put_back_compaction((order.number, order.purge));
        }
    }

    /// The hold of the generation that is asked for.
    pub fn holder(&self) -> Holder {
        Holder::Analytics(self.record.generation)
    }

    /// The position is durable: the log before it is not needed any more.
    pub fn move_hold(&self, router: &Serving, places: &[Place]) -> Result<(), StepError> {
        assert!(!places.is_empty(), "a followed table has a position");
        router.move_hold(self.rid, self.holder(), hold_position(places)?);
        Ok(())
    }

    /// Shows the values of the open round that no column holds.
    pub fn note_overflow(&self, table: &Table) {
        let Some(overflow) = table.overflow() else { return };
        let counts = &mut self.status.live().counts;
        for reason in Reason::ALL.into_iter().filter(|reason| overflow.count(*reason) > 0) {
            *counts.rest_values.entry(reason.name().to_owned()).or_default() += overflow.count(reason);
        }
        for path in overflow.paths() {
            if counts.rest_paths.len() < PATHS_MAX && !counts.rest_paths.contains(path) {
                counts.rest_paths.push(path.clone());
            }
        }
    }
}

/// The position of a table, as holds have it.
pub fn hold_position(places: &[Place]) -> Result<Vec<PlaceRecord>, StepError> {
    let record = |place: &Place| Ok(PlaceRecord::new(&range_of(&place.span)?, place.lsn));
    places.iter().map(record).collect()
}
