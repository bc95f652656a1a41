//! Correcting the copies in one item of the target.
//!
//! The item is replaced on condition that no other write has changed it meanwhile. Otherwise it is
//! read and checked again, so that a client's write is never lost and keeps its other values. Where
//! the copies are right nothing is written.

use shardlake_document::{NESTING_CEILING, ParseLimits, Value};
use shardlake_host::ReadItem;
use shardlake_model::{
    ETagCondition, Error, ErrorKind, Numbers, Preconditions, Priority, RequestContext, Result,
};
use shardlake_partition::{LogicalKey, StoredItem, extract_partition_key};

use crate::Projections;
use crate::path::{NotAnObject, elements, get, put};
use crate::rule::Compiled;
use shardlake_items::{ItemWrite, WriteCommand};
use shardlake_router::ContainerHandle;
use shardlake_router::logical;

/// How often an item is looked at anew because others write it all the time.
const ATTEMPTS_MAX: u32 = 20;
/// Items come from the server itself, which has checked their sizes.
const LIMITS: ParseLimits =
    ParseLimits { nesting_max: NESTING_CEILING, size_max_bytes: 64 * 1024 * 1024, numbers: Numbers::Rounded };

/// An item as read, with the properties that the server owns.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub value: Value,
    pub logical: LogicalKey,
}

/// Values that a source item has for its copies.
#[derive(Debug, Clone)]
pub(crate) struct SourceValues {
    pub id: String,
    pub logical: LogicalKey,
    /// `None` where a query found the item.
    pub lsn: Option<u64>,
    /// Values that `match` compares.
    pub keys: Vec<Value>,
    /// Values that `set` copies.
    pub copies: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Applied {
    /// The item's key in the change log, and its new LSN.
    Written(Vec<u8>, u64),
    WasRight,
    /// The item is deleted, or no longer matches.
    Gone,
}

/// Outcome of a rule for an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Correction {
    Changed,
    WasRight,
    Gone,
}

/// Why an item's copies are not corrected.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The failure is the item's own: a retry does not help.
    OfItem { kind: ErrorKind, words: String, attempts: u32 },
    /// Any other failure.
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Other(error)
    }
}

/// The request of a step. It pays, and gives way to others.
pub(crate) fn context(projections: &Projections) -> RequestContext {
    let context =
        RequestContext::internal(projections.router().clock(), projections.router().random().guid());
    RequestContext { priority: Priority::Background, ..context }
}

impl Item {
    pub fn of_json(container: &ContainerHandle, json: &[u8]) -> Result<Item> {
        let unreadable = |error| Error::internal(format!("an item that was just read is malformed: {error}"));
        let value = Value::from_json(json, &LIMITS).map_err(unreadable)?;
        let body = value.to_body().map_err(unreadable)?;
        let key = extract_partition_key(body.raw(), &container.entry.shape.key_paths);
        Ok(Item { value, logical: logical(&container.entry, key) })
    }

    pub fn of_stored(container: &ContainerHandle, item: &StoredItem) -> Result<Item> {
        let mut json = Vec::new();
        item.write_json(&mut json);
        Item::of_json(container, &json)
    }

    pub fn id(&self) -> &str {
        self.value.get("id").and_then(Value::as_str).unwrap_or_default()
    }

    fn etag(&self) -> &str {
        self.value.get("_etag").and_then(Value::as_str).unwrap_or_default()
    }
}

impl SourceValues {
    /// `None` where the rule is not about the item, or the item has no value to match with.
    pub fn of(rule: &Compiled, item: &Item, lsn: Option<u64>) -> Option<SourceValues> {
        if !rule.covers(&item.value) {
            return None;
        }
        let keys: Vec<Value> =
            rule.matches.iter().map(|(path, _)| get(&item.value, &path.names).clone()).collect();
        let copies = rule.set.iter().map(|(path, _)| get(&item.value, &path.names).clone()).collect();
        let id = item.id().to_owned();
        keys.iter().all(is_key).then(|| SourceValues { id, logical: item.logical.clone(), lsn, keys, copies })
    }
}

/// Whether a value can be equal to something in a query.
pub(crate) fn is_key(value: &Value) -> bool {
    !matches!(value, Value::Undefined | Value::Array(_) | Value::Object(_))
}

/// The named values as parameters of a rule's query.
pub(crate) fn parameters(keys: &[Value]) -> Vec<(String, Value)> {
    keys.iter().enumerate().map(|(place, key)| (format!("@m{place}"), key.clone())).collect()
}

/// Sets the copies in an item that matches; whether anything changed.
pub(crate) fn correct(
    rule: &Compiled,
    source: &SourceValues,
    item: &mut Value,
) -> Result<Correction, NotAnObject> {
    let same = |names: &[String], root: &Value, key: &Value| {
        let value = get(root, names);
        is_key(value) && shardlake_document::compare(value, key).is_eq()
    };
    let matches = || rule.matches.iter().zip(&source.keys);
    let of_item = matches().filter(|((_, target), _)| target.array.is_none());
    if !of_item.into_iter().all(|((_, target), key)| same(&target.names, item, key)) {
        return Ok(Correction::Gone);
    }
    let set = |root: &mut Value| {
        let mut changed = false;
        for ((_, to), copy) in rule.set.iter().zip(&source.copies) {
            changed |= put(root, &to.names, copy)?;
        }
        Ok(changed)
    };
    let (mut found, mut changed) = (rule.array.is_none(), false);
    match &rule.array {
        None => changed = set(item)?,
        Some(array) => {
            for element in elements(item, array) {
                let mut of_element = matches().filter(|((_, target), _)| target.array.is_some());
                if of_element.all(|((_, target), key)| same(&target.names, element, key)) {
                    found = true;
                    changed |= set(element)?;
                }
            }
        }
    }
    Ok(match (found, changed) {
        (false, _) => Correction::Gone,
        (true, true) => Correction::Changed,
        (true, false) => Correction::WasRight,
    })
}

/// Has the copies in an item follow a source item.
pub(crate) async fn apply(
    projections: &Projections,
    target: &ContainerHandle,
    rule: &Compiled,
    source: &SourceValues,
    item: &Item,
) -> Result<Applied, Failure> {
    let mut item = item.clone();
    for attempt in 1..=ATTEMPTS_MAX {
        let corrected = correct(rule, source, &mut item.value).map_err(|NotAnObject(name)| {
            let words = format!("'{name}' has no object to be in: what is around it is no object");
            Failure::OfItem { kind: ErrorKind::BadRequest, words, attempts: attempt }
        })?;
        match corrected {
            Correction::Changed => {}
            Correction::WasRight => return Ok(Applied::WasRight),
            Correction::Gone => return Ok(Applied::Gone),
        }
        match replace(projections, target, &item).await {
            Ok(written) => return Ok(written),
            Err(error) => match error.kind() {
                ErrorKind::NotFound => return Ok(Applied::Gone),
                ErrorKind::PreconditionFailed => {}
                _ if is_of_item(error.kind()) => {
                    let words = error.message().to_owned();
                    return Err(Failure::OfItem { kind: error.kind(), words, attempts: attempt });
                }
                _ => return Err(Failure::Other(error)),
            },
        }
        match read(projections, target, &item.logical, item.id()).await? {
            Some((newer, _)) => item = newer,
            None => return Ok(Applied::Gone),
        }
    }
    let words = format!("others changed the item between each of {ATTEMPTS_MAX} readings and writings");
    Err(Failure::OfItem { kind: ErrorKind::PreconditionFailed, words, attempts: ATTEMPTS_MAX })
}

async fn replace(projections: &Projections, target: &ContainerHandle, item: &Item) -> Result<Applied> {
    let body = item.value.to_body().map_err(|error| Error::bad_request(error.to_string()))?;
    let if_match = Some(ETagCondition::OneOf(vec![item.etag().trim_matches('"').to_owned()]));
    let preconditions = Preconditions { if_match, if_none_match: None };
    let context = context(projections);
    let write = ItemWrite::Replace { item: item.id().into(), body, preconditions };
    let reply = projections.items().write_item(&context, target, WriteCommand::of(None, write)).await?;
    let stored = reply.item.ok_or_else(|| Error::internal("a write without its item"))?;
    Ok(Applied::Written(stored.name_in_log(&target.entry.shape), stored.lsn()))
}

/// The item as it is now, with its LSN; `None` when it is deleted.
pub(crate) async fn read(
    projections: &Projections,
    container: &ContainerHandle,
    logical: &LogicalKey,
    id: &str,
) -> Result<Option<(Item, u64)>> {
    let context = context(projections);
    let (key, id, preconditions) = (logical.clone(), id.to_owned(), Preconditions::default());
    let read = ReadItem { key, id, preconditions };
    match projections.items().read_at(&context, container, &read).await {
        Ok(reply) => {
            let stored = reply.item.ok_or_else(|| Error::internal("a read without its item"))?;
            Ok(Some((Item::of_stored(container, &stored)?, stored.lsn())))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an error is the item's own, so that a retry has the same result.
fn is_of_item(kind: ErrorKind) -> bool {
    use ErrorKind::*;
    match kind {
        BadRequest | PartitionKeyMismatch | LogicalPartitionFull | Conflict | PreconditionFailed
        | TooLarge | NotFound | Unsupported => true,
        StaleContainer | CrossPartitionQuery | Unauthorized | Forbidden | PartitionFull | AccountFull
        | OwnerNotFound | SessionNotAvailable | MethodNotAllowed | Timeout | InProgress | PartitionGone
        | FailedDependency | TooManyRequests | Unavailable | Corrupt | Internal => false,
    }
}
