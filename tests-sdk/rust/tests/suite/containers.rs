//! Databases, containers, their policies and their throughput.

use crate::support::{Fixture, Outcome, status};
use azure_data_cosmos::Query;
use azure_data_cosmos::models::{
    ContainerProperties, ThroughputProperties, TimeToLive, UniqueKey, UniqueKeyPolicy,
};
use azure_data_cosmos::options::CreateContainerOptions;
use futures::TryStreamExt;
use serde_json::json;

// check: databases, containers
#[tokio::test]
async fn databases_and_containers_are_found_by_queries() -> Outcome {
    let fixture = Fixture::new().await?;
    fixture.orders().await?;
    let query = Query::from("SELECT * FROM root r WHERE r.id = @id").with_parameter("@id", &fixture.name)?;
    let found: Vec<_> = fixture.client.query_databases(query, None).await?.try_collect().await?;
    assert_eq!(found.len(), 1);
    let found: Vec<_> =
        fixture.database.query_containers("SELECT * FROM c", None).await?.try_collect().await?;
    assert_eq!(found.iter().map(|container| &*container.id).collect::<Vec<_>>(), ["orders"]);
    assert_eq!(status(fixture.client.create_database(&fixture.name, None).await), 409);
    fixture.drop_database().await
}

// check: container-policies, unique-keys
#[tokio::test]
async fn policies_are_kept_and_hold() -> Outcome {
    let fixture = Fixture::new().await?;
    let unique = UniqueKeyPolicy::default().with_unique_key(UniqueKey::default().with_path("/email"));
    let properties = ContainerProperties::new("people", "/team".into())
        .with_unique_key_policy(unique)
        .with_default_ttl(TimeToLive::Seconds(3600));
    let people = fixture.container(properties).await?;
    let read = people.read(None).await?.into_model()?;
    assert_eq!((&*read.id, &read.default_ttl), ("people", &TimeToLive::Seconds(3600)));
    let person = |id: &str, email: &str| json!({ "id": id, "team": "t", "email": email });
    people.create_item("t", "a", &person("a", "a@x"), None).await?;
    assert_eq!(status(people.create_item("t", "b", &person("b", "a@x"), None).await), 409);
    people.create_item("t", "b", &person("b", "b@x"), None).await?;

    let changed = read.with_default_ttl(TimeToLive::Forever);
    people.replace(changed, None).await?;
    assert_eq!(people.read(None).await?.into_model()?.default_ttl, TimeToLive::Forever);
    people.delete(None).await?;
    assert_eq!(status(people.read_item("t", "a", None).await), 404);
    fixture.drop_database().await
}

// check: throughput
#[tokio::test]
async fn throughput_is_read_and_replaced() -> Outcome {
    let fixture = Fixture::new().await?;
    let create = async |id: &'static str, throughput| {
        let options = CreateContainerOptions::default().with_throughput(throughput);
        let properties = ContainerProperties::new(id, "/pk".into());
        fixture.database.create_container(properties, Some(options)).await?;
        fixture.database.container_client(id, None).await
    };
    let manual = create("manual", ThroughputProperties::manual(400)).await?;
    let read = manual.read_throughput(None).await?.expect("it has throughput of its own");
    assert_eq!((read.throughput(), read.autoscale_maximum()), (Some(400), None));
    let replaced = manual
        .begin_replace_throughput(ThroughputProperties::manual(500), None)
        .await?
        .await?
        .into_model()?;
    assert_eq!(replaced.throughput(), Some(500));
    let scaled = create("scaled", ThroughputProperties::autoscale(4000, None)).await?;
    let read = scaled.read_throughput(None).await?.expect("it has throughput of its own");
    assert_eq!(read.autoscale_maximum(), Some(4000));
    fixture.drop_database().await
}
