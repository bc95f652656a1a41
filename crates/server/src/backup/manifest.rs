//! Manifest: the list of the files of a backup. It is written last: a backup without a manifest does not exist.
//!
//! ```text
//! shardlake backup 1 sha256 3b0c…        SHA-256 of everything behind this line
//! { "id": "20261123-081708-123-3fa9c1", …    JSON
//! ```
//!
//! Readers trust nothing in a manifest: ids and paths are checked, since they end up in paths of this machine.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::identifier::BackupId;

pub(super) const HEAD: &str = "shardlake backup 1 sha256 ";
/// The deepest path is that of a table.
const SEGMENTS_MAX: usize = 8;
const SEGMENT_BYTES_MAX: usize = 64;
/// Files outside the shards.
pub const ACCOUNT_FILE: &str = "account.json";
pub const KEY_FILE: &str = "keys.json";
/// Folder of shards in an object store.
const STORE_FOLDER: &str = "s/";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    pub id: BackupId,
    /// Everything acknowledged before this time is in it, on all partitions.
    pub time: String,
    pub time_ms: u64,
    /// Version of the program that kept the state.
    pub version: String,
    pub account: Option<String>,
    pub shards: u16,
    pub partitions: Vec<PartitionEntry>,
    /// Relocations between partitions that were in progress at that time, and continue after a restore.
    pub relocations: Vec<String>,
    /// Positions in the logs of the shards, for an account with an archived log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stamps: Vec<StampEntry>,
    /// In the order in which they are put back.
    pub files: Vec<FileEntry>,
}

/// A place in the kept log of a shard: `shardlake_storage::Stamp`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StampEntry {
    pub number: u64,
    pub time_ms: u64,
    /// In 16 hexadecimal digits, like the one before it.
    pub run: String,
    pub before: String,
}

/// How far a partition had come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PartitionEntry {
    pub database: String,
    pub container: String,
    pub id: String,
    pub shard: u16,
    pub lsn: u64,
    pub written_ms: Option<u64>,
    pub items: u64,
    pub size_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileEntry {
    /// Below the data directory, with slashes.
    pub path: String,
    pub size_bytes: u64,
    pub sha256: Digest,
    /// For a table: its checksum in the shard. Within an account, a table with the same path, size and checksum never changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_checksum: Option<String>,
}

/// Where the files of a shard lie.
pub fn folder_of(shard: usize, is_of_store: bool) -> String {
    match (is_of_store, shard) {
        (true, number) => format!("{STORE_FOLDER}{number:05}-1"),
        (false, 0) => "shard".to_owned(),
        (false, number) => format!("shard-{number}"),
    }
}

/// Whether a file never changes: a table in a store, or a complete piece of the archived log. Its name is never used again, so that
/// account, path and size identify its content.
pub fn is_written_once(path: &str) -> bool {
    let is_table = path.starts_with(STORE_FOLDER) && path.contains("/compacted/");
    is_table || (is_of_log(path) && !path.contains("-open."))
}

/// Whether a file is part of the archived log, which only a restore to a point in time reads.
pub fn is_of_log(path: &str) -> bool {
    let below_shard = path.strip_prefix(STORE_FOLDER).unwrap_or(path);
    below_shard.split('/').nth(1) == Some("history")
}

impl Manifest {
    pub fn size_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).sum()
    }

    pub fn items(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.items).sum()
    }

    /// Whether the account lay in an object store, and is one again only there.
    pub fn is_of_store(&self) -> bool {
        self.files.iter().any(|file| file.path.starts_with(STORE_FOLDER))
    }

    pub fn holds_keys(&self) -> bool {
        self.files.iter().any(|file| file.path == KEY_FILE)
    }

    pub fn encode(&self) -> Result<Vec<u8>, String> {
        let mut json = serde_json::to_vec_pretty(self).map_err(|error| error.to_string())?;
        json.push(b'\n');
        let head = format!("{HEAD}{}\n", Digest::of(&json));
        Ok([head.into_bytes(), json].concat())
    }

    /// Paths lead to places of a data directory and nowhere else, each to its own.
    pub(super) fn check_paths(&self) -> Result<(), String> {
        let mut seen = HashSet::new();
        for file in &self.files {
            if !is_safe(&file.path) {
                return Err(format!(
                    "names a file that no data directory has: '{}'",
                    file.path.escape_debug()
                ));
            }
            if !seen.insert(&file.path) {
                return Err(format!("names the file '{}' twice", file.path));
            }
        }
        Ok(())
    }
}

fn is_safe(path: &str) -> bool {
    let segments: Vec<&str> = path.split('/').collect();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_name = |segment: &&str| {
        (1..=SEGMENT_BYTES_MAX).contains(&segment.len())
            && !segment.starts_with('.')
            && segment.bytes().all(is_plain)
    };
    match segments.as_slice() {
        [ACCOUNT_FILE | KEY_FILE] => true,
        ["s", _, "compacted" | "wal" | "manifest" | "history", _] => segments.iter().all(is_name),
        [shard, _, ..] => {
            (*shard == "shard" || shard.starts_with("shard-"))
                && segments.len() <= SEGMENTS_MAX
                && segments.iter().all(is_name)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(paths: &[&str]) -> Manifest {
        let entry = |path: &&str| FileEntry {
            path: (*path).to_owned(),
            size_bytes: 3,
            sha256: Digest::of(b"abc"),
            table_checksum: None,
        };
        Manifest {
            id: "20261123-081708-123-3fa9c1".parse().expect("an id"),
            time: "2026-11-23T08:17:08Z".into(),
            time_ms: 1_795_421_828_000,
            version: "0.1.0".into(),
            account: Some("a".into()),
            shards: 1,
            partitions: Vec::new(),
            relocations: Vec::new(),
            stamps: Vec::new(),
            files: paths.iter().map(entry).collect(),
        }
    }

    #[test]
    fn manifests_are_read_as_written_and_no_flipped_bit_is() {
        let manifest = manifest(&[
            "shard/FORMAT",
            "shard/db/version",
            "shard/db/keyspaces/0/current",
            "shard/db/keyspaces/1/current",
            "shard/db/keyspaces/1/tables/7",
            "shard/db/3.jnl",
            "account.json",
            "shard/history/0000000001-open.jnl",
        ]);
        let content = manifest.encode().expect("writes");
        assert_eq!(Manifest::decode(&content).as_ref(), Ok(&manifest));
        for at in 0..content.len() {
            let mut flipped = content.clone();
            flipped[at] ^= 1 << (at % 8);
            assert!(Manifest::decode(&flipped).is_err(), "byte {at}");
            assert!(Manifest::decode(&content[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn pieces_of_the_log_are_known_and_complete_ones_are_written_once() {
        for (path, is_log, is_once) in [
            ("shard/history/0000000001-open.jnl", true, false),
            ("shard-3/history/0000000001-0123456789abcdef.jnl", true, true),
            ("s/00002-1/history/00000000000000000001-0123456789abcdef.pack", true, true),
            ("s/00002-1/history/00000000000000000001-open.pack", true, false),
            ("s/00002-1/wal/1.sst", false, false),
            ("s/00002-1/compacted/1.sst", false, true),
            ("shard/db/1.jnl", false, false),
        ] {
            assert_eq!((is_of_log(path), is_written_once(path)), (is_log, is_once), "{path}");
        }
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused_though_the_checksum_is_right() {
        for hostile in [
            "",
            "/etc/passwd",
            "shard/../x",
            "shard/./x",
            "shard//x",
            "../shard/x",
            "shard",
            "tls/ca-key.pem",
            "shard/a\\b",
            "shard/a\0b",
            "shard/.hidden",
            "RESTORING",
            "s/00000-1/owners/x",
            "s/00000-1/../x",
            "s/00000-1/wal/.x",
            "s/00000-1/wal",
            "shard/a/b/c/d/e/f/g/h",
            "account.json/x",
        ] {
            let content = manifest(&[hostile]).encode().expect("writes");
            let refused = Manifest::decode(&content).expect_err(hostile);
            assert!(refused.contains("no data directory has"), "{refused}");
        }
        let twice = manifest(&["shard/FORMAT", "shard/FORMAT"]).encode().expect("writes");
        assert!(Manifest::decode(&twice).expect_err("twice").contains("twice"));
    }
}
