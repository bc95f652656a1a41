//! All expressions of a query, those of its subqueries at any depth included.

use crate::syntax::ast::{Collection, Expression, OrderBy, Query, Selection, Source};

/// Calls `visit` for each expression, outer ones first, with whether it is in a subquery, until it fails.
pub(super) fn each_expression<E>(
    query: &Query,
    is_inner: bool,
    visit: &mut dyn FnMut(&Expression, bool) -> Result<(), E>,
) -> Result<(), E> {
    let mut roots: Vec<&Expression> = match &query.select.selection {
        Selection::All => Vec::new(),
        Selection::Value(value) => vec![value],
        Selection::Items(items) => items.iter().map(|item| &item.expression).collect(),
    };
    roots.extend(&query.filter);
    roots.extend(query.group_by.iter().map(|key| &key.expression));
    match &query.order_by {
        Some(OrderBy::Keys { keys, .. }) => roots.extend(keys.iter().map(|key| &key.expression)),
        Some(OrderBy::Rank { call, .. }) => roots.push(call),
        None => {}
    }
    for root in roots {
        inside(root, is_inner, visit)?;
    }
    query.from.as_ref().map_or(Ok(()), |from| of_collection(from, visit))
}

fn inside<E>(
    expression: &Expression,
    is_inner: bool,
    visit: &mut dyn FnMut(&Expression, bool) -> Result<(), E>,
) -> Result<(), E> {
    visit(expression, is_inner)?;
    if let Expression::Subquery { query, .. } = expression {
        return each_expression(query, true, visit);
    }
    expression.children().into_iter().try_for_each(|child| inside(child, is_inner, visit))
}

fn of_collection<E>(
    collection: &Collection,
    visit: &mut dyn FnMut(&Expression, bool) -> Result<(), E>,
) -> Result<(), E> {
    match collection {
        Collection::Aliased { source, .. } | Collection::Iterate { source, .. } => match source {
            Source::Path { .. } => Ok(()),
            Source::Subquery(query) => each_expression(query, true, visit),
        },
        Collection::Join { left, right } => {
            of_collection(left, visit)?;
            of_collection(right, visit)
        }
    }
}
