//! How an operation or a question of the model looks on the wire, and how its answer is read.

use crate::model::{Definition, ItemChange, Key, Operation, Place, Put, Question, Seen, Stored};
use serde_json::{Value, json};
use shardlake_testkit::{Client, Request, Response, container_path, database_path, item_path, items_path};

/// Items whose text is shorter would not show a torn record.
pub const FILLER_LENGTH: usize = 300;
/// Times to live are far away: they are definitions here, nothing runs out.
const TTL_BASE: u64 = 1_000_000;

/// A request before it is signed.
#[derive(Debug, Clone)]
pub struct Wire {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

impl Wire {
    fn new(method: &'static str, path: String, body: &Value) -> Wire {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        Wire { method, path, headers: Vec::new(), body }
    }

    fn with(mut self, name: &'static str, value: impl ToString) -> Wire {
        self.headers.push((name, value.to_string()));
        self
    }

    pub fn signed(&self, client: &Client) -> Vec<u8> {
        self.request(|request| client.signed_bytes(request))
    }

    pub fn send(&self, client: &Client) -> std::io::Result<Response> {
        self.request(|request| client.send(request))
    }

    fn request<T>(&self, use_it: impl FnOnce(&Request<'_>) -> T) -> T {
        let headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        use_it(&Request {
            method: self.method,
            path: &self.path,
            headers: &headers,
            body: self.body.as_bytes(),
            resource: None,
        })
    }
}

/// `offer` is the rid of the offer where the operation replaces one.
pub fn wire_of(operation: &Operation, offer: Option<&str>) -> Wire {
    use Operation::*;
    let users = |database: &str| format!("{}/users", database_path(database));
    let user_path = |database: &str, user: &str| format!("{}/{user}", users(database));
    match operation {
        CreateDatabase { database, throughput } => {
            let wire = Wire::new("POST", "/dbs".to_owned(), &json!({ "id": database }));
            match throughput {
                Some(units) => wire.with("x-ms-offer-throughput", units),
                None => wire,
            }
        }
        DeleteDatabase { database } => Wire::new("DELETE", database_path(database), &Value::Null),
        CreateContainer { at, tag, definition, throughput } => {
            let path = format!("{}/colls", database_path(&at.database));
            Wire::new("POST", path, &definition_body(at, *tag, *definition))
                .with("x-ms-offer-throughput", throughput)
        }
        ReplaceContainer { at, tag, definition } => {
            Wire::new("PUT", path_of(at), &definition_body(at, *tag, *definition))
        }
        DeleteContainer { at } => Wire::new("DELETE", path_of(at), &Value::Null),
        ReplaceOffer { throughput, .. } => {
            let rid = offer.expect("the client looked the offer up");
            let content = json!({ "offerThroughput": throughput });
            let body = json!({ "id": rid, "_rid": rid, "offerVersion": "V2", "content": content });
            Wire::new("PUT", format!("/offers/{rid}"), &body)
        }
        CreateUser { database, user } => Wire::new("POST", users(database), &json!({ "id": user })),
        RenameUser { database, user, to } => {
            Wire::new("PUT", user_path(database, user), &json!({ "id": to }))
        }
        DeleteUser { database, user } => Wire::new("DELETE", user_path(database, user), &Value::Null),
        PutPermission { put, at, user, permission, tag } => {
            // An item of its own for each, because a user has one permission for one resource.
            let resource = format!("dbs/{}/colls/{}/docs/{tag}", at.database, at.container);
            let body = json!({ "id": permission, "permissionMode": "Read", "resource": resource });
            let feed = format!("{}/permissions", user_path(&at.database, user));
            put_wire(*put, feed, permission, &body)
        }
        DeletePermission { database, user, permission } => {
            let path = format!("{}/permissions/{permission}", user_path(database, user));
            Wire::new("DELETE", path, &Value::Null)
        }
        PutScript { put, at, script, tag } => {
            let body = json!({ "id": script, "body": format!("function () {{ return {tag}; }}") });
            put_wire(*put, format!("{}/sprocs", path_of(at)), script, &body)
        }
        DeleteScript { at, script } => {
            Wire::new("DELETE", format!("{}/sprocs/{script}", path_of(at)), &Value::Null)
        }
        Items { at, home, partition, changes } => item_wire(at, *home, partition, changes),
    }
}

fn put_wire(put: Put, feed: String, name: &str, body: &Value) -> Wire {
    match put {
        Put::Create => Wire::new("POST", feed, body),
        Put::Replace => Wire::new("PUT", format!("{feed}/{name}"), body),
    }
}

fn definition_body(at: &Place, tag: u64, definition: Definition) -> Value {
    json!({
        "id": at.container,
        "partitionKey": { "paths": [format!("/k{tag}")], "kind": "Hash", "version": 2 },
        "defaultTtl": TTL_BASE + definition.ttl,
        "indexingPolicy": {
            "indexingMode": "consistent",
            "includedPaths": [{ "path": "/*" }],
            "excludedPaths": [{ "path": format!("/x{}/*", definition.excluded) }],
        },
    })
}

fn item_wire(at: &Place, home: u64, partition: &str, changes: &[ItemChange]) -> Wire {
    let body = |id: &str, version: u64| item_body(home, partition, id, version);
    let feed = items_path(&at.database, &at.container);
    let wire = match changes {
        [ItemChange::Create { id, version }] => Wire::new("POST", feed, &body(id, *version)),
        [ItemChange::Upsert { id, version }] => {
            Wire::new("POST", feed, &body(id, *version)).with("x-ms-documentdb-is-upsert", "True")
        }
        [ItemChange::Replace { id, version }] => {
            Wire::new("PUT", item_path(&at.database, &at.container, id), &body(id, *version))
        }
        [ItemChange::Patch { id, version }] => {
            Wire::new("PATCH", item_path(&at.database, &at.container, id), &patch_body(*version))
        }
        [ItemChange::Delete { id }] => {
            Wire::new("DELETE", item_path(&at.database, &at.container, id), &Value::Null)
        }
        several => {
            let operation = |change: &ItemChange| match change {
                ItemChange::Create { id, version } => {
                    json!({ "operationType": "Create", "resourceBody": body(id, *version) })
                }
                ItemChange::Upsert { id, version } => {
                    json!({ "operationType": "Upsert", "resourceBody": body(id, *version) })
                }
                ItemChange::Replace { id, version } => {
                    json!({ "operationType": "Replace", "id": id, "resourceBody": body(id, *version) })
                }
                ItemChange::Patch { id, version } => {
                    json!({ "operationType": "Patch", "id": id, "resourceBody": patch_body(*version) })
                }
                ItemChange::Delete { id } => json!({ "operationType": "Delete", "id": id }),
            };
            let operations: Vec<Value> = several.iter().map(operation).collect();
            Wire::new("POST", feed, &json!(operations))
                .with("x-ms-cosmos-is-batch-request", "True")
                .with("x-ms-cosmos-batch-atomic", "True")
                .with("x-ms-cosmos-batch-continue-on-error", "False")
        }
    };
    wire.with("x-ms-documentdb-partitionkey", json!([partition]))
}

fn item_body(home: u64, partition: &str, id: &str, version: u64) -> Value {
    let mut item = json!({ "id": id, "home": home, "version": version, "filler": "x".repeat(FILLER_LENGTH) });
    item[format!("k{home}")] = json!(partition);
    item
}

fn patch_body(version: u64) -> Value {
    json!({ "operations": [{ "op": "set", "path": "/version", "value": version }] })
}

pub fn question_wire(question: &Question) -> Wire {
    match question {
        Question::Container(at) => Wire::new("GET", path_of(at), &Value::Null),
        Question::Item(at, key) => {
            Wire::new("GET", item_path(&at.database, &at.container, &key.id), &Value::Null)
                .with("x-ms-documentdb-partitionkey", json!([key.partition]))
        }
    }
}

/// `None` where the answer has no information, as under too much load.
pub fn seen_in(question: &Question, response: &Response) -> Option<Seen> {
    match (response.status, question) {
        (404, _) => Some(Seen::Nothing),
        (200, Question::Container(_)) => {
            let body = response.json();
            Some(Seen::Container(tag_of(&body), definition_of(&body)))
        }
        (200, Question::Item(..)) => Some(Seen::Item(stored_of(&response.json()).1)),
        _ => None,
    }
}

pub fn path_of(at: &Place) -> String {
    container_path(&at.database, &at.container)
}

/// The tag in the path of a container's partition key.
pub fn tag_of(container: &Value) -> u64 {
    number_in(&container["partitionKey"]["paths"][0])
}

pub fn definition_of(container: &Value) -> Definition {
    let ttl = container["defaultTtl"].as_u64().expect("every container has a time to live");
    let paths = container["indexingPolicy"]["excludedPaths"].as_array().expect("a list of paths");
    let own = paths
        .iter()
        .map(|path| &path["path"])
        .find(|path| path.as_str().is_some_and(|path| path.starts_with("/x")));
    Definition { ttl: ttl - TTL_BASE, excluded: number_in(own.expect("every policy excludes a path")) }
}

/// An item's key and contents, read from its own members.
pub fn stored_of(item: &Value) -> (Key, Stored) {
    assert_eq!(item["filler"].as_str().map(str::len), Some(FILLER_LENGTH), "damaged item {item}");
    let number = |name: &str| item[name].as_u64().unwrap_or_else(|| panic!("no '{name}' in {item}"));
    let home = number("home");
    let partition = item[format!("k{home}")].as_str().unwrap_or_else(|| panic!("no key in {item}"));
    let id = item["id"].as_str().unwrap_or_else(|| panic!("no id in {item}"));
    let key = Key { partition: partition.to_owned(), id: id.to_owned() };
    (key, Stored { home, version: number("version") })
}

/// The digits of a text.
pub fn number_in(text: &Value) -> u64 {
    let text = text.as_str().unwrap_or_else(|| panic!("{text} is no text"));
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number in {text}"))
}
