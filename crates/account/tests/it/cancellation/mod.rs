//! Clients that disconnect: a dropped operation takes place as a whole or not at all, and no other client notices.
//!
//! `items.rs` has the table of operations on items, `definitions.rs` that of changes of definitions. A test here reads the
//! sources of the parts of an account and fails while an operation is in neither.

mod definitions;
mod items;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The parts of an account that front ends call: the crate, and the type whose operations count.
const PARTS: &[(&str, &str)] = &[
    ("account", "Account"),
    ("definitions", "Resources"),
    ("items", "Items"),
    ("maintenance", "Upkeep"),
    ("procedures", "ScriptRuns"),
    ("projections", "Projections"),
    ("queries", "Queries"),
    ("router", "Serving"),
];

/// Operations that change nothing, those of the program that opens the account, and the inner steps of operations in the tables.
const IN_NO_TABLE: &[&str] = &[
    "close",
    "container_report",
    // It is no client operation, and removes documents one by one as clients do; the tables cover that.
    "expire_documents",
    "is_throughput_pending",
    "next_step_of",
    "open",
    "projection",
    "projections",
    "ranges_being_split",
    // At the start after a restore, before clients come.
    "renew_analytical_histories",
    // It waits for earlier writes and changes nothing.
    "flush",
    // Each is one change of the catalog, as those of the table.
    "create_secondary_index",
    "forget_analytical",
    "pause_analytical",
    "rebuild_analytical",
    "replace_with_index",
    "set_analytical",
    "set_index",
    // Steps of operations that the tables name, or of the MongoDB API, whose commands have tests of their own.
    "batch_with",
    "create_all",
    "begin_run",
    "beside_requests",
    "create_container_keeping",
    "keep_with_database",
    "pause_relocations",
    "planned",
    "read_at",
    "read_within",
    "redefine_container",
    "rename_container",
    "resolved",
    "send",
    "run_page",
    "sample",
    "store_moved_holds",
    "write_item",
    "write_planned",
    "write_within",
    "change",
    "change_and",
    "derived",
    "patiently",
    "redefine",
    "take_answer_space",
    "wait_for_index",
    // It reserves memory, which is free again when it is dropped.
    "room_for",
];

#[test]
fn every_operation_of_an_account_is_in_a_table() {
    let items = [items::writes_of_items(), items::scripts(), items::reads()];
    let items = items.iter().flatten().map(|case| case.name);
    let definitions = definitions::OPERATIONS.iter().map(|operation| operation.name);
    let known: BTreeSet<&str> = items.chain(definitions).chain(IN_NO_TABLE.iter().copied()).collect();
    let offered = offered();
    assert!(offered.len() > 50, "the source was found: {offered:?}");
    let missing: Vec<&String> = offered.iter().filter(|name| !known.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "operations that nobody drops: {missing:#?}");
    let gone: Vec<&&str> = known.iter().filter(|name| !offered.contains(**name)).collect();
    assert!(gone.is_empty(), "the tables name operations that are gone: {gone:#?}");
}

/// The asynchronous functions that the parts offer.
fn offered() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (part, type_name) in PARTS {
        let folder = Path::new("..").join(part).join("src");
        for file in source_files(&folder) {
            let text = std::fs::read_to_string(&file).expect("the source of a part");
            for block in text.split(&format!("\nimpl {type_name} {{")).skip(1) {
                let block = &block[..block.find("\n}").unwrap_or(block.len())];
                let functions = block.split("\n    pub ").skip(1).filter_map(|text| {
                    let is_future =
                        text.split_once('{').is_some_and(|(head, _)| head.contains("impl Future"));
                    text.strip_prefix("async fn ").or_else(|| text.strip_prefix("fn ").filter(|_| is_future))
                });
                names.extend(functions.map(|text| text.split(['(', '<']).next().expect("a name").to_owned()));
            }
        }
    }
    names
}

fn source_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files.extend(source_files(&path)),
            false => files.push(path),
        }
    }
    files
}
