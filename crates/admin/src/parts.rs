//! Parts of a container's report, for clients that ask often and show little.
//!
//! | part | members of the container | members of each partition |
//! |---|---|---|
//! | always | `database`, `container`, `rid`, `generation` | `id` |
//! | `ranges` | `partitionKey`, `items`, `sizeBytes`, sizes at most, `relocation`, `lastRelocation` | `parents`, bounds, `shard`, `items`, `sizeBytes`, `lsn`, `next` |
//! | `load` | – | `load`, `loadMedian`, `distinctKeys`, `series` |
//! | `rates` | – | `load` |
//! | `budget` | `throughput` | `budget`, `throughputFraction` |
//! | `keys` | – | `hottestKeys`, `hottestQueries`, `distinctKeys`, and `keysCreated`, `leaders`, which the whole report leaves out |
//! | `largest` | – | `largestKeys` |
//! | `findings` | `findings` | – |
//! | `relocations` | `relocations`: the last 32 | – |

use serde_json::{Map, Value, json};
use shardlake_account::{ContainerReport, PastRelocation};
use shardlake_model::{Error, Result};

use crate::document::{Container, ids};
use crate::moments::Moments;
use crate::pieces::written;

const PARTS: &[(&str, &[&str], &[&str])] = &[
    (
        "ranges",
        &[
            "partitionKey",
            "items",
            "sizeBytes",
            "partitionSizeBytesMax",
            "logicalPartitionSizeBytesMax",
            "relocation",
            "lastRelocation",
        ],
        &["parents", "minInclusive", "maxExclusive", "shard", "items", "sizeBytes", "lsn", "next"],
    ),
    ("load", &[], &["load", "loadMedian", "distinctKeys", "series"]),
    ("rates", &[], &["load"]),
    ("budget", &["throughput"], &["budget", "throughputFraction"]),
    ("keys", &[], &["hottestKeys", "hottestQueries", "distinctKeys"]),
    ("largest", &[], &["largestKeys"]),
    ("findings", &["findings"], &[]),
    ("relocations", &[], &[]),
];
const OF_CONTAINER: &[&str] = &["database", "container", "rid", "generation"];

/// The requested parts.
#[derive(Debug)]
pub(crate) struct Parts(Vec<&'static (&'static str, &'static [&'static str], &'static [&'static str])>);

impl Parts {
    /// Names with commas between them.
    pub fn of(text: &str) -> Result<Parts> {
        let find = |name: &str| {
            PARTS.iter().find(|(known, ..)| *known == name).ok_or_else(|| {
                let known: Vec<&str> = PARTS.iter().map(|(name, ..)| *name).collect();
                Error::bad_request(format!("the report has no part '{name}': there are {}", known.join(", ")))
            })
        };
        text.split(',').map(find).collect::<Result<_>>().map(Parts)
    }

    fn has(&self, part: &str) -> bool {
        self.0.iter().any(|(name, ..)| *name == part)
    }

    pub fn cut(&self, whole: &Container<'_>, report: &ContainerReport, moments: &Moments) -> Vec<Vec<u8>> {
        let Ok(Value::Object(mut whole)) = serde_json::to_value(whole) else { return written(whole) };
        let of_container = self.0.iter().flat_map(|(_, members, _)| *members);
        let mut told = kept(&mut whole, OF_CONTAINER.iter().chain(of_container));
        let Some(Value::Array(partitions)) = whole.remove("partitions") else { return written(&told) };
        let partition = |(document, report): (Value, &shardlake_account::RangeReport)| {
            let of_partition = self.0.iter().flat_map(|(_, _, members)| *members);
            let Value::Object(mut document) = document else { return document };
            let mut told = kept(&mut document, ["id"].iter().chain(of_partition));
            if self.has("keys") {
                told.insert("keysCreated".into(), json!(report.heat.recent.keys_created));
                told.insert("leaders".into(), json!(report.heat.recent.leaders));
            }
            Value::Object(told)
        };
        told.insert(
            "partitions".into(),
            partitions.into_iter().zip(&report.partitions).map(partition).collect(),
        );
        if self.has("relocations") {
            let past = report.container.past_relocations();
            let past: Value = past.iter().map(|one| relocation(one, moments)).collect();
            told.insert("relocations".into(), past);
        }
        written(&told)
    }
}

/// Two parts may name the same member.
fn kept<'n>(from: &mut Map<String, Value>, names: impl Iterator<Item = &'n &'n str>) -> Map<String, Value> {
    names.filter_map(|name| from.remove_entry(*name)).collect()
}

fn relocation(past: &PastRelocation, moments: &Moments) -> Value {
    json!({
        "kind": past.kind.name(),
        "sources": ids(&past.sources),
        "targets": ids(&past.targets),
        "start": moments.of(past.started),
        "end": moments.of(past.ended),
        "items": past.items,
        "pauseMs": past.pause.as_secs_f64() * 1000.0,
        "outcome": if past.given_up.is_some() { "given up" } else { "done" },
        "reason": past.given_up,
    })
}
