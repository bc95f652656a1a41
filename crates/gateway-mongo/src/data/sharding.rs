//! Commands that shard (spec mongo.md §9). Every shard key is hashed, and the server decides which physical partition holds a key.

use shardlake_account::collections::{Collection, Creation, Found, Namespace};
use shardlake_mql::{Document, Value, identical_documents};

use super::common::{check_created, check_written};
use super::config_database;
use crate::arguments::{Field, Types, check_database, optional, required};
use crate::call::Call;
use crate::errors::{CommandError, Result, code, fail};
use crate::reply::Reply;

const PATHS_MAX: usize = 3;
const BAD_KEY: i32 = 72;
const NAMESPACE_NOT_SHARDED: i32 = 118;

pub async fn enable_sharding(call: &Call) -> Result<Reply> {
    let name = call.first().as_str().unwrap_or_default();
    check_database(name)?;
    check_written(&Namespace::new(name, "any"))?;
    call.collections().create_database(&call.request(), name).await?;
    Ok(Reply::ok())
}

pub async fn shard_collection(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        required("shardCollection", Types::STRING),
        required("key", Types::OBJECT),
        optional("unique", Types::BOOL),
        optional("numInitialChunks", Types::NUMBER),
        optional("presplitHashedZones", Types::BOOL),
        optional("collation", Types::OBJECT),
    ];
    let arguments = call.arguments(FIELDS)?;
    let name = arguments.string("shardCollection").unwrap_or_default();
    let Some((database, collection)) = name.split_once('.') else {
        fail!(code::INVALID_NAMESPACE, "Invalid namespace specified '{name}'");
    };
    check_database(database)?;
    let namespace = Namespace::new(database, collection);
    check_written(&namespace)?;
    let stated = super::collation::stated(arguments.given("collation"))?;
    if stated.as_ref().is_some_and(|stated| !stated.is_simple()) {
        fail!(code::BAD_VALUE, "The collation of a shard key has to be simple, but found another one");
    }
    let pattern = arguments.document("key").map(|key| Document::clone(key)).unwrap_or_default();
    let is_hashed = check_pattern(&pattern)?;
    let is_unique = arguments.bool("unique") == Some(true);
    if is_unique && is_hashed {
        fail!(BAD_KEY, "hashed shard keys cannot be declared unique");
    }
    let found = match call.collections().find_name(&namespace)? {
        Found::View(_) => fail!(166, "Namespace {namespace} is a view, not a collection"),
        Found::Collection(found) => match found.meta.shard_key_pattern(found.shard_key()) {
            Some(known) if identical_documents(&known, &pattern) => found,
            Some(known) => fail!(
                20,
                "{namespace} is sharded by {} already, and cannot be sharded by another key",
                Value::document(known)
            ),
            None => fail!(
                20,
                "{namespace} exists and is not sharded: shard a collection before it is made, or copy it into one that is"
            ),
        },
        Found::Nothing => {
            check_created(&namespace)?;
            let creation = Creation { shard_key: Some(pattern.clone()), ..Creation::default() };
            call.collections().create(&call.request(), &namespace, creation).await?
        }
    };
    let is_identity = pattern.len() == 1 && pattern.has("_id");
    if is_unique && !is_identity {
        let words: Vec<String> = pattern.iter().map(|(path, _)| format!("{path}_1")).collect();
        let mut index = Document::one("key", Value::document(pattern));
        index.push("name", Value::string(words.join("_")));
        index.push("unique", Value::Bool(true));
        call.collections().create_indexes(&call.request(), &namespace, vec![index]).await?;
    }
    let mut reply = Document::one("collectionsharded", Value::string(name));
    reply.push("collectionUUID", Value::Binary(4, found.uuid().as_slice().into()));
    Ok(reply.into())
}

/// Whether a field of the key is hashed; error 72 for a key that cannot be one.
pub fn check_pattern(pattern: &Document) -> Result<bool> {
    if pattern.is_empty() || pattern.len() > PATHS_MAX {
        fail!(BAD_KEY, "a shard key has 1 to {PATHS_MAX} fields, not {}", pattern.len());
    }
    let mut is_hashed = false;
    for (path, kind) in pattern.iter() {
        match kind {
            Value::String(word) if &**word == "hashed" => is_hashed = true,
            number if number.to_f64() == Some(1.0) => {}
            other => fail!(BAD_KEY, "a field of a shard key is 1 or 'hashed', not {other}"),
        }
        if path.is_empty() || path.starts_with('$') || path.split('.').any(str::is_empty) {
            fail!(BAD_KEY, "'{path}' cannot be a field of a shard key");
        }
    }
    Ok(is_hashed)
}

/// `listShards`. Storage shards are the nearest equivalent to the reference's shards.
pub async fn list_shards(call: &Call) -> Result<Reply> {
    let shards = config_database::shards(call).into_iter().map(Value::document).collect();
    Ok(Document::one("shards", Value::array(shards)).into())
}

/// `balancerStatus`: the server itself always splits and moves partitions, by size and throughput.
pub async fn balancer_status(call: &Call) -> Result<Reply> {
    call.arguments(&[])?;
    let mut reply = Document::one("mode", "full");
    reply.push("inBalancerRound", Value::Bool(false));
    reply.push("numBalancerRounds", Value::Long(0));
    Ok(reply.into())
}

pub async fn balancer_collection_status(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[required("balancerCollectionStatus", Types::STRING)];
    let arguments = call.arguments(FIELDS)?;
    let name = arguments.string("balancerCollectionStatus").unwrap_or_default();
    let Some((database, collection)) = name.split_once('.') else {
        fail!(code::INVALID_NAMESPACE, "Invalid namespace specified '{name}'");
    };
    let found = call.collections().collection(&Namespace::new(database, collection))?;
    let Some(found) = found.filter(Collection::is_sharded) else {
        fail!(NAMESPACE_NOT_SHARDED, "Expected collection {name} to be sharded");
    };
    // A collection is balanced, unless a partition is being split or moved.
    let is_moving = found.handle.entry.record.relocation.is_some();
    let mut reply = Document::one("balancerCompliant", Value::Bool(!is_moving));
    if is_moving {
        reply.push("firstComplianceViolation", Value::string("chunksImbalance"));
    }
    Ok(reply.into())
}

/// `flushRouterConfig`: the catalog is the only record of partitions, so there is no cache to flush.
pub async fn flush_router_config(_call: &Call) -> Result<Reply> {
    Ok(Reply::ok())
}

/// Refuses a command and names an alternative.
pub async fn refuse(call: &Call) -> Result<Reply> {
    let instead = match call.name {
        "configureQueryAnalyzer" => {
            "queries are not sampled; the server counts the load of every shard key value: see the heat and the findings of the collection in the explorer, or 'shardlake partitions'"
        }
        "reshardCollection"
        | "refineCollectionShardKey"
        | "abortReshardCollection"
        | "commitReshardCollection"
        | "cleanupReshardCollection" => {
            "a collection keeps its shard key: shard a new collection by the other key, copy the documents with $merge, and rename it"
        }
        "unshardCollection" => {
            "a collection keeps its shard key: copy the documents into a new collection with $out, and rename it"
        }
        "addShard"
        | "removeShard"
        | "movePrimary"
        | "addShardToZone"
        | "removeShardFromZone"
        | "updateZoneKeyRange" => {
            "storage shards are those that the server was started with ('--shards'), and there are no zones"
        }
        "split" | "moveChunk" | "mergeChunks" | "moveCollection" => {
            "the server splits partitions by size and throughput; an operator splits, merges and moves them with 'shardlake partitions' or in the explorer"
        }
        _ => "the server splits partitions by size and throughput by itself, and cannot be told to stop",
    };
    Err(CommandError::not_supported(format!("{} is not supported: {instead}", call.name)))
}
