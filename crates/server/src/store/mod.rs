//! An account in an object store, in builds with the feature `object-storage`.
//!
//! | file | responsibility |
//! |---|---|
//! | `home.rs` | from the URL to shards that this server alone serves, and back |
//! | `objects.rs` | layout of the prefix; opening the shards |
//! | `log_place.rs` | an account with a separate WAL store |
//! | `tables.rs` | folders of analytical tables |
//! | `url.rs` | URLs where commands take a path as well |
//! | `prefix.rs`, `marks.rs` | a prefix as commands see it: its objects, leases, and marks about the account as a whole |
//! | `stopped.rs`, `filling.rs` | an account to read; a prefix that an account is moved to |
//! | `node_file.rs` | `node.json` in the data directory of such a server, and its lock |
//! | `absent.rs` | builds without the feature |

#[cfg(not(feature = "object-storage"))]
mod absent;
#[cfg(feature = "object-storage")]
mod filling;
#[cfg(feature = "object-storage")]
mod home;
#[cfg(feature = "object-storage")]
mod log_place;
#[cfg(feature = "object-storage")]
mod marks;
mod node_file;
#[cfg(feature = "object-storage")]
mod objects;
#[cfg(feature = "object-storage")]
mod prefix;
#[cfg(feature = "object-storage")]
mod stopped;
#[cfg(all(feature = "analytics", feature = "object-storage"))]
mod tables;
mod url;

#[cfg(not(feature = "object-storage"))]
pub use absent::StoreHome;
#[cfg(feature = "object-storage")]
pub use filling::{Filling, leave};
#[cfg(feature = "object-storage")]
pub use home::StoreHome;
pub use node_file::check_is_not_of_a_store;
#[cfg(feature = "object-storage")]
pub use prefix::{Claim, Prefix};
#[cfg(feature = "object-storage")]
pub use stopped::Stopped;
#[cfg(all(feature = "analytics", feature = "object-storage"))]
pub use tables::tables_in;
pub use url::{StoreUrl, url_of};

/// Whether a store is known to keep the laws that everything in it relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Laws {
    Known,
    #[cfg_attr(not(all(feature = "analytics", feature = "object-storage")), allow(dead_code))]
    ToTest,
}

/// Builds without one of the two features: `analytics_config.rs` lets no URL come here.
#[cfg(not(all(feature = "analytics", feature = "object-storage")))]
pub async fn tables_in(
    url: &StoreUrl,
    _laws: Laws,
    _metrics: Option<&crate::store_metrics::StoreMetrics>,
    _clock: &shardlake_stdx::Clock,
) -> Result<shardlake_analytics::Root, String> {
    Err(format!(
        "'{url}' is a place in an object store, and this build has no tables there: use the full build"
    ))
}
