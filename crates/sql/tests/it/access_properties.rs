//! Access plans over random items and conditions: the index entries of a plan include every item that the
//! query answers, and a plan that claims to be exactly equivalent to `WHERE` is.
//!
//! The index is modelled from its description alone: an entry for each node of an item, undefined ones under
//! paths that the policy names, composites of their members' values. The executor's result for the whole item
//! is the truth.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use std::cmp::Ordering;

use proptest::prelude::*;
use shardlake_document::{
    Body, Envelope, ItemView, ParseLimits, Value, decode_index_value, encode_index_value, parse_document,
};
use shardlake_model::{ContainerRid, IndexPathSegment, IndexingPolicy, Limits, PathMatcher};
use shardlake_sql::{
    AccessPlan, CompositeSchema, ComputedProperties, Execution, GeometryKind, IndexFilter, IndexRef,
    IndexSchema, KeyValue, Leaf, Meter, OrderAccess, PageLimits, PreparedQuery, QueryEnvironment,
    parse_query, plan_access,
};
use shardlake_stdx::Guid;

const POLICY: &str = r#"{"includedPaths":[{"path":"/*"},{"path":"/named/?"},{"path":"/o/q/?"}],
    "excludedPaths":[{"path":"/left_out/*"}],
    "compositeIndexes":[[{"path":"/v"},{"path":"/w"}],
        [{"path":"/v","order":"descending"},{"path":"/w"},{"path":"/named","order":"descending"}],
        [{"path":"/w"},{"path":"/named","order":"descending"}]]}"#;

/// The policy as planning sees it.
struct Policy {
    paths: PathMatcher,
    composites: Vec<CompositeSchema>,
    explicit: Vec<Vec<String>>,
    computed: Vec<String>,
}

impl Policy {
    fn new() -> Policy {
        let policy: IndexingPolicy = serde_json::from_str(POLICY).unwrap();
        let policy = policy.normalise(&Limits::default()).unwrap();
        let member = |path: &shardlake_model::CompositePath| {
            let names = path.path.trim_start_matches('/').split('/').map(str::to_owned).collect();
            (names, path.order == shardlake_model::SortOrder::Descending)
        };
        let composites = policy.composite_indexes.iter();
        Policy {
            paths: policy.matcher(),
            composites: composites
                .map(|one| CompositeSchema { members: one.iter().map(member).collect() })
                .collect(),
            explicit: vec![vec!["named".into()], vec!["o".into(), "q".into()]],
            computed: vec!["lower".into(), "sum".into()],
        }
    }

    fn schema(&self) -> IndexSchema<'_> {
        IndexSchema {
            paths: Some(&self.paths),
            composites: &self.composites,
            explicit: &self.explicit,
            computed: &self.computed,
            policy_paths: &self.paths,
            policy_composites: &self.composites,
        }
    }

    /// The index values that an item has under a path or in a composite index.
    fn entries(&self, item: &Value, index: &IndexRef) -> Vec<Vec<u8>> {
        let mut entries = Vec::new();
        match index {
            IndexRef::Path(path) => {
                assert!(self.paths.is_indexed(path) || is_system(path), "{path:?} has no entries");
                nodes(item, path, &mut |value| entries.push(encoded(value)));
                let is_explicit = names_of(path).is_some_and(|names| {
                    self.explicit.contains(&names) || (names.len() == 1 && self.computed.contains(&names[0]))
                });
                if entries.is_empty() && is_explicit {
                    entries.push(encoded(&Value::Undefined));
                }
            }
            IndexRef::Composite(number) => {
                let members = &self.composites[*number].members;
                let mut entry = Vec::new();
                for (names, descending) in members {
                    let mut bytes = encoded(&property(item, names));
                    if *descending != members[0].1 {
                        bytes.iter_mut().for_each(|byte| *byte = !*byte);
                    }
                    entry.extend(bytes);
                }
                entries.push(entry);
            }
        }
        entries
    }
}

fn is_system(path: &[IndexPathSegment]) -> bool {
    matches!(path, [IndexPathSegment::Name(name)] if name == "id" || name == "_ts")
}

fn names_of(path: &[IndexPathSegment]) -> Option<Vec<String>> {
    let name = |segment: &IndexPathSegment| match segment {
        IndexPathSegment::Name(name) => Some(name.clone()),
        _ => None,
    };
    path.iter().map(name).collect()
}

fn nodes(value: &Value, path: &[IndexPathSegment], visit: &mut dyn FnMut(&Value)) {
    let Some((segment, rest)) = path.split_first() else { return visit(value) };
    match (segment, value) {
        (IndexPathSegment::Name(name), Value::Object(members)) => {
            members
                .iter()
                .filter(|(member, _)| member == name)
                .for_each(|(_, value)| nodes(value, rest, visit));
        }
        (IndexPathSegment::AnyElement, Value::Array(elements)) => {
            elements.iter().for_each(|element| nodes(element, rest, visit));
        }
        _ => {}
    }
}

fn property(item: &Value, names: &[String]) -> Value {
    let path: Vec<_> = names.iter().cloned().map(IndexPathSegment::Name).collect();
    let mut found = Value::Undefined;
    nodes(item, &path, &mut |value| found = value.clone());
    found
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_index_value(value, &mut bytes);
    bytes
}

/// The index's answer for an item: certain only where it holds the whole value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    No,
    Perhaps,
    Yes,
}

fn answer(policy: &Policy, item: &Value, filter: &IndexFilter) -> Answer {
    match filter {
        IndexFilter::Everything => Answer::Yes,
        IndexFilter::Nothing => Answer::No,
        IndexFilter::Leaf(leaf) => answer_leaf(policy, item, leaf),
        IndexFilter::And(parts) => {
            parts.iter().map(|part| answer(policy, item, part)).min().unwrap_or(Answer::Yes)
        }
        IndexFilter::Or(parts) => {
            parts.iter().map(|part| answer(policy, item, part)).max().unwrap_or(Answer::No)
        }
    }
}

fn answer_leaf(policy: &Policy, item: &Value, leaf: &Leaf) -> Answer {
    let sorted = leaf.ranges.windows(2).all(|pair| pair[0].end <= pair[1].start);
    assert!(sorted && leaf.ranges.iter().all(|range| range.start < range.end), "{leaf}: ranges overlap");
    let entries = policy.entries(item, &leaf.index);
    let in_range =
        |entry: &Vec<u8>| leaf.ranges.iter().any(|range| range.start <= *entry && *entry < range.end);
    let answers = entries.iter().filter(|entry| in_range(entry)).map(|entry| match &leaf.test {
        None => Answer::Yes,
        Some(test) => match decode_index_value(entry) {
            None => Answer::Perhaps,
            Some(value) if test.matches(&value, &Meter::default(), &|| false) == Ok(true) => Answer::Yes,
            Some(_) => Answer::No,
        },
    });
    answers.max().unwrap_or(Answer::No)
}

fn value_text() -> impl Strategy<Value = String> + Clone {
    let short = prop::sample::select(vec![
        "null",
        "true",
        "false",
        "0",
        "-0.0",
        "1",
        "-1",
        "1.5",
        "9007199254740991",
        "9007199254740992",
        "9007199254740993",
        "9007199254740992.0",
        "-9007199254740993",
        "1e300",
        "\"\"",
        "\"a\"",
        "\"ab\"",
        "\"aB\"",
        "\"b\"",
        "\"a%\"",
        "\"\u{e000}\"",
        "\"\u{1F600}\"",
        "[]",
        "[1]",
        "[\"a\",1,\"ab\"]",
        "[[1],{\"p\":1}]",
        "{}",
        "{\"p\":1}",
        "{\"p\":\"a\",\"q\":2}",
    ]);
    let long =
        (prop::sample::select(vec!["a", "b"]), 117usize..124, prop::sample::select(vec!["", "a", "b"]));
    prop_oneof![
        6 => short.prop_map(str::to_owned),
        1 => long.prop_map(|(unit, count, tail)| format!("\"{}{tail}\"", unit.repeat(count))),
    ]
}

/// An item's members, each there or not.
fn item_text() -> impl Strategy<Value = String> {
    let names = ["v", "w", "named", "left_out", "t", "o"];
    let object = (prop::option::of(value_text()), prop::option::of(value_text()))
        .prop_map(|(p, q)| {
            let members = [("p", p), ("q", q)]
                .into_iter()
                .filter_map(|(name, value)| value.map(|value| format!("\"{name}\":{value}")));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        })
        .boxed();
    let array = prop::collection::vec(prop_oneof![3 => value_text(), 1 => object.clone()], 0..4)
        .prop_map(|elements| format!("[{}]", elements.join(",")));
    let plain = || prop::option::weighted(0.8, value_text());
    let list = prop::option::weighted(0.9, prop_oneof![4 => array, 1 => value_text()]);
    let nested = prop::option::weighted(0.9, prop_oneof![4 => object, 1 => value_text()]);
    (plain(), plain(), plain(), plain(), list, nested).prop_map(move |(a, b, c, d, t, o)| {
        let members = names.into_iter().zip([a, b, c, d, t, o]);
        let members = members.filter_map(|(name, value)| value.map(|value| format!(",\"{name}\":{value}")));
        format!("{{\"id\":\"a\"{}}}", members.collect::<String>())
    })
}

fn path() -> impl Strategy<Value = String> + Clone {
    let paths = [
        "c.v",
        "c.v",
        "c.lower",
        "c.sum",
        "c.other",
        "LOWER(c.w)",
        "c.w",
        "c['w']",
        "c.named",
        "c.left_out",
        "c.o.p",
        "c.o.q",
        "c.t[0]",
        "c.o",
        "c.t",
        "c.id",
        "c._ts",
        "c._rid",
    ];
    prop::sample::select(paths.to_vec()).prop_map(str::to_owned)
}

fn string_text() -> impl Strategy<Value = String> {
    value_text().prop_filter("a string", |text| text.starts_with('"'))
}

/// A condition on one operand.
fn condition_on(operand: impl Strategy<Value = String> + Clone + 'static) -> BoxedStrategy<String> {
    let operator = prop::sample::select(vec!["=", "!=", "<", "<=", ">", ">="]);
    let search =
        prop::sample::select(vec!["STARTSWITH", "CONTAINS", "ENDSWITH", "STRINGEQUALS", "REGEXMATCH"]);
    let flag = prop::sample::select(vec!["", ", true", ", false", ", null"]);
    let pattern = prop::sample::select(vec![
        "'a%'",
        "'%a'",
        "'%b%'",
        "'a_'",
        "'a'",
        "'[ab]%'",
        "'a!%' ESCAPE '!'",
        "'%'",
        "''",
        "'a%b'",
    ]);
    let check = prop::sample::select(vec![
        "IS_DEFINED",
        "IS_NULL",
        "IS_BOOL",
        "IS_NUMBER",
        "IS_STRING",
        "IS_ARRAY",
        "IS_OBJECT",
        "IS_PRIMITIVE",
        "IS_INTEGER",
        "IS_FINITE_NUMBER",
        "IS_DATETIME",
    ]);
    let list = || prop::collection::vec(value_text(), 1..4).prop_map(|values| values.join(", "));
    let not = || prop::sample::select(vec!["", "NOT "]);
    prop_oneof![
        4 => (operand.clone(), operator.clone(), value_text()).prop_map(|(o, op, v)| format!("{o} {op} {v}")),
        1 => (operand.clone(), operator, value_text()).prop_map(|(o, op, v)| format!("{v} {op} {o}")),
        1 => (operand.clone(), not(), list()).prop_map(|(o, not, list)| format!("{o} {not}IN ({list})")),
        1 => (operand.clone(), not(), value_text(), value_text())
            .prop_map(|(o, not, low, high)| format!("({o} {not}BETWEEN {low} AND {high})")),
        1 => (operand.clone(), not(), pattern).prop_map(|(o, not, like)| format!("{o} {not}LIKE {like}")),
        2 => (search, operand.clone(), string_text(), flag)
            .prop_map(|(name, o, text, flag)| format!("{name}({o}, {text}{flag})")),
        2 => (check, operand.clone()).prop_map(|(name, o)| format!("{name}({o})")),
        1 => (list(), operand.clone(), prop::sample::select(vec!["", ", false", ", true"]))
            .prop_map(|(list, o, flag)| format!("ARRAY_CONTAINS([{list}], {o}{flag})")),
        1 => (value_text(), operand.clone()).prop_map(|(v, o)| format!("{v} IN ({o}, {o}.w)")),
        1 => operand,
    ]
    .boxed()
}

fn condition_on_elements() -> impl Strategy<Value = String> {
    let array = prop::sample::select(vec!["c.t", "c.v", "c.o.q"]);
    let element = prop::sample::select(vec!["x", "x.p", "x[0]"]).prop_map(str::to_owned);
    let flag = prop::sample::select(vec!["", ", true", ", false"]);
    let many = prop::sample::select(vec!["ARRAY_CONTAINS_ANY", "ARRAY_CONTAINS_ALL"]);
    let list = prop::collection::vec(value_text(), 1..3).prop_map(|values| values.join(", "));
    prop_oneof![
        (array.clone(), value_text(), flag)
            .prop_map(|(a, v, flag)| format!("ARRAY_CONTAINS({a}, {v}{flag})")),
        (many, array.clone(), list).prop_map(|(name, a, list)| format!("{name}({a}, {list})")),
        (array.clone(), condition_on(element))
            .prop_map(|(a, on)| format!("EXISTS(SELECT VALUE x FROM x IN {a} WHERE {on})")),
        array.prop_map(|a| format!("EXISTS(SELECT VALUE x FROM x IN {a})")),
    ]
}

fn condition() -> impl Strategy<Value = String> {
    let single = prop_oneof![
        8 => condition_on(path()),
        2 => condition_on_elements(),
        1 => prop::sample::select(vec!["true", "false", "undefined", "null"]).prop_map(str::to_owned),
    ];
    single.prop_recursive(3, 8, 3, |inner| {
        let parts = |inner, word| {
            prop::collection::vec(inner, 2..4)
                .prop_map(move |parts: Vec<String>| format!("({})", parts.join(word)))
        };
        prop_oneof![
            2 => inner.clone().prop_map(|one| format!("NOT ({one})")),
            2 => parts(inner.clone(), " AND "),
            2 => parts(inner.clone(), " OR "),
            1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(({a}) ?? ({b}))")),
            1 => (inner, prop::sample::select(vec!["= true", "= false", "!= true", "= 1"]))
                .prop_map(|(one, is)| format!("(({one}) {is})")),
        ]
    })
}

fn computed() -> ComputedProperties {
    let list = [("lower", "LOWER(c.w)"), ("sum", "c.v + c.w"), ("other", "UPPER(c.w)")];
    let list = list.map(|(name, of)| (name.to_owned(), format!("SELECT VALUE {of} FROM c")));
    ComputedProperties::compile(&list).unwrap()
}

fn prepare(text: &str) -> Option<PreparedQuery> {
    let computed = computed();
    let environment = QueryEnvironment {
        computed: &computed,
        geometry: GeometryKind::Geography,
        now: Default::default(),
        random_seed: 1,
        scripts: None,
    };
    // Functions that are still missing; every other mistake would be the generator's.
    match PreparedQuery::prepare(&parse_query(text).unwrap(), &[], &environment) {
        Ok(query) => Some(query),
        Err(error) if error.to_string().contains("not supported") => None,
        Err(error) => panic!("{text}: {error}"),
    }
}

const SECONDS: u64 = 1_700_000_000;

fn with_view<T>(body: &Body, see: impl FnOnce(&ItemView<'_>) -> T) -> T {
    let envelope = Envelope {
        lsn: 1,
        time: shardlake_stdx::HybridTime::from_seconds(SECONDS),
        region: 0,
        etag: Guid([7; 16]),
        ordinal: 1,
        ttl_seconds: None,
        json_size_bytes: 0,
        is_altered: false,
    };
    let container = ContainerRid { database: shardlake_model::DatabaseRid(1), number: 1 };
    see(&ItemView { body: body.raw(), envelope: &envelope, container, items_link: "dbs/x/colls/y/docs/" })
}

/// The item as conditions see it, without the properties that have no entries.
fn tree(body: &Body) -> Value {
    let Value::Object(mut members) = Value::from_document(body.raw()) else { unreachable!() };
    members.push(("_ts".into(), Value::Int(SECONDS as i64)));
    let computed = computed();
    with_view(body, |item| {
        let values = computed
            .names()
            .enumerate()
            .map(|(place, name)| (name.to_owned(), computed.evaluate(place, item)));
        members.extend(values.filter(|(_, value)| !value.is_undefined()));
    });
    Value::Object(members)
}

/// The rows that a query makes of one item; `filtered` leaves `WHERE` out.
fn rows(query: &PreparedQuery, body: &Body, filtered: bool) -> Vec<String> {
    let limits = PageLimits { rows: 1000, size_bytes: 1 << 20 };
    let mut execution = Execution::start(query, limits, true, None).unwrap();
    with_view(body, |item| execution.push(item, filtered, &|| false)).unwrap();
    let output = execution.finish(true, &|| false).unwrap();
    output.rows.iter().map(|row| String::from_utf8_lossy(row).into_owned()).collect()
}

fn parse_item(text: &str) -> Body {
    parse_document(text.as_bytes(), &ParseLimits::default()).unwrap()
}

fn plan(policy: &Policy, query: &PreparedQuery) -> AccessPlan {
    plan_access(query, &policy.schema(), &[]).unwrap()
}

fn check_filter(text: &str, items: &[String]) {
    let policy = Policy::new();
    let Some(query) = prepare(text) else { return };
    let plan = plan(&policy, &query);
    for item in items {
        let body = parse_item(item);
        let answer = answer(&policy, &tree(&body), &plan.filter);
        let found = rows(&query, &body, false);
        assert!(found.is_empty() || answer > Answer::No, "{text}\nmisses {item}\n{plan}");
        if plan.precise && answer == Answer::Yes {
            assert_eq!(found, rows(&query, &body, true), "{text}\nis not precise for {item}\n{plan}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_names_every_item_that_is_answered(
        condition in condition(),
        items in prop::collection::vec(item_text(), 1..12),
    ) {
        check_filter(&format!("SELECT VALUE 1 FROM c WHERE {condition}"), &items);
    }

    #[test]
    fn joins_and_paths_in_from_change_nothing_about_that(
        on in condition_on(prop::sample::select(vec!["x", "x.p", "x.q", "x[1]", "c.v"]).prop_map(str::to_owned)),
        source in prop::sample::select(vec![
            "c JOIN x IN c.t", "c JOIN x IN c.o.q", "c JOIN y IN c.t JOIN x IN y", "x IN c.t", "c.o x", "c.o.p x",
            "c JOIN (SELECT VALUE y FROM y IN c.t) x", "c JOIN x IN (SELECT VALUE c.t)",
        ]),
        items in prop::collection::vec(item_text(), 1..12),
    ) {
        let on = if source.starts_with("c ") { on } else { on.replace("c.v", "x.v") };
        check_filter(&format!("SELECT VALUE 1 FROM {source} WHERE {on}"), &items);
    }
}

/// The items that an ordered access yields, in its order.
fn walk<'i>(policy: &Policy, order: &OrderAccess, items: &'i [Value]) -> Vec<&'i Value> {
    let is_covered = |entry: &Vec<u8>| {
        order.range.as_ref().is_none_or(|range| range.start <= *entry && *entry < range.end)
    };
    let mut entries = Vec::new();
    let mut without = Vec::new();
    for item in items {
        let own = policy.entries(item, &order.index);
        if own.is_empty() {
            without.push(item);
        }
        entries.extend(own.into_iter().filter(is_covered).map(|entry| (entry, item)));
    }
    entries.sort_by(|left, right| left.0.cmp(&right.0));
    let entries = entries.into_iter().map(|(_, item)| item);
    let without = without.into_iter().filter(|_| order.includes_undefined);
    if order.reverse { entries.rev().chain(without).collect() } else { without.chain(entries).collect() }
}

/// The order of two sort keys as far as an index holds it: by type, of scalars by value, of long strings by their start.
fn compare_keys(left: &Value, right: &Value) -> Ordering {
    encoded(left).cmp(&encoded(right))
}

fn check_order(condition: &str, keys: &[(&str, bool)], items: &[String]) {
    let policy = Policy::new();
    let clause: Vec<_> = keys
        .iter()
        .map(|(name, descending)| format!("c.{name}{}", if *descending { " DESC" } else { "" }))
        .collect();
    let text = format!("SELECT VALUE 1 FROM c WHERE {condition} ORDER BY {}", clause.join(", "));
    let Some(query) = prepare(&text) else { return };
    let plan = plan(&policy, &query);
    let Some(order) = &plan.order else { panic!("{text} is not served by an index\n{plan}") };
    let bodies: Vec<Body> = items.iter().map(|item| parse_item(item)).collect();
    let trees: Vec<Value> = bodies.iter().map(tree).collect();
    let walked = walk(&policy, order, &trees);
    for (body, item) in bodies.iter().zip(&trees) {
        let times = walked.iter().filter(|walked| std::ptr::eq(**walked, item)).count();
        let found = rows(&query, body, false);
        assert!(
            times <= 1 && (found.is_empty() || times == 1),
            "{text}\nyields {times} times {item:?}\n{plan}"
        );
        if plan.precise && order.exact && times == 1 {
            assert!(!found.is_empty(), "{text}\nis not exact for {item:?}\n{plan}");
        }
    }
    let answered: Vec<_> =
        walked.into_iter().filter(|item| answer(&policy, item, &plan.filter) > Answer::No).collect();
    for pair in answered.windows(2) {
        let by_key = keys.iter().map(|(name, descending)| {
            let names: Vec<String> = name.split('.').map(str::to_owned).collect();
            let order = compare_keys(&property(pair[0], &names), &property(pair[1], &names));
            if *descending { order.reverse() } else { order }
        });
        let order = by_key.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal);
        assert!(order.is_le(), "{text}\nputs {:?} before {:?}\n{plan}", pair[0], pair[1]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_index_walk_yields_what_is_answered_in_the_order_asked_for(
        condition in prop_oneof![Just("true".to_owned()), condition(), conjunction()],
        keys in prop::sample::select(vec![
            vec![("v", false)], vec![("v", true)], vec![("named", false)], vec![("named", true)], vec![("o.p", false)],
            vec![("lower", false)], vec![("w", false)], vec![("w", true)], vec![("sum", true)], vec![("_ts", true)], vec![("id", false)],
            vec![("v", false), ("w", false)], vec![("v", true), ("w", true)],
            vec![("v", true), ("w", false), ("named", true)], vec![("v", false), ("w", true), ("named", false)],
            vec![("w", false), ("named", true)], vec![("w", true), ("named", false)],
        ]),
        items in prop::collection::vec(item_text(), 1..16),
    ) {
        check_order(&condition, &keys, &items);
    }
}

/// Conditions that fix the first members of composite indexes.
fn conjunction() -> impl Strategy<Value = String> {
    let small = || prop::sample::select(vec!["1", "true", "\"a\"", "null", "9007199254740993"]);
    let last = prop::sample::select(vec![
        "c.w = 1",
        "c.w > 0",
        "c.named <= 'a'",
        "c.named = true",
        "c.w != 1",
        "IS_DEFINED(c.w)",
    ]);
    (prop::sample::select(vec!["c.v", "c.w", "c.named"]), small(), prop::option::of(last)).prop_map(
        |(path, value, last)| match last {
            Some(last) => format!("{path} = {value} AND {last}"),
            None => format!("{path} = {value}"),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_that_fits_other_keys_is_the_plan_of_each_of_them(
        condition in prop_oneof![condition(), conjunction()],
        order in prop::sample::select(vec!["", " ORDER BY c.v", " ORDER BY c.w DESC", " ORDER BY c._ts"]),
        key in prop::sample::select(vec!["w", "v", "named", "other"]),
        has_composites in any::<bool>(),
    ) {
        let policy = Policy::new();
        let Some(query) = prepare(&format!("SELECT * FROM c WHERE {condition}{order}")) else { return Ok(()) };
        let composites = if has_composites { &policy.composites[..] } else { &[] };
        let schema = IndexSchema { composites, ..policy.schema() };
        let of_key = |value: &str| {
            let value = Value::String(value.to_owned());
            plan_access(&query, &schema, &[KeyValue { path: vec![key.to_owned()], value }]).unwrap()
        };
        let (one, other) = (of_key("a"), of_key("b"));
        prop_assert_eq!(one.fits_other_keys, other.fits_other_keys);
        if one.fits_other_keys {
            prop_assert_eq!((one.filter, one.precise, one.order), (other.filter, other.precise, other.order));
        }
    }
}

#[test]
fn plans_fit_other_keys_where_nothing_but_the_scope_names_the_key() {
    let policy = Policy::new();
    for (text, composites, expected) in [
        ("SELECT * FROM c WHERE c.v = 1", false, true),
        ("SELECT * FROM c WHERE c.v = 1 ORDER BY c._ts", false, true),
        ("SELECT * FROM c", false, true),
        ("SELECT * FROM c WHERE c.v = 1 AND c.key = 'a'", false, false),
        ("SELECT * FROM c WHERE c.v = 1 OR c.key = 'a'", false, false),
        ("SELECT * FROM c ORDER BY c.key", false, false),
        ("SELECT * FROM c WHERE c.v = 1", true, false),
    ] {
        let composites = if composites { &policy.composites[..] } else { &[] };
        let schema = IndexSchema { composites, ..policy.schema() };
        let key = KeyValue { path: vec!["key".into()], value: Value::String("a".into()) };
        let plan = plan_access(&prepare(text).unwrap(), &schema, &[key]).unwrap();
        assert_eq!(plan.fits_other_keys, expected, "{text}");
    }
}
