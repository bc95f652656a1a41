//! `cargo xtask bench ttl`: effects on clients while expired items are removed.
//!
//! One container holds items that never expire, which clients read and write by the clock, and many more that
//! all expire at once, when the container gets a default. The same load runs before that, while they are
//! removed, and afterwards; its windows of a second are joined for as long as there is something to remove.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shardlake_testkit::{EMULATOR_KEY, RawConnection, ServerOptions, ServerProcess, container_path};

use crate::pace::{Got, Pace};
use crate::publish::publish;
use crate::report;
use crate::workload::{DATABASE, Signer, document};
use crate::{Outcome, TtlOptions};

const CONTAINER: &str = "items";
const KEPT: u64 = 1000;
const CONNECTIONS: u64 = 8;
const ITEMS_PER_REQUEST: u64 = 50;
const WINDOW: Duration = Duration::from_secs(1);
/// Time limit without removals although items are left.
const PATIENCE: Duration = Duration::from_secs(600);

pub struct Found {
    before: Got,
    during: Got,
    after: Got,
    /// From the expiry of the items until the last one was removed.
    purge: Duration,
}

pub fn run(options: &TtlOptions) -> Outcome {
    let machine = report::machine();
    let found = find(options)?;
    let text = format!(
        "Machine: {machine}. {} items of 1 KB run out at once; {} requests a second over HTTP by {CONNECTIONS} connections, half of them reads and half \
         durable upserts of {KEPT} other items of the same container, in the same process, on the same cores as the server.\n\n{}",
        options.items,
        options.rate,
        table(options, &found)?
    );
    publish(options.publish.as_ref(), &text)
}

/// Latencies of clients of one build.
pub fn find(options: &TtlOptions) -> Outcome<Found> {
    let directory = tempfile::TempDir::with_prefix("shardlake-bench-")?;
    let server = ServerOptions::new(&options.server).data_dir(directory.path().join("data")).try_start()?;
    let client = server.client();
    let _ = client.create_database(DATABASE).expect_status(201);
    let _ = client.create_container_of(DATABASE, &definition(None), &[]).expect_status(201);
    eprintln!("loading {} items", options.items);
    fill(&server, options.items)?;
    measure(&server, options)
}

impl Found {
    /// 99th percentile while items are removed by the one before.
    pub fn ratio(&self) -> f64 {
        ratio(&self.during, &self.before)
    }

    pub fn removed_per_second(&self, items: u64) -> f64 {
        items as f64 / self.purge.as_secs_f64().max(1e-9)
    }
}

fn ratio(got: &Got, before: &Got) -> f64 {
    got.within(0.99) as f64 / before.within(0.99).max(1) as f64
}

fn definition(default_ttl: Option<i64>) -> Value {
    let mut definition =
        json!({"id": CONTAINER, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
    if let Some(seconds) = default_ttl {
        definition["defaultTtl"] = seconds.into();
    }
    definition
}

fn kept(number: u64) -> String {
    let text = document("kept", &format!("kept-{number}"));
    format!("{},\"ttl\":-1}}", text.trim_end_matches('}'))
}

fn fill(server: &ServerProcess, items: u64) -> Outcome {
    let range = [
        ("x-ms-cosmos-is-batch-request", "true"),
        ("x-ms-cosmos-batch-atomic", "false"),
        ("x-ms-documentdb-partitionkeyrangeid", "0"),
    ];
    let path = format!("{}/docs", container_path(DATABASE, CONTAINER));
    let create = |key: String, body: String| -> Outcome<Value> {
        let body: Value = serde_json::from_str(&body)?;
        Ok(json!({"operationType": "Create", "partitionKey": json!([key]).to_string(), "resourceBody": body}))
    };
    let client = server.client();
    let send = |operations: Vec<Value>| {
        let reply = client.post_json(&path, &range, &Value::Array(operations)).expect_status(200).json();
        let created = reply.as_array().into_iter().flatten().all(|result| result["statusCode"] == 201);
        if created { Ok(()) } else { Err(format!("an item was not created: {reply}")) }
    };
    for first in (0..KEPT).step_by(ITEMS_PER_REQUEST as usize) {
        let operation = |number| create(format!("kept-{number}"), kept(number));
        send((first..first + ITEMS_PER_REQUEST).map(operation).collect::<Outcome<_>>()?)?;
    }
    let started = Instant::now();
    for first in (0..items).step_by(ITEMS_PER_REQUEST as usize) {
        let operation = |number: u64| {
            let key = format!("key-{}", number / 4);
            create(key.clone(), document(&format!("item-{number}"), &key))
        };
        send((first..items.min(first + ITEMS_PER_REQUEST)).map(operation).collect::<Outcome<_>>()?)?;
    }
    eprintln!("loaded in {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Reads and upserts alternately.
fn requests() -> Vec<Vec<u8>> {
    let signer = Signer::new(EMULATOR_KEY);
    let link = format!("dbs/{DATABASE}/colls/{CONTAINER}");
    let item = format!("{link}/docs/kept");
    let (get, post) = (signer.authorization("get", &item), signer.authorization("post", &link));
    let date = &signer.date;
    let request = |number: u64| {
        let key = format!("kept-{}", number * 7 % KEPT);
        let common = format!(
            "host: localhost\r\nx-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\nx-ms-documentdb-partitionkey: [\"{key}\"]\r\n"
        );
        if number.is_multiple_of(2) {
            return format!("GET /{item} HTTP/1.1\r\n{common}authorization: {get}\r\n\r\n").into_bytes();
        }
        let body = kept(number * 7 % KEPT);
        let length = body.len();
        format!(
            "POST /{link}/docs HTTP/1.1\r\n{common}authorization: {post}\r\nx-ms-documentdb-is-upsert: true\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    };
    (0..2 * KEPT).map(request).collect()
}

fn measure(server: &ServerProcess, options: &TtlOptions) -> Outcome<Found> {
    let requests = requests();
    let time = Duration::from_secs(options.seconds);
    let pace = Pace {
        address: server.address(),
        requests: &requests,
        rate: options.rate,
        connections: CONNECTIONS,
        time,
    };
    // Remaining work of the loading is not measured.
    Pace { time: Duration::from_secs(5), ..pace }.run()?;
    eprintln!("nothing to remove");
    let before = pace.run()?;
    eprintln!("removing");
    let path = container_path(DATABASE, CONTAINER);
    let _ = server.client().put_json(&path, &[], &definition(Some(1))).expect_status(200);
    let started = Instant::now();
    let (mut during, mut purge) = (Got::default(), None);
    while purge.is_none() {
        let window = Pace { time: WINDOW, ..pace }.run()?;
        let purged = purged(server)?;
        // A window counts when there was something to remove from its beginning to its end.
        if purged > 0 && purged < options.items {
            during = during.joined(window);
        }
        if purged == options.items {
            purge = Some(started.elapsed());
        }
        if started.elapsed() > PATIENCE {
            return Err(format!("{purged} of {} items were removed in {PATIENCE:?}", options.items).into());
        }
    }
    eprintln!("nothing to remove any more");
    let after = pace.run()?;
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| (before.within(share), during.within(share)));
    eprintln!(
        "µs before and while removing: p50 {p50:?}, p99 {p99:?}, p99.9 {p999:?}; {} requests",
        during.asked()
    );
    Ok(Found { before, during, after, purge: purge.unwrap_or_default() })
}

/// The number of removed items that the server reports.
fn purged(server: &ServerProcess) -> Outcome<u64> {
    let mut connection = RawConnection::open(server.address())?;
    connection.send(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
    let page = connection.read_response("GET")?.text();
    let mut counts = page.lines().filter(|line| line.starts_with("shardlake_partition_purged_items_total{"));
    let count = counts.next().and_then(|line| line.rsplit(' ').next()).ok_or("no metric of removed items")?;
    Ok(count.parse()?)
}

fn table(options: &TtlOptions, found: &Found) -> Outcome<String> {
    let Found { before, during, after, purge } = found;
    if let Some(reply) = [before, during, after].iter().find_map(|got| got.strange.as_ref()) {
        eprintln!("a reply that is no success: {reply}");
    }
    let other: u64 = [before, during, after].iter().map(|got| got.other + got.refused).sum();
    let mut out = String::from("| what | asked | measured |\n|---|---:|---:|\n");
    writeln!(
        out,
        "| p99 while items are removed ÷ before (afterwards ÷ before) | ≤ 2 | {:.2} ({:.2}) |",
        ratio(during, before),
        ratio(after, before)
    )?;
    let seconds = purge.as_secs_f64();
    writeln!(out, "| {} items removed | – | in {seconds:.1} s |", options.items)?;
    writeln!(out, "| replies that are no successes | 0 | {other} |")?;
    out.push_str("\n| clients | asked/s | p50 µs | p99 µs | p99.9 µs |\n|---|---:|---:|---:|---:|\n");
    for (name, got) in [("before", before), ("while items are removed", during), ("afterwards", after)] {
        writeln!(
            out,
            "| {name} | {} | {} | {} | {} |",
            options.rate,
            got.within(0.5),
            got.within(0.99),
            got.within(0.999)
        )?;
    }
    Ok(out)
}
