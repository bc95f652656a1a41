//! Transactional batches: everything or nothing.

use crate::support::{Fixture, Outcome, status};
use azure_data_cosmos::TransactionalBatch;
use azure_data_cosmos::options::{BatchReplaceOptions, Precondition};
use serde_json::{Value, json};

// check: batch
#[tokio::test]
async fn every_kind_of_operation_is_done_in_order() -> Outcome {
    let fixture = Fixture::new().await?;
    let orders = fixture.orders().await?;
    orders.create_item("c", "old", &json!({ "id": "old", "customer": "c", "n": 1 }), None).await?;
    let batch = TransactionalBatch::new("c")
        .create_item(json!({ "id": "new", "customer": "c", "n": 0.5 }))?
        .upsert_item(json!({ "id": "up", "customer": "c" }), None)?
        .replace_item("old", json!({ "id": "old", "customer": "c", "n": 2 }), None)?
        .read_item("old", None)
        .delete_item("up", None);
    let response = orders.execute_transactional_batch(batch, None).await?.into_model()?;
    let statuses: Vec<u16> = response.results().iter().map(|result| result.status_code()).collect();
    assert_eq!(statuses, [201, 201, 200, 200, 204]);
    let read: Value = response.results()[3].into_model()?.expect("a read has a body");
    assert_eq!((&read["n"], read["_etag"].as_str()), (&json!(2), response.results()[3].etag()));
    assert!(
        response.results().iter().all(|result| result.request_charge().is_some_and(|charge| charge > 0.0))
    );
    assert_eq!(orders.read_item("c", "new", None).await?.into_model::<Value>()?["n"], 0.5);
    fixture.drop_database().await
}

// check: batch-atomic
#[tokio::test]
async fn one_failure_takes_everything_back() -> Outcome {
    let fixture = Fixture::new().await?;
    let orders = fixture.orders().await?;
    let taken = json!({ "id": "taken", "customer": "c" });
    let etag =
        orders.create_item("c", "taken", &taken, None).await?.headers().etag().expect("an etag").clone();
    orders.replace_item("c", "taken", &taken, None).await?;
    let first = || TransactionalBatch::new("c").create_item(json!({ "id": "a", "customer": "c" }));
    let stale = BatchReplaceOptions::default().with_precondition(Precondition::if_match(etag));
    for (batch, code) in [
        (first()?.create_item(taken.clone())?, 409),
        (first()?.replace_item("taken", taken.clone(), Some(stale))?, 412),
        (first()?.delete_item("none", None), 404),
    ] {
        let response = orders.execute_transactional_batch(batch, None).await?.into_model()?;
        let statuses: Vec<u16> = response.results().iter().map(|result| result.status_code()).collect();
        assert_eq!(statuses, [424, code]);
        assert_eq!(status(orders.read_item("c", "a", None).await), 404);
    }
    fixture.drop_database().await
}
