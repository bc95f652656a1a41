//! `shardlake backup restore`: makes a data directory of a backup, with a look at every byte.
//!
//! The mark of a restore in progress is the first file in the directory, and is deleted last (`restore_mark.rs`). The lines that
//! mark a shard as complete are written after everything else of it, so that a version which does not know the mark
//! refuses the directory, too.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::directory::{make_directory, sync_directory};
use super::manifest::{FileEntry, Manifest, is_of_log};
use super::moment::{self, Ahead};
use super::place::Place;
use super::shelf::unwritten;
use super::whole;
use crate::progress::{Progress, Unit};
use crate::restore_mark;
use crate::shards;

/// The caller has locked the place.
///
/// `ahead` brings the data to a later point in time than that of the backup.
pub async fn restore(
    (from, place): (&Path, &Place),
    manifest: &Manifest,
    data_dir: &Path,
    ahead: Option<&Ahead>,
) -> Result<(), String> {
    if manifest.is_of_store() {
        return Err(format!(
            "the backup '{}' is of an account in an object store: name one with --store, file:///DIRECTORY for instance; `shardlake migrate` moves it to a local disk",
            manifest.id
        ));
    }
    check_is_free(data_dir)?;
    let failed = |error: io::Error| format!("'{}' cannot be written: {error}", data_dir.display());
    make_directory(data_dir).map_err(failed)?;
    restore_mark::set(data_dir, manifest.id.as_str()).map_err(failed)?;
    let cut_off = |what: String| {
        format!("{what}; nothing was restored: remove '{}' before the next attempt", data_dir.display())
    };
    whole::check_contents(from, place, manifest).await.map_err(cut_off)?;
    let mut directories = BTreeSet::from([data_dir.to_owned()]);
    let progress = Progress::begin("restore", Unit::Bytes, Some(bytes_of_state(manifest)));
    for file in manifest.files.iter().filter(|file| !is_of_log(&file.path)) {
        // Checked when the manifest was read: it leads to a place below the directory.
        let target = data_dir.join(&file.path);
        make_parents(&target, data_dir, &mut directories).map_err(failed).map_err(cut_off)?;
        put_back(place, file, &target, &progress).await.map_err(cut_off)?;
    }
    progress.finish("");
    for directory in directories.iter().rev() {
        sync_directory(directory).map_err(failed).map_err(cut_off)?;
    }
    if let Some(ahead) = ahead {
        let shards = shards::open_to_fill(data_dir, manifest.shards).await.map_err(cut_off)?;
        moment::replay(place, (manifest, ahead), &shards).await.map_err(cut_off)?;
        shards.close().await.map_err(|error| cut_off(error.to_string()))?;
    }
    if let Some(parent) = data_dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        sync_directory(parent).map_err(failed).map_err(cut_off)?;
    }
    restore_mark::set_restored(data_dir).map_err(failed)?;
    restore_mark::clear(data_dir).map_err(failed)
}

/// Bytes of the files that are put back before a log is replayed.
pub fn bytes_of_state(manifest: &Manifest) -> u64 {
    manifest.files.iter().filter(|file| !is_of_log(&file.path)).map(|file| file.size_bytes).sum()
}

/// Copies a file to a new one, which is on stable storage afterwards but for its directory.
async fn put_back(place: &Place, file: &FileEntry, target: &Path, progress: &Progress) -> Result<(), String> {
    let put = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target);
    let mut put = put.map_err(|error| unwritten(target, &error))?;
    let mut reading = place.reading(file);
    loop {
        let piece = reading.next().await.map_err(|damage| damage.of(place, file))?;
        if piece.is_empty() {
            break;
        }
        put.write_all(&piece).map_err(|error| unwritten(target, &error))?;
        progress.advance(piece.len() as u64);
    }
    put.sync_all().map_err(|error| unwritten(target, &error))
}

fn check_is_free(data_dir: &Path) -> Result<(), String> {
    match fs::read_dir(data_dir) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(format!(
                "'{}' is not empty: name a directory that is, or one that does not exist",
                data_dir.display()
            )),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("'{}' cannot be used as a data directory: {error}", data_dir.display())),
    }
}

/// Makes the directories of a file, and notes them.
fn make_parents(target: &Path, data_dir: &Path, made: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    let Some(parent) = target.parent() else { return Ok(()) };
    if made.contains(parent) {
        return Ok(());
    }
    make_directory(parent)?;
    let above = parent.ancestors().take_while(|directory| *directory != data_dir);
    made.extend(above.map(Path::to_owned));
    Ok(())
}
