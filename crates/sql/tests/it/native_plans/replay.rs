//! Our answer to a recorded query, in the members that a client reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use shardlake_document::{ParseLimits, Value};
use shardlake_model::{ContainerScripts, KeyComponent, PartitionKeyDefinition, Script, ScriptKind};
use shardlake_sql::{
    AggregateFunction, ComputedProperties, DistinctKind, GeometryKind, KeyFilter, QueryEnvironment,
    QueryInfo, QueryPlan, SortDirection, SqlError, SupportedFeatures, check_parameters, parse_query,
    plan_query,
};

use crate::support::{Items, prepare};

/// A plan as members of the wire, or a refusal.
pub enum Answer {
    Plan {
        info: Json,
        /// The values of each key; `None` for all keys.
        keys: Option<Vec<Vec<Json>>>,
    },
    Refused(SqlError),
}

pub fn plan(vector: &Json) -> Answer {
    match planned(vector) {
        Ok(plan) => Answer::Plan { info: info(&plan.info), keys: keys(&plan, vector) },
        Err(error) => Answer::Refused(error),
    }
}

fn planned(vector: &Json) -> Result<QueryPlan, SqlError> {
    let text = vector["query"].as_str().unwrap();
    let parameters: Vec<(String, Value)> = vector["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            (it["name"].as_str().unwrap().to_owned(), it.get("value").map(value_of).unwrap_or_default())
        })
        .collect();
    let definition: PartitionKeyDefinition = serde_json::from_value(vector["partitionKey"].clone()).unwrap();
    let scripts = functions_named_in(text);
    let environment = QueryEnvironment {
        computed: &ComputedProperties::default(),
        geometry: match vector["geospatialType"].as_str() {
            Some("Geometry") => GeometryKind::Geometry,
            _ => GeometryKind::Geography,
        },
        now: Default::default(),
        random_seed: 1,
        scripts: Some(&scripts),
    };
    check_parameters(&parameters)?;
    plan_query(&parse_query(text)?, &parameters, &definition, &environment, SupportedFeatures::all())
}

/// The native planner cannot see a container's functions: each name that is called exists.
fn functions_named_in(text: &str) -> ContainerScripts {
    let mut names = BTreeSet::new();
    let lower = text.to_ascii_lowercase();
    for (at, _) in lower.match_indices("udf") {
        let Some(behind) = text[at + 3..].trim_start().strip_prefix('.') else { continue };
        let name: String = behind
            .trim_start()
            .chars()
            .take_while(|character| character.is_alphanumeric() || *character == '_')
            .collect();
        names.insert(name);
    }
    let script = |id: String| {
        let script = Script {
            kind: ScriptKind::Function,
            id: id.clone(),
            number: 1,
            etag: [1; 16],
            timestamp: 0,
            body: "function () {}".to_owned(),
            trigger: None,
            spelling: None,
        };
        ((ScriptKind::Function, id), Arc::new(script))
    };
    ContainerScripts(names.into_iter().map(script).collect())
}

fn value_of(json: &Json) -> Value {
    Value::from_json(json.to_string().as_bytes(), &ParseLimits::default()).unwrap()
}

fn info(info: &QueryInfo) -> Json {
    let aggregate = |function: &AggregateFunction| Json::from(format!("{function:?}"));
    let order = |direction: &SortDirection| match direction {
        SortDirection::Ascending => "Ascending",
        SortDirection::Descending => "Descending",
    };
    let by_alias: serde_json::Map<String, Json> = info
        .group_by_alias_to_aggregate
        .iter()
        .map(|(alias, function)| (alias.clone(), function.as_ref().map_or(Json::Null, aggregate)))
        .collect();
    json!({
        "distinctType": match info.distinct {
            DistinctKind::None => "None",
            DistinctKind::Ordered => "Ordered",
            DistinctKind::Unordered => "Unordered",
        },
        "top": info.top,
        "offset": info.offset,
        "limit": info.limit,
        "orderBy": info.order_by.iter().map(order).collect::<Vec<_>>(),
        "orderByExpressions": info.order_by_expressions,
        "groupByExpressions": info.group_by_expressions,
        "groupByAliases": info.group_by_aliases,
        "aggregates": info.aggregates.iter().map(aggregate).collect::<Vec<_>>(),
        "groupByAliasToAggregateType": by_alias,
        "rewrittenQuery": info.rewritten_query.as_deref().unwrap_or_default(),
        "hasSelectValue": info.has_select_value,
        "dCountInfo": info.distinct_count.as_ref().map(|count| json!({ "dCountAlias": count.alias })),
        "hasNonStreamingOrderBy": info.has_non_streaming_order_by,
    })
}

/// As `crates/queries` makes ranges of them: no key of several components is sent as all of them.
fn keys(plan: &QueryPlan, vector: &Json) -> Option<Vec<Vec<Json>>> {
    let component = |component: &KeyComponent| match component {
        KeyComponent::Undefined => json!({}),
        KeyComponent::Null => Json::Null,
        KeyComponent::Bool(value) => json!(value),
        KeyComponent::Number(number) => json!(number),
        KeyComponent::String(text) => json!(text),
    };
    let is_multi_hash = vector["partitionKey"]["kind"] == "MultiHash";
    match &plan.keys {
        KeyFilter::All => None,
        KeyFilter::Nothing if is_multi_hash && !plan.has_row_of_nothing => None,
        KeyFilter::Nothing => Some(Vec::new()),
        KeyFilter::Keys(keys) => Some(keys.iter().map(|key| key.0.iter().map(component).collect()).collect()),
    }
}

/// The value of a constant expression, alone in an array; `Ok(None)` where it is undefined.
pub fn value(vector: &Json) -> Result<Option<Json>, String> {
    let expression = vector["expr"].as_str().unwrap();
    let text = match vector["toString"].as_bool() {
        Some(true) => format!("SELECT VALUE [ToString({expression})]"),
        _ => format!("SELECT VALUE [{expression}]"),
    };
    let rows = prepare(&text).and_then(|query| Items::new(&[]).rows(&query));
    let rows = rows.map_err(|error| error.to_string())?;
    let [row] = &rows[..] else { return Err(format!("{} rows", rows.len())) };
    let row: Vec<Json> = serde_json::from_str(row).map_err(|error| error.to_string())?;
    Ok(row.into_iter().next())
}
