//! Query plans, case by case: the client's merge, the rewritten text, the keys, the errors. The cases of
//! `plans.txt` are our own and always run; the cases recorded from the reference run where the shared data is
//! present.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::path::Path;
use std::sync::{Arc, LazyLock};

use serde_json::{Value as Json, json};
use shardlake_document::{ParseLimits, Value};
use shardlake_model::{ContainerScripts, KeyComponent, KeyKind, PartitionKeyDefinition, Script, ScriptKind};
use shardlake_sql::{
    AggregateFunction, ComputedProperties, DistinctKind, GeometryKind, KeyFilter, PreparedQuery,
    QueryEnvironment, QueryPlan, SortDirection, SqlError, SupportedFeatures, parse_query, plan_query,
};
use shardlake_testkit::shared_directory;

/// Recorded plans that ours differ from: part of the query's text, the kind of partition key, and why.
const DIFFERENT: &[(&str, &str, &str)] = &[
    ("FullTextScore", "Hash", "full-text search is refused by name until it is there"),
    ("BETWEEN", "Range", "partition keys of kind Range are refused when a container is made"),
];

/// The one user-defined function in the recorded plans.
static SCRIPTS: LazyLock<ContainerScripts> = LazyLock::new(|| {
    let (kind, id) = (ScriptKind::Function, "func".to_owned());
    let body = "function () {}".to_owned();
    let script = Script {
        kind,
        id: id.clone(),
        number: 1,
        etag: [1; 16],
        timestamp: 0,
        body,
        trigger: None,
        spelling: None,
    };
    ContainerScripts([((kind, id), Arc::new(script))].into())
});

#[test]
fn plans_are_the_references() {
    let Some(cases) = cases("plans_are_the_references") else { return };
    let (mut wrong, mut different, mut refused) = (Vec::new(), 0, 0);
    for case in &cases {
        let (expected, found) = (expected(case), found(case));
        let listed = is_listed(case);
        if listed && expected != found {
            different += 1;
        } else if is_missing_function(&found) {
            refused += 1;
        } else if expected != found {
            let input = &case["Input"];
            wrong.push(format!(
                "{} ({})\n--- expected\n{expected:#?}\n--- found\n{found:#?}\n",
                text(&input["Query"]),
                input["PartitionKeys"]
            ));
        }
    }
    println!(
        "{} plans, {} wrong, {different} listed as different, {refused} with a function that is refused by name",
        cases.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Functions of the language that are not implemented yet are refused by name.
fn is_missing_function(found: &Outcome) -> bool {
    match found {
        Outcome::Refused(body) => {
            body.contains("\"message\":\"the function ") && body.contains(" is not supported\"")
        }
        Outcome::Planned(_) => false,
    }
}

/// The table above is accurate: each of its lines still has a case that differs.
#[test]
fn the_listed_differences_are_differences() {
    let Some(cases) = cases("the_listed_differences_are_differences") else { return };
    for &(part, kind, reason) in DIFFERENT {
        let differs = |case: &Json| {
            let input = &case["Input"];
            text(&input["Query"]).contains(part)
                && text(&input["PartitionKeyType"]) == kind
                && expected(case) != found(case)
        };
        assert!(cases.iter().any(differs), "no case differs with {part} ({reason})");
    }
}

#[test]
fn rewritten_queries_are_queries_once_the_placeholder_is_filled() {
    let Some(cases) = cases("rewritten_queries_are_queries_once_the_placeholder_is_filled") else { return };
    for case in &cases {
        if let Some(rewritten) = plan(case).ok().and_then(|plan| plan.info.rewritten_query) {
            let sent = rewritten.replace("{documentdb-formattableorderbyquery-filter}", "true");
            let computed = ComputedProperties::default();
            let prepared = parse_query(&sent)
                .and_then(|query| PreparedQuery::prepare(&query, &[], &environment(case, &computed)));
            prepared.unwrap_or_else(|error| panic!("{sent}: {}", error.to_json()));
        }
    }
}

/// A case of `plans.txt` is a query behind `>`, the paths of its partition key behind `/`, and the plan in
/// lines. `UPDATE=1` writes the current results, to be reviewed before they are committed.
#[test]
fn own_plans_are_as_written() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/plans.txt");
    let written = std::fs::read_to_string(&file).unwrap();
    let mut found_text = String::new();
    for block in written.split_inclusive("\n\n") {
        let comments = block.lines().take_while(|line| line.starts_with('#'));
        comments.for_each(|line| found_text.extend([line, "\n"]));
        let Some(query) = block.lines().find_map(|line| line.strip_prefix("> ")) else {
            found_text.push('\n');
            continue;
        };
        let keys = block.lines().find(|line| line.starts_with('/')).unwrap();
        let paths: Vec<&str> = keys.split(' ').collect();
        let case = json!({ "Input": { "Query": query, "PartitionKeys": { "Key": paths }, "PartitionKeyType": "Hash" } });
        found_text.push_str(&format!("> {query}\n{keys}\n{}\n", found(&case).shown()));
    }
    #[allow(clippy::disallowed_methods)] // a person asks for the update
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &found_text).unwrap();
    }
    for (expected, found) in written.split("\n\n").zip(found_text.split("\n\n")) {
        assert_eq!(found.trim_end(), expected.trim_end());
    }
    assert!(written.matches("\n> ").count() >= 30, "plans.txt has lost cases");
}

fn is_listed(case: &Json) -> bool {
    let input = &case["Input"];
    DIFFERENT.iter().any(|(part, kind, _)| {
        text(&input["Query"]).contains(part) && text(&input["PartitionKeyType"]) == *kind
    })
}

fn cases(test: &str) -> Option<Vec<Json>> {
    let directory = shared_directory("conformance", test)?;
    let file = std::fs::read_to_string(directory.join("query_plans.json")).unwrap();
    Some(serde_json::from_str(&file).unwrap())
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap_or_default()
}

fn plan(case: &Json) -> Result<QueryPlan, SqlError> {
    let input = &case["Input"];
    let parameters: Vec<(String, Value)> = match text(&input["QueryParameters"]) {
        "" => Vec::new(),
        list => {
            let list: Vec<Json> = serde_json::from_str(list).unwrap();
            list.iter().map(|it| (text(&it["name"]).to_owned(), value_of(&it["value"]))).collect()
        }
    };
    let definition = PartitionKeyDefinition {
        paths: list_of(&input["PartitionKeys"], "Key"),
        kind: if input["PartitionKeyType"] == "Range" { KeyKind::Range } else { KeyKind::Hash },
        version_sent: Some(2),
        system_key: None,
    };
    let computed = ComputedProperties::default();
    let query = parse_query(text(&input["Query"]))?;
    plan_query(&query, &parameters, &definition, &environment(case, &computed), SupportedFeatures::all())
}

fn environment<'c>(case: &Json, computed: &'c ComputedProperties) -> QueryEnvironment<'c> {
    let geometry = match text(&case["Input"]["GeospatialType"]) {
        "Geometry" => GeometryKind::Geometry,
        _ => GeometryKind::Geography,
    };
    QueryEnvironment { computed, geometry, now: Default::default(), random_seed: 1, scripts: Some(&SCRIPTS) }
}

fn value_of(json: &Json) -> Value {
    Value::from_json(json.to_string().as_bytes(), &ParseLimits::default()).unwrap()
}

fn found(case: &Json) -> Outcome {
    match plan(case) {
        Err(error) => Outcome::Refused(error.to_json()),
        Ok(plan) => {
            let info = &plan.info;
            let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
            let aggregate = |(name, function): &(String, Option<AggregateFunction>)| {
                format!("{name}={}", function.map_or("null".into(), |function| format!("{function:?}")))
            };
            Lines {
                distinct: match info.distinct {
                    DistinctKind::None => "None",
                    DistinctKind::Ordered => "Ordered",
                    DistinctKind::Unordered => "Unordered",
                }
                .into(),
                top: number(info.top),
                offset: number(info.offset),
                limit: number(info.limit),
                order_by: info.order_by.iter().map(|it| direction(*it).to_owned()).collect(),
                order_by_expressions: info.order_by_expressions.clone(),
                group_by_expressions: info.group_by_expressions.clone(),
                group_by_aliases: info.group_by_aliases.clone(),
                aggregates: info.aggregates.iter().map(|it| format!("{it:?}")).collect(),
                alias_to_aggregate: info.group_by_alias_to_aggregate.iter().map(aggregate).collect(),
                has_select_value: info.has_select_value,
                rewritten_query: info.rewritten_query.clone().unwrap_or_default(),
                keys: match &plan.keys {
                    KeyFilter::All => vec![r#"[[],"Infinity")"#.into()],
                    KeyFilter::Nothing => vec!["[[],[]]".into()],
                    KeyFilter::Keys(keys) => keys.iter().map(|key| point(&key.0)).collect(),
                },
            }
            .sorted()
        }
    }
}

fn direction(direction: SortDirection) -> &'static str {
    match direction {
        SortDirection::Ascending => "Ascending",
        SortDirection::Descending => "Descending",
    }
}

fn point(components: &[KeyComponent]) -> String {
    let components: Vec<String> = components
        .iter()
        .map(|component| match component {
            KeyComponent::Undefined => "{}".into(),
            KeyComponent::Null => "null".into(),
            KeyComponent::Bool(value) => value.to_string(),
            KeyComponent::Number(number) => format!("{number:?}"),
            KeyComponent::String(text) => Json::from(text.as_str()).to_string(),
        })
        .collect();
    let key = components.join(",");
    format!("[[{key}],[{key}]]")
}

fn expected(case: &Json) -> Outcome {
    let exception = text(&case["Output"]["Exception"]);
    if let Some(start) = exception.find('{') {
        // The error's body, or a plan that the recording client could not handle.
        let mut bodies = serde_json::Deserializer::from_str(&exception[start..]).into_iter::<Json>();
        let body = bodies.next().unwrap().unwrap();
        let length = bodies.byte_offset();
        return match body.get("queryInfo") {
            Some(info) => lines_of_service(info).sorted(),
            None => Outcome::Refused(exception[start..start + length].to_owned()),
        };
    }
    let plan = &case["Output"]["PartitionedQueryExecutionInfoInternal"];
    lines_of_baseline(plan).sorted()
}

/// The lines of a plan from the service's answer.
fn lines_of_service(info: &Json) -> Lines {
    let strings = |json: &Json| {
        json.as_array().map(|list| list.iter().map(|it| text(it).to_owned()).collect()).unwrap_or_default()
    };
    let number = |json: &Json| json.as_u64().map(|number| number.to_string()).unwrap_or_default();
    Lines {
        distinct: text(&info["distinctType"]).into(),
        top: number(&info["top"]),
        offset: number(&info["offset"]),
        limit: number(&info["limit"]),
        order_by: strings(&info["orderBy"]),
        order_by_expressions: strings(&info["orderByExpressions"]),
        group_by_expressions: strings(&info["groupByExpressions"]),
        group_by_aliases: strings(&info["groupByAliases"]),
        aggregates: strings(&info["aggregates"]),
        alias_to_aggregate: Vec::new(),
        has_select_value: info["hasSelectValue"] == 1,
        rewritten_query: text(&info["rewrittenQuery"]).into(),
        keys: vec![r#"[[],"Infinity")"#.into()],
    }
}

/// The lines of a plan from the recording client's baseline.
fn lines_of_baseline(plan: &Json) -> Lines {
    let info = &plan["QueryInfo"];
    let aggregates = match &info["GroupByAliasToAggregateType"]["AliasToAggregateType"] {
        Json::Array(list) => list.clone(),
        Json::Null => Vec::new(),
        one => vec![one.clone()],
    };
    Lines {
        distinct: text(&info["DistinctType"]).into(),
        top: text(&info["Top"]).into(),
        offset: text(&info["Offset"]).into(),
        limit: text(&info["Limit"]).into(),
        order_by: list_of(&info["OrderBy"], "SortOrder"),
        order_by_expressions: list_of(&info["OrderByExpressions"], "OrderByExpression"),
        group_by_expressions: list_of(&info["GroupByExpressions"], "GroupByExpression"),
        group_by_aliases: list_of(&info["GroupByAliases"], "Alias"),
        aggregates: list_of(&info["Aggregates"], "AggregateOperator"),
        alias_to_aggregate: aggregates
            .iter()
            .map(|it| format!("{}={}", text(&it["Alias"]), text(&it["AggregateOperator"])))
            .collect(),
        has_select_value: text(&info["HasSelectValue"]) == "True",
        rewritten_query: text(&plan["RewrittenQuery"]).into(),
        keys: list_of(&plan["QueryRanges"]["Range"], "Range"),
    }
}

/// XML lists with one element have lost their brackets, and empty ones everything.
fn list_of(json: &Json, element: &str) -> Vec<String> {
    match &json[element] {
        Json::String(one) => vec![one.clone()],
        Json::Array(list) => list.iter().map(|it| text(it).to_owned()).collect(),
        _ => Vec::new(),
    }
}

/// A body of an error, or a plan.
#[derive(Debug, PartialEq)]
enum Outcome {
    Refused(String),
    Planned(Box<Lines>),
}

#[derive(Debug, PartialEq)]
struct Lines {
    distinct: String,
    top: String,
    offset: String,
    limit: String,
    order_by: Vec<String>,
    order_by_expressions: Vec<String>,
    group_by_expressions: Vec<String>,
    group_by_aliases: Vec<String>,
    aggregates: Vec<String>,
    /// In no order.
    alias_to_aggregate: Vec<String>,
    has_select_value: bool,
    rewritten_query: String,
    /// In no order.
    keys: Vec<String>,
}

impl Outcome {
    /// One line per property, without the absent ones.
    fn shown(&self) -> String {
        let plan = match self {
            Outcome::Refused(body) => return format!("refused {body}\n"),
            Outcome::Planned(plan) => plan,
        };
        let lines = [
            ("distinct", if plan.distinct == "None" { String::new() } else { plan.distinct.clone() }),
            ("top", plan.top.clone()),
            ("offset", plan.offset.clone()),
            ("limit", plan.limit.clone()),
            ("order by", plan.order_by.join(", ")),
            ("order by expressions", plan.order_by_expressions.join(", ")),
            ("group by", plan.group_by_expressions.join(", ")),
            ("aliases", plan.group_by_aliases.join(", ")),
            ("aggregates", plan.aggregates.join(", ")),
            ("aggregate of alias", plan.alias_to_aggregate.join(", ")),
            ("select value", if plan.has_select_value { "yes".into() } else { String::new() }),
            ("rewritten", plan.rewritten_query.replace('\n', " \u{21b5} ")),
            ("keys", plan.keys.join(" ")),
        ];
        let lines = lines.into_iter().filter(|(_, text)| !text.is_empty());
        lines.map(|(name, text)| format!("{name}: {text}\n")).collect()
    }
}

impl Lines {
    fn sorted(mut self) -> Outcome {
        self.alias_to_aggregate.sort();
        self.keys.sort();
        Outcome::Planned(Box::new(self))
    }
}
