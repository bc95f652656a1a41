//! Counters of requests of the NoSQL API by transport, operation and status. The counters are allocated once, so counting a
//! request costs a few additions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use shardlake_gateway_nosql::OperationName;
use shardlake_stdx::DurationHistogram;

use crate::exposition::Page;
use crate::metric_table as table;

/// Statuses that are counted by themselves, ascending. Others share one counter.
const STATUSES: [u16; 25] = [
    200, 201, 204, 207, 304, 400, 401, 403, 404, 405, 408, 409, 410, 412, 413, 415, 423, 424, 429, 431, 449,
    500, 501, 503, 507,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Http,
    Direct,
}

impl Transport {
    const ALL: [Transport; 2] = [Transport::Http, Transport::Direct];

    fn name(self) -> &'static str {
        match self {
            Transport::Http => "http",
            Transport::Direct => "direct",
        }
    }
}

#[derive(Debug)]
pub struct RequestMetrics {
    /// By transport, then by operation.
    counts: Box<[Counts]>,
    /// By operation, in hundredths of a request unit.
    charges_centi: Box<[AtomicU64]>,
    panics: AtomicU64,
}

#[derive(Debug, Default)]
struct Counts {
    by_status: [AtomicU64; STATUSES.len() + 1],
    durations: DurationHistogram,
}

impl Default for RequestMetrics {
    fn default() -> RequestMetrics {
        let operations = OperationName::ALL.len();
        RequestMetrics {
            counts: (0..Transport::ALL.len() * operations).map(|_| Counts::default()).collect(),
            charges_centi: (0..operations).map(|_| AtomicU64::new(0)).collect(),
            panics: AtomicU64::new(0),
        }
    }
}

impl RequestMetrics {
    fn of(&self, transport: Transport, operation: OperationName) -> &Counts {
        debug_assert!(
            (operation as usize) < OperationName::ALL.len(),
            "each operation is in the list of all"
        );
        &self.counts[transport as usize * OperationName::ALL.len() + operation as usize]
    }

    pub fn note(
        &self,
        (transport, operation): (Transport, OperationName),
        status: StatusCode,
        duration: Duration,
        charge: Option<f64>,
    ) {
        let counts = self.of(transport, operation);
        let place = STATUSES.binary_search(&status.as_u16()).unwrap_or(STATUSES.len());
        counts.by_status[place].fetch_add(1, Ordering::Relaxed);
        counts.durations.observe(duration);
        if let Some(charge) = charge {
            let centi = (charge * 100.0).round() as u64;
            self.charges_centi[operation as usize].fetch_add(centi, Ordering::Relaxed);
        }
    }

    pub fn note_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    pub fn write(&self, page: &mut Page) {
        for transport in Transport::ALL {
            for operation in OperationName::ALL {
                self.write_operation(page, transport, *operation);
            }
        }
        for operation in OperationName::ALL {
            let centi = self.charges_centi[*operation as usize].load(Ordering::Relaxed);
            if centi > 0 {
                page.family(&table::REQUEST_CHARGE).push([operation.as_str()], centi as f64 / 100.0);
            }
        }
        page.set(&table::REQUEST_PANICS, self.panics.load(Ordering::Relaxed));
    }

    fn write_operation(&self, page: &mut Page, transport: Transport, operation: OperationName) {
        let counts = self.of(transport, operation);
        let durations = counts.durations.counts();
        if durations.count == 0 {
            return;
        }
        let labels = [transport.name(), operation.as_str()];
        for (place, count) in counts.by_status.iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                let status = STATUSES.get(place).map_or("other".to_owned(), u16::to_string);
                page.family(&table::REQUESTS).push([labels[0], labels[1], &status], count);
            }
        }
        page.family(&table::REQUEST_DURATION).push(labels, durations);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_transport_operation_and_status() {
        assert!(STATUSES.is_sorted());
        let metrics = RequestMetrics::default();
        let micros = Duration::from_micros(300);
        let query = (Transport::Direct, OperationName::QueryItems);
        metrics.note(query, StatusCode::OK, micros, Some(2.83));
        metrics.note(query, StatusCode::OK, micros, Some(2.83));
        metrics.note((Transport::Http, OperationName::Batch), StatusCode::IM_A_TEAPOT, micros, None);
        let mut page = Page::default();
        metrics.write(&mut page);
        let page = page.text();
        for line in [
            r#"shardlake_requests_total{transport="direct",operation="QueryItems",status="200"} 2"#,
            r#"shardlake_requests_total{transport="http",operation="Batch",status="other"} 1"#,
            r#"shardlake_request_charge_total{operation="QueryItems"} 5.66"#,
            r#"shardlake_request_duration_seconds_bucket{le="0.0005",transport="direct",operation="QueryItems"} 2"#,
            "shardlake_request_panics_total 0",
        ] {
            assert!(page.contains(line), "{line} in\n{page}");
        }
        assert_eq!(page.matches("shardlake_requests_total{").count(), 2, "{page}");
    }
}
