//! Requests and request units of each container, counted where they are answered.
//!
//! Labels are the names that the container has, as in all other metrics, however a path spells them: encoded, or by resource ids.
//! Only existing containers are counted, and only up to a maximum: a client without a key cannot make the page grow.
//! A container that was deleted stays on the page until the server is started again.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use http::Response;
use percent_encoding::percent_decode;

use crate::exposition::Page;
use crate::metric_table::{CONTAINER_REQUEST_CHARGE, CONTAINER_REQUESTS};

/// More than an account holds at a time.
const CONTAINERS_MAX: usize = 1_000;
const STATUS_MIN: usize = 100;
/// From the lowest up.
const STATUSES: usize = 500;

/// Names and resource ids in both places of a path.
const SPELLINGS_MAX: usize = 4;

/// By database, then by container, as decoded paths spell them.
type BySpelling = HashMap<String, HashMap<String, Arc<Counts>>>;

#[derive(Debug, Default)]
pub struct ContainerCounters {
    containers: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_spelling: BySpelling,
    /// Each once.
    all: Vec<Arc<Counts>>,
}

#[derive(Debug)]
struct Counts {
    names: ContainerLabels,
    by_status: [AtomicU64; STATUSES],
    charge_centi: AtomicU64,
}

/// The names of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerLabels {
    pub database: String,
    pub container: String,
}

impl ContainerCounters {
    /// Counts an answered request to a path in a container; others are left alone. `names` finds a container's names by names
    /// or resource ids.
    pub fn record<B>(
        &self,
        path: &str,
        response: &Response<B>,
        charge: Option<f64>,
        names: impl Fn(&str, &str) -> Option<ContainerLabels>,
    ) {
        let Some((database, container)) = segments(path) else { return };
        let status = response.status().as_u16();
        let Some(counts) = self.counts(&database, &container, status, names) else { return };
        if let Some(count) = counts.by_status.get(usize::from(status) - STATUS_MIN) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let charge_centi = (charge.unwrap_or(0.0) * 100.0).round() as u64;
        counts.charge_centi.fetch_add(charge_centi, Ordering::Relaxed);
    }

    fn counts(
        &self,
        database: &str,
        container: &str,
        status: u16,
        names: impl Fn(&str, &str) -> Option<ContainerLabels>,
    ) -> Option<Arc<Counts>> {
        let known = self.containers.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = known.by_spelling.get(database).and_then(|containers| containers.get(container))
        {
            return Some(counts.clone());
        }
        drop(known);
        // Refused by the gateway's checks, or a missing container.
        if matches!(status, 400 | 401 | 403 | 404 | 405 | 501) {
            return None;
        }
        let names = names(database, container)?;
        self.containers.write().unwrap_or_else(PoisonError::into_inner).add(database, container, names)
    }

    pub fn write(&self, page: &mut Page) {
        let known = self.containers.read().unwrap_or_else(PoisonError::into_inner);
        for counts in &known.all {
            let labels = [&*counts.names.database, &*counts.names.container];
            for (status, count) in counts.by_status.iter().enumerate() {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let status = (status + STATUS_MIN).to_string();
                    page.family(&CONTAINER_REQUESTS).push([labels[0], labels[1], &status], count);
                }
            }
            let charge = counts.charge_centi.load(Ordering::Relaxed) as f64 / 100.0;
            page.family(&CONTAINER_REQUEST_CHARGE).push(labels, charge);
        }
    }
}

impl Known {
    /// The counts of a container under one more spelling; `None` where there are too many.
    fn add(&mut self, database: &str, container: &str, names: ContainerLabels) -> Option<Arc<Counts>> {
        let spellings: usize = self.by_spelling.values().map(HashMap::len).sum();
        if spellings >= CONTAINERS_MAX * SPELLINGS_MAX {
            return None;
        }
        let known = self.all.iter().find(|counts| counts.names == names).cloned();
        let counts = match known {
            Some(counts) => counts,
            None if self.all.len() >= CONTAINERS_MAX => return None,
            None => {
                let counts = Arc::new(Counts::of(names));
                self.all.push(counts.clone());
                counts
            }
        };
        let containers = self.by_spelling.entry(database.to_owned()).or_default();
        containers.insert(container.to_owned(), counts.clone());
        assert!(self.all.len() <= CONTAINERS_MAX, "the number of counted containers is bounded");
        Some(counts)
    }
}

impl Counts {
    fn of(names: ContainerLabels) -> Counts {
        Counts {
            names,
            by_status: std::array::from_fn(|_| AtomicU64::new(0)),
            charge_centi: AtomicU64::new(0),
        }
    }
}

/// Database and container of a path below a container, decoded.
fn segments(path: &str) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let mut segments = path.as_bytes().split(|byte| *byte == b'/').filter(|segment| !segment.is_empty());
    match (segments.next(), segments.next(), segments.next(), segments.next()) {
        (Some(b"dbs"), Some(database), Some(b"colls"), Some(container)) => {
            Some((decoded(database)?, decoded(container)?))
        }
        _ => None,
    }
}

fn decoded(segment: &[u8]) -> Option<Cow<'_, str>> {
    percent_decode(segment).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(counters: &ContainerCounters) -> String {
        let mut page = Page::default();
        counters.write(&mut page);
        page.text()
    }

    fn as_spelled(database: &str, container: &str) -> Option<ContainerLabels> {
        Some(ContainerLabels { database: database.to_owned(), container: container.to_owned() })
    }

    #[test]
    fn spellings_of_one_container_are_counted_together() {
        let counters = ContainerCounters::default();
        let answer = Response::builder().status(200).body(()).expect("valid");
        let names = |database: &str, container: &str| match (database, container) {
            ("db" | "rid=", "x\"y" | "rid2=") => as_spelled("db", "x\"y"),
            _ => None,
        };
        for path in [
            "/dbs/db/colls/x%22y/docs",
            "/dbs/db/colls/%78%22y",
            "/dbs/rid=/colls/rid2=/docs",
            "/dbs/db/colls/z",
        ] {
            counters.record(path, &answer, None, names);
        }
        let line = r#"container_requests_total{database="db",container="x\"y",status="200"} 3"#;
        assert!(page(&counters).contains(line), "{}", page(&counters));
        assert_eq!(page(&counters).matches("container_requests_total{").count(), 1);
    }

    #[test]
    fn containers_are_counted_once_they_have_answered() {
        let counters = ContainerCounters::default();
        let answer = |status: u16| Response::builder().status(status).body(()).expect("valid");
        counters.record("/dbs/db/colls/unknown/docs", &answer(404), None, as_spelled);
        counters.record("/dbs/db/colls/unsigned/docs", &answer(401), None, as_spelled);
        counters.record("/dbs/db", &answer(200), Some(1.0), as_spelled);
        assert!(!page(&counters).contains("container="), "{}", page(&counters));
        counters.record("/dbs/db/colls/items/docs", &answer(201), Some(6.29), as_spelled);
        counters.record("/dbs/db/colls/items/docs/a", &answer(404), Some(1.0), as_spelled);
        counters.record("/dbs/db/colls/items/docs/a", &answer(429), Some(0.0), as_spelled);
        for line in [
            r#"container_requests_total{database="db",container="items",status="201"} 1"#,
            r#"container_requests_total{database="db",container="items",status="404"} 1"#,
            r#"container_requests_total{database="db",container="items",status="429"} 1"#,
            r#"container_request_charge_total{database="db",container="items"} 7.29"#,
        ] {
            assert!(page(&counters).contains(line), "{line} in\n{}", page(&counters));
        }
    }

    #[test]
    fn there_is_a_bound_on_containers() {
        let counters = ContainerCounters::default();
        let answer = Response::builder().status(200).body(()).expect("valid");
        for number in 0..CONTAINERS_MAX + 10 {
            counters.record(&format!("/dbs/db/colls/c{number}"), &answer, None, as_spelled);
        }
        assert_eq!(page(&counters).matches("container_requests_total{").count(), CONTAINERS_MAX);
    }
}
