//! Work of a request without noise: allocations and engine calls, held to `tests/counts.toml`.
//!
//! One thread does all the work, over an engine in memory that counts. Each request is made many
//! times, after a few that warm the caches; `Counts::note` of the testkit defines how they
//! become one number. A second run has to count the same.

use std::sync::Arc;

use serde_json::{Value, json};
use shardlake_storage::counted::{CountedEngine, EngineCalls};
use shardlake_storage::{Shard, ShardOptions};
use shardlake_testkit::Counts;
use tokio::runtime::Runtime;

use crate::harness::{Answer, Call, ITEMS, Server};

const WARMING: usize = 20;
const REQUESTS: usize = 60;

struct Account {
    runtime: Runtime,
    engine: CountedEngine,
    server: Server,
    counts: Counts,
}

impl Account {
    fn open() -> Account {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let engine = CountedEngine::new();
        let shard = Shard::with_engine(Arc::new(engine.clone()), &ShardOptions::local("")).expect("opens");
        let server = runtime.block_on(async {
            let server = Server::over(shard).await;
            let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
            server.create_container(json!({ "id": "items", "partitionKey": key })).await;
            let spread = json!({ "id": "spread", "partitionKey": key });
            let create = server.post("/dbs/db/colls").header("x-ms-offer-throughput", "30000");
            create.json(spread).send().await.expect(201);
            server
        });
        Account {
            runtime,
            engine,
            server,
            counts: Counts::held_to(env!("CARGO_MANIFEST_DIR"), "tests/counts.toml"),
        }
    }

    /// Makes requests by their number, and notes each kind of their work.
    fn measure(&mut self, name: &'static str, status: u16, request: impl Fn(&Server, usize) -> Call<'_>) {
        let mut samples: Vec<(u64, EngineCalls)> = Vec::new();
        for number in 0..WARMING + REQUESTS {
            let prepared = request(&self.server, number).prepared();
            let (before, mut response) = (self.engine.calls(), None);
            let work = || response = Some(self.runtime.block_on(prepared.handled()));
            let allocated = allocation_counter::measure(work);
            samples.push((allocated.count_total, self.engine.calls().since(before)));
            let response = response.expect("it was handled");
            self.runtime.block_on(Answer::of(response)).expect(status);
        }
        let samples = &samples[WARMING..];
        self.counts.note(name, "allocations", samples.iter().map(|(count, _)| *count));
        for (place, (kind, _)) in EngineCalls::default().by_name().into_iter().enumerate() {
            let counts = samples.iter().map(|(_, calls)| calls.by_name()[place].1);
            self.counts.note(name, kind, counts);
        }
    }
}

fn item(number: usize) -> Value {
    json!({
        "id": format!("item-{number:04}"),
        "pk": format!("key-{:04}", number % 8),
        "kind": number % 4,
        "name": format!("a name of some length, {number:04}"),
        "price": 12.5,
        "tags": ["red", "green", "blue"],
        "address": { "city": "Basel", "zip": 4051, "lines": ["one", "two"] },
        "text": "x".repeat(500),
    })
}

fn create<'s>(server: &'s Server, container: &str, number: usize) -> Call<'s> {
    let item = item(number);
    let key = json!([item["pk"]]).to_string();
    server.post(format!("/dbs/db/colls/{container}/docs")).key(&key).json(item)
}

fn read(server: &Server, number: usize) -> Call<'_> {
    let key = json!([item(number)["pk"]]).to_string();
    server.item("GET", &format!("item-{number:04}"), &key)
}

fn query<'s>(server: &'s Server, path: &str, text: &str) -> Call<'s> {
    let call = server.post(path).header("x-ms-documentdb-isquery", "true");
    let call = call.header("content-type", "application/query+json").header("x-ms-max-item-count", "10");
    call.json(json!({ "query": text, "parameters": [{ "name": "@kind", "value": 1 }] }))
}

fn counted() -> Counts {
    let mut account = Account::open();
    account.measure("create", 201, |server, number| create(server, "items", number));
    account.measure("create-in-many-partitions", 201, |server, number| create(server, "spread", number));
    account.measure("point-read", 200, read);
    account.measure("point-read-again", 200, |server, _| read(server, 0));
    account.measure("query-page", 200, |server, _| {
        let text = "SELECT c.name, c.price FROM c WHERE c.kind = @kind";
        query(server, ITEMS, text).key("[\"key-0001\"]")
    });
    account.measure("query-page-merged", 200, |server, _| {
        let text = "SELECT c.name, c.price FROM c WHERE c.kind = @kind ORDER BY c.name";
        let call = query(server, "/dbs/db/colls/spread/docs", text);
        call.header("x-ms-documentdb-query-enablecrosspartition", "true")
            .header("x-shardlake-fan-out", "true")
    });
    account.counts
}

#[test]
fn requests_do_no_more_work_than_recorded() {
    let counts = counted();
    counts.expect_equal(&counted());
    counts.check();
}
