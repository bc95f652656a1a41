//! Recorded rows against those that queries give, in each way to run them.

use crate::json_door::JsonDoor;
use std::path::Path;

use shardlake_account::{ContainerHandle, Value};
use shardlake_model::{ContainerDefinition, PartitionKeyDefinition};

use super::Fixture;
use super::queries::{Tolerance, parse, same_rows, shown};

/// Throughput that makes one partition, and five.
const ONE: u64 = 400;
const FIVE: u64 = 30_000;
/// Pages of one row, of a few, of all.
const PAGES: [i64; 3] = [1, 3, 1000];

/// The same items in one partition and in five.
pub struct Containers {
    pub fixture: Fixture,
    pub one: ContainerHandle,
    pub five: ContainerHandle,
}

impl Containers {
    pub async fn new(key: &str, items: &[Value]) -> Containers {
        let fixture = Fixture::new().await;
        let definition = |id: &str| ContainerDefinition::new(id, PartitionKeyDefinition::hash(key));
        let one = fixture.container_with(definition("one"), ONE).await;
        let five = fixture.container_with(definition("five"), FIVE).await;
        for container in [&one, &five] {
            for (number, item) in items.iter().enumerate() {
                let body = with_id(item, number).to_json().expect("JSON");
                let ctx = fixture.ctx();
                fixture.account.create_item(&ctx, container, None, body.as_bytes()).await.expect("created");
            }
        }
        Containers { fixture, one, five }
    }

    /// The differences between the recorded rows and the result of each way to run the query.
    pub async fn differences(&self, text: &str, expected: &[Value], tolerance: Tolerance) -> Vec<String> {
        let mut problems = Vec::new();
        for page in PAGES {
            for (name, container) in [("one partition", &self.one), ("five partitions", &self.five)] {
                let answer = self.fixture.answer(container, text, page).await;
                let rows = answer.map(|answer| answer.rows);
                let is_same = rows.as_ref().is_ok_and(|rows| same_rows(rows, expected, tolerance));
                if !is_same {
                    problems.push(format!("{name}, pages of {page}: {}", told(rows)));
                }
            }
            let rows = self.fixture.merged(&self.five, text, page as usize).await;
            if !rows.as_ref().is_ok_and(|rows| same_rows(rows, expected, tolerance)) {
                problems.push(format!("merged as clients do, pages of {page}: {}", told(rows)));
            }
        }
        problems
    }
}

pub fn told(rows: shardlake_model::Result<Vec<Value>>) -> String {
    match rows {
        Ok(rows) => shown(&rows),
        Err(error) => error.to_string(),
    }
}

fn with_id(item: &Value, number: usize) -> Value {
    let Value::Object(mut members) = item.clone() else { panic!("an item is an object") };
    if !members.iter().any(|(name, _)| name == "id") {
        members.push(("id".into(), Value::String(number.to_string())));
    }
    Value::Object(members)
}

pub fn list(path: &Path) -> Vec<Value> {
    match parse(&std::fs::read(path).expect("readable")) {
        Value::Array(elements) => elements,
        other => vec![other],
    }
}
