//! Look-up of the rows of ended versions.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::files::Files;
use crate::error::TableError;
use crate::keys::{KeyHash, KeyIndex};
use crate::log::{DataFile, LsnRange, Span, Version};

/// Version of an item that is over: its ordinal, and the LSN that its row bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ended {
    pub ordinal: u64,
    pub lsn: u64,
}

/// Fences and filters in memory, within a budget.
#[derive(Debug)]
pub struct Indexes {
    opened: BTreeMap<String, (Arc<KeyIndex>, u64)>,
    budget: usize,
    weight: usize,
    uses: u64,
}

impl Indexes {
    pub fn new(budget: usize) -> Indexes {
        Indexes { opened: BTreeMap::new(), budget, weight: 0, uses: 0 }
    }

    fn open(&mut self, files: &Files, file: &DataFile) -> Result<Arc<KeyIndex>, TableError> {
        self.uses += 1;
        if let Some((index, used)) = self.opened.get_mut(&file.path) {
            *used = self.uses;
            return Ok(index.clone());
        }
        let index = Arc::new(files.key_index(file)?);
        self.put(&file.path, &index);
        Ok(index)
    }

    fn put(&mut self, path: &str, index: &Arc<KeyIndex>) {
        self.weight += index.weight();
        let former = self.opened.insert(path.to_owned(), (index.clone(), self.uses));
        self.weight -= former.map_or(0, |(former, _)| former.weight());
        while self.weight > self.budget && self.opened.len() > 1 {
            let oldest = self.opened.iter().min_by_key(|(_, (_, used))| *used).map(|(path, _)| path.clone());
            let Some((index, _)) = oldest.and_then(|path| self.opened.remove(&path)) else { break };
            self.weight -= index.weight();
        }
    }

    pub fn keep(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.opened.retain(|path, _| is_kept(path));
        self.weight = self.opened.values().map(|(index, _)| index.weight()).sum();
    }
}

/// Row numbers by data file, and the versions that no file has.
#[derive(Debug, Default)]
pub struct Found {
    pub rows: BTreeMap<String, Vec<(u32, Ended)>>,
    pub missing: Vec<Ended>,
}

/// Finds the rows of ended versions of one span. The vectors of files are not looked at.
pub fn find(
    files: &Files,
    indexes: &mut Indexes,
    version: &Version,
    span: &Span,
    ended: &[Ended],
) -> Result<Found, TableError> {
    let mut open: BTreeMap<KeyHash, Ended> =
        ended.iter().map(|ended| (files.hasher.hash(ended.ordinal, ended.lsn), *ended)).collect();
    let all = ended.iter().fold(LsnRange::EMPTY, |range, ended| range.with(ended.lsn));
    let mut found = Found::default();
    for file in version.files.values() {
        if open.is_empty() {
            break;
        }
        let may_hold =
            file.span.may_overlap(span) && file.lsn.least <= all.greatest && all.least <= file.lsn.greatest;
        if !may_hold {
            continue;
        }
        let index = indexes.open(files, file)?;
        let in_range = open.iter().filter(|(_, ended)| file.lsn.contains(ended.lsn));
        let hashes: Vec<KeyHash> =
            in_range.map(|(hash, _)| *hash).filter(|hash| index.may_contain(hash)).collect();
        if hashes.is_empty() {
            continue;
        }
        let rows = match index.find(&*files.keys, &hashes) {
            Err(TableError::Damaged { .. }) => {
                let index = Arc::new(files.rebuild_keys(file)?);
                indexes.put(&file.path, &index);
                index.find(&*files.keys, &hashes)?
            }
            rows => rows?,
        };
        for (hash, row) in rows {
            let ended = open.remove(&hash).expect("only searched hashes are found");
            found.rows.entry(file.path.clone()).or_default().push((row, ended));
        }
    }
    found.missing = open.into_values().collect();
    Ok(found)
}
