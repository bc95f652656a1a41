//! Source of a backup: a running server, or the data directory or the store of a stopped one.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use shardlake_account::{
    AccountMark, BACKUP_PIECE_BYTES_MAX, BackupOutcome, MomentOfPartition, Shards, describe_moment,
};
#[cfg(feature = "object-storage")]
use shardlake_account::{Stamp, stamp_key};
use shardlake_admin::OperatorRequest;
use shardlake_stdx::{Clock, Timestamp};
#[cfg(feature = "object-storage")]
use shardlake_storage::object::WithLog;
use shardlake_storage::{KeptFile, KeptFiles, Shard, View};

use super::identifier::BackupId;
use super::manifest::{PartitionEntry, StampEntry};
use crate::operate::Client;
use crate::shards;
use crate::store::StoreUrl;

/// A state that stays as it is while it is copied.
pub struct Source {
    pub state: State,
    place: Place,
}

enum Place {
    Server {
        client: Client,
        id: String,
    },
    /// Locked for servers as long as its files are held.
    Directory {
        files: Vec<KeptFiles>,
    },
    /// The lease that keeps servers away.
    #[cfg(feature = "object-storage")]
    Store {
        files: Vec<KeptFiles>,
        claim: crate::store::Claim,
    },
}

/// Description of the state to be copied.
#[derive(Debug)]
pub struct State {
    pub time: Timestamp,
    pub version: String,
    pub account: Option<String>,
    /// Whether it lies in an object store.
    pub is_of_store: bool,
    pub partitions: Vec<PartitionEntry>,
    pub relocations: Vec<String>,
    /// The stamps of all shards, or none.
    pub stamps: Vec<StampEntry>,
    /// The files of each shard, in the order in which they are put back.
    pub shards: Vec<Vec<SourceFile>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceFile {
    /// Below the shard.
    pub path: String,
    pub size_bytes: u64,
    /// The checksum of a table, in 32 hexadecimal digits.
    pub table_checksum: Option<String>,
}

/// A server's answer. A newer server may send more fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Begun {
    id: String,
    time_ms: u64,
    version: String,
    account: Option<String>,
    #[serde(default)]
    is_of_store: bool,
    partitions: Vec<PartitionEntry>,
    relocations: Vec<String>,
    shards: Vec<BegunShard>,
}

#[derive(Deserialize)]
struct BegunShard {
    #[serde(default)]
    stamp: Option<StampEntry>,
    files: Vec<SourceFile>,
}

impl Source {
    /// Has a running server keep its state of now.
    pub async fn of_server(client: Client) -> Result<Source, String> {
        let request = OperatorRequest::of_backups(Method::POST, "");
        let begun: Begun = serde_json::from_value(client.send(&request).await?)
            .map_err(|error| format!("the server's answer is of another version: {error}"))?;
        let state = State {
            time: Timestamp(begun.time_ms),
            version: begun.version,
            account: begun.account,
            is_of_store: begun.is_of_store,
            partitions: begun.partitions,
            relocations: begun.relocations,
            stamps: begun
                .shards
                .iter()
                .map(|shard| shard.stamp.clone())
                .collect::<Option<_>>()
                .unwrap_or_default(),
            shards: begun.shards.into_iter().map(|shard| shard.files).collect(),
        };
        Ok(Source { state, place: Place::Server { client, id: begun.id } })
    }

    /// Reads the data directory of a stopped server; `scratch` is for copies of its journals.
    pub async fn of_directory(data_dir: &Path, scratch: &Path) -> Result<Source, String> {
        let (shards, inspected) = shards::inspect(data_dir, scratch).await?;
        let mut files = Vec::with_capacity(inspected.len());
        for inspected in &inspected {
            let kept = KeptFiles::of_directory(&inspected.directory);
            files.push(kept.map_err(|error| error.to_string())?);
        }
        let state = describe(&shards, &files).await?;
        Ok(Source { state, place: Place::Directory { files } })
    }

    /// Reads the store of a stopped server.
    #[cfg(feature = "object-storage")]
    pub async fn of_store(url: &StoreUrl) -> Result<Source, String> {
        let stopped = crate::store::Stopped::take(url, "shardlake backup", None).await?;
        let described = async {
            let shards = stopped.shards().await?;
            let kept =
                Stamp::of(&shards.first().view(), &stamp_key()).await.map_err(|error| error.to_string())?;
            let files = stopped
                .files(if kept.is_some() { WithLog::Yes(Duration::ZERO) } else { WithLog::No })
                .await?;
            Ok((describe(&shards, &files).await?, files))
        };
        match described.await {
            Ok((state, files)) => Ok(Source { state, place: Place::Store { files, claim: stopped.claim } }),
            Err(error) => {
                stopped.claim.release().await;
                Err(error)
            }
        }
    }

    #[cfg(not(feature = "object-storage"))]
    pub async fn of_store(url: &StoreUrl) -> Result<Source, String> {
        Err(url.unsupported())
    }

    /// The next bytes of a file, at least one before its end.
    pub async fn piece(&self, shard: usize, file: usize, offset: u64) -> Result<Bytes, String> {
        match &self.place {
            Place::Server { client, id } => client.fetch(&piece_request(id, (shard, file, offset))).await,
            Place::Directory { files } => {
                let kept = files.get(shard).ok_or("there is no such shard")?;
                kept.read(file, offset, BACKUP_PIECE_BYTES_MAX).await.map_err(|error| error.to_string())
            }
            #[cfg(feature = "object-storage")]
            Place::Store { files, claim } => {
                claim.check()?;
                let kept = files.get(shard).ok_or("there is no such shard")?;
                kept.read(file, offset, BACKUP_PIECE_BYTES_MAX).await.map_err(|error| error.to_string())
            }
        }
    }

    /// Sends an empty request every `every`, so that a server keeps the state. Ends when the state is lost.
    pub async fn keep_up(&self, every: Duration) -> String {
        loop {
            tokio::time::sleep(every).await;
            if let Err(lost) = self.piece(0, 0, u64::MAX).await {
                return lost;
            }
        }
    }

    /// Releases the state. A server that does not receive this request releases the state after a while.
    ///
    /// `outcome` is of a backup; `made` is the name of a complete one, which the server then reports as its last one.
    pub async fn end(self, outcome: Option<BackupOutcome>, made: Option<&BackupId>) {
        match self.place {
            Place::Server { client, id } => {
                let outcome = outcome.map(|outcome| format!("outcome={}", outcome.name()));
                let made = made.map(|made| format!("made={made}"));
                let query: Vec<String> = outcome.into_iter().chain(made).collect();
                let request = OperatorRequest::of_backups(Method::DELETE, &format!("/{id}"));
                let request = request.with_query((!query.is_empty()).then(|| query.join("&")));
                let _it_finds_out = client.send(&request).await;
            }
            Place::Directory { .. } => {}
            #[cfg(feature = "object-storage")]
            Place::Store { claim, .. } => claim.release().await,
        }
    }

    /// The name of the checkpoints in the server's data directory, for commands that can reach the directory.
    pub fn checkpoint(&self) -> Option<String> {
        match &self.place {
            Place::Server { id, .. } => Some(format!("backup-{id}")),
            _ => None,
        }
    }
}

async fn describe(shards: &Shards, files: &[KeptFiles]) -> Result<State, String> {
    let views: Vec<View> = shards.iter().map(Shard::view).collect();
    let moment = describe_moment(&views).await.map_err(|error| error.to_string())?;
    let account = AccountMark::read(shards).await.map_err(|error| error.to_string())?;
    Ok(State {
        time: Clock::System.now(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        account: account.map(|mark| mark.account),
        is_of_store: files.iter().any(KeptFiles::is_of_store),
        partitions: moment.partitions.into_iter().map(entry).collect(),
        relocations: moment.relocations,
        stamps: moment
            .stamps
            .into_iter()
            .map(|stamp| stamp.map(StampEntry::of))
            .collect::<Option<_>>()
            .unwrap_or_default(),
        shards: files.iter().map(|kept| kept.files().iter().map(source_file).collect()).collect(),
    })
}

fn piece_request(id: &str, (shard, file, offset): (usize, usize, u64)) -> OperatorRequest {
    OperatorRequest::of_backups(Method::GET, &format!("/{id}/shards/{shard}/files/{file}/{offset}"))
}

fn source_file(file: &KeptFile) -> SourceFile {
    SourceFile {
        path: file.path.clone(),
        size_bytes: file.size_bytes,
        table_checksum: file.table.map(|checksum| format!("{checksum:032x}")),
    }
}

fn entry(partition: MomentOfPartition) -> PartitionEntry {
    PartitionEntry {
        database: partition.database,
        container: partition.container,
        id: partition.range_id.to_string(),
        shard: partition.shard,
        lsn: partition.lsn,
        written_ms: partition.written.map(|written| written.milliseconds()),
        items: partition.items,
        size_bytes: partition.size_bytes,
    }
}
