//! Backups and restores by MongoDB's tools: the commands that the tools send, in their order and form.

use bson::{Bson, doc};
use shardlake_gateway_mongo::{Access, Key, MongoSettings};
use shardlake_mql::{Document, Value};

use crate::authentication::prove_at;
use crate::client::{Client, Server, first_batch, of};

const KEY: &str = "cHJpbWFyeQ==";
const READ_ONLY: &str = "cmVhZG9ubHk=";

async fn ok(client: &mut Client, database: &str, command: bson::Document) -> Document {
    client.ok(database, of(&command)).await
}

fn collation() -> bson::Document {
    doc! {
        "locale": "en", "caseLevel": false, "caseFirst": "off", "strength": 2, "numericOrdering": false,
        "alternate": "non-ignorable", "maxVariable": "punct", "normalization": false, "backwards": false,
        "version": "57.1",
    }
}

/// An index in the form of a dump.
fn index(key: bson::Document, name: &str, options: bson::Document) -> bson::Document {
    let mut index = doc! { "v": 2, "key": key, "name": name };
    index.extend(options);
    index
}

/// Collections of a dump: names, options and indexes besides that of `_id`.
fn kinds() -> Vec<(&'static str, bson::Document, Vec<bson::Document>)> {
    let clustered = doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_", "unique": true };
    let series = doc! { "timeField": "t", "metaField": "m", "granularity": "seconds" };
    let engine = doc! { "wiredTiger": { "configString": "block_compressor=zlib" } };
    let schema = doc! { "$jsonSchema": { "bsonType": "object", "required": ["a"] } };
    let validator = doc! { "validator": schema, "validationLevel": "strict", "validationAction": "warn" };
    let text = doc! { "weights": { "s": 1 }, "default_language": "english", "language_override": "language", "textIndexVersion": 3 };
    let old = doc! { "ns": "elsewhere.c", "background": true, "dropDups": true, "_id": 1, "originalSpec": {}, "odd": 1 };
    let identifiers = doc! { "a": { "$type": "objectId" } };
    let many =
        (0..12).map(|n| index(doc! { format!("f{n}"): 1 }, &format!("f{n}_1"), doc! { "unique": true }));
    vec![
        ("plain", doc! {}, vec![]),
        ("capped", doc! { "capped": true, "size": 1_048_576, "max": 5000 }, vec![]),
        ("series", doc! { "timeseries": series }, vec![]),
        ("clustered", doc! { "clusteredIndex": clustered }, vec![]),
        ("collated", doc! { "collation": collation() }, vec![]),
        ("engine", doc! { "storageEngine": engine }, vec![]),
        ("validated", validator, vec![]),
        ("images", doc! { "changeStreamPreAndPostImages": { "enabled": true } }, vec![]),
        ("encrypted", doc! { "encryptedFields": { "fields": [] } }, vec![]),
        ("expiring", doc! { "expireAfterSeconds": 3600 }, vec![]),
        ("flags", doc! { "flags": 1 }, vec![]),
        ("text", doc! {}, vec![index(doc! { "_fts": "text", "_ftsx": 1 }, "s_text", text)]),
        ("indexcollated", doc! {}, vec![index(doc! { "q": 1 }, "q_1", doc! { "collation": collation() })]),
        (
            "plane",
            doc! {},
            vec![index(doc! { "l": "2d" }, "l_2d", doc! { "bits": 26, "min": -180.0, "max": 180.0 })],
        ),
        ("sphere", doc! {}, vec![index(doc! { "l": "2dsphere" }, "l", doc! { "2dsphereIndexVersion": 3 })]),
        (
            "wild",
            doc! {},
            vec![index(doc! { "$**": 1 }, "w", doc! { "wildcardProjection": { "a": 1, "b": 1 } })],
        ),
        ("hashed", doc! {}, vec![index(doc! { "a": "hashed" }, "a_hashed", doc! {})]),
        ("compoundhashed", doc! {}, vec![index(doc! { "a": 1, "b": "hashed" }, "ab", doc! {})]),
        ("old", doc! {}, vec![index(doc! { "a": 1 }, "a_1", old)]),
        (
            "unique",
            doc! {},
            vec![index(
                doc! { "a": 1 },
                "a_1",
                doc! { "unique": true, "partialFilterExpression": identifiers },
            )],
        ),
        ("prepared", doc! {}, vec![index(doc! { "a": 1 }, "a_1", doc! { "prepareUnique": true })]),
        ("descending", doc! {}, vec![index(doc! { "a": -1.0, "b": 1.0 }, "ab", doc! {})]),
        ("boolean", doc! {}, vec![index(doc! { "a": true }, "a_true", doc! {})]),
        ("many", doc! {}, many.collect()),
        ("ttl", doc! {}, vec![index(doc! { "a": 1 }, "a_1", doc! { "expireAfterSeconds": 2_147_483_647 })]),
        ("underscore", doc! {}, vec![index(doc! { "_x": 1 }, "_x_1", doc! { "unique": true })]),
        ("compoundwild", doc! {}, vec![index(doc! { "a": 1, "b.$**": 1 }, "cw", doc! {})]),
    ]
}

/// Sends the commands of a restore for a collection. Returns the errors of the collection and of its indexes.
async fn restore(
    client: &mut Client,
    (name, options, indexes): (&str, bson::Document, Vec<bson::Document>),
) -> (Option<Document>, Option<Document>) {
    let refusal = |reply: Document| (reply.value("ok").to_f64() != Some(1.0)).then_some(reply);
    let namespace = format!("d.{name}");
    let mut create = doc! { "create": name };
    create.extend(options);
    create.insert("idIndex", doc! { "key": { "_id": 1 }, "name": "_id_", "ns": &namespace });
    if let Some(refused) = refusal(client.run("d", of(&create)).await) {
        return (Some(refused), None);
    }
    let documents = vec![doc! { "_id": 1, "a": 1, "t": bson::Timestamp { time: 0, increment: 0 } }];
    let insert = doc! {
        "insert": name, "ordered": false, "writeConcern": { "w": "majority" }, "documents": documents,
        "bypassEmptyTsReplacement": true,
    };
    let reply = ok(client, "d", insert).await;
    assert_eq!(reply.value("n").to_i32_exact(), Some(1), "{name}: {reply}");
    if indexes.is_empty() {
        return (None, None);
    }
    let indexes = indexes.into_iter().map(|mut index| {
        index.remove("v");
        index.insert("ns", &namespace);
        index
    });
    let indexes: Vec<bson::Document> = indexes.collect();
    let command = doc! { "createIndexes": name, "indexes": indexes, "ignoreUnknownIndexOptions": true };
    (None, refusal(client.run("d", of(&command)).await))
}

#[tokio::test]
async fn every_kind_of_collection_is_restored_or_refused_by_its_name() {
    let server = Server::start().await;
    let mut client = server.connect();
    let (mut refused, mut without_indexes) = (Vec::new(), Vec::new());
    for (name, options, indexes) in kinds() {
        let (collection, index) = restore(&mut client, (name, options, indexes)).await;
        if let Some(reply) = collection {
            let words = reply.value("errmsg");
            let words = words.as_str().expect("words");
            let is_kind = reply.value("code").to_i32_exact() == Some(303);
            let hint = format!("--nsExclude 'd.{name}'");
            assert!(!is_kind || words.contains(&hint), "{name}: {words}");
            refused.push(name);
            continue;
        }
        if let Some(reply) = index {
            assert!(reply.value("errmsg").as_str().is_some_and(|words| !words.is_empty()));
            without_indexes.push(name);
        }
        let found = first_batch(&ok(&mut client, "d", doc! { "find": name }).await);
        assert!(matches!(found[0].value("t"), Value::Timestamp(0, 0)), "{name}: {}", found[0]);
    }
    // Collections of supported kinds must be restored.
    let may_be_refused = ["series", "clustered", "encrypted", "expiring"];
    assert!(refused.iter().all(|name| may_be_refused.contains(name)), "{refused:?}");
    let may_lack_indexes = ["text", "unique", "boolean", "many", "underscore", "compoundwild"];
    assert!(without_indexes.iter().all(|name| may_lack_indexes.contains(name)), "{without_indexes:?}");
    // Unknown options of indexes are left out, and those of earlier versions have no effect.
    let indexes = first_batch(&ok(&mut client, "d", doc! { "listIndexes": "old" }).await);
    assert_eq!(indexes[1].to_string(), "{ v: 2, key: { a: 1 }, name: \"a_1\", background: true }");
    let unknown = index(doc! { "b": 1 }, "b_1", doc! { "odd": 1 });
    let strict = doc! { "createIndexes": "old", "indexes": [unknown] };
    assert_eq!(client.fails("d", of(&strict)).await, 197);
}

/// The commands of a full dump, an export, an import and a monitor.
#[tokio::test]
async fn the_commands_of_tools_are_answered() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(&mut client, "d", doc! { "insert": "c", "documents": [{ "_id": 1, "n": 1 }] }).await;
    let pipeline = vec![doc! { "$match": {} }, doc! { "$group": { "_id": 1, "n": { "$sum": 1 } } }];
    let updates = vec![doc! { "q": { "_id": 2 }, "u": { "n": 2 }, "upsert": true }];
    let merged = vec![doc! { "q": { "_id": 2 }, "u": { "$set": { "m": 1 } }, "upsert": true }];
    let deletes = vec![doc! { "q": { "_id": 2 }, "limit": 1 }];
    let concern = doc! { "w": "majority" };
    for (database, command) in [
        ("admin", doc! { "isMaster": 1 }),
        ("admin", doc! { "buildInfo": 1 }),
        ("admin", doc! { "getParameter": 1, "authSchemaVersion": 1 }),
        ("admin", doc! { "getParameter": 1, "featureCompatibilityVersion": 1 }),
        ("admin", doc! { "listDatabases": 1, "nameOnly": true }),
        ("d", doc! { "listCollections": 1, "filter": {}, "cursor": {} }),
        ("d", doc! { "listIndexes": "c", "cursor": {} }),
        ("d", doc! { "count": "c" }),
        ("d", doc! { "collStats": "c" }),
        ("d", doc! { "find": "c", "filter": {}, "noCursorTimeout": true }),
        ("d", doc! { "find": "c", "filter": {}, "hint": { "_id": 1 }, "noCursorTimeout": true }),
        ("d", doc! { "find": "c", "sort": { "_id": 1 }, "skip": 0, "limit": 0, "projection": { "n": 1 } }),
        ("d", doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} }),
        (
            "d",
            doc! { "update": "c", "updates": updates, "ordered": false, "writeConcern": concern.clone(), "bypassEmptyTsReplacement": true },
        ),
        (
            "d",
            doc! { "update": "c", "updates": merged, "ordered": true, "bypassDocumentValidation": true, "bypassEmptyTsReplacement": true },
        ),
        ("d", doc! { "delete": "c", "deletes": deletes, "ordered": true, "writeConcern": concern }),
        ("admin", doc! { "serverStatus": 1, "recordStats": 0 }),
        ("admin", doc! { "listDatabases": 1, "filter": { "name": "d" } }),
        ("admin", doc! { "fsync": 1 }),
        ("d", doc! { "compact": "c", "force": true }),
        ("d", doc! { "validate": "c", "scandata": true, "full": false }),
        (
            "d",
            doc! { "aggregate": "c", "pipeline": [{ "$collStats": { "latencyStats": { "histograms": true } } }], "cursor": {} },
        ),
    ] {
        ok(&mut client, database, command).await;
    }
    for (database, command, code) in [
        ("admin", doc! { "applyOps": [] }, 115),
        ("admin", doc! { "fsync": 1, "lock": true }, 115),
        ("admin", doc! { "fsyncUnlock": 1 }, 20),
        ("d", doc! { "reIndex": "c" }, 115),
        ("d", doc! { "compact": "nothing" }, 26),
        ("admin", doc! { "replSetGetStatus": 1 }, 76),
    ] {
        assert_eq!(client.fails(database, of(&command)).await, code, "{command}");
    }
}

#[tokio::test]
async fn digests_of_collections_tell_documents_apart_and_not_their_order() {
    let server = Server::start().await;
    let mut client = server.connect();
    for (name, documents) in [
        ("a", vec![doc! { "_id": 1, "n": 1 }, doc! { "_id": 2 }]),
        ("b", vec![doc! { "_id": 2 }, doc! { "_id": 1, "n": 1 }]),
        ("c", vec![doc! { "_id": 2 }, doc! { "_id": 1, "n": 2 }]),
    ] {
        ok(&mut client, "d", doc! { "insert": name, "documents": documents }).await;
    }
    let reply = ok(&mut client, "d", doc! { "dbHash": 1, "collections": ["a", "b", "c"] }).await;
    let collections = reply.value("collections");
    let collections = collections.as_document().expect("a document");
    assert_eq!(collections.value("a").as_str().map(str::len), Some(32));
    assert_eq!(collections.value("a").to_string(), collections.value("b").to_string());
    assert_ne!(collections.value("a").to_string(), collections.value("c").to_string());
    let one = ok(&mut client, "d", doc! { "dbHash": 1, "collections": ["a"] }).await;
    assert_eq!(one.value("collections").as_document().map(|found| found.len()), Some(1));
}

#[tokio::test]
async fn latencies_of_a_collection_are_counted_by_the_kind_of_command() {
    let server = Server::start().await;
    let mut client = server.connect();
    ok(&mut client, "d", doc! { "insert": "c", "documents": [{ "_id": 1 }] }).await;
    ok(&mut client, "d", doc! { "create": "v", "viewOn": "c" }).await;
    for _ in 0..3 {
        ok(&mut client, "d", doc! { "find": "c" }).await;
    }
    ok(&mut client, "d", doc! { "listIndexes": "c" }).await;
    let stage = |options: bson::Document| doc! { "$collStats": options };
    let asked = |name: &str, options| doc! { "aggregate": name, "pipeline": [stage(options)], "cursor": {} };
    let reply = ok(
        &mut client,
        "d",
        asked("c", doc! { "latencyStats": { "histograms": true }, "count": Bson::Null }),
    )
    .await;
    let shown = &first_batch(&reply)[0];
    let latencies = shown.value("latencyStats");
    let latencies = latencies.as_document().expect("a document");
    let operations = |kind: &str| {
        let counted = latencies.value(kind);
        let counted = counted.as_document().expect("a document");
        assert!(matches!(counted.value("latency"), Value::Long(_)));
        assert!(counted.value("histogram").as_array().is_some());
        counted.value("ops").to_i64_exact()
    };
    assert_eq!(["reads", "writes", "commands"].map(operations), [Some(3), Some(1), Some(1)]);
    // A view has latencies and no storage.
    ok(&mut client, "d", asked("v", doc! { "latencyStats": {} })).await;
    assert_eq!(client.fails("d", of(&asked("v", doc! { "storageStats": {} }))).await, 166);
    assert_eq!(client.fails("d", of(&asked("c", doc! { "latencyStats": { "histograms": 1 } }))).await, 14);
}

fn secured() -> MongoSettings {
    let key = |text: &str, access| Key { text: text.to_owned(), access };
    MongoSettings {
        keys: vec![key(KEY, Access::Full), key(READ_ONLY, Access::ReadOnly)],
        requires_authentication: true,
        ..MongoSettings::default()
    }
}

async fn signed_in(server: &Server, (database, user): (&str, &str), password: &str) -> Client {
    let mut client = server.connect();
    let reply = prove_at(&mut client, database, user, password).await;
    assert!(reply.value("done").is_true(), "{user}: {reply}");
    client
}

fn of_admin(role: &str) -> bson::Document {
    doc! { "role": role, "db": "admin" }
}

/// A server with users `keeper` and `ada`, dumped by `keeper`.
async fn dumped_users() -> Vec<Document> {
    let server = Server::start_with(secured()).await;
    let mut account = signed_in(&server, ("admin", "localhost"), KEY).await;
    let user = |name: &str, roles: Vec<bson::Document>| {
        doc! { "createUser": name, "pwd": format!("secret of {name}"), "roles": roles, "customData": { "n": 1 } }
    };
    ok(&mut account, "admin", user("keeper", vec![of_admin("backup")])).await;
    ok(&mut account, "admin", user("reader", vec![of_admin("readAnyDatabase")])).await;
    ok(&mut account, "d", user("ada", vec![doc! { "role": "readWrite", "db": "d" }])).await;
    let find = doc! { "find": "system.users", "sort": { "_id": 1 } };
    for (user, password) in [("reader", "secret of reader"), ("localhost", READ_ONLY)] {
        let mut client = signed_in(&server, ("admin", user), password).await;
        assert_eq!(client.fails("admin", of(&find)).await, 13, "{user}");
        let listed = ok(&mut client, "admin", doc! { "listCollections": 1 }).await;
        assert!(first_batch(&listed).is_empty(), "{user}");
    }
    let mut keeper = signed_in(&server, ("admin", "keeper"), "secret of keeper").await;
    let listed = ok(&mut keeper, "admin", doc! { "listDatabases": 1, "nameOnly": true }).await;
    assert!(listed.to_string().contains("name: \"admin\""), "{listed}");
    let names = first_batch(&ok(&mut keeper, "admin", doc! { "listCollections": 1 }).await);
    let names: Vec<Value> = names.iter().map(|shown| shown.value("name")).collect();
    assert_eq!(Value::array(names).to_string(), "[ \"system.users\", \"system.version\" ]");
    let indexes = ok(&mut keeper, "admin", doc! { "listIndexes": "system.users" }).await;
    assert_eq!(first_batch(&indexes).len(), 2);
    let version = doc! { "find": "system.version", "filter": { "_id": "authSchema" } };
    let version = first_batch(&ok(&mut keeper, "admin", version).await);
    assert_eq!(version[0].value("currentVersion").to_i32_exact(), Some(5));
    first_batch(&ok(&mut keeper, "admin", find).await)
}

#[tokio::test]
async fn users_of_a_dump_sign_in_with_their_passwords_where_they_are_restored() {
    let users = dumped_users().await;
    assert_eq!(users.len(), 3);
    let server = Server::start_with(secured()).await;
    let mut account = signed_in(&server, ("admin", "localhost"), KEY).await;
    let other = doc! { "createUser": "other", "pwd": "secret of other", "roles": [] };
    ok(&mut account, "d", other).await;
    let restorer = doc! { "createUser": "mender", "pwd": "secret of mender", "roles": [of_admin("restore")] };
    ok(&mut account, "admin", restorer).await;
    let mut mender = signed_in(&server, ("admin", "mender"), "secret of mender").await;
    let mut insert = of(&doc! { "insert": "tempusers", "bypassEmptyTsReplacement": true, "ordered": false });
    let certified = of(
        &doc! { "_id": "$external.cn", "user": "cn", "db": "$external", "credentials": { "external": true }, "roles": [] },
    );
    let all = users.iter().cloned().chain([certified]).map(Value::document).collect();
    insert.push("documents", Value::array(all));
    mender.ok("admin", insert).await;
    let merge = |drops: bool, database: &str| {
        doc! {
            "_mergeAuthzCollections": 1, "tempUsersCollection": "admin.tempusers", "drop": drops, "db": database,
            "writeConcern": { "w": "majority" },
        }
    };
    // One database; users of others stay.
    ok(&mut mender, "admin", merge(false, "d")).await;
    let mut ada = signed_in(&server, ("d", "ada"), "secret of ada").await;
    ok(&mut ada, "d", doc! { "insert": "c", "documents": [{ "_id": 1 }] }).await;
    assert_eq!(ada.fails("e", of(&doc! { "find": "c" })).await, 13);
    signed_in(&server, ("d", "other"), "secret of other").await;
    let reply = prove_at(&mut server.connect(), "admin", "keeper", "secret of keeper").await;
    assert_eq!(reply.value("code").to_i32_exact(), Some(18));
    // All databases: users that are not among the restored ones are removed.
    let reply = ok(&mut mender, "admin", merge(true, "")).await;
    assert!(reply.value("notes").to_string().contains("$external.cn"), "{reply}");
    signed_in(&server, ("admin", "keeper"), "secret of keeper").await;
    let reply = prove_at(&mut server.connect(), "d", "other", "secret of other").await;
    assert_eq!(reply.value("code").to_i32_exact(), Some(18));
    let info = ok(&mut account, "d", doc! { "usersInfo": "ada" }).await;
    let known = info.value("users");
    let known = known.as_array().expect("a list")[0].as_document().expect("a document").clone();
    let ada = users.iter().find(|user| user.value("user").as_str() == Some("ada")).expect("dumped");
    assert_eq!(known.value("userId").to_string(), ada.value("userId").to_string());
    assert_eq!(known.value("roles").to_string(), ada.value("roles").to_string());
    let mut reader = signed_in(&server, ("admin", "reader"), "secret of reader").await;
    assert_eq!(reader.fails("admin", of(&merge(true, ""))).await, 13);
    assert_eq!(account.fails("admin", of(&doc! { "_mergeAuthzCollections": 1 })).await, 2);
}
