//! The vectors that a second implementation of spec mongo.md §11 made: names, identities, components of keys.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value as Json;
use shardlake_document::{BsonKind, RawDocument, text_of_id};
use shardlake_model::{KeyComponent, KeyPath};
use shardlake_mql::write::{
    Identity, ShardKey, body_of, document_of, identity_text, identity_value, shown_name, stored_name,
};
use shardlake_mql::{Decimal, Document, Value, identical, identical_documents};
use shardlake_stdx::Random;

use crate::tagged;

fn vectors() -> Option<Json> {
    let folder = shardlake_testkit::shared_directory("conformance", "two_doors")?;
    let text = std::fs::read_to_string(folder.join("mongo/two_doors.json")).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

fn rows<'v>(vectors: &'v Json, name: &str) -> &'v Vec<Json> {
    let rows = vectors[name].as_array().unwrap();
    assert!(rows.len() > 20, "the vectors are there");
    rows
}

#[test]
fn names_are_a_bijection() {
    let Some(vectors) = vectors() else { return };
    for row in rows(&vectors, "names") {
        let (mongo, nosql) = (row["mongo"].as_str().unwrap(), row["nosql"].as_str().unwrap());
        assert_eq!(stored_name(mongo), nosql, "{mongo} as stored");
        assert_eq!(shown_name(nosql), mongo, "{nosql} as shown");
    }
}

#[test]
fn identities_have_the_texts_of_the_vectors_and_come_back() {
    let Some(vectors) = vectors() else { return };
    for row in rows(&vectors, "identities") {
        let value = tagged::value(&row["_id"]);
        let wanted = row["id"].as_str().unwrap();
        assert_eq!(identity_text(&value).unwrap(), wanted, "{value}");
        let document = Document::one("_id", value.clone());
        let (body, Identity { text, .. }) = body_of(&document).unwrap();
        assert_eq!(*text, *wanted);
        let again = document_of(body.as_bytes()).unwrap();
        assert!(identical_documents(&again, &document), "{value} comes back as {}", again.value("_id"));
    }
}

#[test]
fn ids_of_items_decode_to_what_they_are_ids_of() {
    let Some(vectors) = vectors() else { return };
    for row in rows(&vectors, "identities_of_texts") {
        let (id, wanted) = (row["id"].as_str().unwrap(), tagged::value(&row["_id"]));
        let value = identity_value(id);
        assert!(identical(&value, &wanted), "{id} is {value}, not {wanted}");
        assert_eq!(identity_text(&value).unwrap(), id, "it encodes back to itself");
    }
}

#[test]
fn values_are_components_of_keys() {
    let Some(vectors) = vectors() else { return };
    let key = ShardKey::of(&[KeyPath(vec!["k".to_owned()])]);
    for row in rows(&vectors, "partition_key_components") {
        let document = Document::one("k", tagged::value(&row["bson"]));
        let found = key.of_new(&document);
        let wanted = match &row["component"] {
            Json::String(word) if word == "refused" => {
                assert_eq!(found.unwrap_err().code(), 61, "{}", document.value("k"));
                continue;
            }
            Json::Null => KeyComponent::Null,
            Json::Bool(value) => KeyComponent::Bool(*value),
            Json::Number(number) => KeyComponent::Number(number.as_f64().unwrap()),
            Json::String(text) => KeyComponent::String(text.clone()),
            other => panic!("no component {other}"),
        };
        let found = found.unwrap();
        assert!(found.0[0].same(&wanted), "{} is {found:?}, not {wanted:?}", document.value("k"));
    }
}

#[test]
fn members_with_names_of_the_other_door_come_back() {
    let mut document = Document::one("_id", Value::Int(1));
    for name in ["id", "$id", "_rid", "$_rid", "_ts", "$_id", "$$_id", "ttl", "plain", "$a"] {
        document.push(name, Value::string(name));
    }
    let (body, _) = body_of(&document).unwrap();
    let names: Vec<String> = body.raw().iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["id", "$id", "$$id", "$_rid", "$$_rid", "$_ts", "_id", "$_id", "ttl", "plain", "$a"]);
    let again = document_of(body.as_bytes()).unwrap();
    assert!(identical_documents(&again, &document), "{}", Value::document(again));
}

/// A text of an id, or a text that looks like one: forms of all kinds, cut, lengthened and with letters in the other case.
fn adversarial(random: &Random, typed: &[String]) -> String {
    const PIECES: [&str; 24] = [
        "$", "$num:", "$dec:", "$str:", "$hash:", "$oid:", "$bin:00:", "$bin:04:", "$uuid:", "$ts:",
        "$date:", "$bool:", "null", "0", "-", "E", "%2F", "%", "/", "é", "a", "A", ".", " ",
    ];
    let one = |of: &[&str]| of[random.below(of.len() as u64) as usize].to_owned();
    let mut text = match random.below(3) {
        0 => typed[random.below(typed.len() as u64) as usize].clone(),
        _ => one(&PIECES),
    };
    for _ in 0..random.below(4) {
        match random.below(5) {
            0 => drop(text.pop()),
            1 => text = text.to_uppercase(),
            2 => text.insert_str(0, &one(&PIECES)),
            _ => text.push_str(&one(&PIECES)),
        }
    }
    text
}

fn scalar(random: &Random) -> Value {
    let number = random.below(1 << 20) as i64 - (1 << 19);
    let bytes: Vec<u8> = (0..random.below(20)).map(|_| random.below(256) as u8).collect();
    let decimal = format!("{number}E{}", random.below(40) as i64 - 20);
    match random.below(14) {
        0 => Value::Int(number as i32),
        1 => Value::Long(number << random.below(44)),
        2 => Value::Double(number as f64 / 8.0),
        3 => Value::Double(
            [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e300, 5e-324][random.below(6) as usize],
        ),
        4 => Value::Decimal(Decimal::parse(&decimal).unwrap()),
        5 => Value::Bool(number % 2 == 0),
        6 => [Value::Null, Value::MinKey, Value::MaxKey][random.below(3) as usize].clone(),
        7 => Value::ObjectId(std::array::from_fn(|at| bytes.get(at).copied().unwrap_or_default())),
        8 => Value::Date(number << 20),
        9 => Value::Timestamp(number as u32, bytes.len() as u32),
        10 => Value::Binary(
            4,
            std::array::from_fn::<u8, 16, _>(|at| bytes.get(at).copied().unwrap_or(7)).to_vec().into(),
        ),
        11 => Value::Symbol("$num:1".into()),
        12 => Value::document(Document::one("a", number)),
        _ => Value::Binary(random.below(9) as u8, bytes.into()),
    }
}

#[test]
fn ids_of_all_kinds_come_back_and_are_texts_where_they_stand_for_texts() {
    let random = Random::seeded(11);
    let scalars: Vec<Value> = (0..3000).map(|_| scalar(&random)).collect();
    let typed: Vec<String> = scalars.iter().map(|value| identity_text(value).unwrap()).collect();
    let texts: Vec<Value> = (0..20_000).map(|_| Value::string(adversarial(&random, &typed))).collect();
    let mut seen = HashMap::new();
    for value in scalars.iter().chain(&texts) {
        let Identity { text, stored } = Identity::of(value).unwrap();
        // The stored form equals the value, for documents and for sort keys.
        if let Value::String(id) = &stored {
            assert!(identical(&identity_value(id), value), "{value} is kept as {id}");
            assert_eq!(text_of_id(id).as_deref(), value.as_str(), "{id}");
        } else {
            assert!(identical(&stored, value), "{value}");
        }
        // Two values have one identity only where they are equal.
        let other = seen.entry(text).or_insert_with(|| value.clone());
        assert!(shardlake_mql::equal(other, value), "{value} and {other} have one identity");
    }
    for text in &texts {
        // An id that the REST protocol may have written.
        let id = text.as_str().unwrap();
        assert_eq!(text_of_id(id).as_deref(), identity_value(id).as_str(), "{id}");
    }
}

/// The document format reads BSON in place, the query language into a tree: two readers of one format.
#[test]
fn both_readers_of_bson_see_the_same_kinds_and_bytes() {
    let text = || "text".to_owned();
    let inner = || Document::from_iter([("a".into(), Value::Int(1))]);
    let values = [
        Value::Double(1.5),
        Value::String("text".into()),
        Value::document(inner()),
        Value::array(vec![Value::Null, Value::Bool(true)]),
        Value::Binary(2, Arc::from([1, 2])),
        Value::Binary(4, Arc::from([7; 16])),
        Value::Undefined,
        Value::ObjectId([5; 12]),
        Value::Bool(false),
        Value::Date(-1),
        Value::Null,
        Value::Regex(Arc::new((text(), "im".to_owned()))),
        Value::DbPointer(Arc::new((text(), [6; 12]))),
        Value::Code("text".into()),
        Value::Symbol("text".into()),
        Value::CodeWithScope(Arc::new((text(), inner()))),
        Value::Int(i32::MIN),
        Value::Timestamp(1, 2),
        Value::Long(i64::MIN),
        Value::Decimal(Decimal::parse("1.10").expect("a decimal")),
        Value::MaxKey,
        Value::MinKey,
    ];
    let kinds: BTreeSet<i32> = values.iter().map(Value::type_number).collect();
    assert_eq!(kinds.len(), BsonKind::ALL.len());
    for value in values {
        let (kind, document) = (value.type_number() as u8, Document::from_iter([("v".into(), value)]));
        let bytes = document.to_bytes();
        let raw = RawDocument::validate(&bytes).expect("a valid document");
        let element = raw.elements().next().expect("one member");
        assert_eq!(element.kind().map(|kind| kind as u8), Some(kind), "{document:?}");
        // Length, kind, "v" and its zero come before the value, the final zero behind it.
        assert_eq!(element.bytes(), &bytes[7..bytes.len() - 1], "{document:?}");
        assert!(identical_documents(&Document::from_bytes(&bytes).expect("readable"), &document));
        for cut in 0..bytes.len() {
            assert!(
                RawDocument::validate(&bytes[..cut]).is_err() && Document::from_bytes(&bytes[..cut]).is_err()
            );
        }
    }
}
