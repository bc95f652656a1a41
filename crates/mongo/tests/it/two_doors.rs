//! The vectors that a second implementation of spec mongo.md §11 made: names, identities, components of keys.

use serde_json::Value as Json;
use shardlake_model::{KeyComponent, KeyPath};
use shardlake_mongo::{Identity, ShardKey, body_of, document_of, shown_name, stored_name, text_of, value_of};
use shardlake_mql::{Document, Value, identical, identical_documents};

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
        assert_eq!(text_of(&value).unwrap(), wanted, "{value}");
        let document = Document::one("_id", value.clone());
        let (body, Identity { text, .. }) = body_of(&document).unwrap();
        assert_eq!(text, wanted);
        let again = document_of(body.as_bytes()).unwrap();
        assert!(identical_documents(&again, &document), "{value} comes back as {}", again.value("_id"));
    }
}

#[test]
fn ids_of_items_decode_to_what_they_are_ids_of() {
    let Some(vectors) = vectors() else { return };
    for row in rows(&vectors, "identities_of_texts") {
        let (id, wanted) = (row["id"].as_str().unwrap(), tagged::value(&row["_id"]));
        let value = value_of(id);
        assert!(identical(&value, &wanted), "{id} is {value}, not {wanted}");
        assert_eq!(text_of(&value).unwrap(), id, "it encodes back to itself");
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
                assert_eq!(found.unwrap_err().code, 61, "{}", document.value("k"));
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
