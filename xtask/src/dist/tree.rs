//! Files of a package: paths, modes and contents, written as tar in one order, with one date and owner.
//!
//! The same release gives the same bytes, whatever machine packs it.

use crate::Outcome;
use crate::dist::release::Release;
use flate2::GzBuilder;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use tar::{EntryType, Header};

pub const PROGRAM: u32 = 0o755;
pub const DATA: u32 = 0o644;

#[derive(Debug)]
struct Entry {
    mode: u32,
    owner: u64,
    /// `None`: a directory.
    content: Option<Vec<u8>>,
}

/// By path, without a slash in front.
#[derive(Debug, Default)]
pub struct Tree(BTreeMap<String, Entry>);

impl Tree {
    pub fn add(&mut self, path: &str, mode: u32, content: impl Into<Vec<u8>>) {
        self.0.insert(path.to_owned(), Entry { mode, owner: 0, content: Some(content.into()) });
    }

    /// Copies a file; links are followed.
    pub fn copy(&mut self, path: &str, mode: u32, from: &Path) -> Outcome {
        let content = std::fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
        self.add(path, mode, content);
        Ok(())
    }

    /// Adds an empty directory. Those above a file need no mention.
    pub fn directory(&mut self, path: &str, mode: u32, owner: u64) {
        self.0.insert(path.to_owned(), Entry { mode, owner, content: None });
    }

    /// Adds all files of a directory, compressed where they are manual pages.
    pub fn add_manual(&mut self, below: &str, pages: &Path, compress: Option<&Release>) -> Outcome {
        for entry in std::fs::read_dir(pages)? {
            let entry = entry?;
            let (name, content) = (entry.file_name(), std::fs::read(entry.path())?);
            let name = name.to_string_lossy();
            match compress {
                Some(release) => self.add(&format!("{below}/{name}.gz"), DATA, gzip(&content, release)?),
                None => self.add(&format!("{below}/{name}"), DATA, content),
            }
        }
        Ok(())
    }

    /// Sum of all contents in bytes.
    pub fn size(&self) -> usize {
        self.0.values().filter_map(|entry| entry.content.as_ref()).map(Vec::len).sum()
    }

    pub fn tar(&self, epoch: u64) -> Outcome<Vec<u8>> {
        let mut builder = tar::Builder::new(Vec::new());
        for path in self.directories_above() {
            if !self.0.contains_key(&path) {
                append(&mut builder, &path, &Entry { mode: 0o755, owner: 0, content: None }, epoch)?;
            }
        }
        for (path, entry) in &self.0 {
            append(&mut builder, path, entry, epoch)?;
        }
        Ok(builder.into_inner()?)
    }

    fn directories_above(&self) -> BTreeSet<String> {
        let above = |path: &String| {
            let places = path.match_indices('/').map(|(place, _)| place);
            places.map(|place| path[..place].to_owned()).collect::<Vec<_>>()
        };
        self.0.keys().flat_map(above).collect()
    }

    pub fn tar_gz(&self, release: &Release) -> Outcome<Vec<u8>> {
        gzip(&self.tar(release.epoch)?, release)
    }
}

fn append(builder: &mut tar::Builder<Vec<u8>>, path: &str, entry: &Entry, epoch: u64) -> Outcome {
    let mut header = Header::new_gnu();
    let content = entry.content.as_deref().unwrap_or_default();
    header.set_entry_type(if entry.content.is_some() { EntryType::Regular } else { EntryType::Directory });
    header.set_mode(entry.mode);
    header.set_uid(entry.owner);
    header.set_gid(entry.owner);
    header.set_mtime(epoch);
    header.set_size(content.len() as u64);
    let slash = if entry.content.is_some() { "" } else { "/" };
    Ok(builder.append_data(&mut header, format!("{path}{slash}"), content)?)
}

/// Without a name or date of its own.
pub fn gzip(content: &[u8], release: &Release) -> Outcome<Vec<u8>> {
    let mut encoder = GzBuilder::new().write(Vec::new(), release.compression());
    encoder.write_all(content)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_packed_in_one_order_with_its_directories() {
        let mut tree = Tree::default();
        tree.add("usr/bin/b", PROGRAM, "two");
        tree.add("usr/a", DATA, "one");
        tree.directory("data", 0o700, 5);
        let packed = tree.tar(1000).expect("it can be packed");
        let mut archive = tar::Archive::new(packed.as_slice());
        let found: Vec<_> = archive
            .entries()
            .expect("entries")
            .map(|entry| {
                let entry = entry.expect("an entry");
                let (header, path) = (entry.header(), entry.path().expect("a path").display().to_string());
                assert_eq!(header.mtime().expect("a date"), 1000);
                (path, header.mode().expect("a mode"), header.uid().expect("an owner"))
            })
            .collect();
        let expected = [
            ("usr/", 0o755, 0),
            ("usr/bin/", 0o755, 0),
            ("data/", 0o700, 5),
            ("usr/a", 0o644, 0),
            ("usr/bin/b", 0o755, 0),
        ];
        assert_eq!(found, expected.map(|(path, mode, owner)| (path.to_owned(), mode, owner)));
        assert_eq!((tree.size(), packed), (6, tree.tar(1000).expect("again the same bytes")));
    }
}
