//! `shardlake copies verify`: begins the comparison of an index with its source, waits for its end, and prints the differences.

use std::time::Duration;

use clap::Args;
use http::Method;
use serde_json::Value;
use shardlake_admin::OperatorRequest;

use crate::number_text::thousands;
use crate::operate::{Connection, ContainerName, members, number, print, text};

const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub struct Verify {
    /// The index, as `shop/customerByEmail`
    #[arg(value_name = "DB/COLL")]
    name: ContainerName,
    /// Build the index anew if it differs from its source; it is readable meanwhile
    #[arg(long)]
    repair: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(verify: &Verify) -> Result<(), String> {
    let client = verify.connection.client()?;
    let mut report = client.send(&request(verify, Method::POST)).await?;
    while report["state"] == "running" {
        tokio::time::sleep(LOOK_EVERY).await;
        report = client.send(&request(verify, Method::GET)).await?;
    }
    print(&if verify.json { report.to_string() } else { words(&report) })?;
    let differences = number(&report["counts"]["differences"]);
    match (text(&report["state"]), differences) {
        ("done", 0) => Ok(()),
        ("done", _) if report["repairedByGeneration"].is_u64() => Ok(()),
        ("done", _) => Err(format!(
            "{} differences: build the index anew (shardlake copies verify {} --repair)",
            thousands(differences),
            name(verify)
        )),
        _ => Err(format!("the index was not compared to the end: {}", text(&report["reason"]))),
    }
}

fn name(verify: &Verify) -> String {
    let (database, container) = verify.name.names();
    format!("{database}/{container}")
}

fn request(verify: &Verify, method: Method) -> OperatorRequest {
    let (database, container) = verify.name.names();
    let query = (verify.repair && method == Method::POST).then(|| "repair=true".to_owned());
    let request = OperatorRequest::of_copies(method, &["index", database, container, "verify"]);
    OperatorRequest { query, ..request }
}

fn words(report: &Value) -> String {
    let counts = &report["counts"];
    let mut out = format!(
        "{} items compared, {} rows read, {} differences",
        thousands(number(&counts["items"])),
        thousands(number(&counts["rows"])),
        thousands(number(&counts["differences"])),
    );
    for difference in members(&report["differences"]) {
        let (kind, item, key) =
            (text(&difference["kind"]), text(&difference["item"]), &difference["partitionKey"]);
        out.push_str(&format!("\n\n{kind}: row {} of item {item} at {key}", text(&difference["row"])));
        out.push_str(&format!("\n  expected {}\n  found    {}", difference["expected"], difference["found"]));
    }
    if let Some(generation) = report["repairedByGeneration"].as_u64() {
        out.push_str(&format!(
            "\n\nthe index is built anew, as generation {generation}: verify it again when it is Active"
        ));
    }
    out
}
