//! Maintenance commands of tools. The server does most of this work by itself.

use md5::{Digest, Md5};
use shardlake_account::collections::{Aggregation, Collection, Found, Namespace};
use shardlake_mql::{Document, SIMPLE, Value};

use crate::arguments::{Field, Types, optional};
use crate::call::Call;
use crate::errors::{CommandError, Result, code, error, fail};
use crate::reply::Reply;

/// `compact` only checks its arguments: space is given back in the background.
pub async fn compact(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        optional("force", Types::BOOL),
        optional("freeSpaceTargetMB", Types::NUMBER),
        optional("dryRun", Types::BOOL),
    ];
    let namespace = call.namespace()?;
    call.arguments(FIELDS)?;
    match call.collections().find_name(&namespace)? {
        Found::Collection(_) => Ok(Document::one("bytesFreed", 0).into()),
        Found::View(_) => fail!(166, "Cannot compact a view"),
        Found::Nothing => fail!(code::NAMESPACE_NOT_FOUND, "collection does not exist: {namespace}"),
    }
}

pub async fn refuse_rebuild(call: &Call) -> Result<Reply> {
    let name = call.name;
    Err(CommandError::not_supported(format!(
        "{name} is not supported: indexes are never out of step with the documents; dropIndexes and createIndexes make one anew"
    )))
}

/// `fsync`: makes acknowledged writes durable, which is needed only if the server was started with weaker durability.
pub async fn fsync(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        optional("lock", Types::BOOL),
        optional("async", Types::BOOL),
        optional("fsyncLockAcquisitionTimeoutMillis", Types::NUMBER),
    ];
    let arguments = call.arguments(FIELDS)?;
    if arguments.bool("lock") == Some(true) {
        return Err(CommandError::not_supported(
            "fsync with lock is not supported: 'shardlake backup create' copies a server that goes on",
        ));
    }
    call.deployment.account.flush().await?;
    let shards = i32::try_from(call.deployment.account.counts().shards).unwrap_or(i32::MAX);
    Ok(Document::one("numFiles", shards).into())
}

pub async fn fsync_unlock(call: &Call) -> Result<Reply> {
    call.arguments(&[])?;
    fail!(code::ILLEGAL_OPERATION, "fsyncUnlock called when not locked")
}

/// `applyOps`: refused, as by a router.
pub async fn apply_ops(_call: &Call) -> Result<Reply> {
    Err(error!(code::COMMAND_NOT_SUPPORTED, "applyOps not allowed through mongos"))
}

/// A digest of the documents of each collection in the order of `_id`, by which two servers are compared.
pub async fn db_hash(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        optional("collections", Types::ARRAY),
        optional("skipTempCollections", Types::BOOL),
        optional("excludeCapped", Types::BOOL),
    ];
    let arguments = call.arguments(FIELDS)?;
    let started = call.deployment.account.router().clock().elapsed();
    let mut wanted = Vec::new();
    for name in arguments.array("collections").unwrap_or_default() {
        let Some(name) = name.as_str() else {
            fail!(code::BAD_VALUE, "collections entries have to be strings");
        };
        wanted.push(name);
    }
    let listed = call.collections().list(call.database())?.into_iter();
    let collections = listed.filter_map(|listed| listed.collection);
    let skips_capped = arguments.bool("excludeCapped") == Some(true);
    let mut capped = Vec::new();
    let is_wanted =
        |collection: &Collection| wanted.is_empty() || wanted.contains(&&*collection.namespace.collection);
    let (mut digests, mut uuids, mut whole) = (Document::new(), Document::new(), Md5::new());
    for collection in collections.filter(is_wanted) {
        if collection.meta.is_capped() {
            capped.push(Value::string(&*collection.namespace.collection));
            if skips_capped {
                continue;
            }
        }
        let digest = digest_of(call, &collection.namespace).await?;
        whole.update(digest.as_bytes());
        digests.push(&*collection.namespace.collection, Value::string(digest));
        let uuid = Value::Binary(4, collection.uuid().as_slice().into());
        uuids.push(&*collection.namespace.collection, uuid);
    }
    let took = call.deployment.account.router().clock().elapsed().saturating_sub(started);
    let mut reply = Document::one("host", Value::string(call.connection.ends.server.to_string()));
    reply.push("collections", Value::document(digests));
    reply.push("capped", Value::array(capped));
    reply.push("uuids", Value::document(uuids));
    reply.push("md5", Value::string(hex(&whole.finalize())));
    reply.push("timeMillis", Value::Int(i32::try_from(took.as_millis()).unwrap_or(i32::MAX)));
    Ok(reply.into())
}

async fn digest_of(call: &Call, namespace: &Namespace) -> Result<String> {
    const PAGE_BYTES: usize = 1 << 20;
    let request = call.request();
    let (scope, env) = request.bound(&SIMPLE, &Document::new())?;
    let by_identity = Value::document(Document::one("_id", 1));
    let aggregation = Aggregation {
        database: namespace.database.to_string(),
        collection: Some(namespace.collection.to_string()),
        stages: vec![Value::document(Document::one("$sort", by_identity))],
        is_from_end: false,
        scope,
        env,
    };
    let (mut results, mut digest) = (call.collections().aggregate(aggregation)?, Md5::new());
    loop {
        let (documents, is_last) = results.batch(&request, usize::MAX, PAGE_BYTES).await?;
        documents.iter().for_each(|document| digest.update(document));
        if is_last {
            return Ok(hex(&digest.finalize()));
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
