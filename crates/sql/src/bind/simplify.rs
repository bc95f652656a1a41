//! Removes subqueries and variables between a condition and the item's property.
//!
//! SDKs write subqueries in `FROM` for every step of a chain of calls: `FROM (SELECT VALUE root FROM root
//! WHERE …) AS r0`. A subquery that only filters the container's items and renames a part of them is spliced
//! into the query around it. Variables that name a place in an item are replaced by the place, so that
//! indexes can serve the condition.

use std::collections::HashMap;
use std::convert::Infallible;

use shardlake_document::Value;

use crate::bound::{BoundQuery, BoundSource, Expression, Projection, Slot};

/// Limit on the steps of a path that replaces a variable, which bounds the depth of the tree.
const STEPS_MAX: usize = 64;

pub(super) fn simplify(query: &mut BoundQuery) {
    splice(query);
    Definitions::default().apply(query);
}

/// The expressions that variables stand for.
#[derive(Default)]
struct Definitions {
    of: HashMap<Slot, Expression>,
}

/// Replaces the first source, if it is a subquery over the container's items, by the subquery's sources and
/// filter. A subquery that groups or removes duplicates is replaced only where the query around it adds
/// nothing.
fn splice(query: &mut BoundQuery) {
    let is_only_source = query.sources.len() == 1;
    let Some(BoundSource::Subquery { slot, query: inner, iterates }) = query.sources.first_mut() else {
        return;
    };
    splice(inner);
    if !matches!(inner.sources.first(), Some(BoundSource::Item)) {
        return;
    }
    let adds_nothing =
        is_only_source && !*iterates && query.projection == Projection::Value(Expression::Variable(*slot));
    if inner.grouping.is_some() {
        if adds_nothing && query.filter.is_none() && query.grouping.is_none() && query.order_by.is_empty() {
            query.grouping = inner.grouping.take();
            query.projection = std::mem::replace(&mut inner.projection, Projection::All(0));
            query.filter = inner.filter.take();
            query.distinct |= inner.distinct;
            query.sources = std::mem::take(&mut inner.sources);
        }
        return;
    }
    if inner.distinct {
        // Rows dropped by a condition on the value are the same before and after duplicates are removed.
        let keeps_meaning = is_only_source && !*iterates && (adds_nothing || query.distinct);
        if !keeps_meaning || query.grouping.is_some() {
            return;
        }
        query.distinct = true;
    }
    let BoundSource::Subquery { slot, query: inner, iterates } = query.sources.remove(0) else {
        unreachable!("matched above")
    };
    let of = match inner.projection {
        Projection::All(slot) | Projection::Bodies(slot) => Expression::Variable(slot),
        Projection::Value(value) => value,
        Projection::Object(members) => Expression::Object(members),
    };
    let source = match iterates {
        true => BoundSource::Elements { slot, of },
        false => BoundSource::Value { slot, of },
    };
    query.sources.splice(0..0, inner.sources.into_iter().chain([source]));
    query.filter = match (inner.filter, query.filter.take()) {
        (Some(inner), Some(outer)) => Some(Expression::And(vec![inner, outer])),
        (inner, outer) => inner.or(outer),
    };
}

impl Definitions {
    fn apply(&mut self, query: &mut BoundQuery) {
        let mut sources = std::mem::take(&mut query.sources);
        sources.retain_mut(|source| {
            match source {
                BoundSource::Item => {}
                BoundSource::Elements { of, .. } => self.rewrite(of),
                BoundSource::Subquery { query, .. } => self.apply(query),
                BoundSource::Value { slot, of } => {
                    self.rewrite(of);
                    self.of.insert(*slot, of.clone());
                    // Variables always have a value, so another name for one drops no row.
                    return !matches!(of, Expression::Variable(_));
                }
            }
            true
        });
        query.sources = sources;
        if let Projection::All(slot) = query.projection
            && self.of.contains_key(&slot)
        {
            query.projection = Projection::Value(Expression::Variable(slot));
        }
        let own_sources = std::mem::take(&mut query.sources);
        let done: Result<(), Infallible> = query.for_each_expression(&mut |expression| {
            self.rewrite(expression);
            Ok(())
        });
        let Ok(()) = done;
        query.sources = own_sources;
        query.filter = query.filter.take().and_then(condition);
        if let Projection::Value(Expression::Variable(0)) = query.projection {
            query.projection = Projection::All(0);
        }
    }

    fn rewrite(&mut self, expression: &mut Expression) {
        match expression {
            Expression::Variable(slot) => {
                if let Some(place) = self.of.get(slot).filter(|of| steps_of_path(of).is_some()) {
                    *expression = place.clone();
                }
            }
            Expression::Property { of, name } => {
                self.rewrite(of);
                let members = match &mut **of {
                    Expression::Object(members) => Some(std::mem::take(members)),
                    Expression::Variable(slot) => match self.of.get(slot) {
                        Some(Expression::Object(members)) => Some(members.clone()),
                        _ => None,
                    },
                    _ => None,
                };
                if let Some(members) = members {
                    *expression = member(members, name);
                }
            }
            Expression::Subquery { query, .. } => self.apply(query),
            other => {
                let done: Result<(), Infallible> = other.for_each_child(|child| {
                    self.rewrite(child);
                    Ok(())
                });
                let Ok(()) = done;
            }
        }
    }
}

fn member(members: Vec<(String, Expression)>, name: &str) -> Expression {
    let found = members.into_iter().find(|(candidate, _)| candidate == name);
    found.map_or(Expression::Literal(Value::Undefined), |(_, value)| value)
}

/// The number of steps, when it is a path from a variable that is not too long.
fn steps_of_path(expression: &Expression) -> Option<usize> {
    let mut at = expression;
    for steps in 0..STEPS_MAX {
        match at {
            Expression::Variable(_) => return Some(steps),
            Expression::Property { of, .. } | Expression::Index { of, .. } => at = of,
            _ => return None,
        }
    }
    None
}

/// A condition only has to be `true` when it was: parts that are always true are dropped, and a part that is
/// never true decides. `None` when nothing is left to test.
fn condition(filter: Expression) -> Option<Expression> {
    match filter {
        Expression::Literal(Value::Bool(true)) => None,
        Expression::Literal(_) => Some(Expression::Literal(Value::Bool(false))),
        Expression::And(parts) => {
            let mut kept = Vec::with_capacity(parts.len());
            for part in parts {
                match condition(part) {
                    None => {}
                    Some(never @ Expression::Literal(_)) => return Some(never),
                    Some(Expression::And(inner)) => kept.extend(inner),
                    Some(other) => kept.push(other),
                }
            }
            if kept.len() > 1 { Some(Expression::And(kept)) } else { kept.pop() }
        }
        Expression::Or(parts) => {
            let mut kept = Vec::with_capacity(parts.len());
            for part in parts {
                match condition(part)? {
                    Expression::Literal(_) => {}
                    Expression::Or(inner) => kept.extend(inner),
                    other => kept.push(other),
                }
            }
            let never = Expression::Literal(Value::Bool(false));
            if kept.len() > 1 { Some(Expression::Or(kept)) } else { Some(kept.pop().unwrap_or(never)) }
        }
        other => Some(other),
    }
}
