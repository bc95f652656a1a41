//! The published page of results: one section for each benchmark, under the command that made it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;

/// Where one section ends and the next begins in the page.
const SECTION: &str = "\n## Measured by ";
/// Options that name places, and do not affect the measurement.
const PLACES: [&str; 3] = ["--server", "--base", "--publish"];

/// Prints the results of a benchmark, and puts them into the page if there is to be one.
pub fn publish(page: Option<&PathBuf>, text: &str) -> Outcome {
    publish_instead_of(&[], page, text)
}

/// As [`publish`], but removes the sections of other benchmarks from the page, because this one
/// measured their figures anew.
pub fn publish_instead_of(others: &[&str], page: Option<&PathBuf>, text: &str) -> Outcome {
    let text = format!("{}{text}", commit().map(|commit| format!("Commit {commit}. ")).unwrap_or_default());
    println!("{text}");
    if let Some(file) = page {
        let old = std::fs::read_to_string(file)?;
        let command = command_of(std::env::args().skip(1));
        std::fs::write(file, replaced(&old, &command, &text, others)?)?;
        eprintln!("written to {}", Path::new(file).display());
    }
    Ok(())
}

/// The checked-out commit, where git knows it.
pub fn commit() -> Option<String> {
    let described =
        Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output().ok()?;
    let text = String::from_utf8(described.stdout).ok()?;
    described.status.success().then(|| text.trim().to_owned())
}

/// A benchmark's name and the options it was given, so that the page names the run that it shows.
fn command_of(arguments: impl Iterator<Item = String>) -> String {
    let mut kept: Vec<String> = Vec::new();
    let mut is_place = false;
    for argument in arguments {
        if is_place {
            is_place = false;
        } else if PLACES.contains(&argument.as_str()) {
            is_place = true;
        } else if !PLACES.iter().any(|place| argument.starts_with(&format!("{place}="))) {
            kept.push(argument);
        }
    }
    kept.join(" ")
}

/// The page with another section for one benchmark, and without those of `others`.
fn replaced(page: &str, command: &str, text: &str, others: &[&str]) -> Outcome<String> {
    let name = |command: &str| command.split([' ', '`']).next().unwrap_or_default().to_owned();
    let is_same = |section: &String| {
        let of = section.strip_prefix("`cargo xtask bench ").map(name);
        of.is_some_and(|of| of == name(command) || others.contains(&of.as_str()))
    };
    let mut sections = page.split(SECTION);
    let mut out = sections.next().unwrap_or_default().to_owned();
    let mut kept: Vec<String> = sections.map(str::to_owned).collect();
    kept.retain(|section| !is_same(section));
    kept.push(format!("`cargo xtask bench {command}`\n\n{}\n", text.trim_end()));
    kept.sort();
    for section in kept {
        write!(out, "{SECTION}{section}")?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_name_the_options_of_their_run() {
        let given =
            ["query", "--server", "target/shardlake", "--rounds", "2", "--publish=page.md", "--million"];
        assert_eq!(command_of(given.into_iter().map(str::to_owned)), "query --rounds 2 --million");
    }

    #[test]
    fn a_section_replaces_the_one_of_its_benchmark_only() {
        let page = "head\n\n## Measured by `cargo xtask bench point`\n\na\n\n## Measured by `cargo xtask bench query --million`\n\nb\n";
        let page = replaced(page, "query --rounds 2", "c\n\n", &[]).expect("a page");
        assert_eq!(
            page,
            "head\n\n## Measured by `cargo xtask bench point`\n\na\n\n## Measured by `cargo xtask bench query --rounds 2`\n\nc\n"
        );
        assert!(replaced(&page, "poin", "d", &[]).expect("a page").contains("\n\na\n"));
        let page = replaced(&page, "all", "d", &["point"]).expect("a page");
        assert!(!page.contains("bench point") && page.contains("bench query") && page.contains("bench all"));
    }
}
