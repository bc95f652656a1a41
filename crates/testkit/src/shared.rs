//! Access to test data outside the repository, with a record of each test that is skipped without it.
//!
//! Conformance vectors, published data sets and the notes on the SDK suites are not part of this repository.
//! A test that reads some asks [`shared_directory`]. Without the directory it returns early, and the skip is
//! printed and recorded with its reason in the file that `SHARDLAKE_SKIP_LOG` names, where `cargo xtask test`
//! counts it. A tidy test keeps other code from reading the data past this file, because such a test would
//! pass without having run. A test that must run everywhere reads [`own_vectors`] instead.

use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The directories of the shared data.
pub const SHARED: [&str; 3] = ["conformance", "data", "sdk-tests"];

/// The directory `name` of the shared data. `None` has been noted as a skip of `test` already.
pub fn shared_directory(name: &str, test: &str) -> Option<PathBuf> {
    let (variable, directory) = shared_place(name);
    if directory.is_dir() {
        return Some(directory);
    }
    note_skipped(test, &format!("the shared '{name}' data is not there (set {variable})"));
    None
}

/// Default path of the directory, and the variable that names another place:
/// `SHARDLAKE_CONFORMANCE`, `SHARDLAKE_DATA` or `SHARDLAKE_SDK_TESTS`. For runners, which report
/// missing data; tests use [`shared_directory`].
pub fn shared_place(name: &str) -> (String, PathBuf) {
    assert!(SHARED.contains(&name), "there is no shared directory '{name}'");
    let variable = format!("SHARDLAKE_{}", name.to_uppercase().replace('-', "_"));
    let beside_the_checkout = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(name);
    let directory = std::env::var_os(&variable).map_or_else(beside_the_checkout, PathBuf::from);
    (variable, directory)
}

/// Reports that `test` did not run, on standard error and in the file that `SHARDLAKE_SKIP_LOG` names.
///
/// # Panics
/// When the note cannot be written: a skip that is not counted looks like a pass.
pub fn note_skipped(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
    if let Some(log) = std::env::var_os("SHARDLAKE_SKIP_LOG") {
        let line = format!("{}\n", json!({ "test": test, "reason": reason }));
        let file = OpenOptions::new().create(true).append(true).open(&log);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("the skip is not counted: {}: {error}", log.display()));
    }
}

/// Vectors of our own making, from `crates/testkit/vectors`, which are there in every clone.
/// `make.py` next to them computes them without any code of the server.
///
/// # Panics
/// When there is no such file, or it holds no list.
pub fn own_vectors(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let vectors: Vec<Value> = serde_json::from_str(&text).expect("a list of vectors");
    assert!(!vectors.is_empty(), "{} is empty", path.display());
    vectors
}
