//! Full partitions: refused operations, their messages, and operations that still work.

use serde_json::{Value, json};
use shardlake_model::Limits;

use crate::batch::{atomic, statuses};
use crate::harness::{Answer, ITEMS, Server};

/// Sizes a millionth of the service's: 20.97 KB for a partition key, 52.42 KB for a partition, twice that at most.
fn small() -> Limits {
    let scaled = Limits::default().scaled("1/1000000".parse().expect("a scale"));
    // One partition for the container all the same.
    Limits { throughput_per_partition: Limits::default().throughput_per_partition, ..scaled }
}

fn item(id: &str, pk: &str, padding: usize) -> Value {
    json!({ "id": id, "pk": pk, "pad": "x".repeat(padding) })
}

async fn upsert(server: &Server, item: Value) -> Answer {
    let key = json!([item["pk"]]).to_string();
    server.post(ITEMS).key(&key).header("x-ms-documentdb-is-upsert", "true").json(item).send().await
}

/// Two items that fill the logical partition `k` but for a few hundred bytes.
async fn nearly_full() -> Server {
    let server = Server::with_limits(small()).await;
    server.create(item("a", "k", 10_000)).await;
    server.create(item("b", "k", 10_000)).await;
    server
}

#[tokio::test]
async fn a_full_partition_key_refuses_to_grow_and_others_do_not_notice() {
    let server = nearly_full().await;
    let refused = server.post(ITEMS).key(r#"["k"]"#).json(item("c", "k", 2000)).send().await;
    let refused = refused.refused(403, 1014, "Partition key reached maximum size of 20.97 KB");
    assert_eq!(refused.json()["code"], "Forbidden");
    assert!(
        refused.message().contains(r#"{"Errors":["Partition key reached maximum size of"#),
        "{refused:?}"
    );
    assert!(refused.charge() > 0.0);
    assert!(refused.header("x-ms-session-token").is_some());
    assert_eq!(refused.lsn(), 2, "nothing was written");
    server.item("GET", "c", r#"["k"]"#).send().await.expect(404);
    // Every way to grow is refused; writes that fit are accepted.
    upsert(&server, item("a", "k", 12_000)).await.refused(403, 1014, "Partition key");
    let replace = server.item("PUT", "b", r#"["k"]"#).json(item("b", "k", 12_000));
    replace.send().await.refused(403, 1014, "Partition key");
    let patch = json!({ "operations": [{ "op": "set", "path": "/more", "value": "y".repeat(2000) }] });
    server.item("PATCH", "b", r#"["k"]"#).json(patch).send().await.refused(403, 1014, "Partition key");
    server.create(item("small", "k", 10)).await;
    server.create(item("c", "other", 2000)).await;
}

#[tokio::test]
async fn shrinking_and_deleting_always_work_and_make_room() {
    let server = nearly_full().await;
    let full = || server.post(ITEMS).key(r#"["k"]"#).json(item("c", "k", 2000)).send();
    full().await.refused(403, 1014, "Partition key");
    upsert(&server, item("a", "k", 8_000)).await.expect(200);
    full().await.expect(201);
    let more = || server.post(ITEMS).key(r#"["k"]"#).json(item("d", "k", 9_000)).send();
    more().await.refused(403, 1014, "Partition key");
    server.item("DELETE", "b", r#"["k"]"#).send().await.expect(204);
    more().await.expect(201);
}

#[tokio::test]
async fn items_whose_time_has_run_out_make_room_when_it_is_needed() {
    let server = nearly_full().await;
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let with_ttl = json!({ "id": "items", "partitionKey": key, "defaultTtl": 100 });
    server.put("/dbs/db/colls/items").json(with_ttl).send().await.expect(200);
    let kept = json!({ "id": "kept", "pk": "k", "ttl": -1 });
    server.create(kept).await;
    let more = || server.post(ITEMS).key(r#"["k"]"#).json(item("c", "k", 15_000)).send();
    more().await.refused(403, 1014, "Partition key");
    server.clock.advance(std::time::Duration::from_secs(99));
    more().await.refused(403, 1014, "Partition key");
    server.clock.advance(std::time::Duration::from_secs(1));
    more().await.expect(201);
    server.item("GET", "a", r#"["k"]"#).send().await.expect(404);
    server.item("GET", "kept", r#"["k"]"#).send().await.expect(200);
    // The deleted bytes alone are free again.
    let too_much = server.post(ITEMS).key(r#"["k"]"#).json(item("d", "k", 10_000)).send().await;
    too_much.refused(403, 1014, "Partition key");
}

#[tokio::test]
async fn a_batch_is_measured_as_a_whole() {
    let server = nearly_full().await;
    let create = |id: &str, padding: usize| json!({ "operationType": "Create", "resourceBody": item(id, "k", padding) });
    let delete = |id: &str| json!({ "operationType": "Delete", "id": id });
    // The size exceeds the limit in between, but not at the end.
    let answer = atomic(&server, json!([create("c", 9_000), delete("a")])).await.expect(200);
    assert_eq!(statuses(&answer), [201, 204]);
    let answer = atomic(
        &server,
        json!([delete("c"), create("d", 10_000), create("e", 1000), { "operationType": "Read", "id": "b" }]),
    );
    let answer = answer.await;
    assert_eq!(answer.status, 207, "{answer:?}");
    assert_eq!(statuses(&answer), [424, 424, 403, 424]);
    assert_eq!(answer.json()[2]["subStatusCode"], 1014);
    server.item("GET", "c", r#"["k"]"#).send().await.expect(200);
    server.item("GET", "d", r#"["k"]"#).send().await.expect(404);
}

#[tokio::test]
async fn bulk_operations_are_refused_one_by_one() {
    let server = nearly_full().await;
    let create = |id: &str, pk: &str| json!({ "operationType": "Create", "partitionKey": json!([pk]).to_string(), "resourceBody": item(id, pk, 2000) });
    let call = server.post(ITEMS).header("x-ms-cosmos-is-batch-request", "true");
    let call = call
        .header("x-ms-cosmos-batch-atomic", "false")
        .header("x-ms-cosmos-batch-continue-on-error", "true");
    let call = call.header("x-ms-documentdb-partitionkeyrangeid", "0");
    let answer = call.json(json!([create("c", "k"), create("d", "free")])).send().await;
    assert_eq!(statuses(&answer), [403, 201]);
    assert_eq!(answer.json()[0]["subStatusCode"], 1014);
}

#[tokio::test]
async fn a_partition_that_nobody_splits_takes_twice_its_size_and_no_more() {
    let server = Server::with_limits(small()).await;
    let mut created = 0;
    let refused = loop {
        let answer = upsert(&server, item("a", &format!("k{created}"), 10_000)).await;
        if answer.status != 201 {
            break answer;
        }
        created += 1;
    };
    refused.refused(403, 0, "the physical partition has reached 104.85 KB");
    assert_eq!(created, 10, "items of 10 KB in twice 52.42 KB");
    upsert(&server, item("a", "k3", 5_000)).await.expect(200);
    server.item("DELETE", "a", r#"["k4"]"#).send().await.expect(204);
    upsert(&server, item("a", "again", 10_000)).await.expect(201);
}
