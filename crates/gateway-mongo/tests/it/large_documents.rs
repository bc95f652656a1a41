//! Documents of nearly 16 MiB in collections of the MongoDB API: written, changed, relocated, and read through the NoSQL API.

use bson::doc;
use shardlake_account::{
    ItemRead, ItemWrite, Patch, PatchOperation, ReadCommand, SplitAt, WriteCommand, item_of_json, verify,
};
use shardlake_gateway_mongo::MongoSettings;
use shardlake_model::{
    ContainerDefinition, ErrorKind, PartitionKey, PartitionKeyDefinition, Preconditions, RequestContext,
};
use shardlake_mql::{Document, Value};
use shardlake_stdx::{Clock, Guid};
use shardlake_storage::{Shard, ShardOptions};

use crate::client::{Client, NOW, OP_MSG, Server, body_section, first_batch, message, of, sequence_section};
use crate::transactions::Session;

const BYTES_MAX: usize = 16 << 20;
const TOO_LARGE: i32 = 10334;

/// A document of exactly so many bytes.
fn document_of(id: i32, size_bytes: usize) -> bson::Document {
    let with =
        |length: usize| doc! { "_id": id, "k": format!("key {id}"), "n": 0, "pad": "x".repeat(length) };
    let document = with(size_bytes - with(0).to_vec().expect("BSON").len());
    assert_eq!(document.to_vec().expect("BSON").len(), size_bytes);
    document
}

/// Inserts as drivers do: the documents are in a section of their own.
async fn insert(client: &mut Client, collection: &str, documents: &[bson::Document]) -> Document {
    let command = of(&doc! { "insert": collection, "$db": "d" });
    let documents: Vec<Document> = documents.iter().map(of).collect();
    let sections = [body_section(&command), sequence_section("documents", &documents)];
    client.send(OP_MSG, &message(0, &sections)).await;
    client.receive().await.document()
}

fn code_of_first_error(reply: &Document) -> Option<i32> {
    let errors = reply.value("writeErrors");
    errors.as_array()?.first()?.as_document()?.value("code").to_i32_exact()
}

async fn found(client: &mut Client, id: i32) -> Document {
    let reply = client.ok("d", of(&doc! { "find": "c", "filter": { "_id": id } })).await;
    first_batch(&reply).pop().expect("a document")
}

fn ctx(server: &Server) -> RequestContext {
    RequestContext::internal(&server.clock, Guid([1; 16]))
}

#[tokio::test]
async fn documents_of_sixteen_mebibytes_are_written_and_come_back_as_they_were() {
    let server = Server::start().await;
    let mut client = server.connect();
    let large = document_of(1, BYTES_MAX);
    assert_eq!(
        insert(&mut client, "c", std::slice::from_ref(&large)).await.value("n").to_i32_exact(),
        Some(1)
    );
    assert_eq!(found(&mut client, 1).await.to_bytes(), large.to_vec().expect("BSON"));
    let reply = insert(&mut client, "c", &[document_of(2, BYTES_MAX + 1)]).await;
    assert_eq!(code_of_first_error(&reply), Some(TOO_LARGE));
    let one_more = doc! { "q": { "_id": 1 }, "u": { "$set": { "more": 1 } } };
    let reply = client.run("d", of(&doc! { "update": "c", "updates": [one_more] })).await;
    assert_eq!(code_of_first_error(&reply), Some(TOO_LARGE));
    let in_place = doc! { "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } } };
    let reply = client.ok("d", of(&doc! { "update": "c", "updates": [in_place] })).await;
    assert_eq!(reply.value("nModified").to_i32_exact(), Some(1));
    let command =
        doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": { "$inc": { "n": 1 } }, "new": true };
    let reply = client.ok("d", of(&command)).await;
    let value = reply.value("value");
    assert_eq!(value.as_document().expect("a document").value("n").to_i32_exact(), Some(2));
    assert_eq!(found(&mut client, 1).await.to_bytes().len(), BYTES_MAX);
    let pipeline = vec![doc! { "$match": { "_id": 1 } }, doc! { "$out": "copy" }];
    client.ok("d", of(&doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} })).await;
    let reply = client.ok("d", of(&doc! { "find": "copy" })).await;
    assert_eq!(first_batch(&reply)[0].to_bytes().len(), BYTES_MAX);
    let replacement = doc! { "q": { "_id": 1 }, "u": document_of(1, 8 << 20) };
    let replaced = of(&doc! { "update": "c" });
    let sections = [body_section(&with_database(replaced)), sequence_section("updates", &[of(&replacement)])];
    client.send(OP_MSG, &message(0, &sections)).await;
    assert_eq!(client.receive().await.document().value("nModified").to_i32_exact(), Some(1));
    assert_eq!(found(&mut client, 1).await.to_bytes().len(), 8 << 20);
    let removed = client.ok("d", of(&doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] }));
    assert_eq!(removed.await.value("n").to_i32_exact(), Some(1));
}

fn with_database(mut command: Document) -> Document {
    command.push("$db", Value::string("d"));
    command
}

#[tokio::test]
async fn names_that_are_longer_in_storage_take_nothing_from_a_document() {
    let server = Server::start().await;
    let mut client = server.connect();
    // Stored as `$id`, `$_ts`, `$_rid`.
    let with = |length: usize| doc! { "_id": 1, "id": 1, "_ts": 2, "_rid": 3, "pad": "x".repeat(length) };
    let full = with(BYTES_MAX - with(0).to_vec().expect("BSON").len());
    assert_eq!(
        insert(&mut client, "c", std::slice::from_ref(&full)).await.value("n").to_i32_exact(),
        Some(1)
    );
    assert_eq!(found(&mut client, 1).await.to_bytes(), full.to_vec().expect("BSON"));
}

#[tokio::test]
async fn a_batch_of_answers_holds_at_least_one_large_document_and_a_cursor_gives_the_rest() {
    let server = Server::start().await;
    let mut client = server.connect();
    for id in 0..3 {
        insert(&mut client, "c", &[document_of(id, BYTES_MAX - 1000)]).await;
    }
    let reply = client.ok("d", of(&doc! { "find": "c", "sort": { "_id": 1 } })).await;
    let mut sizes: Vec<usize> =
        first_batch(&reply).iter().map(|document| document.to_bytes().len()).collect();
    let cursor = |reply: &Document| reply.value("cursor").as_document().expect("a cursor").value("id");
    let mut id = cursor(&reply).to_i64_exact().expect("a number");
    while id != 0 {
        let reply = client.ok("d", of(&doc! { "getMore": id, "collection": "c" })).await;
        let batch = reply.value("cursor").as_document().expect("a cursor").value("nextBatch");
        let batch = batch.as_array().expect("a list");
        assert!(batch.len() <= 1, "two do not fit one batch");
        sizes.extend(batch.iter().map(|found| found.as_document().expect("a document").to_bytes().len()));
        id = cursor(&reply).to_i64_exact().expect("a number");
    }
    assert_eq!(sizes, [BYTES_MAX - 1000; 3]);
}

#[tokio::test]
async fn transactions_and_change_streams_carry_large_documents() {
    let server = Server::start().await;
    let (mut client, mut session) = (server.connect(), Session::new(1));
    insert(&mut client, "c", &[document_of(1, BYTES_MAX)]).await;
    let watch = doc! { "aggregate": "c", "pipeline": [{ "$changeStream": {} }], "cursor": {} };
    let reply = client.ok("d", of(&watch)).await;
    let cursor = reply.value("cursor").as_document().expect("a cursor").value("id");
    let cursor = cursor.to_i64_exact().expect("a number");
    session.begin();
    let update = doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } } }] };
    client.ok("d", session.part(&update)).await;
    let more = doc! { "insert": "c", "documents": [{ "_id": 9 }] };
    assert_eq!(client.fails("d", session.part(&more)).await, 257, "the transaction is full");
    session.begin();
    client.ok("d", session.part(&update)).await;
    client.ok("admin", session.commit()).await;
    assert_eq!(found(&mut client, 1).await.value("n").to_i32_exact(), Some(1));
    insert(&mut client, "c", &[document_of(2, BYTES_MAX - 1000)]).await;
    let mut kinds = Vec::new();
    while kinds.len() < 2 {
        let more = doc! { "getMore": cursor, "collection": "c", "maxTimeMS": 1 };
        let reply = client.ok("d", of(&more)).await;
        let batch = reply.value("cursor").as_document().expect("a cursor").value("nextBatch");
        for event in batch.as_array().expect("a list").iter() {
            let event = event.as_document().expect("a document");
            let size = event.value("fullDocument").as_document().map(|full| full.to_bytes().len());
            kinds.push((event.value("operationType").as_str().expect("text").to_owned(), size));
        }
    }
    assert_eq!(kinds, [("update".to_owned(), None), ("insert".to_owned(), Some(BYTES_MAX - 1000))]);
}

#[tokio::test]
async fn large_documents_go_along_when_partitions_are_split_merged_and_moved() {
    let mut shards = Vec::new();
    for _ in 0..2 {
        shards.push(Shard::open(ShardOptions::memory()).await.expect("a shard in memory opens"));
    }
    let server = Server::over(shards.clone(), MongoSettings::default(), Clock::manual(NOW)).await;
    let mut client = server.connect();
    client.ok("d", of(&doc! { "create": "c", "shardKey": { "k": "hashed" } })).await;
    for id in 0..4 {
        insert(&mut client, "c", &[document_of(id, BYTES_MAX - 1000)]).await;
    }
    let update = doc! { "q": { "_id": 1, "k": "key 1" }, "u": { "$inc": { "n": 1 } } };
    client.ok("d", of(&doc! { "update": "c", "updates": [update.clone()] })).await;
    let handle = || server.account.router().container_for_items("d", "c").expect("the container");
    let ranges = || handle().entry.record.ranges.iter().map(|range| range.range_id).collect::<Vec<_>>();
    let split = server.account.maintenance().split(&handle(), 0, SplitAt::Middle).await.expect("begins");
    split.finished().await.expect("ends well");
    client.ok("d", of(&doc! { "update": "c", "updates": [update] })).await;
    // The split has moved one of the halves to the other shard.
    let of_place = |place: usize| (ranges()[place], handle().entry.record.ranges[place].shard);
    let (moved, shard) = (of_place(0).0, of_place(1).1);
    let moved = match shard == of_place(0).1 {
        true => server.account.maintenance().move_partition(&handle(), moved, 1 - shard).await,
        false => server.account.maintenance().move_partition(&handle(), moved, shard).await,
    };
    moved.expect("begins").finished().await.expect("ends well");
    let merged = server.account.maintenance().merge(&handle(), &ranges()).await.expect("begins");
    merged.finished().await.expect("ends well");
    for id in 0..4 {
        let whole = found(&mut client, id).await;
        assert_eq!(whole.to_bytes().len(), BYTES_MAX - 1000);
        assert_eq!(whole.value("n").to_i32_exact(), Some(if id == 1 { 2 } else { 0 }));
    }
    let report = verify(shards).await.expect("it can be verified");
    assert_eq!(report.problem_count(), 0, "{report:?}");
}

#[tokio::test]
async fn the_other_door_reads_large_documents_and_writes_none() {
    let server = Server::start().await;
    let mut client = server.connect();
    insert(&mut client, "c", &[document_of(1, BYTES_MAX)]).await;
    let container = server.account.router().container_for_items("d", "c").expect("the container");
    let name = || "$num:1".to_owned();
    let read = ItemRead { item: name().into(), preconditions: Preconditions::default() };
    let command = ReadCommand { key: Some(PartitionKey(vec![])), read };
    let reply = server.account.items().read(&ctx(&server), &container, command).await.expect("it is read");
    assert!(reply.item.expect("a version").json_text().len() > BYTES_MAX - 100);
    let set =
        PatchOperation::Set { path: vec!["n".to_owned()], value: shardlake_document::Value::Bool(true) };
    let patch = Patch { operations: vec![set], condition: None };
    let write = ItemWrite::Patch { item: name().into(), patch, preconditions: Preconditions::default() };
    let command = WriteCommand::of(Some(PartitionKey(vec![])), write);
    let refused =
        server.account.items().write_item(&ctx(&server), &container, command).await.expect_err("too large");
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    let limits = server.account.router().limits();
    let json = format!(r#"{{"id":"a","pad":"{}"}}"#, "x".repeat(3 << 20));
    let refused = item_of_json(json.as_bytes(), limits).expect_err("more than an item of the other API");
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
}

#[tokio::test]
async fn containers_of_the_other_door_keep_its_limit() {
    let server = Server::start().await;
    let mut client = server.connect();
    let context = ctx(&server);
    server.account.definitions().create_database(&context, "d", None).await.expect("a database");
    let definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/k"));
    server
        .account
        .definitions()
        .create_container(&context, "d", definition, None)
        .await
        .expect("a container");
    let reply = insert(&mut client, "c", &[document_of(1, 3 << 20)]).await;
    assert_eq!(code_of_first_error(&reply), Some(TOO_LARGE));
    let reply = insert(&mut client, "c", &[document_of(2, 1 << 20)]).await;
    assert_eq!(reply.value("n").to_i32_exact(), Some(1));
}

#[tokio::test]
async fn a_post_of_two_megabytes_of_comments_is_found_by_any_of_them() {
    let server = Server::start().await;
    let mut client = server.connect();
    let comment = |number: i32| doc! { "id": format!("c{number}"), "by": format!("u{}", number % 800), "text": "x".repeat(40) };
    let post = |id: i32, comments: std::ops::Range<i32>| {
        doc! { "_id": id, "title": "post", "comments": comments.map(comment).collect::<Vec<_>>() }
    };
    let all = doc! { "createIndexes": "c", "indexes": [{ "key": { "$**": 1 }, "name": "all" }] };
    client.ok("d", of(&all)).await;
    let documents = [post(1, 0..26_000), post(2, 0..3)];
    assert!(documents[0].to_vec().expect("BSON").len() > 2 << 20);
    assert_eq!(insert(&mut client, "c", &documents).await.value("n").to_i32_exact(), Some(2));
    for (id, ids) in [("c25999", vec![1]), ("c2", vec![1, 2]), ("c26000", vec![])] {
        let find = doc! { "find": "c", "filter": { "comments.id": id }, "projection": { "_id": 1 }, "sort": { "_id": 1 } };
        let found = first_batch(&client.ok("d", of(&find)).await);
        let found: Vec<_> = found.iter().filter_map(|found| found.value("_id").to_i32_exact()).collect();
        assert_eq!(found, ids, "{id}");
    }
    let removed = client
        .ok("d", of(&doc! { "delete": "c", "deletes": [{ "q": { "comments.by": "u799" }, "limit": 0 }] }));
    assert_eq!(removed.await.value("n").to_i32_exact(), Some(1));
}
