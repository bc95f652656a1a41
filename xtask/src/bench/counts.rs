//! Recorded counts of work of the tests, compared with those of an earlier revision.
//!
//! They have no noise, so they show a growth that is smaller than the spread of a measurement of
//! time.

use std::collections::BTreeMap;
use std::process::Command;

use crate::{Outcome, project};

const RECORDS: [&str; 2] =
    ["crates/gateway-nosql/tests/counts.toml", "crates/gateway-mongo/tests/counts.toml"];

/// Number by count, by request.
type Record = BTreeMap<String, BTreeMap<String, f64>>;

/// Prints the records of this tree, next to those of the revision, where it has any.
pub fn print(revision: Option<&str>) -> Outcome {
    println!("\nrecorded work of one request");
    for path in RECORDS {
        let now = parse(&std::fs::read_to_string(project::root().join(path))?)?;
        let before = revision.and_then(|revision| parse(&at(revision, path)?).ok()).unwrap_or_default();
        lines(&before, &now).iter().for_each(|line| println!("{line}"));
    }
    Ok(())
}

fn parse(text: &str) -> Outcome<Record> {
    Ok(toml::from_str(text)?)
}

fn at(revision: &str, path: &str) -> Option<String> {
    let mut show = Command::new("git");
    show.arg("show").arg(format!("{revision}:{path}")).current_dir(project::root());
    let output = show.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

fn lines(before: &Record, now: &Record) -> Vec<String> {
    let counts = now.iter().flat_map(|(request, counts)| counts.iter().map(move |count| (request, count)));
    let line = |(request, (count, number)): (&String, (&String, &f64))| {
        let earlier = before.get(request).and_then(|counts| counts.get(count));
        let earlier = earlier.map_or("-".to_owned(), f64::to_string);
        format!("{request:<28} {count:<12} {earlier:>7} {number:>7}")
    };
    counts.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_stands_beside_its_earlier_one() {
        let before = parse("[read]\nkeys = 2\n").expect("TOML");
        let now = parse("[read]\nallocations = 90\nkeys = 1\n").expect("TOML");
        let lines = lines(&before, &now);
        assert!(lines[0].ends_with("allocations        -      90"), "{lines:?}");
        assert!(lines[1].ends_with("keys               2       1"), "{lines:?}");
    }
}
