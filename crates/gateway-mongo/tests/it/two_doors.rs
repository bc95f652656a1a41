//! One container, two APIs: documents written through one can be read through the other (spec mongo.md §11).

use bson::doc;
use shardlake_account::{
    AccountOptions, FeedScope, ItemRead, QueryRequest, QueryWants, ReadCommand, WriteCommand, item_of_json,
    item_of_json_in,
};
use shardlake_gateway_mongo::MongoSettings;
use shardlake_model::{
    ContainerDefinition, KeyComponent, Limits, PartitionKey, PartitionKeyDefinition, Preconditions,
    RequestContext, UniqueKey,
};
use shardlake_mql::{Value, identical};
use shardlake_stdx::{Clock, Guid};
use shardlake_storage::{Shard, ShardOptions};

use crate::client::{NOW, Server, first_batch, of};

fn ctx(server: &Server) -> RequestContext {
    RequestContext::internal(&server.clock, Guid([1; 16]))
}

#[tokio::test]
async fn a_document_is_an_item_in_the_form_of_json() {
    let server = Server::start().await;
    let mut client = server.connect();
    let id = bson::oid::ObjectId::from_bytes([0xAB; 12]);
    let when = bson::DateTime::from_millis(1_700_000_000_000);
    let document =
        doc! { "_id": id, "id": "mine", "when": when, "small": 1i32, "wide": 1i64, "nan": f64::NAN };
    client.ok("d", of(&doc! { "insert": "c", "documents": [document] })).await;
    let container = server.account.router().container_for_items("d", "c").expect("the container");
    let read = ItemRead {
        item: format!("$oid:{}", "ab".repeat(12)).into(),
        preconditions: Preconditions::default(),
    };
    let command = ReadCommand { key: Some(PartitionKey(vec![])), read };
    let item = server
        .account
        .items()
        .read(&ctx(&server), &container, command)
        .await
        .expect("an item")
        .item
        .expect("a version");
    let text = String::from_utf8(item.json_text().to_vec()).expect("JSON");
    let start = format!(
        r#"{{"id":"$oid:{}","$id":"mine","when":{{"$date":"2023-11-14T22:13:20Z"}},"small":1,"wide":1,"nan":{{"$numberDouble":"NaN"}},"_rid""#,
        "ab".repeat(12)
    );
    assert!(text.starts_with(&start), "{text}");
}

#[tokio::test]
async fn an_id_whose_text_does_not_tell_its_type_is_a_text_at_the_other_door() {
    let server = Server::start().await;
    let (ctx, mut client) = (ctx(&server), server.connect());
    let decimal: bson::Decimal128 = "2.50".parse().expect("a decimal");
    let ids = [
        bson::Bson::Int64(6),
        bson::Bson::Double(7.0),
        bson::Bson::Decimal128(decimal),
        bson::Bson::Int32(5),
    ];
    let documents: Vec<_> = ids.iter().map(|id| doc! { "n": 1, "_id": id }).collect();
    client.ok("d", of(&doc! { "insert": "c", "documents": documents })).await;
    let container = server.account.router().container_for_items("d", "c").expect("the container");
    let rows = async |text: &str| {
        let request = QueryRequest {
            text,
            parameters: &[],
            scope: FeedScope::All,
            max_items: Some(100),
            continuation: None,
            resume_filter: None,
            allows_cross_partition: true,
            fans_out: true,
            wants: QueryWants::default(),
        };
        let reply = server.account.queries().query(&ctx, &container, request).await.expect("rows");
        let mut rows: Vec<String> =
            reply.rows.iter().map(|row| String::from_utf8_lossy(row).into_owned()).collect();
        rows.sort();
        rows
    };
    assert_eq!(
        rows("SELECT VALUE c.id FROM c").await,
        [r#""$num:2.5""#, r#""$num:5""#, r#""$num:6""#, r#""$num:7""#]
    );
    assert_eq!(rows("SELECT c.id, c.n FROM c WHERE c.id = '$num:6'").await, [r#"{"id":"$num:6","n":1}"#]);
    // The MongoDB API keeps the types that it was given, also after an update and in each kind of read.
    let update = doc! { "update": "c", "updates": [{ "q": { "_id": { "$gt": 1 } }, "u": { "$inc": { "n": 1 } }, "multi": true }] };
    assert_eq!(client.ok("d", of(&update)).await.value("nModified").to_i64_exact(), Some(4));
    for id in &ids {
        for filter in [doc! { "_id": id }, doc! { "_id": { "$in": [id] }, "n": 2 }] {
            for projection in [doc! {}, doc! { "_id": 1 }, doc! { "n": 1 }] {
                let find = doc! { "find": "c", "filter": filter.clone(), "projection": projection };
                let found = first_batch(&client.ok("d", of(&find)).await);
                assert_eq!(found.len(), 1, "{filter}");
                assert!(
                    identical(&found[0].value("_id"), &of(&doc! { "_id": id }).value("_id")),
                    "{}",
                    found[0]
                );
                assert!(!found[0].has("$_id"), "{}", found[0]);
            }
        }
    }
    let insert = doc! { "insert": "c", "documents": [{ "_id": 6.0 }] };
    assert!(client.run("d", of(&insert)).await.has("writeErrors"), "equal numbers are one identity");
}

#[tokio::test]
async fn what_the_other_door_reads_and_writes_again_keeps_its_kinds() {
    let server = Server::start().await;
    let (ctx, mut client) = (ctx(&server), server.connect());
    let when = bson::DateTime::from_millis(1_700_000_000_000);
    let document = doc! { "_id": "a", "when": when, "list": [bson::oid::ObjectId::from_bytes([7; 12])] };
    client.ok("d", of(&doc! { "insert": "c", "documents": [document] })).await;
    let container = server.account.router().container_for_items("d", "c").expect("the container");
    let read = ItemRead { item: "a".into(), preconditions: Preconditions::default() };
    let command = ReadCommand { key: Some(PartitionKey(vec![])), read };
    let item = server
        .account
        .items()
        .read(&ctx, &container, command)
        .await
        .expect("an item")
        .item
        .expect("a version");
    let is_collection = container.entry.shape.is_collection;
    let body =
        item_of_json_in(&item.json_text(), server.account.router().limits(), is_collection).expect("an item");
    assert_eq!(body.as_bytes(), item.body().as_bytes());
    // In a container of the NoSQL API an object stays an object.
    let definition = ContainerDefinition::new("other", PartitionKeyDefinition::hash("/tenant"));
    let other = server
        .account
        .definitions()
        .create_container(&ctx, "d", definition, None)
        .await
        .expect("a container");
    let is_collection = other.entry.shape.is_collection;
    let body =
        item_of_json_in(&item.json_text(), server.account.router().limits(), is_collection).expect("an item");
    assert_ne!(body.as_bytes(), item.body().as_bytes());
}

#[tokio::test]
async fn an_item_is_a_document_and_a_write_keeps_it_one() {
    let server = Server::start().await;
    let (ctx, mut client) = (ctx(&server), server.connect());
    server.account.definitions().create_database(&ctx, "d", None).await.expect("a database");
    let definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/tenant"));
    let container = server
        .account
        .definitions()
        .create_container(&ctx, "d", definition, None)
        .await
        .expect("a container");
    let body = item_of_json(
        br#"{"id":"$num:7","tenant":"a","_id":"shown","n":1}"#,
        server.account.router().limits(),
    )
    .expect("an item");
    let write = WriteCommand::create(body);
    server.account.items().write_item(&ctx, &container, write).await.expect("written");
    let found = first_batch(&client.ok("d", of(&doc! { "find": "c", "filter": { "_id": 7 } })).await);
    assert_eq!(found[0].value("$_id").as_str(), Some("shown"));
    assert!(matches!(found[0].value("_id"), Value::Int(7)));
    let update = doc! { "update": "c", "updates": [{ "q": { "_id": 7, "tenant": "a" }, "u": { "$inc": { "n": 4 } } }] };
    client.ok("d", of(&update)).await;
    let read = ItemRead { item: "$num:7".into(), preconditions: Preconditions::default() };
    let key = Some(PartitionKey::single(KeyComponent::String("a".to_owned())));
    let item = server
        .account
        .items()
        .read(&ctx, &container, ReadCommand { key, read })
        .await
        .expect("an item")
        .item
        .expect("a version");
    let text = String::from_utf8(item.json_text().to_vec()).expect("JSON");
    assert!(text.starts_with(r#"{"id":"$num:7","tenant":"a","_id":"shown","n":5,"_rid""#), "{text}");
}

#[tokio::test]
async fn indexes_leave_what_the_other_door_has_asked_for() {
    let server = Server::start().await;
    let (ctx, mut client) = (ctx(&server), server.connect());
    server.account.definitions().create_database(&ctx, "d", None).await.expect("a database");
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/tenant"));
    definition.unique_key_policy.unique_keys = vec![UniqueKey { paths: vec!["/email".to_owned()] }];
    let before = server
        .account
        .definitions()
        .create_container(&ctx, "d", definition, None)
        .await
        .expect("a container");
    let index = |unique: bool| doc! { "createIndexes": "c", "indexes": [{ "key": { "tenant": 1, "a": 1 }, "name": "a", "unique": unique }] };
    assert_eq!(client.fails("d", of(&index(true))).await, 67);
    client.ok("d", of(&index(false))).await;
    client.ok("d", of(&doc! { "dropIndexes": "c", "index": "a" })).await;
    let after = server.account.router().container_for_items("d", "c").expect("the container");
    let (before, after) = (&before.container().definition, &after.container().definition);
    assert_eq!(before.indexing_policy, after.indexing_policy);
    assert_eq!(before.unique_key_policy, after.unique_key_policy);
}

/// The NoSQL API addresses the container by its id, in which the name is escaped like an `_id`.
#[tokio::test]
async fn a_collection_may_have_a_name_that_no_container_has() {
    let server = Server::start().await;
    let mut client = server.connect();
    for (name, id) in [
        ("logs/2026", "$str:logs%2F2026"),
        ("a\\b", "$str:a%5Cb"),
        ("why?", "$str:why%3F"),
        ("c#", "$str:c%23"),
        ("end ", "$str:end%20"),
        ("100%", "100%"),
    ] {
        client.ok("d", of(&doc! { "insert": name, "documents": [{ "_id": 1, "n": 1 }] })).await;
        client
            .ok("d", of(&doc! { "createIndexes": name, "indexes": [{ "key": { "n": 1 }, "name": "n" }] }))
            .await;
        let found = client.ok("d", of(&doc! { "find": name, "filter": { "n": 1 } })).await;
        let cursor = found.value("cursor");
        let namespace = cursor.as_document().expect("a cursor").value("ns");
        assert_eq!(namespace.as_str(), Some(format!("d.{name}").as_str()));
        assert_eq!(first_batch(&found).len(), 1, "{name}");
        let listed = client.ok("d", of(&doc! { "listCollections": 1, "filter": { "name": name } })).await;
        assert_eq!(first_batch(&listed).len(), 1, "{name}");
        assert_eq!(client.fails("d", of(&doc! { "create": name, "validator": { "n": 1 } })).await, 48);
        let container = server.account.router().container_for_items("d", id).expect("the container");
        assert_eq!(container.container().definition.id, id);
    }
    let rename = doc! { "renameCollection": "d.why?", "to": "d.so/that" };
    client.ok("admin", of(&rename)).await;
    let out = doc! { "aggregate": "so/that", "pipeline": [{ "$out": "copy#1" }], "cursor": {} };
    client.ok("d", of(&out)).await;
    for name in ["so/that", "copy#1", "end "] {
        let dropped = client.ok("d", of(&doc! { "drop": name })).await;
        assert!(dropped.has("nIndexesWas"), "{name}");
    }
    assert!(server.account.router().container_for_items("d", "$str:so%2Fthat").is_err());
    // The escaped form is a name of its own. A name whose escaped form is too long for an id is refused with the code for names.
    let found = client.ok("d", of(&doc! { "count": "$str:logs%2F2026" })).await;
    assert_eq!(found.value("n").to_i32_exact(), Some(0));
    assert_eq!(client.fails("d", of(&doc! { "create": "/".repeat(100) })).await, 73);
}

#[tokio::test]
async fn a_full_account_refuses_collections_by_a_code_of_its_own() {
    let shard = Shard::open(ShardOptions::memory()).await.expect("a shard in memory opens");
    let limits = Limits { resources_max: 3, ..Limits::default() };
    let options = AccountOptions { limits, ..AccountOptions::default() };
    let server =
        Server::with_options(vec![shard], MongoSettings::default(), Clock::manual(NOW), options).await;
    let mut client = server.connect();
    for name in ["a", "b"] {
        client.ok("d", of(&doc! { "create": name })).await;
    }
    let reply = client.run("d", of(&doc! { "create": "c" })).await;
    assert_eq!(reply.value("code").to_i32_exact(), Some(12501), "{reply}");
    assert_eq!(reply.value("codeName").as_str(), Some("QuotaExceeded"));
    assert!(reply.value("errmsg").as_str().is_some_and(|words| words.contains("--max-containers")));
    assert_eq!(
        client.fails("d", of(&doc! { "insert": "c", "documents": [{ "_id": 1 }] })).await,
        12501,
        "a collection that is made by a write"
    );
    client.ok("d", of(&doc! { "drop": "a" })).await;
    client.ok("d", of(&doc! { "create": "c" })).await;
}

#[tokio::test]
async fn an_index_takes_no_writes_at_either_door() {
    let server = Server::start().await;
    let mut client = server.connect();
    let (ctx, definitions) = (ctx(&server), server.account.definitions());
    let definition = |id: &str| ContainerDefinition::new(id, PartitionKeyDefinition::hash("/k"));
    definitions.create_database(&ctx, "d", None).await.expect("a database");
    definitions.create_container(&ctx, "d", definition("source"), None).await.expect("a source");
    let index = |source: &str| shardlake_model::SecondaryIndexDefinition {
        source_collection_id: source.into(),
        source_collection_rid: None,
        definition: "SELECT c.k FROM c".into(),
        shardlake: Default::default(),
    };
    definitions
        .create_secondary_index(&ctx, "d", definition("index"), index("source"), None)
        .await
        .expect("an index");
    let insert = client.run("d", of(&doc! { "insert": "index", "documents": [{ "k": 1 }] })).await;
    assert_eq!(code_of(&insert), Some(166), "{insert}");
    for command in [
        doc! { "update": "index", "updates": [{ "q": {}, "u": { "k": 2 }, "upsert": true }] },
        doc! { "findAndModify": "index", "query": {}, "update": { "k": 2 }, "upsert": true },
        doc! { "createIndexes": "index", "indexes": [{ "key": { "k": 1 }, "name": "k" }] },
        doc! { "collMod": "index", "validator": { "k": 1 } },
        doc! { "aggregate": "source", "pipeline": [{ "$merge": "index" }], "cursor": {} },
        doc! { "aggregate": "source", "pipeline": [{ "$out": "index" }], "cursor": {} },
    ] {
        let answer = client.run("d", of(&command)).await;
        assert_eq!(code_of(&answer), Some(166), "{command}: {answer}");
    }
    for (from, to) in [("index", "other"), ("source", "other")] {
        let rename = doc! { "renameCollection": format!("d.{from}"), "to": format!("d.{to}") };
        let answer = client.run("admin", of(&rename)).await;
        assert!(code_of(&answer).is_some(), "{from}: {answer}");
    }
    assert!(code_of(&client.run("d", of(&doc! { "drop": "source" })).await).is_some(), "its index is there");
    assert!(first_batch(&client.ok("d", of(&doc! { "find": "index" })).await).is_empty());
    client.ok("d", of(&doc! { "drop": "index" })).await;
    client.ok("d", of(&doc! { "drop": "source" })).await;
    client.ok("d", of(&doc! { "insert": "collection", "documents": [{ "k": 1 }] })).await;
    let refused =
        definitions.create_secondary_index(&ctx, "d", definition("index"), index("collection"), None).await;
    let error = refused.expect_err("a collection");
    assert_eq!(error.kind(), shardlake_model::ErrorKind::Unsupported, "{error}");
}

#[tokio::test]
async fn reads_of_an_index_wait_where_its_definition_asks_for_it() {
    let server = Server::start().await;
    let mut client = server.connect();
    let (ctx, definitions) = (ctx(&server), server.account.definitions());
    let definition = |id: &str| ContainerDefinition::new(id, PartitionKeyDefinition::hash("/k"));
    definitions.create_database(&ctx, "d", None).await.expect("a database");
    definitions.create_container(&ctx, "d", definition("source"), None).await.expect("a source");
    let index = shardlake_model::SecondaryIndexDefinition {
        source_collection_id: "source".into(),
        source_collection_rid: None,
        definition: "SELECT c.k, c.n FROM c".into(),
        shardlake: shardlake_model::IndexSettings {
            reads: shardlake_model::IndexReads::CaughtUp,
            ..Default::default()
        },
    };
    definitions.create_secondary_index(&ctx, "d", definition("index"), index, None).await.expect("an index");
    for n in 0..30 {
        client
            .ok("d", of(&doc! { "insert": "source", "documents": [{ "_id": n, "k": n % 4, "n": n }] }))
            .await;
        let count = match n % 3 {
            0 => {
                first_batch(&client.ok("d", of(&doc! { "find": "index", "filter": { "n": n } })).await).len()
            }
            1 => {
                let pipeline =
                    doc! { "aggregate": "index", "pipeline": [{ "$match": { "n": n } }], "cursor": {} };
                first_batch(&client.ok("d", of(&pipeline)).await).len()
            }
            _ => {
                let counted = client.ok("d", of(&doc! { "count": "index", "query": { "n": n } })).await;
                counted.value("n").to_i64_exact().expect("a number") as usize
            }
        };
        assert_eq!(count, 1, "{n}");
    }
}

/// The code of a failed command, or of its first failed write.
fn code_of(answer: &shardlake_mql::Document) -> Option<i64> {
    let code = answer.value("code").to_i64_exact();
    code.or_else(|| match answer.value("writeErrors") {
        Value::Array(errors) => match errors.first() {
            Some(Value::Document(error)) => error.value("code").to_i64_exact(),
            _ => None,
        },
        _ => None,
    })
}
