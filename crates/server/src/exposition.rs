//! The page of metrics in the OpenMetrics text format, written from values that were read just before.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::registry::{Registry, Unit};
use shardlake_stdx::DurationCounts;

use crate::metric_table::{ALL, Described, Kind};

#[derive(Debug, Clone)]
pub enum Value {
    Whole(u64),
    Decimal(f64),
    Durations(DurationCounts),
    /// Of an info, whose labels are its content.
    Info,
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Whole(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Decimal(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Whole(value.into())
    }
}

impl From<DurationCounts> for Value {
    fn from(value: DurationCounts) -> Value {
        Value::Durations(value)
    }
}

type Sample = (Vec<(&'static str, String)>, Value);

/// The samples of a page.
#[derive(Debug, Default)]
pub struct Page {
    families: Vec<Family>,
}

/// The samples of one family.
#[derive(Debug)]
pub struct Family {
    described: &'static Described,
    samples: Vec<Sample>,
}

impl Page {
    /// The family, which is shown from now on, with or without samples.
    pub fn family(&mut self, described: &'static Described) -> &mut Family {
        let place = self.families.iter().position(|family| std::ptr::eq(family.described, described));
        let place = place.unwrap_or_else(|| {
            self.families.push(Family { described, samples: Vec::new() });
            self.families.len() - 1
        });
        &mut self.families[place]
    }

    /// A sample without labels.
    pub fn set(&mut self, described: &'static Described, value: impl Into<Value>) {
        self.family(described).push([], value);
    }

    /// Likewise, where there is a value.
    pub fn set_some(&mut self, described: &'static Described, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(described, value);
        }
    }

    /// The text, in the order of the table.
    pub fn text(mut self) -> String {
        let mut registered = Registry::default();
        debug_assert!(
            self.families.iter().all(|family| ALL.iter().any(|known| std::ptr::eq(*known, family.described))),
            "each family of the page is in the table of metrics"
        );
        self.families.sort_by_key(|family| {
            ALL.iter().position(|described| std::ptr::eq(*described, family.described))
        });
        registered.register_collector(Box::new(Samples(self.families)));
        let mut page = String::new();
        text::encode(&mut page, &registered).expect("writing to a string cannot fail");
        page
    }
}

impl Family {
    /// `values` are in the order of the labels in the table.
    pub fn push<const N: usize>(&mut self, values: [&str; N], value: impl Into<Value>) {
        debug_assert_eq!(N, self.described.labels.len(), "{}", self.described.name);
        let labels = self.described.labels.iter().zip(values);
        let labels = labels.map(|(label, value)| (*label, value.to_owned())).collect();
        self.samples.push((labels, value.into()));
    }
}

#[derive(Debug)]
struct Samples(Vec<Family>);

impl Collector for Samples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for Family { described, samples } in &self.0 {
            let unit = described.unit.map(|unit| Unit::Other(unit.to_owned()));
            let kind = described.kind.of_the_format();
            let mut family =
                encoder.encode_descriptor(described.name, described.help, unit.as_ref(), kind)?;
            for (labels, value) in samples {
                match value {
                    Value::Info => family.encode_info(labels)?,
                    // With an empty set of labels, braces would be written.
                    value if labels.is_empty() => write_value(&mut family, described.kind, value)?,
                    value => write_value(&mut family.encode_family(labels)?, described.kind, value)?,
                }
            }
        }
        Ok(())
    }
}

fn write_value(sample: &mut MetricEncoder<'_>, kind: Kind, value: &Value) -> Result<(), std::fmt::Error> {
    match (kind, value) {
        (Kind::Counter, Value::Whole(value)) => sample.encode_counter::<NoLabelSet, u64, u64>(value, None),
        (Kind::Counter, Value::Decimal(value)) => sample.encode_counter::<NoLabelSet, f64, u64>(value, None),
        (_, Value::Whole(value)) => sample.encode_gauge(value),
        (_, Value::Decimal(value)) => sample.encode_gauge(value),
        (_, Value::Durations(counts)) => {
            sample.encode_histogram::<NoLabelSet>(counts.seconds, counts.count, &counts.buckets, None)
        }
        (_, Value::Info) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use shardlake_stdx::DurationHistogram;

    use super::*;
    use crate::metric_table;

    #[test]
    fn families_are_written_in_the_order_of_the_table() {
        let mut page = Page::default();
        let durations = DurationHistogram::default();
        durations.observe(std::time::Duration::from_micros(70));
        page.set(&metric_table::PROCESS_THREADS, 7);
        page.family(&metric_table::BUILD).push(["1", "sync", "c"], Value::Info);
        page.family(&metric_table::SYNC_DURATION).push(["0"], durations.counts());
        page.set(&metric_table::REQUEST_PANICS, 0);
        let text = page.text();
        let expected = [
            "# TYPE shardlake_request_panics counter",
            "shardlake_request_panics_total 0",
            "# UNIT shardlake_sync_duration_seconds seconds",
            r#"shardlake_sync_duration_seconds_bucket{le="0.00005",shard="0"} 0"#,
            r#"shardlake_sync_duration_seconds_bucket{le="0.0001",shard="0"} 1"#,
            r#"shardlake_sync_duration_seconds_bucket{le="+Inf",shard="0"} 1"#,
            r#"shardlake_build_info{version="1",durability="sync",commit="c"} 1"#,
            "process_threads 7",
            "# EOF",
        ];
        let mut rest = &*text;
        for line in expected {
            let place = rest.find(line).unwrap_or_else(|| panic!("{line} in\n{text}"));
            rest = &rest[place..];
        }
    }
}
