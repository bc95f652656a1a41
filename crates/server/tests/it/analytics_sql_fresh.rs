//! Answers that must have certain writes: everything so far, or everything that a session has seen.

use std::path::Path;

use serde_json::{Value, json};
use shardlake_testkit::{Response, ServerProcess, eventually};

use crate::sql_support::{ask, in_state, refused, rows, webstore, webstore_of};
use crate::support::on_disk;

const ANALYTICS: &str = "/_shardlake/v1/dbs/shop/colls/customer/analytics";
const COUNT: &str = "SELECT count(*) FROM customer";

/// Counts customers, once the tables have this.
fn at_least(least: &Value) -> Value {
    json!({ "query": COUNT, "database": "shop", "atLeast": least })
}

fn of_session(token: &str) -> Value {
    at_least(&json!({ "shop/customer": token }))
}

/// Writes a customer, and returns the session token of the reply.
#[track_caller]
fn put(server: &ServerProcess, id: &str) -> String {
    let customer = json!({ "id": id, "name": "late" });
    let reply = server.client().upsert_item("shop", "customer", &json!([id]), &customer).expect_status(201);
    reply.header("x-ms-session-token").unwrap().to_owned()
}

#[track_caller]
fn counted(server: &ServerProcess, body: &Value) -> Value {
    ask(server, body, &[]).expect_status(200).json()["rows"].take()
}

fn report(server: &ServerProcess) -> Value {
    server.client().get(ANALYTICS, &[]).expect_status(200).json()
}

#[track_caller]
fn order(server: &ServerProcess, action: &str) {
    let _accepted =
        server.client().post_json(&format!("{ANALYTICS}/{action}"), &[], &json!({})).expect_status(202);
}

/// Pauses the table. Its follower is between two rounds then.
fn pause(server: &ServerProcess) {
    order(server, "pause");
    eventually("the table is paused", || report(server)["state"] == "paused");
}

#[test]
fn a_session_reads_its_own_writes() {
    let server = webstore();
    for number in 6..12 {
        let token = put(&server, &format!("c{number}"));
        assert_eq!(counted(&server, &of_session(&token)), json!([[number + 1]]));
    }
    // Clients join the tokens that they have kept; other tables are read as they are.
    let token = put(&server, "c12");
    let joined = format!("{},{token}", token.replacen("0:", "7:", 1));
    let both = json!({ "shop/customer": joined, "shop/sales": token, "shop/plain": "0:1#1" });
    assert_eq!(counted(&server, &at_least(&both)), json!([[13]]));
    // The oldest clients send the LSN alone.
    let lsn = put(&server, "c13").rsplit_once('#').unwrap().1.to_owned();
    assert_eq!(counted(&server, &of_session(&format!("0:{lsn}"))), json!([[14]]));
}

#[test]
fn a_paused_table_is_refused_at_once_where_it_lacks_writes() {
    let server = webstore();
    assert_eq!(rows(&server, COUNT), json!([[6]]));
    let before = put(&server, "c6");
    assert_eq!(counted(&server, &of_session(&before)), json!([[7]]));
    pause(&server);
    // It has everything so far.
    assert_eq!(counted(&server, &at_least(&json!("now"))), json!([[7]]));
    let after = put(&server, "c7");
    for body in [at_least(&json!("now")), of_session(&after)] {
        let error = refused(&server, &body, 503);
        assert_eq!(error["code"], "AnalyticsNotReady", "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("'shop/customer' is paused") && message.contains("resume"), "{message}");
    }
    assert_eq!(counted(&server, &of_session(&before)), json!([[7]]));
    assert_eq!(counted(&server, &json!({ "query": COUNT, "database": "shop" })), json!([[7]]));
    order(&server, "resume");
    assert_eq!(counted(&server, &of_session(&after)), json!([[8]]));
}

#[test]
fn a_pause_ends_the_answers_that_wait() {
    let server = webstore();
    assert_eq!(rows(&server, COUNT), json!([[6]]));
    follow_each(&server, 3_600);
    let waits = |body: &Value| ask(&server, body, &[]);
    std::thread::scope(|scope| {
        let token = put_behind(&server);
        let waiting = scope.spawn(move || {
            let mut body = of_session(&token);
            body["timeoutSeconds"] = json!(600);
            waits(&body)
        });
        in_state(&server, "awaitingTables");
        // It keeps no worker, of which there is one.
        assert_eq!(rows(&server, "SELECT 1"), json!([[1]]));
        order(&server, "pause");
        let ended: Response = waiting.join().unwrap();
        assert_eq!(ended.status, 503, "{ended}");
        assert!(ended.text().contains("paused"), "{ended}");
    });
}

/// Rounds of the customers' table are so far apart.
fn follow_each(server: &ServerProcess, seconds: u64) {
    let _set = server.client().put_json(ANALYTICS, &[], &json!({ "lagSeconds": seconds })).expect_status(200);
}

/// A write behind the last round of a table whose next round is far away. Its token.
fn put_behind(server: &ServerProcess) -> String {
    let mut number = 100;
    let mut token = String::new();
    eventually("a round has passed, and the next one is far away", || {
        number += 1;
        token = put(server, &format!("c{number}"));
        let mut body = of_session(&token);
        body["timeoutSeconds"] = json!(1);
        let reply = ask(server, &body, &[]);
        if reply.status == 408 {
            let message = reply.json()["message"].as_str().unwrap().to_owned();
            assert!(message.contains("atLeast") && message.contains("timeoutSeconds"), "{message}");
        }
        reply.status == 408
    });
    token
}

#[test]
fn a_table_that_is_behind_is_waited_for_within_the_querys_time() {
    let server = webstore();
    assert_eq!(rows(&server, COUNT), json!([[6]]));
    follow_each(&server, 3_600);
    let token = put_behind(&server);
    let mut now = at_least(&json!("now"));
    now["timeoutSeconds"] = json!(1);
    let _timed_out = refused(&server, &now, 408);
    // Other tables are not waited for.
    let of_other = json!({ "query": "SELECT count(*) FROM sales", "database": "shop", "atLeast": { "shop/customer": token } });
    assert_eq!(counted(&server, &of_other), json!([[6]]));
}

#[test]
fn a_failed_table_is_refused_by_its_state() {
    let server = webstore_of(on_disk().may_log("an analytical table failed"));
    assert_eq!(rows(&server, COUNT), json!([[6]]));
    // Another program commits a version.
    let location = report(&server)["location"].as_str().unwrap().to_owned();
    let log = Path::new(&location).join("_delta_log");
    let versions = std::fs::read_dir(&log).unwrap().filter_map(|entry| {
        entry.unwrap().file_name().into_string().unwrap().strip_suffix(".json")?.parse::<u64>().ok()
    });
    let newest = versions.max().unwrap();
    let of = |version: u64| log.join(format!("{version:020}.json"));
    std::fs::copy(of(newest), of(newest + 1)).unwrap();
    let token = put(&server, "c6");
    eventually("the table has failed", || report(&server)["state"] == "failed");
    for body in [at_least(&json!("now")), of_session(&token)] {
        let error = refused(&server, &body, 503);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("is failed (another writer"), "{message}");
        assert!(message.contains("shardlake analytics rebuild shop/customer"), "{message}");
    }
    order(&server, "rebuild");
    assert_eq!(counted(&server, &of_session(&token)), json!([[7]]));
}

#[test]
fn tokens_that_no_table_can_reach_are_refused() {
    let server = webstore();
    assert_eq!(rows(&server, COUNT), json!([[6]]));
    let token = put(&server, "c6");
    let (range, lsn) = token.rsplit_once('#').unwrap();
    let ahead = format!("{range}#{}", lsn.parse::<u64>().unwrap() + 1_000);
    let reply = ask(&server, &of_session(&ahead), &[]).expect_status(404);
    assert_eq!((reply.sub_status(), &reply.json()["code"]), (1002, &json!("NotFound")), "{reply}");
    let (id, version) = range.split_once(':').unwrap();
    // Of a container that came after this one; and of one that was there before, whose positions mean nothing.
    let later = format!("{id}:{}#1", version.parse::<u64>().unwrap() + 1);
    let _refused = refused(&server, &of_session(&later), 404);
    let earlier = format!("{id}:{}#900000", version.parse::<u64>().unwrap() - 1);
    assert!(counted(&server, &of_session(&earlier)).is_array());
    for (least, words) in [
        (json!("soon"), "now"),
        (json!(["now"]), "now"),
        (json!({ "customer": token }), "database/container"),
        (json!({ "shop/customer": "nonsense" }), "x-ms-session-token"),
        (json!({ "shop/customer": 7 }), "x-ms-session-token"),
        (json!({ "shop/nothing": token }), "shop/nothing"),
    ] {
        let error = refused(&server, &at_least(&least), 400);
        assert!(error["message"].as_str().unwrap().contains(words), "{words}: {error}");
    }
    let mut twice = of_session(&token);
    twice["asOf"] = json!({ "time": "2026-11-30T08:15:00Z" });
    let _refused = refused(&server, &twice, 400);
}
