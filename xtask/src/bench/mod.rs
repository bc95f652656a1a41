//! `cargo xtask bench NAME`: measurements against the release build.
//!
//! Each benchmark is a module of its own that is listed here. A name without a module is an error that says so.

use crate::Outcome;
use clap::Args;

#[derive(Debug, Args)]
pub struct Options {
    /// Which benchmark to run
    name: String,
    /// Arguments of that benchmark
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub fn bench(options: &Options) -> Outcome {
    let _for_the_benchmark = &options.arguments;
    Err(format!("benchmark '{}' is not built yet", options.name).into())
}
