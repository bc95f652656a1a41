//! Grouped queries: their keys, and the expressions that they may project and order by: those of keys and aggregates.

use super::binder::{Aggregates, Binder, References};
use super::call;
use super::from::step;
use crate::bound::{Aggregate, BoundQuery, BoundSource, Expression, Grouping, Projection, Slot, SortKey};
use crate::error::Rule;
use crate::syntax::ast::{self, GroupKey, Identifier, OrderBy, PathStep, Selection, Span};
use crate::syntax::lexer::{Kind, Lexer};
use crate::value::aggregate::AggregateFunction;

/// The keys of `GROUP BY`.
pub(super) struct Keys {
    list: Vec<Expression>,
    /// After a mistake in a key, the select list is not compared with them.
    pub are_right: bool,
}

/// The values of a group, and the variables that it lacks.
struct Groups<'g> {
    keys: &'g [Expression],
    rows: &'g [Slot],
}

/// An expression needs a value of a row that its group does not have.
struct NotGrouped;

impl Binder<'_> {
    pub(super) fn group_keys(&mut self, keys: &[GroupKey]) -> Keys {
        let errors = self.errors.len();
        let list = keys.iter().map(|key| self.group_key(key)).collect();
        Keys { list, are_right: self.errors.len() == errors }
    }

    fn group_key(&mut self, key: &GroupKey) -> Expression {
        let composes_aggregates = self.composes_aggregates;
        let errors = self.errors.len();
        let bound = self.expression(&key.expression);
        self.composes_aggregates = composes_aggregates;
        if has_aggregate_or_subquery(&key.expression) {
            self.errors.truncate(errors);
            self.fail_at(Rule::AggregateInGroupKey, without_parentheses(self.text, key.span));
        }
        if !self.has_property(&key.expression) {
            self.fail_at(Rule::GroupKeyWithoutProperty, without_parentheses(self.text, key.span));
        }
        bound
    }

    /// Whether it contains a name of a source. Aggregates and subqueries are not searched.
    fn has_property(&self, expression: &ast::Expression) -> bool {
        match expression {
            ast::Expression::Identifier(identifier) => self.variable(&identifier.name).is_some(),
            ast::Expression::Call { name, .. } if call::aggregate(name).is_some() => false,
            other => other.children().into_iter().any(|child| self.has_property(child)),
        }
    }

    /// Replaces grouped expressions and aggregates by the slots of keys and results. `None` without either.
    pub(super) fn grouping(
        &mut self,
        keys: Keys,
        aggregates: Vec<Aggregate>,
        projection: &mut Projection,
        order_by: &mut [SortKey],
        rows: &[Slot],
        query: &ast::Query,
    ) -> Option<Grouping> {
        let Keys { list: keys, are_right } = keys;
        if keys.is_empty() && aggregates.is_empty() {
            return None;
        }
        if !are_right {
            return Some(Grouping { keys, aggregates });
        }
        let mut aggregates = aggregates;
        if !keys.is_empty() && !order_by.is_empty() {
            stand_for_items(projection, &mut aggregates);
        }
        let groups = Groups { keys: &keys, rows };
        let projected = match projection {
            // A separate mistake, which is noted already.
            Projection::All(_) | Projection::Bodies(_) => Ok(()),
            Projection::Value(value) => groups.regroup(value),
            Projection::Object(members) => {
                members.iter_mut().try_for_each(|(_, value)| groups.regroup(value))
            }
        };
        let ordered = order_by.iter_mut().try_for_each(|key| {
            // One row needs no order, but the property must still be a path.
            let is_of_one_row = keys.is_empty() && is_path(&key.expression);
            if is_of_one_row { Ok(()) } else { groups.regroup(&mut key.expression) }
        });
        if ordered.is_err() {
            self.not_grouped_in_order_by(&keys, rows, query);
        }
        if projected.is_err() {
            self.not_grouped(&keys, rows, query);
        }
        debug_assert!(
            (ordered.is_ok() && projected.is_ok()) || !self.errors.is_empty(),
            "the reference is found"
        );
        Some(Grouping { keys, aggregates })
    }

    /// Checks that a query over the container projects an aggregate alone, or in arrays and objects as in the
    /// texts that SDKs send to each partition. Other expressions of aggregates could not be merged over
    /// partitions.
    pub(super) fn check_composition(&mut self, projection: &Projection) {
        let is_composed = match projection {
            Projection::All(_) | Projection::Bodies(_) => false,
            Projection::Value(value) => composes(value),
            Projection::Object(members) => members.iter().any(|(_, value)| composes(value)),
        };
        self.composes_aggregates |= is_composed;
    }

    fn not_grouped(&mut self, keys: &[Expression], rows: &[Slot], query: &ast::Query) {
        let selected: Vec<&ast::Expression> = match &query.select.selection {
            Selection::All => Vec::new(),
            Selection::Value(value) => vec![value],
            Selection::Items(items) => items.iter().map(|item| &item.expression).collect(),
        };
        for span in self.references_outside_keys(&selected, keys, rows) {
            let reference = self.text[span.start..span.end].to_string();
            self.fail_at(Rule::NotGrouped { reference }, span);
        }
    }

    fn not_grouped_in_order_by(&mut self, keys: &[Expression], rows: &[Slot], query: &ast::Query) {
        let Some(OrderBy::Keys { keys: sort_keys, .. }) = &query.order_by else { return };
        let ordered: Vec<&ast::Expression> = sort_keys.iter().map(|key| &key.expression).collect();
        for span in self.references_outside_keys(&ordered, keys, rows) {
            let reference = self.text[span.start..span.end].to_string();
            self.fail_at(Rule::NotGroupedInOrderBy { reference }, span);
        }
    }

    /// Only for errors: it binds the expressions again.
    fn references_outside_keys(
        &mut self,
        expressions: &[&ast::Expression],
        keys: &[Expression],
        rows: &[Slot],
    ) -> Vec<Span> {
        let errors = std::mem::take(&mut self.errors);
        let composes_aggregates = self.composes_aggregates;
        let aggregates = std::mem::replace(&mut self.aggregates, Aggregates::Collected(Vec::new()));
        let references = References { keys: keys.to_vec(), rows: rows.to_vec(), found: Vec::new() };
        let outside = self.references.replace(references);
        for expression in expressions {
            self.expression(expression);
        }
        let found = std::mem::replace(&mut self.references, outside).map(|it| it.found).unwrap_or_default();
        self.aggregates = aggregates;
        self.composes_aggregates = composes_aggregates;
        self.errors = errors;
        found.into_iter().map(|(span, _)| span).collect()
    }

    /// Binds one node while references are gathered. Parts of a key and of an aggregate's argument do not
    /// count as references; a path counts as a whole.
    pub(super) fn noting_references(&mut self, expression: &ast::Expression) -> Expression {
        let before = self.references.as_ref().map_or(0, |references| references.found.len());
        let bound = self.node(expression);
        let span = path_span(self.text, expression);
        let Some(references) = &mut self.references else { return bound };
        let is_aggregate =
            matches!(expression, ast::Expression::Call { name, .. } if call::aggregate(name).is_some());
        if is_aggregate || references.keys.contains(&bound) {
            references.found.truncate(before);
        } else if let Some(span) = span {
            let root = match (&references.found[before..], &bound) {
                ([(_, root), ..], _) => Some(*root),
                ([], Expression::Variable(slot)) => Some(*slot).filter(|slot| references.rows.contains(slot)),
                _ => None,
            };
            references.found.truncate(before);
            references.found.extend(root.map(|root| (span, root)));
        }
        bound
    }
}

impl Binder<'_> {
    /// A path in the `FROM` of a subquery, while references are gathered.
    pub(super) fn note_source(&mut self, root_slot: Slot, root: &Identifier, path: &[PathStep]) {
        let Some(references) = &mut self.references else { return };
        let mut prefixes = vec![Expression::Variable(root_slot)];
        for path_step in path {
            let prefix = prefixes[prefixes.len() - 1].clone();
            prefixes.push(step(prefix, path_step));
        }
        let is_in_key = prefixes.iter().any(|prefix| references.keys.contains(prefix));
        if !is_in_key && references.rows.contains(&root_slot) {
            let span = span_of_path(self.text, root.span.start, path.len()).unwrap_or(root.span);
            references.found.push((span, root_slot));
        }
    }
}

impl Groups<'_> {
    fn regroup(&self, expression: &mut Expression) -> Result<(), NotGrouped> {
        if let Some(place) = self.keys.iter().position(|key| key == expression) {
            *expression = Expression::GroupKey(place);
            return Ok(());
        }
        match expression {
            Expression::Variable(slot) if self.rows.contains(slot) => Err(NotGrouped),
            Expression::Subquery { query, .. } => self.regroup_subquery(query),
            other => other.for_each_child(|child| self.regroup(child)),
        }
    }

    /// A subquery with its own grouping has its own groups: its results cannot reach the keys around it, but
    /// its rows can.
    fn regroup_subquery(&self, query: &mut BoundQuery) -> Result<(), NotGrouped> {
        if query.grouping.is_none() {
            return query.for_each_expression(&mut |expression| self.regroup(expression));
        }
        for source in &mut query.sources {
            match source {
                BoundSource::Item => {}
                BoundSource::Value { of, .. } | BoundSource::Elements { of, .. } => self.regroup(of)?,
                BoundSource::Subquery { query, .. } => self.regroup_subquery(query)?,
            }
        }
        query.filter.iter_mut().try_for_each(|filter| self.regroup(filter))?;
        if let Some(grouping) = &mut query.grouping {
            grouping.keys.iter_mut().try_for_each(|key| self.regroup(key))?;
            grouping.aggregates.iter_mut().try_for_each(|aggregate| self.regroup(&mut aggregate.argument))?;
        }
        let own = Groups { keys: &[], rows: self.rows };
        match &mut query.projection {
            Projection::All(_) | Projection::Bodies(_) => Ok(()),
            Projection::Value(value) => own.regroup(value),
            Projection::Object(members) => members.iter_mut().try_for_each(|(_, value)| own.regroup(value)),
        }
    }
}

/// Clients that merge ordered groups ask for `_rid` besides the sort keys, as for ordered items. A group's
/// `_rid` is the smallest of its items.
fn stand_for_items(projection: &mut Projection, aggregates: &mut Vec<Aggregate>) {
    let Projection::Object(members) = projection else { return };
    let [(id, value), (sort_keys, _), (payload, _)] = &mut members[..] else { return };
    let is_id = matches!(value, Expression::Property { name, .. } if name == "_rid");
    if is_id && id == "_rid" && sort_keys == "orderByItems" && payload == "payload" {
        let argument = std::mem::replace(value, Expression::Aggregate(aggregates.len()));
        aggregates.push(Aggregate { function: AggregateFunction::Min, argument });
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

fn has_aggregate_or_subquery(expression: &ast::Expression) -> bool {
    match expression {
        ast::Expression::Subquery { .. } => true,
        ast::Expression::Call { name, .. } if call::aggregate(name).is_some() => true,
        other => other.children().into_iter().any(has_aggregate_or_subquery),
    }
}

fn is_path(expression: &Expression) -> bool {
    match expression {
        Expression::Variable(_) => true,
        Expression::Property { of, .. } | Expression::Index { of, .. } => is_path(of),
        _ => false,
    }
}

/// The place of an expression, without the parentheses around all of it. Only for errors.
fn without_parentheses(text: &str, span: Span) -> Span {
    let mut lexer = Lexer::new(&text[span.start..span.end]);
    let first = lexer.next();
    let (mut open, mut last) = (1, first);
    if first.kind != Kind::Symbol("(") {
        return span;
    }
    while open > 0 {
        last = lexer.next();
        match last.kind {
            Kind::Symbol("(") => open += 1,
            Kind::Symbol(")") => open -= 1,
            Kind::End => return span,
            _ => {}
        }
    }
    if lexer.next().kind != Kind::End {
        return span;
    }
    let inside = &text[span.start + first.end..span.start + last.start];
    let start = span.start + first.end + (inside.len() - inside.trim_start().len());
    without_parentheses(text, Span { start, end: start + inside.trim().len() })
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
    span_of_path(text, start, steps)
}

fn span_of_path(text: &str, start: usize, steps: usize) -> Option<Span> {
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
