//! BSON to expressions.

use super::env::Env;
use super::operands::{At, list_of};
use super::operator::{Function, MANY, Operator};
use super::scope::{Scope, check_variable_name, check_variable_use};
use super::tree::{Expression, Tree};
use super::{arithmetic, arrays, bits, casts, compare, math, sets, strings, sums, text};
use super::{
    branches, conversion, date_arguments, date_parts, date_text, lists, objects, percentile, picks, regexes,
    sort_array, trims,
};
use crate::error::{Result, fail};
use crate::path::{check_field_name, field_path};
use crate::value::{Document, Str, Value};
use shardlake_collation::Collation;

/// Families of operators that evaluate all their arguments.
const OPERATORS: &[fn(&str) -> Option<Operator>] = &[
    arithmetic::operator,
    math::operator,
    bits::operator,
    compare::operator,
    strings::operator,
    text::operator,
    arrays::operator,
    sets::operator,
    objects::operator,
    casts::operator,
    sums::operator,
];
/// A family of operators that parse their own operands; `None` for a name of another family.
type Parser = fn(&str, &Value, &At<'_>) -> Result<Option<Expression>>;
const PARSERS: &[Parser] = &[
    branches::parse,
    lists::parse,
    regexes::parse,
    trims::parse,
    date_arguments::parse,
    date_parts::parse,
    date_text::parse,
    conversion::parse,
    objects::parse,
    picks::parse,
    sort_array::parse,
    percentile::parse,
];
/// Levels of operators that an expression may have.
const DEPTH_MAX: usize = 200;
/// Bytes that a string in an expression stays below.
const STRING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Parses a value as an expression: field paths, variables, operators, literals.
pub fn parse(value: &Value, scope: &Scope) -> Result<Expression> {
    parse_at(value, scope, 0)
}

fn parse_at(value: &Value, scope: &Scope, depth: usize) -> Result<Expression> {
    if depth > DEPTH_MAX {
        fail!(15, "an expression may be nested {DEPTH_MAX} levels deep");
    }
    match value {
        Value::String(text) if text.len() >= STRING_BYTES_MAX => {
            fail!(16493, "Tried to create string longer than {STRING_BYTES_MAX} bytes")
        }
        Value::String(text) if text.starts_with("$$") => parse_variable(&text[2..], scope),
        Value::String(text) if text.starts_with('$') => {
            let path = field_path(&text[1..])?;
            Ok(Expression::new(Tree::Path(scope.current(), path)))
        }
        Value::Document(document) => parse_document(document, scope, depth),
        Value::Array(items) => {
            let items: Result<Vec<Expression>> =
                items.iter().map(|item| parse_at(item, scope, depth + 1)).collect();
            let items = items?;
            if items.is_empty() {
                return Ok(Expression::constant(value.clone()));
            }
            Ok(Expression::new(Tree::Array(items)).folded())
        }
        _ => Ok(Expression::constant(value.clone())),
    }
}

impl Scope {
    /// A scope with variables that a command's `let` gives, each of which may use those before it, and an environment that holds
    /// their values.
    pub fn with_variables(collation: &Collation, variables: &Document, mut env: Env) -> Result<(Scope, Env)> {
        let mut scope = Scope::with_collation(collation.clone());
        for (name, value) in variables.iter() {
            check_variable_name(name)?;
            let value = parse(value, &scope)?.evaluate(&mut env)?;
            env.set(scope.bind(name), value);
        }
        Ok((scope, env))
    }
}

fn parse_variable(text: &str, scope: &Scope) -> Result<Expression> {
    if text.contains('\0') {
        fail!(16419, "field path must not contain embedded null characters");
    }
    let (name, path) = match text.split_once('.') {
        Some((name, rest)) => (name, Some(rest)),
        None => (text, None),
    };
    check_variable_use(name)?;
    let path = path.map_or_else(|| Ok(Vec::new()), path_of_variable)?;
    match name {
        "REMOVE" => return Ok(Expression::constant(Value::Missing)),
        "NOW" if path.is_empty() => return Ok(Expression::new(Tree::Now)),
        "CLUSTER_TIME" if path.is_empty() => return Ok(Expression::new(Tree::ClusterTime)),
        "NOW" | "CLUSTER_TIME" => return Ok(Expression::constant(Value::Missing)),
        "DESCEND" | "PRUNE" | "KEEP" if scope.has_levels() && scope.slot(name).is_err() => {
            return Ok(Expression::constant(Value::string(name.to_ascii_lowercase())));
        }
        "SEARCH_META" => fail!(303, "'$$SEARCH_META' is not supported"),
        "USER_ROLES" if scope.slot(name).is_err() => {
            return Ok(Expression::constant(Value::array(Vec::new())));
        }
        _ => {}
    }
    Ok(Expression::new(Tree::Path(scope.slot(name)?, path)))
}

fn path_of_variable(path: &str) -> Result<Vec<Str>> {
    if path.is_empty() {
        fail!(40353, "FieldPath must not end with a '.'.");
    }
    field_path(path)
}

fn parse_document(document: &Document, scope: &Scope, depth: usize) -> Result<Expression> {
    let Some((name, operand)) = document.first() else {
        return Ok(Expression::constant(Value::document(Document::new())));
    };
    if name.starts_with('$') {
        if document.len() > 1 {
            fail!(15983, "an object representing an expression must have exactly one field: {document}");
        }
        return parse_operator(name, operand, scope, depth + 1);
    }
    let mut members: Vec<(Str, Expression)> = Vec::with_capacity(document.len());
    for (name, member) in document.iter() {
        if name.contains('.') {
            fail!(16412, "FieldPath field names may not contain '.'. Consider using $getField or $setField.");
        }
        check_field_name(name)?;
        if members.iter().any(|(known, _)| known == name) {
            fail!(16406, "duplicate field name specified in object literal: {document}");
        }
        members.push((name.clone(), parse_at(member, scope, depth + 1)?));
    }
    Ok(Expression::new(Tree::Object(members)).folded())
}

fn parse_operator(name: &str, operand: &Value, scope: &Scope, depth: usize) -> Result<Expression> {
    if name == "$literal" || name == "$const" {
        return Ok(Expression::constant(operand.clone()));
    }
    if let Some(operator) = OPERATORS.iter().find_map(|family| family(name)) {
        return parse_call(name, &operator, operand, scope, depth);
    }
    let at = At { scope, depth, parser: parse_at };
    for parser in PARSERS {
        if let Some(expression) = parser(name, operand, &at)? {
            return Ok(expression);
        }
    }
    match name {
        "$function" | "$accumulator" | "$where" => {
            fail!(303, "{name} is not supported: scripts are not run")
        }
        "$meta" => parse_meta(operand),
        _ => fail!(168, "Unrecognized expression '{name}'"),
    }
}

fn parse_meta(operand: &Value) -> Result<Expression> {
    let Value::String(kind) = operand else { fail!(17307, "$meta only supports string arguments") };
    match &**kind {
        "textScore"
        | "searchScore"
        | "vectorSearchScore"
        | "geoNearDistance"
        | "geoNearPoint"
        | "recordId"
        | "indexKey"
        | "sortKey"
        | "searchHighlights"
        | "searchScoreDetails"
        | "randVal"
        | "score"
        | "scoreDetails"
        | "searchSequenceToken"
        | "timeseriesBucketMinTime"
        | "timeseriesBucketMaxTime"
        | "stream" => Ok(Expression::new(Tree::Path(super::env::ROOT, vec![meta_name(kind)]))),
        other => fail!(17308, "Unsupported argument to $meta: {other}"),
    }
}

/// The member that carries metadata of a document while a pipeline runs.
pub(crate) fn meta_name(kind: &str) -> Str {
    Str::from(format!("$meta.{kind}"))
}

fn parse_call(
    name: &str,
    operator: &Operator,
    operand: &Value,
    scope: &Scope,
    depth: usize,
) -> Result<Expression> {
    let arguments = list_of(operand);
    let passed = arguments.len();
    if let ("$sigmoid", Value::Array(_)) = (name, operand) {
        fail!(14, "$sigmoid only supports numeric types, not array");
    }
    if operator.least == operator.most && passed != operator.least {
        let wanted = operator.least;
        fail!(16020, "Expression {name} takes exactly {wanted} arguments. {passed} were passed in.");
    }
    if passed < operator.least || passed > operator.most {
        let (least, most) = (operator.least, operator.most);
        let most = if most == MANY { "any number".to_owned() } else { most.to_string() };
        fail!(28667, "Expression {name} takes from {least} to {most} arguments. {passed} were passed in.");
    }
    let arguments: Result<Vec<Expression>> =
        arguments.iter().map(|argument| parse_at(argument, scope, depth)).collect();
    if let ("$setEquals", Ok(arguments)) = (name, &arguments) {
        sets::check_constants(arguments)?;
    }
    let call = match operator.function {
        Function::Plain(function) => Tree::Call(function, arguments?),
        Function::Comparing(function) => Tree::Compare(function, scope.collation().clone(), arguments?),
    };
    Ok(Expression::new(call).folded())
}
