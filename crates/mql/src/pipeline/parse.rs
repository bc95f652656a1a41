//! Arrays of stages to pipelines.

use super::options::{self, Options, Runs};
use super::output::{Output, parse_merge, parse_out};
use super::run::{Context, Run, Stage};
use super::{bucket_auto, buckets, densify, elsewhere, fill, geo_near, graph, group};
use super::{join, redact, simple, sort, window};
use crate::error::{Error, Result, fail};
use crate::expression::{Expression, Scope, parse as parse_expression};
use crate::metadata;
use crate::projection::Projection;
use crate::value::Value;
use std::sync::Arc;

/// Stages of one pipeline, and pipelines within pipelines.
const STAGES_MAX: usize = 1000;
pub(super) const DEPTH_MAX: usize = 20;

type SharedStage = Arc<dyn Stage + Send + Sync>;

/// A parsed pipeline.
#[derive(Clone)]
pub struct Pipeline {
    stages: Arc<[SharedStage]>,
    /// `$documents` in place of a collection.
    documents: Option<Expression>,
    output: Option<Output>,
    begins_with_geo_near: bool,
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "pipeline of {} stages", self.stages.len())
    }
}

impl Pipeline {
    /// Parses the stages of a pipeline.
    pub fn parse(stages: &[Value], scope: &Scope) -> Result<Pipeline> {
        Pipeline::parse_at("", stages, scope, 0)
    }

    /// Parses a pipeline within a stage of another one.
    pub(super) fn parse_inner(
        outer: &str,
        stages: &[Value],
        scope: &Scope,
        depth: usize,
    ) -> Result<Pipeline> {
        if depth > DEPTH_MAX {
            fail!(232, "Maximum number of nested sub-pipelines exceeded. Limit is {DEPTH_MAX}");
        }
        Pipeline::parse_at(outer, stages, scope, depth)
    }

    fn parse_at(outer: &str, stages: &[Value], scope: &Scope, depth: usize) -> Result<Pipeline> {
        if stages.len() > STAGES_MAX {
            fail!(7749501, "Pipeline length must be no longer than {STAGES_MAX} stages");
        }
        Pipeline::parse_from(0, outer, stages, scope, depth)
    }

    /// Parses the stages behind the first one, which the server answers.
    pub fn parse_behind_first(stages: &[Value], scope: &Scope) -> Result<Pipeline> {
        Pipeline::parse_from(1, "", stages, scope, 0)
    }

    fn parse_from(
        first: usize,
        outer: &str,
        stages: &[Value],
        scope: &Scope,
        depth: usize,
    ) -> Result<Pipeline> {
        let mut pipeline = Vec::with_capacity(stages.len());
        let (mut documents, mut output) = (None, None);
        let begins_with_geo_near = first_name(stages) == Some("$geoNear");
        let mut has_metadata = true;
        for (at, stage) in stages.iter().enumerate().skip(first) {
            let Value::Document(stage) = stage else {
                fail!(14, "Each element of the 'pipeline' array must be an object");
            };
            let (Some((name, value)), 1) = (stage.first(), stage.len()) else {
                fail!(40323, "A pipeline stage specification object must contain exactly one field.");
            };
            check_place(name, at, stages.len(), outer)?;
            let options = checked(name, value)?;
            match &**name {
                "$documents" => documents = Some(parse_expression(value, scope)?),
                "$out" => output = Some(parse_out(&options)?),
                "$merge" => output = Some(parse_merge(&options)?),
                _ => parse_stage(&options, scope, depth + 1, &mut pipeline)?,
            }
            // Pipelines inside have metadata of their own, and a stage that makes new documents leaves none to the next stages.
            if has_metadata && !matches!(&**name, "$lookup" | "$unionWith" | "$facet") {
                metadata::check(value, begins_with_geo_near)?;
            }
            has_metadata &= !makes_documents(name);
        }
        Ok(Pipeline { stages: pipeline.into(), documents, output, begins_with_geo_near })
    }

    /// Whether the pipeline asks which indexes the collection has that it reads.
    pub fn begins_with_geo_near(&self) -> bool {
        self.begins_with_geo_near
    }

    /// Whether the pipeline begins with documents of its own.
    pub fn makes_documents(&self) -> bool {
        self.documents.is_some()
    }

    /// Where the results go, if not to the client.
    pub fn output(&self) -> Option<&Output> {
        self.output.as_ref()
    }

    /// Begins to run. A pipeline that makes its documents has them already.
    pub fn start(&self, context: &mut Context<'_>) -> Result<Run> {
        let shown =
            if self.begins_with_geo_near { geo_near::without_metadata } else { std::convert::identity };
        let mut run = Run::new(&self.stages, shown);
        if let Some(documents) = &self.documents {
            own_documents(documents, context)?.iter().for_each(|document| run.push(document.clone()));
            run.end();
        }
        Ok(run)
    }

    /// Runs the pipeline over documents to its end.
    pub fn run(
        &self,
        input: impl Iterator<Item = Result<Value>>,
        context: &mut Context<'_>,
    ) -> Result<Vec<Value>> {
        let run = self.start(context)?;
        Pipeline::drain(run, input, context)
    }

    /// Runs a pipeline over those of its own documents that a predicate accepts.
    pub(super) fn run_own(
        &self,
        accepts: impl Fn(&Value) -> bool,
        context: &mut Context<'_>,
    ) -> Result<Vec<Value>> {
        let Some(documents) = &self.documents else { return Ok(Vec::new()) };
        let own = own_documents(documents, context)?;
        let accepted: Vec<Value> = own.iter().filter(|document| accepts(document)).cloned().collect();
        let run = Run::new(&self.stages, std::convert::identity);
        Pipeline::drain(run, accepted.into_iter().map(Ok), context)
    }

    fn drain(
        mut run: Run,
        mut input: impl Iterator<Item = Result<Value>>,
        context: &mut Context<'_>,
    ) -> Result<Vec<Value>> {
        let mut results = Vec::new();
        loop {
            while let Some(result) = run.next(context)? {
                results.push(result);
            }
            if run.has_ended() {
                return Ok(results);
            }
            match input.next() {
                Some(document) => run.push(document?),
                None => run.end(),
            }
        }
    }
}

/// The documents of `$documents`.
fn own_documents(documents: &Expression, context: &mut Context<'_>) -> Result<Arc<Vec<Value>>> {
    let Value::Array(items) = documents.evaluate(&mut context.env)? else {
        fail!(5858203, "$documents must evaluate to an array of objects");
    };
    match items.iter().find(|item| item.as_document().is_none()) {
        Some(other) => {
            fail!(40228, "$documents must evaluate to an array of objects, found {}", other.type_name())
        }
        None => Ok(items),
    }
}

/// The name of the first stage.
fn first_name(stages: &[Value]) -> Option<&str> {
    stages.first()?.as_document()?.first().map(|(name, _)| &**name)
}

/// Whether the results of a stage are new documents, without the metadata of those that it reads.
fn makes_documents(name: &str) -> bool {
    matches!(name, "$group" | "$bucket" | "$bucketAuto" | "$sortByCount" | "$count" | "$facet")
}

/// Checks where a stage stands.
fn check_place(name: &str, at: usize, count: usize, outer: &str) -> Result<()> {
    match name {
        "$out" | "$merge" => {
            match outer {
                "$facet" => fail!(40600, "{name} is not allowed to be used within a $facet stage"),
                "$lookup" => fail!(51047, "{name} is not allowed within a $lookup's sub-pipeline"),
                "$unionWith" => fail!(31441, "{name} is not allowed within a $unionWith's sub-pipeline"),
                _ => {}
            }
            if at + 1 != count {
                fail!(40601, "{name} can only be the final stage in the pipeline");
            }
        }
        "$listLocalSessions" | "$listSessions" if !outer.is_empty() => {
            fail!(
                73,
                "{name} must be run against a database with {{aggregate: 1}}, or config.system.sessions"
            )
        }
        "$querySettings" if matches!(outer, "$lookup" | "$unionWith") => {
            fail!(73, "{name} must be run against a database with {{aggregate: 1}}")
        }
        name if outer == "$facet" && join::is_refused_in_facets(name) => {
            fail!(40600, "{name} is not allowed to be used within a $facet stage");
        }
        "$changeStream" | "$currentOp" if outer == "$lookup" => {
            fail!(51047, "{name} is not allowed within a $lookup's sub-pipeline")
        }
        name if at > 0
            && (options::is_answered(name)
                || matches!(name, "$documents" | "$changeStream" | "$search" | "$searchMeta")) =>
        {
            fail!(40602, "{name} is only valid as the first stage in a pipeline");
        }
        "$geoNear" if at > 0 => fail!(40603, "$geoNear was not the first stage in the pipeline"),
        _ => {}
    }
    Ok(())
}

/// The argument of a stage, checked by the table.
fn checked<'v>(name: &str, argument: &'v Value) -> Result<Options<'v>> {
    let stage = options::of(name).ok_or_else(|| options::unknown(name))?;
    if let Runs::Refused(refusal) = stage.runs {
        return Err(refusal.of_stage(name));
    }
    // A missing `from` is reported before an unknown field.
    if name == "$lookup"
        && let Value::Document(fields) = argument
        && !fields.has("from")
        && let Err(error) = stage.check(argument)
        && error.code() == 40415
    {
        fail!(9, "must specify 'from' field for a $lookup: {}", error.message());
    }
    stage.check(argument)
}

fn parse_stage(options: &Options<'_>, scope: &Scope, depth: usize, out: &mut Vec<SharedStage>) -> Result<()> {
    use simple::Each;
    let (name, argument) = (options.stage(), options.argument());
    let in_stage = |error: Error| error.caused(&format!("Invalid {name}"));
    let stage: SharedStage = match name {
        "$match" => Arc::new(simple::parse_match(options, scope)?),
        "$project" => Arc::new(Each::Project(Projection::project(argument, scope).map_err(in_stage)?)),
        "$addFields" | "$set" => {
            Arc::new(Each::Project(Projection::add_fields(name, argument, scope).map_err(in_stage)?))
        }
        "$unset" => Arc::new(simple::parse_unset(options)?),
        "$replaceRoot" => Arc::new(simple::parse_replace_root(options, scope)?),
        "$replaceWith" => Arc::new(simple::parse_replace_with(options, scope)?),
        "$limit" => Arc::new(simple::parse_limit(options)),
        "$skip" => Arc::new(simple::parse_skip(options)),
        "$unwind" => Arc::new(simple::parse_unwind(options)?),
        "$group" => Arc::new(group::parse_group(options, scope)?),
        "$count" => Arc::new(group::parse_count(options)?),
        "$sortByCount" => {
            let (group, order) = group::parse_sort_by_count(options, scope)?;
            out.push(Arc::new(group));
            Arc::new(order)
        }
        "$sort" => Arc::new(sort::parse_sort(options, scope)?),
        "$sample" => Arc::new(sort::parse_sample(options)),
        "$bucket" => Arc::new(buckets::parse_bucket(options, scope)?),
        "$bucketAuto" => Arc::new(bucket_auto::parse_bucket_auto(options, scope)?),
        "$facet" => Arc::new(join::parse_facet(options, scope, depth)?),
        "$lookup" => Arc::new(join::parse_lookup(options, scope, depth)?),
        "$unionWith" => Arc::new(join::parse_union_with(options, scope, depth)?),
        "$graphLookup" => Arc::new(graph::parse_graph_lookup(options, scope)?),
        "$setWindowFields" => Arc::new(window::parse_window_fields(options, scope)?),
        "$redact" => Arc::new(redact::parse_redact(options, scope)?),
        "$geoNear" => Arc::new(geo_near::parse_geo_near(options, scope)?),
        "$densify" => Arc::new(densify::parse_densify(options, scope)?),
        "$fill" => return fill::parse_fill(options, scope, out),
        answered if options::is_answered(answered) => Arc::new(elsewhere::Elsewhere(answered.into())),
        other => return Err(options::unknown(other)),
    };
    out.push(stage);
    Ok(())
}
