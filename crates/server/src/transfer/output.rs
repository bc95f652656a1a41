//! An output that is whole or not there: a temporary file that is renamed at the end, or standard output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::formats::STANDARD;

const BUFFER_BYTES: usize = 256 << 10;

pub enum Output {
    Standard(BufWriter<io::Stdout>),
    File { file: BufWriter<File>, temporary: PathBuf, path: PathBuf, may_replace: bool },
}

impl Output {
    /// Fails where the file exists, unless it may be replaced.
    pub fn create(path: &Path, may_replace: bool) -> Result<Output, String> {
        if path == Path::new(STANDARD) {
            return Ok(Output::Standard(BufWriter::with_capacity(BUFFER_BYTES, io::stdout())));
        }
        if !may_replace && fs::symlink_metadata(path).is_ok() {
            return Err(exists(path));
        }
        let mut name = path.file_name().ok_or_else(|| format!("'{}' is no file", path.display()))?.to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary);
        let file = file.map_err(|error| format!("'{}' cannot be written: {error}", temporary.display()))?;
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Output::File { file, temporary, path: path.to_owned(), may_replace })
    }

    /// The file under its name, and durable.
    pub fn finish(mut self) -> Result<(), String> {
        match self.flush() {
            // The reader has read all that it wanted.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            flushed => flushed.map_err(|error| self.unwritable(&error))?,
        }
        if let Output::File { file, temporary, path, may_replace } = &mut self {
            let finished = file.get_ref().sync_all().and_then(|()| match may_replace {
                true => fs::rename(&*temporary, &*path),
                // Unlike a rename, a link never replaces a file that was created meanwhile.
                false => fs::hard_link(&*temporary, &*path).or_else(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => Err(error),
                    // File systems without links.
                    _ if fs::symlink_metadata(&*path).is_err() => fs::rename(&*temporary, &*path),
                    _ => Err(io::ErrorKind::AlreadyExists.into()),
                }),
            });
            match finished {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(exists(path)),
                Err(error) => return Err(format!("'{}' cannot be written: {error}", path.display())),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    pub fn unwritable(&self, error: &io::Error) -> String {
        match self {
            Output::Standard(_) => format!("standard output cannot be written: {error}"),
            Output::File { temporary, .. } => {
                format!("'{}' cannot be written: {error}", temporary.display())
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Standard(out) => out.write(bytes),
            Output::File { file, .. } => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Standard(out) => out.flush(),
            Output::File { file, .. } => file.flush(),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Output::File { temporary, .. } = self {
            // After a rename there is nothing to remove.
            let _gone = fs::remove_file(temporary);
        }
    }
}

fn exists(path: &Path) -> String {
    format!("'{}' exists: give another name, or --force to replace it", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("out.jsonl");
        let mut output = Output::create(&path, false).expect("new");
        output.write_all(b"half").expect("written");
        drop(output);
        assert_eq!(fs::read_dir(directory.path()).expect("listed").count(), 0);
        let write = |text: &str, may_replace| {
            let mut output = Output::create(&path, may_replace)?;
            output.write_all(text.as_bytes()).expect("written");
            output.finish()
        };
        assert_eq!(write("one", false), Ok(()));
        assert!(write("two", false).is_err_and(|message| message.contains("--force")));
        assert_eq!(fs::read_to_string(&path).expect("text"), "one");
        assert_eq!(write("two", true), Ok(()));
        assert_eq!(fs::read_to_string(&path).expect("text"), "two");
        let late = Output::create(&directory.path().join("late"), false).expect("new");
        fs::write(directory.path().join("late"), "another").expect("written");
        assert!(late.finish().is_err_and(|message| message.contains("exists")));
        assert_eq!(fs::read_to_string(directory.path().join("late")).expect("text"), "another");
        assert_eq!(fs::read_dir(directory.path()).expect("listed").count(), 2);
    }
}
