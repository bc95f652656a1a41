//! Direction of dependencies, as data: a crate uses only the dependencies that its row allows.
//!
//! The rows are the table of ARCHITECTURE.md. A new edge is a decision record and a row here, never an accident of
//! `Cargo.toml`. External crates that embody a layer (HTTP, the storage engine) are held to their layer as well.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Crate, and the crates it may use besides `stdx`.
const ALLOWED: &[(&str, &[&str])] = &[
    ("stdx", &[]),
    ("model", &[]),
    ("document", &["model"]),
    ("routing", &["model"]),
    ("charge", &["model"]),
    ("storage", &[]),
    ("lease", &["storage"]),
    ("collation", &[]),
    ("sql", &["model", "document", "collation"]),
    ("mql", &["model", "document", "collation"]),
    ("index", &["model", "document", "sql"]),
    ("heat", &["model", "document", "routing"]),
    (
        "partition",
        &["model", "document", "collation", "routing", "charge", "storage", "sql", "mql", "index", "heat"],
    ),
    ("script", &["model", "document", "partition"]),
    ("analytical-table", &["model", "document"]),
    ("analytics-dialect", &[]),
    ("analytics-sql", &["analytical-table", "analytics-dialect"]),
    ("advisor", &["model", "document", "routing", "charge", "sql", "index", "heat"]),
    ("catalog", &["model", "routing", "storage"]),
    ("capacity", &[]),
    ("host", &["model", "document", "routing", "storage", "sql", "mql", "heat", "partition", "capacity"]),
    (
        "router",
        &[
            "model",
            "document",
            "routing",
            "charge",
            "storage",
            "sql",
            "index",
            "heat",
            "partition",
            "catalog",
            "capacity",
            "host",
        ],
    ),
    ("backup", &["model", "storage", "partition", "catalog", "router"]),
    ("change-log", &["model", "routing", "partition", "catalog", "host", "router"]),
    (
        "maintenance",
        &[
            "model",
            "document",
            "routing",
            "charge",
            "storage",
            "heat",
            "partition",
            "catalog",
            "capacity",
            "router",
        ],
    ),
    ("definitions", &["model", "document", "routing", "sql", "partition", "script", "catalog", "router"]),
    (
        "analytics",
        &[
            "model",
            "document",
            "routing",
            "partition",
            "catalog",
            "router",
            "definitions",
            "change-log",
            "analytical-table",
        ],
    ),
    ("items", &["model", "document", "routing", "sql", "partition", "host", "router"]),
    (
        "queries",
        &[
            "model",
            "document",
            "routing",
            "charge",
            "storage",
            "sql",
            "partition",
            "script",
            "host",
            "router",
            "items",
        ],
    ),
    (
        "procedures",
        &["model", "document", "sql", "partition", "script", "host", "router", "items", "queries"],
    ),
    (
        "mongo",
        &[
            "model",
            "document",
            "routing",
            "sql",
            "mql",
            "partition",
            "router",
            "definitions",
            "items",
            "queries",
        ],
    ),
    (
        "copies",
        &[
            "model",
            "document",
            "routing",
            "sql",
            "storage",
            "partition",
            "catalog",
            "host",
            "router",
            "change-log",
        ],
    ),
    (
        "projections",
        &[
            "model",
            "document",
            "partition",
            "catalog",
            "host",
            "router",
            "definitions",
            "items",
            "queries",
            "change-log",
        ],
    ),
    (
        "functions",
        &[
            "model",
            "document",
            "routing",
            "partition",
            "script",
            "catalog",
            "host",
            "router",
            "definitions",
            "items",
            "queries",
            "change-log",
        ],
    ),
    (
        "account",
        &[
            "model",
            "document",
            "routing",
            "charge",
            "storage",
            "sql",
            "index",
            "heat",
            "partition",
            "script",
            "advisor",
            "catalog",
            "capacity",
            "router",
            "maintenance",
            "definitions",
            "items",
            "queries",
            "procedures",
            "mongo",
            "projections",
            "copies",
            "functions",
            "backup",
        ],
    ),
    ("signature", &["model"]),
    ("admin", &["model", "account", "analytics", "signature"]),
    ("hybrid-row", &[]),
    ("gateway-direct", &[]),
    ("gateway-nosql", &["model", "document", "account", "signature", "admin", "hybrid-row"]),
    ("gateway-mongo", &["model", "document", "mql", "account"]),
    (
        "server",
        &[
            "model",
            "storage",
            "lease",
            "account",
            "analytics",
            "analytics-sql",
            "gateway-direct",
            "gateway-nosql",
            "gateway-mongo",
            "admin",
            "signature",
        ],
    ),
];

/// Built for developers only; no product crate may need them outside its tests.
const DEVELOPMENT: &[&str] = &["account-fixture", "testkit", "xtask", "bench"];

/// External crates that belong to a layer, and the crates of that layer. Tests and developer tools are free.
const LAYERED: &[(&str, &[&str])] = &[
    ("fjall", &["storage"]),
    ("hyper", &["gateway-nosql", "gateway-mongo", "server"]),
    ("hyper-util", &["gateway-nosql", "gateway-mongo", "server"]),
    ("http", &["admin", "gateway-direct", "gateway-nosql", "gateway-mongo", "server"]),
    ("http-body-util", &["admin", "gateway-nosql", "gateway-mongo", "server"]),
    ("rustls", &["server"]),
    ("tokio-rustls", &["server"]),
    ("clap", &["server"]),
    ("sqlparser", &["analytics-dialect", "analytics-sql"]),
    ("flate2", &["gateway-mongo", "server"]),
    ("ruzstd", &["gateway-mongo"]),
    ("snap", &["gateway-mongo"]),
    ("md-5", &["gateway-mongo", "mql"]),
    ("sha1", &["gateway-mongo"]),
    ("stringprep", &["gateway-mongo"]),
];

#[derive(Debug)]
struct Edge {
    from: String,
    to: String,
    internal: bool,
    only_in_tests: bool,
}

#[test]
fn crates_depend_only_on_what_their_row_allows() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let mut wrong = Vec::new();
    for edge in edges().iter().filter(|edge| edge.internal) {
        if DEVELOPMENT.contains(&edge.from.as_str()) {
            continue;
        }
        let row = allowed.get(edge.from.as_str());
        let row =
            row.unwrap_or_else(|| panic!("crate '{}' has no row in the table of dependencies", edge.from));
        // Tests may build on any layer below their own, and on the account with its fixture.
        let is_fixture = |to: &str| ["account", "account-fixture", "testkit"].contains(&to);
        let in_tests = edge.only_in_tests && (is_fixture(&edge.to) || is_below(&edge.to, &edge.from));
        let free = edge.to == "stdx" || in_tests;
        if !free && !row.contains(&edge.to.as_str()) {
            wrong.push(format!("{} -> {}", edge.from, edge.to));
        }
    }
    assert!(wrong.is_empty(), "edges that no row allows: {wrong:#?}");
}

#[test]
fn external_crates_stay_in_their_layer() {
    let layers: BTreeMap<&str, &[&str]> = LAYERED.iter().copied().collect();
    let wrong: Vec<String> = edges()
        .iter()
        .filter(|edge| !edge.only_in_tests && !DEVELOPMENT.contains(&edge.from.as_str()))
        .filter(|edge| layers.get(edge.to.as_str()).is_some_and(|layer| !layer.contains(&edge.from.as_str())))
        .map(|edge| format!("{} -> {}", edge.from, edge.to))
        .collect();
    assert!(wrong.is_empty(), "external crates outside their layer: {wrong:#?}");
}

#[test]
fn the_table_has_no_cycle_and_no_upward_edge() {
    for (from, row) in ALLOWED {
        for to in *row {
            assert!(is_below(to, from), "{from} may use {to}, which stands above it");
        }
    }
}

/// Rows stand in the order of the layers.
fn is_below(lower: &str, upper: &str) -> bool {
    let position = |name: &str| ALLOWED.iter().position(|(row, _)| *row == name);
    position(lower).is_some() && position(lower) < position(upper)
}

#[test]
fn the_table_catches_a_wrong_edge() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    assert!(!allowed["sql"].contains(&"storage"), "the query engine never sees storage");
    assert!(!allowed["storage"].contains(&"document"), "storage never sees a document");
    assert!(edges().iter().any(|edge| edge.from == "partition" && edge.to == "storage"), "metadata was read");
}

/// `fuzz` is no member of the workspace, and does not have its replacements of published crates.
#[test]
fn fuzz_targets_link_the_vendored_crates() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let replaced = |manifest: &str| -> Vec<String> {
        let text = std::fs::read_to_string(root.join(manifest)).unwrap();
        let (_, rows) = text.split_once("[patch.crates-io]\n").expect("replaces crates");
        rows.lines().take_while(|row| !row.is_empty()).map(|row| row.replace("../", "")).collect()
    };
    assert_eq!(replaced("fuzz/Cargo.toml"), replaced("Cargo.toml"));
}

fn edges() -> Vec<Edge> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root)
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().iter().flat_map(edges_of).collect()
}

fn edges_of(package: &Value) -> Vec<Edge> {
    let from = crate_name(package["name"].as_str().unwrap());
    let edge = |dependency: &Value| Edge {
        from: from.clone(),
        to: crate_name(dependency["name"].as_str().unwrap()),
        internal: !dependency["path"].is_null(),
        only_in_tests: dependency["kind"] == "dev",
    };
    package["dependencies"].as_array().unwrap().iter().map(edge).filter(|edge| edge.from != edge.to).collect()
}

/// The package `shardlake` is the crate `server`; the others carry the product's name as a prefix.
fn crate_name(package: &str) -> String {
    if package == "shardlake" {
        "server".to_owned()
    } else {
        package.trim_start_matches("shardlake-").to_owned()
    }
}
