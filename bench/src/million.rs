//! A million items: memory under load, a clean stop, and the time until the next start is ready.

use std::fmt::Write;
use std::time::{Duration, Instant};

use shardlake_testkit::ServerOptions;

use crate::cpu::resident_megabytes;
use crate::{Outcome, PointOptions, loading};

pub fn measure(options: &PointOptions, out: &mut String) -> Outcome {
    const ITEMS: u64 = 1_000_000;
    let directory = tempfile::TempDir::with_prefix("shardlake-bench-million-")?;
    let mut server = ServerOptions::new(&options.server).data_dir(directory.path()).start();
    let started = Instant::now();
    loading::load(&server, ITEMS)?;
    let seconds = started.elapsed().as_secs_f64();
    let rss = resident_megabytes(server.process_id());
    writeln!(
        out,
        "- Loading 1,000,000 items of 1 KB by durable single creates on 64 connections took {seconds:.0} s; RSS after it {rss:.0} MB (cache limit: the default)."
    )?;
    let started = Instant::now();
    server.terminate(Duration::from_secs(120));
    writeln!(out, "- Clean stop with 1M items: {:.2} s.", started.elapsed().as_secs_f64())?;
    let started = Instant::now();
    server.restart();
    writeln!(
        out,
        "- Start to ready with 1M items after a clean stop: {} ms.",
        started.elapsed().as_millis()
    )?;
    writeln!(out, "- RSS just after that start: {:.0} MB.", resident_megabytes(server.process_id()))?;
    Ok(())
}
