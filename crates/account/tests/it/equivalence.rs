//! The same commands give the same answers in memory and on disk, in one partition and in five, on one shard
//! and on three.

use crate::support::json_door::JsonDoor;
use crate::support::{Fixture, json, memory_shards, none};
use proptest::prelude::*;
use serde_json::Value;
use shardlake_account::{FeedScope, Shards, verify};
use shardlake_model::{Error, Result};
use shardlake_storage::{Shard, ShardOptions};

#[derive(Debug, Clone)]
enum Command {
    Create(u8, u8, i64),
    Upsert(u8, u8, i64),
    Replace(u8, u8, i64),
    Delete(u8, u8),
    Read(u8, u8),
    DeleteKey(u8),
}

fn command() -> impl Strategy<Value = Command> {
    let place = (0u8..4, 0u8..5);
    prop_oneof![
        (place.clone(), any::<i64>()).prop_map(|((pk, id), v)| Command::Create(pk, id, v)),
        (place.clone(), any::<i64>()).prop_map(|((pk, id), v)| Command::Upsert(pk, id, v)),
        (place.clone(), any::<i64>()).prop_map(|((pk, id), v)| Command::Replace(pk, id, v)),
        place.clone().prop_map(|(pk, id)| Command::Delete(pk, id)),
        place.prop_map(|(pk, id)| Command::Read(pk, id)),
        (0u8..4).prop_map(Command::DeleteKey),
    ]
}

/// Runs one command; returns the client's view of it, without the parts that depend on the partition's position.
async fn run(fixture: &Fixture, command: &Command) -> (String, Option<Value>, u64) {
    let container = fixture.account.router().container("db", "c").expect("there");
    let (account, ctx) = (&fixture.account, fixture.ctx());
    let body = |pk: u8, id: u8, v: i64| format!(r#"{{"id":"{id}","pk":"k{pk}","v":{v}}}"#).into_bytes();
    let key = |pk: u8| format!(r#"["k{pk}"]"#);
    let input = crate::support::json_door::KeyInput;
    let reply = match command.clone() {
        Command::Create(pk, id, v) => account.create_item(&ctx, &container, None, &body(pk, id, v)).await,
        Command::Upsert(pk, id, v) => {
            account.upsert_item(&ctx, &container, None, &body(pk, id, v), &none()).await
        }
        Command::Replace(pk, id, v) => {
            account.replace_item(&ctx, &container, None, &id.to_string(), &body(pk, id, v), &none()).await
        }
        Command::Delete(pk, id) => {
            account.delete_item(&ctx, &container, Some(input(&key(pk))), &id.to_string(), &none()).await
        }
        Command::Read(pk, id) => {
            account.read_item(&ctx, &container, Some(input(&key(pk))), &id.to_string(), &none()).await
        }
        Command::DeleteKey(pk) => {
            let result: Result<_, Error> = account.json_key_delete(&ctx, &container, input(&key(pk))).await;
            return (format!("{:?}", result.map(|_| ()).map_err(|error| error.kind())), None, 0);
        }
    };
    match reply {
        Ok(reply) => {
            let value = reply.item.as_ref().map(|item| json(item)["v"].clone());
            (format!("{:?}", reply.outcome), value, reply.meta.charge_centi)
        }
        Err(error) => (format!("{:?}", error.kind()), None, error.meta().charge_centi),
    }
}

async fn contents(fixture: &Fixture) -> Vec<String> {
    let container = fixture.account.router().container("db", "c").expect("there");
    let page =
        fixture.account.items().read_feed(&fixture.ctx(), &container, FeedScope::All, Some(-1), None).await;
    let mut items: Vec<String> = page
        .expect("a page")
        .items
        .iter()
        .map(|item| {
            let item = json(item);
            format!("{}/{}={}", item["pk"], item["id"], item["v"])
        })
        .collect();
    items.sort();
    items
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn engines_and_counts_of_partitions_and_shards_do_not_show(commands in prop::collection::vec(command(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let directory = tempfile::tempdir().expect("a directory");
            let local = || async {
                let path = |number: usize| directory.path().join(number.to_string());
                let open = |number| Shard::open(ShardOptions::local(path(number)));
                vec![open(0).await.expect("opens"), open(1).await.expect("opens")]
            };
            let one = Fixture::new().await;
            one.container(400).await;
            let five = Fixture::new().await;
            five.container(30_000).await;
            let spread = Fixture::over(memory_shards(3).await).await;
            spread.container(30_000).await;
            let disk = Fixture::over(local().await).await;
            disk.container(12_000).await;
            for command in &commands {
                let expected = run(&one, command).await;
                for other in [&five, &spread, &disk] {
                    assert_eq!(run(other, command).await, expected, "{command:?}");
                }
            }
            let expected = contents(&one).await;
            for other in [&five, &spread, &disk] {
                assert_eq!(contents(other).await, expected);
            }
            disk.account.close().await.expect("closes");
            drop(disk);
            let shards = Shards::from(local().await);
            let report = verify(&shards).await.expect("readable");
            assert_eq!(report.problem_count(), 0, "{report:?}");
            let reopened = Fixture::over(shards).await;
            assert_eq!(contents(&reopened).await, expected);
        });
    }
}
