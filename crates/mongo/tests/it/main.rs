//! Documents and items: data written through one API is visible through the other.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod plans;
mod tagged;
mod two_doors;
