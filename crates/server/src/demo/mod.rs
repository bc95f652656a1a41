//! The demos. The data set is a web store, generated from a number, the same on every machine and at any size.
//!
//! | file | responsibility |
//! |---|---|
//! | `webstore.rs` | the generator: customers with their orders, products, categories and tags |
//! | `descriptions.rs` | the parts that names are made of |
//! | `load.rs` | puts the data set into an account; orders are placed as an application would place them |
//! | `rules.rs`, `place_order.js` | consistency of copies: projections for names, a stored procedure for orders |
//! | `check.rs`, `check.py` | runs the store's access patterns through a real SDK, and tries to make it untrue |
//! | `hot_tenant/` | another demo: a container with a large and a busy tenant, and its cure, run and measured |
//! | `split.rs` | another: a partition that grows until it is split, while it is used |
//! | `bars.rs` | bars of text for both |
//! | `place.rs` | the default place of a demo's data |
//! | `print.rs` | writes the data set as a seed file |
//!
//! The model is the final design of the well-known CosmicWorks exercise: data that is read together lies together. A customer and
//! its orders share the logical partition of the customer's id, `salesOrderCount` saves counting them; products carry
//! copies of the names of their category and tags, which projections keep true.

mod bars;
mod check;
pub mod defaults;
mod descriptions;
mod hot_tenant;
mod load;
mod place;
mod print;
mod rules;
mod split;
mod webstore;

pub use check::check;
pub use hot_tenant::{HotTenant, TOUR_LINK, Tour, run as run_hot_tenant};
pub use load::load;
pub use place::place;
pub use print::print;
pub use split::run as run_split;
pub use webstore::WebStore;

pub const DEFAULT_HOT_TENANT_SECONDS: u64 = hot_tenant::DEFAULT_SECONDS;
pub const DATABASE: &str = "webstore";
