//! Output of the backup commands.

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::create::Created;
use shardlake_stdx::Timestamp;

use super::manifest::{KEY_FILE, Manifest};
use super::review::{Checked, Deleted, Listed};
use super::utc;
use crate::operate::{aligned, bytes, counted, ignore_closed, thousands};
use crate::store::StoreUrl;

/// One line, or several.
pub fn say(words: &str) -> Result<(), String> {
    ignore_closed(writeln!(io::stdout().lock(), "{}", words.trim_end()))
}

pub fn of_created(created: &Created, as_json: bool) -> String {
    let Created { manifest, new_files, new_bytes } = created;
    if as_json {
        let mut told = summary(manifest);
        told["newFiles"] = json!(new_files);
        told["newBytes"] = json!(new_bytes);
        told["relocations"] = json!(manifest.relocations);
        told["partitions"] = json!(manifest.partitions);
        return told.to_string();
    }
    let mut text = format!(
        "created {}: {} in {}, {} in {}; new are {} in {}\n",
        manifest.id,
        counted(manifest.items(), "item"),
        counted(manifest.partitions.len() as u64, "partition"),
        bytes(manifest.size_bytes()),
        counted(manifest.files.len() as u64, "file"),
        bytes(*new_bytes),
        counted(*new_files, "file"),
    );
    text += &format!("everything acknowledged before {} is in it\n", manifest.time);
    for relocation in &manifest.relocations {
        text += &format!("under way at that time: {relocation}, which goes on after a restore\n");
    }
    text
}

fn summary(manifest: &Manifest) -> Value {
    json!({
        "id": manifest.id,
        "time": manifest.time,
        "account": manifest.account,
        "shards": manifest.shards,
        "items": manifest.items(),
        "partitionCount": manifest.partitions.len(),
        "files": manifest.files.len(),
        "sizeBytes": manifest.size_bytes(),
        "holdsKeys": manifest.holds_keys(),
    })
}

pub fn of_list(listed: &[Listed], as_json: bool) -> String {
    if as_json {
        let backups: Vec<Value> = listed.iter().map(listed_json).collect();
        return json!({ "backups": backups }).to_string();
    }
    if listed.is_empty() {
        return "no backups".to_owned();
    }
    let mut rows = vec![["id", "time", "items", "partitions", "size", "alone", "state"].map(str::to_owned)];
    for listed in listed {
        rows.push(match &listed.manifest {
            Ok(manifest) => [
                listed.id.to_string(),
                manifest.time.clone(),
                thousands(manifest.items()),
                thousands(manifest.partitions.len() as u64),
                bytes(manifest.size_bytes()),
                bytes(listed.own_bytes),
                state(listed),
            ],
            Err(_) => {
                let unknown = || "-".to_owned();
                [listed.id.to_string(), unknown(), unknown(), unknown(), unknown(), unknown(), state(listed)]
            }
        });
    }
    aligned(&rows, 2).join("\n")
}

fn state(listed: &Listed) -> String {
    match &listed.manifest {
        Err(what) => format!("damaged: {what}"),
        Ok(_) if listed.missing_files > 0 => {
            format!("incomplete: {} missing or of another size", counted(listed.missing_files, "file"))
        }
        Ok(_) => "complete".to_owned(),
    }
}

fn listed_json(listed: &Listed) -> Value {
    let is_complete = listed.manifest.is_ok() && listed.missing_files == 0;
    match &listed.manifest {
        Ok(manifest) => {
            let mut told = summary(manifest);
            told["aloneBytes"] = json!(listed.own_bytes);
            told["missingFiles"] = json!(listed.missing_files);
            told["complete"] = json!(is_complete);
            told
        }
        Err(what) => json!({ "id": listed.id, "complete": false, "damage": what }),
    }
}

pub fn of_checked(checked: &Checked, as_json: bool) -> String {
    if as_json {
        return checked.to_json().to_string();
    }
    let mut text: String = checked.damages.iter().map(|damage| format!("DAMAGED {damage}\n")).collect();
    text += &format!(
        "{}, {} in {} read: ",
        counted(checked.backups, "backup"),
        bytes(checked.size_bytes),
        counted(checked.files, "file")
    );
    text + &match checked.damages.len() {
        0 => "everything is as it was written".to_owned(),
        count => format!("{} found", counted(count as u64, "damage")),
    }
}

pub fn of_moment(time: Timestamp) -> String {
    format!(
        "everything acknowledged before {} is in it, and nothing that was sent later",
        utc::to_the_millisecond(time)
    )
}

pub fn of_restored_to_store(manifest: &Manifest, url: &StoreUrl) -> String {
    let keys = match manifest.holds_keys() {
        true => "account keys are below it, too",
        false => {
            "account keys and certificates are in no backup: start with the data directory that has them, or clients need new ones"
        }
    };
    format!(
        "restored {}, of {}: {} in {}\nnext: shardlake serve --store {url}\n{keys}",
        manifest.id,
        manifest.time,
        counted(manifest.items(), "item"),
        counted(manifest.partitions.len() as u64, "partition"),
    )
}

pub fn of_restored(manifest: &Manifest, data_dir: &Path) -> String {
    let keys = match manifest.holds_keys() {
        true => format!("account keys are in '{}'", data_dir.join(KEY_FILE).display()),
        false => {
            "account keys and certificates are in no backup: bring keys.json and tls/ back yourself, or clients need new ones".to_owned()
        }
    };
    format!(
        "restored {}, of {}: {} in {}\nnext: shardlake serve --data-dir {}\n{keys}",
        manifest.id,
        manifest.time,
        counted(manifest.items(), "item"),
        counted(manifest.partitions.len() as u64, "partition"),
        data_dir.display(),
    )
}

pub fn of_deleted(deleted: &Deleted) -> String {
    let mut text = match deleted.ids.as_slice() {
        [] => "nothing to delete".to_owned(),
        ids => {
            let ids: Vec<&str> = ids.iter().map(super::BackupId::as_str).collect();
            format!("deleted {}: {} are free", ids.join(", "), bytes(deleted.freed_bytes))
        }
    };
    if !deleted.unknown.is_empty() {
        let unknown: Vec<&str> = deleted.unknown.iter().map(super::BackupId::as_str).collect();
        text += &format!(
            "\nno shared files were removed: {} is damaged, and nobody knows which it needs; delete it, too, to free them",
            unknown.join(", ")
        );
    }
    text
}
