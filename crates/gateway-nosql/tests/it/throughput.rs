//! Budgets as clients see them: 429 with the time to wait, priorities, accounts without throughput.

use std::time::Duration;

use serde_json::{Value, json};
use shardlake_account::{AccountOptions, CapacityMode, Enforcement};

use crate::batch::statuses;
use crate::harness::{Answer, Call, ITEMS, Server};

/// A container `items` of 400 RU/s, which is 400 RU at once after a second without requests.
pub async fn metered(options: AccountOptions) -> Server {
    let server = Server::with_account(options).await;
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let create = server.post("/dbs/db/colls").header("x-ms-offer-throughput", "400");
    create.json(json!({ "id": "items", "partitionKey": key })).send().await.expect(201);
    server
}

async fn upsert(server: &Server, id: &str, priority: Option<&str>) -> Answer {
    let call = server.post(ITEMS).key(r#"["k"]"#).header("x-ms-documentdb-is-upsert", "true");
    let call = match priority {
        Some(priority) => call.header("x-ms-cosmos-priority-level", priority),
        None => call,
    };
    call.json(json!({ "id": id, "pk": "k" })).send().await
}

/// Writes until the budget is spent; returns the refusal, and the request units charged before it.
async fn spend(server: &Server, priority: Option<&str>) -> (Answer, f64) {
    let mut charged = 0.0;
    loop {
        let answer = upsert(server, "a", priority).await;
        if answer.status >= 400 {
            return (answer, charged);
        }
        charged += answer.charge();
        assert!(charged < 1_000.0, "nothing refuses");
    }
}

fn wait_of(answer: &Answer) -> u64 {
    answer.header("x-ms-retry-after-ms").expect("the time to wait").parse().expect("a whole number")
}

#[tokio::test]
async fn a_spent_budget_is_429_with_the_time_to_wait() {
    let server = metered(AccountOptions::default()).await;
    let (refused, charged) = spend(&server, None).await;
    assert!((400.0..415.0).contains(&charged), "{charged}");
    assert_eq!(refused.header("x-ms-request-charge"), Some("0"));
    let wait = wait_of(&refused);
    let refused = refused.refused(429, 3200, "Request rate is large.");
    assert_eq!(refused.json()["code"], "TooManyRequests");
    assert!((1..=40).contains(&wait), "{wait} ms");
    server.clock.advance(Duration::from_millis(wait - 1));
    let early = server.item("GET", "a", r#"["k"]"#).send().await.refused(429, 3200, "Request rate is large.");
    assert!(wait_of(&early) > 1, "it is told to come after the one before it");
    server.clock.advance(Duration::from_millis(1));
    upsert(&server, "a", None).await.expect(200);
}

#[tokio::test]
async fn resources_are_read_and_changed_without_the_containers_budget() {
    let server = metered(AccountOptions::default()).await;
    spend(&server, None).await;
    server.get("/dbs/db/colls/items").send().await.expect(200);
    server.get("/dbs/db/colls/items/pkranges").send().await.expect(200);
    server.get("/offers").send().await.expect(200);
}

#[tokio::test]
async fn low_priority_is_refused_first_and_other_priorities_are_unknown() {
    let server = metered(AccountOptions::default()).await;
    let (refused, charged) = spend(&server, Some("low")).await;
    refused.refused(429, 3200, "Request rate is large.");
    assert!((280.0..295.0).contains(&charged), "30 % are left: {charged}");
    upsert(&server, "a", Some("High")).await.expect(200);
    upsert(&server, "a", None).await.expect(200);
    upsert(&server, "a", Some("Medium")).await.refused(400, 0, "x-ms-cosmos-priority-level");
}

#[tokio::test]
async fn operations_of_a_bulk_request_have_their_own_429_and_a_batch_one() {
    let server = metered(AccountOptions::default()).await;
    let operation = |number: u32| {
        json!({
            "operationType": "Upsert", "partitionKey": "[\"k\"]",
            "resourceBody": { "id": format!("b{number}"), "pk": "k" },
        })
    };
    let operations: Vec<Value> = (0..100).map(operation).collect();
    let call = server.post(ITEMS).header("x-ms-cosmos-is-batch-request", "true");
    let call = call.header("x-ms-cosmos-batch-atomic", "false");
    let call = call.header("x-ms-cosmos-batch-continue-on-error", "true");
    let answer = call.json(json!(operations)).send().await.expect(207);
    let (done, refused): (Vec<u64>, Vec<u64>) =
        statuses(&answer).into_iter().partition(|status| *status == 201);
    assert!(
        !done.is_empty() && !refused.is_empty() && refused.iter().all(|status| *status == 429),
        "{answer:?}"
    );
    let results = answer.json();
    let refused = results.as_array().expect("results").iter().find(|result| result["statusCode"] == 429);
    let refused = refused.expect("one is refused");
    assert_eq!(refused["subStatusCode"], 3200);
    assert_eq!(refused["requestCharge"], 0);
    assert!(refused["retryAfterMilliseconds"].as_u64().expect("a whole number") >= 1);
    let batch = crate::batch::atomic(&server, json!([operation(1)])).await.refused(429, 3200, "");
    assert!(wait_of(&batch) >= 1);
}

#[tokio::test]
async fn enforcement_can_be_switched_off_and_charges_remain() {
    let options = AccountOptions { throughput: Enforcement::Unlimited, ..AccountOptions::default() };
    let server = metered(options).await;
    for _ in 0..100 {
        assert!(upsert(&server, "a", Some("Low")).await.charge() > 5.0);
    }
}

#[tokio::test]
async fn a_serverless_account_has_no_throughput_to_set() {
    let options = AccountOptions { capacity: CapacityMode::Serverless, ..AccountOptions::default() };
    let server = Server::with_account(options).await;
    let words = "not supported for serverless accounts";
    server
        .post("/dbs")
        .header("x-ms-offer-throughput", "400")
        .json(json!({ "id": "db" }))
        .send()
        .await
        .refused(400, 0, words);
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let create = || server.post("/dbs/db/colls").json(json!({ "id": "items", "partitionKey": key }));
    let autoscale = create().header("x-ms-cosmos-offer-autopilot-settings", r#"{"maxThroughput":1000}"#);
    autoscale.send().await.refused(400, 0, words);
    create().send().await.expect(201);
    assert_eq!(server.get("/offers").send().await.expect(200).json()["_count"], 0);
    upsert(&server, "a", None).await.expect(201);
}

#[tokio::test]
async fn containers_that_share_the_throughput_of_their_database_have_a_header() {
    let server = Server::start().await;
    let name = "x-ms-share-throughput";
    for (database, units) in [("shared", Some("1000")), ("plain", None)] {
        let create = server.post("/dbs").json(json!({ "id": database }));
        let create =
            units.into_iter().fold(create, |call, units| call.header("x-ms-offer-throughput", units));
        create.send().await.expect(201);
        let definition = |id: &str| json!({ "id": id, "partitionKey": { "paths": ["/pk"] } });
        let containers = format!("/dbs/{database}/colls");
        let expected = units.map(|_| "true");
        let sharing = server.post(&containers).json(definition("sharing")).send().await.expect(201);
        let own = server.post(&containers).json(definition("own")).header("x-ms-offer-throughput", "400");
        let own = own.send().await.expect(201);
        assert_eq!((sharing.header(name), own.header(name)), (expected, None), "{database}");
        let at = |id: &str| format!("{containers}/{id}");
        let read = server.get(at("sharing")).send().await.expect(200);
        let replaced = server.put(at("sharing")).json(definition("sharing")).send().await.expect(200);
        assert_eq!((read.header(name), replaced.header(name)), (expected, expected), "{database}");
        assert_eq!(server.get(at("own")).send().await.expect(200).header(name), None, "{database}");
    }
}

/// The offer of a new container that asks for throughput with this header.
async fn offer_of(server: &Server, id: &str, (name, value): (&'static str, &str)) -> Value {
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let call = server.post("/dbs/db/colls").json(json!({ "id": id, "partitionKey": key }));
    let container = call.header(name, value).send().await.expect(201).json();
    let offers = server.get("/offers").send().await.expect(200).json();
    let offers = offers["Offers"].as_array().expect("an array");
    let own = offers.iter().find(|offer| offer["offerResourceId"] == container["_rid"]);
    own.expect("the container has an offer").clone()
}

fn put_offer<'s>(server: &'s Server, offer: &Value, content: Value) -> Call<'s> {
    let mut offer = offer.clone();
    offer["content"] = content;
    server.put(format!("/offers/{}", offer["_rid"].as_str().expect("text"))).json(offer)
}

#[tokio::test]
async fn a_migration_to_autoscale_has_no_settings_in_its_content() {
    let server = Server::with_container().await;
    let manual = offer_of(&server, "manual", ("x-ms-offer-throughput", "400")).await;
    let settings = json!({ "offerThroughput": 400, "offerAutopilotSettings": { "maxThroughput": 4000 } });
    let to_autoscale = "x-ms-cosmos-migrate-offer-to-autopilot";
    let both = put_offer(&server, &manual, settings.clone()).header(to_autoscale, "true").send().await;
    both.refused(400, 0, "must not contain autopilotSettings");
    let without = put_offer(&server, &manual, settings).send().await;
    without.refused(400, 0, "x-ms-cosmos-migrate-offer-to-autopilot");
    let alone = put_offer(&server, &manual, manual["content"].clone()).header(to_autoscale, "true");
    let migrated = alone.send().await.expect(200).json();
    assert_eq!(migrated["content"]["offerAutopilotSettings"]["maxThroughput"], 1000);
}

#[tokio::test]
async fn an_offer_shows_the_growth_policy_that_was_sent_last() {
    let server = Server::with_container().await;
    let header = ("x-ms-cosmos-offer-autopilot-settings", r#"{"maxThroughput":4000}"#);
    let made = offer_of(&server, "scaled", header).await;
    let growth = |offer: &Value| offer["content"]["offerAutopilotSettings"].get("autoUpgradePolicy").cloned();
    let none = json!({ "throughputPolicy": { "incrementPercent": 0 } });
    assert_eq!(growth(&made), Some(none), "clients write into it");
    let without = json!({ "offerAutopilotSettings": { "maxThroughput": 5000 } });
    let replaced = put_offer(&server, &made, without).send().await.expect(200).json();
    assert_eq!(growth(&replaced), None);
    let policy = json!({ "throughputPolicy": { "incrementPercent": 3 } });
    let with = json!({ "offerAutopilotSettings": { "maxThroughput": 5000, "autoUpgradePolicy": policy } });
    let replaced = put_offer(&server, &made, with).send().await.expect(200).json();
    assert_eq!(growth(&replaced), Some(policy));
}

#[tokio::test]
async fn an_offer_whose_ids_are_null_is_none() {
    let server = Server::with_container().await;
    let mut offer = offer_of(&server, "c", ("x-ms-offer-throughput", "400")).await;
    let path = format!("/offers/{}", offer["_rid"].as_str().expect("text"));
    for member in ["id", "_rid"] {
        let own = std::mem::take(&mut offer[member]);
        server.put(path.as_str()).json(offer.clone()).send().await.refused(400, 0, "'null'");
        offer[member] = own;
    }
    server.put(path.as_str()).json(offer).send().await.expect(200);
}
