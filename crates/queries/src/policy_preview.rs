//! Preview of queries under another indexing policy: the indexes each query would use, and its charge.
//!
//! Both answers come from the engine's own planner and its rules for choosing an access, over the policy in
//! force and over the other one, as if its index were already built. Charges are predicted from a sample of
//! items, partition by partition, for all pages read as one. There is no prediction where a sample is not
//! enough: with `TOP` or `LIMIT`, for one partition key of many, with user-defined functions, without items.

use std::sync::Arc;

use shardlake_charge::QueryCounters;
use shardlake_document::Value;
use shardlake_items::{FeedScope, Sample};
use shardlake_model::{Error, IndexingPolicy, RequestContext, Result};
use shardlake_partition::{
    ContainerSchema, PageSketch, QuerySketch, QueryWay, SampledIndex, SampledItems, SketchedPart,
};
use shardlake_router::{ContainerEntry, ContainerHandle, index_of_new, layouts_of};
use shardlake_sql::{IndexUtilization, PreparedQuery, Query, index_utilization, plan_access};

use crate::Queries;
use crate::query::hash_of;
use crate::query_cache::Asked;
use crate::query_charge::{counters_of, counters_of_repeated};
use crate::query_key::QueryKey;
use crate::query_targets::{Part, Targets, targets};
use crate::request::{QueryRequest, QueryWants};

/// Queries of one preview.
pub const PREVIEW_QUERIES_MAX: usize = 20;

/// One query under one policy.
#[derive(Debug)]
pub struct QueryProspect {
    /// `None` if the sample is not enough, or the query was not sketched.
    pub way: Option<QueryWay>,
    pub charge_centi: Option<u64>,
    pub indexes: IndexUtilization,
    /// The conditions that the index would answer, in words.
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
        let policy = policy.normalise(self.router().limits())?;
        let entry = self.router().current_entry(&container.entry)?;
        let then = Arc::new(self.shape_under(&entry, policy)?);
        let Sample { items, of_items } = self.items().sample(ctx, container, count).await?;
        let shape = entry.shape.clone();
        let (now, then) = shardlake_partition::offload(move || {
            let sample = Arc::new(SampledItems::new(items, &shape));
            let index = |shape| Arc::new(SampledIndex::new(&sample, shape));
            (index(&shape), index(&then))
        })
        .await?;
        let mut previews = Vec::with_capacity(queries.len());
        for (text, parameters) in queries {
            let query = self.question(ctx, &entry, text, parameters);
            let (now, then) = match query {
                Ok(question) => (
                    question.under(self, ctx, &now, of_items).await,
                    question.under(self, ctx, &then, of_items).await,
                ),
                // The mistake is the same under both policies.
                Err(error) => (Err(Error::new(error.kind(), error.message())), Err(error)),
            };
            previews.push(QueryPreview { now, then });
        }
        Ok(previews)
    }

    /// The container as it will be when the policy's index is built.
    fn shape_under(&self, entry: &ContainerEntry, policy: IndexingPolicy) -> Result<ContainerSchema> {
        let mut container = entry.record.container.clone();
        container.definition.indexing_policy = policy;
        let shape = &entry.shape;
        let layouts = layouts_of(&index_of_new(&container, &shape.limits))?;
        ContainerSchema::new(&container, layouts, shape.limits.clone(), shape.charges.clone())
    }

    fn question(
        &self,
        ctx: &RequestContext,
        entry: &Arc<ContainerEntry>,
        text: &str,
        parameters: &[(String, Value)],
    ) -> Result<Question> {
        let query = self.parsed(text, parameters)?;
        let asked = Asked { query: &query, parameters, hash: hash_of(text, parameters) };
        let known = self.known(ctx, entry, asked)?;
        let request = QueryRequest {
            text,
            parameters,
            scope: FeedScope::All,
            max_items: None,
            continuation: None,
            resume_filter: None,
            allows_cross_partition: true,
            fans_out: true,
            wants: QueryWants::default(),
        };
        let targets = targets(entry, &request, || Ok(known.plan(entry)?))?;
        let prepared = known.prepared.at(ctx.now, self.router().random().below(u64::MAX));
        Ok(Question {
            key: QueryKey::of(entry, &prepared, &targets.parts),
            entry: entry.clone(),
            targets,
            prepared,
            query,
        })
    }
}

/// A bound query, and its targets.
struct Question {
    query: Query,
    prepared: PreparedQuery,
    entry: Arc<ContainerEntry>,
    targets: Targets,
    key: QueryKey,
}

impl Question {
    async fn under(
        &self,
        queries: &Queries,
        ctx: &RequestContext,
        index: &Arc<SampledIndex>,
        of_items: u64,
    ) -> Result<QueryProspect> {
        let shape = index.shape();
        let schema = shape.index_schema();
        let access = plan_access(&self.prepared, &schema, &self.key.values(&self.entry))?;
        let keys: Vec<Vec<String>> = match self.is_of_one_key() {
            true => shape.key_paths.iter().map(|path| path.0.clone()).collect(),
            false => vec![],
        };
        let indexes = index_utilization(&self.prepared, &schema, &access, &keys);
        let words = access.to_string();
        if !self.is_represented(index.sample().len() as u64, of_items) {
            return Ok(QueryProspect { way: None, charge_centi: None, indexes, access: words });
        }
        let times = of_items as f64 / index.sample().len() as f64;
        let part = |part: &Part| SketchedPart {
            range: part.partition.epk_range().clone(),
            items: part.partition.items(),
            filter: self.key.within(part),
        };
        let parts: Vec<SketchedPart> = self.targets.parts.iter().map(part).collect();
        let (prepared, index, merges) = (self.prepared.clone(), index.clone(), self.targets.merges);
        let deadline = ctx.deadline;
        let clock = queries.router().clock().clone();
        let sketch = shardlake_partition::offload(move || {
            let is_late = move || clock.elapsed() > deadline;
            index.sketch(&prepared, &access, (&parts, merges), &is_late)
        })
        .await??;
        let charge_centi = self.charge_centi(queries, ctx, &sketch, times);
        Ok(QueryProspect { way: way_of(&sketch), charge_centi, indexes, access: words })
    }

    fn is_of_one_key(&self) -> bool {
        matches!(&self.targets.parts[..], [part] if part.is_one_logical_partition())
    }

    /// Whether a sample of the container represents the items of the query.
    fn is_represented(&self, sampled: u64, of_items: u64) -> bool {
        sampled > 0
            && self.prepared.user_functions().is_empty()
            && (sampled >= of_items || !self.is_of_one_key())
    }

    /// The predicted charge of the pages, by the engine's own rules.
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
        let rows = if sketch.is_whole { sketch.rows } else { (sketch.rows as f64 * times).round() as u64 };
        let page = |page: &PageSketch| match page.is_repeated {
            true => counters_of_repeated(&page.statistics, 0),
            false => counters_of(&page.statistics, 0, page.stands_for_index),
        };
        let mut done = sketch.pages.iter().map(page).fold(QueryCounters::default(), QueryCounters::plus);
        done.rows = rows;
        done.sorted_rows = if sketch.pages.iter().any(|page| page.sorts) { rows } else { 0 };
        done.steps += self.prepared.steps();
        Some(queries.0.router.charges().query(done, ctx.consistency).0)
    }
}

/// The access that most partitions use.
fn way_of(sketch: &QuerySketch) -> Option<QueryWay> {
    let count = |way: QueryWay| sketch.pages.iter().filter(|page| page.way == way).count();
    sketch.pages.iter().map(|page| page.way).max_by_key(|way| count(*way))
}
