//! Which members of documents a pipeline looks at: others need not be read.
//!
//! The answer may name too many, never too few. Where a stage or an operator could look at something else, everything is needed.

use std::collections::BTreeSet;

use shardlake_mql::{Document, Value};

/// Operators that look at nothing but their operands.
const PLAIN: &[&str] = &[
    "$abs",
    "$add",
    "$addToSet",
    "$and",
    "$arrayElemAt",
    "$avg",
    "$ceil",
    "$cmp",
    "$concat",
    "$cond",
    "$count",
    "$dateToString",
    "$dateTrunc",
    "$dayOfMonth",
    "$dayOfWeek",
    "$dayOfYear",
    "$divide",
    "$eq",
    "$first",
    "$floor",
    "$gt",
    "$gte",
    "$hour",
    "$ifNull",
    "$in",
    "$isArray",
    "$last",
    "$lt",
    "$lte",
    "$max",
    "$mergeObjects",
    "$min",
    "$minute",
    "$mod",
    "$month",
    "$multiply",
    "$ne",
    "$not",
    "$or",
    "$pow",
    "$push",
    "$round",
    "$second",
    "$size",
    "$sqrt",
    "$stdDevPop",
    "$stdDevSamp",
    "$substrCP",
    "$subtract",
    "$sum",
    "$switch",
    "$toDate",
    "$toDouble",
    "$toInt",
    "$toLong",
    "$toLower",
    "$toString",
    "$toUpper",
    "$trunc",
    "$type",
    "$week",
    "$year",
];

/// Names at the top level of documents.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Needed(BTreeSet<String>);

impl Needed {
    /// `None` if all members are needed. A pipeline needs few members if a stage makes new documents, such as `$group`
    /// or `$count`.
    pub fn by(stages: &[Value]) -> Option<Needed> {
        let mut needed = Needed::default();
        for stage in stages {
            let stage = stage.as_document().filter(|stage| stage.len() == 1)?;
            let (name, value) = stage.first()?;
            match &**name {
                "$match" => needed.of_filter(value.as_document()?)?,
                "$skip" | "$limit" => {}
                "$count" => return Some(needed),
                "$group" => {
                    value.as_document()?.iter().try_for_each(|(_, value)| needed.of_expression(value))?;
                    return Some(needed);
                }
                _ => return None,
            }
        }
        None
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    fn add(&mut self, path: &str) {
        let first = path.split('.').next().unwrap_or_default();
        self.0.insert(first.to_owned());
    }

    fn of_filter(&mut self, filter: &Document) -> Option<()> {
        for (name, value) in filter.iter() {
            match &**name {
                "$and" | "$or" | "$nor" => {
                    value.as_array()?.iter().try_for_each(|part| self.of_filter(part.as_document()?))?;
                }
                name if name.starts_with('$') => return None,
                path => self.add(path),
            }
        }
        Some(())
    }

    fn of_expression(&mut self, value: &Value) -> Option<()> {
        match value {
            Value::String(text) if text.starts_with("$$") => None,
            Value::String(text) => {
                if let Some(path) = text.strip_prefix('$') {
                    self.add(path);
                }
                Some(())
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.of_expression(item)),
            Value::Document(document) => document.iter().try_for_each(|(name, value)| {
                let is_known = !name.starts_with('$') || PLAIN.contains(&&**name);
                is_known.then(|| self.of_expression(value))?
            }),
            _ => Some(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(pipeline: serde_json::Value) -> Option<Vec<String>> {
        fn value(json: &serde_json::Value) -> Value {
            match json {
                serde_json::Value::Object(members) => Value::document(
                    members.iter().map(|(name, member)| (name.as_str().into(), value(member))).collect(),
                ),
                serde_json::Value::Array(items) => Value::array(items.iter().map(value).collect()),
                serde_json::Value::String(text) => Value::string(text),
                other => other.as_i64().map_or(Value::Null, Value::Long),
            }
        }
        let Value::Array(stages) = value(&pipeline) else { unreachable!("it is a list") };
        Needed::by(&stages).map(|needed| needed.0.into_iter().collect())
    }

    #[test]
    fn what_filters_and_groups_name_is_needed() {
        let group = serde_json::json!([
            { "$match": { "a.b": 1, "$or": [{ "c": 1 }, { "d": { "$gt": 1 } }] } },
            { "$group": { "_id": { "x": "$e.f" }, "n": { "$sum": { "$add": ["$g", 1] } } } },
        ]);
        let names = ["a", "c", "d", "e", "g"].map(str::to_owned);
        assert_eq!(needed(group), Some(names.to_vec()));
        assert_eq!(needed(serde_json::json!([{ "$count": "n" }])), Some(vec![]));
    }

    #[test]
    fn everything_is_needed_where_a_stage_may_look_at_it() {
        for pipeline in [
            serde_json::json!([]),
            serde_json::json!([{ "$match": { "a": 1 } }]),
            serde_json::json!([{ "$match": { "$expr": { "$eq": ["$a", 1] } } }, { "$count": "n" }]),
            serde_json::json!([{ "$group": { "_id": null, "all": { "$push": "$$ROOT" } } }]),
            serde_json::json!([{ "$group": { "_id": { "$getField": "a" } } }]),
            serde_json::json!([{ "$group": { "_id": 1, "t": { "$top": { "sortBy": { "a": 1 }, "output": "$b" } } } }]),
            serde_json::json!([{ "$unwind": "$a" }, { "$count": "n" }]),
        ] {
            assert_eq!(needed(pipeline.clone()), None, "{pipeline}");
        }
    }
}
