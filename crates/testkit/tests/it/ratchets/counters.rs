//! Constructions that are to disappear, each counted where it occurs today.

use std::collections::BTreeSet;

use regex::Regex;

use super::Ratchet;
use super::sources::{Source, Sources};

/// Guards, which lend their content inside of one crate.
const GUARDS: [&str; 2] = ["crates/partition/src/sequencer.rs", "crates/storage/src/rows.rs"];

/// Files that define commands, and replies to them.
const COMMANDS: [&str; 12] = [
    "crates/items/src/command.rs",
    "crates/mongo/src/change.rs",
    "crates/mongo/src/effect.rs",
    "crates/model/src/context.rs",
    "crates/mql/src/expression/env.rs",
    "crates/mql/src/write/answer.rs",
    "crates/mql/src/write/change.rs",
    "crates/mql/src/write/step.rs",
    "crates/partition/src/item.rs",
    "crates/partition/src/operation.rs",
    "crates/partition/src/query/request.rs",
    "crates/partition/src/statements.rs",
];

pub fn measure(sources: &Sources) -> Ratchet {
    let about = "Constructions that are to disappear, by kind.";
    let mut counters = Ratchet::most("counters", about, 0.0);
    let all = || {
        sources.production().flat_map(|(name, sources)| sources.into_iter().map(move |source| (name, source)))
    };
    let mut count =
        |line: &str, pattern: &str, by_file: bool, is_searched: &dyn Fn(&str, &Source) -> bool| {
            let pattern = Regex::new(pattern).unwrap();
            let searched = all().filter(|(name, source)| is_searched(name, source));
            let found: Vec<&str> = searched
                .flat_map(|(_, source)| pattern.find_iter(&source.code).map(|_| source.path.as_str()))
                .collect();
            let files: BTreeSet<&str> = found.iter().copied().collect();
            let number = if by_file { files.len() } else { found.len() };
            counters.add(line, number as f64, files.into_iter().collect::<Vec<_>>().join(" "));
        };
    count(
        "impls of Deref between crates",
        r"\bimpl(?:<[^>]*>)? (?:\w+::)*Deref for ",
        false,
        &|_, source| !GUARDS.contains(&source.path.as_str()),
    );
    count("Arc<Partition> outside host and partition", r"\bArc<(?:\w+::)*Partition>", false, &|name, _| {
        !matches!(name, "partition" | "host")
    });
    count("files that decode the log", r"\bLogEntry::decode\b", true, &|_, source| {
        source.path != "crates/partition/src/log/entry.rs"
    });
    count(
        "files outside routing that hash partition keys",
        r"\b(?:effective_partition_key|prefix_range)\(",
        true,
        &|name, _| name != "routing",
    );
    count("dyn, Fn and Mutex in commands", r"\bdyn |\bFn(?:Once|Mut)?\(|\bMutex<", false, &|_, source| {
        COMMANDS.contains(&source.path.as_str())
    });
    counters
}

#[test]
fn the_files_of_commands_exist() {
    let sources = Sources::read();
    let paths: BTreeSet<&str> = sources.0.values().flatten().map(|source| source.path.as_str()).collect();
    let gone: Vec<&&str> = COMMANDS.iter().chain(&GUARDS).filter(|path| !paths.contains(**path)).collect();
    assert!(gone.is_empty(), "list the files that took their place: {gone:?}");
}
