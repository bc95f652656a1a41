//! Indexes with a collation: sort keys of strings as computed properties of the container, and the conditions that they serve.
//!
//! ```text
//! index {a.b: 1}, strength 2     computed property  $collated:en:2-------:icu4x-2.4.0:a.b = SORTKEY(c.a.b, "en/2-------")
//! filter {a.b: "X"}, strength 2  that property = sort key of "X", or an array or an object may hide the value
//! ```
//!
//! The name holds the version of the tables, so that sort keys of two versions are never compared.

use shardlake_document::Value as Plain;
use shardlake_model::{ComputedProperty, ContainerDefinition};
use shardlake_mql::{COLLATION_DATA_VERSION, Collation, Document, Value};
use shardlake_sql::Predicate;

use crate::failure::Result;
use crate::meta::{Meta, kept_collation};
use crate::names::stored_path;
use crate::plan::{hidden_in, is_operators};

/// How the names of these properties begin, as the name of no field that a filter can name.
const PREFIX: &str = "$collated:";
/// What a container takes. Of further fields, strings are matched on documents.
pub(crate) const PROPERTIES_MAX: usize = 20;

/// A field with the computed property that holds its sort keys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Served {
    pub path: String,
    pub property: String,
}

/// The name of the property for a field under a collation; `None` where a name cannot be made of them.
pub(crate) fn property_of(path: &str, collation: &Collation) -> Option<String> {
    let rules = collation.rules()?.text().replace('/', ":");
    let is_plain = !path.contains(['"', '\\', '/', '\'']) && !path.split('.').any(|part| part == "$**");
    is_plain.then(|| format!("{PREFIX}{rules}:{COLLATION_DATA_VERSION}:{path}"))
}

/// The properties that the indexes of a collection ask for.
pub(crate) fn properties_of(meta: &Meta) -> Result<Vec<ComputedProperty>> {
    let mut properties: Vec<ComputedProperty> = Vec::new();
    let mut add = |path: &str, collation: &Collation| {
        let (Some(name), Some(rules)) = (property_of(path, collation), collation.rules()) else { return };
        if properties.len() >= PROPERTIES_MAX || properties.iter().any(|known| known.name == name) {
            return;
        }
        let quoted: Vec<String> = stored_path(path).iter().map(|part| format!("[\"{part}\"]")).collect();
        let function = if path == "_id" { "SORTKEYOFID" } else { "SORTKEY" };
        let query = format!("SELECT VALUE {function}(c{}, \"{}\") FROM c", quoted.join(""), rules.text());
        properties.push(ComputedProperty { name, query });
    };
    add("_id", &meta.collation);
    for index in &meta.indexes {
        let collation = kept_collation(index)?;
        let key = index.get("key").and_then(Value::as_document);
        for (path, _) in key.iter().flat_map(|key| key.iter()).filter(|(_, kind)| kind.is_number()) {
            add(path, &collation);
        }
    }
    Ok(properties)
}

/// The path by which the indexing policy names a property.
pub(crate) fn indexed_path(property: &str) -> String {
    format!("/\"{property}\"/?")
}

/// Whether a name is that of such a property.
pub(crate) fn is_property(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The fields of which a container has sort keys under a collation.
pub(crate) fn served(definition: &ContainerDefinition, collation: &Collation) -> Vec<Served> {
    let Some(rules) = collation.rules().filter(|_| definition.computed_properties.is_some()) else {
        return Vec::new();
    };
    let start = format!("{PREFIX}{}:{COLLATION_DATA_VERSION}:", rules.text().replace('/', ":"));
    let properties = definition.computed_properties.iter().flatten();
    let field = |property: &ComputedProperty| {
        let path = property.name.strip_prefix(&start)?.to_owned();
        Some(Served { path, property: property.name.clone() })
    };
    properties.filter_map(field).collect()
}

/// A condition on sort keys that every document meets which meets the filter; `None` where nothing can be said.
pub(crate) fn condition(filter: &Document, collation: &Collation, served: &[Served]) -> Option<Predicate> {
    let part = |(name, value): (&shardlake_mql::Str, &Value)| member(name, value, collation, served);
    let parts: Vec<Predicate> = filter.iter().filter_map(part).collect();
    (!parts.is_empty()).then_some(Predicate::All(parts))
}

fn member(name: &str, value: &Value, collation: &Collation, served: &[Served]) -> Option<Predicate> {
    let parts = || {
        let part = |part: &Value| condition(part.as_document()?, collation, served);
        value.as_array().map(|parts| parts.iter().map(part))
    };
    match name {
        "$and" => {
            let known: Vec<Predicate> = parts()?.flatten().collect();
            (!known.is_empty()).then_some(Predicate::All(known))
        }
        // One branch that says nothing says that anything may be.
        "$or" => parts()?.collect::<Option<Vec<_>>>().map(Predicate::Any),
        _ if name.starts_with('$') => None,
        path => {
            let served = served.iter().find(|served| served.path == path)?;
            match value {
                Value::Document(operators) if is_operators(operators) => {
                    let leaf = |(operator, operand): (&shardlake_mql::Str, &Value)| {
                        leaf(served, operator, operand, collation)
                    };
                    let known: Vec<Predicate> = operators.iter().filter_map(leaf).collect();
                    (!known.is_empty()).then_some(Predicate::All(known))
                }
                value => leaf(served, "$eq", value, collation),
            }
        }
    }
}

fn leaf(served: &Served, operator: &str, operand: &Value, collation: &Collation) -> Option<Predicate> {
    let path = vec![served.property.clone()];
    let sort_text = |value: &Value| match value {
        Value::String(text) => Some(Plain::String(collation.sort_text(text))),
        _ => None,
    };
    let equal = |value: &Value| Some(Predicate::Equal { path: path.clone(), value: sort_text(value)? });
    let bound = |value: &Value| Some((sort_text(value)?, true));
    let own = match operator {
        "$eq" => equal(operand)?,
        "$in" => Predicate::Any(operand.as_array()?.iter().map(equal).collect::<Option<Vec<_>>>()?),
        "$gt" | "$gte" => Predicate::Range { path: path.clone(), from: Some(bound(operand)?), to: None },
        "$lt" | "$lte" => Predicate::Range { path: path.clone(), from: None, to: Some(bound(operand)?) },
        _ => return None,
    };
    let stored = stored_path(&served.path);
    let mut any = vec![own];
    any.extend(hidden_in(&stored));
    // A text may be a symbol, which is shown as an object.
    any.push(Predicate::IsObject { path: stored.clone() });
    any.push(Predicate::IsArray { path: stored });
    Some(Predicate::Any(any))
}
