//! The sizes of logical partitions: exact after any change of items, after restarts and crashes,
//! counted where they are missing, and enforced as limits.

use crate::support::json_door::{BatchKind, BatchOperation, JsonDoor, KeyInput, Patch};
use crate::support::{Fixture, none};
use proptest::prelude::*;
use shardlake_account::{Account, AccountOptions, ContainerHandle, verify};
use shardlake_model::{
    ContainerDefinition, ErrorKind, Limits, PartitionKeyDefinition, Preconditions, RequestContext, UniqueKey,
};
use shardlake_stdx::Clock;
use shardlake_storage::{Batch, ScanOptions, Shard, ShardOptions};
use std::time::Duration;

#[derive(Debug, Clone)]
enum Command {
    Upsert(u8, u8, usize),
    Create(u8, u8, usize),
    /// From one id to another, which may be taken.
    Rename(u8, u8, u8),
    Patch(u8, u8, usize),
    Delete(u8, u8),
    Batch(u8, Vec<(bool, u8, usize)>),
    DeleteKey(u8),
    /// Items without a time to live of their own run out after ten seconds.
    Wait(u8),
    Purge,
    Restart,
}

fn command() -> impl Strategy<Value = Command> {
    let item = (0u8..3, 0u8..4, 0usize..200);
    let step = (any::<bool>(), 0u8..4, 0usize..200);
    prop_oneof![
        4 => item.clone().prop_map(|(pk, id, pad)| Command::Upsert(pk, id, pad)),
        3 => item.clone().prop_map(|(pk, id, pad)| Command::Create(pk, id, pad)),
        2 => (0u8..3, 0u8..4, 0u8..4).prop_map(|(pk, from, to)| Command::Rename(pk, from, to)),
        2 => item.prop_map(|(pk, id, pad)| Command::Patch(pk, id, pad)),
        3 => (0u8..3, 0u8..4).prop_map(|(pk, id)| Command::Delete(pk, id)),
        2 => (0u8..3, prop::collection::vec(step, 1..6)).prop_map(|(pk, steps)| Command::Batch(pk, steps)),
        1 => (0u8..3).prop_map(Command::DeleteKey),
        1 => (1u8..8).prop_map(Command::Wait),
        1 => Just(Command::Purge),
        1 => Just(Command::Restart),
    ]
}

fn body(pk: u8, id: u8, pad: usize) -> Vec<u8> {
    format!(r#"{{"id":"{id}","pk":"k{pk}","u":{},"pad":"{}"}}"#, pad % 9, "x".repeat(pad)).into_bytes()
}

fn operation(kind: BatchKind, id: u8, body: Option<Vec<u8>>) -> BatchOperation {
    BatchOperation {
        kind,
        id: Some(id.to_string()),
        body,
        patch: None,
        partition_key: None,
        preconditions: Preconditions::default(),
    }
}

fn pad_patch(pad: usize) -> Patch {
    let value = shardlake_account::Value::String("y".repeat(pad));
    let operations = vec![shardlake_account::PatchOperation::Set { path: vec!["pad".into()], value }];
    Patch { operations, condition: None }
}

/// Runs one command; whether it succeeds is not the point.
async fn run(account: &Account, clock: &Clock, container: &ContainerHandle, command: &Command) {
    let ctx = RequestContext::internal(clock, account.router().random().guid());
    let key = |pk: u8| format!(r#"["k{pk}"]"#);
    let outcome = match command.clone() {
        Command::Upsert(pk, id, pad) => {
            account.upsert_item(&ctx, container, None, &body(pk, id, pad), &none()).await.map(drop)
        }
        Command::Create(pk, id, pad) => {
            account.create_item(&ctx, container, None, &body(pk, id, pad)).await.map(drop)
        }
        Command::Rename(pk, from, to) => {
            let from = from.to_string();
            account.replace_item(&ctx, container, None, &from, &body(pk, to, 7), &none()).await.map(drop)
        }
        Command::Patch(pk, id, pad) => {
            let (id, key) = (id.to_string(), key(pk));
            let key = Some(KeyInput(&key));
            account.patch_item(&ctx, container, key, &id, pad_patch(pad), &none()).await.map(drop)
        }
        Command::Delete(pk, id) => {
            let (id, key) = (id.to_string(), key(pk));
            account.delete_item(&ctx, container, Some(KeyInput(&key)), &id, &none()).await.map(drop)
        }
        Command::Batch(pk, steps) => {
            let operations = steps.into_iter().map(|(deletes, id, pad)| match deletes {
                true => operation(BatchKind::Delete, id, None),
                false => operation(BatchKind::Upsert, id, Some(body(pk, id, pad))),
            });
            account.json_batch(&ctx, container, KeyInput(&key(pk)), operations.collect()).await.map(drop)
        }
        Command::DeleteKey(pk) => {
            account.json_key_delete(&ctx, container, KeyInput(&key(pk))).await.map(drop)
        }
        Command::Wait(seconds) => {
            clock.advance(Duration::from_secs(seconds.into()));
            Ok(())
        }
        Command::Purge => account.maintenance().purge_expired(container).await.map(drop),
        Command::Restart => unreachable!("handled by the caller"),
    };
    if let Err(error) = outcome {
        let expected = [ErrorKind::NotFound, ErrorKind::Conflict, ErrorKind::LogicalPartitionFull];
        assert!(expected.contains(&error.kind()), "{command:?}: {error:?}");
    }
}

async fn expect_no_problem(shard: &Shard) {
    let report = verify(shard.clone()).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "{report:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn sizes_are_sums_over_the_items_whatever_happens(
        commands in prop::collection::vec(command(), 1..50),
        is_tight in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
            // Tight: two or three items, so that one must be deleted before there are more.
            let limits = Limits {
                logical_partition_size_bytes_max: if is_tight { 1000 } else { u64::MAX },
                ..Limits::default()
            };
            let open = || Fixture::over_with(&shard, AccountOptions { limits: limits.clone(), ..Default::default() });
            let mut fixture = open().await;
            let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
            definition.default_ttl = Some(10);
            definition.unique_key_policy.unique_keys = vec![UniqueKey { paths: vec!["/u".into()] }];
            let mut container = fixture.container_with(definition, 12_000).await;
            let clock = fixture.clock.clone();
            for command in &commands {
                if let Command::Restart = command {
                    fixture = open().await;
                    container = fixture.account.router().container("db", "c").expect("there");
                } else {
                    run(&fixture.account, &clock, &container, command).await;
                }
            }
            // Compares every size with the items, in both directions.
            expect_no_problem(&shard).await;
            for (_, size) in rows_of_space(&shard, b'S').await {
                let bytes = u64::from_be_bytes(size[8..].try_into().expect("two numbers"));
                assert!(bytes <= limits.logical_partition_size_bytes_max, "{bytes}");
            }
        });
    }
}

/// Rows of one space of every partition.
async fn rows_of_space(shard: &Shard, space: u8) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut scan = shard.snapshot().scan(vec![0, 0, 0, 1]..vec![0xFF], ScanOptions::default());
    let mut rows = Vec::new();
    while let Some(chunk) = scan.next_chunk().await.expect("readable") {
        rows.extend(chunk.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
    }
    rows.retain(|(key, _)| key[4] == space);
    rows
}

async fn commit(shard: &Shard, changes: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
    let mut batch = Batch::new();
    for (key, value) in changes {
        match value {
            Some(value) => batch.put(key, value),
            None => batch.delete(key),
        }
    }
    shard.commit(batch).expect("queued").await.expect("committed");
}

async fn with_items(shard: &Shard, keys: u8) -> Fixture {
    let fixture = Fixture::over(shard.clone()).await;
    let container = fixture.container(12_000).await;
    for pk in 0..keys {
        for id in 0..3 {
            run(&fixture.account, &fixture.clock, &container, &Command::Create(pk, id, 40)).await;
        }
    }
    fixture
}

#[tokio::test]
async fn verify_finds_sizes_that_are_wrong_missing_or_left_over() {
    let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
    drop(with_items(&shard, 40).await);
    let sizes = rows_of_space(&shard, b'S').await;
    assert_eq!(sizes.len(), 40);
    let (key, value) = sizes.last().expect("there are sizes").clone();
    let (mut larger, mut stray) = (value.clone(), key.clone());
    larger[15] ^= 1;
    // A string in the key ends in two bytes; before them, its last letter.
    let at = stray.len() - 3;
    stray[at] = b'z';
    for (change, words) in [
        ((key.clone(), Some(larger)), "are recorded"),
        ((key.clone(), None), "its size is missing"),
        ((key.clone(), Some(vec![1])), "its size is malformed"),
        ((stray.clone(), Some(value.clone())), "it has a size and no items"),
    ] {
        commit(&shard, vec![change]).await;
        let report = verify(shard.clone()).await.expect("readable");
        let problems: Vec<_> = report.partitions.iter().flat_map(|part| &part.report.problems).collect();
        assert!(problems.iter().any(|problem| problem.contains(words)), "{words}: {problems:?}");
        commit(&shard, vec![(stray.clone(), None), (key.clone(), Some(value.clone()))]).await;
        expect_no_problem(&shard).await;
    }
}

#[tokio::test]
async fn partitions_from_before_sizes_are_counted_when_they_open_whenever_that_was_broken_off() {
    let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
    drop(with_items(&shard, 60).await);
    let sizes = rows_of_space(&shard, b'S').await;
    // The counting writes from the last entry of a partition to its first: it may have got as far as any of them.
    for missing in [sizes.len(), 1, 20] {
        let mut gone: Vec<_> = sizes.iter().map(|(key, _)| (key.clone(), None)).collect();
        gone.sort_by(|(a, _), (b, _)| (&a[5..], &a[..4]).cmp(&(&b[5..], &b[..4])));
        gone.truncate(missing);
        commit(&shard, gone).await;
        expect_no_problem(&shard).await;
        drop(Fixture::over(shard.clone()).await);
        assert_eq!(rows_of_space(&shard, b'S').await, sizes, "{missing} were missing");
    }
}
