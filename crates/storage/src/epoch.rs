//! The epoch of a local shard: which of its owners came last.
//!
//! A shard that moves to another owner is opened with a higher epoch. An earlier owner, which may
//! have slept meanwhile, opens it with its own epoch and is refused. The number lies in the file
//! `EPOCH` next to the database, on stable storage before the first write of its owner; a shard
//! that was never opened with an epoch has none.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::StorageError;

const NAME: &str = "EPOCH";

/// Records the epoch. An owner that opens without one adopts the recorded epoch.
pub(crate) fn claim(directory: &Path, epoch: Option<u64>) -> Result<(), StorageError> {
    let recorded = read(directory)?;
    let Some(epoch) = epoch else { return Ok(()) };
    if epoch < recorded {
        return Err(StorageError::Fenced { epoch: recorded });
    }
    if epoch == recorded {
        return Ok(());
    }
    let path = directory.join(NAME);
    replace(directory, &path, epoch)
        .map_err(|error| StorageError::io(format!("'{}' cannot be written: {error}", path.display())))
}

/// 0 where none is recorded.
fn read(directory: &Path) -> Result<u64, StorageError> {
    let path = directory.join(NAME);
    let damaged = || StorageError::Corrupt { what: format!("'{}' is damaged", path.display()).into() };
    match fs::read_to_string(&path) {
        Ok(text) => {
            let epoch = text.lines().nth(1).and_then(|line| line.parse().ok()).ok_or_else(damaged)?;
            // There is one way to write each of them, checksum included.
            if text_of(epoch) == text { Ok(epoch) } else { Err(damaged()) }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(damaged()),
        Err(error) => Err(StorageError::io(format!("'{}' cannot be read: {error}", path.display()))),
    }
}

fn replace(directory: &Path, path: &Path, epoch: u64) -> io::Result<()> {
    let unfinished = directory.join("EPOCH.new");
    let mut file = File::create(&unfinished)?;
    file.write_all(text_of(epoch).as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    File::open(directory)?.sync_all()
}

fn text_of(epoch: u64) -> String {
    let text = format!("shardlake epoch 1\n{epoch}\n");
    let checksum = xxh3_64(text.as_bytes());
    text + &format!("checksum {checksum:016x}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_only_grow_and_damage_is_told() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        claim(path, None).expect("no epoch yet");
        for epoch in [3, 3, 4, 11] {
            claim(path, Some(epoch)).expect("not lower");
        }
        assert!(matches!(claim(path, Some(10)), Err(StorageError::Fenced { epoch: 11 })));
        claim(path, None).expect("takes what is there");
        let text = text_of(11).into_bytes();
        for (at, bit) in (0..text.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut damaged = text.clone();
            damaged[at] ^= 1 << bit;
            fs::write(path.join(NAME), damaged).expect("writes");
            let refused = claim(path, Some(12));
            assert!(matches!(refused, Err(StorageError::Corrupt { .. })), "bit {bit} of byte {at}");
        }
    }
}
