//! Procedures and triggers at work, as clients see it: bodies, statuses, headers, and stored items.

use serde_json::{Value, json};

use crate::harness::{Answer, Call, ITEMS, Server};

const CONTAINER: &str = "/dbs/db/colls/items";
const LOG: &str = "x-ms-documentdb-script-log-results";

/// A container with procedures by name and text.
async fn with_procedures(procedures: &[(&str, &str)]) -> Server {
    let server = Server::with_container().await;
    for (id, body) in procedures {
        let definition = json!({ "id": id, "body": body });
        server.post(format!("{CONTAINER}/sprocs")).json(definition).send().await.expect(201);
    }
    server
}

fn run<'s>(server: &'s Server, id: &str, arguments: Value) -> Call<'s> {
    server.post(format!("{CONTAINER}/sprocs/{id}/")).key(r#"["k"]"#).json(arguments)
}

const CREATE: &str = "function (id, fails) {
    var collection = getContext().getCollection();
    collection.createDocument(collection.getSelfLink(), { id: id, pk: 'k' }, {}, function (error, created) {
        if (error) throw error;
        if (fails) throw new Error('second thoughts');
        getContext().getResponse().setBody(created.id);
    });
}";

#[tokio::test]
async fn the_reply_is_what_the_procedure_set() {
    let server = with_procedures(&[
        ("echo", "function (a, b) { getContext().getResponse().setBody([a, b === undefined]); }"),
        ("text", "function () { getContext().getResponse().setBody('Success!'); }"),
        ("nothing", "function () { }"),
        ("method", "run() { getContext().getResponse().setBody(1); }"),
        ("null", "function () { getContext().getResponse().setBody(null); }"),
        (
            "append",
            "function () { for (var i = 0; i < 3; i++) getContext().getResponse().appendValue('Body', i); }",
        ),
    ])
    .await;
    let answer = run(&server, "echo", json!([{ "a": [1, "\u{e9}"] }])).send().await.expect(200);
    assert_eq!(answer.json(), json!([{ "a": [1, "\u{e9}"] }, true]));
    assert!(answer.charge() > 0.0);
    for header in
        ["x-ms-session-token", "lsn", "x-ms-alt-content-path", "x-ms-documentdb-partitionkeyrangeid"]
    {
        assert!(answer.header(header).is_some(), "{header}");
    }
    for (id, body) in [
        ("text", r#""Success!""#),
        ("nothing", r#""""#),
        ("method", "1"),
        ("null", "null"),
        ("append", r#""012""#),
    ] {
        assert_eq!(run(&server, id, json!([])).send().await.expect(200).text, body, "{id}");
    }
    let bare = server.post(format!("{CONTAINER}/sprocs/echo")).key(r#"["k"]"#);
    assert_eq!(bare.send().await.expect(200).json(), json!([null, true]));
}

#[tokio::test]
async fn the_key_is_required_and_the_arguments_are_a_list() {
    let count = "function (a) { getContext().getResponse().setBody([arguments.length, a === undefined]); }";
    let server = with_procedures(&[("p", "function () { }"), ("count", count)]).await;
    let path = format!("{CONTAINER}/sprocs/p");
    server.post(path.as_str()).send().await.refused(400, 0, "PartitionKey value must be supplied");
    for body in ["1", "[1", "\"text\"", "false"] {
        server.post(path.as_str()).key("[1]").body(body).send().await.refused(400, 0, "JSON array");
    }
    for (body, counted) in [
        ("{}", json!([0, true])),
        (r#"{"0":"a","length":1}"#, json!([1, false])),
        (r#"{"0":"a","length":100}"#, json!([100, false])),
        (r#"{"param":4}"#, json!([0, true])),
        ("null", json!([0, true])),
    ] {
        let answer = server.post(format!("{CONTAINER}/sprocs/count")).key("[1]").body(body).send().await;
        assert_eq!(answer.expect(200).json(), counted, "{body}");
    }
    let endless = server.post(path.as_str()).key("[1]").body(r#"{"length":1e9}"#);
    endless.send().await.refused(400, 400, "at most 65534 arguments");
    server.post(path.as_str()).key(r#"["a","b"]"#).send().await.expect(400);
    run(&server, "q", json!([])).send().await.refused(404, 0, "stored procedure 'q'");
    let stale = run(&server, "p", json!([])).header("x-ms-cosmos-intended-collection-rid", "AAAAAYAAAAE=");
    stale.send().await.refused(400, 1024, "refresh");
}

#[tokio::test]
async fn arguments_above_2_mb_are_refused_and_nothing_runs() {
    let server = with_procedures(&[("create", CREATE)]).await;
    let create = |id: &str, bytes: usize| run(&server, "create", json!([id, false, "x".repeat(bytes)]));
    create("below", 2_000_000).send().await.expect(200);
    create("above", 2_200_000).send().await.refused(413, 0, "Request size is too large");
    server.item("GET", "below", r#"["k"]"#).send().await.expect(200);
    server.item("GET", "above", r#"["k"]"#).send().await.expect(404);
}

#[tokio::test]
async fn a_procedure_that_fails_leaves_nothing_and_says_why() {
    let server = with_procedures(&[
        ("create", CREATE),
        ("throw", "function () { throw 'plain text'; }"),
        ("number", "function () { throw new Error(ErrorCodes.NotFound, 'no such order'); }"),
        ("syntax", "function () { nobody.knows(); }"),
    ])
    .await;
    let created = run(&server, "create", json!(["a", false])).send().await.expect(200);
    assert_eq!(created.json(), "a");
    server.item("GET", "a", r#"["k"]"#).send().await.expect(200);
    let failed = run(&server, "create", json!(["b", true])).send().await;
    let failed = failed.refused(
        400,
        0,
        "Encountered exception while executing Javascript. Exception = Error: second thoughts",
    );
    assert_eq!(failed.json()["code"], "BadRequest");
    server.item("GET", "b", r#"["k"]"#).send().await.expect(404);
    run(&server, "throw", json!([])).send().await.refused(400, 0, "plain text");
    run(&server, "syntax", json!([])).send().await.refused(400, 0, "nobody");
    // A conflict that the script does not handle is the script's failure.
    run(&server, "create", json!(["a", false])).send().await.refused(400, 409, "already exists");
    // The number of an error is the sub-status, whether it was given to the script or made by it.
    run(&server, "number", json!([])).send().await.refused(400, 404, "Exception = Error: no such order");
    // Run with another partition key than that of the item that it writes.
    let elsewhere =
        server.post(format!("{CONTAINER}/sprocs/create")).key(r#"["other"]"#).json(json!(["c", false]));
    elsewhere.send().await.expect(400);
}

#[tokio::test]
async fn logs_come_on_request_percent_encoded() {
    let server = with_procedures(&[
        ("log", "function () { console.log('The value of %s is %s.', 'x', 1); }"),
        ("long", "function () { for (var i = 0; i < 5000; i++) console.log('line ' + i); }"),
    ])
    .await;
    let asking = |id: &'static str, asks: &str| {
        run(&server, id, json!([])).header("x-ms-documentdb-script-enable-logging", asks)
    };
    let told = asking("log", "True").send().await.expect(200);
    assert_eq!(told.header(LOG), Some("The%20value%20of%20x%20is%201."));
    assert_eq!(run(&server, "log", json!([])).send().await.expect(200).header(LOG), None);
    assert_eq!(asking("log", "false").send().await.expect(200).header(LOG), None);
    asking("log", "perhaps").send().await.expect(400);
    let long = asking("long", "true").send().await.expect(200);
    let log = long.header(LOG).expect("a log");
    assert!(log.len() <= 8192 && log.starts_with("line%200"), "{}", log.len());
}

#[tokio::test]
async fn a_running_procedure_is_the_one_that_was_found() {
    let server = with_procedures(&[("p", "function () { getContext().getResponse().setBody(1); }")]).await;
    assert_eq!(run(&server, "p", json!([])).send().await.expect(200).text, "1");
    let other = json!({ "id": "p", "body": "function () { getContext().getResponse().setBody(2); }" });
    server.put(format!("{CONTAINER}/sprocs/p")).json(other).send().await.expect(200);
    assert_eq!(run(&server, "p", json!([])).send().await.expect(200).text, "2");
    let by_rid = server.get(format!("{CONTAINER}/sprocs/p")).send().await.expect(200).json();
    let link = format!("/{}", by_rid["_self"].as_str().expect("text"));
    assert_eq!(server.post(link).key(r#"["k"]"#).send().await.expect(200).text, "2");
    server.delete(format!("{CONTAINER}/sprocs/p")).send().await.expect(204);
    run(&server, "p", json!([])).send().await.expect(404);
}

async fn with_triggers(triggers: &[(&str, &str, &str, &str)]) -> Server {
    let server = Server::with_container().await;
    for (id, trigger_type, operation, body) in triggers {
        let definition =
            json!({ "id": id, "body": body, "triggerType": trigger_type, "triggerOperation": operation });
        server.post(format!("{CONTAINER}/triggers")).json(definition).send().await.expect(201);
    }
    server
}

fn naming<'s>(call: Call<'s>, pre: &str, post: &str) -> Call<'s> {
    call.header("x-ms-documentdb-pre-trigger-include", pre)
        .header("x-ms-documentdb-post-trigger-include", post)
}

const STAMP: &str = "function () {
    var request = getContext().getRequest(), item = request.getBody();
    item.stamp = request.getOperationType();
    request.setBody(item);
}";
const AUDIT: &str = "function () {
    var context = getContext(), collection = context.getCollection(), item = context.getResponse().getBody();
    if (item.poison) throw new Error('refused afterwards');
    collection.createDocument(collection.getSelfLink(), { id: item.id + ' audit', pk: item.pk }, {}, function (error) {
        if (error) throw error;
    });
}";

#[tokio::test]
async fn triggers_run_where_they_are_named_and_nowhere_else() {
    let server = with_triggers(&[
        ("stamp", "Pre", "All", STAMP),
        ("audit", "Post", "Create", AUDIT),
        ("answer", "post", "all", "function () { getContext().getResponse().setBody('mine'); }"),
    ])
    .await;
    let create = |item: Value| server.post(ITEMS).key(r#"["k"]"#).json(item);
    let stamp = |answer: Answer| answer.json()["stamp"].clone();

    let created = naming(create(json!({ "id": "a", "pk": "k" })), "stamp", "audit").send().await.expect(201);
    assert_eq!(stamp(created), "Create");
    server.item("GET", "a%20audit", r#"["k"]"#).send().await.expect(200);
    let plain = create(json!({ "id": "b", "pk": "k" })).send().await.expect(201);
    assert_eq!(stamp(plain), Value::Null);

    let item = json!({ "id": "b", "pk": "k" });
    let replaced = naming(server.item("PUT", "b", r#"["k"]"#).json(item.clone()), "stamp", "").send().await;
    assert_eq!(stamp(replaced.expect(200)), "Replace");
    let upsert = create(item).header("x-ms-documentdb-is-upsert", "True");
    assert_eq!(stamp(naming(upsert, "stamp", "").send().await.expect(200)), "Upsert");
    let answered = naming(create(json!({ "id": "c", "pk": "k" })), "", "answer").send().await.expect(201);
    assert_eq!(answered.text, r#""mine""#);
    let silent =
        naming(create(json!({ "id": "d", "pk": "k" })), "", "answer").header("prefer", "return=minimal");
    assert_eq!(silent.send().await.expect(201).text, "");
    naming(server.item("DELETE", "d", r#"["k"]"#), "", "answer").send().await.expect(204);
}

#[tokio::test]
async fn the_item_is_the_object_as_it_is_when_the_pre_trigger_ends() {
    let late = "function () {
        var context = getContext(), request = context.getRequest(), items = context.getCollection();
        var item = request.getBody();
        request.setBody(item);
        item.stamp = 'after';
        items.readDocument(items.getAltLink() + '/docs/there', {}, function (error, found) {
            if (error) throw error;
            item.found = found.n;
        });
    }";
    let server = with_triggers(&[("late", "Pre", "All", late)]).await;
    server.create(json!({ "id": "there", "pk": "k", "n": 7 })).await;
    let call = server.post(ITEMS).key(r#"["k"]"#).json(json!({ "id": "a", "pk": "k" }));
    let created = naming(call, "late", "").send().await.expect(201).json();
    assert_eq!((&created["stamp"], &created["found"]), (&json!("after"), &json!(7)));
    let stored = server.item("GET", "a", r#"["k"]"#).send().await.expect(200).json();
    assert_eq!(stored, created);
}

#[tokio::test]
async fn triggers_of_a_delete_see_the_item() {
    let keep = "function () {
        var context = getContext(), items = context.getCollection(), item = context.getRequest().getBody();
        if (!item) throw new Error('no item');
        var copy = { id: item.id + ' kept', pk: item.pk, n: item.n, etag: item._etag };
        items.createDocument(items.getSelfLink(), copy, {}, function (error) { if (error) throw error; });
    }";
    let server = with_triggers(&[
        ("before", "Pre", "Delete", keep),
        ("after", "Post", "Delete", keep),
        ("any", "Pre", "Delete", "function () { }"),
    ])
    .await;
    for (id, pre, post) in [("a", "before", ""), ("b", "", "after"), ("c", "any", "after")] {
        let item = server.create(json!({ "id": id, "pk": "k", "n": 7 })).await.json();
        let link = match id {
            "c" => format!("/{}", item["_self"].as_str().expect("text")),
            id => format!("{ITEMS}/{id}"),
        };
        naming(server.delete(link).key(r#"["k"]"#), pre, post).send().await.expect(204);
        server.item("GET", id, r#"["k"]"#).send().await.expect(404);
        let kept = server.item("GET", &format!("{id}%20kept"), r#"["k"]"#).send().await.expect(200).json();
        assert_eq!((&kept["n"], &kept["etag"]), (&json!(7), &item["_etag"]));
    }
    let missing = naming(server.item("DELETE", "none", r#"["k"]"#), "any", "after").send().await;
    missing.refused(404, 0, "does not exist");
}

#[tokio::test]
async fn responses_of_scripts_show_the_storage_of_the_container() {
    let quotas = "function () {
        var response = getContext().getResponse();
        response.setBody([response.getResourceQuotaCurrentUsage(), response.getMaxResourceQuota()]);
    }";
    let server = with_procedures(&[("quotas", quotas)]).await;
    let trigger = json!({ "id": "quotas", "body": quotas, "triggerType": "Post", "triggerOperation": "All" });
    server.post(format!("{CONTAINER}/triggers")).json(trigger).send().await.expect(201);
    server.create(json!({ "id": "a", "pk": "k" })).await;
    let container = server.get(CONTAINER).header("x-ms-documentdb-populatequotainfo", "true").send().await;
    let header = |name: &str| json!(container.header(name).expect(name));
    let expected = json!([header("x-ms-resource-usage"), header("x-ms-resource-quota")]);
    assert!(expected[0].as_str().expect("text").contains("documentsCount=1;"), "{expected}");
    assert_eq!(run(&server, "quotas", json!([])).send().await.expect(200).json(), expected);
    let create = server.post(ITEMS).key(r#"["k"]"#).json(json!({ "id": "b", "pk": "k" }));
    let told = naming(create, "", "quotas").send().await.expect(201).json();
    assert_eq!(told[1], expected[1]);
    assert!(told[0].as_str().expect("text").contains("collectionSize="), "{told}");
}

#[tokio::test]
async fn a_write_and_its_triggers_happen_together_or_not_at_all() {
    let server = with_triggers(&[
        ("stamp", "Pre", "Delete", STAMP),
        ("audit", "Post", "Create", AUDIT),
        ("no", "Pre", "All", "function () { throw new Error('refused before'); }"),
    ])
    .await;
    let create = |item: Value| server.post(ITEMS).key(r#"["k"]"#).json(item);
    let poisoned = naming(create(json!({ "id": "a", "pk": "k", "poison": 1 })), "", "audit").send().await;
    poisoned.refused(400, 0, "refused afterwards");
    naming(create(json!({ "id": "a", "pk": "k" })), "no", "").send().await.refused(400, 0, "refused before");
    // Unknown, of the other type, for another operation.
    for (pre, post, word) in
        [("none", "", "none"), ("audit", "", "audit"), ("stamp", "", "stamp"), ("", "none", "none")]
    {
        naming(create(json!({ "id": "a", "pk": "k" })), pre, post).send().await.refused(400, 0, word);
    }
    server.item("GET", "a", r#"["k"]"#).send().await.expect(404);
}

const TRIAL: &str = "/_shardlake/v1/dbs/db/colls/items/scripts/run";

async fn try_out(server: &Server, body: Value) -> Answer {
    server.post(TRIAL).json(body).send().await
}

#[tokio::test]
async fn a_dry_run_tells_what_it_would_write_and_leaves_nothing() {
    let server = Server::with_container().await;
    let _kept = server.create(json!({ "id": "there", "pk": "k", "n": 1 })).await;
    let text = "function (first, second) {
        console.log('creating', first);
        var items = getContext().getCollection();
        items.createDocument(items.getSelfLink(), { id: first, pk: 'k', n: second }, function (error, made) {
            if (error) throw error;
            items.deleteDocument(items.getAltLink() + '/docs/there', {}, function (error) {
                if (error) throw error;
                getContext().getResponse().setBody({ made: made.id, n: made.n });
            });
        });
    }";
    let body = |commit: bool| json!({ "kind": "procedure", "body": text, "partitionKey": ["k"], "arguments": ["new", 7], "commit": commit });
    let tried = try_out(&server, body(false)).await.expect(200);
    assert!(tried.charge() > 1.0);
    let tried = tried.json();
    assert_eq!((&tried["result"], &tried["committed"]), (&json!({ "made": "new", "n": 7 }), &json!(false)));
    assert_eq!(tried["log"], "creating new");
    let writes = json!([{ "operation": "create", "id": "new" }, { "operation": "delete", "id": "there" }]);
    assert_eq!(tried["writes"], writes);
    let _there = server.item("GET", "there", "[\"k\"]").send().await.expect(200);
    let _absent = server.item("GET", "new", "[\"k\"]").send().await.expect(404);
    let kept = try_out(&server, body(true)).await.expect(200).json();
    assert_eq!((&kept["committed"], &kept["writes"]), (&json!(true), &writes));
    let _gone = server.item("GET", "there", "[\"k\"]").send().await.expect(404);
    let _made = server.item("GET", "new", "[\"k\"]").send().await.expect(200);
}

#[tokio::test]
async fn a_failing_run_tells_its_log_and_its_place() {
    let server = Server::with_container().await;
    let body = |text: &str| json!({ "kind": "procedure", "body": text, "partitionKey": ["k"] });
    let thrown = "function () {\n  console.log('before');\n  undefinedThing();\n}";
    let failed = try_out(&server, body(thrown)).await.refused(400, 0, "undefinedThing");
    let told = failed.json();
    assert_eq!(
        (&told["log"], &told["line"], &told["code"]),
        (&json!("before"), &json!(3), &json!("BadRequest"))
    );
    assert!(told["column"].is_number() && told["charge"].as_f64() > Some(0.0), "{told}");
    let malformed = try_out(&server, body("function () {\n  var = 1;\n}")).await.expect(400).json();
    assert_eq!((&malformed["line"], &malformed["log"]), (&json!(2), &json!("")), "{malformed}");
}

#[tokio::test]
async fn a_trigger_is_tried_with_a_request() {
    let server = Server::with_container().await;
    let text = "function () {
        var request = getContext().getRequest(), item = request.getBody();
        console.log(request.getOperationType());
        item.stamped = true;
        request.setBody(item);
    }";
    let body = json!({
        "kind": "trigger", "body": text, "partitionKey": ["k"],
        "request": { "operation": "Create", "body": { "id": "1", "pk": "k" } },
    });
    let tried = try_out(&server, body).await.expect(200).json();
    assert_eq!(tried["result"], json!({ "id": "1", "pk": "k", "stamped": true }));
    assert_eq!((&tried["log"], &tried["writes"]), (&json!("Create"), &json!([])));
}

#[tokio::test]
async fn a_trigger_after_a_write_is_tried_with_the_write() {
    let server = Server::with_container().await;
    let _kept = server.create(json!({ "id": "there", "pk": "k", "n": 1 })).await;
    let text = "function () {
        var context = getContext(), items = context.getCollection(), response = context.getResponse();
        var item = response.getBody();
        console.log(context.getRequest().getOperationType());
        items.createDocument(items.getSelfLink(), { id: 'audit', pk: 'k' }, function (error) {
            if (error) throw error;
            response.setBody({ stored: item ? item.n : null });
        });
    }";
    let body = |request: Value| {
        json!({
            "kind": "trigger", "triggerType": "Post", "body": text, "partitionKey": ["k"], "request": request,
        })
    };
    let written =
        |operation: &str| json!({ "operation": operation, "body": { "id": "there", "pk": "k", "n": 7 } });
    for operation in ["Replace", "Upsert"] {
        let tried = try_out(&server, body(written(operation))).await.expect(200).json();
        assert_eq!(
            (&tried["result"], &tried["log"]),
            (&json!({ "stored": 7 }), &json!(operation)),
            "{tried}"
        );
        let writes = json!([
            { "operation": operation.to_lowercase(), "id": "there" }, { "operation": "create", "id": "audit" },
        ]);
        assert_eq!((&tried["writes"], &tried["committed"]), (&writes, &json!(false)));
    }
    let deleted = try_out(&server, body(json!({ "operation": "Delete", "id": "there" }))).await.expect(200);
    assert_eq!(deleted.json()["result"], json!({ "stored": null }));
    // An error of the write is the answer, as it would be without a trial.
    let _taken = try_out(&server, body(written("Create"))).await.refused(409, 0, "already exists");
    let elsewhere = json!({ "operation": "Create", "body": { "id": "x", "pk": "other" } });
    let _other_key = try_out(&server, body(elsewhere)).await.expect(400);
    let there = server.item("GET", "there", "[\"k\"]").send().await.expect(200).json();
    assert_eq!(there["n"], 1);
    let _absent = server.item("GET", "audit", "[\"k\"]").send().await.expect(404);
}

#[tokio::test]
async fn a_function_is_called_with_arguments() {
    let server = Server::with_container().await;
    let body =
        |text: &str, arguments: Value| json!({ "kind": "function", "body": text, "arguments": arguments });
    let sum = "function (a, b) { return { sum: a.n + b, list: [a, b] }; }";
    let called = try_out(&server, body(sum, json!([{ "n": 1 }, 2]))).await.expect(200);
    assert!(called.charge() > 0.0);
    let called = called.json();
    assert_eq!(called["result"], json!({ "sum": 3, "list": [{ "n": 1 }, 2] }));
    assert_eq!((&called["writes"], &called["committed"]), (&json!([]), &json!(false)));
    let nothing = try_out(&server, body("function () {}", json!([]))).await.expect(200).json();
    assert_eq!(nothing["result"], Value::Null);
    let failed = try_out(&server, body("function () { return missing; }", json!([]))).await;
    let failed = failed.refused(400, 0, "missing").json();
    assert!(failed["charge"].as_f64() > Some(0.0), "{failed}");
    let _no_function = try_out(&server, body("1 +", json!([]))).await.expect(400);
}

#[tokio::test]
async fn trials_are_for_full_keys_and_say_what_they_take() {
    let server = Server::with_container().await;
    let whole = json!({ "kind": "procedure", "body": "function () {}", "partitionKey": ["k"] });
    let call = server.post(TRIAL).json(whole.clone()).signed_with(crate::harness::READ_ONLY_KEY);
    let _refused = call.send().await.refused(403, 0, "read-only key");
    let with = |name: &str, value: Value| {
        let mut body = whole.clone();
        body[name] = value;
        body
    };
    for (body, status, words) in [
        (with("kind", json!("function")), 400, "'arguments' alone"),
        (with("kind", json!("x")), 400, "'x'"),
        (with("triggerType", json!("Post")), 400, "no 'request'"),
        (with("partitionKey", Value::Null), 400, "'partitionKey'"),
        (with("partitionKey", json!("k")), 400, "partition key"),
        (with("partitionKey", json!(["k", "l"])), 400, ""),
        (with("arguments", json!({})), 400, "array"),
        (with("request", json!({ "operation": "Create" })), 400, "no 'request'"),
        (with("dry", json!(true)), 400, "unknown field `dry`"),
    ] {
        let _answer = try_out(&server, body).await.refused(status, 0, words);
    }
}
