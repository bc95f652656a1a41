//! Seeds: a JSON file that says which databases, containers and items there should be.
//!
//! ```json
//! { "databases": [ { "id": "shop", "throughput": 400, "containers": [ {
//!     "id": "orders", "partitionKey": { "paths": ["/customer"] }, "autoscaleMaxThroughput": 4000,
//!     "items": [ { "id": "1", "customer": "a" } ], "itemsFile": "more-orders.jsonl" } ] } ] }
//! ```
//!
//! A container is defined as in the REST API; `itemsFile` holds a JSON array of items or one item after another, and is
//! looked for beside the seed file. Loading creates what is missing and leaves what exists as it is, items included, so a
//! seed can be loaded at every start. Nothing is ever changed or deleted. Items keep the text they were written in, and the
//! partition key is taken from the item. Everything goes through the façade: a seed cannot create what a client could not.
//! A file of items is read whole, so it needs memory of about its size while it is loaded.
//!
//! | file | what it does |
//! |---|---|
//! | `document.rs` | the format, read strictly |
//! | `load.rs` | creates what is missing |

mod document;
mod load;

pub use document::Seed;
pub use load::{create_missing_container, create_missing_database, load};
