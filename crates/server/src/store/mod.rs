//! An account in an object store, in builds with the feature `object-storage`.
//!
//! | file | what it does |
//! |---|---|
//! | `home.rs` | from the URL to shards that this server alone serves, and back |
//! | `objects.rs` | what lies where below the prefix; opening the shards |
//! | `node_file.rs` | what the data directory of such a server remembers, and its lock |
//! | `absent.rs` | builds without the feature |

#[cfg(not(feature = "object-storage"))]
mod absent;
#[cfg(feature = "object-storage")]
mod home;
mod node_file;
#[cfg(feature = "object-storage")]
mod objects;

#[cfg(not(feature = "object-storage"))]
pub use absent::StoreHome;
#[cfg(feature = "object-storage")]
pub use home::StoreHome;
pub use node_file::check_is_not_of_a_store;
