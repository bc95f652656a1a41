//! Sizes and counts: `collStats`, `dbStats`, `dataSize`, `validate`, and the stages that return the same values.

use shardlake_account::collections::{Collection, Found, Namespace, Validation};
use shardlake_mql::{Document, Value};

use super::config_database::shard_name;
use crate::arguments::{Arguments, Field, Types, optional, required, truncated};
use crate::call::Call;
use crate::errors::{Result, code, fail};
use crate::reply::Reply;

/// A number in the narrowest type that holds it, as the reference answers.
fn number(value: u64) -> Value {
    i32::try_from(value).map_or(Value::Long(value as i64), Value::Int)
}

fn long(value: u64) -> Value {
    Value::Long(i64::try_from(value).unwrap_or(i64::MAX))
}

fn scale_of(value: Option<i64>) -> Result<u64> {
    match value {
        None => Ok(1),
        Some(scale) if scale >= 1 => Ok(scale as u64),
        Some(scale) => fail!(code::BAD_VALUE, "scale has to be >= 1, is {scale}"),
    }
}

/// Part of a collection on one storage shard.
struct Part {
    shard: u16,
    items: u64,
    size_bytes: u64,
}

/// The parts of a collection, for each storage shard with a partition of it.
fn parts_of(collection: &Collection) -> Vec<Part> {
    let entry = &collection.handle.entry;
    let mut parts: Vec<Part> = Vec::new();
    for (range, partition) in entry.record.ranges.iter().zip(entry.map.iter()) {
        let (items, size_bytes) = (partition.items(), partition.size_bytes());
        match parts.iter_mut().find(|part| part.shard == range.shard) {
            Some(part) => {
                part.items += items;
                part.size_bytes += size_bytes;
            }
            None => parts.push(Part { shard: range.shard, items, size_bytes }),
        }
    }
    parts.sort_by_key(|part| part.shard);
    parts
}

/// The documents of `$shardedDataDistribution`.
pub fn data_distribution(call: &Call) -> Result<Vec<Value>> {
    let mut shown = Vec::new();
    for database in call.collections().databases() {
        let listed = call.collections().list(&database.id)?.into_iter();
        for collection in listed.filter_map(|listed| listed.collection).filter(Collection::is_sharded) {
            let shards = parts_of(&collection).into_iter().map(|part| {
                let mut shard = Document::one("shardName", Value::string(shard_name(part.shard)));
                shard.push("numOrphanedDocs", Value::Long(0));
                shard.push("numOwnedDocuments", long(part.items));
                shard.push("ownedSizeBytes", long(part.size_bytes));
                shard.push("orphanedSizeBytes", Value::Long(0));
                Value::document(shard)
            });
            let mut entry = Document::one("ns", Value::string(collection.namespace.to_string()));
            entry.push("shards", Value::array(shards.collect()));
            shown.push(Value::document(entry));
        }
    }
    Ok(shown)
}

fn usage_of(collection: Option<&Collection>) -> (u64, u64) {
    let usage = collection.map(|collection| collection.handle.usage());
    usage.map_or((0, 0), |usage| (usage.items, usage.size_bytes))
}

fn storage_stats(
    namespace: &Namespace,
    collection: Option<&Collection>,
    (items, size): (u64, u64),
    scale: u64,
) -> Document {
    let mut stats = Document::one("ns", namespace.to_string().as_str());
    stats.push("size", number(size / scale));
    stats.push("count", number(items));
    if let Some(mean) = size.checked_div(items) {
        stats.push("avgObjSize", number(mean));
    }
    stats.push("numOrphanDocs", Value::Int(0));
    stats.push("storageSize", number(size / scale));
    stats.push("freeStorageSize", Value::Int(0));
    let capped = collection.filter(|collection| collection.meta.is_capped());
    stats.push("capped", Value::Bool(capped.is_some()));
    if let Some(capped) = capped {
        stats.push("max", number(capped.meta.capped_max().unwrap_or_default()));
        stats.push("maxSize", number(capped.meta.capped_size().unwrap_or_default() / scale));
    }
    let indexes = collection.map(Collection::indexes).unwrap_or_default();
    stats.push("nindexes", number(indexes.len() as u64));
    stats.push("indexBuilds", Value::array(Vec::new()));
    if collection.is_none() {
        // Only for a missing collection: sizes of existing indexes are not known.
        stats.push("totalIndexSize", Value::Int(0));
        stats.push("indexSizes", Value::document(Document::new()));
    }
    stats.push("totalSize", number(size / scale));
    stats.push("scaleFactor", number(scale));
    stats.push("sharded", Value::Bool(collection.is_some_and(Collection::is_sharded)));
    stats
}

pub async fn coll_stats(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[optional("scale", Types::NUMBER)];
    let namespace = call.namespace()?;
    let arguments = call.arguments(FIELDS)?;
    let scale = scale_of(arguments.i64("scale"))?;
    let collection = match call.collections().find_name(&namespace)? {
        Found::Collection(collection) => Some(collection),
        Found::View(_) => fail!(166, "Namespace {namespace} is a view, not a collection"),
        Found::Nothing => None,
    };
    let mut stats = storage_stats(&namespace, collection.as_ref(), usage_of(collection.as_ref()), scale);
    if let Some(collection) = collection.as_ref().filter(|collection| collection.is_sharded()) {
        let shards = parts_of(collection).into_iter().map(|part| {
            let usage = (part.items, part.size_bytes);
            let stats = storage_stats(&namespace, Some(collection), usage, scale);
            (shard_name(part.shard).as_str().into(), Value::document(stats))
        });
        stats.push("shards", Value::document(shards.collect()));
    }
    Ok(stats.into())
}

pub async fn db_stats(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[optional("scale", Types::NUMBER), optional("freeStorage", Types::BOOL)];
    let arguments = call.arguments(FIELDS)?;
    let scale = scale_of(arguments.i64("scale"))?;
    let listed = call.collections().list(call.database())?;
    let collections: Vec<&Collection> =
        listed.iter().filter_map(|listed| listed.collection.as_ref()).collect();
    let usages = collections.iter().map(|collection| collection.handle.usage());
    let (items, size) = usages.fold((0, 0), |sum, usage| (sum.0 + usage.items, sum.1 + usage.size_bytes));
    let views = listed.iter().filter(|listed| listed.view.is_some()).count();
    let indexes: usize = collections.iter().map(|collection| collection.indexes().len()).sum();
    let double = |value: u64| Value::Double(value as f64 / scale as f64);
    let mut stats = Document::one("db", call.database());
    stats.push("collections", long(collections.len() as u64));
    stats.push("views", long(views as u64));
    stats.push("objects", long(items));
    stats.push("avgObjSize", Value::Double(if items == 0 { 0.0 } else { size as f64 / items as f64 }));
    stats.push("dataSize", double(size));
    stats.push("storageSize", double(size));
    stats.push("indexes", long(indexes as u64));
    if indexes == 0 {
        stats.push("indexSize", Value::Double(0.0));
    }
    stats.push("totalSize", double(size));
    if arguments.bool("freeStorage") == Some(true) {
        // Unused space is given back to the file system.
        for name in ["freeStorageSize", "indexFreeStorageSize", "totalFreeStorageSize"] {
            stats.push(name, Value::Double(0.0));
        }
    }
    stats.push("scaleFactor", long(scale));
    let disk = call.deployment.account.statistics().disk_bytes;
    stats.push("fsUsedSize", double(disk));
    stats.push("fsTotalSize", double(disk));
    Ok(stats.into())
}

pub async fn data_size(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        required("dataSize", Types::STRING),
        optional("keyPattern", Types::OBJECT),
        optional("min", Types::OBJECT),
        optional("max", Types::OBJECT),
        optional("estimate", Types::BOOL),
    ];
    let arguments = call.arguments(FIELDS)?;
    match (arguments.given("min"), arguments.given("max"), arguments.given("keyPattern")) {
        (None, None, _) => {}
        (Some(_), Some(_), None) => {
            fail!(code::OPERATION_FAILED, "dataSize needs a keyPattern for min and max")
        }
        (Some(_), Some(_), Some(_)) => {
            fail!(code::NOT_IMPLEMENTED, "dataSize with min and max is not supported")
        }
        _ => fail!(code::BAD_VALUE, "either both or none of min and max must be specified"),
    }
    let name = arguments.string("dataSize").unwrap_or_default();
    let Some((database, collection)) = name.split_once('.') else {
        fail!(code::INVALID_NAMESPACE, "Invalid namespace specified '{name}'");
    };
    let found = match call.collections().find_name(&Namespace::new(database, collection))? {
        Found::Collection(found) => Some(found),
        Found::View(_) => fail!(166, "Namespace {name} is a view, not a collection"),
        Found::Nothing => None,
    };
    let usage = found.map(|found| found.handle.usage());
    let (items, size) = usage.map_or((0, 0), |usage| (usage.items, usage.size_bytes));
    let mut reply = Document::one("estimate", Value::Bool(arguments.bool("estimate") == Some(true)));
    reply.push("size", long(size));
    reply.push("numObjects", long(items));
    reply.push("millis", Value::Int(0));
    Ok(reply.into())
}

pub async fn validate(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        optional("full", Types::ANY),
        optional("scandata", Types::ANY),
        optional("repair", Types::ANY),
        optional("metadata", Types::ANY),
        optional("checkBSONConformance", Types::ANY),
        optional("background", Types::ANY),
        optional("fixMultikey", Types::ANY),
    ];
    let namespace = call.namespace()?;
    let arguments = Arguments::of_open_command(&call.body, FIELDS)?;
    let is = |option: &str| arguments.bool(option) == Some(true);
    for (one, others) in [
        ("metadata", &["full", "background", "repair", "checkBSONConformance"][..]),
        ("checkBSONConformance", &["repair"]),
    ] {
        if let Some(other) = others.iter().find(|other| is(one) && is(other)) {
            fail!(
                code::INVALID_OPTIONS,
                "Running the validate command with both {{{one}: true}} and {{{other}: true}} is not supported."
            );
        }
    }
    if is("repair") || is("fixMultikey") {
        fail!(
            code::NOT_IMPLEMENTED,
            "validate with repair is not supported: stop the server and run 'shardlake verify'"
        );
    }
    let collection = match call.collections().find_name(&namespace)? {
        Found::Collection(collection) => collection,
        Found::View(_) => fail!(166, "Cannot validate a view"),
        Found::Nothing => {
            fail!(code::NAMESPACE_NOT_FOUND, "Collection '{namespace}' does not exist to validate.")
        }
    };
    let mut reply = Document::one("ns", namespace.to_string().as_str());
    let indexes = number(collection.indexes().len() as u64);
    if is("metadata") {
        // Definitions were read when the collection was found.
        reply.push("nIndexes", indexes);
        push_verdict(&mut reply, &Validation::default());
        return Ok(reply.into());
    }
    if arguments.bool("scandata") == Some(false) && !is("full") {
        // The documents are not read.
        reply.push("nrecords", number(collection.items()));
        reply.push("nIndexes", indexes);
        push_verdict(&mut reply, &Validation::default());
        return Ok(reply.into());
    }
    let read = call.collections().validate(&call.request(), &collection).await?;
    reply.push("nInvalidDocuments", number(read.errors.len() as u64));
    reply.push("nNonCompliantDocuments", number(read.refused));
    reply.push("nrecords", number(read.documents));
    reply.push("nIndexes", indexes);
    let keys = read.keys.iter().map(|(name, entries)| (name.as_str().into(), number(*entries)));
    reply.push("keysPerIndex", Value::document(keys.collect()));
    push_verdict(&mut reply, &read);
    Ok(reply.into())
}

fn push_verdict(reply: &mut Document, read: &Validation) {
    let texts = |texts: &[String]| Value::array(texts.iter().map(Value::string).collect());
    reply.push("valid", Value::Bool(read.errors.is_empty()));
    reply.push("repaired", Value::Bool(false));
    let warning = format!("{} documents do not meet the validator of the collection", read.refused);
    reply.push("warnings", texts(if read.refused > 0 { std::slice::from_ref(&warning) } else { &[] }));
    reply.push("errors", texts(&read.errors));
    for list in ["extraIndexEntries", "missingIndexEntries", "corruptRecords"] {
        reply.push(list, Value::array(Vec::new()));
    }
}

/// The documents of a first stage that the server answers itself; `None` for a pipeline that begins otherwise.
pub fn answered_stage(
    call: &Call,
    namespace: &Namespace,
    has_collection: bool,
    stages: &[Value],
) -> Result<Option<Vec<Value>>> {
    let first = stages.first().and_then(Value::as_document).filter(|stage| stage.len() == 1);
    let Some((name, options)) = first.and_then(|stage| stage.first()) else { return Ok(None) };
    match &**name {
        "$collStats" => {
            if !has_collection {
                fail!(code::INVALID_NAMESPACE, "$collStats is only valid on a collection");
            }
            coll_stats_stage(call, namespace, options).map(Some)
        }
        "$indexStats" => {
            if !has_collection {
                fail!(code::INVALID_NAMESPACE, "$indexStats is only valid on a collection");
            }
            Arguments::of_stage(name, options)?;
            let found = call.collections().collection(namespace)?;
            let Some(found) = found else { return Ok(Some(Vec::new())) };
            let shown = found.indexes().into_iter().map(|index| {
                let mut shown = Document::one("name", index.value("name"));
                shown.push("key", index.value("key"));
                shown.push("host", Value::string("shardlake"));
                let uses = found.uses.of(index.value("name").as_str().unwrap_or_default());
                let mut accesses = Document::one("ops", long(uses));
                accesses.push("since", Value::Date(found.uses.since.milliseconds() as i64));
                shown.push("accesses", Value::document(accesses));
                shown.push("spec", Value::document(index));
                Value::document(shown)
            });
            Ok(Some(shown.collect()))
        }
        _ => Ok(None),
    }
}

/// The options of `$collStats`. Null counts as missing.
struct CollStats {
    /// Whether histograms are shown with the latencies, where latencies are.
    latency_histograms: Option<bool>,
    scale: Option<u64>,
    has_count: bool,
}

impl CollStats {
    fn of(options: &Value) -> Result<CollStats> {
        let options = Arguments::of_stage("$collStats", options)?;
        let inner = |name: &str, option: &str| options.document(name).map(|inner| inner.value(option));
        let latency_histograms = inner("latencyStats", "histograms").map(|shown| shown.is_true());
        let scale = match inner("storageStats", "scale") {
            Some(scale) => Some(scale_of(truncated(&scale))?.min(i32::MAX as u64)),
            None => None,
        };
        if options.given("queryExecStats").is_some() {
            fail!(code::NOT_IMPLEMENTED, "$collStats with queryExecStats is not supported");
        }
        Ok(CollStats { latency_histograms, scale, has_count: options.given("count").is_some() })
    }
}

fn coll_stats_stage(call: &Call, namespace: &Namespace, options: &Value) -> Result<Vec<Value>> {
    let options = CollStats::of(options)?;
    let collection = match call.collections().find_name(namespace)? {
        Found::Collection(collection) => Some(collection),
        // A view has latencies alone.
        Found::View(_) if options.scale.is_some() || options.has_count => {
            fail!(166, "Namespace {namespace} is a view, not a collection")
        }
        _ => None,
    };
    let scale = options.scale;
    if options.has_count && collection.is_none() {
        fail!(
            code::NAMESPACE_NOT_FOUND,
            "Unable to retrieve count in $collStats stage: ns does not exist: {namespace}"
        );
    }
    // A document for each storage shard, as from a router.
    let parts = match collection.as_ref().filter(|collection| collection.is_sharded()) {
        Some(collection) => parts_of(collection)
            .into_iter()
            .map(|part| (Some(part.shard), (part.items, part.size_bytes)))
            .collect(),
        None => vec![(None, usage_of(collection.as_ref()))],
    };
    let shown = parts.into_iter().map(|(shard, usage)| {
        let mut shown = Document::one("ns", namespace.to_string().as_str());
        if let Some(shard) = shard {
            shown.push("shard", Value::string(shard_name(shard)));
        }
        shown.push("host", Value::string("shardlake"));
        shown.push("localTime", Value::Date(call.context.now.milliseconds() as i64));
        if let Some(has_histograms) = options.latency_histograms {
            let named = (&*namespace.database, &*namespace.collection);
            shown.push(
                "latencyStats",
                Value::document(call.deployment.latencies.describe(named, has_histograms)),
            );
        }
        if let Some(scale) = scale {
            let mut stats = storage_stats(namespace, collection.as_ref(), usage, scale);
            stats.remove("ns");
            shown.push("storageStats", Value::document(stats));
        }
        if options.has_count {
            shown.push("count", number(usage.0));
        }
        Value::document(shown)
    });
    Ok(shown.collect())
}
