//! Contents: written once under their digest, and read with a look at it. Both go piece by piece, whatever the size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::digest::{Digest, Sum};
use super::manifest::FileEntry;
use super::place::{Place, make_directory};

const PIECE_BYTES: usize = 1 << 20;

/// A content on its way into the place.
pub struct Unfinished {
    file: File,
    path: PathBuf,
    sum: Sum,
}

impl Unfinished {
    /// Contents are written one after the other.
    pub fn begin(place: &Place) -> Result<Unfinished, String> {
        let path = place.unfinished().join("content");
        let _none_is_fine = fs::remove_file(&path);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|error| unwritten(&path, &error))?;
        Ok(Unfinished { file, path, sum: Sum::default() })
    }

    pub fn add(&mut self, piece: &[u8]) -> Result<(), String> {
        self.sum.add(piece);
        self.file.write_all(piece).map_err(|error| unwritten(&self.path, &error))
    }

    /// Puts it in its place, on stable storage but for its directory, and says whether it is new there. What may lie there has
    /// the same content, or has rotted.
    pub fn finish(self, place: &Place) -> Result<(Digest, bool), String> {
        let digest = self.sum.finish();
        let target = place.object_path(&digest);
        let is_new = !target.exists();
        let finished = self.file.sync_all().and_then(|()| {
            target.parent().map_or(Ok(()), make_directory)?;
            fs::rename(&self.path, &target)
        });
        finished.map_err(|error| unwritten(&target, &error))?;
        Ok((digest, is_new))
    }
}

/// What is wrong with a file of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    Missing,
    Size { found: u64 },
    Content,
    Unreadable(String),
}

impl Damage {
    /// Names the file, and where it lies.
    pub fn of(&self, place: &Place, file: &FileEntry) -> String {
        let what = match self {
            Damage::Missing => "is missing".to_owned(),
            Damage::Size { found } => format!("has {found} bytes instead of {}", file.size_bytes),
            Damage::Content => "is damaged: its SHA-256 is another one".to_owned(),
            Damage::Unreadable(error) => format!("cannot be read: {error}"),
        };
        format!("'{}' {what} ('{}')", file.path, place.object_path(&file.sha256).display())
    }
}

/// Without reading it.
pub fn look(place: &Place, file: &FileEntry) -> Result<(), Damage> {
    match fs::metadata(place.object_path(&file.sha256)) {
        Ok(found) if !found.is_file() => Err(Damage::Missing),
        Ok(found) if found.len() != file.size_bytes => Err(Damage::Size { found: found.len() }),
        Ok(_) => Ok(()),
        Err(error) => Err(unreadable(&error)),
    }
}

/// Reads all of it.
pub fn check(place: &Place, file: &FileEntry) -> Result<(), Damage> {
    read(place, file, |_| Ok(())).map_err(|failed| match failed {
        Failed::Damage(damage) => damage,
        Failed::Target(error) => unreadable(&error),
    })
}

/// Copies it to a new file, which is on stable storage afterwards but for its directory.
pub fn put_back(place: &Place, file: &FileEntry, target: &Path) -> Result<(), String> {
    let put = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target);
    let mut put = put.map_err(|error| unwritten(target, &error))?;
    let copied = read(place, file, |piece| put.write_all(piece));
    copied.map_err(|failed| match failed {
        Failed::Damage(damage) => damage.of(place, file),
        Failed::Target(error) => unwritten(target, &error),
    })?;
    put.sync_all().map_err(|error| unwritten(target, &error))
}

enum Failed {
    Damage(Damage),
    /// What was read could not be handed on.
    Target(io::Error),
}

fn read(place: &Place, file: &FileEntry, mut to: impl FnMut(&[u8]) -> io::Result<()>) -> Result<(), Failed> {
    look(place, file).map_err(Failed::Damage)?;
    let unreadable = |error: io::Error| Failed::Damage(unreadable(&error));
    let mut content = File::open(place.object_path(&file.sha256)).map_err(unreadable)?;
    let mut piece = vec![0; PIECE_BYTES];
    let (mut sum, mut found) = (Sum::default(), 0);
    loop {
        let count = match content.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(error)),
        };
        found += count as u64;
        if found > file.size_bytes {
            return Err(Failed::Damage(Damage::Size { found }));
        }
        sum.add(&piece[..count]);
        to(&piece[..count]).map_err(Failed::Target)?;
    }
    match sum.finish() == file.sha256 {
        true => Ok(()),
        false => Err(Failed::Damage(Damage::Content)),
    }
}

fn unreadable(error: &io::Error) -> Damage {
    match error.kind() {
        io::ErrorKind::NotFound => Damage::Missing,
        _ => Damage::Unreadable(error.to_string()),
    }
}

fn unwritten(path: &Path, error: &io::Error) -> String {
    format!("'{}' cannot be written: {error}", path.display())
}
