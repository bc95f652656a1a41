//! `shardlake analytics`: tables of columns that follow containers, shown, paused, rebuilt, compacted, verified and queried.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use serde_json::Value;
use shardlake_admin::OperatorRequest;

use super::analytics_sql::{self, Sql};
use super::arguments::Connection;
use super::client::Client;
use super::show::print;
use super::table::aligned;
use super::values::{members, number, text};
use crate::number_text::{bytes, thousands};
use crate::progress::{Quiet, Unit};

/// Between two looks at work that goes on at the server.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const WATCH_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub struct Analytics {
    #[command(subcommand)]
    order: Order,
}

#[derive(Debug, Subcommand)]
enum Order {
    /// State, lag, rows, files and columns of one table, or of all in one line each
    Status(Status),
    /// Stop following until it is resumed, also through restarts
    Pause(One),
    /// Follow a paused container again
    Resume(One),
    /// Make the table anew from the container's items; readers see the old one until then
    Rebuild(One),
    /// Join small files and remove deleted rows
    Compact(Compact),
    /// Compare every item with its row, and every row with its item; exits with 1 where they differ
    Verify(One),
    /// Copy a table for programs that cannot read it: plain Parquet, or documents as JSON lines
    ///
    /// Reads the table's folder, so that no server needs to run. Deleted rows are left out.
    Export(Export),
    /// Query the tables of a running server with SQL, joins over containers included
    ///
    /// Tables are named database.container. Queries read the newest version of each table, or that of --as-of, and cost no request units.
    /// `shardlake sql` asks the items themselves, in the language of the NoSQL API.
    Sql(Sql),
}

#[derive(Debug, Args)]
struct Status {
    /// Database and container, as `shop/customer`
    #[arg(value_name = "DB/COLL")]
    container: Option<String>,
    /// Show it again every two seconds, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct One {
    /// Database and container, as `shop/customer`
    #[arg(value_name = "DB/COLL")]
    container: String,
    #[command(flatten)]
    quiet: Quiet,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Compact {
    /// Rewrite every file that has deleted rows, for readers that know no deletion vectors
    #[arg(long)]
    purge: bool,
    #[command(flatten)]
    one: One,
}

#[derive(Debug, Args)]
struct Export {
    /// Database and container, as `shop/customer`
    #[arg(value_name = "DB/COLL")]
    container: String,
    /// New directory to write to
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Place of all tables, as --analytics-root of the server: a directory, or the URL of a folder in an object store
    #[arg(long, value_name = "PLACE", default_value = "shardlake-data/analytics")]
    root: PathBuf,
    /// Format of the files
    #[arg(long, value_enum, default_value = "parquet")]
    format: Format,
    /// Path by which the rows of each file are sorted, such as /customerId; repeatable
    #[arg(long, value_name = "PATH")]
    cluster_by: Vec<String>,
    /// A version of the table, not older than its retention [default: the newest]
    #[arg(long = "table-version", value_name = "NUMBER")]
    table_version: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Parquet,
    Jsonl,
}

pub async fn run(arguments: &Analytics) -> Result<ExitCode, String> {
    match &arguments.order {
        Order::Sql(sql) => return analytics_sql::run(sql).await,
        Order::Status(status) => show(status).await?,
        Order::Pause(one) => act(one, "pause").await?,
        Order::Resume(one) => act(one, "resume").await?,
        Order::Rebuild(one) => rebuild(one).await?,
        Order::Compact(compact) => {
            let rest = if compact.purge { "compact?purge=true" } else { "compact" };
            order(&compact.one, rest, "compacts").await?;
        }
        Order::Verify(one) => order(one, "verify", "compares rows with items").await?,
        Order::Export(export) => copy(export).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(status: &Status) -> Result<(), String> {
    let client = status.connection.client()?;
    loop {
        let report = match &status.container {
            None => client.send(&OperatorRequest::of_analytics()).await?,
            Some(container) => read(&client, container).await?,
        };
        let shown = match (&status.container, status.json) {
            (_, true) => report.to_string(),
            (None, false) => status.connection.paint().table(&table(members(&report["tables"]))),
            (Some(_), false) => words(&report),
        };
        print(&shown)?;
        if !status.watch {
            return Ok(());
        }
        tokio::time::sleep(WATCH_EVERY).await;
    }
}

async fn act(one: &One, action: &str) -> Result<(), String> {
    let report = one.connection.client()?.send(&request(Method::POST, &one.container, action)?).await?;
    print(&table(std::iter::once(&report)))
}

/// Waits for the end of the copy.
async fn rebuild(one: &One) -> Result<(), String> {
    let client = one.connection.client()?;
    let asked = client.send(&request(Method::POST, &one.container, "rebuild")?).await?;
    let before = number(&asked["figures"]["generation"]);
    let copied_before = number(&asked["counts"]["copiedItems"]);
    let progress = one.quiet.begin("rebuilds", Unit::Items, None);
    loop {
        let report = read(&client, &one.container).await?;
        let copied = number(&report["counts"]["copiedItems"]).saturating_sub(copied_before);
        progress.advance(copied.saturating_sub(progress.done()));
        let is_new = number(&report["figures"]["generation"]) > before;
        match text(&report["state"]) {
            "following" if is_new => {
                progress.finish("rebuilt");
                return print(&table(std::iter::once(&report)));
            }
            "failed" => return Err(format!("the rebuild failed: {}", text(&report["reason"]))),
            "paused" | "stopped" | "closed" => {
                return Err(format!(
                    "the table is {}: it is rebuilt once it is followed",
                    text(&report["state"])
                ));
            }
            _ => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

/// Gives an order and waits until it was carried out.
async fn order(one: &One, rest: &str, title: &str) -> Result<(), String> {
    let client = one.connection.client()?;
    let asked = client.send(&request(Method::POST, &one.container, rest)?).await?;
    let order = number(&asked["order"]);
    let progress = one.quiet.begin(title, Unit::Rows, None);
    loop {
        let report = read(&client, &one.container).await?;
        let done = members(&report["orders"]).find(|done| number(&done["number"]) >= order);
        match done {
            Some(done) if done["isRight"] == true => {
                progress.finish("done");
                return print(text(&done["outcome"]));
            }
            Some(done) => return Err(text(&done["outcome"]).to_owned()),
            None => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

#[cfg(feature = "analytics")]
async fn copy(arguments: &Export) -> Result<(), String> {
    use crate::store_url::url_of;
    use crate::tables_place::{Laws, tables_in};

    let (database, container) = named(&arguments.container)?;
    let wanted = shardlake_analytics::Export {
        as_json: arguments.format == Format::Jsonl,
        sort_by: arguments.cluster_by.clone(),
        version: arguments.table_version,
    };
    let root = match url_of(&arguments.root) {
        Some(url) => tables_in(&url, Laws::Known, None, &shardlake_stdx::Clock::System).await?,
        None => shardlake_analytics::Root::Directory(arguments.root.clone()),
    };
    let (folder, to) = (shardlake_analytics::folder_of(database, container), arguments.to.clone());
    let copying =
        tokio::task::spawn_blocking(move || shardlake_analytics::export(&root, &folder, &to, &wanted));
    let copied = copying.await.map_err(|error| error.to_string())??;
    print(&format!(
        "{} rows of version {} in {} files: {}",
        thousands(copied.rows),
        copied.version,
        thousands(copied.files as u64),
        arguments.to.display()
    ))
}

#[cfg(not(feature = "analytics"))]
async fn copy(arguments: &Export) -> Result<(), String> {
    named(&arguments.container)?;
    let Export { to, root, format, cluster_by, table_version, .. } = arguments;
    tracing::debug!(?to, ?root, ?format, ?cluster_by, ?table_version, "not copied");
    Err("this build reads no analytical tables (feature 'analytics'): use the full build, or read the table with DuckDB, Polars or Spark".into())
}

async fn read(client: &Client, container: &str) -> Result<Value, String> {
    client.send(&request(Method::GET, container, "")?).await
}

/// Database and container of an argument.
fn named(container: &str) -> Result<(&str, &str), String> {
    let named = container
        .split_once('/')
        .filter(|(database, container)| !database.is_empty() && !container.is_empty());
    named.ok_or_else(|| format!("'{container}' is no container: write DATABASE/CONTAINER"))
}

fn request(method: Method, container: &str, rest: &str) -> Result<OperatorRequest, String> {
    let (rest, query) =
        rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query.to_owned())));
    let rest = if rest.is_empty() { "analytics".to_owned() } else { format!("analytics/{rest}") };
    Ok(OperatorRequest { query, ..OperatorRequest::of_container(method, named(container)?, &rest) })
}

fn table<'r>(reports: impl Iterator<Item = &'r Value>) -> String {
    let names =
        ["container", "state", "lag", "behind", "rows", "deleted", "files", "size", "of JSON", "columns"];
    let mut rows = vec![names.map(str::to_owned)];
    for report in reports {
        let figures = &report["figures"];
        let percent = report["percent"].as_u64().map(|percent| format!(" {percent} %"));
        let (size, json_size) = (number(&figures["sizeBytes"]), number(&figures["jsonBytes"]));
        let share = (size * 100).checked_div(json_size);
        let share = share.map_or_else(|| "-".to_owned(), |percent| format!("{percent} %"));
        rows.push([
            format!("{}/{}", text(&report["database"]), text(&report["container"])),
            format!("{}{}", text(&report["state"]), percent.unwrap_or_default()),
            thousands(number(&report["lag"]["changes"])),
            format!("{} s", thousands(number(&report["lag"]["seconds"]))),
            thousands(number(&figures["rows"])),
            thousands(number(&figures["rowsDeleted"])),
            thousands(number(&figures["files"])),
            bytes(size),
            share,
            thousands(members(&figures["columns"]).count() as u64),
        ]);
    }
    aligned(&rows, 2).join("\n")
}

fn words(report: &Value) -> String {
    let mut out = table(std::iter::once(report));
    let mut line = |name: &str, value: &str| out.push_str(&format!("\n{name}: {value}"));
    if let Some(reason) = report["reason"].as_str() {
        line(text(&report["state"]), reason);
    }
    if let Some(location) = report["location"].as_str() {
        line("table", location);
    }
    if let Some(version) = report["figures"]["version"].as_u64() {
        line("version", &format!("{version} of generation {}", number(&report["figures"]["generation"])));
    }
    if let Some(message) = report["lastError"]["message"].as_str() {
        line("last error", message);
    }
    let rest = report["counts"]["restValues"].as_object();
    for (reason, count) in rest.into_iter().flatten() {
        line("values in _rest", &format!("{} ({reason})", thousands(number(count))));
    }
    for path in members(&report["counts"]["restPaths"]) {
        line("  first met at", text(path));
    }
    for column in members(&report["figures"]["columns"]) {
        let property = column["property"].as_str().map(|name| format!("  (property {name})"));
        line(
            "column",
            &format!("{} {}{}", text(&column["name"]), text(&column["type"]), property.unwrap_or_default()),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_shows_state_size_and_columns() {
        let report = json!({
            "database": "shop", "container": "customer", "state": "waiting", "reason": "the disk is full",
            "location": "/data/analytics/shop/customer", "lag": { "changes": 1200, "seconds": 3 },
            "figures": { "version": 7, "generation": 1, "rows": 5000, "rowsDeleted": 10, "files": 2, "sizeBytes": 300, "jsonBytes": 1000,
                "columns": [{ "name": "First_x0020_Name", "type": "string", "property": "First Name" }] },
            "counts": { "restValues": { "type": 4 }, "restPaths": ["/code"] },
            "lastError": { "message": "no space", "time": 5 },
        });
        let shown = words(&report);
        for part in [
            "shop/customer",
            "1,200",
            "5,000",
            "30 %",
            "waiting: the disk is full",
            "version: 7 of generation 1",
            "values in _rest: 4 (type)",
            "column: First_x0020_Name string  (property First Name)",
        ] {
            assert!(shown.contains(part), "{part}\nin\n{shown}");
        }
    }

    #[test]
    fn containers_are_named_with_their_databases() {
        for wrong in ["customer", "/customer", "shop/", ""] {
            assert!(request(Method::GET, wrong, "").is_err(), "{wrong}");
        }
        let asked = request(Method::POST, "shop/a b", "compact?purge=true").expect("a container");
        assert_eq!(asked.path, "/_shardlake/v1/dbs/shop/colls/a%20b/analytics/compact");
        assert_eq!(asked.query.as_deref(), Some("purge=true"));
    }
}
