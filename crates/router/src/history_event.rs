//! Events of a container's history, as they are reported and stored.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::motion::RelocationKind;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum HistoryEventKind {
    Relocated {
        kind: RelocationKind,
        sources: Vec<u32>,
        targets: Vec<u32>,
        pause: Duration,
    },
    /// RU/s of all partitions together, in hundredths.
    Throughput {
        from_centi: Option<u64>,
        to_centi: Option<u64>,
    },
}
