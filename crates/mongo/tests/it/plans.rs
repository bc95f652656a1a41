//! Conditions that filters give the engine: never stricter than the filter.

use shardlake_model::{KeyComponent, KeyPath};
use shardlake_mongo::{Access, access, plan};
use shardlake_mql::write::ShardKey;
use shardlake_mql::{Document, SIMPLE, Value};

fn key(paths: &[&str]) -> ShardKey {
    let path = |path: &&str| KeyPath(path.split('.').map(str::to_owned).collect());
    ShardKey::of(&paths.iter().map(path).collect::<Vec<_>>())
}

fn index(name: &str, field: &str) -> Document {
    let mut index = Document::one("name", name);
    index.push("key", Value::document(Document::one(field, Value::Int(1))));
    index
}

#[test]
fn the_shard_key_and_the_identity_name_one_document() {
    let key = key(&["tenant"]);
    let mut filter = Document::one("tenant", "a");
    filter.push("_id", Value::Int(7));
    let found = plan(&filter, &SIMPLE, &key);
    assert_eq!(found.id.as_deref(), Some("$num:7"));
    assert_eq!(found.key.unwrap().0, [KeyComponent::String("a".to_owned())]);
    assert_eq!(access(&filter, &SIMPLE, &key, &[]), Access::Identity);
}

#[test]
fn what_may_hide_in_other_logical_partitions_is_looked_for_in_all() {
    let key = key(&["tenant"]);
    // Null also stands for nothing, and of zero there are two.
    for value in [Value::Null, Value::Int(0), Value::Double(-0.0), Value::array(vec![Value::Int(1)])] {
        let filter = Document::one("tenant", value.clone());
        assert_eq!(plan(&filter, &SIMPLE, &key).key, None, "{value}");
    }
}

#[test]
fn an_alternative_that_says_nothing_means_a_scan() {
    let key = key(&["_partitionKey"]);
    let indexes = [index("a_1", "a")];
    let by_index = Document::one("a", Value::Int(1));
    assert_eq!(access(&by_index, &SIMPLE, &key, &indexes), Access::Index("a_1".to_owned()));
    let exists = Document::one("b", Value::document(Document::one("$exists", Value::Bool(false))));
    let branches = vec![Value::document(by_index), Value::document(exists)];
    let either = Document::one("$or", Value::array(branches));
    assert_eq!(plan(&either, &SIMPLE, &key).query.filter, None);
    assert_eq!(access(&either, &SIMPLE, &key, &indexes), Access::Scan);
}

#[test]
fn strings_under_a_collation_are_left_to_the_match() {
    let collation = shardlake_mql::collation_of(&Document::one("locale", "en")).expect("a collation");
    let key = key(&["k"]);
    let doc = |members: &[(&str, Value)]| -> Document {
        members.iter().map(|(name, value)| ((*name).into(), value.clone())).collect()
    };
    let text = || Value::string("x");
    let number = doc(&[("_id", Value::Int(1)), ("k", Value::Int(2))]);
    assert_eq!(access(&number, &collation, &key, &[]), Access::Identity);
    for (filter, has_key) in [
        (doc(&[("_id", text()), ("k", text())]), false),
        (doc(&[("_id", text()), ("k", Value::Int(2))]), true),
        (doc(&[("a", Value::array(vec![text()]))]), false),
        (doc(&[("a", Value::document(doc(&[("$in", Value::array(vec![Value::Int(1), text()]))])))]), false),
    ] {
        let found = plan(&filter, &collation, &key);
        assert_eq!((found.id, found.key.is_some()), (None, has_key));
        assert_eq!(access(&filter, &collation, &key, &[]), Access::Scan);
    }
    // A branch that the engine cannot judge lets everything through.
    let branch = |value: Value| Value::document(doc(&[("a", value)]));
    let either = doc(&[("$or", Value::array(vec![branch(Value::Int(1)), branch(text())]))]);
    assert_eq!(plan(&either, &collation, &key).query.filter, None);
    assert!(plan(&either, &SIMPLE, &key).query.filter.is_some());
}
