//! What counting one operation costs, in nanoseconds: `cargo run --release -p shardlake-partition --example heat_speed`.
//!
//! Single-threaded and with the clock given, so that it measures the counting alone; the lock is taken each time.
#![allow(clippy::print_stdout)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use shardlake_model::{KeyComponent, PartitionKey, PartitionKeyDefinition};
use shardlake_partition::LogicalKey;
use shardlake_partition::heat::{Heat, HeatKind, HeatPlace, Sample};
use shardlake_routing::{EpkRange, effective_partition_key};
use shardlake_stdx::Clock;

const OPERATIONS: usize = 5_000_000;
/// More than are counted, few enough for the processor's cache: an operation has just used its key.
const KEYS: usize = 4000;
const OPERATIONS_PER_SECOND: u64 = 20_000;

/// The key of an operation by its number; `None` for a span.
type Choose<'a> = &'a dyn Fn(usize) -> Option<usize>;

fn main() {
    let definition = PartitionKeyDefinition::hash("/tenant");
    let keys: Vec<LogicalKey> = (0..KEYS).map(|number| key(&definition, number)).collect();
    let template: Arc<str> = "SELECT * FROM c WHERE c.tenant = @tenant".into();
    let full = EpkRange::full();
    let few = |index: usize| Some(index % 40);
    let many = |index: usize| Some(index.wrapping_mul(2_654_435_761) % keys.len());
    let skewed = |index: usize| Some((index.wrapping_mul(2_654_435_761) % keys.len()) >> (index % 17));
    let spans = |_: usize| None;
    let cases: [(&str, Choose<'_>); 4] =
        [("40 keys", &few), ("4,000 keys", &many), ("skewed keys", &skewed), ("spans", &spans)];
    for (name, choose) in cases {
        for template in [None, Some(&template)] {
            let heat = Mutex::new(Heat::new(&definition, &full));
            let started = Clock::System.elapsed();
            for index in 0..OPERATIONS {
                let place = choose(index).map_or(HeatPlace::Span(&full), |at| HeatPlace::Key(&keys[at]));
                let latency = Duration::from_micros(index as u64 % 512);
                let sample =
                    Sample { kind: HeatKind::Read, place, ru_centi: 100, size_bytes: 500, latency, template };
                let now = Duration::from_micros(index as u64 * 1_000_000 / OPERATIONS_PER_SECOND);
                heat.lock().expect("one thread").record(now, &sample);
            }
            let each = (Clock::System.elapsed() - started).as_nanos() / OPERATIONS as u128;
            println!("{name}, template {}: {each} ns", template.is_some());
        }
    }
}

fn key(definition: &PartitionKeyDefinition, number: usize) -> LogicalKey {
    let partition_key = PartitionKey::single(KeyComponent::String(format!("tenant-{number}")));
    LogicalKey { epk: effective_partition_key(definition, &partition_key), partition_key }
}
