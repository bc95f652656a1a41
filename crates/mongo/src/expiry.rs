//! Expiry by an index with `expireAfterSeconds`: the document's date, or the earliest of an array of dates, lies so
//! many seconds back. The API that wrote a document makes no difference. It is removed like by a client: change streams
//! report the delete, and its unique values are free again. (An index on `_ts` is the container's own time to live,
//! which the partitions look after.)
//!
//! Expiry stores no state. A sweep reads the expired documents of each of these indexes page by page, so splits, moves
//! and restarts have no effect on it. The caller paces it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use shardlake_model::{ContainerRid, Priority, RequestContext};
use shardlake_mql::kept_collation;
use shardlake_mql::write::{ActionSource, DocumentChange, DocumentStep, StepSource, document_of};
use shardlake_mql::{Document, SIMPLE, Scope, Value};
use shardlake_queries::ItemsRequest;
use shardlake_router::CapacityMode;
use shardlake_stdx::Timestamp;

use crate::collections::{Collection, Collections, Namespace};
use crate::failure::{Failure, Result};
use crate::plan::{plan, shown};
use crate::request::Request;

/// Time limit of one step; a document that a transaction locks for longer is left to the next sweep.
const STEP_MAX: Duration = Duration::from_secs(5);
/// A collection that has spent its request units is left alone but for one step in this time.
const PATIENCE: Duration = Duration::from_secs(1);

/// The rest of one pass over all collections.
#[derive(Debug)]
pub struct ExpirySweep {
    rules: VecDeque<Rule>,
    /// Documents are expired relative to this time.
    now: Timestamp,
    removed: u64,
}

/// One index, and how far it was read.
#[derive(Debug)]
struct Rule {
    namespace: Namespace,
    rid: ContainerRid,
    index: String,
    continuation: Option<String>,
}

impl ExpirySweep {
    pub fn is_complete(&self) -> bool {
        self.rules.is_empty()
    }

    pub fn removed(&self) -> u64 {
        self.removed
    }
}

impl Collections {
    /// Begins a look at all indexes with `expireAfterSeconds`.
    pub fn begin_expiry(&self) -> ExpirySweep {
        let mut rules = VecDeque::new();
        for database in self.databases() {
            // A collection that cannot be read now is looked at the next time.
            for collection in
                self.list(&database.id).into_iter().flatten().filter_map(|listed| listed.collection)
            {
                let timed = collection.meta.indexes.iter().filter(|index| date_path(index).is_some());
                rules.extend(timed.map(|index| Rule {
                    namespace: collection.namespace.clone(),
                    rid: collection.handle.container().rid,
                    index: index.value("name").as_str().unwrap_or_default().to_owned(),
                    continuation: None,
                }));
            }
        }
        ExpirySweep { rules, now: self.queries.router().clock().now(), removed: 0 }
    }

    /// Removes up to so many documents. Returns the wait before the next step if there is a reason besides the pace.
    pub async fn expire_some(&self, sweep: &mut ExpirySweep, documents_max: usize) -> Option<Duration> {
        let mut rule = sweep.rules.pop_front()?;
        let was_spent = match self.rule_in_force(&rule) {
            Some((collection, _)) => self.is_spent(&collection),
            None => return None,
        };
        match self.expire_page(&mut rule, sweep.now, documents_max).await {
            Ok(removed) => {
                sweep.removed += removed;
                if rule.continuation.is_some() {
                    // Other rules are served first.
                    sweep.rules.push_back(rule);
                }
            }
            // The next sweep continues.
            Err(failure) => {
                tracing::debug!(namespace = %rule.namespace, index = rule.index, code = failure.code, "removing documents whose time is over was broken off");
            }
        }
        was_spent.then_some(PATIENCE)
    }

    /// The collection and the index of a rule, unless they were dropped or replaced.
    fn rule_in_force(&self, rule: &Rule) -> Option<(Collection, Document)> {
        let collection = self.collection(&rule.namespace).ok()??;
        if collection.handle.container().rid != rule.rid {
            return None;
        }
        let is_it = |index: &&Document| index.value("name").as_str() == Some(&rule.index);
        let index = collection.meta.indexes.iter().find(is_it).cloned();
        index.map(|index| (collection, index))
    }

    async fn expire_page(&self, rule: &mut Rule, now: Timestamp, documents_max: usize) -> Result<u64> {
        let continuation = rule.continuation.take();
        let Some((collection, index)) = self.rule_in_force(rule) else { return Ok(0) };
        let Some(dates) = dates_of(&index, now) else { return Ok(0) };
        let filter = filter_of(&index, &dates);
        // The index's collation decides which documents the index holds. Dates in the other API's form are compared
        // byte by byte: all have one form.
        let collation = kept_collation(&index)?;
        let planned = if collation.is_simple() { &filter } else { &dates };
        let plan = plan(planned, &SIMPLE, collection.shard_key());
        let scope = Scope::with_collation(collation);
        let step = Arc::new(DocumentStep::of(StepSource { filter, action: ActionSource::Remove, scope })?);
        let request = self.request_of_its_own();
        let change = Arc::new(DocumentChange {
            step,
            rules: collection.rules.clone(),
            env: request.env(),
            checks: false,
        });
        let built = plan.query.build();
        let asked = ItemsRequest {
            built: &built,
            scope: plan.scope,
            max_items: Some(i64::try_from(documents_max.max(1)).unwrap_or(i64::MAX)),
            continuation: continuation.as_deref(),
            in_any_order: true,
            within: None,
        };
        let page = self.queries.find_items(&request.ctx, &collection.handle, asked).await?;
        rule.continuation = page.continuation;
        let mut removed = 0;
        for body in page.rows.iter() {
            let document = document_of(body)?;
            if !change.filter().matches(&document, &mut request.env())? {
                continue;
            }
            let name = collection.name_of(&document)?;
            // The document is matched again under its write lock: a document with a new date stays.
            match self.change(&request, &collection, name, &change, None).await {
                Ok(effect) => removed += u64::from(effect.is_some()),
                Err(failure) if is_of_one_document(&failure) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(removed)
    }

    fn is_spent(&self, collection: &Collection) -> bool {
        let entry = &collection.handle.entry;
        let reports = entry.budget.report(self.queries.router().clock().elapsed());
        !reports.is_empty() && reports.iter().all(|(_, report)| report.level_centi <= 0)
    }

    /// Expiry is free, except in serverless accounts, where it costs as much as deletes.
    pub(crate) fn request_of_its_own(&self) -> Request {
        self.request_for(STEP_MAX)
    }

    /// A request without a time limit, for work at a start.
    pub(crate) fn request_without_end(&self) -> Request {
        self.request_for(Duration::from_secs(365 * 24 * 3600))
    }

    fn request_for(&self, time: Duration) -> Request {
        let random = self.queries.router().random();
        let clock = self.queries.router().clock().clone();
        let context = RequestContext::internal(&clock, random.guid());
        let is_paid = self.queries.router().throughput_rules().capacity == CapacityMode::Serverless;
        let priority = if is_paid { Priority::Low } else { Priority::System };
        let context = RequestContext { deadline: clock.elapsed() + time, priority, ..context };
        Request::charged_to(context, random.u64(), Arc::new(AtomicU64::new(0)), clock)
    }
}

/// Another document may go well: a transaction has this one, or it changes all the time.
fn is_of_one_document(failure: &Failure) -> bool {
    matches!(failure.code, 50 | 112)
}

/// The path of an index whose documents have an end, unless that is the time of the last write.
fn date_path(index: &Document) -> Option<&str> {
    let key = index.get("key")?.as_document()?;
    let is_timed = index.get("expireAfterSeconds")?.is_number() && key.len() == 1;
    let (path, _) = key.first()?;
    (is_timed && &**path != "_ts").then_some(&**path)
}

/// The filter for expired documents of an index.
fn filter_of(index: &Document, dates: &Document) -> Document {
    let Some(rows) = index.get("partialFilterExpression").and_then(Value::as_document) else {
        return dates.clone();
    };
    let parts = [dates, &**rows].map(|part| Value::document(part.clone()));
    Document::one("$and", Value::array(parts.to_vec()))
}

/// The filter for expired dates. Dates compare with dates alone, and the earliest date of an array decides.
fn dates_of(index: &Document, now: Timestamp) -> Option<Document> {
    let seconds = index.get("expireAfterSeconds")?.to_f64().filter(|seconds| seconds.is_finite())?;
    let last = (now.milliseconds() as i64).saturating_sub((seconds * 1000.0) as i64);
    let path = date_path(index)?;
    let over = |path: &str, operator: &str, value: Value| {
        Value::document(Document::one(path, Value::document(Document::one(operator, value))))
    };
    let mut either = vec![over(path, "$lte", Value::Date(last))];
    // The REST protocol stores a date as the object that JSON shows. Its text sorts correctly to the second.
    let second = (last.div_euclid(1000) - 1).saturating_mul(1000);
    if let Some((member, text)) = shown(&Value::Date(second)) {
        either.push(over(&format!("{path}.{member}"), "$lt", Value::string(text)));
    }
    Some(Document::one("$or", Value::array(either)))
}
