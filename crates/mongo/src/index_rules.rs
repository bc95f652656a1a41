//! Rules for fields, kinds and options of indexes, and the errors of invalid ones (spec mongo.md §17).

use shardlake_mql::kept_collation;
use shardlake_mql::{Collation, Document, Filter, Scope, Value, document_of_collation};

use crate::failure::{Failure, Result};
use crate::meta::flag;
use crate::places::check_plane_options;
use crate::wildcard_rules::check_wildcard;

/// Fields of an index.
const FIELDS_MAX: usize = 32;
/// Options of indexes of earlier versions of the reference. They are taken and have no effect.
const FORMER: [&str; 5] = ["dropDups", "_id", "originalSpec", "finestIndexedLevel", "coarsestIndexedLevel"];
/// Options that an index may have.
const OPTIONS: [&str; 24] = [
    "v",
    "key",
    "name",
    "ns",
    "unique",
    "sparse",
    "hidden",
    "background",
    "expireAfterSeconds",
    "partialFilterExpression",
    "collation",
    "wildcardProjection",
    "storageEngine",
    "2dsphereIndexVersion",
    "prepareUnique",
    "clustered",
    "bits",
    "min",
    "max",
    "bucketSize",
    "textIndexVersion",
    "weights",
    "default_language",
    "language_override",
];

/// Whether an index may have an option of this name.
pub fn is_index_option(name: &str) -> bool {
    OPTIONS.contains(&name) || FORMER.contains(&name)
}

/// An index as it is kept, or why it cannot be.
pub(crate) fn checked(specification: Document) -> Result<Document> {
    if let Some((name, _)) = specification.iter().find(|(name, _)| !is_index_option(name)) {
        let words = format!(
            "The field '{name}' is not valid for an index specification. Specification: {}",
            Value::document(specification.clone())
        );
        return Err(Failure::new(197, words));
    }
    let key = match specification.get("key") {
        Some(Value::Document(key)) => Document::clone(key),
        Some(other) => {
            return Err(Failure::new(
                14,
                format!("The field 'key' must be an object, but got {}", other.type_name()),
            ));
        }
        None => {
            return Err(Failure::new(9, "The 'key' field is a required property of an index specification"));
        }
    };
    if key.is_empty() {
        return Err(Failure::new(67, "Index keys cannot be an empty object."));
    }
    let name = match specification.get("name") {
        Some(Value::String(name)) if name.is_empty() => {
            return Err(Failure::new(67, "index name cannot be empty"));
        }
        Some(Value::String(name)) if name.contains('\0') => {
            return Err(Failure::new(67, "index name cannot contain an embedded null"));
        }
        Some(Value::String(name)) if &**name == "*" => {
            return Err(Failure::new(2, "The index name '*' is not valid."));
        }
        Some(Value::String(name)) => name.clone(),
        Some(other) => {
            return Err(Failure::new(
                14,
                format!("The field 'name' must be a string, but got {}", other.type_name()),
            ));
        }
        None => {
            return Err(Failure::new(9, "The 'name' field is a required property of an index specification"));
        }
    };
    check_key(&key, &specification)?;
    let is_of_identity = key.len() == 1 && key.has("_id");
    if &*name == "_id_" && !is_of_identity {
        let words = format!(
            "The index name '_id_' is reserved for the _id index, which must have key pattern {{_id: 1}}, found {key}"
        );
        return Err(Failure::new(2, words));
    }
    check_options(&key, &specification)?;
    let mut index = Document::one("v", Value::Int(2));
    index.push("key", Value::document(key));
    index.push("name", Value::String(name));
    let is_sphere = index
        .get("key")
        .and_then(Value::as_document)
        .is_some_and(|key| key.iter().any(|(_, kind)| kind.as_str() == Some("2dsphere")));
    if is_sphere && !specification.has("2dsphereIndexVersion") {
        index.push("2dsphereIndexVersion", Value::Int(3));
    }
    for (option, value) in specification.iter() {
        let is_off =
            matches!(&**option, "unique" | "sparse" | "hidden" | "prepareUnique") && !value.is_true();
        let is_told_elsewhere = matches!(&**option, "v" | "key" | "name" | "ns");
        if !is_told_elsewhere && !FORMER.contains(&&**option) && !is_off {
            let value = match &**option {
                "unique" | "sparse" | "hidden" => Value::Bool(true),
                _ => value.clone(),
            };
            index.push(option.clone(), value);
        }
    }
    Ok(index)
}

/// Indexes of some kinds compare by bytes alone. For an index as it was sent: its other rules are checked behind this one.
pub(crate) fn check_kind_and_collation(specification: &Document, of_collection: &Collation) -> Result<()> {
    let kinds = specification.get("key").and_then(Value::as_document).cloned().unwrap_or_default();
    let is_of_bytes = |kind: &Value| matches!(kind.as_str(), Some("2d" | "text" | "geoHaystack"));
    let Some((_, kind)) = kinds.iter().find(|(_, kind)| is_of_bytes(kind)) else { return Ok(()) };
    let is_simple = match specification.get("collation") {
        Some(Value::Document(_)) => kept_collation(specification)?.is_simple(),
        Some(_) => true,
        None => of_collection.is_simple(),
    };
    match is_simple {
        true => Ok(()),
        false => Err(Failure::new(
            67,
            format!("Index type {kind} does not support collation: state the simple one"),
        )),
    }
}

/// The index with the collation that it will have: its own, else that of its collection, and none that is simple.
pub(crate) fn with_collation(mut index: Document, of_collection: &Collation) -> Result<Document> {
    let key = index.get("key").and_then(Value::as_document).cloned().unwrap_or_default();
    let collation = match index.has("collation") {
        true => kept_collation(&index)?,
        false => of_collection.clone(),
    };
    if key.len() == 1 && key.get("_id").is_some_and(Value::is_number) && collation != *of_collection {
        return Err(Failure::new(2, "The _id index must have the same collation as the collection"));
    }
    match document_of_collation(&collation) {
        Some(document) => index.set(&"collation".into(), Value::document(document)),
        None => index.set(&"collation".into(), Value::Missing),
    }
    Ok(index)
}

fn check_key(key: &Document, specification: &Document) -> Result<()> {
    if key.is_empty() {
        return Err(Failure::new(67, "Index keys cannot be an empty object."));
    }
    if key.len() > FIELDS_MAX {
        return Err(Failure::new(
            13103,
            format!("Index key pattern has too many fields: {FIELDS_MAX} are allowed"),
        ));
    }
    let mut hashed = 0;
    for (at, (name, kind)) in key.iter().enumerate() {
        if key.iter().take(at).any(|(other, _)| other == name) {
            return Err(Failure::new(2, format!("Index key pattern names '{name}' twice")));
        }
        match kind {
            Value::String(kind) => match &**kind {
                "hashed" => hashed += 1,
                "text" | "geoHaystack" | "columnstore" => {
                    return Err(Failure::new(303, format!("indexes of kind '{kind}' are not supported")));
                }
                "2d" if at > 0 => {
                    return Err(Failure::new(67, "the field of kind '2d' has to be the first of its index"));
                }
                "2d" => check_plane_options(specification)?,
                "2dsphere" => check_sphere_version(specification)?,
                "" => {
                    return Err(Failure::new(67, "Values in the index key pattern cannot be empty strings"));
                }
                other => return Err(Failure::new(67, format!("Unknown index plugin '{other}'"))),
            },
            number if number.is_number() => {
                if number.to_f64().is_some_and(|number| number == 0.0 || number.is_nan()) {
                    return Err(Failure::new(67, "Values in the index key pattern cannot be 0"));
                }
            }
            other => {
                return Err(Failure::new(
                    67,
                    format!(
                        "Values in v:2 index key pattern cannot be of type {}. Only numbers > 0, numbers < 0, and strings are allowed.",
                        other.type_name()
                    ),
                ));
            }
        }
        check_path((name, kind), specification)?;
    }
    check_wildcard(key, specification)?;
    if hashed > 1 {
        return Err(Failure::new(31303, "A maximum of one index field is allowed to be hashed"));
    }
    if hashed == 1 && flag(specification, "unique") {
        return Err(Failure::new(
            16764,
            "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.",
        ));
    }
    Ok(())
}

fn check_sphere_version(specification: &Document) -> Result<()> {
    match specification.get("2dsphereIndexVersion") {
        None => Ok(()),
        Some(version) if matches!(version.to_f64(), Some(1.0 | 2.0 | 3.0)) => Ok(()),
        Some(version) => Err(Failure::new(
            67,
            format!("unsupported geo index version {{ 2dsphereIndexVersion : {version} }}"),
        )),
    }
}

/// One field of an index: its path, which may end in a wildcard.
fn check_path((name, kind): (&str, &Value), specification: &Document) -> Result<()> {
    let parts: Vec<&str> = name.split('.').collect();
    let wildcard = parts.last() == Some(&"$**");
    if name.is_empty() || parts.iter().any(|part| part.is_empty()) {
        return Err(Failure::new(67, "Index keys cannot contain an empty field"));
    }
    let named = if wildcard { &parts[..parts.len() - 1] } else { &parts[..] };
    if let Some(part) =
        named.iter().find(|part| part.starts_with('$') && !matches!(**part, "$id" | "$ref" | "$db"))
    {
        return Err(Failure::new(
            67,
            format!("Index key contains an illegal field name: field name starts with '$': {part}"),
        ));
    }
    if wildcard {
        for option in ["unique", "sparse", "expireAfterSeconds"] {
            if specification
                .get(option)
                .is_some_and(|value| value.is_true() || option == "expireAfterSeconds")
            {
                return Err(Failure::new(
                    67,
                    format!("Index type 'wildcard' does not support the {option} option"),
                ));
            }
        }
        if !kind.is_number() {
            return Err(Failure::new(67, format!("A wildcard index cannot be of kind {kind}")));
        }
    }
    Ok(())
}

fn check_options(key: &Document, specification: &Document) -> Result<()> {
    let is_identity = key.len() == 1 && key.has("_id");
    if is_identity {
        let direction = key.get("_id").and_then(Value::to_f64);
        if direction != Some(1.0) && key.value("_id").as_str() != Some("hashed") {
            return Err(Failure::new(2, "The field 'key' for an _id index must be {_id: 1}"));
        }
        let is_allowed =
            |name: &str| matches!(name, "v" | "key" | "name" | "ns" | "collation" | "background");
        if let Some((option, _)) = specification.iter().find(|(name, _)| !is_allowed(name))
            && direction == Some(1.0)
        {
            return Err(Failure::new(
                197,
                format!("The field '{option}' is not valid for an _id index specification"),
            ));
        }
    }
    for option in ["unique", "sparse", "hidden", "background"] {
        match specification.get(option) {
            None | Some(Value::Bool(_)) => {}
            Some(number) if number.is_number() && option != "hidden" => {}
            Some(other) => {
                return Err(Failure::new(
                    14,
                    format!(
                        "The field '{option}' has value of type {}, expected a boolean",
                        other.type_name()
                    ),
                ));
            }
        }
    }
    if flag(specification, "clustered") {
        return Err(Failure::new(303, "clustered indexes are not supported"));
    }
    if let Some(collation) = specification.get("collation") {
        match collation {
            Value::Document(_) => {}
            other => {
                return Err(Failure::new(
                    14,
                    format!("The field 'collation' must be an object, not {}", other.type_name()),
                ));
            }
        }
    }
    match specification.get("partialFilterExpression") {
        None => {}
        Some(Value::Document(filter)) => {
            if flag(specification, "sparse") {
                return Err(Failure::new(
                    67,
                    "cannot mix \"partialFilterExpression\" and \"sparse\" options",
                ));
            }
            if is_identity {
                return Err(Failure::new(67, "_id index cannot be a partial index"));
            }
            if filter.has("$text") {
                return Err(Failure::new(2, "$text is not allowed in the filter of an index"));
            }
            Filter::parse(filter, &Scope::new())?;
            check_partial(filter)?;
        }
        Some(other) => {
            return Err(Failure::new(
                14,
                format!("The field 'partialFilterExpression' must be an object, not {}", other.type_name()),
            ));
        }
    }
    check_ttl(key, specification)
}

fn check_partial(filter: &Document) -> Result<()> {
    let refused =
        |what: &str| Err(Failure::new(67, format!("Expression not supported in partial index: {what}")));
    for (name, value) in filter.iter() {
        match (&**name, value) {
            ("$and" | "$or", Value::Array(parts)) => {
                for part in parts.iter().filter_map(Value::as_document) {
                    check_partial(part)?;
                }
            }
            ("$expr", _) => return Err(Failure::new(224, "$expr is not allowed in the filter of an index")),
            (name, _) if name.starts_with('$') => return refused(name),
            (_, Value::Document(operators))
                if operators.first().is_some_and(|(name, _)| name.starts_with('$')) =>
            {
                for (operator, operand) in operators.iter() {
                    match &**operator {
                        "$eq" | "$gt" | "$gte" | "$lt" | "$lte" | "$type" | "$in" => {}
                        "$exists" if operand.is_true() => {}
                        "$exists" => return refused("$exists: false"),
                        other => return refused(other),
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_ttl(key: &Document, specification: &Document) -> Result<()> {
    let Some(seconds) = specification.get("expireAfterSeconds") else { return Ok(()) };
    if !seconds.is_number() {
        return Err(Failure::new(
            67,
            format!(
                "TTL index 'expireAfterSeconds' option must be numeric, but received a type of '{}'",
                seconds.type_name()
            ),
        ));
    }
    let whole = seconds.to_f64().unwrap_or(f64::NAN);
    if !(0.0..=2_147_483_647.0).contains(&whole) {
        return Err(Failure::new(
            67,
            "TTL index 'expireAfterSeconds' option must be within an acceptable range, 0 to 2147483647",
        ));
    }
    if key.len() > 1 {
        return Err(Failure::new(
            67,
            "TTL indexes are single-field indexes, compound indexes do not support TTL.",
        ));
    }
    if key.has("_id") {
        return Err(Failure::new(
            197,
            "The field 'expireAfterSeconds' is not valid for an _id index specification",
        ));
    }
    Ok(())
}
