//! 165 exchanges of the .NET SDK 3.64.0 and the Java SDK 4.81.0, both with their defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use http::HeaderValue;
use serde_json::Value as Json;
use shardlake_gateway_direct::{
    AnswerHead, Context, ContextAnswer, RequestHead, Token, Tokens, Value, answer_head, frame_length,
    request_head, translate,
};
use shardlake_testkit::shared_directory;

const FRAME_BYTES_MAX: usize = 64 << 10;

fn bytes_of_hex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(digit).collect()
}

struct Exchange {
    name: String,
    recorded: Json,
}

fn exchanges(test: &str) -> Option<Vec<Exchange>> {
    let directory = shared_directory("conformance", test)?.join("direct");
    let mut paths: Vec<PathBuf> = Vec::new();
    for directory in [directory.clone(), directory.join("java")] {
        let files = std::fs::read_dir(&directory).expect("the recordings are there");
        paths.extend(files.map(|file| file.expect("an entry").path()));
    }
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    paths.sort();
    let exchanges = paths.into_iter().map(|path| {
        let text = std::fs::read(&path).expect("a file");
        let recorded = serde_json::from_slice(&text).expect("JSON");
        Exchange { name: path.display().to_string(), recorded }
    });
    // The feeds of addresses are plain requests.
    let exchanges: Vec<Exchange> =
        exchanges.filter(|exchange| exchange.recorded.get("request").is_some()).collect();
    assert_eq!(exchanges.len(), 165);
    Some(exchanges)
}

impl Exchange {
    fn frame(&self, side: &str) -> Vec<u8> {
        bytes_of_hex(self.recorded[side]["hex"].as_str().expect("a text"))
    }

    fn is_context(&self) -> bool {
        self.recorded["operation"] == "Connection"
    }

    /// The tokens as they are listed; the bytes of texts are in `texts`.
    fn listed<'t>(&self, side: &str, texts: &'t [Vec<u8>]) -> Tokens<'t> {
        let tokens = self.recorded[side]["tokens"].as_array().expect("a list").iter().zip(texts);
        tokens.map(|(token, text)| listed(token, text)).collect()
    }

    fn texts(&self, side: &str) -> Vec<Vec<u8>> {
        let tokens = self.recorded[side]["tokens"].as_array().expect("a list").iter();
        tokens.map(text_of).collect()
    }
}

fn text_of(token: &Json) -> Vec<u8> {
    let text = token["value"].as_str().unwrap_or_default();
    match token["type"].as_str().expect("a type") {
        "Guid" | "SmallBytes" | "Bytes" | "ULongBytes" => bytes_of_hex(text),
        _ => text.as_bytes().to_vec(),
    }
}

fn listed<'t>(token: &Json, text: &'t [u8]) -> Token<'t> {
    let id = token["id"].as_str().and_then(|id| id.strip_prefix("0x")).expect("an id");
    let value = &token["value"];
    let number = || {
        let text = value.as_str().map(str::to_owned).unwrap_or_else(|| value.to_string());
        text.parse::<i64>().expect("a number")
    };
    let value = match token["type"].as_str().expect("a type") {
        "Byte" => Value::Byte(number() as u8),
        "UShort" => Value::UShort(number() as u16),
        "ULong" => Value::ULong(number() as u32),
        "Long" => Value::Long(number() as i32),
        "ULongLong" => Value::ULongLong(number() as u64),
        "LongLong" => Value::LongLong(number()),
        "Guid" => Value::Guid(text.try_into().expect("16 bytes")),
        "SmallString" => Value::SmallString(text),
        "String" => Value::String(text),
        "ULongString" => Value::ULongString(text),
        "SmallBytes" => Value::SmallBytes(text),
        "Bytes" => Value::Bytes(text),
        "ULongBytes" => Value::ULongBytes(text),
        "Double" => Value::Double(value.as_f64().expect("a number")),
        other => panic!("the type {other}"),
    };
    Token { id: u16::from_str_radix(id, 16).expect("hexadecimal digits"), value }
}

fn split(frame: &[u8]) -> (&[u8], &[u8]) {
    let length = frame_length(frame, FRAME_BYTES_MAX).expect("a length").expect("four bytes");
    frame.split_at(length)
}

fn check_body(rest: &[u8], has_body: bool, name: &str) {
    if has_body {
        let (length, body) = rest.split_first_chunk().expect("a length");
        assert_eq!(u32::from_le_bytes(*length) as usize, body.len(), "{name}");
    } else {
        assert!(rest.is_empty(), "{name}");
    }
}

#[test]
fn every_recorded_frame_is_read_and_written_again() {
    let Some(exchanges) = exchanges("direct::every_recorded_frame_is_read_and_written_again") else { return };
    for exchange in &exchanges {
        let name = &exchange.name;
        let frame = exchange.frame("request");
        let (head, rest) = split(&frame);
        let read = request_head(head).expect(name);
        let texts = exchange.texts("request");
        assert_eq!(read.tokens, exchange.listed("request", &texts), "{name}");
        let again = RequestHead { tokens: exchange.listed("request", &texts), ..read.clone() };
        let mut written = Vec::new();
        again.write(&mut written);
        assert_eq!(written, head, "{name}");
        if !exchange.is_context() {
            check_body(rest, read.has_body().expect(name), name);
            read.number().expect(name);
        }
        let frame = exchange.frame("response");
        let (head, rest) = split(&frame);
        let read = answer_head(head).expect(name);
        assert_eq!(
            Some(u64::from(read.status)),
            exchange.recorded["response"]["status"].as_u64().or(Some(200))
        );
        let texts = exchange.texts("response");
        let again = AnswerHead { tokens: exchange.listed("response", &texts), ..read.clone() };
        assert_eq!(again, read, "{name}");
        let mut written = Vec::new();
        again.write(&mut written);
        assert_eq!(written, head, "{name}");
        if !exchange.is_context() {
            check_body(rest, read.has_body().expect(name), name);
        }
    }
}

/// Headers that the recorder's own HTTP client added.
const OF_THE_RECORDER: [&str; 3] = ["host", "accept", "content-length"];

/// The recorder passed the throughput bucket over.
const WITHOUT_A_RECORD: &str = "x-ms-cosmos-throughput-bucket";

/// One recorded request is another than the frame's: eight bytes of a user's id were taken for a container.
const MISTAKEN: &str = "replace-user-404-consistency.json";

#[test]
fn every_recorded_frame_stands_for_the_recorded_request() {
    let Some(exchanges) = exchanges("direct::every_recorded_frame_stands_for_the_recorded_request") else {
        return;
    };
    for exchange in exchanges.iter().filter(|exchange| !exchange.is_context()) {
        let name = &exchange.name;
        let frame = Bytes::from(exchange.frame("request"));
        let (head, _) = split(&frame);
        let read = request_head(head).expect(name);
        let version = HeaderValue::from_static("2020-07-15");
        let agent = HeaderValue::from_static("agent");
        let request = translate(&read, &frame, (&version, &agent)).expect(name);
        let rest = &exchange.recorded["rest"];
        assert_eq!(request.method.as_str(), rest["method"], "{name}");
        if name.ends_with(MISTAKEN) {
            assert_eq!(request.uri.path(), "/dbs/D35l%2Bw%3D%3D/users/D35l%2B1xETCY%3D");
        } else {
            assert_eq!(request.uri.path(), rest["path"], "{name}");
        }
        let mut headers: BTreeMap<String, String> = BTreeMap::new();
        for (header, value) in &request.headers {
            headers.insert(header.to_string(), value.to_str().expect("ASCII").to_owned());
        }
        assert_eq!(headers.remove("user-agent").as_deref(), Some("agent"), "{name}");
        let recorded = rest["headers"].as_object().expect("an object").iter();
        let recorded = recorded.filter(|(header, _)| !OF_THE_RECORDER.contains(&header.as_str()));
        let mut recorded: BTreeMap<String, String> = recorded
            .map(|(header, value)| (header.clone(), escaped(value.as_str().expect("a text"))))
            .collect();
        // The recorder left an open bound out; it is an empty header in HTTP.
        if recorded.contains_key("x-ms-end-epk") {
            recorded.entry("x-ms-start-epk".into()).or_default();
        }
        if !recorded.contains_key(WITHOUT_A_RECORD) {
            headers.remove(WITHOUT_A_RECORD);
        }
        assert_eq!(headers, recorded, "{name}");
        assert!(request.replica_path.starts_with("/apps/"), "{name}");
    }
}

/// No header has other characters.
fn escaped(value: &str) -> String {
    let escape = |character: char| match character {
        ' '..='~' => character.to_string(),
        other => other.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    };
    value.chars().map(escape).collect()
}

#[test]
fn contexts_are_read_and_answered() {
    let Some(exchanges) = exchanges("direct::contexts_are_read_and_answered") else { return };
    let mut agents = Vec::new();
    for exchange in exchanges.iter().filter(|exchange| exchange.is_context()) {
        let frame = exchange.frame("request");
        let head = request_head(&frame).expect("a frame");
        let context = Context::of(&head).expect("a context");
        assert!(context.is_understood());
        assert_eq!(context.client_version, "2020-07-15");
        agents.push(context.user_agent.clone());
        let server = ContextAnswer { server_version: "1.0", idle_seconds: 1800, unauthenticated_seconds: 10 };
        let answered = context.answer(server);
        let answer = answer_head(&answered).expect("a frame");
        assert_eq!((answer.status, answer.activity_id), (200, head.activity_id));
        let recorded = exchange.frame("response");
        let recorded = answer_head(&recorded).expect("a frame");
        let kinds = |tokens: &Tokens<'_>| tokens.iter().map(kind).collect::<Vec<_>>();
        assert_eq!(kinds(&answer.tokens), kinds(&recorded.tokens));
    }
    assert!(agents.iter().any(|agent| agent.contains("netstandard")), "{agents:?}");
    assert!(agents.iter().any(|agent| agent.contains("java")), "{agents:?}");
}

/// Id and type of a token.
fn kind(token: &Token<'_>) -> (u16, String) {
    let value = format!("{:?}", token.value);
    (token.id, value.split('(').next().expect("a name").to_owned())
}
