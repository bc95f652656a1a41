//! Puts the web store into an account.
//!
//! Customers are created, and each of their orders is placed the way an application places it: one transactional batch
//! creates the order and increments the customer's count, both or neither. A batch whose order exists already fails as a
//! whole and counts nothing twice, so loading can be repeated.
//!
//! A database that is there already is left alone, because it belongs to the user by then. A load that was interrupted is
//! known by a mark in the data directory and goes on at the next start.

use std::path::Path;

use futures::{StreamExt, TryStreamExt};
use serde_json::Value;
use shardlake_account::{
    Account, BatchKind, BatchOperation, ContainerHandle, ItemReply, KeyInput, Number, Patch, PatchOperation,
};
use shardlake_model::{ErrorKind, Preconditions, RequestContext, Result, Throughput};

use super::DATABASE;
use super::webstore::{CUSTOMER, Customer, PRODUCT, PRODUCT_META, StoreContainer, WebStore};
use crate::private_file::{self, Secrecy};
use crate::seed::{create_missing_container, create_missing_database};

const CONCURRENT: usize = 64;
const MARK: &str = "demo-webstore.unfinished";

/// Whether anything was loaded.
pub async fn load(account: &Account, store: &WebStore, data_dir: Option<&Path>) -> Result<bool, String> {
    let mark = data_dir.map(|directory| directory.join(MARK));
    let unfinished = mark.as_ref().is_some_and(|mark| mark.exists());
    if account.database(DATABASE).is_ok() && !unfinished {
        return Ok(false);
    }
    if let Some(mark) = &mark {
        private_file::write(mark, b"", Secrecy::Public)
            .map_err(|error| format!("the demo: '{}' cannot be written: {error}", mark.display()))?;
    }
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
    let (container, products) = (&container, &products);
    futures::stream::iter(0..store.customers)
        .map(|index| async move { sign_up(account, container, &store.customer(index, products)).await })
        .buffer_unordered(CONCURRENT)
        .try_collect::<()>()
        .await
}

async fn container(account: &Account, container: StoreContainer) -> Result<ContainerHandle> {
    let definition = serde_json::from_value(container.definition()).expect("our own definitions are valid");
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
    let context = RequestContext::internal(account.clock(), account.random().guid());
    match account.create_item(&context, container, None, item.to_string().as_bytes()).await {
        Ok(reply) => Ok(Some(reply)),
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(None),
        Err(error) => Err(error),
    }
}

async fn sign_up(account: &Account, container: &ContainerHandle, customer: &Customer) -> Result<()> {
    create(account, container, &customer.document).await?;
    for count in 1..=customer.orders.len() {
        place_order(account, container, customer, count).await?;
    }
    Ok(())
}

/// Places the customer's order number `count`, counted from 1.
async fn place_order(
    account: &Account,
    container: &ContainerHandle,
    customer: &Customer,
    count: usize,
) -> Result<()> {
    let context = RequestContext::internal(account.clock(), account.random().guid());
    let key = serde_json::json!([customer.id()]).to_string();
    let count_it = PatchOperation::Increment { path: vec!["salesOrderCount".into()], by: Number::Int(1) };
    let operations = vec![
        operation(BatchKind::Create, None, Some(&customer.orders[count - 1])),
        BatchOperation {
            patch: Some(Patch { operations: vec![count_it], condition: None }),
            ..operation(BatchKind::Patch, Some(customer.id()), None)
        },
    ];
    let reply = account.batch(&context, container, KeyInput(&key), operations).await?;
    match reply.outcome {
        Ok(_) => Ok(()),
        Err(failure) if failure.error.kind() == ErrorKind::Conflict => Ok(()),
        Err(failure) => Err(failure.error),
    }
}

fn operation(kind: BatchKind, id: Option<&str>, item: Option<&Value>) -> BatchOperation {
    BatchOperation {
        kind,
        id: id.map(str::to_owned),
        body: item.map(|item| item.to_string().into_bytes()),
        patch: None,
        partition_key: None,
        preconditions: Preconditions::default(),
    }
}
