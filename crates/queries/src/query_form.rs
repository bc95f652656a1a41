//! The form in which a query travels to another node: its text, its parameters and its moment. It is bound anew there.

use serde::{Deserialize, Serialize};
use shardlake_document::Value;
use shardlake_model::{ContainerScripts, Result};
use shardlake_partition::ContainerSchema;
use shardlake_sql::{KeyValue, PreparedQuery, Query, QueryEnvironment};
use shardlake_stdx::Timestamp;

use crate::query_cache::KnownQuery;

/// A query as it travels.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QueryForm {
    text: String,
    wants_bodies: bool,
    parameters: Vec<(String, Value)>,
    now: Timestamp,
    random_seed: u64,
    in_any_order: bool,
    /// The values of the partition key that all its items have.
    pub key: Vec<KeyValue>,
}

impl QueryForm {
    pub fn of(known: &KnownQuery, prepared: &PreparedQuery, key: Vec<KeyValue>) -> QueryForm {
        let (now, random_seed) = prepared.moment();
        QueryForm {
            text: known.query.text().to_owned(),
            wants_bodies: known.query.wants_bodies(),
            parameters: known.parameters().to_vec(),
            now,
            random_seed,
            in_any_order: prepared.comes_in_any_order(),
            key,
        }
    }

    /// The query, bound to the owner's definition of the container.
    pub fn prepared(&self, schema: &ContainerSchema, scripts: &ContainerScripts) -> Result<PreparedQuery> {
        let environment = QueryEnvironment {
            computed: &schema.computed,
            geometry: schema.geometry,
            now: self.now,
            random_seed: 0,
            scripts: Some(scripts),
        };
        let query = Query::of_text(&self.text, self.wants_bodies)?;
        let prepared = PreparedQuery::prepare(&query, &self.parameters, &environment)?;
        let prepared = prepared.at(self.now, self.random_seed);
        Ok(if self.in_any_order { prepared.in_any_order() } else { prepared })
    }
}
