//! Batches: changes of a part of the source, in the order of its log, up to an LSN.
//!
//! A batch may end at any LSN: changes are taken by their LSNs, so that no commit is ever divided.

use shardlake_change_log::PartRound;
use shardlake_document::{NESTING_CEILING, ParseLimits, Value, partition_key_text, write_json_string};
use shardlake_model::{ErrorKind, Numbers, Result};
use shardlake_partition::{ChangeKind, Image, Images, LogChange, LogicalKey, StoredItem, item_of_position};
use shardlake_routing::KeyRange;

use crate::at_work::FunctionAtWork;

/// Operations that are passed over before the batch ends without changes.
const PASSED_OVER_MAX: usize = 50_000;
/// Operations of one page.
const PAGE_OPERATIONS: usize = 256;
/// Items come from the server itself, which has checked their sizes.
const LIMITS: ParseLimits =
    ParseLimits { nesting_max: NESTING_CEILING, size_max_bytes: 64 * 1024 * 1024, numbers: Numbers::Rounded };

/// A change as it is given to a function.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    pub lsn: u64,
    pub operation: &'static str,
    pub id: String,
    pub logical: LogicalKey,
    /// JSON.
    pub text: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub span: KeyRange,
    /// Everything of the span up to here is in the batch or before it.
    pub upto: u64,
    pub changes: Vec<Given>,
}

/// Reads the next batch; `None` where the partition was divided or replaced meanwhile. `limit` is the last LSN that the
/// batch may have.
pub(crate) async fn next_batch(
    at: &FunctionAtWork<'_>,
    part: PartRound,
    limit: Option<u64>,
) -> Result<Option<Batch>> {
    let PartRound { span, round } = part;
    // Its LSNs must not be given to other commits after a crash: targets keep them.
    round.durable().await?;
    let last = limit.map_or(round.upto(), |limit| limit.min(round.upto()));
    let mut round = round.with(Images::Latest).in_pages_of(PAGE_OPERATIONS);
    let mut taken = Taken { changes: Vec::new(), size_bytes: 0 };
    let mut passed_over = 0;
    loop {
        let page = match round.next_page().await {
            Ok(Some(page)) => page,
            Ok(None) => return Ok(Some(Batch { span, upto: last, changes: taken.changes })),
            // Its part goes on in the partitions that replaced it.
            Err(error) if error.kind() == ErrorKind::PartitionGone => return Ok(None),
            Err(error) => return Err(error),
        };
        for change in &page.changes {
            if change.lsn > last {
                return Ok(Some(Batch { span, upto: last, changes: taken.changes }));
            }
            passed_over += 1;
            let Some(given) = given(at, change)? else { continue };
            if taken.is_full(at, &given) {
                return Ok(Some(Batch { span, upto: change.lsn - 1, changes: taken.changes }));
            }
            taken.size_bytes += given.text.len();
            taken.changes.push(given);
        }
        if page.upto >= last || passed_over >= PASSED_OVER_MAX {
            return Ok(Some(Batch { span, upto: page.upto.min(last), changes: taken.changes }));
        }
    }
}

struct Taken {
    changes: Vec<Given>,
    size_bytes: usize,
}

impl Taken {
    /// Whether the next change belongs to the next batch.
    fn is_full(&self, at: &FunctionAtWork<'_>, next: &Given) -> bool {
        let batch = &at.record.definition.batch;
        let is_next_commit = self.changes.last().is_some_and(|last| last.lsn < next.lsn);
        let has_room = self.changes.len() < batch.changes as usize
            && self.size_bytes + next.text.len() <= batch.bytes as usize;
        is_next_commit && !has_room
    }
}

/// A change as the function gets it; `None` for those that it does not get.
pub(crate) fn given(at: &FunctionAtWork<'_>, change: &LogChange) -> Result<Option<Given>> {
    if at.record.is_own(change.origin) {
        return Ok(None);
    }
    let (logical, id) = item_of_position(&change.key)?;
    let schema = &at.source.shape;
    let (operation, current) = match (change.kind, &change.new) {
        (ChangeKind::Create | ChangeKind::Replace, Image::Record(record)) => {
            let mut current = Vec::new();
            StoredItem::decode(record.clone(), schema)?.write_json(&mut current);
            if !at.filter.is_empty() && !at.filter.passes(&value_of(&current)?) {
                return Ok(None);
            }
            (if change.kind == ChangeKind::Create { "create" } else { "replace" }, Some(current))
        }
        // The item's last change has it.
        (ChangeKind::Create | ChangeKind::Replace, _) => return Ok(None),
        (ChangeKind::Delete | ChangeKind::Expire, _) => {
            let is_wanted =
                at.record.definition.deletes && at.filter.may_have_passed(schema, &logical.partition_key);
            if !is_wanted {
                return Ok(None);
            }
            (if change.kind == ChangeKind::Delete { "delete" } else { "expire" }, None)
        }
    };
    let mut text = b"{\"id\":".to_vec();
    write_json_string(&id, &mut text);
    let key = partition_key_text(&logical.partition_key);
    let time = change.time.milliseconds();
    text.extend(
        format!(
            ",\"partitionKey\":{key},\"operation\":\"{operation}\",\"lsn\":{},\"time\":{time}",
            change.lsn
        )
        .bytes(),
    );
    if let Some(current) = current {
        text.extend_from_slice(b",\"current\":");
        text.extend(current);
    }
    text.push(b'}');
    let text =
        String::from_utf8(text).map_err(|_| shardlake_model::Error::internal("an item is no UTF-8 text"))?;
    Ok(Some(Given { lsn: change.lsn, operation, id, logical, text }))
}

fn value_of(json: &[u8]) -> Result<Value> {
    Value::from_json(json, &LIMITS).map_err(|error| {
        shardlake_model::Error::internal(format!("an item that was just read is malformed: {error}"))
    })
}

/// The changes as the JSON array that a run gets.
pub(crate) fn array_of<'g>(changes: impl IntoIterator<Item = &'g Given>) -> String {
    let texts: Vec<&str> = changes.into_iter().map(|given| given.text.as_str()).collect();
    format!("[{}]", texts.join(","))
}
