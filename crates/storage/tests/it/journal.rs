//! Torn, damaged and lost ends of the journal of a local shard.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use shardlake_storage::{Batch, Durability, KeptFiles, Shard, ShardOptions, StorageError};
use shardlake_testkit::{Logs, expects_log};

const COMMITS: u64 = 40;

const TORN: &str = "cut a torn write off the journal";

fn key(number: u64, half: u8) -> Vec<u8> {
    [&[half][..], &number.to_be_bytes()].concat()
}

fn batch(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(key(number, 1), vec![number as u8; 300]);
    batch.put(key(number, 2), vec![1; 10]);
    batch
}

/// A shard after a power cut that took the records of its syncs: everything is in the journal only. Also where each commit's
/// bytes end there.
async fn crashed_shard(directory: &Path) -> (PathBuf, Vec<u64>) {
    crashed_shard_of(ShardOptions::local(directory), directory).await
}

async fn crashed_shard_of(options: ShardOptions, directory: &Path) -> (PathBuf, Vec<u64>) {
    let crashed = killed_shard_of(options, directory).await;
    fs::remove_file(directory.join("SYNCED")).expect("removes");
    crashed
}

/// A shard with such options after a kill of the process.
async fn killed_shard_of(options: ShardOptions, directory: &Path) -> (PathBuf, Vec<u64>) {
    let shard = Shard::open(options).await.expect("opens");
    let journal = directory.join("db/0.jnl");
    let mut ends = vec![0];
    for number in 1..=COMMITS {
        shard.commit(batch(number)).expect("room").await.expect("commits");
        let mut file = fs::File::open(&journal).expect("the journal");
        let mut bytes = vec![0; 64 * 1024];
        file.read_exact(&mut bytes).expect("preallocated");
        ends.push(bytes.iter().rposition(|byte| *byte != 0).expect("written") as u64 + 1);
    }
    drop(shard);
    // Less padding than fjall's 64 MB, for quicker copies.
    let file = fs::OpenOptions::new().write(true).open(&journal).expect("the journal");
    file.set_len(256 * 1024).expect("cuts");
    (journal, ends)
}

/// The number of commits found; all before the last are there, all are whole, and the shard writes again.
async fn recovered(options: ShardOptions) -> u64 {
    let mut found = 0;
    for round in 0..2 {
        let shard = Shard::open(options.clone()).await.expect("opens");
        found = 0;
        for number in 1..=COMMITS {
            let first = shard.get(&key(number, 1)).await.expect("reads");
            let second = shard.get(&key(number, 2)).await.expect("reads");
            assert_eq!(first.is_some(), second.is_some(), "commit {number} is torn");
            assert!(first.is_none() || number == found + 1, "commit {number} outlived a lost earlier one");
            found += u64::from(first.is_some());
        }
        let again = shard.get(&key(99, 1)).await.expect("reads");
        assert_eq!(again.is_some(), round == 1, "what was written after the recovery is kept");
        shard.commit(batch(99)).expect("room").await.expect("commits");
    }
    found
}

fn overwrite(journal: &Path, at: u64, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().write(true).open(journal).expect("the journal");
    file.seek(SeekFrom::Start(at)).expect("seeks");
    file.write_all(bytes).expect("writes");
}

#[tokio::test]
async fn a_journal_cut_anywhere_loses_only_what_was_cut() {
    let _logs = Logs::watch();
    let directory = tempfile::tempdir().expect("a directory");
    let (journal, ends) = crashed_shard(&directory.path().join("original")).await;
    expects_log(TORN);
    let (before, last) = (ends[COMMITS as usize - 1], ends[COMMITS as usize]);
    for (index, cut) in
        [before, before + 1, before + 13, before + 40, last - 200, last - 1].into_iter().enumerate()
    {
        for is_padded in [false, true] {
            let copy = directory.path().join(format!("{index}-{is_padded}"));
            copy_directory(journal.parent().and_then(Path::parent).expect("a parent"), &copy);
            let file = fs::OpenOptions::new().write(true).open(copy.join("db/0.jnl")).expect("the journal");
            file.set_len(cut).expect("cuts");
            if is_padded {
                file.set_len(256 * 1024).expect("pads");
            }
            assert_eq!(
                recovered(ShardOptions::local(&copy)).await,
                COMMITS - 1,
                "cut at {cut} after {before}"
            );
        }
    }
}

#[tokio::test]
async fn commits_over_blocks_that_were_written_ahead_survive_a_crash() {
    let _logs = Logs::watch();
    let directory = tempfile::tempdir().expect("a directory");
    let shard = Shard::open(ShardOptions::local(directory.path())).await.expect("opens");
    // Small enough for zeros to be written ahead, and together more than one step writes ahead.
    let value = |number: u64| vec![number as u8 + 1; 14_000];
    let count = 160;
    for number in 0..count {
        let mut batch = Batch::new();
        batch.put(key(number, 1), value(number));
        shard.commit(batch).expect("room").await.expect("commits");
    }
    let journal = fs::metadata(directory.path().join("db/0.jnl")).expect("the journal");
    let (written, used) = (journal.blocks() * 512, count * 14_000);
    assert!(written >= used + 500_000, "{written} bytes are written, {used} used");
    drop(shard);
    for round in 0..2 {
        let shard = Shard::open(ShardOptions::local(directory.path())).await.expect("opens");
        for number in 0..count {
            let found = shard.get(&key(number, 1)).await.expect("reads");
            assert_eq!(found, Some(value(number).into()), "commit {number} in round {round}");
        }
    }
}

#[tokio::test]
async fn a_last_batch_with_a_lost_page_inside_is_dropped_whole() {
    let _logs = Logs::watch();
    let directory = tempfile::tempdir().expect("a directory");
    let (journal, ends) = crashed_shard(directory.path()).await;
    expects_log(TORN);
    // Complete in length, as when the last page reached the disk and the one before did not.
    overwrite(&journal, ends[COMMITS as usize - 1] + 60, &[0; 200]);
    assert_eq!(recovered(ShardOptions::local(directory.path())).await, COMMITS - 1);
    let kept = fs::read_dir(directory.path().join("db")).expect("lists");
    let kept = kept
        .filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().to_string_lossy().contains("torn")));
    assert_eq!(kept.count(), 1, "what was cut off is kept");
}

#[tokio::test]
async fn garbage_behind_the_last_batch_is_cut_off() {
    let _logs = Logs::watch();
    let directory = tempfile::tempdir().expect("a directory");
    let (journal, ends) = crashed_shard(directory.path()).await;
    expects_log(TORN);
    // Tags of entries with absurd lengths among them.
    let garbage: Vec<u8> = (0..5000u32)
        .map(|number| (number % 4 + 1) as u8 * if number % 7 == 0 { 0xFF / 4 } else { 1 })
        .collect();
    overwrite(&journal, ends[COMMITS as usize], &garbage);
    assert_eq!(recovered(ShardOptions::local(directory.path())).await, COMMITS);
}

#[tokio::test]
async fn damage_before_good_batches_refuses_to_open_and_changes_nothing() {
    let _logs = Logs::watch();
    let directory = tempfile::tempdir().expect("a directory");
    let (journal, ends) = crashed_shard(directory.path()).await;
    // A damaged value, a damaged length and a damaged tag: the engine alone would silently drop all that follows.
    for at in [ends[20] + 80, ends[20] + 13 + 17, ends[20]] {
        let original = fs::read(&journal).expect("reads");
        overwrite(&journal, at, &[0x55; 3]);
        let damaged = fs::read(&journal).expect("reads");
        let error = Shard::open(ShardOptions::local(directory.path())).await.expect_err("refuses");
        assert!(matches!(&error, StorageError::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains(&format!("byte {}", ends[20])), "{error}");
        assert!(fs::read(&journal).expect("reads") == damaged, "nothing was changed");
        fs::write(&journal, original).expect("writes");
    }
    assert_eq!(recovered(ShardOptions::local(directory.path())).await, COMMITS);
}

#[tokio::test]
async fn without_a_sync_per_commit_a_tail_may_be_torn_anywhere() {
    let _logs = Logs::watch();
    let directory = tempfile::tempdir().expect("a directory");
    let later = ShardOptions { durability: Durability::Async, ..ShardOptions::local(directory.path()) };
    let (journal, ends) = crashed_shard_of(later.clone(), directory.path()).await;
    expects_log(TORN);
    overwrite(&journal, ends[30] + 80, &[0; 100]);
    // How the tail was written counts, not how it will continue.
    assert_eq!(recovered(ShardOptions::local(directory.path())).await, 30);
}

#[tokio::test]
async fn damage_is_no_torn_write_when_the_writer_synced_each_commit_whoever_opens_next() {
    let _logs = Logs::watch();
    let directory = tempfile::tempdir().expect("a directory");
    let (journal, ends) = crashed_shard(directory.path()).await;
    overwrite(&journal, ends[30] + 80, &[0; 100]);
    let later = ShardOptions { durability: Durability::Async, ..ShardOptions::local(directory.path()) };
    let error = Shard::open(later).await.expect_err("refuses");
    assert!(error.to_string().contains("not at its end"), "{error}");
}

/// Each commit was acknowledged: 20 tries for each of three damages, in the last one and in the one before.
#[tokio::test]
async fn damage_in_the_last_acknowledged_batch_of_a_killed_process_is_refused_by_name() {
    let _logs = Logs::watch();
    let directory = tempfile::tempdir().expect("a directory");
    let (original, scratch) = (directory.path().join("original"), directory.path().join("scratch"));
    fs::create_dir(&scratch).expect("creates");
    for durability in [Durability::Sync, Durability::Async] {
        let options = |at: &Path| ShardOptions { durability, ..ShardOptions::local(at) };
        let (journal, ends) = killed_shard_of(options(&original), &original).await;
        let (before, last) = (ends[COMMITS as usize - 1], ends[COMMITS as usize]);
        let whole = fs::read(&journal).expect("reads");
        for number in 0..20 {
            let at = before + (last - before) * number / 20;
            flip(&journal, at);
            refused(&options, &original, &scratch, &format!("a flipped bit at {at}")).await;
            fs::write(&journal, &whole).expect("writes");
            overwrite(&journal, at, &vec![0; (last - at) as usize]);
            refused(&options, &original, &scratch, &format!("zeros from {at} on")).await;
            fs::write(&journal, &whole[..at as usize]).expect("writes");
            refused(&options, &original, &scratch, &format!("cut at {at}")).await;
            fs::write(&journal, &whole).expect("writes");
        }
        // A journal that was begun since, in which something was acknowledged, and which is lost.
        let record = fs::read(original.join("SYNCED")).expect("reads");
        let newer: Vec<u8> = [1u64, 500].iter().flat_map(|number| number.to_le_bytes()).collect();
        let sum = xxhash_rust::xxh3::xxh3_64(&newer).to_le_bytes();
        overwrite(&original.join("SYNCED"), 0, &[&newer[..], &sum].concat());
        let error = Shard::open(options(&original)).await.expect_err("refuses");
        assert!(error.to_string().contains("'1.jnl' is missing"), "{error}");
        fs::write(original.join("SYNCED"), record).expect("writes");
        assert_eq!(recovered(options(&original)).await, COMMITS);
        fs::remove_dir_all(&original).expect("removes");
    }
}

async fn refused(options: &impl Fn(&Path) -> ShardOptions, directory: &Path, scratch: &Path, case: &str) {
    let journal = directory.join("db/0.jnl");
    let damaged = fs::read(&journal).expect("reads");
    for (who, error) in [
        ("start", Shard::open(options(directory)).await.map(|_| ()).expect_err(case)),
        ("verify", Shard::inspect(directory, scratch).await.map(|_| ()).expect_err(case)),
        ("backup", KeptFiles::of_directory(directory).map(|_| ()).expect_err(case)),
    ] {
        assert!(matches!(&error, StorageError::Corrupt { .. }), "{case}: {who}: {error}");
        let text = error.to_string();
        assert!(text.contains("0.jnl") && text.contains("were on stable storage"), "{case}: {who}: {text}");
    }
    assert!(fs::read(&journal).expect("reads") == damaged, "{case}: nothing was changed");
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("creates");
    for entry in fs::read_dir(from).expect("lists") {
        let entry = entry.expect("lists");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copies");
        }
    }
}

fn flip(file: &Path, at: u64) {
    let mut content = fs::read(file).expect("reads");
    content[at as usize] ^= 1 << (at % 8);
    fs::write(file, content).expect("writes");
}

#[tokio::test]
async fn rot_at_the_end_of_a_closed_journal_is_never_taken_for_a_torn_write() {
    let _logs = Logs::watch();
    let directory = tempfile::tempdir().expect("a directory");
    let (journal, ends) = crashed_shard(&directory.path().join("original")).await;
    let original = journal.parent().and_then(Path::parent).expect("a parent");
    Shard::open(ShardOptions::local(original)).await.expect("opens").close().await.expect("closes");
    let last = ends[COMMITS as usize];
    for number in 0..60 {
        let copy = directory.path().join(format!("{number}"));
        copy_directory(original, &copy);
        // In the last 2,400 bytes.
        flip(&copy.join("db/0.jnl"), last - 1 - number * 40);
        let error = Shard::open(ShardOptions::local(&copy)).await.expect_err("refuses");
        assert!(matches!(&error, StorageError::Corrupt { .. }), "{number}: {error}");
        fs::remove_dir_all(&copy).expect("removes");
    }
    assert_eq!(recovered(ShardOptions::local(original)).await, COMMITS);
}

#[tokio::test]
async fn rot_in_what_an_earlier_life_synced_is_never_taken_for_a_torn_write() {
    let _logs = Logs::watch();
    let directory = tempfile::tempdir().expect("a directory");
    let (journal, ends) = crashed_shard(directory.path()).await;
    drop(Shard::open(ShardOptions::local(directory.path())).await.expect("opens"));
    let whole = fs::read(&journal).expect("reads");
    for at in [ends[COMMITS as usize] - 1, ends[COMMITS as usize - 1] + 60] {
        flip(&journal, at);
        let error = Shard::open(ShardOptions::local(directory.path())).await.expect_err("refuses");
        assert!(error.to_string().contains("were on stable storage"), "{error}");
        fs::write(&journal, &whole).expect("writes");
    }
    fs::write(&journal, &whole[..ends[3] as usize]).expect("writes");
    Shard::open(ShardOptions::local(directory.path())).await.expect_err("refuses a journal cut off");
    fs::write(&journal, &whole).expect("writes");
    assert_eq!(recovered(ShardOptions::local(directory.path())).await, COMMITS);
}

#[tokio::test]
async fn a_shard_of_a_version_without_marks_opens_and_gets_one() {
    let _logs = Logs::watch();
    let directory = tempfile::tempdir().expect("a directory");
    let (_, _) = crashed_shard(directory.path()).await;
    let mark = directory.path().join("JOURNALS");
    fs::remove_file(&mark).expect("removes");
    assert_eq!(recovered(ShardOptions::local(directory.path())).await, COMMITS);
    assert!(fs::read_to_string(&mark).expect("there").contains("\nopen every-batch-synced\n"));
}

#[tokio::test]
async fn an_inspection_tells_what_the_next_start_would_cut_off_and_what_earlier_ones_did() {
    let _logs = Logs::watch();
    let directory = tempfile::tempdir().expect("a directory");
    let (shard, scratch) = (directory.path().join("shard"), directory.path().join("scratch"));
    fs::create_dir(&scratch).expect("creates");
    let (journal, ends) = crashed_shard(&shard).await;
    expects_log(TORN);
    overwrite(&journal, ends[COMMITS as usize], &[1, 2, 3]);
    let (_, report) = Shard::inspect(&shard, &scratch).await.expect("readable");
    let torn = report.torn.expect("a torn write");
    assert_eq!((torn.at, torn.size_bytes, report.torn_files), (ends[COMMITS as usize], 3, 0));
    drop(Shard::open(ShardOptions::local(&shard)).await.expect("opens"));
    let (inspected, report) = Shard::inspect(&shard, &scratch).await.expect("readable");
    assert_eq!((report.torn, report.torn_files), (None, 1));
    let error = Shard::open(ShardOptions::local(&shard)).await.expect_err("somebody looks");
    assert!(matches!(&error, StorageError::Locked { .. }), "{error}");
    drop(inspected);
    let owner = Shard::open(ShardOptions::local(&shard)).await.expect("opens");
    let error = Shard::inspect(&shard, &scratch).await.expect_err("in use");
    assert!(matches!(&error, StorageError::Locked { .. }), "{error}");
    drop(owner);
    assert_eq!(fs::read_dir(&scratch).expect("lists").count(), 0);
}

#[tokio::test]
async fn scratch_is_its_owners_and_leftovers_are_in_nobodys_way() {
    let directory = tempfile::tempdir().expect("a directory");
    let (shard, scratch) = (directory.path().join("shard"), directory.path().join("scratch"));
    fs::create_dir(&scratch).expect("made");
    Shard::open(ShardOptions::local(&shard)).await.expect("opens").close().await.expect("closes");
    // Leftovers of killed inspections, whose process had the same number as this one: this is
    // common in containers.
    for number in 0..10_000 {
        let leftover = format!("shardlake-inspect-{}-{number}", std::process::id());
        fs::create_dir(scratch.join(leftover)).expect("made");
    }
    let leftovers: BTreeSet<_> = names(&scratch);
    let (inspected, _) = Shard::inspect(&shard, &scratch).await.expect("readable");
    let made: Vec<_> = names(&scratch).difference(&leftovers).cloned().collect();
    let [made] = &made[..] else { panic!("one directory is made, not {made:?}") };
    let mode = fs::metadata(scratch.join(made)).expect("there").permissions().mode();
    assert_eq!(mode & 0o077, 0, "nobody else may read the journals");
    drop(inspected);
    assert_eq!(names(&scratch), leftovers, "others' directories are left alone");
}

fn names(directory: &Path) -> BTreeSet<OsString> {
    fs::read_dir(directory).expect("lists").map(|entry| entry.expect("lists").file_name()).collect()
}
