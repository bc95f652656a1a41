//! From the request line to the addressed resource, to the resource link that a client signs, and to the operation.
//!
//! Segments are split first and percent-decoded once afterwards, so that an encoded `/` stays part of an id. Leading and
//! trailing slashes do not matter. A segment may hold a name or a resource id; the account distinguishes them.

use std::borrow::Cow;

use http::Method;
use percent_encoding::percent_decode_str;
use shardlake_model::{DatabaseRid, Error, ErrorKind, Result, ScriptKind};

use shardlake_signature::Payload;

use crate::headers::{RequestHeaders, flag};
use crate::unsupported;

/// The longest path that anything has: an attachment of an item.
const SEGMENTS_MAX: usize = 8;

/// A path's decoded segments.
pub(crate) struct Path<'p> {
    /// Without leading and trailing slashes.
    raw: &'p str,
    segments: [Cow<'p, str>; SEGMENTS_MAX],
    /// Where each segment ends in `raw`.
    ends: [usize; SEGMENTS_MAX],
    count: usize,
    escaped: bool,
}

/// Where the .NET and Rust SDKs send transactions over several containers.
pub(crate) const DISTRIBUTED_TRANSACTIONS: &str = "distributed transactions";

/// The resource that a path addresses. The names in it are read with [`Path::database`], [`Path::container`] and [`Path::id`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    Account,
    Databases,
    Database,
    Containers,
    Container,
    PartitionKeyRanges,
    Items,
    Item,
    PartitionKeyDelete,
    Scripts(ScriptKind),
    Script(ScriptKind),
    Conflicts,
    Conflict,
    Users,
    User,
    Permissions,
    Permission,
    Offers,
    Offer,
    /// Addresses of the ranges of a container. From its signature on, such a request has the path of the items.
    Addresses,
    /// Addresses of the master partition, with the path of the databases.
    MasterAddresses,
    /// A real resource of the reference that this server does not have, by the name users know it.
    Unsupported(&'static str),
}

impl<'p> Path<'p> {
    pub fn parse(path: &'p str) -> Result<Path<'p>> {
        let raw = path.trim_matches('/');
        let mut parsed = Path {
            raw,
            segments: [const { Cow::Borrowed("") }; SEGMENTS_MAX],
            ends: [0; SEGMENTS_MAX],
            count: 0,
            escaped: raw.contains('%'),
        };
        if raw.is_empty() {
            return Ok(parsed);
        }
        let mut end = 0;
        for segment in raw.split('/') {
            if segment.is_empty() || parsed.count == SEGMENTS_MAX {
                return Err(no_such_route(raw));
            }
            end += segment.len();
            parsed.segments[parsed.count] =
                if parsed.escaped { decode(segment)? } else { Cow::Borrowed(segment) };
            parsed.ends[parsed.count] = end;
            parsed.count += 1;
            end += 1;
        }
        Ok(parsed)
    }

    pub fn route(&self) -> Result<Route> {
        let mut names = [""; SEGMENTS_MAX];
        assert!(self.count <= SEGMENTS_MAX, "a path has a bounded number of segments");
        for (name, segment) in names.iter_mut().zip(&self.segments) {
            *name = segment;
        }
        Ok(match &names[..self.count] {
            [] => Route::Account,
            ["dbs"] => Route::Databases,
            ["dbs", _] => Route::Database,
            ["dbs", _, "colls"] => Route::Containers,
            ["dbs", _, "colls", _] => Route::Container,
            ["dbs", _, "colls", _, "docs"] => Route::Items,
            ["dbs", _, "colls", _, "docs", _] => Route::Item,
            ["dbs", _, "colls", _, "pkranges"] => Route::PartitionKeyRanges,
            ["dbs", _, "colls", _, "operations", "partitionkeydelete"] => Route::PartitionKeyDelete,
            ["dbs", _, "colls", _, "docs", _, "attachments", ..] => Route::Unsupported("attachments"),
            ["dbs", _, "colls", _, "sprocs"] => Route::Scripts(ScriptKind::Procedure),
            ["dbs", _, "colls", _, "sprocs", _] => Route::Script(ScriptKind::Procedure),
            ["dbs", _, "colls", _, "triggers"] => Route::Scripts(ScriptKind::Trigger),
            ["dbs", _, "colls", _, "triggers", _] => Route::Script(ScriptKind::Trigger),
            ["dbs", _, "colls", _, "udfs"] => Route::Scripts(ScriptKind::Function),
            ["dbs", _, "colls", _, "udfs", _] => Route::Script(ScriptKind::Function),
            ["dbs", _, "colls", _, "conflicts"] => Route::Conflicts,
            ["dbs", _, "colls", _, "conflicts", _] => Route::Conflict,
            ["dbs", _, "colls", _, "operations", _] => Route::Unsupported("this container operation"),
            ["dbs", _, "users"] => Route::Users,
            ["dbs", _, "users", _] => Route::User,
            ["dbs", _, "users", _, "permissions"] => Route::Permissions,
            ["dbs", _, "users", _, "permissions", _] => Route::Permission,
            ["dbs", _, "clientencryptionkeys"] | ["dbs", _, "clientencryptionkeys", _] => {
                Route::Unsupported("client encryption keys")
            }
            ["offers"] => Route::Offers,
            ["offers", _] => Route::Offer,
            ["offers", _, ..] => {
                return Err(Error::bad_request(format!(
                    "'/{}' is no link of an offer: an offer has the link '/offers/<its id>'",
                    self.raw
                )));
            }
            ["addresses"] => Route::Addresses,
            ["operations", "dtc"] | ["operations", "dtc", _] => Route::Unsupported(DISTRIBUTED_TRANSACTIONS),
            _ => return Err(no_such_route(self.raw)),
        })
    }

    pub fn database(&self) -> &str {
        &self.segments[1]
    }

    pub fn container(&self) -> &str {
        &self.segments[3]
    }

    /// The id of an item.
    pub fn item(&self) -> &str {
        &self.segments[5]
    }

    /// The id of a stored procedure, trigger or user-defined function.
    pub fn script(&self) -> &str {
        &self.segments[5]
    }

    pub fn user(&self) -> &str {
        &self.segments[3]
    }

    /// The id of a permission of a user.
    pub fn permission(&self) -> &str {
        &self.segments[5]
    }

    /// The id of an offer.
    pub fn offer(&self) -> &str {
        &self.segments[1]
    }

    /// The first `count` segments as one decoded link.
    fn link(&self, count: usize) -> Cow<'_, str> {
        if count == 0 {
            return Cow::Borrowed("");
        }
        if self.escaped {
            return Cow::Owned(self.segments[..count].join("/"));
        }
        Cow::Borrowed(&self.raw[..self.ends[count - 1]])
    }

    /// Calls `check` with each form in which a client may have signed a request to this path, the usual one first.
    pub fn with_signed_forms<T>(
        &self,
        route: Route,
        method: &Method,
        (ms_date, date): (&str, &str),
        check: impl FnOnce(&[Payload<'_>]) -> T,
    ) -> T {
        // A resource's own link, or the link of the parent for a feed, a creation and a query.
        let (type_at, link_segments) = match (route, self.count) {
            (_, 0) => (None, 0),
            (Route::PartitionKeyDelete, _) => (Some(2), 4),
            (_, count) if count % 2 == 0 => (Some(count - 2), count),
            (_, count) => (Some(count - 1), count - 1),
        };
        let resource_type = type_at.map_or("", |at| &*self.segments[at]);
        let link = self.link(link_segments);
        let form = |resource_type, resource_link| Payload {
            verb: method.as_str(),
            resource_type,
            resource_link,
            ms_date,
            date,
        };
        if route == Route::Unsupported(DISTRIBUTED_TRANSACTIONS) {
            return check(&[form("distributedtransactionbatch", "")]);
        }
        let by_name = form(resource_type, &link);
        if route == Route::PartitionKeyDelete {
            return check(&[by_name, form("partitionkey", &link)]);
        }
        // Clients that address by resource id sign the last id alone, in lower case.
        let addressed_by_rid =
            route == Route::Offer || (link_segments >= 2 && DatabaseRid::parse(self.database()).is_some());
        if addressed_by_rid {
            let sent = &self.segments[link_segments - 1];
            let rid = sent.to_ascii_lowercase();
            let by_rid = form(resource_type, &rid);
            return match route {
                Route::Addresses => check(&[by_rid, by_name, form(resource_type, sent)]),
                _ => check(&[by_rid, by_name]),
            };
        }
        check(&[by_name])
    }
}

fn decode(segment: &str) -> Result<Cow<'_, str>> {
    percent_decode_str(segment)
        .decode_utf8()
        .map_err(|_| Error::bad_request("the request path does not decode to UTF-8 text"))
}

fn no_such_route(path: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no resource of the form '/{path}'"))
}

/// The operation of a request. One path serves many operations, which headers distinguish: a POST to a container's items
/// creates, upserts, queries, plans or runs a batch. Authorization (`access.rs`) and execution (`gateway.rs`) both use this
/// one, so that they cannot see a request differently.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn route(path: &str) -> Route {
        Path::parse(path).and_then(|path| path.route()).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    #[test]
    fn every_documented_path_has_a_route() {
        for (path, expected) in [
            ("", Route::Account),
            ("/", Route::Account),
            ("/dbs", Route::Databases),
            ("//dbs/", Route::Databases),
            ("/dbs/x", Route::Database),
            ("/dbs/x/colls/", Route::Containers),
            ("/dbs/x/colls/y", Route::Container),
            ("/dbs/x/colls/y/pkranges/", Route::PartitionKeyRanges),
            ("/dbs/x/colls/y/docs", Route::Items),
            ("/dbs/x/colls/y/docs/z/", Route::Item),
            ("/dbs/docs/colls/pkranges/docs/docs", Route::Item),
            ("/dbs/x/colls/y/operations/partitionkeydelete", Route::PartitionKeyDelete),
            ("/dbs/x/colls/y/sprocs/", Route::Scripts(ScriptKind::Procedure)),
            ("/dbs/x/colls/y/sprocs/p", Route::Script(ScriptKind::Procedure)),
            ("/dbs/x/colls/y/triggers", Route::Scripts(ScriptKind::Trigger)),
            ("/dbs/x/colls/y/triggers/t/", Route::Script(ScriptKind::Trigger)),
            ("/dbs/x/colls/y/udfs", Route::Scripts(ScriptKind::Function)),
            ("/dbs/x/colls/y/udfs/udfs", Route::Script(ScriptKind::Function)),
            ("/dbs/x/colls/y/conflicts/", Route::Conflicts),
            ("/dbs/x/colls/y/conflicts/z", Route::Conflict),
            ("/dbs/x/users/", Route::Users),
            ("/dbs/x/users/u", Route::User),
            ("/dbs/x/users/u/permissions", Route::Permissions),
            ("/dbs/x/users/u/permissions/p/", Route::Permission),
            ("/offers", Route::Offers),
            ("/offers/X7kE/", Route::Offer),
            ("//addresses/", Route::Addresses),
        ] {
            assert_eq!(route(path), expected, "{path}");
        }
    }

    #[test]
    fn known_but_missing_resources_are_named() {
        for (path, name) in [
            ("/dbs/x/clientencryptionkeys", "client encryption keys"),
            ("/dbs/x/colls/y/docs/z/attachments", "attachments"),
            ("/operations/dtc", "distributed transactions"),
            ("/operations/dtc/status", "distributed transactions"),
        ] {
            assert_eq!(route(path), Route::Unsupported(name), "{path}");
        }
    }

    #[test]
    fn other_paths_are_not_found() {
        for path in ["/x", "/DBS", "/dbs/x/y", "/dbs//colls", "/dbs/x/colls/y/docs/z/w", "/a/b/c/d/e/f/g/h/i"]
        {
            let error = Path::parse(path).and_then(|path| path.route()).expect_err(path);
            assert_eq!(error.kind(), ErrorKind::NotFound, "{path}");
        }
        for path in ["/offers/offers/X7kE/", "/offers/X7kE/y/z"] {
            let error = Path::parse(path).and_then(|path| path.route()).expect_err(path);
            assert_eq!(error.kind(), ErrorKind::BadRequest, "{path}");
        }
        assert_eq!(Path::parse("/dbs/%ff").err().expect("not UTF-8").kind(), ErrorKind::BadRequest);
    }

    #[test]
    fn ids_are_decoded_once_and_may_hold_anything() {
        let path = Path::parse("/dbs/a%2Fb/colls/100%2525/docs/%E2%82%AC%20+/").expect("valid");
        assert_eq!((path.database(), path.container(), path.item()), ("a/b", "100%25", "\u{20ac} +"));
        assert_eq!(path.link(6), "dbs/a/b/colls/100%25/docs/\u{20ac} +");
    }

    fn signed(method: Method, path: &str) -> Vec<(String, String)> {
        let path = Path::parse(path).expect("valid");
        let route = path.route().expect("known");
        path.with_signed_forms(route, &method, ("", ""), |forms| {
            forms.iter().map(|form| (form.resource_type.to_owned(), form.resource_link.to_owned())).collect()
        })
    }

    #[test]
    fn the_signed_link_follows_the_table() {
        for (method, path, resource_type, link) in [
            (Method::GET, "/", "", ""),
            (Method::POST, "/dbs", "dbs", ""),
            (Method::GET, "/dbs/x", "dbs", "dbs/x"),
            (Method::POST, "/dbs/x/colls", "colls", "dbs/x"),
            (Method::PUT, "/dbs/x/colls/y", "colls", "dbs/x/colls/y"),
            (Method::GET, "/dbs/x/colls/y/pkranges/", "pkranges", "dbs/x/colls/y"),
            (Method::POST, "/dbs/x/colls/y/docs/", "docs", "dbs/x/colls/y"),
            (Method::GET, "/dbs/x/colls/y/docs/a%20b", "docs", "dbs/x/colls/y/docs/a b"),
            (Method::POST, "/dbs/x/colls/y/sprocs/p", "sprocs", "dbs/x/colls/y/sprocs/p"),
            (Method::GET, "/offers", "offers", ""),
            (Method::POST, "/operations/dtc", "distributedtransactionbatch", ""),
            (Method::GET, "/offers/X7kE", "offers", "x7ke"),
            (Method::POST, "/dbs/AAAAAQ==/colls/AAAAAYAAAAE=/docs", "docs", "aaaaayaaaae="),
            (Method::POST, "/dbs/x/colls/y/operations/partitionkeydelete", "colls", "dbs/x/colls/y"),
        ] {
            assert_eq!(signed(method, path)[0], (resource_type.to_owned(), link.to_owned()), "{path}");
        }
        let forms = signed(Method::POST, "/dbs/x/colls/y/operations/partitionkeydelete");
        assert_eq!(forms[1], ("partitionkey".to_owned(), "dbs/x/colls/y".to_owned()));
        let forms = signed(Method::POST, "/dbs/AAAAAQ==/colls/AAAAAYAAAAE=/sprocs/AAAAAYAAAAEBAAAAAAAAgA==");
        assert_eq!(forms[0], ("sprocs".to_owned(), "aaaaayaaaaebaaaaaaaaga==".to_owned()));
        let forms = signed(Method::GET, "/dbs/AAAAAQ==");
        assert_eq!(forms[1].1, "dbs/AAAAAQ==", "a database may be named like a resource id");
    }
}
