//! The transaction of a script as the script sees it: the methods of its collection over one logical partition.
//!
//! A failed call is reported to the script by number and text, and the script may continue. Some failures are
//! not the script's to catch: the partition has moved, the storage is gone, the request has no time left.
//! Such a failure is kept, all later calls fail, and the caller of the script gets the failure instead of the
//! script's result.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use shardlake_document::{ParseLimits, Value};
use shardlake_model::{ETagCondition, Error, ErrorKind, Preconditions, Priority, RequestContext, Result};
use shardlake_partition::{
    FeedFilter, ItemReply, LogicalTransaction, Operation, Outcome, PreparedBody, StoredItem, prepare,
};
use shardlake_script::{Store, StoreAnswer, StoreFailure, StoreOperation, StoreReply, StoreRequest};
use shardlake_sql::Rows;

use crate::ScriptRuns;
use crate::script_run_links::{ItemLink, check_container_link, item_of_link};
use shardlake_items::item_of_json_in;
use shardlake_items::{decode_token, encode_token};
use shardlake_queries::Asked;
use shardlake_queries::Part;
use shardlake_queries::QueryToken;
use shardlake_queries::{PageOfQuery, QueryWants, hash_of};
use shardlake_router::body_key;
use shardlake_router::{ContainerEntry, partition_of};

/// Limit on individually recorded writes.
const WRITES_MAX: usize = 1_000;

/// A write of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptedWrite {
    pub operation: &'static str,
    pub id: String,
}

impl ScriptedWrite {
    /// `None` for reads.
    fn of(operation: &Operation) -> Option<ScriptedWrite> {
        let name = match operation {
            Operation::Create { .. } => "create",
            Operation::Upsert { .. } => "upsert",
            Operation::Replace { .. } => "replace",
            Operation::Delete { .. } => "delete",
            Operation::Patch { .. } => "patch",
            Operation::Change { .. } => "change",
            Operation::Read { .. } => return None,
        };
        Some(ScriptedWrite { operation: name, id: operation.id().to_owned() })
    }
}

pub struct ScriptStore<'a> {
    pub runs: &'a ScriptRuns,
    pub entry: &'a Arc<ContainerEntry>,
    pub transaction: LogicalTransaction,
    /// The context of the script's own calls: with its time, outside every budget, since the script as a
    /// whole is admitted.
    ctx: RequestContext,
    pub spent_centi: u64,
    pub size_bytes: u64,
    pub creates: bool,
    /// The writes in order, if they are recorded.
    pub writes: Option<Vec<ScriptedWrite>>,
    /// The time limit of one script.
    time: Duration,
    /// The time after which calls are refused.
    time_up: Duration,
    /// The deadline of the request.
    request_deadline: Duration,
    fatal: Option<Error>,
}

impl<'a> ScriptStore<'a> {
    /// `time` is the limit of each script.
    pub fn new(
        runs: &'a ScriptRuns,
        entry: &'a Arc<ContainerEntry>,
        transaction: LogicalTransaction,
        ctx: &RequestContext,
        time: Duration,
    ) -> Self {
        let request_deadline = ctx.deadline;
        let ctx = RequestContext {
            now: transaction.command().now,
            session: None,
            priority: Priority::System,
            // A script's reads stay in the server.
            answer_space: None,
            ..ctx.clone()
        };
        ScriptStore {
            runs,
            entry,
            transaction,
            ctx,
            spent_centi: 0,
            writes: None,
            size_bytes: 0,
            creates: false,
            time,
            time_up: request_deadline,
            request_deadline,
            fatal: None,
        }
    }

    /// The fatal failure, if any, which replaces the script's answer.
    pub fn take_fatal(&mut self) -> Option<Error> {
        self.fatal.take()
    }

    /// Whether the script may make more calls: it may use nine tenths of its request units and four fifths of
    /// its time.
    fn accepts_more(&self) -> bool {
        let budget = self.runs.router().limits().script_charge_centi_max;
        self.fatal.is_none()
            && self.spent_centi < budget - budget / 10
            && self.runs.router().clock().elapsed() < self.time_up
    }

    async fn answer(&mut self, request: StoreRequest) -> Result<StoreAnswer> {
        match request.operation {
            StoreOperation::ReadDocument => self.read(request).await,
            StoreOperation::ReadDocuments => self.read_page(request).await,
            StoreOperation::QueryDocuments => self.query(request).await,
            StoreOperation::CreateDocument => {
                check_container_link(self.entry, &request.link)?;
                let item = self.body_of_new(&request).await?;
                self.write(&request, Operation::Create { item }).await
            }
            StoreOperation::UpsertDocument => {
                check_container_link(self.entry, &request.link)?;
                let item = self.body_of_new(&request).await?;
                let preconditions = preconditions(&request);
                self.write(&request, Operation::Upsert { item, preconditions }).await
            }
            StoreOperation::ReplaceDocument => {
                let id = self.id_of_link(&request.link).await?;
                let item = self.prepared(body(&request)?).await?;
                let preconditions = preconditions(&request);
                self.write(&request, Operation::Replace { id, item, preconditions }).await
            }
            StoreOperation::DeleteDocument => {
                let id = self.id_of_link(&request.link).await?;
                let preconditions = preconditions(&request);
                self.write(&request, Operation::Delete { id, preconditions }).await
            }
        }
    }

    async fn id_of_link(&mut self, link: &str) -> Result<String> {
        match item_of_link(self.entry, link)? {
            ItemLink::Id(id) => Ok(id.to_owned()),
            ItemLink::Ordinal(ordinal) => {
                let id = self.transaction.id_of_ordinal(ordinal).await?;
                id.ok_or_else(|| Error::new(ErrorKind::NotFound, "Resource Not Found."))
            }
        }
    }

    /// One step of the transaction, charged.
    pub async fn execute(&mut self, operation: &Operation) -> Result<ItemReply> {
        self.entry.check_takes_writes()?;
        let etag = self.runs.router().random().guid();
        let reply = self.transaction.execute(operation, etag).await;
        let meta = reply.as_ref().map_or_else(Error::meta, |reply| &reply.meta);
        self.spent_centi += meta.charge_centi;
        if let Ok(reply) = &reply {
            self.creates |= reply.outcome == Outcome::Created;
            if let Some(writes) = self.writes.as_mut().filter(|writes| writes.len() < WRITES_MAX) {
                writes.extend(ScriptedWrite::of(operation));
            }
            let recorded = self.writes.as_ref().map_or(0, Vec::len);
            debug_assert!(recorded <= WRITES_MAX, "so many writes are recorded");
            self.size_bytes += reply.item.as_ref().map_or(0, |item| item.json_size_bytes() as u64);
        }
        reply
    }

    /// The current item in the transaction, `None` if it was deleted; not charged.
    pub async fn last_version(&mut self, item: &StoredItem) -> Result<Option<StoredItem>> {
        let id = self.transaction.id_of_ordinal(item.envelope().ordinal).await?;
        match id {
            Some(id) => self.version_of(id).await,
            None => Ok(None),
        }
    }

    /// The current item with this id, not charged.
    pub async fn version_of(&mut self, id: String) -> Result<Option<StoredItem>> {
        let read = Operation::Read { id, preconditions: Preconditions::default() };
        match self.transaction.execute(&read, Default::default()).await {
            Ok(reply) => Ok(reply.item),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn write(&mut self, request: &StoreRequest, operation: Operation) -> Result<StoreAnswer> {
        let reply = self.execute(&operation).await?;
        let shown = reply.item.as_ref().filter(|_| request.wants_body);
        Ok(StoreAnswer { body: shown.map(json_of).transpose()?, ..StoreAnswer::default() })
    }

    async fn read(&mut self, request: StoreRequest) -> Result<StoreAnswer> {
        let id = self.id_of_link(&request.link).await?;
        let reply = self.execute(&Operation::Read { id, preconditions: preconditions(&request) }).await?;
        if reply.outcome == Outcome::NotModified {
            return Ok(StoreAnswer { not_modified: true, ..StoreAnswer::default() });
        }
        Ok(StoreAnswer { body: reply.item.as_ref().map(json_of).transpose()?, ..StoreAnswer::default() })
    }

    async fn read_page(&mut self, request: StoreRequest) -> Result<StoreAnswer> {
        check_container_link(self.entry, &request.link)?;
        let limits = self.runs.items().page_limits(request.page_size)?;
        let continuation = request.continuation.as_deref().filter(|token| !token.is_empty());
        let after = continuation.map(|token| decode_token(self.entry, token)).transpose()?;
        let page = self.transaction.read_page(after.as_deref(), limits).await?;
        let sizes = page.items.iter().map(StoredItem::json_size_bytes);
        self.spent_centi += self.entry.shape.charges.feed_page(sizes, self.ctx.consistency).0;
        self.size_bytes += page.size_bytes as u64;
        let mut rows = Rows::default();
        let mut text = Vec::new();
        for item in &page.items {
            text.clear();
            item.write_json(&mut text);
            rows.push_text(&text);
        }
        let continuation = page.next.map(|position| encode_token(self.entry, &position));
        Ok(StoreAnswer { body: Some(array_of(&rows)?), continuation, not_modified: false })
    }

    async fn query(&mut self, request: StoreRequest) -> Result<StoreAnswer> {
        check_container_link(self.entry, &request.link)?;
        let (text, parameters) = self.query_of(body(&request)?)?;
        let limits = self.runs.queries().row_limits(request.page_size)?;
        self.transaction.settle().await?;
        let query = self.runs.queries().parsed(&text, &parameters)?;
        let query_hash = hash_of(&text, &parameters);
        let asked = Asked { query: &query, parameters: &parameters, hash: query_hash };
        let continuation = request.continuation.as_deref().filter(|token| !token.is_empty());
        let decode =
            |token| QueryToken::decode(token, self.entry.record.container.rid.number, [query_hash; 2]);
        let token = continuation.map(decode).transpose()?;
        let filter = FeedFilter::Logical(self.transaction.logical().clone());
        let parts = vec![Part::new(partition_of(self.entry, self.transaction.logical()), filter)];
        let known = self.runs.queries().known(&self.ctx, self.entry, asked)?;
        let mut running = self.runs.queries().prepare(&self.ctx, self.entry, &known, &parts)?;
        running.own = Some(self.transaction.own_items().clone());
        let mut reply = running.begin(QueryWants::default(), &query, &parts)?;
        let page = PageOfQuery { limits, token, query_hash, range_id: None };
        let drained = running.drain(&mut reply, parts, page).await;
        self.spent_centi += match &drained {
            Ok(()) => reply.meta.charge_centi,
            Err(error) => error.meta().charge_centi,
        };
        drained?;
        self.size_bytes += reply.rows.size_bytes() as u64;
        Ok(StoreAnswer {
            body: Some(array_of(&reply.rows)?),
            continuation: reply.continuation,
            not_modified: false,
        })
    }

    /// A query as a script gives it: a text, or an object with parameters.
    fn query_of(&self, json: &str) -> Result<(String, Vec<(String, Value)>)> {
        let invalid = || Error::bad_request("the query is neither a text nor an object with 'query'");
        let limits = ParseLimits { size_max_bytes: json.len(), ..ParseLimits::default() };
        let query = Value::from_json(json.as_bytes(), &limits)
            .map_err(|error| Error::bad_request(format!("the query is not valid: {error}")))?;
        let text = query.as_str().or_else(|| query.get("query").and_then(Value::as_str));
        let text = text.ok_or_else(invalid)?.to_owned();
        let listed = match query.get("parameters") {
            None | Some(Value::Null | Value::Undefined) => &[],
            Some(Value::Array(listed)) => &listed[..],
            Some(_) => return Err(Error::bad_request("the query's parameters are not an array")),
        };
        let max = self.runs.router().limits().query_parameters_max;
        if listed.len() > max {
            return Err(Error::bad_request(format!(
                "the query has {} parameters, more than the limit of {max}",
                listed.len()
            )));
        }
        Ok((text, listed.iter().map(parameter).collect::<Result<_>>()?))
    }

    /// The body of an item of the transaction's logical partition.
    pub async fn prepared(&self, json: &str) -> Result<PreparedBody> {
        let shape = &self.entry.shape;
        let body = item_of_json_in(json.as_bytes(), &shape.limits, shape.is_collection)?;
        let item = prepare(body, &self.entry.shape).await?;
        let key = body_key(self.entry, &item)?;
        if !key.same(&self.transaction.logical().partition_key) {
            return Err(Error::new(
                ErrorKind::PartitionKeyMismatch,
                "Requests originating from scripts cannot reference partition keys other than the one for which client request was submitted.",
            ));
        }
        Ok(item)
    }

    /// Like `prepared`, for a new item: adds an id if it is missing.
    async fn body_of_new(&self, request: &StoreRequest) -> Result<PreparedBody> {
        let json = body(request)?;
        let prepared = self.prepared(json).await;
        if prepared.is_ok() || request.disables_id_generation {
            return prepared;
        }
        let limits = ParseLimits::of_items(&self.entry.shape.limits);
        let Ok(Value::Object(mut members)) = Value::from_json(json.as_bytes(), &limits) else {
            return prepared;
        };
        let id = Value::String(self.runs.router().random().guid().to_string());
        match members.iter_mut().find(|(name, _)| name == "id") {
            Some((_, own)) if is_falsy(own) => *own = id,
            Some(_) => return prepared,
            None => members.push(("id".to_owned(), id)),
        }
        let json = Value::Object(members).to_json();
        self.prepared(&json.map_err(|error| Error::bad_request(error.to_string()))?).await
    }
}

impl Store for ScriptStore<'_> {
    /// Waiting for other writers and for a worker does not count as the script's time.
    fn begin(&mut self) {
        let now = self.runs.router().clock().elapsed();
        let time = self.time.min(self.request_deadline.saturating_sub(now));
        self.ctx.deadline = now + time;
        // The last fifth of the time is reserved for finishing.
        self.time_up = now + time - time / 5;
        debug_assert!(self.time_up <= self.ctx.deadline, "the last fifth of the time is for finishing");
    }

    fn call<'a>(&'a mut self, request: StoreRequest) -> BoxFuture<'a, StoreReply> {
        async move {
            let outcome = self.answer_in_time(request).await.map_err(|error| failure(&error));
            StoreReply { outcome, accepts_more: self.accepts_more() }
        }
        .boxed()
    }
}

impl ScriptStore<'_> {
    async fn answer_in_time(&mut self, request: StoreRequest) -> Result<StoreAnswer> {
        if let Some(fatal) = &self.fatal {
            return Err(Error::new(fatal.kind(), fatal.message()));
        }
        let outcome = match self.runs.router().clock().elapsed() < self.ctx.deadline {
            true => self.answer(request).await,
            false => Err(Error::new(ErrorKind::Timeout, "the time of the script's request is over")),
        };
        if let Err(error) = &outcome {
            self.fatal = self.fatal_of(error);
        }
        outcome
    }

    /// The failure of the whole run, if this error ends it.
    fn fatal_of(&self, error: &Error) -> Option<Error> {
        use ErrorKind::*;
        match error.kind() {
            Timeout if self.runs.router().clock().elapsed() < self.request_deadline => Some(Error::new(
                Forbidden,
                "the script and its calls took longer than a script may: do less in each run",
            )),
            PartitionGone | OwnerNotFound | Timeout | TooManyRequests | Unavailable | Corrupt | Internal => {
                let fatal = Error::new(error.kind(), error.message()).with_meta(*error.meta());
                Some(match error.retry_after_ms() {
                    Some(wait_ms) => fatal.with_retry_after_ms(wait_ms),
                    None => fatal,
                })
            }
            _ => None,
        }
    }
}

/// The failure with the numbers that scripts know.
fn failure(error: &Error) -> StoreFailure {
    use ErrorKind::*;
    let number = match error.kind() {
        BadRequest | PartitionKeyMismatch | StaleContainer | CrossPartitionQuery | Unsupported
        | MethodNotAllowed => 400,
        Unauthorized | Forbidden | LogicalPartitionFull | PartitionFull | AccountFull => 403,
        NotFound | OwnerNotFound => 404,
        Conflict => 409,
        PreconditionFailed => 412,
        TooLarge => 413,
        InProgress | PartitionGone | SessionNotAvailable | TooManyRequests => 449,
        Timeout | FailedDependency | Unavailable | Corrupt | Internal => 500,
    };
    StoreFailure { number, message: error.message().to_owned() }
}

fn body(request: &StoreRequest) -> Result<&str> {
    request
        .body
        .as_deref()
        .ok_or_else(|| Error::bad_request("the call of the collection's method has no body"))
}

fn preconditions(request: &StoreRequest) -> Preconditions {
    let condition =
        |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(ETagCondition::parse);
    Preconditions { if_match: condition(&request.if_match), if_none_match: condition(&request.if_none_match) }
}

pub fn json_of(item: &StoredItem) -> Result<String> {
    let mut text = Vec::with_capacity(item.json_size_bytes());
    item.write_json(&mut text);
    String::from_utf8(text).map_err(|_| Error::internal("an item renders as UTF-8"))
}

fn array_of(rows: &Rows) -> Result<String> {
    let mut text = Vec::with_capacity(rows.size_bytes() + rows.len() + 2);
    text.push(b'[');
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        text.extend_from_slice(row);
    }
    text.push(b']');
    String::from_utf8(text).map_err(|_| Error::internal("rows are UTF-8"))
}

fn is_falsy(value: &Value) -> bool {
    match value {
        Value::Undefined | Value::Null | Value::Bool(false) | Value::Int(0) => true,
        Value::Double(number) => *number == 0.0 || number.is_nan(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn parameter(listed: &Value) -> Result<(String, Value)> {
    let name = listed.get("name").and_then(Value::as_str);
    let name = name.ok_or_else(|| Error::bad_request("a parameter of the query has no name"))?;
    Ok((name.to_owned(), listed.get("value").cloned().unwrap_or(Value::Null)))
}
