//! The analytical stores of the account: their place, and their start.

use std::sync::Arc;

use shardlake_account::Account;
#[cfg(feature = "analytics")]
use shardlake_account::AccountMark;
use shardlake_admin::SqlService;
use shardlake_analytics::{Analytics, Root};
use shardlake_stdx::Clock;

use crate::config::Config;
use crate::metrics::Metrics;
use crate::store_metrics::StoreMetrics;
use crate::tables_place::{Laws, tables_in};

/// Object stores of a server, before they are opened.
pub struct Stores {
    /// The folder that tables lie in; `None` for a directory.
    pub tables: Option<Root>,
    /// Of the account's store, and of the tables'.
    pub metrics: Option<StoreMetrics>,
}

impl Stores {
    /// Finds the folder of tables, and makes sure that its store keeps the laws of stores.
    pub async fn find(config: &Config, clock: &Clock) -> Result<Stores, String> {
        let place = config.analytics.store_place(config.data_dir.as_deref());
        let metrics = (config.store.is_some() || place.is_some()).then(StoreMetrics::default);
        let Some(place) = place else { return Ok(Stores { tables: None, metrics }) };
        let laws = if place.is_of_account { Laws::Known } else { Laws::ToTest };
        let found = tables_in(&place.url, laws, metrics.as_ref(), clock).await;
        let tables = found.map_err(|error| format!("the analytical stores in '{}': {error}", place.url))?;
        Ok(Stores { tables: Some(tables), metrics })
    }
}

/// The stores, and SQL over them in builds that have it.
pub struct Tables {
    pub analytics: Analytics,
    pub sql: Option<Arc<dyn SqlService>>,
}

/// Follows the account's containers from now on.
pub async fn start(
    config: &Config,
    account: &Account,
    metrics: &Metrics,
    in_store: Option<Root>,
) -> Result<Tables, String> {
    let options = config.analytics.options(config.data_dir.as_deref(), in_store);
    if let Some(options) = options.as_ref().filter(|_| config.analytics.may_be_shared()) {
        claim(account, options.root.clone()).await?;
    }
    let analytics = Analytics::start(account.definitions().clone(), options)
        .map_err(|error| format!("the analytical stores do not start: {error}"))?;
    metrics.show_analytics(analytics.clone());
    let sql = sql(config, &analytics, metrics);
    Ok(Tables { analytics, sql })
}

/// Makes sure that no other account has its tables there.
#[cfg(feature = "analytics")]
async fn claim(account: &Account, root: Root) -> Result<(), String> {
    let mark = AccountMark::read(account.router().stores()).await.map_err(|error| error.to_string())?;
    let Some(mark) = mark else { return Ok(()) };
    let claimed = tokio::task::spawn_blocking(move || root.claim(&mark.account)).await;
    claimed.map_err(|error| error.to_string())?
}

#[cfg(not(feature = "analytics"))]
async fn claim(_account: &Account, _root: Root) -> Result<(), String> {
    Ok(())
}

/// SQL over the tables, in builds that have it.
#[cfg(feature = "analytics-sql")]
fn sql(config: &Config, analytics: &Analytics, metrics: &Metrics) -> Option<Arc<dyn SqlService>> {
    let service = crate::sql_tables::service(config, analytics);
    metrics.show_sql(service.pool().clone());
    Some(Arc::new(service))
}

#[cfg(not(feature = "analytics-sql"))]
fn sql(_config: &Config, _analytics: &Analytics, _metrics: &Metrics) -> Option<Arc<dyn SqlService>> {
    None
}
