//! The backup that ended last: for logs, metrics and the records of operators.

use shardlake_stdx::Timestamp;

/// How a backup ended, as far as this server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupOutcome {
    Done,
    /// Its client reported a failure.
    Failed,
    /// Its client asked for nothing any more.
    Abandoned,
}

impl BackupOutcome {
    pub const ALL: [BackupOutcome; 3] =
        [BackupOutcome::Done, BackupOutcome::Failed, BackupOutcome::Abandoned];

    pub fn name(self) -> &'static str {
        match self {
            BackupOutcome::Done => "done",
            BackupOutcome::Failed => "failed",
            BackupOutcome::Abandoned => "abandoned",
        }
    }

    pub fn of_name(name: &str) -> Option<BackupOutcome> {
        BackupOutcome::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}

/// A backup that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedBackup {
    pub id: String,
    /// The name under which its client has stored it; `None` where the client has not reported one.
    pub name: Option<String>,
    pub began: Timestamp,
    pub ended: Timestamp,
    /// Size of all of its files.
    pub size_bytes: u64,
    pub outcome: BackupOutcome,
}

/// The last backups of an account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LastBackups {
    pub any: Option<EndedBackup>,
    /// The last one that was completed.
    pub done: Option<EndedBackup>,
}

impl LastBackups {
    pub fn note(&mut self, ended: EndedBackup) {
        if ended.outcome == BackupOutcome::Done {
            self.done = Some(ended.clone());
        }
        self.any = Some(ended);
    }
}
