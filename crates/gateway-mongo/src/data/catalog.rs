//! `create`, `drop`, `dropDatabase`, `renameCollection`.

use std::sync::Arc;

use shardlake_account::collections::{Collection, Creation, Found, Namespace, View};
use shardlake_mql::{
    Collation, Document, Filter, Pipeline, Scope, Value, document_of_collation, identical_documents,
};

use super::capped;
use super::collation::stated_default;
use super::common::{check_created, check_written};
use crate::arguments::{
    Arguments, Field, NAMESPACE_SIZE_BYTES_MAX, Types, check_collection, check_database, optional, required,
    truncated, wrong_type,
};
use crate::call::Call;
use crate::errors::{CommandError, Result, code, error, fail};
use crate::reply::Reply;

/// Options of a collection that are kept and shown as they were given.
const KEPT: [&str; 6] = [
    "validator",
    "validationLevel",
    "validationAction",
    "changeStreamPreAndPostImages",
    "storageEngine",
    "indexOptionDefaults",
];
/// Maximum retention of versions: a year.
const IMAGES_SECONDS_MAX: i64 = 366 * 24 * 3600;
/// Levels and actions of validators.
const LEVELS: [&str; 3] = ["off", "strict", "moderate"];
const ACTIONS: [&str; 3] = ["error", "warn", "errorAndLog"];

const CREATE: &[Field] = &[
    optional("capped", Types::BOOL),
    optional("autoIndexId", Types::BOOL),
    optional("idIndex", Types::OBJECT),
    optional("size", Types::NUMBER),
    optional("max", Types::NUMBER),
    optional("storageEngine", Types::OBJECT),
    optional("validator", Types::OBJECT),
    optional("validationLevel", Types::STRING),
    optional("validationAction", Types::STRING),
    optional("indexOptionDefaults", Types::OBJECT),
    optional("viewOn", Types::STRING),
    optional("pipeline", Types::ARRAY),
    optional("collation", Types::OBJECT),
    optional("changeStreamPreAndPostImages", Types::OBJECT),
    optional("timeseries", Types::OBJECT),
    optional("expireAfterSeconds", Types::NUMBER),
    optional("clusteredIndex", Types::BOOL.or(Types::OBJECT)),
    optional("encryptedFields", Types::OBJECT),
    optional("temp", Types::BOOL),
    optional("flags", Types::NUMBER),
    optional("recordIdsReplicated", Types::BOOL),
    optional("shardKey", Types::OBJECT),
];

pub async fn create(call: &Call) -> Result<Reply> {
    let namespace = call.written_namespace()?;
    let arguments = call.arguments(CREATE)?;
    check_created(&namespace)?;
    check_images(arguments.document("changeStreamPreAndPostImages"))?;
    check_storage_engine("storageEngine", arguments.document("storageEngine"))?;
    if let Some(defaults) = arguments.document("indexOptionDefaults") {
        let fields = [optional("storageEngine", Types::OBJECT)];
        let defaults = Arguments::of_document("create.indexOptionDefaults", defaults, &fields)?;
        check_storage_engine("indexOptionDefaults.storageEngine", defaults.document("storageEngine"))?;
    }
    if let Some(index) = call.body.get("idIndex") {
        let other = ["timeseries", "clusteredIndex"].into_iter().find(|name| arguments.given(name).is_some());
        if let Some(other) = other {
            fail!(code::INVALID_OPTIONS, "'idIndex' is not allowed together with '{other}'");
        }
        check_id_index(index, arguments.given("collation"))?;
    }
    let collation = stated_default(arguments.given("collation"));
    let collation = collation.map_err(|error| not_restored(&namespace, error))?.unwrap_or_default();
    let capped = capped::options_of(&arguments)?;
    for option in ["timeseries", "clusteredIndex", "encryptedFields"] {
        if arguments.given(option).is_some_and(Value::is_true) {
            let refused = error!(code::FEATURE_NOT_SUPPORTED, "{option} collections are not supported");
            return Err(not_restored(&namespace, refused));
        }
    }
    if arguments.given("expireAfterSeconds").is_some() {
        fail!(code::INVALID_OPTIONS, "'expireAfterSeconds' requires a clustered or time-series collection");
    }
    let validator = arguments.document("validator");
    if let Some(validator) = call.body.get("validator") {
        call.collections().note_validator(validator);
    }
    if arguments.given("viewOn").is_none() && arguments.given("pipeline").is_some() {
        fail!(code::INVALID_OPTIONS, "'pipeline' requires 'viewOn' to also be specified");
    }
    if let Some(on) = arguments.string("viewOn") {
        return create_view(call, &namespace, (on, collation), &arguments).await;
    }
    check_validation(&arguments)?;
    if let Some(validator) = validator {
        check_validator(&namespace, validator, &collation)?;
    }
    let kept = call
        .body
        .iter()
        .filter(|(name, _)| KEPT.contains(&&***name))
        .filter(|(_, value)| !matches!(value, Value::Null));
    let mut options = capped.unwrap_or_default();
    kept.for_each(|(name, value)| options.push(name.clone(), value.clone()));
    let options = match document_of_collation(&collation) {
        Some(collation) => with(options, Value::document(collation)),
        None => with(options, Value::Missing),
    };
    let shard_key = arguments.document("shardKey").map(|key| Document::clone(key));
    let is_same = |found: &Collection| {
        let known = found.meta.shard_key_pattern(found.shard_key()).unwrap_or_default();
        let mut known_options = found.meta.options.clone();
        // A command without a collation matches any.
        if !options.has("collation") {
            known_options.remove("collation");
        }
        identical_documents(&known_options, &options)
            && shard_key.as_ref().is_none_or(|wanted| identical_documents(wanted, &known))
    };
    match call.collections().find_name(&namespace)? {
        Found::Nothing => {}
        Found::Collection(found) if is_same(&found) => {
            return Ok(Reply::ok());
        }
        _ => fail!(48, "namespace {namespace} already exists, but with different options"),
    }
    check_case(call, &namespace.database)?;
    let creation = Creation { options, shard_key, ..Creation::default() };
    call.collections().create(&call.request(), &namespace, creation).await?;
    Ok(Reply::ok())
}

/// Options with the collation in full; the simple one is not kept.
fn with(mut options: Document, collation: Value) -> Document {
    options.set(&"collation".into(), collation);
    options
}

/// Refusal of a kind of collection. It ends a restore, so its message names the collection and a workaround.
fn not_restored(namespace: &Namespace, error: CommandError) -> CommandError {
    match error.code() {
        code::FEATURE_NOT_SUPPORTED => error!(
            code::FEATURE_NOT_SUPPORTED,
            "{namespace}: {}; a restore goes on with --nsExclude '{namespace}'",
            error.message()
        ),
        _ => error,
    }
}

/// Checks the index on `_id`, as a client may specify it.
fn check_id_index(index: &Value, of_collection: Option<&Value>) -> Result<()> {
    let Value::Document(index) = index else { return Ok(()) };
    const FIELDS: [&str; 5] = ["v", "key", "name", "ns", "collation"];
    for (name, value) in index.iter() {
        match (&**name, value) {
            ("key", Value::Document(_)) | ("name", Value::String(_)) => {}
            ("v", version) if !version.is_number() => fail!(
                code::TYPE_MISMATCH,
                "The field 'v' of the _id index has the wrong type {}",
                version.type_name()
            ),
            ("v", version) if version.to_i64_exact().is_none() => {
                fail!(
                    code::BAD_VALUE,
                    "The field 'v' of the _id index has to be a whole number, not {version}"
                )
            }
            ("v", version) if !matches!(version.to_f64(), Some(1.0 | 2.0)) => {
                fail!(67, "Invalid index specification: cannot create an index with version v={version}")
            }
            ("key" | "name", other) => fail!(
                code::TYPE_MISMATCH,
                "The field '{name}' of the _id index has the wrong type {}",
                other.type_name()
            ),
            (name, _) if !FIELDS.contains(&name) => {
                fail!(197, "The field '{name}' is not valid for an _id index specification")
            }
            _ => {}
        }
    }
    let Some(Value::Document(key)) = index.get("key") else {
        fail!(code::FAILED_TO_PARSE, "The 'key' field is a required property of an index specification");
    };
    match index.get("name").and_then(Value::as_str) {
        None => {
            fail!(code::FAILED_TO_PARSE, "The 'name' field is a required property of an index specification")
        }
        Some("") => fail!(67, "The index name cannot be empty"),
        Some(name) if name.contains('\0') => fail!(67, "The index name cannot contain an embedded null"),
        Some("*") => fail!(code::BAD_VALUE, "The index name '*' is not valid."),
        Some(_) => {}
    }
    let is_right = key.len() == 1 && key.get("_id").and_then(Value::to_f64) == Some(1.0);
    if !is_right {
        fail!(
            code::BAD_VALUE,
            "The field 'key' for an _id index must be {{_id: 1}}, but got {}",
            Value::Document(key.clone())
        );
    }
    let own = stated_default(index.get("collation"))?;
    if let Some(own) = own
        && own != stated_default(of_collection)?.unwrap_or_default()
    {
        fail!(code::BAD_VALUE, "'idIndex' must have the same collation as the collection");
    }
    Ok(())
}

pub fn check_images(images: Option<&Arc<Document>>) -> Result<()> {
    let Some(images) = images else { return Ok(()) };
    let fields = [required("enabled", Types::BOOL_ONLY), optional("expireAfterSeconds", Types::NUMBER)];
    let images = Arguments::of_document("changeStreamPreAndPostImages", images, &fields)?;
    if images.i64("expireAfterSeconds").is_some_and(|seconds| !(1..=IMAGES_SECONDS_MAX).contains(&seconds)) {
        fail!(
            code::BAD_VALUE,
            "changeStreamPreAndPostImages.expireAfterSeconds is a number from 1 to {IMAGES_SECONDS_MAX}"
        );
    }
    Ok(())
}

/// Checks the form of options for other storage engines, which have no effect.
fn check_storage_engine(field: &str, engines: Option<&Arc<Document>>) -> Result<()> {
    for (name, options) in engines.iter().flat_map(|engines| engines.iter()) {
        let Some(options) = options.as_document() else {
            fail!(code::BAD_VALUE, "'{field}.{name}' has to be an embedded document.");
        };
        if &**name != "wiredTiger" {
            fail!(code::INVALID_OPTIONS, "{name} is not a registered storage engine for this server");
        }
        for (option, value) in options.iter() {
            match (&**option, value.as_str()) {
                ("configString", Some(text)) => check_engine_configuration(text)?,
                ("configString", None) => {
                    fail!(code::TYPE_MISMATCH, "'configString' must be a string, not {}", value.type_name())
                }
                (other, _) => {
                    fail!(code::INVALID_OPTIONS, "'{other}' is not a supported option in '{field}.{name}'")
                }
            }
        }
    }
    Ok(())
}

/// Checks that the reference's engine knows the names of the settings in `name=value,name=(name=value)`.
fn check_engine_configuration(text: &str) -> Result<()> {
    const KNOWN: [&str; 30] = [
        "access_pattern_hint",
        "allocation_size",
        "app_metadata",
        "assert",
        "block_allocation",
        "block_compressor",
        "cache_resident",
        "checksum",
        "collator",
        "dictionary",
        "encryption",
        "format",
        "huffman_key",
        "huffman_value",
        "ignore_in_memory_cache_size",
        "immutable",
        "internal_item_max",
        "internal_key_max",
        "internal_key_truncate",
        "internal_page_max",
        "leaf_item_max",
        "leaf_key_max",
        "leaf_page_max",
        "leaf_value_max",
        "log",
        "lsm",
        "memory_page_max",
        "prefix_compression",
        "prefix_compression_min",
        "split_pct",
    ];
    if text.contains('\0') {
        fail!(code::FAILED_TO_PARSE, "'configString' cannot contain a null byte");
    }
    let mut depth = 0;
    for part in text.split_inclusive(['(', ')', '[', ']', ',']) {
        let name = part.split(['=', ',', '(', ')', '[', ']']).next().unwrap_or_default().trim();
        if depth == 0 && !name.is_empty() && !KNOWN.contains(&name) {
            fail!(code::BAD_VALUE, "unknown configuration key: '{name}'");
        }
        match part.chars().last() {
            Some('(' | '[') => depth += 1,
            Some(')' | ']') => depth -= 1,
            _ => {}
        }
    }
    Ok(())
}

pub fn check_validation(arguments: &Arguments<'_>) -> Result<()> {
    for (option, allowed) in [("validationLevel", LEVELS), ("validationAction", ACTIONS)] {
        if let Some(word) = arguments.string(option)
            && !allowed.contains(&word)
        {
            fail!(
                code::BAD_VALUE,
                "Enumeration value '{word}' for field 'create.{option}' is not a valid value."
            );
        }
    }
    Ok(())
}

pub fn check_validator(
    namespace: &Namespace,
    validator: &Arc<Document>,
    collation: &Collation,
) -> Result<()> {
    if matches!(&*namespace.database, "admin" | "local" | "config") {
        fail!(
            code::INVALID_OPTIONS,
            "Document validators are not allowed on collection {namespace} in the {} database",
            namespace.database
        );
    }
    Filter::parse(validator, &Scope::with_collation(collation.clone()))?;
    Ok(())
}

async fn create_view(
    call: &Call,
    namespace: &Namespace,
    (on, collation): (&str, Collation),
    arguments: &Arguments<'_>,
) -> Result<Reply> {
    for option in
        ["validator", "validationLevel", "validationAction", "idIndex", "storageEngine", "autoIndexId"]
    {
        if arguments.given(option).is_some() {
            fail!(code::INVALID_OPTIONS, "option '{option}' is not allowed for a view");
        }
    }
    let images = arguments.document("changeStreamPreAndPostImages");
    if images.is_some_and(|images| images.get("enabled").is_some_and(Value::is_true)) {
        fail!(code::INVALID_OPTIONS, "option 'changeStreamPreAndPostImages' is not allowed for a view");
    }
    let view =
        checked_view(call, namespace, (on, collation), arguments.array("pipeline").unwrap_or_default())?;
    match call.collections().find_name(namespace)? {
        Found::Nothing => {}
        Found::View(known)
            if known.on == view.on
                && known.collation == view.collation
                && shardlake_mql::equal(
                    &Value::array(known.pipeline.clone()),
                    &Value::array(view.pipeline.clone()),
                ) =>
        {
            return Ok(Reply::ok());
        }
        _ => fail!(48, "namespace {namespace} already exists, but with different options"),
    }
    call.collections().create_view(&call.request(), &namespace.database, view).await?;
    Ok(Reply::ok())
}

/// Checks a view: its pipeline only reads, and its chain of views has no cycle.
pub fn checked_view(
    call: &Call,
    namespace: &Namespace,
    (on, collation): (&str, Collation),
    stages: &[Value],
) -> Result<View> {
    check_collection(&namespace.database, on)?;
    // Nulls are ignored, as in every list of documents.
    let stages: Vec<Value> = stages.iter().filter(|stage| !matches!(stage, Value::Null)).cloned().collect();
    let stages = stages.as_slice();
    for stage in stages {
        if stage.as_document().is_none() {
            fail!(code::TYPE_MISMATCH, "Each element of the 'pipeline' array must be an object");
        }
    }
    check_first_of_view(stages)?;
    let parsed = Pipeline::parse(stages, &Scope::with_collation(collation.clone()))?;
    if parsed.output().is_some() {
        fail!(167, "The aggregation stage $out or $merge cannot be used in a view definition");
    }
    let (name, pipeline) = (namespace.collection.to_string(), stages.to_vec());
    let view = View { name, on: on.to_owned(), pipeline, collation };
    if reads(stages, &namespace.collection) {
        fail!(5, "View cycle detected: {0} -> {0}", namespace.collection);
    }
    let meta = call.collections().database_meta(&namespace.database)?;
    let mut seen = vec![namespace.collection.to_string()];
    let mut next = on.to_owned();
    loop {
        if seen.contains(&next) {
            fail!(5, "View cycle detected: {} -> {next}", seen.join(" -> "));
        }
        if seen.len() > 20 {
            fail!(165, "View depth limit exceeded; maximum depth is 20");
        }
        seen.push(next.clone());
        match meta.view(&next) {
            Some(over) if over.collation != view.collation => fail!(
                code::OPTION_NOT_SUPPORTED_ON_VIEW,
                "View {namespace} has conflicting collation with view {}.{next}",
                namespace.database
            ),
            Some(over) => next = over.on.clone(),
            None => return Ok(view),
        }
    }
}

/// Checks that a view begins with the documents of a collection.
fn check_first_of_view(stages: &[Value]) -> Result<()> {
    const WITHOUT_COLLECTION: [&str; 4] = ["$documents", "$currentOp", "$listSessions", "$listLocalSessions"];
    let first = stages.first().and_then(Value::as_document).and_then(|stage| stage.first());
    match first.map(|(name, _)| &**name) {
        Some("$changeStream") => fail!(167, "$changeStream cannot be used in a view definition"),
        Some(name) if WITHOUT_COLLECTION.contains(&name) => {
            fail!(code::INVALID_NAMESPACE, "{name} is not allowed in a view, which reads a collection")
        }
        _ => Ok(()),
    }
}

/// Whether a pipeline reads a collection besides its own, at any depth.
fn reads(stages: &[Value], collection: &str) -> bool {
    let names = |value: &Value| match value {
        Value::String(name) => &**name == collection,
        Value::Document(fields) => {
            ["from", "coll"].iter().any(|field| fields.get(field).and_then(Value::as_str) == Some(collection))
        }
        _ => false,
    };
    let inner = |value: &Value| match value {
        Value::Document(fields) => fields.iter().any(|(_, value)| match value {
            Value::Array(stages) => reads(stages, collection),
            _ => false,
        }),
        _ => false,
    };
    stages.iter().filter_map(Value::as_document).any(|stage| {
        stage.iter().any(|(name, value)| {
            let is_reading = matches!(&**name, "$lookup" | "$unionWith" | "$graphLookup");
            is_reading && names(value) || inner(value)
        })
    })
}

/// Refuses a database whose name differs from an existing one by case only.
pub fn check_case(call: &Call, database: &str) -> Result<()> {
    let collections = call.collections();
    let twin = collections
        .databases()
        .iter()
        .find(|known| known.id != database && known.id.eq_ignore_ascii_case(database))
        .map(|known| known.id.clone());
    match twin {
        Some(twin) => Err(error!(
            13297,
            "db already exists with different case already have: [{twin}] trying to create [{database}]"
        )),
        None => Ok(()),
    }
}

pub async fn drop_collection(call: &Call) -> Result<Reply> {
    let namespace = call.namespace()?;
    if &*namespace.collection != "system.profile" {
        check_written(&namespace)?;
    }
    call.arguments(&[optional("collectionUUID", Types::BINARY)])?;
    let dropped = call.collections().drop(&call.request(), &namespace).await?;
    let name = namespace.to_string();
    call.deployment.cursors.end_of_namespaces(|known| known == name, "collection dropped");
    let mut reply = Document::new();
    if let Some(collection) = dropped {
        reply.push("nIndexesWas", Value::Int(collection.indexes().len() as i32));
        reply.push("ns", Value::string(name));
    }
    Ok(reply.into())
}

pub async fn drop_database(call: &Call) -> Result<Reply> {
    call.arguments(&[])?;
    let first = call.first();
    if matches!(first, Value::Null | Value::Undefined) {
        fail!(code::MISSING_FIELD, "BSON field 'dropDatabase.dropDatabase' is missing but a required field");
    }
    if !first.is_number() {
        return Err(wrong_type("dropDatabase.dropDatabase", first, Types::NUMBER));
    }
    if truncated(first) != Some(1) {
        fail!(5_255_100, "Expected an argument of 1 for dropDatabase");
    }
    let database = call.database();
    if matches!(database, "config" | "local" | "admin") {
        fail!(code::ILLEGAL_OPERATION, "Cannot drop '{database}' database");
    }
    call.collections().drop_database(&call.request(), database).await?;
    let start = format!("{database}.");
    call.deployment.cursors.end_of_namespaces(|known| known.starts_with(&start), "database dropped");
    Ok(Reply::ok())
}

fn split(name: &str) -> Result<Namespace> {
    let Some((database, collection)) = name.split_once('.') else {
        fail!(code::INVALID_NAMESPACE, "Invalid namespace specified '{name}'");
    };
    check_database(database)?;
    check_collection(database, collection)?;
    Ok(Namespace::new(database, collection))
}

pub async fn rename(call: &Call) -> Result<Reply> {
    let arguments = call.arguments(&[
        required("renameCollection", Types::STRING),
        required("to", Types::STRING),
        optional("dropTarget", Types::BOOL_ONLY.or(Types::BINARY)).not_null(code::TYPE_MISMATCH),
        optional("stayTemp", Types::BOOL),
        optional("collectionUUID", Types::BINARY),
    ])?;
    for name in ["renameCollection", "to"] {
        if arguments.string(name).is_some_and(|name| name.len() > NAMESPACE_SIZE_BYTES_MAX) {
            fail!(
                code::ILLEGAL_OPERATION,
                "the namespace of '{name}' is longer than {NAMESPACE_SIZE_BYTES_MAX} bytes"
            );
        }
    }
    let from = split(arguments.string("renameCollection").unwrap_or_default())?;
    let to = split(arguments.string("to").unwrap_or_default())?;
    for namespace in [&from, &to] {
        if namespace.collection.starts_with("system.") {
            fail!(code::ILLEGAL_OPERATION, "renaming system collections is not allowed: {namespace}");
        }
    }
    check_created(&to)?;
    let drops = arguments.bool("dropTarget") == Some(true);
    call.collections().rename(&from, &to, drops).await?;
    let (from, to) = (from.to_string(), to.to_string());
    call.deployment.cursors.end_of_namespaces(|known| known == from || known == to, "collection renamed");
    Ok(Reply::ok())
}
