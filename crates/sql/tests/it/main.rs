//! The query language as others use it: recorded behaviour of the reference, properties, and tables of functions.
//!
//! One program for all files, because linking dominates the build time.

mod access_plans;
mod access_properties;
mod bind_conformance;
mod derive;
mod distinct_hash;
mod execution_properties;
mod functions;
mod groups;
mod index_metrics;
mod merge_properties;
mod merge_scenarios;
mod native_plans;
mod parser_conformance;
mod queries;
mod query_plans;
mod samples;
mod support;
mod user_functions;
