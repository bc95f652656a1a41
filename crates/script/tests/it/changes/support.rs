//! Runs of functions over changes, against a store that keeps items in a map.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use shardlake_model::Result;
use shardlake_script::changes::{
    ChangesInvocation, ChangesOutcome, ChangesStore, FunctionContainer, FunctionQuery, FunctionRead,
    FunctionWriteKind,
};
use shardlake_script::{ScriptKey, ScriptLimits, Scripts, StoreFailure};

use crate::support::{HERE, block_on};

pub const KEY: ScriptKey = ScriptKey { container: HERE, script: 1 };

/// Items by container, partition key (JSON text) and id; all reads and queries in order.
#[derive(Debug, Default)]
pub struct Items {
    pub items: BTreeMap<(String, String, String), Value>,
    pub asked: Vec<String>,
    /// Rows of every query.
    pub rows: Option<String>,
    pub failure: Option<StoreFailure>,
}

impl Items {
    /// Items of `product`, whose key is `/category`.
    pub fn with(items: &[Value]) -> Items {
        let named = |item: &Value| {
            let key = json!([item["category"]]).to_string();
            (("product".to_owned(), key, item["id"].as_str().expect("an id").to_owned()), item.clone())
        };
        Items { items: items.iter().map(named).collect(), ..Items::default() }
    }
}

impl ChangesStore for Items {
    fn read<'a>(&'a mut self, read: FunctionRead) -> BoxFuture<'a, Result<Option<String>, StoreFailure>> {
        self.asked.push(format!("read {} {} {}", read.container, read.partition_key, read.id));
        let item = self.items.get(&(read.container, read.partition_key, read.id));
        let answer = self.failure.clone().map_or(Ok(item.map(Value::to_string)), Err);
        Box::pin(async { answer })
    }

    fn query<'a>(&'a mut self, query: FunctionQuery) -> BoxFuture<'a, Result<String, StoreFailure>> {
        let key = query.partition_key.as_deref().unwrap_or("every key");
        let asked =
            format!("query {} {} {} {key} {}", query.container, query.text, query.parameters, query.rows_max);
        self.asked.push(asked);
        let rows: Vec<&Value> = self.items.values().take(query.rows_max as usize).collect();
        let rows = self.rows.clone().unwrap_or_else(|| json!(rows).to_string());
        let answer = self.failure.clone().map_or(Ok(rows), Err);
        Box::pin(async { answer })
    }
}

pub fn key_paths(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

/// A run with `product` (read and write), `meta` (read only) and `events` (a hierarchical key).
pub fn run_with(
    scripts: &Scripts,
    items: &mut Items,
    source: &str,
    changes: &Value,
    limits: ScriptLimits,
) -> Result<ChangesOutcome> {
    let (one, two) = (key_paths(&["/category"]), key_paths(&["/tenant", "/user/id"]));
    let containers = [
        FunctionContainer { name: "product", key_paths: &one, may_write: true },
        FunctionContainer { name: "meta", key_paths: &one, may_write: false },
        FunctionContainer { name: "events", key_paths: &two, may_write: true },
    ];
    let changes = changes.to_string();
    let invocation = ChangesInvocation {
        name: "f",
        version: 3,
        attempt: 2,
        source,
        changes: &changes,
        containers: &containers,
        limits,
    };
    block_on(scripts.run_changes(KEY, &invocation, items))
}

pub fn run(scripts: &Scripts, items: &mut Items, source: &str) -> Result<ChangesOutcome> {
    run_with(scripts, items, source, &changes(3), ScriptLimits::default())
}

/// Changes of items `c0`, `c1` and so on.
pub fn changes(count: usize) -> Value {
    let change = |number: usize| {
        json!({
            "id": format!("c{number}"), "partitionKey": ["k"], "operation": "create",
            "current": {"id": format!("c{number}"), "k": "k", "number": number}, "lsn": number + 10, "time": "2026-11-30T20:00:00Z",
        })
    };
    json!((0..count).map(change).collect::<Vec<_>>())
}

/// The body of a function with a container `c` and the arguments `changes` and `context`.
pub fn body(text: &str) -> String {
    format!("async function (changes, context) {{ const c = context.container('product'); {text} }}")
}

/// The writes in short: method, container, item or id and key and operations, condition.
pub fn shown(outcome: &ChangesOutcome) -> Vec<String> {
    let show = |write: &shardlake_script::changes::FunctionWriteOrder| {
        let what = match &write.kind {
            FunctionWriteKind::Create { item } => format!("create {item}"),
            FunctionWriteKind::Upsert { item } => format!("upsert {item}"),
            FunctionWriteKind::Replace { item } => format!("replace {item}"),
            FunctionWriteKind::Patch { id, partition_key, operations } => {
                format!("patch {partition_key} {id} {operations}")
            }
            FunctionWriteKind::Delete { id, partition_key } => format!("delete {partition_key} {id}"),
        };
        let condition = write.if_match.as_ref().map_or(String::new(), |etag| format!(" if {etag}"));
        format!("{}: {what}{condition}", write.container)
    };
    outcome.writes.iter().map(show).collect()
}
