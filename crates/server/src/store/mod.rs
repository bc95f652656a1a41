//! An account in an object store, in builds with the feature `object-storage`.
//!
//! | file | responsibility |
//! |---|---|
//! | `home.rs` | from the URL to shards that this server alone serves, and back |
//! | `objects.rs` | layout of the prefix; opening the shards |
//! | `log_place.rs` | an account with a separate WAL store |
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

pub use crate::store_url::{StoreUrl, url_of};
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
