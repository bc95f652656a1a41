//! Golden scripts: the answer, charge and stored rows of each statement, decoded, in files that people read.
//!
//! `tests/golden/*.txt` holds blocks: a comment, one statement, `---`, and its results. `UPDATE=1` writes the files anew, so that
//! a reviewer sees a changed format, charge or plan as a changed line. Every engine must give the same.
//!
//! | statement | effect |
//! |---|---|
//! | `container {definition}` | creates it in `db`; later statements are about it |
//! | `create`, `upsert`, `delete`, `replace`, `patch`, `read` | one item: `create KEY BODY`, `read KEY ID`, `replace KEY ID BODY` |
//! | `batch KEY [operations]` | a transactional batch |
//! | `query KEY TEXT` or `query * TEXT` | a query in one logical partition or in all, with its plan |
//! | `changes` | the change feed from where the last `changes` ended |
//!
//! `+` is a row that the commit put, `-` a row that it removed, as the engine shows them afterwards.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use shardlake_model::{IndexPathSegment, PartitionUid};
use shardlake_partition::{describe_row, owner_of_row};
use shardlake_storage::slow::SlowEngine;
use shardlake_storage::{ScanOptions, Shard, ShardOptions};

use crate::harness::{Answer, Server};

type Rows = BTreeMap<Bytes, Bytes>;

/// A script as it runs: over one engine, from its first statement to its last.
struct Run {
    server: Server,
    shard: Shard,
    rows: Rows,
    container: String,
    etag: Option<String>,
    /// Paths of the index that the statements so far can have made.
    paths: BTreeMap<u64, String>,
}

impl Run {
    async fn over(shard: Shard) -> Run {
        let server = Server::over(shard.clone()).await;
        let rows = Rows::new();
        Run { server, shard, rows, container: String::new(), etag: None, paths: BTreeMap::new() }
    }

    /// Results of a statement.
    async fn execute(&mut self, statement: &str) -> String {
        let (verb, rest) = statement.split_once(' ').unwrap_or((statement, ""));
        let mut words = Words(rest);
        let docs = format!("/dbs/db/colls/{}/docs", self.container);
        let answer = match verb {
            "container" => {
                let definition = words.json();
                self.container = definition["id"].as_str().expect("a container has an id").to_owned();
                let database = self.server.post("/dbs").body(r#"{"id":"db"}"#).send().await;
                assert!(matches!(database.status, 201 | 409), "{database:?}");
                self.server.post("/dbs/db/colls").json(definition).send().await
            }
            "create" | "upsert" => {
                let (key, body) = (words.json(), words.json());
                self.learn(&body);
                let upsert = if verb == "upsert" { "true" } else { "false" };
                let call = self.server.post(docs).key(&key.to_string());
                call.header("x-ms-documentdb-is-upsert", upsert).json(body).send().await
            }
            "replace" | "patch" => {
                let (key, id, body) = (words.json(), words.word(), words.json());
                self.learn(&body);
                let method = if verb == "patch" { "PATCH" } else { "PUT" };
                self.server.call(method, format!("{docs}/{id}")).key(&key.to_string()).json(body).send().await
            }
            "read" | "delete" => {
                let (key, id) = (words.json(), words.word());
                let method = if verb == "read" { "GET" } else { "DELETE" };
                self.server.call(method, format!("{docs}/{id}")).key(&key.to_string()).send().await
            }
            "batch" => {
                let (key, operations) = (words.json(), words.json());
                for operation in operations.as_array().expect("operations are a list") {
                    self.learn(&operation["resourceBody"]);
                }
                let call = self.server.post(docs).key(&key.to_string()).json(operations);
                let call = call.header("x-ms-cosmos-is-batch-request", "True");
                call.header("x-ms-cosmos-batch-atomic", "True").send().await
            }
            "query" => self.query(docs, words).await,
            "changes" => self.changes(docs).await,
            other => panic!("no statement: {other}"),
        };
        let mut text = summary(&answer);
        self.note_changes(&mut text).await;
        text
    }

    async fn query(&self, docs: String, mut words: Words<'_>) -> Answer {
        let call = self.server.post(docs).header("x-ms-documentdb-isquery", "true");
        let call =
            call.header("content-type", "application/query+json").header("x-shardlake-explain", "true");
        let call = match words.0.strip_prefix("* ") {
            Some(text) => {
                words = Words(text);
                call.header("x-shardlake-fan-out", "true")
            }
            None => call.key(&words.json().to_string()),
        };
        let call = call.header("x-ms-documentdb-query-enablecrosspartition", "true");
        call.json(serde_json::json!({ "query": words.0 })).send().await
    }

    async fn changes(&mut self, docs: String) -> Answer {
        let call = self.server.get(docs).header("a-im", "Incremental feed");
        let answer = match &self.etag {
            Some(etag) => call.header("if-none-match", etag).send().await,
            None => call.send().await,
        };
        self.etag = answer.header("etag").map(str::to_owned);
        answer
    }

    /// Names the paths of a body, so that postings can be read.
    fn learn(&mut self, body: &Value) {
        learn(body, &mut Vec::new(), "", &mut self.paths);
        for name in ["_ts", "_etag", "_rid", "_self", "_attachments"] {
            let path = [IndexPathSegment::Name(name.into())];
            self.paths.insert(shardlake_index::path_hash(&path), format!("/{name}"));
        }
    }

    async fn note_changes(&mut self, text: &mut String) {
        let now = stored(&self.shard).await;
        let name = |hash: u64| self.paths.get(&hash).cloned();
        for (key, value) in &now {
            if self.rows.get(key) != Some(value) {
                writeln!(text, "+ {}", describe_row(key, Some(value), &name)).expect("memory");
            }
        }
        for key in self.rows.keys().filter(|key| !now.contains_key(*key)) {
            writeln!(text, "- {}", describe_row(key, None, &name)).expect("memory");
        }
        self.rows = now;
    }
}

/// Everything but the catalog, and but the counts of paths that queries order by: these are made in the background.
async fn stored(shard: &Shard) -> Rows {
    let mut scan = shard.snapshot().scan(vec![0]..vec![0xff; 16], ScanOptions::default());
    let mut rows = Rows::new();
    while let Some(chunk) = scan.next_chunk().await.expect("an engine that works") {
        let is_shown = |key: &Bytes| owner_of_row(key) != Some(PartitionUid(0)) && key.get(4) != Some(&b'C');
        rows.extend(chunk.into_iter().filter(|(key, _)| is_shown(key)));
    }
    rows
}

fn learn(value: &Value, path: &mut Vec<IndexPathSegment>, name: &str, paths: &mut BTreeMap<u64, String>) {
    paths
        .insert(shardlake_index::path_hash(path), if name.is_empty() { "/".into() } else { name.to_owned() });
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                path.push(IndexPathSegment::Name(member.clone()));
                learn(value, path, &format!("{name}/{member}"), paths);
                path.pop();
            }
        }
        Value::Array(elements) => {
            path.push(IndexPathSegment::AnyElement);
            for element in elements {
                learn(element, path, &format!("{name}/[]"), paths);
            }
            path.pop();
        }
        _ => {}
    }
}

/// Status, charge, positions, plan and content, without parts that have no meaning for a reader.
fn summary(answer: &Answer) -> String {
    let mut text = answer.status.to_string();
    for (name, label) in [
        ("x-ms-substatus", "sub-status"),
        ("x-ms-request-charge", "RU"),
        ("lsn", "LSN"),
        ("x-ms-item-count", "count"),
    ] {
        if let Some(value) = answer.header(name) {
            write!(text, ", {label} {value}").expect("memory");
        }
    }
    text.push('\n');
    if let Some(plan) = answer.header("x-shardlake-explain") {
        let plan = percent_decode_str(plan).decode_utf8().expect("plans are text");
        plan.lines().for_each(|line| writeln!(text, "plan: {line}").expect("memory"));
    }
    let Ok(body) = serde_json::from_str::<Value>(&answer.text) else { return text };
    if answer.status >= 400 {
        let message = body["message"].as_str().unwrap_or_default();
        writeln!(text, "error: {}", message.lines().next().unwrap_or_default()).expect("memory");
    } else if let Some(rows) = body["Documents"].as_array() {
        rows.iter().for_each(|row| writeln!(text, "row: {}", plain(row)).expect("memory"));
    } else if let Some(results) = body.as_array() {
        for result in results {
            let charge = &result["requestCharge"];
            writeln!(text, "result: {} RU {charge}", result["statusCode"]).expect("memory");
        }
    } else if body.get("_ts").is_some() && body.get("partitionKey").is_none() {
        writeln!(text, "item: {}", plain(&body)).expect("memory");
    }
    text
}

fn plain(row: &Value) -> Value {
    let mut row = row.clone();
    if let Some(members) = row.as_object_mut() {
        members.retain(|name, _| !name.starts_with('_'));
    }
    row
}

/// JSON texts and words, one after the other.
struct Words<'t>(&'t str);

impl Words<'_> {
    fn json(&mut self) -> Value {
        let mut values = serde_json::Deserializer::from_str(self.0).into_iter();
        let value = values.next().expect("a statement is not cut off").expect("JSON");
        self.0 = self.0[values.byte_offset()..].trim_start();
        value
    }

    fn word(&mut self) -> String {
        let (word, rest) = self.0.split_once(' ').unwrap_or((self.0, ""));
        self.0 = rest;
        word.to_owned()
    }
}

/// The script with the results of its statements.
async fn run(script: &str, shard: Shard) -> String {
    let mut run = Run::over(shard).await;
    let mut out = String::new();
    for block in script.split("\n\n").map(str::trim).filter(|block| !block.is_empty()) {
        let asked = block.split("\n---").next().expect("a block begins with a statement");
        let statement: Vec<&str> = asked.lines().filter(|line| !line.starts_with('#')).collect();
        if !out.is_empty() {
            out.push('\n');
        }
        writeln!(out, "{asked}").expect("memory");
        if !statement.is_empty() {
            write!(out, "---\n{}", run.execute(&statement.join(" ")).await).expect("memory");
        }
    }
    out
}

/// Every read and every sync is answered later.
fn far_shard() -> Shard {
    let engine = SlowEngine::new();
    engine.set_delays(Duration::from_millis(1), Duration::from_millis(1));
    Shard::with_engine(Arc::new(engine), &ShardOptions::local("")).expect("opens")
}

#[tokio::test]
async fn golden_scripts_give_what_they_say_on_every_engine() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(&directory)
        .expect("there are scripts")
        .map(|entry| entry.expect("a file").path())
        .collect();
    scripts.sort();
    assert!(scripts.len() >= 4, "{scripts:?}");
    for path in scripts {
        let script = std::fs::read_to_string(&path).expect("a script");
        let home = tempfile::tempdir().expect("a directory");
        let memory = run(&script, Shard::open(ShardOptions::memory()).await.expect("opens")).await;
        let local = run(&script, Shard::open(ShardOptions::local(home.path())).await.expect("opens")).await;
        let slow = run(&script, far_shard()).await;
        assert_eq!(memory, local, "{}: memory and disk", path.display());
        assert_eq!(memory, slow, "{}: memory and an engine that answers later", path.display());
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &memory).expect("the script is written");
        } else {
            assert!(
                memory == script,
                "{} has changed; UPDATE=1 writes it anew. Now:\n{memory}",
                path.display()
            );
        }
    }
}
