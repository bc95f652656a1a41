//! Queries: from text and scope to the partitions that answer, one page at a time.
//!
//! A query reads the parts found by `query_targets.rs`, one after the other. A page reads one partition. When
//! the partition is exhausted the page ends, empty or not, as in the reference, and its token names the start
//! of the next one. Where rows must be merged, `query_fan_out.rs` asks all parts at once.
//!
//! Charges: the charge of a page is the increase in the charge of the whole query, plus the base price of
//! each partition that it asks, as in the reference. So the pages add up to the charge of the whole, plus the
//! base price of every page after the first.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shardlake_charge::QueryCounters;
use shardlake_document::Value;
use shardlake_model::{Error, KeyPath, ReplyMeta, RequestContext, Result};
use shardlake_partition::{QueryPage, QueryStatistics};
use shardlake_sql::{
    IndexUtilization, PageLimits, Query, QueryEnvironment, Rows, SupportedFeatures, index_utilization,
    plan_access, query_advice,
};
use xxhash_rust::xxh3::Xxh3;

use crate::Queries;
use crate::figures::QueryFigures;
use crate::query_cache::{Asked, KnownQuery};
use crate::query_charge::{PagePermit, counters_of, counters_of_repeated};
use crate::query_former::{self, Former, Signature};
use crate::query_key::QueryKey;
use crate::query_targets::{Part, PlanReply, Targets, plan_ranges, targets};
use crate::query_token::{Piece, QueryToken};
use crate::request::{ItemsRequest, PageOfQuery, QueryReply, QueryRequest, QueryWants};
use crate::running::Running;
use shardlake_host::{Cost, OperationKind, touched};
use shardlake_items::OpenTransaction;
use shardlake_router::ContainerEntry;
use shardlake_router::ContainerHandle;

/// A resolved page request: the bound query, its partitions and its token.
struct Asking {
    known: Arc<KnownQuery>,
    targets: Targets,
    /// The answer where the named range has ended and rows in an order do not show their sort keys.
    gone: Option<Error>,
    token: Option<QueryToken>,
    /// Hash in the token of the next page.
    query_hash: u64,
}

impl Queries {
    pub async fn query(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        request: QueryRequest<'_>,
    ) -> Result<QueryReply> {
        let started = self.router().clock().elapsed();
        let query = self.parsed(request.text, request.parameters)?;
        self.query_parsed(ctx, container, &query, (request, None), started).await
    }

    /// The bodies of items that a built query finds, as BSON, merged if they are in several partitions.
    pub async fn find_items(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        request: ItemsRequest<'_>,
    ) -> Result<QueryReply> {
        let started = self.router().clock().elapsed();
        let ItemsRequest { built, scope, max_items, continuation, in_any_order, within } = request;
        let request = QueryRequest {
            text: built.query.text(),
            parameters: &built.parameters,
            scope,
            max_items,
            continuation,
            resume_filter: None,
            allows_cross_partition: true,
            fans_out: true,
            wants: QueryWants { any_order: in_any_order, ..QueryWants::default() },
        };
        self.query_parsed(ctx, container, &built.query, (request, within), started).await
    }

    async fn query_parsed(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        query: &Query,
        (request, within): (QueryRequest<'_>, Option<&OpenTransaction>),
        started: Duration,
    ) -> Result<QueryReply> {
        let mut routing = self.router().routing(container);
        loop {
            let mut reply = self.page_of_query(ctx, &routing.entry, query, &request, within).await;
            if let Ok(reply) = &mut reply {
                let time = self.router().clock().elapsed().saturating_sub(started);
                reply.preparation = time.saturating_sub(reply.execution);
            }
            if !routing.has_moved(&reply).await? {
                return reply;
            }
        }
    }

    async fn page_of_query(
        &self,
        ctx: &RequestContext,
        entry: &Arc<ContainerEntry>,
        query: &Query,
        request: &QueryRequest<'_>,
        within: Option<&OpenTransaction>,
    ) -> Result<QueryReply> {
        let (asking, signature) = self.asking(ctx, entry, query, request)?;
        let mut reply = self.page_behind(ctx, entry, asking, request, within).await;
        if let Some(signature) = signature {
            signature.sign(&mut reply);
        }
        reply
    }

    /// Resolves a page request. The signature names the range in the answer.
    fn asking(
        &self,
        ctx: &RequestContext,
        entry: &Arc<ContainerEntry>,
        query: &Query,
        request: &QueryRequest<'_>,
    ) -> Result<(Asking, Option<Signature>)> {
        let text_hash = hash_of(request.text, request.parameters);
        let asked = Asked { query, parameters: request.parameters, hash: text_hash };
        // At an earlier point, a mistake in the query would hide mistakes in the request.
        let mut known = None;
        // A query that needs a plan is refused before its token is checked: the JavaScript SDK sends a token of its own with it.
        let live = match query_former::has_ended(entry, &request.scope) {
            true => None,
            false => {
                let plan = || Ok(known.insert(self.known(ctx, entry, asked)?).plan(entry)?);
                Some(targets(entry, request, plan)?)
            }
        };
        let known = known.map_or_else(|| self.known(ctx, entry, asked), Ok)?;
        let is_merged = live.as_ref().is_some_and(|targets| targets.merges);
        let query_hash = if is_merged { text_hash } else { known.token_hash(text_hash) };
        let container = entry.record.container.rid.number;
        let decode = |text| QueryToken::decode(text, container, [query_hash, text_hash]);
        let token = request.continuation.map(decode).transpose()?;
        let (targets, gone, signature) = match live {
            Some(targets) => (targets, None, Signature::of_live(entry, &request.scope)),
            None => {
                let former = Former::of(entry, &request.scope, token.as_ref())?;
                let targets = Targets { parts: former.parts, merges: false };
                (targets, Some(former.gone), Some(former.signature))
            }
        };
        Ok((Asking { known, targets, gone, token, query_hash }, signature))
    }

    /// The page at a token's position.
    async fn page_behind(
        &self,
        ctx: &RequestContext,
        entry: &Arc<ContainerEntry>,
        Asking { known, mut targets, gone, token, query_hash }: Asking,
        request: &QueryRequest<'_>,
        within: Option<&OpenTransaction>,
    ) -> Result<QueryReply> {
        let range_id = request.scope.range_id();
        let limits = self.row_limits(request.max_items)?;
        if let (Some(range), Some(token)) = (range_id.and_then(|id| entry.record.range(id)), &token) {
            token.check_range(range.range_id, &range.parents)?;
            // The range may have been joined with others, outside of the query's scope.
            targets.parts.retain_mut(|part| part.end_at(&token.span().max));
            targets.parts = targets.parts.iter().flat_map(|part| part.cut_by(token)).collect();
        }
        if known.prepared.reads_a_whole_result()
            && !targets.merges
            && !query_former::is_one_whole(&targets.parts, token.as_ref())
        {
            return Err(gone.unwrap_or_else(query_former::cut_anew));
        }
        let bound = self.router().clock().elapsed();
        let mut running = self.prepare(ctx, entry, &known, &targets.parts)?;
        running.is_timed = request.wants.figures;
        if request.wants.any_order {
            running.prepared = running.prepared.in_any_order();
        }
        if let Some(filter) = &request.resume_filter {
            filter.check(&running.prepared)?;
            running.resume_filter = Some(filter.clone());
        }
        if let Some(transaction) = within {
            let partitions = targets.parts.iter().map(|part| &part.partition);
            running.within = transaction.view(self.items(), ctx, entry, partitions).await?;
        }
        let mut reply = running.begin(request.wants, &known.query, &targets.parts)?;
        if let Some(figures) = &mut reply.figures {
            figures.merges = targets.merges;
        }
        let prepared = self.router().clock().elapsed();
        let page = PageOfQuery { limits, token, query_hash, range_id };
        // Rare cases are boxed: the future of a query in one partition is moved as a whole on its way.
        match targets {
            Targets { merges: true, parts } => Box::pin(running.fan_out(&mut reply, &parts, page)).await?,
            // A range that was cut since the token was made, joined again or not: its parts are at different rows.
            Targets { merges: false, parts }
                if range_id.is_some() && parts.len() > 1 && running.prepared.merges_in_order() =>
            {
                let gone = gone.unwrap_or_else(query_former::cut_anew);
                Box::pin(running.merge_in_order(&mut reply, &parts, page, gone)).await?;
            }
            Targets { merges: false, parts } => running.drain(&mut reply, parts, page).await?,
        }
        reply.planning = prepared.saturating_sub(bound);
        reply.execution = self.router().clock().elapsed().saturating_sub(prepared);
        Ok(reply)
    }

    /// The plan for a client that merges the query itself.
    pub fn query_plan(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        text: &str,
        parameters: &[(String, Value)],
        supported: &SupportedFeatures,
    ) -> Result<PlanReply> {
        let query = self.parsed(text, parameters)?;
        let asked = Asked { query: &query, parameters, hash: hash_of(text, parameters) };
        let plan = self.known(ctx, &container.entry, asked)?.plan(&container.entry)?;
        plan.check(*supported)?;
        let ranges = plan_ranges(&container.entry, &plan);
        Ok(PlanReply { plan: Arc::unwrap_or_clone(plan), ranges })
    }

    /// The query, bound to the container as its entry defines it.
    pub fn known(
        &self,
        ctx: &RequestContext,
        entry: &ContainerEntry,
        asked: Asked<'_>,
    ) -> Result<Arc<KnownQuery>> {
        let environment = QueryEnvironment {
            computed: &entry.shape.computed,
            geometry: entry.shape.geometry,
            now: ctx.now,
            // Random numbers are drawn only for rows.
            random_seed: 0,
            scripts: Some(&entry.scripts),
        };
        Ok(self.0.cache.known(entry, asked, &environment)?)
    }

    /// How often a query was bound to a container; once for each text, parameters and container.
    pub fn queries_bound(&self) -> u64 {
        self.0.cache.bound()
    }

    pub fn prepare<'a>(
        &'a self,
        ctx: &'a RequestContext,
        entry: &'a Arc<ContainerEntry>,
        known: &Arc<KnownQuery>,
        parts: &[Part],
    ) -> Result<Running<'a>> {
        let prepared = known.prepared.at(ctx.now, self.router().random().below(u64::MAX));
        let key = QueryKey::of(entry, &prepared, parts);
        let access = known.access(entry, key.values(entry))?;
        Ok(Running {
            key,
            queries: self,
            ctx,
            entry,
            known: known.clone(),
            prepared,
            resume_filter: None,
            access,
            command: self.items().command(ctx, 0),
            text_hash: known.hash,
            template: known.query.template().clone(),
            page_end: self.router().clock().elapsed() + self.router().limits().query_page_time,
            own: None,
            within: None,
            surcharge_centi: AtomicU64::new(0),
            is_timed: false,
        })
    }

    pub fn parsed(&self, text: &str, parameters: &[(String, Value)]) -> Result<Query> {
        Ok(self.0.cache.parsed(text, parameters)?)
    }

    pub fn row_limits(&self, max_items: Option<i64>) -> Result<PageLimits> {
        let limits = self.items().page_limits(max_items)?;
        Ok(PageLimits { rows: limits.items, size_bytes: limits.size_bytes })
    }
}

impl Running<'_> {
    /// A reply without rows.
    pub fn begin(&self, wants: QueryWants, query: &Query, parts: &[Part]) -> Result<QueryReply> {
        let explained = wants.explanation || wants.figures;
        let access = if explained { self.access_in_words()? } else { String::new() };
        Ok(QueryReply {
            rows: Rows::default(),
            continuation: None,
            meta: ReplyMeta::default(),
            ranges: vec![],
            statistics: QueryStatistics::default(),
            preparation: Duration::ZERO,
            planning: Duration::ZERO,
            execution: Duration::ZERO,
            explanation: wants.explanation.then(|| access.clone()),
            utilization: wants.utilization.then(|| self.utilization(parts)),
            advice: wants.advice.then(|| query_advice(query)),
            figures: wants.figures.then(|| QueryFigures {
                outline: query.outline(),
                access,
                ..QueryFigures::default()
            }),
        })
    }

    /// The plan in words, with the values of the partition key; the current plan may have been made for
    /// another key.
    fn access_in_words(&self) -> Result<String> {
        let key = self.key.values(self.entry);
        Ok(plan_access(&self.prepared, &self.entry.shape.index_schema(), &key)?.to_string())
    }

    fn utilization(&self, parts: &[Part]) -> IndexUtilization {
        let shape = &self.entry.shape;
        // The key of a single logical partition is looked up in the index, too.
        let is_one = matches!(parts, [part] if part.is_one_logical_partition());
        let names = |path: &KeyPath| path.0.clone();
        let keys: Vec<Vec<String>> =
            if is_one { shape.key_paths.iter().map(names).collect() } else { vec![] };
        index_utilization(&self.prepared, &shape.index_schema(), &self.access, &keys)
    }

    /// Reads the part that the token names, or the first.
    pub async fn drain(
        &self,
        reply: &mut QueryReply,
        parts: Vec<Part>,
        PageOfQuery { limits, token, query_hash, range_id }: PageOfQuery,
    ) -> Result<()> {
        let mut done = token.as_ref().map(|token| token.counters).unwrap_or_default();
        let charged = done.charged;
        let parts: Vec<Part> = match &token {
            Some(token) => parts.iter().flat_map(|part| part.cut_by(token)).collect(),
            None => parts,
        };
        let end = parts.last().map(|part| part.span.max.clone());
        let mut parts = parts.into_iter();
        if let Some(part) = parts.next() {
            part.partition.hosted().check_session(self.ctx)?;
            if let (Some(token), true) = (&token, part.is_one_logical_partition()) {
                token.check_key(&part.span)?;
            }
            let piece = token.as_ref().and_then(|token| token.piece_of(&part.span));
            let piece = piece.filter(|piece| !piece.position.is_empty());
            let mut permit = self.permit(&part, done, self.prepared.steps())?;
            let resume = piece.map(|piece| piece.position.clone());
            let page = match self.page(&part, resume, limits, &mut permit).await {
                Ok(page) => page,
                Err(error) => return Err(permit.failed(error)),
            };
            done = done.plus(self.counters(&page));
            self.charge(&mut done);
            assert!(done.charged >= charged, "a page never lowers the charge of its query");
            debug_assert!(page.rows.len() <= limits.rows, "a page has no more rows than its limit");
            let size_bytes = page.statistics.rows_bytes;
            permit.settle(Cost { charge_centi: done.charged - charged, size_bytes, creates: false });
            self.note(reply, &part, &page);
            reply.rows = page.rows;
            // An empty span has nothing left.
            let position = page.next.filter(|_| !part.span.is_empty());
            let at = position.map(|position| Piece { span: part.span.clone(), position });
            if at.is_some() || parts.next().is_some() {
                let mut pieces = QueryToken::pieces_after(token.as_ref(), &part.span, at);
                if let Some(end) = end {
                    QueryToken::end_pieces_at(&mut pieces, &end);
                }
                let container = self.entry.record.container.rid.number;
                let next = QueryToken { container, query_hash, range_id, counters: done, pieces };
                reply.continuation = Some(next.encode()?);
            }
        }
        self.complete(reply, done.charged - charged);
        Ok(())
    }

    /// `before` counts the query's work before the page, and `steps` the steps made for the page already.
    pub fn permit<'p>(&'p self, part: &'p Part, before: QueryCounters, steps: u64) -> Result<PagePermit<'p>> {
        let touched = touched(&part.filter, &part.span);
        let permit = part.partition.hosted().admit(self.ctx, OperationKind::Query, touched)?;
        Ok(PagePermit::new(self, permit.for_query(&self.template), before, steps))
    }

    /// The increase of the charge by a page, recorded in `done`.
    pub fn charge(&self, done: &mut QueryCounters) -> u64 {
        self.queries.0.router.charges().query_page(done, self.ctx.consistency).0
    }

    pub fn complete(&self, reply: &mut QueryReply, charge_centi: u64) {
        reply.meta.charge_centi = charge_centi + self.surcharge_centi.load(Ordering::Relaxed);
        if let Some(figures) = &mut reply.figures {
            figures.divide(reply.meta.charge_centi);
        }
        reply.meta.session_version = self.entry.record.session_version;
        reply.meta.range_id = reply.ranges.first().map(|(id, _)| *id);
        reply.meta.lsn = reply.ranges.first().map_or(0, |(_, lsn)| *lsn);
    }

    /// Adds the answer of a partition, except its rows.
    pub fn note(&self, reply: &mut QueryReply, part: &Part, page: &QueryPage) {
        let partition = &part.partition;
        if !reply.ranges.iter().any(|(id, _)| *id == partition.range_id()) {
            reply.ranges.push((partition.range_id(), partition.durable_lsn()));
        }
        reply.statistics.add(&page.statistics);
        if let Some(words) = &mut reply.explanation {
            words.push_str(&format!("range {}: {}\n", partition.range_id(), page.access));
        }
        if let Some(figures) = &mut reply.figures {
            let weight = self.charge(&mut self.counters(page));
            figures.note(partition.range_id(), page, weight);
        }
        if let Some((index_id, path_hash)) = page.wants_counter {
            partition.hosted().partition().count_path_in_background(index_id, path_hash);
        }
    }

    /// The increase of the query's counters by a page. Each page asks its partition again, which has a price.
    pub fn counters(&self, page: &QueryPage) -> QueryCounters {
        let rows = page.rows.len() as u64;
        if !page.is_repeated {
            return counters_of(&page.statistics, rows, page.stands_for_index);
        }
        counters_of_repeated(&page.statistics, rows)
    }
}

pub fn hash_of(text: &str, parameters: &[(String, Value)]) -> u64 {
    let mut hasher = Xxh3::new();
    text.hash(&mut hasher);
    for (name, value) in parameters {
        name.hash(&mut hasher);
        value.to_json().unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}
