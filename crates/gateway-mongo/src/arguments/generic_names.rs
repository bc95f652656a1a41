//! Names of the fields that every command may have.

/// Names of the generic fields.
const NAMES: &[&str] = &[
    "$db",
    "lsid",
    "txnNumber",
    "autocommit",
    "startTransaction",
    "coordinator",
    "comment",
    "maxTimeMS",
    "maxTimeMSOpOnly",
    "apiVersion",
    "apiStrict",
    "apiDeprecationErrors",
    "readConcern",
    "writeConcern",
    "$readPreference",
    "$clusterTime",
    "$queryOptions",
    "$replData",
    "$oplogQueryData",
    "$configServerState",
    "$configTime",
    "$topologyTime",
    "$audit",
    "$client",
    "$traceCtx",
    "$requestCharge",
    "rawData",
    "expectPrefix",
    "help",
    "shardVersion",
    "databaseVersion",
    "mayBypassWriteBlocking",
    "serialization_context",
    "allowImplicitCollectionCreation",
];

pub fn is_generic(name: &str) -> bool {
    NAMES.contains(&name)
}
