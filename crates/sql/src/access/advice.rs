//! Suggestions for better query text, as the reference's query advisor makes them: rules by number, without
//! parameters.
//!
//! Rules look at the text, not at the plan. `QA1005` is missing: its condition is unknown.

use shardlake_document::Value;

use crate::syntax::ParsedQuery as Query;
use crate::syntax::ast::{self, BinaryOperator, Collection, Expression, OrderBy, Selection, Source};

/// A rule that a query breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    pub id: &'static str,
    /// Values that a client inserts into the rule's message; always empty, as no rule here has any.
    pub parameters: Vec<String>,
}

/// In the order of the rules' numbers, each rule once.
pub fn query_advice(query: &Query) -> Vec<Advice> {
    let mut found = Vec::new();
    of_query(query.tree(), &mut found);
    found.sort_unstable();
    found.dedup();
    found.into_iter().map(|id| Advice { id, parameters: Vec::new() }).collect()
}

fn of_query(query: &ast::Query, found: &mut Vec<&'static str>) {
    match &query.select.selection {
        Selection::All => {}
        Selection::Value(value) => of_expression(value, found),
        Selection::Items(items) => items.iter().for_each(|item| of_expression(&item.expression, found)),
    }
    if let Some(from) = &query.from {
        of_collection(from, found);
        if query.select.distinct && matches!(from, Collection::Join { .. }) {
            found.push("QA1001");
        }
    }
    if let Some(filter) = &query.filter {
        of_expression(filter, found);
        of_comparisons(filter, found);
    }
    query.group_by.iter().for_each(|key| of_expression(&key.expression, found));
    match &query.order_by {
        Some(OrderBy::Keys { keys, .. }) => keys.iter().for_each(|key| of_expression(&key.expression, found)),
        Some(OrderBy::Rank { call, .. }) => of_expression(call, found),
        None => {}
    }
}

fn of_collection(collection: &Collection, found: &mut Vec<&'static str>) {
    match collection {
        Collection::Aliased { source, .. } | Collection::Iterate { source, .. } => {
            if let Source::Subquery(query) = source {
                of_query(query, found);
            }
        }
        Collection::Join { left, right } => {
            of_collection(left, found);
            of_collection(right, found);
        }
    }
}

fn of_expression(expression: &Expression, found: &mut Vec<&'static str>) {
    match expression {
        Expression::Call { name, arguments, .. } => found.extend(of_call(&plain(name), arguments)),
        Expression::Subquery { query, .. } => of_query(query, found),
        _ => {}
    }
    expression.children().into_iter().for_each(|child| of_expression(child, found));
}

fn of_call(name: &str, arguments: &[Expression]) -> Option<&'static str> {
    let is_flagged = matches!(arguments.get(2), Some(Expression::Literal(Value::Bool(true))));
    Some(match name {
        "ARRAYCONTAINS" if is_flagged => "QA1000",
        "CONTAINS" => "QA1002",
        "STARTSWITH" | "STRINGEQUALS" if is_flagged => "QA1003",
        "ENDSWITH" => "QA1004",
        "GETCURRENTDATETIME" => "QA1007",
        "GETCURRENTTICKS" => "QA1008",
        "GETCURRENTTIMESTAMP" => "QA1009",
        _ => return None,
    })
}

/// Rules about `UPPER` and `LOWER` in comparisons.
fn of_comparisons(condition: &Expression, found: &mut Vec<&'static str>) {
    use BinaryOperator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let operands = match condition {
        Expression::Binary {
            operator: Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual,
            left,
            right,
        } => vec![&**left, &**right],
        Expression::In { value, .. } | Expression::Between { value, .. } | Expression::Like { value, .. } => {
            vec![&**value]
        }
        _ => vec![],
    };
    if operands.into_iter().any(changes_case) {
        found.push("QA1006");
    }
    condition.children().into_iter().for_each(|child| of_comparisons(child, found));
}

fn changes_case(expression: &Expression) -> bool {
    matches!(expression, Expression::Call { name, .. } if ["UPPER", "LOWER"].contains(&plain(name).as_str()))
}

/// Names ignore case and underscores.
fn plain(name: &str) -> String {
    name.replace('_', "").to_ascii_uppercase()
}
