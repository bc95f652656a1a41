//! The account document, databases, containers and offers.

use serde_json::{Value, json};
use shardlake_gateway_nosql::Scheme;
use shardlake_model::LanguageLimits;

use crate::harness::{Answer, ITEMS, Server};

#[tokio::test]
async fn the_account_document_names_the_endpoint_the_client_used() {
    let server = Server::start().await;
    for (scheme, host, endpoint) in [
        (Scheme::Http, "localhost:8081", "http://localhost:8081/"),
        (Scheme::Https, "db.example:443", "https://db.example:443/"),
    ] {
        let answer = server.get("/").over(scheme).header("host", host).send().await.expect(200);
        for name in ["x-ms-max-media-storage-usage-mb", "x-ms-media-storage-usage-mb"] {
            assert_eq!(answer.header(name), Some("0"));
        }
        let account = answer.json();
        for member in ["writableLocations", "readableLocations"] {
            assert_eq!(account[member][0]["databaseAccountEndpoint"], endpoint);
        }
        assert_eq!(account["userConsistencyPolicy"]["defaultConsistencyLevel"], "Session");
        let engine = account["queryEngineConfiguration"].as_str().expect("a text");
        let engine: Value = serde_json::from_str(engine).expect("JSON");
        let limits = LanguageLimits::PUBLISHED;
        for (name, limit) in [
            ("maxSqlQueryInputLength", limits.text_length_max),
            ("maxJoinsPerSqlQuery", limits.joins_max),
            ("maxLogicalAndPerSqlQuery", limits.ands_max),
            ("maxLogicalOrPerSqlQuery", limits.ors_max),
            ("maxUdfRefPerSqlQuery", limits.user_functions_max),
            ("maxInExpressionItemsCount", limits.list_items_max),
        ] {
            assert_eq!(engine[name], limit, "{name}");
        }
        assert!(account.as_object().expect("object").keys().all(|name| !name.starts_with("thinClient")));
    }
}

/// A client in Direct mode reads strongly from N - N/2 secondaries, where N is the size of the replica set. There is one secondary.
/// With an N of 4 each such read lacks a second one, and asks for the addresses again.
#[tokio::test]
async fn the_size_of_the_replica_set_is_the_number_of_addresses_of_a_range() {
    let server = Server::start().await;
    let account = server.get("/").send().await.expect(200).json();
    for policy in ["userReplicationPolicy", "systemReplicationPolicy"] {
        assert_eq!(account[policy]["maxReplicasetSize"], 2, "{policy}");
    }
}

#[tokio::test]
async fn feeds_of_resources_come_in_pages_that_miss_and_repeat_nothing() {
    let server = Server::start().await;
    for number in 0..7 {
        server.post("/dbs").json(json!({ "id": format!("d{number}") })).send().await.expect(201);
    }
    let mut seen = Vec::new();
    let mut continuation = String::new();
    loop {
        let mut request = server.get("/dbs").header("x-ms-max-item-count", "3");
        if !continuation.is_empty() {
            request = request.header("x-ms-continuation", &continuation);
        }
        let page = request.send().await.expect(200);
        let databases = page.json()["Databases"].as_array().expect("a page").clone();
        assert!(databases.len() <= 3);
        seen.extend(databases.iter().map(|one| one["id"].as_str().expect("text").to_owned()));
        if seen.len() == 3 {
            // A database that was listed already is deleted; no other one moves.
            server.delete(format!("/dbs/{}", seen[0])).send().await.expect(204);
        }
        match page.header("x-ms-continuation") {
            Some(token) => continuation = token.to_owned(),
            None => break,
        }
    }
    seen.sort();
    assert_eq!(seen, ["d0", "d1", "d2", "d3", "d4", "d5", "d6"]);
    let tampered = server.get("/dbs").header("x-ms-continuation", "nonsense").send().await;
    tampered.refused(400, 0, "Invalid Continuation Token");
    server.get("/dbs").header("x-ms-max-item-count", "-2").send().await.refused(400, 0, "max-item-count");
}

#[tokio::test]
async fn databases_live_and_die() {
    let server = Server::start().await;
    let created = server.post("/dbs").json(json!({ "id": "Gr\u{fc}n" })).send().await.expect(201);
    let database = created.json();
    assert_eq!(database["_etag"], created.etag());
    assert_eq!(database["_self"], format!("dbs/{}/", database["_rid"].as_str().expect("text")));
    assert_eq!((&database["_colls"], &database["_users"]), (&json!("colls/"), &json!("users/")));
    server.post("/dbs").json(json!({ "id": "Gr\u{fc}n" })).send().await.refused(409, 0, "already exists");

    assert_eq!(server.get("/dbs/Gr%C3%BCn/").send().await.expect(200).json(), database);
    let by_rid = format!("/{}", database["_self"].as_str().expect("text"));
    assert_eq!(server.get(by_rid).send().await.expect(200).json(), database);
    let known = server.get("/dbs/Gr%C3%BCn").header("if-none-match", &created.etag()).send().await;
    known.expect(304);
    let feed = server.get("/dbs").send().await.expect(200);
    assert_eq!(feed.json(), json!({ "_rid": "", "Databases": [database], "_count": 1 }));
    assert_eq!(feed.header("x-ms-item-count"), Some("1"));

    server.delete("/dbs/Gr%C3%BCn").header("if-match", "\"x\"").send().await.expect(412);
    server.delete("/dbs/Gr%C3%BCn").send().await.expect(204);
    server.get("/dbs/Gr%C3%BCn").send().await.expect(404);
    server.post("/dbs").json(json!({})).send().await.refused(400, 0, "'id; '");
    server.post("/dbs").json(json!({ "id": "a/b" })).send().await.expect(400);
}

#[tokio::test]
async fn containers_come_back_with_the_services_defaults() {
    let server = Server::start().await;
    let definition = json!({ "id": "c", "partitionKey": { "paths": ["/pk"] }, "defaultTtl": 60 });
    let container = server.create_container(definition).await;
    let (rid, link) = (container["_rid"].as_str().expect("text"), container["_self"].as_str().expect("text"));
    assert!(link.ends_with(&format!("/colls/{rid}/")), "{link}");
    for (member, value) in [
        ("partitionKey", json!({ "paths": ["/pk"], "kind": "Hash" })),
        ("uniqueKeyPolicy", json!({ "uniqueKeys": [] })),
        ("geospatialConfig", json!({ "type": "Geography" })),
        ("defaultTtl", json!(60)),
        ("_docs", json!("docs/")),
        ("_sprocs", json!("sprocs/")),
        ("_triggers", json!("triggers/")),
        ("_udfs", json!("udfs/")),
        ("_conflicts", json!("conflicts/")),
    ] {
        assert_eq!(container[member], value, "{member}");
    }
    assert_eq!(container["indexingPolicy"]["includedPaths"], json!([{ "path": "/*" }]));
    assert_eq!(server.get("/dbs/db/colls/c").send().await.expect(200).json(), container);
    let feed = server.get("/dbs/db/colls").send().await.expect(200).json();
    assert_eq!(feed["DocumentCollections"], json!([container]));
    assert_eq!(feed["_rid"].as_str().map(str::len), Some(8));

    let mut changed = container.clone();
    changed["defaultTtl"] = json!(-1);
    let replaced = server.put("/dbs/db/colls/c").json(changed).send().await.expect(200);
    assert_eq!(replaced.json()["defaultTtl"], -1);
    assert_ne!(replaced.json()["_etag"], container["_etag"]);
    let moved = json!({ "id": "c", "partitionKey": { "paths": ["/other"] } });
    server.put("/dbs/db/colls/c").json(moved).send().await.expect(400);
    server.delete("/dbs/db/colls/c").send().await.expect(204);
    server.get("/dbs/db/colls/c").send().await.expect(404);
}

#[tokio::test]
async fn container_definitions_that_cannot_be_kept_are_refused() {
    let server = Server::start().await;
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    let create = |body| server.post("/dbs/db/colls").json(body);
    create(json!({ "id": "c" })).send().await.refused(400, 0, "partition key definition");
    let view = json!({ "id": "c", "partitionKey": { "paths": ["/pk"] }, "materializedViewDefinition": {} });
    create(view).send().await.refused(400, 0, "materializedViewDefinition");
    let ttl = json!({ "id": "c", "partitionKey": { "paths": ["/pk"] }, "defaultTtl": 0 });
    create(ttl).send().await.expect(400);
    let policy = json!({ "id": "c", "partitionKey": { "paths": ["/pk"] }, "changeFeedPolicy": { "retentionDuration": {} } });
    create(policy).send().await.refused(400, 0, "'changeFeedPolicy'");
    let plain = json!({ "id": "c", "partitionKey": { "paths": ["/pk"] } });
    server.post("/dbs/none/colls").json(plain).send().await.expect(404);
}

#[tokio::test]
async fn partition_keys_that_no_item_could_carry_are_refused_by_name() {
    let server = Server::start().await;
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    let create = |key| server.post("/dbs/db/colls").json(json!({ "id": "c", "partitionKey": key }));
    for name in ["_ts", "_etag", "_rid", "_self", "_attachments"] {
        let path = format!("/{name}");
        create(json!({ "paths": [path] })).send().await.refused(400, 0, &format!("'{path}'"));
        let levels = json!({ "paths": ["/tenant", path], "kind": "MultiHash", "version": 2 });
        create(levels).send().await.refused(400, 0, "system property");
    }
    for (path, id) in [("/_type", "a"), ("/meta/_ts", "b"), ("/ttl", "c")] {
        let fine = json!({ "id": id, "partitionKey": { "paths": [path] } });
        server.post("/dbs/db/colls").json(fine).send().await.expect(201);
    }
}

/// The Java SDK makes a container's link of the path of its database, and without it no change feed runs.
#[tokio::test]
async fn answers_for_containers_users_and_permissions_name_the_resource_above() {
    let server = Server::start().await;
    let database = server.post("/dbs").json(json!({ "id": "düb" })).send().await.expect(201).json();
    let path = "/dbs/d%C3%BCb";
    let definition = json!({ "id": "c", "partitionKey": { "paths": ["/pk"] } });
    let of_database = ("dbs/d%C3%BCb", database["_rid"].as_str().expect("a rid").to_owned());
    let check = |answer: &Answer, (link, rid): &(&str, String)| {
        assert_eq!(answer.header("x-ms-alt-content-path"), Some(*link));
        assert_eq!(answer.header("x-ms-content-path"), Some(&**rid));
    };
    let created = server.post(format!("{path}/colls")).json(definition.clone()).send().await.expect(201);
    check(&created, &of_database);
    let container = format!("{path}/colls/c");
    for call in
        [server.get(&container), server.put(&container).json(definition), server.get(format!("{path}/colls"))]
    {
        check(&call.send().await.expect(200), &of_database);
    }
    let user = server.post(format!("{path}/users")).json(json!({ "id": "u" })).send().await.expect(201);
    check(&user, &of_database);
    let of_user = ("dbs/d%C3%BCb/users/u", user.json()["_rid"].as_str().expect("a rid").to_owned());
    let permission = json!({ "id": "p", "permissionMode": "Read", "resource": "dbs/düb/colls/c" });
    let permission =
        server.post(format!("{path}/users/u/permissions")).json(permission).send().await.expect(201);
    check(&permission, &of_user);
    check(&server.get(format!("{path}/users/u/permissions/p")).send().await.expect(200), &of_user);
}

#[tokio::test]
async fn kinds_and_versions_of_keys_are_read_as_every_sdk_writes_them() {
    let server = Server::start().await;
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    let key = |paths: &[&str], kind, version| json!({ "paths": paths, "kind": kind, "version": version });
    for (id, key, kind, version) in [
        ("a", key(&["/pk"], "hash", json!("V1")), "Hash", 1),
        ("b", key(&["/pk"], "HASH", json!("v2")), "Hash", 2),
        ("c", key(&["/a", "/b"], "multiHash", json!("V2")), "MultiHash", 2),
        ("d", key(&["/a", "/b"], "MultiHash", json!(2)), "MultiHash", 2),
    ] {
        let definition = json!({ "id": id, "partitionKey": key });
        let stored = server.post("/dbs/db/colls").json(definition).send().await.expect(201).json();
        assert_eq!(
            (&stored["partitionKey"]["kind"], &stored["partitionKey"]["version"]),
            (&json!(kind), &json!(version))
        );
    }
    let unversioned = json!({ "id": "e", "partitionKey": { "paths": ["/a", "/b"], "kind": "MultiHash" } });
    server.post("/dbs/db/colls").json(unversioned).send().await.expect(201);
    for (key, words) in [
        (key(&["/pk"], "Hash", json!("V3")), "version 3"),
        (key(&["/pk"], "Hash", json!("two")), "unknown partition key version 'two'"),
        (key(&["/pk"], "Tree", json!(2)), "unknown partition key kind 'Tree'"),
        (key(&["/a", "/b"], "MultiHash", json!(1)), "needs version 2"),
    ] {
        let definition = json!({ "id": "x", "partitionKey": key });
        server.post("/dbs/db/colls").json(definition).send().await.refused(400, 0, words);
    }
}

#[tokio::test]
async fn throughput_in_the_body_of_a_container_counts_where_the_header_agrees_or_is_absent() {
    let server = Server::start().await;
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    let create = |id: &str, units: serde_json::Value| {
        let key = json!({ "paths": ["/pk"] });
        let definition =
            json!({ "id": id, "partitionKey": key, "offerThroughput": units, "offerType": "S1" });
        server.post("/dbs/db/colls").json(definition)
    };
    let units = "x-ms-offer-throughput";
    create("a", json!(700)).send().await.expect(201);
    create("b", json!(800)).header(units, "800").send().await.expect(201);
    let other = create("c", json!(700)).header(units, "800").send().await;
    other.refused(400, 0, "not the throughput of the headers");
    create("c", json!("700")).send().await.refused(400, 0, "not a whole number");
    let offers = server.get("/offers").send().await.expect(200).json();
    let offers = offers["Offers"].as_array().expect("a list").clone();
    let mut found: Vec<_> = offers.iter().map(|offer| offer["content"]["offerThroughput"].clone()).collect();
    found.sort_by_key(|units| units.as_i64());
    assert_eq!(found, [700, 800]);
}

/// The Java SDK sends both.
#[tokio::test]
async fn headers_without_a_value_are_as_good_as_absent() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    let mut read = server.item("GET", "a", r#"["k"]"#);
    let text = json!({ "query": "SELECT TOP 0 * FROM c" });
    let mut query = server.post(ITEMS).key(r#"["k"]"#).header("x-ms-documentdb-isquery", "true").json(text);
    query = query.header("x-ms-max-item-count", "0");
    for name in ["x-ms-cosmos-intended-collection-rid", "x-ms-documentdb-pre-trigger-include"] {
        read = read.header(name, "");
        query = query.header(name, "");
    }
    read.send().await.expect(200);
    assert_eq!(query.send().await.expect(200).json()["_count"], 0);
}

#[tokio::test]
async fn policies_of_full_text_are_stored_or_refused_as_the_service_does() {
    let server = Server::start().await;
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    let create = |id: &str, policy: serde_json::Value, indexed: &str| {
        let definition = json!({ "id": id, "partitionKey": { "paths": ["/pk"] }, "fullTextPolicy": policy,
            "indexingPolicy": { "fullTextIndexes": [{ "path": indexed }] } });
        server.post("/dbs/db/colls").json(definition)
    };
    let policy = json!({ "defaultLanguage": "en-US", "fullTextPaths": [{ "path": "/text", "language": "1033" }, { "path": "/more" }] });
    let stored = create("a", policy.clone(), "/text").send().await.expect(201).json();
    assert_eq!(stored["fullTextPolicy"], policy);
    let path = json!({ "fullTextPaths": [{ "path": "text" }] });
    create("b", path, "/text").send().await.refused(400, 0, "invalid Path: text");
    for language in [
        json!({ "defaultLanguage": "spa-SPA" }),
        json!({ "fullTextPaths": [{ "path": "/text", "language": "spa-SPA" }] }),
    ] {
        create("b", language, "/text").send().await.refused(400, 0, "unsupported language spa-SPA");
    }
    create("b", policy.clone(), "/other").send().await.refused(
        400,
        0,
        "Full Text Index /other does not match",
    );
    create("b", policy, "text").send().await.refused(400, 0, "at index (0) contains invalid path");
}

#[tokio::test]
async fn policies_that_nothing_would_follow_are_refused_by_name() {
    let server = Server::start().await;
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    let with = |id: &str, name: &str, value| {
        let mut definition = json!({ "id": id, "partitionKey": { "paths": ["/pk"] } });
        definition[name] = value;
        definition
    };
    let create = |definition| server.post("/dbs/db/colls").json(definition);
    let procedure = "dbs/db/colls/c/sprocs/resolve";
    for policy in [
        json!({ "mode": "Custom" }),
        json!({ "mode": "custom", "conflictResolutionProcedure": procedure }),
        json!({ "mode": "LastWriterWins", "conflictResolutionProcedure": procedure }),
    ] {
        let custom = with("c", "conflictResolutionPolicy", policy);
        create(custom).send().await.refused(501, 0, "conflictResolutionPolicy");
    }
    let default = json!({ "mode": "LastWriterWins", "conflictResolutionPath": "/_ts", "conflictResolutionProcedure": "" });
    create(with("d", "conflictResolutionPolicy", default)).send().await.expect(201);
}

#[tokio::test]
async fn definitions_show_what_was_sent_and_what_is_in_force() {
    let server = Server::start().await;
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    for (id, key) in [
        ("none", json!({ "paths": ["/pk"], "kind": "Hash" })),
        ("one", json!({ "paths": ["/pk"], "kind": "Hash", "version": 1 })),
        ("two", json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 })),
    ] {
        let definition = json!({ "id": id, "partitionKey": key });
        let created = server.post("/dbs/db/colls").json(definition).send().await.expect(201).json();
        assert_eq!(created["partitionKey"], key);
        // A client may send the version that the server's answer left out.
        let mut spelt = created.clone();
        spelt["partitionKey"]["version"] = json!(if id == "two" { 2 } else { 1 });
        server.put(format!("/dbs/db/colls/{id}")).json(spelt.clone()).send().await.expect(200);
        spelt["partitionKey"]["version"] = json!(if id == "two" { 1 } else { 2 });
        server.put(format!("/dbs/db/colls/{id}")).json(spelt).send().await.expect(400);
    }
    // Items are indexed as they are written, so the answer is `true`, as in the service.
    let manual = json!({ "id": "m", "partitionKey": { "paths": ["/pk"] }, "indexingPolicy": { "indexingMode": "consistent", "automatic": false } });
    let created = server.post("/dbs/db/colls").json(manual).send().await.expect(201).json();
    assert_eq!(created["indexingPolicy"]["automatic"], true);
}

#[tokio::test]
async fn quota_and_statistics_are_told_on_request() {
    let server = Server::with_container().await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    let plain = server.get("/dbs/db/colls/items").send().await.expect(200);
    assert!(plain.header("x-ms-resource-usage").is_none() && plain.json().get("statistics").is_none());
    let call = server.get("/dbs/db/colls/items").header("x-ms-documentdb-populatequotainfo", "True");
    let full = call.header("x-ms-documentdb-populatepartitionstatistics", "True").send().await.expect(200);
    assert!(full.header("x-ms-resource-usage").expect("usage").contains("documentsCount=1;"));
    assert!(full.header("x-ms-resource-quota").is_some());
    let progress = "x-ms-documentdb-collection-index-transformation-progress";
    assert_eq!(full.header(progress), Some("100"));
    assert_eq!(full.json()["statistics"][0]["documentCount"], 1);
}

#[tokio::test]
async fn offers_are_found_by_the_resource_and_replaced() {
    let server = Server::start().await;
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    let definition = json!({ "id": "c", "partitionKey": { "paths": ["/pk"] } });
    let create = server.post("/dbs/db/colls").header("x-ms-offer-throughput", "400").json(definition);
    let container = create.send().await.expect(201).json();
    let query = json!({
        "query": "SELECT * FROM root r WHERE r.resource=@link",
        "parameters": [{ "name": "@link", "value": container["_self"] }],
    });
    let find = |query: serde_json::Value| {
        server
            .post("/offers")
            .header("content-type", "application/query+json")
            .header("x-ms-documentdb-isquery", "true")
            .json(query)
    };
    let found = find(query).send().await.expect(200).json();
    assert_eq!(found["_count"], 1);
    let mut offer = found["Offers"][0].clone();
    assert_eq!(offer["resource"], container["_self"]);
    assert_eq!(offer["offerResourceId"], container["_rid"]);
    let literal = json!({ "query": format!("SELECT * from root where root.resource = \"{}\"", container["_self"].as_str().expect("text")) });
    assert_eq!(find(literal).send().await.expect(200).json()["_count"], 1);
    let other = json!({ "query": "SELECT * FROM r WHERE r.resource = 'x'" });
    assert_eq!(find(other).send().await.expect(200).json()["_count"], 0);

    offer["content"]["offerThroughput"] = json!(1000);
    let path = format!("/{}", offer["_self"].as_str().expect("text"));
    let replaced = server.put(&path).json(offer.clone()).send().await.expect(200);
    assert_eq!(replaced.json()["content"]["offerThroughput"], 1000);
    assert_eq!(replaced.header("x-ms-offer-replace-pending"), Some("false"));
    let read = server.get(&path).send().await.expect(200);
    assert_eq!(read.header("x-ms-cosmos-min-throughput"), Some("400"));
    offer["content"]["offerThroughput"] = json!(-200);
    server.put(&path).json(offer.clone()).send().await.refused(
        400,
        0,
        "Requested throughput -200 is less than required minimum throughput 400",
    );

    // No offer has such a link; one of the right form is unknown.
    let rid = offer["_rid"].as_str().expect("text");
    for link in [format!("{rid}x"), "NotAllowed".into(), "undefined".into(), "a%20b".into(), "x".into()] {
        server.get(format!("/offers/{link}")).send().await.refused(400, 0, "offer link");
        server.put(format!("/offers/{link}")).json(offer.clone()).send().await.refused(400, 0, "offer link");
    }
    server.get("/offers/zzzz").send().await.expect(404);
    offer["content"]["offerThroughput"] = json!(500);
    for member in ["id", "_rid"] {
        let mut other = offer.clone();
        other[member] = json!("NotAllowed");
        server.put(&path).json(other).send().await.refused(400, 0, member);
    }
    server.put(&path).json(offer).send().await.expect(200);
}

#[tokio::test]
async fn throughput_at_creation_is_checked() {
    let server = Server::start().await;
    let create = || server.post("/dbs").json(json!({ "id": "db" }));
    let settings = "x-ms-cosmos-offer-autopilot-settings";
    let both = create().header("x-ms-offer-throughput", "400").header(settings, r#"{"maxThroughput":1000}"#);
    both.send().await.expect(400);
    let negative = create().header(settings, r#"{"maxThroughput":-200}"#).send().await;
    negative.refused(400, 0, "Requested throughput -200 is less than required minimum throughput 1000");
    create().header("x-ms-offer-throughput", "100").send().await.refused(400, 0, "minimum throughput 400");
    create().header(settings, r#"{"maxThroughput":4000}"#).send().await.expect(201);
    let offers = server.get("/offers").send().await.expect(200).json();
    let content = &offers["Offers"][0]["content"];
    assert_eq!(
        (&content["offerThroughput"], &content["offerAutopilotSettings"]["maxThroughput"]),
        (&json!(400), &json!(4000))
    );
}

#[tokio::test]
async fn databases_and_containers_are_queried_like_offers() {
    let server = Server::with_container().await;
    let query = |path: &str, text: &str, value: &str| {
        let body = json!({ "query": text, "parameters": [{ "name": "@id", "value": value }] });
        server.post(path).header("content-type", "application/query+json").json(body)
    };
    let text = "SELECT * FROM root r WHERE r.id=@id";
    assert_eq!(query("/dbs", text, "db").send().await.expect(200).json()["Databases"][0]["id"], "db");
    assert_eq!(query("/dbs", text, "none").send().await.expect(200).json()["_count"], 0);
    let found = query("/dbs/db/colls", text, "items").send().await.expect(200).json();
    assert_eq!(found["DocumentCollections"][0]["id"], "items");
    let all = query("/dbs/db/colls", "select * from c", "").send().await.expect(200).json();
    assert_eq!(all["_count"], 1);
    query("/dbs", "SELECT * FORM x", "").send().await.expect(400);
}

/// The same where the bytes end the first page, without a count.
#[tokio::test]
async fn pages_of_resources_have_each_of_them_once() {
    let server = Server::start().await;
    server.post("/dbs").json(json!({ "id": "one" })).send().await.expect(201);
    for number in 0..20 {
        let user = json!({ "id": format!("user-{}", number * 7 % 20) });
        server.post("/dbs/one/users").json(user).send().await.expect(201);
    }
    let columns: Vec<String> = (0..30).map(|column| format!("REPLICATE('x', 10000) AS c{column}")).collect();
    let query = json!({ "query": format!("SELECT c.id, {} FROM c", columns.join(", ")) });
    let (mut ids, mut token, mut pages) = (Vec::new(), None::<String>, 0);
    loop {
        let call = server.post("/dbs/one/users").json(query.clone());
        let mut call = call.header("content-type", "application/query+json");
        if let Some(token) = &token {
            call = call.header("x-ms-continuation", token);
        }
        let answer = call.send().await.expect(200);
        let rows = answer.json()["Users"].as_array().expect("rows").clone();
        ids.extend(rows.iter().map(|row| row["id"].as_str().expect("an id").to_owned()));
        pages += 1;
        token = answer.header("x-ms-continuation").map(str::to_owned);
        if token.is_none() {
            break;
        }
    }
    ids.sort();
    let mut expected: Vec<String> = (0..20).map(|number| format!("user-{number}")).collect();
    expected.sort();
    assert!(pages > 1);
    assert_eq!(ids, expected);
}

/// The language of queries over items, over every feed of resources: clients write such queries of many forms.
#[tokio::test]
async fn feeds_of_resources_are_queried_as_items_are() {
    let server = Server::start().await;
    for id in ["one", "two", "three", "four", "five"] {
        server.post("/dbs").json(json!({ "id": id })).send().await.expect(201);
        let key = json!({ "paths": ["/pk"], "kind": "Hash" });
        let definition = json!({ "id": id, "partitionKey": key, "defaultTtl": id.len() });
        server.post("/dbs/one/colls").json(definition).send().await.expect(201);
        server.post("/dbs/one/users").json(json!({ "id": id })).send().await.expect(201);
        let function = json!({ "id": id, "body": "function () { return 1; }" });
        server.post("/dbs/one/colls/one/udfs").json(function).send().await.expect(201);
    }
    let query = |path: &str, text: &str, page: &str, token: Option<&str>| {
        let parameters = json!([{ "name": "@id", "value": "two" }]);
        let call = server.post(path).json(json!({ "query": text, "parameters": parameters }));
        let call = call.header("content-type", "application/query+json").header("x-ms-max-item-count", page);
        match token {
            Some(token) => call.header("x-ms-continuation", token),
            None => call,
        }
    };
    let feeds = [
        ("/dbs", "Databases"),
        ("/dbs/one/colls", "DocumentCollections"),
        ("/dbs/one/users", "Users"),
        ("/dbs/one/colls/one/udfs", "UserDefinedFunctions"),
    ];
    for (path, member) in feeds {
        for (text, expected) in [
            ("SELECT VALUE root FROM root WHERE (root[\"id\"] = \"two\")", 1),
            ("SELECT VALUE c.id FROM c WHERE c.id = @id", 1),
            ("SELECT TOP 2 * FROM c", 2),
            ("SELECT TOP 1 c.id, c._rid FROM c WHERE c.id != @id", 1),
            ("SELECT DISTINCT VALUE LENGTH(c.id) FROM c", 3),
            ("SELECT LENGTH(c.id) AS l, COUNT(1) AS n FROM c GROUP BY LENGTH(c.id)", 3),
            ("SELECT * FROM c OFFSET 1 LIMIT 2", 2),
            ("SELECT VALUE COUNT(1) FROM c", 1),
            ("SELECT VALUE x FROM c JOIN x IN (SELECT VALUE [1, 2])", 10),
            ("SELECT * FROM c WHERE STARTSWITH(c.id, 't')", 2),
        ] {
            let whole = query(path, text, "-1", None).send().await.expect(200).json();
            let rows = whole[member].as_array().unwrap_or_else(|| panic!("{path} {text}: {whole}")).clone();
            assert_eq!((rows.len(), &whole["_count"]), (expected, &json!(expected)), "{path} {text}");
            for page in ["1", "3"] {
                let (mut found, mut token) = (Vec::new(), None::<String>);
                loop {
                    let answer = query(path, text, page, token.as_deref()).send().await.expect(200);
                    let rows = answer.json()[member].as_array().expect("rows").clone();
                    assert!(rows.len() <= page.parse().expect("a number"), "{answer:?}");
                    found.extend(rows);
                    token = answer.header("x-ms-continuation").map(str::to_owned);
                    if token.is_none() {
                        break;
                    }
                }
                if text.contains("TOP") || text.contains("OFFSET") {
                    assert_eq!(found.len(), rows.len(), "{path} {text}");
                    continue;
                }
                let sorted = |rows: &[serde_json::Value]| {
                    let mut texts: Vec<String> = rows.iter().map(ToString::to_string).collect();
                    texts.sort();
                    texts
                };
                assert_eq!(sorted(&found), sorted(&rows), "{path} {text} in pages of {page}");
            }
        }
        assert_eq!(
            query(path, "SELECT VALUE COUNT(1) FROM c", "-1", None).send().await.json()[member],
            json!([5])
        );
        let ordered = query(path, "SELECT * FROM c ORDER BY c.id", "-1", None).send().await;
        ordered.refused(400, 0, "Order-by is not supported for the target resource type.");
        for token in ["#", "x", "#!", "AAAAAQ==#!"] {
            query(path, "SELECT * FROM c", "1", Some(token)).send().await.refused(
                400,
                0,
                "Invalid Continuation Token",
            );
        }
        query(path, "SELECT VALUE udf.one() FROM c", "-1", None).send().await.expect(501);
        query(path, "SELECT * FROM c WHERE", "-1", None).send().await.expect(400);
    }
    let offers = query("/offers", "SELECT VALUE COUNT(1) FROM c", "-1", None).send().await.expect(200).json();
    assert_eq!(offers["Offers"], json!([5]));
    let zeros = format!("(SELECT VALUE [{}])", vec!["0"; 300].join(", "));
    let dear = format!("SELECT VALUE COUNT(1) FROM c JOIN a IN {zeros} JOIN b IN {zeros} JOIN d IN {zeros}");
    query("/dbs", &dear, "-1", None).send().await.expect(408);
}

/// A member that nothing reads would be lost without a word.
#[tokio::test]
async fn unknown_members_are_refused_by_name_at_every_depth() {
    let server = Server::with_container().await;
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    for (policy, content, name) in [
        ("indexingPolicy", json!({ "automatic": true, "newMode": 1 }), "indexingPolicy.newMode"),
        ("indexingPolicy", json!({ "includedPaths": [{ "path": "/*", "rank": 1 }] }), "includedPaths.0.rank"),
        (
            "indexingPolicy",
            json!({ "vectorIndexes": [{ "path": "/v", "type": "flat", "x": 1 }] }),
            "vectorIndexes.0.x",
        ),
        (
            "uniqueKeyPolicy",
            json!({ "uniqueKeys": [{ "paths": ["/a"], "filter": "x" }] }),
            "uniqueKeys.0.filter",
        ),
        ("changeFeedPolicy", json!({ "retentionDuration": 10, "mode2": 1 }), "mode2"),
        (
            "computedProperties",
            json!([{ "name": "a", "query": "SELECT VALUE 1 FROM c", "kept": true }]),
            "computedProperties.0.kept",
        ),
        ("geospatialConfig", json!({ "type": "Geography", "srid": 4 }), "geospatialConfig.srid"),
        (
            "vectorEmbeddingPolicy",
            json!({ "vectorEmbeddings": [{ "path": "/v", "dataType": "float32", "dimensions": 3, "distanceFunction": "cosine", "embeddingSource": {} }] }),
            "embeddingSource",
        ),
    ] {
        let mut definition = json!({ "id": "other", "partitionKey": key });
        definition[policy] = content;
        let refused = server.post("/dbs/db/colls").json(definition.clone()).send().await.expect(400);
        assert!(refused.text.contains(name), "{definition}: {}", refused.text);
        definition["id"] = json!("items");
        let refused = server.put("/dbs/db/colls/items").json(definition.clone()).send().await.expect(400);
        assert!(refused.text.contains(name), "{definition}: {}", refused.text);
    }
    let in_key = json!({ "id": "other", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "hashing": 1 } });
    server.post("/dbs/db/colls").json(in_key).send().await.refused(400, 0, "partitionKey.hashing");
    let patch = |body: serde_json::Value| server.item("PATCH", "a", r#"["k"]"#).json(body).send();
    server.create(json!({ "id": "a", "pk": "k" })).await;
    patch(json!({ "operations": [{ "op": "set", "path": "/n", "value": 1 }], "when": "x" }))
        .await
        .refused(400, 0, "when");
    patch(json!([{ "op": "set", "path": "/n", "value": 1, "if": "x" }])).await.refused(400, 0, "if");
    let offers = server.get("/offers").send().await.expect(200).json();
    let mut offer = offers["Offers"][0].clone();
    let path = format!("/offers/{}", offer["id"].as_str().expect("an id"));
    server.put(path.as_str()).json(offer.clone()).send().await.expect(200);
    offer["content"]["throughputBuckets"] = json!([{ "id": 1, "maxThroughputPercentage": 10 }]);
    server.put(path.as_str()).json(offer).send().await.refused(400, 0, "throughputBuckets");
}

/// One rule for all: the reference writes one case, and clients another.
#[tokio::test]
async fn enumerations_of_definitions_are_read_in_any_case() {
    let server = Server::start().await;
    let definition = json!({
        "id": "any",
        "partitionKey": { "paths": ["/pk"], "kind": "HASH", "version": "v2" },
        "conflictResolutionPolicy": { "mode": "LASTWRITERWINS" },
        "geospatialConfig": { "type": "GEOGRAPHY" },
        "indexingPolicy": {
            "indexingMode": "CONSISTENT",
            "compositeIndexes": [[{ "path": "/a", "order": "ASCENDING" }, { "path": "/b", "order": "DESCENDING" }]],
            "spatialIndexes": [{ "path": "/s/*", "types": ["POINT", "polygon"] }],
        },
    });
    let made = server.create_container(definition).await;
    assert_eq!(made["partitionKey"]["kind"], "Hash");
    assert_eq!(made["conflictResolutionPolicy"]["mode"], "LastWriterWins");
    assert_eq!(made["geospatialConfig"]["type"], "Geography");
    assert_eq!(made["indexingPolicy"]["indexingMode"], "consistent");
    assert_eq!(made["indexingPolicy"]["compositeIndexes"][0][1]["order"], "descending");
    assert_eq!(made["indexingPolicy"]["spatialIndexes"][0]["types"][1], "Polygon");
}
