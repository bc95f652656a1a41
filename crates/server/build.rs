//! Puts the explorer's built files, `explorer/dist`, and the origin of the build into the program.
//!
//! It writes a table of names and `include_bytes!`, sorted by name. Without the folder the table is empty, and the server logs
//! that it was built without its explorer. `dist` is committed, so a build needs no Node.
//!
//! The origin is commit, date and profile. A debug build looks for no commit: each commit would build the server and its
//! test programs again. `SHARDLAKE_COMMIT` and `SHARDLAKE_COMMIT_DATE` win over git, for sources without a repository.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?);
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    let dist = manifest.join("../../explorer/dist");
    say("cargo:rerun-if-changed=build.rs");
    say(&format!("cargo:rerun-if-changed={}", dist.display()));
    let mut names = Vec::new();
    if dist.is_dir() {
        collect(&dist, "", &mut names)?;
    }
    names.sort();
    let mut table = String::from("static EMBEDDED: &[(&str, &[u8])] = &[\n");
    for name in &names {
        let path = dist.join(name);
        writeln!(table, "    ({name:?}, include_bytes!({:?})),", path.display().to_string())
            .map_err(io::Error::other)?;
    }
    table.push_str("];\n");
    name_the_origin(&manifest.join("../.."), &out);
    fs::write(out.join("explorer_files.rs"), table)
}

/// Sets the variables that `src/version.rs` reads.
fn name_the_origin(root: &Path, out: &Path) {
    let profile = profile_of(out).unwrap_or_else(|| "unknown".to_owned());
    let looks_for_a_commit = profile != "debug";
    let found = if looks_for_a_commit { commit_of(root) } else { None };
    let (commit, date) = found.unwrap_or_else(|| ("unknown".to_owned(), "unknown".to_owned()));
    for (name, found) in [("SHARDLAKE_COMMIT", commit), ("SHARDLAKE_COMMIT_DATE", date)] {
        say(&format!("cargo:rerun-if-env-changed={name}"));
        say(&format!("cargo:rustc-env={name}={}", variable(name).unwrap_or(found)));
    }
    say(&format!("cargo:rustc-env=SHARDLAKE_PROFILE={profile}"));
    let target = variable("TARGET").unwrap_or_else(|| "unknown".to_owned());
    say(&format!("cargo:rustc-env=SHARDLAKE_TARGET={target}"));
}

fn variable(name: &str) -> Option<String> {
    env::var_os(name)?.into_string().ok()
}

/// Profile by the directory of the build, `target/[TARGET/]PROFILE/build/…/out`: `PROFILE` of the environment knows
/// `debug` and `release` alone.
fn profile_of(out: &Path) -> Option<String> {
    let mut above = out.ancestors().skip_while(|folder| !folder.ends_with("build"));
    let profile = above.nth(1)?.file_name()?;
    Some(profile.to_string_lossy().into_owned())
}

/// Commit and its date, where the sources are a repository of their own. A new commit runs this script again.
fn commit_of(root: &Path) -> Option<(String, String)> {
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    // A commit changes the branch that HEAD names; after `git gc` the branch is a line of `packed-refs`.
    let branch = git(root, &["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        let path = root.join(git(root, &["rev-parse", "--git-path", name])?);
        if path.exists() {
            say(&format!("cargo:rerun-if-changed={}", path.display()));
        }
    }
    let line = git(root, &["log", "-1", "--format=%h %cs", "--abbrev=12"])?;
    let (commit, date) = line.split_once(' ')?;
    Some((commit.to_owned(), date.to_owned()))
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned())
}

/// The names of all files below a folder, with slashes, from the folder on.
fn collect(folder: &Path, prefix: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &format!("{name}/"), names)?;
        } else {
            names.push(name);
        }
    }
    Ok(())
}

/// How a build script speaks to Cargo.
#[allow(clippy::print_stdout)]
fn say(line: &str) {
    println!("{line}");
}
