//! Which parts of `WHERE` can be tested before all sources of a row are entered, so that joins do not multiply rows that a
//! condition on the item, or on an outer element, drops anyway.

use std::convert::Infallible;

use crate::bound::{BoundQuery, BoundSource, EarlyTest};
use crate::expression::Expression;

/// Also in every subquery.
pub(super) fn find_early_tests(query: &mut BoundQuery) {
    let mut sources = std::mem::take(&mut query.sources);
    for source in &mut sources {
        match source {
            BoundSource::Item => {}
            BoundSource::Value { of, .. } | BoundSource::Elements { of, .. } => in_subqueries(of),
            BoundSource::Subquery { query, .. } => find_early_tests(query),
        }
    }
    let done: Result<(), Infallible> = query.for_each_expression(&mut |expression| {
        in_subqueries(expression);
        Ok(())
    });
    let Ok(()) = done;
    query.sources = sources;
    let conditions = match &query.filter {
        Some(Expression::And(parts)) => &parts[..],
        Some(single) => std::slice::from_ref(single),
        None => &[],
    };
    let early = |condition: &Expression| {
        let after = sources_needed(condition, query)?;
        // The first source of most queries is the item, which multiplies nothing.
        (after < query.sources.len()).then(|| EarlyTest { after, condition: condition.clone() })
    };
    query.early = conditions.iter().filter_map(early).collect();
}

fn in_subqueries(expression: &mut Expression) {
    if let Expression::Subquery { query, .. } = expression {
        find_early_tests(query);
        return;
    }
    let done: Result<(), Infallible> = expression.for_each_child(|child| {
        in_subqueries(child);
        Ok(())
    });
    let Ok(()) = done;
}

/// How many sources must be entered before all variables have values. None where a subquery or a user-defined function could
/// fail, which it must not do for a row that never comes to be.
fn sources_needed(expression: &Expression, query: &BoundQuery) -> Option<usize> {
    match expression {
        Expression::Subquery { .. } | Expression::UserDefined { .. } => None,
        Expression::Variable(slot) => {
            let place = query.sources.iter().position(|source| source.slot() == *slot);
            Some(place.map_or(0, |place| place + 1))
        }
        other => other
            .children()
            .into_iter()
            .try_fold(0, |needed, child| Some(needed.max(sources_needed(child, query)?))),
    }
}
