//! Definitions of indexes: recorded cases over both dialects, and rows compared with the query over random items.
//!
//! A case has a definition, perhaps items, and its outcome: kind, outputs, whether a source lists the index, the rows
//! of each item; or the refusal with its place. `UPDATE=1` writes the outcomes anew, for a person to read.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};
use shardlake_document::{Body, Envelope, ItemView, ParseLimits, Value, parse_document};
use shardlake_model::{ContainerRid, DatabaseRid, KeyComponent, PartitionKey};
use shardlake_sql::{
    Contribution, Derivation, DeriveSource, Dialect, GroupState, ROWS_MAX, RowError, derive,
};
use shardlake_stdx::{Guid, HybridTime};

use crate::support::random::items;
use crate::support::{Items, prepare};

const ENVELOPE: Envelope = Envelope {
    lsn: 7,
    time: HybridTime::from_seconds(1_700_000_000),
    region: 0,
    etag: Guid([7; 16]),
    ordinal: 3,
    ttl_seconds: None,
    json_size_bytes: 0,
    is_altered: false,
};

fn view(body: &Body) -> ItemView<'_> {
    let container = ContainerRid { database: DatabaseRid(1), number: 2 };
    ItemView { body: body.raw(), envelope: &ENVELOPE, container, items_link: "dbs/a/colls/b/docs/" }
}

fn key() -> PartitionKey {
    PartitionKey::single(KeyComponent::String("k".into()))
}

fn outcome(case: &Json) -> Json {
    let dialect = match case["dialect"].as_str().unwrap() {
        "strict" => Dialect::Strict,
        _ => Dialect::Shardlake,
    };
    let text = case["definition"].as_str().unwrap();
    match derive(text, &DeriveSource::default(), dialect) {
        Ok(derivation) => accepted(&derivation, case["items"].as_array().map_or(&[], Vec::as_slice)),
        Err(error) => {
            let cut = |place: shardlake_sql::Location| &text[place.start..place.end];
            json!({ "refused": error.message, "at": error.place.map(cut),
                "status": if error.is_not_yet { 501 } else { 400 } })
        }
    }
}

fn accepted(derivation: &Derivation, items: &[Json]) -> Json {
    if derivation.is_grouped() {
        return json!({ "kind": "groups", "outputs": derivation.outputs(), "listed": derivation.replaces_source(),
            "rows": groups_of(derivation, items) });
    }
    let rows_of = |item: &Json| {
        let body = parse_document(item.to_string().as_bytes(), &ParseLimits::default()).unwrap();
        match derivation.rows(&view(&body), &key()) {
            Ok(rows) => {
                let json = |body: &Body| Value::from_document(body.raw()).to_json().unwrap();
                rows.iter()
                    .map(|row| serde_json::from_str::<Json>(&json(&row.body)).unwrap())
                    .collect::<Json>()
            }
            Err(error) => json!(error.to_string()),
        }
    };
    json!({ "kind": if derivation.is_of_array() { "array" } else { "plain" },
        "outputs": derivation.outputs(), "listed": derivation.replaces_source(),
        "rows": items.iter().map(rows_of).collect::<Json>() })
}

/// The rows of the groups of all items, without their states, in the order of their first items.
fn groups_of(derivation: &Derivation, items: &[Json]) -> Json {
    let mut groups: Vec<(Contribution, GroupState)> = Vec::new();
    for item in items {
        let body = parse_document(item.to_string().as_bytes(), &ParseLimits::default()).unwrap();
        for one in derivation.contributions(&view(&body), &key()).unwrap() {
            let place = groups.iter().position(|(group, _)| group.id == one.id).unwrap_or_else(|| {
                groups.push((one.clone(), derivation.new_group()));
                groups.len() - 1
            });
            groups[place].1.add(&one.arguments);
        }
    }
    let row = |(group, state): &(Contribution, GroupState)| {
        let row = derivation.group_row(&group.id, &group.keys, state).unwrap();
        let mut row: Json =
            serde_json::from_str(&Value::from_document(row.raw()).to_json().unwrap()).unwrap();
        let state = row.as_object_mut().unwrap().remove("_state").unwrap();
        assert!(derivation.read_group(state.as_str().unwrap()).is_some());
        row
    };
    groups.iter().map(row).collect()
}

/// One case per paragraph, its members one to a line.
fn printed(cases: &[Json]) -> String {
    let members = |case: &Json| {
        let case: &Map<String, Json> = case.as_object().unwrap();
        let lines: Vec<String> =
            case.iter().map(|(name, value)| format!("    {}: {value}", json!(name))).collect();
        format!("  {{\n{}\n  }}", lines.join(",\n"))
    };
    format!("[\n{}\n]\n", cases.iter().map(members).collect::<Vec<_>>().join(",\n"))
}

#[test]
fn recorded_definitions_have_their_outcomes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/derive/cases.json");
    let stored = std::fs::read_to_string(path).unwrap();
    let mut cases: Vec<Json> = serde_json::from_str(&stored).unwrap();
    assert!(cases.len() >= 80, "{} cases", cases.len());
    for case in &mut cases {
        case["outcome"] = outcome(case);
    }
    let actual = printed(&cases);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, actual).unwrap();
    } else {
        assert!(actual == stored, "outcomes differ; read the difference after UPDATE=1:\n{actual}");
    }
}

#[test]
fn definitions_and_items_have_bounds() {
    let derived = |text: &str| derive(text, &DeriveSource::default(), Dialect::Shardlake);
    let outputs = |count: usize| {
        let names: Vec<String> = (0..count).map(|number| format!("c.a{number}")).collect();
        format!("SELECT {} FROM c", names.join(", "))
    };
    assert!(derived(&outputs(100)).is_ok());
    assert!(derived(&outputs(101)).unwrap_err().message.contains("at most 100"));
    let padded = |bytes: usize| format!("SELECT c.a FROM c{}", " ".repeat(bytes - 17));
    assert!(derived(&padded(4096)).is_ok());
    assert!(derived(&padded(4097)).unwrap_err().message.contains("4097 bytes"));
    let of_array = derived("SELECT x AS y FROM c JOIN x IN c.list").unwrap();
    let rows = |count: usize| {
        let item = json!({ "id": "1", "list": vec![0; count] }).to_string();
        let body = parse_document(item.as_bytes(), &ParseLimits::default()).unwrap();
        of_array.rows(&view(&body), &key()).map(|rows| rows.len())
    };
    assert_eq!(rows(0), Ok(0));
    assert_eq!(rows(ROWS_MAX), Ok(ROWS_MAX));
    assert_eq!(rows(ROWS_MAX + 1), Err(RowError::TooManyRows));
}

#[test]
fn rows_know_their_paths_in_the_source() {
    let derived = |text: &str| derive(text, &DeriveSource::default(), Dialect::Shardlake).unwrap();
    let path = |path: &str| path.split('.').map(str::to_owned).collect::<Vec<_>>();
    let plain = derived("SELECT c.a.b AS d, c.id, LOWER(c.e) AS e FROM c");
    for (of, source) in
        [("d", Some("a.b")), ("d.x", Some("a.b.x")), ("e", None), ("_id", Some("id")), ("id", None)]
    {
        assert_eq!(plain.source_path(&path(of)), source.map(path), "{of}");
    }
    for (of, may) in
        [("d", true), ("d.x", true), ("e", true), ("id", true), ("_id", true), ("id.x", false), ("a", false)]
    {
        assert_eq!(plain.may_have(&path(of)), may, "{of}");
    }
    let all = derived("SELECT * FROM c");
    assert_eq!(all.source_path(&path("x.y")), Some(path("x.y")));
    assert!(all.may_have(&path("x.y")));
}

const VALUES: &[&str] = &[
    "c.a",
    "c.b",
    "c.n",
    "c.tags",
    "c.a.m",
    "c.b.m",
    "c.tags[0]",
    "c['a']",
    "c.nothing",
    "1",
    "null",
    "'x'",
    "c.n + 1",
    "c.a || c.b",
    "c.n % 2",
    "-c.n",
    "c.n / c.tags[1]",
    "c.a ?? c.b",
    "c.n > 0 ? c.a : c.b",
    "[c.a, c.n]",
    "{ x: c.a, y: [c.b] }",
    "LOWER(c.a)",
    "UPPER(c.b)",
    "ARRAY_LENGTH(c.tags)",
    "ToString(c.n)",
    "IS_STRING(c.a)",
    "ABS(c.n)",
    "CONCAT(c.a, c.b)",
    "ARRAY(SELECT VALUE t FROM t IN c.tags WHERE t > 0)",
    "(SELECT VALUE SUM(t) FROM t IN c.tags)",
    "EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = c.n)",
    "c.a = c.b",
    "c.n BETWEEN 0 AND 3",
    "c.a IN ('a', 1, null)",
    "c.a LIKE 'a%'",
    "NOT IS_DEFINED(c.b)",
    "c.n ?? c.a",
];
const CONDITIONS: &[&str] = &[
    "true",
    "c.a",
    "c.n > 1",
    "c.n <= 2 AND IS_STRING(c.a)",
    "c.a = 'a' OR c.b = null",
    "NOT (c.n = 1)",
    "ARRAY_CONTAINS(c.tags, 1)",
    "STARTSWITH(c.a, 'a')",
    "EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t > 1)",
    "c.b IN (true, 0, 'b')",
    "IS_DEFINED(c.n) AND c.n % 2 = 0",
    "c.a < c.b",
    "c.a != c.b",
];
const OF_ELEMENTS: &[&str] = &["t", "t + c.n", "[t, c.a]", "t > 1 ? c.a : undefined"];

/// Definitions over the members that random items have; true with several rows of an item.
fn definition() -> impl Strategy<Value = (String, bool)> {
    let outputs = prop::collection::vec(prop::sample::select(VALUES), 1..5);
    let filter = prop::option::of(prop::sample::select(CONDITIONS));
    let of_elements = prop::option::weighted(0.4, prop::sample::select(OF_ELEMENTS));
    (0..5, outputs, filter, of_elements).prop_map(|(form, outputs, filter, of_elements)| {
        let mut outputs: Vec<String> =
            outputs.iter().enumerate().map(|(place, output)| format!("{output} AS o{place}")).collect();
        outputs.extend(of_elements.map(|value| format!("{value} AS element")));
        let selection = match (form, of_elements) {
            (0, None) => "*".to_owned(),
            (1, _) => {
                let members: Vec<String> = outputs
                    .iter()
                    .filter_map(|output| output.rsplit_once(" AS "))
                    .map(|(value, name)| format!("{name}: {value}"))
                    .collect();
                format!("VALUE {{ {} }}", members.join(", "))
            }
            _ => outputs.join(", "),
        };
        let join = if of_elements.is_some() { " JOIN t IN c.tags" } else { "" };
        let filter = filter.map(|filter| format!(" WHERE {filter}")).unwrap_or_default();
        (format!("SELECT {selection} FROM c{join}{filter}"), of_elements.is_some())
    })
}

/// The members of a query's row that an index copies.
fn outputs_of(row: &str) -> String {
    let limits = ParseLimits::default();
    let Ok(Value::Object(mut members)) = Value::from_json(row.as_bytes(), &limits) else { panic!("{row}") };
    members.retain(|(name, _)| name != "id" && !shardlake_document::is_system_property(name));
    Value::Object(members).to_json().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_index_holds_the_rows_of_its_query(items in items(4), (text, joins) in definition()) {
        let derivation = derive(&text, &DeriveSource::default(), Dialect::Shardlake).unwrap();
        prop_assert_eq!(derivation.is_of_array(), joins);
        for item in &items.0 {
            let body = item.to_body().unwrap();
            let rows = derivation.rows(&view(&body), &key());
            prop_assert_eq!(&derivation.rows(&view(&body), &key()), &rows, "the same version has the same rows");
            let queried = Items::new(std::slice::from_ref(item)).rows(&prepare(&text).unwrap());
            let (Ok(rows), Ok(queried)) = (&rows, &queried) else {
                prop_assert!(rows.is_err() && queried.is_err(), "{rows:?} {queried:?}");
                continue;
            };
            let mut derived = Vec::new();
            for (number, row) in rows.iter().enumerate() {
                prop_assert_eq!(row.number as usize, number);
                let Value::Object(members) = Value::from_document(row.body.raw()) else { panic!("an object") };
                prop_assert_eq!(&members[0], &("id".to_owned(), Value::String(row.id.clone())));
                prop_assert_eq!(members[1].1.as_str(), item.get("id").unwrap().as_str());
                derived.push(Value::Object(members[2..].to_vec()).to_json().unwrap());
            }
            let queried: Vec<String> = queried.iter().map(|row| outputs_of(row)).collect();
            prop_assert_eq!(derived, queried);
        }
    }
}
