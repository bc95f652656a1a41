//! `GET schema` and `POST indexing/preview`: the shape of items, and their cost under another
//! indexing policy.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use shardlake_account::{
    ContainerHandle, PolicyFigures, QueryPreview, QueryProspect, QueryWay, SAMPLE_ITEMS_MAX, Schema,
    SchemaPath,
};
use shardlake_model::{Error, ErrorKind, IndexPathSegment, IndexingPolicy, Result};

use crate::pieces::written;
use crate::query::{Parameter, indexes};
use crate::{OperatorCall, OperatorReply};

const SAMPLE_DEFAULT: usize = 1_000;

pub(crate) async fn schema(call: &OperatorCall<'_>, container: &ContainerHandle) -> Result<OperatorReply> {
    let parameters = call.address.parameters(&["sample"])?;
    let count = parameters.number("sample")?.unwrap_or(SAMPLE_DEFAULT);
    let schema = call.account.items().schema(&call.context, container, count).await?;
    let definition = &container.container().definition;
    let matcher = definition.indexing_policy.matcher();
    let is_all = schema.sampled == schema.of_items;
    let path = |path: &SchemaPath| {
        let types: Map<String, Value> =
            path.types.iter().map(|(name, share)| ((*name).to_owned(), json!(share))).collect();
        json!({
            "path": path.path,
            "types": types,
            "distinct": path.distinct,
            "isDistinctExact": path.is_counted && is_all,
            "examples": path.examples,
            "isIndexed": matcher.is_indexed(&segments(&path.path)),
            "isKey": definition.partition_key.paths.contains(&path.path),
        })
    };
    Ok(crate::ok(written(&json!({
        "sampled": schema.sampled,
        "ofItems": schema.of_items,
        "itemBytes": {
            "p50": percentile(&schema, 50),
            "p95": percentile(&schema, 95),
            "max": schema.item_bytes.last(),
        },
        "paths": schema.paths.iter().map(path).collect::<Vec<_>>(),
        "isCut": schema.is_cut,
    }))))
}

/// `None` without items.
fn percentile(schema: &Schema, percent: usize) -> Option<u64> {
    let place = (schema.item_bytes.len() * percent).div_ceil(100).saturating_sub(1);
    schema.item_bytes.get(place).copied()
}

fn segments(path: &str) -> Vec<IndexPathSegment> {
    let segment = |name: &str| match name {
        "[]" => IndexPathSegment::AnyElement,
        name => IndexPathSegment::Name(name.to_owned()),
    };
    path.split('/').skip(1).map(segment).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Preview<'a> {
    indexing_policy: Value,
    #[serde(default)]
    sample: Option<usize>,
    #[serde(borrow, default)]
    queries: Vec<Asked<'a>>,
}

/// A query to be previewed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked<'a> {
    query: String,
    #[serde(borrow, default)]
    parameters: Vec<Parameter<'a>>,
}

pub(crate) async fn preview(call: &OperatorCall<'_>, container: &ContainerHandle) -> Result<OperatorReply> {
    let body: Preview<'_> = serde_json::from_slice(&call.body)
        .map_err(|error| Error::bad_request(format!("the request body is no preview: {error}")))?;
    let count = body.sample.unwrap_or(SAMPLE_ITEMS_MAX);
    let policy: IndexingPolicy = match serde_json::from_value(body.indexing_policy) {
        Ok(policy) => policy,
        Err(error) => return Ok(invalid(&error.to_string())),
    };
    let preview = call.account.items().preview_policy(&call.context, container, policy.clone(), count).await;
    let preview = match preview {
        Ok(preview) => preview,
        Err(error) if error.kind() == ErrorKind::BadRequest => return Ok(invalid(error.message())),
        Err(error) => return Err(error),
    };
    let mut asked = Vec::with_capacity(body.queries.len());
    for one in &body.queries {
        let parameters = one.parameters.iter().map(Parameter::read).collect::<Result<Vec<_>>>()?;
        asked.push((one.query.clone(), parameters));
    }
    let queries = match asked.is_empty() {
        true => vec![],
        false => {
            call.account.queries().preview_queries(&call.context, container, policy, &asked, count).await?
        }
    };
    assert_eq!(asked.len(), queries.len(), "each query has its preview");
    let queries = asked.iter().zip(&queries).map(|((text, _), preview)| query_told(text, preview));
    let pair = |figure: fn(&PolicyFigures) -> f64| json!({ "now": rounded(figure(&preview.now)), "then": rounded(figure(&preview.then)) });
    Ok(crate::ok(written(&json!({
        "isValid": true,
        "errors": [],
        "sampled": preview.sampled,
        "termsPerItem": pair(|figures| figures.terms),
        "charge": {
            "create": pair(|figures| figures.create_centi / 100.0),
            "replace": pair(|figures| figures.replace_centi / 100.0),
        },
        "rebuild": { "items": preview.rebuild.0, "sizeBytes": preview.rebuild.1 },
        "queries": queries.collect::<Vec<_>>(),
    }))))
}

fn query_told(text: &str, preview: &QueryPreview) -> Value {
    json!({ "query": text, "now": prospect(&preview.now), "then": prospect(&preview.then) })
}

/// `way` and `charge` are null where a sample does not show them.
fn prospect(prospect: &Result<QueryProspect>) -> Value {
    match prospect {
        Ok(told) => json!({
            "way": told.way.map(way_word),
            "charge": told.charge_centi.map(|centi| centi as f64 / 100.0),
            "access": told.access.trim_end(),
            "indexes": indexes(&told.indexes),
            "refusal": null,
        }),
        Err(error) => json!({
            "way": null, "charge": null, "access": "", "indexes": null, "refusal": error.message(),
        }),
    }
}

fn way_word(way: QueryWay) -> &'static str {
    match way {
        QueryWay::Nothing => "nothing",
        QueryWay::Scan => "scan",
        QueryWay::Entries => "index",
        QueryWay::Order => "order",
    }
}

fn rounded(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}

/// The words name the path that they are about.
fn invalid(words: &str) -> OperatorReply {
    let path = words.split('\'').nth(1).filter(|text| text.starts_with('/'));
    crate::ok(written(&json!({ "isValid": false, "errors": [{ "path": path, "words": words }] })))
}
