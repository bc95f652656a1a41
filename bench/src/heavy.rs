//! `cargo xtask bench heavy`: effects on other clients while items with very many properties are
//! written.
//!
//! Clients write small items to a container of their own by the clock, and another client checks
//! whether the server is alive: first alone, and then while writers replace items of some 2 MB,
//! each time with other values:
//! - an array of as many numbers as the index holds one by one, the largest commit of an item with arrays;
//! - an array of as many numbers as the text holds, which the index summarises;
//! - an object of as many property names as the text holds, the largest commit of all.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;
use shardlake_testkit::{EMULATOR_KEY, ServerOptions, ServerProcess};

use crate::cpu::resident_megabytes;
use crate::pace::{Got, Pace};
use crate::publish::publish;
use crate::report;
use crate::workload::{DATABASE, Signer, document};
use crate::{HeavyOptions, Outcome};

const SMALL: &str = "small";
const LARGE: &str = "large";
const CONNECTIONS: u64 = 4;
/// Text of a heavy item; one string fills the space that its numbers leave.
const TEXT_BYTES: usize = 1_900_000;

/// Values of a heavy item.
#[derive(Clone, Copy)]
enum Values {
    Numbers(usize),
    Names(usize),
}

const HEAVY: [(&str, Values); 3] = [
    ("beside items indexed exactly", Values::Numbers(8_100)),
    ("beside items with a summary", Values::Numbers(230_000)),
    ("beside items of many names", Values::Names(150_000)),
];

struct Found {
    writes: Got,
    lives: Got,
    /// Results of the heavy writers.
    heavy: Option<Got>,
    resident_mb: f64,
}

pub fn run(options: &HeavyOptions) -> Outcome {
    let machine = report::machine();
    let directory = tempfile::TempDir::with_prefix("shardlake-bench-")?;
    let server = ServerOptions::new(&options.server).data_dir(directory.path().join("data")).try_start()?;
    let client = server.client();
    let _ = client.create_database(DATABASE).expect_status(201);
    for container in [SMALL, LARGE] {
        let definition =
            json!({"id": container, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
        let _ = client.create_container_of(DATABASE, &definition, &[]).expect_status(201);
    }
    let mut found = vec![("alone", measure(&server, options, None)?)];
    for (name, values) in HEAVY {
        eprintln!("{name}");
        found.push((name, measure(&server, options, Some(values))?));
    }
    let text = format!(
        "Machine: {machine}. {} s each, over HTTP: {} small durable writes a second by {CONNECTIONS} connections, as many questions for `/livez` by one, and {} \
         writers of items of {TEXT_BYTES} bytes in another container, in the same process, on the same cores as the server.\n\n{}",
        options.seconds,
        options.rate,
        options.writers,
        table(&found)?
    );
    publish(options.publish.as_ref(), &text)
}

fn measure(server: &ServerProcess, options: &HeavyOptions, values: Option<Values>) -> Outcome<Found> {
    let signer = Signer::new(EMULATOR_KEY);
    let small: Vec<_> =
        (0..500).map(|number| upsert(&signer, SMALL, &document(&format!("i{number}"), "a"))).collect();
    let lives = [b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec()];
    let large: Vec<_> = (0..2 * options.writers as usize)
        .map(|number| {
            upsert(&signer, LARGE, &heavy(number, values.unwrap_or(Values::Numbers(0)), options.writers))
        })
        .collect();
    let pace = |requests, rate, connections| Pace {
        address: server.address(),
        requests,
        rate,
        connections,
        time: Duration::from_secs(options.seconds),
    };
    let (writes, lives) = (pace(&small[..], options.rate, CONNECTIONS), pace(&lives[..], options.rate, 1));
    let heavy = pace(&large[..], options.heavy_rate.unwrap_or(u64::MAX), options.writers);
    std::thread::scope(|scope| {
        let heavy = values.map(|_| scope.spawn(|| heavy.run().map_err(|error| error.to_string())));
        let (writes, lives) = writes.run_beside(&lives)?;
        let resident_mb = resident_megabytes(server.process_id());
        let heavy = heavy.map(|heavy| heavy.join().expect("no client panics")).transpose()?;
        Ok(Found { writes, lives, heavy, resident_mb })
    })
}

/// One of a writer's two items, which have different values.
fn heavy(number: usize, values: Values, writers: u64) -> String {
    let range = |count: usize| number * count..(number + 1) * count;
    let values = match values {
        Values::Numbers(count) => {
            let numbers: Vec<String> = range(count).map(|number| number.to_string()).collect();
            format!("[{}]", numbers.join(","))
        }
        Values::Names(count) => {
            let members: Vec<String> = range(count).map(|number| format!("\"{number:x}\":1")).collect();
            format!("{{{}}}", members.join(","))
        }
    };
    let rest = "x".repeat(TEXT_BYTES.saturating_sub(values.len()));
    format!(r#"{{"id":"h{}","pk":"a","n":{values},"rest":"{rest}"}}"#, number as u64 % writers)
}

pub fn upsert(signer: &Signer, container: &str, body: &str) -> Vec<u8> {
    let link = format!("dbs/{DATABASE}/colls/{container}");
    let (authorization, date, length) = (signer.authorization("post", &link), &signer.date, body.len());
    format!(
        "POST /{link}/docs HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\nx-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\nx-ms-documentdb-partitionkey: [\"a\"]\r\nx-ms-documentdb-is-upsert: true\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn table(found: &[(&str, Found)]) -> Outcome<String> {
    let (_, alone) = &found[0];
    let ratio =
        |got: &Got, alone: &Got| format!("{:.1}", got.within(0.99) as f64 / alone.within(0.99).max(1) as f64);
    let mut out = String::from(
        "| small clients | who | p50 µs | p99 µs | p99 ÷ alone (asked: ≤ 3) |\n|---|---|---:|---:|---:|\n",
    );
    for (name, at) in found {
        for (who, got, base) in [("writes", &at.writes, &alone.writes), ("`/livez`", &at.lives, &alone.lives)]
        {
            let (p50, p99, ratio) = (got.within(0.5), got.within(0.99), ratio(got, base));
            writeln!(out, "| {name} | {who} | {p50} | {p99} | {ratio} |")?;
        }
    }
    out.push_str("\n| heavy writers | requests | p50 ms | server's memory, MB |\n|---|---:|---:|---:|\n");
    for (name, at) in found {
        let (asked, p50) =
            at.heavy.as_ref().map_or((0, 0), |heavy| (heavy.asked(), heavy.within(0.5) / 1000));
        writeln!(out, "| {name} | {asked} | {p50} | {:.0} |", at.resident_mb)?;
    }
    Ok(out)
}
