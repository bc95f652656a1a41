//! Copies of a database's files: for inspecting a shard that no process has open, and for
//! checkpoints of an open shard.
//!
//! Tables are never written twice, so that a link is as good as a copy. The other files are small,
//! except for the journals, of which only the sound part is copied.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::LogPosition;
use crate::files::Files;
use crate::journal::Inspected;

/// Makes a table appear under a second name.
pub(crate) type Link = fn(&Path, &Path) -> io::Result<()>;

/// Copies the journals from a position on. A journal with nothing behind the position is left out,
/// unless it is the newest.
pub(crate) fn copy_journals(journals: &[Inspected], behind: &LogPosition, to: &Path) -> io::Result<()> {
    let newest = journals.last().map(|journal| journal.known.number);
    for journal in journals {
        let number = journal.known.number;
        let start = behind.bytes_before(number);
        if start == journal.known.good_bytes && newest != Some(number) {
            continue;
        }
        let mut from = match File::open(&journal.path) {
            Ok(from) => from,
            // Sorted meanwhile: its rows are in tables, which are copied later.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        from.seek(SeekFrom::Start(start))?;
        let mut copy = File::create(to.join(format!("{number}.jnl")))?;
        io::copy(&mut from.take(journal.known.good_bytes.saturating_sub(start)), &mut copy)?;
        copy.sync_all()?;
    }
    Ok(())
}

/// Everything but the journals.
pub(crate) fn copy_files(database: &Path, files: &Files, to: &Path, link: Link) -> io::Result<()> {
    File::create(to.join("lock"))?;
    copy_content(&database.join("version"), &to.join("version"))?;
    for keyspace in &files.keyspaces {
        let (from, to) = (database.join(&keyspace.folder), to.join(&keyspace.folder));
        fs::create_dir_all(to.join("tables"))?;
        for name in ["current", &keyspace.version] {
            copy_content(&from.join(name), &to.join(name))?;
        }
        for table in &keyspace.tables {
            let name = Path::new("tables").join(table.number.to_string());
            link(&from.join(&name), &to.join(&name))?;
        }
    }
    Ok(())
}

/// Without the permissions, which may be to read only.
fn copy_content(from: &Path, to: &Path) -> io::Result<()> {
    let mut copy = File::create(to)?;
    io::copy(&mut File::open(from)?, &mut copy)?;
    copy.sync_all()
}
