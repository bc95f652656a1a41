//! The address feed of Direct mode: signed forms, tokens, ranges, hosts, and requests that are refused.

use serde_json::{Value, json};
use shardlake_gateway_nosql::Scheme;
use shardlake_testkit::shared_directory;

use crate::change_feed::{CONTAINER, split};
use crate::harness::{Answer, Call, READ_ONLY_KEY, Server};

/// Resource ids of a database and of a container in it.
async fn rids(server: &Server) -> (String, String) {
    let container = server.get(CONTAINER).send().await.expect(200).json();
    let link = container["_self"].as_str().expect("a link").to_owned();
    let parts: Vec<&str> = link.split('/').collect();
    (parts[1].to_owned(), parts[3].to_owned())
}

fn path(resolve_for: &str, ranges: &str) -> String {
    let escaped = resolve_for.replace('/', "%2f").replace('=', "%3d").replace('+', "%2b");
    let ranges = if ranges.is_empty() { String::new() } else { format!("&$partitionKeyRangeIds={ranges}") };
    format!("//addresses/?$resolveFor={escaped}&$filter=protocol%20eq%20rntbd{ranges}")
}

fn resolve_for((database, container): &(String, String)) -> String {
    format!("dbs/{database}/colls/{container}/docs")
}

/// Addresses of ranges, signed as the SDKs do it.
fn asked<'s>(server: &'s Server, rids: &(String, String), ranges: &str) -> Call<'s> {
    let call = server.get(path(&resolve_for(rids), ranges));
    call.header("host", "localhost:8081").signed_as("docs", &rids.1.to_lowercase())
}

/// Replica paths by range: the primary's, then the secondary's.
pub fn paths(answer: &Answer) -> Vec<(String, [String; 2])> {
    let addresses = answer.json()["Addresss"].as_array().expect("addresses").clone();
    let text = |address: &Value, name: &str| address[name].as_str().expect("text").to_owned();
    let pairs = addresses.chunks(2).map(|pair| {
        assert_eq!((&pair[0]["isPrimary"], &pair[1]["isPrimary"]), (&json!(true), &json!(false)));
        assert_eq!(pair[0]["partitionKeyRangeId"], pair[1]["partitionKeyRangeId"]);
        let path = |address: &Value| {
            let uri = text(address, "physcialUri");
            let path = uri.strip_prefix("rntbd://127.0.0.1:8081").expect("where the client called");
            path.to_owned()
        };
        (text(&pair[0], "partitionKeyRangeId"), [path(&pair[0]), path(&pair[1])])
    });
    pairs.collect()
}

/// Replica paths of a range of `db/items`.
pub async fn paths_of(server: &Server, range: &str) -> [String; 2] {
    let rids = rids(server).await;
    paths(&asked(server, &rids, range).send().await.expect(200)).remove(0).1
}

fn ranges_in(answer: &Answer) -> Vec<String> {
    paths(answer).into_iter().map(|(range, _)| range).collect()
}

#[tokio::test]
async fn each_range_has_two_addresses_where_the_client_called() {
    let server = Server::with_container().await;
    let rids = rids(&server).await;
    let rid = &rids.1;
    let answer = asked(&server, &rids, "0").send().await.expect(200);
    let service = rid.trim_end_matches('=').replace('+', "_");
    let replica = |name: &str| format!("/apps/shardlake/services/{service}/partitions/0/replicas/{name}/");
    let expected = json!({
        "_rid": rid,
        "Addresss": [
            {
                "isPrimary": true,
                "protocol": "rntbd",
                "logicalUri": format!("urn:uuid:{rid}-0"),
                "physcialUri": format!("rntbd://127.0.0.1:8081{}", replica("1p")),
                "partitionIndex": format!("0@{rid}"),
                "partitionKeyRangeId": "0",
            },
            {
                "isPrimary": false,
                "protocol": "rntbd",
                "logicalUri": format!("urn:uuid:{rid}-0-2"),
                "physcialUri": format!("rntbd://127.0.0.1:8081{}", replica("2s")),
                "partitionIndex": format!("0@{rid}"),
                "partitionKeyRangeId": "0",
            },
        ],
        "_count": 2,
    });
    assert_eq!(answer.json(), expected);
    for (scheme, host, listener) in [
        (Scheme::Https, "localhost:8081", "127.0.0.1:8081"),
        (Scheme::Https, "localhost", "127.0.0.1:443"),
        (Scheme::Http, "db.example", "db.example:80"),
        (Scheme::Http, "db.example:8081", "db.example:8081"),
        (Scheme::Https, "[::1]:8081", "[::1]:8081"),
        (Scheme::Https, "10.1.2.3:7", "10.1.2.3:7"),
    ] {
        let call = server.get(path(&resolve_for(&rids), "0")).header("host", host).over(scheme);
        let answer = call.signed_as("docs", &rid.to_lowercase()).send().await.expect(200);
        for (address, name) in [(0, "1p"), (1, "2s")] {
            let uri = format!("rntbd://{listener}{}", replica(name));
            assert_eq!(answer.json()["Addresss"][address]["physcialUri"], uri, "{host}");
        }
    }
}

#[tokio::test]
async fn every_signed_form_is_taken_and_no_other() {
    let server = Server::with_container().await;
    let rids = rids(&server).await;
    let (database, rid) = &rids;
    let by_rids = resolve_for(&rids);
    for (resolve_for, link) in [
        (&*by_rids, rid.to_lowercase()),
        (&*by_rids, rid.clone()),
        (&*by_rids, format!("dbs/{database}/colls/{rid}")),
        (&*by_rids, "dbs/db/colls/items".to_owned()),
        ("dbs/db/colls/items/docs", "dbs/db/colls/items".to_owned()),
        ("/dbs/db/colls/items/docs/", "dbs/db/colls/items".to_owned()),
    ] {
        let call = server.get(path(resolve_for, "0")).header("host", "localhost:8081");
        let answer = call.signed_as("docs", &link).send().await.expect(200);
        assert_eq!(ranges_in(&answer), ["0"], "{resolve_for} {link}");
    }
    let call = || server.get(path(&by_rids, "0")).header("host", "localhost:8081");
    call().signed_with(READ_ONLY_KEY).signed_as("docs", &rid.to_lowercase()).send().await.expect(200);
    for (resource_type, link) in [
        ("docs", String::new()),
        ("docs", database.to_lowercase()),
        ("docs", "dbs/db/colls/other".to_owned()),
        ("colls", rid.to_lowercase()),
        ("addresses", String::new()),
        ("pkranges", rid.to_lowercase()),
    ] {
        let answer = call().signed_as(resource_type, &link).send().await;
        answer.refused(401, 0, &format!("get\\ndocs\\n{}\\n", rid.to_lowercase()));
    }
    call().unsigned().send().await.refused(401, 0, "authorization is missing");
}

#[tokio::test]
async fn databases_are_in_the_master_partition() {
    let server = Server::with_container().await;
    for path in [path("dbs", ""), path("dbs", "M"), path("dbs/", "")] {
        let call = server.get(path).header("host", "localhost:8081");
        let answer = call.signed_as("dbs", "").send().await.expect(200);
        let replica = |name: &str| format!("/apps/shardlake/services/master/partitions/M/replicas/{name}/");
        assert_eq!(paths(&answer), [("M".to_owned(), [replica("1p"), replica("2s")])]);
        assert_eq!((&answer.json()["_rid"], &answer.json()["_count"]), (&json!(""), &json!(2)));
    }
    server.get(path("dbs", "")).signed_as("docs", "").send().await.refused(401, 0, "get\\ndbs\\n");
    server.get(path("dbs", "0")).signed_as("dbs", "").send().await.refused(400, 0, "'$partitionKeyRangeIds'");
    let token = server.token_for("All", "items").await;
    server.get(path("dbs", "")).token(&token).send().await.refused(403, 0, "needs an account key");
}

#[tokio::test]
async fn tokens_reach_the_addresses_of_their_own_container() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    server.create_container(json!({ "id": "other", "partitionKey": key })).await;
    let rids = rids(&server).await;
    let call = || server.get(path(&resolve_for(&rids), "0")).header("host", "localhost:8081");
    for (mode, resource) in [("Read", "items"), ("All", "items/docs/a"), ("Read", "items/sprocs/s")] {
        let token = server.token_for(mode, resource).await;
        assert_eq!(ranges_in(&call().token(&token).send().await.expect(200)), ["0"], "{resource}");
    }
    let limited = json!({ "id": "key", "permissionMode": "Read", "resource": "dbs/db/colls/items",
        "resourcePartitionKey": ["k"] });
    let limited = server.permit_in("db", limited).await;
    call().token(&limited).send().await.expect(200);
    let other = server.token_for("All", "other").await;
    call().token(&other).send().await.refused(403, 0, "another container");
    let unknown = server.get(path("dbs/db/colls/none/docs", "0"));
    unknown.token(&other).send().await.refused(403, 0, "another container");
}

#[tokio::test]
async fn ranges_that_are_gone_are_left_out() {
    let server = Server::with_container().await;
    let rids = rids(&server).await;
    let children = split(&server, "0").await;
    for (ranges, expected) in [
        ("0", vec![]),
        ("0,1", vec![children[0].clone()]),
        ("2%2c0%2c1%2c1", children.clone()),
        ("", children.clone()),
        ("77", vec![]),
    ] {
        let answer = asked(&server, &rids, ranges).send().await.expect(200);
        assert_eq!(ranges_in(&answer), expected, "{ranges}");
        assert_eq!(answer.json()["_count"], 2 * expected.len());
    }
    server.delete(CONTAINER).send().await.expect(204);
    asked(&server, &rids, "1").send().await.expect(404);
    let never = server.get(path("dbs/db/colls/none/docs", "0"));
    never.signed_as("docs", "dbs/db/colls/none").send().await.expect(404);
}

/// A 401 would send people to look for a wrong key.
#[tokio::test]
async fn malformed_requests_are_refused_by_the_name_of_the_member() {
    let server = Server::with_container().await;
    let rntbd = "$filter=protocol%20eq%20rntbd";
    for (query, member) in [
        (String::new(), "$resolveFor"),
        (rntbd.to_owned(), "$resolveFor"),
        (format!("$resolveFor=dbs%2fdb&{rntbd}"), "$resolveFor"),
        (format!("$resolveFor=dbs%2f%2fcolls&{rntbd}"), "$resolveFor"),
        (format!("$resolveFor=dbs&$resolveFor=dbs&{rntbd}"), "$resolveFor"),
        ("$resolveFor=dbs".to_owned(), "$filter"),
        ("$resolveFor=dbs&$filter=protocol%20eq%20https".to_owned(), "gateway mode"),
    ] {
        for slashes in ["/", "//"] {
            let call = server.get(format!("{slashes}addresses/?{query}")).unsigned();
            let answer = call.header("authorization", "type%3dmaster%26ver%3d1.0%26sig%3dx").send().await;
            answer.refused(400, 0, member);
        }
    }
    let rids = rids(&server).await;
    for ranges in ["x", "0,", "-1", "4294967296"] {
        let answer = asked(&server, &rids, ranges).send().await;
        answer.refused(400, 0, "'$partitionKeyRangeIds'");
    }
    let many = vec!["0"; 1_000].join(",");
    asked(&server, &rids, &many).send().await.expect(200);
    asked(&server, &rids, &format!("{many},0")).send().await.refused(400, 0, "'$partitionKeyRangeIds'");
    let post = server.post(path("dbs", "")).signed_as("dbs", "");
    post.send().await.expect(405);
}

/// Requests of .NET and of Java as they were recorded, with their signatures.
#[tokio::test]
async fn recorded_requests_are_authentic_and_answered_in_the_recorded_form() {
    let Some(directory) = shared_directory("conformance", "addresses::recorded") else { return };
    let server = Server::with_container().await;
    for file in ["addresses.json", "java/addresses.json", "java/addresses-2.json"] {
        let text = std::fs::read_to_string(directory.join("direct").join(file)).expect("a recording");
        let recorded: Value = serde_json::from_str(&text).expect("JSON");
        let header = |name: &str| recorded["headers"][name].as_str().expect("text");
        crate::direct::advance_to(&server, header("x-ms-date"));
        let url = recorded["url"].as_str().expect("a path");
        let call = server.get(url).unsigned().header("host", "localhost:8081");
        let call =
            call.header("x-ms-version", header("x-ms-version")).header("x-ms-date", header("x-ms-date"));
        let answer = call.header("authorization", header("authorization")).send().await;
        if recorded["body"]["_rid"] != "" {
            // There is no such container here; only a caller with a valid signature gets 404.
            answer.expect(404);
            continue;
        }
        let mut expected = recorded["body"].clone();
        for address in expected["Addresss"].as_array_mut().expect("addresses") {
            let uri = address["physcialUri"].as_str().expect("text").to_owned();
            let (_, path) = uri.split_once("/apps").expect("a replica path");
            address["physcialUri"] = json!(format!("rntbd://127.0.0.1:8081/apps{path}"));
        }
        assert_eq!(answer.expect(200).json(), expected, "{file}");
    }
}
