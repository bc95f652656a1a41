//! Analytical tables: documents as columns of Parquet files under a Delta log with deletion vectors.
//!
//! Pure but for its store: nothing here knows containers, partitions or a clock. `shardlake-analytics` follows the change log
//! of a container with it.

pub mod delta;
pub mod error;
pub mod keys;
pub mod log;
pub mod rows;
pub mod schema;
pub mod store;
pub mod table;
pub mod vectors;
