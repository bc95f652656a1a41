//! Ended containers, kept for as long as change streams may ask for their end.
//!
//! A stream looks at the catalog now and then. Only this list shows it the containers that were created and
//! dropped between two looks. The list is bounded by age and by count; [`crate::Numbers`] record up to which
//! version it was truncated, so that a stream does not take a gap for an absence of ends.

use shardlake_model::ContainerRid;

use crate::{Definitions, EndedContainer, EndedForgotten};

/// As long as a collection of the MongoDB API keeps versions.
const KEPT_MS: u64 = 60 * 60 * 1000;
pub(crate) const ENDED_MAX: usize = 1000;

impl Definitions {
    /// Records the containers that this draft no longer has. `last_ms` returns the time of a
    /// container's last commit.
    pub fn note_ended(
        &mut self,
        before: &Definitions,
        ended_ms: impl FnOnce() -> u64,
        last_ms: impl Fn(ContainerRid) -> u64,
    ) {
        let is_gone = |rid: &ContainerRid| !self.containers.contains(rid);
        if self.containers.is_same(&before.containers)
            || !before.containers.iter().any(|(rid, _)| is_gone(rid))
        {
            return;
        }
        let (ended_ms, version) = (ended_ms(), before.numbers.version + 1);
        for (rid, record) in before.containers.iter() {
            let Some(database) = before.databases.get(&rid.database) else { continue };
            if self.containers.contains(rid) {
                continue;
            }
            let ended = EndedContainer {
                rid: *rid,
                database: database.id.clone(),
                name: record.container.definition.id.clone(),
                created_ms: record.session_version.max(0) as u64,
                last_ms: last_ms(*rid),
                ended_ms,
                version,
            };
            self.ended.put((version, *rid), ended);
        }
        self.forget_ended(ended_ms);
    }

    fn forget_ended(&mut self, now_ms: u64) {
        loop {
            let Some((key, first)) = self.ended.iter().next() else { return };
            let is_old = first.ended_ms.saturating_add(KEPT_MS) < now_ms;
            if !is_old && self.ended.len() <= ENDED_MAX {
                return;
            }
            let (key, forgotten) =
                (*key, EndedForgotten { version: first.version, ended_ms: first.ended_ms });
            self.numbers.ended_forgotten = forgotten;
            self.ended.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use shardlake_model::{Container, ContainerDefinition, Database, DatabaseRid, PartitionKeyDefinition};

    use super::*;
    use crate::ContainerRecord;

    const DATABASE: DatabaseRid = DatabaseRid(3);

    fn with(numbers: std::ops::Range<u32>) -> Definitions {
        let mut definitions = Definitions::default();
        let database = Database { id: "d".into(), rid: DATABASE, etag: [0; 16], timestamp: 0, kept: None };
        definitions.databases.put(DATABASE, database);
        for number in numbers {
            let rid = ContainerRid { database: DATABASE, number };
            let definition =
                ContainerDefinition::new(&format!("c{number}"), PartitionKeyDefinition::hash("/pk"));
            let container = Container {
                rid,
                etag: [0; 16],
                timestamp: 0,
                definition,
                kept: None,
                is_collection: false,
                narrowings: Vec::new(),
                bounds: None,
            };
            let record = ContainerRecord {
                container,
                ranges: Vec::new(),
                generation: 1,
                session_version: 7,
                index: Default::default(),
                relocation: None,
                former: Vec::new(),
            };
            definitions.containers.put(rid, record);
        }
        definitions
    }

    #[test]
    fn what_is_gone_is_listed_with_its_names() {
        let mut before = with(0..3);
        before.numbers.version = 4;
        let mut draft = before.clone();
        draft.note_ended(&before, || unreachable!("nothing ended"), |_| 0);
        draft.remove_container(ContainerRid { database: DATABASE, number: 1 });
        draft.note_ended(&before, || 50, |rid| u64::from(rid.number) * 10);
        let ended: Vec<_> = draft.ended.values().map(|ended| EndedContainer::clone(ended)).collect();
        let rid = ContainerRid { database: DATABASE, number: 1 };
        let (database, name) = ("d".to_owned(), "c1".to_owned());
        let wanted =
            EndedContainer { rid, database, name, created_ms: 7, last_ms: 10, ended_ms: 50, version: 5 };
        assert_eq!(ended, [wanted]);
        before = draft.clone();
        before.numbers.version = 5;
        draft.remove_database(DATABASE);
        draft.note_ended(&before, || 60, |_| 0);
        let versions: Vec<_> = draft.ended.values().map(|ended| (ended.rid.number, ended.version)).collect();
        assert_eq!(versions, [(1, 5), (0, 6), (2, 6)]);
        assert_eq!(draft.numbers.ended_forgotten, EndedForgotten::default());
    }

    #[test]
    fn the_list_is_bounded_by_age_and_count() {
        let before = with(0..ENDED_MAX as u32 + 5);
        let mut draft = before.clone();
        draft.remove_database(DATABASE);
        draft.note_ended(&before, || 100, |_| 0);
        assert_eq!(draft.ended.len(), ENDED_MAX);
        assert_eq!(draft.numbers.ended_forgotten, EndedForgotten { version: 1, ended_ms: 100 });
        let mut before = with(0..2);
        before.ended = draft.ended;
        before.numbers.version = 8;
        let mut draft = before.clone();
        draft.remove_container(ContainerRid { database: DATABASE, number: 0 });
        draft.note_ended(&before, || 101 + KEPT_MS, |_| 0);
        assert_eq!(draft.ended.len(), 1);
        assert_eq!(draft.numbers.ended_forgotten.version, 1);
    }
}
