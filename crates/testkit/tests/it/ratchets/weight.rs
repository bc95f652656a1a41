//! Assertions, and the tests of a crate itself, by lines of code.

use super::Ratchet;
use super::sources::Sources;
use std::sync::LazyLock;

use regex::Regex;

static ASSERTION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(?:debug_)?assert(?:_eq|_ne)?!").unwrap());

pub fn measure(sources: &Sources) -> Vec<Ratchet> {
    let about = "Assertions per 1,000 lines of production code, by crate.";
    let mut assertions = Ratchet::least("assertions", about);
    let about = "Lines of a crate's own tests, in per cent of all its lines.";
    let mut tests = Ratchet::least("own_tests", about);
    for (name, sources) in &sources.0 {
        let sum = |number: fn(&super::sources::Source) -> usize| sources.iter().map(number).sum::<usize>();
        let lines = sum(|source| source.code_lines).max(1);
        let found = sum(|source| ASSERTION.find_iter(&source.code).count());
        let (production, own) = (sum(|source| source.production_lines), sum(|source| source.test_lines));
        let tenths = found * 10_000 / lines;
        assertions.add(name, tenths as f64 / 10.0, format!("{found} in {lines} lines"));
        tests.add(
            name,
            (own * 100 / (own + production)) as f64,
            format!("{own} of {} lines", own + production),
        );
    }
    vec![assertions, tests]
}

#[test]
fn assertions_are_found() {
    assert_eq!(ASSERTION.find_iter("assert!(a); debug_assert_eq!(b, c); my_assert!(d)").count(), 2);
}
