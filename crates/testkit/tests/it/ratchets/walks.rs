//! Walks: the files that a request passes, in order, from `docs/walks`.

use super::Ratchet;
use crate::tidy::{expect_no_findings, files, read, root};

pub fn measure() -> Ratchet {
    let about = "Files on the way of a request, by list in docs/walks.";
    let mut walks = Ratchet::most("walks", about, 0.0);
    for list in lists() {
        let name = list.trim_start_matches("docs/walks/").trim_end_matches(".txt").to_owned();
        walks.add(&name, paths(&read(&list)).len() as f64, list);
    }
    walks
}

fn lists() -> Vec<String> {
    files(".txt").into_iter().filter(|path| path.starts_with("docs/walks/")).collect()
}

/// A path begins each line that is neither blank nor a remark.
fn paths(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn walks_name_each_file_once_and_files_that_exist() {
    let mut findings = Vec::new();
    assert!(lists().len() >= 3, "{:?}", lists());
    for list in lists() {
        let text = read(&list);
        let mut passed = Vec::new();
        for path in paths(&text) {
            if !root().join(path).is_file() {
                findings.push(format!("{list}: {path} does not exist"));
            }
            if passed.contains(&path) {
                findings.push(format!("{list}: {path} is listed twice"));
            }
            passed.push(path);
        }
    }
    expect_no_findings("lists of files on the way of a request", &findings);
    assert_eq!(paths("# why\n\na/b.rs  parses\nc.rs\n"), ["a/b.rs", "c.rs"]);
}
