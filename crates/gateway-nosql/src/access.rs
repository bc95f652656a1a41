//! Authorization: the only place that decides it, for every operation and every kind of caller.
//!
//! | caller | may |
//! |---|---|
//! | read-write key | everything |
//! | read-only key | read and query everything but permissions, which carry tokens; a write or a batch is 401 |
//! | token for a container | read the container, its ranges, their addresses and scripts, plan queries; read items and feeds and query them; with mode `All` also write items and run procedures |
//! | the same, limited to a partition key | the same, where the request names that key or, of a hierarchical one, a longer one |
//! | token for an item | read the container, its ranges and their addresses; that item; with mode `All` also replace, patch and delete it |
//! | token for a script | read the container, its ranges and their addresses; that script; with mode `All` also run it, if it is a procedure |
//! | any token | read the account |
//!
//! Tokens are denied every operation that [`need`] does not list for them. A token is for the one container that its permission
//! named when it was made, also where another container has that name now: handlers take their container from
//! [`Call::container`](crate::call::Call), which checks once more, so that no container takes another's place between check and use.
//!
//! [`Scope`] checks bodies, where they are parsed: the operations of a bulk request name their own keys, and a replaced item its
//! own id.

use shardlake_account::{Account, ContainerHandle, GrantedChild, KeyedOperation, ResourceLink};
use shardlake_document::partition_key_text;
use shardlake_model::{Error, ErrorKind, PermissionMode, Result, ScriptKind};

use shardlake_signature::Access;

use crate::auth::{Caller, Grant};
use crate::call::Call;
use crate::connection_mode::ConnectionMode;
use crate::headers::{RequestHeaders, flag};
use crate::request_key::key_of_text;
use crate::router::{FeedOperation, Operation, Path, ResourceOperation};

/// The rights that an operation requires of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Any key, any token.
    Anyone,
    /// An account key.
    Key(Effect),
    /// A read-write key, even to read.
    ReadWriteKey,
    /// A key, or a token that reaches this part of the container in the path.
    Within(Part, Effect),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Read,
    Write,
}

/// A part of a container, by the resource that a token must be for to reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Its definition and ranges, which clients need for every operation: the container, or anything in it.
    Frame,
    /// The container; no partition key is required, since no item is returned or touched.
    Shared,
    /// The container, without limit to a partition key.
    Whole,
    /// The container, in the partition key that the request names.
    Keyed,
    /// The container, in the partition keys that the body names: see [`Scope::check_bulk`].
    KeyedByBody,
    /// The item in the path, or the container in the partition key that the request names.
    Item,
    /// The script in the path, or the container.
    Script(ScriptKind),
    /// The procedure in the path, or the container; in the partition key that the request names.
    Procedure,
}

/// The rights required by every operation; a new operation has no default.
pub(crate) fn need(operation: Operation) -> Need {
    use Effect::{Read, Write};
    match operation {
        Operation::ReadAccount => Need::Anyone,
        Operation::Databases(feed) | Operation::Containers(feed) | Operation::Users(feed) => {
            Need::Key(feed.effect())
        }
        Operation::ReadDatabase
        | Operation::HeadDatabases
        | Operation::ListMasterAddresses
        | Operation::ListOffers
        | Operation::QueryOffers
        | Operation::ReadOffer => Need::Key(Read),
        Operation::DeleteDatabase
        | Operation::ReplaceContainer
        | Operation::DeleteContainer
        | Operation::ReplaceOffer => Need::Key(Write),
        Operation::User(resource) => Need::Key(resource.effect()),
        Operation::Permissions(FeedOperation::List | FeedOperation::Query)
        | Operation::Permission(ResourceOperation::Read) => Need::ReadWriteKey,
        Operation::Permissions(_) | Operation::Permission(_) => Need::Key(Write),
        // Nothing is done; holders of keys get the reason.
        Operation::Unsupported(_) => Need::Key(Read),
        Operation::ReadContainer
        | Operation::HeadContainer
        | Operation::ListRanges
        | Operation::ListAddresses => Need::Within(Part::Frame, Read),
        Operation::PlanQuery => Need::Within(Part::Shared, Read),
        Operation::ListConflicts | Operation::ReadConflict => Need::Within(Part::Whole, Read),
        Operation::DeleteConflict => Need::Within(Part::Whole, Write),
        Operation::ReadFeed | Operation::ReadChangeFeed | Operation::QueryItems => {
            Need::Within(Part::Keyed, Read)
        }
        Operation::CreateItem | Operation::UpsertItem | Operation::Batch | Operation::DeletePartitionKey => {
            Need::Within(Part::Keyed, Write)
        }
        Operation::Scripts(_, FeedOperation::List | FeedOperation::Query) => Need::Within(Part::Shared, Read),
        Operation::Scripts(_, FeedOperation::Create | FeedOperation::Upsert) => Need::Key(Write),
        Operation::Script(kind, ResourceOperation::Read) => Need::Within(Part::Script(kind), Read),
        Operation::Script(_, ResourceOperation::Replace | ResourceOperation::Delete) => Need::Key(Write),
        Operation::ExecuteProcedure => Need::Within(Part::Procedure, Write),
        Operation::Bulk => Need::Within(Part::KeyedByBody, Write),
        Operation::ReadItem => Need::Within(Part::Item, Read),
        Operation::ReplaceItem | Operation::PatchItem | Operation::DeleteItem => {
            Need::Within(Part::Item, Write)
        }
    }
}

impl FeedOperation {
    fn effect(self) -> Effect {
        match self {
            FeedOperation::List | FeedOperation::Query => Effect::Read,
            FeedOperation::Create | FeedOperation::Upsert => Effect::Write,
        }
    }
}

impl ResourceOperation {
    fn effect(self) -> Effect {
        match self {
            ResourceOperation::Read => Effect::Read,
            ResourceOperation::Replace | ResourceOperation::Delete => Effect::Write,
        }
    }
}

/// The parts of a request on which authorization depends.
pub(crate) struct Asked<'r> {
    pub operation: Operation,
    pub path: &'r Path<'r>,
    pub headers: &'r RequestHeaders<'r>,
}

/// Whether the caller may; asked before the body is read.
pub(crate) fn allow(caller: &Caller, asked: &Asked<'_>, account: &Account) -> Result<()> {
    match (caller, need(asked.operation)) {
        (_, Need::Anyone) | (Caller::Key(Access::Full), _) => Ok(()),
        (Caller::Key(Access::ReadOnly), Need::Key(Effect::Read) | Need::Within(_, Effect::Read)) => Ok(()),
        (Caller::Key(Access::ReadOnly), Need::ReadWriteKey) => Err(forbidden(
            "the request is signed with a read-only key, which does not give access to permissions: sign with a read-write key",
        )),
        (Caller::Key(Access::ReadOnly), Need::Key(Effect::Write) | Need::Within(_, Effect::Write)) => {
            Err(read_only_key())
        }
        (Caller::Token(_), Need::Key(_) | Need::ReadWriteKey) => {
            Err(forbidden("a resource token does not allow this operation: it needs an account key"))
        }
        (Caller::Token(grant), Need::Within(part, effect)) => {
            Scope::of(grant)?.allow(asked, account, part, effect)
        }
    }
}

/// Scope of a resource token: the resources that it reaches.
pub(crate) struct Scope<'g> {
    grant: &'g Grant,
    link: ResourceLink<'g>,
}

impl<'g> Scope<'g> {
    pub fn of(grant: &'g Grant) -> Result<Scope<'g>> {
        let link = ResourceLink::parse(&grant.permission.definition.resource)?;
        Ok(Scope { grant, link })
    }

    fn allow(&self, asked: &Asked<'_>, account: &Account, part: Part, effect: Effect) -> Result<()> {
        // The error must not reveal to a token for another container whether this one exists.
        let container = account.router().container(asked.path.database(), asked.path.container());
        let container = container.map_err(|_| outside("another container, or one created again"))?;
        self.check_container(&container)?;
        if effect == Effect::Write && self.grant.permission.definition.mode != PermissionMode::All {
            return Err(forbidden(
                "the resource token's permission has the mode 'Read', which does not allow this",
            ));
        }
        match part {
            Part::Frame => self.check_measures(asked.headers),
            Part::Item if self.is_for_part() => self.check_item(asked, &container),
            Part::Script(kind) if self.is_for_part() => self.check_script(kind, asked, &container),
            Part::Procedure => {
                if self.is_for_part() {
                    self.check_script(ScriptKind::Procedure, asked, &container)?;
                }
                self.check_key(&container, asked.headers.partition_key)
            }
            _ if self.is_for_part() => Err(outside("more than the resource that it is for")),
            Part::Shared | Part::KeyedByBody | Part::Script(_) => Ok(()),
            Part::Whole => self.check_unlimited(),
            Part::Keyed | Part::Item => self.check_key(&container, asked.headers.partition_key),
        }
    }

    /// Whether it is the container that the token was made for, and not one of the same name.
    pub fn check_container(&self, container: &ContainerHandle) -> Result<()> {
        if self.grant.container == Some(container.container().rid) {
            return Ok(());
        }
        Err(outside("another container, or one created again"))
    }

    /// The item of the token, in the partition key that it is limited to if it is.
    fn check_item(&self, asked: &Asked<'_>, container: &ContainerHandle) -> Result<()> {
        if self.link.child != Some(GrantedChild::Item(asked.path.item()))
            || self.is_by_rid() != container.is_by_rid()
        {
            return Err(outside("another resource"));
        }
        if asked.headers.names_triggers() {
            return Err(outside("triggers, which reach other items"));
        }
        self.check_key(container, asked.headers.partition_key)
    }

    fn check_script(&self, kind: ScriptKind, asked: &Asked<'_>, container: &ContainerHandle) -> Result<()> {
        if self.link.child != Some(GrantedChild::Script(kind, asked.path.script()))
            || self.is_by_rid() != container.is_by_rid()
        {
            return Err(outside("another resource"));
        }
        Ok(())
    }

    /// A script's or an item's segment means an id in one case and a rid in the other.
    fn is_by_rid(&self) -> bool {
        self.grant.container.is_some_and(|rid| rid.to_string() == self.link.container)
    }

    /// The key of a request that must name one where the token is limited to one.
    fn check_key(&self, container: &ContainerHandle, key: Option<&str>) -> Result<()> {
        let Some(bound) = &self.grant.permission.definition.partition_key else { return Ok(()) };
        let Some(key) = key else {
            return Err(forbidden(format!(
                "the resource token is limited to the partition key {bound}: name it in header 'x-ms-documentdb-partitionkey'"
            )));
        };
        if container.key_is_within(&key_of_text(key)?, &key_of_text(bound)?)? {
            return Ok(());
        }
        Err(forbidden(format!(
            "the resource token is limited to the partition key {bound}, and the request names {key}"
        )))
    }

    fn check_unlimited(&self) -> Result<()> {
        if self.grant.permission.definition.partition_key.is_some() {
            return Err(outside("more than the partition key that it is limited to"));
        }
        Ok(())
    }

    /// Only callers who may read all of a container get its size.
    fn check_measures(&self, headers: &RequestHeaders<'_>) -> Result<()> {
        let statistics = flag("x-ms-documentdb-populatepartitionstatistics", headers.populate_statistics)?;
        let quota = flag("x-ms-documentdb-populatequotainfo", headers.populate_quota)?;
        if !statistics && !quota {
            return Ok(());
        }
        if self.is_for_part() {
            return Err(outside("the measures of the whole container"));
        }
        self.check_unlimited()
    }

    /// The operations of a bulk request.
    pub fn check_bulk(
        &self,
        container: &ContainerHandle,
        operations: &[Result<KeyedOperation>],
    ) -> Result<()> {
        operations.iter().flatten().try_for_each(|operation| {
            let key = operation.key.as_ref().map(partition_key_text);
            self.check_key(container, key.as_deref())
        })
    }

    /// For all items of the container.
    pub fn is_for_all(&self) -> bool {
        !self.is_for_part() && self.grant.permission.definition.partition_key.is_none()
    }

    /// For an item or a script, and not for a container.
    pub fn is_for_part(&self) -> bool {
        self.link.child.is_some()
    }

    /// Whether the item keeps its id: replaced by another, it would be an item that the token is not for.
    pub fn check_replacement(&self, is_same_id: bool) -> Result<()> {
        if self.is_for_part() && !is_same_id {
            return Err(outside("an item of another id"));
        }
        Ok(())
    }
}

/// The service answers as it does to a wrong key.
fn read_only_key() -> Error {
    Error::new(
        ErrorKind::Unauthorized,
        "The input authorization token can't serve the request. The request is signed with a read-only key, which does not allow to write: sign with a read-write key",
    )
}

fn outside(what: &str) -> Error {
    forbidden(format!("the resource token does not reach {what}"))
}

fn forbidden(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Forbidden, message)
}

impl Call<'_> {
    /// The container in the path, checked to be the container that the caller was authorized for.
    pub fn container(&self) -> Result<ContainerHandle> {
        self.confirm(self.account.router().container(self.path.database(), self.path.container())?)
    }

    /// The container for operations on its items and scripts: a missing container is a missing owner. A frame must name an address of it.
    pub fn container_for_items(&self) -> Result<ContainerHandle> {
        let found = self.account.router().container_for_items(self.path.database(), self.path.container());
        self.confirm(match self.mode {
            ConnectionMode::Http => found?,
            ConnectionMode::Direct(routing) => routing.checked(found, self.headers.range_id.is_some())?,
        })
    }

    fn confirm(&self, container: ContainerHandle) -> Result<ContainerHandle> {
        self.scope()?.map_or(Ok(()), |scope| scope.check_container(&container))?;
        Ok(container)
    }

    /// Checks that the caller is still authorized, after a wait.
    pub fn check_caller_again(&self) -> Result<()> {
        match self.caller {
            Caller::Key(_) => Ok(()),
            Caller::Token(grant) => grant.check_still_good(self.account),
        }
    }

    /// The scope of the caller's token; `None` for the holders of keys.
    pub fn scope(&self) -> Result<Option<Scope<'_>>> {
        match self.caller {
            Caller::Key(_) => Ok(None),
            Caller::Token(grant) => Scope::of(grant).map(Some),
        }
    }
}

#[cfg(test)]
mod tests;
