//! Projections in memory, and storing how far they have come.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use shardlake_catalog::{Checkpoint, Definitions, HoldState, Holder, LogHold, PlaceRecord, ProjectionRecord};
use shardlake_model::{ContainerRid, ErrorKind, Result};

use crate::Projections;
use crate::rule::{Compiled, compile};
use crate::status::Status;

/// A projection in memory, through all its pauses.
#[derive(Debug)]
pub(crate) struct ProjectionEntry {
    pub record: Arc<ProjectionRecord>,
    pub rule: Arc<Compiled>,
    pub status: Arc<Status>,
}

impl ProjectionEntry {
    pub fn new(record: Arc<ProjectionRecord>, checkpoint: Checkpoint) -> Result<ProjectionEntry> {
        let rule = Arc::new(compile(&record.rule)?);
        Ok(ProjectionEntry { record, rule, status: Arc::new(Status::new(checkpoint)) })
    }

    /// This projection paused, or resumed.
    pub fn under(&self, record: Arc<ProjectionRecord>) -> ProjectionEntry {
        assert_eq!(record.rule, self.record.rule, "another rule has another number");
        ProjectionEntry { record, rule: self.rule.clone(), status: self.status.clone() }
    }

    pub fn id(&self) -> &str {
        &self.record.rule.id
    }
}

/// Running state of the catalog's projections, by id. It is brought in line before each use, and
/// whenever the catalog changes.
#[derive(Debug, Default)]
pub(crate) struct ProjectionEntries(Mutex<InForce>);

#[derive(Debug, Default)]
struct InForce {
    /// Version of the catalog that they are in line with.
    version: u64,
    entries: Entries,
}

impl ProjectionEntries {
    /// The projections of a catalog, and the new ones among them. A projection whose record has
    /// changed or ended is woken.
    pub fn in_line_with(&self, definitions: &Definitions) -> Result<(Entries, Vec<Arc<ProjectionEntry>>)> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let version = definitions.numbers.version;
        if version <= known.version && version > 0 {
            // Another caller has already applied this catalog, or a newer one.
            return Ok((known.entries.clone(), Vec::new()));
        }
        let mut old: BTreeMap<u32, Arc<ProjectionEntry>> =
            known.entries.values().map(|entry| (entry.record.number, entry.clone())).collect();
        let (mut entries, mut new) = (Entries::new(), Vec::new());
        for (number, record) in definitions.projections.iter() {
            let entry = match old.remove(number) {
                Some(entry) if Arc::ptr_eq(&entry.record, record) => entry,
                Some(entry) => {
                    entry.status.wake.notify_one();
                    Arc::new(entry.under(record.clone()))
                }
                None => {
                    let checkpoint = definitions.checkpoints.get(number);
                    let checkpoint = checkpoint.map(|stored| (**stored).clone()).unwrap_or_default();
                    let entry = Arc::new(ProjectionEntry::new(record.clone(), checkpoint)?);
                    new.push(entry.clone());
                    entry
                }
            };
            entries.insert(entry.id().to_owned(), entry);
        }
        old.values().for_each(|gone| gone.status.wake.notify_one());
        *known = InForce { version, entries: entries.clone() };
        Ok((entries, new))
    }
}

/// By id.
pub(crate) type Entries = BTreeMap<String, Arc<ProjectionEntry>>;

/// Stores the progress of a projection, if it still exists. Everything that it has read and written is durable before
/// the record is, on all shards involved: a crash can only lead to repeated checks.
pub(crate) async fn save(projections: &Projections, number: u32, checkpoint: &Checkpoint) -> Result<()> {
    settle(projections).await?;
    let checkpoint = checkpoint.clone();
    let plan = move |_: &_, draft: &mut Definitions| {
        if draft.projections.contains(&number) {
            draft.checkpoints.put(number, checkpoint);
        }
        Ok(())
    };
    projections.router().change(plan).await.map(drop)
}

/// The positions that the logs of the source and of the target are kept for. Both may be one container.
fn held_positions(
    record: &ProjectionRecord,
    checkpoint: &Checkpoint,
) -> Vec<(ContainerRid, Vec<PlaceRecord>)> {
    let (source, target) = (checkpoint.source.clone(), checkpoint.target.clone());
    let positions = match record.source == record.target {
        true => vec![(record.source, [source, target].concat())],
        false => vec![(record.source, source), (record.target, target)],
    };
    positions.into_iter().filter(|(_, position)| !position.is_empty()).collect()
}

/// The holds of a projection that begins.
pub(crate) fn first_holds(record: &ProjectionRecord, checkpoint: &Checkpoint, now_ms: u64) -> Vec<LogHold> {
    let holder = Holder::Projection(record.number);
    let positions = held_positions(record, checkpoint).into_iter();
    positions.map(|(container, position)| LogHold::new(container, holder, position, now_ms)).collect()
}

/// Keeps the logs for a projection from its stored progress on.
pub(crate) async fn hold(
    projections: &Projections,
    record: &ProjectionRecord,
    checkpoint: &Checkpoint,
) -> Result<()> {
    let (router, holder) = (projections.router(), Holder::Projection(record.number));
    for (container, position) in held_positions(record, checkpoint) {
        if router.move_hold(container, holder, position.clone()) == Some(HoldState::Held) {
            continue;
        }
        // It is of an earlier version of the program, or was too slow. It reads last versions, of which it has
        // missed none.
        match router.hold_log(container, holder, position).await {
            // The next step ends the projection.
            Err(error) if error.kind() == ErrorKind::OwnerNotFound => {}
            held => held?,
        }
    }
    Ok(())
}

/// Waits until everything applied so far is durable, on every shard and in every mode of durability. A position must
/// not outlive the commits that it counts, since their LSNs would be given out again.
pub(crate) async fn settle(projections: &Projections) -> Result<()> {
    for shard in projections.0.router.stores().iter() {
        shard.wait_durable(shard.applied()).await.map_err(shardlake_partition::storage_error)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use shardlake_model::DatabaseRid;

    fn record(source: u32, target: u32) -> ProjectionRecord {
        let rid = |number| ContainerRid { database: DatabaseRid(1), number };
        let rule = json!({
            "id": "r",
            "source": { "database": "d", "container": "s" },
            "target": { "database": "d", "container": "t" },
            "match": [], "set": [],
        });
        let rule = serde_json::from_value(rule).expect("well-formed");
        let (source, target) = (rid(source), rid(target));
        ProjectionRecord { number: 4, rule, source, target, is_paused: false, created: 0 }
    }

    #[test]
    fn projection_holds_both_logs_that_it_reads() {
        let place = |after| PlaceRecord { min: "".into(), max: "FF".into(), after };
        let checkpoint =
            |target: Vec<PlaceRecord>| Checkpoint { source: vec![place(7)], target, ..Checkpoint::default() };
        let holds = first_holds(&record(1, 2), &checkpoint(vec![place(9)]), 5);
        let found: Vec<_> = holds.iter().map(|hold| (hold.container.number, hold.position.clone())).collect();
        assert_eq!(found, [(1, vec![place(7)]), (2, vec![place(9)])]);
        assert!(holds.iter().all(|hold| (hold.holder, hold.moved_ms) == (Holder::Projection(4), 5)));
        let one = first_holds(&record(1, 1), &checkpoint(vec![place(9)]), 5);
        assert_eq!((one.len(), one[0].position.len()), (1, 2), "one container, one hold");
        assert_eq!(first_holds(&record(1, 2), &checkpoint(Vec::new()), 5).len(), 1, "no target is watched");
    }
}
