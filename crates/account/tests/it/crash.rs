//! Effects that a crash may and may not undo, and the consistency of everything stored afterwards.
//!
//! The engine loses everything that was not synced. Writers run concurrently, and abandon some of their
//! writes; at a random time the power fails; the account is opened again over the content of the "disk". The
//! oracle decides which content is allowed. LSNs must continue above every LSN that a client was given.

use crate::support::json_door::{BatchKind, JsonDoor, KeyInput};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::FutureExt;
use shardlake_account::{FeedScope, Shards, verify};
use shardlake_model::{ErrorKind, ReplyMeta, Result};
use shardlake_stdx::Random;
use shardlake_storage::fault::FaultEngine;
use shardlake_storage::{Durability, Shard, ShardOptions};
use shardlake_testkit::expects_log;

use crate::support::everything::{self, Items, body, definition, key_of, operation};
use crate::support::oracle::{Effects, Oracle};
use crate::support::{Fixture, none};

fn shard_over(engine: Arc<FaultEngine>) -> Shard {
    let options = ShardOptions { durability: Durability::Sync, ..ShardOptions::memory() };
    Shard::with_engine(engine, &options).expect("opens")
}

/// The writers' requests and their results.
#[derive(Debug, Default)]
pub struct Record {
    oracle: Oracle,
    /// The highest LSN that any client was given, by range.
    lsns: BTreeMap<u32, u64>,
}

pub struct Run {
    pub fixture: Fixture,
    record: Mutex<Record>,
}

impl Run {
    pub fn new(fixture: Fixture) -> Arc<Run> {
        Arc::new(Run { fixture, record: Mutex::default() })
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().expect("no holder panics")
    }

    async fn write(&self, pk: &str, effects: &Effects) -> Result<ReplyMeta> {
        let container = self.fixture.account.router().container("db", "c")?;
        let (account, ctx, any, key_text) = (&self.fixture.account, self.fixture.ctx(), none(), key_of(pk));
        let key = KeyInput(&key_text);
        match &effects[..] {
            [(id, None)] => {
                account.delete_item(&ctx, &container, Some(key), id, &any).await.map(|reply| reply.meta)
            }
            [(id, Some(value))] => {
                let body = body(pk, id, *value);
                let written = account.upsert_item(&ctx, &container, Some(key), body.as_bytes(), &any).await;
                written.map(|reply| reply.meta)
            }
            several => {
                let one = |(id, value): &(String, Option<u64>)| {
                    operation(BatchKind::Upsert, id, value.map(|value| body(pk, id, value)))
                };
                let reply =
                    account.json_batch(&ctx, &container, key, several.iter().map(one).collect()).await?;
                reply.outcome.map(|_| reply.meta).map_err(|failure| failure.error)
            }
        }
    }

    /// One client, until the server reports its failure. It owns its logical partitions.
    pub async fn writer(self: Arc<Self>, writer: u64, seed: u64, steps: u64) {
        let random = Random::seeded(seed * 1000 + writer);
        for step in 1..=steps {
            let pk = format!("w{writer}-{}", random.below(3));
            let id = random.below(6).to_string();
            let effects = match random.below(4) {
                0 => vec![(id, None)],
                // Two items that must always agree.
                1 => ["left", "right"].map(|twin| (twin.to_owned(), Some(step))).to_vec(),
                _ => vec![(id, Some(step))],
            };
            let asked = self.record().oracle.asks(&pk, effects.clone());
            let outcome = match random.below(8) {
                // The client sends its request and walks away.
                0 => self.write(&pk, &effects).now_or_never(),
                _ => Some(self.write(&pk, &effects).await),
            };
            match outcome {
                None => tokio::task::yield_now().await,
                Some(Ok(meta)) => {
                    let mut record = self.record();
                    record.oracle.acknowledged(&asked);
                    let lsn = record.lsns.entry(meta.range_id.expect("an item has a range")).or_default();
                    *lsn = meta.lsn.max(*lsn);
                }
                Some(Err(error)) if error.kind() == ErrorKind::Unavailable => return,
                Some(Err(error)) => {
                    assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
                    self.record().oracle.refused(&asked);
                }
            }
        }
    }

    /// Problems of an account that was opened over the disks after the crash.
    pub async fn problems_of(&self, reopened: &Fixture) -> Vec<String> {
        let container = reopened.account.router().container("db", "c").expect("there");
        let ctx = reopened.ctx();
        let feed = reopened.account.items().read_feed(&ctx, &container, FeedScope::All, Some(-1), None).await;
        let stored: Items = feed
            .expect("a page")
            .items
            .iter()
            .map(|item| everything::named(&crate::support::json(item)))
            .collect();
        let record = self.record();
        assert!(record.oracle.acknowledged_writes() > 0, "the crash came before anything was acknowledged");
        let mut problems: Vec<String> = record.oracle.check(&stored).err().into_iter().collect();
        for range in container.partition_key_ranges() {
            if let Some(told) = record.lsns.get(&range.id).filter(|told| range.lsn < **told) {
                problems.push(format!("range {} goes on at LSN {} below {told}", range.id, range.lsn));
            }
        }
        problems
    }
}

async fn crash_once(shards: u64, seed: u64) {
    let engines: Vec<Arc<FaultEngine>> = (0..shards).map(|_| Arc::new(FaultEngine::new())).collect();
    let over = |engines: &[Arc<FaultEngine>]| -> Shards {
        engines.iter().cloned().map(shard_over).collect::<Vec<Shard>>().into()
    };
    let run = Run::new(Fixture::over(over(&engines)).await);
    run.fixture.container_with(definition(), 12_000).await;
    let random = Random::seeded(seed);
    // The fault hits one shard; the power fails for all of them.
    let engine = &engines[(seed / 3 % shards) as usize];
    expects_log("(injected)");
    match seed % 3 {
        0 => engine.fail_sync(10 + random.below(40)),
        1 => engine.fail_apply(10 + random.below(40)),
        _ => engine.fail_after_apply(10 + random.below(40)),
    }
    let writers: Vec<_> = (0..8).map(|writer| tokio::spawn(run.clone().writer(writer, seed, 60))).collect();
    for writer in writers {
        writer.await.expect("no writer panics");
    }
    let survivors: Vec<Arc<FaultEngine>> =
        engines.iter().map(|engine| Arc::new(engine.crash(random.below(3) as usize))).collect();
    let shards = over(&survivors);
    let report = verify(&shards).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "seed {seed}: {report:?}");
    let problems = run.problems_of(&Fixture::over(shards).await).await;
    assert!(problems.is_empty(), "seed {seed}: {problems:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_and_nothing_stored_contradicts_itself() {
    for seed in 0..24 {
        crash_once(1, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_on_every_one_of_two_shards() {
    for seed in 0..24 {
        crash_once(2, seed).await;
    }
}

#[tokio::test]
async fn dropped_containers_leave_nothing_behind_even_after_a_crash() {
    let engine = Arc::new(FaultEngine::new());
    let fixture = Fixture::over(shard_over(engine.clone())).await;
    let c = fixture.container(400).await;
    let (account, ctx) = (&fixture.account, fixture.ctx());
    for n in 0..50 {
        let body = format!(r#"{{"id":"{n}","pk":"a"}}"#);
        account.create_item(&ctx, &c, None, body.as_bytes()).await.expect("created");
    }
    account.definitions().delete_container(&ctx, "db", "c", &none()).await.expect("deleted");
    let late =
        account.create_item(&ctx, &c, None, br#"{"id":"late","pk":"a"}"#).await.expect_err("it is gone");
    assert_eq!(late.kind(), ErrorKind::OwnerNotFound);
    // The crash may come before the background deletion has run; the next start resumes it.
    let reopened = Fixture::over(shard_over(Arc::new(engine.crash(0)))).await;
    reopened.account.router().container("db", "c").expect_err("still gone");
    let recreated = reopened.container(400).await;
    assert_ne!(recreated.rid_text(), c.rid_text());
    assert_eq!(recreated.usage().items, 0);
}
