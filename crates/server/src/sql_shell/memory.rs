//! The history of inputs: a file of JSON strings under the user's state directory, readable by its owner only, of bounded length.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::private_file::{self, Secrecy};

/// Inputs that are kept.
pub const ENTRIES_MAX: usize = 1_000;
/// Longer inputs are not kept.
const ENTRY_BYTES_MAX: usize = 64 << 10;

/// `$XDG_STATE_HOME/shardlake/sql_history`, or the same below `~/.local/state`.
pub fn place(variables: impl Iterator<Item = (OsString, OsString)>) -> Option<PathBuf> {
    let variables: Vec<_> = variables.collect();
    let of = |name: &str| {
        let found = variables.iter().find(|(found, value)| found == name && !value.is_empty());
        found.map(|(_, value)| PathBuf::from(value))
    };
    let home = of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")))?;
    Some(home.join("shardlake/sql_history"))
}

/// The inputs of earlier sessions, the oldest first. A file that has grown too long is cut.
pub fn load(path: &Path) -> Vec<String> {
    let Ok(text) = fs::read_to_string(path) else { return Vec::new() };
    let entries: Vec<&str> = text.lines().collect();
    let kept = &entries[entries.len().saturating_sub(ENTRIES_MAX)..];
    if kept.len() < entries.len() {
        // Other sessions append meanwhile at worst into the old file: an input is lost, no file is damaged.
        let _best_effort = private_file::write(path, (kept.join("\n") + "\n").as_bytes(), Secrecy::Secret);
    }
    kept.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

pub fn append(path: &Path, input: &str) -> io::Result<()> {
    if input.len() > ENTRY_BYTES_MAX {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let line = serde_json::to_string(input)? + "\n";
    file.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn inputs_are_kept_for_their_owner_and_bounded() {
        let home = tempfile::tempdir().expect("a directory");
        let variables = [("HOME".into(), home.path().into())];
        let path = place(variables.into_iter()).expect("a home");
        assert!(path.ends_with(".local/state/shardlake/sql_history"), "{path:?}");
        assert!(load(&path).is_empty());
        append(&path, "SELECT 1\nFROM c;").expect("written");
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(load(&path), ["SELECT 1\nFROM c;"]);
        for number in 0..ENTRIES_MAX {
            append(&path, &format!("SELECT {number};")).expect("written");
        }
        append(&path, &"x".repeat(ENTRY_BYTES_MAX + 1)).expect("passed over");
        assert_eq!(load(&path).len(), ENTRIES_MAX);
        assert_eq!(fs::read_to_string(&path).expect("text").lines().count(), ENTRIES_MAX, "it was cut");
        assert_eq!(load(&path)[0], "SELECT 0;");
        assert_eq!(place([].into_iter()), None);
    }
}
