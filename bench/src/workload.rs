//! The items and requests of the point benchmark: 1-KB documents, 100 to a logical partition.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;
use shardlake_testkit::{Client, http_date_now};

use crate::load::Requests;

pub const DATABASE: &str = "bench";
pub const CONTAINER: &str = "items";
const ITEMS_PER_KEY: u64 = 100;

/// An item of about 1 KB of JSON, as the system properties make it on the way out.
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

/// Point reads of random items; every request is signed ahead.
pub struct Reads {
    requests: Vec<Vec<u8>>,
}

impl Reads {
    /// Up to 20,000 different items of `items`, spread evenly.
    pub fn new(signer: &Signer, items: u64) -> Reads {
        let count = items.min(20_000);
        let request = |index: u64| {
            let number = index * (items / count);
            let link = format!("dbs/{DATABASE}/colls/{CONTAINER}/docs/item-{number}");
            let authorization = signer.authorization("get", &link);
            let (date, key) = (&signer.date, key_of(number));
            format!(
                "GET /{link} HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\nx-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\naccept: application/json\r\nx-ms-documentdb-partitionkey: [\"{key}\"]\r\n\r\n"
            )
            .into_bytes()
        };
        Reads { requests: (0..count).map(request).collect() }
    }
}

impl Requests for Reads {
    fn next(&self, connection: usize, number: u64, out: &mut Vec<u8>) {
        // A multiplicative walk: every connection visits the items in its own scattered order.
        let at = (connection as u64 + 1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .wrapping_add(number.wrapping_mul(7919));
        out.extend_from_slice(&self.requests[(at % self.requests.len() as u64) as usize]);
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
    /// Up to 20,000 different items of `items`, spread evenly.
    pub fn new(signer: &Signer, items: u64, round: usize) -> Replaces {
        let count = items.min(20_000);
        let head = |index: u64| {
            let number = index * (items / count);
            let link = format!("dbs/{DATABASE}/colls/{CONTAINER}/docs/item-{number}");
            let authorization = signer.authorization("put", &link);
            let (date, key) = (&signer.date, key_of(number));
            let head = format!(
                "PUT /{link} HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\nx-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\nx-ms-documentdb-partitionkey: [\"{key}\"]\r\n"
            );
            (head, document(&format!("item-{number}"), &key))
        };
        Replaces { heads: (0..count).map(head).collect(), round }
    }
}

impl Requests for Replaces {
    fn next(&self, connection: usize, number: u64, out: &mut Vec<u8>) {
        let at = (connection as u64 + 1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .wrapping_add(number.wrapping_mul(7919));
        let (head, body) = &self.heads[(at % self.heads.len() as u64) as usize];
        // Two of its indexed values change.
        let changed = format!("\"price\":{}.5,\"quantity\":{number}", self.round);
        let body = body.replacen("\"price\":3399.99,\"quantity\":7", &changed, 1);
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(format!("content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    fn expected_status(&self) -> u16 {
        200
    }
}
