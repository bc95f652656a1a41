//! Every file of a shard removed, zeroed, cut and with flipped bits, after a clean stop and after a
//! crash: opening and inspecting refuse with one line, or find exactly the earlier content. They
//! never find less, nothing, or end in a panic; and once the file is back, so is everything. Damage
//! that no reader can distinguish from a write that a crash tore is listed by name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use shardlake_storage::{Batch, EngineKind, ScanOptions, Shard, ShardOptions, StorageError};
use shardlake_testkit::{Logs, expects_log};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(directory: &Path) -> ShardOptions {
    ShardOptions {
        engine: EngineKind::Local { directory: directory.to_owned() },
        must_exist: true,
        ..ShardOptions::local("")
    }
}

fn batch(number: u32) -> Batch {
    let mut batch = Batch::new();
    for part in 0..4u8 {
        batch.put([&number.to_be_bytes()[..], &[part]].concat(), vec![number as u8; 200]);
    }
    batch
}

async fn rows(shard: &Shard) -> Result<Rows, StorageError> {
    let mut scan = shard.snapshot().scan(vec![0]..vec![0xFF; 8], ScanOptions::default());
    let mut rows = Rows::new();
    while let Some(chunk) = scan.next_chunk().await? {
        rows.extend(chunk.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
    }
    Ok(rows)
}

/// Rows in sorted files and in the journal, of two lives.
async fn make(directory: &Path, is_closed: bool) -> Rows {
    let shard = Shard::open(ShardOptions::local(directory)).await.expect("opens");
    for number in 0..40 {
        shard.commit(batch(number)).expect("room").await.expect("commits");
    }
    shard.close().await.expect("closes");
    drop(shard);
    let shard = Shard::open(options(directory)).await.expect("opens");
    for number in 40..60 {
        shard.commit(batch(number)).expect("room").await.expect("commits");
    }
    let rows = rows(&shard).await.expect("readable");
    if is_closed {
        shard.close().await.expect("closes");
    }
    rows
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("lists") {
        let entry = entry.expect("lists");
        let path = entry.path();
        if entry.file_type().expect("a type").is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The preallocated zeros of a journal are left out: they would make every copy 64 MB.
fn copy(from: &Path, to: &Path) {
    for file in files_below(from) {
        let target = to.join(file.strip_prefix(from).expect("below"));
        fs::create_dir_all(target.parent().expect("a parent")).expect("creates");
        let mut content = fs::read(&file).expect("reads");
        if file.extension().is_some_and(|extension| extension == "jnl") {
            let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            content.truncate(used + 4096);
            content.resize(used + 4096, 0);
        }
        fs::write(target, content).expect("writes");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Removed,
    Zeroed,
    Emptied,
    Halved,
    /// One bit of a byte, at so many thousandths of the file's used length.
    Flipped(usize, u8),
    /// A flip in the eighth byte, whose bits made fjall panic in version files.
    Eighth(u8),
}

fn faults() -> Vec<Fault> {
    let mut faults = vec![Fault::Removed, Fault::Zeroed, Fault::Emptied, Fault::Halved];
    faults.extend((0..20).map(|at| Fault::Flipped(at * 50, (at % 8) as u8)));
    faults.push(Fault::Flipped(999, 3));
    faults.extend((0..8).map(Fault::Eighth));
    faults
}

fn inflict(fault: Fault, file: &Path) {
    let mut content = fs::read(file).expect("reads");
    let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    match fault {
        Fault::Removed => return fs::remove_file(file).expect("removes"),
        Fault::Zeroed => content.fill(0),
        Fault::Emptied => content.clear(),
        Fault::Halved => content.truncate(used / 2),
        Fault::Flipped(at, bit) if used > 0 => content[used * at / 1000] ^= 1 << bit,
        Fault::Eighth(bit) if used > 8 => content[8] ^= 1 << bit,
        Fault::Flipped(..) | Fault::Eighth(_) => {}
    }
    fs::write(file, content).expect("writes");
}

/// Everything that a reader could see of the files.
fn image(directory: &Path) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    let seen = |file: PathBuf| {
        let modified = fs::metadata(&file).and_then(|metadata| metadata.modified()).expect("a time");
        let content = fs::read(&file).expect("reads");
        (file, content, modified)
    };
    files_below(directory).into_iter().map(seen).collect()
}

async fn inspect(directory: &Path, scratch: &Path) -> Result<Rows, StorageError> {
    let (shard, _) = Shard::inspect(directory, scratch).await?;
    rows(&shard).await
}

async fn open(directory: &Path) -> Result<Rows, StorageError> {
    let shard = Shard::open(options(directory)).await?;
    rows(&shard).await
}

/// The problem that a fault led to, as text; empty when all is well.
fn judge(found: Result<Rows, StorageError>, expected: &Rows, may_lose_the_end: bool) -> Option<String> {
    match found {
        Ok(found) if found == *expected => None,
        Ok(found) => {
            let is_beginning = expected.iter().take(found.len()).eq(found.iter());
            (!may_lose_the_end || !is_beginning)
                .then(|| format!("{} of {} rows without a word", found.len(), expected.len()))
        }
        Err(error) => {
            let text = error.to_string();
            (text.is_empty() || text.contains('\n') || text.contains("panic"))
                .then(|| format!("no good message: {text}"))
        }
    }
}

async fn check_table(is_closed: bool) {
    let _logs = Logs::watch();
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    let (original, good, bad) =
        (directory.path().join("original"), directory.path().join("good"), directory.path().join("bad"));
    let scratch = directory.path().join("scratch");
    fs::create_dir(&scratch).expect("creates");
    let expected = make(&original, is_closed).await;
    if !is_closed {
        // After a crash no record shows how far the journal went since the shard was opened.
        expects_log("cut a torn write off the journal");
    }
    copy(&original, &good);
    assert_eq!(open_copy(&good, &bad).await.expect("sound"), expected);
    let mut problems = Vec::new();
    let mut refused = 0;
    for file in files_below(&good) {
        let name = file.strip_prefix(&good).expect("below").to_owned();
        for fault in faults() {
            let _ = fs::remove_dir_all(&bad);
            copy(&good, &bad);
            inflict(fault, &bad.join(&name));
            let may_lose_the_end = !is_closed && name.extension().is_some_and(|extension| extension == "jnl");
            let before = image(&bad);
            let inspected = inspect(&bad, &scratch).await;
            if image(&bad) != before {
                problems.push(format!("{name:?} {fault:?}: inspecting changed something"));
            }
            assert_eq!(fs::read_dir(&scratch).expect("lists").count(), 0, "nothing stays in the scratch");
            refused += usize::from(inspected.is_err());
            let problem = judge(inspected, &expected, may_lose_the_end);
            problems.extend(problem.map(|problem| format!("{name:?} {fault:?}: inspect: {problem}")));
            let opened = open(&bad).await;
            let was_refused = opened.is_err();
            let problem = judge(opened, &expected, may_lose_the_end);
            problems.extend(problem.map(|problem| format!("{name:?} {fault:?}: open: {problem}")));
            if was_refused {
                fs::copy(&file, bad.join(&name)).expect("puts it back");
                if open(&bad).await.ok().as_ref() != Some(&expected) {
                    problems.push(format!("{name:?} {fault:?}: not everything comes back with the file"));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    assert!(refused > 100, "{refused} refused");
}

async fn open_copy(good: &Path, to: &Path) -> Result<Rows, StorageError> {
    copy(good, to);
    let found = open(to).await;
    fs::remove_dir_all(to).expect("removes");
    found
}

#[tokio::test]
async fn faults_in_a_closed_shard_are_refused_or_harmless() {
    check_table(true).await;
}

#[tokio::test]
async fn faults_in_a_crashed_shard_are_refused_or_harmless_but_at_the_end_of_the_journal() {
    check_table(false).await;
}
