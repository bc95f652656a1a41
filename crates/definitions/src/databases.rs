//! Operations on databases.

use std::sync::Arc;

use shardlake_catalog::Definitions;
use shardlake_model::{
    Database, DatabaseRid, Preconditions, RequestContext, Result, Throughput, validate_resource_id,
};

use crate::Resources;
use shardlake_router::LiveCatalog;
use shardlake_router::{check_preconditions, conflict, not_found};

impl Resources {
    pub async fn create_database(
        &self,
        ctx: &RequestContext,
        id: &str,
        throughput: Option<Throughput>,
    ) -> Result<Arc<Database>> {
        validate_resource_id(id, self.router().limits())?;
        if let Some(throughput) = throughput {
            self.router().check_has_throughput()?;
            throughput
                .validate(self.router().limits(), throughput.minimum_for_new(self.router().limits()))?;
        }
        let (resources, id, now) = (self.clone(), id.to_owned(), ctx.now);
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            if live.databases.contains_key(&id) {
                return Err(conflict("database", &id));
            }
            resources.router().check_room(draft)?;
            let rid = resources.new_database_rid(draft);
            let etag = resources.router().random().guid().0;
            if let Some(throughput) = throughput {
                let resource = (format!("dbs/{rid}/"), rid.to_string());
                resources.add_offer(draft, resource, (throughput, true), now);
            }
            Ok(draft.databases.put(rid, Database { id, rid, etag, timestamp: now.seconds(), kept: None }))
        };
        let (database, _) = self.router().change(plan).await?;
        Ok(database)
    }

    /// Random, so that clients' cached rids of a dropped database or of another data directory never match a new one.
    fn new_database_rid(&self, draft: &Definitions) -> DatabaseRid {
        loop {
            let rid = DatabaseRid(self.router().random().below(1 << 32) as u32);
            if rid.0 != 0 && !draft.databases.contains(&rid) {
                return rid;
            }
        }
    }

    pub async fn delete_database(
        &self,
        _ctx: &RequestContext,
        segment: &str,
        preconditions: &Preconditions,
    ) -> Result<()> {
        let (segment, preconditions) = (segment.to_owned(), preconditions.clone());
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let entry = live.database(&segment).ok_or_else(|| not_found("database", &segment))?;
            check_preconditions(entry.database.etag, &preconditions)?;
            draft.remove_database(entry.database.rid);
            Ok(())
        };
        self.router().change(plan).await?;
        Ok(())
    }
}
