//! Reading and building the syntax trees of rewritten queries.

use shardlake_document::Value;

use crate::bind::aggregate_function;
use crate::syntax::ast::{
    Collection, Count, CountValue, Expression, Identifier, PathStep, SelectItem, Source, Span,
};
use crate::value::aggregate::AggregateFunction;

/// The aggregate that the expression is, with its argument.
pub(super) fn aggregate_of(expression: &Expression) -> Option<(AggregateFunction, &Expression)> {
    match expression {
        Expression::Call { name, arguments, .. } if arguments.len() == 1 => {
            Some((aggregate_function(name)?, &arguments[0]))
        }
        _ => None,
    }
}

/// Whether an aggregate is part of a larger expression, whose partial results cannot be merged.
pub(super) fn composes_aggregates(expression: &Expression) -> bool {
    let contains = |part: &&Expression| aggregate_of(part).is_some() || composes_aggregates(part);
    aggregate_of(expression).is_none() && expression.children().iter().any(contains)
}

/// The mergeable answer of a partition for an aggregate: `{"item": …}`, with a second member where one value
/// does not distinguish an empty input from others.
pub(super) fn partial_aggregate(function: AggregateFunction, argument: &Expression) -> Expression {
    let of = |name: &str| call(name, argument.clone());
    match function {
        AggregateFunction::Average => {
            object([("item", object([("sum", of("SUM")), ("count", of("COUNT"))]))])
        }
        AggregateFunction::Min => {
            object([("item", of("MIN")), ("item2", object([("min", of("MIN")), ("count", of("COUNT"))]))])
        }
        AggregateFunction::Max => {
            object([("item", of("MAX")), ("item2", object([("max", of("MAX")), ("count", of("COUNT"))]))])
        }
        AggregateFunction::Count => object([("item", of("COUNT"))]),
        AggregateFunction::CountIf => object([("item", of("COUNTIF"))]),
        AggregateFunction::MakeList => object([("item", of("MAKELIST"))]),
        AggregateFunction::MakeSet => object([("item", of("MAKESET"))]),
        AggregateFunction::Sum => object([("item", of("SUM"))]),
    }
}

/// `[{"item": a}, {"item": b}]`
pub(super) fn items_of<'e>(expressions: impl Iterator<Item = &'e Expression>) -> Expression {
    Expression::Array(expressions.map(|expression| object([("item", expression.clone())])).collect())
}

/// The name of the item that the rows of the first source are parts of.
pub(super) fn item_name(from: &Collection) -> Option<Identifier> {
    match from {
        Collection::Join { left, .. } => item_name(left),
        Collection::Iterate { source: Source::Path { root, .. }, .. } => Some(root.clone()),
        other => first_name(other),
    }
}

/// The name of the rows of the first source.
pub(super) fn first_name(from: &Collection) -> Option<Identifier> {
    match from {
        Collection::Join { left, .. } => first_name(left),
        Collection::Iterate { alias, .. } | Collection::Aliased { alias: Some(alias), .. } => {
            Some(alias.clone())
        }
        Collection::Aliased { source: Source::Path { root, path }, alias: None } => {
            let last = path.iter().rev().find_map(|step| match step {
                PathStep::Name { name, .. } => Some(name.clone()),
                PathStep::Index(_) => None,
            });
            Some(last.map_or_else(|| root.clone(), name))
        }
        Collection::Aliased { source: Source::Subquery(_), alias: None } => None,
    }
}

pub(super) fn name(name: impl Into<String>) -> Identifier {
    Identifier { name: name.into(), span: Span::default() }
}

pub(super) fn object<const N: usize>(members: [(&str, Expression); N]) -> Expression {
    object_of(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

pub(super) fn object_of(members: Vec<(String, Expression)>) -> Expression {
    Expression::Object { members, span: Span::default() }
}

pub(super) fn call(name: &str, argument: Expression) -> Expression {
    Expression::Call { name: name.to_owned(), arguments: vec![argument], span: Span::default() }
}

pub(super) fn select_item(expression: Expression, alias: Option<&str>) -> SelectItem {
    SelectItem { expression, alias: alias.map(str::to_owned), name_span: Span::default() }
}

pub(super) fn count(number: u64) -> Count {
    // No result has more rows than the largest count.
    Count {
        value: CountValue::Number(Value::Int(number.min(u64::from(u32::MAX)) as i64)),
        span: Span::default(),
    }
}
