//! The state of a table, between its follower, which writes it, and reports.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardlake_catalog::PlaceRecord;
use shardlake_model::ContainerRid;
use shardlake_routing::KeyRange;
use tokio::sync::Notify;

use crate::report::{ErrorReport, OrderReport, PlaceReport, TableCounts, TableFigures, TableState};

/// All tables' states. An entry stays for as long as the server runs: an account has few tables.
#[derive(Debug, Default)]
pub(crate) struct Statuses {
    tables: Mutex<BTreeMap<ContainerRid, Arc<Status>>>,
    /// Notified when something was asked for.
    pub changed: Notify,
}

impl Statuses {
    pub fn of(&self, rid: ContainerRid) -> Arc<Status> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.entry(rid).or_default().clone()
    }

    #[cfg_attr(not(feature = "table"), allow(dead_code))] // Only a follower forgets.
    pub fn forget(&self, rid: ContainerRid) {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).remove(&rid);
    }

    pub fn wake(&self) {
        self.changed.notify_one();
    }
}

#[derive(Debug, Default)]
pub(crate) struct Status(Mutex<Live>);

impl Status {
    /// Held for a few instructions at a time.
    pub fn live(&self) -> MutexGuard<'_, Live> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Live {
    /// `None` until the follower has looked at the table.
    pub state: Option<TableState>,
    /// The generation that was asked for when the state was set.
    pub state_of: u32,
    pub location: Option<String>,
    /// Of the generation that is built, while there is one.
    pub places: Vec<Place>,
    /// Of the version that readers see; empty where there is none.
    pub served: Vec<Place>,
    pub figures: TableFigures,
    pub counts: TableCounts,
    pub orders: Orders,
    pub last_error: Option<ErrorReport>,
}

/// A part of the hash space, and how far the table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub span: KeyRange,
    /// Last LSN that is copied.
    pub after: u64,
    /// When that was read, in seconds since the Unix epoch.
    pub read_at: u64,
}

impl Place {
    pub fn record(&self) -> PlaceRecord {
        PlaceRecord::new(&self.span, self.after)
    }

    pub fn report(&self) -> PlaceReport {
        let (min_inclusive, max_exclusive) = self.span.to_hex();
        PlaceReport { min_inclusive, max_exclusive, lsn: self.after }
    }
}

/// Work that an operator asked for. Orders of one kind that wait are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Orders {
    last: u64,
    /// Number, and whether every file with a deletion vector is rewritten.
    compaction: Option<(u64, bool)>,
    verification: Option<u64>,
    done: Vec<OrderReport>,
}

/// Finished orders that reports name.
const DONE_MAX: usize = 8;

#[cfg_attr(not(feature = "table"), allow(dead_code))] // Only a follower takes orders.
impl Orders {
    pub fn ask_compaction(&mut self, purge: bool) -> u64 {
        self.last += 1;
        let purge = purge || self.compaction.is_some_and(|(_, purge)| purge);
        self.compaction = Some((self.last, purge));
        self.last
    }

    pub fn ask_verification(&mut self) -> u64 {
        self.last += 1;
        self.verification = Some(self.last);
        self.last
    }

    pub fn take_compaction(&mut self) -> Option<(u64, bool)> {
        self.compaction.take()
    }

    pub fn take_verification(&mut self) -> Option<u64> {
        self.verification.take()
    }

    /// Takes back an order whose step failed: it is carried out with the next attempt.
    pub fn put_back_compaction(&mut self, (number, purge): (u64, bool)) {
        let (last, also) = self.compaction.unwrap_or((number, purge));
        self.compaction = Some((last.max(number), purge || also));
    }

    pub fn put_back_verification(&mut self, number: u64) {
        self.verification = Some(self.verification.map_or(number, |last| last.max(number)));
    }

    pub fn is_empty(&self) -> bool {
        self.compaction.is_none() && self.verification.is_none()
    }

    pub fn finish(&mut self, report: OrderReport) {
        self.done.push(report);
        let surplus = self.done.len().saturating_sub(DONE_MAX);
        self.done.drain(..surplus);
    }

    pub fn reports(&self) -> Vec<OrderReport> {
        self.done.clone()
    }
}
