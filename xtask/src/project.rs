//! Where things are: the repository, the build output, the work directory.

use std::path::{Path, PathBuf};
use std::process::Command;

/// All features that release artefacts have; one set in all builds here, so that each crate is compiled once.
pub const FEATURES: [&str; 2] = ["--features", "shardlake/full"];

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

/// Cargo, as if it were called from a shell. What `cargo xtask` says about this program in the environment would have build
/// scripts run again, and with them what depends on them, whenever cargo is called with and without it in turns.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| is_of_this_program(&name.to_string_lossy())).for_each(|name| {
        cargo.env_remove(name);
    });
    cargo
}

/// The profile of `cargo xtask run`: optimised, and quick to build.
pub const QUICK: &str = "quick";

/// The build of the server that `cargo xtask run` waits for.
pub fn build_quickly(packages: &[&str]) -> Command {
    let mut build = cargo();
    build.args(["build", "--profile", QUICK, "--locked"]);
    build.args(packages.iter().flat_map(|package| ["--package", package]));
    build.current_dir(root());
    build
}

fn is_of_this_program(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_hears_nothing_of_this_program() {
        let removed: Vec<_> = cargo()
            .get_envs()
            .filter(|(_, value)| value.is_none())
            .map(|(name, _)| name.to_owned())
            .collect();
        let set = std::env::vars_os().map(|(name, _)| name);
        let of_this_program: Vec<_> =
            set.filter(|name| is_of_this_program(&name.to_string_lossy())).collect();
        assert!(!of_this_program.is_empty(), "cargo runs tests with the variables of their package");
        assert!(of_this_program.iter().all(|name| removed.contains(name)));
        assert!(!is_of_this_program("CARGO_TARGET_DIR") && !is_of_this_program("CARGO_PROFILE_QUICK_DEBUG"));
    }
}
