//! Documents and items: what one door stores, the other one shows.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod plans;
mod tagged;
mod two_doors;
