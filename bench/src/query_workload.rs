//! The items and queries of the query benchmark: 1-KB documents, 100 to a logical partition, in 5 physical partitions.

use shardlake_testkit::{EMULATOR_KEY, ServerProcess};

use crate::Outcome;
use crate::loading::load_requests;
use crate::requests::Requests;
use crate::workload::{DATABASE, Signer, key_of, scattered};

pub const CONTAINER: &str = "queried";
/// Items that share a value of `group`.
pub const GROUP_SIZE: u64 = 10;

/// An item of about 1 KB. `slot` numbers the items of its logical partition, `group` is shared by 10 items anywhere, `rank`
/// is scattered over all items.
pub fn document(number: u64, id: &str, items: u64) -> String {
    let (key, slot) = (key_of(number), number % 100);
    let group = number % (items / GROUP_SIZE).max(1);
    let rank = number.wrapping_mul(2_654_435_761) % (1 << 32);
    format!(
        r#"{{"id":"{id}","pk":"{key}","slot":{slot},"group":{group},"rank":{rank},"name":"Mountain-100 Silver, 42","price":3399.99,"tags":["bike","mountain","silver"],"dimensions":{{"weight":20.77,"size":"42"}},"active":true,"description":"{}"}}"#,
        "A good item, described at length. ".repeat(15)
    )
}

/// Creates the container in 5 partitions of the database, and its items by single durable creates.
pub fn load(server: &ServerProcess, items: u64) -> Outcome {
    let client = server.client();
    let body = serde_json::json!({
        "id": CONTAINER,
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
    });
    let headers = [("x-ms-offer-throughput", "30000")];
    let _ = client.create_container_of(DATABASE, &body, &headers).expect_status(201);
    write_each(server, items, 201, "", &|number| document(number, &format!("item-{number}"), items))
}

/// Overwrites every item once, with another value of an indexed property.
pub fn overwrite(server: &ServerProcess, items: u64) -> Outcome {
    let upsert = "x-ms-documentdb-is-upsert: true\r\n";
    write_each(server, items, 200, upsert, &|number| overwritten(number, items))
}

/// An item as `overwrite` leaves it.
pub fn overwritten(number: u64, items: u64) -> String {
    let price = format!("\"price\":{}.5", number % 1000);
    document(number, &format!("item-{number}"), items).replacen("\"price\":3399.99", &price, 1)
}

fn write_each(
    server: &ServerProcess,
    items: u64,
    status: u16,
    header: &str,
    body: &(dyn Fn(u64) -> String + Sync),
) -> Outcome {
    let signer = Signer::new(EMULATOR_KEY);
    let link = format!("dbs/{DATABASE}/colls/{CONTAINER}");
    let (authorization, date) = (signer.authorization("post", &link), signer.date.clone());
    load_requests(server.address(), items, status, &|number, out| {
        let (body, key) = (body(number), key_of(number));
        let head = format!(
            "POST /{link}/docs HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\nx-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\n{header}x-ms-documentdb-partitionkey: [\"{key}\"]\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(body.as_bytes());
    })
}

/// Target of a query.
pub enum Target {
    Key(String),
    /// The server fans out.
    Everything,
    /// The first physical partition.
    FirstRange,
}

/// Prepared queries; each connection sends them in its own order.
pub struct Queries(Vec<Vec<u8>>);

impl Queries {
    pub fn new(queries: impl IntoIterator<Item = (Target, String)>) -> Queries {
        let signer = Signer::new(EMULATOR_KEY);
        let link = format!("dbs/{DATABASE}/colls/{CONTAINER}");
        let authorization = signer.authorization("post", &link);
        let date = &signer.date;
        let request = |(target, text): (Target, String)| {
            let target = match target {
                Target::Key(key) => format!("x-ms-documentdb-partitionkey: [\"{key}\"]"),
                Target::Everything => "x-shardlake-fan-out: true".into(),
                Target::FirstRange => "x-ms-documentdb-partitionkeyrangeid: 0".into(),
            };
            let body = serde_json::json!({ "query": text, "parameters": [] }).to_string();
            format!(
                "POST /{link}/docs HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\nx-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\ncontent-type: application/query+json\r\nx-ms-documentdb-isquery: true\r\nx-ms-documentdb-query-enablecrosspartition: true\r\nx-ms-max-item-count: -1\r\n{target}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes()
        };
        Queries(queries.into_iter().map(request).collect())
    }
}

impl Requests for Queries {
    fn next(&self, connection: usize, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0[scattered(connection, number, self.0.len())]);
    }

    fn expected_status(&self) -> u16 {
        200
    }
}
