//! `cargo xtask bench feed`: how fast a follower reads the changes of one partition, and how soon a
//! waiting follower gets the next change.
//!
//! *Reading*: one connection follows the feed of a container of one partition from its beginning to
//! its end, page by page, each page after the etag of the last; the same items are then read by the
//! ordinary feed, for comparison. Bodies are received and not parsed. *Waiting*: one connection
//! asks for the next change and waits for it on the server, while another one writes at a steady
//! pace; the measured time is from the writer's acknowledgement to the follower's reply.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::json;
use shardlake_testkit::{EMULATOR_KEY, RawConnection, Response, ServerOptions};

use crate::cpu::Cpu;
use crate::loading::load_items;
use crate::publish::publish;
use crate::report;
use crate::workload::{CONTAINER, Creates, DATABASE, Signer};
use crate::{FeedOptions, Outcome};

const PAGE_ITEMS: usize = 1000;
const WRITE_EVERY: Duration = Duration::from_millis(20);

/// A walk over the whole container.
struct Walk {
    items: u64,
    seconds: f64,
    cpu_us: f64,
}

impl Walk {
    fn per_second(&self) -> f64 {
        self.items as f64 / self.seconds
    }
}

pub fn run(options: &FeedOptions) -> Outcome {
    let machine = report::machine();
    let directory = tempfile::TempDir::with_prefix("shardlake-bench-")?;
    let server = ServerOptions::new(&options.server).data_dir(directory.path().join("data")).try_start()?;
    let client = server.client();
    let _ = client.create_database(DATABASE).expect_status(201);
    let body = json!({"id": CONTAINER, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
    let _ = client.create_container_of(DATABASE, &body, &[]).expect_status(201);
    eprintln!("loading {} items", options.items);
    load_items(&server, options.items)?;
    let (mut changes, mut items) = (Vec::new(), Vec::new());
    for round in 0..=options.rounds {
        let walks =
            (follow(server.address(), server.process_id())?, read(server.address(), server.process_id())?);
        // The first one fills the caches.
        if round > 0 {
            changes.push(walks.0);
            items.push(walks.1);
        }
    }
    eprintln!("waiting for {} writes", options.writes);
    let waited = wait(server.address(), options.writes)?;
    let mut text = format!(
        "Machine: {machine}. {} items of 1 KB in one partition, pages of {PAGE_ITEMS}, one connection over HTTP on the same cores as the \
         server; medians of {} rounds.\n\n| read | items/s | server CPU per item |\n|---|---|---|\n",
        options.items, options.rounds
    );
    for (name, walks) in [("change feed, latest version", changes), ("ordinary feed", items)] {
        let walk = median(walks);
        writeln!(text, "| {name} | {:.0} | {:.1} µs |", walk.per_second(), walk.cpu_us)?;
    }
    let at = |latencies: &[Duration], share: f64| {
        latencies[((latencies.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3
    };
    writeln!(
        text,
        "\n| {} writes, one each {} ms | p50 | p99 | maximum |",
        waited.len(),
        WRITE_EVERY.as_millis()
    )?;
    writeln!(
        text,
        "|---|---|---|---|\n| from the writer's acknowledgement to the waiting follower's reply | {:.2} ms | {:.2} ms | {:.2} ms |",
        at(&waited, 0.5),
        at(&waited, 0.99),
        at(&waited, 1.0)
    )?;
    publish(options.publish.as_ref(), &text)
}

fn median(mut walks: Vec<Walk>) -> Walk {
    assert!(!walks.is_empty(), "a median of no rounds");
    walks.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    walks.swap_remove(walks.len() / 2)
}

/// Pages of a feed, one connection.
struct Pages {
    connection: RawConnection,
    signed: String,
}

impl Pages {
    fn open(address: SocketAddr) -> Outcome<Pages> {
        let signer = Signer::new(EMULATOR_KEY);
        let link = format!("dbs/{DATABASE}/colls/{CONTAINER}");
        let authorization = signer.authorization("get", &link);
        let signed = format!(
            "GET /{link}/docs HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\nx-ms-date: {}\r\nx-ms-version: 2020-07-15\r\n",
            signer.date
        );
        Ok(Pages { connection: RawConnection::open(address)?, signed })
    }

    fn page(&mut self, headers: &str) -> Outcome<Response> {
        let request = format!("{}{headers}\r\n", self.signed);
        self.connection.send(request.as_bytes())?;
        Ok(self.connection.read_response("GET")?)
    }
}

fn count(reply: &Response) -> Outcome<u64> {
    let count = reply.header("x-ms-item-count").ok_or_else(|| format!("no item count: {reply}"))?;
    Ok(count.parse()?)
}

fn timed(process: u32, walk: impl FnOnce() -> Outcome<u64>) -> Outcome<Walk> {
    let (cpu, started) = (Cpu::of(process), Instant::now());
    let items = walk()?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(Walk { items, seconds, cpu_us: cpu.seconds() * 1e6 / items as f64 })
}

fn follow(address: SocketAddr, process: u32) -> Outcome<Walk> {
    let mut pages = Pages::open(address)?;
    timed(process, || {
        let (mut seen, mut after) = (0, String::new());
        loop {
            let reply = pages.page(&format!(
                "a-im: Incremental feed\r\nx-ms-documentdb-partitionkeyrangeid: 0\r\nx-ms-max-item-count: {PAGE_ITEMS}\r\n{after}"
            ))?;
            match reply.status {
                200 => seen += count(&reply)?,
                304 => return Ok(seen),
                _ => return Err(reply.to_string().into()),
            }
            after = behind(&reply)?;
        }
    })
}

/// The header that asks for the changes after a page.
fn behind(reply: &Response) -> Outcome<String> {
    Ok(format!("if-none-match: {}\r\n", reply.header("etag").ok_or("a page without an etag")?))
}

fn read(address: SocketAddr, process: u32) -> Outcome<Walk> {
    let mut pages = Pages::open(address)?;
    timed(process, || {
        let (mut seen, mut after) = (0, String::new());
        loop {
            let reply = pages.page(&format!(
                "x-ms-documentdb-partitionkeyrangeid: 0\r\nx-ms-max-item-count: {PAGE_ITEMS}\r\n{after}"
            ))?;
            if reply.status != 200 {
                return Err(reply.to_string().into());
            }
            seen += count(&reply)?;
            match reply.header("x-ms-continuation") {
                Some(token) => after = format!("x-ms-continuation: {token}\r\n"),
                None => return Ok(seen),
            }
        }
    })
}

/// How long after each acknowledgement the waiting follower had its reply, sorted.
fn wait(address: SocketAddr, writes: u64) -> Outcome<Vec<Duration>> {
    let mut pages = Pages::open(address)?;
    let start = "a-im: Incremental feed\r\nx-ms-documentdb-partitionkeyrangeid: 0\r\n";
    let mut after = behind(&pages.page(&format!("{start}if-none-match: *\r\n"))?)?;
    let (told, arrivals) = mpsc::channel();
    let follower = std::thread::spawn(move || -> Result<(), String> {
        let mut seen = 0;
        while seen < writes {
            let reply = pages
                .page(&format!("{start}x-shardlake-feed-wait-ms: 10000\r\n{after}"))
                .map_err(|error| error.to_string())?;
            let now = Instant::now();
            if reply.status != 200 {
                return Err(format!("the follower was answered {reply}"));
            }
            let arrived = count(&reply).map_err(|error| error.to_string())?;
            for _ in 0..arrived {
                // The receiver is dropped where the writer has failed.
                let _ = told.send(now);
            }
            seen += arrived;
            after = behind(&reply).map_err(|error| error.to_string())?;
        }
        Ok(())
    });
    let creates = Creates::new(&Signer::new(EMULATOR_KEY), "wait");
    let mut connection = RawConnection::open(address)?;
    let mut request = Vec::new();
    let mut latencies = Vec::new();
    for number in 0..writes {
        std::thread::sleep(WRITE_EVERY);
        request.clear();
        creates.request(&format!("wait-{number}"), "wait", &mut request);
        connection.send(&request)?;
        let reply = connection.read_response("POST")?;
        if reply.status != 201 {
            return Err(reply.to_string().into());
        }
        let acknowledged = Instant::now();
        let heard = arrivals.recv_timeout(Duration::from_secs(11));
        // The follower may get the change before the writer gets its reply.
        latencies
            .push(heard.map_err(|_| "the follower heard nothing")?.saturating_duration_since(acknowledged));
    }
    follower.join().expect("the follower does not panic")?;
    latencies.sort_unstable();
    Ok(latencies)
}
