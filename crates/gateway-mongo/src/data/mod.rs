//! Commands on documents, collections, databases and indexes, which need the engine.
//!
//! | file | contents |
//! |---|---|
//! | `find.rs`, `aggregate.rs` | `find`, `count`, `distinct`; pipelines |
//! | `index_reads.rs` | waiting for global secondary indexes |
//! | `change_stream.rs` | `$changeStream` |
//! | `explain.rs` | how a command would be answered |
//! | `write.rs`, `modify.rs`, `bulk_write.rs` | `insert`, `update`, `delete`; `findAndModify`; `bulkWrite` |
//! | `catalog.rs`, `coll_mod.rs`, `listing.rs`, `indexes.rs` | databases, collections and views; lists of them; indexes |
//! | `extension.rs`, `sharding.rs`, `key_analysis.rs` | throughput commands of Cosmos DB for MongoDB; commands that shard; analysis of shard keys |
//! | `admin_database.rs` | users and versions as backups carry them |
//! | `capped.rs` | capped collections, and cursors at their end |
//! | `maintenance.rs` | `compact`, `fsync`, `dbHash` and similar commands |
//! | `config_database.rs` | the database `config` as tools for sharded clusters read it |
//! | `statistics.rs`, `server_stages.rs` | sizes and counts; stages that report the server's state |
//! | `common.rs`, `collation.rs` | shared helpers: filters, sorts, options, failures; collations |
//!
//! The commands read their fields and hand the work to `shardlake-mongo`, which knows nothing of messages.

mod admin_database;
mod aggregate;
mod bulk_write;
mod capped;
mod catalog;
mod change_stream;
mod coll_mod;
mod collation;
mod common;
mod config_database;
mod explain;
mod extension;
mod find;
pub mod index_reads;
mod indexes;
mod key_analysis;
mod listing;
mod maintenance;
mod modify;
mod own_databases;
mod server_stages;
mod sharding;
mod statistics;
mod write;

use crate::call::{Command, command};

/// Their rows of the table of commands.
pub fn commands() -> &'static [Command] {
    COMMANDS
}

static COMMANDS: &[Command] = &[
    command!("find", find::find).read().snapshot().in_transaction().stable().with_batch(),
    command!("explain", explain::explain).read().stable(),
    command!("count", find::count).read().stable(),
    command!("distinct", find::distinct).read().snapshot().in_transaction().with_batch(),
    command!("aggregate", aggregate::aggregate).read().snapshot().in_transaction().stable().with_batch(),
    command!("insert", write::insert).write().in_transaction().retryable().stable(),
    command!("update", write::update).write().in_transaction().retryable().stable(),
    command!("delete", write::delete).write().in_transaction().retryable().stable(),
    command!("findAndModify", modify::find_and_modify)
        .alias(&["findandmodify"])
        .write()
        .in_transaction()
        .retryable()
        .stable(),
    command!("bulkWrite", bulk_write::bulk_write)
        .write()
        .admin_only()
        .in_transaction()
        .retryable()
        .stable()
        .with_batch(),
    command!("create", catalog::create).write().in_transaction().stable(),
    command!("drop", catalog::drop_collection).write().stable(),
    command!("dropDatabase", catalog::drop_database).write().stable(),
    command!("renameCollection", catalog::rename).write().admin_only(),
    command!("collMod", coll_mod::coll_mod).write().stable(),
    command!("listDatabases", listing::list_databases).admin_only().stable(),
    command!("listCollections", listing::list_collections).stable().with_batch(),
    command!("listIndexes", indexes::list_indexes).stable().with_batch(),
    command!("createIndexes", indexes::create_indexes).write().in_transaction().stable(),
    command!("dropIndexes", indexes::drop_indexes).alias(&["deleteIndexes"]).write().stable(),
    command!("collStats", statistics::coll_stats).alias(&["collstats"]),
    command!("dbStats", statistics::db_stats).alias(&["dbstats"]),
    command!("dataSize", statistics::data_size),
    command!("validate", statistics::validate),
    command!("compact", maintenance::compact).write(),
    command!("reIndex", maintenance::refuse_rebuild).write(),
    command!("convertToCapped", capped::convert_to_capped).write(),
    command!("cloneCollectionAsCapped", capped::clone_as_capped).write(),
    command!("fsync", maintenance::fsync).admin_only(),
    command!("fsyncUnlock", maintenance::fsync_unlock).admin_only(),
    command!("dbHash", maintenance::db_hash).alias(&["dbhash"]),
    command!("applyOps", maintenance::apply_ops).write().admin_only(),
    command!("_mergeAuthzCollections", admin_database::merge_users).write().admin_only(),
    command!("customAction", extension::custom_action).write(),
    command!("enableSharding", sharding::enable_sharding).write().admin_only(),
    command!("shardCollection", sharding::shard_collection).write().admin_only(),
    command!("listShards", sharding::list_shards).admin_only(),
    command!("balancerStatus", sharding::balancer_status).admin_only(),
    command!("balancerCollectionStatus", sharding::balancer_collection_status).admin_only(),
    command!("flushRouterConfig", sharding::flush_router_config).admin_only(),
    command!("analyzeShardKey", key_analysis::analyze_shard_key).read().admin_only(),
    command!("configureQueryAnalyzer", sharding::refuse).write().admin_only(),
    command!("reshardCollection", sharding::refuse).write().admin_only(),
    command!("abortReshardCollection", sharding::refuse).write().admin_only(),
    command!("commitReshardCollection", sharding::refuse).write().admin_only(),
    command!("cleanupReshardCollection", sharding::refuse).write().admin_only(),
    command!("refineCollectionShardKey", sharding::refuse).write().admin_only(),
    command!("unshardCollection", sharding::refuse).write().admin_only(),
    command!("moveCollection", sharding::refuse).write().admin_only(),
    command!("movePrimary", sharding::refuse).write().admin_only(),
    command!("moveChunk", sharding::refuse).alias(&["moveRange"]).write().admin_only(),
    command!("split", sharding::refuse).write().admin_only(),
    command!("mergeChunks", sharding::refuse).alias(&["mergeAllChunksOnShard"]).write().admin_only(),
    command!("addShard", sharding::refuse).write().admin_only(),
    command!("removeShard", sharding::refuse).write().admin_only(),
    command!("addShardToZone", sharding::refuse).write().admin_only(),
    command!("removeShardFromZone", sharding::refuse).write().admin_only(),
    command!("updateZoneKeyRange", sharding::refuse).write().admin_only(),
    command!("balancerStart", sharding::refuse).write().admin_only(),
    command!("balancerStop", sharding::refuse).write().admin_only(),
    command!("configureCollectionBalancing", sharding::refuse).write().admin_only(),
];
