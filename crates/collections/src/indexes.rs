//! Indexes by name: what may be made, what is there, what is dropped (spec mongo.md §17).

use shardlake_mql::{Document, Filter, Scope, Value, identical_documents};

use crate::catalog::flag;
use crate::collections::{Collection, Collections, Namespace};
use crate::failure::{Failure, Result};
use crate::index_policy::unique_keys_of;
use crate::meta::Meta;
use crate::request::Request;

/// Indexes of a collection, and fields of one.
const INDEXES_MAX: usize = 64;
const FIELDS_MAX: usize = 32;
/// Options that an index may have.
const OPTIONS: [&str; 18] = [
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
];

/// How the indexes of a collection changed.
#[derive(Debug, Clone, Copy)]
pub struct IndexChange {
    pub before: usize,
    pub after: usize,
    pub made_collection: bool,
}

/// The index that every collection has.
pub fn identity_index() -> Document {
    let mut index = Document::one("v", Value::Int(2));
    index.push("key", Value::document(Document::one("_id", Value::Int(1))));
    index.push("name", Value::string("_id_"));
    index
}

impl Collection {
    /// As `listIndexes` shows them.
    pub fn indexes(&self) -> Vec<Document> {
        let mut indexes = vec![identity_index()];
        if !self.meta.is_open {
            // Another front end's policy, as far as this one can say it.
            let mut all = Document::one("v", Value::Int(2));
            all.push("key", Value::document(Document::one("$**", Value::Int(1))));
            all.push("name", Value::string("$**_1"));
            let policy = &self.handle.container().definition.indexing_policy;
            indexes.extend((!policy.included_paths.is_empty()).then_some(all));
        }
        if let Some(pattern) = self.meta.shard_key_pattern(&self.shard_key)
            && !self.meta.indexes.iter().any(|index| {
                index
                    .get("key")
                    .and_then(Value::as_document)
                    .is_some_and(|key| identical_documents(key, &pattern))
            })
            && !(pattern.len() == 1 && pattern.has("_id"))
        {
            let name: Vec<String> =
                pattern.iter().map(|(field, kind)| format!("{field}_{}", plain(kind))).collect();
            let mut index = Document::one("v", Value::Int(2));
            index.push("key", Value::document(pattern));
            index.push("name", Value::string(name.join("_")));
            indexes.push(index);
        }
        indexes.extend(self.meta.indexes.iter().cloned());
        indexes
    }

    /// The index that a hint names; error 2 where there is none.
    pub fn hinted(&self, hint: &Value) -> Result<Option<Document>> {
        let unknown = || {
            Failure::new(
                2,
                "error processing query: planner returned error: bad hint: hint provided does not correspond to an existing index",
            )
        };
        let matches = |index: &Document| match hint {
            Value::String(name) => index.get("name").and_then(Value::as_str) == Some(name),
            Value::Document(key) => {
                index.get("key").and_then(Value::as_document).is_some_and(|own| same_key(own, key))
            }
            _ => false,
        };
        match hint {
            Value::Document(key) if key.is_empty() || key.has("$natural") => Ok(None),
            Value::String(name) if &**name == "$natural" => Ok(None),
            _ => self.indexes().into_iter().find(matches).map(Some).ok_or_else(unknown),
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        number => number.to_i64_exact().map_or_else(|| number.to_string(), |number| number.to_string()),
    }
}

/// Directions are compared by value: 1 is 1.0.
fn same_key(left: &Document, right: &Document) -> bool {
    left.len() == right.len()
        && left.iter().zip(right.iter()).all(|((a, x), (b, y))| a == b && shardlake_mql::equal(x, y))
}

impl Collections {
    /// Makes indexes, and the collection where there is none. Returns when they serve.
    pub async fn create_indexes(
        &self,
        request: &Request,
        namespace: &Namespace,
        specifications: Vec<Document>,
    ) -> Result<IndexChange> {
        let found = self.writable(namespace)?;
        let mut wanted = Vec::new();
        for specification in specifications {
            wanted.push(checked(specification)?);
        }
        let made_collection = found.is_none();
        let collection = match found {
            Some(collection) => collection,
            None => self.create_implicitly(request, namespace).await?,
        };
        for index in &wanted {
            check_unique_has_key(index, &collection)?;
        }
        let before = collection.indexes().len();
        let meta = with_indexes(&collection.meta, &wanted)?;
        if meta.indexes.len() == collection.meta.indexes.len() {
            return Ok(IndexChange { before, after: before, made_collection });
        }
        let is_more_unique = unique_keys_of(&meta) != unique_keys_of(&collection.meta);
        if is_more_unique {
            self.check_unique(request, &collection, &wanted).await?;
        }
        let changed = self
            .set_indexes(request, &collection, move |indexes| {
                let own = Meta { indexes: std::mem::take(indexes), ..Meta::default() };
                *indexes = with_indexes(&own, &wanted)?.indexes;
                Ok(())
            })
            .await?;
        if is_more_unique {
            self.claim_unique(request, &changed).await?;
        }
        // Within the time of the command; what is not ready then goes on being built.
        let time = request.ctx.deadline.saturating_sub(self.queries.clock().elapsed());
        let rid = changed.handle.container().rid;
        let ready = tokio::time::timeout(time, self.queries.wait_for_index(rid)).await;
        if ready.is_err() {
            return Err(Failure::new(
                50,
                "the index is being built, which takes longer than the command may: see listIndexes",
            ));
        }
        Ok(IndexChange { before, after: changed.indexes().len(), made_collection })
    }

    /// Drops the indexes that a name, a key, a list of names or `*` means; says how many there were.
    pub async fn drop_indexes(
        &self,
        request: &Request,
        collection: &Collection,
        which: &Value,
    ) -> Result<usize> {
        let before = collection.indexes().len();
        let names = names_of(collection, which)?;
        self.set_indexes(request, collection, move |indexes| {
            indexes.retain(|index| {
                !index
                    .get("name")
                    .and_then(Value::as_str)
                    .is_some_and(|name| names.iter().any(|own| own == name))
            });
            Ok(())
        })
        .await?;
        Ok(before)
    }

    /// Changes options of one index by name: `collMod`.
    pub async fn change_index(
        &self,
        request: &Request,
        collection: &Collection,
        name: &str,
        options: Document,
    ) -> Result<Collection> {
        let name = name.to_owned();
        self.set_indexes(request, collection, move |indexes| {
            let index =
                indexes.iter_mut().find(|index| index.get("name").and_then(Value::as_str) == Some(&name));
            let index = index.ok_or_else(|| Failure::new(27, format!("cannot find index {name}")))?;
            for (option, value) in options.iter() {
                index.set(option, value.clone());
            }
            Ok(())
        })
        .await
    }
}

fn names_of(collection: &Collection, which: &Value) -> Result<Vec<String>> {
    let own = |index: &Document| index.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let by_name = |name: &str| {
        if name == "_id_" {
            return Err(Failure::new(72, "cannot drop _id index"));
        }
        let known = collection.indexes().iter().any(|index| own(index) == name);
        match known {
            true => Ok(name.to_owned()),
            false => Err(Failure::new(27, format!("index not found with name [{name}]"))),
        }
    };
    match which {
        Value::String(name) if &**name == "*" => Ok(collection.meta.indexes.iter().map(own).collect()),
        Value::String(name) => Ok(vec![by_name(name)?]),
        Value::Array(names) => names
            .iter()
            .map(|name| {
                let name = name.as_str().ok_or_else(|| {
                    Failure::new(14, "dropIndexes: the names of a list of indexes must be strings")
                })?;
                by_name(name)
            })
            .collect(),
        Value::Document(key) => {
            let matching: Vec<Document> = collection
                .indexes()
                .into_iter()
                .filter(|index| {
                    index.get("key").and_then(Value::as_document).is_some_and(|known| same_key(known, key))
                })
                .collect();
            match &matching[..] {
                [] => Err(Failure::new(
                    27,
                    format!("can't find index with key: {}", Value::document(Document::clone(key))),
                )),
                [index] => Ok(vec![by_name(&own(index))?]),
                _ => Err(Failure::new(181, "several indexes have this key: drop them by name")),
            }
        }
        other => Err(Failure::new(
            14,
            format!(
                "BSON field 'dropIndexes.index' is the wrong type '{}', expected types '[string, object]'",
                other.type_name()
            ),
        )),
    }
}

/// The indexes of a collection with others; an identical one changes nothing.
fn with_indexes(meta: &Meta, wanted: &[Document]) -> Result<Meta> {
    let mut meta = meta.clone();
    for index in wanted {
        let name = index.value("name");
        let key = index.get("key").and_then(Value::as_document).cloned().unwrap_or_default();
        if key.len() == 1 && key.has("_id") {
            continue;
        }
        let is_same_name = |own: &&Document| own.get("name").and_then(Value::as_str) == name.as_str();
        let is_same_key = |own: &&Document| {
            own.get("key").and_then(Value::as_document).is_some_and(|known| same_key(known, &key))
                && equal_options(own, index, &["collation", "partialFilterExpression", "sparse", "unique"])
        };
        if let Some(known) = meta.indexes.iter().find(is_same_name) {
            let words = format!("An existing index has the same name as the requested index: {name}");
            let known_key = known.get("key").and_then(Value::as_document).cloned().unwrap_or_default();
            if !same_key(&known_key, &key) {
                return Err(Failure::new(86, words));
            }
            if !equal_options(
                known,
                index,
                &[
                    "unique",
                    "sparse",
                    "expireAfterSeconds",
                    "partialFilterExpression",
                    "collation",
                    "wildcardProjection",
                ],
            ) {
                return Err(Failure::new(86, words));
            }
            continue;
        }
        if let Some(known) = meta.indexes.iter().find(is_same_key) {
            let words = format!("Index already exists with a different name: {}", known.value("name"));
            return Err(Failure::new(85, words));
        }
        if meta.indexes.len() + 1 >= INDEXES_MAX {
            return Err(Failure::new(67, format!("a collection takes at most {INDEXES_MAX} indexes")));
        }
        meta.indexes.push(index.clone());
    }
    Ok(meta)
}

fn equal_options(left: &Document, right: &Document, names: &[&str]) -> bool {
    names.iter().all(|name| {
        let (left, right) = (left.value(name), right.value(name));
        let is_off = |value: &Value| value.is_missing() || matches!(value, Value::Bool(false));
        (is_off(&left) && is_off(&right)) || shardlake_mql::equal(&left, &right)
    })
}

fn check_unique_has_key(index: &Document, collection: &Collection) -> Result<()> {
    let key = index.get("key").and_then(Value::as_document).cloned().unwrap_or_default();
    let lacks = collection.shard_key.paths().iter().find(|path| !key.has(path));
    match lacks {
        Some(path) if flag(index, "unique") => Err(Failure::new(
            67,
            format!(
                "cannot create unique index over {}: it must hold the shard key '{path}'",
                Value::document(Document::clone(&key))
            ),
        )),
        _ => Ok(()),
    }
}

/// An index as it is kept, or why it cannot be.
fn checked(specification: Document) -> Result<Document> {
    if let Some((name, _)) = specification.iter().find(|(name, _)| {
        !OPTIONS.contains(&&***name)
            && !matches!(
                &***name,
                "max"
                    | "bucketSize"
                    | "textIndexVersion"
                    | "weights"
                    | "default_language"
                    | "language_override"
            )
    }) {
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
        if !matches!(&**option, "v" | "key" | "name" | "ns" | "background") && !is_off {
            let is_flag = matches!(&**option, "unique" | "sparse" | "hidden");
            index.push(option.clone(), if is_flag { Value::Bool(true) } else { value.clone() });
        }
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
            return Err(Failure::new(67, format!("Index key pattern names '{name}' twice")));
        }
        match kind {
            Value::String(kind) => match &**kind {
                "hashed" => hashed += 1,
                "text" | "2d" | "geoHaystack" | "columnstore" => {
                    return Err(Failure::new(303, format!("indexes of kind '{kind}' are not supported")));
                }
                "2dsphere" => {}
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
        if wildcard && key.len() > 1 {
            return Err(Failure::new(303, "compound wildcard indexes are not supported"));
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
            let is_positive = kind.to_f64().is_some_and(|kind| kind > 0.0);
            if !is_positive {
                return Err(Failure::new(67, "A numeric value in a $** index key pattern must be positive."));
            }
        }
    }
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

fn check_options(key: &Document, specification: &Document) -> Result<()> {
    let is_identity = key.len() == 1 && key.has("_id");
    if is_identity {
        let direction = key.get("_id").and_then(Value::to_f64);
        if direction != Some(1.0) && !key.value("_id").as_str().is_some_and(|kind| kind == "hashed") {
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
            Some(number) if number.is_number() => {}
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
            Value::Document(collation)
                if collation.get("locale").and_then(Value::as_str) == Some("simple") => {}
            Value::Document(_) => {
                return Err(Failure::new(303, "collations other than 'simple' are not supported"));
            }
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
