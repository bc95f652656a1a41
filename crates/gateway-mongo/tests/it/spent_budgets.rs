//! Errors when the budget of a collection is spent. The clock stands still, so that no budget comes back by itself.

use std::time::Duration;

use bson::doc;
use shardlake_mql::{Document, Value};

use crate::client::{Client, Server, of};

const DOCUMENTS: i32 = 600;
/// Time after which an overdrawn budget is full again.
const REST: Duration = Duration::from_secs(60);

/// A collection of 400 RU/s.
async fn filled(server: &Server) -> Client {
    let mut client = server.connect();
    client
        .ok("d", of(&doc! { "customAction": "CreateCollection", "collection": "c", "offerThroughput": 400 }))
        .await;
    for start in (0..DOCUMENTS).step_by(100) {
        let documents: Vec<bson::Document> =
            (start..start + 100).map(|n| doc! { "_id": n, "n": 0, "pad": "x".repeat(200) }).collect();
        let told = client.ok("d", of(&doc! { "insert": "c", "documents": documents })).await;
        assert!(!told.has("writeErrors"), "{told:?}");
        server.clock.advance(REST);
    }
    client
}

fn number(reply: &Document, name: &str) -> i64 {
    reply.value(name).to_i64_exact().unwrap_or_else(|| panic!("{name}: {reply:?}"))
}

fn only_error(reply: &Document) -> Document {
    let errors = reply.value("writeErrors");
    match errors.as_array().map(|errors| errors.as_slice()) {
        Some([one]) => Document::clone(one.as_document().expect("a document")),
        other => panic!("one error: {other:?}"),
    }
}

async fn count(server: &Server, client: &mut Client, query: bson::Document) -> i64 {
    server.clock.advance(REST);
    number(&client.ok("d", of(&doc! { "count": "c", "query": query })).await, "n")
}

/// Repeats a command until the budget is spent, and returns the refusal.
async fn spend(client: &mut Client, command: &Document) -> Document {
    for _ in 0..10_000 {
        let reply = client.run("d", command.clone()).await;
        if reply.value("ok").to_f64() != Some(1.0) {
            return reply;
        }
    }
    panic!("nothing refuses");
}

#[tokio::test]
async fn reads_that_are_refused_say_how_long_to_wait() {
    let server = Server::start().await;
    let mut client = filled(&server).await;
    let group = doc! { "$group": { "_id": null, "n": { "$sum": 1 } } };
    let lookup = doc! { "$lookup": { "from": "c", "localField": "n", "foreignField": "_id", "as": "l" } };
    for command in [
        doc! { "find": "c", "filter": { "_id": 1 } },
        doc! { "find": "c" },
        doc! { "count": "c", "query": { "n": 0 } },
        doc! { "distinct": "c", "key": "n" },
        doc! { "aggregate": "c", "pipeline": [group.clone()], "cursor": {} },
        doc! { "aggregate": "c", "pipeline": [{ "$match": { "_id": { "$lt": 3 } } }, lookup], "cursor": {} },
    ] {
        let refused = spend(&mut client, &of(&command)).await;
        assert_eq!(number(&refused, "code"), 16500, "{command}");
        let wait = number(&refused, "retryAfterMs");
        assert!(wait > 0, "{command}: {refused:?}");
        let words = format!("RetryAfterMs={wait},");
        assert!(refused.value("errmsg").as_str().is_some_and(|told| told.contains(&words)), "{refused:?}");
        assert!(!refused.has("errorLabels"), "drivers would repeat at once");
        server.clock.advance(REST);
    }
}

#[tokio::test]
async fn an_update_of_many_tells_what_it_did_before_the_budget_was_spent() {
    let server = Server::start().await;
    let mut client = filled(&server).await;
    let statement = doc! { "q": { "n": 0 }, "u": { "$set": { "n": 1 } }, "multi": true };
    let told = client.ok("d", of(&doc! { "update": "c", "updates": [statement] })).await;
    let error = only_error(&told);
    assert_eq!((number(&error, "index"), number(&error, "code")), (0, 16500), "{told:?}");
    assert!(number(&error, "retryAfterMs") > 0, "{told:?}");
    let done = number(&told, "nModified");
    assert!(done > 0 && done < i64::from(DOCUMENTS), "{told:?}");
    assert_eq!(number(&told, "n"), done);
    assert_eq!(count(&server, &mut client, doc! { "n": 1 }).await, done, "no more and no less");
}

#[tokio::test]
async fn a_delete_of_many_tells_what_it_did_before_the_budget_was_spent() {
    let server = Server::start().await;
    let mut client = filled(&server).await;
    let delete = doc! { "delete": "c", "deletes": [{ "q": { "n": 0 }, "limit": 0 }], "ordered": false };
    let told = client.ok("d", of(&delete)).await;
    assert_eq!(number(&only_error(&told), "code"), 16500, "{told:?}");
    let done = number(&told, "n");
    assert!(done > 0 && done < i64::from(DOCUMENTS), "{told:?}");
    assert_eq!(count(&server, &mut client, doc! {}).await, i64::from(DOCUMENTS) - done);
}

#[tokio::test]
async fn a_bulk_write_counts_what_a_refused_statement_did() {
    let server = Server::start().await;
    let mut client = filled(&server).await;
    let update =
        doc! { "update": 0, "filter": { "n": 0 }, "updateMods": { "$set": { "n": 1 } }, "multi": true };
    let bulk = doc! { "bulkWrite": 1, "ops": [update], "nsInfo": [{ "ns": "d.c" }] };
    let told = client.ok("admin", of(&bulk)).await;
    let done = number(&told, "nModified");
    assert!(done > 0 && done < i64::from(DOCUMENTS), "{told:?}");
    assert_eq!((number(&told, "nErrors"), number(&told, "nMatched")), (1, done), "{told:?}");
    let cursor = told.value("cursor");
    let batch = cursor.as_document().expect("a cursor").value("firstBatch");
    let Some([Value::Document(shown)]) = batch.as_array().map(|batch| batch.as_slice()) else {
        panic!("one result: {batch:?}");
    };
    assert_eq!((number(shown, "code"), number(shown, "nModified")), (16500, done), "{shown:?}");
    assert_eq!(count(&server, &mut client, doc! { "n": 1 }).await, done);
}

/// All documents of a cursor, whose refused batches are requested again, and the number of refusals.
async fn read_through(server: &Server, client: &mut Client, find: bson::Document) -> (Vec<i64>, usize) {
    let opened = client.ok("d", of(&find)).await;
    let cursor = opened.value("cursor");
    let id = cursor.as_document().expect("a cursor").value("id").to_i64_exact();
    let (mut ids, mut refusals) = (Vec::new(), 0);
    loop {
        let reply = client.run("d", of(&doc! { "getMore": id, "collection": "c", "batchSize": 40 })).await;
        if reply.value("ok").to_f64() != Some(1.0) {
            assert_eq!(number(&reply, "code"), 16500, "{reply:?}");
            refusals += 1;
            server.clock.advance(Duration::from_millis(5));
            continue;
        }
        let cursor = reply.value("cursor");
        let cursor = cursor.as_document().expect("a cursor");
        let batch = cursor.value("nextBatch");
        let documents = batch.as_array().expect("a list").iter().filter_map(Value::as_document);
        ids.extend(documents.map(|document| number(document, "_id")));
        if cursor.value("id").to_i64_exact() == Some(0) {
            return (ids, refusals);
        }
        // Other requests spend the budget, so that the next batch is refused, or broken off between two pages.
        spend(client, &of(&doc! { "find": "c", "filter": { "_id": 1 } })).await;
        server.clock.advance(Duration::from_millis(3));
    }
}

#[tokio::test]
async fn a_batch_that_is_refused_comes_whole_when_it_is_asked_for_again() {
    let server = Server::start().await;
    let mut client = filled(&server).await;
    let filter = doc! { "_id": { "$mod": [3, 0] } };
    let unsorted = doc! { "find": "c", "filter": filter.clone(), "batchSize": 0 };
    let mut sorted = unsorted.clone();
    sorted.insert("sort", doc! { "_id": -1 });
    // A sort reads everything at once, and so may be refused at its first batch alone.
    for (find, is_sorted) in [(unsorted, false), (sorted, true)] {
        spend(&mut client, &of(&doc! { "find": "c", "filter": { "_id": 1 } })).await;
        server.clock.advance(Duration::from_millis(3));
        let (mut ids, refusals) = read_through(&server, &mut client, find).await;
        ids.sort_unstable();
        let wanted: Vec<i64> = (0..i64::from(DOCUMENTS)).filter(|id| id % 3 == 0).collect();
        assert_eq!(ids, wanted, "each once");
        assert!(refusals > 0 || is_sorted);
        server.clock.advance(REST);
    }
}
