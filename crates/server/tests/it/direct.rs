//! Connections in Direct mode: answers, their order, limits, ends.

use std::io::{Read, Write};

use serde_json::{Value as Json, json};
use shardlake_testkit::{ServerProcess, eventually};

use crate::direct_client::{
    Answered, Ask, CONTAINER, CREATE, DATABASE, DELETE, DirectClient, EXECUTE, FEED, HEAD, ITEM, PATCH,
    PROCEDURE, QUERY, READ, REPLACE, Text, UPSERT, context, item, on_item, unsigned,
};
use crate::support::{PATIENCE, assert_healthy, ca_of, connect, in_memory, metric, on_disk, tls};

/// Creates the container `d`/`c`, and gives the path of an address of its first range.
fn prepared(server: &ServerProcess) -> String {
    let client = server.client();
    let _database = client.create_database("d").expect_status(201);
    let container = client.create_container("d", "c", "/pk").expect_status(201).json();
    let rid = container["_rid"].as_str().expect("a resource id").to_owned();
    replica_of(server, &rid)
}

/// The path of the first address that the feed gives for the container, as clients send it back.
pub fn replica_of(server: &ServerProcess, rid: &str) -> String {
    let feed = addresses(server, rid, "0");
    let address = feed["Addresss"][0]["physcialUri"].as_str().expect("an address").to_owned();
    let path = &address[address.find("/apps").expect("a path")..];
    path.trim_end_matches('/').to_owned()
}

fn addresses(server: &ServerProcess, rid: &str, ranges: &str) -> Json {
    let database = server.client().request("GET", "/dbs/d", &[], &[]).expect_status(200).json();
    let database = database["_rid"].as_str().expect("a resource id");
    let resolved = format!("dbs/{database}/colls/{rid}/docs");
    let resolved = resolved.replace('/', "%2f").replace('=', "%3d").replace('+', "%2b");
    let path = format!(
        "//addresses/?$resolveFor={resolved}&$filter=protocol%20eq%20rntbd&$partitionKeyRangeIds={ranges}"
    );
    let request = shardlake_testkit::Request {
        method: "GET",
        path: &path,
        resource: Some(("docs", &rid.to_lowercase())),
        ..shardlake_testkit::Request::default()
    };
    server.client().send(&request).expect("an answer").expect_status(200).json()
}

pub fn at(ask: Ask, replica: &str) -> Ask {
    ask.with(0x13, Text::Long(replica.to_owned()))
}

fn created(client: &mut DirectClient, replica: &str, id: &str, key: &str) -> Answered {
    let answered = client.answer(&at(on_item(CREATE, None, &json!([key]), &item(id, key)), replica));
    assert_eq!(answered.status, 201, "{answered:?}");
    answered
}

#[test]
fn items_are_written_read_and_queried_by_frames() {
    let server = in_memory().start();
    let replica = prepared(&server);
    let mut client = DirectClient::open(&server);
    let key = json!(["k"]);
    let made = created(&mut client, &replica, "a b/ü%20", "k");
    let read = client.answer(&at(on_item(READ, Some("a b/ü%20"), &key, &[]), &replica));
    assert_eq!((read.status, read.json()), (200, made.json()));
    assert_eq!(read.texts[&0x04], made.json()["_etag"].as_str().unwrap());
    assert_eq!(read.texts[&0x21], "0");
    assert!(!read.texts[&0x3e].contains(':'), "{read:?}");
    assert!(read.integers[&0x13] >= 1);
    let replaced =
        client.answer(&at(on_item(REPLACE, Some("a b/ü%20"), &key, &item("a b/ü%20", "k")), &replica));
    assert_eq!(replaced.status, 200);
    let stale = on_item(REPLACE, Some("a b/ü%20"), &key, &item("a b/ü%20", "k"));
    let stale = client.answer(&at(stale.with(0x08, Text::Long(made.texts[&0x04].clone())), &replica));
    assert_eq!(stale.status, 412);
    let patch = json!({ "operations": [{ "op": "set", "path": "/n", "value": 7 }] }).to_string();
    let patched = client.answer(&at(on_item(PATCH, Some("a b/ü%20"), &key, patch.as_bytes()), &replica));
    assert_eq!((patched.status, &patched.json()["n"]), (200, &json!(7)));
    let upserted = client.answer(&at(on_item(UPSERT, None, &key, &item("second", "k")), &replica));
    assert_eq!(upserted.status, 201);
    let query = json!({ "query": "SELECT VALUE c.id FROM c ORDER BY c.id" }).to_string();
    let queried = client.answer(&at(on_item(QUERY, None, &key, query.as_bytes()), &replica));
    assert_eq!(queried.json()["Documents"], json!(["a b/ü%20", "second"]));
    let deleted = client.answer(&at(on_item(DELETE, Some("second"), &key, &[]), &replica));
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    let missing = client.answer(&at(on_item(READ, Some("second"), &key, &[]), &replica));
    assert_eq!(missing.status, 404);
    assert_eq!(
        (missing.texts[&0x21].as_str(), missing.texts.contains_key(&0x3e)),
        ("0", true),
        "{missing:?}"
    );
    let database = Ask {
        resource: DATABASE,
        operation: READ,
        tokens: vec![(0x15, Text::Long("d".into()))],
        body: Vec::new(),
        signed: ("get", "dbs", "dbs/d".into()),
    };
    let database = client.answer(&at(database, "/apps/shardlake/services/master/partitions/M/replicas/1p"));
    assert_eq!((database.status, &database.json()["id"]), (200, &json!("d")), "{database:?}");
    assert_eq!(metric(&server.client(), "shardlake_direct_connections"), 1);
    assert_healthy(&server);
}

/// The client checks each TLS record.
#[test]
fn fifty_requests_at_once_have_an_answer_each() {
    let server = in_memory().start();
    let replica = prepared(&server);
    let mut client = DirectClient::open(&server);
    let body = json!({ "id": "large", "pk": "k", "text": "x".repeat(200_000) }).to_string();
    let large = client.answer(&at(on_item(CREATE, None, &json!(["k"]), body.as_bytes()), &replica));
    assert_eq!(large.status, 201);
    for round in 0..10 {
        let mut waiting = std::collections::BTreeMap::new();
        for count in 0..50 {
            let id = format!("{round}-{count}");
            let ask = match count % 5 {
                0 => on_item(READ, Some("large"), &json!(["k"]), &[]),
                1 => on_item(READ, Some("none"), &json!(["k"]), &[]),
                _ => on_item(CREATE, None, &json!([id]), &item(&id, &id)),
            };
            let status = [200, 404, 201, 201, 201][count % 5];
            waiting.insert(client.ask(&at(ask, &replica)), status);
        }
        while !waiting.is_empty() {
            let answered = client.read();
            assert_eq!(waiting.remove(&answered.number), Some(answered.status), "{}", answered.number);
        }
    }
}

#[test]
fn a_slow_request_holds_up_nothing_behind_it() {
    let server = in_memory().start();
    let replica = prepared(&server);
    let script = "function slow() { let end = Date.now() + 2000; while (Date.now() < end) {} }";
    let procedure = json!({ "id": "slow", "body": script }).to_string();
    let stored = server.client().request("POST", "/dbs/d/colls/c/sprocs", &[], procedure.as_bytes());
    assert_eq!(stored.status, 201);
    let mut client = DirectClient::open(&server);
    let slow = Ask {
        resource: PROCEDURE,
        operation: EXECUTE,
        tokens: vec![
            (0x15, Text::Long("d".into())),
            (0x16, Text::Long("c".into())),
            (0x1b, Text::Long("slow".into())),
            (0x2b, Text::Long("[\"k\"]".into())),
        ],
        body: b"[]".to_vec(),
        signed: ("post", "sprocs", "dbs/d/colls/c/sprocs/slow".into()),
    };
    let slow = client.ask(&at(slow, &replica));
    let fast = client.ask(&at(on_item(READ, Some("none"), &json!(["other"]), &[]), &replica));
    assert_eq!(client.read().number, fast);
    let last = client.read();
    assert_eq!((last.number, last.status), (slow, 200), "{last:?}");
}

#[test]
fn large_bodies_arrive_and_too_large_ones_are_refused_by_number() {
    let server = in_memory().start();
    let replica = prepared(&server);
    let mut client = DirectClient::open(&server);
    let body = json!({ "id": "large", "pk": "k", "text": "x".repeat(1_900_000) }).to_string();
    let large = client.answer(&at(on_item(CREATE, None, &json!(["k"]), body.as_bytes()), &replica));
    assert_eq!(large.status, 201);
    assert!(
        client.answer(&at(on_item(READ, Some("large"), &json!(["k"]), &[]), &replica)).body.len() > 1_900_000
    );
    let too_large = vec![b' '; 5 << 20];
    let refused = client.answer(&at(on_item(CREATE, None, &json!(["k"]), &too_large), &replica));
    assert_eq!(refused.status, 413);
    created(&mut client, &replica, "next", "k");
}

#[test]
fn an_unsigned_frame_costs_no_memory_for_its_body() {
    let server = in_memory().start();
    let replica = prepared(&server);
    let mut client = DirectClient::open(&server);
    let mut forged = at(on_item(CREATE, None, &json!(["k"]), &vec![b'x'; 4 << 20]), &replica);
    forged.signed.2 = "dbs/d/colls/another".into();
    let refused = client.answer(&forged);
    assert_eq!((refused.status, refused.integers[&0x1b]), (401, 1), "{refused:?}");
    created(&mut client, &replica, "next", "k");
    // A body that is too large to be skipped: the answer comes, then the end.
    let mut frame = at(on_item(CREATE, None, &json!(["k"]), b"x"), &replica).frame(99);
    frame.truncate(frame.len() - 5);
    let signature = frame.windows(4).position(|part| part == b"sig%").expect("a signature");
    frame[signature + 6] ^= 1;
    client.send(&frame);
    client.send(&u32::MAX.to_le_bytes());
    client.send(b"a part of it");
    let refused = client.read();
    assert_eq!((refused.number, refused.status), (99, 401));
    assert!(client.try_read().is_ok_and(|answered| answered.is_none()), "the connection ends");
    assert_healthy(&server);
}

#[test]
fn frames_that_cannot_be_right_end_the_connection_and_nothing_else() {
    let server = in_memory().argument("--header-seconds=1").start();
    let replica = prepared(&server);
    let ca = ca_of(&server);
    let good = at(on_item(READ, Some("x"), &json!(["k"]), &[]), &replica).frame(1);
    let mut twice = good.clone();
    twice.extend_from_slice(&[0x4d, 0, 2, 1, 0, 0, 0]);
    let length = u32::try_from(twice.len()).unwrap();
    twice[..4].copy_from_slice(&length.to_le_bytes());
    let bad: [Vec<u8>; 7] = [
        u32::MAX.to_le_bytes().to_vec(),
        23_u32.to_le_bytes().to_vec(),
        context(1),
        unsigned(ITEM, READ, &[(0x02, Text::Byte(0))], &[]),
        unsigned(ITEM, READ, &[(0x4d, Text::ULong(1))], &[]),
        twice,
        // Half a frame, and nothing more.
        good[..good.len() / 2].to_vec(),
    ];
    for bytes in &bad {
        let mut client = DirectClient::open(&server);
        client.send(bytes);
        let ended = client.try_read();
        assert!(ended.as_ref().is_ok_and(Option::is_none) || ended.is_err(), "{bytes:?}: {ended:?}");
    }
    // The first frame is a context.
    for first in [good.clone(), unsigned(0, 0, &[], &[]), unsigned(0, 0, &[(0, Text::Byte(1))], &[])] {
        let mut client = DirectClient::unopened(server.address(), &ca);
        let _broken = client.try_send(&first);
        let answer = client.read_plain();
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
    }
    let mut client = DirectClient::unopened(server.address(), &ca);
    server.expects_log("a version of Direct mode that is not supported");
    client.send(&context(2));
    assert_eq!(client.read_context(), 400, "another version");
    assert_healthy(&server);
}

#[test]
fn a_client_that_names_no_protocol_may_speak_http() {
    let server = in_memory().start();
    let mut client = DirectClient::unopened(server.address(), &ca_of(&server));
    for part in [&b"GE"[..], b"T /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"] {
        client.send(part);
    }
    assert!(client.read_plain().starts_with(b"HTTP/1.1 200"));
    // Frames go over TLS alone.
    let mut plain = connect(server.address());
    plain.write_all(&context(1)).unwrap();
    let mut answer = Vec::new();
    let _reset = plain.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
    assert!(tls(server.address(), &ca_of(&server), "localhost", "h2").is_ok());
}

#[test]
fn at_a_stop_what_is_in_flight_is_finished_and_nothing_else_is_begun() {
    let mut server = on_disk().start();
    let replica = prepared(&server);
    let mut client = DirectClient::open(&server);
    created(&mut client, &replica, "0", "k");
    let slow_replica = replica.clone();
    let (begun, is_begun) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        let (mut acknowledged, mut gone) = (1, 0);
        loop {
            let id = acknowledged.to_string();
            let ask = at(on_item(CREATE, None, &json!(["k"]), &item(&id, "k")), &replica);
            let frame = ask.frame(1000 + acknowledged);
            if client.try_send(&frame).is_err() {
                break;
            }
            match client.try_read() {
                Ok(Some(answered)) if answered.status == 201 => acknowledged += 1,
                Ok(Some(answered)) => {
                    assert_eq!((answered.status, answered.substatus()), (410, 0), "{answered:?}");
                    gone += 1;
                    if gone == 3 {
                        // Clients look for another address then, and send nothing here.
                        let ended = client.try_read();
                        assert!(ended.as_ref().is_ok_and(Option::is_none) || ended.is_err(), "{ended:?}");
                        break;
                    }
                }
                Ok(None) | Err(_) => panic!("a write is left without an answer"),
            }
            if acknowledged == 20 {
                let _first = begun.send(());
            }
        }
        acknowledged
    });
    is_begun.recv().expect("twenty writes");
    let mut slow = DirectClient::open(&server);
    let large = at(on_item(CREATE, None, &json!(["k"]), &[b' '; 100_000]), &slow_replica).frame(7);
    slow.send(&large[..50_000]);
    created(&mut DirectClient::open(&server), &slow_replica, "x", "other");
    assert!(server.terminate(PATIENCE).success());
    let acknowledged = writer.join().expect("each write is answered");
    let broken_off = slow.read();
    assert_eq!((broken_off.number, broken_off.status, broken_off.substatus()), (7, 410, 0));
    server.restart();
    let count = json!({ "query": "SELECT VALUE COUNT(1) FROM c" }).to_string();
    let headers = [
        ("x-ms-documentdb-isquery", "True"),
        ("content-type", "application/query+json"),
        ("x-ms-documentdb-partitionkey", "[\"k\"]"),
    ];
    let answer = server.client().request("POST", "/dbs/d/colls/c/docs", &headers, count.as_bytes());
    assert_eq!(answer.expect_status(200).json()["Documents"], json!([acknowledged]));
}

#[test]
fn an_idle_connection_is_closed_and_one_at_work_is_not() {
    let server = in_memory().argument("--idle-seconds=1").start();
    let replica = prepared(&server);
    let mut client = DirectClient::open(&server);
    created(&mut client, &replica, "a", "k");
    assert!(client.try_read().is_ok_and(|answered| answered.is_none()));
    assert!(metric(&server.client(), "shardlake_connections_overdue_total") >= 1);
}

#[test]
fn a_frame_that_was_sent_to_the_wrong_place_is_sent_back() {
    let server = in_memory().start();
    let replica = prepared(&server);
    let client = server.client();
    let other = client.create_container("d", "other", "/pk").expect_status(201).json();
    let other = other["_rid"].as_str().expect("a resource id").to_owned();
    let mut direct = DirectClient::open(&server);
    let create = || at(on_item(CREATE, None, &json!(["k"]), &item("a", "k")), &replica);
    let sent_back = |direct: &mut DirectClient, ask: Ask| {
        let answered = direct.answer(&ask);
        (answered.status, answered.substatus())
    };
    assert_eq!(sent_back(&mut direct, create().with(0x35, Text::Long(other.clone()))), (410, 1000));
    assert_eq!(sent_back(&mut direct, at(create(), &replica_of(&server, &other))), (410, 0));
    assert_eq!(sent_back(&mut direct, at(create(), "/apps/another/service")), (410, 0));
    assert_eq!(
        sent_back(&mut direct, at(create(), &replica.replace("partitions/0", "partitions/7"))),
        (410, 1007)
    );
    let query = json!({ "query": "SELECT * FROM c" }).to_string();
    let mut query = on_item(QUERY, None, &json!(["k"]), query.as_bytes());
    query.tokens.retain(|(id, _)| *id != 0x2b);
    let gone = query.with(0x2c, Text::Long("7".into()));
    assert_eq!(
        sent_back(&mut direct, at(gone, &replica.replace("partitions/0", "partitions/7"))),
        (410, 1002)
    );
    let _deleted = client.request("DELETE", "/dbs/d/colls/c", &[], &[]).expect_status(204);
    assert_eq!(sent_back(&mut direct, create()), (410, 1000), "the name leads nowhere");
}

#[test]
fn a_barrier_tells_where_a_partition_stands() {
    let server = in_memory().start();
    let replica = prepared(&server);
    let mut client = DirectClient::open(&server);
    for id in ["a", "b", "c"] {
        created(&mut client, &replica, id, "k");
    }
    let barrier = Ask {
        resource: CONTAINER,
        operation: HEAD,
        tokens: vec![
            (0x15, Text::Long("d".into())),
            (0x16, Text::Long("c".into())),
            (0x2b, Text::Long("[\"k\"]".into())),
        ],
        body: Vec::new(),
        signed: ("head", "colls", "dbs/d/colls/c".into()),
    };
    let answered = client.answer(&at(barrier, &replica));
    assert_eq!((answered.status, answered.body.len()), (200, 0), "{answered:?}");
    assert_eq!((answered.integers[&0x13], answered.texts[&0x21].as_str()), (3, "0"));
}

/// Sends the bytes again and again, and takes no answers, until the server ends the connection.
fn deaf(server: &ServerProcess, bytes: Vec<u8>) -> std::thread::JoinHandle<()> {
    let mut client = DirectClient::open(server);
    std::thread::spawn(move || while client.try_send(&bytes).is_ok() {})
}

#[test]
fn answers_that_are_not_taken_hold_little() {
    // The bytes that a waiting answer counts for, beyond its body.
    const ANSWER_BYTES: u64 = 16 << 10;
    let server = in_memory().argument("--request-seconds=3600").start();
    let replica = prepared(&server);
    let client = server.client();
    let forged = at(on_item(READ, Some("x"), &json!(["k"]), &[]), &replica);
    let forged = unsigned(forged.resource, forged.operation, &numbered(&forged), &[]);
    let mut stranger = DirectClient::open(&server);
    stranger.send(&forged);
    assert_eq!(stranger.read().status, 401);
    let deaf = deaf(&server, forged.repeat(100));
    let waiting = || metric(&client, "shardlake_answers_waiting_bytes");
    eventually("its answers wait", || waiting() > 6 * ANSWER_BYTES);
    let mut honest = DirectClient::open(&server);
    for count in 0..50 {
        created(&mut honest, &replica, &count.to_string(), "k");
    }
    eventually("the page of metrics is a new one", || {
        assert!(waiting() < 12 * ANSWER_BYTES, "{}", waiting());
        metric(
            &client,
            "shardlake_requests_total{transport=\"direct\",operation=\"CreateItem\",status=\"201\"}",
        ) >= 50
    });
    drop(server);
    deaf.join().expect("its connection ends");
}

fn numbered(ask: &Ask) -> Vec<(u16, Text)> {
    [&[(0x02, Text::Byte(0)), (0x4d, Text::ULong(1))][..], &ask.tokens].concat()
}

#[test]
fn pages_that_are_not_taken_are_bounded_and_end_the_connection() {
    let server = in_memory().argument("--message-memory=32MiB").argument("--request-seconds=5").start();
    let replica = prepared(&server);
    let client = server.client();
    for number in 0..4 {
        let item = json!({ "id": number.to_string(), "pk": "a", "text": "x".repeat(1_000_000) });
        let _created = client.create_item("d", "c", &json!(["a"]), &item).expect_status(201);
    }
    let feed =
        Ask { signed: ("get", "docs", "dbs/d/colls/c".into()), ..on_item(FEED, None, &json!(["a"]), &[]) };
    let pages: Vec<u8> = (1..=256).flat_map(|number| at(feed.clone(), &replica).frame(number)).collect();
    let deaf = deaf(&server, pages);
    let mut honest = DirectClient::open(&server);
    eventually("the connection is ended", || {
        let held = metric(&client, "shardlake_answers_waiting_bytes");
        assert!(held <= 16 << 20, "{held}");
        let read = honest.answer(&at(on_item(READ, Some("none"), &json!(["other"]), &[]), &replica));
        assert_eq!(read.status, 404);
        metric(&client, "shardlake_answers_abandoned_total") >= 1
    });
    deaf.join().expect("its connection ends");
    eventually("nothing is held", || metric(&client, "shardlake_answers_waiting_bytes") == 0);
    assert_healthy(&server);
}
