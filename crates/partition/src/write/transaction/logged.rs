//! Operations of a transaction for its entry in the log: versions that begin, versions that end and are
//! kept, and rows of copies that end with them.

use shardlake_routing::LogicalKey;

use super::{ItemName, Switches, Transaction, grows_beyond};
use crate::item::StoredItem;
use crate::keys::{self, HEADER};
use crate::log::entry::{ChangeKind, EndedRow, LogOperation};
use crate::read_set::{Plan, Stop};
use crate::sizes::{LogicalSize, limit};
use crate::watch::{ENDED_ROWS_MAX, EndedVersion};

impl Transaction<'_> {
    pub(super) fn log_version(
        &mut self,
        name: &ItemName<'_>,
        item: &StoredItem,
        old: Option<&StoredItem>,
        kind: ChangeKind,
    ) -> Plan<()> {
        match old.filter(|_| kind == ChangeKind::Create) {
            // Its time had run out: that is a change of its own.
            Some(expired) => {
                self.log(ChangeKind::Expire, name, Some(expired), None)?;
                self.log(kind, name, None, Some(item))
            }
            None => self.log(kind, name, old, Some(item)),
        }
    }

    /// Notes an operation for the log: `old` ends, `new` begins.
    pub(super) fn log(
        &mut self,
        kind: ChangeKind,
        name: &ItemName<'_>,
        old: Option<&StoredItem>,
        new: Option<&StoredItem>,
    ) -> Plan<()> {
        let key = &name.key[HEADER..];
        let ordinal = new.or(old).expect("an operation is about a version").envelope().ordinal;
        let previous_lsn = old.map_or(0, StoredItem::lsn);
        // A version that the transaction itself has written is never visible.
        if let Some(old) = old.filter(|old| self.keeps(kind, old.lsn())) {
            self.write(keys::version_key(self.input.origin.uid, key, old.lsn()), Some(old.record_bytes()));
        }
        // A transaction of several steps may replace an item by another, whose ordinal differs.
        let ended_ordinal = old.map(|old| old.envelope().ordinal).filter(|ended| *ended != ordinal);
        let ended = self.ended_rows(name, old, new)?;
        let operation = LogOperation::new(kind, ordinal, previous_lsn, key);
        self.outcome.operations.push(LogOperation { ended_ordinal, ended, ..operation });
        Ok(())
    }

    /// Rows of copies that end with a version. Where the transaction itself has written that, no copy
    /// has seen it: then the version from before the transaction counts. So all operations on an item
    /// record rows of one version, however many there are.
    fn ended_rows(
        &self,
        name: &ItemName<'_>,
        old: Option<&StoredItem>,
        new: Option<&StoredItem>,
    ) -> Plan<Vec<EndedRow>> {
        let (Some(watch), Some(old)) = (self.input.watch, old) else { return Ok(Vec::new()) };
        if !self.input.switches.is_offloaded && (old.is_heavy() || new.is_some_and(StoredItem::is_heavy)) {
            return Err(Stop::Heavy);
        }
        let before;
        let old = if old.lsn() != self.input.lsn {
            old
        } else {
            let Some(record) = self.stored(&name.key)? else { return Ok(Vec::new()) };
            before = StoredItem::decode(record, self.input.shape)?;
            &before
        };
        let version = EndedVersion { logical: name.logical, old: old.view(), new: new.map(StoredItem::view) };
        let ended = watch.ended(&version);
        assert!(ended.len() <= ENDED_ROWS_MAX, "a version has a bounded number of rows in copies");
        let is_short = |ended: &EndedRow| u16::try_from(ended.row.len()).is_ok();
        assert!(ended.iter().all(is_short), "the log has 16 bits for the length of an ended row");
        Ok(ended)
    }

    /// The commit is part of a copy's maintenance.
    pub fn set_origin(&mut self, copy: u32) {
        self.outcome.origin = copy;
    }

    /// Whether a version is kept that ends.
    fn keeps(&self, kind: ChangeKind, lsn: u64) -> bool {
        let Switches { keeps_versions, keeps_expired_above, .. } = self.input.switches;
        let is_held = kind == ChangeKind::Expire && keeps_expired_above.is_some_and(|above| lsn > above);
        (keeps_versions || is_held) && lsn != self.input.lsn
    }

    /// Refuses growth of a logical partition by so many bytes if it or the partition would exceed its
    /// limit.
    pub fn check_size_after(&mut self, logical: &LogicalKey, by: i64) -> Plan<()> {
        let now = self.size_now(logical)?;
        let size_bytes = now.size_bytes.saturating_add_signed(by);
        let after = LogicalSize { size_bytes, ..now };
        let partition_bytes = self.state.counters.size_bytes.saturating_add_signed(by);
        let limits = &self.input.shape.limits;
        match grows_beyond(now, after, partition_bytes, limits) {
            true => Err(limit::refusal(after, limits).into()),
            false => Ok(()),
        }
    }
}
