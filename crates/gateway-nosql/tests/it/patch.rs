//! Partial updates over the wire.

use serde_json::json;
use shardlake_model::Limits;

use crate::batch::atomic;
use crate::harness::Server;

#[tokio::test]
async fn all_six_operations_apply_in_order() {
    let server = Server::with_container().await;
    server
        .create(json!({ "id": "a", "pk": "k", "n": 1, "list": [1, 2], "old": { "x": 1 }, "gone": true }))
        .await;
    let operations = json!([
        { "op": "add", "path": "/list/0", "value": 0 },
        { "op": "set", "path": "/list/3", "value": 3 },
        { "op": "replace", "path": "/n", "value": 10 },
        { "op": "incr", "path": "/n", "value": 5 },
        { "op": "remove", "path": "/gone" },
        { "op": "move", "from": "/old/x", "path": "/new" },
    ]);
    let patched =
        server.item("PATCH", "a", r#"["k"]"#).json(json!({ "operations": operations })).send().await;
    let item = patched.expect(200).json();
    assert_eq!(
        (&item["list"], &item["n"], &item["new"], &item["old"]),
        (&json!([0, 1, 2, 3]), &json!(15), &json!(1), &json!({}))
    );
    assert!(item.get("gone").is_none());
}

#[tokio::test]
async fn a_patch_that_fails_changes_nothing() {
    let server = Server::with_container().await;
    let created = server.create(json!({ "id": "a", "pk": "k", "n": 1 })).await;
    let patch = |body| server.item("PATCH", "a", r#"["k"]"#).json(body);
    for body in [
        json!({ "operations": [{ "op": "set", "path": "/n", "value": 2 }, { "op": "remove", "path": "/none" }] }),
        json!({ "operations": [{ "op": "set", "path": "/pk", "value": "x" }] }),
        json!({ "operations": [{ "op": "set", "path": "/id", "value": "x" }] }),
        json!({ "operations": [{ "op": "set", "path": "/_ts", "value": 1 }] }),
        json!({ "operations": [] }),
        json!({ "operations": vec![json!({ "op": "incr", "path": "/n", "value": 1 }); 11] }),
    ] {
        patch(body.clone()).send().await.expect(400);
    }
    let stale =
        patch(json!([{ "op": "set", "path": "/n", "value": 2 }])).header("if-match", "\"x\"").send().await;
    stale.refused(412, 0, "one of the specified precondition is not met");
    server
        .item("PATCH", "none", r#"["k"]"#)
        .json(json!([{ "op": "set", "path": "/n", "value": 2 }]))
        .send()
        .await
        .expect(404);
    assert_eq!(server.item("GET", "a", r#"["k"]"#).send().await.json(), created.json());
}

#[tokio::test]
async fn a_condition_decides_whether_a_patch_applies() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k", "n": 1 })).await;
    let patch = |condition: &str| {
        let operations = json!([{ "op": "incr", "path": "/n", "value": 1 }]);
        server
            .item("PATCH", "a", r#"["k"]"#)
            .json(json!({ "condition": condition, "operations": operations }))
    };
    patch("from c where c.n = 2").send().await.expect(412);
    assert_eq!(patch("from c where c.n = 1").send().await.expect(200).json()["n"], 2);
    patch("where where").send().await.expect(400);
}

#[tokio::test]
async fn a_patch_with_a_value_larger_than_an_item_is_too_large() {
    let server = Server::with_limits(Limits { item_size_bytes_max: 1_000, ..Limits::default() }).await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    for op in ["add", "set", "replace"] {
        let operations = json!([{ "op": op, "path": "/text", "value": "x".repeat(1_001) }]);
        let patch = json!({ "operations": operations });
        let answer = server.item("PATCH", "a", r#"["k"]"#).json(patch.clone()).send().await;
        answer.refused(413, 0, "patch operation 0");
        let batch = json!([{ "operationType": "Patch", "id": "a", "resourceBody": patch }]);
        atomic(&server, batch).await.refused(413, 0, "patch operation 0");
    }
}
