//! Cost of a client's last command, for `getLastRequestStatistics`.

use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct LastRequest {
    pub command: &'static str,
    pub charge_centi: u64,
    pub time: Duration,
}
