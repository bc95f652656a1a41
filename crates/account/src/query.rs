//! Queries: from text and scope to the partitions that answer, one page at a time.
//!
//! A query goes to one logical partition, to a range, or to the partitions whose keys its text leaves. Where several partitions
//! are involved, plain projections drain them in order; whatever must be merged is refused with
//! [`ErrorKind::CrossPartitionQuery`], because the client does that with a query plan.
//!
//! Charges: a page costs the difference that it makes to what the whole query has done, so that pages add up exactly.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use shardlake_charge::QueryCounters;
use shardlake_document::Value;
use shardlake_model::{Error, ErrorKind, ReplyMeta, RequestContext, Result};
use shardlake_partition::{
    CommandContext, FeedFilter, Partition, QueryPage, QueryPageRequest, QueryStatistics, position_of_state,
    state_of_position,
};
use shardlake_routing::{Epk, EpkRange, effective_partition_key, prefix_range};
use shardlake_sql::{
    AccessPlan, Execution, IndexFilter, KeyFilter, PageLimits, PageOutput, PreparedQuery, Query,
    QueryEnvironment, QueryPlan, Rows, SupportedFeatures, plan_access, plan_query,
};
use xxhash_rust::xxh3::Xxh3;

use crate::container_handle::ContainerEntry;
use crate::feed::{self, FeedScope};
use crate::items::check_session;
use crate::keys::logical;
use crate::query_token::QueryToken;
use crate::{Account, ContainerHandle};

/// Time after which a page is cut where it is (engine.md §4.4).
const PAGE_TIME: Duration = Duration::from_secs(5);

/// A query as a client sends it.
#[derive(Debug, Clone)]
pub struct QueryRequest<'a> {
    pub text: &'a str,
    /// Names with their `@`.
    pub parameters: &'a [(String, Value)],
    pub scope: FeedScope,
    /// The client's wish: absent for the default, -1 for the server's choice.
    pub max_items: Option<i64>,
    pub continuation: Option<&'a str>,
    /// Without it a query must name its partition.
    pub allows_cross_partition: bool,
    /// The server merges what the partitions answer.
    pub fans_out: bool,
    /// The reply tells how the items were reached.
    pub explains: bool,
}

#[derive(Debug)]
pub struct QueryReply {
    pub rows: Rows,
    pub continuation: Option<String>,
    pub meta: ReplyMeta,
    /// Every range that was read, with its LSN.
    pub ranges: Vec<(u32, u64)>,
    pub statistics: QueryStatistics,
    /// How the items were reached, in words.
    pub explanation: String,
}

/// A plan with the parts of the hash space that the query can match, in order.
#[derive(Debug, Clone)]
pub struct PlanReply {
    pub plan: QueryPlan,
    pub ranges: Vec<PlanRange>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanRange {
    /// The hash of one partition key.
    Point(Epk),
    Span(EpkRange),
}

/// Where a query goes.
struct Targets {
    /// What the partitions answer is merged here.
    merges: bool,
    parts: Vec<(Arc<Partition>, FeedFilter)>,
}

/// What stays the same for all pages and partitions of one request.
pub(crate) struct Running<'a> {
    pub account: &'a Account,
    pub ctx: &'a RequestContext,
    pub entry: &'a Arc<ContainerEntry>,
    pub prepared: Arc<PreparedQuery>,
    pub access: Arc<AccessPlan>,
    pub command: CommandContext,
    pub started: Duration,
    pub explains: bool,
}

impl Account {
    pub async fn query(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        request: QueryRequest<'_>,
    ) -> Result<QueryReply> {
        let entry = &container.entry;
        let query = self.parsed(request.text)?;
        let targets = self.targets(ctx, container, &query, &request)?;
        let limits = self.row_limits(request.max_items)?;
        let query_hash = hash_of(request.text, request.parameters);
        let token = match request.continuation {
            Some(text) => Some(QueryToken::decode(text, entry.container.rid.number, query_hash)?),
            None => None,
        };
        let mut running = self.prepare(ctx, entry, &query, request.parameters)?;
        running.explains = request.explains;
        if targets.merges {
            return running.fan_out(targets, limits, token, query_hash).await;
        }
        running.drain(targets, limits, token, query_hash).await
    }

    /// What a client needs to merge the query itself.
    pub fn query_plan(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        text: &str,
        parameters: &[(String, Value)],
        supported: &SupportedFeatures,
    ) -> Result<PlanReply> {
        let query = self.parsed(text)?;
        let plan = self.plan_of(ctx, &container.entry, &query, parameters, supported)?;
        let ranges = plan_ranges(&container.entry, &plan.keys);
        Ok(PlanReply { plan, ranges })
    }

    fn plan_of(
        &self,
        ctx: &RequestContext,
        entry: &ContainerEntry,
        query: &Query,
        parameters: &[(String, Value)],
        supported: &SupportedFeatures,
    ) -> Result<QueryPlan> {
        let definition = &entry.container.definition.partition_key;
        let environment = self.environment(ctx, entry);
        Ok(plan_query(query, parameters, definition, &environment, *supported)?)
    }

    fn environment<'e>(&self, ctx: &RequestContext, entry: &'e ContainerEntry) -> QueryEnvironment<'e> {
        QueryEnvironment {
            computed: &entry.shape.computed,
            geometry: entry.shape.geometry,
            now: ctx.now,
            random_seed: self.random().below(u64::MAX),
        }
    }

    pub(crate) fn prepare<'a>(
        &'a self,
        ctx: &'a RequestContext,
        entry: &'a Arc<ContainerEntry>,
        query: &Query,
        parameters: &[(String, Value)],
    ) -> Result<Running<'a>> {
        let prepared = PreparedQuery::prepare(query, parameters, &self.environment(ctx, entry))?;
        let access = plan_access(&prepared, &entry.shape.index_schema())?;
        Ok(Running {
            account: self,
            ctx,
            entry,
            prepared: Arc::new(prepared),
            access: Arc::new(access),
            command: self.command(ctx, 0),
            started: self.clock().elapsed(),
            explains: false,
        })
    }

    fn parsed(&self, text: &str) -> Result<Query> {
        Ok(self.0.queries.parsed(text)?)
    }

    pub(crate) fn row_limits(&self, max_items: Option<i64>) -> Result<PageLimits> {
        let limits = self.page_limits(max_items)?;
        Ok(PageLimits { rows: limits.items, size_bytes: limits.size_bytes })
    }

    fn targets(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        query: &Query,
        request: &QueryRequest<'_>,
    ) -> Result<Targets> {
        let entry = &container.entry;
        if request.scope != FeedScope::All {
            let (filter, partitions) = feed::resolve(entry, request.scope.clone())?;
            let parts: Vec<_> = partitions.into_iter().map(|partition| (partition, filter.clone())).collect();
            let merges = parts.len() > 1 && self.must_merge(ctx, entry, query, request)?;
            return Ok(Targets { merges, parts });
        }
        let all = SupportedFeatures::all();
        let plan = self.plan_of(ctx, entry, query, request.parameters, &all)?;
        let spans = spans_of(entry, &plan.keys);
        let (mut parts, mut merges) = (Vec::new(), false);
        match &plan.keys {
            // Any partition gives the answer of a query that reads no items.
            KeyFilter::Nothing => parts.extend(entry.map.iter().next().map(|first| {
                (first.clone(), FeedFilter::Range(EpkRange { min: Epk(vec![]), max: Epk(vec![]) }))
            })),
            KeyFilter::Keys(keys) if is_one_full(entry, keys) => {
                let logical = logical(entry, keys[0].clone());
                parts.push((entry.map.lookup(&logical.epk).clone(), FeedFilter::Logical(logical)));
            }
            KeyFilter::Keys(_) | KeyFilter::All => {
                for partition in entry.map.iter() {
                    for span in spans.iter().filter(|span| span.overlaps(&partition.epk_range)) {
                        parts.push((partition.clone(), FeedFilter::Range(span.clone())));
                    }
                }
                if !request.allows_cross_partition {
                    return Err(Error::bad_request(
                        "Cross partition query is required but disabled. Please set x-ms-documentdb-query-enablecrosspartition to true, specify x-ms-documentdb-partitionkey, or revise your query to avoid this exception.",
                    ));
                }
                merges = needs_merge(&plan);
                if merges && !request.fans_out {
                    return Err(client_must_merge());
                }
            }
        }
        Ok(Targets { merges, parts })
    }

    /// Whether the answers of several partitions do not simply follow one another. Who names a prefix of a key, or a span of
    /// the hash space, has named one thing: the merge is ours.
    fn must_merge(
        &self,
        ctx: &RequestContext,
        entry: &ContainerEntry,
        query: &Query,
        request: &QueryRequest<'_>,
    ) -> Result<bool> {
        let all = SupportedFeatures::all();
        Ok(needs_merge(&self.plan_of(ctx, entry, query, request.parameters, &all)?))
    }
}

impl Running<'_> {
    /// Reads the partitions one behind the other until the page is full.
    async fn drain(
        &self,
        targets: Targets,
        limits: PageLimits,
        token: Option<QueryToken>,
        query_hash: u64,
    ) -> Result<QueryReply> {
        let before = token.as_ref().map(|token| token.counters).unwrap_or_default();
        let mut done = before;
        let mut reply = self.empty_reply();
        let mut resume = token;
        let count = targets.parts.len();
        for (index, (partition, filter)) in targets.parts.into_iter().enumerate() {
            // What the token has left behind.
            if resume.as_ref().is_some_and(|token| is_done(&filter, &partition, &token.epk)) {
                continue;
            }
            let position = resume.take().map(|token| token.position).filter(|position| !position.is_empty());
            check_session(self.ctx, &partition)?;
            let room = PageLimits {
                rows: limits.rows - reply.rows.len(),
                size_bytes: limits.size_bytes.saturating_sub(reply.rows.size_bytes()),
            };
            let is_first_page = position.is_none();
            let page = self.page(partition.clone(), filter.clone(), position, room).await?;
            reply.ranges.push((partition.range_id, partition.durable_lsn()));
            done = done.plus(self.counters(&page, is_first_page));
            reply.statistics.add(&page.statistics);
            self.explain(&mut reply, &partition, page.access);
            reply.rows.extend(&page.rows);
            self.register_counter(&partition, page.wants_counter);
            let token = |epk: Epk, position: Vec<u8>| QueryToken {
                container: self.entry.container.rid.number,
                query_hash,
                counters: done,
                epk,
                position,
            };
            if let Some(position) = page.next {
                reply.continuation = Some(token(start_of(&filter, &partition), position).encode());
                break;
            }
            let is_full = reply.rows.len() >= limits.rows || reply.rows.size_bytes() >= limits.size_bytes;
            let is_late = self.account.clock().elapsed() > self.started + PAGE_TIME;
            if (is_full || is_late) && index + 1 < count {
                reply.continuation = Some(token(end_of(&filter, &partition), vec![]).encode());
                break;
            }
        }
        self.finish_meta(&mut reply, before, done);
        Ok(reply)
    }

    /// Asks all partitions at once and merges what they have collected, again until the page is full.
    async fn fan_out(
        &self,
        targets: Targets,
        limits: PageLimits,
        token: Option<QueryToken>,
        query_hash: u64,
    ) -> Result<QueryReply> {
        let before = token.as_ref().map(|token| token.counters).unwrap_or_default();
        let mut position = token.map(|token| token.position);
        let mut done = before;
        let mut reply = self.empty_reply();
        loop {
            let room = PageLimits {
                rows: limits.rows - reply.rows.len(),
                size_bytes: limits.size_bytes.saturating_sub(reply.rows.size_bytes()),
            };
            let output = self.merged_round(&targets, room, position.take(), (&mut reply, &mut done)).await?;
            let is_stuck = output.rows.is_empty();
            done.rows += output.rows.len() as u64;
            reply.rows.extend(&output.rows);
            let Some(state) = output.state else { break };
            let is_full = reply.rows.len() >= limits.rows || reply.rows.size_bytes() >= limits.size_bytes;
            let is_late = self.account.clock().elapsed() > self.started + PAGE_TIME;
            let next = position_of_state(&state);
            if is_full || is_late || is_stuck {
                let container = self.entry.container.rid.number;
                let token =
                    QueryToken { container, query_hash, counters: done, epk: Epk(vec![]), position: next };
                reply.continuation = Some(token.encode());
                break;
            }
            position = Some(next);
        }
        reply.statistics.rows = reply.rows.len() as u64;
        reply.statistics.rows_bytes = reply.rows.size_bytes() as u64;
        self.finish_meta(&mut reply, before, done);
        Ok(reply)
    }

    /// What all partitions together have for the rest of a page. Where rows come in order, each is asked for somewhat more than
    /// its share: what it has behind that is left for the next round.
    async fn merged_round(
        &self,
        targets: &Targets,
        room: PageLimits,
        position: Option<Vec<u8>>,
        (reply, done): (&mut QueryReply, &mut QueryCounters),
    ) -> Result<PageOutput> {
        let is_first_page = position.is_none() && reply.ranges.is_empty();
        let share = match self.prepared.is_ordered() {
            true => room.rows.min(room.rows * 3 / (2 * targets.parts.len().max(1)) + 10),
            false => room.rows,
        };
        let share = PageLimits { rows: share, ..room };
        let mut tasks = Vec::with_capacity(targets.parts.len());
        for (partition, filter) in &targets.parts {
            check_session(self.ctx, partition)?;
            let task = self.task(partition.clone(), filter.clone(), position.clone(), share);
            let task = PageTask { collects: true, ..task };
            tasks.push((partition, AbortOnDrop(tokio::spawn(self.account.clone().run_page(task)))));
        }
        let mut merged = Execution::merging(&self.prepared, room, state_of_position(position.as_deref())?)?;
        for (partition, task) in tasks {
            let page = task.finished().await?;
            if !reply.ranges.iter().any(|(id, _)| *id == partition.range_id) {
                reply.ranges.push((partition.range_id, partition.durable_lsn()));
            }
            *done = done.plus(self.counters(&page, is_first_page));
            reply.statistics.add(&page.statistics);
            self.explain(reply, partition, page.access);
            self.register_counter(partition, page.wants_counter);
            if let Some(collected) = page.collected {
                merged.absorb(collected)?;
            }
        }
        let (deadline, clock) = (self.ctx.deadline, self.account.clock());
        Ok(merged.finish(true, &|| clock.elapsed() > deadline)?)
    }

    fn empty_reply(&self) -> QueryReply {
        QueryReply {
            rows: Rows::default(),
            continuation: None,
            meta: ReplyMeta::default(),
            ranges: vec![],
            statistics: QueryStatistics::default(),
            explanation: if self.explains { self.access.to_string() } else { String::new() },
        }
    }

    fn explain(&self, reply: &mut QueryReply, partition: &Partition, access: &str) {
        if self.explains {
            reply.explanation.push_str(&format!("range {}: {access}\n", partition.range_id));
        }
    }

    fn finish_meta(&self, reply: &mut QueryReply, before: QueryCounters, done: QueryCounters) {
        let charges = &self.account.0.charges;
        let cost = |counters| charges.query(counters, self.ctx.consistency).0;
        reply.meta.charge_centi = cost(done) - cost(before);
        reply.meta.session_version = self.entry.session_version;
        reply.meta.range_id = reply.ranges.first().map(|(id, _)| *id);
        reply.meta.lsn = reply.ranges.first().map_or(0, |(_, lsn)| *lsn);
    }

    /// One page of one partition.
    pub(crate) async fn page(
        &self,
        partition: Arc<Partition>,
        filter: FeedFilter,
        resume: Option<Vec<u8>>,
        limits: PageLimits,
    ) -> Result<QueryPage> {
        self.account.clone().run_page(self.task(partition, filter, resume, limits)).await
    }

    fn task(
        &self,
        partition: Arc<Partition>,
        filter: FeedFilter,
        resume: Option<Vec<u8>>,
        limits: PageLimits,
    ) -> PageTask {
        PageTask {
            partition,
            shape: self.entry.shape.clone(),
            command: self.command.clone(),
            prepared: self.prepared.clone(),
            access: self.access.clone(),
            clock: self.account.clock().clone(),
            filter,
            resume,
            limits,
            collects: false,
            page_end: self.started + PAGE_TIME,
            deadline: self.ctx.deadline,
        }
    }

    fn register_counter(&self, partition: &Arc<Partition>, wanted: Option<(u16, u64)>) {
        let Some((index_id, path_hash)) = wanted else { return };
        let partition = partition.clone();
        tokio::spawn(async move {
            if let Err(error) = partition.count_path(index_id, path_hash).await {
                tracing::debug!(%error, "counting the items of a path stopped");
            }
        });
    }

    fn counters(&self, page: &QueryPage, is_first_page: bool) -> QueryCounters {
        let statistics = &page.statistics;
        let is_indexed = self.access.filter != IndexFilter::Everything;
        let scanned = if is_indexed { 0 } else { statistics.items_scanned };
        let read = scanned + statistics.items_loaded;
        let bytes =
            if is_indexed { 0 } else { statistics.items_scanned_bytes } + statistics.items_loaded_bytes;
        let not_returned = read.saturating_sub(statistics.rows);
        QueryCounters {
            partitions: u64::from(is_first_page),
            rows: statistics.rows,
            items: not_returned,
            item_bytes: (u128::from(bytes) * u128::from(not_returned) / u128::from(read.max(1))) as u64,
            postings: statistics.postings_read,
            sorted_rows: statistics.rows_sorted,
        }
    }
}

/// Everything that a page needs, so that it can move to another thread.
struct PageTask {
    partition: Arc<Partition>,
    shape: Arc<shardlake_partition::ContainerShape>,
    command: CommandContext,
    prepared: Arc<PreparedQuery>,
    access: Arc<AccessPlan>,
    clock: shardlake_stdx::Clock,
    filter: FeedFilter,
    resume: Option<Vec<u8>>,
    limits: PageLimits,
    collects: bool,
    page_end: Duration,
    deadline: Duration,
}

/// A task that is stopped when nobody waits for it any more.
struct AbortOnDrop(tokio::task::JoinHandle<Result<QueryPage>>);

impl AbortOnDrop {
    async fn finished(mut self) -> Result<QueryPage> {
        let joined = (&mut self.0).await;
        joined.map_err(|error| Error::internal(format!("a query's task failed: {error}")))?
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Account {
    /// On a thread for blocking work where one item can take long.
    async fn run_page(self, task: PageTask) -> Result<QueryPage> {
        if !task.prepared.is_heavy() {
            return task.run().await;
        }
        let permit = self.0.heavy_queries.acquire().await;
        let _permit = permit.map_err(|_| Error::internal("the account is closed"))?;
        let runtime = tokio::runtime::Handle::current();
        let run = tokio::task::spawn_blocking(move || runtime.block_on(task.run()));
        run.await.map_err(|error| Error::internal(format!("a query's thread failed: {error}")))?
    }
}

impl PageTask {
    async fn run(self) -> Result<QueryPage> {
        let is_page_time_spent = || self.clock.elapsed() > self.page_end;
        let is_interrupted = || self.clock.elapsed() > self.deadline;
        let request = QueryPageRequest {
            query: &self.prepared,
            access: &self.access,
            filter: &self.filter,
            resume: self.resume.as_deref(),
            limits: self.limits,
            collects: self.collects,
            is_page_time_spent: &is_page_time_spent,
            is_interrupted: &is_interrupted,
        };
        self.partition.query_page(&self.shape, &self.command, request).await
    }
}

/// Whether the partitions' answers do not simply follow one another.
fn needs_merge(plan: &QueryPlan) -> bool {
    let info = &plan.info;
    info.distinct != shardlake_sql::DistinctKind::None
        || info.top.is_some()
        || info.offset.is_some()
        || info.limit.is_some()
        || !info.order_by.is_empty()
        || !info.group_by_expressions.is_empty()
        || !info.aggregates.is_empty()
        || !info.group_by_alias_to_aggregate.is_empty()
        || info.distinct_count.is_some()
}

fn client_must_merge() -> Error {
    Error::new(
        ErrorKind::CrossPartitionQuery,
        "Cross partition query with TOP/ORDER BY/DISTINCT or aggregate functions is not supported. Use the query plan to merge the partitions' answers, or ask the server to with x-shardlake-fan-out",
    )
}

fn is_one_full(entry: &ContainerEntry, keys: &[shardlake_model::PartitionKey]) -> bool {
    matches!(keys, [key] if key.0.len() == entry.shape.key_paths.len())
}

/// Where matching items can lie, in order and without overlaps.
fn spans_of(entry: &ContainerEntry, keys: &KeyFilter) -> Vec<EpkRange> {
    let definition = &entry.container.definition.partition_key;
    match keys {
        KeyFilter::All => vec![EpkRange::full()],
        KeyFilter::Nothing => vec![],
        KeyFilter::Keys(keys) => {
            let mut spans: Vec<EpkRange> = keys.iter().map(|key| prefix_range(definition, key)).collect();
            spans.sort_by(|left, right| left.min.cmp(&right.min).then(right.max.cmp(&left.max)));
            spans.dedup_by(|later, kept| kept.contains_range(later));
            spans
        }
    }
}

/// The same for a client, which tells points from spans.
fn plan_ranges(entry: &ContainerEntry, keys: &KeyFilter) -> Vec<PlanRange> {
    let definition = &entry.container.definition.partition_key;
    let spans = spans_of(entry, keys);
    let KeyFilter::Keys(keys) = keys else { return spans.into_iter().map(PlanRange::Span).collect() };
    let full = keys.iter().filter(|key| key.0.len() == entry.shape.key_paths.len());
    let points: Vec<Epk> = full.map(|key| effective_partition_key(definition, key)).collect();
    let range = |span: EpkRange| match points.iter().find(|epk| prefix_of_point(epk) == span) {
        Some(epk) => PlanRange::Point(epk.clone()),
        None => PlanRange::Span(span),
    };
    spans.into_iter().map(range).collect()
}

/// The span that holds one hash and no other that occurs.
fn prefix_of_point(epk: &Epk) -> EpkRange {
    let mut max = epk.clone();
    max.0.push(0xFF);
    let mut min = epk.clone();
    while min.0.last() == Some(&0) {
        min.0.pop();
    }
    EpkRange { min, max }
}

/// Where a part of a query starts and ends in the hash space.
fn start_of(filter: &FeedFilter, partition: &Partition) -> Epk {
    match filter {
        FeedFilter::Range(range) | FeedFilter::Prefix(range, _) => {
            range.intersection(&partition.epk_range).min
        }
        FeedFilter::Logical(logical) => logical.epk.clone(),
    }
}

fn end_of(filter: &FeedFilter, partition: &Partition) -> Epk {
    match filter {
        FeedFilter::Range(range) | FeedFilter::Prefix(range, _) => {
            range.intersection(&partition.epk_range).max
        }
        FeedFilter::Logical(logical) => logical.epk.clone(),
    }
}

/// Whether a part lies wholly below where a token goes on.
fn is_done(filter: &FeedFilter, partition: &Partition, epk: &Epk) -> bool {
    match filter {
        FeedFilter::Range(range) | FeedFilter::Prefix(range, _) => {
            range.intersection(&partition.epk_range).is_below(epk)
        }
        FeedFilter::Logical(_) => false,
    }
}

fn hash_of(text: &str, parameters: &[(String, Value)]) -> u64 {
    let mut hasher = Xxh3::new();
    text.hash(&mut hasher);
    for (name, value) in parameters {
        name.hash(&mut hasher);
        value.to_json().unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}
