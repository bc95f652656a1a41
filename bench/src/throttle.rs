//! `cargo xtask bench throttle`: effects of a budget on a client that overdraws it, and on that
//! client's neighbour.
//!
//! *The busy client* asks for twice the RU/s of its container, by the clock, independent of the answers.
//! *The neighbour* reads a little from another container of the same server: alone, next to the
//! busy client, and next to a flood, connections that do nothing but ask. *The hot key*: a
//! container of two partitions is asked for twice its RU/s, all of it with one key.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use shardlake_testkit::{Client, EMULATOR_KEY, RawConnection, ServerOptions, ServerProcess, container_path};

use crate::pace::{Got, Pace, retry_after};
use crate::publish::publish;
use crate::report;
use crate::workload::{DATABASE, Signer, document};
use crate::{Outcome, ThrottleOptions};

const KEYS: u64 = 1000;
const CONNECTIONS: u64 = 16;
const FLOOD_CONNECTIONS: u64 = 8;
/// A container that is created with this throughput has two partitions, and keeps them when its throughput is reduced.
const OF_TWO_PARTITIONS: u64 = 12_000;

/// Everything that was measured, in the order of the table.
struct Found {
    alone: Got,
    busy: Got,
    beside: Got,
    again: Got,
    flood: Got,
    flooded: Got,
    hot: Got,
}

pub fn run(options: &ThrottleOptions) -> Outcome {
    let machine = report::machine();
    let directory = tempfile::TempDir::with_prefix("shardlake-bench-")?;
    let server = start(&options.server, directory.path())?;
    prepare(&server, options.throughput)?;
    let found = measure(&server, options)?;
    let text = format!(
        "Machine: {machine}. {} s each, over HTTP; items of 1 KB, 1 RU to read. The busy client has {CONNECTIONS} connections, the neighbour one, \
         in the same process, on the same cores as the server.\n\n{}\n{}",
        options.seconds,
        asked(options, &found)?,
        clients(options, &found)?
    );
    publish(options.publish.as_ref(), &text)
}

fn start(binary: &Path, directory: &Path) -> Outcome<ServerProcess> {
    let server = ServerOptions::new(binary).data_dir(directory.join("data")).try_start()?;
    let _ = server.client().create_database(DATABASE).expect_status(201);
    Ok(server)
}

fn prepare(server: &ServerProcess, throughput: u64) -> Outcome {
    let client = &server.client();
    for (container, throughput) in [("busy", throughput), ("calm", throughput), ("hot", OF_TWO_PARTITIONS)] {
        create(client, container, throughput);
        fill(server.address(), container)?;
    }
    replace_throughput(client, "hot", throughput)?;
    let ranges =
        client.get(&format!("{}/pkranges", container_path(DATABASE, "hot")), &[]).expect_status(200).json();
    if ranges["_count"] != 2 {
        return Err(format!("the container of the hot key has not two partitions: {ranges}").into());
    }
    // Until all buckets are full again.
    std::thread::sleep(Duration::from_secs(2));
    Ok(())
}

fn create(client: &Client, container: &str, throughput: u64) {
    let body = json!({"id": container, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
    let throughput = throughput.to_string();
    let headers = [("x-ms-offer-throughput", throughput.as_str())];
    let _ = client.create_container_of(DATABASE, &body, &headers).expect_status(201);
}

fn replace_throughput(client: &Client, container: &str, throughput: u64) -> Outcome {
    let rid = client.read_container(DATABASE, container).expect_status(200).json()["_rid"].clone();
    let offers = client.get("/offers", &[]).expect_status(200).json();
    let mut all = offers["Offers"].as_array().into_iter().flatten();
    let mut offer: Value =
        all.find(|offer| offer["offerResourceId"] == rid).ok_or("the container has no offer")?.clone();
    offer["content"]["offerThroughput"] = throughput.into();
    let path = format!("/offers/{}", offer["id"].as_str().unwrap_or_default());
    let _ = client.put_json(&path, &[], &offer).expect_status(200);
    Ok(())
}

/// One item, 1 RU to read, in each of many logical partitions; the loader waits as refusals demand.
fn fill(address: SocketAddr, container: &str) -> Outcome {
    let signer = Signer::new(EMULATOR_KEY);
    let link = format!("dbs/{DATABASE}/colls/{container}");
    let (authorization, date) = (signer.authorization("post", &link), &signer.date);
    let mut connection = RawConnection::open(address)?;
    for number in 0..KEYS {
        let body = document("item", &format!("key-{number}"));
        let request = format!(
            "POST /{link}/docs HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\nx-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\nx-ms-documentdb-partitionkey: [\"key-{number}\"]\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        loop {
            connection.send(request.as_bytes())?;
            let reply = connection.read_response("POST")?;
            match reply.status {
                201 => break,
                429 => std::thread::sleep(Duration::from_millis(retry_after(&reply).unwrap_or(10))),
                _ => return Err(reply.to_string().into()),
            }
        }
    }
    Ok(())
}

/// Reads of the first keys, scattered.
fn reads(container: &str, keys: u64) -> Vec<Vec<u8>> {
    let signer = Signer::new(EMULATOR_KEY);
    let link = format!("dbs/{DATABASE}/colls/{container}/docs/item");
    let (authorization, date) = (signer.authorization("get", &link), &signer.date);
    let request = |number: u64| {
        let key = number * 7 % keys;
        format!(
            "GET /{link} HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\nx-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\nx-ms-documentdb-partitionkey: [\"key-{key}\"]\r\n\r\n"
        )
        .into_bytes()
    };
    (0..keys).map(request).collect()
}

fn measure(server: &ServerProcess, options: &ThrottleOptions) -> Outcome<Found> {
    let (address, time) = (server.address(), Duration::from_secs(options.seconds));
    let (busy, calm, hot) = (reads("busy", KEYS), reads("calm", KEYS), reads("hot", 1));
    let neighbour = Pace { address, requests: &calm, rate: options.neighbour_rate, connections: 1, time };
    let twice = Pace { requests: &busy, rate: 2 * options.throughput, connections: CONNECTIONS, ..neighbour };
    eprintln!("the neighbour alone");
    let alone = neighbour.run()?;
    eprintln!("beside a client at twice its budget");
    let (busy, beside) = twice.run_beside(&neighbour)?;
    eprintln!("the neighbour alone again");
    let again = neighbour.run()?;
    eprintln!("one key at twice the budget");
    let hot = Pace { requests: &hot, ..twice }.run()?;
    eprintln!("beside a flood");
    let flood = Pace { rate: u64::MAX, connections: FLOOD_CONNECTIONS, ..twice };
    let (flood, flooded) = flood.run_beside(&neighbour)?;
    Ok(Found { alone, busy, beside, again, flood, flooded, hot })
}

/// Goals of budgets next to the measured figures.
fn asked(options: &ThrottleOptions, found: &Found) -> Outcome<String> {
    let Found { alone, busy, beside, again, flood, flooded, hot } = found;
    let budget = (options.throughput * options.seconds) as f64;
    let all = [alone, busy, beside, again, flood, flooded, hot];
    let sum = |value: fn(&Got) -> u64| all.iter().map(|got| value(got)).sum::<u64>();
    let (refused, misshapen, other) =
        (sum(|got| got.refused), sum(|got| got.misshapen), sum(|got| got.other));
    if let Some(reply) = all.iter().find_map(|got| got.strange.as_ref()) {
        eprintln!("a reply that is neither a success nor a refusal: {reply}");
    }
    let mut out = String::from("| what | asked | measured |\n|---|---:|---:|\n");
    writeln!(
        out,
        "| charged to a client at twice its {} RU/s | 97–103 % of them | {:.2} % |",
        options.throughput,
        busy.charged / budget * 100.0
    )?;
    writeln!(
        out,
        "| 429s with substatus 3200 and a whole x-ms-retry-after-ms ≥ 1 | all | {} of {refused} |",
        refused - misshapen
    )?;
    writeln!(out, "| replies of any kind besides successes and 429s | 0 | {other} |")?;
    writeln!(
        out,
        "| charged to one logical key that is asked for everything, of two partitions | ≤ 50 % of the budget, ± 3 % of that | {:.2} % |",
        hot.charged / budget * 100.0
    )?;
    let ratio = |got: &Got| got.within(0.99) as f64 / alone.within(0.99).max(1) as f64;
    writeln!(
        out,
        "| p99 of the neighbour, beside the throttled client ÷ alone (alone again ÷ alone) | ≤ 2 | {:.2} ({:.2}) |",
        ratio(beside),
        ratio(again)
    )?;
    Ok(out)
}

/// One line for each client.
fn clients(options: &ThrottleOptions, found: &Found) -> Outcome<String> {
    let mut out = String::from(
        "| client | asks/s | got asked/s | charged RU/s | refused/s | p50 µs | p99 µs |\n|---|---:|---:|---:|---:|---:|---:|\n",
    );
    let (twice, little) = ((2 * options.throughput).to_string(), options.neighbour_rate.to_string());
    for (name, rate, got) in [
        ("neighbour, alone", little.as_str(), &found.alone),
        ("busy, at twice its budget", &twice, &found.busy),
        ("neighbour, beside it", &little, &found.beside),
        ("neighbour, alone again", &little, &found.again),
        ("one key, at twice the budget", &twice, &found.hot),
        ("flood over 8 connections", "–", &found.flood),
        ("neighbour, beside the flood", &little, &found.flooded),
    ] {
        let each_second = |count: f64| count / options.seconds as f64;
        writeln!(
            out,
            "| {name} | {rate} | {:.0} | {:.1} | {:.0} | {} | {} |",
            each_second(got.asked() as f64),
            each_second(got.charged),
            each_second(got.refused as f64),
            got.within(0.5),
            got.within(0.99)
        )?;
    }
    Ok(out)
}
