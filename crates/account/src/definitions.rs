//! Databases, containers and their resources, delegated to `shardlake-definitions`.

use std::sync::Arc;

use shardlake_definitions::ScriptWrite;
use shardlake_model::{
    ContainerDefinition, ContainerRid, Database, DatabaseRid, Login, Offer, Permission, PermissionDefinition,
    PermissionRid, Preconditions, RequestContext, Result, Script, ScriptDefinition, ScriptKind, Throughput,
    User, UserRid,
};
use shardlake_router::ContainerHandle;

use crate::Account;

impl Account {
    pub async fn create_database(
        &self,
        ctx: &RequestContext,
        id: &str,
        throughput: Option<Throughput>,
    ) -> Result<Arc<Database>> {
        self.0.resources.create_database(ctx, id, throughput).await
    }

    pub fn databases(&self) -> Vec<Arc<Database>> {
        self.0.resources.databases()
    }

    /// `segment` is a name or a rid.
    pub fn database(&self, segment: &str) -> Result<Arc<Database>> {
        self.0.resources.database(segment)
    }

    pub async fn delete_database(
        &self,
        ctx: &RequestContext,
        segment: &str,
        preconditions: &Preconditions,
    ) -> Result<()> {
        self.0.resources.delete_database(ctx, segment, preconditions).await
    }

    /// `definition` is as the client wrote it. Without a throughput the container shares the database's, or gets 400 RU/s.
    pub async fn create_container(
        &self,
        ctx: &RequestContext,
        database: &str,
        definition: ContainerDefinition,
        throughput: Option<Throughput>,
    ) -> Result<ContainerHandle> {
        self.0.resources.create_container(ctx, database, definition, throughput).await
    }

    pub fn containers(&self, database: &str) -> Result<Vec<ContainerHandle>> {
        self.0.resources.containers(database)
    }

    /// Segments are names or rids.
    pub fn container(&self, database: &str, container: &str) -> Result<ContainerHandle> {
        self.0.resources.container(database, container)
    }

    /// As [`Account::container`], for operations on items: their error for a missing container is a missing owner.
    pub fn container_for_items(&self, database: &str, container: &str) -> Result<ContainerHandle> {
        self.0.resources.container_for_items(database, container)
    }

    pub async fn replace_container(
        &self,
        ctx: &RequestContext,
        database: &str,
        container: &str,
        definition: ContainerDefinition,
        preconditions: &Preconditions,
    ) -> Result<ContainerHandle> {
        self.0.resources.replace_container(ctx, database, container, definition, preconditions).await
    }

    pub async fn delete_container(
        &self,
        ctx: &RequestContext,
        database: &str,
        container: &str,
        preconditions: &Preconditions,
    ) -> Result<()> {
        self.0.resources.delete_container(ctx, database, container, preconditions).await
    }

    pub fn offers(&self) -> Vec<Arc<Offer>> {
        self.0.resources.offers()
    }

    /// `rid` in any letter case: signatures carry it in lower case.
    pub fn offer(&self, rid: &str) -> Result<Arc<Offer>> {
        self.0.resources.offer(rid)
    }

    /// Also changes between manual and autoscale. Partitions are split in the background as the throughput requires.
    pub async fn replace_offer(
        &self,
        ctx: &RequestContext,
        rid: &str,
        throughput: Throughput,
        preconditions: &Preconditions,
    ) -> Result<Arc<Offer>> {
        self.0.resources.replace_offer(ctx, rid, throughput, preconditions).await
    }

    /// The least that a replace of this offer may set.
    pub fn minimum_throughput(&self, offer: &Offer, wanted: Throughput) -> u64 {
        self.0.resources.minimum_throughput(offer, wanted)
    }

    pub fn login_of_number(&self, number: u32) -> Option<Arc<Login>> {
        self.0.resources.login_of_number(number)
    }

    pub fn login(&self, database: &str, name: &str) -> Option<Arc<Login>> {
        self.0.resources.login(database, name)
    }

    /// By database and name.
    pub fn logins(&self) -> Vec<Arc<Login>> {
        self.0.resources.logins()
    }

    /// A conflict where there is one of this name.
    pub async fn create_login(&self, database: &str, name: &str, kept: String) -> Result<Arc<Login>> {
        self.0.resources.create_login(database, name, kept).await
    }

    /// Changes the front end's data of a login, by a function of the present data.
    pub async fn change_login(
        &self,
        database: &str,
        name: &str,
        change: impl FnOnce(&str) -> Result<String> + Send + 'static,
    ) -> Result<()> {
        self.0.resources.change_login(database, name, change).await
    }

    /// Removes the login of this name, or all of the database, and returns the number removed.
    pub async fn remove_logins(&self, database: &str, name: Option<&str>) -> Result<usize> {
        self.0.resources.remove_logins(database, name).await
    }

    pub async fn create_user(&self, ctx: &RequestContext, database: &str, id: &str) -> Result<Arc<User>> {
        self.0.resources.create_user(ctx, database, id).await
    }

    /// Replaces the user of this id, or creates it; returns whether it created one.
    pub async fn upsert_user(
        &self,
        ctx: &RequestContext,
        database: &str,
        id: &str,
        preconditions: &Preconditions,
    ) -> Result<(Arc<User>, bool)> {
        self.0.resources.upsert_user(ctx, database, id, preconditions).await
    }

    /// `segment` is a name or a rid, here as below.
    pub fn user(&self, database: &str, segment: &str) -> Result<Arc<User>> {
        self.0.resources.user(database, segment)
    }

    /// In the order of their creation; with the database's rid.
    pub fn users(&self, database: &str) -> Result<(DatabaseRid, Vec<Arc<User>>)> {
        self.0.resources.users(database)
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
        self.0.resources.replace_user(ctx, database, segment, id, preconditions).await
    }

    pub async fn delete_user(
        &self,
        ctx: &RequestContext,
        database: &str,
        segment: &str,
        preconditions: &Preconditions,
    ) -> Result<()> {
        self.0.resources.delete_user(ctx, database, segment, preconditions).await
    }

    pub async fn create_permission(
        &self,
        ctx: &RequestContext,
        database: &str,
        user: &str,
        definition: PermissionDefinition,
    ) -> Result<Arc<Permission>> {
        self.0.resources.create_permission(ctx, database, user, definition).await
    }

    /// Replaces the permission of this id, or creates it; returns whether it created one.
    pub async fn upsert_permission(
        &self,
        ctx: &RequestContext,
        database: &str,
        user: &str,
        definition: PermissionDefinition,
        preconditions: &Preconditions,
    ) -> Result<(Arc<Permission>, bool)> {
        self.0.resources.upsert_permission(ctx, database, user, definition, preconditions).await
    }

    /// The definition may also rename it.
    pub async fn replace_permission(
        &self,
        ctx: &RequestContext,
        path: (&str, &str, &str),
        definition: PermissionDefinition,
        preconditions: &Preconditions,
    ) -> Result<Arc<Permission>> {
        self.0.resources.replace_permission(ctx, path, definition, preconditions).await
    }

    pub async fn delete_permission(
        &self,
        ctx: &RequestContext,
        path: (&str, &str, &str),
        preconditions: &Preconditions,
    ) -> Result<()> {
        self.0.resources.delete_permission(ctx, path, preconditions).await
    }

    /// `segment` is a name or a rid.
    pub fn permission(&self, database: &str, user: &str, segment: &str) -> Result<Arc<Permission>> {
        self.0.resources.permission(database, user, segment)
    }

    /// In the order of their last change; with the user's rid.
    pub fn permissions(&self, database: &str, user: &str) -> Result<(UserRid, Vec<Arc<Permission>>)> {
        self.0.resources.permissions(database, user)
    }

    /// The present permission, whatever the names of the permission, its user and its database.
    pub fn permission_by_rid(&self, rid: PermissionRid) -> Option<Arc<Permission>> {
        self.0.resources.permission_by_rid(rid)
    }

    /// The container that a permission's link leads to now.
    pub fn granted_container(&self, permission: &Permission) -> Option<ContainerRid> {
        self.0.resources.granted_container(permission)
    }

    pub async fn create_script(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        definition: ScriptDefinition,
    ) -> Result<Arc<Script>> {
        self.0.resources.create_script(ctx, container, definition).await
    }

    /// `If-Match` counts only for an existing script, as for items.
    pub async fn upsert_script(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        definition: ScriptDefinition,
        preconditions: &Preconditions,
    ) -> Result<(Arc<Script>, ScriptWrite)> {
        self.0.resources.upsert_script(ctx, container, definition, preconditions).await
    }

    /// The definition may have another id, if no other script has it.
    pub async fn replace_script(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        segment: &str,
        definition: ScriptDefinition,
        preconditions: &Preconditions,
    ) -> Result<Arc<Script>> {
        self.0.resources.replace_script(ctx, container, segment, definition, preconditions).await
    }

    pub async fn delete_script(
        &self,
        container: &ContainerHandle,
        kind: ScriptKind,
        segment: &str,
        preconditions: &Preconditions,
    ) -> Result<()> {
        self.0.resources.delete_script(container, kind, segment, preconditions).await
    }
}
