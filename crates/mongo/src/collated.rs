//! Indexes with a collation: sort keys of strings as computed properties of the container, and the conditions that they serve.
//!
//! ```text
//! index {a.b: 1}, strength 2     computed property  $collated:en:2-------:icu4x-2.4.0:a.b = SORTKEY(c.a.b, "en/2-------")
//! filter {a.b: "X"}, strength 2  SORTKEY(c.a.b, "en/2-------") = sort key of "X", or an array or an object may hide the value
//! ```
//!
//! The name holds the version of the tables, so that sort keys of two versions are never compared. A condition holds
//! the rules of its sort key and names no property: it stays valid when an index is created or dropped while a cursor
//! is open.

use shardlake_model::{ComputedProperty, ContainerDefinition};
use shardlake_mql::kept_collation;
use shardlake_mql::write::stored_path;
use shardlake_mql::{COLLATION_DATA_VERSION, Collation, Document, Str, Value};
use shardlake_sql::{Compared, Predicate, SortKey};

use crate::conditions::{IN_MAX, hidden_in, is_operators};
use crate::failure::Result;

/// Prefix of the names of these properties, which no field of a filter can have.
const PREFIX: &str = "$collated:";
/// Computed properties of one container. Strings of further fields are matched on documents.
pub(crate) const PROPERTIES_MAX: usize = 20;

/// The sort key of a field; `None` for a path that a query cannot name.
pub(crate) fn sort_key_of(path: &str, collation: &Collation) -> Option<SortKey> {
    let rules = collation.rules()?.text();
    let is_plain = !path.contains(['"', '\\', '/', '\'']) && !path.split('.').any(|part| part == "$**");
    let is_of_id = path == "_id";
    is_plain.then(|| SortKey { path: stored_path(path), rules, is_of_id })
}

fn property_of(path: &str, collation: &Collation) -> Option<ComputedProperty> {
    let key = sort_key_of(path, collation)?;
    let rules = key.rules.replace('/', ":");
    let name = format!("{PREFIX}{rules}:{COLLATION_DATA_VERSION}:{path}");
    Some(ComputedProperty { name, query: key.computed_query() })
}

/// The fields of an index that hold sort keys.
pub(crate) fn fields_of(index: &Document) -> impl Iterator<Item = &str> {
    let key = index.get("key").and_then(Value::as_document);
    let fields = key.into_iter().flat_map(|key| key.iter());
    fields.filter(|(_, kind)| kind.is_number()).map(|(path, _)| &**path)
}

/// The properties that a collection asks for by its collation, which is that of `_id`, and its indexes.
pub(crate) fn properties_of(
    of_collection: &Collation,
    indexes: &[Document],
) -> Result<Vec<ComputedProperty>> {
    let mut properties: Vec<ComputedProperty> = property_of("_id", of_collection).into_iter().collect();
    for index in indexes {
        let collation = kept_collation(index)?;
        for property in fields_of(index).filter_map(|path| property_of(path, &collation)) {
            if properties.len() < PROPERTIES_MAX && !properties.contains(&property) {
                properties.push(property);
            }
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
pub(crate) fn served(definition: &ContainerDefinition, collation: &Collation) -> Vec<String> {
    let Some(rules) = collation.rules().filter(|_| definition.computed_properties.is_some()) else {
        return Vec::new();
    };
    let start = format!("{PREFIX}{}:{COLLATION_DATA_VERSION}:", rules.text().replace('/', ":"));
    let properties = definition.computed_properties.iter().flatten();
    properties.filter_map(|property| property.name.strip_prefix(&start)).map(str::to_owned).collect()
}

/// A condition on sort keys that holds for every document that matches the filter; `None` if there is none.
pub(crate) fn condition(filter: &Document, collation: &Collation, served: &[String]) -> Option<Predicate> {
    let part = |(name, value): (&Str, &Value)| member(name, value, collation, served);
    let parts: Vec<Predicate> = filter.iter().filter_map(part).collect();
    (!parts.is_empty()).then_some(Predicate::All(parts))
}

fn member(name: &str, value: &Value, collation: &Collation, served: &[String]) -> Option<Predicate> {
    let parts = || {
        let part = |part: &Value| condition(part.as_document()?, collation, served);
        value.as_array().map(|parts| parts.iter().map(part))
    };
    match name {
        "$and" => {
            let known: Vec<Predicate> = parts()?.flatten().collect();
            (!known.is_empty()).then_some(Predicate::All(known))
        }
        // A branch without a condition makes the whole alternative unconditional.
        "$or" => parts()?.collect::<Option<Vec<_>>>().map(Predicate::Any),
        path if path.starts_with('$') || !served.iter().any(|served| served == path) => None,
        path => match value {
            Value::Document(operators) if is_operators(operators) => {
                let leaf = |(operator, operand): (&Str, &Value)| leaf(path, operator, operand, collation);
                let known: Vec<Predicate> = operators.iter().filter_map(leaf).collect();
                (!known.is_empty()).then_some(Predicate::All(known))
            }
            value => leaf(path, "$eq", value, collation),
        },
    }
}

fn leaf(path: &str, operator: &str, operand: &Value, collation: &Collation) -> Option<Predicate> {
    let key = sort_key_of(path, collation)?;
    let compared = |is: Compared, value: &Value| match value {
        Value::String(text) => {
            Some(Predicate::SortKey { key: key.clone(), is, value: collation.sort_text(text) })
        }
        _ => None,
    };
    let own = match operator {
        "$eq" => compared(Compared::Equal, operand)?,
        "$in" => {
            let equal = |value: &Value| compared(Compared::Equal, value);
            let values = operand.as_array().filter(|values| values.len() <= IN_MAX)?;
            Predicate::Any(values.iter().map(equal).collect::<Option<Vec<_>>>()?)
        }
        "$gt" | "$gte" => compared(Compared::AtLeast, operand)?,
        "$lt" | "$lte" => compared(Compared::AtMost, operand)?,
        _ => return None,
    };
    let mut any = vec![own];
    any.extend(hidden_in(&key.path));
    // A text may be a symbol, which is shown as an object.
    any.push(Predicate::IsObject { path: key.path.clone() });
    any.push(Predicate::IsArray { path: key.path });
    Some(Predicate::Any(any))
}

#[cfg(test)]
mod tests {
    use shardlake_model::PartitionKeyDefinition;
    use shardlake_mql::collation_of;

    use super::*;

    fn no_case() -> Collation {
        let mut document = Document::one("locale", "en");
        document.push("strength", Value::Int(2));
        collation_of(&document).expect("the locale is known")
    }

    fn index(field: &str, kind: Value) -> Document {
        let mut index = Document::one("key", Value::document(Document::one(field, kind)));
        index.push("collation", Value::document(Document::one("locale", "en")));
        index
    }

    #[test]
    fn fields_of_indexes_and_identities_have_sort_keys() {
        let indexes =
            [index("a.b", Value::Int(-1)), index("h", Value::string("hashed")), index("$**", Value::Int(1))];
        let properties = properties_of(&no_case(), &indexes).expect("the locale is known");
        let shown: Vec<&str> = properties.iter().map(|property| property.query.as_str()).collect();
        let expected = [
            "SELECT VALUE SORTKEYOFID(c[\"id\"], \"en/2----p--\") FROM c",
            "SELECT VALUE SORTKEY(c[\"a\"][\"b\"], \"en/3----p--\") FROM c",
        ];
        assert_eq!(shown, expected);
        assert!(properties.iter().all(|property| property.name.contains(COLLATION_DATA_VERSION)));
    }

    #[test]
    fn sort_keys_of_other_tables_serve_nothing() {
        let key = PartitionKeyDefinition::hash("/k");
        let mut definition = ContainerDefinition::new("c", key);
        let mut properties = properties_of(&no_case(), &[]).expect("the locale is known");
        definition.computed_properties = Some(properties.clone());
        assert_eq!(served(&definition, &no_case()), ["_id"]);
        assert_eq!(served(&definition, &Collation::simple()), [] as [String; 0]);
        properties[0].name = properties[0].name.replace(COLLATION_DATA_VERSION, "icu4x-0.0.0");
        definition.computed_properties = Some(properties);
        assert_eq!(served(&definition, &no_case()), [] as [String; 0]);
    }
}
