//! `GET heat`: the heat of a container as a matrix of time and hash space, with the events of its
//! partitions.
//!
//! Cells are 32-bit floats, little-endian, one column of rows after the other, in base64: a day of a large
//! container is as long as its picture. A cell of a time in which nothing was counted is NaN. With `since`,
//! the answer has the last column that the client has seen, which was still being counted at that time, and
//! later ones. Columns are named by number, `firstSequence` to `sequence`: their times are counted back from
//! the clock, and differ by some milliseconds from answer to answer.

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use shardlake_account::{
    ContainerHandle, Epk, HEAT_MAP_BEFORE, HEAT_ROWS_MAX, HeatMap, HeatMapRequest, HeatMeasure, HistoryEvent,
    HistoryEventKind, KeyRange,
};
use shardlake_model::{Error, Result as Outcome};

use crate::document::ids;
use crate::moments::Moments;
use crate::pieces::written;
use crate::window::Window;
use crate::{OperatorCall, OperatorReply};

const DEFAULT_WINDOW: &str = "6h";
const DEFAULT_ROWS: u32 = 256;

pub(crate) fn heat(call: &OperatorCall<'_>, container: &ContainerHandle) -> Outcome<OperatorReply> {
    let parameters = call.address.parameters(&["window", "rows", "measure", "min", "max", "since"])?;
    let measure = match parameters.get("measure") {
        None | Some("share") => HeatMeasure::Share,
        Some("ru") => HeatMeasure::RequestUnits,
        Some("throttled") => HeatMeasure::Throttled,
        Some(other) => {
            return Err(Error::bad_request(format!("the measure '{other}' is none of share, ru, throttled")));
        }
    };
    let rows = parameters.number("rows")?.unwrap_or(DEFAULT_ROWS) as usize;
    if !(1..=HEAT_ROWS_MAX).contains(&rows) {
        return Err(Error::bad_request(format!("'rows' is 1 to {HEAT_ROWS_MAX}")));
    }
    let request = HeatMapRequest {
        window: Window::of(Some(parameters.get("window").unwrap_or(DEFAULT_WINDOW)))?.length,
        rows,
        measure,
        span: span(parameters.get("min"), parameters.get("max"))?,
        since: parameters.number("since")?,
    };
    let map = call.account.maintenance().heat_map(container, &request)?;
    Ok(crate::ok(written(&document(&map, &request, &call.moments().ahead(HEAT_MAP_BEFORE)))))
}

fn span(min: Option<&str>, max: Option<&str>) -> Outcome<KeyRange> {
    let (min, max) = (min.unwrap_or_default(), max.unwrap_or("FF"));
    KeyRange::from_hex(min, max).map_err(|error| {
        Error::bad_request(format!("'min' and 'max' are no span of the hash space: {error}"))
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'m> {
    first_sequence: u32,
    sequence: u32,
    period_seconds: u32,
    times: Vec<u64>,
    row_bounds: Vec<String>,
    #[serde(serialize_with = "in_base64")]
    cells: &'m [f32],
    unit: &'static str,
    throttled: Vec<Value>,
    epochs: Vec<Value>,
    events: Vec<Value>,
    known_since: u64,
}

/// Written while it is encoded: the cells are the large part of the answer.
fn in_base64<S: Serializer>(cells: &&[f32], serializer: S) -> Result<S::Ok, S::Error> {
    let bytes: Vec<u8> = cells.iter().flat_map(|cell| cell.to_le_bytes()).collect();
    serializer.collect_str(&Base64Display::new(&bytes, &STANDARD))
}

fn document<'m>(map: &'m HeatMap, request: &HeatMapRequest, moments: &Moments) -> Document<'m> {
    let seconds = map.period_seconds;
    let throttled = map.throttled.iter().map(|dot| {
        let time = moments.of_period(dot.column, seconds);
        json!([time, dot.rows.first, dot.rows.count, dot.share])
    });
    let epochs = map.epochs.iter().map(|epoch| {
        let range = |range: &shardlake_account::EpochRange| {
            let rows = map.rows_of(&range.range)?;
            Some(json!({
                "id": range.range_id.to_string(),
                "firstRow": rows.first,
                "rows": rows.count,
                "budgetRuPerSecond": range.budget_centi.map(|centi| centi as f64 / 100.0),
            }))
        };
        let ranges: Vec<Value> = epoch.ranges.iter().filter_map(range).collect();
        json!({ "from": moments.of(epoch.from), "ranges": ranges })
    });
    Document {
        first_sequence: map.first,
        sequence: map.sequence,
        period_seconds: seconds,
        times: (map.first..=map.sequence).map(|number| moments.of_period(number, seconds)).collect(),
        row_bounds: map.row_bounds.iter().map(Epk::to_hex).collect(),
        cells: &map.cells,
        unit: match request.measure {
            HeatMeasure::Share => "shareOfBudget",
            HeatMeasure::RequestUnits => "ruPerSecond",
            HeatMeasure::Throttled => "shareOfOperations",
        },
        throttled: throttled.collect(),
        epochs: epochs.collect(),
        events: map.events.iter().map(|one| event(one, moments)).collect(),
        known_since: moments.of(map.known_since),
    }
}

fn event(event: &HistoryEvent, moments: &Moments) -> Value {
    let time = moments.of(event.at);
    match &event.what {
        HistoryEventKind::Relocated { kind, sources, targets, pause } => json!({
            "time": time,
            "kind": kind.name(),
            "sources": ids(sources),
            "targets": ids(targets),
            "pauseMs": pause.as_secs_f64() * 1000.0,
        }),
        HistoryEventKind::Throughput { from_centi, to_centi } => json!({
            "time": time,
            "kind": "throughput",
            "from": from_centi.map(|centi| centi as f64 / 100.0),
            "to": to_centi.map(|centi| centi as f64 / 100.0),
        }),
    }
}
