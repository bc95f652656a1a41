//! What a command cost, for the one that asks afterwards.

use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct LastRequest {
    pub command: &'static str,
    pub charge_centi: u64,
    pub time: Duration,
}
