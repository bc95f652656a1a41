//! Puts the explorer's built files, `explorer/dist`, into the program.
//!
//! It writes a table of names and `include_bytes!`, sorted by name. Without the folder the table is empty, and the server says
//! that it was built without its explorer. Nothing is built here: `dist` is committed, so that nobody needs Node to build a server.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
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
    fs::write(out.join("explorer_files.rs"), table)
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
