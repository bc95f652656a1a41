//! Documents and pipelines to updates.

use super::modifier::{Modifier, rename_destination};
use super::target::{ArrayFilters, Target, parse_filters};
use super::tree::Fields;
use crate::error::{BAD_VALUE, FAILED_TO_PARSE, Result, fail};
use crate::expression::Scope;
use crate::pipeline::Pipeline;
use crate::value::{Document, Str, Value};

/// A parsed update, by its form.
#[derive(Debug)]
pub(super) enum UpdateKind {
    Operators(Fields, ArrayFilters),
    Replacement(Document),
    Pipeline(Pipeline),
}

pub(super) fn parse(update: &Value, array_filters: &[Value], scope: &Scope) -> Result<UpdateKind> {
    match update {
        Value::Document(document) => {
            let by_operators = document.first().is_some_and(|(name, _)| name.starts_with('$'));
            if !by_operators {
                if !array_filters.is_empty() {
                    fail!(FAILED_TO_PARSE, "arrayFilters may not be specified for replacement updates");
                }
                return parse_replacement(document);
            }
            let filters = parse_filters(array_filters, scope)?;
            parse_operators(document, filters, scope)
        }
        Value::Array(stages) => {
            if !array_filters.is_empty() {
                fail!(FAILED_TO_PARSE, "arrayFilters may not be specified for pipeline-style updates");
            }
            parse_pipeline(stages, scope)
        }
        other => fail!(
            FAILED_TO_PARSE,
            "Update argument must be either an object or an array, not {}",
            other.type_name()
        ),
    }
}

fn parse_replacement(document: &Document) -> Result<UpdateKind> {
    if let Some((name, _)) = document.iter().find(|(name, _)| name.starts_with('$')) {
        fail!(
            52,
            "The dollar ($) prefixed field '{name}' is not allowed in the context of an update's replacement document."
        );
    }
    Ok(UpdateKind::Replacement(document.clone()))
}

fn parse_pipeline(stages: &[Value], scope: &Scope) -> Result<UpdateKind> {
    for stage in stages {
        let name = stage.as_document().and_then(|stage| stage.first()).map(|(name, _)| name);
        match name.map(|name| &**name) {
            Some("$set" | "$addFields" | "$unset" | "$project" | "$replaceRoot" | "$replaceWith") | None => {}
            Some(other) if !other.starts_with('$') => {}
            Some("$fill") if fills_with_values(stage) => {}
            Some(other) => {
                // The error of an unknown stage differs from that of a stage that is not allowed here.
                if let Err(error) = Pipeline::parse(std::slice::from_ref(stage), scope)
                    && error.code() == 40324
                {
                    return Err(error);
                }
                fail!(72, "{other} is not allowed to be used within an update")
            }
        }
    }
    Ok(UpdateKind::Pipeline(Pipeline::parse(stages, scope)?))
}

/// Whether a `$fill` looks at its own document alone: then it is a `$set`.
fn fills_with_values(stage: &Value) -> bool {
    let options = stage.as_document().and_then(|stage| stage.get("$fill")?.as_document());
    let output = options.and_then(|options| options.get("output")?.as_document());
    let is_value = |how: &Value| how.as_document().is_some_and(|how| how.has("value"));
    output.is_some_and(|output| output.iter().all(|(_, how)| is_value(how)))
}

fn parse_operators(document: &Document, filters: ArrayFilters, scope: &Scope) -> Result<UpdateKind> {
    let mut fields = Fields::default();
    let mut used: Vec<Str> = Vec::new();
    for (name, operand) in document.iter() {
        if !Modifier::is_known(name) {
            fail!(
                FAILED_TO_PARSE,
                "Unknown modifier: {name}. Expected a valid update modifier or pipeline-style update specified as an array"
            );
        }
        let Value::Document(members) = operand else {
            fail!(
                FAILED_TO_PARSE,
                "Modifiers operate on fields but we found type {} instead. For example: {{$mod: {{<field>: ...}}}} not {{{name}: {operand}}}",
                operand.type_name()
            );
        };
        for (path, value) in members.iter() {
            let target = Target::parse(path)?;
            for identifier in target.identifiers() {
                if !filters.iter().any(|(known, _)| known == identifier) {
                    fail!(BAD_VALUE, "No array filter found for identifier '{identifier}' in path '{path}'");
                }
                used.push(identifier.clone());
            }
            add(&mut fields, name, target, value, scope)?;
        }
    }
    if let Some((identifier, _)) = filters.iter().find(|(identifier, _)| !used.contains(identifier)) {
        fail!(FAILED_TO_PARSE, "The array filter for identifier '{identifier}' was not used in the update");
    }
    Ok(UpdateKind::Operators(fields, filters))
}

/// Adds an operator to the tree; `$rename` is two, one at each of its paths.
fn add(fields: &mut Fields, name: &str, target: Target, value: &Value, scope: &Scope) -> Result<()> {
    if name != "$rename" {
        return fields.add(&target, Modifier::parse(name, &target, value, scope)?);
    }
    let to = rename_destination(&target, value)?;
    fields.add(&target, Modifier::Unset)?;
    fields.add(&to.clone(), Modifier::Rename { from: target, to })
}
