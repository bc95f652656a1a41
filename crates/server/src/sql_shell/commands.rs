//! Statements one after the other, and the commands among them.

use clap::ValueEnum;
use serde_json::Value;

use super::answer::Format;
use super::session::{Flow, Session, print_error};
use super::statements::Statement;
use crate::data::{Place, partition_key};
use crate::number_text::printable;
use crate::operate::{aligned, bytes, counted, thousands};

const HELP: &str = "\
SELECT …;                     run a query; it may have several lines and ends with ;
use DATABASE/CONTAINER        choose the container of the queries
use DATABASE                  choose the database alone; names with spaces are in double quotes
show databases                list the databases
show containers               list the containers of the database, or all
describe [DATABASE/CONTAINER] partition key, throughput, size, indexing
key JSON | key off            ask one logical partition only, or all again
format table|json|jsonl|csv   how rows are printed
limit ROWS                    rows that a query fetches at most, 0 for all
more                          fetch on where the limit has ended the last query
help, exit                    a backslash in front is allowed: \\help
Tab completes, Ctrl-R searches the history, Ctrl-C cancels a query or an input, Ctrl-D ends the shell.
";

/// Runs a statement. Refusals are printed; an error ends the session.
pub async fn execute(session: &mut Session, statement: &Statement) -> Result<Flow, String> {
    match statement {
        Statement::Query(text) => session.query(text).await,
        Statement::Command(words) => {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            Ok(command(session, &words).await.unwrap_or_else(|message| {
                print_error(&format!("error: {message}\n"));
                Flow::Failed
            }))
        }
    }
}

async fn command(session: &mut Session, words: &[&str]) -> Result<Flow, String> {
    match words {
        ["exit" | "quit" | "q"] => return Ok(Flow::Exit),
        ["help" | "h" | "?"] => session.print(HELP)?,
        ["use", names @ ..] => choose(session, names).await?,
        ["show", kind] => show(session, kind).await?,
        ["describe" | "d"] => {
            let place = session.place.clone();
            describe(session, &place).await?;
        }
        ["describe" | "d", names @ ..] => {
            let place = place_of(session, &names.join(" ").replace('"', ""))?;
            describe(session, &place).await?;
        }
        ["format", name] => {
            session.look.format = Format::from_str(name, true)
                .map_err(|_| format!("there is no format '{name}': table, json, jsonl or csv"))?;
        }
        ["limit", rows] => {
            let rows = rows.parse().map_err(|_| format!("'{rows}' is no number of rows"))?;
            session.limit = Some(rows);
        }
        ["key", "off"] => session.partition_key = None,
        ["key", parts @ ..] if !parts.is_empty() => {
            session.partition_key = Some(partition_key(&parts.join(" "))?);
        }
        ["more"] => return session.more().await,
        [] => {}
        [first, ..] => return Err(format!("'{first}' is no command of this form: `help` lists them")),
    }
    Ok(Flow::Continue)
}

async fn choose(session: &mut Session, names: &[&str]) -> Result<(), String> {
    // Names with spaces are in double quotes.
    let quoted = names.join(" ");
    let unquoted = quoted.replace('"', "");
    let names = if unquoted == quoted { names } else { &[unquoted.as_str()] };
    let place = match names {
        [database, container] => {
            Place { database: (*database).to_owned(), container: (*container).to_owned() }
        }
        [name] if name.contains('/') => place_of(session, name)?,
        // A single name is a database, or a container of the database in use.
        [name] => {
            let databases = session.client.databases().await?;
            match databases.iter().any(|database| database == name) {
                true => Place { database: (*name).to_owned(), container: String::new() },
                false => place_of(session, name)?,
            }
        }
        _ => return Err("write `use DATABASE/CONTAINER`".to_owned()),
    };
    if !place.container.is_empty() {
        session.client.existing(&place).await?;
    }
    session.place = place;
    Ok(())
}

/// `database/container`, or a container of the database in use.
fn place_of(session: &Session, name: &str) -> Result<Place, String> {
    match name.split_once('/') {
        Some((database, container)) if !database.is_empty() && !container.is_empty() => {
            Ok(Place { database: database.to_owned(), container: container.to_owned() })
        }
        None if !session.place.database.is_empty() => {
            Ok(Place { database: session.place.database.clone(), container: name.to_owned() })
        }
        _ => Err(format!(
            "there is no database '{name}': `show databases` lists them, and containers are written DATABASE/CONTAINER"
        )),
    }
}

async fn show(session: &Session, kind: &str) -> Result<(), String> {
    let lines = match kind.to_ascii_lowercase().as_str() {
        "databases" => session.client.databases().await?,
        "containers" if session.place.database.is_empty() => {
            session.client.places().await?.iter().map(Place::to_string).collect()
        }
        "containers" => session.client.containers(&session.place.database).await?,
        _ => return Err("write `show databases` or `show containers`".to_owned()),
    };
    let text = match lines.is_empty() {
        true => format!("no {kind}\n"),
        false => lines.join("\n") + "\n",
    };
    session.print(&printable(&text))
}

async fn describe(session: &Session, place: &Place) -> Result<(), String> {
    if place.database.is_empty() || place.container.is_empty() {
        return Err("no container is chosen: write `describe DATABASE/CONTAINER`".to_owned());
    }
    let definition = session.client.existing(place).await?;
    let report = session.client.report(place).await?;
    let text = description(place, &definition.0, &definition.partition_key_paths(), &report);
    session.print(&printable(&text))
}

fn description(place: &Place, definition: &Value, paths: &[String], report: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let length = |value: &Value| value.as_array().map_or(0, Vec::len) as u64;
    let row = |name: &str, text: String| [name.to_owned(), text];
    let policy = &definition["indexingPolicy"];
    let excluded: Vec<&str> = policy["excludedPaths"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry["path"].as_str())
        .filter(|path| *path != "/\"_etag\"/?")
        .collect();
    let included: Vec<&str> = policy["includedPaths"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry["path"].as_str())
        .collect();
    let throughput = &report["throughput"];
    let units = match throughput["ruPerSecond"].as_u64() {
        Some(units) => format!(
            "{} RU/s, {}{}",
            thousands(units),
            throughput["mode"].as_str().unwrap_or_default(),
            if throughput["sharedByDatabase"] == true { ", shared by the database" } else { "" }
        ),
        None => throughput["mode"].as_str().unwrap_or("-").to_owned(),
    };
    let mut rows = vec![
        row("container", place.to_string()),
        row("partition key", paths.join(", ")),
        row("throughput", units),
        row("partitions", thousands(length(&report["partitions"]))),
        row("items", thousands(number(&report["items"]))),
        row("size", bytes(number(&report["sizeBytes"]))),
        row("indexing", policy["indexingMode"].as_str().unwrap_or("-").to_owned()),
        row("  included", or_none(&included)),
        row("  excluded", or_none(&excluded)),
    ];
    for (name, noun) in [("compositeIndexes", "composite index"), ("spatialIndexes", "spatial index")] {
        let found = length(&policy[name]);
        if found > 0 {
            let noun = if found == 1 { noun.to_owned() } else { format!("{noun}es") };
            rows.push(row("", format!("{found} {noun}")));
        }
    }
    let unique = length(&definition["uniqueKeyPolicy"]["uniqueKeys"]);
    if unique > 0 {
        rows.push(row("unique keys", thousands(unique)));
    }
    match definition["defaultTtl"].as_i64() {
        None => {}
        Some(-1) => rows.push(row("time to live", "by item".to_owned())),
        Some(seconds) => {
            let seconds = u64::try_from(seconds).unwrap_or_default();
            rows.push(row("time to live", counted(seconds, "second")));
        }
    }
    aligned(&rows, 2).into_iter().map(|line| line + "\n").collect()
}

fn or_none(paths: &[&str]) -> String {
    if paths.is_empty() { "none".to_owned() } else { paths.join(", ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_description_has_key_and_indexing() {
        let place = Place { database: "shop".into(), container: "orders".into() };
        let definition = json!({
            "indexingPolicy": {
                "indexingMode": "consistent",
                "includedPaths": [{ "path": "/*" }],
                "excludedPaths": [{ "path": "/\"_etag\"/?" }, { "path": "/blob/*" }],
                "compositeIndexes": [[], []],
            },
            "defaultTtl": 60,
        });
        let report = json!({
            "throughput": { "mode": "manual", "ruPerSecond": 1000 },
            "partitions": [{}, {}], "items": 1200, "sizeBytes": 2048,
        });
        assert_eq!(
            description(&place, &definition, &["/customer".to_owned()], &report),
            "\
container      shop/orders
partition key  /customer
throughput     1,000 RU/s, manual
partitions     2
items          1,200
size           2.0 KiB
indexing       consistent
  included     /*
  excluded     /blob/*
               2 composite indexes
time to live   60 seconds
"
        );
    }
}
