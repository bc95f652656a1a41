//! The nested loops of a query's sources, and the results of subqueries.
//!
//! Rows are never collected: each row is a scope on the stack that is handed to a function. Only groups,
//! distinct rows and results of `ARRAY` are kept, up to a limit.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow::{self, Break, Continue};

use shardlake_document::Value;

use crate::bound::{BoundQuery, BoundSource, Expression, Grouping, Prepared, Projection};
use crate::error::SqlError;
use crate::evaluate::scope::{GroupValues, Scope};
use crate::evaluate::{evaluate, holds};
use crate::syntax::ast::SubqueryKind;
use crate::value::aggregate::{Accumulator, identity};
use crate::value::datum::{Datum, Evaluated, grow, value_size};

/// Memory of an entry of a set or a group, besides its values.
const ENTRY_SIZE_BYTES: usize = 64;

/// Outcome of a visited row: continue or stop.
pub(crate) type Step = Result<ControlFlow<()>, SqlError>;

/// Calls `visit` with the scope of every row of the sources that passes the filter, in order, until it
/// breaks. The item must be in the scope already where the query reads it.
pub(crate) fn for_each_row(
    query: &BoundQuery,
    scope: &Scope<'_>,
    visit: &mut dyn FnMut(&Scope<'_>) -> Step,
) -> Step {
    loop_over_all(query, &query.sources, true, scope, visit)
}

/// [`for_each_row`] where the scope has the value of the first source already.
pub(crate) fn for_each_row_behind_first(
    query: &BoundQuery,
    scope: &Scope<'_>,
    visit: &mut dyn FnMut(&Scope<'_>) -> Step,
) -> Step {
    loop_over_all(query, &query.sources[1..], true, scope, visit)
}

/// [`for_each_row`] without `WHERE`, which is known to hold for every row.
pub(crate) fn for_each_unfiltered_row(
    query: &BoundQuery,
    scope: &Scope<'_>,
    visit: &mut dyn FnMut(&Scope<'_>) -> Step,
) -> Step {
    loop_over_all(query, &query.sources, false, scope, visit)
}

/// While calls of user-defined functions are gathered, a row that awaits a call does not keep the others from
/// requesting theirs; the whole loop awaits them afterwards.
fn loop_over_all(
    query: &BoundQuery,
    sources: &[BoundSource],
    filters: bool,
    scope: &Scope<'_>,
    visit: &mut dyn FnMut(&Scope<'_>) -> Step,
) -> Step {
    if scope.calls().is_none() {
        return loop_over(query, sources, filters, scope, visit);
    }
    let around = scope.swap_awaits(false);
    let step = loop_over(query, sources, filters, scope, visit);
    let awaits = scope.swap_awaits(around);
    if awaits { Err(SqlError::AwaitsUserFunction) } else { step }
}

/// Notes that a row awaits a call, and continues with the next row.
fn gone_on(step: Step, scope: &Scope<'_>) -> Step {
    if matches!(step, Err(SqlError::AwaitsUserFunction)) {
        scope.swap_awaits(true);
        return Ok(Continue(()));
    }
    step
}

fn loop_over(
    query: &BoundQuery,
    sources: &[BoundSource],
    filters: bool,
    scope: &Scope<'_>,
    visit: &mut dyn FnMut(&Scope<'_>) -> Step,
) -> Step {
    gone_on(enter(query, sources, filters, scope, visit), scope)
}

fn enter(
    query: &BoundQuery,
    sources: &[BoundSource],
    filters: bool,
    scope: &Scope<'_>,
    visit: &mut dyn FnMut(&Scope<'_>) -> Step,
) -> Step {
    scope.step(1)?;
    let entered = query.sources.len() - sources.len();
    for test in query.early.iter().filter(|test| filters && test.after == entered) {
        if !holds(&test.condition, scope)? {
            return Ok(Continue(()));
        }
    }
    let Some((source, inner)) = sources.split_first() else {
        return match &query.filter {
            Some(filter) if filters && !passes(query, filter, scope)? => Ok(Continue(())),
            _ => visit(scope),
        };
    };
    match source {
        BoundSource::Item => loop_over(query, inner, filters, scope, visit),
        BoundSource::Value { slot, of } => match evaluate(of, scope)? {
            Datum::Undefined => Ok(Continue(())),
            value => loop_over(query, inner, filters, &scope.with(*slot, value), visit),
        },
        BoundSource::Elements { slot, of } => {
            let array = evaluate(of, scope)?;
            for_each_element(&array, &mut |element| {
                loop_over(query, inner, filters, &scope.with(*slot, element), visit)
            })
        }
        BoundSource::Subquery { slot, query: subquery, iterates } => {
            let mut enter =
                |value: Datum<'_>| loop_over(query, inner, filters, &scope.with(*slot, value), visit);
            for_each_result(subquery, scope, &mut |result| {
                if *iterates { for_each_element(&result, &mut enter) } else { enter(result) }
            })
        }
    }
}

fn passes(query: &BoundQuery, filter: &Expression, scope: &Scope<'_>) -> Result<bool, SqlError> {
    if let Prepared(Some(plain)) = &query.plain_filter
        && let Some(item) = scope.item_alone()
        && let Some(tested) = plain.holds(item)
    {
        return scope.step(tested.steps).map(|()| tested.holds);
    }
    holds(filter, scope)
}

fn for_each_element(array: &Datum<'_>, visit: &mut dyn FnMut(Datum<'_>) -> Step) -> Step {
    match array {
        Datum::RawArray(array) => {
            for element in array.iter() {
                if visit(Datum::from_raw(element))?.is_break() {
                    return Ok(Break(()));
                }
            }
        }
        Datum::Array(elements) => {
            for element in elements.iter() {
                if visit(Datum::from_tree(element))?.is_break() {
                    return Ok(Break(()));
                }
            }
        }
        _ => {}
    }
    Ok(Continue(()))
}

/// Calls `visit` with every result row of a query evaluated in place: rows, groups, projection, `DISTINCT`.
pub(crate) fn for_each_result(
    query: &BoundQuery,
    scope: &Scope<'_>,
    visit: &mut dyn FnMut(Datum<'_>) -> Step,
) -> Step {
    let mut seen = HashSet::new();
    let mut seen_size = 0;
    let mut emit = |row: &Scope<'_>| {
        let result = project(&query.projection, row)?;
        if result.is_undefined() {
            return Ok(Continue(()));
        }
        scope.step(result.copy_steps())?;
        if query.distinct {
            let identity = identity(&result.to_value());
            let size = identity.len() + ENTRY_SIZE_BYTES;
            if !seen.insert(identity) {
                return Ok(Continue(()));
            }
            grow(&mut seen_size, size)?;
        }
        visit(result)
    };
    match &query.grouping {
        None => for_each_row(query, scope, &mut emit),
        Some(grouping) => {
            for group in groups(query, grouping, scope)? {
                scope.step(1)?;
                let values = GroupValues { keys: &group.keys, aggregates: &group.aggregates };
                if emit(&scope.with_group(values))?.is_break() {
                    return Ok(Break(()));
                }
            }
            Ok(Continue(()))
        }
    }
}

/// The row's result; undefined when it has none.
pub(crate) fn project<'s>(projection: &'s Projection, scope: &'s Scope<'s>) -> Evaluated<'s> {
    match projection {
        Projection::All(slot) | Projection::Bodies(slot) => Ok(scope.variable(*slot)),
        Projection::Value(value) => evaluate(value, scope),
        Projection::Object(members) => super::object(members, scope),
    }
}

struct Group {
    keys: Vec<Value>,
    aggregates: Vec<Value>,
}

/// The groups in the order in which they appear.
fn groups(query: &BoundQuery, grouping: &Grouping, scope: &Scope<'_>) -> Result<Vec<Group>, SqlError> {
    let accumulators =
        || grouping.aggregates.iter().map(|aggregate| Accumulator::new(aggregate.function)).collect();
    let mut groups: Vec<(Vec<Value>, Vec<Accumulator>)> = Vec::new();
    let mut places = HashMap::new();
    let mut size = 0;
    if grouping.keys.is_empty() {
        groups.push((Vec::new(), accumulators()));
    }
    let _ = for_each_row(query, scope, &mut |row| {
        let place = if grouping.keys.is_empty() {
            0
        } else {
            let mut keys = Vec::with_capacity(grouping.keys.len());
            let mut identities = Vec::with_capacity(grouping.keys.len());
            for key in &grouping.keys {
                let key = evaluate(key, row)?;
                row.step(key.read_steps())?;
                let key = key.into_value();
                identities.push(identity(&key));
                keys.push(key);
            }
            match places.get(&identities) {
                Some(place) => *place,
                None => {
                    let held: usize = keys.iter().map(value_size).sum();
                    grow(&mut size, held + ENTRY_SIZE_BYTES * (1 + grouping.aggregates.len()))?;
                    places.insert(identities, groups.len());
                    groups.push((keys, accumulators()));
                    groups.len() - 1
                }
            }
        };
        for (aggregate, accumulator) in grouping.aggregates.iter().zip(&mut groups[place].1) {
            let held = accumulator.size();
            let argument = evaluate(&aggregate.argument, row)?;
            row.step(accumulator.steps(&argument))?;
            accumulator.add(&argument)?;
            grow(&mut size, accumulator.size().saturating_sub(held))?;
        }
        Ok(Continue(()))
    })?;
    let finish = |(keys, accumulators): (Vec<Value>, Vec<Accumulator>)| Group {
        keys,
        aggregates: accumulators.into_iter().map(Accumulator::finish).collect(),
    };
    Ok(groups.into_iter().map(finish).collect())
}

/// A subquery as a value.
pub(super) fn subquery<'s>(kind: SubqueryKind, query: &'s BoundQuery, scope: &'s Scope<'s>) -> Evaluated<'s> {
    match kind {
        SubqueryKind::Exists => is_empty(query, scope).map(|is_empty| Datum::Bool(!is_empty)),
        // The binder has negated the filter: no row may break the condition.
        SubqueryKind::All => is_empty(query, scope).map(Datum::Bool),
        SubqueryKind::Array => collect(query, scope),
        SubqueryKind::Scalar => single(query, scope),
        SubqueryKind::First => last_until(query, scope, Break(())),
        SubqueryKind::Last => last_until(query, scope, Continue(())),
    }
}

fn is_empty(query: &BoundQuery, scope: &Scope<'_>) -> Result<bool, SqlError> {
    for_each_result(query, scope, &mut |_| Ok(Break(()))).map(|step| step.is_continue())
}

fn collect<'s>(query: &BoundQuery, scope: &Scope<'_>) -> Evaluated<'s> {
    let mut results = Vec::new();
    let mut size = 0;
    let _ = for_each_result(query, scope, &mut |result| {
        grow(&mut size, result.size())?;
        results.push(result.into_value());
        Ok(Continue(()))
    })?;
    Ok(Value::Array(results).into())
}

fn single<'s>(query: &BoundQuery, scope: &Scope<'_>) -> Evaluated<'s> {
    let mut single = Datum::Undefined;
    let _ = for_each_result(query, scope, &mut |result| {
        if !single.is_undefined() {
            return Err(SqlError::SubqueryRows);
        }
        single = result.detach();
        Ok(Continue(()))
    })?;
    Ok(single)
}

/// The last visited row, if `step` follows each row.
fn last_until<'s>(query: &BoundQuery, scope: &Scope<'_>, step: ControlFlow<()>) -> Evaluated<'s> {
    let mut last = Datum::Undefined;
    let _ = for_each_result(query, scope, &mut |result| {
        last = result.detach();
        Ok(step)
    })?;
    Ok(last)
}
