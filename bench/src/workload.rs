//! The items and requests of the point benchmark: 1-KB documents, 100 to a logical partition.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;
use shardlake_testkit::{Client, http_date_now};

use crate::requests::Requests;

pub const DATABASE: &str = "bench";
pub const CONTAINER: &str = "items";
pub const ITEMS_PER_KEY: u64 = 100;

/// An item of about 1 KB of JSON, when returned with its system properties.
pub fn document(id: &str, key: &str) -> String {
    format!(
        r#"{{"id":"{id}","pk":"{key}","name":"Mountain-100 Silver, 42","price":3399.99,"quantity":7,"tags":["bike","mountain","silver"],"dimensions":{{"weight":20.77,"size":"42","frame":[1,2,3]}},"active":true,"description":"{}"}}"#,
        "A good item, described at length. ".repeat(16)
    )
}

pub fn key_of(number: u64) -> String {
    format!("key-{}", number / ITEMS_PER_KEY)
}

pub fn create_database(client: &Client) {
    let _ = client.create_database(DATABASE).expect_status(201);
}

/// Signs requests with a prepared key.
#[derive(Clone)]
pub struct Signer {
    key: Hmac<Sha256>,
    pub date: String,
}

impl Signer {
    pub fn new(key: &str) -> Signer {
        let key = STANDARD.decode(key).expect("account keys are base64");
        Signer { key: Hmac::new_from_slice(&key).expect("any length is a key"), date: http_date_now() }
    }

    pub fn authorization(&self, verb: &str, link: &str) -> String {
        let mut mac = self.key.clone();
        mac.update(format!("{verb}\ndocs\n{link}\n{}\n\n", self.date.to_lowercase()).as_bytes());
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        utf8_percent_encode(&format!("type=master&ver=1.0&sig={signature}"), NON_ALPHANUMERIC).to_string()
    }
}

/// The head of a request for a loaded item, without the empty line after it.
fn head(signer: &Signer, method: &str, container: &str, number: u64) -> String {
    let link = format!("dbs/{DATABASE}/colls/{container}/docs/item-{number}");
    let authorization = signer.authorization(&method.to_lowercase(), &link);
    let (date, key) = (&signer.date, key_of(number));
    format!(
        "{method} /{link} HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\nx-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\nx-ms-documentdb-partitionkey: [\"{key}\"]\r\n"
    )
}

fn end_with(body: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
}

/// Up to `most` different numbers below `items`, spread evenly.
fn spread(items: u64, most: u64) -> impl Iterator<Item = u64> {
    let count = items.min(most);
    (0..count).map(move |index| index * (items / count))
}

/// Different items that a run of requests touches.
const TOUCHED: u64 = 20_000;

/// Point reads of random items; every request is signed ahead.
pub struct Reads {
    requests: Vec<Vec<u8>>,
}

impl Reads {
    pub fn new(signer: &Signer, items: u64) -> Reads {
        Reads::of(signer, CONTAINER, items, TOUCHED)
    }

    /// Reads of up to `most` different items of a container.
    pub fn of(signer: &Signer, container: &str, items: u64, most: u64) -> Reads {
        let request = |number| {
            format!("{}accept: application/json\r\n\r\n", head(signer, "GET", container, number)).into_bytes()
        };
        Reads { requests: spread(items, most).map(request).collect() }
    }
}

impl Requests for Reads {
    fn next(&self, connection: usize, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.requests[scattered(connection, number, self.requests.len())]);
    }

    fn expected_status(&self) -> u16 {
        200
    }
}

/// Creates of new items; the signature of all creates is the same.
pub struct Creates {
    authorization: String,
    date: String,
    /// Distinguishes this run's ids from another's.
    run: String,
}

impl Creates {
    pub fn new(signer: &Signer, run: impl Into<String>) -> Creates {
        let link = format!("dbs/{DATABASE}/colls/{CONTAINER}");
        Creates {
            authorization: signer.authorization("post", &link),
            date: signer.date.clone(),
            run: run.into(),
        }
    }

    pub fn request(&self, id: &str, key: &str, out: &mut Vec<u8>) {
        let body = document(id, key);
        let head = format!(
            "POST /dbs/{DATABASE}/colls/{CONTAINER}/docs HTTP/1.1\r\nhost: localhost\r\nauthorization: {}\r\nx-ms-date: {}\r\nx-ms-version: 2020-07-15\r\nx-ms-documentdb-partitionkey: [\"{key}\"]\r\ncontent-length: {}\r\n\r\n",
            self.authorization,
            self.date,
            body.len()
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(body.as_bytes());
    }
}

impl Requests for Creates {
    fn next(&self, connection: usize, number: u64, out: &mut Vec<u8>) {
        let id = format!("{}-{connection}-{number}", self.run);
        self.request(&id, &key_of(number), out);
    }

    fn expected_status(&self) -> u16 {
        201
    }
}

/// Replacements of loaded items; every request has its signature and a body of its own.
pub struct Replaces {
    heads: Vec<(String, String)>,
    round: usize,
}

impl Replaces {
    pub fn new(signer: &Signer, items: u64, round: usize) -> Replaces {
        let of = |number| {
            (head(signer, "PUT", CONTAINER, number), document(&format!("item-{number}"), &key_of(number)))
        };
        Replaces { heads: spread(items, TOUCHED).map(of).collect(), round }
    }
}

impl Requests for Replaces {
    fn next(&self, connection: usize, number: u64, out: &mut Vec<u8>) {
        let (head, body) = &self.heads[scattered(connection, number, self.heads.len())];
        out.extend_from_slice(head.as_bytes());
        end_with(&changed(body, self.round as u64, number), out);
    }

    fn expected_status(&self) -> u16 {
        200
    }
}

/// An item with other values of two indexed properties.
fn changed(body: &str, price: u64, quantity: u64) -> String {
    body.replacen(
        "\"price\":3399.99,\"quantity\":7",
        &format!("\"price\":{price}.5,\"quantity\":{quantity}"),
        1,
    )
}

/// Patches of one indexed property of loaded items.
pub struct Patches {
    heads: Vec<String>,
    round: usize,
}

impl Patches {
    pub fn new(signer: &Signer, items: u64, round: usize) -> Patches {
        let of = |number| {
            head(signer, "PATCH", CONTAINER, number) + "content-type: application/json_patch+json\r\n"
        };
        Patches { heads: spread(items, TOUCHED).map(of).collect(), round }
    }
}

impl Requests for Patches {
    fn next(&self, connection: usize, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.heads[scattered(connection, number, self.heads.len())].as_bytes());
        let value = (self.round as u64) << 32 | number;
        end_with(&format!(r#"{{"operations":[{{"op":"set","path":"/quantity","value":{value}}}]}}"#), out);
    }

    fn expected_status(&self) -> u16 {
        200
    }
}

/// A multiplicative walk: every connection visits the places in its own scattered order.
pub fn scattered(connection: usize, number: u64, places: usize) -> usize {
    let at =
        (connection as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(number.wrapping_mul(7919));
    (at % places as u64) as usize
}
