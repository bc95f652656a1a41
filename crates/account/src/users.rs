//! Users of a database: the collection in the catalog, and the operations on it.
//!
//! A user is a name that permissions are kept under; nobody signs in as one. Users go with their database and take their
//! permissions with them, in the same batch. Renaming keeps the rid, and so the tokens of the user's permissions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use shardlake_model::{
    DatabaseRid, Error, ErrorKind, Limits, Permission, PermissionRid, Preconditions, RequestContext, Result,
    Rid, User, UserRid, validate_resource_id,
};

use crate::Account;
use crate::catalog::{Catalog, CatalogBatch, DatabaseEntry};
use crate::databases::{check_preconditions, conflict, not_found, owner_not_found};

/// The users of one database, found by rid and by name. Copied to be changed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Users {
    entries: BTreeMap<u32, Arc<UserEntry>>,
    numbers: HashMap<String, u32>,
}

#[derive(Debug, Clone)]
pub(crate) struct UserEntry {
    pub user: Arc<User>,
    /// By number.
    pub permissions: BTreeMap<u64, Arc<Permission>>,
}

impl Users {
    /// Finds by name, then by rid.
    pub fn find(&self, database: DatabaseRid, segment: &str) -> Option<&Arc<UserEntry>> {
        if let Some(number) = self.numbers.get(segment) {
            return self.entries.get(number);
        }
        match Rid::parse(segment)? {
            Rid::User(rid) if rid.database == database => self.entries.get(&rid.number),
            _ => None,
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<UserEntry>> {
        self.entries.values()
    }

    pub fn permission(&self, rid: PermissionRid) -> Option<&Arc<Permission>> {
        self.entries.get(&rid.user.number)?.permissions.get(&rid.number)
    }

    pub fn by_rid(&self, rid: UserRid) -> Option<&Arc<UserEntry>> {
        self.entries.get(&rid.number)
    }

    /// Adds or replaces.
    pub fn put(&mut self, entry: UserEntry) {
        let (number, id) = (entry.user.rid.number, entry.user.id.clone());
        if let Some(old) = self.entries.insert(number, Arc::new(entry)) {
            self.numbers.remove(&old.user.id);
        }
        self.numbers.insert(id, number);
    }

    fn remove(&mut self, entry: &UserEntry) {
        self.entries.remove(&entry.user.rid.number);
        self.numbers.remove(&entry.user.id);
    }
}

impl Catalog {
    /// What was read from the store.
    pub fn add_stored_users(&mut self, users: Vec<User>, permissions: Vec<Permission>) -> Result<()> {
        let corrupt = |what: String| Error::new(ErrorKind::Corrupt, what);
        let mut entries: HashMap<UserRid, UserEntry> = users
            .into_iter()
            .map(|user| (user.rid, UserEntry { user: Arc::new(user), permissions: BTreeMap::new() }))
            .collect();
        for permission in permissions {
            let rid = permission.rid;
            let owner = entries.get_mut(&rid.user);
            let owner = owner.ok_or_else(|| corrupt(format!("permission {rid} has no user")))?;
            owner.permissions.insert(rid.number, Arc::new(permission));
        }
        let mut databases: HashMap<DatabaseRid, &mut DatabaseEntry> =
            self.databases.values_mut().map(|entry| (entry.database.rid, entry)).collect();
        for (rid, entry) in entries {
            let owner = databases.get_mut(&rid.database);
            let owner = owner.ok_or_else(|| corrupt(format!("user {rid} has no database")))?;
            Arc::make_mut(&mut owner.users).put(entry);
        }
        Ok(())
    }

    /// To change its users.
    pub fn owner_of_users(&mut self, database: &str) -> Result<&mut DatabaseEntry> {
        let id = self.database(database).map(|entry| entry.database.id.clone());
        id.and_then(|id| self.databases.get_mut(&id)).ok_or_else(|| owner_not_found("database", database))
    }
}

impl DatabaseEntry {
    pub fn user(&self, segment: &str) -> Option<&Arc<UserEntry>> {
        self.users.find(self.database.rid, segment)
    }
}

impl Account {
    pub async fn create_user(&self, ctx: &RequestContext, database: &str, id: &str) -> Result<Arc<User>> {
        validate_resource_id(id, self.limits())?;
        let _writer = self.0.catalog_writer.lock().await;
        let mut catalog = Catalog::clone(&self.0.catalog.load());
        let owner = catalog.owner_of_users(database)?;
        if owner.users.numbers.contains_key(id) {
            return Err(conflict("user", id));
        }
        self.add_user(catalog, database, id, ctx).await
    }

    /// Replaces the user of this id, or creates it; says whether it did.
    pub async fn upsert_user(
        &self,
        ctx: &RequestContext,
        database: &str,
        id: &str,
        preconditions: &Preconditions,
    ) -> Result<(Arc<User>, bool)> {
        validate_resource_id(id, self.limits())?;
        let _writer = self.0.catalog_writer.lock().await;
        let mut catalog = Catalog::clone(&self.0.catalog.load());
        let owner = catalog.owner_of_users(database)?;
        let Some(number) = owner.users.numbers.get(id) else {
            return Ok((self.add_user(catalog, database, id, ctx).await?, true));
        };
        let old = owner.users.entries.get(number).expect("every name leads to a user").clone();
        check_preconditions(old.user.etag, preconditions)?;
        Ok((self.put_user(catalog, database, &old, id, ctx).await?, false))
    }

    /// `segment` is a name or a rid, here as below.
    pub fn user(&self, database: &str, segment: &str) -> Result<Arc<User>> {
        let catalog = self.0.catalog.load();
        let owner = catalog.database(database).ok_or_else(|| owner_not_found("database", database))?;
        let entry = owner.user(segment).ok_or_else(|| not_found("user", segment))?;
        Ok(entry.user.clone())
    }

    /// In the order of their creation; with the database's rid.
    pub fn users(&self, database: &str) -> Result<(DatabaseRid, Vec<Arc<User>>)> {
        let catalog = self.0.catalog.load();
        let owner = catalog.database(database).ok_or_else(|| owner_not_found("database", database))?;
        let mut users: Vec<_> = owner.users.iter().map(|entry| entry.user.clone()).collect();
        users.sort_by(|a, b| (a.timestamp, &a.id).cmp(&(b.timestamp, &b.id)));
        Ok((owner.database.rid, users))
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
        validate_resource_id(id, self.limits())?;
        let _writer = self.0.catalog_writer.lock().await;
        let mut catalog = Catalog::clone(&self.0.catalog.load());
        let owner = catalog.owner_of_users(database)?;
        let old = owner.user(segment).ok_or_else(|| not_found("user", segment))?.clone();
        check_preconditions(old.user.etag, preconditions)?;
        if owner.users.numbers.get(id).is_some_and(|taken| *taken != old.user.rid.number) {
            return Err(conflict("user", id));
        }
        self.put_user(catalog, database, &old, id, ctx).await
    }

    pub async fn delete_user(
        &self,
        _ctx: &RequestContext,
        database: &str,
        segment: &str,
        preconditions: &Preconditions,
    ) -> Result<()> {
        let _writer = self.0.catalog_writer.lock().await;
        let mut catalog = Catalog::clone(&self.0.catalog.load());
        let owner = catalog.owner_of_users(database)?;
        let old = owner.user(segment).ok_or_else(|| not_found("user", segment))?.clone();
        check_preconditions(old.user.etag, preconditions)?;
        let mut batch = CatalogBatch::new();
        batch.delete_user(&old);
        Arc::make_mut(&mut owner.users).remove(&old);
        self.publish(catalog, batch).await
    }

    async fn add_user(
        &self,
        mut catalog: Catalog,
        database: &str,
        id: &str,
        ctx: &RequestContext,
    ) -> Result<Arc<User>> {
        let owner = catalog.owner_of_users(database)?;
        check_room(owner, self.limits())?;
        let rid = self.new_user_rid(owner);
        let user = Arc::new(self.new_user(rid, id, ctx));
        let mut batch = CatalogBatch::new();
        batch.put_user(&user);
        let entry = UserEntry { user: user.clone(), permissions: BTreeMap::new() };
        Arc::make_mut(&mut owner.users).put(entry);
        self.publish(catalog, batch).await?;
        Ok(user)
    }

    async fn put_user(
        &self,
        mut catalog: Catalog,
        database: &str,
        old: &UserEntry,
        id: &str,
        ctx: &RequestContext,
    ) -> Result<Arc<User>> {
        let user = Arc::new(self.new_user(old.user.rid, id, ctx));
        let mut batch = CatalogBatch::new();
        batch.put_user(&user);
        let entry = UserEntry { user: user.clone(), permissions: old.permissions.clone() };
        Arc::make_mut(&mut catalog.owner_of_users(database)?.users).put(entry);
        self.publish(catalog, batch).await?;
        Ok(user)
    }

    fn new_user(&self, rid: UserRid, id: &str, ctx: &RequestContext) -> User {
        User { id: id.to_owned(), rid, etag: self.random().guid().0, timestamp: ctx.now.seconds() }
    }

    /// Random, as a database's, so that a token of a deleted user never fits a new one.
    fn new_user_rid(&self, owner: &DatabaseEntry) -> UserRid {
        loop {
            let number = self.random().below(1 << 31) as u32;
            if number != 0 && !owner.users.entries.contains_key(&number) {
                return UserRid { database: owner.database.rid, number };
            }
        }
    }
}

fn check_room(owner: &DatabaseEntry, limits: &Limits) -> Result<()> {
    let max = limits.users_per_database_max;
    if owner.users.entries.len() >= max {
        return Err(Error::bad_request(format!("a database holds at most {max} users")));
    }
    Ok(())
}
