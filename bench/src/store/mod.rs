//! `cargo xtask bench store`: an account in an object store compared with one on the local disk, in
//! one run.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the page |
//! | `options.rs` | the options, and a row |
//! | `places.rs` | stores of accounts: the disk, a directory as a store, a bucket in this process at some distance, a store by its URL |
//! | `rows.rs` | one function for each row |
//!
//! The bucket runs in this process, on the cores that server and load generator use as well, and keeps
//! everything in memory: it simulates the latency of a cloud and nothing else. Compare ratios within one run.

mod options;
mod places;
mod rows;

use std::fmt::Write as _;

use crate::{Outcome, publish, report};
use options::Row;
pub use options::StoreOptions;
use places::{Place, Started};

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
