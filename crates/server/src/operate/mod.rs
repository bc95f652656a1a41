//! The operator's commands: `partitions`, `split`, `merge`, `move`, `abort`, `redistribute`, `projections`, `analytics`, `keys`.
//!
//! They are clients of a server that runs, here or elsewhere, and need its address and a key; everything they can do can
//! also be done over HTTP (`/_shardlake/v1/`). A command that sets data in motion waits for the end of it.

mod act;
mod analytics;
mod analytics_sql;
mod arguments;
mod client;
mod color;
mod descriptions;
mod evidence;
mod keys;
mod projections;
mod show;
mod table;
mod values;

use std::process::ExitCode;

pub use crate::number_text::{bytes, thousands};
pub use analytics::Analytics;
pub use arguments::{
    Abort, Connection, ContainerName, KEY_VARIABLE, Merge, Move, Partitions, Redistribute, Split,
};
pub use client::{Client, Link};
pub use color::Paint;
pub use descriptions::counted;
pub use keys::Keys;
pub use projections::Projections;
pub use show::{ignore_closed, print};
pub use table::{aligned, wrapped};
pub use values::{members, number, text};

/// An operation with its arguments.
#[derive(Debug)]
pub enum Operation {
    Partitions(Partitions),
    Split(Split),
    Merge(Merge),
    Move(Move),
    Abort(Abort),
    Redistribute(Redistribute),
    Projections(Projections),
    Analytics(Analytics),
    Keys(Keys),
}

pub async fn operate(operation: Operation) -> Result<ExitCode, String> {
    match operation {
        Operation::Partitions(arguments) => show::partitions(&arguments).await?,
        Operation::Split(arguments) => act::split(&arguments).await?,
        Operation::Merge(arguments) => act::merge(&arguments).await?,
        Operation::Move(arguments) => act::move_partition(&arguments).await?,
        Operation::Abort(arguments) => act::abort(&arguments).await?,
        Operation::Redistribute(arguments) => act::redistribute(&arguments).await?,
        Operation::Projections(arguments) => projections::run(&arguments).await?,
        Operation::Analytics(arguments) => return analytics::run(&arguments).await,
        Operation::Keys(arguments) => keys::run(&arguments).await?,
    }
    Ok(ExitCode::SUCCESS)
}
