//! Headers and their values: each has one effect, the recorded ones are known, and the page of documentation shows the tables.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use http::{HeaderName, HeaderValue};
use serde_json::Value;
use shardlake_model::ErrorKind;
use shardlake_testkit::shared_directory;

use super::*;

fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).expect("valid"))
        })
        .collect()
}

/// The kinds of effect, as the documentation heads them, each with its rows.
fn tables() -> [(&'static str, Vec<(&'static str, &'static str)>); 4] {
    let acted_on = [ACTED_ON, ACTED_ON_OF_DOCUMENTDB, ACTED_ON_OF_COSMOS].concat();
    [
        ("Acted on", acted_on),
        ("Refused by name (501)", known::REFUSED.to_vec()),
        ("Read by the server as a whole", known::READ_ELSEWHERE.to_vec()),
        ("Ignored", known::IGNORED.to_vec()),
    ]
}

#[test]
fn a_header_has_one_row_in_one_table() {
    let mut seen = BTreeSet::new();
    for (title, rows) in tables() {
        for (name, effect) in rows {
            assert!(seen.insert(name) && !effect.is_empty(), "{name}");
            let is_acted_on = title == "Acted on";
            assert_eq!(RequestHeaders::default().slot(name).is_some(), is_acted_on, "{name}");
        }
    }
}

/// Every header of the exchanges that official clients were recorded to send.
#[test]
fn the_recorded_headers_are_in_the_tables() {
    let test = "headers::the_recorded_headers_are_in_the_tables";
    let Some(directory) = shared_directory("conformance", test) else { return };
    let known: BTreeSet<&str> = tables().iter().flat_map(|(_, rows)| rows.iter().map(|row| row.0)).collect();
    let mut sent = BTreeSet::new();
    for folder in ["dotnet", "dtx", "direct/java", "search"] {
        for entry in std::fs::read_dir(directory.join(folder)).expect("a directory") {
            let path = entry.expect("an entry").path();
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let whole = serde_json::from_str::<Value>(&text).map(|value| vec![value]);
            let lines = || text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect();
            for value in whole.unwrap_or_else(|_| lines()) {
                names_sent(&value, &mut sent);
            }
        }
    }
    assert!(sent.len() > 50, "{sent:?}");
    let unknown: Vec<_> = sent.iter().filter(|name| !known.contains(name.as_str())).collect();
    assert!(unknown.is_empty(), "without a row: {unknown:?}");
}

/// Names of headers in the places where the recordings keep those of requests.
fn names_sent(value: &Value, sent: &mut BTreeSet<String>) {
    let places = ["/request/headers", "/defaults/request", "/requestHeaders"];
    for headers in places.iter().filter_map(|place| value.pointer(place)?.as_object()) {
        sent.extend(headers.keys().map(|name| name.to_ascii_lowercase()));
    }
}

#[test]
fn the_page_of_request_headers_is_the_tables() {
    let mut page = String::from(PAGE_START);
    for (title, mut rows) in tables() {
        rows.sort_unstable();
        write!(page, "\n## {title}\n\n| header | {} |\n|---|---|\n", column(title)).expect("a string");
        for (name, effect) in rows {
            writeln!(page, "| `{name}` | {effect} |").expect("a string");
        }
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/request-headers.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).expect("the page is written");
    }
    let found = std::fs::read_to_string(&path).expect("docs/request-headers.md");
    assert!(found == page, "docs/request-headers.md is out of date: run this test with UPDATE=1");
}

fn column(title: &str) -> &'static str {
    match title {
        "Ignored" => "reason",
        "Refused by name (501)" => "asks for",
        _ => "effect",
    }
}

const PAGE_START: &str = "\
# Request headers

Every header that the official clients of 2026 send has a row here; `crates/gateway-nosql/src/headers.rs` writes this page, and a test compares it
with the headers of recorded exchanges. Names are read without regard to case, and headers without a value count as absent, except bounds of
effective keys. A header that is not listed is ignored, as HTTP asks; so are the other `x-ms-cosmos-internal-…` headers, by which parts of the
service speak to each other.
";

#[test]
fn booleans_are_read_in_every_spelling() {
    for (text, expected) in [("true", true), ("True", true), ("1", true), ("FALSE", false), ("0", false)] {
        assert_eq!(flag("x", Some(text)).expect("valid"), expected, "{text}");
    }
    assert!(!flag("x", None).expect("absent is false"));
    assert!(flag("x", Some("yes")).is_err());
}

#[test]
fn the_explicit_content_header_beats_prefer() {
    for (pairs, expected) in [
        (vec![], true),
        (vec![("prefer", "return=minimal")], false),
        (vec![("prefer", "wait=5, Return=Minimal")], false),
        (vec![("prefer", "return=representation")], true),
        (
            vec![("prefer", "return=minimal"), ("x-ms-cosmos-populate-content-response-on-write", "True")],
            true,
        ),
        (vec![("x-ms-cosmos-populate-content-response-on-write", "false")], false),
    ] {
        let map = map(&pairs);
        let headers = RequestHeaders::parse(&map).expect("valid");
        assert_eq!(headers.wants_content().expect("valid"), expected, "{pairs:?}");
    }
}

#[test]
fn consistency_may_only_be_weakened() {
    let asks =
        |text, account| RequestHeaders { consistency: Some(text), ..Default::default() }.consistency(account);
    use ConsistencyLevel::*;
    assert_eq!(asks("eventual", Session).expect("weaker"), Eventual);
    assert_eq!(asks("Session", Session).expect("equal"), Session);
    assert_eq!(asks("Strong", Session).expect_err("stronger").kind(), ErrorKind::BadRequest);
    assert!(asks("Loose", Session).is_err());
}

#[test]
fn read_strategies_are_levels_by_exact_names_and_stand_alone() {
    let asks = |read_strategy, consistency, account| {
        RequestHeaders { read_strategy: Some(read_strategy), consistency, ..Default::default() }
            .consistency(account)
    };
    use ConsistencyLevel::*;
    for (name, account, level) in [
        ("Eventual", Session, Eventual),
        ("Session", Eventual, Session),
        ("LatestCommitted", Session, BoundedStaleness),
        ("GlobalStrong", Strong, Strong),
    ] {
        assert_eq!(asks(name, None, account).expect(name), level, "{name}");
    }
    for (name, level, word) in [
        ("Bogus", None, "'LatestCommitted'"),
        ("eventual", None, "'Eventual'"),
        ("GlobalStrong", None, "'Strong'"),
        ("Eventual", Some("Eventual"), "one of both"),
    ] {
        let error = asks(name, level, Session).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::BadRequest, "{name}");
        assert!(error.message().contains(word), "{error}");
    }
}

#[test]
fn versions_are_those_of_the_service_and_later_ones() {
    let sent = |version| RequestHeaders { version: Some(version), ..Default::default() }.check_version();
    for version in ["2014-08-21", "2018-12-31", "2020-07-15", "2024-06-06", "2031-01-01"] {
        sent(version).expect(version);
    }
    RequestHeaders::default().check_version().expect("absent");
    for version in ["2015-01-01", "2025", "3000-01-0x", "latest"] {
        let error = sent(version).expect_err(version);
        assert_eq!(error.kind(), ErrorKind::BadRequest, "{version}");
        assert!(error.message().contains("Invalid API version."), "{error}");
    }
}

#[test]
fn range_ids_and_page_sizes_parse_or_are_refused() {
    let ranged = |text| RequestHeaders { range_id: Some(text), ..Default::default() }.range_id();
    assert_eq!(ranged("3").expect("valid"), Some(3));
    assert_eq!(ranged("AAAAAYAAAAE=,3").expect("valid"), Some(3));
    assert!(ranged("x").is_err());
    let paged = |text| RequestHeaders { max_item_count: Some(text), ..Default::default() }.max_items();
    assert_eq!(paged("-1").expect("valid"), Some(-1));
    assert_eq!(paged("7").expect("valid"), Some(7));
    assert_eq!(paged("0").expect("valid"), None);
    for text in ["-2", "x", ""] {
        assert!(paged(text).is_err(), "{text}");
    }
}

#[test]
fn what_would_change_the_outcome_is_refused_by_name() {
    for (pairs, kind, word) in [
        (("x-ms-documentdb-post-trigger-exclude", "t1"), ErrorKind::Unsupported, "t1"),
        (("x-ms-indexing-directive", "Exclude"), ErrorKind::Unsupported, "Exclude"),
        (("x-ms-indexing-directive", "bogus"), ErrorKind::BadRequest, "bogus"),
        (("x-ms-documentdb-responsecontinuationtokenlimitinkb", "0"), ErrorKind::BadRequest, "'0'"),
        (("x-ms-enumeration-direction", "Reverse"), ErrorKind::Unsupported, "x-ms-enumeration-direction"),
        (("x-ms-is-readonly-script", "True"), ErrorKind::Unsupported, "must not write"),
        (
            ("x-ms-cosmos-throughput-bucket", "256"),
            ErrorKind::BadRequest,
            "specified for the header 'x-ms-cosmos-throughput-bucket' is invalid.",
        ),
    ] {
        let map = map(&[pairs]);
        let error = RequestHeaders::parse(&map).expect("valid").refuse_unsupported().expect_err(word);
        assert_eq!(error.kind(), kind);
        assert!(error.message().contains(word), "{error}");
    }
    for directive in ["Default", "include", ""] {
        let harmless = map(&[
            ("x-ms-documentdb-pre-trigger-exclude", ""),
            ("x-ms-indexing-directive", directive),
            ("x-ms-cosmos-throughput-bucket", "3"),
            ("x-ms-documentdb-responsecontinuationtokenlimitinkb", "1"),
            ("x-ms-is-readonly-script", "False"),
            ("x-ms-start-id", ""),
        ]);
        RequestHeaders::parse(&harmless).expect("valid").refuse_unsupported().expect("accepted");
    }
}

#[test]
fn header_values_that_are_not_text_are_refused() {
    let mut map = HeaderMap::new();
    map.insert("x-ms-documentdb-partitionkey", HeaderValue::from_bytes(b"[\"\xff\"]").expect("opaque"));
    assert!(RequestHeaders::parse(&map).is_err());
}
