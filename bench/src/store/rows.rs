//! The rows of the page, one function for those that belong together.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use shardlake_testkit::EMULATOR_KEY;

use super::options::{Row, StoreOptions};
use super::places::{Place, Started};
use crate::Outcome;
use crate::cases::{self, ONE_ROW};
use crate::cpu::{most_resident_megabytes, resident_megabytes, settle};
use crate::load::{Measured, Target, drive, drive_after};
use crate::loading::load_requests;
use crate::query_workload::{self, Queries};
use crate::requests::Requests;
use crate::workload::{CONTAINER, Creates, DATABASE, Reads, Replaces, Signer, key_of};

const CONNECTIONS: usize = 16;
const MANY_CONNECTIONS: usize = 128;
/// The default memory of `--cache-size` and `--write-buffer-size`, in MB, plus the memory of code and connections.
const BUDGET_MEGABYTES: f64 = 256.0 + 4.0 * 32.0 + 128.0;
const PATIENCE: Duration = Duration::from_secs(30);

/// Different items, and logical partitions, that requests touch: a number that fits into the
/// default cache, and a number of which the cache holds a part at most.
const ITEMS_THAT_FIT: u64 = 20_000;
const ITEMS_BEYOND: u64 = 200_000;
const KEYS_THAT_FIT: u64 = 400;
const KEYS_BEYOND: u64 = 4_000;
const ITEMS_OF_A_KEY: u64 = 100;
/// An item that is read for the second time is kept as text as well.
const PASSES: u64 = 2;

/// Speed of a place without other load.
pub struct Speed {
    read: Measured,
    read_beyond: Measured,
    query: Measured,
    query_beyond: Measured,
    create: Measured,
    creates: Measured,
}

fn signer() -> Signer {
    Signer::new(EMULATOR_KEY)
}

fn go(
    options: &StoreOptions,
    started: &Started,
    connections: usize,
    requests: Arc<dyn Requests>,
) -> Outcome<Measured> {
    let server = &started.server;
    drive(server.address(), connections, Duration::from_secs(options.seconds), requests, server.process_id())
}

/// Sends each of `count` requests, so that the cache holds their data as far as it has space.
fn warm(started: &Started, requests: &Arc<dyn Requests>, count: u64) -> Outcome {
    let make = |number, out: &mut Vec<u8>| requests.next(0, number, out);
    load_requests(started.server.address(), PASSES * count, requests.expected_status(), &make)
}

fn reads(options: &StoreOptions, most: u64) -> Arc<dyn Requests> {
    Arc::new(Reads::of(&signer(), CONTAINER, options.items, most))
}

/// One row of 100 in each of `most` logical partitions.
fn queries(options: &StoreOptions, most: u64) -> Arc<dyn Requests> {
    let keys = most.min(options.items / ITEMS_OF_A_KEY).max(1);
    let query = |number: u64| {
        let text = format!("SELECT * FROM c WHERE c.slot = {}", number % ITEMS_OF_A_KEY);
        (query_workload::Target::Key(key_of(number * (options.items / keys))), text)
    };
    Arc::new(Queries::new((0..keys).map(query)))
}

pub fn speed(options: &StoreOptions, started: &Started) -> Outcome<Speed> {
    let (read, query) = (reads(options, ITEMS_THAT_FIT), queries(options, KEYS_THAT_FIT));
    warm(started, &read, ITEMS_THAT_FIT)?;
    let read = go(options, started, CONNECTIONS, read)?;
    warm(started, &query, KEYS_THAT_FIT)?;
    let query = go(options, started, CONNECTIONS, query)?;
    Ok(Speed {
        read,
        query,
        read_beyond: go(options, started, CONNECTIONS, reads(options, ITEMS_BEYOND))?,
        query_beyond: go(options, started, CONNECTIONS, queries(options, KEYS_BEYOND))?,
        create: go(options, started, 1, Arc::new(Creates::new(&signer(), "one")))?,
        creates: go(options, started, MANY_CONNECTIONS, Arc::new(Creates::new(&signer(), "many")))?,
    })
}

pub fn alone(place: &str, speed: &Speed) -> Row {
    let found = format!(
        "{:.0} reads/s ({:.0} beyond the cache), {:.0} queries/s ({:.0}), a create {:.2} ms, {:.0} creates/s",
        speed.read.per_second,
        speed.read_beyond.per_second,
        speed.query.per_second,
        speed.query_beyond.per_second,
        speed.create.p50_us / 1000.0,
        speed.creates.per_second
    );
    Row { what: "for comparison".into(), place: place.into(), found, goal: "–", is_met: None }
}

fn ratio(what: &str, place: &str, (found, than): (f64, f64), goal: &'static str, least: f64) -> Row {
    let ratio = found / than;
    Row {
        what: what.into(),
        place: place.into(),
        found: format!("{ratio:.2}"),
        goal,
        is_met: Some(ratio >= least),
    }
}

fn at_most(what: &str, place: &str, (found, unit): (f64, &str), goal: &'static str, most: f64) -> Row {
    Row {
        what: what.into(),
        place: place.into(),
        found: format!("{found:.2} {unit}"),
        goal,
        is_met: Some(found <= most),
    }
}

/// With a local disk, the operating system's memory holds the data that the cache does not.
fn beyond(what: &str, place: &str, (found, local): (&Measured, &Measured)) -> Row {
    let found =
        format!("{:.2}, {:.0} µs of the processor", found.per_second / local.per_second, found.cpu_us);
    Row { what: what.into(), place: place.into(), found, goal: "–", is_met: None }
}

/// Reads, queries and creates compared with those of the local disk.
pub fn beside(options: &StoreOptions, started: &Started, local: &Speed) -> Outcome<Vec<Row>> {
    let (found, place) = (speed(options, started)?, started.place.name());
    let create_ms = found.create.p50_us / 1000.0;
    Ok(vec![
        beyond(
            "point read of up to 200,000 items, beyond the cache ÷ local",
            &place,
            (&found.read_beyond, &local.read_beyond),
        ),
        beyond(
            "query of up to 4,000 logical partitions, beyond the cache ÷ local",
            &place,
            (&found.query_beyond, &local.query_beyond),
        ),
        ratio(
            "warm point read ÷ local",
            &place,
            (found.read.per_second, local.read.per_second),
            "≥ 0.5",
            0.5,
        ),
        ratio(
            "warm one-partition query ÷ local",
            &place,
            (found.query.per_second, local.query.per_second),
            "≥ 0.4",
            0.4,
        ),
        Row {
            what: "durable create, one client, median".into(),
            place: place.clone(),
            found: format!("{create_ms:.2} ms"),
            goal: "≤ 1.5 × PUT + 1 ms",
            // The duration of a put is known of the distant bucket alone.
            is_met: None,
        },
        Row {
            what: "durable creates, 128 clients".into(),
            place,
            found: format!("{:.0}/s", found.creates.per_second),
            goal: "≥ 10,000/s",
            is_met: Some(found.creates.per_second >= 10_000.0),
        },
    ])
}

/// Duration of a split of the query benchmark's container in seconds.
pub fn split(started: &Started) -> Outcome<f64> {
    let client = started.server.client();
    let base = format!("/_shardlake/v1/dbs/{DATABASE}/colls/{}/partitions", query_workload::CONTAINER);
    let since = Instant::now();
    let begun =
        client.post_json(&format!("{base}/0/split"), &[], &json!({ "at": "size" })).expect_status(202);
    let before = begun.json()["generation"].as_u64().ok_or("no generation is told")?;
    while client.get(&base, &[]).expect_status(200).json()["generation"]
        .as_u64()
        .is_none_or(|now| now <= before)
    {
        if since.elapsed() > Duration::from_secs(600) {
            return Err("the split does not end".into());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(since.elapsed().as_secs_f64())
}

/// Memory, a split, a start, the drop of a container, and a take-over.
pub fn life(
    options: &StoreOptions,
    mut started: Started,
    local: &Speed,
    local_split: f64,
) -> Outcome<Vec<Row>> {
    let place = started.place.name();
    let memory =
        |what, megabytes| at_most(what, &place, (megabytes, "MB"), "≤ budget + 20 %", BUDGET_MEGABYTES * 1.2);
    let process = started.server.process_id();
    let mut rows = vec![
        memory("memory after loading, reads and writes", resident_megabytes(process)),
        memory("the most memory until then", most_resident_megabytes(process)),
        ratio("relocation: a split ÷ local, as speed", &place, (local_split, split(&started)?), "≥ 0.2", 0.2),
    ];
    let since = Instant::now();
    started.cold(Duration::ZERO);
    let _first = first_read(&started)?;
    rows.push(at_most(
        "start to first read",
        &place,
        (since.elapsed().as_secs_f64(), "s"),
        "≤ 2 s at 1M",
        2.0,
    ));
    rows.push(with_disk_cache(options, &mut started, local)?);
    rows.push(drop_of_container(options, &started)?);
    rows.push(take_over(&mut started)?);
    Ok(rows)
}

fn first_read(started: &Started) -> Outcome<Measured> {
    let server = &started.server;
    let target = Target { address: server.address(), connections: 1, server: server.process_id() };
    drive_after(Duration::ZERO, target, Duration::from_millis(1), Arc::new(Reads::new(&signer(), 1)))
}

/// Data beyond the cache in memory is on a local disk here, too.
fn with_disk_cache(options: &StoreOptions, started: &mut Started, local: &Speed) -> Outcome<Row> {
    started.restart_with_disk_cache()?;
    let requests = reads(options, ITEMS_BEYOND);
    let filled = go(options, started, CONNECTIONS, requests.clone())?;
    let found = go(options, started, CONNECTIONS, requests)?;
    let row = beyond(
        "the same reads with --disk-cache ÷ local",
        &started.place.name(),
        (&found, &local.read_beyond),
    );
    let while_it_filled = filled.per_second / local.read_beyond.per_second;
    Ok(Row { found: format!("{} ({while_it_filled:.2} while it filled)", row.found), ..row })
}

fn drop_of_container(options: &StoreOptions, started: &Started) -> Outcome<Row> {
    let bytes = || match &started.place {
        Place::Bucket(bucket) => bucket.put_bytes(),
        _ => 0,
    };
    let (before, since) = (bytes(), Instant::now());
    let _gone = started.server.client().delete(&started.container(), &[]).expect_status(204);
    let seconds = since.elapsed().as_secs_f64();
    settle(started.server.process_id(), PATIENCE);
    let written = (bytes() - before) / 1024;
    let what = format!("drop of a partition of {} items", options.items);
    let found = match &started.place {
        Place::Bucket(_) => format!("{seconds:.2} s, {written} KB written"),
        _ => format!("{seconds:.2} s"),
    };
    let is_met = seconds <= 1.0 && written <= 64;
    Ok(Row { what, place: started.place.name(), found, goal: "≤ 1 s, ≤ 64 KB", is_met: Some(is_met) })
}

fn take_over(started: &mut Started) -> Outcome<Row> {
    let spare = started.spare();
    let spare = thread::spawn(move || spare.try_start());
    // Until the spare waits. If it comes late, the figure only gets worse.
    thread::sleep(Duration::from_secs(1));
    let since = Instant::now();
    started.server.kill();
    let spare = spare.join().map_err(|_| "the spare panicked")??;
    let item = json!({ "id": "after", "pk": "after" });
    let made = spare.client().create_item(DATABASE, query_workload::CONTAINER, &json!(["after"]), &item);
    let _made = made.expect_status(201);
    Ok(at_most(
        "take-over, lease of 3 s",
        &started.place.name(),
        (since.elapsed().as_secs_f64(), "s"),
        "≤ 5 s",
        5.0,
    ))
}

/// Number of starts; their median counts.
const COLD_STARTS: u64 = 7;

/// At a distance: cold queries, and writers and readers concurrent with others.
pub fn distant(options: &StoreOptions) -> Outcome<Vec<Row>> {
    let delay = Duration::from_millis(options.milliseconds);
    let trip = options.milliseconds as f64;
    let place = format!("bucket, {} ms", options.milliseconds);
    let mut started = Started::with_items(options, Place::bucket())?;
    let mut rows = Vec::new();

    started.set_delay(delay);
    let create = go(options, &started, 1, Arc::new(Creates::new(&signer(), "far")))?.p50_us / 1000.0;
    rows.push(at_most(
        "durable create, one client, median",
        &place,
        (create, "ms"),
        "≤ 1.5 × PUT + 1 ms",
        1.5 * trip + 1.0,
    ));

    rows.push(at_most(
        "first query of 100 rows by index after a start, in round trips",
        &place,
        (cold_query(options, &mut started, delay)?.as_secs_f64() / delay.as_secs_f64(), "×"),
        "≤ 8",
        8.0,
    ));

    let hot = |round: usize| -> Outcome<f64> {
        Ok(go(options, &started, 4, Arc::new(Replaces::new(&signer(), 64, round)))?.p50_us)
    };
    hot(0)?;
    let undisturbed = hot(1)?;
    let disturbed =
        beside_load(options, &started, 1, Arc::new(Replaces::new(&signer(), options.items, 2)), || hot(3))?;
    rows.push(at_most(
        "hot writers beside a writer of cold keys ÷ without",
        &place,
        (disturbed / undisturbed, "×"),
        "≤ 1.2",
        1.2,
    ));

    let case = || cases::queries(64).into_iter().find(|case| case.name == ONE_ROW).ok_or("no such case");
    let query = || -> Outcome<f64> { Ok(go(options, &started, 4, (case()?.requests)(0))?.p50_us) };
    query()?;
    let idle = query()?;
    let busy = beside_load(options, &started, 64, Arc::new(Creates::new(&signer(), "busy")), query)?;
    rows.push(at_most("queries beside 64 writers ÷ idle", &place, (busy / idle, "×"), "≤ 1.2", 1.2));
    started.set_delay(Duration::ZERO);
    Ok(rows)
}

/// The median of the first query's duration over several starts: a second query finds the blocks of
/// the index in memory, and all data of a small container.
fn cold_query(options: &StoreOptions, started: &mut Started, delay: Duration) -> Outcome<Duration> {
    let keys = options.items / 100;
    let mut times = Vec::new();
    for start in 0..COLD_STARTS {
        started.set_delay(Duration::ZERO);
        started.cold(delay);
        let key = key_of(start * 7919 % keys * 100);
        let text = "SELECT * FROM c WHERE c.slot < 100".to_owned();
        let query = Queries::new(std::iter::once((query_workload::Target::Key(key), text)));
        let server = &started.server;
        let target = Target { address: server.address(), connections: 1, server: server.process_id() };
        let measured = drive_after(Duration::ZERO, target, Duration::ZERO, Arc::new(query))?;
        times.push(Duration::from_secs_f64(measured.p50_us / 1e6));
    }
    times.sort_unstable();
    assert!(!times.is_empty(), "a median has a start");
    Ok(times[times.len() / 2])
}

/// Measures while other clients send requests on `connections` connections.
fn beside_load<T>(
    options: &StoreOptions,
    started: &Started,
    connections: usize,
    requests: Arc<dyn Requests>,
    measure: impl FnOnce() -> Outcome<T>,
) -> Outcome<T> {
    let (address, process) = (started.server.address(), started.server.process_id());
    let time = Duration::from_secs(options.seconds + 1);
    let load = thread::spawn(move || {
        drive(address, connections, time, requests, process).map_err(|error| error.to_string())
    });
    let measured = measure();
    load.join().map_err(|_| "the load panicked")??;
    measured
}
