//! The backup that ended last: on the page of metrics, for `shardlake status`, and in a file of the data directory, so that a restart does not make an
//! account look as if it had never been backed up.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shardlake_account::{Account, BackupOutcome, EndedBackup, LastBackups};
use shardlake_stdx::Timestamp;

use crate::config::Config;
use crate::exposition::Page;
use crate::metric_table as table;
use crate::private_file::{self, Secrecy};

pub fn write(page: &mut Page, account: &Account) {
    page.set(&table::BACKUPS_ACTIVE, account.backups().count() as u64);
    let last = account.backups().last().borrow().clone();
    if let Some(done) = &last.done {
        let seconds = |time: Timestamp| time.milliseconds() as f64 / 1e3;
        page.set(&table::LAST_BACKUP_TIME, seconds(done.ended));
        page.set(&table::LAST_BACKUP_DURATION, (seconds(done.ended) - seconds(done.began)).max(0.0));
        page.set(&table::LAST_BACKUP_SIZE, done.size_bytes);
    }
    if let Some(any) = &last.any {
        for outcome in BackupOutcome::ALL {
            page.family(&table::LAST_BACKUP_RESULT).push([outcome.name()], any.outcome == outcome);
        }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    any: Option<Entry>,
    done: Option<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    id: String,
    /// Absent in records from before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    began_ms: u64,
    ended_ms: u64,
    size_bytes: u64,
    outcome: String,
}

impl Entry {
    fn of(ended: &EndedBackup) -> Entry {
        Entry {
            id: ended.id.clone(),
            name: ended.name.clone(),
            began_ms: ended.began.milliseconds(),
            ended_ms: ended.ended.milliseconds(),
            size_bytes: ended.size_bytes,
            outcome: ended.outcome.name().to_owned(),
        }
    }

    fn ended(self) -> Option<EndedBackup> {
        Some(EndedBackup {
            outcome: BackupOutcome::of_name(&self.outcome)?,
            id: self.id,
            name: self.name,
            began: Timestamp(self.began_ms),
            ended: Timestamp(self.ended_ms),
            size_bytes: self.size_bytes,
        })
    }
}

/// The file of the record; `None` where nothing is stored on a disk of this machine.
pub fn path(config: &Config) -> Option<PathBuf> {
    config.data_dir.as_ref().map(|directory| directory.join("last-backup.json"))
}

/// Recalls the record of an earlier process. A file that cannot be understood is passed over.
pub fn recall(account: &Account, path: Option<&Path>) {
    let Some(text) = path.and_then(|path| std::fs::read(path).ok()) else { return };
    let Ok(record) = serde_json::from_slice::<Record>(&text) else { return };
    account.backups().recall_last(LastBackups {
        any: record.any.and_then(Entry::ended),
        done: record.done.and_then(Entry::ended),
    });
}

/// Writes the record whenever a backup has ended, as long as the account is there.
pub async fn keep(account: Account, path: Option<PathBuf>) {
    let Some(path) = path else { return };
    let mut last = account.backups().last();
    last.mark_unchanged();
    drop(account);
    while last.changed().await.is_ok() {
        let record = {
            let last = last.borrow_and_update();
            Record { any: last.any.as_ref().map(Entry::of), done: last.done.as_ref().map(Entry::of) }
        };
        let text = serde_json::to_vec(&record).expect("texts and numbers are valid JSON");
        let path = path.clone();
        let written =
            tokio::task::spawn_blocking(move || private_file::write(&path, &text, Secrecy::Secret)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "the record of the last backup cannot be stored: a restart forgets it");
        }
    }
}
