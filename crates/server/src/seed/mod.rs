//! Seeds: JSON files of the databases, containers and items that should exist.
//!
//! ```json
//! { "databases": [ { "id": "shop", "throughput": 400, "containers": [ {
//!     "id": "orders", "partitionKey": { "paths": ["/customer"] }, "autoscaleMaxThroughput": 4000,
//!     "items": [ { "id": "1", "customer": "a" } ], "itemsFile": "more-orders.jsonl" } ] } ] }
//! ```
//!
//! A container is defined as in the REST API; `itemsFile` holds a JSON array of items or one item after another, and is
//! looked for next to the seed file. Loading creates missing resources and leaves existing ones as they are, items included, so a
//! seed can be loaded at every start. Nothing is ever changed or deleted. Items keep the text they were written in, and the
//! partition key is taken from the item. Loading uses the same API as clients: a seed cannot create anything that a client could not.
//! A file of items is read whole, so it needs memory of about its size while it is loaded.
//!
//! | file | responsibility |
//! |---|---|
//! | `document.rs` | the format, read strictly |
//! | `load.rs` | creates missing resources |

mod document;
mod load;

pub use document::Seed;
pub use load::{create_missing_container, create_missing_database, load};
