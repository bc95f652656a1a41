//! Documents against independent readers and models.
//!
//! One program for all files, because linking dominates the build time.

mod binary;
mod bson_kinds;
mod json;
mod order;
mod patch;
mod raw_garbage;
mod support;
