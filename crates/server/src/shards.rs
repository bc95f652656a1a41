//! The shards of a data directory: which there are, and opening them.
//!
//! Shard 0, which holds the catalog, is `shard/`; the others are `shard-1/`, `shard-2/` and so on without gaps. They are made
//! in that order, so that a start which is interrupted leaves no gap either. A shard is never left out: partitions may
//! lie on it. What lies on which shard is the account's business.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use shardlake_account::{SHARDS_MAX, Shards};
use shardlake_storage::{Durability, EngineKind, Shard, ShardOptions, StorageError};

use crate::config::Config;
use crate::settings::DurabilityMode;

const FIRST: &str = "shard";
const FURTHER: &str = "shard-";
/// Less per shard would mean a file for every few writes.
const WRITE_BUFFER_SIZE_BYTES_MIN: u64 = 256 << 10;

/// Opens every shard that the directory holds and makes those that it lacks.
pub async fn open(config: &Config) -> Result<Shards, String> {
    if let Some(data_dir) = &config.data_dir {
        std::fs::create_dir_all(data_dir).map_err(|error| {
            format!("the data directory '{}' cannot be made: {error}", data_dir.display())
        })?;
    }
    let is_durable = config.durability != DurabilityMode::Memory;
    let data_dir = config.data_dir.as_deref().filter(|_| is_durable);
    let existing = data_dir.map_or(Ok(0), count)?;
    let wanted = config.shards.unwrap_or(existing.max(1));
    if wanted < existing {
        return Err(format!(
            "the data directory has {existing} shards, and data may lie on each of them: start with --shards {existing} or more"
        ));
    }
    open_all((0..wanted).map(|number| {
        let engine = match data_dir {
            Some(data_dir) => EngineKind::Local { directory: directory(data_dir, number) },
            None => EngineKind::Memory,
        };
        ShardOptions { engine, ..options(config, wanted) }
    }))
    .await
}

/// Opens what a data directory holds and makes nothing.
pub async fn open_existing(data_dir: &Path) -> Result<Shards, String> {
    let existing = count(data_dir)?;
    if existing == 0 {
        return Err(format!(
            "'{}' is no data directory of a server: there is no '{FIRST}' in it",
            data_dir.display()
        ));
    }
    open_all((0..existing).map(|number| ShardOptions::local(directory(data_dir, number)))).await
}

async fn open_all(options: impl Iterator<Item = ShardOptions>) -> Result<Shards, String> {
    let mut shards = Vec::new();
    for options in options {
        shards.push(Shard::open(options).await.map_err(|error| explain(&error))?);
    }
    Ok(shards.into())
}

/// Memory is given for all shards together.
fn options(config: &Config, shards: u16) -> ShardOptions {
    let durability = match config.durability {
        DurabilityMode::Sync => Durability::Sync,
        DurabilityMode::Async => Durability::Async,
        DurabilityMode::Memory => Durability::Memory,
    };
    let shards = u64::from(shards);
    let smallest = WRITE_BUFFER_SIZE_BYTES_MIN.min(config.write_buffer_size_bytes);
    let memory = ShardOptions::memory();
    ShardOptions {
        durability,
        cache_bytes: config.cache_size_bytes / shards,
        memtable_bytes: (config.write_buffer_size_bytes / shards).max(smallest),
        queue_bytes_max: memory.queue_bytes_max / shards as usize,
        ..memory
    }
}

fn directory(data_dir: &Path, number: u16) -> PathBuf {
    match number {
        0 => data_dir.join(FIRST),
        number => data_dir.join(format!("{FURTHER}{number}")),
    }
}

/// How many shards the directory holds. A gap is an error: the data of that shard is somewhere else.
fn count(data_dir: &Path) -> Result<u16, String> {
    let unreadable = |error| format!("the data directory '{}' cannot be read: {error}", data_dir.display());
    let entries = match std::fs::read_dir(data_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(unreadable(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        found.extend(entry.map_err(unreadable)?.file_name().to_str().and_then(number_of));
    }
    found.sort_unstable();
    let Some(last) = found.last().copied() else { return Ok(0) };
    if usize::from(last) >= SHARDS_MAX {
        return Err(format!(
            "the data directory has a '{FURTHER}{last}', but an account has at most {SHARDS_MAX} shards"
        ));
    }
    match (0..last).find(|number| !found.contains(number)) {
        Some(missing) => Err(format!(
            "'{}' is missing, though there is '{FURTHER}{last}': bring it back from where it was moved, or from a backup",
            directory(data_dir, missing).display()
        )),
        None => Ok(last + 1),
    }
}

/// Names that no server writes, such as `shard-01` or `shard-old`, are not ours.
fn number_of(name: &str) -> Option<u16> {
    if name == FIRST {
        return Some(0);
    }
    let digits = name.strip_prefix(FURTHER)?;
    let number: u16 = digits.parse().ok()?;
    (number > 0 && digits == number.to_string()).then_some(number)
}

/// What to do about storage that does not open.
fn explain(error: &StorageError) -> String {
    let advice = match error {
        StorageError::Locked { .. } => ": stop the other server, or choose another --data-dir",
        StorageError::Corrupt { .. } => ": restore the directory from a backup, or serve another one",
        StorageError::Format { .. } => ": serve it with the version that wrote it",
        _ => "",
    };
    format!("{error}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn shards_are_counted_and_a_gap_is_told() {
        let data = tempfile::tempdir().expect("a directory");
        let data = data.path();
        let make = |name: &str| std::fs::create_dir(data.join(name)).expect("made");
        assert_eq!(count(&data.join("none")), Ok(0));
        ["tls", "shard-old", "shard-01", "shard-0"].into_iter().for_each(make);
        assert_eq!(count(data), Ok(0));
        make("shard");
        assert_eq!(count(data), Ok(1));
        make("shard-2");
        assert!(count(data).expect_err("a gap").contains("shard-1' is missing"));
        make("shard-1");
        assert_eq!(count(data), Ok(3));
        make("shard-64");
        assert!(count(data).expect_err("too many").contains("at most 64"));
    }

    #[test]
    fn memory_is_divided() {
        let config = Config::new(Settings::default()).expect("valid");
        let (one, four, many) = (options(&config, 1), options(&config, 4), options(&config, 64));
        assert_eq!((one.cache_bytes, one.memtable_bytes), (256 << 20, 32 << 20));
        assert_eq!((four.cache_bytes, four.memtable_bytes), (64 << 20, 8 << 20));
        assert_eq!(four.queue_bytes_max * 4, one.queue_bytes_max);
        assert_eq!(many.memtable_bytes * 64, 32 << 20);
    }
}
