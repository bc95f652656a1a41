//! Programs the commands need besides cargo, and how to get them.
//!
//! On Debian and its relatives root gets them installed; anyone else gets the exact command to run. Nothing is installed
//! without being named on the terminal first.

use crate::Outcome;
use crate::command::{run_to_end, succeeds};
use std::path::Path;
use std::process::Command;

/// A task that needs a program, the check for the program, and the Debian packages that provide it.
#[derive(Debug)]
struct Prerequisite {
    what: &'static str,
    present: fn() -> bool,
    packages: &'static [&'static str],
}

/// A C compiler for the allocator and the cryptography, which are written in C and assembly.
pub fn for_building() -> Outcome {
    require(&[Prerequisite {
        what: "a C compiler and linker",
        present: || succeeds("cc", &["--version"]),
        packages: &["build-essential"],
    }])
}

pub fn for_python() -> Outcome {
    require(&[Prerequisite {
        what: "Python 3.11 or later with venv",
        present: || succeeds("python3", &["-c", "import venv, ensurepip, tomllib"]),
        packages: &["python3", "python3-venv"],
    }])
}

pub fn for_javascript() -> Outcome {
    require(&[Prerequisite {
        what: "Node.js 20 or later with npm",
        present: || {
            let version = "process.exit(Number(process.versions.node.split('.')[0]) >= 20 ? 0 : 1)";
            succeeds("node", &["-e", version]) && succeeds("npm", &["--version"])
        },
        packages: &["nodejs", "npm"],
    }])
}

/// The browser that drives the explorer's pages.
pub fn for_browser() -> Outcome {
    require(&[Prerequisite {
        what: "Chromium",
        present: || succeeds("chromium", &["--version"]),
        packages: &["chromium"],
    }])
}

/// The reason why the suites for Java cannot run here, if they cannot. They are skipped then: a developer of the server needs
/// no Java.
pub fn absent_java() -> Option<&'static str> {
    let present = succeeds("javac", &["--release", "17", "--version"]) && succeeds("mvn", &["--version"]);
    (!present).then_some("Java 17 or later (a JDK) and Maven are not installed")
}

/// The reason why the suite for Go cannot run here, if there is one.
pub fn absent_go() -> Option<&'static str> {
    (!succeeds("go", &["version"])).then_some("Go is not installed")
}

fn require(needed: &[Prerequisite]) -> Outcome {
    for prerequisite in needed.iter().filter(|one| !(one.present)()) {
        obtain(prerequisite)?;
    }
    Ok(())
}

fn obtain(prerequisite: &Prerequisite) -> Outcome {
    let packages = prerequisite.packages.join(" ");
    let by_hand = format!("apt-get update && apt-get install --yes --no-install-recommends {packages}");
    let what = prerequisite.what;
    if !Path::new("/etc/debian_version").exists() {
        return Err(format!("{what} is missing; install it (on Debian: {by_hand})").into());
    }
    if !succeeds("sh", &["-c", "test \"$(id -u)\" = 0"]) {
        return Err(format!("{what} is missing; run: sudo sh -c '{by_hand}'").into());
    }
    println!("{what} is missing; installing {packages}");
    run_to_end(Command::new("sh").args(["-c", &by_hand]).env("DEBIAN_FRONTEND", "noninteractive"))?;
    if (prerequisite.present)() {
        return Ok(());
    }
    Err(format!("{what} is still missing after installing {packages}").into())
}
