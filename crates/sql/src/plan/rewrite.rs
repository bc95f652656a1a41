//! The client's merge, and the rewritten text that partitions execute for it (wire.md §10.1).
//!
//! | query | partitions answer |
//! |---|---|
//! | count of a distinct subquery | the rows of the subquery |
//! | `SELECT VALUE aggregate` | `[partial]` |
//! | other aggregates | `{"payload": {name: partial or value, …}}` |
//! | `GROUP BY` | `groupByItems` with the keys, and a payload of partials and values |
//! | `ORDER BY` | `_rid`, `orderByItems` with the keys, and the projection as payload |
//! | `GROUP BY` without aggregates, with `ORDER BY` | the same, with the answer of `GROUP BY` as payload |
//! | `DISTINCT`, `TOP`, `OFFSET … LIMIT` alone | the rows, enough of them |
//!
//! The first matching line applies, except that a query of the last line combines with the lines above it.
//! With aggregates the plan of groups has no order: clients return such groups as they come. `TOP` and
//! `OFFSET … LIMIT` are removed from the text if a partition's row is not a row of the result, and for the
//! value of an aggregate. A query that one logical partition answers alone keeps its `OFFSET … LIMIT`. A
//! query that no item can match is sent unchanged to any partition.

use std::borrow::Cow;

use shardlake_document::Value;

use super::info::{DistinctCount, DistinctKind, QueryInfo, SortDirection};
use super::tree::{
    aggregate_of, call, composes_aggregates, count, first_name, item_name, items_of, name, object_of,
    partial_aggregate, select_item,
};
use crate::bind::member_names;
use crate::error::SqlError;
use crate::syntax::ast::{
    Collection, Direction, Expression, Identifier, OffsetLimit, OrderBy, OrderKey, Query, Select, SelectItem,
    Selection, Source, Span,
};
use crate::syntax::printer::{print_expression, print_query};
use crate::value::aggregate::AggregateFunction;

/// Clients replace it with `true`, or with a condition for the rows after the last one they have.
pub(crate) const RESUME_FILTER: &str = "({documentdb-formattableorderbyquery-filter})";

/// `TOP`, `OFFSET` and `LIMIT` as numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub top: Option<u64>,
    pub offset: Option<u64>,
    pub limit: Option<u64>,
}

/// The places that the query has to be sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Targets {
    /// It reads no items: any place gives the whole result.
    Anywhere,
    /// No item can match.
    Nowhere,
    OneKey,
    Many,
}

pub(super) fn describe(query: &Query, counts: Counts, targets: Targets) -> QueryInfo {
    let query = &*without_wrapper(query);
    let mut info = QueryInfo {
        has_select_value: matches!(query.select.selection, Selection::Value(_)),
        ..QueryInfo::default()
    };
    let merges = merges_rows(query);
    // Any partition can compute the result without items, but DISTINCT is left to the client nevertheless.
    let is_whole = match targets {
        Targets::Anywhere => !merges,
        Targets::Nowhere => !query.select.distinct,
        Targets::OneKey | Targets::Many => false,
    };
    if is_whole {
        return info;
    }
    info.top = counts.top;
    info.offset = counts.offset;
    info.limit = counts.limit;
    if query.select.distinct {
        info.distinct = DistinctKind::Unordered;
    }
    if let Some((inner, alias)) = distinct_count(query) {
        info.distinct = DistinctKind::Unordered;
        info.distinct_count = Some(DistinctCount { alias });
        info.rewritten_query = Some(print_query(inner));
    } else if merges {
        let rewritten = rewrite_aggregates(query, &mut info);
        let rewritten = match &query.order_by {
            Some(OrderBy::Keys { keys, .. }) if !query.group_by.is_empty() && !has_aggregate(query) => {
                rewrite_ordered_groups(query, rewritten, keys, &mut info)
            }
            _ => rewritten,
        };
        info.rewritten_query = Some(print_query(&rewritten));
    } else if let Some(OrderBy::Keys { keys, .. }) = &query.order_by {
        info.rewritten_query = Some(print_query(&rewrite_order(query, keys, targets, &mut info)));
    } else if query.select.distinct {
        let cuts = query.select.top.is_some() || query.offset_limit.is_some();
        info.rewritten_query = cuts.then(|| print_query(&without_cuts(query)));
    } else if query.offset_limit.is_some() && targets == Targets::OneKey {
        (info.offset, info.limit) = (None, None);
    } else if query.offset_limit.is_some() {
        info.rewritten_query = Some(print_query(&with_first_rows(query, &info)));
    }
    info
}

/// Partitions themselves accept such texts, because rewritten queries are among them.
pub(super) fn check_composition(selection: &Selection) -> Result<(), SqlError> {
    let composes = match selection {
        Selection::All => false,
        Selection::Value(expression) => composes_aggregates(expression),
        Selection::Items(items) => items.iter().any(|item| composes_aggregates(&item.expression)),
    };
    if composes { Err(SqlError::AggregateComposition) } else { Ok(()) }
}

/// Whether rows of the result are made of several rows: groups, or one for all.
fn merges_rows(query: &Query) -> bool {
    !query.group_by.is_empty() || has_aggregate(query)
}

fn has_aggregate(query: &Query) -> bool {
    match &query.select.selection {
        Selection::All => false,
        Selection::Value(expression) => aggregate_of(expression).is_some(),
        Selection::Items(items) => items.iter().any(|item| aggregate_of(&item.expression).is_some()),
    }
}

fn rewrite_aggregates(query: &Query, info: &mut QueryInfo) -> Query {
    let grouped = !query.group_by.is_empty();
    let payload = match &query.select.selection {
        Selection::Value(expression) => value_payload(expression, info),
        Selection::Items(items) => members_payload(items, info),
        // Refused with `GROUP BY`, and not an aggregate.
        Selection::All => object_of(Vec::new()),
    };
    let selection = if grouped {
        info.group_by_expressions =
            query.group_by.iter().map(|key| print_expression(&key.expression)).collect();
        let keys = items_of(query.group_by.iter().map(|key| &key.expression));
        Selection::Items(vec![select_item(keys, Some("groupByItems")), select_item(payload, Some("payload"))])
    } else if info.has_select_value {
        Selection::Value(payload)
    } else {
        Selection::Items(vec![select_item(payload, Some("payload"))])
    };
    let cut =
        if grouped || info.has_select_value { without_cuts(query) } else { with_first_rows(query, info) };
    with_selection(cut, selection)
}

/// An aggregate's partial is in an array, which distinguishes it from a value.
fn value_payload(expression: &Expression, info: &mut QueryInfo) -> Expression {
    match aggregate_of(expression) {
        Some((function, argument)) => {
            info.aggregates = vec![function];
            Expression::Array(vec![partial_aggregate(function, argument)])
        }
        None => expression.clone(),
    }
}

fn members_payload(items: &[SelectItem], info: &mut QueryInfo) -> Expression {
    info.group_by_aliases = member_names(items);
    let mut members = Vec::with_capacity(items.len());
    for (alias, item) in info.group_by_aliases.iter().zip(items) {
        let aggregate = aggregate_of(&item.expression);
        let value = match aggregate {
            Some((function, argument)) => partial_aggregate(function, argument),
            None => item.expression.clone(),
        };
        let function = aggregate.map(|(function, _)| function);
        info.group_by_alias_to_aggregate.push((alias.clone(), function));
        members.push((alias.clone(), value));
    }
    object_of(members)
}

fn rewrite_order(query: &Query, keys: &[OrderKey], targets: Targets, info: &mut QueryInfo) -> Query {
    let cut = if query.select.distinct {
        info.distinct = distinct_with_order(&query.select, keys);
        without_cuts(query)
    } else if targets == Targets::OneKey {
        (info.offset, info.limit) = (None, None);
        query.clone()
    } else {
        with_first_rows(query, info)
    };
    in_order(cut, keys, info)
}

/// `grouped` is the text of the groups, whose rows become the payloads.
fn rewrite_ordered_groups(query: &Query, grouped: Query, keys: &[OrderKey], info: &mut QueryInfo) -> Query {
    if query.select.distinct {
        info.distinct = distinct_with_order(&query.select, keys);
    }
    in_order(grouped, keys, info)
}

/// The rows of a query as payloads, each with its sort keys.
fn in_order(query: Query, keys: &[OrderKey], info: &mut QueryInfo) -> Query {
    info.order_by = keys.iter().map(|key| direction(key.direction)).collect();
    info.order_by_expressions = keys.iter().map(|key| print_expression(&key.expression)).collect();
    let named = |name: fn(&Collection) -> Option<Identifier>| {
        let name = query.from.as_ref().and_then(name);
        name.map_or(Expression::Literal(Value::Undefined), Expression::Identifier)
    };
    let (row, item) = (named(first_name), named(item_name));
    let mut conditions: Vec<Expression> = query.filter.iter().cloned().collect();
    conditions.push(Expression::Identifier(name(RESUME_FILTER)));
    let payload = match &query.select.selection {
        Selection::All => row.clone(),
        // An undefined value is not a row of the result.
        Selection::Value(value) => {
            conditions.push(call("IS_DEFINED", value.clone()));
            value.clone()
        }
        Selection::Items(items) => {
            let values = items.iter().map(|item| item.expression.clone());
            object_of(member_names(items).into_iter().zip(values).collect())
        }
    };
    let resource_id = Expression::Property { of: Box::new(item), name: "_rid".into(), quoted: false };
    let selection = Selection::Items(vec![
        select_item(resource_id, None),
        select_item(items_of(keys.iter().map(|key| &key.expression)), Some("orderByItems")),
        select_item(payload, Some("payload")),
    ]);
    let filter = match conditions.len() {
        1 => conditions.pop(),
        _ => Some(Expression::And(conditions)),
    };
    let select = Select { distinct: false, selection, ..query.select };
    Query { select, filter, ..query }
}

/// If rows are the first sort key themselves, equal rows are adjacent.
fn distinct_with_order(select: &Select, keys: &[OrderKey]) -> DistinctKind {
    match (&select.selection, keys.first()) {
        (Selection::Value(value), Some(key))
            if print_expression(value) == print_expression(&key.expression) =>
        {
            DistinctKind::Ordered
        }
        _ => DistinctKind::Unordered,
    }
}

/// A query that only repeats the rows of a subquery is replaced by that subquery if it groups rows or removes
/// duplicates.
fn without_wrapper(query: &Query) -> Cow<'_, Query> {
    let Some(Collection::Aliased { source: Source::Subquery(inner), alias }) = &query.from else {
        return Cow::Borrowed(query);
    };
    let repeats = match &query.select.selection {
        Selection::All => true,
        Selection::Value(Expression::Identifier(row)) => alias.as_ref().is_some_and(|it| it.name == row.name),
        Selection::Value(_) | Selection::Items(_) => false,
    };
    let adds_nothing = query.filter.is_none() && query.group_by.is_empty() && query.order_by.is_none();
    let inner = without_wrapper(inner);
    if !repeats || !adds_nothing || !(inner.select.distinct || merges_rows(&inner)) {
        return Cow::Borrowed(query);
    }
    let mut inner = inner.into_owned();
    inner.select.distinct |= query.select.distinct;
    inner.select.top = query.select.top.clone();
    inner.offset_limit = query.offset_limit.clone();
    Cow::Owned(inner)
}

/// `SELECT [VALUE] COUNT(1) FROM (SELECT DISTINCT …)`: the subquery, and the name of the count. Its rows are
/// the container's distinct ones, while any other subquery in `FROM` has separate rows for each item.
fn distinct_count(query: &Query) -> Option<(&Query, Option<String>)> {
    let Some(Collection::Aliased { source: Source::Subquery(inner), alias }) = &query.from else {
        return None;
    };
    let (counted, member) = match &query.select.selection {
        Selection::Value(expression) => (expression, None),
        Selection::Items(items) if items.len() == 1 => (&items[0].expression, member_names(items).pop()),
        Selection::Items(_) | Selection::All => return None,
    };
    let (AggregateFunction::Count, argument) = aggregate_of(counted)? else { return None };
    let counts_rows = match argument {
        Expression::Literal(value) => *value != Value::Undefined,
        Expression::Identifier(row) => alias.as_ref().is_some_and(|alias| alias.name == row.name),
        _ => false,
    };
    let whole = query.filter.is_none()
        && query.group_by.is_empty()
        && query.order_by.is_none()
        && !query.select.distinct
        && inner.select.distinct
        && inner.from.is_some()
        && !merges_rows(inner);
    (counts_rows && whole).then_some((inner, member))
}

/// Removes `TOP` and `OFFSET … LIMIT`, which do not apply to the rows of a single partition.
fn without_cuts(query: &Query) -> Query {
    Query { select: Select { top: None, ..query.select.clone() }, offset_limit: None, ..query.clone() }
}

/// Limits a partition's rows to the first ones, which include all its rows of the result.
fn with_first_rows(query: &Query, info: &QueryInfo) -> Query {
    let (Some(offset), Some(limit)) = (info.offset, info.limit) else { return query.clone() };
    let limit = count(offset.saturating_add(limit));
    let offset_limit = Some(OffsetLimit { offset: count(0), limit, span: Span::default() });
    Query { offset_limit, ..without_cuts(query) }
}

fn with_selection(query: Query, selection: Selection) -> Query {
    Query { select: Select { selection, ..query.select.clone() }, ..query }
}

fn direction(written: Option<Direction>) -> SortDirection {
    match written {
        None | Some(Direction::Ascending) => SortDirection::Ascending,
        Some(Direction::Descending) => SortDirection::Descending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::QueryFeature;
    use crate::plan::SupportedFeatures;
    use crate::syntax::parse;

    const MANY: Targets = Targets::Many;

    fn described(text: &str, targets: Targets) -> QueryInfo {
        let query = parse(text).expect("valid");
        let number = |count: &crate::syntax::ast::Count| match &count.value {
            crate::syntax::ast::CountValue::Number(Value::Int(number)) => *number as u64,
            other => panic!("{other:?}"),
        };
        let offset_limit = query.offset_limit.as_ref();
        let counts = Counts {
            top: query.select.top.as_ref().map(number),
            offset: offset_limit.map(|clause| number(&clause.offset)),
            limit: offset_limit.map(|clause| number(&clause.limit)),
        };
        describe(&query, counts, targets)
    }

    fn rewritten(text: &str) -> Option<String> {
        described(text, MANY).rewritten_query
    }

    #[test]
    fn rows_that_are_cut_are_cut_once_more_by_the_client() {
        let limited = described("SELECT c.a FROM c OFFSET 1 LIMIT 2", MANY);
        assert_eq!(limited.rewritten_query.as_deref(), Some("SELECT c.a\nFROM c\nOFFSET 0 LIMIT 3"));
        assert_eq!((limited.top, limited.offset, limited.limit), (None, Some(1), Some(2)));
        let summed = rewritten("SELECT SUM(c.a) AS s FROM c OFFSET 1 LIMIT 2");
        let text = "SELECT {\"s\": {\"item\": SUM(c.a)}} AS payload\nFROM c\nOFFSET 0 LIMIT 3";
        assert_eq!(summed.as_deref(), Some(text));
        let largest = rewritten("SELECT c.a FROM c OFFSET 4294967295 LIMIT 4294967295");
        assert_eq!(largest.as_deref(), Some("SELECT c.a\nFROM c\nOFFSET 0 LIMIT 4294967295"));
        assert_eq!(rewritten("SELECT TOP 3 c.a FROM c"), None);
        let distinct = rewritten("SELECT DISTINCT c.a FROM c OFFSET 1 LIMIT 2");
        assert_eq!(distinct.as_deref(), Some("SELECT DISTINCT c.a\nFROM c"));
    }

    #[test]
    fn one_key_keeps_its_offset_and_limit_unless_something_is_merged() {
        let one = described("SELECT * FROM c WHERE c.k = 1 OFFSET 1 LIMIT 2", Targets::OneKey);
        assert_eq!(one, QueryInfo::default());
        let ordered =
            described("SELECT * FROM c WHERE c.k = 1 ORDER BY c.a OFFSET 1 LIMIT 2", Targets::OneKey);
        assert_eq!((ordered.offset, ordered.limit), (None, None));
        assert!(ordered.rewritten_query.expect("rewritten").ends_with("\nORDER BY c.a\nOFFSET 1 LIMIT 2"));
        let counted =
            described("SELECT VALUE COUNT(1) FROM c WHERE c.k = 1 OFFSET 1 LIMIT 2", Targets::OneKey);
        assert_eq!((counted.offset, counted.limit), (Some(1), Some(2)));
        assert_eq!(
            counted.rewritten_query.as_deref(),
            Some("SELECT VALUE [{\"item\": COUNT(1)}]\nFROM c\nWHERE (c.k = 1)")
        );
    }

    #[test]
    fn queries_without_items_have_nothing_to_merge() {
        let info = described("SELECT DISTINCT TOP 2 VALUE 5", Targets::Anywhere);
        assert_eq!(info, QueryInfo { has_select_value: true, ..QueryInfo::default() });
    }

    #[test]
    fn distinct_with_order_is_left_to_the_client() {
        let values =
            described("SELECT DISTINCT TOP 3 VALUE c.a FROM c WHERE c.b > 1 AND c.d ORDER BY c.a DESC", MANY);
        assert_eq!(values.distinct, DistinctKind::Ordered);
        assert_eq!(
            values.rewritten_query.as_deref(),
            Some(
                "SELECT c._rid, [{\"item\": c.a}] AS orderByItems, c.a AS payload\nFROM c\nWHERE ((((c.b > 1) AND c.d) \
                 AND ({documentdb-formattableorderbyquery-filter})) AND IS_DEFINED(c.a))\nORDER BY c.a DESC"
            )
        );
        let objects = described("SELECT DISTINCT c.a FROM c ORDER BY c.a", MANY);
        assert_eq!(objects.distinct, DistinctKind::Unordered);
        assert!(!objects.rewritten_query.expect("rewritten").contains("DISTINCT"));
    }

    #[test]
    fn counts_of_distinct_rows_count_the_rows_of_the_subquery() {
        let info = described(
            "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.a FROM c WHERE c.b = 1) AS d",
            MANY,
        );
        assert_eq!(info.distinct_count, Some(DistinctCount { alias: None }));
        assert_eq!(
            info.rewritten_query.as_deref(),
            Some("SELECT DISTINCT VALUE c.a\nFROM c\nWHERE (c.b = 1)")
        );
        let named = described("SELECT COUNT(d) FROM (SELECT DISTINCT c.a FROM c) AS d", MANY);
        assert_eq!(named.distinct_count, Some(DistinctCount { alias: Some("$1".into()) }));
        for other in [
            "SELECT VALUE SUM(1) FROM (SELECT DISTINCT VALUE c.a FROM c) AS d",
            "SELECT VALUE COUNT(d.x) FROM (SELECT DISTINCT VALUE c.a FROM c) AS d",
            "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.a FROM c) AS d WHERE d > 1",
            "SELECT VALUE COUNT(1) FROM (SELECT VALUE c.a FROM c) AS d",
        ] {
            assert_eq!(described(other, MANY).distinct_count, None, "{other}");
        }
    }

    #[test]
    fn queries_that_repeat_a_subquery_are_the_subquery() {
        let counted = described("SELECT TOP 1 VALUE r FROM (SELECT VALUE COUNT(1) FROM c) AS r", MANY);
        assert_eq!((counted.top, counted.aggregates.len()), (Some(1), 1));
        assert_eq!(counted.rewritten_query.as_deref(), Some("SELECT VALUE [{\"item\": COUNT(1)}]\nFROM c"));
        let distinct = described("SELECT * FROM (SELECT DISTINCT VALUE c.a FROM c) OFFSET 1 LIMIT 2", MANY);
        assert_eq!(distinct.rewritten_query.as_deref(), Some("SELECT DISTINCT VALUE c.a\nFROM c"));
        assert_eq!(rewritten("SELECT VALUE r FROM (SELECT VALUE c.a FROM c) AS r"), None);
    }

    #[test]
    fn features_follow_from_the_plan() {
        let python = "Aggregate,CompositeAggregate,Distinct,MultipleOrderBy,OffsetAndLimit,OrderBy,Top";
        let missing = |text| {
            let needed = SupportedFeatures::needed_by(&described(text, MANY));
            needed.without(SupportedFeatures::parse(python))
        };
        assert_eq!(missing("SELECT VALUE AVG(c.a) FROM c"), []);
        assert_eq!(missing("SELECT TOP 1 * FROM c ORDER BY c.a, c.b"), []);
        assert_eq!(missing("SELECT SUM(c.a) FROM c"), [QueryFeature::NonValueAggregate]);
        assert_eq!(
            missing("SELECT c.a, SUM(c.b), MAX(c.b) FROM c GROUP BY c.a"),
            [QueryFeature::GroupBy, QueryFeature::MultipleAggregates, QueryFeature::NonValueAggregate]
        );
        assert_eq!(missing("SELECT VALUE MAKESET(c.a) FROM c"), [QueryFeature::ListAndSetAggregate]);
        assert_eq!(missing("SELECT VALUE COUNTIF(c.a) FROM c"), [QueryFeature::CountIf]);
    }
}
