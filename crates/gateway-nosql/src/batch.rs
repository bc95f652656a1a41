//! Batches of operations in one request: transactional (all or nothing, one logical partition) and bulk (each on its own).
//!
//! Both take a JSON array and answer with a JSON array of results in the same order. The status is
//! 207 as soon as one operation failed by its own fault. In a transaction the failed operation keeps
//! its status and all others are 424. A body that is no item fails its operation alone. A request
//! that the server refuses, as where the store does not answer, has the refusal as its status:
//! clients do not retry, and most do not throw, on 207.

use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use shardlake_account::{
    BatchReply, BodyRoom, BulkOnError, ContainerHandle, HEAVY_BYTES, ItemName, ItemOperation, ItemRead,
    ItemReply, ItemWrite, KeyedOperation, beside, item_of_json_in, key_of_another_partition,
};
use shardlake_model::{
    ETagCondition, Error, ErrorKind, Limits, PartitionKey, Preconditions, ReplyMeta, Result,
};

use crate::call::Call;
use crate::formats::text_of;
use crate::headers::flag;
use crate::patch::PatchBody;
use crate::reply::{Reply, push_charge};
use crate::{errors, items, patch, unsupported};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireOperation<'a> {
    operation_type: String,
    #[serde(default)]
    id: Option<String>,
    #[serde(borrow, default)]
    resource_body: Option<&'a RawValue>,
    /// The key's JSON array, as a string; some clients send the array itself.
    #[serde(borrow, default)]
    partition_key: Option<&'a RawValue>,
    #[serde(default)]
    if_match: Option<String>,
    #[serde(default)]
    if_none_match: Option<String>,
    #[serde(default)]
    indexing_directive: Option<String>,
    #[serde(default)]
    time_to_live_in_seconds: Option<i64>,
    #[serde(default)]
    minimal_return_preference: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Create,
    Upsert,
    Replace,
    Read,
    Delete,
    Patch,
}

/// An operation, or why it cannot be done, and whether its result carries the item.
struct Parsed {
    operation: Result<KeyedOperation>,
    content: bool,
}

/// The operations of a request, and which results carry their item.
struct Asked {
    operations: Vec<Result<KeyedOperation>>,
    wants: Vec<bool>,
    /// For the bodies, until they are written.
    _room: Option<BodyRoom>,
}

impl Asked {
    async fn read(call: &Call<'_>, container: &ContainerHandle, atomic: bool) -> Result<Asked> {
        let limits = call.account.limits();
        let is_collection = container.entry.shape.is_collection;
        let room = call.account.room_for(&call.context, call.body.len()).await?;
        let parsed = match call.body.len() > HEAVY_BYTES {
            false => parse(
                &call.text()?,
                atomic,
                Reading { limits, is_collection, name_of: &|id| container.item_name(id) },
            )?,
            true => {
                let (body, limits) = (call.body.clone(), limits.clone());
                let size_bytes_max = call.settings.body_size_bytes_max;
                let container = container.clone();
                beside(move || {
                    let text = text_of(&body, size_bytes_max)?;
                    let name_of = |id: &str| container.item_name(id);
                    parse(&text, atomic, Reading { limits: &limits, is_collection, name_of: &name_of })
                })
                .await??
            }
        };
        let content = call.headers.wants_content()?;
        let is_read = |entry: &Parsed| entry.operation.as_ref().is_ok_and(|keyed| keyed.operation.is_read());
        let wants = parsed.iter().map(|entry| (content && entry.content) || is_read(entry)).collect();
        let operations = parsed.into_iter().map(|entry| entry.operation).collect();
        Ok(Asked { operations, wants, _room: room })
    }
}

pub(crate) async fn execute_atomic(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let Asked { operations, wants, _room } = Asked::read(call, container, true).await?;
    let key = items::key(call)?.ok_or_else(|| {
        Error::bad_request(
            "a transactional batch needs its partition key in header 'x-ms-documentdb-partitionkey'",
        )
    })?;
    let reply = call.account.batch(&items::reading(call)?, container, &key, operations).await?;
    let size_bytes = reply.outcome.iter().flatten().map(size_of).sum();
    let container = container.clone();
    rendered(size_bytes, move || respond_atomic(reply, &wants, &container)).await
}

pub(crate) async fn execute_bulk(call: &Call<'_>, container: &ContainerHandle) -> Result<Reply> {
    let Asked { operations, wants, _room } = Asked::read(call, container, false).await?;
    call.scope()?.map_or(Ok(()), |scope| scope.check_bulk(container, &operations))?;
    let continues = flag("x-ms-cosmos-batch-continue-on-error", call.headers.batch_continue_on_error)?;
    let on_error = if continues { BulkOnError::Continue } else { BulkOnError::Stop };
    let range_id = call.headers.range_id()?;
    let results =
        call.account.bulk(&items::reading(call)?, container, range_id, operations, on_error).await?;
    let size_bytes = results.iter().flatten().map(size_of).sum();
    let container = container.clone();
    rendered(size_bytes, move || respond_bulk(&results, &wants, &container)).await
}

fn size_of(reply: &ItemReply) -> usize {
    reply.item.as_ref().map_or(0, |item| item.json_size_bytes())
}

/// Renders a reply, beside the threads that answer requests where it is long.
async fn rendered(size_bytes: usize, render: impl FnOnce() -> Reply + Send + 'static) -> Result<Reply> {
    if size_bytes > HEAVY_BYTES { beside(render).await } else { Ok(render()) }
}

/// How the texts of operations are read.
#[derive(Clone, Copy)]
struct Reading<'r> {
    limits: &'r Limits,
    is_collection: bool,
    /// Which item an id in the request names.
    name_of: &'r dyn Fn(&str) -> ItemName,
}

fn parse(body: &[u8], atomic: bool, reading: Reading<'_>) -> Result<Vec<Parsed>> {
    let limits = reading.limits;
    match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => {}
        Some(0x81) => return Err(unsupported::hybrid_row_batch()),
        Some(_) => {
            return Err(Error::bad_request("the batch request body must be a JSON array of operations"));
        }
        None => return Err(Error::bad_request("Batch request has no operations.")),
    }
    if atomic && body.len() > limits.batch_size_bytes_max {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("the batch request has {} bytes, more than {}", body.len(), limits.batch_size_bytes_max),
        ));
    }
    let operations: Vec<WireOperation<'_>> = serde_json::from_slice(body).map_err(|error| {
        Error::bad_request(format!("the batch request is not a valid array of operations: {error}"))
    })?;
    if operations.is_empty() {
        return Err(Error::bad_request("Batch request has no operations."));
    }
    let operations_max = if atomic { limits.batch_operations_max } else { limits.bulk_operations_max };
    if operations.len() > operations_max {
        return Err(Error::bad_request(format!(
            "Batch request has more operations than what is supported. It has {}, and the limit is {operations_max}.",
            operations.len()
        )));
    }
    if atomic {
        for operation in &operations {
            // A text that is no key cannot be the key of the request.
            operation.key().map_err(|_| key_of_another_partition())?;
        }
    }
    let read = |(index, operation): (usize, &WireOperation<'_>)| {
        operation.read(reading).map_err(|error| {
            Error::new(error.kind(), format!("batch operation {index}: {}", error.message()))
        })
    };
    operations.iter().enumerate().map(read).collect()
}

impl WireOperation<'_> {
    fn read(&self, reading: Reading<'_>) -> Result<Parsed> {
        if self
            .indexing_directive
            .as_ref()
            .is_some_and(|directive| !directive.eq_ignore_ascii_case("default"))
        {
            return Err(Error::unsupported("indexing directives are not supported yet; nothing was done"));
        }
        if self.time_to_live_in_seconds.is_some() {
            return Err(Error::unsupported(
                "'timeToLiveInSeconds' is not supported: set the item's 'ttl' property; nothing was done",
            ));
        }
        let kind = self.kind()?;
        let text = self.resource_body.map(RawValue::get).filter(|text| *text != "null");
        let needs =
            |what: &str| Error::bad_request(format!("{} needs the member '{what}'", self.operation_type));
        let has_body = !matches!(kind, Kind::Read | Kind::Delete);
        let text = match text {
            Some(text) => text.as_bytes(),
            None if has_body => return Err(needs("resourceBody")),
            None => &[],
        };
        let patch =
            if kind == Kind::Patch { patch::parse(text, reading.limits)? } else { PatchBody::default() };
        if self.id.is_none() && !matches!(kind, Kind::Create | Kind::Upsert) {
            return Err(needs("id"));
        }
        let operation = || {
            let key = self.key()?;
            let operation = self.operation(kind, text, patch, reading)?;
            Ok(KeyedOperation { key, operation })
        };
        Ok(Parsed { operation: operation(), content: !self.minimal_return_preference.unwrap_or(false) })
    }

    /// What can be wrong with it is wrong with this operation alone.
    fn operation(
        &self,
        kind: Kind,
        text: &[u8],
        patch: PatchBody,
        Reading { limits, is_collection, name_of }: Reading<'_>,
    ) -> Result<ItemOperation> {
        let preconditions = Preconditions {
            if_match: self.if_match.as_deref().map(ETagCondition::parse),
            if_none_match: self.if_none_match.as_deref().map(ETagCondition::parse),
        };
        let item = name_of(self.id.as_deref().unwrap_or_default());
        let body = || item_of_json_in(text, limits, is_collection);
        Ok(ItemOperation::Write(match kind {
            Kind::Read => return Ok(ItemOperation::Read(ItemRead { item, preconditions })),
            Kind::Create => ItemWrite::Create { body: body()? },
            Kind::Upsert => ItemWrite::Upsert { body: body()?, preconditions },
            Kind::Replace => ItemWrite::Replace { item, body: body()?, preconditions },
            Kind::Patch => ItemWrite::Patch { item, patch: patch.with_condition()?, preconditions },
            Kind::Delete => ItemWrite::Delete { item, preconditions },
        }))
    }

    fn kind(&self) -> Result<Kind> {
        Ok(match self.operation_type.to_ascii_lowercase().as_str() {
            "create" => Kind::Create,
            "upsert" => Kind::Upsert,
            "replace" => Kind::Replace,
            "read" => Kind::Read,
            "delete" => Kind::Delete,
            "patch" => Kind::Patch,
            _ => {
                return Err(Error::bad_request(format!(
                    "the operationType '{}' is unknown: use Create, Upsert, Replace, Read, Delete or Patch",
                    self.operation_type
                )));
            }
        })
    }

    fn key(&self) -> Result<Option<PartitionKey>> {
        let Some(text) = self.partition_key.map(RawValue::get).filter(|text| *text != "null") else {
            return Ok(None);
        };
        if text.starts_with('"') {
            let inner: String = serde_json::from_str(text).map_err(|error| {
                Error::bad_request(format!("the partitionKey is not a valid string: {error}"))
            })?;
            return items::key_of_text(&inner).map(Some);
        }
        items::key_of_text(text).map(Some)
    }
}

fn respond_atomic(reply: BatchReply, wants: &[bool], container: &ContainerHandle) -> Reply {
    let mut results = Results::new();
    match &reply.outcome {
        Ok(replies) => {
            for (item, content) in replies.iter().zip(wants) {
                results.success(item, *content);
            }
        }
        Err(failure) => {
            for index in 0..wants.len() {
                if index == failure.index {
                    results.failure(&failure.error);
                } else {
                    results.failed_dependency();
                }
            }
        }
    }
    results.finish(reply.meta, container)
}

fn respond_bulk(replies: &[Result<ItemReply>], wants: &[bool], container: &ContainerHandle) -> Reply {
    let mut results = Results::new();
    let mut total = ReplyMeta::default();
    for (reply, content) in replies.iter().zip(wants) {
        let meta = match reply {
            Ok(item) => {
                results.success(item, *content);
                &item.meta
            }
            Err(error) => {
                results.failure(error);
                error.meta()
            }
        };
        total.charge_centi += meta.charge_centi;
        // Positions of different ranges cannot be told in one header: the last one touched speaks for itself.
        if meta.range_id.is_some() {
            total = ReplyMeta { charge_centi: total.charge_centi, item_lsn: 0, ..*meta };
        }
    }
    results.finish(total, container)
}

/// The response array as it grows.
struct Results {
    text: Vec<u8>,
    failed: bool,
}

impl Results {
    fn new() -> Results {
        Results { text: vec![b'['], failed: false }
    }

    fn success(&mut self, reply: &ItemReply, content: bool) {
        let status = items::status(reply.outcome);
        // A read whose condition names the current etag is no success of a batch: clients look for a body.
        self.failed |= status == StatusCode::NOT_MODIFIED;
        self.open(status, 0, reply.meta.charge_centi);
        if let Some(item) = &reply.item {
            self.push(&format!(",\"eTag\":\"\\\"{}\\\"\"", item.etag()));
            if content && status != StatusCode::NOT_MODIFIED {
                self.push(",\"resourceBody\":");
                item.write_json(&mut self.text);
            }
        }
        self.push("}");
    }

    fn failure(&mut self, error: &Error) {
        self.failed = true;
        let shape = errors::shape(error.kind());
        self.open(shape.status, error.substatus().unwrap_or(shape.substatus), error.meta().charge_centi);
        if let Some(milliseconds) = error.retry_after_ms() {
            self.push(&format!(",\"retryAfterMilliseconds\":{milliseconds}"));
        }
        let message = serde_json::to_string(&errors::sentence(error)).expect("text has a JSON form");
        self.push(&format!(",\"message\":{message}}}"));
    }

    fn failed_dependency(&mut self) {
        self.failed = true;
        self.open(StatusCode::FAILED_DEPENDENCY, 0, 0);
        self.push("}");
    }

    fn open(&mut self, status: StatusCode, substatus: u32, charge_centi: u64) {
        if self.text.len() > 1 {
            self.push(",");
        }
        self.push(&format!("{{\"statusCode\":{}", status.as_u16()));
        if substatus != 0 {
            self.push(&format!(",\"subStatusCode\":{substatus}"));
        }
        self.push(",\"requestCharge\":");
        push_charge(&mut self.text, charge_centi);
    }

    fn push(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    fn finish(mut self, meta: ReplyMeta, container: &ContainerHandle) -> Reply {
        self.push("]");
        Reply {
            status: if self.failed { StatusCode::MULTI_STATUS } else { StatusCode::OK },
            meta,
            container: Some(container.clone()),
            body: Some(self.text.into()),
            ..Reply::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(body: &[u8], atomic: bool) -> Result<Vec<Parsed>> {
        let reading = Reading { limits: &Limits::default(), is_collection: false, name_of: &|id| id.into() };
        parse(body, atomic, reading)
    }

    fn read(text: &str) -> Result<Vec<Parsed>> {
        parsed(text.as_bytes(), true)
    }

    fn refusal(text: &str) -> Error {
        read(text).err().unwrap_or_else(|| panic!("{text} is accepted"))
    }

    #[test]
    fn operations_are_read_with_their_bodies() {
        let parsed = read(
            r#" [{"operationType":"Create","resourceBody":{"id":"a", "n":1.10}},
                {"operationType":"upsert","resourceBody":{"id":"b"},"partitionKey":"[\"k\"]"},
                {"operationType":"Replace","id":"c","resourceBody":{"id":"c"},"ifMatch":"\"e\""},
                {"operationType":"Read","id":"d","partitionKey":["k"],"minimalReturnPreference":true},
                {"operationType":"Delete","id":"e","ifNoneMatch":"*"},
                {"operationType":"Patch","id":"f","resourceBody":{"operations":[{"op":"remove","path":"/x"}],"condition":"from c where c.x = 1"}}]"#,
        )
        .expect("valid");
        let asked: Vec<_> = parsed.iter().map(|entry| entry.operation.as_ref().expect("valid")).collect();
        use ItemOperation::{Read, Write};
        let Write(ItemWrite::Create { body }) = &asked[0].operation else { panic!("{:?}", asked[0]) };
        assert_eq!(body.raw().get("n"), Some(shardlake_document::RawValue::Double(1.1)));
        assert!(matches!(asked[1].operation, Write(ItemWrite::Upsert { .. })));
        assert_eq!(asked[1].key, Some(items::key_of_text(r#"["k"]"#).expect("a key")));
        let Write(ItemWrite::Replace { item, preconditions, .. }) = &asked[2].operation else {
            panic!("{:?}", asked[2])
        };
        assert_eq!(*item, "c".into());
        assert_eq!(preconditions.if_match, Some(ETagCondition::OneOf(vec!["e".into()])));
        assert!(matches!(&asked[3].operation, Read(ItemRead { item, .. }) if *item == "d".into()));
        assert_eq!(asked[3].key, Some(items::key_of_text(r#"["k"]"#).expect("a key")));
        assert!(!parsed[3].content);
        let Write(ItemWrite::Delete { preconditions, .. }) = &asked[4].operation else {
            panic!("{:?}", asked[4])
        };
        assert_eq!(preconditions.if_none_match, Some(ETagCondition::Any));
        let Write(ItemWrite::Patch { patch, .. }) = &asked[5].operation else { panic!("{:?}", asked[5]) };
        assert_eq!((patch.operations.len(), patch.condition.is_some()), (1, true));
    }

    #[test]
    fn whole_requests_are_refused_in_the_words_that_clients_know() {
        for text in ["", " ", "[]"] {
            assert!(refusal(text).message().contains("Batch request has no operations."), "{text:?}");
        }
        let many = vec![r#"{"operationType":"Read","id":"a"}"#; 101].join(",");
        let many = format!("[{many}]");
        assert!(
            refusal(&many).message().contains("Batch request has more operations than what is supported.")
        );
        assert_eq!(parsed(many.as_bytes(), false).expect("bulk takes more").len(), 101);
        let large =
            format!(r#"[{{"operationType":"Create","resourceBody":{{"id":"{}"}}}}]"#, "x".repeat(2_400_000));
        assert_eq!(refusal(&large).kind(), ErrorKind::TooLarge);
    }

    #[test]
    fn binary_bodies_are_named_and_other_text_is_malformed() {
        let binary = parsed(&[0x81, 0, 1], true).err().expect("refused");
        assert_eq!(binary.kind(), ErrorKind::Unsupported);
        assert!(binary.message().contains("HybridRow"), "{binary}");
        for text in [
            "{}",
            "x",
            "[1]",
            "[{}]",
            r#"[{"operationType":"Create"}]"#,
            r#"[{"operationType":"Read"}]"#,
            r#"[{"operationType":"Merge","id":"a"}]"#,
        ] {
            assert_eq!(refusal(text).kind(), ErrorKind::BadRequest, "{text}");
        }
        for member in [r#""indexingDirective":"Exclude""#, r#""timeToLiveInSeconds":5"#] {
            let text = format!(r#"[{{"operationType":"Read","id":"a",{member}}}]"#);
            assert_eq!(refusal(&text).kind(), ErrorKind::Unsupported, "{member}");
        }
    }
}
