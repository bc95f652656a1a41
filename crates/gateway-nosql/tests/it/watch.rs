//! The server as a whole over the operator's interface: its description, the caller's rights, its load over time, its log.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use shardlake_admin::{Installation, LogLine, LogRing, ProcessGauges, ProcessRings, RequestCounts};
use shardlake_gateway_nosql::GatewaySettings;

use crate::harness::{NOW, READ_ONLY_KEY, Server};

const SERVER: &str = "/_shardlake/v1/server";
const CALLER: &str = "/_shardlake/v1/caller";
const PULSE: &str = "/_shardlake/v1/pulse";
const LOG: &str = "/_shardlake/v1/log";

fn installation() -> Installation {
    Installation {
        version: "0.9.9",
        build: "debug".into(),
        label: Some("PRODUCTION".into()),
        durability: "memory",
        started_at: NOW,
        enforces_throughput: true,
        limits_scale: "1/1".into(),
        body_size_bytes_max: 4 << 20,
        certificate_ends: None,
        data_dir: Some("/data".into()),
        keys: None,
        process: Arc::new(ProcessRings::default()),
        log: Arc::new(LogRing::default()),
        diagnostics: json!({ "settings": {} }),
    }
}

async fn server_of(installation: &Installation) -> Server {
    let installation = Some(Arc::new(installation.clone()));
    let server = Server::start_with(GatewaySettings { installation, ..GatewaySettings::default() }).await;
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let _container = server.create_container(json!({ "id": "items", "partitionKey": key })).await;
    server
}

#[tokio::test]
async fn a_server_says_what_it_is_and_what_it_can() {
    let server = server_of(&installation()).await;
    let _item = server.create(json!({ "id": "1", "pk": "a" })).await;
    let told = server.get(SERVER).signed_with(READ_ONLY_KEY).send().await.expect(200).json();
    assert_eq!((&told["version"], &told["label"]), (&json!("0.9.9"), &json!("PRODUCTION")));
    assert_eq!(told["startedAt"], NOW.milliseconds());
    assert_eq!(told["consistency"], "Session");
    let counts = &told["counts"];
    assert_eq!(
        (&counts["containers"], &counts["partitions"], &counts["items"]),
        (&json!(1), &json!(1), &json!(1))
    );
    assert_eq!(told["shards"][0]["partitions"], 1);
    assert_eq!(told["shards"][0]["isWritable"], true);
    let (disk, used) = (&told["disk"], &told["counts"]["diskBytes"]);
    assert_eq!((&disk["usedBytes"], &disk["freeBytes"]), (used, &Value::Null), "there is no disk");
    assert_eq!(told["limits"]["itemSizeBytesMax"], 2 << 20);
    for feature in told["features"].as_array().expect("a list") {
        assert!(feature.is_string());
    }
    let _method = server.post(SERVER).send().await.refused(405, 0, "POST");
    let _unknown = server.get(format!("{SERVER}?x=1")).send().await.refused(400, 0, "'x=1'");
}

#[tokio::test]
async fn a_caller_learns_what_its_key_or_token_is_good_for() {
    let server = server_of(&installation()).await;
    let full = server.get(CALLER).send().await.expect(200).json();
    assert_eq!(full, json!({ "access": "full" }));
    let read_only = server.get(CALLER).signed_with(READ_ONLY_KEY).send().await.expect(200).json();
    assert_eq!(read_only, json!({ "access": "readOnly" }));
    let definition = json!({
        "id": "p", "permissionMode": "Read", "resource": "dbs/db/colls/items", "resourcePartitionKey": ["a"],
    });
    let token = server.permit_in("db", definition).await;
    let told = server.get(CALLER).token(&token).send().await.expect(200).json();
    assert_eq!((&told["access"], &told["mode"]), (&json!("token"), &json!("Read")));
    assert_eq!(told["resource"], "dbs/db/colls/items");
    assert_eq!(told["resourcePartitionKey"], json!(["a"]));
    assert_eq!(told["expiresAt"], NOW.milliseconds() + 3_600_000);
    // A token opens this one path of the operator's and no other.
    for path in [SERVER, PULSE, LOG, "/_shardlake/v1/partitions", "/_shardlake/v1/dbs/db/colls/items/heat"] {
        let _refused = server.get(path).token(&token).send().await.refused(403, 0, "resource token");
    }
    let _none = server.get(CALLER).unsigned().send().await.refused(401, 0, "authorization is missing");
    server.clock.advance(Duration::from_secs(3_601));
    let _late = server.get(CALLER).token(&token).send().await.refused(401, 0, "expired");
}

#[tokio::test]
async fn the_pulse_adds_up_to_what_was_charged() {
    let installation = installation();
    let server = server_of(&installation).await;
    let mut charged = server.create(json!({ "id": "1", "pk": "a" })).await.charge();
    for _ in 0..3 {
        charged += server.item("GET", "1", "[\"a\"]").send().await.expect(200).charge();
    }
    let counts = RequestCounts::default();
    counts.note(Duration::from_millis(2), true);
    let gauges = ProcessGauges { connections: 7, ..ProcessGauges::default() };
    installation.process.note(server.clock.elapsed(), &counts, gauges);
    let pulse = server.get(PULSE).send().await.expect(200).json();
    let last = |list: &Value| list.as_array().expect("a list").last().expect("a period").clone();
    assert_eq!((&pulse["periodSeconds"], pulse["times"].as_array().map(Vec::len)), (&json!(1), Some(600)));
    assert_eq!(last(&pulse["times"]), NOW.milliseconds());
    let of = |kind: &str| last(&pulse["ru"][kind]).as_f64().expect("a number");
    let sum: f64 = ["read", "create", "write", "query", "fanOut", "feed"].into_iter().map(of).sum();
    assert!((sum - charged).abs() < 0.01, "{sum} of {charged}");
    assert_eq!(last(&pulse["operations"]["read"]), 3);
    assert_eq!((last(&pulse["failed"]), last(&pulse["connections"])), (json!(1.0), json!(7.0)));
    assert!(last(&pulse["latencyP99Ms"]).as_f64().expect("requests") >= 1.0);
    assert_eq!(pulse["failed"][0], Value::Null, "nobody has looked then");
    let container = &pulse["containers"][0];
    assert_eq!((&container["database"], &container["container"]), (&json!("db"), &json!("items")));
    assert!((last(&container["ru"]).as_f64().expect("a number") - charged).abs() < 0.01);
    // The new periods, and the period that was still counted.
    let sequence = pulse["sequence"].as_u64().expect("a number");
    server.clock.advance(Duration::from_secs(2));
    let next = server.get(format!("{PULSE}?since={sequence}")).send().await.expect(200).json();
    assert_eq!((next["times"].as_array().map(Vec::len), &next["missed"]), (Some(3), &json!(false)));
    assert_eq!(next["ru"]["read"][0], of("read"));
    let other = server.get(format!("{PULSE}?since=5&window=6h")).send().await.expect(200).json();
    assert_eq!((&other["missed"], &other["periodSeconds"]), (&json!(true), &json!(60)));
    let _unknown = server.get(format!("{PULSE}?since=x")).send().await.refused(400, 0, "'x'");
}

#[tokio::test]
async fn diagnostics_are_for_holders_of_a_full_key() {
    const DIAGNOSTICS: &str = "/_shardlake/v1/diagnostics";
    let server = server_of(&installation()).await;
    let answer = server.get(DIAGNOSTICS).send().await.expect(200).json();
    assert_eq!((&answer["settings"], &answer["containersLeftOut"]), (&json!({}), &json!(0)));
    let container = &answer["databases"][0]["containers"][0];
    assert_eq!(
        (&container["definition"]["id"], &container["isCollection"]),
        (&json!("items"), &json!(false))
    );
    let _refused =
        server.get(DIAGNOSTICS).signed_with(READ_ONLY_KEY).send().await.refused(403, 0, "read-only key");
}

#[tokio::test]
async fn the_log_is_for_holders_of_a_full_key() {
    let installation = installation();
    let server = server_of(&installation).await;
    for (level, message) in [("INFO", "one"), ("WARN", "two")] {
        let fields = [("count".to_owned(), json!(3))].into_iter().collect();
        installation.log.push(LogLine::new(NOW, level, "shardlake", message, fields));
    }
    let all = server.get(LOG).send().await.expect(200).json();
    assert_eq!((&all["sequence"], &all["dropped"]), (&json!(2), &json!(0)));
    assert_eq!(all["lines"][1]["message"], "two");
    assert_eq!(all["lines"][1]["level"], "warn");
    assert_eq!(all["lines"][1]["fields"], json!({ "count": 3 }));
    assert_eq!(all["lines"][0]["time"], NOW.milliseconds());
    let grave = server.get(format!("{LOG}?level=warn&limit=5")).send().await.expect(200).json();
    assert_eq!(grave["lines"].as_array().map(Vec::len), Some(1));
    let none = server.get(format!("{LOG}?since=2")).send().await.expect(200).json();
    assert_eq!(none["lines"], json!([]));
    let _refused = server.get(LOG).signed_with(READ_ONLY_KEY).send().await.refused(403, 0, "read-only key");
    let _level = server.get(format!("{LOG}?level=loud")).send().await.refused(400, 0, "'loud'");
}
