//! Lease of an account in an object store: decides which server serves it.
//!
//! | file | contents |
//! |---|---|
//! | `location.rs` | the store and the prefix that a URL names |
//! | `reader_limit.rs` | a directory as a store, with few threads for reading files |
//! | `metered.rs` | a store that counts its requests |
//! | `separate_wal.rs` | a store of an account with its logs in another store |
//! | `gathered.rs` | a read-only store of objects that lie in another store under other names |
//! | `self_test.rs` | the laws that a store must keep, tried before anything relies on them |
//! | `register.rs` | one record that processes change one after the other |
//! | `lease.rs` | when a lease may be relied on, and when it may be taken: no store, no clock |
//! | `lease_holder.rs` | holding the lease: taking, renewing, losing, giving it back |
//! | `secrets.rs` | files that all servers of an account share |
//!
//! Two locks, each sufficient to keep acknowledged writes. The *lease* decides which process may answer: it
//! is checked before a write is acknowledged and after a read was made. The *epoch* decides whose writes the
//! store accepts: a shard that a later holder of the lease has opened accepts none of an earlier holder
//! (`shardlake_storage::object`). The number of the record with which a lease was taken is the epoch.

mod gathered;
mod lease;
mod lease_holder;
mod location;
mod metered;
mod reader_limit;
mod register;
mod secrets;
mod self_test;
mod separate_wal;

pub use gathered::Gathered;
pub use lease::{Entry, LEASE_DEFAULT, LEASE_MIN, Look, Record, State, Watch, deadline, patience};
pub use lease_holder::{LeaseHolder, Manner, Node, take};
pub use location::Location;
pub use metered::{Observe, StoreOperation, StoreRequest};
pub use register::{Append, Register};
pub use secrets::share_secret;
pub use self_test::self_test;

use shardlake_storage::object::object_store;

/// Why a store cannot be used, or a lease not be had.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(
        "'{url}' is no place in an object store: {why}. Write s3://bucket/prefix, az://container/prefix, gs://bucket/prefix or file:///directory"
    )]
    Url { url: String, why: String },
    #[error("the store: {0}")]
    Store(#[from] object_store::Error),
    #[error("the store did not answer within {seconds} s")]
    Silent { seconds: u64 },
    #[error("the store cannot be used: {law}. Two servers could both believe that they own the data")]
    Law { law: String },
    #[error("'{place}' is damaged: {what}")]
    Damaged { place: String, what: String },
    #[error(
        "the server '{node}' serves this account and is alive: stop it, or start with --standby to wait for its end, or with \
         --take-over to end it now"
    )]
    Held { node: String },
}
