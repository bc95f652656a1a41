//! Loading of a seed: creates databases, containers and items that the account lacks.

use std::path::Path;

use futures::{StreamExt, TryStreamExt};
use serde_json::Value;
use serde_json::value::RawValue;
use shardlake_account::{Account, ContainerHandle, WriteCommand, item_of_json};
use shardlake_model::{Autoscale, ContainerDefinition, Error, ErrorKind, RequestContext, Throughput};

use super::document::{Seed, SeedContainer, read_items};

/// Items on their way at once: enough for one sync to serve many.
const CONCURRENT_ITEMS: usize = 128;

/// Counts of the resources that loading created. Existing ones are left as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Loaded {
    pub databases_created: u64,
    pub containers_created: u64,
    pub items_created: u64,
    pub existing: u64,
}

/// Loads a seed. An error names the place in the seed; resources created before the error stay.
pub async fn load(account: &Account, seed: &Seed, file: &Path) -> Result<Loaded, String> {
    let mut loaded = Loaded::default();
    for (index, database) in seed.databases.iter().enumerate() {
        let place = format!("the seed file '{}', databases[{index}]", file.display());
        let throughput = throughput(database.throughput, database.autoscale_max_throughput)
            .map_err(|error| format!("{place}: {error}"))?;
        let created = create_missing_database(account, &database.id, throughput).await;
        match created.map_err(|error| format!("{place}: {error}"))? {
            true => loaded.databases_created += 1,
            false => loaded.existing += 1,
        }
        for (index, container) in database.containers.iter().enumerate() {
            let place = format!("{place}.containers[{index}]");
            load_container(account, &database.id, container, file, &place, &mut loaded).await?;
        }
    }
    Ok(loaded)
}

async fn load_container(
    account: &Account,
    database: &str,
    seed: &SeedContainer,
    file: &Path,
    place: &str,
    loaded: &mut Loaded,
) -> Result<(), String> {
    let at_place = |error: &dyn std::fmt::Display| format!("{place}: {error}");
    let definition: ContainerDefinition =
        serde_json::from_value(Value::Object(seed.definition.clone())).map_err(|error| at_place(&error))?;
    let throughput =
        throughput(seed.throughput, seed.autoscale_max_throughput).map_err(|error| at_place(&error))?;
    let wanted_paths = definition.partition_key.paths.clone();
    let (container, created) = create_missing_container(account, database, definition, throughput)
        .await
        .map_err(|error| at_place(&error))?;
    match created {
        true => loaded.containers_created += 1,
        false => loaded.existing += 1,
    }
    if container.container().definition.partition_key.paths != wanted_paths {
        tracing::warn!(container = container.alt_link(), "exists with another partition key than the seed's");
    }
    load_items(account, &container, &seed.items, &format!("{place}.items"), loaded).await?;
    if let Some(name) = &seed.items_file {
        let path = file.parent().unwrap_or(Path::new("")).join(name);
        let items = read_items(&path).map_err(|error| format!("{place}.itemsFile: {error}"))?;
        let place = format!("the file of items '{}', item ", path.display());
        load_items(account, &container, &items, &place, loaded).await?;
    }
    Ok(())
}

async fn load_items(
    account: &Account,
    container: &ContainerHandle,
    items: &[Box<RawValue>],
    place: &str,
    loaded: &mut Loaded,
) -> Result<(), String> {
    let create = async |(index, item): (usize, &RawValue)| {
        let context = RequestContext::internal(account.router().clock(), account.router().random().guid());
        match create(account, &context, container, item.get()).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            Err(error) => Err(format!("{place}[{index}]: {error}")),
        }
    };
    let mut outcomes = futures::stream::iter(items.iter().map(Box::as_ref).enumerate())
        .map(create)
        .buffer_unordered(CONCURRENT_ITEMS);
    while let Some(created) = outcomes.try_next().await? {
        match created {
            true => loaded.items_created += 1,
            false => loaded.existing += 1,
        }
    }
    Ok(())
}

async fn create(
    account: &Account,
    context: &RequestContext,
    container: &ContainerHandle,
    json: &str,
) -> Result<(), Error> {
    let _room = account.router().room_for(context, json.len()).await?;
    let body = item_of_json(json.as_bytes(), account.router().limits())?;
    account.items().write_item(context, container, WriteCommand::create(body)).await.map(drop)
}

fn throughput(manual: Option<u64>, autoscale: Option<u64>) -> Result<Option<Throughput>, Error> {
    match (manual, autoscale) {
        (Some(_), Some(_)) => {
            Err(Error::bad_request("throughput and autoscaleMaxThroughput exclude one another"))
        }
        (Some(units), None) => Ok(Some(Throughput::Manual(units))),
        (None, Some(max_throughput)) => Ok(Some(Throughput::Autoscale(Autoscale::new(max_throughput)))),
        (None, None) => Ok(None),
    }
}

/// Whether the database had to be created.
pub async fn create_missing_database(
    account: &Account,
    id: &str,
    throughput: Option<Throughput>,
) -> Result<bool, Error> {
    let context = RequestContext::internal(account.router().clock(), account.router().random().guid());
    match account.definitions().create_database(&context, id, throughput).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
        Err(error) => Err(error),
    }
}

/// The container, and whether it had to be created.
pub async fn create_missing_container(
    account: &Account,
    database: &str,
    definition: ContainerDefinition,
    throughput: Option<Throughput>,
) -> Result<(ContainerHandle, bool), Error> {
    let context = RequestContext::internal(account.router().clock(), account.router().random().guid());
    let id = definition.id.clone();
    match account.definitions().create_container(&context, database, definition, throughput).await {
        Ok(container) => Ok((container, true)),
        Err(error) if error.kind() == ErrorKind::Conflict => {
            Ok((account.router().container(database, &id)?, false))
        }
        Err(error) => Err(error),
    }
}
