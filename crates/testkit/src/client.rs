//! A signed HTTP client over one kept-alive connection, with short forms for the usual steps of wire tests.
//!
//! Never retries: a test about lost acknowledgements must know that a request was sent once. After an error of the
//! transport the next request opens a new connection. [`Client::request`] panics on such errors, [`Client::try_request`]
//! returns them. One client serves one thread at a time; clone it (a new connection) for others.

use crate::link::{container_path, database_path, item_path, items_path, resource_of_path};
use crate::raw::RawConnection;
use crate::signature::{authorization, http_date_now};
use crate::{EMULATOR_KEY, Response};
use serde_json::{Value, json};
use std::io::Result;
use std::net::SocketAddr;
use std::sync::Mutex;

#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    key: String,
    connection: Mutex<Option<RawConnection>>,
}

impl Clone for Client {
    fn clone(&self) -> Self {
        Client::new(self.address, &self.key)
    }
}

/// A request before it is signed. `resource` replaces the type and link derived from the path.
#[derive(Debug, Clone, Default)]
pub struct Request<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
    pub resource: Option<(&'a str, &'a str)>,
}

impl Client {
    pub fn new(address: SocketAddr, key: &str) -> Client {
        Client { address, key: key.to_owned(), connection: Mutex::new(None) }
    }

    pub fn with_emulator_key(address: SocketAddr) -> Client {
        Client::new(address, EMULATOR_KEY)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// An unsigned connection of its own, to send anything at all.
    pub fn raw(&self) -> Result<RawConnection> {
        RawConnection::open(self.address)
    }

    /// # Panics
    /// When the exchange itself fails; any status is an answer.
    #[track_caller]
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.try_request(method, path, headers, body)
            .unwrap_or_else(|error| panic!("{method} {path} got no response: {error}"))
    }

    pub fn try_request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Response> {
        self.send(&Request { method, path, headers, body, resource: None })
    }

    /// Signs and sends. Headers of the caller come last and replace the defaults of the same name.
    pub fn send(&self, request: &Request<'_>) -> Result<Response> {
        let bytes = self.signed_bytes(request);
        let mut slot = self.connection.lock().expect("no test panics while it holds the connection");
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => RawConnection::open(self.address)?,
        };
        connection.send(&bytes)?;
        let response = connection.read_response(request.method)?;
        let closing = response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        if !closing {
            *slot = Some(connection);
        }
        Ok(response)
    }

    /// The bytes [`Client::send`] would send, for tests that spoil or delay them.
    pub fn signed_bytes(&self, request: &Request<'_>) -> Vec<u8> {
        let (resource_type, link) = match request.resource {
            Some((resource_type, link)) => (resource_type.to_owned(), link.to_owned()),
            None => resource_of_path(request.path),
        };
        let date = http_date_now();
        let signature = authorization(request.method, &resource_type, &link, &date, &self.key);
        let mut headers: Vec<(String, String)> = vec![
            ("host".into(), self.address.to_string()),
            ("accept".into(), "application/json".into()),
            ("x-ms-version".into(), "2020-07-15".into()),
            ("x-ms-date".into(), date),
            ("authorization".into(), signature),
            ("content-length".into(), request.body.len().to_string()),
        ];
        for (name, value) in request.headers {
            headers.retain(|(existing, _)| !existing.eq_ignore_ascii_case(name));
            headers.push(((*name).to_owned(), (*value).to_owned()));
        }
        let mut bytes = format!("{} {} HTTP/1.1\r\n", request.method, request.path).into_bytes();
        for (name, value) in headers {
            bytes.extend(format!("{name}: {value}\r\n").into_bytes());
        }
        bytes.extend(b"\r\n");
        bytes.extend(request.body);
        bytes
    }
}

/// Short forms. They return the response whatever its status; chain [`Response::expect_status`].
impl Client {
    #[track_caller]
    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.request("GET", path, headers, b"")
    }

    #[track_caller]
    pub fn delete(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.request("DELETE", path, headers, b"")
    }

    #[track_caller]
    pub fn post_json(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Response {
        self.request("POST", path, headers, body.to_string().as_bytes())
    }

    #[track_caller]
    pub fn put_json(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Response {
        self.request("PUT", path, headers, body.to_string().as_bytes())
    }

    #[track_caller]
    pub fn create_database(&self, database: &str) -> Response {
        self.post_json("/dbs", &[], &json!({ "id": database }))
    }

    /// A container keyed by one path, hashed by version 2, with the default throughput.
    #[track_caller]
    pub fn create_container(&self, database: &str, container: &str, key_path: &str) -> Response {
        let key = json!({ "paths": [key_path], "kind": "Hash", "version": 2 });
        self.create_container_of(database, &json!({ "id": container, "partitionKey": key }), &[])
    }

    #[track_caller]
    pub fn create_container_of(&self, database: &str, body: &Value, headers: &[(&str, &str)]) -> Response {
        self.post_json(&format!("{}/colls", database_path(database)), headers, body)
    }

    #[track_caller]
    pub fn read_container(&self, database: &str, container: &str) -> Response {
        self.get(&container_path(database, container), &[])
    }

    /// `key` is the partition key as a JSON array, such as `json!(["a"])`.
    #[track_caller]
    pub fn create_item(&self, database: &str, container: &str, key: &Value, item: &Value) -> Response {
        self.post_json(&items_path(database, container), &[partition_key(&key.to_string())], item)
    }

    #[track_caller]
    pub fn upsert_item(&self, database: &str, container: &str, key: &Value, item: &Value) -> Response {
        let headers =
            [("x-ms-documentdb-partitionkey", &*key.to_string()), ("x-ms-documentdb-is-upsert", "True")];
        self.post_json(&items_path(database, container), &headers, item)
    }

    #[track_caller]
    pub fn read_item(&self, database: &str, container: &str, key: &Value, id: &str) -> Response {
        self.get(&item_path(database, container, id), &[partition_key(&key.to_string())])
    }

    #[track_caller]
    pub fn replace_item(&self, database: &str, container: &str, key: &Value, item: &Value) -> Response {
        let id = item["id"].as_str().expect("an item to replace has an id");
        self.put_json(&item_path(database, container, id), &[partition_key(&key.to_string())], item)
    }

    #[track_caller]
    pub fn delete_item(&self, database: &str, container: &str, key: &Value, id: &str) -> Response {
        self.delete(&item_path(database, container, id), &[partition_key(&key.to_string())])
    }

    /// An atomic batch in one logical partition.
    #[track_caller]
    pub fn batch(&self, database: &str, container: &str, key: &Value, operations: &Value) -> Response {
        self.post_json(&items_path(database, container), &batch_headers(&key.to_string()), operations)
    }

    /// As [`Client::batch`], for writers whose server may be killed meanwhile.
    pub fn try_batch(
        &self,
        database: &str,
        container: &str,
        key: &Value,
        operations: &Value,
    ) -> Result<Response> {
        let body = operations.to_string();
        let key = key.to_string();
        self.try_request("POST", &items_path(database, container), &batch_headers(&key), body.as_bytes())
    }
}

fn partition_key(key: &str) -> (&str, &str) {
    ("x-ms-documentdb-partitionkey", key)
}

fn batch_headers(key: &str) -> [(&str, &str); 5] {
    [
        partition_key(key),
        ("content-type", "application/json"),
        ("x-ms-cosmos-is-batch-request", "True"),
        ("x-ms-cosmos-batch-atomic", "True"),
        ("x-ms-cosmos-batch-continue-on-error", "False"),
    ]
}
