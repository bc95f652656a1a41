//! The operation of a request: determined once, by its path, method and headers together.
//!
//! One path serves many operations, which headers distinguish: a POST to a container's items creates, upserts, queries, plans or runs
//! a batch. Authorization (`access.rs`) and execution (`gateway.rs`) both use the [`Operation`] found here,
//! so that they cannot see a request differently.

use http::Method;
use shardlake_model::{Error, ErrorKind, Result, ScriptKind};

use crate::headers::{RequestHeaders, flag};
use crate::router::Route;
use crate::unsupported;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    ReadAccount,
    Databases(FeedOperation),
    ReadDatabase,
    DeleteDatabase,
    Containers(FeedOperation),
    ReadContainer,
    ReplaceContainer,
    DeleteContainer,
    ListRanges,
    ReadFeed,
    ReadChangeFeed,
    QueryItems,
    PlanQuery,
    CreateItem,
    UpsertItem,
    /// A transaction in one logical partition.
    Batch,
    /// Each operation for itself.
    Bulk,
    ReadItem,
    ReplaceItem,
    PatchItem,
    DeleteItem,
    DeletePartitionKey,
    Scripts(ScriptKind, FeedOperation),
    Script(ScriptKind, ResourceOperation),
    ExecuteProcedure,
    ListConflicts,
    ReadConflict,
    DeleteConflict,
    Users(FeedOperation),
    User(ResourceOperation),
    Permissions(FeedOperation),
    Permission(ResourceOperation),
    ListOffers,
    QueryOffers,
    ReadOffer,
    ReplaceOffer,
    ListAddresses,
    ListMasterAddresses,
    /// Barriers of clients in Direct mode: how far a partition is.
    HeadContainer,
    HeadDatabases,
    Unsupported(&'static str),
}

/// On a feed of resources that the catalog holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeedOperation {
    List,
    Query,
    Create,
    Upsert,
}

/// On one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResourceOperation {
    Read,
    Replace,
    Delete,
}

impl Operation {
    pub fn of(route: Route, method: &Method, headers: &RequestHeaders<'_>) -> Result<Operation> {
        let wrong = || wrong_method(method);
        let feed = || FeedOperation::of(method, headers);
        Ok(match (route, method.as_str()) {
            (_, "HEAD" | "OPTIONS" | "TRACE" | "CONNECT") => return Err(wrong()),
            (Route::Unsupported(feature), _) => Operation::Unsupported(feature),
            (Route::Account, "GET") => Operation::ReadAccount,
            (Route::Databases, _) => Operation::Databases(feed()?.without_upsert()),
            (Route::Database, "GET") => Operation::ReadDatabase,
            (Route::Database, "DELETE") => Operation::DeleteDatabase,
            (Route::Containers, _) => Operation::Containers(feed()?.without_upsert()),
            (Route::Container, "GET") => Operation::ReadContainer,
            (Route::Container, "PUT") => Operation::ReplaceContainer,
            (Route::Container, "DELETE") => Operation::DeleteContainer,
            (Route::PartitionKeyRanges, "GET") => Operation::ListRanges,
            (Route::Items, "GET") if headers.a_im.is_some() => Operation::ReadChangeFeed,
            (Route::Items, "GET") => Operation::ReadFeed,
            (Route::Items, "POST") => items(headers)?,
            (Route::Item, "GET") => Operation::ReadItem,
            (Route::Item, "PUT") => Operation::ReplaceItem,
            (Route::Item, "PATCH") => Operation::PatchItem,
            (Route::Item, "DELETE") => Operation::DeleteItem,
            (Route::PartitionKeyDelete, "POST") => Operation::DeletePartitionKey,
            (Route::Scripts(kind), _) => Operation::Scripts(kind, feed()?),
            (Route::Script(ScriptKind::Procedure), "POST") => Operation::ExecuteProcedure,
            (Route::Script(kind), _) => Operation::Script(kind, ResourceOperation::of(method)?),
            (Route::Conflicts, "GET") => Operation::ListConflicts,
            (Route::Conflicts, "POST") if headers.asks_query()? => Operation::ListConflicts,
            (Route::Conflict, "GET") => Operation::ReadConflict,
            (Route::Conflict, "DELETE") => Operation::DeleteConflict,
            (Route::Users, _) => Operation::Users(feed()?),
            (Route::User, _) => Operation::User(ResourceOperation::of(method)?),
            (Route::Permissions, _) => Operation::Permissions(feed()?),
            (Route::Permission, _) => Operation::Permission(ResourceOperation::of(method)?),
            (Route::Offers, "GET") => Operation::ListOffers,
            (Route::Offers, "POST") if headers.asks_query()? => Operation::QueryOffers,
            (Route::Offer, "GET") => Operation::ReadOffer,
            (Route::Offer, "PUT") => Operation::ReplaceOffer,
            (Route::Addresses, "GET") => Operation::ListAddresses,
            (Route::MasterAddresses, "GET") => Operation::ListMasterAddresses,
            _ => return Err(wrong()),
        })
    }

    /// The operation of a frame, among them those that are not defined over HTTP.
    pub fn of_frame(route: Route, method: &Method, headers: &RequestHeaders<'_>) -> Result<Operation> {
        match (route, method) {
            (Route::Container, &Method::HEAD) => Ok(Operation::HeadContainer),
            (Route::Databases, &Method::HEAD) => Ok(Operation::HeadDatabases),
            _ => Operation::of(route, method, headers),
        }
    }
}

impl Operation {
    /// Whether it is about resources of the master partition: all but those that are in a container.
    pub fn is_of_master(self) -> bool {
        matches!(
            self,
            Operation::Databases(_)
                | Operation::ReadDatabase
                | Operation::DeleteDatabase
                | Operation::HeadDatabases
                | Operation::Containers(_)
                | Operation::ReadContainer
                | Operation::ReplaceContainer
                | Operation::DeleteContainer
                | Operation::Users(_)
                | Operation::User(_)
                | Operation::Permissions(_)
                | Operation::Permission(_)
        )
    }

    /// Whether triggers that the request names are run; all other operations refuse them.
    pub fn runs_triggers(self) -> bool {
        matches!(
            self,
            Operation::CreateItem | Operation::UpsertItem | Operation::ReplaceItem | Operation::DeleteItem
        )
    }

    pub fn writes_one_item(self) -> bool {
        self.runs_triggers() || self == Operation::PatchItem
    }
}

/// The operation of a POST to a container's items.
fn items(headers: &RequestHeaders<'_>) -> Result<Operation> {
    Ok(if flag("x-ms-cosmos-is-query-plan-request", headers.is_query_plan)? {
        Operation::PlanQuery
    } else if headers.asks_query()? {
        // Answered as a plain query, it would give items that the change feed leaves out.
        if headers.a_im.is_some() {
            return Err(unsupported::query_of_changes());
        }
        Operation::QueryItems
    } else if flag("x-ms-cosmos-is-batch-request", headers.is_batch)? {
        match flag("x-ms-cosmos-batch-atomic", headers.batch_atomic)? {
            true => Operation::Batch,
            false => Operation::Bulk,
        }
    } else if flag("x-ms-documentdb-is-upsert", headers.is_upsert)? {
        Operation::UpsertItem
    } else {
        Operation::CreateItem
    })
}

impl FeedOperation {
    fn of(method: &Method, headers: &RequestHeaders<'_>) -> Result<FeedOperation> {
        Ok(match *method {
            Method::GET => FeedOperation::List,
            Method::POST if headers.asks_query()? => FeedOperation::Query,
            Method::POST if flag("x-ms-documentdb-is-upsert", headers.is_upsert)? => FeedOperation::Upsert,
            Method::POST => FeedOperation::Create,
            _ => return Err(wrong_method(method)),
        })
    }

    /// Databases and containers have no upsert: the header is ignored.
    fn without_upsert(self) -> FeedOperation {
        if self == FeedOperation::Upsert { FeedOperation::Create } else { self }
    }
}

impl ResourceOperation {
    fn of(method: &Method) -> Result<ResourceOperation> {
        Ok(match *method {
            Method::GET => ResourceOperation::Read,
            Method::PUT => ResourceOperation::Replace,
            Method::DELETE => ResourceOperation::Delete,
            _ => return Err(wrong_method(method)),
        })
    }
}

fn wrong_method(method: &Method) -> Error {
    Error::new(ErrorKind::MethodNotAllowed, format!("the method {method} is not defined on this resource"))
}
