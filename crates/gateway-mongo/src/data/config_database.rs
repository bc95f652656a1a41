//! The database `config`, read only, for tools for sharded clusters. Its documents are generated from the current catalog and partition
//! maps. A chunk is a physical partition; its bounds are places in the hash space, as 64-bit numbers, and a shard is a storage shard.

use shardlake_account::collections::{Collection, Namespace};
use shardlake_mql::{Document, Value};

use crate::call::Call;
use crate::commands::version_text;
use crate::errors::Result;

pub const CONFIG: &str = "config";

/// Names of the collections; some are always empty.
pub const COLLECTIONS: [&str; 9] =
    ["changelog", "chunks", "collections", "databases", "mongos", "settings", "shards", "tags", "version"];

/// The documents of one of these collections; `None` for every other name.
pub fn documents(call: &Call, namespace: &Namespace) -> Result<Option<Vec<Value>>> {
    if &*namespace.database != CONFIG {
        return Ok(None);
    }
    let documents = match &*namespace.collection {
        "chunks" => of_sharded(call, chunks_of)?,
        "collections" => of_sharded(call, |collection| vec![described(collection)])?,
        "databases" => {
            call.collections().databases().iter().map(|database| of_database(&database.id)).collect()
        }
        "mongos" => vec![router(call)],
        "settings" => vec![balancer()],
        "shards" => shards(call),
        "version" => vec![version(call)],
        "changelog" | "tags" => Vec::new(),
        _ => return Ok(None),
    };
    Ok(Some(documents.into_iter().map(Value::document).collect()))
}

pub fn shard_name(number: u16) -> String {
    format!("shard{number}")
}

/// The storage shards.
pub fn shards(call: &Call) -> Vec<Document> {
    let host = call.connection.ends.server;
    let shard = |number: u16| {
        let name = shard_name(number);
        let mut shard = Document::one("_id", Value::string(&name));
        shard.push("host", Value::string(format!("{name}/{host}")));
        shard.push("state", Value::Int(1));
        shard
    };
    let count = u16::try_from(call.deployment.account.counts().shards).unwrap_or(u16::MAX);
    (0..count).map(shard).collect()
}

fn of_sharded(call: &Call, show: impl Fn(&Collection) -> Vec<Document>) -> Result<Vec<Document>> {
    let mut shown = Vec::new();
    for database in call.collections().databases() {
        let listed = call.collections().list(&database.id)?;
        let collections = listed.into_iter().filter_map(|listed| listed.collection);
        shown.extend(collections.filter(Collection::is_sharded).flat_map(|collection| show(&collection)));
    }
    Ok(shown)
}

fn of_database(name: &str) -> Document {
    let mut shown = Document::one("_id", Value::string(name));
    shown.push("primary", Value::string(shard_name(0)));
    shown.push("partitioned", Value::Bool(true));
    shown
}

/// The container's numbers in the form of an ObjectId.
fn epoch(collection: &Collection, last: u32) -> [u8; 12] {
    let rid = collection.handle.container().rid;
    let mut id = [0; 12];
    id[..4].copy_from_slice(&rid.database.0.to_be_bytes());
    id[4..8].copy_from_slice(&rid.number.to_be_bytes());
    id[8..].copy_from_slice(&last.to_be_bytes());
    id
}

fn made(collection: &Collection) -> u32 {
    u32::try_from(collection.handle.container().timestamp).unwrap_or(u32::MAX)
}

fn described(collection: &Collection) -> Document {
    let mut shown = Document::one("_id", Value::string(collection.namespace.to_string()));
    shown.push("lastmodEpoch", Value::ObjectId(epoch(collection, 0)));
    shown.push("lastmod", Value::Date(i64::from(made(collection)) * 1000));
    shown.push("timestamp", Value::Timestamp(made(collection), 1));
    shown.push("uuid", Value::Binary(4, collection.uuid().as_slice().into()));
    let key = collection.meta.shard_key_pattern(collection.shard_key());
    shown.push("key", Value::document(key.unwrap_or_default()));
    shown.push("unique", Value::Bool(false));
    shown.push("noBalance", Value::Bool(false));
    shown
}

fn chunks_of(collection: &Collection) -> Vec<Document> {
    let key = collection.meta.shard_key_pattern(collection.shard_key()).unwrap_or_default();
    let entry = &collection.handle.entry;
    let bound = |place: Value| {
        let fields = key.iter().enumerate();
        let value = |at: usize| if at == 0 { place.clone() } else { Value::MinKey };
        Value::document(fields.map(|(at, (path, _))| (path.clone(), value(at))).collect())
    };
    let sizes = entry.map.iter().map(|partition| partition.size_bytes());
    let parts = entry.record.ranges.iter().zip(sizes).enumerate();
    let chunks = parts.map(|(at, (range, size_bytes))| {
        let mut chunk = Document::one("_id", Value::ObjectId(epoch(collection, range.range_id)));
        chunk.push("uuid", Value::Binary(4, collection.uuid().as_slice().into()));
        chunk.push("min", bound(if at == 0 { Value::MinKey } else { place(&range.min) }));
        let is_last = at + 1 == entry.record.ranges.len();
        chunk.push("max", bound(if is_last { Value::MaxKey } else { place(&range.max) }));
        chunk.push("shard", Value::string(shard_name(range.shard)));
        chunk.push("lastmod", Value::Timestamp(1, u32::try_from(at).unwrap_or(u32::MAX)));
        chunk.push("estimatedDataSizeBytes", Value::Long(i64::try_from(size_bytes).unwrap_or(i64::MAX)));
        chunk
    });
    chunks.collect()
}

/// The upper 64 bits of a place in the hash space, which is written in hex. Larger values become the largest number.
fn place(bound: &str) -> Value {
    let digits: String = bound.chars().chain(std::iter::repeat('0')).take(16).collect();
    let upper = u64::from_str_radix(&digits, 16).unwrap_or(u64::MAX);
    Value::Long(i64::try_from(upper).unwrap_or(i64::MAX))
}

fn router(call: &Call) -> Document {
    let up = call.deployment.account.router().clock().elapsed().saturating_sub(call.deployment.started);
    let mut shown = Document::one("_id", Value::string(call.connection.ends.server.to_string()));
    shown.push("ping", Value::Date(call.context.now.milliseconds() as i64));
    shown.push("up", Value::Long(up.as_secs() as i64));
    shown.push("waiting", Value::Bool(true));
    shown.push("mongoVersion", Value::string(version_text()));
    shown
}

/// State of the balancer: the server itself always splits and moves partitions.
fn balancer() -> Document {
    let mut shown = Document::one("_id", "balancer");
    shown.push("mode", Value::string("full"));
    shown.push("stopped", Value::Bool(false));
    shown
}

fn version(call: &Call) -> Document {
    let name = call.deployment.settings.account_name.as_bytes();
    let mut cluster = [0; 12];
    cluster.iter_mut().zip(name).for_each(|(byte, own)| *byte = *own);
    let mut shown = Document::one("_id", Value::Int(1));
    shown.push("clusterId", Value::ObjectId(cluster));
    shown
}
