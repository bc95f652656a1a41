//! A change that was encoded and decoded does to every document the same as the original.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use shardlake_document::Body;
use shardlake_model::{Derived, KeyComponent, PartitionKey};
use shardlake_mql::write::{
    ActionSource, AnswerForm, DocumentChange, DocumentRules, DocumentStep, ProjectionSource, RulesSource,
    ShownDocument, StepSource, Strictness, body_of,
};
use shardlake_mql::{Collation, Document, Env, Scope, Value, by_collation, collation_of};

use crate::tagged;

const FILTERS: &[&str] = &[
    r#"{}"#,
    r#"{"a": {"$gt": 1}}"#,
    r#"{"a": {"$in": [1, 2, "x", "X"]}, "$or": [{"b": {"$exists": true}}, {"a": {"$type": "number"}}]}"#,
    r#"{"b": {"$elemMatch": {"c": {"$gte": 1}}}}"#,
    r#"{"b.c": 2}"#,
    r#"{"a": {"@regex": ["^x", "i"]}}"#,
    r#"{"$expr": {"$eq": ["$a", "$$v"]}}"#,
    r#"{"$expr": {"$lt": [{"$rand": {}}, 0.5]}}"#,
    r#"{"$jsonSchema": {"properties": {"a": {"bsonType": ["int", "string", "null"]}}}}"#,
    r#"{"$nor": [{"a": null}, {"b": {"$size": 0}}]}"#,
    r#"{"$sampleRate": 0.5}"#,
    r#"{"p": {"$geoWithin": {"$box": [[0, 0], [5, 5]]}}}"#,
    r#"{"p": {"$near": [1, 1], "$maxDistance": 3}}"#,
];

/// Update, and its array filters.
const UPDATES: &[(&str, &str)] = &[
    (r#"{"$set": {"a": 2, "d": {"e": [1, {"@long": "7"}]}}}"#, "[]"),
    (r#"{"$inc": {"a": 1}, "$push": {"b": {"c": 3}}}"#, "[]"),
    (r#"{"$set": {"b.$.c": 9}}"#, "[]"),
    (r#"{"$set": {"b.$[x].c": 4}}"#, r#"[{"x.c": {"$gte": 1}}]"#),
    (r#"{"$pull": {"b": {"c": {"$in": [1, 2]}}}, "$unset": {"d": 1}}"#, "[]"),
    (r#"{"$rename": {"a": "z"}}"#, "[]"),
    (r#"{"$currentDate": {"a": {"$type": "timestamp"}, "d": true}}"#, "[]"),
    (r#"{"$mul": {"a": 1.5}, "$max": {"m": "x"}}"#, "[]"),
    (r#"{"a": "whole", "b": [], "$x": 1}"#, "[]"),
    (r#"{"a": "whole", "b": [{"c": 1}], "k": 1}"#, "[]"),
    (r#"{"$set": {"k": 2}}"#, "[]"),
    (r#"{"$set": {"p": [500, 0]}}"#, "[]"),
    (r#"{"$set": {"p": [3, 4], "b": [1, 2], "f": [3]}}"#, "[]"),
    (r#"{"$set": {"_id": 77}}"#, "[]"),
    (r#"[{"$set": {"a": {"$ifNull": ["$$v", "none"]}, "now": "$$NOW", "r": {"$rand": {}}}}]"#, "[]"),
    (
        r#"[{"$set": {"b": {"$map": {"input": "$b", "in": {"c": "$$this.c", "w": "$$w"}}}}}, {"$unset": "a"}]"#,
        "[]",
    ),
    (r#"[{"$replaceWith": {"a": {"$divide": [1, "$a"]}, "t": "$$CLUSTER_TIME"}}]"#, "[]"),
];

const VALIDATORS: &[&str] = &[
    r#"{}"#,
    r#"{"a": {"$type": ["int", "string", "double"]}}"#,
    r#"{"$jsonSchema": {"required": ["a"], "properties": {"b": {"bsonType": "array"}}}}"#,
    r#"{"$expr": {"$lt": [{"$strLenCP": {"$toString": "$a"}}, 5]}}"#,
];

const INDEXES: &[&str] = &[
    r#"[]"#,
    r#"[{"name": "b_f", "key": {"b": 1, "f": 1}}]"#,
    r#"[{"name": "p", "key": {"p": "2d"}, "min": 0, "max": 10}, {"name": "b0", "key": {"b.0": 1}}]"#,
    r#"[{"name": "w", "key": {"b": 1, "d.$**": 1}, "partialFilterExpression": {"a": "WHOLE"}, "collation": {"locale": "en", "strength": 2}}]"#,
    r#"[{"name": "s", "key": {"p": "2dsphere"}}]"#,
];

const VALUES: &[&str] = &[
    "null",
    "true",
    "1",
    "2",
    "2.5",
    r#""x""#,
    r#""X""#,
    r#""whole""#,
    r#"{"@long": "1"}"#,
    "[]",
    "[1, 2]",
    "[3, 4]",
    r#"[{"c": 1}, {"c": 2}]"#,
    r#"[{"c": 3}, 7, {"0": 1}]"#,
    r#"{"e": [1]}"#,
    "0",
    r#"{"@date": 5}"#,
];

fn json(text: &str) -> Value {
    tagged::value(&serde_json::from_str(text).expect("JSON"))
}

fn document(text: &str) -> Document {
    Document::clone(json(text).as_document().expect("a document"))
}

fn documents(text: &str) -> Vec<Document> {
    let items = json(text);
    let items = items.as_array().expect("a list").iter();
    items.map(|item| Document::clone(item.as_document().expect("a document"))).collect()
}

fn collation(strength: Option<i32>) -> Collation {
    let Some(strength) = strength else { return Collation::simple() };
    let mut rules = Document::one("locale", "de");
    rules.push("strength", Value::Int(strength));
    rules.push("numericOrdering", Value::Bool(strength == 1));
    collation_of(&rules).expect("it is supported")
}

fn action() -> impl Strategy<Value = ActionSource> {
    prop_oneof![
        12 => select(UPDATES).prop_map(|(update, filters)| ActionSource::Update {
            update: json(update),
            array_filters: json(filters).as_array().expect("a list").to_vec(),
        }),
        2 => Just(ActionSource::Remove),
        1 => Just(ActionSource::Rewrite),
        1 => Just(ActionSource::Insert(Arc::new(document(r#"{"_id": 1, "a": "new", "id": 3}"#)))),
    ]
}

fn stored() -> impl Strategy<Value = Option<Document>> {
    let members =
        prop::collection::btree_map(select(&["a", "b", "d", "f", "id", "k", "p"]), select(VALUES), 0..6);
    let ids = select(&["1", r#""one""#, r#"{"@long": "1"}"#, "2.5"]);
    prop::option::weighted(0.9, (ids, members)).prop_map(|stored| {
        let (id, members) = stored?;
        let mut document = Document::one("_id", json(id));
        members.into_iter().for_each(|(name, value)| document.push(name, json(value)));
        Some(document)
    })
}

fn rules() -> impl Strategy<Value = RulesSource> {
    let strictness = select(&[Strictness::None, Strictness::Moderate, Strictness::Strict]);
    (select(VALIDATORS), strictness, select(INDEXES), any::<bool>(), select(&[None, Some(1)])).prop_map(
        |(validator, strictness, indexes, is_sharded, strength)| RulesSource {
            indexes: documents(indexes),
            validator: document(validator),
            strictness,
            scope: Scope::with_collation(collation(strength)),
            shard_key: vec![vec![if is_sharded { "k" } else { "_partitionKey" }.to_owned()]],
        },
    )
}

/// `None` where the statement is refused as it is.
fn change(
    (filter, action): (Document, ActionSource),
    rules: RulesSource,
    (collation, variables): (Collation, Document),
    (seed, checks): (u64, bool),
) -> Option<DocumentChange> {
    let env = Env::new(1_700_000_000_000, seed).with_cluster_time((1_700_000_000, 1));
    let (scope, env) = Scope::with_variables(&collation, &variables, env).expect("variables");
    let step = DocumentStep::of(StepSource { filter, action, scope }).ok()?;
    let rules = DocumentRules::of(rules).expect("rules");
    Some(DocumentChange { step: Arc::new(step), rules: Arc::new(rules), env, checks })
}

fn shown(change: &DocumentChange, body: Option<&Body>, key: &PartitionKey) -> String {
    format!("{:?}", change.apply(body.map(Body::raw), key))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn an_encoded_change_has_the_same_outcome(
        filter in select(FILTERS),
        hint in prop::option::weighted(0.2, select(&[1, 3])),
        action in action(),
        rules in rules(),
        strength in select(&[None, Some(1), Some(2)]),
        seed in any::<u64>(),
        checks in any::<bool>(),
        variables in any::<bool>(),
        bodies in prop::collection::vec(stored(), 1..6),
    ) {
        let mut filter = document(filter);
        if let Some(hint) = hint {
            let rows = by_collation(&document(r#"{"a": "WHOLE"}"#), &collation(Some(hint)));
            filter = Document::one("$and", vec![Value::document(filter), Value::document(rows)]);
        }
        // Without variables, a statement that names them is refused.
        let variables = document(if variables { r#"{"v": 2, "w": {"$concat": ["x", "y"]}, "u": "$$w"}"# } else { "{}" });
        let made = change((filter, action), rules, (collation(strength), variables), (seed, checks));
        let Some(change) = made else { return Ok(()) };
        let bytes = postcard::to_allocvec(&change).expect("it is encoded");
        let received: DocumentChange = postcard::from_bytes(&bytes).expect("it is decoded");
        prop_assert_eq!(postcard::to_allocvec(&received).expect("it is encoded"), bytes);
        let key = PartitionKey(vec![KeyComponent::Number(1.0)]);
        for stored in bodies {
            let body = stored.map(|document| body_of(&document).expect("a body").0);
            prop_assert_eq!(shown(&received, body.as_ref(), &key), shown(&change, body.as_ref(), &key));
        }
    }

    #[test]
    fn damaged_bytes_of_a_change_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>()) {
        let scope = Scope::new();
        let step = StepSource { filter: document(FILTERS[2]), action: ActionSource::Remove, scope };
        let step = DocumentStep::of(step).expect("a step");
        let mut sent = postcard::to_allocvec(&step).expect("it is encoded");
        let place = at.index(sent.len());
        sent.splice(place.., bytes);
        // The result is an error or another step, and no panic.
        if let Ok(received) = postcard::from_bytes::<DocumentStep>(&sent) {
            prop_assert!(postcard::to_allocvec(&received).is_ok());
        }
    }
}

#[test]
fn an_encoded_answer_shows_the_same_document() {
    let mut env = Env::new(5, 7);
    let (scope, bound) = Scope::with_variables(&collation(Some(2)), &document(r#"{"v": "X"}"#), env.clone())
        .expect("variables");
    env.clone_from(&bound);
    let fields = document(
        r#"{"a": 1, "b": {"$elemMatch": {"c": 2}}, "is": {"$eq": ["$a", "$$v"]}, "r": {"$rand": {}}}"#,
    );
    let projection = Derived::of(ProjectionSource { fields, scope }).expect("a projection");
    let shown = ShownDocument { removes: false, shows_new: true, projection: Some(projection), env };
    let form = AnswerForm::FindAndModify(Arc::new(shown));
    let bytes = postcard::to_allocvec(&form).expect("it is encoded");
    let received: AnswerForm = postcard::from_bytes(&bytes).expect("it is decoded");
    let rules = DocumentRules::of(RulesSource {
        indexes: Vec::new(),
        validator: Document::new(),
        strictness: Strictness::Strict,
        scope: Scope::new(),
        shard_key: vec![vec!["_partitionKey".to_owned()]],
    });
    let action = ActionSource::Update { update: json(r#"{"$set": {"a": "x"}}"#), array_filters: Vec::new() };
    let step = DocumentStep::of(StepSource::of_any(action)).expect("a step");
    let env = Env::new(5, 7);
    let change =
        DocumentChange { step: Arc::new(step), rules: Arc::new(rules.expect("rules")), env, checks: true };
    let (body, _) = body_of(&document(r#"{"_id": 1, "a": 5, "b": [{"c": 1}, {"c": 2}]}"#)).expect("a body");
    let key = PartitionKey(vec![KeyComponent::Undefined]);
    let (_, outcome) = change.apply(Some(body.raw()), &key).expect("it is changed");
    let outcome = outcome.expect("it matches");
    let answer = form.of_commit(Some(&outcome)).expect("an answer");
    let text = answer.to_string();
    assert!(
        text.starts_with("{ lastErrorObject: { n: 1, updatedExisting: true }, value: { _id: 1, "),
        "{text}"
    );
    assert!(text.contains("is: true"), "{text}");
    assert_eq!(received.of_commit(Some(&outcome)).expect("an answer").to_bytes(), answer.to_bytes());
    let outcome = postcard::to_allocvec(&outcome).expect("it is encoded");
    let outcome = postcard::from_bytes(&outcome).expect("it is decoded");
    assert_eq!(form.of_commit(Some(&outcome)).expect("an answer").to_bytes(), answer.to_bytes());
}
