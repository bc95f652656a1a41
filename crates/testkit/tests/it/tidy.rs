//! Habits that a compiler does not check: file openings, lengths, forbidden words, and documents that name real things.
//!
//! Files are those git knows or would add, so that build output and editor leftovers stay out. Each rule collects all
//! its findings before it fails, and the sample tests at the end prove that a rule can fail at all.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const LINES_MAX: usize = 1000;

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Somebody else's sources, changed as little as can be: their habits are their own.
const VENDORED: [&str; 2] = ["vendor/fjall/", "vendor/lsm-tree/"];

/// Paths below the root, tracked or new but not ignored, without those that are vendored.
pub fn files(ending: &str) -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let listing = String::from_utf8(output.stdout).unwrap();
    let known = listing.split('\0').filter(|path| path.ends_with(ending));
    let known = known.filter(|path| !VENDORED.iter().any(|vendored| path.starts_with(vendored)));
    known.filter(|path| root().join(path).is_file()).map(str::to_owned).collect()
}

pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub fn expect_no_findings(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}

#[test]
fn every_source_file_says_what_it_is_for() {
    let silent: Vec<String> =
        files(".rs").into_iter().filter(|path| !read(path).starts_with("//! ")).collect();
    expect_no_findings("files that do not open with //!", &silent);
}

#[test]
fn no_file_is_too_long() {
    let long: Vec<String> = files(".rs")
        .into_iter()
        .filter(|path| !is_test_file(path))
        .map(|path| (lines_before_tests(&read(&path)), path))
        .filter(|(lines, _)| *lines >= LINES_MAX)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    expect_no_findings("files to split", &long);
}

#[test]
fn no_source_file_holds_a_forbidden_word() {
    let findings: Vec<String> = files(".rs")
        .into_iter()
        .flat_map(|path| {
            forbidden_words(&read(&path)).into_iter().map(move |found| format!("{path}:{found}"))
        })
        .collect();
    expect_no_findings("unfinished code, skipped tests, tabs", &findings);
}

/// Test programs in addition to the one of each crate, and why each must be a program of its own.
const PROGRAMS: &[(&str, &str)] = &[
    (
        "crates/server/tests/durability/main.rs",
        "a suite of its own, whose cycles are counted; it takes minutes and all of the machine",
    ),
    (
        "crates/storage/tests/memory/main.rs",
        "its allocator counts what the process holds, and no other test may allocate meanwhile",
    ),
];

/// Each program links the engine again, which takes longer than most tests.
#[test]
fn each_crate_links_one_test_program() {
    let findings: Vec<String> = files(".rs")
        .into_iter()
        .filter(|path| {
            path.starts_with("crates/") || path.starts_with("bench/") || path.starts_with("xtask/")
        })
        .filter(|path| is_test_program(path) && !path.ends_with("/tests/it/main.rs"))
        .filter(|path| PROGRAMS.iter().all(|(listed, _)| listed != path))
        .collect();
    expect_no_findings("test programs; make them modules of tests/it/main.rs", &findings);
    let gone: Vec<String> = PROGRAMS
        .iter()
        .filter(|(path, _)| !root().join(path).is_file())
        .map(|(path, _)| (*path).into())
        .collect();
    expect_no_findings("listed test programs that are not there", &gone);
}

/// Cargo makes a program of each file in `tests`, and of each directory there that has a `main.rs`.
fn is_test_program(path: &str) -> bool {
    let inside =
        path.split_once("/tests/").filter(|(package, _)| !package.contains("/src")).map(|(_, rest)| rest);
    inside.is_some_and(|rest| {
        !rest.contains('/') || (rest.ends_with("/main.rs") && rest.matches('/').count() == 1)
    })
}

/// Files, and directories, that pause or read the time in tests, and why no test's outcome depends on how long anything takes.
const CLOCKS: &[(&str, &str)] = &[
    ("crates/testkit/src/wait.rs", "waits for an event; its guard of minutes turns a hang into a failure"),
    ("crates/testkit/src/process.rs", "waits for the end of a process"),
    ("crates/testkit/src/bucket/weather.rs", "the distance of a store; no outcome of a test depends on it"),
    ("tests-sdk/mongo/debezium.py", "waits for a program that it started; a guard against hangs"),
    ("tests-sdk/mongo/pymongo/run.py", "says how long each file of tests took"),
    ("crates/account-fixture/src/lib.rs", "the same with a runtime, and moments that chance decides"),
    ("crates/gateway-nosql/tests/it/harness.rs", "the same with a runtime"),
    (
        "crates/server/tests/durability/",
        "moments of kills and hang-ups that chance decides, a guard against hangs",
    ),
    ("crates/script/tests/it/hostile.rs", "lets go of endless scripts at some moment; looks for a process"),
    (
        "crates/server/src/front.rs",
        "tokio's clock, paused: a request waits for a start exactly as long as it may",
    ),
    ("crates/lease/tests/it/takers.rs", "tokio's clock, paused, and a clock of ours that goes with it"),
    (
        "crates/storage/tests/it/object_faults.rs",
        "tokio's clock, paused: it moves by the store's delays alone",
    ),
    ("crates/storage/tests/it/object_ends.rs", "tokio's clock, paused: it passes over what nobody waits for"),
    (
        "crates/storage/tests/it/object_drops.rs",
        "tokio's clock, paused: it passes over what nobody waits for",
    ),
    ("crates/storage/tests/it/slow.rs", "tokio's clock, paused: it moves by the engine's delays alone"),
    ("tests-sdk/js/support.mjs", "waits for an event"),
    (
        "tests-sdk/python/own/operator_client.py",
        "waits for the end of a motion; its guard turns a hang into a failure",
    ),
    ("tests-sdk/mongo/python/budgets.py", "waits as the server's refusals say, and counts what comes of it"),
    ("tests-sdk/mongo/js/test/own_server.test.mjs", "the same"),
    ("tests-sdk/stores/gateway.py", "waits for the start of a store"),
    ("tests-sdk/python/own/lease_processor.py", "an example for users, which holds leases by the clock"),
    ("tests-sdk/python/own/test_motion.py", "waits for the end of a split"),
    ("tests-sdk/python/own/test_analytical_store.py", "waits until a table has every change"),
    ("tests-sdk/python/own/test_secondary_indexes.py", "waits until an index has every change"),
    ("tests-sdk/mongo/python/doors.py", "the same"),
    ("tests-sdk/analytics/account.py", "the same"),
    ("tests-sdk/python/own/test_processors.py", "waits for events of other processes"),
];

fn is_in(path: &str, listed: &str) -> bool {
    listed.ends_with('/') && path.starts_with(listed)
}

/// On a busy machine everything takes longer: wait for an event, count work, set a clock by hand, or compare with a control.
#[test]
fn no_test_decides_by_time() {
    let sources = [".rs", ".py", ".mjs"].into_iter().flat_map(files);
    let findings: Vec<String> = sources
        .filter(|path| !CLOCKS.iter().any(|(listed, _)| path == listed || is_in(path, listed)))
        .flat_map(|path| {
            let text = read(&path);
            let all_is_test = is_test_file(&path) || path.starts_with("tests-sdk/");
            let first = if all_is_test { 0 } else { lines_before_tests(&text) };
            clock_words(&text, first).into_iter().map(move |found| format!("{path}:{found}"))
        })
        .filter(|found| !found.starts_with("tests-sdk/python/run.py") && !found.starts_with("bench/"))
        .collect();
    expect_no_findings("tests that sleep or read the time", &findings);
    let gone: Vec<String> = CLOCKS
        .iter()
        .filter(|(path, _)| !root().join(path).exists())
        .map(|(path, _)| (*path).into())
        .collect();
    expect_no_findings("listed files that are not there", &gone);
}

/// Spelled apart, so that this file passes its own rule. What `Clock` of stdx counts can be set by hand.
fn clock_words(text: &str, first: usize) -> Vec<String> {
    let words = [
        concat!("sle", "ep("),
        concat!(".elap", "sed()"),
        concat!("Instant", "::now"),
        concat!("setTime", "out("),
        concat!("time.mono", "tonic("),
    ];
    let of_stdx = concat!("clock.elap", "sed()");
    let lines = text.lines().enumerate().skip(first);
    let found = lines.filter_map(|(number, line)| {
        let line = line.replace(of_stdx, "");
        let word = words.iter().find(|word| line.contains(**word))?;
        Some(format!("{}: {word}", number + 1))
    });
    found.collect()
}

/// A test that finds the shared data by itself passes without having run where there is none, and nobody counts it.
#[test]
fn the_shared_data_is_read_through_the_testkit_alone() {
    const DOOR: &str = "crates/testkit/src/shared.rs";
    let sources = [".rs", ".py", ".mjs", ".js", ".sh"].into_iter().flat_map(files);
    let findings: Vec<String> =
        sources.filter(|path| path != DOOR).filter(|path| names_shared_data(&read(path))).collect();
    expect_no_findings(
        "files that know where the shared data is; ask shared_directory of the testkit",
        &findings,
    );
}

/// Spelled apart, so that this file passes its own rule.
fn names_shared_data(text: &str) -> bool {
    [concat!("../", "shared"), concat!("/shared", "/"), concat!("SHARDLAKE_", "CONFORMANCE")]
        .iter()
        .any(|place| text.contains(place))
}

/// Nothing runs the examples in comments, so there are none that look as if something did.
#[test]
fn comments_hold_no_examples_that_nothing_runs() {
    let findings: Vec<String> = files(".rs")
        .into_iter()
        .flat_map(|path| doc_examples(&read(&path)).into_iter().map(move |line| format!("{path}:{line}")))
        .collect();
    expect_no_findings("examples in comments: make each a test, or mark the block as `text`", &findings);
}

/// The lines at which a block of code opens in a doc comment without saying that it is none of Rust's.
fn doc_examples(text: &str) -> Vec<usize> {
    let mut open = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else { continue };
        let Some(language) = comment.trim_start().strip_prefix("```") else { continue };
        if !open && matches!(language.trim(), "" | "rust" | "no_run" | "should_panic") {
            found.push(number + 1);
        }
        open = !open;
    }
    found
}

/// Documents about the code, whose paths have to exist.
fn maps_of_the_code() -> Vec<String> {
    let of_crates = files("README.md").into_iter().filter(|path| path.starts_with("crates/"));
    of_crates.chain(["ARCHITECTURE.md", "docs/read-this-code.md"].map(str::to_owned)).collect()
}

#[test]
fn maps_of_the_code_name_paths_that_exist() {
    let missing = maps_of_the_code().into_iter().flat_map(|document| {
        let paths = named_paths(&read(&document)).into_iter().filter(|path| !root().join(path).exists());
        paths.map(move |path| format!("{document}: {path}")).collect::<Vec<_>>()
    });
    expect_no_findings("documents that name paths that do not exist", &missing.collect::<Vec<_>>());
}

/// Documents that a newcomer reads first, and the most bytes of each.
const FIRST_PAGES: &[(&str, usize)] = &[("README.md", 6_000), ("ARCHITECTURE.md", 12_000)];

#[test]
fn first_pages_stay_short() {
    let long: Vec<String> = FIRST_PAGES
        .iter()
        .filter(|(document, bytes_max)| read(document).len() > *bytes_max)
        .map(|(document, bytes_max)| format!("{document}: more than {bytes_max} bytes"))
        .collect();
    expect_no_findings("documents to shorten: move details to a page that they link to", &long);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut broken = Vec::new();
    for document in files(".md") {
        let folder = root().join(&document).parent().unwrap().to_owned();
        for target in link_targets(&read(&document)) {
            if !folder.join(&target).exists() {
                broken.push(format!("{document}: {target}"));
            }
        }
    }
    expect_no_findings("broken links", &broken);
}

#[test]
fn anchors_of_links_are_headings() {
    let mut broken = Vec::new();
    for document in files(".md") {
        let text = read(&document);
        let folder = Path::new(&document).parent().unwrap();
        for (target, anchor) in anchored_links(&text) {
            let path =
                if target.is_empty() { root().join(&document) } else { root().join(folder).join(target) };
            let is_page = path.extension().is_some_and(|extension| extension == "md");
            let headings = is_page.then(|| std::fs::read_to_string(&path).ok()).flatten();
            if headings.is_some_and(|page| !heading_anchors(&page).contains(anchor)) {
                broken.push(format!("{document}: {target}#{anchor}"));
            }
        }
    }
    expect_no_findings("links to headings that do not exist", &broken);
}

#[test]
fn every_workspace_dependency_has_its_reason() {
    let reasons = read("docs/dependencies.md");
    let missing: Vec<String> = workspace_dependencies(&read("Cargo.toml"))
        .into_iter()
        .filter(|name| !reasons.contains(&format!("| `{name}` |")))
        .collect();
    expect_no_findings("workspace dependencies without a line in docs/dependencies.md", &missing);
}

pub fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.split('/').any(|part| part == "tests" || part == "benches")
}

/// Inline tests close a file; what stands above them counts.
pub fn lines_before_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines.windows(2).position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod "));
    tests.unwrap_or(lines.len())
}

/// Spelled apart, so that this file passes its own rule.
fn forbidden_words(text: &str) -> Vec<String> {
    let words = [
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("#[", "ignore"),
        concat!("dbg", "!("),
        "\t",
    ];
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for word in words.iter().filter(|word| line.contains(**word)) {
            found.push(format!("{}: {word:?}", number + 1));
        }
    }
    found
}

/// Words in backticks that start like a path of this repository.
fn named_paths(text: &str) -> Vec<String> {
    const TOPS: &[&str] =
        &["crates/", "docs/", "xtask/", "fuzz/", "tests-sdk/", "explorer/", ".ci/", ".cargo/"];
    let quoted = text.split('`').skip(1).step_by(2);
    quoted
        .filter(|word| TOPS.iter().any(|top| word.starts_with(top)))
        .filter(|word| !word.contains(['*', '<', '{', '…', ' ']))
        .map(|word| word.trim_end_matches('/').to_owned())
        .collect()
}

/// Relative targets of Markdown links, without anchors.
fn link_targets(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| {
            !target.contains("://") && !target.starts_with('#') && !target.starts_with("mailto:")
        })
        .map(|target| target.split('#').next().unwrap().to_owned())
        .filter(|target| !target.is_empty() && !target.contains(' '))
        .collect()
}

/// Page and anchor of Markdown links within the repository. The page of a link within its own page is empty.
fn anchored_links(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://")).filter_map(|target| target.split_once('#'))
}

/// Anchors of the headings of a page, as the repository's host makes them.
fn heading_anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || "-_ ".contains(*letter));
        let anchor: String = kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect();
        let again = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(again).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

fn workspace_dependencies(manifest: &str) -> Vec<String> {
    let table = manifest.split("[workspace.dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    table
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name.trim().to_owned())
        .filter(|name| !name.starts_with("shardlake-") && !name.starts_with('#'))
        .collect()
}

#[test]
fn the_rules_find_what_they_look_for() {
    assert_eq!(forbidden_words("fn a() {\n\tb();\n}").len(), 1);
    assert_eq!(clock_words(concat!("a\nthread::sle", "ep(b);\nself.clock.elap", "sed() + c"), 0).len(), 1);
    assert!(names_shared_data(concat!("join(\"../../../", "shared/conformance\")")));
    assert_eq!(doc_examples("/// ```text\n/// a\n/// ```\n/// ```\n/// b();\n/// ```"), [4]);
    assert!(is_test_program("crates/a/tests/b.rs") && is_test_program("crates/a/tests/b/main.rs"));
    assert!(!is_test_program("crates/a/tests/it/b.rs") && !is_test_program("crates/a/src/b/tests/c.rs"));
    assert_eq!(lines_before_tests("a\n#[cfg(test)]\nmod tests {\nb\n}"), 1);
    assert_eq!(
        named_paths("see `crates/a/src/b.rs`, `Vec::new`, `crates/*/x` and `docs/`"),
        ["crates/a/src/b.rs", "docs"]
    );
    assert_eq!(link_targets("[a](b.md#c) [d](https://e/f) [g](#h)"), ["b.md"]);
    let links: Vec<_> = anchored_links("[a](b.md#c) [d](https://e/f#x) [g](#h) [i](j.md)").collect();
    assert_eq!(links, [("b.md", "c"), ("", "h")]);
    let anchors = heading_anchors("# A `b`, c\n```sh\n# no\n```\n## D-e\n## D-e\n");
    assert_eq!(Vec::from_iter(anchors), ["a-b-c", "d-e", "d-e-1"]);
    assert_eq!(
        workspace_dependencies("[workspace.dependencies]\na = \"1\"\nshardlake-b = {}\n\n[x]\nc = 1"),
        ["a"]
    );
}
