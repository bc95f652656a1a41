//! The rules of `ORDER BY`: a key is a place in the container's items, or a computed property (engine.md
//! §1.8). Groups are ordered by such a place in one of their keys.

use super::computed::ComputedProperties;
use crate::bound::{BoundQuery, BoundSource, Expression, Grouping, OrderRefusal, Slot};
use crate::error::{Rule, SqlError};

/// Also notes which keys are computed properties. After simplification, before computed properties are substituted.
pub(super) fn check(query: &mut BoundQuery, computed: &ComputedProperties) -> Result<(), SqlError> {
    let group_keys = query.grouping.as_ref().map_or(&[][..], |grouping: &Grouping| &grouping.keys);
    if query.grouping.is_some() && group_keys.is_empty() {
        // There is one row.
        query.order_by.clear();
    }
    for key in &query.order_by {
        match root(&key.expression, group_keys) {
            Some((0, steps)) if steps > 0 => {}
            Some((0, _)) => query.order_refusal = Some(OrderRefusal::WholeItem),
            Some((slot, _)) if is_correlated(&query.sources, slot) => {
                query.order_refusal = Some(OrderRefusal::Correlated);
            }
            _ => return Err(SqlError::Rule { rule: Rule::OrderByNotAPath, location: None }),
        }
    }
    for key in &mut query.order_by {
        if let Expression::Property { of, name } = &key.expression
            && **of == Expression::Variable(0)
        {
            key.computed = computed.names().position(|computed| computed == name);
        }
    }
    Ok(())
}

/// The variable that a path starts from, and the number of its steps.
fn root(expression: &Expression, group_keys: &[Expression]) -> Option<(Slot, usize)> {
    let (mut at, mut steps) = (expression, 0);
    loop {
        match at {
            Expression::Variable(slot) => return Some((*slot, steps)),
            Expression::Property { of, .. } | Expression::Index { of, .. } => at = of,
            Expression::GroupKey(place) => {
                let (slot, steps_to_key) = root(group_keys.get(*place)?, &[])?;
                return Some((slot, steps_to_key + steps));
            }
            _ => return None,
        }
        steps += 1;
    }
}

/// Whether the variable takes several values for one item. A variable that only names an expression is not a
/// path, but it is not correlated either.
fn is_correlated(sources: &[BoundSource], slot: Slot) -> bool {
    sources.iter().any(|source| match source {
        BoundSource::Item | BoundSource::Value { .. } => false,
        BoundSource::Elements { .. } => source.slot() == slot,
        BoundSource::Subquery { query, iterates, .. } => {
            let has_one_row = query.sources.is_empty()
                || query.grouping.as_ref().is_some_and(|grouping| grouping.keys.is_empty());
            source.slot() == slot && (*iterates || !has_one_row)
        }
    })
}
