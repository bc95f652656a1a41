//! Commands on documents, collections, databases and indexes: what needs the engine.
//!
//! | file | what it does |
//! |---|---|
//! | `find.rs`, `aggregate.rs` | `find`, `count`, `distinct`; pipelines |
//! | `change_stream.rs` | `$changeStream` |
//! | `explain.rs` | how a command would be answered |
//! | `write.rs`, `modify.rs`, `bulk_write.rs` | `insert`, `update`, `delete`; `findAndModify`; `bulkWrite` |
//! | `catalog.rs`, `coll_mod.rs`, `listing.rs`, `indexes.rs` | databases, collections and views; what there is; indexes |
//! | `extension.rs`, `sharding.rs` | throughput, as Cosmos DB for MongoDB has it; commands that shard |
//! | `statistics.rs`, `server_stages.rs` | how much there is; stages that say something of the server |
//! | `common.rs`, `collation.rs` | what these share: filters, sorts, options, failures; collations |
//!
//! The commands read their fields and hand the work to `shardlake-collections`, which knows nothing of messages.

mod aggregate;
mod bulk_write;
mod catalog;
mod change_stream;
mod coll_mod;
mod collation;
mod common;
mod explain;
mod extension;
mod find;
mod indexes;
mod listing;
mod modify;
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
    command!("find", find::find).read().in_transaction().stable().with_batch(),
    command!("explain", explain::explain).read().stable(),
    command!("count", find::count).read().stable(),
    command!("distinct", find::distinct).read().in_transaction().with_batch(),
    command!("aggregate", aggregate::aggregate).read().in_transaction().stable().with_batch(),
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
    command!("customAction", extension::custom_action).write(),
    command!("enableSharding", sharding::enable_sharding).write().admin_only(),
    command!("shardCollection", sharding::shard_collection).write().admin_only(),
    command!("listShards", sharding::list_shards).admin_only(),
];
