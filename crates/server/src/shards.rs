//! The shards of a data directory: listing and opening them.
//!
//! Shard 0, which holds the catalog, is `shard/`; the others are `shard-1/`, `shard-2/` and so on without gaps. They are made
//! in that order, so that a start which is interrupted leaves no gap either. A shard is never left out: partitions may
//! lie on it. The account assigns partitions to shards. A shard that the data directory remembers
//! (`account_file.rs`) is opened, never made.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use shardlake_account::{AccountMark, SHARDS_MAX, Shards};
use shardlake_storage::{
    Durability, EngineKind, InspectionReport, LogTail, Shard, ShardOptions, StorageError,
};

use crate::account_file;
use crate::config::Config;
use crate::descriptors::Descriptors;
use crate::restore_mark;
use crate::settings::DurabilityMode;

const FIRST: &str = "shard";
const FURTHER: &str = "shard-";
/// The remedy for data that is missing.
const BRING_BACK: &str = "mount its volume, or bring it back from where it was moved or from a backup; to begin anew, remove 'account.json'";
/// Less per shard would mean a file for every few writes.
const WRITE_BUFFER_SIZE_BYTES_MIN: u64 = 256 << 10;

/// Opens every shard that the directory holds and makes those that it lacks, within so many open files.
pub async fn open(config: &Config, files_max: u64) -> Result<(Shards, Descriptors), String> {
    if let Some(data_dir) = &config.data_dir {
        check_is_no_file(data_dir)?;
        std::fs::create_dir_all(data_dir).map_err(|error| {
            format!("the data directory '{}' cannot be made: {error}", data_dir.display())
        })?;
    }
    let is_durable = config.durability != DurabilityMode::Memory;
    let data_dir = config.data_dir.as_deref().filter(|_| is_durable);
    let (existing, remembered) = data_dir.map_or(Ok((0, None)), look)?;
    let wanted = wanted(config, existing)?;
    let on_disk = if data_dir.is_some() { wanted } else { 0 };
    let descriptors = Descriptors::share(files_max, on_disk, config.limits.connections_max)?;
    let tables_open_max = descriptors.tables_of_shard_max;
    let shards = open_all((0..wanted).map(|number| {
        let engine = match data_dir {
            Some(data_dir) => EngineKind::Local { directory: directory(data_dir, number) },
            None => EngineKind::Memory,
        };
        let must_exist = remembered.as_ref().is_some_and(|remembered| number < remembered.shards);
        ShardOptions { engine, must_exist, tables_open_max, ..options(config, wanted) }
    }))
    .await?;
    check(remembered.as_ref(), &shards).await?;
    Ok((shards, descriptors))
}

/// The number of shards: at least the existing ones.
pub fn wanted(config: &Config, existing: u16) -> Result<u16, String> {
    let wanted = config.shards.unwrap_or(existing.max(1));
    if wanted < existing {
        return Err(format!(
            "there are {existing} shards, and data may lie on each of them: start with --shards {existing} or more"
        ));
    }
    Ok(wanted)
}

/// Records account and shards in the data directory after a successful start.
pub async fn remember(config: &Config, shards: &Shards) -> Result<(), String> {
    match &config.data_dir {
        Some(data_dir) if config.durability != DurabilityMode::Memory => {
            account_file::remember(data_dir, shards).await
        }
        _ => Ok(()),
    }
}

/// Findings about a shard apart from its rows.
pub struct Inspected {
    pub directory: PathBuf,
    pub report: InspectionReport,
}

/// Opens the shards of a data directory for reading only, and changes nothing in it.
pub async fn inspect(data_dir: &Path, scratch: &Path) -> Result<(Shards, Vec<Inspected>), String> {
    if let Some(file) = file_on_path(data_dir) {
        return Err(format!(
            "'{}' is a file, not a directory: name the data directory of a server",
            file.display()
        ));
    }
    if !data_dir.exists() {
        return Err(format!("the data directory '{}' does not exist", data_dir.display()));
    }
    let (existing, remembered) = look(data_dir)?;
    if existing == 0 {
        return Err(format!(
            "'{}' is no data directory of a server: there is no '{FIRST}' in it",
            data_dir.display()
        ));
    }
    let (mut shards, mut inspected) = (Vec::new(), Vec::new());
    for directory in (0..existing).map(|number| directory(data_dir, number)) {
        let (shard, report) = Shard::inspect(&directory, scratch).await.map_err(|error| explain(&error))?;
        shards.push(shard);
        inspected.push(Inspected { directory, report });
    }
    let shards = Shards::from(shards);
    check(remembered.as_ref(), &shards).await?;
    Ok((shards, inspected))
}

/// Opens so many shards of a directory that is being made, and makes those that are missing.
pub async fn open_to_fill(data_dir: &Path, count: u16) -> Result<Shards, String> {
    let memory = ShardOptions::memory();
    open_all((0..count).map(|number| ShardOptions {
        engine: EngineKind::Local { directory: directory(data_dir, number) },
        durability: Durability::Sync,
        ..memory.clone()
    }))
    .await
}

/// The logs of the first shards, each from a place on, or from where it ends now.
pub fn logs(data_dir: &Path, places: impl Iterator<Item = Option<u64>>) -> Result<Vec<LogTail>, String> {
    let log = |(number, place)| LogTail::of_directory(&directory(data_dir, number), place);
    let logs = (0..).zip(places).map(log).collect::<Result<_, _>>();
    logs.map_err(|error| error.to_string())
}

/// Refuses a path that leads to a file or through one, before anything fails on it.
pub fn check_is_no_file(data_dir: &Path) -> Result<(), String> {
    match file_on_path(data_dir) {
        Some(file) => Err(format!(
            "'{}' is a file, not a directory: name a directory for the data with --data-dir",
            file.display()
        )),
        None => Ok(()),
    }
}

/// The file that a path leads to or through.
fn file_on_path(path: &Path) -> Option<&Path> {
    path.ancestors().find(|path| path.exists()).filter(|path| !path.is_dir())
}

/// The number of shards and the contents of `account.json`; an error if a remembered shard is missing.
fn look(data_dir: &Path) -> Result<(u16, Option<AccountMark>), String> {
    restore_mark::check_is_complete(data_dir)?;
    let remembered = account_file::read(data_dir)?;
    let existing = count(data_dir)?;
    if let Some(remembered) = remembered.as_ref().filter(|remembered| remembered.shards > existing) {
        return Err(format!(
            "'{}' is missing, though the data directory remembers {} of them: {BRING_BACK}",
            directory(data_dir, existing).display(),
            remembered.shards
        ));
    }
    Ok((existing, remembered))
}

pub async fn check(remembered: Option<&AccountMark>, shards: &Shards) -> Result<(), String> {
    match remembered {
        Some(remembered) => remembered.check(shards).await.map_err(|error| error.to_string()),
        None => Ok(()),
    }
}

async fn open_all(options: impl Iterator<Item = ShardOptions>) -> Result<Shards, String> {
    let mut shards = Vec::new();
    for options in options {
        shards.push(Shard::open(options).await.map_err(|error| explain(&error))?);
    }
    Ok(shards.into())
}

/// Memory is given for all shards together.
pub fn options(config: &Config, shards: u16) -> ShardOptions {
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

/// Whether a shard may have this name in a data directory.
pub fn is_name(name: &str) -> bool {
    name == FIRST || name.starts_with(FURTHER)
}

/// How many shards the directory holds. A gap is an error: the data of that shard is somewhere else.
pub fn count(data_dir: &Path) -> Result<u16, String> {
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

/// The error with the remedy for storage that does not open.
fn explain(error: &StorageError) -> String {
    let advice = match error {
        StorageError::Missing { .. } => return format!("{error}, though there was one: {BRING_BACK}"),
        StorageError::Locked { .. } => ": stop the other server, or choose another --data-dir",
        StorageError::Corrupt { .. } => {
            ": bring back what is missing, or restore the directory from a backup"
        }
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
