//! `ORDER BY` from an index, and the rules that it must keep (engine.md §1.8, §5).

use shardlake_model::IndexPathSegment;

use super::combine::leaves;
use super::path::{Paths, names};
use super::{IndexFilter, IndexRef, IndexSchema, Leaf, OrderAccess, ValueRange, composite, scope};
use crate::bound::SortKey;
use crate::error::SqlError;
use crate::prepared::PreparedQuery;

/// Refuses an `ORDER BY` that needs an index which the policy lacks.
pub(super) fn check(query: &PreparedQuery, schema: &IndexSchema<'_>) -> Result<(), SqlError> {
    let Some(keys) = sort_paths(query) else { return Ok(()) };
    match &keys[..] {
        [] => Ok(()),
        [(key, _)] => {
            if is_allowed(schema, key)
                || schema
                    .policy_composites
                    .iter()
                    .any(|one| one.members.iter().any(|(names, _)| names == key))
            {
                Ok(())
            } else {
                Err(SqlError::OrderByExcluded)
            }
        }
        keys => {
            let is_served = schema
                .policy_composites
                .iter()
                .any(|candidate| direction(&candidate.members, keys).is_some());
            if is_served { Ok(()) } else { Err(SqlError::OrderByWithoutComposite) }
        }
    }
}

fn is_allowed(schema: &IndexSchema<'_>, key: &[String]) -> bool {
    match key {
        [name] if name == "id" || name == "_ts" => schema.policy_paths.indexes_anything(),
        // Kept by the server itself, for every item.
        [name] if ["_rid", "_self", "_etag", "_attachments"].contains(&name.as_str()) => true,
        [name] if schema.computed.contains(name) => true,
        key => {
            let path: Vec<_> = key.iter().map(|name| IndexPathSegment::Name(name.clone())).collect();
            schema.policy_paths.is_indexed(&path)
        }
    }
}

/// The sort keys as paths, with true for descending ones; `None` when a key is not a path, although the
/// binder accepts it.
pub(super) fn sort_paths(query: &PreparedQuery) -> Option<Vec<(Vec<String>, bool)>> {
    let paths = Paths::of_query(query, &[]);
    let key = |key: &SortKey| {
        let computed = key.computed.and_then(|place| query.computed().names().nth(place));
        let names = match computed {
            Some(name) => vec![name.to_owned()],
            None => names(&paths.path(&key.expression)?)?,
        };
        Some((names, key.descending))
    };
    query.bound().order_by.iter().map(key).collect()
}

/// Whether an index with these members gives this order: as declared (false) or the opposite of it (true).
fn direction(members: &[(Vec<String>, bool)], keys: &[(Vec<String>, bool)]) -> Option<bool> {
    let same_paths =
        members.len() == keys.len() && members.iter().zip(keys).all(|(member, key)| member.0 == key.0);
    if !same_paths {
        return None;
    }
    let reversed = members.first()?.1 != keys.first()?.1;
    let fits = members.iter().zip(keys).all(|(member, key)| (member.1 != key.1) == reversed);
    fits.then_some(reversed)
}

pub(super) fn access(
    query: &PreparedQuery,
    schema: &IndexSchema<'_>,
    filter: &IndexFilter,
    scope: &[Leaf],
) -> Option<OrderAccess> {
    let keys = sort_paths(query)?;
    if keys.is_empty() {
        return None;
    }
    if let Some(by_composite) = composite_access(schema, &keys, filter, scope) {
        return Some(by_composite);
    }
    let [(key, descending)] = &keys[..] else { return None };
    let path: Vec<_> = key.iter().map(|name| IndexPathSegment::Name(name.clone())).collect();
    // In an index without the computed property, entries of the same name belong to a stored property.
    let is_computed = query.bound().order_by[0].computed.is_some();
    if !super::filter::is_indexed(schema, &path) || (is_computed && !schema.computed.contains(&key[0])) {
        return None;
    }
    let index = IndexRef::Path(path);
    // Items without the path meet no condition on it, except a condition that names the undefined entries.
    let of_path = || leaves(filter).into_iter().filter(|leaf| leaf.index == index);
    let same = of_path().find(|leaf| leaf.test.is_none()).or(of_path().next());
    let is_whole = same.is_some_and(|leaf| leaf.test.is_none() && leaf.ranges.len() == 1);
    // Conditions of the scope are checked without the item.
    let mut others = scope::says_more(filter, scope);
    let (other, another) = (others.next(), others.next());
    Some(OrderAccess {
        range: same.and_then(|leaf| {
            let (first, last) = (leaf.ranges.first()?, leaf.ranges.last()?);
            Some(ValueRange { start: first.start.clone(), end: last.end.clone() })
        }),
        includes_undefined: same.is_none(),
        exact: match (other, another) {
            (None, _) => true,
            (Some(IndexFilter::Leaf(leaf)), None) => is_whole && leaf.index == index,
            _ => false,
        },
        index,
        reverse: *descending,
        behind: vec![],
        members_behind: 0,
    })
}

/// The whole order from a composite index, or from its members after those that the filter fixes.
fn composite_access(
    schema: &IndexSchema<'_>,
    keys: &[(Vec<String>, bool)],
    filter: &IndexFilter,
    scope: &[Leaf],
) -> Option<OrderAccess> {
    let leaves = leaves(filter);
    let conditions = match filter {
        IndexFilter::Everything => 0,
        IndexFilter::And(parts) => parts.len(),
        _ => 1,
    };
    for (number, candidate) in schema.composites.iter().enumerate() {
        let covered = composite::covered(candidate, &leaves);
        for skipped in (0..=covered.fixed.len()).rev() {
            let behind = candidate.members.get(skipped..skipped + keys.len());
            assert!(
                behind.is_none_or(|behind| behind.len() == keys.len()),
                "an order is of the query's keys"
            );
            let Some(opposite) = behind.and_then(|members| direction(members, keys)) else { continue };
            if keys.len() == 1 && skipped == 0 {
                continue;
            }
            // A walk forwards gives the declared order where the first member ascends, else its opposite.
            let reverse = candidate.members[0].1 != opposite;
            // Clients that resume by themselves expect rows of equal keys in the direction of the first key.
            if reverse != keys[0].1 && !scope.is_empty() {
                continue;
            }
            // Clients that merge expect rows of equal keys in the order of their items, not of another
            // member.
            if skipped + keys.len() < candidate.members.len() && scope.is_empty() {
                continue;
            }
            return Some(OrderAccess {
                index: IndexRef::Composite(number),
                reverse,
                behind: covered.fixed[..skipped].concat(),
                members_behind: skipped,
                exact: covered.exact && conditions == covered.members,
                range: covered.range,
                includes_undefined: false,
            });
        }
    }
    None
}
