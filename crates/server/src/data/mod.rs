//! The client of the commands that read and write items: `sql`, `import`, `export`.
//!
//! | file | contents |
//! |---|---|
//! | `client.rs` | signed requests over kept connections |
//! | `failure.rs` | refusals: message, places in the query, hints, time to wait |
//! | `json_text.rs` | JSON whose values stay the text that they came as |
//! | `items.rs` | properties of the server, partition keys |
//! | `query.rs` | pages of a query over all partitions or one logical partition |
//! | `definitions.rs` | databases, containers, their definitions and throughput |

mod client;
mod definitions;
mod failure;
mod items;
mod json_text;
mod query;

pub use client::{Address, DataClient, PAUSES, Request};
pub use definitions::{Definition, Offer, Place};
pub use failure::{Failure, Position, own_sentence};
pub use items::{SYSTEM, is_item, partition_key};
pub use json_text::{array, cell, compact, members, text_of, value_at};
pub use query::{Page, Parameter, Query};
