//! What queries would do under another indexing policy: which indexes each would use, and what it would be charged.
//!
//! Both answers come from the engine's own planner, over the policy in force and over the other one, as if its index were
//! already built. Charges are predicted from a sample of items, for all pages read as one. There is no prediction where the
//! sample says too little: with `TOP` or `LIMIT`, for one partition key of many, with functions of users, without items.

use std::sync::Arc;

use shardlake_charge::QueryCounters;
use shardlake_document::Value;
use shardlake_items::{FeedScope, Sample};
use shardlake_model::{Error, IndexingPolicy, RequestContext, Result};
use shardlake_partition::{ContainerShape, QuerySketch, QueryWay, query_sketch};
use shardlake_serving::{ContainerEntry, ContainerHandle, index_of_new, layouts_of};
use shardlake_sql::{IndexUtilization, PreparedQuery, Query, index_utilization, plan_access};

use crate::Queries;
use crate::query::hash_of;
use crate::query_cache::Asked;
use crate::query_key::QueryKey;
use crate::query_targets::{Part, targets};
use crate::request::{QueryRequest, QueryWants};

/// Queries of one preview.
pub const PREVIEW_QUERIES_MAX: usize = 20;

/// One query under one policy.
#[derive(Debug)]
pub struct QueryProspect {
    /// `None` where the sample does not tell, or the query was not sketched.
    pub way: Option<QueryWay>,
    pub charge_centi: Option<u64>,
    pub indexes: IndexUtilization,
    /// What the index would answer, in words.
    pub access: String,
}

/// One query under the policy in force and under the other one. A policy can refuse it: an `ORDER BY` needs its indexes.
#[derive(Debug)]
pub struct QueryPreview {
    pub now: Result<QueryProspect>,
    pub then: Result<QueryProspect>,
}

impl Queries {
    /// `queries` are texts with their parameters, `count` the size of the sample.
    pub async fn preview_queries(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        policy: IndexingPolicy,
        queries: &[(String, Vec<(String, Value)>)],
        count: usize,
    ) -> Result<Vec<QueryPreview>> {
        if queries.len() > PREVIEW_QUERIES_MAX {
            return Err(Error::bad_request(format!(
                "the preview has {} queries, more than the limit of {PREVIEW_QUERIES_MAX}",
                queries.len()
            )));
        }
        let policy = policy.normalise(self.limits())?;
        let entry = self.current_entry(&container.entry)?;
        let then = Arc::new(self.shape_under(&entry, policy)?);
        let sample = Arc::new(self.sample(ctx, container, count).await?);
        let mut previews = Vec::with_capacity(queries.len());
        for (text, parameters) in queries {
            let query = self.question(ctx, &entry, text, parameters);
            let (now, then) = match query {
                Ok(question) => (
                    question.under(self, ctx, &entry.shape, &sample).await,
                    question.under(self, ctx, &then, &sample).await,
                ),
                // The same mistake, whatever the policy.
                Err(error) => (Err(Error::new(error.kind(), error.message())), Err(error)),
            };
            previews.push(QueryPreview { now, then });
        }
        Ok(previews)
    }

    /// The container as it will be when the policy's index is built.
    fn shape_under(&self, entry: &ContainerEntry, policy: IndexingPolicy) -> Result<ContainerShape> {
        let mut container = entry.record.container.clone();
        container.definition.indexing_policy = policy;
        let layouts = layouts_of(&index_of_new(&container))?;
        let shape = &entry.shape;
        ContainerShape::new(&container, layouts, shape.limits.clone(), shape.charges.clone())
    }

    fn question(
        &self,
        ctx: &RequestContext,
        entry: &Arc<ContainerEntry>,
        text: &str,
        parameters: &[(String, Value)],
    ) -> Result<Question> {
        let query = self.parsed(text)?;
        let asked = Asked { query: &query, parameters, hash: hash_of(text, parameters) };
        let known = self.known(ctx, entry, asked)?;
        let request = QueryRequest {
            text,
            parameters,
            scope: FeedScope::All,
            max_items: None,
            continuation: None,
            allows_cross_partition: true,
            fans_out: true,
            wants: QueryWants::default(),
        };
        let targets = targets(entry, &request, || Ok(known.plan(entry)?))?;
        let prepared = known.prepared.at(ctx.now, self.random().below(u64::MAX));
        Ok(Question {
            key: QueryKey::of(entry, &prepared, &targets.parts),
            entry: entry.clone(),
            parts: targets.parts,
            prepared,
            query,
        })
    }
}

/// A query that is bound, and where it goes.
struct Question {
    query: Query,
    prepared: PreparedQuery,
    entry: Arc<ContainerEntry>,
    parts: Vec<Part>,
    key: QueryKey,
}

impl Question {
    async fn under(
        &self,
        queries: &Queries,
        ctx: &RequestContext,
        shape: &Arc<ContainerShape>,
        sample: &Arc<Sample>,
    ) -> Result<QueryProspect> {
        let schema = shape.index_schema();
        let access = plan_access(&self.prepared, &schema, &self.key.values(&self.entry))?;
        let keys: Vec<Vec<String>> = match self.is_of_one_key() {
            true => shape.key_paths.iter().map(|path| path.0.clone()).collect(),
            false => vec![],
        };
        let indexes = index_utilization(&self.prepared, &schema, &access, &keys);
        let words = access.to_string();
        if !self.is_told_by(sample) {
            return Ok(QueryProspect { way: None, charge_centi: None, indexes, access: words });
        }
        let times = sample.of_items as f64 / sample.items.len() as f64;
        let (prepared, sampled, shape) = (self.prepared.clone(), sample.clone(), shape.clone());
        let deadline = ctx.deadline;
        let clock = queries.clock().clone();
        let sketch = shardlake_partition::beside(move || {
            let is_late = move || clock.elapsed() > deadline;
            query_sketch((&sampled.items, times), &shape, &prepared, &access, &is_late)
        })
        .await??;
        let charge_centi = self.charge_centi(queries, ctx, &sketch, times);
        Ok(QueryProspect { way: Some(sketch.way), charge_centi, indexes, access: words })
    }

    fn is_of_one_key(&self) -> bool {
        matches!(&self.parts[..], [part] if part.is_one_logical_partition())
    }

    /// Whether a sample of the container stands for the items that the query is about.
    fn is_told_by(&self, sample: &Sample) -> bool {
        let is_all = sample.items.len() as u64 >= sample.of_items;
        !sample.items.is_empty()
            && self.prepared.user_functions().is_empty()
            && (is_all || !self.is_of_one_key())
    }

    fn charge_centi(
        &self,
        queries: &Queries,
        ctx: &RequestContext,
        sketch: &QuerySketch,
        times: f64,
    ) -> Option<u64> {
        if self.query.outline().page.is_some() {
            return None;
        }
        let scaled = |figure: u64| (figure as f64 * times).round() as u64;
        let rows = if sketch.is_whole { sketch.rows } else { scaled(sketch.rows) };
        let done = QueryCounters {
            partitions: self.parts.len() as u64,
            rows,
            items: scaled(sketch.items),
            item_bytes: scaled(sketch.item_bytes),
            postings: scaled(sketch.postings),
            sorted_rows: if sketch.sorts { rows } else { 0 },
            ..QueryCounters::default()
        };
        Some(queries.0.charges.query(done, ctx.consistency).0)
    }
}
