//! Where things are: the repository, the build output, the work directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    let manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).parent().expect("xtask lies in a directory of the repository").to_owned()
}

/// Downloads and environments of the SDK suites; outside the repository, so that a checkout stays clean.
pub fn work_directory() -> PathBuf {
    if let Some(directory) = std::env::var_os("SHARDLAKE_WORK") {
        return directory.into();
    }
    match std::env::var_os("HOME") {
        Some(home) => Path::new(&home).join(".cache/shardlake-work"),
        None => root().join(".work"),
    }
}

/// Where cargo puts what it builds.
pub fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The server as `profile` (`debug`, `quick` or `release`) builds it.
pub fn server_binary(profile: &str) -> PathBuf {
    target_directory().join(profile).join(format!("shardlake{}", std::env::consts::EXE_SUFFIX))
}

pub fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
