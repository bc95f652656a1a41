//! The lease of an account: its rules in every order of events, and servers that want it over a store.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod model;
mod stores;
mod takers;
