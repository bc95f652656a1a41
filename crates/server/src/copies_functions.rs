//! `shardlake copies put`, `try`, `log`, `replay` and `rollback`: functions over the changes of a container.

use std::io::{self, Read};
use std::str::FromStr;

use clap::Args;
use http::Method;
use serde_json::{Map, Value, json};
use shardlake_admin::OperatorRequest;

use crate::number_text::thousands;
use crate::operate::{Connection, ContainerName, members, number, print, text};

/// Maximum size of a file; no valid definition is longer.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// An index, as `shop/customerByEmail`, or the id of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyName {
    Index(ContainerName),
    Function(String),
}

impl FromStr for CopyName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "" => Err("write database/container for an index, or the id of a function".to_owned()),
            _ if name.contains('/') => name.parse().map(CopyName::Index),
            _ => Ok(CopyName::Function(name.to_owned())),
        }
    }
}

impl CopyName {
    /// A request for the copy, or for one of its actions.
    pub fn request(&self, method: Method, action: Option<&str>) -> OperatorRequest {
        let segments: Vec<&str> = match self {
            CopyName::Index(name) => {
                let (database, container) = name.names();
                ["index", database, container].into_iter().chain(action).collect()
            }
            CopyName::Function(id) => ["functions", id].into_iter().chain(action).collect(),
        };
        OperatorRequest::of_copies(method, &segments)
    }
}

#[derive(Debug, Args)]
pub struct Put {
    /// A file with the definition as JSON, or - for standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// A file with the code, in the place of the definition's member "code"
    #[arg(long, value_name = "FILE")]
    code: Option<String>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
pub struct Try {
    /// The function
    #[arg(value_name = "ID")]
    id: String,
    /// A file with other code, which is tried in the place of the function's
    #[arg(long, value_name = "FILE")]
    code: Option<String>,
    /// The number of changes, the last ones of the source
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    last: u32,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
pub struct Log {
    /// The function
    #[arg(value_name = "ID")]
    id: String,
    /// Print the lines as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
pub struct Replay {
    /// The function
    #[arg(value_name = "ID")]
    id: String,
    /// A time such as 2026-11-30T08:15:00Z, or `beginning`
    #[arg(long, value_name = "TIME")]
    from: String,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
pub struct Rollback {
    /// The function
    #[arg(value_name = "ID")]
    id: String,
    /// The version whose code is put again; the one before the current one if left out
    #[arg(long, value_name = "NUMBER")]
    version: Option<u64>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Creates a function, or replaces its definition. Returns its report, and whether it is printed as JSON.
pub async fn put(put: &Put) -> Result<(Value, bool), String> {
    let written = read(&put.file)?;
    let mut definition: Map<String, Value> = serde_json::from_str(&written)
        .map_err(|error| format!("the definition '{}' is no JSON object: {error}", put.file))?;
    if let Some(code) = &put.code {
        definition.insert("code".to_owned(), read(code)?.into());
    }
    let id = definition.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    if id.is_empty() {
        return Err(format!("the definition '{}' has no member \"id\": name the function", put.file));
    }
    let body = Value::Object(definition).to_string();
    let request = CopyName::Function(id).request(Method::PUT, None).with_body(body);
    Ok((put.connection.client()?.send(&request).await?, put.json))
}

pub async fn replay(replay: &Replay) -> Result<(Value, bool), String> {
    let request = order(&replay.id, "replay", &json!({ "from": replay.from }));
    Ok((replay.connection.client()?.send(&request).await?, replay.json))
}

pub async fn rollback(rollback: &Rollback) -> Result<(Value, bool), String> {
    let body = rollback.version.map_or_else(|| json!({}), |version| json!({ "version": version }));
    let request = order(&rollback.id, "rollback", &body);
    Ok((rollback.connection.client()?.send(&request).await?, rollback.json))
}

pub async fn try_last(trial: &Try) -> Result<(), String> {
    let mut body = json!({ "last": trial.last });
    if let Some(code) = &trial.code {
        body["code"] = read(code)?.into();
    }
    let report = trial.connection.client()?.send(&order(&trial.id, "try", &body)).await?;
    print(&if trial.json { report.to_string() } else { trial_words(&report) })?;
    match report["error"]["message"].as_str() {
        Some(message) => Err(message.to_owned()),
        None => Ok(()),
    }
}

pub async fn log(log: &Log) -> Result<(), String> {
    let request = CopyName::Function(log.id.clone()).request(Method::GET, Some("log"));
    let report = log.connection.client()?.send(&request).await?;
    let line = |line: &Value| {
        let time = text(&line["time"]);
        let (version, attempt) = (number(&line["version"]), number(&line["attempt"]));
        format!("{time} version {version}, LSN {}, attempt {attempt}: {}", line["upto"], text(&line["text"]))
    };
    let lines: Vec<String> = members(&report["lines"]).map(line).collect();
    print(&if log.json { report.to_string() } else { lines.join("\n") })
}

fn order(id: &str, action: &str, body: &Value) -> OperatorRequest {
    CopyName::Function(id.to_owned()).request(Method::POST, Some(action)).with_body(body.to_string())
}

fn trial_words(report: &Value) -> String {
    let changes = members(&report["changes"]).count() as u64;
    let cost = format!("{} RU, {} ms", report["requestUnits"], report["milliseconds"]);
    let mut out = format!("{} changes, {cost}; nothing was written", thousands(changes));
    for write in members(&report["writes"]) {
        out.push_str(&format!("\n{write}"));
    }
    for letter in members(&report["deadLetters"]) {
        out.push_str(&format!("\ndead letter for change {}: {}", letter["change"], text(&letter["reason"])));
    }
    for line in members(&report["log"]) {
        out.push_str(&format!("\nlog: {}", text(line)));
    }
    out
}

/// The report of one function in words, after its row of the table.
pub fn words(report: &Value) -> String {
    let counts = &report["counts"];
    let count = |name: &str| thousands(number(&counts[name]));
    let mut out = format!(
        "version {}; {} changes, {} items written, {} dead letters, {} runs, of which {} failed",
        report["version"],
        count("changes"),
        count("written"),
        count("deadLetters"),
        count("runs"),
        count("failedRuns"),
    );
    if number(&counts["holes"]) > 0 {
        out.push_str("\nthe change log had a hole: deletions may have been missed");
    }
    if let Some(code) = report["definition"]["code"].as_str() {
        out.push_str(&format!("\n\n{}", code.trim_end()));
    }
    out
}

fn read(file: &str) -> Result<String, String> {
    let mut found = String::new();
    let result = match file {
        "-" => io::stdin().take(FILE_BYTES_MAX).read_to_string(&mut found),
        file => {
            std::fs::File::open(file).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut found))
        }
    };
    result.map_err(|error| format!("the file '{file}' cannot be read: {error}"))?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_slash_is_an_index_and_another_a_function() {
        let path =
            |name: &str| name.parse::<CopyName>().expect(name).request(Method::GET, Some("pause")).path;
        assert_eq!(path("shop/byId"), "/_shardlake/v1/copies/index/shop/byId/pause");
        assert_eq!(path("names"), "/_shardlake/v1/copies/functions/names/pause");
        for wrong in ["", "shop/", "/byId", "a/b/c"] {
            assert!(wrong.parse::<CopyName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_trial_shows_its_writes_letters_and_log() {
        let report = json!({
            "changes": [{}, {}], "writes": [{ "container": "product", "operation": "delete", "id": "1" }],
            "deadLetters": [{ "change": 1, "reason": "no" }], "log": ["seen"], "requestUnits": 2.5, "milliseconds": 3,
        });
        let shown = trial_words(&report);
        for part in
            ["2 changes, 2.5 RU, 3 ms; nothing", "\"operation\":\"delete\"", "change 1: no", "log: seen"]
        {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
    }
}
