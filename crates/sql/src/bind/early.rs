//! Finds the parts of `WHERE` that can be tested before all sources of a row are entered, so that joins do
//! not multiply rows which a condition on the item, or on an outer element, drops anyway.

use std::convert::Infallible;

use crate::bound::{BoundQuery, BoundSource, EarlyTest, Expression};

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
    let early = |condition: &Expression| {
        let after = query.sources_needed(condition)?;
        // The first source of most queries is the item, which multiplies nothing.
        (after < query.sources.len()).then(|| EarlyTest { after, condition: condition.clone() })
    };
    query.early = query.conditions().iter().filter_map(early).collect();
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
