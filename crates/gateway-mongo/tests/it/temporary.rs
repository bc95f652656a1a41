//! Temporary collections of `$out`: none stays after the command is killed or the process ends at any point, and no collection of a
//! client is mistaken for one.

use bson::doc;
use shardlake_gateway_mongo::MongoSettings;
use shardlake_mql::{Document, Value};
use shardlake_stdx::Clock;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};
use shardlake_testkit::HANG;

use crate::client::{Client, NOW, Server, first_batch, of};

/// A client's own collections, in the order of their names.
const OWN: [&str; 2] = ["tmp.agg_out.mine", "tmp.x"];
/// More commits than a `$out` makes.
const COMMITS_MAX: u64 = 12;
const INTERRUPTED: i32 = 11601;

async fn server_over(engine: &FaultEngine) -> Server {
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    let shard = Shard::with_engine(std::sync::Arc::new(engine.clone()), &options).expect("opens");
    Server::over(vec![shard], MongoSettings::default(), Clock::manual(NOW)).await
}

async fn filled(engine: &FaultEngine) -> (Server, Client) {
    let server = server_over(engine).await;
    let mut client = server.connect();
    let documents: Vec<_> = (0..20).map(|n| doc! { "_id": n, "new": true }).collect();
    client.ok("d", of(&doc! { "insert": "from", "documents": documents })).await;
    client.ok("d", of(&doc! { "insert": "to", "documents": [{ "_id": 0 }] })).await;
    client.ok("d", of(&made_index("to"))).await;
    for name in OWN {
        client.ok("d", of(&doc! { "create": name })).await;
    }
    (server, client)
}

fn made_index(collection: &str) -> bson::Document {
    doc! { "createIndexes": collection, "indexes": [{ "key": { "new": 1 }, "name": "new" }] }
}

fn out() -> Document {
    of(&doc! { "aggregate": "from", "pipeline": [{ "$out": "to" }], "cursor": {} })
}

fn names_of(server: &Server) -> Vec<String> {
    let containers = server.account.router().containers("d").expect("the database");
    let mut names: Vec<String> =
        containers.iter().map(|handle| handle.container().definition.id.clone()).collect();
    names.sort_unstable();
    names
}

/// The collections of the client.
fn expected() -> Vec<String> {
    [&["from"], &OWN[..], &["to"]].concat().into_iter().map(str::to_owned).collect()
}

/// Checks that only the client's collections exist, and that the target is in its old or its new state.
async fn check(server: &Server, client: &mut Client, place: &str) {
    let deleted = async {
        while names_of(server) != expected() {
            tokio::task::yield_now().await;
        }
    };
    let deleted = tokio::time::timeout(HANG, deleted).await;
    assert!(deleted.is_ok(), "{place}: {:?}", names_of(server));
    let found = first_batch(&client.ok("d", of(&doc! { "find": "to" })).await);
    let is_new = |document: &Document| document.has("new");
    let is_whole = (found.len(), found.iter().filter(|found| is_new(found)).count());
    assert!([(1, 0), (20, 20)].contains(&is_whole), "{place}: {is_whole:?}");
}

/// The operation number of the running `aggregate`; `None` if it has ended and a background commit waits.
async fn number_of_aggregate(client: &mut Client) -> Option<Value> {
    let running = client.ok("admin", of(&doc! { "currentOp": 1 })).await;
    let Value::Array(running) = running.value("inprog") else { panic!("a list") };
    let is_it = |operation: &&Document| {
        operation.get("command").and_then(Value::as_document).is_some_and(|command| command.has("aggregate"))
    };
    let found = running.iter().filter_map(Value::as_document).map(|found| Document::clone(found));
    let found: Vec<Document> = found.collect();
    found.iter().find(is_it).map(|found| found.value("opid"))
}

/// Runs `$out` until one of its commits waits for its sync. `None` where it has ended before.
async fn stalled_at(
    commit: u64,
    engine: &FaultEngine,
    client: &mut Client,
    work: impl AsyncFnOnce(),
) -> Option<Document> {
    engine.stall_syncs_after(commit);
    let running = client.run("d", out());
    futures::pin_mut!(running);
    loop {
        if futures::poll!(&mut running).is_ready() {
            engine.stall_syncs(false);
            return None;
        }
        if engine.is_stalling() {
            work().await;
            engine.stall_syncs(false);
            return Some(running.await);
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn out_that_is_killed_leaves_no_temporary_collection() {
    let (mut seen, mut kills) = (0, 0);
    for commit in 0..COMMITS_MAX {
        let (engine, before) = (FaultEngine::new(), kills);
        let (server, mut client) = filled(&engine).await;
        let mut other = server.connect();
        let killed = stalled_at(commit, &engine, &mut client, async || {
            seen += usize::from(names_of(&server).len() > expected().len());
            let Some(number) = number_of_aggregate(&mut other).await else { return };
            let mut kill = Document::one("killOp", 1);
            kill.push("op", number);
            other.ok("admin", kill).await;
            kills += 1;
        })
        .await;
        if let Some(killed) = killed.as_ref().filter(|_| kills > before) {
            assert_eq!(killed.value("code").to_i32_exact(), Some(INTERRUPTED), "{commit}: {killed:?}");
        }
        check(&server, &mut client, &format!("killed at commit {commit}")).await;
        if killed.is_none() {
            assert!(seen > 0, "no kill came while the temporary collection was there");
            return;
        }
    }
    panic!("$out makes more than {COMMITS_MAX} commits");
}

#[tokio::test]
async fn out_whose_process_ends_leaves_no_temporary_collection_after_the_next_start() {
    let mut seen = 0;
    for commit in 0..COMMITS_MAX {
        let engine = FaultEngine::new();
        let (server, mut client) = filled(&engine).await;
        let mut left = Vec::new();
        let ended = stalled_at(commit, &engine, &mut client, async || {
            seen += usize::from(names_of(&server).len() > expected().len());
            // The commit that is applied and not synced reaches the disk, or does not.
            left = vec![engine.crash(0), engine.crash(usize::MAX)];
        })
        .await;
        if ended.is_none() {
            assert!(seen > 0, "no process ended while the temporary collection was there");
            return;
        }
        for (engine, lucky) in left.iter().zip(["lost", "kept"]) {
            let server = server_over(engine).await;
            let place = format!("ended at commit {commit}, which is {lucky}");
            assert_eq!(names_of(&server), expected(), "{place}");
            check(&server, &mut server.connect(), &place).await;
        }
    }
    panic!("$out makes more than {COMMITS_MAX} commits");
}

#[tokio::test]
async fn out_that_fails_leaves_no_temporary_collection() {
    let (server, mut client) = filled(&FaultEngine::new()).await;
    client.ok("d", of(&doc! { "createIndexes": "to", "indexes": [{ "key": { "u": 1 }, "name": "u", "unique": true }] })).await;
    // All documents lack the field of the unique index.
    assert_eq!(client.fails("d", out()).await, 11000);
    assert_eq!(names_of(&server), expected());
    check(&server, &mut client, "after a failure").await;
}
