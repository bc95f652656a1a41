//! A client, a database of its own for each test, and what tests look at.

use azure_data_cosmos::clients::{ContainerClient, DatabaseClient};
use azure_data_cosmos::models::{ContainerProperties, ThroughputProperties};
use azure_data_cosmos::options::{BinaryEncodingOptions, CreateContainerOptions, RoutingStrategy};
use azure_data_cosmos::{AccountEndpoint, AccountReference, CosmosClient, CosmosError, FeedScope, Query};
use futures::TryStreamExt;
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};

pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// How items travel.
#[derive(Debug, Clone, Copy)]
pub enum Encoding {
    Default,
    Text,
    /// Binary on the wire, text for the application.
    BinaryAsText,
}

pub async fn client(scheme: &str, encoding: Encoding) -> Outcome<CosmosClient> {
    let endpoint: AccountEndpoint = std::env::var(format!("SHARDLAKE_{scheme}"))?.parse()?;
    let account = AccountReference::with_authentication_key(endpoint, std::env::var("SHARDLAKE_KEY")?);
    let builder = CosmosClient::builder();
    let builder = match encoding {
        Encoding::Default => builder,
        Encoding::Text => {
            builder.with_binary_encoding_options(BinaryEncodingOptions::new().with_enabled(false))
        }
        Encoding::BinaryAsText => builder
            .with_binary_encoding_options(BinaryEncodingOptions::new().with_request_text_response(true)),
    };
    Ok(builder.build(account, RoutingStrategy::ProximityTo("South Central US".into())).await?)
}

/// A new database, which [`Fixture::drop_database`] takes away.
pub struct Fixture {
    pub client: CosmosClient,
    pub database: DatabaseClient,
    pub name: String,
}

impl Fixture {
    pub async fn new() -> Outcome<Fixture> {
        Fixture::over("HTTP", Encoding::Default).await
    }

    pub async fn over(scheme: &str, encoding: Encoding) -> Outcome<Fixture> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("rust-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let client = client(scheme, encoding).await?;
        let created = client.create_database(&name, None).await?;
        assert_eq!(u16::from(created.status().status_code()), 201);
        let database = client.database_client(name.clone());
        Ok(Fixture { client, database, name })
    }

    /// A container `orders`, whose key is `/customer`.
    pub async fn orders(&self) -> Outcome<ContainerClient> {
        self.container(ContainerProperties::new("orders", "/customer".into())).await
    }

    pub async fn container(&self, properties: ContainerProperties) -> Outcome<ContainerClient> {
        let id = properties.id.to_string();
        self.database.create_container(properties, None).await?;
        Ok(self.database.container_client(id, None).await?)
    }

    /// A container of four physical partitions.
    pub async fn spread(&self) -> Outcome<ContainerClient> {
        let properties = ContainerProperties::new("spread", "/customer".into());
        let options = CreateContainerOptions::default().with_throughput(ThroughputProperties::manual(24_000));
        self.database.create_container(properties, Some(options)).await?;
        Ok(self.database.container_client("spread", None).await?)
    }

    /// The same database for another client.
    pub async fn seen_with(&self, encoding: Encoding) -> Outcome<DatabaseClient> {
        Ok(client("HTTP", encoding).await?.database_client(self.name.clone()))
    }

    pub async fn drop_database(self) -> Outcome {
        self.database.delete(None).await?;
        Ok(())
    }
}

pub async fn rows(
    container: &ContainerClient,
    query: impl Into<Query>,
    scope: FeedScope,
) -> Outcome<Vec<Value>> {
    Ok(container.query_items::<Value>(query, scope, None).await?.try_collect().await?)
}

#[track_caller]
pub fn status<T: std::fmt::Debug>(outcome: Result<T, CosmosError>) -> u16 {
    u16::from(outcome.expect_err("the server refuses this").status().status_code())
}

/// An item without what the server adds.
pub fn own(mut item: Value) -> Value {
    if let Value::Object(members) = &mut item {
        members.retain(|name, _| !name.starts_with('_'));
    }
    item
}
