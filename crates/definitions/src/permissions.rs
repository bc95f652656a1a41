//! Permissions of a user: the operations on them, their links, and the access they grant now.
//!
//! A link names a container, an item or a script of the user's own database, by names or by rids.
//! The resource need not exist when the permission is written. The link is resolved whenever a
//! token is made ([`Resources::granted_container`]): a token is for one container, and a container
//! that is created again under the same name is another. Two permissions of a user differ in the
//! text of their links or in their partition keys.

use std::sync::Arc;

use shardlake_catalog::Definitions;
use shardlake_document::parse_partition_key;
use shardlake_model::{
    ContainerRid, DatabaseRid, Error, ErrorKind, Permission, PermissionDefinition, PermissionRid,
    Preconditions, RequestContext, Result, ScriptKind, User, UserRid, validate_resource_id,
};
use shardlake_stdx::Timestamp;

use crate::Resources;
use crate::users::owner_of_users;
use shardlake_router::ContainerEntry;
use shardlake_router::{DatabaseEntry, LiveCatalog};
use shardlake_router::{check_preconditions, conflict, not_found, owner_not_found};
use shardlake_router::{checked_key, key_misfit};

/// Components of the longest partition key.
const KEY_COMPONENTS_MAX: usize = 3;

/// The child of a container that a link names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantedChild<'l> {
    /// An id, or a rid in a container named by rid.
    Item(&'l str),
    Script(ScriptKind, &'l str),
}

/// A link of a permission, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceLink<'l> {
    pub database: &'l str,
    pub container: &'l str,
    /// `None` for the container as a whole.
    pub child: Option<GrantedChild<'l>>,
}

impl<'l> ResourceLink<'l> {
    pub fn parse(text: &'l str) -> Result<ResourceLink<'l>> {
        // An item's id is the rest of the link, whatever it contains.
        let segments: Vec<&str> = text.trim_matches('/').splitn(6, '/').collect();
        if segments.iter().any(|segment| segment.is_empty()) {
            return Err(no_resource(text));
        }
        let (database, container, child) = match segments.as_slice() {
            ["dbs", database, "colls", container] => (database, container, None),
            ["dbs", database, "colls", container, kind, id] => {
                let child = match *kind {
                    "docs" if is_of_attachment(id) => return Err(no_resource(text)),
                    "docs" => GrantedChild::Item(id),
                    _ if id.contains('/') => return Err(no_resource(text)),
                    "sprocs" => GrantedChild::Script(ScriptKind::Procedure, id),
                    "triggers" => GrantedChild::Script(ScriptKind::Trigger, id),
                    "udfs" => GrantedChild::Script(ScriptKind::Function, id),
                    _ => return Err(no_resource(text)),
                };
                (database, container, Some(child))
            }
            _ => return Err(no_resource(text)),
        };
        Ok(ResourceLink { database, container, child })
    }
}

/// Whether the part of a link after `docs/` leads to an attachment of an item, as far as a text can
/// show. An item of such an id is permitted by its resource id.
fn is_of_attachment(rest: &str) -> bool {
    rest.split('/').nth(1) == Some("attachments")
}

fn no_resource(text: &str) -> Error {
    Error::bad_request(format!(
        "a permission cannot be for '{text}': its resource is a container, an item, a stored procedure, a trigger or a user-defined function"
    ))
}

impl Resources {
    pub async fn create_permission(
        &self,
        ctx: &RequestContext,
        database: &str,
        user: &str,
        definition: PermissionDefinition,
    ) -> Result<Arc<Permission>> {
        let (resources, database, user, now) = (self.clone(), database.to_owned(), user.to_owned(), ctx.now);
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let (owner, user) = owner_of(live, &database, &user)?;
            if find(live, user.rid, &definition.id).is_some() {
                return Err(conflict("permission", &definition.id));
            }
            resources.check_definition(live, owner, user.rid, &definition, None)?;
            let rid = resources.new_permission_rid(draft, user.rid)?;
            Ok(draft.permissions.put(rid, resources.new_permission(rid, definition, now)))
        };
        Ok(self.router().change(plan).await?.0)
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
        let (resources, database, user, now) = (self.clone(), database.to_owned(), user.to_owned(), ctx.now);
        let preconditions = preconditions.clone();
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let (owner, user) = owner_of(live, &database, &user)?;
            let old = find(live, user.rid, &definition.id);
            if let Some(old) = old {
                check_preconditions(old.etag, &preconditions)?;
            }
            let own = old.map(|old| old.rid);
            resources.check_definition(live, owner, user.rid, &definition, own)?;
            let rid = own.map_or_else(|| resources.new_permission_rid(draft, user.rid), Ok)?;
            let permission = draft.permissions.put(rid, resources.new_permission(rid, definition, now));
            Ok((permission, own.is_none()))
        };
        Ok(self.router().change(plan).await?.0)
    }

    /// The definition may also rename it.
    pub async fn replace_permission(
        &self,
        ctx: &RequestContext,
        (database, user, segment): (&str, &str, &str),
        definition: PermissionDefinition,
        preconditions: &Preconditions,
    ) -> Result<Arc<Permission>> {
        let (resources, database, user, now) = (self.clone(), database.to_owned(), user.to_owned(), ctx.now);
        let (segment, preconditions) = (segment.to_owned(), preconditions.clone());
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let (owner, user) = owner_of(live, &database, &user)?;
            let old = find_by_segment(live, user.rid, &segment)?;
            check_preconditions(old.etag, &preconditions)?;
            let rid = old.rid;
            if find(live, user.rid, &definition.id).is_some_and(|taken| taken.rid != rid) {
                return Err(conflict("permission", &definition.id));
            }
            resources.check_definition(live, owner, user.rid, &definition, Some(rid))?;
            Ok(draft.permissions.put(rid, resources.new_permission(rid, definition, now)))
        };
        Ok(self.router().change(plan).await?.0)
    }

    pub async fn delete_permission(
        &self,
        _ctx: &RequestContext,
        (database, user, segment): (&str, &str, &str),
        preconditions: &Preconditions,
    ) -> Result<()> {
        let (database, user, segment) = (database.to_owned(), user.to_owned(), segment.to_owned());
        let preconditions = preconditions.clone();
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let (_, user) = owner_of(live, &database, &user)?;
            let old = find_by_segment(live, user.rid, &segment)?;
            check_preconditions(old.etag, &preconditions)?;
            draft.permissions.remove(&old.rid);
            Ok(())
        };
        self.router().change(plan).await?;
        Ok(())
    }

    /// `segment` is a name or a rid.
    pub fn permission(&self, database: &str, user: &str, segment: &str) -> Result<Arc<Permission>> {
        let catalog = self.0.router.catalog().load();
        let (_, user) = owner_of(&catalog, database, user)?;
        find_by_segment(&catalog, user.rid, segment).cloned()
    }

    /// In the order of their last change; with the user's rid.
    pub fn permissions(&self, database: &str, user: &str) -> Result<(UserRid, Vec<Arc<Permission>>)> {
        let catalog = self.0.router.catalog().load();
        let (_, user) = owner_of(&catalog, database, user)?;
        let mut permissions: Vec<_> = catalog.definitions.permissions_of(user.rid).cloned().collect();
        permissions.sort_by(|a, b| (a.timestamp, &a.definition.id).cmp(&(b.timestamp, &b.definition.id)));
        Ok((user.rid, permissions))
    }

    /// The present permission by its id, which stays when permission, user or database get other names.
    pub fn permission_by_rid(&self, rid: PermissionRid) -> Option<Arc<Permission>> {
        self.0.router.catalog().load().permission(rid).cloned()
    }

    /// The container that a permission's link leads to now.
    pub fn granted_container(&self, permission: &Permission) -> Option<ContainerRid> {
        let link = ResourceLink::parse(&permission.definition.resource).ok()?;
        let catalog = self.0.router.catalog().load();
        let (owner, entry) = resolve(&catalog, &link)?;
        (owner == permission.rid.user.database).then_some(entry.record.container.rid)
    }

    /// `own` is the permission's own rid where there is one already.
    fn check_definition(
        &self,
        catalog: &LiveCatalog,
        owner: &DatabaseEntry,
        user: UserRid,
        definition: &PermissionDefinition,
        own: Option<PermissionRid>,
    ) -> Result<()> {
        let limits = self.router().limits();
        validate_resource_id(&definition.id, limits)?;
        let link = ResourceLink::parse(&definition.resource)?;
        if let Some(GrantedChild::Item(id) | GrantedChild::Script(_, id)) = link.child
            && id.len() > limits.item_id_bytes_max
        {
            return Err(no_resource(&definition.resource));
        }
        let target = resolve(catalog, &link);
        match target {
            Some((database, _)) if database != owner.database.rid => {
                return Err(Error::bad_request(format!(
                    "a permission of a user of database '{}' cannot be for '{}', which belongs to another database",
                    owner.database.id, definition.resource
                )));
            }
            Some(_) | None => {}
        }
        if let Some(key) = &definition.partition_key {
            check_key(target.map(|(_, entry)| entry), key)?;
        }
        let is_same =
            |other: &&Arc<Permission>| Some(other.rid) != own && is_same_grant(definition, &other.definition);
        if let Some(other) = catalog.definitions.permissions_of(user).find(is_same) {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "the permission '{}' of this user is for the same resource and partition key already: replace it",
                    other.definition.id
                ),
            ));
        }
        Ok(())
    }

    fn new_permission_rid(&self, draft: &Definitions, user: UserRid) -> Result<PermissionRid> {
        let max = self.router().limits().permissions_per_user_max;
        if draft.permissions_of(user).count() >= max {
            return Err(Error::bad_request(format!("a user holds at most {max} permissions")));
        }
        loop {
            let rid = PermissionRid { user, number: self.router().random().below(1 << 60) };
            if rid.number != 0 && !draft.permissions.contains(&rid) {
                return Ok(rid);
            }
        }
    }

    fn new_permission(
        &self,
        rid: PermissionRid,
        definition: PermissionDefinition,
        now: Timestamp,
    ) -> Permission {
        Permission { rid, etag: self.router().random().guid().0, timestamp: now.seconds(), definition }
    }
}

fn owner_of<'c>(
    catalog: &'c LiveCatalog,
    database: &str,
    user: &str,
) -> Result<(&'c DatabaseEntry, &'c Arc<User>)> {
    let owner = owner_of_users(catalog, database)?;
    let user = catalog.user(owner, user).ok_or_else(|| owner_not_found("user", user))?;
    Ok((owner, user))
}

fn find<'c>(catalog: &'c LiveCatalog, user: UserRid, id: &str) -> Option<&'c Arc<Permission>> {
    catalog.definitions.permissions_of(user).find(|permission| permission.definition.id == id)
}

fn find_by_segment<'c>(
    catalog: &'c LiveCatalog,
    user: UserRid,
    segment: &str,
) -> Result<&'c Arc<Permission>> {
    let by_rid = || {
        let rid = PermissionRid::parse(segment).filter(|rid| rid.user == user)?;
        catalog.permission(rid)
    };
    find(catalog, user, segment).or_else(by_rid).ok_or_else(|| not_found("permission", segment))
}

fn resolve<'c>(
    catalog: &'c LiveCatalog,
    link: &ResourceLink<'_>,
) -> Option<(DatabaseRid, &'c Arc<ContainerEntry>)> {
    let owner = catalog.database(link.database)?;
    let (entry, _) = owner.container(link.container)?;
    Some((owner.database.rid, entry))
}

/// Whether two permissions have equal texts of their link and of their partition key.
fn is_same_grant(left: &PermissionDefinition, right: &PermissionDefinition) -> bool {
    let link = |definition: &PermissionDefinition| definition.resource.trim_matches('/').to_owned();
    let key = |definition: &PermissionDefinition| -> Option<serde_json::Value> {
        serde_json::from_str(definition.partition_key.as_deref()?).ok()
    };
    link(left) == link(right) && key(left) == key(right)
}

/// Checks for one to three scalars that the container's key can begin with.
fn check_key(entry: Option<&Arc<ContainerEntry>>, text: &str) -> Result<()> {
    let invalid = |why: &str| Error::bad_request(format!("the resourcePartitionKey {text} {why}"));
    let values: Vec<serde_json::Value> =
        serde_json::from_str(text).map_err(|_| invalid("is not an array of values"))?;
    if values.is_empty() {
        return Err(invalid("is empty: leave it out to permit every partition key"));
    }
    let is_scalar = |value: &serde_json::Value| match value {
        serde_json::Value::Array(_) => false,
        serde_json::Value::Object(members) => members.is_empty(),
        _ => true,
    };
    if values.len() > KEY_COMPONENTS_MAX || !values.iter().all(is_scalar) {
        return Err(invalid("is not the value of a partition key"));
    }
    let Some(entry) = entry else { return Ok(()) };
    let key = parse_partition_key(text).map_err(|error| key_misfit(&error))?;
    checked_key(entry, &key).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_name_containers_and_what_is_in_them() {
        let link = ResourceLink::parse("/dbs/d/colls/c/").expect("a container");
        assert_eq!(link, ResourceLink { database: "d", container: "c", child: None });
        for (kind, child) in [
            ("docs", GrantedChild::Item("x y")),
            ("sprocs", GrantedChild::Script(ScriptKind::Procedure, "x y")),
            ("triggers", GrantedChild::Script(ScriptKind::Trigger, "x y")),
            ("udfs", GrantedChild::Script(ScriptKind::Function, "x y")),
        ] {
            let text = format!("dbs/d/colls/c/{kind}/x y/");
            assert_eq!(ResourceLink::parse(&text).expect("a child").child, Some(child), "{kind}");
        }
    }

    #[test]
    fn the_id_of_an_item_is_the_rest_of_its_link() {
        for id in ["a/b", "a//b", "a?b#c", "a\\b", "docs/colls", "a%2Fb"] {
            let text = format!("dbs/d/colls/c/docs/{id}");
            assert_eq!(ResourceLink::parse(&text).expect(id).child, Some(GrantedChild::Item(id)));
        }
        ResourceLink::parse("dbs/d/colls/c/sprocs/a/b").expect_err("ids of scripts have no slash");
    }

    #[test]
    fn nothing_else_can_be_permitted() {
        for text in [
            "",
            "/",
            "dbs",
            "dbs/d",
            "dbs/d/colls",
            "dbs/d/users/u",
            "dbs/d/colls/c/docs",
            "dbs/d/colls/c/docs/",
            "dbs/d/colls/c//docs/x",
            "dbs//colls/c",
            "dbs/d/colls/c/conflicts/x",
            "dbs/d/colls/c/docs/x/attachments/a",
            "dbs/d/colls/c/pkranges/0",
            "offers/x",
            "DBS/d/colls/c",
        ] {
            assert_eq!(ResourceLink::parse(text).expect_err(text).kind(), ErrorKind::BadRequest, "{text}");
        }
    }

    #[test]
    fn keys_are_one_to_three_scalars() {
        for text in [r#"["a"]"#, "[1]", "[null]", "[{}]", r#"["a",true,2.5]"#] {
            assert!(check_key(None, text).is_ok(), "{text}");
        }
        for text in ["[]", "[[1]]", r#"[{"a":1}]"#, "[1,2,3,4]", "1", "{}", "["] {
            assert!(check_key(None, text).is_err(), "{text}");
        }
    }
}
