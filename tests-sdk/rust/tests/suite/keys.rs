//! Partition keys of every type, and hierarchical ones.

use crate::support::{Fixture, Outcome, rows, status};
use azure_data_cosmos::FeedScope;
use azure_data_cosmos::models::{ContainerProperties, PartitionKey, PartitionKeyValue};
use serde_json::{Value, json};

// check: partition-key-types
#[tokio::test]
async fn keys_are_texts_numbers_booleans_null_and_nothing() -> Outcome {
    let fixture = Fixture::new().await?;
    let orders = fixture.orders().await?;
    let keys: [(PartitionKey, Value); 6] = [
        ("text \u{e9}/?#".into(), json!("text \u{e9}/?#")),
        (42_i64.into(), json!(42)),
        (PartitionKey::try_from(-0.5)?, json!(-0.5)),
        (true.into(), json!(true)),
        (PartitionKeyValue::NULL.into(), Value::Null),
        (PartitionKeyValue::UNDEFINED.into(), json!({})),
    ];
    for (index, (key, value)) in keys.into_iter().enumerate() {
        let id = format!("o-{index}");
        let mut item = json!({ "id": id, "n": index });
        if !value.is_object() {
            item["customer"] = value;
        }
        orders.create_item(key.clone(), &id, &item, None).await?;
        let read: Value = orders.read_item(key.clone(), &id, None).await?.into_model()?;
        assert_eq!(read["n"], index);
        let found = rows(&orders, "SELECT VALUE c.n FROM c", FeedScope::partition(key.clone())).await?;
        assert_eq!(found, [json!(index)]);
        orders.delete_item(key, &id, None).await?;
    }
    fixture.drop_database().await
}

// check: hierarchical-keys, hierarchical-prefix-queries
#[tokio::test]
async fn hierarchical_keys_are_used_whole_and_in_part() -> Outcome {
    let fixture = Fixture::new().await?;
    let key = ("/tenant", "/user", "/session").into();
    let events = fixture.container(ContainerProperties::new("events", key)).await?;
    for n in 0..12 {
        let (tenant, user) = (format!("t-{}", n % 2), format!("u-{}", n % 3));
        let item = json!({ "id": format!("e-{n}"), "tenant": tenant, "user": user, "session": n, "n": n });
        events.create_item((tenant, user, n as i64), &format!("e-{n}"), &item, None).await?;
    }
    let read: Value = events.read_item(("t-1", "u-2", 5_i64), "e-5", None).await?.into_model()?;
    assert_eq!(read["n"], 5);
    assert_eq!(status(events.read_item(("t-1", "u-2", 6_i64), "e-5", None).await), 404);
    let count = async |scope| Outcome::Ok(rows(&events, "SELECT VALUE c.n FROM c", scope).await?.len());
    assert_eq!(count(FeedScope::partition("t-0")).await?, 6);
    assert_eq!(count(FeedScope::partition(("t-0", "u-1"))).await?, 2);
    assert_eq!(count(FeedScope::partition(("t-0", "u-1", 4_i64))).await?, 1);
    assert_eq!(count(FeedScope::full_container()).await?, 12);
    fixture.drop_database().await
}
