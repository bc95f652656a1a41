//! The exchanges of a recorded file.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

pub struct Recording {
    pub exchanges: Vec<Exchange>,
}

/// One request, the answer that came, and the answer of the service where it is known.
pub struct Exchange {
    pub seq: u64,
    pub at_milliseconds: u64,
    pub check: String,
    pub request: Recorded,
    pub response: Recorded,
    /// Status of the service, and those of its operations.
    pub want: Option<Want>,
}

pub struct Want {
    pub status: Option<u16>,
    pub operations: Option<Vec<u64>>,
}

/// A request or an answer. The members of the other kind are empty.
#[derive(Default)]
pub struct Recorded {
    pub method: String,
    pub path: String,
    pub auth: Value,
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    pub is_truncated: bool,
}

impl Recording {
    pub fn read(path: &Path) -> Recording {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON lines"));
        let defaults = lines.next().expect("a line of defaults")["defaults"].clone();
        let mut bodies: BTreeMap<u64, Value> = BTreeMap::new();
        let mut exchanges = Vec::new();
        for line in lines {
            let seq = line["seq"].as_u64().expect("a number");
            let mut response = line["response"].clone();
            match response.get("sameBodyAs").and_then(Value::as_u64) {
                Some(other) => {
                    for name in ["body", "encoding", "packed", "truncated"] {
                        if let Some(member) = bodies[&other].get(name) {
                            response[name] = member.clone();
                        }
                    }
                }
                None => drop(bodies.insert(seq, response.clone())),
            }
            exchanges.push(Exchange {
                seq,
                at_milliseconds: line["at"].as_u64().expect("milliseconds"),
                check: line["check"].as_str().unwrap_or_default().to_owned(),
                request: Recorded::of(&line["request"], &defaults["request"]),
                response: Recorded::of(&response, &defaults["response"]),
                want: line.get("want").map(Want::of),
            });
        }
        assert!(exchanges.len() > 20, "{} has {} exchanges", path.display(), exchanges.len());
        Recording { exchanges }
    }
}

impl Want {
    fn of(want: &Value) -> Want {
        let operations = want["operations"].as_array();
        let statuses = |list: &Vec<Value>| list.iter().map(|one| one.as_u64().expect("a status")).collect();
        Want {
            status: want["status"].as_u64().map(|status| status as u16),
            operations: operations.map(statuses),
        }
    }
}

impl Recorded {
    fn of(side: &Value, defaults: &Value) -> Recorded {
        let text = |name: &str| side[name].as_str().unwrap_or_default().to_owned();
        let mut headers = defaults.as_object().expect("headers").clone();
        headers.extend(side["headers"].as_object().expect("headers").clone());
        // A header of the defaults that an exchange did not have is null.
        let headers =
            headers.into_iter().filter_map(|(name, value)| Some((name, value.as_str()?.to_owned())));
        let body = match side["encoding"].as_str() {
            Some(_) => STANDARD.decode(text("body")).expect("base64"),
            None if side["packed"].as_bool() == Some(true) => unpacked(&text("body")).into_bytes(),
            None => text("body").into_bytes(),
        };
        Recorded {
            method: text("method"),
            path: text("path"),
            auth: side["auth"].clone(),
            status: side["status"].as_u64().unwrap_or_default() as u16,
            headers: headers.collect(),
            body,
            is_truncated: side["truncated"].as_bool() == Some(true),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// `<<x*N>>` is N times that letter.
fn unpacked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<<") {
        let repeated = after.split_once(">>").and_then(|(inside, behind)| {
            let (letter, count) = inside.split_once('*')?;
            Some((letter.repeat(count.parse().ok()?), behind)).filter(|_| letter.chars().count() == 1)
        });
        out.push_str(before);
        match repeated {
            Some((letters, behind)) => {
                out.push_str(&letters);
                rest = behind;
            }
            None => {
                out.push_str("<<");
                rest = after;
            }
        }
    }
    out + rest
}
