//! What a grouped query may project: its keys, aggregates, and what is made of them.

use super::Binder;
use crate::bound::{Aggregate, BoundQuery, BoundSource, Grouping, Projection, Slot};
use crate::error::Rule;
use crate::expression::Expression;
use crate::syntax::ast::{self, Selection, Span};
use crate::syntax::lexer::{Kind, Lexer};

/// The values that a group has, and the variables that it has not.
struct Groups<'g> {
    keys: &'g [Expression],
    rows: &'g [Slot],
}

impl Binder<'_> {
    /// Puts keys and aggregates in the place of what they stand for. None when there is neither.
    pub(super) fn grouping(
        &mut self,
        keys: Vec<Expression>,
        aggregates: Vec<Aggregate>,
        projection: &mut Projection,
        sources: &[BoundSource],
        query: &ast::Query,
    ) -> Option<Grouping> {
        if keys.is_empty() && aggregates.is_empty() {
            return None;
        }
        let rows: Vec<Slot> = sources.iter().map(BoundSource::slot).collect();
        let groups = Groups { keys: &keys, rows: &rows };
        let outcome = match projection {
            // A mistake of its own, which is noted already.
            Projection::All(_) | Projection::Bodies(_) => Ok(()),
            Projection::Value(value) => groups.regroup(value),
            Projection::Object(members) => {
                members.iter_mut().try_for_each(|(_, value)| groups.regroup(value))
            }
        };
        if let Err(path) = outcome {
            self.not_grouped(&path, query);
        }
        Some(Grouping { keys, aggregates })
    }

    /// A query over the container projects an aggregate alone, or in arrays and objects as in the texts that SDKs send to each
    /// partition. Anything else made of it could not be merged over partitions.
    pub(super) fn check_composition(&mut self, projection: &Projection) {
        let is_composed = match projection {
            Projection::All(_) | Projection::Bodies(_) => false,
            Projection::Value(value) => composes(value),
            Projection::Object(members) => members.iter().any(|(_, value)| composes(value)),
        };
        self.composes_aggregates |= is_composed;
    }

    fn not_grouped(&mut self, path: &Expression, query: &ast::Query) {
        let selected: Vec<&ast::Expression> = match &query.select.selection {
            Selection::All => Vec::new(),
            Selection::Value(value) => vec![value],
            Selection::Items(items) => items.iter().map(|item| &item.expression).collect(),
        };
        let place = selected.into_iter().find_map(|selected| self.find_path(selected, path));
        let span = place.unwrap_or(query.select.span);
        let reference = self.text[span.start..span.end].to_string();
        self.fail_at(Rule::NotGrouped { reference }, span);
    }

    /// Where the path is written. Only for errors: it binds what it looks at again.
    fn find_path(&mut self, written: &ast::Expression, path: &Expression) -> Option<Span> {
        if let Some(span) = path_span(self.text, written) {
            let names = std::mem::take(&mut self.errors);
            let is_found = self.expression(written) == *path;
            self.errors = names;
            return is_found.then_some(span);
        }
        written.children().into_iter().find_map(|child| self.find_path(child, path))
    }
}

impl Groups<'_> {
    /// Fails with the first path into a row.
    fn regroup(&self, expression: &mut Expression) -> Result<(), Expression> {
        if let Some(place) = self.keys.iter().position(|key| key == expression) {
            *expression = Expression::GroupKey(place);
            return Ok(());
        }
        match expression {
            Expression::Variable(slot) if self.rows.contains(slot) => Err(expression.clone()),
            Expression::Property { of, .. } | Expression::Index { of, .. } => {
                let outcome = self.regroup(of);
                // The whole path is at fault, not only its start.
                if outcome.as_ref().is_err_and(|path| path == &**of) {
                    Err(expression.clone())
                } else {
                    outcome
                }
            }
            Expression::Subquery { query, .. } => self.regroup_subquery(query),
            other => other.for_each_child(|child| self.regroup(child)),
        }
    }

    /// A subquery that groups itself has groups of its own, so it cannot reach the keys around it.
    fn regroup_subquery(&self, query: &mut BoundQuery) -> Result<(), Expression> {
        let own = Groups { keys: &[], rows: self.rows };
        let groups = if query.grouping.is_some() { &own } else { self };
        query.for_each_expression(&mut |expression| groups.regroup(expression))
    }
}

/// True when an aggregate is part of anything but an array or an object.
fn composes(expression: &Expression) -> bool {
    match expression {
        Expression::Aggregate(_) | Expression::Subquery { .. } => false,
        Expression::Array(elements) => elements.iter().any(composes),
        Expression::Object(members) => members.iter().any(|(_, value)| composes(value)),
        other => other.children().into_iter().any(contains_aggregate),
    }
}

fn contains_aggregate(expression: &Expression) -> bool {
    matches!(expression, Expression::Aggregate(_))
        || expression.children().into_iter().any(contains_aggregate)
}

/// The text of a path that starts with a name, if the expression is one.
fn path_span(text: &str, expression: &ast::Expression) -> Option<Span> {
    let mut steps = 0;
    let mut at = expression;
    let start = loop {
        match at {
            ast::Expression::Identifier(identifier) => break identifier.span.start,
            ast::Expression::Property { of, .. } | ast::Expression::Index { of, .. } => at = of,
            _ => return None,
        }
        steps += 1;
    };
    let mut lexer = Lexer::new(&text[start..]);
    let mut end = lexer.next().end;
    for _ in 0..steps {
        let opening = lexer.next();
        if opening.kind == Kind::Symbol(".") {
            end = lexer.next().end;
            continue;
        }
        let mut open = 1;
        while open > 0 {
            let token = lexer.next();
            match token.kind {
                Kind::Symbol("[") => open += 1,
                Kind::Symbol("]") => open -= 1,
                Kind::End => return None,
                _ => {}
            }
            end = token.end;
        }
    }
    Some(Span { start, end: start + end })
}
