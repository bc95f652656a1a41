//! Clients that create containers and hang up while the change of the catalog is being synced.
//!
//! The server may create such a container or not. Whatever it does, a container that is created and acknowledged afterwards
//! has a key space of its own: its items are its own after a restart, and stay when the other container is deleted.

use crate::model::{Definition, ItemChange, Operation, Place};
use crate::observe;
use crate::requests::wire_of;
use crate::weather::{LOOK_AGAIN, Weather, wait_until};
use shardlake_testkit::{Client, ServerOptions, ServerProcess};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ROUNDS: u64 = 8;
const ITEMS: u64 = 50;
const WRITERS: u64 = 6;
const DATABASE: &str = "d";

#[test]
fn a_cancelled_creation_shares_no_key_space_with_a_later_one() {
    let Some(weather) = Weather::new("a_cancelled_creation_shares_no_key_space_with_a_later_one") else {
        return;
    };
    let options = weather.over(ServerOptions::new(crate::server_binary()).argument("--throughput=unlimited"));
    let mut server = options.start();
    let client = server.client();
    expect(&client, &Operation::CreateDatabase { database: DATABASE.to_owned(), throughput: None }, 201);
    let busy = place("busy", 0);
    expect(&client, &create(&busy, 0), 201);
    // Above a millisecond, so that one thread syncs for all and no request waits in its own.
    weather.delay(Duration::from_millis(3));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..WRITERS {
            let (client, is_over, busy) = (server.client(), &is_over, &busy);
            scope.spawn(move || write_until(is_over, &client, busy, 0, number));
        }
        for round in 0..ROUNDS {
            create_and_hang_up(&server, &weather, &place("cancelled", round), 100 + round);
            let kept = place("kept", round);
            expect(&client, &create(&kept, 200 + round), 201);
            fill(&client, &kept, 200 + round);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    weather.delay(Duration::ZERO);
    server.kill();
    weather.server_was_killed();
    server.restart();
    let created = judge(&server.client());
    println!("{created} of {ROUNDS} cancelled creations took effect");
    server.kill();
    let output = server.verify();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "verify: {}\n{said}", output.status);
}

/// Returns how many of the cancelled creations took effect.
fn judge(client: &Client) -> usize {
    let kept_are_whole = |when: &str| {
        let stored = observe::databases(client, &[DATABASE.to_owned()]);
        let containers = &stored.databases[DATABASE].containers;
        for round in 0..ROUNDS {
            let name = place("kept", round).container;
            let container = containers.get(&name).unwrap_or_else(|| panic!("{when}: '{name}' is gone"));
            let homes: BTreeSet<u64> = container.items.values().map(|item| item.home).collect();
            assert_eq!(homes, BTreeSet::from([200 + round]), "{when}: '{name}' holds items of others");
            assert_eq!(container.items.len() as u64, ITEMS, "{when}: '{name}' lost items");
        }
        stored.databases[DATABASE].clone()
    };
    let stored = kept_are_whole("after the restart");
    let cancelled: Vec<&String> =
        stored.containers.keys().filter(|name| name.starts_with("cancelled")).collect();
    for name in &cancelled {
        let items = stored.containers[*name].items.len();
        assert_eq!(items, 0, "nobody wrote to '{name}', and it holds {items} items");
    }
    for name in &cancelled {
        let at = Place { database: DATABASE.to_owned(), container: (*name).clone() };
        expect(client, &Operation::DeleteContainer { at }, 204);
    }
    let _stored = kept_are_whole("after the cancelled ones were deleted");
    cancelled.len()
}

/// The request is on its way while a sync is held, and the client is gone before the sync ends.
fn create_and_hang_up(server: &ServerProcess, weather: &Weather, at: &Place, tag: u64) {
    let client = server.client();
    weather.hold();
    wait_until("a sync is held", || weather.is_a_sync_under_way());
    let connections = connections(&client);
    let mut stream = TcpStream::connect(client.address()).unwrap();
    stream.write_all(&wire_of(&create(at, tag), None).signed(&client)).unwrap();
    wait_until("the server has the connection", || self::connections(&client) > connections);
    // The server has nothing else to do than to read it; a test that goes on too early proves less, and is not wrong.
    std::thread::sleep(100 * LOOK_AGAIN);
    drop(stream);
    wait_until("the server has noticed", || self::connections(&client) <= connections);
    weather.release();
}

fn connections(client: &Client) -> u64 {
    let page = client.get("/metrics", &[]).expect_status(200).text();
    let line = page.lines().find(|line| line.starts_with("shardlake_connections ")).expect("a gauge");
    line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

fn write_until(is_over: &AtomicBool, client: &Client, at: &Place, home: u64, writer: u64) {
    let mut version = 0;
    while !is_over.load(Ordering::Relaxed) {
        version += 1;
        let changes = vec![ItemChange::Upsert { id: format!("i{}", version % 10), version }];
        let operation = Operation::Items { at: at.clone(), home, partition: format!("w{writer}"), changes };
        let response = wire_of(&operation, None).send(client).expect("a server that runs answers");
        assert!(matches!(response.status, 200 | 201), "{response}");
    }
}

fn fill(client: &Client, at: &Place, home: u64) {
    let change = |number| ItemChange::Create { id: format!("i{number}"), version: number };
    let changes = (0..ITEMS).map(change).collect();
    let operation = Operation::Items { at: at.clone(), home, partition: "k".to_owned(), changes };
    expect(client, &operation, 200);
}

fn create(at: &Place, tag: u64) -> Operation {
    let definition = Definition { ttl: 1, excluded: 0 };
    Operation::CreateContainer { at: at.clone(), tag, definition, throughput: 400 }
}

fn place(name: &str, round: u64) -> Place {
    Place { database: DATABASE.to_owned(), container: format!("{name}{round}") }
}

#[track_caller]
fn expect(client: &Client, operation: &Operation, status: u16) {
    let response = wire_of(operation, None).send(client).expect("a server that runs answers");
    let _expected = response.expect_status(status);
}
