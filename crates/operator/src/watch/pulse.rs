//! `GET pulse`: how busy the account is, period by period: request units and operations by kind, refusals, latency, processor.
//!
//! Request units and operations are those of the heat of all partitions, of which nothing is counted twice; the busiest
//! containers are told one by one. With `since`, the answer has only the last period that a client has seen and later ones.

use serde_json::{Map, Value, json};
use shardlake_account::{ContainerPulse, HeatKind, PulseSpan, periods_of};
use shardlake_model::Result;

use super::process::ProcessSample;
use crate::document::written;
use crate::window::Window;
use crate::{OperatorCall, OperatorReply};

/// Told one by one.
const CONTAINERS_MAX: usize = 20;
const DEFAULT_WINDOW: &str = "10m";

pub(crate) fn pulse(call: &OperatorCall<'_>) -> Result<OperatorReply> {
    let parameters = call.address.parameters(&["since", "window"])?;
    let window = Window::of(Some(parameters.get("window").unwrap_or(DEFAULT_WINDOW)))?;
    let (period_seconds, count) = periods_of(window.length);
    let elapsed = call.account.clock().elapsed();
    let last = (elapsed.as_secs() / u64::from(period_seconds)) as u32;
    let wanted = window.length.as_secs().div_ceil(u64::from(period_seconds)).clamp(1, u64::from(count));
    let oldest = (last + 1).saturating_sub(wanted as u32);
    let since = parameters.number("since")?;
    let known = since.filter(|since| (oldest..=last).contains(since));
    let span = PulseSpan { period_seconds, first: known.unwrap_or(oldest), last };
    let mut containers = call.account.pulse(span);
    let process = match call.installation {
        Some(installation) => installation.process.samples(period_seconds, span.first, last),
        None => vec![None; span.count()],
    };
    let of_process = |figure: fn(&ProcessSample) -> Option<f64>| -> Vec<Option<f64>> {
        process.iter().map(|sample| sample.as_ref().and_then(figure)).collect()
    };
    let mut answer = json!({
        "sequence": last,
        "periodSeconds": period_seconds,
        "missed": since.is_some() && known.is_none(),
        "times": times(call, span),
        "ru": by_kind(&containers, span, |container, kind, at| container.ru[kind][at]),
        "operations": by_kind(&containers, span, |container, kind, at| container.operations[kind][at] as f64),
        "throttled": sums(&containers, span, |container, at| container.throttled[at] as f64),
        "failed": of_process(|sample| Some(sample.failed as f64)),
        "latencyP50Ms": of_process(|sample| sample.latency_ms(0.5)),
        "latencyP99Ms": of_process(|sample| sample.latency_ms(0.99)),
        "connections": of_process(|sample| Some(sample.connections as f64)),
        "cpuCores": of_process(|sample| Some(sample.cpu_cores())),
        "memoryBytes": of_process(|sample| Some(sample.memory_bytes as f64)),
        "diskBytes": of_process(|sample| Some(sample.disk_bytes as f64)),
    });
    containers.sort_by(|one, other| other.total_ru().total_cmp(&one.total_ru()));
    answer["containers"] = containers.iter().take(CONTAINERS_MAX).map(|one| container(one, span)).collect();
    Ok(crate::ok(written(&answer)))
}

/// When each period began, in Unix milliseconds.
fn times(call: &OperatorCall<'_>, span: PulseSpan) -> Vec<u64> {
    let moments = call.moments();
    (span.first..=span.last).map(|number| moments.of_period(number, span.period_seconds)).collect()
}

fn by_kind(
    containers: &[ContainerPulse],
    span: PulseSpan,
    figure: impl Fn(&ContainerPulse, usize, usize) -> f64,
) -> Value {
    let of_kind = |kind: &HeatKind| {
        let sums = sums(containers, span, |container, at| figure(container, *kind as usize, at));
        (name(*kind).to_owned(), json!(sums))
    };
    Value::Object(HeatKind::ALL.iter().map(of_kind).collect::<Map<_, _>>())
}

/// As members of JSON objects are named.
fn name(kind: HeatKind) -> &'static str {
    match kind {
        HeatKind::FanOut => "fanOut",
        kind => kind.name(),
    }
}

fn sums(
    containers: &[ContainerPulse],
    span: PulseSpan,
    figure: impl Fn(&ContainerPulse, usize) -> f64,
) -> Vec<f64> {
    let sum = |at| rounded(containers.iter().map(|container| figure(container, at)).sum());
    (0..span.count()).map(sum).collect()
}

/// Sums of hundredths show hundredths.
fn rounded(ru: f64) -> f64 {
    (ru * 100.0).round() / 100.0
}

fn container(pulse: &ContainerPulse, span: PulseSpan) -> Value {
    let one = std::slice::from_ref(pulse);
    json!({
        "database": pulse.database,
        "container": pulse.container,
        "ru": sums(one, span, |pulse, at| pulse.ru.iter().map(|kind| kind[at]).sum()),
        "throttled": pulse.throttled,
        "normalizedRu": pulse.normalized_ru,
    })
}
