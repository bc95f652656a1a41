//! The commands that change something, each of which waits for its end.

use std::time::Duration;

use http::Method;
use serde_json::{Map, Value, json};
use shardlake_admin::OperatorRequest;

use super::arguments::{Abort, ContainerName, Merge, Move, Redistribute, Split};
use super::client::Client;
use super::descriptions::counted;
use super::show::{self, print};
use super::table;
use crate::progress::{Progress, Unit};

/// Between two looks at a relocation.
/// The first polls follow one another quickly, since a small partition is done within milliseconds.
const LOOK_FIRST: Duration = Duration::from_millis(5);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Looks after the new routing is in force, until the server has cleaned up and reports how it went.
const LOOKS_AFTER: u32 = 50;

pub async fn split(arguments: &Split) -> Result<(), String> {
    let rest = format!("partitions/{}/split", arguments.range_id);
    let client = arguments.connection.client()?;
    relocate(&client, &arguments.container, &rest, &json!({ "at": arguments.at })).await
}

pub async fn merge(arguments: &Merge) -> Result<(), String> {
    let client = arguments.connection.client()?;
    let body = json!({ "ids": arguments.range_ids });
    relocate(&client, &arguments.container, "partitions/merge", &body).await
}

pub async fn move_partition(arguments: &Move) -> Result<(), String> {
    let rest = format!("partitions/{}/move", arguments.range_id);
    let client = arguments.connection.client()?;
    relocate(&client, &arguments.container, &rest, &json!({ "shard": arguments.shard })).await
}

pub async fn abort(arguments: &Abort) -> Result<(), String> {
    let container = arguments.container.names();
    let request = OperatorRequest::of_container(Method::POST, container, "relocation/abort");
    let answer = arguments.connection.client()?.send(&request).await?;
    print(match answer["aborted"].as_bool() {
        Some(true) => "given up: the partitions are as they were",
        _ => "nothing to give up: no relocation is in progress",
    })
}

pub async fn redistribute(arguments: &Redistribute) -> Result<(), String> {
    let mut shares = Map::new();
    for share in &arguments.shares {
        if shares.insert(share.range_id.to_string(), json!(share.ru_per_second)).is_some() {
            return Err(format!("partition {} is named twice", share.range_id));
        }
    }
    let body = json!({ "shares": shares, "resize": arguments.resize });
    let container = arguments.container.names();
    let request = OperatorRequest::of_container(Method::PUT, container, "throughput");
    let report = arguments.connection.client()?.send(&request.with_body(body.to_string())).await?;
    print(table::of_container(&report).trim_end())
}

/// Begins a relocation and follows it.
async fn relocate(
    client: &Client,
    container: &ContainerName,
    rest: &str,
    body: &Value,
) -> Result<(), String> {
    let request = OperatorRequest::of_container(Method::POST, container.names(), rest);
    let begun = client.send(&request.with_body(body.to_string())).await?;
    let generation = begun["generation"].as_u64().unwrap_or_default();
    let (mut looks_after, mut rest) = (0, LOOK_FIRST);
    let mut progress = None;
    loop {
        let report = client.send(&show::request(container, None)).await?;
        let last = &report["lastRelocation"];
        show_progress(&mut progress, &report["relocation"]);
        if report["relocation"].is_null() {
            // The last line is the result.
            progress = None;
            let is_done = report["generation"].as_u64().unwrap_or_default() > generation;
            let is_told = last["targets"] == begun["targets"] && last["kind"] == begun["kind"];
            if is_done && (is_told || looks_after == LOOKS_AFTER) {
                return print(&words_of_end(&begun, last));
            }
            if !is_done && looks_after == LOOKS_AFTER {
                let reason = last["reason"].as_str().unwrap_or("it was given up");
                return Err(format!("the {} did not happen: {reason}", text(&begun["kind"])));
            }
            looks_after += 1;
        }
        tokio::time::sleep(rest).await;
        // Proportional wait: the end of an operation of one second is seen at most a sixteenth of a second late.
        rest = (rest + rest / 16).min(LOOK_EVERY);
    }
}

/// Counts the items that the targets have, from the first report of the relocation on.
fn show_progress(progress: &mut Option<Progress>, relocation: &Value) {
    let (Some(items), Some(copied)) = (relocation["items"].as_u64(), relocation["itemsCopied"].as_u64())
    else {
        return;
    };
    let progress =
        progress.get_or_insert_with(|| Progress::begin(text(&relocation["kind"]), Unit::Items, Some(items)));
    progress.advance(copied.saturating_sub(progress.done()));
}

fn words_of_end(begun: &Value, last: &Value) -> String {
    let targets = begun["targets"].as_array().into_iter().flatten();
    let targets: Vec<&str> = targets.map(text).collect();
    format!(
        "{} done: {} {}, {} in {} ms, writers held for {:.1} ms",
        text(&begun["kind"]),
        if targets.len() == 1 { "partition" } else { "partitions" },
        targets.join(" and "),
        counted(last["items"].as_u64().unwrap_or_default(), "item"),
        last["durationMs"].as_u64().unwrap_or_default(),
        last["pauseMs"].as_f64().unwrap_or_default(),
    )
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_begins_with_the_first_report_and_counts_copied_items() {
        let report = |copied: u64| json!({ "kind": "split", "items": 10, "itemsCopied": copied });
        let mut progress = None;
        show_progress(&mut progress, &Value::Null);
        assert!(progress.is_none(), "nothing is in progress");
        // An attempt that begins again has fewer items.
        for (copied, done) in [(0, 0), (4, 4), (4, 4), (2, 4), (10, 10)] {
            show_progress(&mut progress, &report(copied));
            assert_eq!(progress.as_ref().map(Progress::done), Some(done), "{copied}");
        }
    }
}
