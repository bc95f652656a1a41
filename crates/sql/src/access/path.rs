//! Expressions that name a path of the item.

use std::collections::HashMap;

use shardlake_document::Value;
use shardlake_model::IndexPathSegment;

use crate::bound::{BoundQuery, BoundSource, Expression, Slot};
use crate::prepared::PreparedQuery;

/// The paths of a query's variables in the item, and the expressions that an index holds under their own
/// names.
#[derive(Debug, Clone, Default)]
pub(super) struct Paths {
    slots: HashMap<Slot, Vec<IndexPathSegment>>,
    /// Indexed computed properties. They are functions of the item, which is slot 0 everywhere.
    computed: Vec<(Expression, String)>,
}

impl Paths {
    /// The paths of a whole query; `indexed` names the computed properties that the index holds.
    pub fn of_query(query: &PreparedQuery, indexed: &[String]) -> Paths {
        let computed = query.computed();
        let named = |(place, name): (usize, &str)| {
            let is_indexed = indexed.iter().any(|indexed| indexed == name);
            Some((computed.expression(place).filter(|_| is_indexed)?.clone(), name.to_owned()))
        };
        let computed = computed.names().enumerate().filter_map(named).collect();
        Paths::of(query.bound(), &Paths { slots: HashMap::new(), computed })
    }

    /// The paths of a query's sources, with `outer` for the variables around the query.
    pub fn of(query: &BoundQuery, outer: &Paths) -> Paths {
        let mut paths = outer.clone();
        for source in &query.sources {
            match source {
                BoundSource::Item => {
                    paths.slots.insert(0, vec![]);
                }
                BoundSource::Value { slot, of } => {
                    if let Some(path) = paths.path(of) {
                        paths.slots.insert(*slot, path);
                    }
                }
                BoundSource::Elements { slot, of } => {
                    if let Some(mut path) = paths.path(of) {
                        path.push(IndexPathSegment::AnyElement);
                        paths.slots.insert(*slot, path);
                    }
                }
                BoundSource::Subquery { .. } => {}
            }
        }
        paths
    }

    /// The path that an expression names, if it is only a path.
    pub fn path(&self, expression: &Expression) -> Option<Vec<IndexPathSegment>> {
        match expression {
            Expression::Variable(slot) => self.slots.get(slot).cloned(),
            Expression::Property { of, name } => {
                let mut path = self.path(of)?;
                path.push(IndexPathSegment::Name(name.clone()));
                Some(path)
            }
            Expression::Index { of, key } => {
                let mut path = self.path(of)?;
                path.push(match &**key {
                    Expression::Literal(Value::String(name)) => IndexPathSegment::Name(name.clone()),
                    Expression::Literal(Value::Int(_)) => IndexPathSegment::AnyElement,
                    _ => return None,
                });
                Some(path)
            }
            other => {
                let (_, name) = self.computed.iter().find(|(computed, _)| computed == other)?;
                Some(vec![IndexPathSegment::Name(name.clone())])
            }
        }
    }
}

/// Whether an item has at most one value under the path.
pub(super) fn is_single(path: &[IndexPathSegment]) -> bool {
    path.iter().all(|segment| matches!(segment, IndexPathSegment::Name(_)))
}

/// The names of a path without array elements.
pub(super) fn names(path: &[IndexPathSegment]) -> Option<Vec<String>> {
    let name = |segment: &IndexPathSegment| match segment {
        IndexPathSegment::Name(name) => Some(name.clone()),
        _ => None,
    };
    path.iter().map(name).collect()
}

/// Replaces every mention of a path in the expression by the tested value; `None` if it mentions anything
/// else.
pub(super) fn as_test(expression: &Expression, of: &Expression) -> Option<Expression> {
    if expression == of {
        return Some(Expression::Variable(super::plan::VALUE));
    }
    let mut copy = expression.clone();
    let mut is_test = !matches!(
        expression,
        Expression::Variable(_) | Expression::Subquery { .. } | Expression::UserDefined { .. }
    );
    let _ = copy.for_each_child(|child| {
        match as_test(child, of) {
            Some(replaced) => *child = replaced,
            None => is_test = false,
        }
        Ok::<(), ()>(())
    });
    is_test.then_some(copy)
}
