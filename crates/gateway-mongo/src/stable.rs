//! Parts of pipelines within the stable API, for clients that allow nothing else.

use shardlake_mql::{Document, Value};

use crate::errors::{Result, code, fail};

/// Stages that may change or disappear between versions.
const UNSTABLE_STAGES: &[&str] = &[
    "$currentOp",
    "$indexStats",
    "$listClusterCatalog",
    "$listLocalSessions",
    "$listSampledQueries",
    "$listSearchIndexes",
    "$listSessions",
    "$planCacheStats",
    "$querySettings",
    "$queryStats",
    "$rankFusion",
    "$scoreFusion",
    "$search",
    "$searchMeta",
    "$shardedDataDistribution",
    "$vectorSearch",
];
/// Maximum depth of nested pipelines.
const DEPTH_MAX: usize = 20;

/// Refuses unstable parts in a strict client's pipeline. Its form is checked later.
pub fn check(command: &str, body: &Document) -> Result<()> {
    if command != "aggregate" {
        return Ok(());
    }
    if body.value("explain").is_true() {
        fail!(code::API_STRICT, "Provided apiStrict:true, but explain of aggregate is not in API Version 1");
    }
    check_pipeline(&body.value("pipeline"), 0)
}

fn check_pipeline(pipeline: &Value, depth: usize) -> Result<()> {
    let stages = pipeline.as_array().map(|stages| stages.as_slice()).unwrap_or_default();
    for stage in stages.iter().filter_map(Value::as_document) {
        let Some((name, argument)) = stage.first() else { continue };
        if !is_stable(name, argument) {
            fail!(code::API_STRICT, "stage {name} is not allowed with 'apiStrict: true' in API Version 1");
        }
        if depth < DEPTH_MAX {
            inner_pipelines(name, argument).iter().try_for_each(|inner| check_pipeline(inner, depth + 1))?;
        }
    }
    Ok(())
}

fn is_stable(name: &str, argument: &Value) -> bool {
    let fields = argument.as_document();
    match name {
        "$collStats" => fields.is_none_or(|fields| fields.iter().all(|(field, _)| **field == *"count")),
        "$changeStream" => fields.is_none_or(|fields| !fields.has("showExpandedEvents")),
        _ => !UNSTABLE_STAGES.contains(&name),
    }
}

fn inner_pipelines(name: &str, argument: &Value) -> Vec<Value> {
    let Some(fields) = argument.as_document() else { return Vec::new() };
    match name {
        "$lookup" | "$unionWith" => vec![fields.value("pipeline")],
        "$facet" => fields.iter().map(|(_, pipeline)| pipeline.clone()).collect(),
        _ => Vec::new(),
    }
}
