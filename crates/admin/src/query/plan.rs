//! The steps of a query as boxes with figures, from the index to the rows.
//!
//! Reading and evaluation are timed. Within evaluation (conditions, functions, groups, projection),
//! steps are not timed one by one, so its time is given at the first of them. A figure that was not
//! counted is null, never a guess. Times are sums over partitions, which worked concurrently.

use serde_json::{Value, json};
use shardlake_account::{QueryFigures, QueryReply, QueryStatistics};

const JOINED: &str = "arrays of items";

pub(super) fn boxes(reply: &QueryReply, figures: &QueryFigures) -> Vec<Value> {
    let mut plan = Plan::default();
    let outline = &figures.outline;
    let all = &reply.statistics;
    let is_run = figures.ranges.iter().any(|range| range.access.is_some());
    let items = all.items_loaded + all.items_scanned;
    let bytes = all.items_loaded_bytes + all.items_scanned_bytes;
    let evaluation: u64 = figures.ranges.iter().map(|range| micros(range.evaluation)).sum();
    let reading: u64 =
        figures.ranges.iter().map(|range| micros(range.elapsed.saturating_sub(range.evaluation))).sum();
    let postings = all.postings_read + all.entries_passed;
    plan.push(
        "access",
        access_label(figures),
        Figures { postings: Some(postings), rows_out: Some(items), ..Figures::NONE },
    );
    let load = Figures {
        rows_in: Some(items),
        rows_out: Some(items),
        items: Some(items),
        bytes: Some(bytes),
        ..Figures::NONE
    };
    plan.push("load", "items".into(), Figures { time_us: Some(reading), ..load });
    let mut evaluated = Some(evaluation);
    let mut step = |plan: &mut Plan, kind, label: String, figures: Figures| {
        plan.push(kind, label, Figures { time_us: evaluated.take(), ..figures });
    };
    if outline.joins > 0 {
        step(
            &mut plan,
            "join",
            format!("{} {JOINED}", outline.joins),
            Figures { rows_in: Some(items), ..Figures::NONE },
        );
    }
    if let Some(filter) = &outline.filter {
        let rows_in = (outline.joins == 0).then_some(items);
        let rows_out = passes_through(reply, figures).then_some(all.rows);
        step(&mut plan, "filter", filter.clone(), Figures { rows_in, rows_out, ..Figures::NONE });
    }
    if all.function_calls > 0 {
        let calls = format!("{} calls of user-defined functions", all.function_calls);
        step(&mut plan, "functions", calls, Figures::NONE);
    }
    if let Some(keys) = &outline.group_by {
        step(&mut plan, "group", keys.clone(), Figures::NONE);
    }
    if outline.is_distinct {
        step(&mut plan, "distinct", "DISTINCT".into(), Figures::NONE);
    }
    if let Some(order) = &outline.order_by {
        let sorted = Some(all.rows_sorted).filter(|_| counts_sorted(reply, figures));
        step(
            &mut plan,
            "sort",
            order.clone(),
            Figures { rows_in: sorted, rows_out: sorted, ..Figures::NONE },
        );
    }
    let project = Figures { rows_out: Some(all.rows), ..Figures::NONE };
    step(&mut plan, "project", outline.selection.clone(), project);
    if figures.merges {
        let label = format!("{} partitions", figures.ranges.len());
        let merge =
            Figures { rows_out: Some(all.rows), time_us: Some(micros(figures.merge)), ..Figures::NONE };
        plan.push("merge", label, merge);
    }
    if let Some(page) = &outline.page {
        plan.push("offset", page.clone(), Figures { rows_out: Some(all.rows), ..Figures::NONE });
    }
    plan.told(is_run)
}

/// Whether the rows that pass the condition are the rows of the answer.
fn passes_through(reply: &QueryReply, figures: &QueryFigures) -> bool {
    let outline = &figures.outline;
    let multiplies = outline.joins > 0 || outline.group_by.is_some() || outline.is_distinct;
    !multiplies && outline.page.is_none() && !figures.merges && reply.statistics.rows > 0
}

/// Whether the sorted rows are counted: a merge sorts the rows collected by partitions, and rows in
/// the order of an index are not sorted.
fn counts_sorted(reply: &QueryReply, figures: &QueryFigures) -> bool {
    !figures.merges && (reply.statistics.rows_sorted > 0 || reply.statistics.rows == 0)
}

/// The way items were reached, or the access of the index.
fn access_label(figures: &QueryFigures) -> String {
    let mut taken: Vec<&str> = figures.ranges.iter().filter_map(|range| range.access.as_deref()).collect();
    taken.sort_unstable();
    taken.dedup();
    if taken.is_empty() { figures.access.trim().to_owned() } else { taken.join("; ") }
}

pub(super) fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// `None` where a figure was not counted.
#[derive(Clone, Copy)]
struct Figures {
    rows_in: Option<u64>,
    rows_out: Option<u64>,
    postings: Option<u64>,
    items: Option<u64>,
    bytes: Option<u64>,
    time_us: Option<u64>,
}

impl Figures {
    const NONE: Figures =
        Figures { rows_in: None, rows_out: None, postings: None, items: None, bytes: None, time_us: None };
}

#[derive(Default)]
struct Plan(Vec<(&'static str, String, Figures)>);

impl Plan {
    fn push(&mut self, kind: &'static str, label: String, figures: Figures) {
        self.0.push((kind, label, figures));
    }

    /// Each box takes the output of the one before it.
    fn told(self, is_run: bool) -> Vec<Value> {
        let mut before: Option<&'static str> = None;
        let told = |(kind, label, figures): (&'static str, String, Figures)| {
            let inputs: Vec<&str> = before.replace(kind).into_iter().collect();
            let figures = is_run.then(|| {
                json!({
                    "rowsIn": figures.rows_in,
                    "rowsOut": figures.rows_out,
                    "postings": figures.postings,
                    "items": figures.items,
                    "bytes": figures.bytes,
                    "timeUs": figures.time_us,
                })
            });
            json!({ "id": kind, "kind": kind, "label": label, "inputs": inputs, "figures": figures })
        };
        self.0.into_iter().map(told).collect()
    }
}

/// Items of one range.
pub(super) fn items_of(statistics: &QueryStatistics) -> u64 {
    statistics.items_loaded + statistics.items_scanned
}
