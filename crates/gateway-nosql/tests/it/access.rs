//! Authorization at the wire: every kind of request by every kind of caller.
//!
//! Denied is 403, but 401 for a write with a read-only key. Allowed is anything else: whether the thing asked for exists is another
//! matter.

use serde_json::json;

use crate::harness::{Call, READ_ONLY_KEY, Server};

/// The columns of the table, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    ReadWriteKey,
    ReadOnlyKey,
    /// The token of a permission for the container.
    ContainerRead,
    ContainerAll,
    /// The same, limited to the partition key `["k"]`.
    KeyRead,
    KeyAll,
    /// For the item `a`.
    ItemRead,
    ItemAll,
    /// For the stored procedure `s`.
    ScriptRead,
    ScriptAll,
    /// `All` on another container of the database.
    OtherContainer,
    /// `All` on a container of the same name in another database.
    OtherDatabase,
}

const COLUMNS: [Who; 12] = [
    Who::ReadWriteKey,
    Who::ReadOnlyKey,
    Who::ContainerRead,
    Who::ContainerAll,
    Who::KeyRead,
    Who::KeyAll,
    Who::ItemRead,
    Who::ItemAll,
    Who::ScriptRead,
    Who::ScriptAll,
    Who::OtherContainer,
    Who::OtherDatabase,
];

const C: &str = "/dbs/db/colls/items";
const K: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["k"]"#);
const Z: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["z"]"#);
const QUERY: (&str, &str) = ("content-type", "application/query+json");
const PLAN: (&str, &str) = ("x-ms-cosmos-is-query-plan-request", "True");
const UPSERT: (&str, &str) = ("x-ms-documentdb-is-upsert", "True");
const BATCH: (&str, &str) = ("x-ms-cosmos-is-batch-request", "True");
const ATOMIC: (&str, &str) = ("x-ms-cosmos-batch-atomic", "True");
const CHANGES: (&str, &str) = ("a-im", "Incremental Feed");
const SELECT: &str = r#"{"query":"SELECT * FROM c"}"#;
const ITEM: &str = r#"{"id":"a","pk":"k"}"#;

type Row = (&'static str, &'static str, &'static str, Vec<(&'static str, &'static str)>, String);

fn row(
    columns: &'static str,
    method: &'static str,
    path: &'static str,
    headers: &[(&'static str, &'static str)],
    body: &str,
) -> Row {
    (columns, method, path, headers.to_vec(), body.to_owned())
}

/// A bulk request with one operation, which names its key or, with an empty one, leaves it to the body.
fn bulk(key: &str) -> String {
    let body = if key.is_empty() { "k" } else { key };
    let named = if key.is_empty() { String::new() } else { format!(r#","partitionKey":"[\"{key}\"]""#) };
    format!(r#"[{{"operationType":"Upsert","resourceBody":{{"id":"bulk","pk":"{body}"}}{named}}}]"#)
}

/// Destructive requests come last.
fn table() -> Vec<Row> {
    let mut rows = vec![
        row("++ ++ ++ ++ ++ ++", "GET", "/", &[], ""),
        row("++ -- -- -- -- --", "GET", "/dbs", &[], ""),
        row("++ -- -- -- -- --", "POST", "/dbs", &[QUERY], SELECT),
        row("+- -- -- -- -- --", "POST", "/dbs", &[], r#"{"id":"new"}"#),
        row("++ -- -- -- -- --", "GET", "/dbs/db", &[], ""),
        row("++ -- -- -- -- --", "GET", "/dbs/db/colls", &[], ""),
        row("++ -- -- -- -- --", "POST", "/dbs/db/colls", &[QUERY], SELECT),
        row("+- -- -- -- -- --", "POST", "/dbs/db/colls", &[], r#"{"id":"x"}"#),
        row("++ -- -- -- -- --", "GET", "/offers", &[], ""),
        row("++ -- -- -- -- --", "POST", "/offers", &[QUERY], SELECT),
        row("++ -- -- -- -- --", "GET", "/offers/xxxx", &[], ""),
        row("+- -- -- -- -- --", "PUT", "/offers/xxxx", &[], "{}"),
        row("++ -- -- -- -- --", "GET", "/dbs/db/users", &[], ""),
        row("++ -- -- -- -- --", "POST", "/dbs/db/users", &[QUERY], SELECT),
        row("+- -- -- -- -- --", "POST", "/dbs/db/users", &[], r#"{"id":"x"}"#),
        row("+- -- -- -- -- --", "POST", "/dbs/db/users", &[UPSERT], r#"{"id":"x"}"#),
        row("++ -- -- -- -- --", "GET", "/dbs/db/users/ann", &[], ""),
        row("+- -- -- -- -- --", "PUT", "/dbs/db/users/x", &[], r#"{"id":"y"}"#),
        row("+- -- -- -- -- --", "DELETE", "/dbs/db/users/y", &[], ""),
        row("+- -- -- -- -- --", "GET", "/dbs/db/users/ann/permissions", &[], ""),
        row("+- -- -- -- -- --", "POST", "/dbs/db/users/ann/permissions", &[QUERY], SELECT),
        row("+- -- -- -- -- --", "POST", "/dbs/db/users/ann/permissions", &[], "{}"),
        row("+- -- -- -- -- --", "POST", "/dbs/db/users/ann/permissions", &[UPSERT], "{}"),
        row("+- -- -- -- -- --", "GET", "/dbs/db/users/ann/permissions/x", &[], ""),
        row("+- -- -- -- -- --", "PUT", "/dbs/db/users/ann/permissions/x", &[], "{}"),
        row("+- -- -- -- -- --", "DELETE", "/dbs/db/users/ann/permissions/x", &[], ""),
        row("++ -- -- -- -- --", "GET", "/dbs/db/clientencryptionkeys", &[], ""),
        row("++ -- -- -- -- --", "GET", "/_shardlake/v1/partitions", &[], ""),
        row("++ -- -- -- -- --", "GET", "/_shardlake/v1/dbs/db/colls/items/partitions", &[], ""),
        row("+- -- -- -- -- --", "POST", "/_shardlake/v1/dbs/db/colls/items/relocation/abort", &[], ""),
        row("++ ++ ++ ++ ++ --", "GET", C, &[], ""),
        row("++ ++ -- -- -- --", "GET", C, &[("x-ms-documentdb-populatequotainfo", "True")], ""),
        row("++ ++ -- -- -- --", "GET", C, &[("x-ms-documentdb-populatepartitionstatistics", "True")], ""),
        row("++ ++ ++ ++ ++ --", "GET", "/dbs/db/colls/items/pkranges", &[], ""),
        row("++ ++ -- -- -- --", "GET", "/dbs/db/colls/items/conflicts", &[], ""),
        row("++ ++ -- -- -- --", "POST", "/dbs/db/colls/items/conflicts", &[QUERY], SELECT),
        row("++ ++ -- -- -- --", "GET", "/dbs/db/colls/items/conflicts/x", &[], ""),
        row("+- -+ -- -- -- --", "DELETE", "/dbs/db/colls/items/conflicts/x", &[], ""),
        row("++ -- -- -- -- --", "GET", "/dbs/db/colls/items/docs/a/attachments", &[], ""),
        row("+- -- -- -- -- --", "PUT", C, &[], "{}"),
    ];
    rows.extend(on_items());
    rows.extend(on_scripts());
    rows.push(row("+- -- -- -- -- --", "DELETE", C, &[], ""));
    rows.push(row("+- -- -- -- -- --", "DELETE", "/dbs/db", &[], ""));
    rows
}

fn on_items() -> Vec<Row> {
    let docs = "/dbs/db/colls/items/docs";
    let (a, b) = ("/dbs/db/colls/items/docs/a", "/dbs/db/colls/items/docs/b");
    let clear = "/dbs/db/colls/items/operations/partitionkeydelete";
    let batch = r#"[{"operationType":"Upsert","resourceBody":{"id":"batch","pk":"k"}}]"#;
    let operation = r#"{"operations":[{"op":"set","path":"/x","value":1}]}"#;
    let mut rows = Vec::new();
    for (method, extra, body) in
        [("GET", None, ""), ("GET", Some(CHANGES), ""), ("POST", Some(QUERY), SELECT)]
    {
        let with = |more: &[_]| extra.iter().chain(more).copied().collect::<Vec<_>>();
        rows.push(row("++ ++ -- -- -- --", method, docs, &with(&[]), body));
        rows.push(row("++ ++ ++ -- -- --", method, docs, &with(&[K]), body));
        rows.push(row("++ ++ -- -- -- --", method, docs, &with(&[Z]), body));
        let range = ("x-ms-documentdb-partitionkeyrangeid", "0");
        rows.push(row("++ ++ -- -- -- --", method, docs, &with(&[range]), body));
        let span = [("x-ms-start-epk", ""), ("x-ms-end-epk", "FF")];
        rows.push(row("++ ++ -- -- -- --", method, docs, &with(&span), body));
    }
    rows.push(row("++ ++ ++ -- -- --", "POST", docs, &[QUERY, PLAN], SELECT));
    for extra in [&[][..], &[UPSERT]] {
        let with = |more: &[_]| extra.iter().chain(more).copied().collect::<Vec<_>>();
        rows.push(row("+- -+ -- -- -- --", "POST", docs, &with(&[]), ITEM));
        rows.push(row("+- -+ -+ -- -- --", "POST", docs, &with(&[K]), ITEM));
        rows.push(row("+- -+ -- -- -- --", "POST", docs, &with(&[Z]), ITEM));
    }
    rows.push(row("+- -+ -+ -- -- --", "POST", docs, &[BATCH, ATOMIC, K], batch));
    rows.push(row("+- -+ -- -- -- --", "POST", docs, &[BATCH, ATOMIC, Z], batch));
    rows.push(row("+- -+ -- -- -- --", "POST", docs, &[BATCH, ATOMIC], batch));
    rows.push(row("+- -+ -+ -- -- --", "POST", docs, &[BATCH], &bulk("k")));
    rows.push(row("+- -+ -- -- -- --", "POST", docs, &[BATCH, K], &bulk("z")));
    rows.push(row("+- -+ -- -- -- --", "POST", docs, &[BATCH, K], &bulk("")));
    rows.push(row("++ ++ ++ ++ -- --", "GET", a, &[K], ""));
    rows.push(row("++ ++ -- ++ -- --", "GET", a, &[Z], ""));
    rows.push(row("++ ++ -- ++ -- --", "GET", a, &[], ""));
    rows.push(row("++ ++ ++ -- -- --", "GET", b, &[K], ""));
    for (method, body) in [("PUT", ITEM), ("PATCH", operation), ("DELETE", "")] {
        rows.push(row("+- -+ -+ -- -- --", method, b, &[K], body));
        rows.push(row("+- -+ -- -+ -- --", method, a, &[Z], body));
        rows.push(row("+- -+ -- -+ -- --", method, a, &[], body));
        rows.push(row("+- -+ -+ -+ -- --", method, a, &[K], body));
    }
    rows.push(row("+- -+ -+ -- -- --", "POST", clear, &[K], ""));
    rows.push(row("+- -+ -- -- -- --", "POST", clear, &[Z], ""));
    rows.push(row("+- -+ -- -- -- --", "POST", clear, &[], ""));
    rows
}

fn on_scripts() -> Vec<Row> {
    let mut rows = Vec::new();
    let definition = r#"{"id":"s","body":"function () {}","triggerType":"Pre","triggerOperation":"All"}"#;
    for (feed, own, other) in [
        ("/dbs/db/colls/items/sprocs", "/dbs/db/colls/items/sprocs/s", "/dbs/db/colls/items/sprocs/t"),
        ("/dbs/db/colls/items/triggers", "/dbs/db/colls/items/triggers/s", "/dbs/db/colls/items/triggers/t"),
        ("/dbs/db/colls/items/udfs", "/dbs/db/colls/items/udfs/s", "/dbs/db/colls/items/udfs/t"),
    ] {
        let is_procedure = feed.ends_with("sprocs");
        rows.push(row("++ ++ ++ -- -- --", "GET", feed, &[], ""));
        rows.push(row("++ ++ ++ -- -- --", "POST", feed, &[QUERY], SELECT));
        rows.push(row("+- -- -- -- -- --", "POST", feed, &[], definition));
        rows.push(row("+- -- -- -- -- --", "POST", feed, &[UPSERT], definition));
        let columns = if is_procedure { "++ ++ ++ -- ++ --" } else { "++ ++ ++ -- -- --" };
        rows.push(row(columns, "GET", own, &[], ""));
        rows.push(row("++ ++ ++ -- -- --", "GET", other, &[], ""));
        rows.push(row("+- -- -- -- -- --", "PUT", own, &[], definition));
        if is_procedure {
            rows.push(row("+- -+ -+ -- -+ --", "POST", own, &[K], "[]"));
            rows.push(row("+- -+ -- -- -+ --", "POST", own, &[Z], "[]"));
            rows.push(row("+- -+ -- -- -+ --", "POST", own, &[], "[]"));
            rows.push(row("+- -+ -- -- -+ --", "POST", own, &[QUERY], "[]"));
            rows.push(row("+- -+ -+ -- -- --", "POST", other, &[K], "[]"));
        }
        rows.push(row("+- -- -- -- -- --", "DELETE", own, &[], ""));
    }
    rows
}

async fn token_of(server: &Server, who: Who) -> Option<String> {
    Some(match who {
        Who::ReadWriteKey | Who::ReadOnlyKey => return None,
        Who::ContainerRead => server.token_for("Read", "items").await,
        Who::ContainerAll => server.token_for("All", "items").await,
        Who::KeyRead | Who::KeyAll => {
            let mode = if who == Who::KeyRead { "Read" } else { "All" };
            let resource = "dbs/db/colls/items";
            let permission = json!({ "id": "key", "permissionMode": mode, "resource": resource, "resourcePartitionKey": ["k"] });
            server.permit_in("db", permission).await
        }
        Who::ItemRead => server.token_for("Read", "items/docs/a").await,
        Who::ItemAll => server.token_for("All", "items/docs/a").await,
        Who::ScriptRead => server.token_for("Read", "items/sprocs/s").await,
        Who::ScriptAll => server.token_for("All", "items/sprocs/s").await,
        Who::OtherContainer => server.token_for("All", "others").await,
        Who::OtherDatabase => {
            let resource = "dbs/elsewhere/colls/items";
            let permission = json!({ "id": "p", "permissionMode": "All", "resource": resource });
            server.permit_in("elsewhere", permission).await
        }
    })
}

/// With `db/items`, `db/others` and `elsewhere/items`.
pub async fn server() -> Server {
    let server = Server::with_container().await;
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    server.post("/dbs").json(json!({ "id": "elsewhere" })).send().await.expect(201);
    for (database, id) in [("db", "others"), ("elsewhere", "items")] {
        let container = json!({ "id": id, "partitionKey": key });
        server.post(format!("/dbs/{database}/colls")).json(container).send().await.expect(201);
    }
    server
}

fn as_caller<'s>(call: Call<'s>, who: Who, token: Option<&str>) -> Call<'s> {
    match (who, token) {
        (Who::ReadOnlyKey, _) => call.signed_with(READ_ONLY_KEY),
        (_, Some(token)) => call.token(token),
        (_, None) => call,
    }
}

#[tokio::test]
async fn every_request_is_allowed_or_denied_as_the_table_says() {
    for (column, who) in COLUMNS.into_iter().enumerate() {
        let server = server().await;
        let token = token_of(&server, who).await;
        for (columns, method, path, headers, body) in table() {
            let expected = columns.bytes().filter(|byte| *byte != b' ').nth(column).expect("a column");
            let mut call = server.call(method, path).body(body.as_str());
            for (name, value) in &headers {
                call = call.header(name, value);
            }
            let answer = as_caller(call, who, token.as_deref()).send().await;
            let asked = format!("{who:?}: {method} {path} {headers:?} {body}: {answer:?}");
            let is_denied = match answer.status {
                401 => who == Who::ReadOnlyKey && answer.message().contains("read-only key"),
                status => status == 403,
            };
            assert_eq!(is_denied, expected == b'-', "{asked}");
            assert!(is_denied || answer.status != 401, "{asked}");
        }
    }
}

#[tokio::test]
async fn nobody_is_let_in_without_a_key_or_a_token() {
    let server = server().await;
    for (_, method, path, headers, body) in table() {
        for authorization in [None, Some("type=resource&ver=1.0&sig=AAAA;AAAA;")] {
            let mut call = server.call(method, path).body(body.as_str()).unsigned();
            for (name, value) in &headers {
                call = call.header(name, value);
            }
            if let Some(token) = authorization {
                call = call.token(token);
            }
            let answer = call.send().await;
            assert_eq!(answer.status, 401, "{method} {path}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn a_read_only_key_does_not_write_by_calling_it_a_query() {
    let server = server().await;
    server.create(json!({ "id": "a", "pk": "k" })).await;
    for (method, path) in [
        ("DELETE", "/dbs/db/colls/items/docs/a"),
        ("PUT", "/dbs/db/colls/items/docs/a"),
        ("PATCH", "/dbs/db/colls/items/docs/a"),
        ("DELETE", "/dbs/db"),
        ("DELETE", C),
    ] {
        for header in [QUERY, PLAN, ("x-ms-documentdb-isquery", "True")] {
            let call = server.call(method, path).header(K.0, K.1).header(header.0, header.1);
            call.signed_with(READ_ONLY_KEY).send().await.refused(401, 0, "read-only key");
        }
    }
    server.item("GET", "a", K.1).send().await.expect(200);
}
