//! `shardlake verify`: reads everything that a server stored and checks its consistency.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use shardlake_account::{Shards, VerifyReport, describe_moment};
use shardlake_storage::{InspectionReport, Shard};

use crate::backup::Subject;
use crate::operate::counted;
use crate::progress::{Progress, Unit};
use crate::shards::{self, Inspected};

/// The subject is never changed: all writes go below `scratch`. The exit code is 0 only when nothing is wrong.
pub async fn verify(subject: Subject<'_>, scratch: &Path, as_json: bool) -> Result<ExitCode, String> {
    let (shards, inspected) = match subject {
        Subject::Directory(directory) => shards::inspect(directory, scratch).await?,
        Subject::Shards(shards, places) => {
            let inspected = |directory| Inspected { directory, report: InspectionReport::default() };
            (shards, places.into_iter().map(inspected).collect())
        }
    };
    let unreadable = |error: shardlake_model::Error| format!("the data cannot be read: {error}");
    let progress = Progress::begin("verify", Unit::Items, items_of(&shards).await);
    let report = shardlake_account::verify_shards(&shards, &|items| progress.advance(items)).await;
    progress.finish("");
    let report = report.map_err(unreadable)?;
    drop(shards);
    let text =
        if as_json { format!("{:#}\n", to_json(&report, &inspected)) } else { to_text(&report, &inspected) };
    io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .map_err(|error| format!("the report cannot be printed: {error}"))?;
    Ok(if report.problem_count() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The number of items by the catalog; `None` where that is damaged, which the report will have.
async fn items_of(shards: &Shards) -> Option<u64> {
    let views: Vec<_> = shards.iter().map(Shard::view).collect();
    let moment = describe_moment(&views).await.ok()?;
    Some(moment.partitions.iter().map(|partition| partition.items).sum())
}

fn shard_to_json(inspected: &Inspected) -> Value {
    let torn = inspected
        .report
        .torn
        .as_ref()
        .map(|torn| json!({ "journal": torn.journal, "at": torn.at, "sizeBytes": torn.size_bytes }));
    json!({ "directory": inspected.directory, "tornWrite": torn, "tornFiles": inspected.report.torn_files })
}

fn shard_to_text(inspected: &Inspected) -> String {
    let mut text = String::new();
    if let Some(torn) = &inspected.report.torn {
        text += &format!(
            "{}: the last write is torn, and no sync of it is recorded: the next start cuts off {} bytes\n",
            torn.journal.display(),
            torn.size_bytes
        );
    }
    if inspected.report.torn_files > 0 {
        text += &format!(
            "{}: earlier starts cut off torn writes and kept them: {} files *.torn-at-*\n",
            inspected.directory.display(),
            inspected.report.torn_files
        );
    }
    text
}

fn to_json(report: &VerifyReport, inspected: &[Inspected]) -> Value {
    let partitions: Vec<Value> = report
        .partitions
        .iter()
        .map(|partition| {
            json!({
                "name": partition.name,
                "items": partition.report.items,
                "logEntries": partition.report.log_entries,
                "uniqueKeys": partition.report.unique_keys,
                "postings": partition.report.postings,
                "lastLsn": partition.report.last_lsn,
                "problemCount": partition.report.problem_count,
                "problems": partition.report.problems,
            })
        })
        .collect();
    json!({
        "databases": report.databases,
        "containers": report.containers,
        "scripts": report.scripts,
        "offers": report.offers,
        "shards": inspected.iter().map(shard_to_json).collect::<Vec<_>>(),
        "partitions": partitions,
        "problemCount": report.problem_count(),
        "problems": report.problems,
    })
}

fn to_text(report: &VerifyReport, inspected: &[Inspected]) -> String {
    let mut text = format!(
        "{}, {}, {}\n",
        counted(report.databases, "database"),
        counted(report.containers, "container"),
        counted(report.partitions.len() as u64, "partition")
    );
    text.extend(inspected.iter().map(shard_to_text));
    for partition in &report.partitions {
        let checked = &partition.report;
        text += &format!(
            "{}: {}, {} in the log, last LSN {}\n",
            partition.name,
            counted(checked.items, "item"),
            counted(checked.log_entries, "change"),
            checked.last_lsn
        );
        text.extend(checked.problems.iter().map(|problem| format!("  PROBLEM: {problem}\n")));
        let unlisted = checked.problem_count.saturating_sub(checked.problems.len() as u64);
        if unlisted > 0 {
            text += &format!("  and {unlisted} further problems\n");
        }
    }
    text.extend(report.problems.iter().map(|problem| format!("PROBLEM: {problem}\n")));
    text + &match report.problem_count() {
        0 => "everything agrees\n".to_owned(),
        count => format!(
            "{count} problems: restore from a backup, and keep this directory for the investigation\n"
        ),
    }
}
