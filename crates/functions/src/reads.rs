//! Reads of a function while it runs.
//!
//! A failed read is the function's to catch, unless it is no fault of the function: a budget that is spent, a moved
//! partition, a storage that does not answer. Such a failure ends the run, whichever way the function takes it.

use futures::FutureExt;
use futures::future::BoxFuture;
use shardlake_document::{ItemName, ParseLimits, Value, parse_partition_key};
use shardlake_items::{FeedScope, ItemRead, ReadCommand};
use shardlake_model::{Error, ErrorKind, PartitionKey, Preconditions, Result};
use shardlake_queries::{QueryRequest, QueryWants};
use shardlake_router::{ContainerHandle, key_misfit};
use shardlake_script::StoreFailure;
use shardlake_script::changes::{ChangesStore, FunctionQuery, FunctionRead};

use crate::at_work::FunctionAtWork;

/// Rows of one query, and their bytes. The worker asks for one row more than a function may have, and refuses it.
const ROWS_MAX: u32 = 1001;
const ROWS_BYTES_MAX: usize = 4 << 20;
/// Reads that are kept for a trial.
const READS_KEPT: usize = 1000;

/// A read of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionAsked {
    Read(FunctionRead),
    Query(FunctionQuery),
}

pub(crate) struct Reads<'a> {
    at: &'a FunctionAtWork<'a>,
    pub spent_centi: u64,
    /// Ends the run.
    pub fatal: Option<Error>,
    /// The reads, for a trial.
    pub kept: Option<Vec<FunctionAsked>>,
}

impl<'a> Reads<'a> {
    pub fn new(at: &'a FunctionAtWork<'a>) -> Reads<'a> {
        Reads { at, spent_centi: 0, fatal: None, kept: None }
    }

    fn keep(&mut self, read: impl FnOnce() -> FunctionAsked) {
        if let Some(kept) = self.kept.as_mut().filter(|kept| kept.len() < READS_KEPT) {
            kept.push(read());
        }
    }

    async fn item(&mut self, read: FunctionRead) -> Result<Option<String>> {
        self.keep(|| FunctionAsked::Read(read.clone()));
        let container = self.at.accessed(&read.container)?.handle.clone();
        let key = Some(key_of(&read.partition_key)?);
        let item = ItemName::Id(read.id.into());
        let read = ItemRead { item, preconditions: Preconditions::default() };
        let command = ReadCommand { key, read };
        let outcome = self.at.functions.0.queries.items().read(&self.at.context(), &container, command).await;
        let reply = match outcome {
            Ok(reply) => reply,
            Err(error) => {
                self.spent_centi += error.meta().charge_centi;
                return if error.kind() == ErrorKind::NotFound { Ok(None) } else { Err(error) };
            }
        };
        self.spent_centi += reply.meta.charge_centi;
        let stored = reply.item.ok_or_else(|| Error::internal("a read without its item"))?;
        let mut text = Vec::new();
        stored.write_json(&mut text);
        String::from_utf8(text).map(Some).map_err(|_| Error::internal("an item is no UTF-8 text"))
    }

    async fn rows(&mut self, query: FunctionQuery) -> Result<String> {
        self.keep(|| FunctionAsked::Query(query.clone()));
        let container = self.at.accessed(&query.container)?.handle.clone();
        let key = query.partition_key.as_deref().map(key_of).transpose()?;
        let parameters = parameters_of(&query.parameters)?;
        let rows_max = query.rows_max.min(ROWS_MAX);
        let (mut rows, mut count, mut next) = (String::from("["), 0u32, None);
        loop {
            let request = QueryRequest {
                text: &query.text,
                parameters: &parameters,
                scope: key.clone().map_or(FeedScope::All, FeedScope::Key),
                max_items: Some(i64::from(rows_max - count)),
                continuation: next.as_deref(),
                resume_filter: None,
                allows_cross_partition: true,
                fans_out: true,
                wants: QueryWants::default(),
            };
            let (more, continuation) = self.page(&container, request, &mut rows).await?;
            count += more;
            next = continuation;
            if next.is_none() || count >= rows_max {
                break;
            }
        }
        rows.push(']');
        Ok(rows)
    }

    /// Adds a page of rows; returns their number, and where the next page continues.
    async fn page(
        &mut self,
        container: &ContainerHandle,
        request: QueryRequest<'_>,
        rows: &mut String,
    ) -> Result<(u32, Option<String>)> {
        let outcome = self.at.functions.0.queries.query(&self.at.context(), container, request).await;
        let reply = outcome.inspect_err(|error| self.spent_centi += error.meta().charge_centi)?;
        self.spent_centi += reply.meta.charge_centi;
        let mut count = 0;
        for row in reply.rows.iter() {
            if rows.len() > 1 {
                rows.push(',');
            }
            rows.push_str(std::str::from_utf8(row).map_err(|_| Error::internal("a row is no UTF-8 text"))?);
            count += 1;
        }
        if rows.len() > ROWS_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("the rows of the query have more than {ROWS_BYTES_MAX} bytes: narrow it"),
            ));
        }
        Ok((count, reply.continuation))
    }

    fn failure(&mut self, error: Error) -> StoreFailure {
        let number = number_of(error.kind());
        let message = error.message().to_owned();
        if is_passing(&error) {
            self.fatal.get_or_insert(error);
        }
        StoreFailure { number, message }
    }
}

/// The numbers that scripts know.
fn number_of(kind: ErrorKind) -> u16 {
    use ErrorKind::*;
    match kind {
        BadRequest | PartitionKeyMismatch | StaleContainer | CrossPartitionQuery | Unsupported
        | MethodNotAllowed => 400,
        Unauthorized | Forbidden | LogicalPartitionFull | PartitionFull | AccountFull => 403,
        NotFound | OwnerNotFound => 404,
        Conflict => 409,
        PreconditionFailed => 412,
        TooLarge => 413,
        InProgress | PartitionGone | SessionNotAvailable | TooManyRequests => 449,
        Timeout | FailedDependency | Unavailable | Corrupt | Internal => 500,
    }
}

/// Whether waiting helps: neither the function nor its data is at fault.
pub(crate) fn is_passing(error: &Error) -> bool {
    use ErrorKind::*;
    matches!(
        error.kind(),
        StaleContainer
            | SessionNotAvailable
            | Timeout
            | InProgress
            | PartitionGone
            | TooManyRequests
            | Unavailable
            | Corrupt
            | Internal
    )
}

pub(crate) fn key_of(text: &str) -> Result<PartitionKey> {
    parse_partition_key(text).map_err(|error| key_misfit(&error))
}

fn parameters_of(text: &str) -> Result<Vec<(String, Value)>> {
    let invalid = |reason: &dyn std::fmt::Display| {
        Error::bad_request(format!("the parameters of the query are invalid: {reason}"))
    };
    let value =
        Value::from_json(text.as_bytes(), &ParseLimits::default()).map_err(|error| invalid(&error))?;
    let Value::Object(members) = value else { return Err(invalid(&"give an object of values by '@name'")) };
    match members.iter().find(|(name, _)| !name.starts_with('@')) {
        Some((name, _)) => Err(invalid(&format!("'{name}' does not begin with '@'"))),
        None => Ok(members),
    }
}

impl ChangesStore for Reads<'_> {
    fn read<'s>(
        &'s mut self,
        read: FunctionRead,
    ) -> BoxFuture<'s, std::result::Result<Option<String>, StoreFailure>> {
        async move {
            let outcome = self.item(read).await;
            outcome.map_err(|error| self.failure(error))
        }
        .boxed()
    }

    fn query<'s>(
        &'s mut self,
        query: FunctionQuery,
    ) -> BoxFuture<'s, std::result::Result<String, StoreFailure>> {
        async move {
            let outcome = self.rows(query).await;
            outcome.map_err(|error| self.failure(error))
        }
        .boxed()
    }
}
