//! `shardlake copies`: global secondary indexes and functions, listed, created, watched, paused, resumed, built anew and deleted.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};
use shardlake_admin::OperatorRequest;

use crate::copies_functions::{self as functions, CopyName};
use crate::copies_settings::{self, Setting};
use crate::data::{Address, DataClient, Request};
use crate::number_text::thousands;
use crate::operate::{Connection, ContainerName, aligned, members, number, print, text};

const WATCH_EVERY: Duration = Duration::from_secs(2);
/// Partition keys have at most three paths.
const KEY_PATHS_MAX: usize = 3;

#[derive(Debug, Args)]
pub struct Copies {
    #[command(subcommand)]
    order: Order,
}

#[derive(Debug, Subcommand)]
enum Order {
    /// Every copy in one line
    List(List),
    /// State, lag, rows and refused items of a copy
    Status(Status),
    /// Create a global secondary index: a container whose rows follow from the items of its source
    Create(Create),
    /// Create a function over the changes of a container, or replace its definition
    Put(functions::Put),
    /// Stop a copy until it is resumed, also through restarts; the source's change log is kept for it, within bounds
    Pause(Named),
    /// Let a paused copy continue where it stopped
    Resume(Named),
    /// Build an index anew from its source; it is readable meanwhile
    Rebuild(One),
    /// Change settings of an index: reads, expired, charge
    Set(Set),
    /// Compare an index with its definition over its source, row by row, while clients write; fails where they differ
    Verify(crate::copies_verification::Verify),
    /// Run a function on the last changes of its source, and show its writes without writing them
    Try(functions::Try),
    /// The latest lines that a function logged
    Log(functions::Log),
    /// Give a function the changes of its source again, from a time on
    Replay(functions::Replay),
    /// Put an earlier code of a function as a new version
    Rollback(functions::Rollback),
    /// Delete a function, or an index with its container; the source stays as it is
    Delete(Named),
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
struct Status {
    /// The index, as `shop/customerByEmail`, or the id of a function
    #[arg(value_name = "NAME")]
    name: CopyName,
    /// Show it again every two seconds, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// List the rows of a unique index beyond the first of their key
    #[arg(long, conflicts_with = "watch")]
    duplicates: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Set {
    /// The index, as `shop/customerByEmail`
    #[arg(value_name = "DB/COLL")]
    name: ContainerName,
    /// Settings such as reads=caughtUp, expired=keep, charge=none
    #[arg(value_name = "NAME=VALUE", required = true)]
    settings: Vec<Setting>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct One {
    /// The index, as `shop/customerByEmail`
    #[arg(value_name = "DB/COLL")]
    name: ContainerName,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Named {
    /// The index, as `shop/customerByEmail`, or the id of a function
    #[arg(value_name = "NAME")]
    name: CopyName,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Create {
    /// The new index, as `shop/customerByEmail`
    #[arg(value_name = "DB/COLL")]
    name: ContainerName,
    /// The container that it follows, of the same database
    #[arg(long, value_name = "COLL")]
    source: String,
    /// Path of the index's partition key, such as /emailAddress; up to three times for a hierarchical key
    #[arg(long, value_name = "PATH", required = true)]
    partition_key: Vec<String>,
    /// The query that makes its rows, such as 'SELECT c.customerId, c.emailAddress FROM c'
    #[arg(long, value_name = "QUERY")]
    definition: String,
    /// A setting of the index, such as unique=true or reads=caughtUp; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<Setting>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(arguments: &Copies) -> Result<ExitCode, String> {
    carry_out(&arguments.order).await.map(|()| ExitCode::SUCCESS)
}

async fn carry_out(order: &Order) -> Result<(), String> {
    match order {
        Order::List(list) => {
            let request = OperatorRequest::of_copies(Method::GET, &[]);
            let report = list.connection.client()?.send(&request).await?;
            let shown = match list.json {
                true => report.to_string(),
                false => list.connection.paint().table(&table(members(&report["copies"]))),
            };
            print(&shown)
        }
        Order::Status(status) => show(status).await,
        Order::Create(create) => make(create).await,
        Order::Pause(one) => act(one, "pause").await,
        Order::Resume(one) => act(one, "resume").await,
        Order::Rebuild(one) => {
            let request = request(Method::POST, &one.name, Some("rebuild"));
            print(&shown(&one.connection.client()?.send(&request).await?, one.json))
        }
        Order::Put(put) => functions::put(put).await.and_then(shown_function),
        Order::Replay(replay) => functions::replay(replay).await.and_then(shown_function),
        Order::Rollback(rollback) => functions::rollback(rollback).await.and_then(shown_function),
        Order::Try(trial) => functions::try_last(trial).await,
        Order::Log(log) => functions::log(log).await,
        Order::Set(set) => {
            let report =
                set.connection.client()?.send(&copies_settings::request(&set.name, &set.settings)).await?;
            print(&shown(&report, set.json))
        }
        Order::Verify(verify) => crate::copies_verification::run(verify).await,
        Order::Delete(one) => {
            let name = delete(one).await?;
            print(&if one.json { json!({ "deleted": name }).to_string() } else { format!("deleted: {name}") })
        }
    }
}

/// Returns the name of the deleted copy.
async fn delete(one: &Named) -> Result<String, String> {
    let client = one.connection.client()?;
    let name = match &one.name {
        CopyName::Index(name) => name,
        CopyName::Function(id) => {
            client.send(&one.name.request(Method::DELETE, None)).await?;
            return Ok(id.clone());
        }
    };
    // The data plane deletes any container: this command only indexes.
    client.send(&one.name.request(Method::GET, None)).await?;
    let (database, container) = name.names();
    let request = Request { method: Method::DELETE, ..Request::get(Address::container(database, container)) };
    DataClient::new(client).send(&request).await.map_err(|failure| failure.to_string())?;
    Ok(format!("{database}/{container}"))
}

fn shown_function((report, is_json): (Value, bool)) -> Result<(), String> {
    print(&shown(&report, is_json))
}

async fn show(status: &Status) -> Result<(), String> {
    let client = status.connection.client()?;
    if status.duplicates {
        let found = client.send(&status.name.request(Method::GET, Some("duplicates"))).await?;
        return print(&if status.json { found.to_string() } else { listed(&found) });
    }
    loop {
        let report = client.send(&status.name.request(Method::GET, None)).await?;
        print(&shown(&report, status.json))?;
        if !status.watch {
            return Ok(());
        }
        tokio::time::sleep(WATCH_EVERY).await;
    }
}

async fn act(one: &Named, action: &str) -> Result<(), String> {
    let report = one.connection.client()?.send(&one.name.request(Method::POST, Some(action))).await?;
    print(&shown(&report, one.json))
}

async fn make(create: &Create) -> Result<(), String> {
    if create.partition_key.len() > KEY_PATHS_MAX {
        return Err(format!(
            "a partition key has at most {KEY_PATHS_MAX} paths: give --partition-key less often"
        ));
    }
    let (database, container) = create.name.names();
    let kind = if create.partition_key.len() > 1 { "MultiHash" } else { "Hash" };
    let mut index = json!({ "sourceCollectionId": create.source, "definition": create.definition });
    if !create.set.is_empty() {
        index["shardlake"] = Value::Object(copies_settings::members_of(&create.set));
    }
    let definition = json!({
        "id": container,
        "partitionKey": { "paths": create.partition_key, "kind": kind, "version": 2 },
        "globalSecondaryIndexDefinition": index,
    });
    let request = Request::post(Address::containers(database), definition.to_string());
    let created = DataClient::new(create.connection.client()?).send(&request).await;
    created.map_err(|failure| failure.to_string())?;
    let report = create.connection.client()?.send(&self::request(Method::GET, &create.name, None)).await?;
    print(&shown(&report, create.json))
}

fn request(method: Method, name: &ContainerName, action: Option<&str>) -> OperatorRequest {
    let (database, container) = name.names();
    let segments: Vec<&str> = ["index", database, container].into_iter().chain(action).collect();
    OperatorRequest::of_copies(method, &segments)
}

fn shown(report: &Value, is_json: bool) -> String {
    if is_json { report.to_string() } else { words(report) }
}

/// Rows beyond the first of their key.
fn listed(found: &Value) -> String {
    let mut out = format!("{} duplicates", thousands(number(&found["count"])));
    for row in members(&found["duplicates"]) {
        out.push_str(&format!(
            "\n{} {} of item {}",
            row["partitionKey"],
            text(&row["id"]),
            text(&row["_id"])
        ));
    }
    out
}

fn table<'a>(reports: impl Iterator<Item = &'a Value>) -> String {
    let names = ["name", "kind", "source", "status", "lag", "behind", "rows", "refused"];
    let mut rows = vec![names.map(str::to_owned)];
    for report in reports {
        let is_function = report["kind"] == "function";
        let state = match report["percent"].as_u64() {
            Some(percent) => format!("{} {percent} %", text(&report["status"])),
            None => text(&report["status"]).to_owned(),
        };
        rows.push([
            text(&report["name"]).to_owned(),
            text(&report["kind"]).to_owned(),
            format!("{}/{}", text(&report["database"]), text(&report["source"])),
            state,
            thousands(number(&report["lag"]["changes"])),
            format!("{} s", thousands(number(&report["lag"]["seconds"]))),
            thousands(number(if is_function { &report["counts"]["written"] } else { &report["rows"] })),
            thousands(number(&report["counts"][if is_function { "deadLetters" } else { "refused" }])),
        ]);
    }
    aligned(&rows, 4).join("\n")
}

fn words(report: &Value) -> String {
    let mut out = table(std::iter::once(report));
    match report["kind"] == "function" {
        true => out.push_str(&format!("\n\n{}", functions::words(report))),
        false => out.push_str(&format!("\n\n{}", text(&report["definition"]))),
    }
    if let Some(duplicates) = report["counts"]["duplicates"].as_u64() {
        out.push_str(&format!("\n\nunique, with {} duplicates", thousands(duplicates)));
    }
    if let Some(reason) = report["reason"].as_str() {
        out.push_str(&format!("\n\n{}: {reason}", text(&report["status"])));
    }
    if let Some(message) = report["lastError"]["message"].as_str() {
        out.push_str(&format!("\n\nlast error: {message}"));
    }
    for refused in members(&report["refused"]) {
        let (key, id) = (&refused["partitionKey"], text(&refused["id"]));
        out.push_str(&format!("\nrefused: {key} {id}: {}", text(&refused["reason"])));
    }
    out
}
