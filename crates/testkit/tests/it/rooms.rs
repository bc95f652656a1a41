//! Rooms: which modules of a crate import one another in a circle, over how many files a type is spread, how long the longest
//! file and function are. Each is a number that may fall and not rise.
//!
//! A module that another one needs, and that needs it, cannot be understood, moved or given to somebody else without it.
//! Crates keep one another apart by the table in `dependencies.rs`; within a crate nothing did.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{expect_no_findings, files, is_test_file, lines_before_tests, read};

/// Modules that stand in a circle, by crate. A crate that is not listed has none. Lower a number when its circle shrinks; never
/// raise one.
const IN_CIRCLES: &[(&str, usize)] = &[
    ("catalog", 4),
    ("document", 9),
    ("gateway-nosql", 27),
    ("model", 5),
    ("partition", 27),
    ("server", 8),
    ("sql", 9),
    ("storage", 12),
];

/// Files that hold an `impl` of a type, where they are many.
const SPREAD: &[(&str, &str, usize)] = &[("account", "Account", 4), ("partition", "Partition", 22)];

/// Lines of the longest file and of the longest function; tests are not counted.
const LONGEST_FILE: usize = 664;
const LONGEST_FUNCTION: usize = 80;

/// Lines of the façade, which hands on what rooms do.
const FACADE_LINES: usize = 1500;

#[test]
fn circles_of_modules_only_shrink() {
    let allowed: BTreeMap<&str, usize> = IN_CIRCLES.iter().copied().collect();
    let mut findings = Vec::new();
    for (name, sources) in crates() {
        let circles = circles(&imports(&sources));
        let found = circles.iter().map(BTreeSet::len).sum::<usize>();
        let allowed = allowed.get(name.as_str()).copied().unwrap_or(0);
        if found > allowed {
            findings.push(format!("{name}: {found} modules in circles, {allowed} listed: {circles:?}"));
        }
    }
    expect_no_findings("more modules in circles than listed", &findings);
}

#[test]
fn types_are_spread_over_fewer_files_only() {
    let mut findings = Vec::new();
    for (name, type_name, listed) in SPREAD {
        let heads = [format!("impl {type_name} {{"), format!("impl<'a> {type_name}<'a> {{")];
        let sources = &crates()[*name];
        let holds = |text: &&String| heads.iter().any(|head| text.contains(head));
        let found = sources.values().filter(holds).count();
        if found > *listed {
            findings.push(format!("{type_name}: {found} files, {listed} listed"));
        }
    }
    expect_no_findings("types in more files than listed", &findings);
}

#[test]
fn the_longest_file_and_function_only_get_shorter() {
    let mut file = (0, String::new());
    let mut function = (0, String::new());
    for path in files(".rs").into_iter().filter(|path| path.contains("/src/") && !is_test_file(path)) {
        let text = read(&path);
        let lines = lines_before_tests(&text);
        let production: Vec<&str> = text.lines().take(lines).collect();
        file = file.max((lines, path.clone()));
        if let Some((lines, name)) = longest_function(&production) {
            function = function.max((lines, format!("{path}, {name}")));
        }
    }
    let findings: Vec<String> = [(file, LONGEST_FILE), (function, LONGEST_FUNCTION)]
        .into_iter()
        .filter(|((found, _), listed)| found > listed)
        .map(|((found, place), listed)| format!("{found} lines, {listed} listed: {place}"))
        .collect();
    expect_no_findings("longest file, longest function", &findings);
}

#[test]
fn the_facade_stays_a_door() {
    let sources = &crates()["account"];
    let lines: usize = sources.values().map(|text| text.lines().count()).sum();
    assert!(lines <= FACADE_LINES, "the façade has {lines} lines, and may have {FACADE_LINES}");
}

/// Production code by crate and file, without comments.
fn crates() -> BTreeMap<String, BTreeMap<String, String>> {
    let mut crates: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for path in files(".rs").into_iter().filter(|path| !is_test_file(path)) {
        let Some((name, file)) = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        let text = read(&path);
        // A root may name a module of tests between the others.
        let length = if file == "lib.rs" { usize::MAX } else { lines_before_tests(&text) };
        let lines = text.lines().take(length);
        let code = lines.map(|line| line.split("//").next().unwrap_or_default());
        let code = code.collect::<Vec<_>>().join("\n");
        crates.entry(name.to_owned()).or_default().insert(file.to_owned(), code);
    }
    crates
}

/// By top module of a crate: the others that it names.
fn imports(sources: &BTreeMap<String, String>) -> BTreeMap<String, BTreeSet<String>> {
    let top = |file: &str| file.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
    let modules: BTreeSet<String> = sources.keys().map(|file| top(file)).collect();
    let shown = shown_by_root(sources.get("lib.rs").map_or("", String::as_str));
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, text) in sources {
        let own = top(file);
        if own == "lib" || own == "main" {
            continue;
        }
        let mut names = names_behind(text, "crate::");
        if !file.contains('/') {
            names.extend(names_behind(text, "super::"));
        }
        let module =
            |name: String| if modules.contains(&name) { Some(name) } else { shown.get(&name).cloned() };
        let others = names.into_iter().filter_map(module).filter(|other| *other != own && other != "lib");
        imports.entry(own.clone()).or_default().extend(others);
    }
    imports
}

/// First names behind a prefix, those in braces each.
fn names_behind(text: &str, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices(prefix) {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|before| before.is_alphanumeric() || before == '_' || before == ':') {
            continue;
        }
        let rest = &text[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(list) => names.extend(heads_of_list(list)),
            None => names.extend(head(rest)),
        }
    }
    names
}

fn head(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

/// The first name of each entry of a list in braces, up to its end.
fn heads_of_list(list: &str) -> Vec<String> {
    let (mut depth, mut entry, mut entries) = (0, String::new(), Vec::new());
    for c in list.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => entries.push(std::mem::take(&mut entry)),
            _ if depth == 0 => entry.push(c),
            _ => {}
        }
    }
    entries.push(entry);
    entries.iter().filter_map(|entry| head(entry.trim())).collect()
}

/// Names that a crate's root shows, and the modules that they are from.
fn shown_by_root(root: &str) -> BTreeMap<String, String> {
    let mut shown = BTreeMap::new();
    for statement in root.split(';') {
        let Some((_, path)) = statement.rsplit_once("use ") else { continue };
        let Some((module, rest)) = path.split_once("::") else { continue };
        let names = rest.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty());
        shown.extend(names.map(|name| (name.to_owned(), module.trim().to_owned())));
    }
    shown
}

/// Sets of modules that all reach one another, of two or more.
fn circles(imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<String>> =
        imports.keys().map(|module| (module, reached_from(module, imports))).collect();
    let circle = |module: &String| -> BTreeSet<String> {
        reached[module]
            .iter()
            .filter(|other| reached.get(other).is_some_and(|of| of.contains(module)))
            .cloned()
            .collect()
    };
    imports.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

fn reached_from(module: &str, imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = imports[module].iter().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next.clone()) {
            open.extend(imports.get(next).into_iter().flatten());
        }
    }
    reached
}

/// Lines and name of the longest function, as rustfmt sets it: it ends with a brace below its first column.
fn longest_function(lines: &[&str]) -> Option<(usize, String)> {
    let mut longest = None;
    for (start, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        let words = trimmed.split("fn ").next().unwrap_or_default();
        let is_head = trimmed.contains("fn ")
            && words
                .split_whitespace()
                .all(|word| word.starts_with("pub") || word == "async" || word == "const");
        if !is_head || trimmed.ends_with('}') {
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - trimmed.len()]);
        let Some(length) = lines[start..].iter().position(|line| *line == end) else { continue };
        let name = trimmed.split("fn ").nth(1).and_then(head).unwrap_or_default();
        longest = longest.max(Some((length + 1, name)));
    }
    longest
}

#[test]
fn the_rules_of_rooms_find_what_they_look_for() {
    let sources: BTreeMap<String, String> = [
        ("lib.rs", "mod a; mod b; mod c; pub use b::{Bee, Wax};"),
        ("a.rs", "use crate::{Bee, c::Sea};"),
        ("b/mod.rs", "fn f() { crate::c::go() }"),
        ("c.rs", "use crate::a;"),
        ("d.rs", "use crate::a::X;"),
    ]
    .into_iter()
    .map(|(file, text)| (file.to_owned(), text.to_owned()))
    .collect();
    let circles = circles(&imports(&sources));
    assert_eq!(format!("{circles:?}"), r#"{{"a", "b", "c"}}"#);
    let lines = ["    pub async fn long(", "    ) {", "        work();", "    }", "fn short() {", "}"];
    assert_eq!(longest_function(&lines), Some((4, "long".to_owned())));
}
