//! `FROM`: the sources, and the names that they make.

use shardlake_document::Value;

use super::binder::{Binder, Level};
use crate::bound::{BoundSource, Expression, Slot};
use crate::error::{Rule, SqlError};
use crate::syntax::ast::{Collection, Identifier, PathStep, Source};

#[derive(Default)]
pub(super) struct FromClause {
    pub sources: Vec<BoundSource>,
    /// The variable of each source in the text; another name for a variable is not a new source.
    pub slots: Vec<Slot>,
}

impl Binder<'_> {
    /// `names_container`: the first source may name the container, by any name that is not in sight.
    pub(super) fn from(&mut self, collection: Option<&Collection>, names_container: bool) -> FromClause {
        let mut from = FromClause::default();
        let own_names = self.names.len();
        let mut names_container = names_container;
        for part in collection.into_iter().flat_map(in_order) {
            let (source, alias, iterates) = match part {
                Collection::Aliased { source, alias } => (source, alias.as_ref(), false),
                Collection::Iterate { source, alias } => (source, Some(alias), true),
                Collection::Join { .. } => unreachable!("joins are taken apart"),
            };
            match source {
                Source::Path { root, path } => {
                    let root_slot = self.root(root, names_container, &mut from);
                    if let Some(root_slot) = root_slot {
                        self.note_source(root_slot, root, path);
                    }
                    let slot = self.path_source(root_slot, path, iterates, &mut from);
                    let name = alias.cloned().unwrap_or_else(|| default_alias(root, path));
                    self.declare(name, slot, own_names);
                }
                Source::Subquery(query) => {
                    let level = if names_container { Level::FirstSource } else { Level::Inner };
                    let query = Box::new(self.query(query, level));
                    let slot = self.new_slot();
                    from.sources.push(BoundSource::Subquery { slot, query, iterates });
                    from.slots.push(slot);
                    if let Some(alias) = alias {
                        self.declare(alias.clone(), slot, own_names);
                    }
                }
            }
            names_container = false;
        }
        from
    }

    /// The variable that a path starts from; none after a mistake.
    fn root(&mut self, root: &Identifier, names_container: bool, from: &mut FromClause) -> Option<Slot> {
        if let Some(slot) = self.variable(&root.name) {
            return Some(slot);
        }
        if names_container && !self.reads_items {
            self.reads_items = true;
            from.sources.push(BoundSource::Item);
            return Some(0);
        }
        self.unresolved(root);
        None
    }

    fn path_source(
        &mut self,
        root: Option<Slot>,
        path: &[PathStep],
        iterates: bool,
        from: &mut FromClause,
    ) -> Slot {
        let slot = match root {
            // Another name for a variable, which always has a value.
            Some(slot) if path.is_empty() && !iterates => slot,
            _ => {
                let start = root.map_or(Expression::Literal(Value::Undefined), Expression::Variable);
                let of = path.iter().fold(start, step);
                let slot = self.new_slot();
                from.sources.push(match iterates {
                    true => BoundSource::Elements { slot, of },
                    false => BoundSource::Value { slot, of },
                });
                slot
            }
        };
        from.slots.push(slot);
        slot
    }

    fn declare(&mut self, name: Identifier, slot: Slot, own_names: usize) {
        if self.names[own_names..].iter().any(|(other, _)| *other == name.name) {
            self.fail_at(Rule::DuplicateAlias { name: name.name.clone() }, name.span);
        }
        self.names.push((name.name, slot));
    }

    pub(super) fn unresolved(&mut self, identifier: &Identifier) -> Expression {
        let location = self.location(identifier.span);
        self.fail(SqlError::UnresolvedIdentifier { name: identifier.name.clone(), location })
    }
}

/// The parts of a chain of joins from left to right.
fn in_order(collection: &Collection) -> Vec<&Collection> {
    match collection {
        Collection::Join { left, right } => {
            let mut parts = in_order(left);
            parts.extend(in_order(right));
            parts
        }
        single => vec![single],
    }
}

pub(super) fn step(of: Expression, step: &PathStep) -> Expression {
    let of = Box::new(of);
    match step {
        PathStep::Name { name, .. } => Expression::Property { of, name: name.clone() },
        PathStep::Index(index) => {
            Expression::Index { of, key: Box::new(Expression::Literal(Value::Int(*index))) }
        }
    }
}

/// The last name of the path.
fn default_alias(root: &Identifier, path: &[PathStep]) -> Identifier {
    let last = path.iter().rev().find_map(|step| match step {
        PathStep::Name { name, .. } => Some(name),
        PathStep::Index(_) => None,
    });
    Identifier { name: last.unwrap_or(&root.name).clone(), span: root.span }
}
