//! Benchmark of the MongoDB API: its cost compared with REST, over the same container in the same run.
//!
//! Documents are found by `_id` and shard key, which both APIs answer from the item's key. One
//! document is inserted at a time, and a thousand; REST accepts a hundred in a batch at most.
//! Documents of a thousand are counted one by one. A pipeline groups the documents that pass its
//! filter. PostgreSQL takes part where it is installed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shardlake_testkit::{EMULATOR_KEY, ServerOptions, ServerProcess};

use crate::load::{self, Measured};
use crate::loading;
use crate::mongo_messages::{Commands, message};
use crate::point::add;
use crate::postgres::Postgres;
use crate::publish::publish;
use crate::report::{self, Line};
use crate::requests::Requests;
use crate::workload::{CONTAINER, Creates, DATABASE, Reads, Signer, document, key_of};
use crate::{MongoOptions, Outcome};

const CONNECTIONS: [usize; 2] = [1, 16];
/// Documents of one large insert.
const MANY: u64 = 1000;
const REST_BATCH: u64 = 100;
const GROUPS: u64 = 100;
/// Different documents that the reads touch.
const TOUCHED: u64 = 20_000;

pub fn run(options: &MongoOptions) -> Outcome {
    let machine = report::machine();
    let directory = tempfile::TempDir::with_prefix("shardlake-bench-")?;
    let server = ServerOptions::new(&options.server)
        .data_dir(directory.path().join("data"))
        .argument("--mongo-listen=127.0.0.1:0")
        .start();
    eprintln!("loading {} items", options.items);
    loading::load(&server, options.items)?;
    let postgres = Postgres::start(options.items)?;
    let mut lines = Vec::new();
    for round in 0..options.rounds {
        for connections in CONNECTIONS {
            measure(options, (&server, postgres.as_ref()), (round, connections), &mut lines)?;
        }
        eprintln!("round {} of {} done", round + 1, options.rounds);
    }
    let grouped = group(options, &server)?;
    let beside = match &postgres {
        None => String::new(),
        Some(postgres) => {
            let measured = postgres.group(options.grouped, GROUPS, options.seconds)?;
            format!("; PostgreSQL 15: {:.0} ms", measured.p50_us / 1000.0)
        }
    };
    let text = format!(
        "Machine: {machine}. {} rounds of {} s each, medians; contestants take turns. Inserts of many count documents.\n\n{}\n- `$match` and `$group` over {} documents in {GROUPS} groups, one connection: {grouped:.0} ms (median of {}){beside}.\n",
        options.rounds,
        options.seconds,
        report::table(&lines),
        options.grouped,
        options.rounds,
    );
    publish(options.publish.as_ref(), &text)
}

pub fn door(server: &ServerProcess) -> Outcome<SocketAddr> {
    let told = server.ready().fields["mongo"][0].as_str().unwrap_or_default();
    let address = told.trim_start_matches("mongodb://").trim_end_matches('/');
    Ok(address.parse().map_err(|_| format!("the server's other door is said to be at '{told}'"))?)
}

fn measure(
    options: &MongoOptions,
    (server, postgres): (&ServerProcess, Option<&Postgres>),
    (round, connections): (usize, usize),
    lines: &mut Vec<Line>,
) -> Outcome {
    let (signer, mongo, rest) = (Signer::new(EMULATOR_KEY), door(server)?, server.address());
    let duration = Duration::from_secs(options.seconds);
    let drive = |address: SocketAddr, requests: Arc<dyn Requests>| {
        load::drive(address, connections, duration, requests, server.process_id())
    };
    let run = format!("r{round}c{connections}");
    let mut note =
        |operation, contestant, measured| add(lines, (operation, connections, contestant), measured);
    note("find by _id and shard key", "shardlake", drive(mongo, finds(options.items))?);
    let reads = Arc::new(Reads::of(&signer, CONTAINER, options.items, TOUCHED));
    note("find by _id and shard key", "REST", drive(rest, reads)?);
    note("insert of 1", "shardlake", drive(mongo, inserts(format!("m{run}"), 1))?);
    note("insert of 1", "REST", drive(rest, Arc::new(Creates::new(&signer, format!("s{run}"))))?);
    let many = drive(mongo, inserts(format!("n{run}"), MANY))?;
    note("insert of 1,000", "shardlake", of_documents(many, MANY));
    let batches = drive(rest, Arc::new(Batches::new(&signer, format!("b{run}"))))?;
    note("insert of 1,000", "REST, batches of 100", of_documents(batches, REST_BATCH));
    if let Some(postgres) = postgres {
        let reads = postgres.reads(connections, options.seconds, options.items)?;
        note("find by _id and shard key", "PostgreSQL 15", reads);
        note("insert of 1", "PostgreSQL 15", postgres.creates(connections, options.seconds)?);
    }
    Ok(())
}

/// Documents instead of requests; times stay those of requests.
fn of_documents(measured: Measured, documents: u64) -> Measured {
    let documents = documents as f64;
    let Measured { per_second, cpu_us, .. } = measured;
    Measured { per_second: per_second * documents, cpu_us: cpu_us / documents, ..measured }
}

fn finds(items: u64) -> Arc<dyn Requests> {
    let count = items.min(TOUCHED);
    let find = |index: u64| {
        let number = index * (items / count);
        let filter = json!({ "_id": format!("item-{number}"), "pk": key_of(number) });
        let find =
            json!({ "find": CONTAINER, "filter": filter, "limit": 1, "singleBatch": true, "$db": DATABASE });
        message(&find)
    };
    let made: Vec<Vec<u8>> = (0..count).map(find).collect();
    let pick = move |connection: usize, number: u64| {
        // Large strides: neighbours in time are no neighbours in storage.
        let place = (connection as u64 * 7919 + number * 104_729) % made.len() as u64;
        made[place as usize].clone()
    };
    Arc::new(Commands(pick))
}

fn inserts(run: String, documents: u64) -> Arc<dyn Requests> {
    let template: Value = serde_json::from_str(&document("", "")).expect("it is JSON");
    let insert = move |connection: usize, number: u64| {
        let one = |place: u64| {
            let mut one = template.clone();
            let id = format!("{run}-{connection}-{number}-{place}");
            let members = one.as_object_mut().expect("it is an object");
            members.shift_remove("id");
            members.insert("pk".into(), key_of(number * documents + place).into());
            members.insert("_id".into(), id.into());
            one
        };
        let all: Vec<Value> = (0..documents).map(one).collect();
        message(&json!({ "insert": CONTAINER, "documents": all, "ordered": false, "$db": DATABASE }))
    };
    Arc::new(Commands(insert))
}

/// Batches of new items with one partition key.
struct Batches {
    signer: Signer,
    run: String,
}

impl Batches {
    fn new(signer: &Signer, run: String) -> Batches {
        Batches { signer: signer.clone(), run }
    }
}

impl Requests for Batches {
    fn next(&self, connection: usize, number: u64, out: &mut Vec<u8>) {
        let key = key_of(number * REST_BATCH);
        let operations = (0..REST_BATCH).map(|place| {
            let body = document(&format!("{}-{connection}-{number}-{place}", self.run), &key);
            format!(r#"{{"operationType":"Create","resourceBody":{body}}}"#)
        });
        let body = format!("[{}]", operations.collect::<Vec<_>>().join(","));
        let authorization = self.signer.authorization("post", &format!("dbs/{DATABASE}/colls/{CONTAINER}"));
        let head = format!(
            "POST /dbs/{DATABASE}/colls/{CONTAINER}/docs HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\nx-ms-date: {}\r\nx-ms-version: 2020-07-15\r\nx-ms-documentdb-partitionkey: [\"{key}\"]\r\nx-ms-cosmos-is-batch-request: True\r\nx-ms-cosmos-batch-atomic: True\r\nx-ms-cosmos-batch-ordered: True\r\ncontent-length: {}\r\n\r\n",
            self.signer.date,
            body.len()
        );
        out.extend(head.bytes().chain(body.bytes()));
    }

    fn expected_status(&self) -> u16 {
        200
    }
}

/// Milliseconds of a pipeline over documents of its own collection, the middle of all rounds.
fn group(options: &MongoOptions, server: &ServerProcess) -> Outcome<f64> {
    let mut connection = load::Messages::open(door(server)?)?;
    for start in (0..options.grouped).step_by(MANY as usize) {
        let end = (start + MANY).min(options.grouped);
        let one = |number: u64| json!({ "_id": number, "g": number % GROUPS, "n": number, "text": "x".repeat(100) });
        let documents: Vec<Value> = (start..end).map(one).collect();
        connection.run(&message(&json!({ "insert": "grouped", "documents": documents, "$db": DATABASE })))?;
    }
    let pipeline = json!([
        { "$match": { "n": { "$gte": 10 } } },
        { "$group": { "_id": "$g", "sum": { "$sum": "$n" }, "count": { "$sum": 1 } } },
    ]);
    let aggregate =
        message(&json!({ "aggregate": "grouped", "pipeline": pipeline, "cursor": {}, "$db": DATABASE }));
    let mut times = Vec::new();
    for _ in 0..options.rounds.max(1) {
        let started = Instant::now();
        connection.run(&aggregate)?;
        times.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    assert!(!times.is_empty(), "a median has a round");
    Ok(times[times.len() / 2])
}
