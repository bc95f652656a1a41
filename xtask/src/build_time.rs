//! `cargo xtask build-time`: how long a stranger waits for a first build, held to a recorded value.
//!
//! The unit is the processor second of a clean build of the profile `quick`, since wall time depends on the machine's other
//! work. CI measures when the manifests, the lock file, the profiles or the toolchain changed since the record was made.

use crate::command::run_to_end;
use crate::processor_time;
use crate::{Outcome, project};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Growth beyond this fails.
const GROWTH_MAX: f64 = 1.05;
/// Builds that run concurrently with other work need more processor seconds, so the fewest of this many builds count.
const ATTEMPTS: u32 = 2;
/// The time to compile these packages is the yardstick: one machine needed 1.7 times the processor seconds of another for the
/// same build, and no more for arithmetic.
const YARDSTICK: [&str; 3] = ["regex-automata", "rustls", "serde_derive"];
/// On two processors with a yardstick of `YARDSTICK_AT_MAX` seconds or less, and proportionally more on slower ones.
const WALL_SECONDS_MAX: u64 = 360;
/// Of the machine that needed 330 s of wall time where a slower one needed 576 s, with a yardstick of 146 s.
const YARDSTICK_AT_MAX: f64 = 84.0;
const RECORD: &str = ".ci/build-time.toml";

#[derive(Debug, Args)]
pub struct Options {
    /// Write the measured value to .ci/build-time.toml
    #[arg(long)]
    record: bool,
    /// Measure only when manifests, lock file, profiles or toolchain changed since the record
    #[arg(long, conflicts_with = "record")]
    when_changed: bool,
}

impl Options {
    pub fn when_changed() -> Options {
        Options { record: false, when_changed: true }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildTime {
    fingerprint: String,
    processor_seconds: u64,
    pub wall_seconds: u64,
    pub megabytes: u64,
    yardstick_seconds: f64,
}

impl BuildTime {
    pub fn recorded() -> Outcome<BuildTime> {
        let path = project::root().join(RECORD);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("{RECORD}: {error}").into())
    }

    /// By the clock, as far as the machine is as fast as that of the limit.
    fn is_too_long(&self) -> bool {
        let slowness = (self.yardstick_seconds / YARDSTICK_AT_MAX).max(1.0);
        as_f64(self.wall_seconds) > as_f64(WALL_SECONDS_MAX) * slowness
    }

    /// Why `measured` is worse than this record allows.
    fn objection_to(&self, measured: &BuildTime) -> Option<String> {
        let slowness = (measured.yardstick_seconds / self.yardstick_seconds).max(1.0);
        let max = as_f64(self.processor_seconds) * slowness * GROWTH_MAX;
        (as_f64(measured.processor_seconds) > max).then(|| {
            format!(
                "a clean build needs {} s of processors, more than {max:.0}: {RECORD} records {} at a yardstick of {:.0} s, \
                 this run had {:.0} s. See `cargo build --profile {} --timings` for the crates that cost most",
                measured.processor_seconds,
                self.processor_seconds,
                self.yardstick_seconds,
                measured.yardstick_seconds,
                project::QUICK
            )
        })
    }
}

#[allow(clippy::cast_precision_loss)] // seconds of a build
fn as_f64(seconds: u64) -> f64 {
    seconds as f64
}

pub fn build_time(options: &Options) -> Outcome {
    let recorded = BuildTime::recorded()?;
    let fingerprint = fingerprint()?;
    if options.when_changed && fingerprint == recorded.fingerprint {
        println!("build time: nothing that decides it changed since it was recorded");
        return Ok(());
    }
    let mut best: Option<BuildTime> = None;
    for _ in 0..ATTEMPTS {
        let measured = measure(&fingerprint)?;
        println!(
            "build time: {} s of processors, {} s by the clock, {} MB, yardstick {:.0} s; recorded {} s",
            measured.processor_seconds,
            measured.wall_seconds,
            measured.megabytes,
            measured.yardstick_seconds,
            recorded.processor_seconds
        );
        let is_better = best.as_ref().is_none_or(|best| measured.processor_seconds < best.processor_seconds);
        if is_better {
            best = Some(measured);
        }
        if options.record || best.as_ref().is_some_and(|best| recorded.objection_to(best).is_none()) {
            break;
        }
    }
    let best = best.ok_or("no build was measured")?;
    if options.record {
        return record(&best);
    }
    match recorded.objection_to(&best) {
        Some(objection) => Err(objection.into()),
        None => Ok(()),
    }
}

fn record(measured: &BuildTime) -> Outcome {
    if measured.is_too_long() {
        println!(
            "build time: {} s by the clock is more than {WALL_SECONDS_MAX} at a yardstick of {YARDSTICK_AT_MAX} s",
            measured.wall_seconds
        );
    }
    let path = project::root().join(RECORD);
    let text = std::fs::read_to_string(&path)?;
    let comment: String =
        text.lines().take_while(|line| line.starts_with('#')).flat_map(|line| [line, "\n"]).collect();
    std::fs::write(path, comment + &toml::to_string(measured)?)?;
    Ok(())
}

fn measure(fingerprint: &str) -> Outcome<BuildTime> {
    let target = project::target_directory().join("build-time");
    remove(&target)?;
    let before = processor_time::so_far();
    let yardstick = build(&YARDSTICK, &target);
    let yardstick_seconds = (processor_time::so_far() - before).round();
    remove(&target)?;
    yardstick?;
    let (started, before) = (Instant::now(), processor_time::so_far());
    let built = build(&["shardlake"], &target);
    let processor_seconds = (processor_time::so_far() - before).round();
    let wall_seconds = started.elapsed().as_secs();
    let megabytes = bytes_below(&target) / 1_000_000;
    remove(&target)?;
    built?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // seconds of a build
    let processor_seconds = processor_seconds as u64;
    Ok(BuildTime {
        fingerprint: fingerprint.to_owned(),
        processor_seconds,
        wall_seconds,
        megabytes,
        yardstick_seconds,
    })
}

/// Quietly, since hundreds of names of crates would hide the results of tests before them.
fn build(packages: &[&str], target: &Path) -> Outcome {
    let mut command = project::build_quickly(packages);
    run_to_end(command.arg("--quiet").env("CARGO_TARGET_DIR", target))
}

fn remove(directory: &Path) -> Outcome {
    if directory.exists() {
        std::fs::remove_dir_all(directory)?;
    }
    Ok(())
}

fn bytes_below(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Of everything but the sources that decides the time of a build.
fn fingerprint() -> Outcome<String> {
    let root = project::root();
    let fixed = ["Cargo.lock", "Cargo.toml", ".cargo/config.toml", "rust-toolchain.toml"];
    let mut files: Vec<PathBuf> = fixed.iter().map(PathBuf::from).collect();
    for parent in ["crates", "vendor"] {
        for entry in std::fs::read_dir(root.join(parent))?.flatten() {
            let manifest = Path::new(parent).join(entry.file_name()).join("Cargo.toml");
            if root.join(&manifest).is_file() {
                files.push(manifest);
            }
        }
    }
    files.sort();
    let mut hash = crc32fast::Hasher::new();
    for file in files {
        hash.update(file.to_string_lossy().as_bytes());
        hash.update(&std::fs::read(root.join(file))?);
    }
    Ok(format!("{:08x}", hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needing(processor_seconds: u64, yardstick_seconds: f64) -> BuildTime {
        BuildTime {
            fingerprint: String::new(),
            processor_seconds,
            wall_seconds: 300,
            megabytes: 700,
            yardstick_seconds,
        }
    }

    #[test]
    fn a_build_may_grow_by_a_twentieth() {
        let recorded = needing(600, 0.9);
        assert_eq!(recorded.objection_to(&needing(630, 0.9)), None);
        let objection = recorded.objection_to(&needing(631, 0.9)).expect("more than a twentieth");
        assert!(objection.contains("631 s of processors, more than 630"), "{objection}");
    }

    #[test]
    fn a_slower_machine_may_take_longer_and_a_faster_one_not_less() {
        let recorded = needing(600, 0.9);
        assert_eq!(recorded.objection_to(&needing(1_200, 1.8)), None);
        assert_eq!(recorded.objection_to(&needing(620, 0.45)), None);
        assert!(recorded.objection_to(&needing(700, 0.45)).is_some());
    }

    #[test]
    fn the_record_is_read_and_has_a_fingerprint_of_manifests() {
        let recorded = BuildTime::recorded().expect("the record");
        assert!(recorded.processor_seconds > 0 && !recorded.is_too_long());
        assert_eq!(fingerprint().expect("of this checkout"), fingerprint().expect("the same"));
    }
}
