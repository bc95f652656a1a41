//! Requests and request units of each container, counted where they are answered.
//!
//! Only containers that answered as ones that exist are counted, and only so many: whoever has no key cannot make the page
//! grow. A container that was deleted stays on the page until the server is started again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use http::Response;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// More than an account holds at a time.
const CONTAINERS_MAX: usize = 1_000;
const STATUS_MIN: usize = 100;
/// From the lowest up.
const STATUSES: usize = 500;

/// By database, then by container, as the path spells them.
type ByName = HashMap<String, HashMap<String, Arc<Counts>>>;

#[derive(Debug, Default)]
pub struct ContainerCounters {
    containers: RwLock<ByName>,
}

#[derive(Debug)]
struct Counts {
    by_status: [AtomicU64; STATUSES],
    charge_centi: AtomicU64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabels {
    database: String,
    container: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ContainerLabels {
    database: String,
    container: String,
}

impl ContainerCounters {
    /// Counts an answered request to a path in a container; others are left alone.
    pub fn record<B>(&self, path: &str, response: &Response<B>, charge: Option<f64>) {
        let Some((database, container)) = names(path) else { return };
        let status = response.status().as_u16();
        let Some(counts) = self.counts(database, container, status) else { return };
        if let Some(count) = counts.by_status.get(usize::from(status) - STATUS_MIN) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let charge_centi = (charge.unwrap_or(0.0) * 100.0).round() as u64;
        counts.charge_centi.fetch_add(charge_centi, Ordering::Relaxed);
    }

    fn counts(&self, database: &str, container: &str, status: u16) -> Option<Arc<Counts>> {
        let known = self.containers.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = known.get(database).and_then(|containers| containers.get(container)) {
            return Some(counts.clone());
        }
        // Refused at the door, or not there.
        if matches!(status, 400 | 401 | 403 | 404 | 405 | 501)
            || known.values().map(HashMap::len).sum::<usize>() >= CONTAINERS_MAX
        {
            return None;
        }
        drop(known);
        let mut known = self.containers.write().unwrap_or_else(PoisonError::into_inner);
        let containers = known.entry(database.to_owned()).or_default();
        Some(containers.entry(container.to_owned()).or_default().clone())
    }

    pub fn register(&self, to: &mut Registry) {
        let requests: Family<StatusLabels, Counter> = Family::default();
        let units: Family<ContainerLabels, Counter<f64, AtomicU64>> = Family::default();
        let known = self.containers.read().unwrap_or_else(PoisonError::into_inner);
        let all = known.iter().flat_map(|(database, containers)| {
            containers.iter().map(move |(container, counts)| (database, container, counts))
        });
        for (database, container, counts) in all {
            let [database, container] = [database, container].map(String::clone);
            for (status, count) in counts.by_status.iter().enumerate() {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let status = (status + STATUS_MIN) as u16;
                    let labels =
                        StatusLabels { database: database.clone(), container: container.clone(), status };
                    requests.get_or_create(&labels).inc_by(count);
                }
            }
            let charge = counts.charge_centi.load(Ordering::Relaxed) as f64 / 100.0;
            units.get_or_create(&ContainerLabels { database, container }).inc_by(charge);
        }
        to.register("total_requests", "Requests to a container", requests);
        to.register("total_request_units", "Request units charged in a container", units);
    }
}

impl Default for Counts {
    fn default() -> Self {
        Counts { by_status: std::array::from_fn(|_| AtomicU64::new(0)), charge_centi: AtomicU64::new(0) }
    }
}

/// Database and container of a path below a container.
fn names(path: &str) -> Option<(&str, &str)> {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    match (segments.next(), segments.next(), segments.next(), segments.next()) {
        (Some("dbs"), Some(database), Some("colls"), Some(container)) => Some((database, container)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;

    use super::*;

    fn page(counters: &ContainerCounters) -> String {
        let mut registry = Registry::default();
        counters.register(&mut registry);
        let mut page = String::new();
        text::encode_registry(&mut page, &registry).expect("writing to a string cannot fail");
        page
    }

    #[test]
    fn containers_are_counted_once_they_have_answered() {
        let counters = ContainerCounters::default();
        let answer = |status: u16| Response::builder().status(status).body(()).expect("valid");
        counters.record("/dbs/db/colls/unknown/docs", &answer(404), None);
        counters.record("/dbs/db/colls/unsigned/docs", &answer(401), None);
        counters.record("/dbs/db", &answer(200), Some(1.0));
        assert!(!page(&counters).contains("container="), "{}", page(&counters));
        counters.record("/dbs/db/colls/items/docs", &answer(201), Some(6.29));
        counters.record("/dbs/db/colls/items/docs/a", &answer(404), Some(1.0));
        counters.record("/dbs/db/colls/items/docs/a", &answer(429), Some(0.0));
        for line in [
            r#"total_requests_total{database="db",container="items",status="201"} 1"#,
            r#"total_requests_total{database="db",container="items",status="404"} 1"#,
            r#"total_requests_total{database="db",container="items",status="429"} 1"#,
            r#"total_request_units_total{database="db",container="items"} 7.29"#,
        ] {
            assert!(page(&counters).contains(line), "{line} in\n{}", page(&counters));
        }
    }

    #[test]
    fn there_is_a_bound_on_containers() {
        let counters = ContainerCounters::default();
        let answer = Response::builder().status(200).body(()).expect("valid");
        for number in 0..CONTAINERS_MAX + 10 {
            counters.record(&format!("/dbs/db/colls/c{number}"), &answer, None);
        }
        assert_eq!(page(&counters).matches("total_requests_total{").count(), CONTAINERS_MAX);
    }
}
