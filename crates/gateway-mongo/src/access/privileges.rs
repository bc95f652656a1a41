//! Privileges that a command requires: kinds of access, each on a database. A command that is not named here requires `root`.
//!
//! Some commands reach other databases than their own: by stages of pipelines, by lists of namespaces, or by the inner command of an
//! `explain`. The client needs rights on all databases that a body may reach, even if the command would end before it reaches them.

use shardlake_mql::{Document, Value};

/// A kind of access. Roles are sets of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    Read,
    Write,
    /// Lists and statistics of collections and indexes.
    Inspect,
    /// Makes and removes collections and indexes.
    Shape,
    /// Changes options of collections, and databases.
    Manage,
    Users,
    /// Reads the server's state and activity.
    Monitor,
    /// Reads users with their stored credentials, for backups.
    ReadUsers,
    /// Creates users from restored documents.
    RestoreUsers,
    Everything,
}

impl Privilege {
    /// The reference's names of the actions that it allows.
    pub fn actions(self) -> &'static [&'static str] {
        match self {
            Privilege::Read => &["changeStream", "find", "killCursors"],
            Privilege::Write => &["insert", "remove", "update"],
            Privilege::Inspect => &["collStats", "dbStats", "indexStats", "listCollections", "listIndexes"],
            Privilege::Shape => &[
                "convertToCapped",
                "createCollection",
                "createIndex",
                "dropCollection",
                "dropIndex",
                "renameCollectionSameDB",
            ],
            Privilege::Manage => &["collMod", "dropDatabase", "planCacheWrite", "validate"],
            Privilege::Users => &[
                "changeCustomData",
                "changePassword",
                "createUser",
                "dropUser",
                "grantRole",
                "revokeRole",
                "viewRole",
                "viewUser",
            ],
            Privilege::Monitor => &[
                "getCmdLineOpts",
                "getDefaultRWConcern",
                "getLog",
                "getParameter",
                "hostInfo",
                "inprog",
                "listDatabases",
                "listShards",
                "serverStatus",
                "top",
            ],
            Privilege::ReadUsers => &["find"],
            Privilege::RestoreUsers => &["createUser", "dropUser", "viewUser"],
            Privilege::Everything => &["anyAction"],
        }
    }
}

/// Commands that a user needs for its own connection, session or cursors. Commands on users check their rights themselves.
const FOR_EVERYBODY: &[&str] = &[
    "hello",
    "isMaster",
    "ping",
    "buildInfo",
    "connectionStatus",
    "whatsmyuri",
    "isdbgrid",
    "saslStart",
    "saslContinue",
    "authenticate",
    "logout",
    "getnonce",
    "listCommands",
    "startSession",
    "refreshSessions",
    "endSessions",
    "killSessions",
    "commitTransaction",
    "abortTransaction",
    "killCursors",
    "getLastRequestStatistics",
    "listDatabases",
    "usersInfo",
    "rolesInfo",
    "createUser",
    "updateUser",
    "dropUser",
    "dropAllUsersFromDatabase",
    "grantRolesToUser",
    "revokeRolesFromUser",
    "createRole",
    "updateRole",
    "dropRole",
];

/// Commands that read the server's state and activity.
const OF_MONITOR: &[&str] = &[
    "serverStatus",
    "getDiagnosticData",
    "hostInfo",
    "getLog",
    "getParameter",
    "getCmdLineOpts",
    "currentOp",
    "connPoolStats",
    "top",
    "lockInfo",
    "features",
    "replSetGetStatus",
    "getDefaultRWConcern",
    "listShards",
    "balancerStatus",
    "balancerCollectionStatus",
];

/// A privilege on a database, or on all where none is named.
pub type Want<'b> = (Privilege, Option<&'b str>);

/// Privileges that a command requires; none for commands that every user may run. `name` is the command's own spelling.
pub fn wanted<'b>(name: &str, database: &'b str, body: &'b Document) -> Vec<Want<'b>> {
    let here = |privilege| vec![(privilege, Some(database))];
    match name {
        name if FOR_EVERYBODY.contains(&name) => vec![],
        name if OF_MONITOR.contains(&name) => vec![(Privilege::Monitor, None)],
        "find" | "count" | "distinct" => here(Privilege::Read),
        "insert" | "update" | "delete" | "findAndModify" | "findandmodify" => here(Privilege::Write),
        "bulkWrite" => of_bulk_write(body),
        "getMore" | "listCollections" | "listIndexes" | "collStats" | "dbStats" => here(Privilege::Inspect),
        "dataSize" => [here(Privilege::Inspect), of_namespace(body.first(), Privilege::Inspect)].concat(),
        "create" => [here(Privilege::Shape), of_pipelines(body, database)].concat(),
        "drop" | "createIndexes" | "dropIndexes" | "convertToCapped" => here(Privilege::Shape),
        "cloneCollectionAsCapped" => {
            [Privilege::Read, Privilege::Write, Privilege::Shape].into_iter().flat_map(here).collect()
        }
        "renameCollection" => {
            let to = body.iter().find(|(name, _)| &***name == "to");
            [body.first(), to].into_iter().flat_map(|end| of_namespace(end, Privilege::Shape)).collect()
        }
        "collMod" => [here(Privilege::Manage), of_pipelines(body, database)].concat(),
        "dropDatabase" | "validate" | "planCacheClear" | "profile" | "compact" | "reIndex" => {
            here(Privilege::Manage)
        }
        "dbHash" => here(Privilege::Read),
        "_mergeAuthzCollections" => vec![(Privilege::RestoreUsers, None)],
        "customAction" => match body.first().and_then(|(_, action)| action.as_str()) {
            Some("GetCollection" | "GetDatabase") => here(Privilege::Inspect),
            Some("GetChangeStreamTokens") => here(Privilege::Read),
            _ => here(Privilege::Manage),
        },
        "aggregate" => of_aggregate(body, database),
        "explain" => {
            let inner = body.first().and_then(|(_, inner)| inner.as_document());
            match inner.and_then(|inner| Some((inner, inner.first()?))) {
                Some((inner, (name, _))) if &**name != "explain" => wanted(name, database, inner),
                _ => vec![(Privilege::Everything, None)],
            }
        }
        _ => vec![(Privilege::Everything, None)],
    }
}

/// The database of a namespace in a text. A value that is no namespace requires `root`, and the command refuses it.
fn of_namespace<'b, N>(member: Option<(N, &'b Value)>, privilege: Privilege) -> Vec<Want<'b>> {
    let database = member.and_then(|(_, value)| value.as_str()).and_then(|text| text.split_once('.'));
    match database {
        Some((database, _)) => vec![(privilege, Some(database))],
        None => vec![(Privilege::Everything, None)],
    }
}

fn of_bulk_write(body: &Document) -> Vec<Want<'_>> {
    let Some(targets) = body.get("nsInfo").and_then(Value::as_array) else {
        return vec![(Privilege::Everything, None)];
    };
    let mut wants = Vec::new();
    for target in targets.iter() {
        let namespace = target.as_document().and_then(|target| target.get("ns"));
        wants.extend(of_namespace(namespace.map(|namespace| ((), namespace)), Privilege::Write));
    }
    wants
}

fn of_aggregate<'b>(body: &'b Document, database: &'b str) -> Vec<Want<'b>> {
    let stages = body.get("pipeline").and_then(Value::as_array);
    let first = stages.and_then(|stages| stages.first()).and_then(Value::as_document);
    let (name, options) = match first.and_then(|stage| stage.first()) {
        Some((name, options)) => (&**name, Some(options)),
        None => ("", None),
    };
    let has_collection = body.first().is_some_and(|(_, first)| first.as_str().is_some());
    let is_of_cluster = || {
        let options = options.and_then(Value::as_document);
        options.is_some_and(|options| options.value("allChangesForCluster").is_true())
    };
    let first = match name {
        "$collStats" | "$indexStats" | "$planCacheStats" => (Privilege::Inspect, Some(database)),
        "$changeStream" if is_of_cluster() => (Privilege::Read, None),
        "$changeStream" => (Privilege::Read, Some(database)),
        _ if has_collection => (Privilege::Read, Some(database)),
        "$documents" => return of_pipelines(body, database),
        "$currentOp" | "$listSessions" | "$listLocalSessions" | "$shardedDataDistribution" => {
            (Privilege::Monitor, None)
        }
        "$listClusterCatalog" if database != "admin" => (Privilege::Inspect, Some(database)),
        "$listClusterCatalog" => (Privilege::Inspect, None),
        _ => (Privilege::Everything, None),
    };
    [vec![first], of_pipelines(body, database)].concat()
}

/// Further databases that stages anywhere in a body read, and those that they write.
fn of_pipelines<'b>(body: &'b Document, database: &'b str) -> Vec<Want<'b>> {
    let mut wants = Vec::new();
    body.iter().for_each(|(name, value)| visit((&**name, value), database, &mut wants));
    wants
}

fn visit<'b>((name, value): (&str, &'b Value), database: &'b str, wants: &mut Vec<Want<'b>>) {
    let of_place = |place: Option<&'b Value>| match place.and_then(Value::as_document) {
        Some(place) => place.get("db").and_then(Value::as_str).unwrap_or(database),
        None => database,
    };
    let part = |part: &str| value.as_document().and_then(|stage| stage.get(part));
    match name {
        "$lookup" | "$graphLookup" => wants.push((Privilege::Read, Some(of_place(part("from"))))),
        // Its collection may be named next to its database, or below `coll`.
        "$unionWith" => {
            wants.push((Privilege::Read, Some(of_place(Some(value)))));
            wants.push((Privilege::Read, Some(of_place(part("coll")))));
        }
        "$out" => wants.push((Privilege::Write, Some(of_place(Some(value))))),
        "$merge" => wants.push((Privilege::Write, Some(of_place(part("into"))))),
        _ => {}
    }
    match value {
        Value::Document(inner) => {
            inner.iter().for_each(|(name, value)| visit((&**name, value), database, wants));
        }
        Value::Array(items) => items.iter().for_each(|item| visit(("", item), database, wants)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(document: &bson::Document) -> Document {
        Document::from_bytes(&document.to_vec().expect("BSON")).expect("BSON")
    }

    fn wants(name: &str, body: &bson::Document) -> Vec<(Privilege, Option<String>)> {
        let body = of(body);
        let wants = wanted(name, "d", &body);
        wants.into_iter().map(|(privilege, database)| (privilege, database.map(str::to_owned))).collect()
    }

    fn on(privilege: Privilege, database: &str) -> (Privilege, Option<String>) {
        (privilege, Some(database.to_owned()))
    }

    #[test]
    fn everything_that_a_pipeline_reaches_is_asked_for() {
        let lookup = bson::doc! { "$lookup": { "from": { "db": "e", "coll": "c" }, "pipeline": [
            { "$unionWith": { "coll": "x", "pipeline": [] } }
        ], "as": "f" } };
        let facet = bson::doc! { "$facet": { "a": [lookup] } };
        let out = bson::doc! { "$out": { "db": "f", "coll": "c" } };
        let body = bson::doc! { "aggregate": "c", "pipeline": [facet, out] };
        let expected = vec![
            on(Privilege::Read, "d"),
            on(Privilege::Read, "e"),
            on(Privilege::Read, "d"),
            on(Privilege::Read, "d"),
            on(Privilege::Write, "f"),
        ];
        assert_eq!(wants("aggregate", &body), expected);
        let view =
            bson::doc! { "create": "v", "viewOn": "c", "pipeline": body.get_array("pipeline").unwrap() };
        assert_eq!(wants("create", &view)[1..], expected[1..]);
        assert_eq!(wants("explain", &bson::doc! { "explain": body }), expected);
        let merge = bson::doc! { "aggregate": "c", "pipeline": [{ "$merge": { "into": { "db": "g", "coll": "c" } } }] };
        assert_eq!(wants("aggregate", &merge)[1], on(Privilege::Write, "g"));
    }

    #[test]
    fn lists_of_namespaces_are_asked_for_and_what_is_unknown_is_for_root() {
        let bulk = bson::doc! { "bulkWrite": 1, "nsInfo": [{ "ns": "a.c" }, { "ns": "b.c.d" }] };
        assert_eq!(wants("bulkWrite", &bulk), [on(Privilege::Write, "a"), on(Privilege::Write, "b")]);
        let rename = bson::doc! { "renameCollection": "a.c", "to": "b.c" };
        assert_eq!(
            wants("renameCollection", &rename),
            [on(Privilege::Shape, "a"), on(Privilege::Shape, "b")]
        );
        let copy = bson::doc! { "cloneCollectionAsCapped": "c", "toCollection": "e", "size": 4096 };
        let expected = [Privilege::Read, Privilege::Write, Privilege::Shape].map(|wanted| on(wanted, "d"));
        assert_eq!(wants("cloneCollectionAsCapped", &copy), expected);
        let root = vec![(Privilege::Everything, None)];
        for (name, body) in [
            ("bulkWrite", bson::doc! { "bulkWrite": 1, "nsInfo": [{ "ns": 1 }] }),
            ("killAllSessions", bson::doc! { "killAllSessions": [] }),
            ("explain", bson::doc! { "explain": { "nosuch": 1 } }),
            ("aggregate", bson::doc! { "aggregate": 1, "pipeline": [{ "$new": {} }] }),
        ] {
            assert_eq!(wants(name, &body), root, "{name}");
        }
    }
}
