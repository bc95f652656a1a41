//! Delta log of a table: commits as JSON lines, classic checkpoints, and their replay.

mod actions;
mod base85;
mod checkpoint;
mod convert;

use std::sync::Arc;

use crate::error::TableError;
use crate::log::{Change, TableLog, Tombstone, Version};
use crate::store::{StoreErrorKind, TableStore};
use actions::Line;

/// Log in the folder `_delta_log` below `base`, which is empty or ends with `/`.
#[derive(Debug, Clone)]
pub struct DeltaLog {
    store: Arc<dyn TableStore>,
    folder: String,
}

/// The numbers of the files in the folder, ascending.
#[derive(Debug, Default)]
struct Listing {
    commits: Vec<u64>,
    checkpoints: Vec<u64>,
}

impl DeltaLog {
    pub fn new(store: Arc<dyn TableStore>, base: &str) -> DeltaLog {
        assert!(base.is_empty() || base.ends_with('/'), "a folder: {base:?}");
        DeltaLog { store, folder: format!("{base}_delta_log") }
    }

    fn commit_path(&self, version: u64) -> String {
        format!("{}/{version:020}.json", self.folder)
    }

    fn checkpoint_path(&self, version: u64) -> String {
        format!("{}/{version:020}.checkpoint.parquet", self.folder)
    }

    fn listing(&self) -> Result<Listing, TableError> {
        let mut listing = Listing::default();
        for file in self.store.list(&self.folder)? {
            let name = file.path.rsplit('/').next().unwrap_or_default();
            if let Some(number) = name.strip_suffix(".json").and_then(version_number) {
                listing.commits.push(number);
            } else if let Some(number) = name.strip_suffix(".checkpoint.parquet").and_then(version_number) {
                listing.checkpoints.push(number);
            }
        }
        Ok(listing)
    }

    fn read_lines(&self, version: u64) -> Result<Vec<Line>, TableError> {
        let path = self.commit_path(version);
        let bytes = self.store.read(&path).map_err(|error| match error.kind {
            StoreErrorKind::NotFound => TableError::damaged(&path, "the file is missing"),
            _ => error.into(),
        })?;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_slice(line).map_err(|error| TableError::damaged(&path, error)))
            .collect()
    }

    /// Replays the log up to a version that the listing has.
    fn replay(&self, listing: &Listing, version: u64) -> Result<Version, TableError> {
        let mut usable = listing.checkpoints.iter().rev().filter(|number| **number <= version);
        let mut state = None;
        let mut damage = None;
        for number in usable.by_ref() {
            match checkpoint::read(&*self.store, &self.checkpoint_path(*number)) {
                Ok((metadata, files, tombstones)) => {
                    // The checkpoint has no commit information: the commit of its version has.
                    let mut builder = Replay { metadata: Some(metadata), ..Replay::default() };
                    builder.begin(self.read_lines(*number)?, *number, true)?;
                    let mut version = builder.finish(*number, None, &self.folder)?;
                    files.into_iter().for_each(|file| version.add(file));
                    tombstones.into_iter().for_each(|tombstone| version.remove(tombstone));
                    state = Some(version);
                    break;
                }
                // The commits may still be there.
                Err(error @ TableError::Damaged { .. }) => damage = Some(error),
                Err(error) => return Err(error),
            }
        }
        let first = state.as_ref().map_or(0, |state| state.number + 1);
        for number in first..=version {
            if listing.commits.binary_search(&number).is_err() {
                let gone = TableError::damaged(&self.commit_path(number), "the file is missing");
                return Err(damage.unwrap_or(gone));
            }
            let mut builder = Replay::default();
            builder.begin(self.read_lines(number)?, number, false)?;
            state = Some(builder.finish(number, state, &self.folder)?);
        }
        state.ok_or(TableError::Missing)
    }

    /// Whether the commit in this version is the given one.
    fn is_ours(&self, version: u64, change: &Change) -> Result<bool, TableError> {
        let lines = match self.read_lines(version) {
            Ok(lines) => lines,
            Err(TableError::Damaged { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let info = lines.into_iter().find_map(|line| line.commit_info);
        Ok(info.and_then(|info| info.shardlake).is_some_and(|info| info.commit == change.info.commit))
    }
}

impl TableLog for DeltaLog {
    fn newest(&self) -> Result<Option<Version>, TableError> {
        let listing = self.listing()?;
        match listing.commits.last() {
            Some(newest) => self.replay(&listing, *newest).map(Some),
            None if listing.checkpoints.is_empty() => Ok(None),
            None => Err(TableError::damaged(&self.folder, "checkpoints without commits")),
        }
    }

    fn at(&self, version: u64) -> Result<Version, TableError> {
        let listing = self.listing()?;
        let oldest = listing.checkpoints.iter().copied().chain(listing.commits.first().copied()).min();
        let is_kept = oldest.is_some_and(|oldest| version >= oldest)
            && listing.commits.binary_search(&version).is_ok()
            && (listing.commits.first() == Some(&0) || listing.checkpoints.iter().any(|at| *at <= version));
        if is_kept { self.replay(&listing, version) } else { Err(TableError::VersionGone { version }) }
    }

    fn history(&self) -> Result<Vec<(u64, i64)>, TableError> {
        let listing = self.listing()?;
        let first = match listing.commits.first() {
            Some(0) => 0,
            _ => listing.checkpoints.first().copied().unwrap_or(u64::MAX),
        };
        let shown = listing.commits.into_iter().filter(|number| *number >= first);
        shown
            .map(|number| {
                let info = self.read_lines(number)?.into_iter().find_map(|line| line.commit_info);
                let time = info.map(|info| info.timestamp);
                Ok((number, time.ok_or(TableError::AnotherWriter { version: number })?))
            })
            .collect()
    }

    fn commit(&self, from: Option<&Version>, change: &Change) -> Result<u64, TableError> {
        let version = from.map_or(0, |from| from.number + 1);
        let mut text = Vec::new();
        for line in convert::lines(change) {
            serde_json::to_writer(&mut text, &line).expect("actions are JSON");
            text.push(b'\n');
        }
        match self.store.create_if_absent(&self.commit_path(version), &text) {
            Ok(()) => Ok(version),
            Err(error) => match self.listing() {
                // The file's name decides: it is there with our content, with another, or not at all.
                Ok(listing) if listing.commits.contains(&version) => match self.is_ours(version, change) {
                    // Written again, because the failure may have been that of a sync.
                    Ok(true) => match self.store.write(&self.commit_path(version), &text) {
                        Ok(()) => Ok(version),
                        Err(_) => Err(TableError::Unsure),
                    },
                    Ok(false) => Err(TableError::AnotherWriter { version }),
                    Err(_) => Err(TableError::Unsure),
                },
                Ok(_) if error.kind == StoreErrorKind::Failed => Err(error.into()),
                _ => Err(TableError::Unsure),
            },
        }
    }

    fn checkpoint(&self, version: &Version) -> Result<(), TableError> {
        let path = self.checkpoint_path(version.number);
        let (bytes, rows) = checkpoint::encode(version).map_err(|error| TableError::damaged(&path, error))?;
        self.store.write(&path, &bytes)?;
        let hint = serde_json::json!({
            "version": version.number,
            "size": rows,
            "sizeInBytes": bytes.len(),
            "numOfAddFiles": version.files.len(),
        });
        self.store.write(&format!("{}/_last_checkpoint", self.folder), hint.to_string().as_bytes())?;
        Ok(())
    }

    fn obsolete(&self, newest: &Version, time: i64) -> Result<Vec<String>, TableError> {
        let listing = self.listing()?;
        let mut keep_from = None;
        for number in listing.checkpoints.iter().rev().filter(|number| **number <= newest.number) {
            let info = self.read_lines(*number)?.into_iter().find_map(|line| line.commit_info);
            if info.is_some_and(|info| info.timestamp <= time) {
                // Versions since `time` build on this checkpoint, if it can be read.
                checkpoint::read(&*self.store, &self.checkpoint_path(*number))?;
                keep_from = Some(*number);
                break;
            }
        }
        let Some(first) = keep_from else { return Ok(Vec::new()) };
        let commits = listing.commits.iter().filter(|number| **number < first);
        let checkpoints = listing.checkpoints.iter().filter(|number| **number < first);
        // Checkpoints first: one whose commit is gone could not be read.
        let paths = commits.map(|number| self.commit_path(*number));
        Ok(checkpoints.map(|number| self.checkpoint_path(*number)).chain(paths).collect())
    }
}

/// One commit on its way into a version.
#[derive(Debug, Default)]
struct Replay {
    metadata: Option<crate::log::Metadata>,
    info: Option<actions::Info>,
    added: Vec<crate::log::DataFile>,
    removed: Vec<Tombstone>,
}

impl Replay {
    /// Takes the lines of a commit; only its information when the files come from a checkpoint.
    fn begin(&mut self, lines: Vec<Line>, version: u64, only_info: bool) -> Result<(), TableError> {
        let foreign = |_| TableError::AnotherWriter { version };
        for line in lines {
            if let Some(info) = line.commit_info {
                self.info = Some(info);
            }
            if only_info {
                continue;
            }
            if line.protocol.is_some_and(|protocol| protocol != actions::Protocol::ours()) {
                return Err(TableError::AnotherWriter { version });
            }
            if let Some(meta_data) = line.meta_data {
                let metadata = convert::metadata_of(&meta_data);
                self.metadata = Some(metadata.ok_or(TableError::AnotherWriter { version })?);
            }
            if let Some(remove) = line.remove {
                self.removed.push(convert::tombstone_of(&remove).map_err(foreign)?);
            }
            if let Some(add) = line.add {
                self.added.push(convert::file_of(&add).map_err(foreign)?);
            }
        }
        Ok(())
    }

    fn finish(self, number: u64, from: Option<Version>, folder: &str) -> Result<Version, TableError> {
        let info = self.info.ok_or(TableError::AnotherWriter { version: number })?;
        let change = Change {
            time: info.timestamp,
            info: info.shardlake.ok_or(TableError::AnotherWriter { version: number })?,
            metadata: self.metadata,
            removed: self.removed,
            added: self.added,
            changes_rows: true,
        };
        if let Some(mut version) = from {
            version.advance(&change);
            return Ok(version);
        }
        let version = Version::first(number, &change);
        version.ok_or_else(|| TableError::damaged(folder, "the first version has no columns"))
    }
}

fn version_number(name: &str) -> Option<u64> {
    (name.len() == 20).then(|| name.parse().ok()).flatten()
}
