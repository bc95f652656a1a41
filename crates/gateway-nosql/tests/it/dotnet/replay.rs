//! Recorded requests against a server that makes up other rids, etags and tokens.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};
use http_body_util::Full;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::Value;
use shardlake_gateway_nosql::{ConnectionMode, Endpoint, OperationSeen, Scheme};
use shardlake_hybrid_row::{Operation, is_hybrid_row, operations_in, start, write_operation};
use shardlake_testkit::{EMULATOR_KEY, authorization, http_date_after_epoch};

use super::compare::json_of;
use super::recording::{Exchange, Recorded};
use crate::harness::{Answer, NOW, Server};

/// Members whose texts servers make up.
const LEARNED: [&str; 7] = ["_rid", "_etag", "_self", "resource", "resourceLink", "offerResourceId", "_docs"];

/// Characters that stay as they are in paths and queries.
const IN_PATHS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'%')
    .remove(b'=')
    .remove(b'?')
    .remove(b'&')
    .remove(b':')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'~')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_');

/// A server, and the texts of its answers that stand for recorded ones.
pub struct Replay<'s> {
    server: &'s Server,
    /// From recorded texts to those of the server.
    names: BTreeMap<String, String>,
    /// Etags of feeds, by path, range and recorded etag.
    etags: BTreeMap<(String, String, String), String>,
    /// Session positions by container and recorded position.
    sessions: BTreeMap<(String, String), String>,
    /// The last position of each range of a container.
    latest: BTreeMap<(String, String), String>,
    /// Resource tokens by their number in the recording.
    tokens: BTreeMap<String, String>,
    first_milliseconds: Option<u64>,
}

impl<'s> Replay<'s> {
    pub fn new(server: &'s Server) -> Replay<'s> {
        Replay {
            server,
            names: BTreeMap::new(),
            etags: BTreeMap::new(),
            sessions: BTreeMap::new(),
            latest: BTreeMap::new(),
            tokens: BTreeMap::new(),
            first_milliseconds: None,
        }
    }

    pub async fn send(&mut self, exchange: &Exchange) -> Answer {
        let first = *self.first_milliseconds.get_or_insert(exchange.at_milliseconds);
        let since = Duration::from_millis(exchange.at_milliseconds.saturating_sub(first));
        let passed = Duration::from_millis(self.server.clock.now().0 - NOW.0);
        self.server.clock.advance(since.saturating_sub(passed));
        let request = &exchange.request;
        let path = self.path(&request.path);
        let date = http_date_after_epoch(Duration::from_millis(self.server.clock.now().0));
        let body = self.body(&request.body);
        let mut sent = Request::builder().method(request.method.as_str()).uri(path.as_str());
        let headers = sent.headers_mut().expect("a valid request");
        for (name, recorded) in &request.headers {
            if let Some(value) = self.header(exchange, &path, name, recorded, first) {
                let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
                headers.insert(name, HeaderValue::from_str(&value).expect("a header value"));
            }
        }
        if let Some(value) = self.authorization(request, &date) {
            headers.insert("authorization", HeaderValue::from_str(&value).expect("a header value"));
        }
        headers.insert("x-ms-date", HeaderValue::from_str(&date).expect("a date"));
        let sent = sent.body(Full::new(Bytes::from(body))).expect("a valid request");
        let space = self.server.space.connection();
        let endpoint = Endpoint {
            scheme: Scheme::Http,
            authority: None,
            space: &space,
            mode: ConnectionMode::Http,
            seen: &OperationSeen::default(),
        };
        Answer::of(self.server.gateway.handle(sent, endpoint).await).await
    }

    /// A recorded text with the names of this server in it, the longest first.
    fn own(&self, text: &str) -> String {
        let is_in_it = |(recorded, _): &(&String, &String)| text.contains(recorded.as_str());
        let names: Vec<_> = self.names.iter().filter(is_in_it).collect();
        if names.is_empty() {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let found = names.iter().filter(|(recorded, _)| rest.starts_with(recorded.as_str()));
            match found.max_by_key(|(recorded, _)| recorded.len()) {
                Some((recorded, own)) => {
                    out.push_str(own);
                    rest = &rest[recorded.len()..];
                }
                None => {
                    out.push(next);
                    rest = &rest[next.len_utf8()..];
                }
            }
        }
        out
    }

    fn path(&self, recorded: &str) -> String {
        // A rid may stand in the path with its characters encoded.
        let decoded = percent_decode_str(recorded).decode_utf8_lossy();
        let own =
            match recorded.contains('%') && !self.names.keys().any(|name| decoded.contains(name.as_str())) {
                true => recorded.to_owned(),
                false => self.own(&decoded),
            };
        utf8_percent_encode(&own, IN_PATHS).to_string()
    }

    fn body(&self, recorded: &[u8]) -> Vec<u8> {
        if is_hybrid_row(recorded) {
            return self.rows(recorded);
        }
        match std::str::from_utf8(recorded) {
            Ok(text) => self.own(text).into_bytes(),
            Err(_) => recorded.to_vec(),
        }
    }

    fn rows(&self, recorded: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        start(&mut body);
        for operation in operations_in(recorded).expect("recorded rows") {
            let operation = operation.expect("a recorded operation");
            let own = |text: Option<&str>| text.map(|text| self.own(text));
            let (if_match, if_none_match) = (own(operation.if_match), own(operation.if_none_match));
            let content = operation.resource_body.map(|content| self.body(content));
            write_operation(
                &mut body,
                &Operation {
                    if_match: if_match.as_deref(),
                    if_none_match: if_none_match.as_deref(),
                    resource_body: content.as_deref(),
                    ..operation
                },
            );
        }
        body
    }

    fn header(
        &self,
        exchange: &Exchange,
        path: &str,
        name: &str,
        recorded: &str,
        first: u64,
    ) -> Option<String> {
        match name {
            "if-none-match" | "if-match" => {
                let key = etag_key(path, &exchange.request, recorded);
                Some(self.etags.get(&key).cloned().unwrap_or_else(|| self.own(recorded)))
            }
            "x-ms-session-token" => Some(self.session(path, recorded)).filter(|token| !token.is_empty()),
            "if-modified-since" => {
                let then = httpdate::parse_http_date(recorded).expect("a date of HTTP");
                let then = then.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis() as u64;
                Some(http_date_after_epoch(Duration::from_millis(NOW.0 + then - first)))
            }
            _ => Some(self.own(recorded)),
        }
    }

    fn session(&self, path: &str, recorded: &str) -> String {
        let container = container_of(path);
        let own = |part: &str| {
            if let Some(own) = self.sessions.get(&(container.clone(), part.to_owned())) {
                return Some(own.clone());
            }
            let (range, position) = part.split_once(':')?;
            let latest = self.latest.get(&(container.clone(), range.to_owned()));
            let lsn = position.split('#').nth(1).unwrap_or(position);
            // A position in the future stays one.
            if position.contains('#') && lsn.parse::<u64>().is_ok_and(|lsn| lsn > 1_000_000) {
                let version = latest.map_or(position, String::as_str).split('#').next()?;
                return Some(format!("{range}:{version}#{lsn}"));
            }
            latest.map(|position| format!("{range}:{position}"))
        };
        recorded.split(',').filter_map(own).collect::<Vec<_>>().join(",")
    }

    fn authorization(&self, request: &Recorded, date: &str) -> Option<String> {
        let encoded = |token: &str| utf8_percent_encode(token, NON_ALPHANUMERIC).to_string();
        match &request.auth {
            Value::Object(signed) => {
                let text = |name: &str| signed[name].as_str().unwrap_or_default();
                let link = self.link(text("link"));
                Some(authorization(&request.method, text("type"), &link, date, EMULATOR_KEY))
            }
            Value::String(token) if token == "none" => None,
            Value::String(token) => Some(match token.strip_prefix("token-") {
                Some(number) => {
                    encoded(self.tokens.get(number).map_or("type=resource&ver=1&sig=unknown", String::as_str))
                }
                None => encoded(&format!("type=master&ver=1.0&sig={}", STANDARD.encode([b'0'; 32]))),
            }),
            other => panic!("{other} is no authorization"),
        }
    }

    /// A rid is signed in small letters.
    fn link(&self, recorded: &str) -> String {
        let own =
            self.names.iter().find(|(name, _)| name.to_lowercase() == recorded && !recorded.contains('/'));
        match own {
            Some((_, own)) => own.to_lowercase(),
            None => self.own(recorded),
        }
    }

    pub fn learn(&mut self, exchange: &Exchange, answer: &Answer) {
        let recorded = &exchange.response;
        let path = self.path(&exchange.request.path);
        if let (Some(theirs), Some(own)) = (recorded.header("etag"), answer.header("etag")) {
            self.etags.insert(etag_key(&path, &exchange.request, theirs), own.to_owned());
            if theirs.len() > 20 {
                self.name(theirs.trim_matches('"'), own.trim_matches('"'));
            }
        }
        if let (Some(theirs), Some(own)) =
            (recorded.header("x-ms-continuation"), answer.header("x-ms-continuation"))
        {
            self.name(theirs, own);
        }
        if let (Some(theirs), Some(own)) =
            (recorded.header("x-ms-session-token"), answer.header("x-ms-session-token"))
        {
            self.learn_session(&container_of(&path), theirs, own);
        }
        if let (Some(theirs), Some(own)) = (json_of(recorded), answer.json_body()) {
            self.walk(&theirs, &own);
        }
    }

    fn learn_session(&mut self, container: &str, theirs: &str, own: &str) {
        for pair in own.split(',') {
            let Some((range, position)) = pair.split_once(':') else { continue };
            self.latest.insert((container.to_owned(), range.to_owned()), position.to_owned());
            let same_range = theirs.split(',').filter(|other| other.split(':').next() == Some(range));
            for other in same_range {
                self.sessions.insert((container.to_owned(), other.to_owned()), pair.to_owned());
            }
        }
    }

    fn name(&mut self, theirs: &str, own: &str) {
        if theirs != own && theirs.len() >= 4 {
            self.names.insert(theirs.to_owned(), own.to_owned());
        }
    }

    fn walk(&mut self, theirs: &Value, own: &Value) {
        match (theirs, own) {
            (Value::Object(members), Value::Object(others)) => {
                let is_offer = members.contains_key("offerType");
                for (name, member) in members {
                    match (member, others.get(name)) {
                        (Value::String(text), Some(Value::String(other))) => {
                            self.learn_member(name, text, other, is_offer);
                        }
                        (_, Some(other)) => self.walk(member, other),
                        (_, None) => {}
                    }
                }
            }
            (Value::Array(rows), Value::Array(others)) => {
                // Rows are paired by their names, and where they have none by their places.
                let identity = |row: &Value| {
                    row.get("id").map(|id| (id.clone(), row.get("pk").cloned(), row.get("u").cloned()))
                };
                let named = |rows: &[Value]| rows.iter().all(|row| identity(row).is_some());
                for (place, row) in rows.iter().enumerate() {
                    let by_name = others.iter().find(|other| identity(other) == identity(row));
                    let pair = if named(rows) && named(others) && by_name.is_some() {
                        by_name
                    } else {
                        others.get(place)
                    };
                    if let Some(other) = pair {
                        self.walk(row, other);
                    }
                }
            }
            _ => {}
        }
    }

    fn learn_member(&mut self, name: &str, theirs: &str, own: &str, is_offer: bool) {
        if name == "_token" {
            if let Some((_, number)) = theirs.split_once("TOKEN-") {
                let number: String = number.chars().take_while(char::is_ascii_digit).collect();
                self.tokens.insert(number, own.to_owned());
            }
            return;
        }
        if name == "id" && is_offer {
            self.name(theirs, own);
        }
        if !LEARNED.contains(&name) && name != "eTag" && !name.ends_with("rid") {
            return;
        }
        let (theirs, own) = (theirs.trim_matches('"'), own.trim_matches('"'));
        if !theirs.contains('/') {
            return self.name(theirs, own);
        }
        for (part, other) in theirs.split('/').zip(own.split('/')) {
            if !matches!(part, "docs" | "colls" | "dbs") {
                self.name(part, other);
            }
        }
    }
}

fn etag_key(path: &str, request: &Recorded, etag: &str) -> (String, String, String) {
    let range = request.header("x-ms-documentdb-partitionkeyrangeid").unwrap_or_default();
    (path.to_owned(), range.to_owned(), etag.to_owned())
}

fn container_of(path: &str) -> String {
    path.split('/').take(5).collect::<Vec<_>>().join("/")
}
