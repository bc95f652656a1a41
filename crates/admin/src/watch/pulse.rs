//! `GET pulse`: load of the account, period by period: request units and operations by kind,
//! refusals, latency, processor.
//!
//! Request units and operations are those of the heat of all partitions, so nothing is counted
//! twice; the busiest containers are listed one by one. With `since`, the answer has only the last
//! period that a client has seen and later ones.

use serde_json::{Map, Value, json};
use shardlake_account::{ContainerPulse, HeatKind, PulseSpan, periods_of};
use shardlake_model::Result;

use super::process::ProcessSample;
use crate::pieces::written;
use crate::window::Window;
use crate::{OperatorCall, OperatorReply};

/// Bound on the containers that are listed one by one.
const CONTAINERS_MAX: usize = 20;
const DEFAULT_WINDOW: &str = "10m";

pub(crate) fn pulse(call: &OperatorCall<'_>) -> Result<OperatorReply> {
    let parameters = call.address.parameters(&["since", "window"])?;
    let window = Window::of(Some(parameters.get("window").unwrap_or(DEFAULT_WINDOW)))?;
    let (period_seconds, count) = periods_of(window.length);
    let elapsed = call.account.router().clock().elapsed();
    let last = (elapsed.as_secs() / u64::from(period_seconds)) as u32;
    let wanted = window.length.as_secs().div_ceil(u64::from(period_seconds)).clamp(1, u64::from(count));
    let oldest = (last + 1).saturating_sub(wanted as u32);
    let since = parameters.number("since")?;
    let known = since.filter(|since| (oldest..=last).contains(since));
    let span = PulseSpan { period_seconds, first: known.unwrap_or(oldest), last };
    let account = call.account.maintenance().pulse(span, CONTAINERS_MAX);
    let process = match call.installation {
        Some(installation) => installation.process.samples(period_seconds, span.first, last),
        None => vec![None; span.count()],
    };
    let of_process = |figure: fn(&ProcessSample) -> Option<f64>| -> Vec<Option<f64>> {
        process.iter().map(|sample| sample.as_ref().and_then(figure)).collect()
    };
    let answer = json!({
        "sequence": last,
        "periodSeconds": period_seconds,
        "missed": since.is_some() && known.is_none(),
        "times": times(call, span),
        "ru": by_kind(|kind| json!(hundredths(&account.ru[kind]))),
        "operations": by_kind(|kind| json!(account.operations[kind])),
        "throttled": account.throttled,
        "failed": of_process(|sample| Some(sample.failed as f64)),
        "latencyP50Ms": of_process(|sample| sample.latency_ms(0.5)),
        "latencyP99Ms": of_process(|sample| sample.latency_ms(0.99)),
        "connections": of_process(|sample| Some(sample.connections as f64)),
        "directConnections": of_process(|sample| Some(sample.direct_connections as f64)),
        "cpuCores": of_process(|sample| Some(sample.cpu_cores())),
        "memoryBytes": of_process(|sample| Some(sample.memory_bytes as f64)),
        "diskBytes": of_process(|sample| Some(sample.disk_bytes as f64)),
        "containers": account.containers.iter().map(container).collect::<Vec<_>>(),
    });
    Ok(crate::ok(written(&answer)))
}

/// When each period began, in Unix milliseconds.
fn times(call: &OperatorCall<'_>, span: PulseSpan) -> Vec<u64> {
    let moments = call.moments();
    (span.first..=span.last).map(|number| moments.of_period(number, span.period_seconds)).collect()
}

fn by_kind(figures: impl Fn(usize) -> Value) -> Value {
    let of_kind = |kind: &HeatKind| (name(*kind).to_owned(), figures(*kind as usize));
    Value::Object(HeatKind::ALL.iter().map(of_kind).collect::<Map<_, _>>())
}

/// As members of JSON objects are named.
fn name(kind: HeatKind) -> &'static str {
    match kind {
        HeatKind::FanOut => "fanOut",
        kind => kind.name(),
    }
}

/// Sums of hundredths show hundredths.
fn hundredths(ru: &[f64]) -> Vec<f64> {
    ru.iter().map(|ru| (ru * 100.0).round() / 100.0).collect()
}

fn container(pulse: &ContainerPulse) -> Value {
    json!({
        "database": pulse.database,
        "container": pulse.container,
        "ru": hundredths(&pulse.ru),
        "throttled": pulse.throttled,
        "normalizedRu": pulse.normalized_ru,
    })
}
