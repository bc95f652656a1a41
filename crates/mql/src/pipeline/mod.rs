//! Aggregation pipelines (spec §15): parsed once, run over documents one by one.
//!
//! | file | purpose |
//! |---|---|
//! | `run.rs` | stages as operators that documents are pushed through, and the bound on memory |
//! | `parse.rs` | arrays of stages to pipelines |
//! | `options` | the table of options of every stage |
//! | `simple.rs` | stages of one document: `$match`, `$project`, `$unwind`, `$limit`, … |
//! | `group.rs`, `buckets.rs` | `$group`, `$sortByCount`, `$count`, `$bucket`, `$bucketAuto` |
//! | `sort.rs` | `$sort`, `$sample` |
//! | `join.rs`, `graph.rs` | `$lookup`, `$unionWith`, `$graphLookup`, `$facet` |
//! | `redact.rs` | `$redact` |
//! | `geo_near.rs` | `$geoNear` |
//! | `densify.rs`, `fill.rs` | `$densify`, `$fill` |
//! | `elsewhere.rs` | stages that the server answers |
//! | `window.rs`, `window_functions.rs`, `window_numbers.rs` | `$setWindowFields` |
//! | `output.rs` | `$out` and `$merge`: where the caller writes the results, and how |
//!
//! The pipeline reads other collections through [`Collections`] and writes nothing: [`Pipeline::output`] is the target
//! of the results.

mod bucket_auto;
mod buckets;
mod densify;
mod elsewhere;
mod fill;
mod geo_near;
mod graph;
mod group;
mod join;
mod options;
mod output;
mod parse;
mod redact;
mod run;
mod simple;
mod sort;
mod window;
mod window_functions;
mod window_numbers;

pub use options::check_stage;
pub use output::{MergeTarget, Output, WhenMatched, WhenNotMatched};
pub use parse::Pipeline;
pub use run::{Collections, Context, Run};
