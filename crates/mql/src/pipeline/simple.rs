//! Stages that take one document at a time.

use super::options::{self, Options};
use super::run::{Context, Operator, Stage};
use crate::error::{Result, fail};
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

pub(super) fn parse_match(options: &Options<'_>, scope: &Scope) -> Result<Each> {
    let filter = options.document().map(|filter| Filter::parse(filter, scope)).transpose()?;
    filter.map(Each::Match).ok_or_else(|| options::unknown(options.stage()))
}

pub(super) fn parse_unset(options: &Options<'_>) -> Result<Each> {
    let path = |item: &Value| match item {
        Value::String(path) => Ok(path.clone()),
        _ => fail!(31120, "$unset specification must be a string or an array containing only string values"),
    };
    let paths: Vec<Str> = match options.argument() {
        Value::Array(items) => items.iter().map(path).collect::<Result<_>>()?,
        one => vec![path(one)?],
    };
    if paths.iter().any(|path| path.contains('\0')) {
        fail!(9527900, "$unset: a field path must not contain a null byte");
    }
    Ok(Each::Project(Projection::without(&paths)?))
}

pub(super) fn parse_replace_root(options: &Options<'_>, scope: &Scope) -> Result<Each> {
    Ok(Each::Replace(parse_expression(options.value("newRoot"), scope)?, "$replaceRoot"))
}

pub(super) fn parse_replace_with(options: &Options<'_>, scope: &Scope) -> Result<Each> {
    Ok(Each::Replace(parse_expression(options.argument(), scope)?, "$replaceWith"))
}

/// `$skip` and `$limit`.
pub(super) struct Cut {
    pub skip: u64,
    pub limit: Option<u64>,
}

/// A number that the table has found to be whole and not negative.
fn count_of(options: &Options<'_>) -> u64 {
    options.argument().to_i64_exact().and_then(|count| u64::try_from(count).ok()).unwrap_or_default()
}

pub(super) fn parse_limit(options: &Options<'_>) -> Cut {
    Cut { skip: 0, limit: Some(count_of(options)) }
}

pub(super) fn parse_skip(options: &Options<'_>) -> Cut {
    Cut { skip: count_of(options), limit: None }
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

pub(super) fn parse_unwind(options: &Options<'_>) -> Result<Unwind> {
    let path = options.argument().as_str().unwrap_or_else(|| options.text("path").map_or("", |path| path));
    let preserve = options.get("preserveNullAndEmptyArrays").is_some_and(Value::is_true);
    let index = options.text("includeArrayIndex");
    if path.is_empty() {
        fail!(28812, "no path specified to $unwind stage");
    }
    if path == "$" {
        fail!(40352, "FieldPath cannot be constructed with empty string");
    }
    let Some(path) = path.strip_prefix('$') else {
        fail!(28818, "path option to $unwind stage should be prefixed with a '$': {path}");
    };
    if index.is_some_and(|index| index.starts_with('$')) {
        fail!(28822, "includeArrayIndex option to $unwind stage should not be prefixed with a '$'");
    }
    let index = index.map(|index| field_path(index)).transpose()?;
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
