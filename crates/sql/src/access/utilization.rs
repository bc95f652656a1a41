//! Index metrics: the indexes that a query uses, and further indexes that would help it.
//!
//! The rules follow the reports of the reference. A path counts for each condition of `WHERE`, each call in
//! the projection that an index could answer, and each sum, average or extreme that is the whole result. It
//! counts as used if the index has the path, and as potential if the policy leaves the path out.
//!
//! A composite index is suggested
//! - for equalities and a range: the equalities in the order in which they are written, then the range; one for each range,
//! - for `GROUP BY` two or more paths that all have equalities: the paths in their order,
//! - for equalities and an `ORDER BY` of another path: the equalities, then that path,
//!
//! and not for equalities alone, whose entries can be intersected. A path of `ORDER BY` is walked anyway:
//! next to other conditions, its own condition does not count as a use, unless it is a part of a suggestion.
//! `id` comes last.

use shardlake_model::{IndexPathSegment, IndexingPolicy, PathMatcher};

use super::filter::{self, Planner};
use super::path::{Paths, names};
use super::text::filter_text;
use super::{AccessPlan, CompositeSchema, IndexFilter, IndexRef, IndexSchema, Leaf, LookupClass, order};
use crate::bound::{Expression, Grouping, Projection};
use crate::prepared::PreparedQuery;
use crate::value::aggregate::AggregateFunction;

/// Limit on the bytes of all paths of a report, which is sent in a header.
const PATHS_SIZE_BYTES_MAX: usize = 32 * 1024;

/// Limit on the paths of a report.
const USES_MAX: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexUtilization {
    pub utilized: IndexUses,
    pub potential: IndexUses,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexUses {
    pub single: Vec<SingleIndexUse>,
    pub composite: Vec<CompositeIndexUse>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SingleIndexUse {
    /// The path as in a policy: `/name/?`.
    pub path: String,
    /// The condition that uses it; empty without a condition in the text, or if it is very long.
    pub filter: String,
    /// The index is exactly equivalent to the condition.
    pub precise: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompositeIndexUse {
    /// Path and order of each member: `/name ASC`.
    pub members: Vec<String>,
}

/// A condition on a path.
struct PathUse {
    path: Vec<IndexPathSegment>,
    filter: String,
    kind: UseKind,
    precise: bool,
    /// All rows of the result meet it.
    required: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UseKind {
    Equality,
    Range,
    /// A condition that composite indexes cannot serve: several ranges, elements of arrays.
    Other,
}

/// `keys` are the partition key's paths when the query is for one logical partition, which is a condition
/// too.
pub fn index_utilization(
    query: &PreparedQuery,
    schema: &IndexSchema<'_>,
    plan: &AccessPlan,
    keys: &[Vec<String>],
) -> IndexUtilization {
    let everything = IndexingPolicy::default().matcher();
    let mut uses = uses_of(query, schema, &everything);
    let sorts = order::sort_paths(query).unwrap_or_default();
    let used_composites = used_composites(plan, schema);
    let mut suggested = suggestions(query, schema, &uses, &sorts);
    suggested.retain(|one| !schema.composites.iter().any(|existing| serves(existing, one)));
    if suggested.is_empty() {
        leave_to_order(&mut uses, &sorts);
    }
    uses.sort_by_key(|one| matches!(&one.path[..], [IndexPathSegment::Name(name)] if name == "id"));
    uses.retain(|one| !used_composites.iter().any(|used| has_member(used, &one.path)));

    let mut report = IndexUtilization::default();
    for names in keys {
        let path = names.iter().cloned().map(IndexPathSegment::Name).collect::<Vec<_>>();
        if filter::is_indexed(schema, &path) && !uses.iter().any(|one| one.path == path) {
            report.utilized.single.push(single(&path, String::new(), true));
        }
    }
    for one in uses {
        let indexed = filter::is_indexed(schema, &one.path);
        let list = if indexed { &mut report.utilized.single } else { &mut report.potential.single };
        list.push(single(&one.path, one.filter, one.precise));
    }
    report.utilized.composite = used_composites.into_iter().map(|used| composite(&used.members)).collect();
    report.potential.composite = suggested.iter().map(|members| composite(members)).collect();
    report.bound();
    report
}

fn uses_of(query: &PreparedQuery, schema: &IndexSchema<'_>, everything: &PathMatcher) -> Vec<PathUse> {
    // The possible uses of an index do not depend on the current policy.
    let ideal = IndexSchema { paths: Some(everything), composites: &[], policy_composites: &[], ..*schema };
    let planner = Planner::new(query, &ideal);
    let paths = planner.paths.clone();
    let bound = query.bound();
    let mut uses = Uses { planner, paths, found: Vec::new() };
    if let Some(filter) = &bound.filter {
        uses.condition(filter, true);
    }
    match &bound.projection {
        Projection::All(_) | Projection::Bodies(_) => {}
        Projection::Value(value) => uses.calls(value),
        Projection::Object(members) => members.iter().for_each(|(_, value)| uses.calls(value)),
    }
    if let Some(grouping) = bound.grouping.as_ref().filter(|grouping| grouping.keys.is_empty()) {
        uses.aggregates(grouping, &ideal);
    }
    if uses.found.is_empty()
        && let Some([(key, _)]) = order::sort_paths(query).as_deref()
    {
        let path: Vec<_> = key.iter().cloned().map(IndexPathSegment::Name).collect();
        if filter::is_indexed(&ideal, &path) {
            let kind = UseKind::Other;
            uses.found.push(PathUse { path, filter: String::new(), kind, precise: true, required: false });
        }
    }
    uses.found
}

struct Uses<'a> {
    planner: Planner<'a>,
    paths: Paths,
    found: Vec<PathUse>,
}

impl Uses<'_> {
    fn condition(&mut self, condition: &Expression, required: bool) {
        match condition {
            Expression::And(parts) => parts.iter().for_each(|part| self.condition(part, required)),
            Expression::Or(parts) => parts.iter().for_each(|part| self.condition(part, false)),
            atom => self.atom(atom, required),
        }
    }

    fn atom(&mut self, atom: &Expression, required: bool) {
        let (plan, precise) = self.planner.plan(atom, true);
        let mut leaves = Vec::new();
        collect_leaves(&plan, &mut leaves);
        for leaf in leaves {
            let IndexRef::Path(path) = &leaf.index else { continue };
            if self.found.len() == USES_MAX {
                return;
            }
            let kind = kind_of(leaf, path);
            match self.found.iter_mut().find(|found| found.path == *path) {
                // The narrowest condition decides how a composite index can use the path.
                Some(found) if required && (!found.required || kind == UseKind::Equality) => {
                    (found.kind, found.required) = (kind, true);
                }
                Some(_) => {}
                None => {
                    let filter = filter_text(atom, &self.paths);
                    self.found.push(PathUse { path: path.clone(), filter, kind, precise, required });
                }
            }
        }
    }

    /// The paths whose values are read from an index for an aggregate over all rows.
    fn aggregates(&mut self, grouping: &Grouping, ideal: &IndexSchema<'_>) {
        use AggregateFunction::{Average, Max, Min, Sum};
        for aggregate in &grouping.aggregates {
            let path = self.paths.path(&aggregate.argument).filter(|path| !path.is_empty());
            let Some(path) = path.filter(|path| filter::is_indexed(ideal, path)) else { continue };
            let takes_values = matches!(aggregate.function, Sum | Average | Min | Max);
            if takes_values && self.found.len() < USES_MAX && !self.found.iter().any(|it| it.path == path) {
                let kind = UseKind::Other;
                self.found.push(PathUse {
                    path,
                    filter: String::new(),
                    kind,
                    precise: true,
                    required: false,
                });
            }
        }
    }

    /// The calls in an expression that an index could answer.
    fn calls(&mut self, expression: &Expression) {
        if let Expression::Call { .. } = expression {
            self.atom(expression, false);
        }
        expression.children().into_iter().for_each(|child| self.calls(child));
    }
}

fn collect_leaves<'f>(filter: &'f IndexFilter, leaves: &mut Vec<&'f Leaf>) {
    match filter {
        IndexFilter::Everything | IndexFilter::Nothing => {}
        IndexFilter::Leaf(leaf) => leaves.push(leaf),
        IndexFilter::And(parts) | IndexFilter::Or(parts) => {
            parts.iter().for_each(|part| collect_leaves(part, leaves));
        }
    }
}

fn kind_of(leaf: &Leaf, path: &[IndexPathSegment]) -> UseKind {
    if leaf.ranges.len() != 1 || names(path).is_none() {
        return UseKind::Other;
    }
    if leaf.class == LookupClass::Seek { UseKind::Equality } else { UseKind::Range }
}

/// The composite indexes that the plan names.
fn used_composites<'s>(plan: &AccessPlan, schema: &'s IndexSchema<'_>) -> Vec<&'s CompositeSchema> {
    let mut leaves = Vec::new();
    collect_leaves(&plan.filter, &mut leaves);
    let ordered = plan.order.iter().map(|order| &order.index);
    let mut numbers: Vec<usize> = leaves
        .iter()
        .map(|leaf| &leaf.index)
        .chain(ordered)
        .filter_map(|index| match index {
            IndexRef::Composite(number) => Some(*number),
            IndexRef::Path(_) => None,
        })
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().map(|number| &schema.composites[number]).collect()
}

type Members = Vec<(Vec<String>, bool)>;

fn suggestions(
    query: &PreparedQuery,
    schema: &IndexSchema<'_>,
    uses: &[PathUse],
    sorts: &[(Vec<String>, bool)],
) -> Vec<Members> {
    let of_kind = |kind: UseKind| -> Vec<Vec<String>> {
        let fitting = uses.iter().filter(|one| one.required && one.kind == kind);
        fitting.filter_map(|one| names(&one.path)).collect()
    };
    let (equalities, ranges) = (of_kind(UseKind::Equality), of_kind(UseKind::Range));
    let ascending = |paths: &[Vec<String>]| paths.iter().cloned().map(|path| (path, false)).collect();
    let mut suggested: Vec<Members> = Vec::new();
    if equalities.is_empty() {
        return suggested;
    }
    for range in &ranges {
        let mut members: Members = ascending(&equalities);
        members.push((range.clone(), false));
        suggested.push(members);
    }
    let grouped = query.bound().grouping.as_ref().map_or(&[][..], |grouping| &grouping.keys);
    let paths = Paths::of_query(query, schema.computed);
    let grouped: Option<Vec<_>> = grouped.iter().map(|key| names(&paths.path(key)?)).collect();
    if let Some(grouped) = grouped.filter(|keys| keys.len() > 1)
        && grouped.iter().all(|key| equalities.contains(key))
    {
        suggested.push(ascending(&grouped));
    }
    if let [(key, descending)] = sorts
        && ranges.is_empty()
        && !equalities.contains(key)
    {
        let members = equalities.iter().chain([key]).cloned().map(|path| (path, *descending));
        suggested.push(members.collect());
    }
    let mut seen: Vec<Members> = Vec::new();
    suggested.retain(|one| {
        !seen.contains(one) && {
            seen.push(one.clone());
            true
        }
    });
    suggested
}

/// Whether an index serves as the suggested one; directions do not matter for one range behind equalities.
fn serves(existing: &CompositeSchema, suggested: &Members) -> bool {
    existing.members.len() >= suggested.len()
        && existing.members.iter().zip(suggested).all(|(member, wanted)| member.0 == wanted.0)
}

/// Conditions on the path of `ORDER BY` are left to the walk in its order.
fn leave_to_order(uses: &mut Vec<PathUse>, sorts: &[(Vec<String>, bool)]) {
    let [(key, _)] = sorts else { return };
    if uses.len() > 1 {
        uses.retain(|one| names(&one.path).as_ref() != Some(key));
    }
}

fn has_member(composite: &CompositeSchema, path: &[IndexPathSegment]) -> bool {
    names(path).is_some_and(|names| composite.members.iter().any(|(member, _)| *member == names))
}

fn single(path: &[IndexPathSegment], filter: String, precise: bool) -> SingleIndexUse {
    SingleIndexUse { path: format!("{}/?", spelled(path)), filter, precise }
}

fn composite(members: &[(Vec<String>, bool)]) -> CompositeIndexUse {
    let member = |(names, descending): &(Vec<String>, bool)| {
        let path: Vec<_> = names.iter().cloned().map(IndexPathSegment::Name).collect();
        format!("{} {}", spelled(&path), if *descending { "DESC" } else { "ASC" })
    };
    CompositeIndexUse { members: members.iter().map(member).collect() }
}

/// Names with spaces or marks are quoted, as in a policy; words of any script are plain.
fn spelled(path: &[IndexPathSegment]) -> String {
    let is_plain = |name: &str| {
        let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
        !name.is_empty() && name.bytes().all(is_of_word)
    };
    let segment = |segment: &IndexPathSegment| match segment {
        IndexPathSegment::Name(name) if is_plain(name) => format!("/{name}"),
        IndexPathSegment::Name(name) => format!("/\"{}\"", name.replace('"', "\\\"")),
        IndexPathSegment::AnyElement => "/[]".to_owned(),
        IndexPathSegment::Element(position) => format!("/[{position}]"),
    };
    path.iter().map(segment).collect()
}

impl IndexUtilization {
    /// Cuts the first text that does not fit, and leaves out the less important texts after it.
    fn bound(&mut self) {
        let mut left = PATHS_SIZE_BYTES_MAX;
        let mut fits = |texts: &mut [&mut String]| {
            let has_room = left > 0;
            for text in texts {
                text.truncate(text.floor_char_boundary(left));
                left -= text.len();
            }
            has_room
        };
        for list in [&mut self.utilized, &mut self.potential] {
            list.single.retain_mut(|one| fits(&mut [&mut one.path, &mut one.filter]));
            list.composite.retain_mut(|one| fits(&mut one.members.iter_mut().collect::<Vec<_>>()));
        }
    }
}
