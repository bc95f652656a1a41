//! Data of a front end that is kept with databases and containers, and changed together with definitions.

use shardlake_catalog::{ContainerRecord, Definitions};
use shardlake_model::{Bounds, Container, ContainerDefinition, Database, Narrowing, RequestContext, Result};
use shardlake_partition::retention_of;
use shardlake_router::{ContainerHandle, LiveCatalog, conflict, index_moved_to, not_found};

use crate::Resources;
use crate::secondary_indexes::{check_is_apart, check_is_no_index};

/// A container's new definition, with the front end's data.
#[derive(Debug, Clone)]
pub struct Redefined {
    pub definition: ContainerDefinition,
    pub kept: Option<String>,
    /// Narrowings of the unique keys, in their order.
    pub narrowings: Vec<Option<Narrowing>>,
    pub bounds: Option<Bounds>,
}

/// Data of a front end for a new container.
#[derive(Debug, Clone)]
pub struct Keeping {
    pub kept: String,
    pub bounds: Option<Bounds>,
    /// Narrowings of the unique keys, by their places.
    pub narrowings: Vec<Option<Narrowing>>,
}

impl Resources {
    /// Changes the data kept with a database, by a function of the present data.
    pub async fn keep_with_database(
        &self,
        id: &str,
        change: impl FnOnce(&Database) -> Result<Option<String>> + Send + 'static,
    ) -> Result<()> {
        let id = id.to_owned();
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let entry = live.database(&id).ok_or_else(|| not_found("database", &id))?;
            let kept = change(&entry.database)?;
            let rid = entry.database.rid;
            draft.databases.put(rid, Database { kept, ..Database::clone(&entry.database) });
            Ok(())
        };
        self.router().change(plan).await?;
        Ok(())
    }

    /// Changes a container's definition and the data kept with it, by a function of the present ones. Unlike
    /// a client's replace it may change unique keys; the caller is responsible for them.
    pub async fn redefine_container(
        &self,
        ctx: &RequestContext,
        database: &str,
        container: &str,
        change: impl Fn(&Container) -> Result<Redefined> + Send + 'static,
    ) -> Result<ContainerHandle> {
        let old = self.router().container(database, container)?.entry;
        let rid = old.record.container.rid;
        let retention = {
            let Redefined { definition, kept, narrowings, bounds } = change(&old.record.container)?;
            let definition = definition.normalise(self.router().limits())?;
            let container =
                Container { definition, kept, narrowings, bounds, ..Container::clone(&old.record.container) };
            retention_of(&container.definition, self.router().limits())
        };
        let (etag, now, limits, id) =
            (self.router().random().guid().0, ctx.now, self.router().limits().clone(), container.to_owned());
        let plan = move |_: &LiveCatalog, draft: &mut Definitions| {
            let old = draft.containers.get(&rid).ok_or_else(|| not_found("container", &id))?.clone();
            check_is_no_index(draft, &old.container)?;
            let Redefined { definition, kept, narrowings, bounds } = change(&old.container)?;
            let definition = definition.normalise(&limits)?;
            let timestamp = now.seconds();
            let container =
                Container { etag, timestamp, definition, kept, narrowings, bounds, ..old.container.clone() };
            let index = index_moved_to(&old.index, &container, &limits)?;
            draft.containers.put(rid, ContainerRecord { index, container, ..ContainerRecord::clone(&old) });
            Ok(())
        };
        let entry = self.router().redefine(rid, retention, plan).await?;
        Ok(ContainerHandle { entry, by_rid: false })
    }

    /// Gives a container another name in its database, and changes the data kept with it, by a function of
    /// the old data. If `replaces` is set, an existing container of the new name is deleted.
    pub async fn rename_container(
        &self,
        database: &str,
        from: &str,
        to: &str,
        (replaces, kept): (bool, impl FnOnce(&Container) -> Result<Option<String>> + Send + 'static),
    ) -> Result<()> {
        let (database, from, to) = (database.to_owned(), from.to_owned(), to.to_owned());
        let etag = self.router().random().guid().0;
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let owner = live.database(&database).ok_or_else(|| not_found("database", &database))?;
            let (entry, _) = owner.container(&from).ok_or_else(|| not_found("container", &from))?;
            check_is_apart(draft, &entry.record.container)?;
            if let Some((taken, _)) = owner.container(&to) {
                if !replaces {
                    return Err(conflict("container", &to));
                }
                check_is_apart(draft, &taken.record.container)?;
                draft.remove_container(taken.record.container.rid);
            }
            let rid = entry.record.container.rid;
            let mut record = ContainerRecord::clone(&entry.record);
            record.container.kept = kept(&record.container)?;
            record.container.definition.id = to;
            record.container.etag = etag;
            debug_assert_eq!(record.ranges, entry.record.ranges, "a renamed container keeps its items");
            draft.containers.put(rid, record);
            Ok(())
        };
        self.router().change(plan).await?;
        Ok(())
    }
}
