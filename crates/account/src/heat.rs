//! What keeps the partitions of a container busy, read for an operator.

use std::time::Duration;

use shardlake_model::Result;
use shardlake_partition::heat::HeatReport;

use crate::account::HeatRecording;
use crate::{Account, ContainerHandle};

/// The heat of one physical partition.
#[derive(Debug, Clone)]
pub struct RangeHeat {
    pub range_id: u32,
    pub report: HeatReport,
}

impl Account {
    /// Of every partition that the container has now, in the order of the hash space; empty where heat is not recorded.
    pub fn heat(&self, container: &ContainerHandle, window: Duration) -> Result<Vec<RangeHeat>> {
        let entry = self.current_entry(&container.entry)?;
        let now = self.clock().elapsed();
        if self.0.heat == HeatRecording::Off {
            return Ok(vec![]);
        }
        let definition = &entry.container.definition.partition_key;
        let heat = entry.map.iter().map(|partition| RangeHeat {
            range_id: partition.range_id,
            // Copied, so that operations do not wait while the report is made.
            report: partition.heat(definition).clone().report(now, window),
        });
        Ok(heat.collect())
    }
}
