//! Folders of analytical tables in an object store.

use shardlake_analytics::Root;
use shardlake_stdx::Clock;

use crate::store_metrics::StoreMetrics;
use crate::store_url::StoreUrl;

/// Whether a store is known to keep the laws that everything in it relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Laws {
    Known,
    ToTest,
}

/// The folder of a URL, with requests that are counted.
#[cfg(all(feature = "analytics", feature = "object-storage"))]
pub async fn tables_in(
    url: &StoreUrl,
    laws: Laws,
    metrics: Option<&StoreMetrics>,
    clock: &Clock,
) -> Result<Root, String> {
    use std::time::Duration;

    use shardlake_analytics::ObjectTableStore;
    use shardlake_lease::{Location, self_test};
    use shardlake_stdx::Random;

    /// Variables of the store of tables that differ from those of the account's begin so.
    const OF_TABLES: &str = "ANALYTICS_";
    /// A store that takes longer to be tested does not answer.
    const TEST_MAX: Duration = Duration::from_secs(60);

    let variables = crate::store_url::variables_of(OF_TABLES, std::env::vars().collect());
    let location = Location::parse(url.as_str(), variables).map_err(|error| error.to_string())?;
    let location = match metrics {
        Some(metrics) => location.observed(metrics.observe(), clock.clone()),
        None => location,
    };
    if laws == Laws::ToTest {
        let run = Random::System.guid().to_string();
        let tested = tokio::time::timeout(TEST_MAX, self_test(&location, &run)).await;
        let tested =
            tested.map_err(|_| format!("the store did not answer within {} s", TEST_MAX.as_secs()))?;
        tested.map_err(|error| error.to_string())?;
    }
    let files = ObjectTableStore::new(location.store, location.prefix, tokio::runtime::Handle::current());
    Ok(Root::Store { url: location.url, files })
}

/// Builds without one of the two features.
#[cfg(not(all(feature = "analytics", feature = "object-storage")))]
pub async fn tables_in(
    url: &StoreUrl,
    laws: Laws,
    _metrics: Option<&StoreMetrics>,
    _clock: &Clock,
) -> Result<Root, String> {
    tracing::debug!(?laws, "no folder of tables");
    Err(format!(
        "'{url}' is a place in an object store, and this build has no tables there: use the full build"
    ))
}
