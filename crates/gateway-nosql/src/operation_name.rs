//! The names of operations in metrics and logs: one for each operation that a request can ask for, so that their number is
//! bounded by the program and never by its clients.

use std::sync::atomic::{AtomicU8, Ordering};

use http::{Method, Request};
use shardlake_admin::AdminOperation;
use shardlake_model::ScriptKind;

use crate::headers::RequestHeaders;
use crate::router::{FeedOperation, Operation, Path, ResourceOperation, Route};

macro_rules! names {
    ($($name:ident),+ $(,)?) => {
        /// The operation of a request.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum OperationName {
            $($name),+
        }

        impl OperationName {
            pub const ALL: &[OperationName] = &[$(OperationName::$name),+];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(OperationName::$name => stringify!($name)),+
                }
            }
        }
    };
}

names! {
    ReadAccount,
    ListDatabases, QueryDatabases, CreateDatabase, ReadDatabase, DeleteDatabase, HeadDatabases,
    ListContainers, QueryContainers, CreateContainer, ReadContainer, ReplaceContainer, DeleteContainer, HeadContainer,
    ListPartitionKeyRanges, ListAddresses,
    ReadFeed, ReadChangeFeed, QueryItems, PlanQuery,
    CreateItem, UpsertItem, ReadItem, ReplaceItem, PatchItem, DeleteItem, DeletePartitionKey, Batch, Bulk,
    ListStoredProcedures, QueryStoredProcedures, CreateStoredProcedure, UpsertStoredProcedure,
    ReadStoredProcedure, ReplaceStoredProcedure, DeleteStoredProcedure, ExecuteStoredProcedure,
    ListTriggers, QueryTriggers, CreateTrigger, UpsertTrigger, ReadTrigger, ReplaceTrigger, DeleteTrigger,
    ListUserDefinedFunctions, QueryUserDefinedFunctions, CreateUserDefinedFunction, UpsertUserDefinedFunction,
    ReadUserDefinedFunction, ReplaceUserDefinedFunction, DeleteUserDefinedFunction,
    ListConflicts, ReadConflict, DeleteConflict,
    ListUsers, QueryUsers, CreateUser, UpsertUser, ReadUser, ReplaceUser, DeleteUser,
    ListPermissions, QueryPermissions, CreatePermission, UpsertPermission, ReadPermission, ReplacePermission,
    DeletePermission,
    ListOffers, QueryOffers, ReadOffer, ReplaceOffer,
    Unsupported,
    AdminPartitions, AdminSplit, AdminMerge, AdminMove, AdminAbortRelocation, AdminThroughput, AdminHeat, AdminKey,
    AdminQuery, AdminRunScript, AdminSchema, AdminIndexingPreview, AdminServer, AdminCaller, AdminPulse, AdminLog,
    AdminDiagnostics,
    ReadCopies, PauseCopy, ResumeCopy, RebuildCopy, VerifyCopy, PutCopySettings,
    ReadFunctions, PutFunction, DeleteFunction, PauseFunction, ResumeFunction, TryFunction, ReplayFunction, RollbackFunction,
    ReadProjections, PutProjection, DeleteProjection, PauseProjection, ResumeProjection,
    BeginBackup, ReadBackup, EndBackup, ReadKeys, RotateKey,
    ReadAnalytics, SetAnalytics, RunSql, ListSqlQueries, CancelSqlQuery, OrderAnalytics,
    // A path or a method that names no operation.
    Other,
}

const _: () = assert!(
    (OperationName::AdminPartitions as u8) < OperationName::RotateKey as u8,
    "the operations of operators lie together"
);

impl OperationName {
    /// Whether operators ask for it, not the applications whose latency is watched.
    pub fn is_of_admin(self) -> bool {
        (OperationName::AdminPartitions as u8..=OperationName::OrderAnalytics as u8).contains(&(self as u8))
    }

    /// The operation of a request as far as its head tells; its signature is not looked at.
    pub fn of_request<B>(request: &Request<B>) -> OperationName {
        let (method, path) = (request.method(), request.uri().path());
        if let Ok(Some(address)) = shardlake_admin::Address::parse(path, None) {
            return OperationName::of_admin(address.operation(method));
        }
        let found = RequestHeaders::parse(request.headers()).ok().and_then(|headers| {
            let route = Path::parse(path).and_then(|path| path.route()).ok()?;
            OperationName::of_route(route, method, &headers)
        });
        found.unwrap_or(OperationName::Other)
    }

    /// `None` where the method is not defined there.
    pub(crate) fn of_route(
        route: Route,
        method: &Method,
        headers: &RequestHeaders<'_>,
    ) -> Option<OperationName> {
        match route {
            // The target of the addresses is in the query.
            Route::Addresses | Route::MasterAddresses => Some(OperationName::ListAddresses),
            _ => Operation::of_frame(route, method, headers).ok().map(OperationName::of),
        }
    }

    pub(crate) fn of(operation: Operation) -> OperationName {
        match operation {
            Operation::ReadAccount => OperationName::ReadAccount,
            Operation::Databases(FeedOperation::List) => OperationName::ListDatabases,
            Operation::Databases(FeedOperation::Query) => OperationName::QueryDatabases,
            Operation::Databases(_) => OperationName::CreateDatabase,
            Operation::ReadDatabase => OperationName::ReadDatabase,
            Operation::DeleteDatabase => OperationName::DeleteDatabase,
            Operation::HeadDatabases => OperationName::HeadDatabases,
            Operation::Containers(FeedOperation::List) => OperationName::ListContainers,
            Operation::Containers(FeedOperation::Query) => OperationName::QueryContainers,
            Operation::Containers(_) => OperationName::CreateContainer,
            Operation::ReadContainer => OperationName::ReadContainer,
            Operation::ReplaceContainer => OperationName::ReplaceContainer,
            Operation::DeleteContainer => OperationName::DeleteContainer,
            Operation::HeadContainer => OperationName::HeadContainer,
            Operation::ListRanges => OperationName::ListPartitionKeyRanges,
            Operation::ListAddresses | Operation::ListMasterAddresses => OperationName::ListAddresses,
            Operation::ReadFeed => OperationName::ReadFeed,
            Operation::ReadChangeFeed => OperationName::ReadChangeFeed,
            Operation::QueryItems => OperationName::QueryItems,
            Operation::PlanQuery => OperationName::PlanQuery,
            Operation::CreateItem => OperationName::CreateItem,
            Operation::UpsertItem => OperationName::UpsertItem,
            Operation::Batch => OperationName::Batch,
            Operation::Bulk => OperationName::Bulk,
            Operation::ReadItem => OperationName::ReadItem,
            Operation::ReplaceItem => OperationName::ReplaceItem,
            Operation::PatchItem => OperationName::PatchItem,
            Operation::DeleteItem => OperationName::DeleteItem,
            Operation::DeletePartitionKey => OperationName::DeletePartitionKey,
            Operation::Scripts(kind, operation) => of_scripts(kind, operation),
            Operation::Script(kind, operation) => of_script(kind, operation),
            Operation::ExecuteProcedure => OperationName::ExecuteStoredProcedure,
            Operation::ListConflicts => OperationName::ListConflicts,
            Operation::ReadConflict => OperationName::ReadConflict,
            Operation::DeleteConflict => OperationName::DeleteConflict,
            Operation::Users(FeedOperation::List) => OperationName::ListUsers,
            Operation::Users(FeedOperation::Query) => OperationName::QueryUsers,
            Operation::Users(FeedOperation::Create) => OperationName::CreateUser,
            Operation::Users(FeedOperation::Upsert) => OperationName::UpsertUser,
            Operation::User(ResourceOperation::Read) => OperationName::ReadUser,
            Operation::User(ResourceOperation::Replace) => OperationName::ReplaceUser,
            Operation::User(ResourceOperation::Delete) => OperationName::DeleteUser,
            Operation::Permissions(FeedOperation::List) => OperationName::ListPermissions,
            Operation::Permissions(FeedOperation::Query) => OperationName::QueryPermissions,
            Operation::Permissions(FeedOperation::Create) => OperationName::CreatePermission,
            Operation::Permissions(FeedOperation::Upsert) => OperationName::UpsertPermission,
            Operation::Permission(ResourceOperation::Read) => OperationName::ReadPermission,
            Operation::Permission(ResourceOperation::Replace) => OperationName::ReplacePermission,
            Operation::Permission(ResourceOperation::Delete) => OperationName::DeletePermission,
            Operation::ListOffers => OperationName::ListOffers,
            Operation::QueryOffers => OperationName::QueryOffers,
            Operation::ReadOffer => OperationName::ReadOffer,
            Operation::ReplaceOffer => OperationName::ReplaceOffer,
            Operation::Unsupported(_) => OperationName::Unsupported,
        }
    }

    pub(crate) fn of_admin(operation: AdminOperation) -> OperationName {
        match operation {
            AdminOperation::Partitions => OperationName::AdminPartitions,
            AdminOperation::Split => OperationName::AdminSplit,
            AdminOperation::Merge => OperationName::AdminMerge,
            AdminOperation::Move => OperationName::AdminMove,
            AdminOperation::AbortRelocation => OperationName::AdminAbortRelocation,
            AdminOperation::Throughput => OperationName::AdminThroughput,
            AdminOperation::Heat => OperationName::AdminHeat,
            AdminOperation::Key => OperationName::AdminKey,
            AdminOperation::Query => OperationName::AdminQuery,
            AdminOperation::RunScript => OperationName::AdminRunScript,
            AdminOperation::Schema => OperationName::AdminSchema,
            AdminOperation::IndexingPreview => OperationName::AdminIndexingPreview,
            AdminOperation::Server => OperationName::AdminServer,
            AdminOperation::Caller => OperationName::AdminCaller,
            AdminOperation::Pulse => OperationName::AdminPulse,
            AdminOperation::Log => OperationName::AdminLog,
            AdminOperation::Diagnostics => OperationName::AdminDiagnostics,
            AdminOperation::ReadCopies => OperationName::ReadCopies,
            AdminOperation::PauseCopy => OperationName::PauseCopy,
            AdminOperation::ResumeCopy => OperationName::ResumeCopy,
            AdminOperation::RebuildCopy => OperationName::RebuildCopy,
            AdminOperation::PutCopySettings => OperationName::PutCopySettings,
            AdminOperation::VerifyCopy => OperationName::VerifyCopy,
            AdminOperation::ReadFunctions => OperationName::ReadFunctions,
            AdminOperation::PutFunction => OperationName::PutFunction,
            AdminOperation::DeleteFunction => OperationName::DeleteFunction,
            AdminOperation::PauseFunction => OperationName::PauseFunction,
            AdminOperation::ResumeFunction => OperationName::ResumeFunction,
            AdminOperation::TryFunction => OperationName::TryFunction,
            AdminOperation::ReplayFunction => OperationName::ReplayFunction,
            AdminOperation::RollbackFunction => OperationName::RollbackFunction,
            AdminOperation::ReadProjections => OperationName::ReadProjections,
            AdminOperation::PutProjection => OperationName::PutProjection,
            AdminOperation::DeleteProjection => OperationName::DeleteProjection,
            AdminOperation::PauseProjection => OperationName::PauseProjection,
            AdminOperation::ResumeProjection => OperationName::ResumeProjection,
            AdminOperation::BeginBackup => OperationName::BeginBackup,
            AdminOperation::ReadBackup => OperationName::ReadBackup,
            AdminOperation::EndBackup => OperationName::EndBackup,
            AdminOperation::ReadKeys => OperationName::ReadKeys,
            AdminOperation::RotateKey => OperationName::RotateKey,
            AdminOperation::ReadAnalytics => OperationName::ReadAnalytics,
            AdminOperation::SetAnalytics => OperationName::SetAnalytics,
            AdminOperation::OrderAnalytics => OperationName::OrderAnalytics,
            AdminOperation::RunSql => OperationName::RunSql,
            AdminOperation::ListSqlQueries => OperationName::ListSqlQueries,
            AdminOperation::CancelSqlQuery => OperationName::CancelSqlQuery,
        }
    }
}

fn of_scripts(kind: ScriptKind, operation: FeedOperation) -> OperationName {
    let [list, query, create, upsert] = match kind {
        ScriptKind::Procedure => [
            OperationName::ListStoredProcedures,
            OperationName::QueryStoredProcedures,
            OperationName::CreateStoredProcedure,
            OperationName::UpsertStoredProcedure,
        ],
        ScriptKind::Trigger => [
            OperationName::ListTriggers,
            OperationName::QueryTriggers,
            OperationName::CreateTrigger,
            OperationName::UpsertTrigger,
        ],
        ScriptKind::Function => [
            OperationName::ListUserDefinedFunctions,
            OperationName::QueryUserDefinedFunctions,
            OperationName::CreateUserDefinedFunction,
            OperationName::UpsertUserDefinedFunction,
        ],
    };
    match operation {
        FeedOperation::List => list,
        FeedOperation::Query => query,
        FeedOperation::Create => create,
        FeedOperation::Upsert => upsert,
    }
}

fn of_script(kind: ScriptKind, operation: ResourceOperation) -> OperationName {
    let [read, replace, delete] = match kind {
        ScriptKind::Procedure => [
            OperationName::ReadStoredProcedure,
            OperationName::ReplaceStoredProcedure,
            OperationName::DeleteStoredProcedure,
        ],
        ScriptKind::Trigger => {
            [OperationName::ReadTrigger, OperationName::ReplaceTrigger, OperationName::DeleteTrigger]
        }
        ScriptKind::Function => [
            OperationName::ReadUserDefinedFunction,
            OperationName::ReplaceUserDefinedFunction,
            OperationName::DeleteUserDefinedFunction,
        ],
    };
    match operation {
        ResourceOperation::Read => read,
        ResourceOperation::Replace => replace,
        ResourceOperation::Delete => delete,
    }
}

/// The operation of a request that is being served, for the server that counts it. It is known as soon as the head is read, so
/// that requests which are refused, panic or take too long are counted by their operation, too.
#[derive(Debug)]
pub struct OperationSeen(AtomicU8);

impl Default for OperationSeen {
    fn default() -> OperationSeen {
        OperationSeen(AtomicU8::new(OperationName::Other as u8))
    }
}

impl OperationSeen {
    pub fn get(&self) -> OperationName {
        let number = usize::from(self.0.load(Ordering::Relaxed));
        OperationName::ALL.get(number).copied().unwrap_or(OperationName::Other)
    }

    pub(crate) fn set(&self, name: OperationName) {
        self.0.store(name as u8, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_separate_the_operations_of_one_path() {
        let name = |method: &str, path: &str, header: Option<(&str, &str)>| {
            let mut request = Request::builder().method(method).uri(path);
            if let Some((name, value)) = header {
                request = request.header(name, value);
            }
            OperationName::of_request(&request.body(()).expect("a request")).as_str()
        };
        let items = "/dbs/d/colls/c/docs";
        for (method, path, header, expected) in [
            ("GET", "/", None, "ReadAccount"),
            ("POST", items, None, "CreateItem"),
            ("POST", items, Some(("x-ms-documentdb-isquery", "True")), "QueryItems"),
            ("POST", items, Some(("content-type", "application/query+json")), "QueryItems"),
            ("POST", items, Some(("x-ms-documentdb-is-upsert", "True")), "UpsertItem"),
            ("GET", items, None, "ReadFeed"),
            ("GET", items, Some(("a-im", "Incremental feed")), "ReadChangeFeed"),
            ("GET", "/dbs/d/colls/c/docs/i", None, "ReadItem"),
            ("POST", "/dbs/d/colls/c/sprocs/p", None, "ExecuteStoredProcedure"),
            ("PUT", "/dbs/d/users/u/permissions/p", None, "ReplacePermission"),
            ("GET", "//addresses/", None, "ListAddresses"),
            ("PUT", "/_shardlake/v1/projections/p", None, "PutProjection"),
            ("PUT", "/_shardlake/v1/copies/functions/f", None, "PutFunction"),
            ("POST", "/_shardlake/v1/copies/functions/f/try", None, "TryFunction"),
            ("POST", "/_shardlake/v1/dbs/d/colls/c/partitions/0/split", None, "AdminSplit"),
            ("DELETE", "/", None, "Other"),
            ("GET", "/nowhere", None, "Other"),
        ] {
            assert_eq!(name(method, path, header), expected, "{method} {path} {header:?}");
        }
    }

    #[test]
    fn every_name_is_found_by_its_number() {
        let seen = OperationSeen::default();
        assert_eq!(seen.get(), OperationName::Other);
        for name in OperationName::ALL {
            seen.set(*name);
            assert_eq!(seen.get(), *name);
        }
        assert!(OperationName::AdminPartitions.is_of_admin() && OperationName::OrderAnalytics.is_of_admin());
        assert!(!OperationName::Other.is_of_admin() && !OperationName::Unsupported.is_of_admin());
    }
}
