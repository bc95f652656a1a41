//! The projection, and the names of its members.

use std::collections::HashSet;

use shardlake_document::Value;

use super::binder::{Aggregates, Binder};
use super::from::FromClause;
use super::grouping::Keys;
use crate::bound::{BoundSource, Expression, Projection};
use crate::error::Rule;
use crate::syntax::ast::{self, SelectItem, Selection, Span};

impl Binder<'_> {
    pub(super) fn projection(&mut self, query: &ast::Query, from: &FromClause, keys: &Keys) -> Projection {
        match &query.select.selection {
            Selection::All => self.star(query, from, keys),
            Selection::Value(value) => Projection::Value(self.expression(value)),
            Selection::Items(items) => Projection::Object(self.items(items)),
        }
    }

    /// The star is the last character of the selection.
    fn star(&mut self, query: &ast::Query, from: &FromClause, keys: &Keys) -> Projection {
        let end = query.select.span.end;
        let place = Span { start: end.saturating_sub(1), end };
        let is_aggregate =
            matches!(&self.aggregates, Aggregates::Collected(aggregates) if !aggregates.is_empty());
        if !query.group_by.is_empty() {
            if keys.are_right {
                self.fail_at(Rule::StarWithGroupBy, place);
            }
        } else if is_aggregate {
            self.fail_at(Rule::StarWithAggregate, place);
        }
        let iterates = |source: &BoundSource| matches!(source, BoundSource::Subquery { iterates: true, .. });
        match from.slots[..] {
            [0] => Projection::All(0),
            [slot] if !from.sources.iter().any(iterates) => Projection::Value(Expression::Variable(slot)),
            // Only in a subquery: the grammar refuses it elsewhere.
            [] => Projection::Value(Expression::Literal(Value::Undefined)),
            _ => Projection::Value(self.fail_at(Rule::StarOverSeveral, place)),
        }
    }

    fn items(&mut self, items: &[SelectItem]) -> Vec<(String, Expression)> {
        let mut members: Vec<(String, Expression)> = Vec::with_capacity(items.len());
        let mut names = HashSet::with_capacity(items.len());
        for (name, item) in member_names(items).into_iter().zip(items) {
            members.push((name.clone(), self.expression(&item.expression)));
            if !names.insert(name.clone()) {
                self.fail_at(Rule::DuplicateColumn { name }, item.name_span);
            }
        }
        members
    }
}

/// The alias, the last name of a path, or the next of `$1`, `$2`, ….
pub(crate) fn member_names(items: &[SelectItem]) -> Vec<String> {
    let mut unnamed = 0;
    let mut name_of = |SelectItem { expression, alias, .. }: &SelectItem| {
        alias.clone().or_else(|| own_name(expression)).unwrap_or_else(|| {
            unnamed += 1;
            format!("${unnamed}")
        })
    };
    items.iter().map(&mut name_of).collect()
}

/// The last name of a path.
fn own_name(expression: &ast::Expression) -> Option<String> {
    match expression {
        ast::Expression::Identifier(identifier) => Some(identifier.name.clone()),
        ast::Expression::Property { name, .. } => Some(name.clone()),
        _ => None,
    }
}

/// The last of several members with one name counts, as for readers of JSON.
pub(super) fn unique(members: Vec<(String, Expression)>) -> Vec<(String, Expression)> {
    let mut places = std::collections::HashMap::with_capacity(members.len());
    let mut unique: Vec<(String, Expression)> = Vec::with_capacity(members.len());
    for (name, value) in members {
        match places.get(&name) {
            Some(place) => {
                let (_, earlier): &mut (String, Expression) = &mut unique[*place];
                *earlier = value;
            }
            None => {
                places.insert(name.clone(), unique.len());
                unique.push((name, value));
            }
        }
    }
    unique
}
