//! `shardlake projections`: the rules that keep copies true, listed, shown, created, paused, resumed and deleted.

use std::io::{self, Read};

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};
use shardlake_admin::OperatorRequest;

use super::arguments::Connection;
use super::show::print;
use super::table::aligned;
use super::values::members;
use super::values::{number, text};
use crate::number_text::thousands;

/// Maximum size of a rule's file; no valid rule is longer.
const RULE_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug, Args)]
pub struct Projections {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Every projection in one line
    List(List),
    /// A projection with its rule
    Show(One),
    /// Create a projection from a rule, or replace the rule of one, which then begins anew
    Create(Create),
    /// Stop a projection until it is resumed, also through restarts
    Pause(One),
    /// Let a paused projection continue where it stopped
    Resume(One),
    /// Delete a projection; copies stay as they are
    Delete(One),
}

#[derive(Debug, Args)]
struct List {
    /// Print the reports as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct One {
    #[arg(value_name = "ID")]
    id: String,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Create {
    /// A file with the rule as JSON, or - for standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(arguments: &Projections) -> Result<(), String> {
    match &arguments.what {
        What::List(list) => {
            let request = OperatorRequest::of_projections(Method::GET, &[]);
            let report = list.connection.client()?.send(&request).await?;
            print(&if list.json {
                report.to_string()
            } else {
                list.connection.paint().table(&table(&report))
            })
        }
        What::Show(one) => send(one, Method::GET, None).await,
        What::Pause(one) => send(one, Method::POST, Some("pause")).await,
        What::Resume(one) => send(one, Method::POST, Some("resume")).await,
        What::Delete(one) => {
            let request = OperatorRequest::of_projections(Method::DELETE, &[&one.id]);
            one.connection.client()?.send(&request).await?;
            let answer = json!({ "deleted": one.id });
            print(&if one.json { answer.to_string() } else { format!("deleted: {}", one.id) })
        }
        What::Create(create) => {
            let rule = read(&create.file)?;
            let parsed: Value = serde_json::from_str(&rule)
                .map_err(|error| format!("the rule '{}' is no JSON: {error}", create.file))?;
            let id = parsed["id"].as_str().ok_or_else(|| format!("the rule '{}' has no id", create.file))?;
            let request = OperatorRequest::of_projections(Method::PUT, &[id]).with_body(rule);
            let report = create.connection.client()?.send(&request).await?;
            print(&shown(&report, create.json))
        }
    }
}

async fn send(one: &One, method: Method, action: Option<&str>) -> Result<(), String> {
    let segments: Vec<&str> = std::iter::once(one.id.as_str()).chain(action).collect();
    let request = OperatorRequest::of_projections(method, &segments);
    let report = one.connection.client()?.send(&request).await?;
    print(&shown(&report, one.json))
}

fn shown(report: &Value, is_json: bool) -> String {
    if is_json { report.to_string() } else { words(report) }
}

fn table(report: &Value) -> String {
    let names =
        ["id", "source", "target", "state", "lag", "behind", "changes", "applied", "unchanged", "dead"];
    let mut rows = vec![names.map(str::to_owned)];
    for projection in members(&report["projections"]) {
        let end = |role: &str| {
            let end = &projection["rule"][role];
            format!("{}/{}", text(&end["database"]), text(&end["container"]))
        };
        let count = |name: &str| thousands(number(&projection["counts"][name]));
        rows.push([
            text(&projection["id"]).to_owned(),
            end("source"),
            end("target"),
            text(&projection["state"]).to_owned(),
            thousands(number(&projection["lag"]["changes"])),
            format!("{} s", thousands(number(&projection["lag"]["seconds"]))),
            count("changes"),
            count("applied"),
            count("unchanged"),
            count("deadLetters"),
        ]);
    }
    aligned(&rows, 4).join("\n")
}

fn words(report: &Value) -> String {
    let mut out = table(&json!({ "projections": [report] }));
    if let Some(reason) = report["reason"].as_str() {
        out.push_str(&format!("\n\n{}: {reason}", text(&report["state"])));
    }
    if let Some(message) = report["lastError"]["message"].as_str() {
        out.push_str(&format!("\n\nlast error: {message}"));
    }
    let rule = serde_json::to_string_pretty(&report["rule"]).unwrap_or_default();
    format!("{out}\n\n{rule}")
}

fn read(file: &str) -> Result<String, String> {
    let mut rule = String::new();
    let result = match file {
        "-" => io::stdin().take(RULE_BYTES_MAX).read_to_string(&mut rule),
        file => {
            std::fs::File::open(file).and_then(|file| file.take(RULE_BYTES_MAX).read_to_string(&mut rule))
        }
    };
    result.map_err(|error| format!("the rule '{file}' cannot be read: {error}"))?;
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_what_is_known() {
        let report = json!({
            "id": "names", "state": "waiting", "reason": "no budget", "lag": { "changes": 1200, "seconds": 3 },
            "counts": { "changes": 5, "applied": 4, "unchanged": 1, "deadLetters": 0 },
            "lastError": { "message": "retry", "time": 5 },
            "rule": { "source": { "database": "d", "container": "s" }, "target": { "database": "d", "container": "t" } },
        });
        let shown = words(&report);
        for part in [
            "names  d/s     d/t     waiting  1,200     3 s",
            "waiting: no budget",
            "last error: retry",
            "\"source\": {",
        ] {
            assert!(shown.contains(part), "{part}\nin\n{shown}");
        }
    }
}
