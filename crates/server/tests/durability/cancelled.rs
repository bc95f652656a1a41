//! Clients that change a definition and hang up while the change of the catalog is being synced.
//!
//! The server may carry such a change out or not. Whatever it does, it shows the same before and
//! after a restart, and a container that is created and acknowledged afterwards has a key space of
//! its own: its items are its own, and stay when the other container is deleted.

use crate::clients::offer_of;
use crate::difference::differences;
use crate::model::{Definition, ItemChange, Operation, Place, Put, State};
use crate::observe;
use crate::requests::wire_of;
use crate::weather::{LOOK_AGAIN, Weather, wait_until};
use shardlake_testkit::{Client, ServerOptions, ServerProcess};
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ROUNDS: u64 = 8;
const ITEMS: u64 = 50;
const WRITERS: u64 = 6;
const DATABASE: &str = "d";
const TAG: u64 = 7;

#[test]
fn a_cancelled_creation_shares_no_key_space_with_a_later_one() {
    let test = "a_cancelled_creation_shares_no_key_space_with_a_later_one";
    let Some((weather, mut server)) = start(test) else { return };
    let mut expected = State::default();
    let cancelled: Vec<Operation> =
        (0..ROUNDS).map(|round| create(&place(&format!("cancelled{round}")), 100 + round)).collect();
    while_writers_write(&server, &weather, |client| {
        carry_out(client, &mut expected, &create_database());
        for (round, operation) in (0..).zip(&cancelled) {
            hang_up_in_a_sync(&server, &weather, operation);
            let kept = place(&format!("kept{round}"));
            carry_out(client, &mut expected, &create(&kept, 200 + round));
            carry_out(client, &mut expected, &fill(&kept, 200 + round));
        }
    });
    kill_and_restart(&weather, &mut server);
    let client = server.client();
    let mut complaints = Vec::new();
    let stored = stored(&client);
    let mut applied = applied(&mut expected, &cancelled, &stored);
    complain(&mut complaints, "after the restart", &expected, &stored);
    println!("{} of {ROUNDS} cancelled creations took effect", applied.len());
    for operation in applied.drain(..) {
        let Operation::CreateContainer { at, .. } = operation else { unreachable!("only these") };
        carry_out(&client, &mut expected, &Operation::DeleteContainer { at: at.clone() });
    }
    complain(&mut complaints, "after the cancelled ones were deleted", &expected, &self::stored(&client));
    server.kill();
    verify(&server, &mut complaints);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_cancelled_change_is_the_same_before_and_after_a_restart() {
    let test = "a_cancelled_change_is_the_same_before_and_after_a_restart";
    let Some((weather, mut server)) = start(test) else { return };
    let mut expected = State::default();
    let cancelled = changes_of_every_kind();
    while_writers_write(&server, &weather, |client| {
        carry_out(client, &mut expected, &create_database());
        for operation in preparations() {
            carry_out(client, &mut expected, &operation);
        }
        for (round, operation) in (0..).zip(&cancelled) {
            hang_up_in_a_sync(&server, &weather, operation);
            // The server finishes the cancelled change before this one.
            carry_out(client, &mut expected, &create(&place(&format!("fence{round}")), 300 + round));
        }
    });
    let mut complaints = Vec::new();
    let before = stored(&server.client());
    let applied = applied(&mut expected, &cancelled, &before).len();
    complain(&mut complaints, "before the restart", &expected, &before);
    kill_and_restart(&weather, &mut server);
    complain(&mut complaints, "after the restart", &before, &stored(&server.client()));
    println!("{applied} of {} cancelled changes were shown before the restart", cancelled.len());
    server.kill();
    verify(&server, &mut complaints);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Preparations for [`changes_of_every_kind`].
fn preparations() -> Vec<Operation> {
    let database = || DATABASE.to_owned();
    let user = |user: &str| Operation::CreateUser { database: database(), user: user.to_owned() };
    let containers = ["replaced", "deleted", "offered", "filled"];
    let mut all: Vec<Operation> =
        (0..).zip(containers).map(|(number, name)| create(&place(name), TAG + number)).collect();
    all.extend(["renamed", "removed", "granted"].map(user));
    all.extend([put_permission(Put::Create, "changed", 1), put_permission(Put::Create, "revoked", 2)]);
    all.extend([put_script(Put::Create, "changed", 1), put_script(Put::Create, "removed", 2)]);
    all.push(Operation::CreateDatabase { database: "gone".to_owned(), throughput: Some(500) });
    all
}

/// Each touches a thing of its own, so that each may have happened or not, whatever became of the
/// others.
fn changes_of_every_kind() -> Vec<Operation> {
    let database = || DATABASE.to_owned();
    let text = str::to_owned;
    let change = |number| ItemChange::Create { id: format!("i{number}"), version: number };
    let changes = (0..3).map(change).collect();
    vec![
        Operation::CreateDatabase { database: text("new"), throughput: Some(600) },
        Operation::DeleteDatabase { database: text("gone") },
        create(&place("created"), 20),
        Operation::ReplaceContainer {
            at: place("replaced"),
            tag: TAG,
            definition: Definition { ttl: 9, excluded: 3 },
        },
        Operation::DeleteContainer { at: place("deleted") },
        Operation::ReplaceOffer {
            database: database(),
            container: Some((text("offered"), TAG + 2)),
            throughput: 900,
        },
        Operation::CreateUser { database: database(), user: text("new") },
        Operation::RenameUser { database: database(), user: text("renamed"), to: text("another") },
        Operation::DeleteUser { database: database(), user: text("removed") },
        put_permission(Put::Create, "new", 3),
        put_permission(Put::Replace, "changed", 4),
        Operation::DeletePermission {
            database: database(),
            user: text("granted"),
            permission: text("revoked"),
        },
        put_script(Put::Create, "new", 3),
        put_script(Put::Replace, "changed", 4),
        Operation::DeleteScript { at: place("filled"), script: text("removed") },
        Operation::Items { at: place("filled"), home: TAG + 3, partition: text("k"), changes },
    ]
}

fn create_database() -> Operation {
    Operation::CreateDatabase { database: DATABASE.to_owned(), throughput: None }
}

fn put_permission(put: Put, permission: &str, tag: u64) -> Operation {
    let (user, permission) = ("granted".to_owned(), permission.to_owned());
    Operation::PutPermission { put, at: place("filled"), user, permission, tag }
}

fn put_script(put: Put, script: &str, tag: u64) -> Operation {
    Operation::PutScript { put, at: place("filled"), script: script.to_owned(), tag }
}

fn start(test: &str) -> Option<(Weather, ServerProcess)> {
    let weather = Weather::new(test)?;
    let options = ServerOptions::new(crate::server_binary()).argument("--throughput=unlimited");
    let server = weather.over(options).start();
    Some((weather, server))
}

/// A commit that is alone syncs on the request's own thread, and cannot be cancelled. Behind
/// writers, and with syncs of more than a millisecond, one thread syncs for all.
fn while_writers_write(server: &ServerProcess, weather: &Weather, step: impl FnOnce(&Client)) {
    let client = server.client();
    let busy = Place { database: "busy".to_owned(), container: "busy".to_owned() };
    let database = Operation::CreateDatabase { database: busy.database.clone(), throughput: None };
    carry_out(&client, &mut State::default(), &database);
    let _created = wire_of(&create(&busy, 0), None).send(&client).unwrap().expect_status(201);
    weather.delay(Duration::from_millis(3));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..WRITERS {
            let (client, is_over, busy) = (server.client(), &is_over, &busy);
            scope.spawn(move || write_until(is_over, &client, busy, number));
        }
        let begun = weather.begun();
        wait_until("the syncs are slow", || weather.begun() > begun + 10);
        step(&client);
        is_over.store(true, Ordering::Relaxed);
    });
    weather.delay(Duration::ZERO);
}

fn write_until(is_over: &AtomicBool, client: &Client, at: &Place, writer: u64) {
    let mut version = 0;
    while !is_over.load(Ordering::Relaxed) {
        version += 1;
        let changes = vec![ItemChange::Upsert { id: format!("i{}", version % 10), version }];
        let operation =
            Operation::Items { at: at.clone(), home: 0, partition: format!("w{writer}"), changes };
        let response = wire_of(&operation, None).send(client).expect("a server that runs answers");
        assert!(matches!(response.status, 200 | 201), "{response}");
    }
}

/// Sends a request while a sync is held, and disconnects before the sync ends.
fn hang_up_in_a_sync(server: &ServerProcess, weather: &Weather, operation: &Operation) {
    let client = server.client();
    let offer = match operation {
        Operation::ReplaceOffer { database, container, .. } => {
            offer_of(&client, database, container.as_ref()).expect("a server that runs answers")
        }
        _ => None,
    };
    let bytes = wire_of(operation, offer.as_deref()).signed(&client);
    weather.hold();
    wait_until("a sync is held", || weather.is_a_sync_under_way());
    let before = sockets(server);
    let mut stream = TcpStream::connect(client.address()).unwrap();
    stream.write_all(&bytes).unwrap();
    wait_until("the server has the connection", || sockets(server) > before);
    // The server has nothing else to do than to read it; a test that continues too early proves less,
    // and is not wrong.
    std::thread::sleep(50 * LOOK_AGAIN);
    drop(stream);
    wait_until("the server has noticed", || sockets(server) <= before);
    weather.release();
}

/// Sockets as the system counts them: `/metrics` waits for the held sync.
fn sockets(server: &ServerProcess) -> usize {
    let files = std::fs::read_dir(format!("/proc/{}/fd", server.process_id())).expect("our own child");
    let links = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

fn kill_and_restart(weather: &Weather, server: &mut ServerProcess) {
    server.kill();
    weather.server_was_killed();
    server.restart();
}

fn verify(server: &ServerProcess, complaints: &mut Vec<String>) {
    let output = server.verify();
    if !output.status.success() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        complaints.push(format!("verify: {}{}", text(&output.stdout), text(&output.stderr)));
    }
}

fn stored(client: &Client) -> State {
    observe::databases(client, &[DATABASE, "gone", "new"].map(str::to_owned))
}

/// The cancelled operations whose effects explain the stored state better than their absence;
/// `expected` then includes them.
fn applied<'o>(expected: &mut State, cancelled: &'o [Operation], stored: &State) -> Vec<&'o Operation> {
    let mut applied = Vec::new();
    for operation in cancelled {
        let mut with = expected.clone();
        with.apply(operation);
        if differences(&with, stored).len() < differences(expected, stored).len() {
            *expected = with;
            applied.push(operation);
        }
    }
    applied
}

fn complain(complaints: &mut Vec<String>, when: &str, expected: &State, stored: &State) {
    for (breach, difference) in differences(expected, stored) {
        complaints.push(format!("{when}: {}: {difference}", breach.word()));
    }
}

/// Sends an operation that has to succeed.
#[track_caller]
fn carry_out(client: &Client, expected: &mut State, operation: &Operation) {
    let response = wire_of(operation, None).send(client).expect("a server that runs answers");
    let status = expected.apply(operation);
    assert!(status < 300, "{operation:?} is refused with {status} by the model");
    let _expected = response.expect_status(status);
}

fn create(at: &Place, tag: u64) -> Operation {
    let definition = Definition { ttl: 1, excluded: 0 };
    Operation::CreateContainer { at: at.clone(), tag, definition, throughput: 400 }
}

fn fill(at: &Place, home: u64) -> Operation {
    let change = |number| ItemChange::Create { id: format!("i{number}"), version: number };
    let changes = (0..ITEMS).map(change).collect();
    Operation::Items { at: at.clone(), home, partition: "k".to_owned(), changes }
}

fn place(name: &str) -> Place {
    Place { database: DATABASE.to_owned(), container: name.to_owned() }
}
