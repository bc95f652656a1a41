//! Invariants of a bound query, which evaluation relies on instead of checking them for each row.

use super::query::COUNT_LIMIT;
use crate::bound::{BoundQuery, BoundSource, Expression, Projection, Slot};

/// Numbers of keys and aggregates that an expression over a group may name.
#[derive(Clone, Copy)]
struct Group {
    keys: usize,
    aggregates: usize,
}

/// Panics if an expression names a slot, key or aggregate that its scope does not have.
pub(super) fn check(query: &BoundQuery, slots: usize) {
    check_within(query, slots, None);
}

fn check_within(query: &BoundQuery, slots: usize, outer: Option<Group>) {
    for (place, source) in query.sources.iter().enumerate() {
        assert!(source.slot() < slots, "each source has a slot of the query");
        match source {
            BoundSource::Item => assert!(place == 0, "the items are the first source"),
            BoundSource::Value { of, .. } | BoundSource::Elements { of, .. } => of.check(slots, outer),
            BoundSource::Subquery { query, .. } => check_within(query, slots, outer),
        }
    }
    for test in &query.early {
        assert!(test.after <= query.sources.len(), "an early test follows one of the query's sources");
        test.condition.check(slots, outer);
    }
    query.filter.iter().for_each(|filter| filter.check(slots, outer));
    let mut group = outer;
    if let Some(grouping) = &query.grouping {
        let (keys, aggregates) = (grouping.keys.len(), grouping.aggregates.len());
        assert!(keys + aggregates > 0, "a grouping has a key or an aggregate");
        grouping.keys.iter().for_each(|key| key.check(slots, outer));
        grouping.aggregates.iter().for_each(|aggregate| aggregate.argument.check(slots, outer));
        group = Some(Group { keys, aggregates });
    }
    query.order_by.iter().for_each(|key| key.expression.check(slots, group));
    match &query.projection {
        Projection::All(slot) | Projection::Bodies(slot) => {
            assert!(*slot < slots, "a projection shows a slot of the query");
        }
        Projection::Value(value) => value.check(slots, group),
        Projection::Object(members) => members.iter().for_each(|(_, value)| value.check(slots, group)),
    }
    assert!(query.offset < COUNT_LIMIT, "an offset is within its limit");
    assert!(query.limit.is_none_or(|limit| limit < COUNT_LIMIT), "a limit is within its limit");
}

impl Expression {
    fn check(&self, slots: Slot, group: Option<Group>) {
        match self {
            Expression::Variable(slot) => assert!(*slot < slots, "a variable has a slot of the query"),
            Expression::Let { slot, .. } => assert!(*slot < slots, "a bound value has a slot of the query"),
            Expression::GroupKey(place) => {
                assert!(group.is_some_and(|group| *place < group.keys), "a group has each key that is named");
            }
            Expression::Aggregate(place) => assert!(
                group.is_some_and(|group| *place < group.aggregates),
                "a group has each aggregate that is named"
            ),
            Expression::Choose { choices, .. } => {
                assert!(!choices.is_empty(), "a choice is made between values");
            }
            Expression::Subquery { query, .. } => check_within(query, slots, group),
            _ => {}
        }
        self.children().into_iter().for_each(|child| child.check(slots, group));
    }
}
