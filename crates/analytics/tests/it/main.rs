//! Tables that follow containers: every row against its item, through everything that moves data.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![cfg(feature = "table")]

mod cuts;
mod follow;
mod fresh;
mod storm;
mod support;
