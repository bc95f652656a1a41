//! The program itself: built for an old glibc, stripped, and asked for its documents.
//!
//! `cargo zigbuild` links against the symbols of an old glibc, so that one program starts on all distributions since then. Its
//! pinned packages (`deploy/build-requirements.txt`) are installed below the work directory. With `--glibc here` the system's
//! linker is used, and the program needs a glibc about as new as this machine's.

use crate::command::run_to_end;
use crate::dist::machine::Machine;
use crate::project::FEATURES;
use crate::{Outcome, prerequisites, project};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Value of `--glibc` for the system's own linker.
pub const HERE: &str = "here";

/// Builds the server with all features that releases have.
pub fn build(profile: &str, glibc: &str) -> Outcome<PathBuf> {
    prerequisites::for_building()?;
    let machine = Machine::of_this_one()?;
    let mut cargo = project::cargo();
    let target = match glibc {
        HERE => {
            cargo.arg("build");
            machine.rust.to_owned()
        }
        version => {
            let tools = installed_tools()?;
            let path = std::env::var("PATH").unwrap_or_default();
            cargo.env("PATH", format!("{}:{path}", tools.display())).arg("zigbuild");
            format!("{}.{version}", machine.rust)
        }
    };
    cargo.args(["--profile", profile, "--locked", "--package", "shardlake", "--target", &target]);
    cargo.args(FEATURES).current_dir(project::root()).env("CARGO_ENCODED_RUSTFLAGS", without_our_paths());
    if let Some(commit) = changed_commit() {
        println!("the checkout differs from its last commit: the program names {commit}");
        cargo.env("SHARDLAKE_COMMIT", commit);
    }
    run_to_end(&mut cargo)?;
    Ok(project::target_directory().join(machine.rust).join(profile).join("shardlake"))
}

/// Flags that replace directories of this machine in messages of panics, so that two machines build the same program.
fn without_our_paths() -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    [remap(&cargo, "/cargo"), remap(&project::root(), "/shardlake")].join("\u{1f}")
}

/// The commit with a mark, where files differ from it.
fn changed_commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(project::root()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    (!changes.is_empty()).then(|| format!("{commit}-changed"))
}

/// The directory of programs of an environment with `cargo-zigbuild` and Zig.
fn installed_tools() -> Outcome<PathBuf> {
    prerequisites::for_python()?;
    let environment = project::work_directory().join("dist-tools");
    let programs = environment.join("bin");
    let requirements = project::root().join("deploy/build-requirements.txt");
    let (wanted, mark) = (std::fs::read(&requirements)?, environment.join("requirements"));
    if !std::fs::read(&mark).is_ok_and(|found| found == wanted) {
        run_to_end(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
        let mut pip = Command::new(programs.join("pip"));
        run_to_end(pip.args(["install", "--quiet", "--requirement"]).arg(&requirements))?;
        std::fs::write(mark, wanted)?;
    }
    Ok(programs)
}

pub fn strip(binary: &Path, copy: &Path) -> Outcome {
    run_to_end(Command::new("strip").arg("-o").arg(copy).arg(binary))
}

/// The newest version of glibc among the symbols that the program needs.
pub fn glibc_of(program: &Path) -> Outcome<(u32, u32)> {
    let output = Command::new("objdump").arg("-p").arg(program).output()?;
    newest_glibc(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| format!("{} needs no version of glibc", program.display()).into())
}

fn newest_glibc(described: &str) -> Option<(u32, u32)> {
    let versions = described.lines().filter_map(|line| {
        let (major, minor) = line.split_once(" GLIBC_")?.1.split_once('.')?;
        let minor: String = minor.chars().take_while(char::is_ascii_digit).collect();
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    versions.max()
}

/// Output of the program with these arguments.
pub fn output_of(program: &Path, arguments: &[&str]) -> Outcome<Vec<u8>> {
    let output = Command::new(program).args(arguments).output()?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} {}: {errors}", program.display(), arguments.join(" ")).into());
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_glibc_counts() {
        let described = "  NEEDED               libc.so.6\nVersion References:\n  required from libc.so.6:\n    \
                         0x09691a75 0x00 05 GLIBC_2.2.5\n    0x06969197 0x00 02 GLIBC_2.17\n    \
                         0x0d696919 0x00 03 GLIBC_2.9\n  required from libgcc_s.so.1:\n    0x0b792650 0x00 04 GCC_3.0\n";
        assert_eq!(newest_glibc(described), Some((2, 17)));
        assert_eq!(newest_glibc("  NEEDED libc.musl.so.1\n"), None);
    }

    #[test]
    fn paths_of_this_machine_are_replaced() {
        let flags = without_our_paths();
        let root = format!("--remap-path-prefix={}=/shardlake", project::root().display());
        assert!(flags.split('\u{1f}').any(|flag| flag == root), "{flags}");
        assert_eq!(flags.split('\u{1f}').count(), 2, "{flags}");
    }
}
