//! Commits of many rows: groups are cut by rows, and small commits never have many rows before them.

use std::sync::Arc;

use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{
    Batch, LARGE_ROWS_IN_FLIGHT, OVERSIZE_COMMIT_ROWS, PendingCommit, SMALL_COMMIT_ROWS, Shard, ShardOptions,
    StorageError,
};
use shardlake_testkit::{Logs, expects_log};

fn shard(engine: &FaultEngine) -> Shard {
    Shard::with_engine(Arc::new(engine.clone()), &ShardOptions::local("")).expect("the shard opens")
}

fn rows(name: &str, count: usize) -> Batch {
    let mut batch = Batch::new();
    for number in 0..count {
        batch.put(format!("{name}/{number:06}"), "");
    }
    batch
}

/// The engine is working on a commit of one row and will not finish it.
async fn stall(engine: &FaultEngine, shard: &Shard) -> PendingCommit {
    engine.stall_syncs(true);
    let commit = shard.commit(rows("first", 1)).expect("the queue has room");
    while !engine.is_stalling() {
        tokio::task::yield_now().await;
    }
    commit
}

/// A writer that waits for its permit, commits, and waits until that is acknowledged.
fn writer(shard: &Shard, name: String, count: usize) -> tokio::task::JoinHandle<()> {
    let shard = shard.clone();
    tokio::spawn(async move {
        let turn = shard.turn_for(count).await.expect("its turn comes");
        shard.commit_in_turn(rows(&name, count), turn).expect("room").await.expect("commits");
    })
}

#[tokio::test]
async fn a_group_is_cut_by_its_rows() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine);
    let first = stall(&engine, &shard).await;
    let queued: Vec<_> = (0..100)
        .map(|number| shard.commit(rows(&format!("{number:03}"), SMALL_COMMIT_ROWS)).expect("room"))
        .collect();
    engine.stall_syncs(false);
    first.await.expect("commits");
    for commit in queued {
        commit.await.expect("commits");
    }
    let groups = engine.group_rows();
    assert_eq!(groups.iter().sum::<usize>(), 1 + 100 * SMALL_COMMIT_ROWS);
    assert!(groups.iter().all(|rows| *rows <= LARGE_ROWS_IN_FLIGHT), "{groups:?}");
    assert_eq!(groups.len(), 1 + 100usize.div_ceil(LARGE_ROWS_IN_FLIGHT / SMALL_COMMIT_ROWS), "{groups:?}");
}

#[tokio::test]
async fn a_small_commit_has_the_rows_of_one_turn_before_it_however_many_large_ones_wait() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine);
    let first = stall(&engine, &shard).await;
    let large: Vec<_> =
        (0..20).map(|number| writer(&shard, format!("{number:02}"), LARGE_ROWS_IN_FLIGHT - 1)).collect();
    tokio::task::yield_now().await;
    let small = shard.commit(rows("small", 1)).expect("room");
    assert_eq!(small.seq(), 3, "one large commit is queued, and nineteen wait for their turn");
    engine.stall_syncs(false);
    first.await.expect("commits");
    small.await.expect("commits");
    for writer in large {
        writer.await.expect("none of the large ones is forgotten");
    }
    assert_eq!(engine.group_rows()[..2], [1, LARGE_ROWS_IN_FLIGHT], "the next group holds the small one");
    assert_eq!(shard.applied(), 22);
}

#[tokio::test]
async fn a_group_of_small_commits_takes_no_large_one_along() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine);
    let first = stall(&engine, &shard).await;
    let small = shard.commit(rows("small", 3)).expect("room");
    let turn = shard.turn_for(5000).await.expect("the first turn is free");
    let large = shard.commit_in_turn(rows("large", 5000), turn).expect("room");
    engine.stall_syncs(false);
    first.await.expect("commits");
    small.await.expect("commits");
    large.await.expect("commits");
    assert_eq!(engine.group_rows(), [1, 3, 5000]);
}

#[tokio::test]
async fn large_commits_get_their_turn_between_small_ones_that_never_pause() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine);
    let large: Vec<_> = (0..5).map(|number| writer(&shard, format!("{number}"), 6000)).collect();
    let mut number = 0;
    while !large.iter().all(|writer| writer.is_finished()) {
        number += 1;
        shard.commit(rows(&format!("small{number}"), 2)).expect("room").await.expect("commits");
    }
    let larger = engine.group_rows().into_iter().filter(|rows| *rows >= 6000).count();
    assert_eq!(larger, 5, "each is a group, perhaps with small ones behind it");
}

#[tokio::test]
async fn an_oversize_commit_rests_where_small_ones_have_waited_for_the_last_one() {
    const ROWS: usize = OVERSIZE_COMMIT_ROWS + 1;
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine);
    let oversize = async |name: &str, waits_for_it: bool| {
        let turn = shard.turn_for(ROWS).await.expect("its turn comes");
        engine.stall_syncs(true);
        let commit = shard.commit_in_turn(rows(name, ROWS), turn).expect("room");
        while !engine.is_stalling() {
            tokio::task::yield_now().await;
        }
        let small = waits_for_it.then(|| shard.commit(rows("small", 1)).expect("room"));
        engine.stall_syncs(false);
        commit.await.expect("commits");
        if let Some(small) = small {
            small.await.expect("commits");
        }
    };
    oversize("alone", false).await;
    assert!(shard.try_turn_for(ROWS).is_some(), "nothing has waited");
    oversize("before others", true).await;
    assert!(shard.try_turn_for(ROWS).is_none());
    // Large commits rest for as long as the last commit took, a hundredth of that.
    drop(shard.turn_for(OVERSIZE_COMMIT_ROWS).await.expect("its turn comes"));
    assert!(shard.try_turn_for(ROWS).is_none());
    assert!(shard.try_turn_for(OVERSIZE_COMMIT_ROWS).is_some());
}

#[tokio::test]
async fn a_commit_larger_than_any_turn_is_written_whole_and_alone() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine);
    let first = stall(&engine, &shard).await;
    let huge = writer(&shard, "huge".to_owned(), 3 * LARGE_ROWS_IN_FLIGHT);
    tokio::task::yield_now().await;
    let small = shard.commit(rows("small", 1)).expect("room");
    engine.stall_syncs(false);
    first.await.expect("commits");
    small.await.expect("commits");
    huge.await.expect("commits");
    assert_eq!(engine.group_rows(), [1, 3 * LARGE_ROWS_IN_FLIGHT, 1]);
}

#[tokio::test]
async fn a_writer_that_goes_away_gives_its_turn_to_the_next() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    let shard = shard(&engine);
    let held = shard.turn_for(LARGE_ROWS_IN_FLIGHT).await.expect("free").expect("large ones need a turn");
    let gone = writer(&shard, "gone".to_owned(), 5000);
    let next = writer(&shard, "next".to_owned(), 5000);
    tokio::task::yield_now().await;
    gone.abort();
    drop(held);
    next.await.expect("commits");
    assert_eq!(engine.group_rows(), [5000]);
    assert!(shard.turn_for(SMALL_COMMIT_ROWS).await.expect("open").is_none(), "small ones need none");
}

#[tokio::test]
async fn a_thread_that_answers_requests_never_writes_a_large_commit() {
    let _logs = Logs::watch();
    let engine = FaultEngine::new();
    engine.let_writers_lead();
    let shard = shard(&engine);
    let me = std::thread::current().id();
    let mut number = 0;
    while engine.last_writer() != Some(me) {
        number += 1;
        shard.commit(rows(&format!("{number}"), 1)).expect("room").await.expect("commits");
    }
    // The small one is queued with its writer to lead, and the large one comes behind it before it does.
    let applies = engine.applies();
    let small = shard.commit(rows("small", 1)).expect("room");
    let turn = shard.turn_for(5000).await.expect("free");
    let large = shard.commit_in_turn(rows("large", 5000), turn).expect("room");
    small.await.expect("commits");
    assert_eq!(engine.group_rows()[applies as usize], 1);
    large.await.expect("commits");
    assert_eq!(engine.group_rows()[applies as usize + 1], 5000);
    assert_ne!(engine.last_writer(), Some(me));
}

#[tokio::test]
async fn writers_that_wait_for_a_turn_learn_that_the_shard_refuses_writes() {
    let _logs = Logs::watch();
    expects_log("a shard refuses writes from now on");
    let engine = FaultEngine::new();
    let shard = shard(&engine);
    engine.fail_apply(1);
    let turn = shard.turn_for(LARGE_ROWS_IN_FLIGHT).await.expect("free");
    let waiting = tokio::spawn({
        let shard = shard.clone();
        async move {
            let turn = shard.turn_for(5000).await?;
            shard.commit_in_turn(rows("waiting", 5000), turn)?.await
        }
    });
    tokio::task::yield_now().await;
    let failed = shard.commit_in_turn(rows("failed", 5000), turn).expect("room").await;
    assert!(matches!(failed, Err(StorageError::Poisoned { .. })), "{failed:?}");
    let waited = waiting.await.expect("ends");
    assert!(matches!(waited, Err(StorageError::Poisoned { .. })), "{waited:?}");
    assert!(matches!(shard.turn_for(5000).await, Err(StorageError::Poisoned { .. })));
}

#[tokio::test]
async fn the_moment_in_which_a_shard_begins_to_refuse_writes_is_logged_once_with_its_cause() {
    let logs = Logs::watch();
    expects_log("a shard refuses writes from now on");
    let engine = FaultEngine::new();
    engine.let_writers_lead();
    let shard = shard(&engine);
    // On this test's own thread, so that the line is known to be of this test.
    let me = std::thread::current().id();
    let mut number = 0;
    while engine.last_writer() != Some(me) {
        number += 1;
        shard.commit(rows(&format!("{number}"), 1)).expect("room").await.expect("commits");
    }
    engine.fail_apply(1);
    assert!(shard.commit(rows("failed", 1)).expect("room").await.is_err());
    assert!(shard.commit(rows("refused", 1)).is_err());
    assert!(shard.flush().await.is_err());
    let lines = logs.lines_with("a shard refuses writes from now on");
    assert!(matches!(&lines[..], [line] if line.starts_with("ERROR")), "{lines:?}");
    assert!(lines[0].contains("no space left on device"), "{lines:?}");
}
