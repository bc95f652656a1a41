//! The analytical stores of the account: their start.

use shardlake_account::Account;
use shardlake_analytics::Analytics;

use crate::config::Config;
use crate::metrics::Metrics;

/// Follows the account's containers from now on.
pub fn start(config: &Config, account: &Account, metrics: &Metrics) -> Result<Analytics, String> {
    let options = config.analytics.options(config.data_dir.as_deref());
    let analytics = Analytics::start(account.definitions().clone(), options)
        .map_err(|error| format!("the analytical stores do not start: {error}"))?;
    metrics.show_analytics(analytics.clone());
    Ok(analytics)
}
