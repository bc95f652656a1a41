//! Folders of analytical tables in an object store.

use std::env;
use std::time::Duration;

use shardlake_analytics::{ObjectTableStore, Root};
use shardlake_lease::{Location, self_test};
use shardlake_stdx::{Clock, Random};
use tokio::runtime::Handle;

use super::{Laws, StoreUrl, log_place};
use crate::store_metrics::StoreMetrics;

/// Variables of the store of tables that differ from those of the account's begin so.
const OF_TABLES: &str = "ANALYTICS_";
/// A store that takes longer to be tested does not answer.
const TEST_MAX: Duration = Duration::from_secs(60);

/// The folder of a URL, with requests that are counted.
pub async fn tables_in(
    url: &StoreUrl,
    laws: Laws,
    metrics: Option<&StoreMetrics>,
    clock: &Clock,
) -> Result<Root, String> {
    let variables = log_place::variables_of(OF_TABLES, env::vars().collect());
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
    let files = ObjectTableStore::new(location.store, location.prefix, Handle::current());
    Ok(Root::Store { url: location.url, files })
}
