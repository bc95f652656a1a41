//! A container that is deleted while clients write to it leaves nothing behind.
//!
//! Writes that were on their way when the container went are answered, or refused; on a slow disk
//! they wait in the queue of a shard while the data that is there already is being deleted.

use crate::model::{Definition, ItemChange, Operation, Place};
use crate::requests::wire_of;
use crate::weather::Weather;
use shardlake_testkit::{Client, ServerOptions};
use std::time::Duration;

const ROUNDS: u64 = 12;
const WRITERS: u64 = 8;
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_container_deleted_under_writers_leaves_nothing_behind() {
    let test = "a_container_deleted_under_writers_leaves_nothing_behind";
    let Some(weather) = Weather::new(test) else { return };
    let options = ServerOptions::new(crate::server_binary()).argument("--shards=2");
    let mut server = weather.over(options.argument("--throughput=unlimited")).start();
    let client = server.client();
    let at = Place { database: "d".to_owned(), container: "c".to_owned() };
    let create_database = Operation::CreateDatabase { database: at.database.clone(), throughput: None };
    expect(&client, &create_database, 201);
    weather.delay(Duration::from_millis(4));
    for round in 0..ROUNDS {
        let (tag, definition) = (round, Definition { ttl: 1, excluded: 0 });
        // Two partitions, one on each shard.
        let throughput = 12_000;
        expect(&client, &Operation::CreateContainer { at: at.clone(), tag, definition, throughput }, 201);
        std::thread::scope(|scope| {
            let writing: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (client, at) = (server.client(), &at);
                    scope.spawn(move || write_until_deleted(&client, at, tag, writer))
                })
                .collect();
            let begun = weather.begun();
            crate::weather::wait_until("clients write", || weather.begun() > begun + 10);
            expect(&client, &Operation::DeleteContainer { at: at.clone() }, 204);
            let written: u64 = writing.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert!(written > 0, "nobody wrote anything");
        });
    }
    weather.delay(Duration::ZERO);
    let status = server.terminate(PATIENCE);
    assert!(status.success(), "SIGTERM ended the server with {status}");
    let output = server.verify();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "verify: {}\n{said}", output.status);
}

/// Returns how many writes were acknowledged.
fn write_until_deleted(client: &Client, at: &Place, home: u64, writer: u64) -> u64 {
    let mut acknowledged = 0;
    loop {
        let changes = vec![ItemChange::Upsert { id: format!("i{acknowledged}"), version: acknowledged }];
        let partition = format!("w{writer}-{}", acknowledged % 7);
        let operation = Operation::Items { at: at.clone(), home, partition, changes };
        let response = wire_of(&operation, None).send(client).expect("a server that runs answers");
        match response.status {
            201 | 200 => acknowledged += 1,
            404 => return acknowledged,
            _ => panic!("{response}"),
        }
    }
}

#[track_caller]
fn expect(client: &Client, operation: &Operation, status: u16) {
    let response = wire_of(operation, None).send(client).expect("a server that runs answers");
    let _expected = response.expect_status(status);
}
