//! Create, read, replace, condition, batch and delete through the official Rust SDK, over plain HTTP and over TLS.
//!
//! `SHARDLAKE_HTTP`, `SHARDLAKE_HTTPS` and `SHARDLAKE_KEY` name the server, and `SSL_CERT_FILE` its authority's certificate. The SDK's binary
//! encoding of item bodies is switched off by the setting it has for that; a last test pins what happens with it on.

use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::models::ContainerProperties;
use azure_data_cosmos::options::{BinaryEncodingOptions, ItemWriteOptions, Precondition, RoutingStrategy};
use azure_data_cosmos::{AccountEndpoint, AccountReference, CosmosClient, TransactionalBatch};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

async fn client(scheme: &str, binary: bool) -> Outcome<CosmosClient> {
    let endpoint: AccountEndpoint = std::env::var(format!("SHARDLAKE_{scheme}"))?.parse()?;
    let account = AccountReference::with_authentication_key(endpoint, std::env::var("SHARDLAKE_KEY")?);
    let encoding = BinaryEncodingOptions::new().with_enabled(binary);
    let client = CosmosClient::builder()
        .with_binary_encoding_options(encoding)
        .build(account, RoutingStrategy::ProximityTo("South Central US".into()))
        .await?;
    Ok(client)
}

fn unique(name: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    format!("{name}-{}", now.as_nanos())
}

async fn container(client: &CosmosClient, database: &str) -> Outcome<ContainerClient> {
    let created = client.create_database(database, None).await?;
    assert_eq!(u16::from(created.status().status_code()), 201);
    let database = client.database_client(database.to_owned());
    let properties = ContainerProperties::new("orders", "/customer".into());
    database.create_container(properties, None).await?;
    assert_eq!(database.read(None).await?.into_model()?.id.as_deref(), database.name());
    Ok(database.container_client("orders", None).await?)
}

async fn smoke(scheme: &str) -> Outcome {
    let client = client(scheme, false).await?;
    let name = unique("rust");
    let orders = container(&client, &name).await?;
    let order = json!({ "id": "o-1", "customer": "contoso", "total": 42.5, "lines": [1, "two", null] });

    let created = orders.create_item("contoso", "o-1", &order, None).await?;
    assert_eq!(u16::from(created.status().status_code()), 201);
    let read = orders.read_item("contoso", "o-1", None).await?;
    let etag = read.headers().etag().expect("items have etags").clone();
    let item: Value = read.into_model()?;
    assert_eq!((&item["total"], &item["lines"]), (&order["total"], &order["lines"]));

    let changed = json!({ "id": "o-1", "customer": "contoso", "total": 99 });
    let guarded = || ItemWriteOptions::default().with_precondition(Precondition::if_match(etag.clone()));
    orders.replace_item("contoso", "o-1", &changed, Some(guarded())).await?;
    let stale = orders.replace_item("contoso", "o-1", &changed, Some(guarded())).await;
    assert_eq!(u16::from(stale.expect_err("the etag is old").status().status_code()), 412);
    orders.upsert_item("contoso", "o-2", &json!({ "id": "o-2", "customer": "contoso" }), None).await?;

    let batch = TransactionalBatch::new("contoso")
        .create_item(json!({ "id": "o-3", "customer": "contoso" }))?
        .delete_item("o-2", None);
    let results = orders.execute_transactional_batch(batch, None).await?.into_model()?;
    let statuses: Vec<u16> = results.results().iter().map(|result| result.status_code()).collect();
    assert_eq!(statuses, [201, 204]);

    assert!(!orders.read_feed_ranges(None).await?.is_empty());
    orders.delete_item("contoso", "o-1", None).await?;
    let gone = orders.read_item("contoso", "o-1", None).await.expect_err("it was deleted");
    assert_eq!(u16::from(gone.status().status_code()), 404);
    client.database_client(name).delete(None).await?;
    Ok(())
}

#[tokio::test]
async fn over_plain_http() -> Outcome {
    smoke("HTTP").await
}

#[tokio::test]
async fn over_tls() -> Outcome {
    smoke("HTTPS").await
}

/// FIXME: the SDK sends item bodies in the service's binary JSON unless told otherwise, and the server does not read them yet. Until it
/// does, it must refuse them as bad input and stay healthy, never store them as something else.
#[tokio::test]
async fn binary_bodies_are_refused() -> Outcome {
    let client = client("HTTP", true).await?;
    let name = unique("rust-binary");
    let orders = container(&client, &name).await?;
    let item = json!({ "id": "b-1", "customer": "contoso" });
    let refused = orders.create_item("contoso", "b-1", &item, None).await.expect_err("not supported yet");
    assert_eq!(u16::from(refused.status().status_code()), 400, "{refused}");
    let absent = orders.read_item("contoso", "b-1", None).await.expect_err("nothing was stored");
    assert_eq!(u16::from(absent.status().status_code()), 404);
    client.database_client(name).delete(None).await?;
    Ok(())
}
