//! Counts of passed, failed and skipped tests, per suite and added up.

use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// A test that did not run, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Skip {
    pub test: String,
    pub reason: String,
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// The result lines of `cargo test`, one for each test program, added up.
pub fn of_cargo_test(output: &str) -> Option<Tally> {
    let plain = without_colours(output);
    let lines: Vec<&str> = plain.lines().filter(|line| line.starts_with("test result:")).collect();
    let mut sum = Tally::default();
    for line in &lines {
        sum.add(Tally {
            passed: count_before(line, "passed"),
            failed: count_before(line, "failed"),
            skipped: count_before(line, "ignored"),
        });
    }
    (!lines.is_empty()).then_some(sum)
}

/// The closing lines of the Test Anything Protocol as Node.js writes them: `# pass 12`.
pub fn of_tap(output: &str) -> Option<Tally> {
    let value = |name: &str| {
        let line = output
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("# ")?.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|text| text.trim().parse::<u64>().ok())
    };
    Some(Tally {
        passed: value("pass")?,
        failed: value("fail")? + value("cancelled").unwrap_or(0),
        skipped: value("skipped")? + value("todo").unwrap_or(0),
    })
}

/// The skipped tests in the Test Anything Protocol, each with its reason: `ok 3 - name # SKIP reason`.
pub fn skips_of_tap(output: &str) -> Vec<Skip> {
    let skip = |line: &str| {
        let (test, reason) = line.trim_start().strip_prefix("ok ")?.split_once(" # SKIP")?;
        let test = test.split_once(" - ").map_or(test, |(_, name)| name);
        Some(Skip { test: test.to_owned(), reason: reason.trim().to_owned() })
    };
    output.lines().filter_map(skip).collect()
}

/// The counts of one XML report in the form of JUnit: attributes of its first element.
pub fn of_junit(report: &str) -> Option<Tally> {
    let element = report.split_once("<testsuite ")?.1.split_once('>')?.0;
    let value = |name: &str| -> Option<u64> {
        element.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0.parse().ok()
    };
    let (failed, skipped) = (value("failures")? + value("errors")?, value("skipped")?);
    Some(Tally { passed: value("tests")?.checked_sub(failed + skipped)?, failed, skipped })
}

/// The lines of `go test -v`: `--- PASS: TestName (0.01s)`. Tests within tests are indented and count with their parent.
pub fn of_go_test(output: &str) -> Option<Tally> {
    let count = |start: &str| output.lines().filter(|line| line.starts_with(start)).count() as u64;
    let (passed, failed, skipped) = (count("--- PASS: "), count("--- FAIL: "), count("--- SKIP: "));
    (passed + failed + skipped > 0).then_some(Tally { passed, failed, skipped })
}

/// The skipped tests of `go test -v`, each with the line in front of its end, which is the reason.
pub fn skips_of_go_test(output: &str) -> Vec<Skip> {
    let mut skips = Vec::new();
    let mut before = "";
    for line in output.lines() {
        if let Some(rest) = line.strip_prefix("--- SKIP: ") {
            let test = rest.split(' ').next().unwrap_or(rest);
            skips.push(Skip { test: test.to_owned(), reason: before.trim().to_owned() });
        }
        before = line;
    }
    skips
}

/// The number in front of `word`, zero where the word is absent.
fn count_before(text: &str, word: &str) -> u64 {
    let words: Vec<&str> = text.split([' ', ',', ';']).filter(|part| !part.is_empty()).collect();
    let wanted: Vec<&str> = word.split(' ').collect();
    let found = words.windows(wanted.len()).position(|window| window == wanted);
    found.and_then(|position| words.get(position.checked_sub(1)?)?.parse().ok()).unwrap_or(0)
}

fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            letters.by_ref().find(|end| end.is_ascii_alphabetic());
        } else {
            plain.push(letter);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(passed: u64, failed: u64, skipped: u64) -> Tally {
        Tally { passed, failed, skipped }
    }

    #[test]
    fn cargo_test_results_add_up() {
        let text = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.0s\n\
                    test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(of_cargo_test(text), Some(tally(4, 2, 1)));
        assert_eq!(of_cargo_test("nothing ran"), None);
    }

    #[test]
    fn junit_reports() {
        let text = "<?xml version=\"1.0\"?>\n<testsuite xmlns:xsi=\"x\" name=\"a.B\" time=\"0.5\" tests=\"9\" errors=\"1\" \
                    skipped=\"2\" failures=\"3\">\n<testcase name=\"c\" time=\"0.1\"/>\n</testsuite>\n";
        assert_eq!(of_junit(text), Some(tally(3, 4, 2)));
        assert_eq!(of_junit("<testsuite name=\"a\" tests=\"1\">"), None);
        assert_eq!(of_junit("not a report"), None);
    }

    #[test]
    fn go_test_lines() {
        let text = "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/part (0.00s)\n    b_test.go:3: no data\n\
                    --- SKIP: TestB (0.00s)\n--- FAIL: TestC (1.00s)\nFAIL\n";
        assert_eq!(of_go_test(text), Some(tally(1, 1, 1)));
        assert_eq!(of_go_test("# package\n./a.go:1: syntax error\n"), None);
        let skip = Skip { test: "TestB".to_owned(), reason: "b_test.go:3: no data".to_owned() };
        assert_eq!(skips_of_go_test(text), [skip]);
    }

    #[test]
    fn tap_closing_lines() {
        let text = "ok 1 - a\n1..3\n# tests 3\n# suites 0\n# pass 1\n# fail 1\n# cancelled 0\n# skipped 1\n# todo 0\n";
        assert_eq!(of_tap(text), Some(tally(1, 1, 1)));
        assert_eq!(of_tap("Error: Cannot find module"), None);
        let skipped = "ok 1 - a\n    ok 2 - b - c # SKIP no data\nnot ok 3 - d\n";
        let skip = Skip { test: "b - c".to_owned(), reason: "no data".to_owned() };
        assert_eq!(skips_of_tap(skipped), [skip]);
    }
}
