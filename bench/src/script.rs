//! `cargo xtask bench script`: the cost of JavaScript on the server.
//!
//! *Functions*: one connection reads a container of one partition by a query that calls a
//! user-defined function for each item, with a number and with the whole item of 1 KB, and by the same query
//! without the call; the difference is the call. *Procedures*: connections, each with a logical partition of
//! its own, run an empty procedure, and a procedure that creates two given items of 1 KB, against the same
//! two items in a transactional batch, with durability async and sync.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use shardlake_testkit::{Client, RawConnection, Request, ServerOptions, ServerProcess, container_path};

use crate::cpu::Cpu;
use crate::load::{Measured, drive};
use crate::loading::load_items;
use crate::publish::publish;
use crate::report::{self, Line};
use crate::requests::Requests;
use crate::workload::{CONTAINER, DATABASE, document};
use crate::{Outcome, ScriptOptions};

const PAGE_ITEMS: usize = 1000;
/// Placeholder for the number of a request, in as many characters as the number has.
const PLACE: &str = "@@@@@@@@@@@@";

/// Text of a query with a call, and of the query without it.
const CALLS: [(&str, &str, &str); 3] = [
    ("udf.f(number)", "SELECT VALUE udf.price(c.price) FROM c", "SELECT VALUE c.price FROM c"),
    ("udf.f(item of 1 KB)", "SELECT VALUE udf.name(c) FROM c", "SELECT VALUE c.name FROM c"),
    (
        "udf.f(number) in WHERE",
        "SELECT VALUE c.quantity FROM c WHERE udf.price(c.price) > 1",
        "SELECT VALUE c.quantity FROM c WHERE c.price * 2 > 1",
    ),
];

pub fn run(options: &ScriptOptions) -> Outcome {
    let machine = report::machine();
    let mut text = format!(
        "Machine: {machine}. Over HTTP, clients on the same cores as the server; medians of {} rounds.\n\n",
        options.rounds
    );
    text.push_str(&functions(options)?);
    for durability in ["async", "sync"] {
        write!(
            text,
            "\nProcedures with durability `{durability}`, {} s each; CPU is that of the server and its workers:\n\n",
            options.seconds
        )?;
        text.push_str(&procedures(options, durability)?);
    }
    publish(options.publish.as_ref(), &text)
}

fn start(binary: &Path, directory: &Path, durability: &str) -> Outcome<ServerProcess> {
    let server =
        ServerOptions::new(binary).data_dir(directory.join("data")).durability(durability).try_start()?;
    let client = server.client();
    let _ = client.create_database(DATABASE).expect_status(201);
    let body = json!({"id": CONTAINER, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
    let _ = client.create_container_of(DATABASE, &body, &[]).expect_status(201);
    Ok(server)
}

fn functions(options: &ScriptOptions) -> Outcome<String> {
    let directory = tempfile::TempDir::with_prefix("shardlake-bench-")?;
    let server = start(&options.server, directory.path(), "async")?;
    let client = server.client();
    for (id, body) in
        [("price", "function (p) { return p * 2 }"), ("name", "function (item) { return item.name }")]
    {
        let path = format!("{}/udfs", container_path(DATABASE, CONTAINER));
        let _ = client.post_json(&path, &[], &json!({"id": id, "body": body})).expect_status(201);
    }
    eprintln!("loading {} items", options.items);
    load_items(&server, options.items)?;
    let mut out = String::from(
        "| call | with it, items/s | without, items/s | one call | CPU of one call |\n|---|---:|---:|---:|---:|\n",
    );
    for (name, with, without) in CALLS {
        let mut rounds = (Vec::new(), Vec::new());
        for round in 0..=options.rounds {
            let walks = (walk(&server, with)?, walk(&server, without)?);
            // The first one fills the caches.
            if round > 0 {
                rounds.0.push(walks.0);
                rounds.1.push(walks.1);
            }
        }
        let (with, without) = (median(rounds.0), median(rounds.1));
        writeln!(
            out,
            "| {name} | {:.0} | {:.0} | {:.1} µs | {:.1} µs |",
            with.items as f64 / with.seconds,
            without.items as f64 / without.seconds,
            with.per_item(with.seconds) - without.per_item(without.seconds),
            with.per_item(with.cpu_seconds) - without.per_item(without.cpu_seconds),
        )?;
    }
    Ok(out)
}

/// All pages of a query.
struct Walk {
    items: u64,
    seconds: f64,
    cpu_seconds: f64,
}

impl Walk {
    fn per_item(&self, seconds: f64) -> f64 {
        seconds * 1e6 / self.items as f64
    }
}

fn median(mut walks: Vec<Walk>) -> Walk {
    walks.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    walks.swap_remove(walks.len() / 2)
}

fn walk(server: &ServerProcess, text: &str) -> Outcome<Walk> {
    let (client, process) = (server.client(), server.process_id());
    let path = format!("{}/docs", container_path(DATABASE, CONTAINER));
    let body = json!({"query": text, "parameters": []}).to_string();
    let size = PAGE_ITEMS.to_string();
    let mut connection = RawConnection::open(server.address())?;
    let (cpu, started) = (Cpu::of(process), Instant::now());
    let (mut items, mut token) = (0, None::<String>);
    loop {
        let mut headers = vec![
            ("content-type", "application/query+json"),
            ("x-ms-documentdb-isquery", "True"),
            ("x-ms-documentdb-query-enablecrosspartition", "True"),
            ("x-ms-max-item-count", &size),
        ];
        headers.extend(token.as_deref().map(|token| ("x-ms-continuation", token)));
        connection.send(&signed(&client, &path, &headers, &body))?;
        let reply = connection.read_response("POST")?;
        if reply.status != 200 {
            return Err(reply.to_string().into());
        }
        let count: u64 = reply.header("x-ms-item-count").ok_or("no item count")?.parse()?;
        items += count;
        token = reply.header("x-ms-continuation").map(str::to_owned);
        if token.is_none() {
            let seconds = started.elapsed().as_secs_f64();
            return Ok(Walk { items, seconds, cpu_seconds: cpu.seconds() });
        }
    }
}

fn signed(client: &Client, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    client.signed_bytes(&Request { method: "POST", path, headers, body: body.as_bytes(), resource: None })
}

fn procedures(options: &ScriptOptions, durability: &str) -> Outcome<String> {
    let directory = tempfile::TempDir::with_prefix("shardlake-bench-")?;
    let server = start(&options.server, directory.path(), durability)?;
    let client = server.client();
    create_procedures(&client);
    let mut lines = Vec::new();
    for connections in options.connections.iter().copied() {
        let mut of = Contestants::new(&client, connections);
        for round in 0..options.rounds {
            assert_eq!(of.lines.len(), of.requests.len(), "each contestant has its requests");
            for (line, requests) in of.lines.iter_mut().zip(&of.requests) {
                eprintln!("{durability}, {connections} connections, round {round}: {}", line.contestant);
                line.rounds.push(measure(options, &server, connections, round, requests)?);
            }
        }
        lines.append(&mut of.lines);
    }
    table(&lines)
}

/// The empty procedure, and the procedure that creates two items.
pub fn create_procedures(client: &Client) {
    for (id, body) in [("empty", "function () {}"), ("two", TWO)] {
        let path = format!("{}/sprocs", container_path(DATABASE, CONTAINER));
        let _ = client.post_json(&path, &[], &json!({"id": id, "body": body})).expect_status(201);
    }
}

/// Creates its arguments, or nothing.
const TWO: &str = "function (first, second) {
    var collection = getContext().getCollection(), link = collection.getSelfLink();
    function done(error) { if (error) throw error; }
    if (!collection.createDocument(link, first, {}, done) || !collection.createDocument(link, second, {}, done))
        throw new Error('not accepted');
}";

struct Contestants {
    lines: Vec<Line>,
    /// For each of them, a request for each connection.
    requests: Vec<Vec<Template>>,
}

impl Contestants {
    fn new(client: &Client, connections: usize) -> Contestants {
        let per_connection = |request: &dyn Fn(&str) -> Template| {
            (0..connections).map(|connection| request(&format!("key-{connection}"))).collect()
        };
        let line = |contestant| Line { operation: "", connections, contestant, rounds: Vec::new() };
        Contestants {
            lines: vec![
                line("batch that creates two items"),
                line("procedure that creates two items"),
                line("empty procedure"),
            ],
            requests: vec![
                per_connection(&|key| Template::of_batch(client, key)),
                per_connection(&|key| Template::of_two(client, key)),
                per_connection(&|key| Template::of_procedure(client, "empty", key, "[]")),
            ],
        }
    }
}

/// A signed request; signatures do not cover bodies.
#[derive(Clone)]
pub struct Template(Vec<u8>);

/// The requests of one round, a template for each connection.
pub struct Numbered {
    pub templates: Vec<Template>,
    /// Distinguishes the ids of this round from those of others.
    pub round: usize,
}

impl Template {
    /// The call of a stored procedure in one logical partition.
    pub fn of_procedure(client: &Client, id: &str, key: &str, body: &str) -> Template {
        let header = format!("[\"{key}\"]");
        let headers = [("x-ms-documentdb-partitionkey", header.as_str())];
        let path = format!("{}/sprocs/{id}", container_path(DATABASE, CONTAINER));
        Template(signed(client, &path, &headers, body))
    }

    /// The call of the procedure that creates two items, in one logical partition.
    pub fn of_two(client: &Client, key: &str) -> Template {
        let [first, second] = two_items(key);
        Template::of_procedure(client, "two", key, &format!("[{first},{second}]"))
    }

    /// The transactional batch that creates the same two items.
    pub fn of_batch(client: &Client, key: &str) -> Template {
        let header = format!("[\"{key}\"]");
        let headers = [
            ("x-ms-documentdb-partitionkey", header.as_str()),
            ("x-ms-cosmos-is-batch-request", "True"),
            ("x-ms-cosmos-batch-atomic", "True"),
        ];
        let creates = two_items(key)
            .map(|item| format!("{{\"operationType\":\"Create\",\"resourceBody\":{item}}}"))
            .join(",");
        let path = format!("{}/docs", container_path(DATABASE, CONTAINER));
        Template(signed(client, &path, &headers, &format!("[{creates}]")))
    }
}

fn two_items(key: &str) -> [String; 2] {
    ["a", "b"].map(|place| document(&format!("{PLACE}-{place}"), key))
}

impl Requests for Numbered {
    fn next(&self, connection: usize, number: u64, out: &mut Vec<u8>) {
        let Template(bytes) = &self.templates[connection];
        let id = format!("{:03}{number:09}", self.round % 1000);
        let start = out.len();
        out.extend_from_slice(bytes);
        let mut at = start;
        while let Some(place) = out[at..].windows(PLACE.len()).position(|window| window == PLACE.as_bytes()) {
            out[at + place..at + place + PLACE.len()].copy_from_slice(id.as_bytes());
            at += place + PLACE.len();
        }
    }

    fn expected_status(&self) -> u16 {
        200
    }
}

fn measure(
    options: &ScriptOptions,
    server: &ServerProcess,
    connections: usize,
    round: usize,
    templates: &[Template],
) -> Outcome<Measured> {
    // Batches and procedures create different items.
    let kind = usize::from(
        templates.first().is_some_and(|first| first.0.starts_with(b"POST /dbs/bench/colls/items/docs")),
    );
    let requests =
        Numbered { templates: templates.to_vec(), round: (round * 2 + kind) * 10 + connections % 10 };
    let time = Duration::from_secs(options.seconds);
    drive(server.address(), connections, time, Arc::new(requests), server.process_id())
}

fn table(lines: &[Line]) -> Outcome<String> {
    let mut out = String::from(
        "| connections | | per second | p50 µs | p99 µs | CPU µs each | per second of CPU | ÷ batch |\n|---:|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for line in lines {
        let median = line.median();
        let batch = lines
            .iter()
            .find(|other| other.connections == line.connections && other.contestant.starts_with("batch"));
        let ratio = batch.map_or(1.0, |batch| median.per_second / batch.median().per_second);
        writeln!(
            out,
            "| {} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {ratio:.2} |",
            line.connections,
            line.contestant,
            median.per_second,
            median.p50_us,
            median.p99_us,
            median.cpu_us,
            1e6 / median.cpu_us.max(1.0),
        )?;
    }
    Ok(out)
}
