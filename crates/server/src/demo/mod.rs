//! The demo data set: a web store, generated from a number, the same on every machine and at any size.
//!
//! | file | what it does |
//! |---|---|
//! | `webstore.rs` | the generator: customers with their orders, products, categories and tags |
//! | `words.rs` | what names are made of |
//! | `load.rs` | puts the data set into an account; orders are placed as an application would place them |
//! | `check.rs`, `check.py` | runs the store's access patterns through a real SDK |
//! | `print.rs` | writes the data set as a seed file |
//!
//! The model is the final design of the well-known CosmicWorks exercise: what is read together lies together. A customer and
//! its orders share the logical partition of the customer's id, `salesOrderCount` saves counting them; products carry
//! copies of the names of their category and tags.

mod check;
mod load;
mod print;
mod webstore;
mod words;

pub use check::check;
pub use load::load;
pub use print::print;
pub use webstore::WebStore;

pub const DEFAULT_CUSTOMERS: u64 = 500;
pub const DEFAULT_SEED_NUMBER: u64 = 1;
pub const DATABASE: &str = "webstore";
