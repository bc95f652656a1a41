//! One operation as the client sent it, in JSON or in HybridRow, and the command that it stands for.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use shardlake_account::{ItemName, ItemOperation, ItemRead, ItemWrite, KeyedOperation, item_of_json_in};
use shardlake_hybrid_row::{Operation, OperationKind};
use shardlake_model::{ETagCondition, Error, Limits, PartitionKey, Preconditions, Result};

use crate::formats::text_of;
use crate::headers::check_indexing_directive;
use crate::patch::PatchBody;
use crate::{patch, request_key};

/// An operation, or why it cannot be done, and whether its result carries the item.
pub(super) struct Parsed {
    pub operation: Result<KeyedOperation>,
    pub content: bool,
}

/// How operations are read.
#[derive(Clone, Copy)]
pub(super) struct Reading<'r> {
    pub limits: &'r Limits,
    /// Maximum size of the text of a body.
    pub size_bytes_max: usize,
    pub is_collection: bool,
    /// Which item an id in the request names.
    pub name_of: &'r dyn Fn(&str) -> ItemName,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JsonOperation<'a> {
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

/// One operation in either format.
pub(super) struct SentOperation<'a> {
    kind: OperationKind,
    id: Option<Cow<'a, str>>,
    /// JSON text or Cosmos binary JSON.
    body: Option<&'a [u8]>,
    key: Option<SentKey<'a>>,
    if_match: Option<Cow<'a, str>>,
    if_none_match: Option<Cow<'a, str>>,
    indexing_directive: Option<Cow<'a, str>>,
    has_time_to_live: bool,
    /// A member that only clients within the service send.
    internal: Option<&'static str>,
    minimal_return_preference: bool,
}

#[derive(Clone, Copy)]
enum SentKey<'a> {
    /// The text of a JSON array.
    Text(&'a str),
    /// A JSON value: the array, or a string that holds its text.
    Json(&'a str),
}

impl<'a> TryFrom<JsonOperation<'a>> for SentOperation<'a> {
    type Error = Error;

    fn try_from(json: JsonOperation<'a>) -> Result<SentOperation<'a>> {
        let value = |member: Option<&'a RawValue>| member.map(RawValue::get).filter(|text| *text != "null");
        Ok(SentOperation {
            kind: kind_of(&json.operation_type)?,
            id: json.id.map(Cow::Owned),
            body: value(json.resource_body).map(str::as_bytes),
            key: value(json.partition_key).map(SentKey::Json),
            if_match: json.if_match.map(Cow::Owned),
            if_none_match: json.if_none_match.map(Cow::Owned),
            indexing_directive: json.indexing_directive.map(Cow::Owned),
            has_time_to_live: json.time_to_live_in_seconds.is_some(),
            internal: None,
            minimal_return_preference: json.minimal_return_preference.unwrap_or(false),
        })
    }
}

impl<'a> From<Operation<'a>> for SentOperation<'a> {
    fn from(row: Operation<'a>) -> SentOperation<'a> {
        let key_hash = row.effective_partition_key.map(|_| "effectivePartitionKey");
        SentOperation {
            kind: row.kind,
            id: row.id.map(Cow::Borrowed),
            body: row.resource_body,
            key: row.partition_key.map(SentKey::Text),
            if_match: row.if_match.map(Cow::Borrowed),
            if_none_match: row.if_none_match.map(Cow::Borrowed),
            indexing_directive: row.indexing_directive.map(Cow::Borrowed),
            has_time_to_live: row.time_to_live_in_seconds.is_some(),
            internal: key_hash.or(row.binary_id.map(|_| "binaryId")),
            minimal_return_preference: row.minimal_return_preference.unwrap_or(false),
        }
    }
}

fn kind_of(name: &str) -> Result<OperationKind> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "create" => OperationKind::Create,
        "upsert" => OperationKind::Upsert,
        "replace" => OperationKind::Replace,
        "read" => OperationKind::Read,
        "delete" => OperationKind::Delete,
        "patch" => OperationKind::Patch,
        _ => {
            return Err(Error::bad_request(format!(
                "the operationType '{name}' is unknown: use Create, Upsert, Replace, Read, Delete or Patch"
            )));
        }
    })
}

impl SentOperation<'_> {
    /// The command, or the fault of this operation alone. The error is that of the whole request.
    pub fn read(&self, reading: Reading<'_>) -> Result<Parsed> {
        self.refuse_unsupported()?;
        let needs = |member: &str| Error::bad_request(format!("{:?} needs the member '{member}'", self.kind));
        let has_body = !matches!(self.kind, OperationKind::Read | OperationKind::Delete);
        let body = match self.body {
            Some(body) => body,
            None if has_body => return Err(needs("resourceBody")),
            None => &[],
        };
        let patch = match self.kind {
            OperationKind::Patch => patch::parse(&text_of(body, reading.size_bytes_max)?, reading.limits)?,
            _ => PatchBody::default(),
        };
        if self.id.is_none() && !matches!(self.kind, OperationKind::Create | OperationKind::Upsert) {
            return Err(needs("id"));
        }
        let content = !self.minimal_return_preference;
        let operation = || {
            let key = self.key()?;
            let operation = self.operation(body, patch, reading)?;
            Ok(KeyedOperation { key, operation, content })
        };
        Ok(Parsed { operation: operation(), content })
    }

    fn refuse_unsupported(&self) -> Result<()> {
        if let Some(directive) = &self.indexing_directive {
            check_indexing_directive(directive)?;
        }
        if self.has_time_to_live {
            return Err(Error::unsupported(
                "'timeToLiveInSeconds' is not supported: set the item's 'ttl' property; nothing was done",
            ));
        }
        match self.internal {
            None => Ok(()),
            Some(member) => Err(Error::unsupported(format!(
                "'{member}' of an operation is not supported: send 'partitionKey' and 'id'; nothing was done"
            ))),
        }
    }

    /// The command itself. A fault in it is one of this operation alone.
    fn operation(&self, body: &[u8], patch: PatchBody, reading: Reading<'_>) -> Result<ItemOperation> {
        let Reading { limits, is_collection, name_of, .. } = reading;
        let preconditions = self.preconditions();
        let item = name_of(self.id.as_deref().unwrap_or_default());
        let body = || item_of_json_in(body, limits, is_collection);
        Ok(ItemOperation::Write(match self.kind {
            OperationKind::Read => return Ok(ItemOperation::Read(ItemRead { item, preconditions })),
            OperationKind::Create => ItemWrite::Create { body: body()? },
            OperationKind::Upsert => ItemWrite::Upsert { body: body()?, preconditions },
            OperationKind::Replace => ItemWrite::Replace { item, body: body()?, preconditions },
            OperationKind::Patch => ItemWrite::Patch { item, patch: patch.with_condition()?, preconditions },
            OperationKind::Delete => ItemWrite::Delete { item, preconditions },
        }))
    }

    fn preconditions(&self) -> Preconditions {
        let if_match = self.if_match.as_deref();
        let if_none_match = self.if_none_match.as_deref();
        // The service answers a read with the etag of the item in `ifMatch` by 304, as in `ifNoneMatch`.
        let (if_match, if_none_match) = match self.kind {
            OperationKind::Read => (None, if_none_match.or(if_match)),
            _ => (if_match, if_none_match),
        };
        Preconditions {
            if_match: if_match.map(ETagCondition::parse),
            if_none_match: if_none_match.map(ETagCondition::parse),
        }
    }

    pub fn key(&self) -> Result<Option<PartitionKey>> {
        match self.key {
            None => Ok(None),
            Some(SentKey::Json(text)) if text.starts_with('"') => {
                let inner: String = serde_json::from_str(text).map_err(|error| {
                    Error::bad_request(format!("the partitionKey is not a valid string: {error}"))
                })?;
                request_key::key_of_text(&inner).map(Some)
            }
            Some(SentKey::Text(text) | SentKey::Json(text)) => request_key::key_of_text(text).map(Some),
        }
    }
}
