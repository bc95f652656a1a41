//! Index metrics and query advice, compared with the reports of the reference.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use serde_json::{Value, json};
use shardlake_model::{IndexingPolicy, Limits, PathMatcher};
use shardlake_sql::{
    CompositeSchema, ComputedProperties, GeometryKind, IndexSchema, IndexUses, IndexUtilization,
    PreparedQuery, QueryEnvironment, index_utilization, parse_query, plan_access, query_advice,
};
use shardlake_testkit::shared_directory;

/// Cases whose answer is not a rule's.
const EXCEPTIONS: [(&str, &str); 1] = [(
    "Multiple composite index recommendation",
    "the header's text is cut in the middle, which is the gateway's part",
)];

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
        Policy { paths: policy.matcher(), composites: composites.collect() }
    }

    fn report(&self, text: &str, keys: &[&str]) -> IndexUtilization {
        let computed = ComputedProperties::default();
        let environment = QueryEnvironment {
            computed: &computed,
            geometry: GeometryKind::Geography,
            now: Default::default(),
            random_seed: 1,
            scripts: None,
        };
        let query = PreparedQuery::prepare(&parse_query(text).unwrap(), &[], &environment).unwrap();
        let schema = IndexSchema {
            paths: Some(&self.paths),
            composites: &self.composites,
            explicit: &[],
            computed: &[],
            policy_paths: &self.paths,
            policy_composites: &self.composites,
        };
        let plan = plan_access(&query, &schema, &[]).unwrap();
        let keys: Vec<Vec<String>> = keys.iter().map(|key| vec![(*key).to_owned()]).collect();
        index_utilization(&query, &schema, &plan, &keys)
    }
}

/// The newer of the two forms that clients read.
fn newer_form(report: &IndexUtilization) -> Value {
    let list = |uses: &IndexUses, is_potential: bool| {
        let scored = |mut entry: Value| {
            if is_potential {
                entry["IndexImpactScore"] = json!("High");
            }
            entry
        };
        let single: Vec<_> = uses.single.iter().map(|one| scored(json!({ "IndexSpec": one.path }))).collect();
        let composite: Vec<_> =
            uses.composite.iter().map(|one| scored(json!({ "IndexSpecs": one.members }))).collect();
        json!({ "SingleIndexes": single, "CompositeIndexes": composite })
    };
    json!({
        "UtilizedIndexes": list(&report.utilized, false),
        "PotentialIndexes": list(&report.potential, true),
    })
}

fn conformance() -> Option<Vec<Value>> {
    let directory = shared_directory("conformance", "reports_are_the_references")?;
    let text = std::fs::read_to_string(directory.join("aggregates_and_index_metrics.json")).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

#[test]
fn reports_are_the_references() {
    let Some(cases) = conformance() else { return };
    let policy = Policy::new("{}");
    let mut wrong = Vec::new();
    let mut compared = 0;
    for case in &cases {
        let Some(expected) = case["Output"]["IndexMetric"].as_str() else { continue };
        let name = case["Input"]["Description"].as_str().unwrap();
        if EXCEPTIONS.iter().any(|(exception, _)| *exception == name) {
            continue;
        }
        compared += 1;
        let text = case["Input"]["Query"].as_str().unwrap();
        let reported = newer_form(&policy.report(text, &[]));
        if reported != serde_json::from_str::<Value>(expected).unwrap() {
            let short = |text: &str| text.chars().take(400).collect::<String>();
            wrong.push(format!(
                "{name}: {}\n  {}\n  {}",
                short(text),
                short(expected),
                short(&reported.to_string())
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared >= 29, "only {compared} cases");
}

fn summary(report: &IndexUtilization) -> [String; 4] {
    let single =
        |uses: &IndexUses| uses.single.iter().map(|one| one.path.clone()).collect::<Vec<_>>().join(" ");
    let composite = |uses: &IndexUses| {
        uses.composite.iter().map(|one| one.members.join(", ")).collect::<Vec<_>>().join("; ")
    };
    [
        single(&report.utilized),
        composite(&report.utilized),
        single(&report.potential),
        composite(&report.potential),
    ]
}

/// Used paths, used composite indexes, paths that would help, composite indexes that would help.
#[test]
fn uses_follow_the_conditions_and_the_policy() {
    let plain = Policy::new("{}");
    let few = Policy::new(r#"{"includedPaths":[{"path":"/name/?"}],"excludedPaths":[{"path":"/*"}]}"#);
    let composite = Policy::new(r#"{"compositeIndexes":[[{"path":"/name"},{"path":"/age"}]]}"#);
    for (policy, text, expected) in [
        (
            &plain,
            "SELECT * FROM c WHERE c['größe'] = 1 AND c['zwei Worte'] = 2 AND c['速い'] = 3",
            ["/größe/? /\"zwei Worte\"/? /速い/?", "", "", ""],
        ),
        (
            &plain,
            "SELECT c.id FROM c WHERE c.name = 'Tim' AND c.age > 15 AND c.town = 'Redmond' AND c.seen > 23",
            [
                "/name/? /age/? /town/? /seen/?",
                "",
                "",
                "/name ASC, /town ASC, /age ASC; /name ASC, /town ASC, /seen ASC",
            ],
        ),
        (
            &plain,
            "SELECT * FROM c WHERE c.price > 500 AND STARTSWITH(c.name, 'T')",
            ["/price/? /name/?", "", "", ""],
        ),
        (&plain, "SELECT * FROM c WHERE c.a = 1 OR c.b > 2", ["/a/? /b/?", "", "", ""]),
        (&plain, "SELECT * FROM c WHERE c.a = 1 AND c.b != 2", ["/a/? /b/?", "", "", ""]),
        (&plain, "SELECT * FROM c WHERE c.a = 1 AND (c.b > 2 OR c.d > 3)", ["/a/? /b/? /d/?", "", "", ""]),
        (&plain, "SELECT * FROM c WHERE c.a = 1 ORDER BY c.b DESC", ["/a/?", "", "", "/a DESC, /b DESC"]),
        (&plain, "SELECT * FROM c ORDER BY c.b DESC", ["/b/?", "", "", ""]),
        (&plain, "SELECT * FROM c WHERE c['a-b'][0].d = 1", ["/\"a-b\"/[]/d/?", "", "", ""]),
        (&plain, "SELECT VALUE t FROM c JOIN t IN c.tags WHERE t.n = 1", ["/tags/[]/n/?", "", "", ""]),
        (&plain, "SELECT * FROM c WHERE LOWER(c.a) = 'x' AND c.a = c.b", ["", "", "", ""]),
        (&plain, "SELECT * FROM c", ["", "", "", ""]),
        (&plain, "SELECT SUM(c.n) AS s, MIN(c.m) AS m, SUM(c.n) AS t FROM c", ["/n/? /m/?", "", "", ""]),
        (&plain, "SELECT VALUE SUM(c.n) FROM c WHERE c.a = 1", ["/a/? /n/?", "", "", ""]),
        (&plain, "SELECT c.a, SUM(c.n) AS s FROM c GROUP BY c.a", ["", "", "", ""]),
        (&few, "SELECT VALUE AVG(c.age) FROM c", ["", "", "/age/?", ""]),
        (
            &few,
            "SELECT * FROM c WHERE c.name = 'x' AND c.age > 1",
            ["/name/?", "", "/age/?", "/name ASC, /age ASC"],
        ),
        (&composite, "SELECT * FROM c WHERE c.name = 'x' AND c.age > 1", ["", "/name ASC, /age ASC", "", ""]),
        (&composite, "SELECT * FROM c ORDER BY c.name DESC, c.age DESC", ["", "/name ASC, /age ASC", "", ""]),
    ] {
        assert_eq!(summary(&policy.report(text, &[])), expected, "{text}");
    }
}

#[test]
fn a_logical_partition_is_a_condition_without_text() {
    let policy = Policy::new("{}");
    let report = policy.report("SELECT * FROM c", &["pk"]);
    assert_eq!(report.utilized.single.len(), 1);
    let one = &report.utilized.single[0];
    assert_eq!((one.path.as_str(), one.filter.as_str(), one.precise), ("/pk/?", "", true));
    let report = policy.report("SELECT * FROM c WHERE c.pk = 'x'", &["pk"]);
    assert_eq!(report.utilized.single.len(), 1);
}

#[test]
fn conditions_are_quoted() {
    let policy = Policy::new("{}");
    for (condition, expected, precise) in [
        ("c.name = 'Julien'", r#"(ROOT.name = "Julien")"#, true),
        ("12 < c.age", "(12 < ROOT.age)", true),
        ("c.a BETWEEN 1 AND 2.5", "(ROOT.a BETWEEN 1 AND 2.5)", true),
        ("c.a IN (1, null)", "(ROOT.a IN (1, null))", true),
        ("NOT IS_DEFINED(c.a) OR c.b", "ROOT.b", true),
        ("CONTAINS(c.a.b, 'x', true)", r#"CONTAINS(ROOT.a.b, "x", true)"#, true),
        ("c.a LIKE '%x'", r#"(ROOT.a LIKE "%x")"#, true),
        ("c.t[1] = 1", "(ROOT.t[] = 1)", false),
    ] {
        let report = policy.report(&format!("SELECT * FROM c WHERE {condition}"), &[]);
        let one = &report.utilized.single[0];
        assert_eq!((one.filter.as_str(), one.precise), (expected, precise), "{condition}");
    }
    let long = format!("SELECT * FROM c WHERE c.a = '{}'", "x".repeat(1000));
    assert_eq!(policy.report(&long, &[]).utilized.single[0].filter, "");
}

#[test]
fn advice_names_the_rules_that_a_query_runs_into() {
    for (text, expected) in [
        ("SELECT * FROM c", &[][..]),
        ("SELECT VALUE r.id FROM root r WHERE CONTAINS(r.name, 'Abc')", &["QA1002"]),
        ("SELECT VALUE ARRAY_CONTAINS(c.a, {'b': 1}, true) FROM c", &["QA1000"]),
        ("SELECT VALUE ARRAY_CONTAINS(c.a, {'b': 1}) FROM c", &[]),
        ("SELECT DISTINCT VALUE c.a FROM c JOIN t IN c.t", &["QA1001"]),
        ("SELECT * FROM c WHERE STARTSWITH(c.a, 'x', true) OR StringEquals(c.a, 'x', false)", &["QA1003"]),
        ("SELECT * FROM c WHERE EndsWith(c.a, 'x')", &["QA1004"]),
        ("SELECT LOWER(c.a) FROM c WHERE c.b = 'x'", &[]),
        ("SELECT * FROM c WHERE NOT (lower(c.a) = 'x')", &["QA1006"]),
        ("SELECT GetCurrentTicks() FROM c WHERE c.t > GetCurrentTimestamp()", &["QA1008", "QA1009"]),
        ("SELECT GetCurrentDateTime() AS a, GetCurrentDateTime() AS b FROM c", &["QA1007"]),
        ("SELECT * FROM c WHERE c.t > GetCurrentTicksStatic()", &[]),
        ("SELECT * FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.t WHERE CONTAINS(t, 'x'))", &["QA1002"]),
    ] {
        let advice: Vec<_> =
            query_advice(&parse_query(text).unwrap()).iter().map(|advice| advice.id).collect();
        assert_eq!(advice, expected, "{text}");
    }
}
