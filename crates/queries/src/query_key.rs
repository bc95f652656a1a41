//! The partition key of a query, from the scope of its request or from its text.
//!
//! A request for a range of the hash space whose text names one key, or the start of one, concerns that key
//! alone: clients send such requests after they asked for a plan. So each form reads the same items and costs
//! the same.

use shardlake_document::Value;
use shardlake_model::{KeyComponent, PartitionKey};
use shardlake_partition::FeedFilter;
use shardlake_routing::{KeyRange, prefix_range};
use shardlake_sql::{KeyFilter, KeyValue, PreparedQuery};

use crate::query_targets::{Part, nowhere};
use shardlake_router::ContainerEntry;
use shardlake_router::logical;

#[derive(Debug, Clone, Default)]
pub struct QueryKey {
    /// The first components, shared by all items of the query.
    components: Vec<KeyComponent>,
    /// The key in the text, if the request covers more, and its place in the hash space.
    named: Option<(FeedFilter, KeyRange)>,
}

/// From here on, two integers can be one number of a partition key.
const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;

impl QueryKey {
    pub fn of(entry: &ContainerEntry, query: &PreparedQuery, parts: &[Part]) -> QueryKey {
        let components = match parts.first().map(|part| &part.filter) {
            Some(FeedFilter::Logical(key)) => key.partition_key.0.clone(),
            Some(FeedFilter::Prefix(_, components)) => components.clone(),
            Some(FeedFilter::Range(_)) => return QueryKey::named(entry, query).unwrap_or_default(),
            None => vec![],
        };
        QueryKey { components, named: None }
    }

    /// The one key, or start of a hierarchical one, that a text leaves.
    fn named(entry: &ContainerEntry, query: &PreparedQuery) -> Option<QueryKey> {
        let definition = &entry.record.container.definition.partition_key;
        let KeyFilter::Keys(mut keys) = query.keys(definition) else { return None };
        let key = keys.pop().filter(|_| keys.is_empty())?;
        let components = key.0.clone();
        let span = prefix_range(definition, &key);
        let filter = match components.len() == entry.shape.key_paths.len() {
            true => FeedFilter::Logical(logical(entry, PartitionKey(key.0))),
            false => FeedFilter::Prefix(span.clone(), key.0),
        };
        Some(QueryKey { components, named: Some((filter, span)) })
    }

    /// The part of `part` that can match.
    pub fn within(&self, part: &Part) -> FeedFilter {
        let (Some((named, span)), FeedFilter::Range(_)) = (&self.named, &part.filter) else {
            return part.filter.clone();
        };
        let common = span.intersection(&part.span);
        match named {
            FeedFilter::Logical(key) if part.span.contains(&key.epk) => FeedFilter::Logical(key.clone()),
            FeedFilter::Prefix(_, components) if span.overlaps(&part.span) => {
                FeedFilter::Prefix(common, components.clone())
            }
            _ => FeedFilter::Range(nowhere()),
        }
    }

    /// The items' values at the key's paths, as far as the components determine them: arrays, objects and
    /// missing values are one component, and so are large integers that are close together.
    pub fn values(&self, entry: &ContainerEntry) -> Vec<KeyValue> {
        assert!(
            self.components.len() <= entry.shape.key_paths.len(),
            "a key has at most the levels of its container"
        );
        let value = |component: &KeyComponent| match component {
            KeyComponent::Null => Some(Value::Null),
            KeyComponent::Bool(value) => Some(Value::Bool(*value)),
            KeyComponent::Number(number) if number.abs() < EXACT_BELOW => Some(Value::Double(*number)),
            KeyComponent::String(text) => Some(Value::String(text.clone())),
            KeyComponent::Undefined | KeyComponent::Number(_) => None,
        };
        let paths = entry.shape.key_paths.iter().zip(&self.components);
        let known = paths.filter_map(|(path, component)| {
            Some(KeyValue { path: path.0.clone(), value: value(component)? })
        });
        known.collect()
    }
}
