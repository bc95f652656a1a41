//! User-defined functions: JavaScript of the container's own that queries call as `udf.name(…)` (engine.md §1.4, §6).
//!
//! They read only their arguments and change nothing, but they cost more than anything else in a query and
//! may fail. So a condition tests all other parts first, wherever the call is written; and no index replaces
//! a call.

use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::Arc;

use shardlake_model::{LanguageLimits, ScriptKind};

use super::binder::Binder;
use crate::bound::{BoundQuery, BoundSource, Expression};
use crate::error::SqlError;
use crate::syntax::ast;

/// Limit on calls of user-defined functions in a query (engine.md §4.4). The texts that clients send to
/// partitions repeat expressions of the original text, so equal calls count once.
const REFERENCES_MAX: usize = LanguageLimits::PUBLISHED.user_functions_max;

/// A call in a query. Names are those of resources: their case counts.
pub(super) fn call(binder: &mut Binder<'_>, name: &str, arguments: &[ast::Expression]) -> Expression {
    let arguments = binder.all(arguments);
    let Some(scripts) = binder.scripts else {
        return binder.fail(SqlError::unsupported(format!("the user-defined function '{name}'")));
    };
    if scripts.get(ScriptKind::Function, name).is_none() {
        return binder.fail(SqlError::UnknownUserFunction { name: name.to_owned() });
    }
    let call = Expression::UserDefined { name: Arc::from(name), arguments };
    if !binder.user_calls.contains(&call) {
        if binder.user_calls.len() == REFERENCES_MAX {
            return binder.fail(SqlError::TooManyUserFunctions { references_max: REFERENCES_MAX });
        }
        binder.user_calls.push(call.clone());
    }
    call
}

/// Moves the parts of conditions that call functions after the others, also in every subquery. Dropped rows
/// then call no function, whether an index or another part has dropped them.
pub(super) fn call_last(query: &mut BoundQuery) {
    for source in &mut query.sources {
        if let BoundSource::Subquery { query, .. } = source {
            call_last(query);
        }
    }
    if let Some(Expression::And(parts)) = &mut query.filter {
        parts.sort_by_key(is_calling);
    }
    let done: Result<(), Infallible> = query.for_each_expression(&mut |expression| {
        in_subqueries(expression);
        Ok(())
    });
    let Ok(()) = done;
}

fn in_subqueries(expression: &mut Expression) {
    if let Expression::Subquery { query, .. } = expression {
        call_last(query);
        return;
    }
    let done: Result<(), Infallible> = expression.for_each_child(|child| {
        in_subqueries(child);
        Ok(())
    });
    let Ok(()) = done;
}

/// Whether a user-defined function is called somewhere in the expression.
fn is_calling(expression: &Expression) -> bool {
    match expression {
        Expression::UserDefined { .. } => true,
        Expression::Subquery { query, .. } => calls_functions(query),
        other => other.children().into_iter().any(is_calling),
    }
}

fn calls_functions(query: &BoundQuery) -> bool {
    query.any_expression(&is_calling)
}

/// The functions that a query calls, each once.
pub(crate) fn function_names(query: &BoundQuery) -> Vec<Arc<str>> {
    let names = RefCell::new(Vec::new());
    query.any_expression(&|expression| {
        names_in(expression, &mut names.borrow_mut());
        false
    });
    names.into_inner()
}

fn names_in(expression: &Expression, names: &mut Vec<Arc<str>>) {
    match expression {
        Expression::UserDefined { name, .. } if !names.contains(name) => names.push(name.clone()),
        Expression::Subquery { query, .. } => {
            let more = function_names(query);
            names.extend(more.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
        }
        _ => {}
    }
    expression.children().into_iter().for_each(|child| names_in(child, names));
}
