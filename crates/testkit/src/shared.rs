//! Test data outside the repository: found by environment variable or beside the checkout, and missed aloud.
//!
//! Conformance vectors, published data sets and the notes on the SDK suites are not part of this repository. A test that needs
//! one asks [`shared_directory`]; without the directory it returns early, and the skip is printed and, when a runner
//! asked for it with `SHARDLAKE_SKIP_LOG`, counted.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// `name` is a directory of the shared data: `conformance`, `data` or `sdk-tests`. `None` has already been reported
/// as a skipped `test`. `SHARDLAKE_CONFORMANCE`, `SHARDLAKE_DATA` and `SHARDLAKE_SDK_TESTS` name other places.
pub fn shared_directory(name: &str, test: &str) -> Option<PathBuf> {
    let variable = format!("SHARDLAKE_{}", name.to_uppercase().replace('-', "_"));
    let directory = std::env::var_os(&variable).map_or_else(|| beside_the_checkout(name), PathBuf::from);
    if directory.is_dir() {
        return Some(directory);
    }
    note_skipped(test, &format!("{} is not there (set {variable})", directory.display()));
    None
}

fn beside_the_checkout(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(name)
}

/// Says that `test` did not run, on standard error and in the file that `SHARDLAKE_SKIP_LOG` names.
pub fn note_skipped(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
    if let Some(log) = std::env::var_os("SHARDLAKE_SKIP_LOG") {
        let line = format!("{test}: {reason}\n");
        let written = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        if let Err(error) = written {
            eprintln!("the skip is not counted: {}: {error}", log.display());
        }
    }
}
