//! Stages that take one document at a time.

use super::run::{Context, Operator, Stage};
use crate::error::{Result, error, fail};
use crate::expression::{Expression, Scope, parse as parse_expression};
use crate::filter::Filter;
use crate::path::field_path;
use crate::projection::Projection;
use crate::value::{Document, Str, Value};
use std::sync::Arc;

/// A stage that makes of each document one or none.
pub(super) enum Each {
    Match(Filter),
    Project(Projection),
    Replace(Expression, &'static str),
}

impl Stage for Each {
    fn start(self: Arc<Self>) -> Box<dyn Operator> {
        Box::new(EachRun(self))
    }
}

struct EachRun(Arc<Each>);

impl Operator for EachRun {
    fn push(&mut self, document: Value, context: &mut Context<'_>, out: &mut Vec<Value>) -> Result<bool> {
        match &*self.0 {
            Each::Match(filter) => {
                if let Value::Document(members) = &document
                    && filter.matches(members, &mut context.env)?
                {
                    out.push(document);
                }
            }
            Each::Project(projection) => out.push(projection.apply(&document, &mut context.env)?),
            Each::Replace(expression, stage) => match expression.evaluate_on(&mut context.env, &document)? {
                root @ Value::Document(_) => out.push(root),
                other => {
                    fail!(
                        40228,
                        "'newRoot' expression of {stage} must evaluate to an object, but resulting value was of type {}",
                        other.type_name()
                    )
                }
            },
        }
        Ok(true)
    }
}

pub(super) fn parse_match(value: &Value, scope: &Scope) -> Result<Each> {
    let Value::Document(document) = value else {
        fail!(15959, "the match filter must be an expression in an object");
    };
    Ok(Each::Match(Filter::parse(document, scope)?))
}

pub(super) fn parse_unset(value: &Value) -> Result<Each> {
    let paths: Vec<Str> = match value {
        Value::String(path) => vec![path.clone()],
        Value::Array(items) if items.is_empty() => {
            fail!(31119, "$unset specification must be a string or an array with at least one field")
        }
        Value::Array(items) => {
            let path = |item: &Value| match item {
                Value::String(path) => Ok(path.clone()),
                _ => fail!(
                    31120,
                    "$unset specification must be a string or an array containing only string values"
                ),
            };
            items.iter().map(path).collect::<Result<_>>()?
        }
        _ => fail!(31002, "$unset specification must be a string or an array"),
    };
    if paths.iter().any(|path| path.contains('\0')) {
        fail!(9527900, "$unset: a field path must not contain a null byte");
    }
    Ok(Each::Project(Projection::without(&paths)?))
}

pub(super) fn parse_replace_root(value: &Value, scope: &Scope) -> Result<Each> {
    let Value::Document(document) = value else {
        fail!(40229, "expected an object as specification for $replaceRoot stage, got {}", value.type_name());
    };
    if let Some((name, _)) = document.iter().find(|(name, _)| ***name != *"newRoot") {
        fail!(40415, "BSON field '$replaceRoot.{name}' is an unknown field.");
    }
    let root = document.get("newRoot");
    let root = root
        .ok_or_else(|| error!(40414, "BSON field '$replaceRoot.newRoot' is missing but a required field"))?;
    Ok(Each::Replace(parse_expression(root, scope)?, "$replaceRoot"))
}

pub(super) fn parse_replace_with(value: &Value, scope: &Scope) -> Result<Each> {
    Ok(Each::Replace(parse_expression(value, scope)?, "$replaceWith"))
}

/// `$skip` and `$limit`.
pub(super) struct Cut {
    pub skip: u64,
    pub limit: Option<u64>,
}

pub(super) fn parse_limit(value: &Value) -> Result<Cut> {
    let Some(limit) = value.to_i64_exact().filter(|limit| *limit >= 0) else {
        fail!(
            5107201,
            "invalid argument to $limit stage: Expected a non-negative number in: $limit: {value}"
        );
    };
    if limit == 0 {
        fail!(15958, "the limit must be positive");
    }
    Ok(Cut { skip: 0, limit: Some(limit as u64) })
}

pub(super) fn parse_skip(value: &Value) -> Result<Cut> {
    match value.to_i64_exact().and_then(|skip| u64::try_from(skip).ok()) {
        Some(skip) => Ok(Cut { skip, limit: None }),
        None => fail!(
            5107200,
            "invalid argument to $skip stage: Expected a non-negative number in: $skip: {value}"
        ),
    }
}

impl Stage for Cut {
    fn start(self: Arc<Self>) -> Box<dyn Operator> {
        Box::new(CutRun { skip: self.skip, left: self.limit.unwrap_or(u64::MAX) })
    }
}

struct CutRun {
    skip: u64,
    left: u64,
}

impl Operator for CutRun {
    fn push(&mut self, document: Value, _: &mut Context<'_>, out: &mut Vec<Value>) -> Result<bool> {
        if self.skip > 0 {
            self.skip -= 1;
        } else if self.left > 0 {
            self.left -= 1;
            out.push(document);
        }
        Ok(self.left > 0)
    }
}

/// `$unwind`.
pub(super) struct Unwind {
    path: Vec<Str>,
    index: Option<Vec<Str>>,
    preserve: bool,
}

pub(super) fn parse_unwind(value: &Value) -> Result<Unwind> {
    let (mut path, mut index, mut preserve) = (None, None, false);
    match value {
        Value::String(text) => path = Some(text.clone()),
        Value::Document(document) => {
            for (name, value) in document.iter() {
                match (&**name, value) {
                    ("path", Value::String(text)) => path = Some(text.clone()),
                    ("path", other) => fail!(
                        28808,
                        "expected a string as the path for $unwind stage, got {}",
                        other.type_name()
                    ),
                    ("preserveNullAndEmptyArrays", Value::Bool(flag)) => preserve = *flag,
                    ("preserveNullAndEmptyArrays", other) => {
                        fail!(
                            28809,
                            "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got {}",
                            other.type_name()
                        )
                    }
                    ("includeArrayIndex", Value::String(text)) if !text.is_empty() => {
                        index = Some(text.clone())
                    }
                    ("includeArrayIndex", other) => {
                        fail!(
                            28810,
                            "expected a non-empty string for the includeArrayIndex option to $unwind stage, got {}",
                            other.type_name()
                        )
                    }
                    (other, _) => fail!(28811, "unrecognized option to $unwind stage: {other}"),
                }
            }
        }
        other => fail!(
            15981,
            "expected either a string or an object as specification for $unwind stage, got {}",
            other.type_name()
        ),
    }
    let path = path.ok_or_else(|| error!(28812, "no path specified to $unwind stage"))?;
    if path.is_empty() {
        fail!(28812, "no path specified to $unwind stage");
    }
    if &*path == "$" {
        fail!(40352, "FieldPath cannot be constructed with empty string");
    }
    let Some(path) = path.strip_prefix('$') else {
        fail!(28818, "path option to $unwind stage should be prefixed with a '$': {path}");
    };
    if index.as_ref().is_some_and(|index| index.starts_with('$')) {
        fail!(28822, "includeArrayIndex option to $unwind stage should not be prefixed with a '$'");
    }
    let index = index.map(|index| field_path(&index)).transpose()?;
    Ok(Unwind { path: field_path(path)?, index, preserve })
}

impl Stage for Unwind {
    fn start(self: Arc<Self>) -> Box<dyn Operator> {
        Box::new(UnwindRun(self))
    }
}

struct UnwindRun(Arc<Unwind>);

impl Operator for UnwindRun {
    fn push(&mut self, document: Value, _: &mut Context<'_>, out: &mut Vec<Value>) -> Result<bool> {
        let value = member_at(&document, &self.0.path);
        let with = |value: Option<Value>, index: Value| {
            let mut result = document.clone();
            if let Some(value) = value {
                result = with_member(&result, &self.0.path, value);
            }
            match &self.0.index {
                Some(path) => with_member(&result, path, index),
                None => result,
            }
        };
        match value {
            Value::Array(items) if items.is_empty() => {
                if self.0.preserve {
                    out.push(with(Some(Value::Missing), Value::Null));
                }
            }
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    out.push(with(Some(item.clone()), Value::Long(at as i64)));
                }
            }
            value if value.is_nullish() => {
                if self.0.preserve {
                    out.push(with(None, Value::Null));
                }
            }
            _ => out.push(with(None, Value::Null)),
        }
        Ok(true)
    }
}

/// The member at a path of documents; arrays on the way end it.
pub(super) fn member_at(value: &Value, path: &[Str]) -> Value {
    match (value, path.split_first()) {
        (value, None) => value.clone(),
        (Value::Document(document), Some((name, rest))) => {
            document.get(name).map_or(Value::Missing, |member| member_at(member, rest))
        }
        _ => Value::Missing,
    }
}

/// A document with another value at a path; each value on the way that is not a document becomes one.
pub(super) fn with_member(value: &Value, path: &[Str], member: Value) -> Value {
    let Some((name, rest)) = path.split_first() else { return member };
    let mut document = match value {
        Value::Document(document) => (**document).clone(),
        _ => Document::new(),
    };
    let inner = with_member(&document.value(name), rest, member);
    document.set(name, inner);
    Value::Document(Arc::new(document))
}
