//! Puts the web store into an account.
//!
//! Customers are created, and each of their orders is placed the way an application places it: the stored procedure
//! `placeOrder` creates the order and increments the customer's count, both or neither. An order that exists already counts
//! nothing twice, so loading can be repeated. Two projections keep the products' copies of category and tag names true.
//!
//! A database that exists already is left alone, because it belongs to the user. An interrupted load leaves a mark in the data
//! directory and continues at the next start.

use std::path::Path;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use shardlake_account::{Account, ContainerHandle, ItemReply, WriteCommand, item_of_json};
use shardlake_model::{
    ContainerDefinition, ErrorKind, KeyComponent, PartitionKey, Preconditions, RequestContext, Result,
    Script, ScriptDefinition, ScriptKind, Throughput,
};

use super::DATABASE;
use super::rules::{PLACE_ORDER, PLACE_ORDER_BODY, projections};
use super::webstore::{CUSTOMER, Customer, PRODUCT, PRODUCT_META, StoreContainer, WebStore};
use crate::private_file::{self, Secrecy};
use crate::seed::{create_missing_container, create_missing_database};

const CONCURRENT: usize = 64;
const MARK: &str = "demo-webstore.unfinished";

/// Whether anything was loaded.
pub async fn load(account: &Account, store: &WebStore, data_dir: Option<&Path>) -> Result<bool, String> {
    let mark = data_dir.map(|directory| directory.join(MARK));
    let unfinished = mark.as_ref().is_some_and(|mark| mark.exists());
    if account.router().database(DATABASE).is_ok() && !unfinished {
        return Ok(false);
    }
    if let Some(mark) = &mark {
        private_file::write(mark, b"", Secrecy::Public)
            .map_err(|error| format!("the demo: '{}' cannot be written: {error}", mark.display()))?;
    }
    tracing::info!(customers = store.customers, "loading the demo");
    fill(account, store).await.map_err(|error| format!("the demo: {error}"))?;
    if let Some(mark) = &mark {
        std::fs::remove_file(mark)
            .map_err(|error| format!("the demo: '{}' cannot be removed: {error}", mark.display()))?;
    }
    Ok(true)
}

async fn fill(account: &Account, store: &WebStore) -> Result<()> {
    create_missing_database(account, DATABASE, None).await?;
    let (meta, products) = (store.product_meta(), store.products());
    create_all(account, PRODUCT_META, &meta).await?;
    create_all(account, PRODUCT, &products).await?;
    let container = container(account, CUSTOMER).await?;
    let place_order = register(account, &container).await?;
    for rule in projections() {
        account.projections().put_projection(&context(account), rule).await?;
    }
    let (container, products, place_order) = (&container, &products, &place_order);
    futures::stream::iter(0..store.customers)
        .map(|index| async move {
            sign_up(account, container, place_order, &store.customer(index, products)).await
        })
        .buffer_unordered(CONCURRENT)
        .try_collect::<()>()
        .await
}

fn context(account: &Account) -> RequestContext {
    RequestContext::internal(account.router().clock(), account.router().random().guid())
}

async fn register(account: &Account, container: &ContainerHandle) -> Result<Arc<Script>> {
    let definition = ScriptDefinition {
        kind: ScriptKind::Procedure,
        id: PLACE_ORDER.to_owned(),
        body: PLACE_ORDER_BODY.to_owned(),
        trigger: None,
        spelling: None,
    };
    let (script, _) = account
        .definitions()
        .upsert_script(&context(account), container, definition, &Preconditions::default())
        .await?;
    Ok(script)
}

async fn container(account: &Account, container: StoreContainer) -> Result<ContainerHandle> {
    let definition = serde_json::from_value(container.definition()).expect("our own definitions are valid");
    // Tables for queries over all containers, where this build and its settings have them.
    let has_table = account.definitions().has_analytical_stores();
    let definition = ContainerDefinition { analytical_storage_ttl: has_table.then_some(-1), ..definition };
    // Customers are spread over several partitions, so that the one query over all of them has something to fan out to.
    let throughput = (container == CUSTOMER).then_some(Throughput::Manual(30_000));
    Ok(create_missing_container(account, DATABASE, definition, throughput).await?.0)
}

async fn create_all(account: &Account, into: StoreContainer, items: &[Value]) -> Result<()> {
    let container = container(account, into).await?;
    let container = &container;
    futures::stream::iter(items)
        .map(|item| async move { create(account, container, item).await.map(|_| ()) })
        .buffer_unordered(CONCURRENT)
        .try_collect::<()>()
        .await
}

/// `None` when it exists.
async fn create(account: &Account, container: &ContainerHandle, item: &Value) -> Result<Option<ItemReply>> {
    let body = item_of_json(item.to_string().as_bytes(), account.router().limits())?;
    match account.items().write_item(&context(account), container, WriteCommand::create(body)).await {
        Ok(written) => Ok(Some(written)),
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(None),
        Err(error) => Err(error),
    }
}

async fn sign_up(
    account: &Account,
    container: &ContainerHandle,
    place_order: &Script,
    customer: &Customer,
) -> Result<()> {
    create(account, container, &customer.document).await?;
    for order in &customer.orders {
        let key = PartitionKey::single(KeyComponent::String(customer.id().to_owned()));
        let arguments = json!([order]).to_string();
        let (context, key) = (context(account), Some(&key));
        account
            .procedures()
            .execute_procedure(&context, container, key, place_order, &arguments, false)
            .await?;
    }
    Ok(())
}
