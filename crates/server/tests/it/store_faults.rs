//! Stores that are slow, fail, or lose answers: behaviour of a server whose account lies in such a store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use shardlake_testkit::bucket::{Bucket, Fault, Weather};
use shardlake_testkit::{Client, ServerOptions, eventually};

use crate::support::{PATIENCE, assert_healthy, on_disk};

const WRITERS: usize = 16;

/// A server of an account in the bucket; its data directory is its own.
fn node(bucket: &Bucket, arguments: &[&str]) -> ServerOptions {
    let mut options = on_disk()
        .argument("--store=s3://bucket/account")
        .may_log("the lease could not be renewed")
        .may_log("the object store does not answer");
    options
        .environment
        .extend(bucket.environment().into_iter().map(|(name, value)| (name.into(), value.into())));
    arguments.iter().fold(options, |options, argument| options.argument(argument))
}

fn define(client: &Client) {
    let _database = client.create_database("db").expect_status(201);
    let _container = client.create_container("db", "c", "/pk").expect_status(201);
}

fn create(client: &Client, writer: usize, number: usize) -> u16 {
    let item = json!({ "id": format!("{writer}-{number}"), "pk": writer });
    client.create_item("db", "c", &json!([writer]), &item).status
}

fn has(client: &Client, (writer, number): (usize, usize)) -> bool {
    client.read_item("db", "c", &json!([writer]), &format!("{writer}-{number}")).status == 200
}

/// The statuses that the writers received, until `number` writes of each were answered.
pub fn write(
    server: &shardlake_testkit::ServerProcess,
    numbers: std::ops::Range<usize>,
) -> Vec<((usize, usize), u16)> {
    thread::scope(|scope| {
        let writing: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (client, numbers) = (server.client(), numbers.clone());
                scope.spawn(move || {
                    numbers
                        .map(|number| ((writer, number), create(&client, writer, number)))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        writing.into_iter().flat_map(|writing| writing.join().unwrap()).collect()
    })
}

/// Delays, and faults with a certain outcome, are waited out: clients see only longer times.
#[test]
fn failing_requests_of_a_store_cost_time_and_nothing_else() {
    let bucket = Bucket::open();
    let mut server = node(&bucket, &["--lease=9"]).start();
    define(&server.client());
    let faults = vec![Fault::Status(503), Fault::Reset, Fault::Status(500)];
    bucket.set(Weather { delay: Duration::from_millis(2), one_in: 10, faults, is_silent: false });
    let told = write(&server, 0..60);
    bucket.set(Weather::default());
    let (_, befallen) = bucket.counts();
    assert!(befallen >= 3, "{befallen} faults");
    assert!(told.iter().all(|(_, status)| *status == 201), "{told:?}");
    server.kill();
    server.restart();
    let client = server.client();
    assert!(told.iter().all(|(item, _)| has(&client, *item)));
    assert_healthy(&server);
    assert!(server.terminate(PATIENCE).success());
}

/// The store has executed the request, and the answer is lost or reports a failure. The store keeps no metadata, by which SlateDB
/// would recognise its own objects. Sixteen writers see nothing of it, and no restart is needed.
#[test]
fn lost_answers_of_a_store_stop_no_writer_and_double_nothing() {
    let bucket = Bucket::open();
    let mut server = node(&bucket, &["--lease=9"]).start();
    define(&server.client());
    bucket.set(Weather {
        one_in: 10,
        faults: vec![Fault::AnswerLost, Fault::ClaimsFailure],
        ..Weather::default()
    });
    let told = write(&server, 0..30);
    bucket.set(Weather::default());
    assert!(bucket.counts().1 >= 2, "{told:?}");
    assert!(told.iter().all(|(_, status)| *status == 201), "{told:?}");
    server.kill();
    server.restart();
    let client = server.client();
    assert!(told.iter().all(|(item, _)| has(&client, *item)));
    let found =
        client.get("/dbs/db/colls/c/docs", &[("x-ms-max-item-count", "-1")]).expect_status(200).json();
    let ids: Vec<&str> =
        found["Documents"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
    let different: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!((ids.len(), different.len()), (told.len(), told.len()));
    assert_healthy(&server);
    assert!(server.terminate(PATIENCE).success());
}

/// A store that is unreachable for longer than the lease: 503 and 408, no stale reads, and recovery without a restart.
#[test]
fn a_server_goes_on_when_its_store_is_back() {
    let bucket = Bucket::open();
    let mut server = node(&bucket, &["--lease=2", "--request-seconds=2"]).start();
    define(&server.client());
    assert_eq!(create(&server.client(), 0, 0), 201);
    bucket.set(Weather { is_silent: true, ..Weather::default() });
    let client = server.client();
    let status = create(&client, 0, 1);
    assert!([408, 503].contains(&status), "{status}");
    // Past the end of the lease not even rows in memory are returned.
    eventually("reads end with the lease", || client.read_item("db", "c", &json!([0]), "0-0").status == 503);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let status = create(&server.client(), 1, 0);
                assert!([201, 408, 409, 503].contains(&status), "{status}");
                thread::yield_now();
            }
        });
        bucket.set(Weather::default());
        eventually("it goes on", || has(&client, (1, 0)));
        is_over.store(true, Ordering::SeqCst);
    });
    assert!(has(&client, (0, 0)));
    assert_eq!(create(&client, 0, 2), 201);
    assert_healthy(&server);
    assert!(server.terminate(PATIENCE).success());
}

/// Nothing is stored and nothing is served where two creations of one object both report success.
#[test]
fn a_store_that_says_what_is_not_so_is_refused_at_the_start() {
    let bucket = Bucket::open();
    bucket.set(Weather { one_in: 1, faults: vec![Fault::ClaimsFailure], ..Weather::default() });
    let refused = node(&bucket, &[]).try_start().map(|_| ()).unwrap_err();
    assert!(refused.contains("store"), "{refused}");
}
