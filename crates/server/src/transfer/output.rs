//! An output that is whole or not there: a temporary file that is renamed at the end, or standard output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::formats::STANDARD;

const BUFFER_BYTES: usize = 256 << 10;

pub enum Output {
    Standard(BufWriter<io::Stdout>),
    File { file: BufWriter<File>, temporary: PathBuf, path: PathBuf, may_replace: bool },
}

impl Output {
    /// Fails where the file exists, unless it may be replaced. A symbolic link means its target; only regular files are replaced, and
    /// the new file has the mode of the old one.
    pub fn create(path: &Path, may_replace: bool) -> Result<Output, String> {
        if path == Path::new(STANDARD) {
            return Ok(Output::Standard(BufWriter::with_capacity(BUFFER_BYTES, io::stdout())));
        }
        let path = &target(path)?;
        let old = replaceable(path)?;
        if old.is_some() && !may_replace {
            return Err(exists(path));
        }
        let mut name = path.file_name().ok_or_else(|| format!("'{}' is no file", path.display()))?.to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary);
        let unwritable = |error| format!("'{}' cannot be written: {error}", temporary.display());
        let file = file.map_err(unwritable)?;
        let output = Output::File {
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            temporary: temporary.clone(),
            path: path.clone(),
            may_replace,
        };
        if let Some(old) = old {
            fs::set_permissions(&temporary, old.permissions()).map_err(unwritable)?;
        }
        Ok(output)
    }

    /// The file under its name, and durable.
    pub fn finish(mut self) -> Result<(), String> {
        match self.flush() {
            // The reader has read all that it wanted.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            flushed => flushed.map_err(|error| self.unwritable(&error))?,
        }
        if let Output::File { file, temporary, path, may_replace } = &mut self {
            // Something else may have taken the name meanwhile.
            replaceable(path)?;
            let finished = file.get_ref().sync_all().and_then(|()| match may_replace {
                true => fs::rename(&*temporary, &*path),
                // Unlike a rename, a link never replaces a file that was created meanwhile.
                false => fs::hard_link(&*temporary, &*path).or_else(|error| match error.kind() {
                    ErrorKind::AlreadyExists => Err(error),
                    // File systems without links.
                    _ if fs::symlink_metadata(&*path).is_err() => fs::rename(&*temporary, &*path),
                    _ => Err(ErrorKind::AlreadyExists.into()),
                }),
            });
            match finished {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(exists(path)),
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

/// The file that a symbolic link names, over any number of links, and every other path as it is.
fn target(path: &Path) -> Result<PathBuf, String> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => fs::canonicalize(path).map_err(|error| {
            format!("'{}' is a symbolic link that names no file ({error}): remove it", path.display())
        }),
        _ => Ok(path.to_owned()),
    }
}

/// The regular file of a name; `None` for a free name. Devices, pipes and directories are never replaced.
fn replaceable(path: &Path) -> Result<Option<fs::Metadata>, String> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(Some(metadata)),
        Ok(_) => Err(format!(
            "'{}' is no regular file and is not replaced: give another name, or write to standard output with -",
            path.display()
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("'{}' cannot be written: {error}", path.display())),
    }
}

fn exists(path: &Path) -> String {
    format!("'{}' exists: give another name, or --force to replace it", path.display())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_regular_files_are_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        let write = |name: &str, may_replace| {
            let mut output = Output::create(&at(name), may_replace)?;
            output.write_all(b"new").expect("written");
            output.finish()
        };
        // A socket stands for every special file.
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("bound");
        fs::create_dir(at("directory")).expect("created");
        symlink(at("socket"), at("to socket")).expect("linked");
        for name in ["socket", "directory", "to socket"] {
            for may_replace in [false, true] {
                let message = write(name, may_replace).expect_err(name);
                assert!(
                    message.contains("standard output with -") && !message.contains("--force"),
                    "{message}"
                );
            }
        }
        assert!(fs::symlink_metadata(at("socket")).is_ok_and(|metadata| metadata.file_type().is_socket()));
        fs::write(at("file"), "old").expect("written");
        fs::set_permissions(at("file"), fs::Permissions::from_mode(0o640)).expect("set");
        symlink("file", at("link")).expect("linked");
        symlink("link", at("link of link")).expect("linked");
        assert!(write("link of link", false).is_err_and(|message| message.contains("--force")));
        assert_eq!(write("link of link", true), Ok(()));
        assert_eq!(fs::read_to_string(at("file")).expect("text"), "new");
        assert_eq!(fs::metadata(at("file")).expect("there").permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(at("link")).is_ok_and(|metadata| metadata.is_symlink()));
        symlink("nowhere", at("dangling")).expect("linked");
        assert!(write("dangling", true).is_err_and(|message| message.contains("names no file")));
        assert!(fs::symlink_metadata(at("nowhere")).is_err());
    }

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
