//! Rules for all commands.

use shardlake_gateway_mongo::MongoSettings;
use shardlake_mql::{Document, Value};

use crate::client::{OP_MSG, Server, body_section, doc, message};

#[tokio::test]
async fn every_field_that_every_command_may_have_is_checked() {
    let server = Server::start().await;
    let mut client = server.connect();
    let text = |text: &str| Value::string(text);
    for (code, name, value) in [
        (40415, "nosuch", Value::Null),
        (14, "maxTimeMS", text("5")),
        (9, "maxTimeMS", Value::Double(1.5)),
        (9, "maxTimeMS", Value::Double(f64::NAN)),
        (2, "maxTimeMS", Value::Int(-1)),
        (2, "maxTimeMS", Value::Long(1 << 31)),
        (14, "lsid", Value::Int(1)),
        (322, "apiVersion", text("2")),
        (14, "apiVersion", Value::Int(1)),
        (4886600, "apiStrict", Value::Bool(true)),
        (4886600, "apiDeprecationErrors", Value::Bool(false)),
        (14, "readConcern", text("local")),
        (2, "readConcern", Document::one("level", "nosuch").into()),
        (40415, "readConcern", Document::one("nosuch", 1).into()),
        (72, "readConcern", Document::one("level", "majority").into()),
        (14, "writeConcern", Value::Int(1)),
        (9, "writeConcern", Document::one("w", 51).into()),
        (9, "writeConcern", Document::one("w", true).into()),
        (40415, "writeConcern", Document::one("nosuch", 1).into()),
        (72, "autocommit", Value::Bool(true)),
        (14, "autocommit", Value::Int(0)),
    ] {
        let mut command = doc([("ping", Value::Int(1))]);
        command.push(name, value.clone());
        assert_eq!(client.fails("d", command).await, code, "{name}: {value}");
    }
    for (name, value) in [
        ("comment", Value::MinKey),
        ("maxTimeMS", Value::Double(1000.0)),
        ("apiVersion", text("1")),
        ("readConcern", Document::one("level", "local").into()),
        ("$readPreference", Document::one("mode", "primary").into()),
        ("$clusterTime", Document::one("clusterTime", Value::Timestamp(1, 1)).into()),
    ] {
        let mut command = doc([("ping", Value::Int(1))]);
        command.push(name, value);
        client.ok("d", command).await;
    }
}

#[tokio::test]
async fn databases_are_named_rightly_or_refused() {
    let server = Server::start().await;
    let mut client = server.connect();
    for wrong in [
        "",
        "a b",
        "a.b",
        "a$b",
        "a/b",
        "a\\b",
        "a\"b",
        "a*b",
        "a<b",
        "a>b",
        "a:b",
        "a|b",
        "a?b",
        &"x".repeat(64),
    ] {
        assert_eq!(client.fails(wrong, doc([("ping", Value::Int(1))])).await, 73, "{wrong}");
    }
    client.ok(&"x".repeat(63), doc([("ping", Value::Int(1))])).await;
    for (code, body) in [
        (40414, doc([("ping", Value::Int(1))])),
        (14, doc([("ping", Value::Int(1)), ("$db", Value::Int(1))])),
        (40413, doc([("ping", Value::Int(1)), ("$db", Value::string("d")), ("$db", Value::string("d"))])),
        (59, doc([("$db", Value::string("d"))])),
        (59, doc([("Ping", Value::Int(1)), ("$db", Value::string("d"))])),
    ] {
        client.send(OP_MSG, &message(0, &[body_section(&body)])).await;
        assert_eq!(client.receive().await.document().value("code").to_i32_exact(), Some(code));
    }
    assert_eq!(client.fails("d", doc([("getParameter", Value::string("*"))])).await, 13, "on admin only");
}

#[tokio::test]
async fn strict_clients_get_the_stable_commands_only() {
    let server = Server::start().await;
    let mut client = server.connect();
    let strict = |name: &str| {
        doc([
            (name, Value::string("c")),
            ("apiVersion", Value::string("1")),
            ("apiStrict", Value::Bool(true)),
        ])
    };
    client.ok("d", strict("ping")).await;
    client.ok("d", strict("find")).await;
    for unstable in ["serverStatus", "buildInfo", "isMaster", "killSessions"] {
        assert_eq!(client.fails("d", strict(unstable)).await, 323, "{unstable}");
    }
    let aggregate = |stage: Document| {
        let mut command = strict("aggregate");
        command.push("pipeline", Value::array(vec![stage.into()]));
        command.push("cursor", Document::new().into());
        command
    };
    client.ok("d", aggregate(Document::one("$match", Document::new()))).await;
    let index_stats = || Document::one("$indexStats", Document::new());
    let nested = doc([("from", Value::string("c")), ("pipeline", Value::array(vec![index_stats().into()]))]);
    for unstable in [
        index_stats(),
        Document::one("$collStats", Document::one("storageStats", Document::new())),
        Document::one("$lookup", nested),
    ] {
        assert_eq!(client.fails("d", aggregate(unstable)).await, 323);
    }
}

#[tokio::test]
async fn the_client_says_once_what_it_is() {
    let server = Server::start().await;
    let mut client = server.connect();
    let hello = |name: &str| {
        let driver = Document::one("driver", Document::one("name", name));
        doc([("hello", Value::Int(1)), ("client", driver.into())])
    };
    client.ok("admin", hello("a")).await;
    assert_eq!(client.fails("admin", hello("b")).await, 186);
}

#[tokio::test]
async fn fail_points_are_for_servers_that_are_started_for_tests() {
    let point = |mode: Value, data: Document| {
        doc([("configureFailPoint", Value::string("failCommand")), ("mode", mode), ("data", data.into())])
    };
    let commands = || Value::array(vec![Value::string("ping")]);
    let once = || Value::from(Document::one("times", 1));
    let server = Server::start().await;
    let mut client = server.connect();
    let data = doc([("failCommands", commands()), ("errorCode", Value::Int(91))]);
    assert_eq!(client.fails("admin", point(once(), data.clone())).await, 59);
    let server =
        Server::start_with(MongoSettings { has_test_commands: true, ..MongoSettings::default() }).await;
    let mut client = server.connect();
    client.ok("admin", point(once(), data)).await;
    let ping = || doc([("ping", Value::Int(1))]);
    assert_eq!(client.fails("admin", ping()).await, 91);
    client.ok("admin", ping()).await;
    let labels = Value::array(vec![Value::string("Mine")]);
    let data = doc([("failCommands", commands()), ("errorCode", Value::Int(5)), ("errorLabels", labels)]);
    client.ok("admin", point(once(), data)).await;
    let failed = client.run("admin", ping()).await;
    assert_eq!(failed.value("errorLabels").as_array().map(|labels| labels.len()), Some(1));
    let data = doc([("failCommands", commands()), ("closeConnection", Value::Bool(true))]);
    client.ok("admin", point(once(), data)).await;
    client.send(OP_MSG, &message(0, &[body_section(&crate::client::ping())])).await;
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn errors_of_writes_that_can_be_repeated_carry_the_label() {
    let server =
        Server::start_with(MongoSettings { has_test_commands: true, ..MongoSettings::default() }).await;
    let mut client = server.connect();
    let data =
        doc([("failCommands", Value::array(vec![Value::string("insert")])), ("errorCode", Value::Int(91))]);
    let point = doc([
        ("configureFailPoint", Value::string("failCommand")),
        ("mode", Value::string("alwaysOn")),
        ("data", data.into()),
    ]);
    client.ok("admin", point).await;
    let mut insert = doc([
        ("insert", Value::string("c")),
        ("documents", Value::array(vec![Document::one("_id", 1).into()])),
    ]);
    assert!(!client.run("d", insert.clone()).await.has("errorLabels"));
    insert.push("lsid", Document::one("id", Value::Binary(4, [1; 16].as_slice().into())).into());
    insert.push("txnNumber", Value::Long(1));
    let labels = client.run("d", insert).await.value("errorLabels");
    assert_eq!(
        labels.as_array().and_then(|labels| labels[0].as_str().map(str::to_owned)).as_deref(),
        Some("RetryableWriteError")
    );
}

#[tokio::test]
async fn commands_of_search_are_refused_by_a_code_of_their_own() {
    let server = Server::start().await;
    let mut client = server.connect();
    for name in ["createSearchIndexes", "updateSearchIndex", "dropSearchIndex", "listSearchIndexes"] {
        let reply = client.run("d", doc([(name, Value::string("c"))])).await;
        assert_eq!(reply.value("code").to_i32_exact(), Some(31082), "{name}");
        let codes = (reply.value("codeName"), reply.value("errmsg"));
        assert_eq!(codes.0.as_str(), Some("SearchNotEnabled"), "{name}");
        assert!(
            codes.1.as_str().is_some_and(|words| words.contains("Atlas") && words.contains(name)),
            "{name}"
        );
    }
    assert_eq!(client.fails("d", doc([("noSuchCommand", Value::Int(1))])).await, 59);
}
