//! `explain` of a sharded collection in the form of a router: the shards that are read, and the work of each. A physical partition appears
//! as a shard. It has the name of its storage shard, with the partition's number and charge.

use shardlake_account::collections::{Asked, Collection, Find};
use shardlake_mql::{Document, Value};

use super::counted::{Counted, number};
use crate::call::Call;
use crate::data::config_database::shard_name;
use crate::errors::Result;

fn merge_stage(asked: &[Asked], is_sorted: bool) -> &'static str {
    match (asked.len(), is_sorted) {
        (1, _) => "SINGLE_SHARD",
        (_, true) => "SHARD_MERGE_SORT",
        (_, false) => "SHARD_MERGE",
    }
}

fn named(asked: Asked) -> Document {
    let mut shard = Document::one("shardName", Value::string(shard_name(asked.shard)));
    shard.push("partition", number(asked.range_id.into()));
    shard
}

/// The plan, which is the same for each partition that is read.
pub fn planner(plan: Document, asked: &[Asked], is_sorted: bool) -> Document {
    let of_partition = |asked: &Asked| {
        let mut shard = named(*asked);
        plan.iter().for_each(|(name, value)| shard.push(name.clone(), value.clone()));
        Value::document(shard)
    };
    let mut winning = Document::one("stage", merge_stage(asked, is_sorted));
    winning.push("shards", Value::array(asked.iter().map(of_partition).collect()));
    let mut shown = Document::one("mongosPlannerVersion", Value::Int(1));
    shown.push("winningPlan", Value::document(winning));
    for name in ["namespace", "indexFilterSet", "parsedQuery", "rejectedPlans"] {
        shown.push(name, plan.value(name));
    }
    shown
}

fn shown(
    collection: &Collection,
    total: &Counted,
    parts: &[(Asked, Counted)],
    stage: (&str, &str),
) -> Document {
    let of_partition = |(asked, counted): &(Asked, Counted)| {
        let mut shard = named(*asked);
        counted.shown(stage.1).iter().for_each(|(name, value)| shard.push(name.clone(), value.clone()));
        Value::document(shard)
    };
    let mut stages = Document::one("stage", stage.0);
    stages.push("nReturned", number(total.returned));
    stages.push("executionTimeMillis", number(total.milliseconds));
    stages.push("totalKeysExamined", number(total.keys));
    stages.push("totalDocsExamined", number(total.documents));
    stages.push("totalChildMillis", number(parts.iter().map(|(_, counted)| counted.milliseconds).sum()));
    stages.push("shards", Value::array(parts.iter().map(of_partition).collect()));
    let mut stats = total.totals();
    stats.push("executionStages", Value::document(stages));
    stats.push("requestCharge", total.charge());
    stats.push("partitionsAsked", number(parts.len() as u64));
    stats.push("partitions", number(collection.handle.entry.map.iter().len() as u64));
    stats
}

/// Execution of a read that one partition answers.
pub fn execution_of_one(collection: &Collection, asked: Asked, counted: &Counted, stage: &str) -> Document {
    shown(collection, counted, &[(asked, *counted)], ("SINGLE_SHARD", stage))
}

/// Reads one partition after the other, so that the work of each can be shown. Each has to find as many documents as the command may
/// need of it.
pub async fn execution_of_all(
    call: &Call,
    collection: &Collection,
    asked: &[Asked],
    find: &Find,
    stage: &str,
) -> Result<Document> {
    let (skip, limit) = (find.skip, find.limit);
    let is_sorted = !find.sort.is_empty() && !find.sort.is_from_end();
    let (mut total, mut parts) = (Counted::default(), Vec::with_capacity(asked.len()));
    for partition in asked {
        let limit = if limit == 0 { 0 } else { limit.saturating_add(skip) };
        let find = Find { skip: 0, limit, ..find.clone() };
        let source = call.collections().scan_of_partition(
            collection.clone(),
            (&find.filter, find.parsed.collation()),
            *partition,
        );
        let counted = Counted::run(call, &call.request(), find, source).await?;
        total.add(&counted);
        parts.push((*partition, counted));
    }
    total.returned = total.returned.saturating_sub(skip);
    if limit > 0 {
        total.returned = total.returned.min(limit);
    }
    Ok(shown(collection, &total, &parts, (merge_stage(asked, is_sorted), stage)))
}
