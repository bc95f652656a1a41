//! Headers with information about a query besides its rows (wire.md §11).
//!
//! | request header | response header | format |
//! |---|---|---|
//! | `x-ms-documentdb-populatequerymetrics` | `x-ms-documentdb-query-metrics` | `name=value;…` |
//! | `x-ms-cosmos-populateindexmetrics` | `x-ms-cosmos-index-utilization` | base64 of JSON, the older members |
//! | `x-ms-cosmos-populateindexmetrics-V2` | the same header | URL-encoded JSON, the newer members |
//! | `x-ms-cosmos-populatequeryadvice` | `x-ms-cosmos-query-advice` | URL-encoded JSON |
//! | `x-shardlake-explain` | `x-shardlake-explain` | URL-encoded text: the plan, then how each range was read |

use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use shardlake_account::sql::{Advice, CompositeIndexUse, IndexUses, IndexUtilization, SingleIndexUse};
use shardlake_account::{QueryReply, QueryWants};
use shardlake_model::{Error, Result};

use crate::header_names::{EXPLANATION, INDEX_UTILIZATION, QUERY_ADVICE, QUERY_METRICS};
use crate::headers::{RequestHeaders, flag};

/// Clients refuse headers that are much larger; an explanation is cut there.
const EXPLANATION_BYTES_MAX: usize = 4 * 1024;
/// The service cuts longer reports: a recorded one has so many characters of encoded text.
const UTILIZATION_BYTES_MAX: usize = 4988;

/// The headers that a request asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueryDiagnostics {
    metrics: bool,
    utilization: Option<UtilizationForm>,
    advice: bool,
    explanation: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UtilizationForm {
    Older,
    Newer,
}

impl QueryDiagnostics {
    pub fn asked(headers: &RequestHeaders<'_>) -> Result<QueryDiagnostics> {
        let older = flag("x-ms-cosmos-populateindexmetrics", headers.populate_index_metrics)?;
        let newer = flag("x-ms-cosmos-populateindexmetrics-V2", headers.populate_index_metrics_v2)?;
        Ok(QueryDiagnostics {
            metrics: flag("x-ms-documentdb-populatequerymetrics", headers.populate_query_metrics)?,
            utilization: match (newer, older) {
                (true, _) => Some(UtilizationForm::Newer),
                (false, true) => Some(UtilizationForm::Older),
                (false, false) => None,
            },
            advice: flag("x-ms-cosmos-populatequeryadvice", headers.populate_query_advice)?,
            explanation: flag("x-shardlake-explain", headers.explain)?,
        })
    }

    pub fn wants(&self) -> QueryWants {
        QueryWants {
            explanation: self.explanation,
            utilization: self.utilization.is_some(),
            advice: self.advice,
            figures: false,
            any_order: false,
        }
    }

    /// `output` is the time in which the rows were written.
    pub fn headers(&self, reply: &QueryReply, output: Duration) -> Result<Vec<(HeaderName, HeaderValue)>> {
        let utilization = self.utilization.zip(reply.utilization.as_ref());
        let texts = [
            (&QUERY_METRICS, self.metrics.then(|| metrics(reply, output))),
            (&INDEX_UTILIZATION, utilization.map(|(form, utilization)| form.encode(utilization))),
            (&QUERY_ADVICE, reply.advice.as_ref().map(|advice| encoded(&advice_json(advice).to_string()))),
            (&EXPLANATION, reply.explanation.as_ref().map(|words| explanation(words))),
        ];
        let header = |(name, text): (&HeaderName, Option<String>)| {
            let value = HeaderValue::try_from(text?).map_err(|_| Error::internal("a header is not ASCII"));
            Some(value.map(|value| (name.clone(), value)))
        };
        texts.into_iter().filter_map(header).collect()
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Cuts encoded text. An escape is three characters: half of one would not decode.
fn cut(text: &mut String, bytes_max: usize) {
    text.truncate(bytes_max);
    let start = text.rfind('%').filter(|at| at + 3 > text.len());
    text.truncate(start.unwrap_or(bytes_max));
    assert!(text.len() <= bytes_max, "a cut text fits its header");
}

fn explanation(words: &str) -> String {
    let mut text = encoded(words);
    if text.len() > EXPLANATION_BYTES_MAX {
        cut(&mut text, EXPLANATION_BYTES_MAX);
        text.push_str("%E2%80%A6");
    }
    text
}

/// Keys of the reference, in its order. Times that are not measured apart are left out, which clients read as none: those of the
/// physical plan, of its optimisation, of the index, of loading documents and of functions are parts of `VMExecutionTimeInMs`.
fn metrics(reply: &QueryReply, output: Duration) -> String {
    let statistics = &reply.statistics;
    let items = statistics.items_loaded + statistics.items_scanned;
    let bytes = statistics.items_loaded_bytes + statistics.items_scanned_bytes;
    let utilization = match items {
        0 => f64::from(u8::from(statistics.rows > 0)),
        items => (statistics.rows as f64 / items as f64).min(1.0),
    };
    let mut text = String::with_capacity(640);
    let mut add = |name: &str, value: Duration| {
        write!(text, "{name}={:.2};", milliseconds(value)).expect("a string takes all text")
    };
    add("totalExecutionTimeInMs", reply.preparation + reply.execution + output);
    add("queryCompileTimeInMs", reply.preparation.saturating_sub(reply.planning));
    add("queryLogicalPlanBuildTimeInMs", reply.planning);
    add("VMExecutionTimeInMs", reply.execution);
    let (rows, rows_bytes) = (statistics.rows, statistics.rows_bytes);
    write!(
        text,
        "retrievedDocumentCount={items};retrievedDocumentSize={bytes};outputDocumentCount={rows};outputDocumentSize={rows_bytes};writeOutputTimeInMs={:.2};indexUtilizationRatio={utilization:.2}",
        milliseconds(output)
    )
    .expect("a string takes all text");
    text
}

/// Milliseconds, rounded up to hundredths: a step that took any time is not reported as 0.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 100_000.0).ceil() / 100.0
}

impl UtilizationForm {
    fn encode(self, utilization: &IndexUtilization) -> String {
        match self {
            UtilizationForm::Older => STANDARD.encode(older_json(utilization).to_string()),
            UtilizationForm::Newer => {
                let mut text = encoded(&newer_json(utilization).to_string());
                cut(&mut text, UTILIZATION_BYTES_MAX);
                text
            }
        }
    }
}

fn older_json(utilization: &IndexUtilization) -> Value {
    let single = |one: &SingleIndexUse| {
        json!({
            "FilterExpression": one.filter,
            "IndexSpec": one.path,
            "FilterPreciseSet": one.precise,
            "IndexPreciseSet": one.precise,
            "IndexImpactScore": "High",
        })
    };
    let composite = |one: &CompositeIndexUse| json!({ "IndexSpecs": one.members, "IndexPreciseSet": false, "IndexImpactScore": "High" });
    let singles = |uses: &IndexUses| uses.single.iter().map(single).collect::<Vec<_>>();
    let composites = |uses: &IndexUses| uses.composite.iter().map(composite).collect::<Vec<_>>();
    json!({
        "UtilizedSingleIndexes": singles(&utilization.utilized),
        "PotentialSingleIndexes": singles(&utilization.potential),
        "UtilizedCompositeIndexes": composites(&utilization.utilized),
        "PotentialCompositeIndexes": composites(&utilization.potential),
    })
}

/// Newer form of the index metrics. Only indexes that do not exist have an impact score.
fn newer_json(utilization: &IndexUtilization) -> Value {
    let utilized = &utilization.utilized;
    let potential = &utilization.potential;
    let score = "High";
    json!({
        "UtilizedIndexes": {
            "SingleIndexes": utilized.single.iter().map(|one| json!({ "IndexSpec": one.path })).collect::<Vec<_>>(),
            "CompositeIndexes":
                utilized.composite.iter().map(|one| json!({ "IndexSpecs": one.members })).collect::<Vec<_>>(),
        },
        "PotentialIndexes": {
            "SingleIndexes": potential
                .single
                .iter()
                .map(|one| json!({ "IndexSpec": one.path, "IndexImpactScore": score }))
                .collect::<Vec<_>>(),
            "CompositeIndexes": potential
                .composite
                .iter()
                .map(|one| json!({ "IndexSpecs": one.members, "IndexImpactScore": score }))
                .collect::<Vec<_>>(),
        },
    })
}

fn advice_json(advice: &[Advice]) -> Value {
    advice.iter().map(|one| json!({ "Id": one.id, "Params": one.parameters })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_explanations_are_cut_between_escapes() {
        assert_eq!(explanation("filter: a"), "filter%3A%20a");
        for length in 1360..1370 {
            let text = explanation(
                &"x".repeat(length % 3).chars().chain("\n".repeat(length).chars()).collect::<String>(),
            );
            assert!(text.len() <= EXPLANATION_BYTES_MAX + 9 && text.is_ascii());
            let decoded = percent_encoding::percent_decode_str(&text).decode_utf8().expect("whole escapes");
            assert!(decoded.chars().all(|c| matches!(c, 'x' | '\n' | '\u{2026}')), "{decoded}");
        }
    }
}
