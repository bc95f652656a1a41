//! States that are kept for a backup: begin, read piece by piece, end.
//!
//! | request below `backups` | answer |
//! |---|---|
//! | `POST` | 201: the state's id, time, partitions, and the files of each shard in the best order to restore them |
//! | `GET {id}/shards/{shard}/files/{file}/{offset}` | up to 2 MiB of a file from that place on; nothing past its end |
//! | `DELETE {id}` | 204: its files are dropped |
//!
//! `{shard}` and `{file}` are positions in the answer to the `POST`: no path of the server is ever
//! sent to it. All of it needs a read-write key, since a backup also holds data that a read-only
//! key may not see, for example permissions.

use http::StatusCode;
use serde_json::{Value, json};
use shardlake_account::{BACKUP_PIECE_BYTES_MAX, BackupOutcome, KeptState, MomentOfPartition, Stamp};
use shardlake_model::{Error, Result};

use crate::pieces::written;
use crate::{OperatorCall, OperatorReply};

/// Characters of a backup's name.
const NAME_CHARS_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BackupTarget {
    All,
    One(String),
    Piece { id: String, shard: usize, file: usize, offset: u64 },
}

impl BackupTarget {
    /// The target that the path segments after `backups` address.
    pub fn of(segments: &[&str]) -> Result<Option<Self>> {
        Ok(match segments {
            [] => Some(BackupTarget::All),
            [id] if !id.is_empty() => Some(BackupTarget::One((*id).to_owned())),
            [id, "shards", shard, "files", file, offset] => Some(BackupTarget::Piece {
                id: (*id).to_owned(),
                shard: number(shard)?,
                file: number(file)?,
                offset: number(offset)?,
            }),
            _ => None,
        })
    }
}

fn outcome(name: &str) -> Result<BackupOutcome> {
    let outcome = BackupOutcome::of_name(name).filter(|outcome| *outcome != BackupOutcome::Abandoned);
    outcome
        .ok_or_else(|| Error::bad_request(format!("the outcome of a backup is done or failed, not '{name}'")))
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N> {
    text.parse().map_err(|_| Error::bad_request(format!("'{text}' is no whole number")))
}

pub(crate) async fn serve(call: &OperatorCall<'_>, target: &BackupTarget) -> Result<OperatorReply> {
    let parameters = match (target, call.method.as_str()) {
        (BackupTarget::One(_), "DELETE") => call.address.parameters(&["outcome", "made"])?,
        _ => call.address.parameters(&[])?,
    };
    let outcome = parameters.get("outcome").map(outcome).transpose()?;
    let backups = call.account.backups();
    match (target, call.method.as_str()) {
        (BackupTarget::All, "POST") => {
            let kept = backups.begin().await?;
            Ok(OperatorReply::json(StatusCode::CREATED, written(&document(&kept))))
        }
        (BackupTarget::One(id), "DELETE") => {
            let made = parameters.get("made").map(name_of_backup).transpose()?;
            let made = made.map(str::to_owned);
            backups.end(id, outcome.map(|outcome| (outcome, made))).await?;
            Ok(OperatorReply::empty(StatusCode::NO_CONTENT))
        }
        (BackupTarget::Piece { id, shard, file, offset }, "GET") => {
            let piece = backups.read(&call.context, id, (*shard, *file, *offset)).await?;
            Ok(OperatorReply {
                body: Some(vec![piece.into()]),
                is_bytes: true,
                ..OperatorReply::empty(StatusCode::OK)
            })
        }
        _ => Err(crate::wrong_method(call)),
    }
}

/// The name of a backup, which is shown to operators.
fn name_of_backup(name: &str) -> Result<&str> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
    if is_plain && !name.is_empty() && name.len() <= NAME_CHARS_MAX {
        return Ok(name);
    }
    Err(Error::bad_request(format!("the parameter 'made' is no name of a backup: '{name}'")))
}

fn document(kept: &KeptState) -> Value {
    let file = |file: &shardlake_account::KeptFile| {
        let table = file.table.map(|checksum| format!("{checksum:032x}"));
        json!({ "path": file.path, "sizeBytes": file.size_bytes, "tableChecksum": table })
    };
    assert_eq!(kept.shards.len(), kept.moment.stamps.len(), "each shard of a state has its place in the log");
    let shards = kept.shards.iter().zip(&kept.moment.stamps).map(|(shard, stamp)| {
        let files: Vec<Value> = shard.files().iter().map(file).collect();
        json!({ "files": files, "stamp": stamp.as_ref().map(place_in_log) })
    });
    let account = kept.account.as_ref();
    json!({
        "id": kept.id,
        "timeMs": kept.time.milliseconds(),
        "version": env!("CARGO_PKG_VERSION"),
        "account": account.map(|account| &account.account),
        "isOfStore": kept.shards.iter().any(shardlake_account::KeptFiles::is_of_store),
        "pieceBytesMax": BACKUP_PIECE_BYTES_MAX,
        "partitions": kept.moment.partitions.iter().map(partition).collect::<Vec<_>>(),
        "relocations": kept.moment.relocations,
        "shards": shards.collect::<Vec<_>>(),
    })
}

/// Where the log of a shard was. Numbers of runs have 64 bits, which JSON's readers do not all keep.
fn place_in_log(stamp: &Stamp) -> Value {
    json!({
        "number": stamp.number,
        "timeMs": stamp.time.milliseconds(),
        "run": format!("{:016x}", stamp.run),
        "before": format!("{:016x}", stamp.before),
    })
}

fn partition(partition: &MomentOfPartition) -> Value {
    json!({
        "database": partition.database,
        "container": partition.container,
        "id": partition.range_id.to_string(),
        "shard": partition.shard,
        "lsn": partition.lsn,
        "writtenMs": partition.written.map(|written| written.milliseconds()),
        "items": partition.items,
        "sizeBytes": partition.size_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_backups_are_short_and_plain() {
        let longest = "x".repeat(NAME_CHARS_MAX);
        for name in ["2026-11-29T20:00:00Z-ab_c.1", longest.as_str()] {
            assert_eq!(name_of_backup(name).expect(name), name);
        }
        for name in ["", "a b", "a/b", &format!("{longest}x")] {
            assert!(name_of_backup(name).is_err(), "{name}");
        }
    }
}
