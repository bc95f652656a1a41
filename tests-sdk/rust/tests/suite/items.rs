//! Single items: every shape of value in every encoding, etags, statuses, ids, sizes.

use crate::support::{Encoding, Fixture, Outcome, own, rows, status};
use azure_data_cosmos::models::{PatchInstructions, PatchOperation};
use azure_data_cosmos::options::{
    ContentResponseOnWrite, ItemReadOptions, ItemWriteOptions, OperationOptions, PatchItemOptions,
    Precondition,
};
use azure_data_cosmos::{FeedScope, Query, TransactionalBatch};
use serde_json::{Value, json};

fn sample(id: &str) -> Value {
    json!({
        "id": id, "customer": "contoso", "total": 42.5, "lines": [1, "two", null], "empty": [{}, [], ""],
        "numbers": [0, 31, 32, -1, 255, 65_536, -2_147_483_649_i64, 9_007_199_254_740_993_i64, 0.1, -0.5, 1e300],
        "flags": { "yes": true, "no": false }, "text": "caf\u{e9} \u{1d11e} \"quoted\" \\ \n", "long": "x".repeat(70_000),
        "place": { "type": "Point", "coordinates": [31.9, -4.8] }, "type": "order", "name": "Name",
    })
}

fn with_content() -> ItemWriteOptions {
    let mut operation = OperationOptions::default();
    operation.content_response_on_write = Some(ContentResponseOnWrite::Enabled);
    ItemWriteOptions::default().with_operation_options(operation)
}

async fn live_and_die(scheme: &str, encoding: Encoding) -> Outcome {
    let fixture = Fixture::over(scheme, encoding).await?;
    let orders = fixture.orders().await?;
    let mut order = sample("o-1");
    let created = orders.create_item("contoso", "o-1", &order, Some(with_content())).await?;
    assert_eq!(u16::from(created.status().status_code()), 201);
    assert!(created.headers().request_charge().is_some() && created.headers().session_token().is_some());
    assert_eq!(own(created.into_model()?), order);
    assert_eq!(own(orders.read_item("contoso", "o-1", None).await?.into_model()?), order);

    order["total"] = json!(99);
    let replaced = orders.replace_item("contoso", "o-1", &order, Some(with_content())).await?;
    assert_eq!(own(replaced.into_model()?), order);
    order["total"] = json!(-1);
    let upserted = orders.upsert_item("contoso", "o-1", &order, Some(with_content())).await?;
    assert_eq!(u16::from(upserted.status().status_code()), 200);
    assert_eq!(own(upserted.into_model()?), order);
    let upserted = orders.upsert_item("contoso", "o-2", &sample("o-2"), None).await?;
    assert_eq!(u16::from(upserted.status().status_code()), 201);

    orders.delete_item("contoso", "o-1", None).await?;
    assert_eq!(status(orders.read_item("contoso", "o-1", None).await), 404);
    fixture.drop_database().await
}

// check: items
#[tokio::test]
async fn an_item_lives_and_dies_with_the_defaults() -> Outcome {
    live_and_die("HTTP", Encoding::Default).await
}

#[tokio::test]
async fn an_item_lives_and_dies_over_tls() -> Outcome {
    live_and_die("HTTPS", Encoding::Default).await
}

#[tokio::test]
async fn an_item_lives_and_dies_as_text() -> Outcome {
    live_and_die("HTTP", Encoding::Text).await
}

#[tokio::test]
async fn an_item_lives_and_dies_as_text_over_a_binary_wire() -> Outcome {
    live_and_die("HTTP", Encoding::BinaryAsText).await
}

#[tokio::test]
async fn what_one_encoding_writes_the_others_read() -> Outcome {
    let fixture = Fixture::new().await?;
    fixture.orders().await?;
    let encodings = [Encoding::Default, Encoding::Text, Encoding::BinaryAsText];
    for (index, writer) in encodings.into_iter().enumerate() {
        let id = format!("o-{index}");
        let orders = fixture.seen_with(writer).await?.container_client("orders", None).await?;
        orders.create_item("contoso", &id, &sample(&id), None).await?;
        for reader in encodings {
            let orders = fixture.seen_with(reader).await?.container_client("orders", None).await?;
            let item: Value = orders.read_item("contoso", &id, None).await?.into_model()?;
            assert_eq!(own(item), sample(&id), "{writer:?} {reader:?}");
        }
    }
    fixture.drop_database().await
}

// check: if-match, if-none-match
#[tokio::test]
async fn etags_guard_writes_and_spare_reads() -> Outcome {
    let fixture = Fixture::new().await?;
    let orders = fixture.orders().await?;
    let item = json!({ "id": "a", "customer": "c", "n": 1 });
    let first = orders.create_item("c", "a", &item, None).await?;
    let etag = first.headers().etag().expect("items have etags").clone();
    let guarded = || ItemWriteOptions::default().with_precondition(Precondition::if_match(etag.clone()));
    let read = orders.read_item("c", "a", None).await?;
    assert_eq!(read.headers().etag(), Some(&etag));
    assert_eq!(read.into_model::<Value>()?["_etag"], json!(etag.to_string()));

    orders.replace_item("c", "a", &item, Some(guarded())).await?;
    assert_eq!(status(orders.replace_item("c", "a", &item, Some(guarded())).await), 412);
    assert_eq!(status(orders.upsert_item("c", "a", &item, Some(guarded())).await), 412);
    assert_eq!(status(orders.delete_item("c", "a", Some(guarded())).await), 412);

    let current = orders.read_item("c", "a", None).await?.headers().etag().expect("an etag").clone();
    let unless = ItemReadOptions::default().with_precondition(Precondition::if_none_match(current));
    let unchanged = orders.read_item("c", "a", Some(unless)).await;
    let code = unchanged.map_or_else(|error| error.status(), |read| read.status()).status_code();
    assert_eq!(u16::from(code), 304);
    fixture.drop_database().await
}

// check: items-same-id, partition-key-mismatch
#[tokio::test]
async fn refusals_have_the_services_statuses() -> Outcome {
    let fixture = Fixture::new().await?;
    let orders = fixture.orders().await?;
    let item = json!({ "id": "a", "customer": "c" });
    orders.create_item("c", "a", &item, None).await?;
    assert_eq!(status(orders.create_item("c", "a", &item, None).await), 409);
    assert_eq!(
        status(orders.replace_item("c", "none", &json!({ "id": "none", "customer": "c" }), None).await),
        404
    );
    assert_eq!(status(orders.delete_item("c", "none", None).await), 404);
    assert_eq!(
        status(orders.create_item("other", "b", &json!({ "id": "b", "customer": "c" }), None).await),
        400
    );
    assert_eq!(status(orders.create_item("c", "b", &json!({ "customer": "c" }), None).await), 400);
    assert_eq!(status(orders.create_item("c", "b", &json!(["b"]), None).await), 400);
    assert_eq!(status(orders.read_item("other", "a", None).await), 404);
    fixture.drop_database().await
}

/// The SDK writes such numbers in 64 bits without a sign, and the server says what to do instead.
#[tokio::test]
async fn numbers_that_cannot_be_kept_are_refused() -> Outcome {
    let fixture = Fixture::new().await?;
    let orders = fixture.orders().await?;
    let refused =
        orders.create_item("c", "a", &json!({ "id": "a", "customer": "c", "n": u64::MAX }), None).await;
    let error = refused.expect_err("it is no double");
    assert_eq!(u16::from(error.status().status_code()), 400);
    assert!(error.to_string().contains("send it as a string"), "{error}");
    for number in [json!(i64::MAX), json!(i64::MIN), json!(1_u64 << 63), json!(f64::MAX)] {
        let item = json!({ "id": "a", "customer": "c", "n": number });
        orders.upsert_item("c", "a", &item, None).await?;
        let read: Value = orders.read_item("c", "a", None).await?.into_model()?;
        assert_eq!(read["n"].as_f64(), number.as_f64());
        assert_eq!(read["n"].as_i64().is_some(), number.as_i64().is_some());
    }
    fixture.drop_database().await
}

// check: large-items
#[tokio::test]
async fn large_items_are_taken_up_to_the_limit() -> Outcome {
    let fixture = Fixture::new().await?;
    let orders = fixture.orders().await?;
    let item = |kilobytes: usize| json!({ "id": "a", "customer": "c", "text": "x".repeat(kilobytes << 10), "list": vec![0.25; 10_000] });
    orders.create_item("c", "a", &item(1_900), None).await?;
    let read: Value = orders.read_item("c", "a", None).await?.into_model()?;
    assert_eq!(own(read), item(1_900));
    assert_eq!(status(orders.upsert_item("c", "a", &item(2_040), None).await), 413);
    fixture.drop_database().await
}

// check: item-ids
#[tokio::test]
async fn ids_may_hold_any_characters() -> Outcome {
    let fixture = Fixture::new().await?;
    let orders = fixture.orders().await?;
    for id in ["a b", "caf\u{e9}", "\u{1d11e}", "a+b&c=d", "{x}|^`", "a:b@c,d;e"] {
        let item = json!({ "id": id, "customer": "c" });
        orders.create_item("c", id, &item, None).await?;
        let read: Value = orders.read_item("c", id, None).await?.into_model()?;
        assert_eq!(read["id"], id);
        orders.replace_item("c", id, &item, None).await?;
        orders.delete_item("c", id, None).await?;
        assert_eq!(status(orders.read_item("c", id, None).await), 404, "{id}");
    }
    fixture.drop_database().await
}

/// The SDK does not percent-encode these in paths, so that point operations do not reach them, as
/// in the service. Queries and batches do.
#[tokio::test]
async fn ids_that_look_like_paths_are_reached_by_queries_and_batches() -> Outcome {
    let fixture = Fixture::new().await?;
    let orders = fixture.orders().await?;
    for id in ["a/b", "a?b=c", "a#b", "a\\b", "a%2Fb"] {
        orders.create_item("c", id, &json!({ "id": id, "customer": "c" }), None).await?;
        let query = Query::from("SELECT VALUE c.id FROM c WHERE c.id = @id").with_parameter("@id", id)?;
        assert_eq!(rows(&orders, query, FeedScope::partition("c")).await?, [json!(id)]);
        let batch = TransactionalBatch::new("c").read_item(id, None).delete_item(id, None);
        let response = orders.execute_transactional_batch(batch, None).await?.into_model()?;
        let statuses: Vec<u16> = response.results().iter().map(|result| result.status_code()).collect();
        assert_eq!(statuses, [200, 204], "{id}");
    }
    assert_eq!(rows(&orders, "SELECT * FROM c", FeedScope::partition("c")).await?, [] as [Value; 0]);
    fixture.drop_database().await
}

// check: patch, patch-atomic
#[tokio::test]
async fn patches_apply_in_order_or_not_at_all() -> Outcome {
    let fixture = Fixture::new().await?;
    let orders = fixture.orders().await?;
    let item = json!({ "id": "a", "customer": "c", "n": 1, "list": [1], "old": "x", "gone": true });
    let etag = orders.create_item("c", "a", &item, None).await?.headers().etag().expect("an etag").clone();
    let patch = PatchInstructions::new()
        .with_operation(PatchOperation::set("/new", json!({ "a": null })))
        .with_operation(PatchOperation::add("/list/0", json!(0)))
        .with_operation(PatchOperation::replace("/old", json!("y")))
        .with_operation(PatchOperation::remove("/gone"))
        .with_operation(PatchOperation::increment("/n", 5_i64))
        .with_operation(PatchOperation::move_value("/old", "/moved"));
    orders.patch_item("c", "a", patch, None).await?;
    let patched: Value = orders.read_item("c", "a", None).await?.into_model()?;
    let expected =
        [("new", json!({ "a": null })), ("list", json!([0, 1])), ("n", json!(6)), ("moved", json!("y"))];
    for (name, value) in expected {
        assert_eq!(patched[name], value, "{name}");
    }
    assert!(patched.get("gone").is_none() && patched.get("old").is_none());

    let touch = || PatchInstructions::new().with_operation(PatchOperation::set("/n", json!(0)));
    let fails = touch().with_operation(PatchOperation::remove("/none"));
    assert_eq!(status(orders.patch_item("c", "a", fails, None).await), 400);
    let stale = PatchItemOptions::default().with_precondition(Precondition::if_match(etag));
    assert_eq!(status(orders.patch_item("c", "a", touch(), Some(stale)).await), 412);
    assert_eq!(status(orders.patch_item("c", "none", touch(), None).await), 404);
    assert_eq!(orders.read_item("c", "a", None).await?.into_model::<Value>()?["n"], 6);
    fixture.drop_database().await
}
