//! The features that a client's own merge supports, and the check that a plan needs no others.

use super::info::{DistinctKind, QueryInfo};
use crate::error::QueryFeature;
use crate::value::aggregate::AggregateFunction;

/// A set of features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SupportedFeatures(u32);

impl SupportedFeatures {
    /// The features of the server's own merge.
    pub fn all() -> SupportedFeatures {
        SupportedFeatures((1 << QueryFeature::ALL.len()) - 1)
    }

    /// Features of clients that learn the plan of a query from its refusal: such clients do not count
    /// distinct rows.
    pub fn of_refused_queries() -> SupportedFeatures {
        SupportedFeatures(SupportedFeatures::all().0 & !(1 << QueryFeature::DistinctCount as u32))
    }

    /// Parses a client's list, separated by commas. Unknown names are features that no plan needs.
    pub fn parse(list: &str) -> SupportedFeatures {
        let named =
            |name: &str| QueryFeature::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(name));
        let mut features = SupportedFeatures::default();
        list.split(',').filter_map(|name| named(name.trim())).for_each(|feature| features.insert(feature));
        features
    }

    pub fn insert(&mut self, feature: QueryFeature) {
        self.0 |= 1 << feature as u32;
    }

    pub fn contains(self, feature: QueryFeature) -> bool {
        self.0 & (1 << feature as u32) != 0
    }

    /// The features that a client needs to execute the plan.
    pub fn needed_by(info: &QueryInfo) -> SupportedFeatures {
        let members = info.group_by_alias_to_aggregate.iter().filter_map(|(_, aggregate)| *aggregate);
        let aggregates: Vec<AggregateFunction> =
            info.aggregates.iter().copied().chain(members.clone()).collect();
        let uses = |functions: &[AggregateFunction]| aggregates.iter().any(|it| functions.contains(it));
        let lists = uses(&[AggregateFunction::MakeList, AggregateFunction::MakeSet]);
        let needed = [
            (QueryFeature::Aggregate, !aggregates.is_empty()),
            (QueryFeature::Distinct, info.distinct != DistinctKind::None),
            (QueryFeature::GroupBy, !info.group_by_expressions.is_empty()),
            (QueryFeature::MultipleAggregates, aggregates.len() > 1),
            (QueryFeature::MultipleOrderBy, info.order_by.len() > 1),
            (QueryFeature::OffsetAndLimit, info.offset.is_some() || info.limit.is_some()),
            (QueryFeature::OrderBy, !info.order_by.is_empty()),
            (QueryFeature::Top, info.top.is_some()),
            (QueryFeature::NonValueAggregate, members.count() > 0),
            (QueryFeature::DistinctCount, info.distinct_count.is_some()),
            (QueryFeature::NonStreamingOrderBy, info.has_non_streaming_order_by),
            (QueryFeature::ListAndSetAggregate, lists),
            (QueryFeature::CountIf, uses(&[AggregateFunction::CountIf])),
        ];
        let mut features = SupportedFeatures::default();
        needed.iter().filter(|(_, needed)| *needed).for_each(|(feature, _)| features.insert(*feature));
        features
    }

    /// The features in `self` but not in `other`, in the order of [`QueryFeature`].
    pub fn without(self, other: SupportedFeatures) -> Vec<QueryFeature> {
        let missing = SupportedFeatures(self.0 & !other.0);
        QueryFeature::ALL.into_iter().filter(|&feature| missing.contains(feature)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_with_any_spacing_and_unknown_names() {
        let features = SupportedFeatures::parse("Aggregate, Distinct ,dcount,,FutureFeature");
        let all = SupportedFeatures::all();
        assert!(features.contains(QueryFeature::Distinct) && features.contains(QueryFeature::DistinctCount));
        assert!(!features.contains(QueryFeature::Top));
        assert_eq!(all.without(features).len(), QueryFeature::ALL.len() - 3);
        assert_eq!(features.without(all), []);
    }
}
