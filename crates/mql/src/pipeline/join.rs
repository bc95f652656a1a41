//! `$lookup`, `$unionWith`, `$facet`: stages with pipelines inside.

use std::sync::Arc;

use super::options::Options;
use super::output::collection_name;
use super::parse::Pipeline;
use super::run::{Context, Operator, Stage};
use super::simple::with_member;
use crate::error::{Result, fail};
use crate::expression::{Expression, Scope, parse as parse_expression};
use crate::order;
use crate::path;
use crate::path::field_path;
use crate::value::{Document, Str, Value};
use shardlake_collation::Collation;

/// The collection that a stage reads, of another database if one is named.
pub(super) type Source = (Option<Str>, Str);

pub(super) struct Lookup {
    from: Option<Source>,
    fields: Option<(Vec<Str>, Vec<Str>)>,
    variables: Vec<(usize, Expression)>,
    pipeline: Option<Pipeline>,
    target: Vec<Str>,
    /// The `$unwind` of the target would follow; the array is always made.
    scope_has_let: bool,
    collation: Collation,
}

const PARSE: i32 = 9;
const VIEW_COLLATION: i32 = 167;

/// A path; `None` if it is missing or null.
fn path_of(options: &Options<'_>, name: &str) -> Result<Option<Vec<Str>>> {
    match options.text(name) {
        Some(text) if text.is_empty() => fail!(40352, "FieldPath cannot be constructed with empty string"),
        Some(text) => field_path(text).map(Some),
        None => Ok(None),
    }
}

pub(super) fn parse_lookup(options: &Options<'_>, scope: &Scope, depth: usize) -> Result<Lookup> {
    let from = match options.get("from") {
        None => None,
        Some(from) => {
            let named = from.as_document().and_then(|from| from.get("db")?.as_str());
            if let Some(database) = named
                && !matches!(database, "admin" | "config" | "local")
            {
                fail!(PARSE, "$lookup reads no collection of another database, such as '{database}'");
            }
            Some(collection_name(from, "$lookup", PARSE)?)
        }
    };
    let target = path_of(options, "as")?.unwrap_or_default();
    let fields = match (path_of(options, "localField")?, path_of(options, "foreignField")?) {
        (Some(local), Some(foreign)) => Some((local, foreign)),
        (None, None) => None,
        _ => fail!(
            PARSE,
            "$lookup requires both or neither of 'localField' and 'foreignField' to be specified"
        ),
    };
    let mut inner_scope = scope.clone();
    let mut variables = Vec::new();
    let bound = options.inner("let");
    for (name, value) in bound.into_iter().flat_map(|bound| bound.iter()) {
        crate::expression::check_variable_name(name)?;
        let value = parse_expression(value, scope)?;
        variables.push((inner_scope.bind(name), value));
    }
    let has_let = bound.is_some();
    let pipeline = options.items("pipeline");
    let pipeline = pipeline.map(|stages| Pipeline::parse_inner("$lookup", stages, &inner_scope, depth));
    let pipeline = pipeline.transpose()?;
    if pipeline.is_none() && fields.is_none() {
        fail!(
            PARSE,
            "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified"
        );
    }
    if has_let && pipeline.is_none() {
        fail!(PARSE, "$lookup with a 'let' argument must also specify 'pipeline'");
    }
    match (&from, pipeline.as_ref().is_some_and(Pipeline::makes_documents)) {
        (None, false) => fail!(PARSE, "must specify 'from' field for a $lookup"),
        (Some(_), true) => fail!(73, "a $lookup whose pipeline begins with $documents names no 'from'"),
        _ => {}
    }
    Ok(Lookup {
        from,
        fields,
        variables,
        pipeline,
        target,
        scope_has_let: has_let,
        collation: scope.collation().clone(),
    })
}

impl Stage for Lookup {
    fn start(self: Arc<Self>) -> Box<dyn Operator> {
        Box::new(LookupRun { lookup: self, foreign: None, foreign_bytes: 0 })
    }
}

struct LookupRun {
    lookup: Arc<Lookup>,
    foreign: Option<Vec<Value>>,
    foreign_bytes: usize,
}

/// The documents of a collection or a view.
pub(super) fn read(
    source: &Option<Source>,
    collation: &Collation,
    context: &mut Context<'_>,
) -> Result<Vec<Value>> {
    let Some((database, name)) = source else { return Ok(Vec::new()) };
    if database.is_none()
        && let Some((base, stages)) = context.collections.view(name)
    {
        if context.collections.view_collation(name) != *collation {
            fail!(VIEW_COLLATION, "the view '{name}' has another collation than the pipeline that reads it");
        }
        let pipeline = Pipeline::parse(&stages, &Scope::with_collation(collation.clone()))?;
        let input = read(&Some((None, base)), collation, context)?;
        return pipeline.run(input.into_iter().map(Ok), context);
    }
    context.collections.documents(database.as_deref(), name)
}

/// Runs a pipeline over documents of a collection, with that collection's indexes where it asks for them.
fn run_over(
    pipeline: &Pipeline,
    source: &Option<Source>,
    input: Vec<Value>,
    context: &mut Context<'_>,
) -> Result<Vec<Value>> {
    let indexes = match source {
        Some((database, name)) if pipeline.begins_with_geo_near() => {
            context.collections.indexes(database.as_deref(), name)?
        }
        _ => return pipeline.run(input.into_iter().map(Ok), context),
    };
    let outer = std::mem::replace(&mut context.indexes, indexes);
    let results = pipeline.run(input.into_iter().map(Ok), context);
    context.indexes = outer;
    results
}

impl Operator for LookupRun {
    fn push(&mut self, document: Value, context: &mut Context<'_>, out: &mut Vec<Value>) -> Result<bool> {
        let lookup = self.lookup.clone();
        let foreign = match self.foreign.take() {
            Some(foreign) => foreign,
            None => {
                let read = read(&lookup.from, &lookup.collation, context)?;
                self.foreign_bytes = read.iter().map(Value::size).sum();
                read
            }
        };
        let found: Vec<Value> = match &lookup.fields {
            Some((local, other)) => {
                let wanted = local_values(&document, local);
                foreign
                    .iter()
                    .filter(|candidate| joins(candidate, other, (&wanted, &lookup.collation)))
                    .cloned()
                    .collect()
            }
            None => foreign.clone(),
        };
        self.foreign = Some(foreign);
        let found = match &lookup.pipeline {
            None => found,
            Some(pipeline) => {
                context.env.set_root(document.clone());
                if lookup.scope_has_let {
                    let values: Result<Vec<Value>> =
                        lookup.variables.iter().map(|(_, value)| value.evaluate(&mut context.env)).collect();
                    for ((slot, _), value) in lookup.variables.iter().zip(values?) {
                        context.env.set(*slot, value);
                    }
                }
                match &lookup.fields {
                    Some((local, other)) if pipeline.makes_documents() => {
                        let wanted = local_values(&document, local);
                        pipeline.run_own(
                            |candidate| joins(candidate, other, (&wanted, &lookup.collation)),
                            context,
                        )?
                    }
                    _ => run_over(pipeline, &lookup.from, found, context)?,
                }
            }
        };
        out.push(with_member(&document, &lookup.target, Value::array(found)));
        Ok(true)
    }

    fn held_bytes(&self) -> usize {
        self.foreign_bytes
    }
}

/// The values of a local path: elements in place of an array at its end, null where there are none.
fn local_values(document: &Value, local: &[Str]) -> Vec<Value> {
    let mut values = Vec::new();
    collect_local(document, local, &mut values);
    if values.is_empty() {
        values.push(Value::Null);
    }
    values
}

/// A number in the path is a place where an array lies on the way, and the name of a member elsewhere.
fn collect_local(value: &Value, path: &[Str], values: &mut Vec<Value>) {
    match (value, path.split_first()) {
        (Value::Missing, _) => {}
        (Value::Array(items), None) => values.extend(items.iter().cloned()),
        (value, None) if value.is_nullish() => values.push(Value::Null),
        (value, None) => values.push(value.clone()),
        (Value::Document(document), Some((name, rest))) => {
            collect_local(document.get(name).unwrap_or(&Value::Missing), rest, values);
        }
        (Value::Array(items), Some((name, rest))) => match path::array_index(name) {
            Some(at) => collect_local(items.get(at).unwrap_or(&Value::Missing), rest, values),
            None => {
                let documents = items.iter().filter(|item| item.as_document().is_some());
                documents.for_each(|item| collect_local(item, path, values));
            }
        },
        _ => {}
    }
}

fn joins(candidate: &Value, foreign: &[Str], (wanted, collation): (&[Value], &Collation)) -> bool {
    let Value::Document(candidate) = candidate else { return false };
    let matches = |value: &Value| {
        wanted.iter().any(|wanted| match wanted {
            Value::Null => value.is_missing() || matches!(value, Value::Null),
            wanted => !value.is_missing() && order::equal_by(collation, wanted, value),
        })
    };
    path::walk(candidate, foreign, &mut |reached| match reached.value {
        Value::Array(items) => matches(reached.value) || items.iter().any(matches),
        value => matches(value),
    })
}

pub(super) struct UnionWith {
    source: Option<Source>,
    pipeline: Pipeline,
    collation: Collation,
}

pub(super) fn parse_union_with(options: &Options<'_>, scope: &Scope, depth: usize) -> Result<UnionWith> {
    let source = match options.argument() {
        name @ Value::String(_) => Some(name),
        _ => options.get("coll"),
    };
    let stages = options.items("pipeline").unwrap_or_default();
    let pipeline = Pipeline::parse_inner("$unionWith", stages, scope, depth)?;
    let source = match source {
        None if pipeline.makes_documents() => None,
        None => fail!(
            PARSE,
            "$unionWith stage without explicit collection must have a pipeline with $documents as first stage"
        ),
        Some(name) => Some(collection_name(name, "$unionWith", 73)?),
    };
    Ok(UnionWith { source, pipeline, collation: scope.collation().clone() })
}

impl Stage for UnionWith {
    fn start(self: Arc<Self>) -> Box<dyn Operator> {
        Box::new(UnionWithRun(self))
    }
}

struct UnionWithRun(Arc<UnionWith>);

impl Operator for UnionWithRun {
    fn push(&mut self, document: Value, _: &mut Context<'_>, out: &mut Vec<Value>) -> Result<bool> {
        out.push(document);
        Ok(true)
    }

    fn finish(&mut self, context: &mut Context<'_>, out: &mut Vec<Value>) -> Result<()> {
        let input = read(&self.0.source, &self.0.collation, context)?;
        out.extend(run_over(&self.0.pipeline, &self.0.source, input, context)?);
        Ok(())
    }
}

pub(super) struct Facet(Vec<(Str, Pipeline)>);

/// Stages that a `$facet` does not take.
pub(super) fn is_refused_in_facets(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "$facet",
        "$documents",
        "$geoNear",
        "$collStats",
        "$indexStats",
        "$planCacheStats",
        "$currentOp",
        "$changeStream",
        "$changeStreamSplitLargeEvent",
        "$listCatalog",
        "$listClusterCatalog",
        "$listSampledQueries",
        "$listSearchIndexes",
        "$querySettings",
        "$queryStats",
        "$rankFusion",
        "$scoreFusion",
        "$search",
        "$searchMeta",
        "$shardedDataDistribution",
        "$vectorSearch",
    ];
    NAMES.contains(&name)
}

/// Refuses such stages in pipelines inside the pipelines of a `$facet`; those at their top are refused as they are parsed.
fn check_inside_facet(stages: &[Value], depth: usize) -> Result<()> {
    for stage in stages.iter().filter_map(Value::as_document) {
        let Some((name, argument)) = stage.first() else { continue };
        if depth > 0 && (is_refused_in_facets(name) && &**name != "$documents") {
            fail!(40600, "{name} is not allowed to be used within a $facet stage");
        }
        if let ("$lookup" | "$unionWith", Some(argument)) = (&**name, argument.as_document())
            && let Some(Value::Array(inner)) = argument.get("pipeline")
            && depth < super::parse::DEPTH_MAX
        {
            check_inside_facet(inner, depth + 1)?;
        }
    }
    Ok(())
}

pub(super) fn parse_facet(options: &Options<'_>, scope: &Scope, depth: usize) -> Result<Facet> {
    let document = options.document().cloned().unwrap_or_default();
    let mut parts = Vec::with_capacity(document.len());
    for (name, value) in document.iter() {
        if name.contains('.') || name.starts_with('$') || name.is_empty() {
            let code = match name.chars().find(|c| *c == '.') {
                Some(_) => 16412,
                None if name.is_empty() => 15998,
                None => 16410,
            };
            fail!(code, "FieldPath field names may not be '{name}' in $facet");
        }
        let Value::Array(stages) = value else {
            fail!(40170, "arguments to $facet must be arrays, {name} is type {}", value.type_name());
        };
        for stage in stages.iter() {
            if !matches!(stage, Value::Document(_)) {
                fail!(
                    40171,
                    "elements of arrays in $facet spec must be non-empty objects, {name} argument contained an element of type {}",
                    stage.type_name()
                );
            }
        }
        check_inside_facet(stages, 0)?;
        parts.push((name.clone(), Pipeline::parse_inner("$facet", stages, scope, depth)?));
    }
    Ok(Facet(parts))
}

impl Stage for Facet {
    fn start(self: Arc<Self>) -> Box<dyn Operator> {
        Box::new(FacetRun { stage: self, rows: Vec::new(), bytes: 0 })
    }
}

struct FacetRun {
    stage: Arc<Facet>,
    rows: Vec<Value>,
    bytes: usize,
}

impl Operator for FacetRun {
    fn push(&mut self, document: Value, context: &mut Context<'_>, _: &mut Vec<Value>) -> Result<bool> {
        self.bytes += document.size();
        context.check_memory("$facet", self.bytes)?;
        self.rows.push(document);
        Ok(true)
    }

    fn finish(&mut self, context: &mut Context<'_>, out: &mut Vec<Value>) -> Result<()> {
        let mut result = Document::new();
        // Results share values with each other, and the document has them all.
        let mut bytes = 0;
        for (name, pipeline) in &self.stage.0 {
            let mut found = Vec::new();
            let mut run = pipeline.start(context)?;
            let mut rows = self.rows.iter();
            while let Some(row) = run.next_of(&mut rows, context)? {
                bytes += row.size();
                context.check_memory("$facet", bytes)?;
                found.push(row);
            }
            result.push(name.clone(), Value::array(found));
        }
        out.push(Value::document(result));
        Ok(())
    }
}
