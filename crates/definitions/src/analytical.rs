//! Analytical stores as policies and operators ask for them. Their tables follow the catalog.

use shardlake_catalog::{
    ANALYTICAL_TABLES_MAX, ANALYTICAL_TABLES_OPEN_MAX, AnalyticalRecord, AnalyticalSchema,
    AnalyticalSettings, Definitions, folder_apart, folder_of,
};
use shardlake_model::{Container, ContainerDefinition, ContainerRid, Error, ErrorKind, Result};
use shardlake_router::LiveCatalog;
use shardlake_stdx::{Random, Timestamp};

use crate::Resources;

impl Resources {
    /// Refuses a policy that nothing would follow, before anything is held up for it.
    pub(crate) fn check_analytical(
        &self,
        old: Option<&ContainerDefinition>,
        definition: &ContainerDefinition,
    ) -> Result<()> {
        let is_new = definition.is_analytical() && !old.is_some_and(ContainerDefinition::is_analytical);
        if is_new { self.0.analytical.check().map(|_| ()) } else { Ok(()) }
    }

    /// Brings a container's analytical store in line with its definition.
    pub(crate) fn follow_policy(
        &self,
        draft: &mut Definitions,
        container: &Container,
        now: Timestamp,
    ) -> Result<()> {
        let rid = container.rid;
        let old = draft.analytical.get(&rid).cloned();
        match (container.definition.is_analytical(), old) {
            (true, None) => {
                let default = self.0.analytical.check()?;
                check_room(draft)?;
                // Documents of the MongoDB API often have values of several types at one path.
                let schema = if container.is_collection { AnalyticalSchema::FullFidelity } else { default };
                let settings = AnalyticalSettings { schema, ..AnalyticalSettings::default() };
                let folder = free_folder(draft, container);
                draft
                    .analytical
                    .put(rid, AnalyticalRecord { folder, ..new_record(self.router().random(), settings) });
            }
            (true, Some(record)) if record.closed.is_some() => {
                self.0.analytical.check()?;
                check_room(draft)?;
                draft
                    .analytical
                    .put(rid, AnalyticalRecord { closed: None, ..AnalyticalRecord::clone(&record) });
            }
            (false, Some(record)) if record.closed.is_none() => {
                let closed = Some(now.seconds());
                draft.analytical.put(rid, AnalyticalRecord { closed, ..AnalyticalRecord::clone(&record) });
            }
            (true, Some(_)) | (false, _) => {}
        }
        let is_open = draft.analytical.get(&rid).is_some_and(|record| record.closed.is_none());
        assert_eq!(
            is_open,
            container.definition.is_analytical(),
            "a store is open while the policy asks for it"
        );
        Ok(())
    }

    /// Replaces the settings of a container's table. Another schema needs `rebuild`: files that are there have the old one's
    /// columns.
    pub async fn set_analytical(
        &self,
        rid: ContainerRid,
        settings: AnalyticalSettings,
        rebuild: bool,
    ) -> Result<()> {
        self.change_analytical(rid, move |live, record| {
            let container = live.container_of_rid(rid).ok_or_else(not_enabled)?;
            let key = &container.record.container.definition.partition_key;
            settings.validate(&key.paths)?;
            if settings.schema != record.settings.schema && !rebuild {
                return Err(Error::bad_request(
                    "another schema makes a new table: send \"rebuild\": true with it",
                ));
            }
            record.settings = settings.clone();
            record.generation += u32::from(rebuild);
            Ok(())
        })
        .await
    }

    /// Makes the table anew from the container's items; the old one stays readable until then.
    pub async fn rebuild_analytical(&self, rid: ContainerRid) -> Result<()> {
        self.change_analytical(rid, |_, record| {
            record.generation += 1;
            Ok(())
        })
        .await
    }

    /// Stops or resumes following; a restart does not resume it.
    pub async fn pause_analytical(&self, rid: ContainerRid, is_paused: bool) -> Result<()> {
        self.change_analytical(rid, move |_, record| {
            record.is_paused = is_paused;
            Ok(())
        })
        .await
    }

    /// Forgets a store that was closed long ago. A policy that is set later begins with a new table.
    pub async fn forget_analytical(&self, rid: ContainerRid, table: &str) -> Result<()> {
        let table = table.to_owned();
        let plan = move |_: &LiveCatalog, draft: &mut Definitions| {
            let record = draft.analytical.get(&rid);
            if record.is_some_and(|record| record.table == table && record.closed.is_some()) {
                draft.analytical.remove(&rid);
            }
            Ok(())
        };
        self.router().change(plan).await.map(|_| ())
    }

    /// Gives every table another history: the account was restored from a backup, and tables may have changes that it lacks.
    pub async fn renew_analytical_histories(&self) -> Result<()> {
        let random = self.router().random().clone();
        let plan = move |_: &LiveCatalog, draft: &mut Definitions| {
            let records: Vec<_> =
                draft.analytical.iter().map(|(rid, record)| (*rid, record.clone())).collect();
            for (rid, record) in records {
                let history = hex(&random);
                draft.analytical.put(rid, AnalyticalRecord { history, ..AnalyticalRecord::clone(&record) });
            }
            Ok(())
        };
        self.router().change(plan).await.map(|_| ())
    }

    async fn change_analytical(
        &self,
        rid: ContainerRid,
        edit: impl Fn(&LiveCatalog, &mut AnalyticalRecord) -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        self.0.analytical.check()?;
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let record = draft.analytical.get(&rid).filter(|record| record.closed.is_none());
            let mut record = AnalyticalRecord::clone(record.ok_or_else(not_enabled)?);
            edit(live, &mut record)?;
            draft.analytical.put(rid, record);
            Ok(())
        };
        self.router().change(plan).await.map(|_| ())
    }
}

/// The refusal of everything that needs a container's analytical store, where there is none.
pub fn not_enabled() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "AnalyticsNotEnabled: the container has no analytical store; set its analyticalStorageTtl to -1 or a number of seconds",
    )
}

fn check_room(draft: &Definitions) -> Result<()> {
    let open = draft.analytical.values().filter(|record| record.closed.is_none()).count();
    let refused = |most: usize, kind: &str| {
        Err(Error::new(
            ErrorKind::Forbidden,
            format!(
                "an account holds at most {most} {kind}: set analyticalStorageTtl of another container to 0, or delete it"
            ),
        ))
    };
    if open >= ANALYTICAL_TABLES_OPEN_MAX {
        return refused(ANALYTICAL_TABLES_OPEN_MAX, "analytical stores");
    }
    if draft.analytical.len() >= ANALYTICAL_TABLES_MAX {
        return refused(ANALYTICAL_TABLES_MAX, "analytical tables, closed ones included");
    }
    Ok(())
}

/// A folder for a new table, where that of its names would be an earlier table's on a file system that ignores case.
fn free_folder(draft: &Definitions, container: &Container) -> Option<String> {
    let name_of =
        |rid: &ContainerRid| draft.databases.get(&rid.database).map(|database| database.id.as_str());
    let own = folder_of(name_of(&container.rid)?, &container.definition.id);
    let is_taken = |wanted: &str| {
        draft.analytical.iter().any(|(rid, record)| {
            let names = name_of(rid).zip(draft.containers.get(rid));
            let folder =
                names.map(|(database, other)| record.folder(database, &other.container.definition.id));
            folder.is_some_and(|folder| folder.eq_ignore_ascii_case(wanted))
        })
    };
    if !is_taken(&own) {
        return None;
    }
    let apart = folder_apart(&own, container.rid);
    assert!(!is_taken(&apart), "a folder with the container's number is its own");
    Some(apart)
}

fn hex(random: &Random) -> String {
    random.guid().0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn new_record(random: &Random, settings: AnalyticalSettings) -> AnalyticalRecord {
    let hex = || hex(random);
    AnalyticalRecord {
        table: hex(),
        secret: hex() + &hex(),
        folder: None,
        history: hex(),
        settings,
        is_paused: false,
        closed: None,
        generation: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_store_has_names_and_a_secret_of_its_own() {
        let random = Random::seeded(3);
        let [one, other] = [(); 2].map(|()| new_record(&random, AnalyticalSettings::default()));
        assert_eq!(one.secret.len(), 64, "32 bytes in hexadecimal");
        assert!(one.table != other.table && one.secret != other.secret && one.history != other.history);
        assert_eq!((one.generation, one.closed, one.is_paused), (1, None, false));
    }

    #[test]
    fn stores_are_limited_open_and_closed() {
        let mut draft = Definitions::default();
        let random = Random::seeded(3);
        let rid = |number| ContainerRid { database: shardlake_model::DatabaseRid(1), number };
        for number in 0..ANALYTICAL_TABLES_OPEN_MAX as u32 {
            assert!(check_room(&draft).is_ok());
            draft.analytical.put(rid(number), new_record(&random, AnalyticalSettings::default()));
        }
        assert!(check_room(&draft).is_err(), "as many as may follow");
        for number in 0..ANALYTICAL_TABLES_MAX as u32 {
            let record = new_record(&random, AnalyticalSettings::default());
            draft.analytical.put(rid(number), AnalyticalRecord { closed: Some(1), ..record });
        }
        let error = check_room(&draft).expect_err("as many as there may be");
        assert!(error.message().contains("closed ones included"), "{error}");
        draft.analytical.remove(&rid(0));
        assert!(check_room(&draft).is_ok());
    }
}
