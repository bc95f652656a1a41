//! States of several shards at one point in time, and the files that a state consists of.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shardlake_storage::{Batch, KeptFiles, Shard, ShardOptions, StorageError, TableSum, View};
use shardlake_testkit::Logs;

/// In memory where there is such a place: power cuts are no subject here.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

/// Small memtables, so that tables are sorted and merged while they are linked.
fn small(directory: &Path) -> ShardOptions {
    ShardOptions { memtable_bytes: 64 * 1024, cache_bytes: 1024 * 1024, ..ShardOptions::local(directory) }
}

async fn open(options: &ShardOptions) -> Shard {
    Shard::open(options.clone()).await.expect("the shard opens")
}

async fn put(shard: &Shard, writer: u32, number: u32) {
    let mut batch = Batch::new();
    batch.put([writer.to_be_bytes(), number.to_be_bytes()].concat(), vec![7; 300]);
    shard.commit(batch).expect("room").await.expect("commits");
}

/// How many numbers of a writer a view shows; they have no gaps.
async fn count(view: &View, writer: u32) -> u32 {
    let range = writer.to_be_bytes().to_vec()..(writer + 1).to_be_bytes().to_vec();
    let mut scan = view.scan(range, shardlake_storage::ScanOptions::default());
    let mut seen = 0;
    while let Some(rows) = scan.next_chunk().await.expect("reads") {
        for (key, _) in rows {
            assert_eq!(key[4..], u32::to_be_bytes(seen), "a number is missing");
            seen += 1;
        }
    }
    seen
}

/// Each writer puts a number on one shard after the other, the next only when the one before is acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_of_several_shards_show_no_effect_without_its_cause() {
    const WRITERS: u32 = 3;
    let _logs = Logs::watch();
    let directory = directory();
    let mut shards = Vec::new();
    for number in 0..3 {
        shards.push(open(&small(&directory.path().join(number.to_string()))).await);
    }
    let goes_on = Arc::new(AtomicBool::new(true));
    let write = |writer: u32| {
        let (shards, goes_on) = (shards.clone(), goes_on.clone());
        tokio::spawn(async move {
            for number in 0.. {
                for shard in &shards {
                    put(shard, writer, number).await;
                }
                if !goes_on.load(Ordering::Relaxed) {
                    break;
                }
            }
        })
    };
    let writers: Vec<_> = (0..WRITERS).map(write).collect();
    let mut last = vec![0; WRITERS as usize];
    for round in 0..12 {
        let name = format!("round-{round}");
        let before: Vec<View> = shards.iter().map(Shard::view).collect();
        let views = Shard::checkpoint_shards(&shards, &name).await.expect("makes checkpoints");
        for writer in 0..WRITERS {
            let mut counts = Vec::new();
            for ((shard, view), before) in shards.iter().zip(&views).zip(&before) {
                let shown = count(view, writer).await;
                let kept = shard.open_checkpoint(&name).await.expect("opens");
                assert_eq!(count(&kept.view(), writer).await, shown, "the view is that of the state");
                assert!(count(before, writer).await <= shown, "what was acknowledged is in it");
                counts.push(shown);
            }
            let is_one_moment = counts.is_sorted_by(|a, b| a >= b) && counts[0] - counts[2] <= 1;
            assert!(is_one_moment, "round {round}: {counts:?}");
            assert!(counts[0] >= last[writer as usize]);
            last[writer as usize] = counts[0];
        }
        for shard in &shards {
            assert_eq!(shard.checkpoints().await.expect("lists").join(","), name);
            shard.remove_checkpoint(&name).await.expect("removes");
        }
    }
    goes_on.store(false, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("no panic");
    }
}

#[tokio::test]
async fn states_that_cannot_be_made_of_all_are_made_of_none() {
    let _logs = Logs::watch();
    let directory = directory();
    let shards =
        [open(&small(&directory.path().join("0"))).await, open(&small(&directory.path().join("1"))).await];
    shards[1].checkpoint("taken").await.expect("makes a checkpoint");
    let refused = Shard::checkpoint_shards(&shards, "taken").await.map(drop);
    assert!(matches!(refused, Err(StorageError::CheckpointExists)), "{refused:?}");
    assert_eq!(shards[0].checkpoints().await.expect("lists"), [""; 0]);
    let refused = Shard::checkpoint_shards(&shards, "../x").await.map(drop);
    assert!(matches!(refused, Err(StorageError::CheckpointName)), "{refused:?}");
    put(&shards[0], 1, 0).await;
    let memory = Shard::open(ShardOptions::memory()).await.expect("opens");
    memory.checkpoint("kept").await.expect("makes a checkpoint");
    let files = memory.kept_files("kept").await.map(drop);
    assert!(matches!(files, Err(StorageError::NoFiles)), "{files:?}");
}

/// Copies piece by piece, as a client does.
async fn copy(kept: &KeptFiles, to: &Path) {
    for (number, file) in kept.files().iter().enumerate() {
        let target = to.join(&file.path);
        fs::create_dir_all(target.parent().expect("below the directory")).expect("made");
        let (mut content, mut sum) = (Vec::new(), TableSum::default());
        loop {
            let piece = kept.read(number, content.len() as u64, 1000).await.expect("reads");
            if piece.is_empty() {
                break;
            }
            sum.add(&piece);
            content.extend_from_slice(&piece);
        }
        assert_eq!(content.len() as u64, file.size_bytes, "{}", file.path);
        if let Some(table) = file.table {
            assert_eq!(sum.checksum(), table, "{}", file.path);
        }
        fs::write(target, content).expect("writes");
    }
}

async fn assert_holds(directory: &Path, numbers: u32) {
    let shard = open(&ShardOptions { must_exist: true, ..small(directory) }).await;
    assert_eq!(count(&shard.view(), 1).await, numbers);
    put(&shard, 1, numbers).await;
    shard.close().await.expect("closes");
}

#[tokio::test]
async fn files_of_a_state_are_a_shard_again_wherever_they_are_put() {
    let _logs = Logs::watch();
    let directory = directory();
    let place = |name: &str| directory.path().join(name);
    let shard = open(&small(&place("shard"))).await;
    for number in 0..600 {
        put(&shard, 1, number).await;
    }
    shard.checkpoint("kept").await.expect("makes a checkpoint");
    for number in 600..1000 {
        put(&shard, 1, number).await;
    }
    let kept = shard.kept_files("kept").await.expect("lists");
    assert!(kept.files().iter().any(|file| file.table.is_some()), "there are tables: {:?}", kept.files());
    assert_eq!(kept.files().last().map(|file| file.path.as_str()), Some("FORMAT"));
    copy(&kept, &place("of-checkpoint")).await;
    assert_holds(&place("of-checkpoint"), 600).await;
    let beyond = (kept.read(kept.files().len(), 0, 10).await, kept.read(0, u64::MAX, 10).await);
    assert!(beyond.0.is_err() && beyond.1.expect("nothing").is_empty());
    drop(kept);
    let missing = shard.kept_files("none").await.map(drop);
    assert!(matches!(missing, Err(StorageError::CheckpointMissing)), "{missing:?}");

    // A shard in use is locked for others; a killed one has its last writes in its journal alone.
    let in_use = KeptFiles::of_directory(&place("shard")).map(drop);
    assert!(matches!(in_use, Err(StorageError::Locked { .. })), "{in_use:?}");
    drop(shard);
    let kept = KeptFiles::of_directory(&place("shard")).expect("lists");
    let owner = Shard::open(small(&place("shard"))).await.map(drop);
    assert!(matches!(owner, Err(StorageError::Locked { .. })), "{owner:?}");
    copy(&kept, &place("of-directory")).await;
    drop(kept);
    assert_holds(&place("of-directory"), 1000).await;
    assert_holds(&place("shard"), 1000).await;
}

#[tokio::test]
async fn what_a_killed_process_left_of_checkpoints_goes_at_the_next_start() {
    let _logs = Logs::watch();
    let directory = directory();
    let path = directory.path().join("shard");
    let shard = open(&small(&path)).await;
    put(&shard, 1, 0).await;
    shard.checkpoint("whole").await.expect("makes a checkpoint");
    shard.close().await.expect("closes");
    drop(shard);
    for left in ["checkpoints/half.unfinished/db", "shardlake-inspect-1-0/keyspaces"] {
        fs::create_dir_all(path.join(left)).expect("made");
    }
    let shard = open(&small(&path)).await;
    assert!(
        !path.join("checkpoints/half.unfinished").exists() && !path.join("shardlake-inspect-1-0").exists()
    );
    assert_eq!(shard.checkpoints().await.expect("lists"), ["whole"]);
    let kept = shard.open_checkpoint("whole").await.expect("opens");
    assert_eq!(count(&kept.view(), 1).await, 1);
}
