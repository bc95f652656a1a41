//! Restore to a point in time between two backups: the state of the backup before it, and the log that came with a later backup,
//! up to that point.
//!
//! ```text
//! backup A        backup B                     backup C
//! state           state                        state
//!                   └── log of C, kept since … ──┘
//!                        ▲ the point in time: B, and C's log from B up to here
//! ```
//!
//! A log holds the time of each write, and continues a state exactly or not at all (`shardlake_storage::Replay`), so that a hole in
//! it is an error and never a state that did not exist.

use bytes::Bytes;
use shardlake_account::{Shards, stamp_key};
use shardlake_stdx::Timestamp;
use shardlake_storage::{Reached, Replay, Stamp};

use super::manifest::{FileEntry, Manifest, StampEntry, folder_of, is_of_log};
use super::place::{Known, Place};
use super::utc;
use crate::progress::{Progress, Unit};

/// Maximum size of one piece of a log, which is read into memory: a journal, or some hundred objects.
const PIECE_BYTES_MAX: u64 = 1 << 30;

/// The part of a log that follows the state of a backup.
pub struct Ahead {
    until: Timestamp,
    /// The backup whose log is replayed.
    later: Manifest,
}

impl StampEntry {
    pub fn of(stamp: Stamp) -> StampEntry {
        StampEntry {
            number: stamp.number,
            time_ms: stamp.time.milliseconds(),
            run: format!("{:016x}", stamp.run),
            before: format!("{:016x}", stamp.before),
        }
    }

    fn stamp(&self) -> Result<Stamp, String> {
        let number = |text: &str| u64::from_str_radix(text, 16).map_err(|_| format!("'{text}' is no number"));
        let (run, before) = (number(&self.run)?, number(&self.before)?);
        Ok(Stamp { number: self.number, time: Timestamp(self.time_ms), run, before })
    }
}

/// The backup to begin with, and the log that brings it to `until`; no log where the backup has exactly that state.
pub fn choose(known: &Known, until: Timestamp) -> Result<(Manifest, Option<Ahead>), String> {
    let mut manifests: Vec<&Manifest> = known.values().filter_map(|known| known.as_ref().ok()).collect();
    manifests.sort_by_key(|manifest| manifest.time_ms);
    let newest = *manifests.last().ok_or("there is no backup that can be read")?;
    let of_account = |manifest: &&&Manifest| manifest.account.is_some() && manifest.account == newest.account;
    let with_log: Vec<&Manifest> =
        manifests.iter().filter(of_account).filter(|manifest| !manifest.stamps.is_empty()).copied().collect();
    let Some(oldest) = with_log.first() else {
        return Err("no backup has a log: serve with --restore-window, and make backups of that".into());
    };
    let is_before =
        |manifest: &&&Manifest| manifest.stamps.iter().all(|stamp| stamp.time_ms <= until.milliseconds());
    let Some(state) = with_log.iter().rev().find(is_before).copied() else {
        return Err(format!(
            "{} is before the oldest backup that has a log, '{}' of {}",
            utc::to_the_millisecond(until),
            oldest.id,
            oldest.time
        ));
    };
    if state.time_ms >= until.milliseconds() {
        return Ok((state.clone(), None));
    }
    let later = with_log.iter().find(|manifest| manifest.time_ms >= until.milliseconds());
    let later = later.copied().ok_or_else(|| {
        format!(
            "{} is after the newest backup, '{}' of {}: make one now, of the server or of what it left, and restore with it",
            utc::to_the_millisecond(until),
            newest.id,
            newest.time
        )
    })?;
    if later.shards != state.shards || later.is_of_store() != state.is_of_store() {
        return Err(format!(
            "between the backups '{}' and '{}' the account got other shards: only their own moments can be restored, with --id",
            state.id, later.id
        ));
    }
    Ok((state.clone(), Some(Ahead { until, later: later.clone() })))
}

/// Brings the shards from the state of the backup to the point in time. They are on stable storage afterwards.
pub async fn replay(
    place: &Place,
    (state, ahead): (&Manifest, &Ahead),
    shards: &Shards,
) -> Result<(), String> {
    let logs = (0..usize::from(shards.count())).flat_map(|number| log_of(&ahead.later, number));
    let progress =
        Progress::begin("replay of the log", Unit::Bytes, Some(logs.map(|file| file.size_bytes).sum()));
    for (number, shard) in shards.iter().enumerate() {
        let stamp = |manifest: &Manifest| match manifest.stamps.get(number) {
            Some(stamp) => stamp.stamp(),
            None => Err(format!(
                "the manifest of '{}' does not say where the log of shard {number} was",
                manifest.id
            )),
        };
        let stamps = (stamp(state)?, stamp(&ahead.later)?);
        let mut replay = Replay::new(shard.clone(), &stamp_key(), stamps, ahead.until);
        let cut_off = |error: shardlake_storage::StorageError| {
            format!(
                "the log of '{}' does not lead from '{}' to the moment on shard {number}: {error}",
                ahead.later.id, state.id
            )
        };
        for file in log_of(&ahead.later, number) {
            if replay.reached() == Reached::Moment {
                break;
            }
            let content = read(place, file).await?;
            let added = if state.is_of_store() {
                of_objects(&mut replay, content).await
            } else {
                replay.journal(content).await
            };
            added.map_err(cut_off)?;
            progress.advance(file.size_bytes);
        }
        replay.finish().await.map_err(cut_off)?;
    }
    progress.finish("");
    Ok(())
}

#[cfg(feature = "object-storage")]
async fn of_objects(replay: &mut Replay, content: Bytes) -> Result<Reached, shardlake_storage::StorageError> {
    replay.objects(content).await
}

#[cfg(not(feature = "object-storage"))]
async fn of_objects(
    _replay: &mut Replay,
    _content: Bytes,
) -> Result<Reached, shardlake_storage::StorageError> {
    Err(shardlake_storage::StorageError::NoFiles)
}

/// Oldest first: their names begin with numbers of one length.
fn log_of(manifest: &Manifest, shard: usize) -> Vec<&FileEntry> {
    let folder = format!("{}/", folder_of(shard, manifest.is_of_store()));
    let is_log = |file: &&FileEntry| file.path.starts_with(&folder) && is_of_log(&file.path);
    let mut files: Vec<&FileEntry> = manifest.files.iter().filter(is_log).collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files
}

async fn read(place: &Place, file: &FileEntry) -> Result<Bytes, String> {
    if file.size_bytes > PIECE_BYTES_MAX {
        return Err(format!(
            "'{}' has {} bytes, and no piece of a log is so large",
            file.path, file.size_bytes
        ));
    }
    let (mut content, mut reading) = (Vec::new(), place.reading(file));
    loop {
        let piece = reading.next().await.map_err(|damage| damage.of(place, file))?;
        if piece.is_empty() {
            return Ok(content.into());
        }
        content.extend_from_slice(&piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(id: &str, time_ms: u64, stamps: &[u64]) -> Manifest {
        let stamp = |time_ms: &u64| StampEntry {
            number: *time_ms,
            time_ms: *time_ms,
            run: "1".into(),
            before: "0".into(),
        };
        Manifest {
            id: id.parse().expect("an id"),
            time: utc::readable(Timestamp(time_ms)),
            time_ms,
            version: "0.1.0".into(),
            account: Some("a".into()),
            shards: 2,
            partitions: Vec::new(),
            relocations: Vec::new(),
            stamps: stamps.iter().map(stamp).collect(),
            files: Vec::new(),
        }
    }

    fn chosen(manifests: &[Manifest], until: u64) -> Result<(String, Option<String>), String> {
        let known: Known =
            manifests.iter().map(|manifest| (manifest.id.clone(), Ok(manifest.clone()))).collect();
        let (state, ahead) = choose(&known, Timestamp(until))?;
        Ok((state.id.to_string(), ahead.map(|ahead| ahead.later.id.to_string())))
    }

    #[test]
    fn the_nearest_state_before_the_moment_and_the_nearest_log_behind_it_are_chosen() {
        let all = [
            manifest("a", 1000, &[900, 950]),
            manifest("b", 2000, &[1990, 2005]),
            manifest("none", 2500, &[]),
            manifest("c", 3000, &[2100, 2200]),
        ];
        let ok = |state: &str, later: Option<&str>| Ok((state.to_owned(), later.map(str::to_owned)));
        assert_eq!(chosen(&all, 1000), ok("a", None));
        assert_eq!(chosen(&all, 1500), ok("a", Some("b")));
        // The state of b has something of 2005.
        assert_eq!(chosen(&all, 2000), ok("a", Some("b")));
        assert_eq!(chosen(&all, 2005), ok("b", Some("c")));
        assert_eq!(chosen(&all, 2100), ok("b", Some("c")));
        // Nothing was written after 2200.
        assert_eq!(chosen(&all, 2200), ok("c", None));
        assert_eq!(chosen(&all, 3000), ok("c", None));
        assert!(chosen(&all, 949).expect_err("too early").contains("before the oldest backup"));
        assert!(chosen(&all, 3001).expect_err("too late").contains("make one now"));
        assert!(chosen(&all[2..3], 2500).expect_err("no log").contains("--restore-window"));
        assert!(chosen(&[], 1).expect_err("nothing").contains("no backup"));
        let more = Manifest { shards: 3, ..manifest("c", 3000, &[2100, 2300, 2300]) };
        let grown = [all[1].clone(), more];
        assert!(chosen(&grown, 2250).expect_err("grown").contains("other shards"));
    }
}
