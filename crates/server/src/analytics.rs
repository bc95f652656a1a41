//! The analytical stores of the account: their place, and their start.

use shardlake_account::Account;
use shardlake_analytics::{Analytics, Root};
use shardlake_stdx::Clock;

use crate::config::Config;
use crate::metrics::Metrics;
use crate::store::{Laws, tables_in};
use crate::store_metrics::StoreMetrics;

/// The folder of an object store that tables lie in, which keeps the laws of stores; `None` for a directory.
pub async fn root_in_store(
    config: &Config,
    metrics: Option<&StoreMetrics>,
    clock: &Clock,
) -> Result<Option<Root>, String> {
    let Some(place) = config.analytics.store_place(config.data_dir.as_deref()) else { return Ok(None) };
    let laws = if place.is_of_account { Laws::Known } else { Laws::ToTest };
    let found = tables_in(&place.url, laws, metrics, clock).await;
    found.map(Some).map_err(|error| format!("the analytical stores in '{}': {error}", place.url))
}

/// Follows the account's containers from now on.
pub fn start(
    config: &Config,
    account: &Account,
    metrics: &Metrics,
    in_store: Option<Root>,
) -> Result<Analytics, String> {
    let options = config.analytics.options(config.data_dir.as_deref(), in_store);
    let analytics = Analytics::start(account.definitions().clone(), options)
        .map_err(|error| format!("the analytical stores do not start: {error}"))?;
    metrics.show_analytics(analytics.clone());
    Ok(analytics)
}
