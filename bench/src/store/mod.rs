//! `cargo xtask bench store`: an account in an object store compared with one on the local disk, in
//! one run.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the options, and the page |
//! | `places.rs` | stores of accounts: the disk, a directory as a store, a bucket in this process at some distance, a store by its URL |
//! | `rows.rs` | one function for each row |
//!
//! The bucket runs in this process, on the cores that server and load generator use as well, and keeps
//! everything in memory: it simulates the latency of a cloud and nothing else. Compare ratios within one run.

mod places;
mod rows;

use std::fmt::Write as _;

use clap::Args;

use crate::{Outcome, publish, report};
use places::{Place, Started};

#[derive(Debug, Clone, Args)]
pub struct StoreOptions {
    /// A build of the server with the feature object-storage
    #[arg(long)]
    pub server: std::path::PathBuf,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 4)]
    pub seconds: u64,
    /// Items loaded into each place, twice
    #[arg(long, default_value_t = 100_000)]
    pub items: u64,
    /// Between a request to the distant bucket and its answer
    #[arg(long, default_value_t = 30)]
    pub milliseconds: u64,
    /// Another store to measure, such as s3://bucket/prefix of a SeaweedFS; its environment is handed on
    #[arg(long)]
    pub url: Option<String>,
    /// Places to measure in addition to the local disk: `file`, `near`, `url`, `distant` [default: all]
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Write the result to this page
    #[arg(long)]
    pub publish: Option<std::path::PathBuf>,
}

/// A figure, its goal, and whether the goal is met.
pub struct Row {
    pub what: String,
    pub place: String,
    pub found: String,
    pub goal: &'static str,
    /// `None` without a goal to compare with.
    pub is_met: Option<bool>,
}

impl Row {
    fn line(&self) -> String {
        let Row { what, place, found, goal, is_met } = self;
        let verdict = match is_met {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "–",
        };
        format!("| {what} | {place} | {found} | {goal} | {verdict} |")
    }
}

/// Rows, printed as they come: with many items the next ones take minutes.
#[derive(Default)]
struct Told(Vec<Row>);

impl Extend<Row> for Told {
    fn extend<I: IntoIterator<Item = Row>>(&mut self, rows: I) {
        for row in rows {
            eprintln!("{}", row.line());
            self.0.push(row);
        }
    }
}

pub fn run(options: &StoreOptions) -> Outcome {
    let mut rows = Told::default();
    let local = Started::with_items(options, Place::Disk)?;
    let speed = rows::speed(options, &local)?;
    rows.extend([rows::alone("local disk", &speed)]);
    let local_split = rows::split(&local)?;
    drop(local);
    let is_wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let mut places = vec![("file", Place::Directory), ("near", Place::bucket())];
    places.extend(options.url.clone().map(|url| ("url", Place::Url(url))));
    for (_, place) in places.into_iter().filter(|(name, _)| is_wanted(name)) {
        let started = Started::with_items(options, place)?;
        rows.extend(rows::beside(options, &started, &speed)?);
        rows.extend(rows::life(options, started, &speed, local_split)?);
    }
    if is_wanted("distant") {
        rows.extend(rows::distant(options)?);
    }
    publish::publish(options.publish.as_ref(), &page(options, &rows.0))
}

fn page(options: &StoreOptions, rows: &[Row]) -> String {
    let mut out = format!(
        "# An account in an object store\n\n{}\n\n{} items in each of two containers, {} s a measurement, {} ms to the distant bucket.\n\n| what | where | found | goal | |\n|---|---|---:|---:|---|\n",
        report::machine(),
        options.items,
        options.seconds,
        options.milliseconds
    );
    for row in rows {
        writeln!(out, "{}", row.line()).expect("a string takes any text");
    }
    out
}
