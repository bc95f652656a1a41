//! The Rust files of each crate, split into code, comments and tests.

use std::collections::BTreeMap;

use crate::tidy::{files, is_test_file, lines_before_tests, read};

/// Every Rust file of the workspace's crates, by crate.
pub struct Sources(pub BTreeMap<String, Vec<Source>>);

pub struct Source {
    /// Below the repository's root.
    pub path: String,
    /// Below the crate's `src`; `None` outside of it.
    pub file: Option<String>,
    /// Production code without comments. Empty in a file of tests.
    pub code: String,
    /// Lines of production code that are neither blank nor a comment.
    pub code_lines: usize,
    /// All lines of production code.
    pub production_lines: usize,
    pub test_lines: usize,
    /// Comments of code and tests.
    pub comments: String,
}

impl Sources {
    pub fn read() -> Sources {
        let mut crates: BTreeMap<String, Vec<Source>> = BTreeMap::new();
        for path in files(".rs") {
            if let Some((name, rest)) = crate_of(&path) {
                let source = Source::new(&path, rest.strip_prefix("src/"), &read(&path));
                crates.entry(name.to_owned()).or_default().push(source);
            }
        }
        Sources(crates)
    }

    /// Files with production code, by crate.
    pub fn production(&self) -> impl Iterator<Item = (&str, Vec<&Source>)> {
        self.0.iter().map(|(name, sources)| {
            (name.as_str(), sources.iter().filter(|source| source.production_lines > 0).collect())
        })
    }
}

/// The crate of a path, and the path below the crate's directory.
fn crate_of(path: &str) -> Option<(&str, &str)> {
    match path.split_once('/')? {
        ("crates", rest) => rest.split_once('/'),
        (name @ ("bench" | "xtask"), rest) => Some((name, rest)),
        _ => None,
    }
}

impl Source {
    pub fn new(path: &str, file: Option<&str>, text: &str) -> Source {
        let is_test = file.is_none_or(|file| file == "test_fixture.rs" || file.ends_with("_tests.rs"));
        let is_test = is_test || is_test_file(path);
        let production_lines = match file {
            _ if is_test => 0,
            Some("lib.rs") => lines_before_inline_tests(text),
            _ => lines_before_tests(text),
        };
        let (mut code, mut comments, mut code_lines, mut lines) = (String::new(), String::new(), 0, 0);
        for (number, line) in text.lines().enumerate() {
            lines += 1;
            let (left, comment) = split_comment(line);
            if !comment.is_empty() {
                comments.push_str(comment);
                comments.push('\n');
            }
            if number < production_lines {
                code_lines += usize::from(!left.trim_start().is_empty());
                code.push_str(left);
                code.push('\n');
            }
        }
        Source {
            path: path.to_owned(),
            file: file.map(str::to_owned),
            code,
            code_lines,
            production_lines,
            test_lines: lines - production_lines,
            comments,
        }
    }
}

/// A root may name a module of tests between the others, which ends nothing.
fn lines_before_inline_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let is_inline =
        |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{');
    lines.windows(2).position(is_inline).unwrap_or(lines.len())
}

/// Code and comment of a line. The slashes of an address in a text are no comment.
fn split_comment(line: &str) -> (&str, &str) {
    match line.find("//") {
        Some(at) if !line[..at].ends_with(':') => {
            (&line[..at], line[at..].trim_start_matches(['/', '!', ' ']))
        }
        _ => (line, ""),
    }
}

#[test]
fn a_file_is_split_into_code_comments_and_tests() {
    let text = "//! For x.\n\nfn f() { // why\n}\n#[cfg(test)]\nmod tests {\n    // inside\n}\n";
    let source = Source::new("crates/a/src/b.rs", Some("b.rs"), text);
    assert_eq!((source.code_lines, source.production_lines, source.test_lines), (2, 4, 4));
    assert_eq!(source.comments, "For x.\nwhy\ninside\n");
    assert_eq!(source.code, "\n\nfn f() { \n}\n");
    assert_eq!(Source::new("crates/a/tests/it/b.rs", None, text).production_lines, 0);
    let root = Source::new("crates/a/src/lib.rs", Some("lib.rs"), "#[cfg(test)]\nmod tests;\nmod b;\n");
    assert_eq!(root.production_lines, 3);
    assert_eq!(split_comment("\"http://a\""), ("\"http://a\"", ""));
    assert_eq!(crate_of("crates/a/src/b/c.rs"), Some(("a", "src/b/c.rs")));
    assert_eq!(crate_of("fuzz/src/a.rs"), None);
}
