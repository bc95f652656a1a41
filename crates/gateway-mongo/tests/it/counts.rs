//! Work of a command without noise: allocations and engine calls, held to `tests/counts.toml`.
//!
//! One thread does all the work, over an engine in memory that counts. Each command is made many
//! times, after a few that warm the caches; `Counts::note` of the testkit defines how they
//! become one number. A second run has to count the same. The two allocations of the client that
//! receives the reply are counted as well.

use std::sync::Arc;

use bson::doc;
use shardlake_mql::Value;
use shardlake_stdx::Clock;
use shardlake_storage::counted::{CountedEngine, EngineCalls};
use shardlake_storage::{Shard, ShardOptions};
use shardlake_testkit::Counts;
use tokio::runtime::Runtime;

use crate::client::{Client, NOW, OP_MSG, Server, body_section, framed, message, of};

const WARMING: usize = 20;
const COMMANDS: usize = 60;

struct Account {
    runtime: Runtime,
    engine: CountedEngine,
    client: Client,
    counts: Counts,
    _server: Server,
}

impl Account {
    fn open() -> Account {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let engine = CountedEngine::new();
        let shard = Shard::with_engine(Arc::new(engine.clone()), &ShardOptions::local("")).expect("opens");
        let (server, client) = runtime.block_on(async {
            let server = Server::over(vec![shard], Default::default(), Clock::manual(NOW)).await;
            let mut client = server.connect();
            client.ok("d", of(&doc! { "create": "c" })).await;
            client
                .ok(
                    "d",
                    of(&doc! { "createIndexes": "c", "indexes": [{ "key": { "kind": 1 }, "name": "k" }] }),
                )
                .await;
            (server, client)
        });
        Account {
            runtime,
            engine,
            client,
            counts: Counts::held_to(env!("CARGO_MANIFEST_DIR"), "tests/counts.toml"),
            _server: server,
        }
    }

    /// Sends commands by their number, and notes each kind of their work.
    fn measure(&mut self, name: &'static str, command: impl Fn(usize) -> bson::Document) {
        let mut samples: Vec<(u64, EngineCalls)> = Vec::new();
        for number in 0..WARMING + COMMANDS {
            let mut body = of(&command(number));
            body.push("$db", Value::string("d"));
            let bytes = framed(7, OP_MSG, &message(0, &[body_section(&body)]));
            let (before, mut answer) = (self.engine.calls(), None);
            let client = &mut self.client;
            let work = || {
                answer = Some(self.runtime.block_on(async {
                    client.send_bytes(&bytes).await;
                    client.receive().await
                }));
            };
            let allocated = allocation_counter::measure(work);
            samples.push((allocated.count_total, self.engine.calls().since(before)));
            let reply = answer.expect("it was answered").document();
            assert_eq!(reply.value("ok").to_f64(), Some(1.0), "{}", Value::from(reply.clone()));
        }
        let samples = &samples[WARMING..];
        self.counts.note(name, "allocations", samples.iter().map(|(count, _)| *count));
        for (place, (kind, _)) in EngineCalls::default().by_name().into_iter().enumerate() {
            let counts = samples.iter().map(|(_, calls)| calls.by_name()[place].1);
            self.counts.note(name, kind, counts);
        }
    }
}

fn document(number: usize) -> bson::Document {
    doc! {
        "_id": format!("item-{number:04}"),
        "kind": (number % 4) as i32,
        "name": format!("a name of some length, {number:04}"),
        "price": 12.5,
        "tags": ["red", "green", "blue"],
        "address": { "city": "Basel", "zip": 4051, "lines": ["one", "two"] },
        "text": "x".repeat(500),
    }
}

fn counted() -> Counts {
    let mut account = Account::open();
    account.measure("insert-one", |number| doc! { "insert": "c", "documents": [document(number)] });
    account.measure("find-by-id", |number| {
        doc! { "find": "c", "filter": { "_id": format!("item-{number:04}") }, "limit": 1 }
    });
    account.measure("find-by-index", |_| doc! { "find": "c", "filter": { "kind": 1 }, "limit": 10 });
    account.measure("update-one", |number| {
        let filter = doc! { "_id": format!("item-{number:04}") };
        doc! { "update": "c", "updates": [{ "q": filter, "u": { "$inc": { "price": 1.0 } } }] }
    });
    account.counts
}

#[test]
fn commands_do_no_more_work_than_recorded() {
    let counts = counted();
    counts.expect_equal(&counted());
    counts.check();
}
