//! A shop for tests: products with their categories, customers with their orders.

use serde_json::{Value, json};
use shardlake_account::{
    Account, ContainerHandle, FeedScope, FunctionDefinition, FunctionPut, FunctionReport,
};
use shardlake_model::{ContainerDefinition, PartitionKeyDefinition, RequestContext, Result};

use crate::support::json_door::{JsonDoor, KeyInput};
use crate::support::{Fixture, eventually, json as json_of, none};

pub fn context(account: &Account) -> RequestContext {
    RequestContext::internal(account.router().clock(), account.router().random().guid())
}

pub async fn container(fixture: &Fixture, id: &str, key: &str, throughput: u64) -> ContainerHandle {
    let definition = ContainerDefinition::new(id, PartitionKeyDefinition::hash(key));
    fixture.container_with(definition, throughput).await
}

/// A function over `source` that writes to `targets`.
pub fn function(id: &str, source: &str, targets: &[&str], code: &str) -> Value {
    let access = targets.iter().map(|target| ((*target).to_owned(), "readWrite".into())).collect();
    json!({
        "id": id, "source": { "database": "db", "container": source },
        "access": Value::Object(access), "code": code,
    })
}

pub fn with(mut definition: Value, member: &str, value: impl Into<Value>) -> Value {
    definition[member] = value.into();
    definition
}

pub async fn put(account: &Account, definition: &Value) -> Result<FunctionPut> {
    let definition: FunctionDefinition = serde_json::from_value(definition.clone()).expect("well-formed");
    account.functions().put(&context(account), definition).await
}

pub async fn report(account: &Account, id: &str) -> FunctionReport {
    account.functions().function(id).await.expect("there")
}
pub async fn upsert(account: &Account, name: &str, item: Value) {
    let container = account.router().container("db", name).expect("there");
    let json = item.to_string();
    account
        .upsert_item(&context(account), &container, None, json.as_bytes(), &none())
        .await
        .expect("written");
}

pub async fn item(account: &Account, name: &str, key: &str, id: &str) -> Option<Value> {
    let container = account.router().container("db", name).expect("there");
    let key = json!([key]).to_string();
    let read = account.read_item(&context(account), &container, Some(KeyInput(&key)), id, &none()).await;
    read.ok().and_then(|reply| reply.item).map(|item| json_of(&item))
}

/// Every item of a container.
pub async fn items(account: &Account, name: &str) -> Vec<Value> {
    let container = account.router().container("db", name).expect("there");
    let mut all = Vec::new();
    let mut next = None;
    loop {
        let page = account
            .items()
            .read_feed(&context(account), &container, FeedScope::All, None, next.as_deref())
            .await
            .expect("read");
        all.extend(page.items.iter().map(json_of));
        next = page.continuation;
        if next.is_none() {
            return all;
        }
    }
}

/// Waits until a function has had every change.
pub async fn level(account: &Account, id: &str) {
    eventually("the function is level", async || {
        let report = report(account, id).await;
        report.lag.changes == 0 && report.state.name() == "Active"
    })
    .await;
}
