//! Operations on users of a database.
//!
//! A user is a name that permissions are kept under; clients do not sign in as one. Users are
//! deleted with their database, together with their permissions, in the same batch. Renaming keeps
//! the rid, and so the tokens of the user's permissions.

use std::sync::Arc;

use shardlake_catalog::Definitions;
use shardlake_model::{
    DatabaseRid, Error, Preconditions, RequestContext, Result, User, UserRid, validate_resource_id,
};
use shardlake_stdx::Timestamp;

use crate::Resources;
use shardlake_router::{DatabaseEntry, LiveCatalog};
use shardlake_router::{check_preconditions, conflict, not_found, owner_not_found};

impl Resources {
    pub async fn create_user(&self, ctx: &RequestContext, database: &str, id: &str) -> Result<Arc<User>> {
        validate_resource_id(id, self.router().limits())?;
        let (resources, database, id, now) = (self.clone(), database.to_owned(), id.to_owned(), ctx.now);
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let owner = owner_of_users(live, &database)?;
            if owner.has_user(&id) {
                return Err(conflict("user", &id));
            }
            resources.add_user(draft, owner, id, now)
        };
        Ok(self.router().change(plan).await?.0)
    }

    /// Replaces the user of this id, or creates it; returns whether it created one.
    pub async fn upsert_user(
        &self,
        ctx: &RequestContext,
        database: &str,
        id: &str,
        preconditions: &Preconditions,
    ) -> Result<(Arc<User>, bool)> {
        validate_resource_id(id, self.router().limits())?;
        let (resources, database, id, now) = (self.clone(), database.to_owned(), id.to_owned(), ctx.now);
        let preconditions = preconditions.clone();
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let owner = owner_of_users(live, &database)?;
            let Some(old) = live.user(owner, &id).filter(|user| user.id == id) else {
                return Ok((resources.add_user(draft, owner, id, now)?, true));
            };
            check_preconditions(old.etag, &preconditions)?;
            Ok((draft.users.put(old.rid, resources.new_user(old.rid, id, now)), false))
        };
        Ok(self.router().change(plan).await?.0)
    }

    /// `segment` is a name or a rid, here as below.
    pub fn user(&self, database: &str, segment: &str) -> Result<Arc<User>> {
        let catalog = self.0.router.catalog().load();
        let owner = owner_of_users(&catalog, database)?;
        catalog.user(owner, segment).cloned().ok_or_else(|| not_found("user", segment))
    }

    /// In the order of their creation; with the database's rid.
    pub fn users(&self, database: &str) -> Result<(DatabaseRid, Vec<Arc<User>>)> {
        let catalog = self.0.router.catalog().load();
        let rid = owner_of_users(&catalog, database)?.database.rid;
        let mut users: Vec<_> = catalog.definitions.users_of(rid).cloned().collect();
        users.sort_by(|a, b| (a.timestamp, &a.id).cmp(&(b.timestamp, &b.id)));
        Ok((rid, users))
    }

    /// There is nothing in a user to change but its id.
    pub async fn replace_user(
        &self,
        ctx: &RequestContext,
        database: &str,
        segment: &str,
        id: &str,
        preconditions: &Preconditions,
    ) -> Result<Arc<User>> {
        validate_resource_id(id, self.router().limits())?;
        let (resources, database, id, now) = (self.clone(), database.to_owned(), id.to_owned(), ctx.now);
        let (segment, preconditions) = (segment.to_owned(), preconditions.clone());
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let owner = owner_of_users(live, &database)?;
            let old = live.user(owner, &segment).ok_or_else(|| not_found("user", &segment))?;
            check_preconditions(old.etag, &preconditions)?;
            if owner.user_of_name(&id).is_some_and(|taken| taken != old.rid) {
                return Err(conflict("user", &id));
            }
            Ok(draft.users.put(old.rid, resources.new_user(old.rid, id, now)))
        };
        Ok(self.router().change(plan).await?.0)
    }

    pub async fn delete_user(
        &self,
        _ctx: &RequestContext,
        database: &str,
        segment: &str,
        preconditions: &Preconditions,
    ) -> Result<()> {
        let (database, segment) = (database.to_owned(), segment.to_owned());
        let preconditions = preconditions.clone();
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let owner = owner_of_users(live, &database)?;
            let old = live.user(owner, &segment).ok_or_else(|| not_found("user", &segment))?;
            check_preconditions(old.etag, &preconditions)?;
            draft.remove_user(old.rid);
            Ok(())
        };
        self.router().change(plan).await?;
        Ok(())
    }

    fn add_user(
        &self,
        draft: &mut Definitions,
        owner: &DatabaseEntry,
        id: String,
        now: Timestamp,
    ) -> Result<Arc<User>> {
        let (database, max) = (owner.database.rid, self.router().limits().users_per_database_max);
        if draft.users_of(database).count() >= max {
            return Err(Error::bad_request(format!("a database holds at most {max} users")));
        }
        let rid = self.new_user_rid(draft, database);
        Ok(draft.users.put(rid, self.new_user(rid, id, now)))
    }

    fn new_user(&self, rid: UserRid, id: String, now: Timestamp) -> User {
        User { id, rid, etag: self.router().random().guid().0, timestamp: now.seconds() }
    }

    /// Random, as a database's, so that a token of a deleted user never fits a new one.
    fn new_user_rid(&self, draft: &Definitions, database: DatabaseRid) -> UserRid {
        loop {
            let rid = UserRid { database, number: self.router().random().below(1 << 31) as u32 };
            if rid.number != 0 && !draft.users.contains(&rid) {
                return rid;
            }
        }
    }
}

pub fn owner_of_users<'c>(catalog: &'c LiveCatalog, database: &str) -> Result<&'c DatabaseEntry> {
    catalog.database(database).ok_or_else(|| owner_not_found("database", database))
}
