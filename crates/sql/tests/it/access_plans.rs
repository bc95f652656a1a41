//! Plans in words: the leaves of conditions, the source of the order, and refused `ORDER BY`s.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use shardlake_model::{IndexingPolicy, Limits, PathMatcher};
use shardlake_sql::{
    AccessPlan, CompositeSchema, ComputedProperties, GeometryKind, IndexFilter, IndexSchema, PreparedQuery,
    QueryEnvironment, SqlError, parse_query, plan_access,
};

const POLICY: &str = r#"{"includedPaths":[{"path":"/*"},{"path":"/named/?"}],"excludedPaths":[{"path":"/out/*"}],
    "compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"descending"}],[{"path":"/out"},{"path":"/a"}]]}"#;

struct Policy {
    paths: PathMatcher,
    composites: Vec<CompositeSchema>,
}

impl Policy {
    fn new(json: &str) -> Policy {
        let policy: IndexingPolicy = serde_json::from_str(json).unwrap();
        let policy = policy.normalise(&Limits::default()).unwrap();
        let member = |member: &shardlake_model::CompositePath| {
            let descending = member.order == shardlake_model::SortOrder::Descending;
            (vec![member.path.trim_start_matches('/').to_owned()], descending)
        };
        let composites = policy.composite_indexes.iter();
        let composites = composites.map(|one| CompositeSchema { members: one.iter().map(member).collect() });
        Policy { composites: composites.collect(), paths: policy.matcher() }
    }

    fn plan(&self, text: &str) -> Result<AccessPlan, SqlError> {
        let list = [
            ("lower".into(), "SELECT VALUE LOWER(c.n) FROM c".into()),
            ("twice".into(), "SELECT VALUE c.n * 2 FROM c".into()),
        ];
        let computed = ComputedProperties::compile(&list).unwrap();
        let environment = QueryEnvironment {
            computed: &computed,
            geometry: GeometryKind::Geography,
            now: Default::default(),
            random_seed: 1,
            scripts: None,
        };
        let query = PreparedQuery::prepare(&parse_query(text).unwrap(), &[], &environment)?;
        let schema = IndexSchema {
            paths: self.paths.indexes_anything().then_some(&self.paths),
            composites: &self.composites,
            explicit: &[vec!["named".to_owned()]],
            computed: &["lower".to_owned()],
            policy_paths: &self.paths,
            policy_composites: &self.composites,
        };
        plan_access(&query, &schema, &[])
    }
}

fn words(text: &str) -> String {
    let plan = Policy::new(POLICY).plan(text).unwrap_or_else(|error| panic!("{text}: {error}")).to_string();
    plan.lines().map(str::trim).collect::<Vec<_>>().join(" | ")
}

#[test]
fn conditions_become_leaves() {
    for (condition, expected) in [
        ("c.s = 'x'", r#"filter: | /s seek ["x"]"#),
        ("c.s != 1", "filter: | /s range scan [null, 1) (1, objects]"),
        ("c.s > 'a' AND c.s <= 'b'", r#"filter: | /s range scan ("a", "b"]"#),
        ("c.n BETWEEN 1 AND 2", "filter: | /n range scan [1, 2]"),
        ("c.n NOT BETWEEN 1 AND 2", "filter: | /n range scan [numbers, 1) (2, numbers]"),
        ("c.n IN (3, 1, 'x')", r#"filter: | /n seek [1] [3] ["x"]"#),
        ("c.n NOT IN (1)", "filter: | /n range scan [null, 1) (1, objects]"),
        ("STARTSWITH(c.s, 'ab')", r#"filter: | /s range scan ["ab"…]"#),
        ("STARTSWITH(c.s, 'ab', true)", "filter: | /s expanded scan [strings], tested"),
        ("NOT STARTSWITH(c.s, 'ab')", r#"filter: | /s range scan [strings, "ab") ["ac", strings]"#),
        ("c.s LIKE 'ab%'", r#"filter: | /s range scan ["ab"…]"#),
        ("c.s LIKE 'ab'", r#"filter: | /s seek ["ab"]"#),
        ("c.s LIKE 'ab%c'", r#"filter: | /s full index scan ["ab"…], tested"#),
        ("c.s LIKE '%ab'", "filter: | /s full index scan [strings], tested"),
        ("CONTAINS(c.s, 'x')", "filter: | /s full index scan [strings], tested"),
        ("IS_DEFINED(c.s)", "filter: | /s range scan [null to objects]"),
        ("NOT IS_DEFINED(c.s)", "filter, checked on the items: | everything"),
        ("NOT IS_DEFINED(c.named)", "filter: | /named seek [undefined]"),
        (
            "NOT IS_STRING(c.named)",
            "filter: | /named range scan [undefined] [null, strings) (strings, objects]",
        ),
        ("IS_NUMBER(c.s)", "filter: | /s range scan [numbers]"),
        ("c.flag", "filter: | /flag seek [true]"),
        ("NOT c.flag", "filter: | /flag seek [false]"),
        ("c.a.b = null", "filter: | /a/b seek [null]"),
        ("c.s = [1]", "filter, checked on the items: | /s range scan [arrays], checked on the item"),
        ("c.tags[0] = 'x'", r#"filter, checked on the items: | /tags/[] seek ["x"]"#),
        ("ARRAY_CONTAINS(c.tags, 'x')", r#"filter: | /tags/[] seek ["x"]"#),
        (
            "ARRAY_CONTAINS(c.tags, {'k': 1, 'l': 'x'}, true)",
            r#"filter, checked on the items: | all of | /tags/[]/k seek [1] | /tags/[]/l seek ["x"]"#,
        ),
        ("ARRAY_CONTAINS(['a', 'b'], c.s)", r#"filter: | /s seek ["a"] ["b"]"#),
        ("'a' IN (c.s, c.t)", r#"filter: | any of | /s seek ["a"] | /t seek ["a"]"#),
        (
            "EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t.k = 1)",
            "filter, checked on the items: | /tags/[]/k seek [1]",
        ),
        (
            "EXISTS(SELECT VALUE t FROM t IN c.tags)",
            "filter, checked on the items: | /tags/[] range scan [null to objects]",
        ),
        ("c.s = 'x' OR c.n = 1", r#"filter: | any of | /s seek ["x"] | /n seek [1]"#),
        ("c.s = 'x' OR LOWER(c.s) = 'y'", "filter, checked on the items: | everything"),
        ("c.s = 'x' AND LOWER(c.s) = 'y'", r#"filter, checked on the items: | /s seek ["x"]"#),
        ("c.out = 1", "filter, checked on the items: | everything"),
        ("c.lower = 'x'", r#"filter: | /lower seek ["x"]"#),
        ("LOWER(c.n) = 'x'", r#"filter: | /lower seek ["x"]"#),
        ("c.twice = 4", "filter, checked on the items: | everything"),
        ("c._ts > 5", "filter: | /_ts range scan (5, numbers]"),
        ("c._etag = 'x'", "filter, checked on the items: | everything"),
        ("(c.s = 'x') = false", r#"filter: | /s range scan [null, "x") ("x", objects]"#),
        ("c.flag ? c.s = 'x' : false", r#"filter: | all of | /flag seek [true] | /s seek ["x"]"#),
        (
            "c.a = 1 AND c.b > 2",
            "filter: | all of | /a seek [1] | /b range scan (2, numbers] | composite index 0 range scan [20bff0000000000000df, 1 and 2), checked on the item",
        ),
        (
            "c.a = 1 AND c.b = 2",
            "filter: | all of | /a seek [1] | /b seek [2] | composite index 0 seek [1 and 2], checked on the item",
        ),
        ("c.n = 9007199254740993", "filter: | /n seek [9007199254740993]"),
        ("c.n < 9007199254740993.0", "filter: | /n range scan [numbers, 9007199254740992)"),
    ] {
        assert_eq!(words(&format!("SELECT * FROM c WHERE {condition}")), expected, "{condition}");
    }
}

#[test]
fn long_strings_are_named_by_their_start() {
    let long = "y".repeat(200);
    let plan = words(&format!("SELECT * FROM c WHERE c.s = '{long}'"));
    let start = "y".repeat(24);
    assert_eq!(plan, format!("filter, checked on the items: | /s seek [\"{start}\"…], checked on the item"));
}

#[test]
fn conditions_on_joined_elements_name_the_elements() {
    for (query, expected) in [
        (
            "SELECT t FROM c JOIN t IN c.tags WHERE t.k = 1",
            "filter, checked on the items: | /tags/[]/k seek [1]",
        ),
        ("SELECT * FROM t IN c.tags WHERE t = 1", "filter, checked on the items: | /tags/[] seek [1]"),
        ("SELECT * FROM c.o.p AS p WHERE p.q = 1", "filter: | /o/p/q seek [1]"),
        (
            "SELECT t FROM c JOIN t IN c.tags WHERE t.k = 1 AND t.k = 2",
            "filter, checked on the items: | all of | /tags/[]/k seek [1] | /tags/[]/k seek [2]",
        ),
    ] {
        assert_eq!(words(query), expected, "{query}");
    }
}

#[test]
fn order_comes_from_an_index() {
    for (rest, expected) in [
        ("ORDER BY c.n", "/n forwards, items without it included"),
        ("ORDER BY c.n DESC", "/n backwards, items without it included"),
        ("WHERE c.n > 1 AND c.n < 9 ORDER BY c.n", "/n forwards (1, 9)"),
        ("WHERE c.n IN (2, 5) ORDER BY c.n", "/n forwards [2, 5]"),
        ("WHERE CONTAINS(c.n, 'x') ORDER BY c.n", "/n forwards [strings]"),
        (
            "WHERE c.a = 1 AND c.b > 2 ORDER BY c.b",
            "composite index 0 backwards [20bff0000000000000df, 1 and 2)",
        ),
        ("WHERE c.m > 1 ORDER BY c.n", "/n forwards, items without it included"),
        ("ORDER BY c.lower", "/lower forwards, items without it included"),
        ("ORDER BY c.twice", "none"),
        ("WHERE c.lower > 'a' ORDER BY c.lower", "/lower forwards (\"a\", strings]"),
        ("ORDER BY c._ts DESC", "/_ts backwards, items without it included"),
        ("ORDER BY c.a, c.b DESC", "composite index 0 forwards"),
        ("ORDER BY c.a DESC, c.b", "composite index 0 backwards"),
        ("WHERE c.a = 1 ORDER BY c.a, c.b DESC", "composite index 0 forwards [1]"),
        ("WHERE c.a = 1 ORDER BY c.b", "composite index 0 backwards [1]"),
        ("WHERE c.a = 1 ORDER BY c.b DESC", "composite index 0 forwards [1]"),
    ] {
        let plan = Policy::new(POLICY).plan(&format!("SELECT * FROM c {rest}")).unwrap().to_string();
        let order = plan.lines().find_map(|line| line.strip_prefix("order: ")).unwrap_or("none");
        assert_eq!(order, expected, "{rest}");
    }
}

#[test]
fn order_without_an_index_is_refused_where_the_reference_refuses_it() {
    const EXCLUDED: &str = "The index path corresponding to the specified order-by item is excluded.";
    const NO_COMPOSITE: &str =
        "The order by query does not have a corresponding composite index that it can be served from.";
    let default = "{}";
    let none = r#"{"indexingMode":"none","automatic":false}"#;
    let few = r#"{"includedPaths":[{"path":"/n/?"}],"excludedPaths":[{"path":"/*"}]}"#;
    for (policy, order, expected) in [
        (POLICY, "c.a, c.b DESC", None),
        (POLICY, "c.a DESC, c.b", None),
        (POLICY, "c.a, c.b", Some(NO_COMPOSITE)),
        (POLICY, "c.b DESC, c.a", Some(NO_COMPOSITE)),
        (POLICY, "c.a, c.b DESC, c.d", Some(NO_COMPOSITE)),
        (POLICY, "c.n", None),
        (POLICY, "c.out.x", Some(EXCLUDED)),
        (default, "c.n, c.m", Some(NO_COMPOSITE)),
        (default, "c._ts", None),
        (default, "c._rid", None),
        (few, "c.n", None),
        (few, "c.m", Some(EXCLUDED)),
        (few, "c.id", None),
        (none, "c.n", Some(EXCLUDED)),
        (none, "c._ts", Some(EXCLUDED)),
    ] {
        let text = format!("SELECT * FROM c ORDER BY {order}");
        let refused = Policy::new(policy).plan(&text).err().map(|error| error.to_string());
        match expected {
            None => assert_eq!(refused, None, "{order}"),
            Some(expected) => {
                let refused = refused.unwrap_or_else(|| panic!("{order} is accepted"));
                assert!(refused.contains(expected), "{order}: {refused}");
            }
        }
    }
}

/// Planning stays fast; a plan that looked at every pair would take minutes.
#[test]
fn long_conditions_are_planned() {
    let many =
        |part: fn(usize) -> String, between: &str| (0..2_000).map(part).collect::<Vec<_>>().join(between);
    for (condition, leaves, ranges) in [
        (format!("c.n IN ({})", many(|n| n.to_string(), ", ")), 1, 2_000),
        (many(|n| format!("c.n = {n}"), " OR "), 1, 2_000),
        (many(|n| format!("c.n != {n}"), " AND "), 1, 2_001),
        (many(|n| format!("c.n{n} = {n}"), " AND "), 2_000, 2_000),
        (many(|n| format!("c.n{n} = {n}"), " OR "), 2_000, 2_000),
        (many(|n| format!("CONTAINS(c.n, '{n}')"), " AND "), 2_000, 2_000),
    ] {
        let plan = Policy::new(POLICY).plan(&format!("SELECT * FROM c WHERE {condition}")).unwrap();
        let parts = match &plan.filter {
            IndexFilter::And(parts) | IndexFilter::Or(parts) => &parts[..],
            one => std::slice::from_ref(one),
        };
        let ranges_of = |part: &IndexFilter| match part {
            IndexFilter::Leaf(leaf) => leaf.ranges.len(),
            _ => 0,
        };
        let counted = (parts.len(), parts.iter().map(ranges_of).sum::<usize>());
        assert_eq!(counted, (leaves, ranges), "{}", &condition[..30]);
    }
}

#[test]
fn ranges_are_few_enough_to_be_numbered() {
    let values: Vec<_> = (0..20_000).map(|n| n.to_string()).collect();
    for (list, ranges, precise) in [(&values[..16_384], 16_384, true), (&values[..16_385], 8_193, false)] {
        let text = format!("SELECT * FROM c WHERE ARRAY_CONTAINS([{}], c.n)", list.join(","));
        let plan = Policy::new(POLICY).plan(&text).unwrap();
        let IndexFilter::Leaf(leaf) = &plan.filter else { panic!("one leaf") };
        assert_eq!((leaf.ranges.len(), leaf.precise, plan.precise), (ranges, precise, precise));
    }
}
