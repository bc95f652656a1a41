//! `shardlake status`: one look at a running server: health, version, data, last backup, and partitions that need attention.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use http::Method;
use serde_json::{Value, json};
use shardlake_admin::OperatorRequest;
use shardlake_stdx::Timestamp;

use crate::backup::readable;
use crate::operate::{Client, Connection, Paint, aligned, bytes, counted, ignore_closed, thousands};

/// Containers whose findings are read.
const CONTAINERS_MAX: usize = 1_000;
/// Kind of the finding of a container without any other.
const NOTHING_WRONG: &str = "nothingWrong";

#[derive(Debug, Args)]
pub struct Status {
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Exits with 1 where the server serves no requests.
pub async fn run(arguments: &Status) -> Result<ExitCode, String> {
    let client = arguments.connection.client()?;
    let (is_ready, readiness) = client.probe("/readyz").await?;
    let mut report = json!({
        "endpoint": client.endpoint(),
        "ready": is_ready,
        "readiness": readiness,
        "server": null,
        "attention": [],
    });
    if is_ready {
        report["server"] = client.send(&OperatorRequest::of_server()).await?;
        report["attention"] = attention(&client).await?;
    }
    let text = match arguments.json {
        true => format!("{report}\n"),
        false => table(&report, arguments.connection.paint()),
    };
    ignore_closed(io::stdout().lock().write_all(text.as_bytes()))?;
    Ok(if is_ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Findings that have not ended, each with its container.
async fn attention(client: &Client) -> Result<Value, String> {
    let all = client.send(&OperatorRequest::of_account()).await?;
    let containers = all["containers"].as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for container in containers.iter().take(CONTAINERS_MAX) {
        let [database, name] = [&container["database"], &container["container"]].map(text);
        let request = OperatorRequest::of_container(Method::GET, (database, name), "partitions")
            .with_query(Some("parts=findings".to_owned()));
        // It may have been deleted since.
        let Ok(report) = client.send(&request).await else { continue };
        for finding in report["findings"].as_array().into_iter().flatten() {
            if finding["until"].is_null() && finding["kind"] != NOTHING_WRONG {
                found.push(json!({
                    "database": database,
                    "container": name,
                    "partition": finding["partition"],
                    "kind": finding["kind"],
                    "summary": finding["summary"],
                }));
            }
        }
    }
    if containers.len() > CONTAINERS_MAX {
        let left = containers.len() - CONTAINERS_MAX;
        found.push(
            json!({ "kind": "notRead", "summary": format!("{left} further containers were not read") }),
        );
    }
    Ok(Value::Array(found))
}

fn table(report: &Value, paint: Paint) -> String {
    let server = &report["server"];
    let health = match report["ready"] == true {
        true => paint.good("ready"),
        false => paint.bad(text(&report["readiness"])),
    };
    let mut rows = vec![row("health", health), row("endpoint", text(&report["endpoint"]))];
    if server.is_object() {
        let started = readable(Timestamp(number(&server["startedAt"])));
        rows.push(row("version", format!("{} ({})", text(&server["version"]), text(&server["build"]))));
        rows.push(row("started", started));
        let directory = server["dataDir"].as_str().unwrap_or("in memory only");
        let used = bytes(number(&server["disk"]["usedBytes"]));
        let free = server["disk"]["freeBytes"].as_u64().map(|free| format!(", {} free", bytes(free)));
        rows.push(row("data", format!("{directory} ({} durability)", text(&server["durability"]))));
        rows.push(row("disk", format!("{used} used{}", free.unwrap_or_default())));
        let counts = &server["counts"];
        let of = |name: &str, noun: &str| counted(number(&counts[name]), noun);
        let (databases, containers) = (of("databases", "database"), of("containers", "container"));
        let (partitions, items) = (of("partitions", "partition"), thousands(number(&counts["items"])));
        rows.push(row("content", format!("{databases}, {containers}, {partitions}, {items} items")));
        let backup = &server["lastBackup"];
        rows.push(row(
            "last backup",
            match backup["endedAt"].as_u64() {
                Some(at) => format!("{} at {}", text(&backup["name"]), readable(Timestamp(at))),
                None => "none".to_owned(),
            },
        ));
        if let Some(days) = server["certificateDaysLeft"].as_u64() {
            rows.push(row("certificate", format!("{days} days left")));
        }
    }
    for (place, finding) in report["attention"].as_array().into_iter().flatten().enumerate() {
        rows.push(row(if place == 0 { "attention" } else { "" }, paint.warning(&words(finding))));
    }
    if server.is_object() && report["attention"].as_array().is_some_and(Vec::is_empty) {
        rows.push(row("attention", "no partition needs any"));
    }
    aligned(&rows, 2).into_iter().map(|line| line + "\n").collect()
}

fn words(finding: &Value) -> String {
    let summary = text(&finding["summary"]);
    let [database, container] = [&finding["database"], &finding["container"]].map(text);
    match finding["partition"].as_str() {
        _ if container.is_empty() => summary.to_owned(),
        Some(partition) => format!("{database}/{container}, partition {partition}: {summary}"),
        None => format!("{database}/{container}: {summary}"),
    }
}

fn row(name: &str, value: impl Into<String>) -> [String; 2] {
    [name.to_owned(), value.into()]
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}
