//! The partition keys that conditions leave.

use proptest::prelude::*;
use shardlake_document::Value;
use shardlake_model::{KeyComponent, KeyPath, PartitionKeyDefinition};

use super::{component, key_filter};
use crate::bind::{ComputedProperties, Environment, bind};
use crate::bound::BoundQuery;
use crate::evaluate::holds;
use crate::evaluate::scope::Scope;
use crate::plan::KeyFilter;
use crate::syntax::parse;
use crate::value::context::{EvaluationContext, FunctionContext};
use crate::value::datum::Datum;
use crate::value::meter::Meter;

fn bound(text: &str) -> BoundQuery {
    let environment = Environment {
        parameters: &[],
        computed: &ComputedProperties::default(),
        functions: &FunctionContext::default(),
        scripts: None,
        meter: &Meter::default(),
        is_own: false,
    };
    let query = parse(text).expect("valid");
    bind(text, &query, &environment).unwrap_or_else(|error| panic!("{text}: {}", error.to_json()))
}

fn keys(condition: &str, definition: &PartitionKeyDefinition) -> String {
    match key_filter(&bound(&format!("SELECT * FROM c WHERE {condition}")), definition) {
        KeyFilter::All => "all".into(),
        KeyFilter::Nothing => "nothing".into(),
        KeyFilter::Keys(keys) => {
            let mut keys: Vec<String> = keys.iter().map(|key| print(&key.0)).collect();
            keys.sort();
            keys.join(" ")
        }
    }
}

fn print(key: &[KeyComponent]) -> String {
    let components: Vec<String> = key
        .iter()
        .map(|component| match component {
            KeyComponent::Undefined => "undefined".into(),
            KeyComponent::Null => "null".into(),
            KeyComponent::Bool(value) => value.to_string(),
            KeyComponent::Number(number) => number.to_string(),
            KeyComponent::String(text) => text.clone(),
        })
        .collect();
    components.join("/")
}

#[test]
fn conditions_leave_the_keys_that_they_should() {
    let definition = PartitionKeyDefinition::hash("/k");
    for (condition, expected) in [
        ("c.k = 1", "1"),
        ("1 = c['k']", "1"),
        ("c.k = 1 + 1", "2"),
        ("c.k = {'a': 1}", "undefined"),
        ("c.k = null OR c.k = 'x'", "null x"),
        ("c.k IN (1, 2, 1) AND c.k IN (2, 3)", "2"),
        ("c.k = 1 AND c.a = 5", "1"),
        ("c.k = 1 OR c.a = 5", "all"),
        ("c.k = 1 AND c.k = '1'", "nothing"),
        ("(c.k = 1 AND c.k = 2) OR c.k = 3", "3"),
        ("c.k", "true"),
        ("NOT c.k", "false"),
        ("NOT (c.k = 1)", "all"),
        ("NOT (c.k != 1)", "1"),
        ("NOT (c.k != 1 OR c.a = 5)", "1"),
        ("(c.k = 1) = true", "1"),
        ("ABS(c.k) = 2", "-2 2"),
        ("ABS(c.k) = -2", "nothing"),
        ("IS_BOOL(c.k)", "false true"),
        ("IS_NULL(c.k)", "null"),
        ("IS_STRING(c.k)", "all"),
        ("c.k LIKE 'ab'", "ab"),
        ("c.k LIKE 'a!_b' ESCAPE '!'", "a_b"),
        ("c.k LIKE 'a_b'", "all"),
        ("ARRAY_CONTAINS([1, 'x'], c.k)", "1 x"),
        ("c.k > 1", "all"),
        ("IS_ARRAY(c.k)", "all"),
        ("c.k = undefined", "nothing"),
        ("c.a > []", "nothing"),
        ("(NOT c.a) = 'x'", "nothing"),
        ("SUBSTRING(true, 0, c.a) = 'x' OR c.k = 1", "1"),
        ("c.a BETWEEN 1 AND 'x'", "all"),
        ("c.a BETWEEN [] AND 1", "nothing"),
        ("(c.a + 1) || 'x' = 'x'", "nothing"),
        ("c.k BETWEEN 1 AND 1", "all"),
        ("c.k.x = 1", "all"),
        ("c.a ? c.k = 1 : c.k = 2", "1 2"),
        ("EXISTS(SELECT VALUE t FROM t IN c.t WHERE c.k = 1)", "all"),
        ("false", "nothing"),
        ("1 = 1", "all"),
        ("5", "nothing"),
    ] {
        assert_eq!(keys(condition, &definition), expected, "{condition}");
    }
}

#[test]
fn hierarchical_keys_are_pinned_from_the_left() {
    let definition = PartitionKeyDefinition::multi_hash(&["/t", "/u", "/s"]);
    for (condition, expected) in [
        ("c.t = 'a' AND c.u = 1 AND c.s = null", "a/1/null"),
        ("c.t = 'a' AND c.u IN (1, 2)", "a/1 a/2"),
        ("c.t = 'a' AND c.s = 5", "a"),
        ("c.u = 1 AND c.s = 5", "all"),
        ("c.t = 'a' OR (c.t = 'a' AND c.u = 1)", "a"),
        ("(c.t = 'a' AND c.u = 1) OR c.t = 'b'", "a/1 b"),
    ] {
        assert_eq!(keys(condition, &definition), expected, "{condition}");
    }
}

#[test]
fn sources_lead_to_the_item_or_not() {
    let definition = PartitionKeyDefinition::hash("/a/b");
    for (text, expected) in [
        ("SELECT * FROM c.a WHERE a.b = 1", Some(1)),
        ("SELECT * FROM c.a AS x WHERE x['b'] = 1", Some(1)),
        ("SELECT t FROM c JOIN t IN c.t WHERE c.a.b = 1", Some(1)),
        ("SELECT a FROM c JOIN a IN c.t WHERE a.b = 1", None),
        ("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.x FROM c WHERE c.a.b = 1) AS d", Some(1)),
        ("SELECT VALUE x FROM (SELECT VALUE COUNT(1) FROM c WHERE c.a.b = 1) AS x", Some(1)),
        ("SELECT VALUE x + 1 FROM (SELECT VALUE COUNT(1) FROM c WHERE c.a.b = 1) AS x", Some(1)),
    ] {
        let filter = key_filter(&bound(text), &definition);
        let count = match &filter {
            KeyFilter::All => None,
            KeyFilter::Nothing => Some(0),
            KeyFilter::Keys(keys) => Some(keys.len()),
        };
        assert_eq!(count, expected, "{text}");
    }
    for text in ["SELECT 1", "SELECT VALUE x FROM x IN (SELECT VALUE [1, 2])"] {
        assert_eq!(key_filter(&bound(text), &definition), KeyFilter::Nothing, "{text}");
    }
}

fn constants() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["null", "true", "false", "0", "1", "-1", "'x'", "'y'", "[]", "{}", "undefined"])
        .prop_map(str::to_owned)
}

fn operands() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec!["c.k", "c.h.x", "c['k']", "c.o", "c.k.x", "ABS(c.k)", "ABS(c.h.x)"])
            .prop_map(str::to_owned),
        1 => prop::sample::select(OF_ONE_TYPE).prop_map(str::to_owned),
        3 => constants(),
    ]
}

const OF_ONE_TYPE: &[&str] = &[
    "(NOT c.k)",
    "(- c.k)",
    "(c.k + c.o)",
    "(c.k || c.o)",
    "[c.k]",
    "{'x': c.k}",
    "LOWER(c.o)",
    "LENGTH(c.k)",
    "ToString(c.k)",
    "StringToNull(c.k)",
    "ARRAY_CONTAINS([c.o], c.k)",
    "ARRAY_SLICE(c.k, c.o)",
    "ARRAY_MAX([c.k, c.o])",
    "ST_ISVALID(c.k)",
    "(c.o ?? c.k)",
    "(c.o ? c.k : LOWER(c.k))",
];

fn conditions() -> impl Strategy<Value = String> {
    let functions =
        vec!["IS_NULL", "IS_BOOL", "IS_DEFINED", "IS_ARRAY", "IS_OBJECT", "IS_STRING", "IS_NUMBER"];
    let leaf = prop_oneof![
        operands(),
        (operands(), prop::sample::select(vec!["=", "!=", "<", ">="]), operands())
            .prop_map(|(left, operator, right)| format!("({left} {operator} {right})")),
        (operands(), operands(), operands())
            .prop_map(|(value, low, high)| format!("({value} BETWEEN {low} AND {high})")),
        (operands(), prop::collection::vec(operands(), 1..4))
            .prop_map(|(value, list)| format!("({value} IN ({}))", list.join(", "))),
        (prop::sample::select(functions), operands()).prop_map(|(name, value)| format!("{name}({value})")),
        (operands(), prop::sample::select(vec!["x", "x%", "_"]))
            .prop_map(|(value, pattern)| format!("({value} LIKE '{pattern}')")),
        (prop::collection::vec(constants(), 0..4), operands())
            .prop_map(|(list, value)| format!("ARRAY_CONTAINS([{}], {value})", list.join(", "))),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" AND "))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" OR "))),
            inner.clone().prop_map(|part| format!("(NOT {part})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} = {b})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("({a} ?? {b})")),
        ]
    })
}

fn values() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        Value::Undefined,
        Value::Null,
        Value::Bool(true),
        Value::Bool(false),
        Value::Int(0),
        Value::Int(1),
        Value::Double(-1.0),
        Value::String("x".into()),
        Value::String("y".into()),
        Value::Array(Vec::new()),
        Value::Object(Vec::new()),
        Value::Object(vec![("x".into(), Value::Int(1))]),
    ])
}

fn object(members: Vec<(&str, Value)>) -> Value {
    let defined = members.into_iter().filter(|(_, value)| *value != Value::Undefined);
    Value::Object(defined.map(|(name, value)| (name.to_owned(), value)).collect())
}

/// The component that the document has at a path.
fn component_at(document: &Value, path: &KeyPath) -> KeyComponent {
    let mut value = document;
    for name in &path.0 {
        let Value::Object(members) = value else { return KeyComponent::Undefined };
        match members.iter().find(|(member, _)| member == name) {
            Some((_, member)) => value = member,
            None => return KeyComponent::Undefined,
        }
    }
    component(value).expect("documents hold finite numbers")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_matching_document_is_excluded(
        condition in conditions(),
        key in values(),
        nested in values(),
        other in values(),
    ) {
        let document = object(vec![("k", key), ("h", object(vec![("x", nested)])), ("o", other)]);
        let query = bound(&format!("SELECT * FROM c WHERE {condition}"));
        let functions = FunctionContext::default();
        let meter = Meter::default();
        let context = EvaluationContext::new(&functions, &|| false, &meter);
        let outermost = Scope::new(&context);
        let scope = outermost.with(0, Datum::from_tree(&document));
        let matches = query.filter.as_ref().is_none_or(|filter| holds(filter, &scope).expect("no bound is met"));
        for definition in [
            PartitionKeyDefinition::hash("/k"),
            PartitionKeyDefinition::multi_hash(&["/k", "/h/x"]),
            PartitionKeyDefinition::multi_hash(&["/h/x", "/o", "/k"]),
        ] {
            let paths = definition.validate(3).expect("valid");
            let components: Vec<KeyComponent> = paths.iter().map(|path| component_at(&document, path)).collect();
            let included = match key_filter(&query, &definition) {
                KeyFilter::All => true,
                KeyFilter::Nothing => false,
                KeyFilter::Keys(keys) => {
                    keys.iter().any(|key| key.0.iter().zip(&components).all(|(a, b)| a.same(b)))
                }
            };
            prop_assert!(included || !matches, "{condition} matches {document:?} under {:?}", definition.paths);
        }
    }
}
