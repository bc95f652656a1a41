//! The answer to a query, whose rows are the engine's own text: a client that keeps texts sees items exactly as they are stored.

use serde_json::{Value, json};
use shardlake_account::sql::{IndexUses, IndexUtilization};
use shardlake_account::{QueryFigures, QueryReply, RangeFigures};

use super::advice::words;
use super::plan::{boxes, items_of, micros};
use crate::pieces::Pieces;

/// The rows are freed as they are written: a page is never in memory together with its own text.
pub(super) fn written(mut reply: QueryReply) -> Vec<Vec<u8>> {
    let rows = std::mem::take(&mut reply.rows);
    let none = QueryFigures::default();
    let figures = reply.figures.as_ref().unwrap_or(&none);
    let range = |one: &RangeFigures| range(one, figures.merges);
    let advice = reply.advice.iter().flatten();
    let head = json!({
        "charge": units(reply.meta.charge_centi),
        "elapsedMs": millis(reply.preparation + reply.execution),
        "continuation": reply.continuation,
        "plan": boxes(&reply, figures),
        "ranges": figures.ranges.iter().map(range).collect::<Vec<_>>(),
        "indexes": reply.utilization.as_ref().map(indexes),
        "advice": advice.map(|rule| json!({ "id": rule.id, "words": words(rule.id) })).collect::<Vec<_>>(),
    });
    let mut text = serde_json::to_vec(&head).expect("reports have a JSON form");
    text.pop();
    text.extend_from_slice(b",\"rows\":[");
    let mut pieces = Pieces::default();
    pieces.push(&text);
    let mut is_first = true;
    for part in rows.into_parts() {
        for row in part.iter() {
            if !std::mem::take(&mut is_first) {
                pieces.push(b",");
            }
            pieces.push(row);
        }
    }
    pieces.push(b"]}");
    pieces.finish()
}

fn range(figures: &RangeFigures, merges: bool) -> Value {
    let statistics = &figures.statistics;
    json!({
        "id": figures.range_id.to_string(),
        "charge": units(figures.charge_centi),
        "elapsedMs": millis(figures.elapsed),
        "evaluationUs": micros(figures.evaluation),
        // The rows that a merge keeps of a partition are not counted by partition.
        "rows": (!merges).then_some(statistics.rows),
        "items": items_of(statistics),
        "postings": statistics.postings_read + statistics.entries_passed,
        "bytes": statistics.items_loaded_bytes + statistics.items_scanned_bytes,
        "access": figures.access,
    })
}

pub(crate) fn indexes(utilization: &IndexUtilization) -> Value {
    json!({ "used": uses(&utilization.utilized), "possible": uses(&utilization.potential) })
}

fn uses(uses: &IndexUses) -> Vec<Value> {
    let single = uses.single.iter().map(
        |one| json!({ "kind": "single", "path": one.path, "filter": one.filter, "isPrecise": one.precise }),
    );
    let composite = uses.composite.iter().map(|one| json!({ "kind": "composite", "paths": one.members }));
    single.chain(composite).collect()
}

fn units(centi: u64) -> f64 {
    centi as f64 / 100.0
}

fn millis(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
