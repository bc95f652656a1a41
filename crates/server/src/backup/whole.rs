//! Completeness of a backup's files: a forged or an incomplete list of files is refused before anything is restored.
//!
//! There are two checks. *The list*: each shard has the files without which no shard opens, the numbers of its journals or of the
//! objects of its log have no gap, and nothing belongs to a shard that the account does not have. *The contents*
//! ([`check_contents`]): the newest journals or objects are there, as far as the shard itself records them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use shardlake_account::SHARDS_MAX;

use super::digest::Digest;
use super::manifest::{ACCOUNT_FILE, HEAD, KEY_FILE, Manifest, folder_of};
use super::place::Place;

/// Without these there is no shard on a local disk.
const LOCAL_FILES: [&str; 4] = ["FORMAT", "db/version", "db/keyspaces/0/current", "db/keyspaces/1/current"];

/// In which a shard records its journals.
const JOURNALS: &str = "JOURNALS";
const JOURNALS_BYTES_MAX: usize = 16 << 20;

impl Manifest {
    /// Decodes and checks a manifest; errors are texts that follow "the manifest '…'".
    pub fn decode(content: &[u8]) -> Result<Manifest, String> {
        let damaged = || "is damaged".to_owned();
        let end = content.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
        let (head, json) = (&content[..end], &content[end + 1..]);
        let head = std::str::from_utf8(head).map_err(|_| damaged())?;
        let Some(digest) = head.strip_prefix(HEAD) else {
            let is_ours = head.starts_with("shardlake backup ");
            return Err(if is_ours { "is of another version of this program".into() } else { damaged() });
        };
        if digest != Digest::of(json).to_string() {
            return Err(damaged());
        }
        let manifest: Manifest =
            serde_json::from_slice(json).map_err(|error| format!("is malformed: {error}"))?;
        manifest.check_paths()?;
        check_list(&manifest)?;
        Ok(manifest)
    }
}

/// Checks the list of files; errors are texts that follow "the manifest '…'".
fn check_list(manifest: &Manifest) -> Result<(), String> {
    let count = usize::from(manifest.shards);
    if !(1..=SHARDS_MAX).contains(&count) {
        return Err(format!("has {count} shards: an account has 1 to {SHARDS_MAX}"));
    }
    if !manifest.stamps.is_empty() && manifest.stamps.len() != count {
        return Err(format!("has the logs of {} shards, and has {count} shards", manifest.stamps.len()));
    }
    if let Some(partition) =
        manifest.partitions.iter().find(|partition| usize::from(partition.shard) >= count)
    {
        return Err(format!("has a partition on shard {}, and has {count} shards", partition.shard));
    }
    let mut shards = by_shard(manifest);
    if manifest.account.is_some() && !shards.remove("").is_some_and(|files| files.contains(ACCOUNT_FILE)) {
        return Err(format!("is incomplete: it has no '{ACCOUNT_FILE}'"));
    }
    let _beside_the_shards = shards.remove("");
    for folder in (0..count).map(|number| folder_of(number, manifest.is_of_store())) {
        let files = shards.remove(folder.as_str()).unwrap_or_default();
        check_shard(&folder, &files, manifest.is_of_store())?;
    }
    match shards.keys().next() {
        Some(folder) => {
            Err(format!("has files in '{folder}', which is no shard of an account with {count} shards"))
        }
        None => Ok(()),
    }
}

/// The paths of files, relative to the folder of their shard; files outside the shards are under "".
fn by_shard(manifest: &Manifest) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut shards: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in &manifest.files {
        let path = file.path.as_str();
        let folder = match path {
            ACCOUNT_FILE | KEY_FILE => "",
            path => {
                let depth = if path.starts_with("s/") { 1 } else { 0 };
                path.match_indices('/').nth(depth).map_or(path, |(at, _)| &path[..at])
            }
        };
        shards.entry(folder).or_default().insert(path[folder.len()..].trim_start_matches('/'));
    }
    shards
}

fn check_shard(folder: &str, files: &BTreeSet<&str>, is_of_store: bool) -> Result<(), String> {
    if is_of_store {
        if !files.iter().any(|file| file.starts_with("manifest/") && file.ends_with(".manifest")) {
            return Err(format!("is incomplete: it has no '{folder}/manifest'"));
        }
        return check_numbers(
            files,
            |number| format!("wal/{number:020}.sst"),
            |first| format!("is incomplete: it has no '{folder}/{first}'"),
        );
    }
    if let Some(missing) = LOCAL_FILES.iter().find(|file| !files.contains(*file)) {
        return Err(format!("is incomplete: it has no '{folder}/{missing}'"));
    }
    if numbers(files, &journal_path).is_empty() {
        return Err(format!("is incomplete: it has no journal in '{folder}/db'"));
    }
    check_numbers(files, journal_path, |first| format!("is incomplete: it has no '{folder}/{first}'"))
}

fn journal_path(number: u64) -> String {
    format!("db/{number}.jnl")
}

/// The numbers of files whose paths are made of numbers, in their order.
fn numbers(files: &BTreeSet<&str>, path_of: &impl Fn(u64) -> String) -> BTreeSet<u64> {
    let number = |file: &&str| {
        let stem = file.rsplit('/').next()?.split('.').next()?;
        stem.parse().ok().filter(|number| path_of(*number) == **file)
    };
    files.iter().filter_map(number).collect()
}

fn check_numbers(
    files: &BTreeSet<&str>,
    path_of: impl Fn(u64) -> String,
    refusal: impl Fn(&str) -> String,
) -> Result<(), String> {
    let numbers = numbers(files, &path_of);
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return Ok(()) };
    match (*first..=*last).find(|number| !numbers.contains(number)) {
        Some(missing) => Err(refusal(&path_of(missing))),
        None => Ok(()),
    }
}

/// Looks at the files that record which others there are.
pub async fn check_contents(at: &Path, place: &Place, manifest: &Manifest) -> Result<(), String> {
    if manifest.is_of_store() {
        for record in manifest.files.iter().filter(|file| file.path.ends_with(".manifest")) {
            place.check(record, &|_| ()).await.map_err(|damage| damage.of(place, record))?;
        }
        return super::look::check_logs(at, place, manifest).await;
    }
    for folder in (0..usize::from(manifest.shards)).map(|number| folder_of(number, false)) {
        check_journals(place, manifest, &folder).await?;
    }
    Ok(())
}

/// The journals that a shard on a local disk records. A shard of an early version records none.
async fn check_journals(place: &Place, manifest: &Manifest, folder: &str) -> Result<(), String> {
    let below =
        |path: &str| path.strip_prefix(folder).and_then(|path| path.strip_prefix('/')).map(str::to_owned);
    let Some(record) = manifest.files.iter().find(|file| below(&file.path).as_deref() == Some(JOURNALS))
    else {
        return Ok(());
    };
    let (mut content, mut reading) = (Vec::new(), place.reading(record));
    loop {
        let piece = reading.next().await.map_err(|damage| damage.of(place, record))?;
        if piece.is_empty() {
            break;
        }
        content.extend_from_slice(&piece);
        if content.len() > JOURNALS_BYTES_MAX {
            return Err(format!("'{}' is larger than any record of journals", record.path));
        }
    }
    let journals = manifest.files.iter().filter_map(|file| Some((below(&file.path)?, file.size_bytes)));
    shardlake_storage::check_copied_journals(&content, &journals.collect())
        .map_err(|error| format!("'{folder}': {error}"))
}

#[cfg(test)]
mod tests {
    use super::super::manifest::FileEntry;
    use super::*;

    fn manifest(shards: u16, paths: &[&str]) -> Manifest {
        let entry = |path: &&str| FileEntry {
            path: (*path).to_owned(),
            size_bytes: 3,
            sha256: Digest::of(b"abc"),
            table_checksum: None,
        };
        Manifest {
            id: "20261123-081708-123-3fa9c1".parse().expect("an id"),
            time: "2026-11-23T08:17:08Z".into(),
            time_ms: 1_795_421_828_000,
            version: "0.1.0".into(),
            account: Some("a".into()),
            shards,
            partitions: Vec::new(),
            relocations: Vec::new(),
            stamps: Vec::new(),
            files: paths.iter().map(entry).collect(),
        }
    }

    fn shard(folder: &str) -> Vec<String> {
        let mut files: Vec<String> = LOCAL_FILES.iter().map(|file| format!("{folder}/{file}")).collect();
        files.extend([7, 8, 9].map(|number| format!("{folder}/db/{number}.jnl")));
        files
    }

    fn in_store(folder: &str) -> Vec<String> {
        let mut files = vec![format!("{folder}/manifest/00000000000000000012.manifest")];
        files.extend([20, 21, 22].map(|number| format!("{folder}/wal/{number:020}.sst")));
        files
    }

    fn checked(shards: u16, files: &[String]) -> Result<(), String> {
        check_list(&manifest(shards, &files.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    /// Each file that a shard needs is missed by its name; tables are not known by a list.
    #[test]
    fn lists_without_a_file_that_an_account_needs_are_refused_by_its_name() {
        let account = vec![ACCOUNT_FILE.to_owned()];
        let on_disk = [account.clone(), shard("shard"), shard("shard-1")].concat();
        let stored = [account.clone(), in_store("s/00000-1"), in_store("s/00001-1")].concat();
        for (files, ends) in [(&on_disk, ["7.jnl", "9.jnl"]), (&stored, ["20.sst", "22.sst"])] {
            assert_eq!(checked(2, files), Ok(()));
            for missing in 0..files.len() {
                let mut rest = files.clone();
                let missing = rest.remove(missing);
                // The first and the last number are in the contents.
                if ends.iter().any(|end| missing.ends_with(end)) {
                    assert_eq!(checked(2, &rest), Ok(()), "{missing}");
                    continue;
                }
                let refused = checked(2, &rest).expect_err(&missing);
                let folder = missing.rsplit_once('/').map_or(missing.as_str(), |(folder, _)| folder);
                assert!(refused.contains("incomplete") && refused.contains(folder), "{missing}: {refused}");
            }
            for (shards, word) in
                [(0, "0 shards"), (1, "no shard of"), (3, "no '"), (u16::MAX, "65535 shards")]
            {
                let refused = checked(shards, files).expect_err(word);
                assert!(refused.contains(word), "{refused}");
            }
        }
        assert!(checked(1, &[]).expect_err("nothing").contains("incomplete"));
        assert!(checked(1, &account).expect_err("no shard").contains("'shard/FORMAT'"));
        let without_journals: Vec<String> =
            [account, shard("shard")].concat().into_iter().filter(|file| !file.ends_with(".jnl")).collect();
        assert!(checked(1, &without_journals).expect_err("no journal").contains("no journal in 'shard/db'"));
        let mixed = [on_disk, in_store("s/00000-1"), in_store("s/00001-1")].concat();
        assert!(checked(2, &mixed).expect_err("both").contains("no shard of"));
    }
}
