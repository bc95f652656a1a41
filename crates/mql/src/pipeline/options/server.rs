//! Stages that the server answers, and those that it refuses.

use super::{Field, Null, Range, Refusal, Runs, StageOptions, inner, optional, refusal, required, stage};
use super::{NO_VALUE, UNKNOWN, WRONG_TYPE};
use crate::types::Types;

const BOOL: Types = Types::BOOL_ONLY;
const NO_OBJECT: Refusal =
    refusal(14, "BSON field '{stage}' is the wrong type '{type}', expected {expected}");

pub(super) const STAGES: &[StageOptions] = &[
    CHANGE_STREAM,
    refused("$changeStreamSplitLargeEvent", UNSUPPORTED),
    COLL_STATS,
    CURRENT_OP,
    stage("$indexStats", Types::OBJECT, INDEX_STATS).fields(&[], INDEX_STATS).on_server(),
    answered("$listClusterCatalog", &[flag("shards"), flag("balancingConfiguration"), flag("tracked")]),
    answered("$listLocalSessions", SESSIONS),
    refused("$listSampledQueries", UNSUPPORTED),
    refused("$listSearchIndexes", NO_SEARCH),
    answered("$listSessions", SESSIONS),
    answered("$planCacheStats", &[flag("allHosts")]),
    answered("$querySettings", &[flag("showDebugQueryShape")]),
    answered("$queryStats", &[optional("transformIdentifiers", Types::OBJECT).null(Null::Missing)]),
    refused("$rankFusion", UNSUPPORTED),
    refused("$scoreFusion", UNSUPPORTED),
    refused("$search", NO_SEARCH),
    refused("$searchMeta", NO_SEARCH),
    DATA_DISTRIBUTION,
    refused("$vectorSearch", NO_SEARCH),
];

const UNSUPPORTED: Refusal = refusal(303, "{stage} is not supported");
/// A server without the search service has a code of its own, and clients look for the word Atlas.
const NO_SEARCH: Refusal =
    refusal(31082, "{stage} is not supported; MongoDB has it in Atlas and in local deployments of Atlas");
const INDEX_STATS: Refusal = refusal(28803, "The $indexStats stage specification must be an empty object");

const fn refused(name: &'static str, refusal: Refusal) -> StageOptions {
    let mut refused = stage(name, Types::ANY, WRONG_TYPE);
    refused.runs = Runs::Refused(refusal);
    refused
}

const fn answered(name: &'static str, fields: &'static [Field]) -> StageOptions {
    stage(name, Types::OBJECT, NO_OBJECT).fields(fields, UNKNOWN).once().on_server()
}

const fn flag(name: &'static str) -> Field {
    optional(name, BOOL).null(Null::Missing)
}

/// A pipeline that begins with it is a stream of the server's; elsewhere it is refused.
const CHANGE_STREAM: StageOptions = {
    let mut stage = stage(
        "$changeStream",
        Types::OBJECT,
        refusal(50808, "$changeStream stage expects a document as argument"),
    )
    .fields(
        &[
            optional("fullDocument", Types::STRING).null(Null::Missing).within(&[(
                Range::OneOf(&["default", "updateLookup", "whenAvailable", "required"]),
                NO_VALUE,
            )]),
            optional("fullDocumentBeforeChange", Types::STRING)
                .null(Null::Missing)
                .within(&[(Range::OneOf(&["off", "whenAvailable", "required"]), NO_VALUE)]),
            optional("resumeAfter", Types::OBJECT).null(Null::Missing),
            optional("startAfter", Types::OBJECT).null(Null::Missing),
            optional("startAtOperationTime", Types::TIMESTAMP).null(Null::Missing),
            flag("allChangesForCluster"),
            flag("showExpandedEvents"),
            flag("showMigrationEvents"),
            flag("showSystemEvents"),
            flag("matchCollectionUUIDForUpdateLookup"),
        ],
        UNKNOWN,
    )
    .once();
    stage.runs = Runs::Refused(UNSUPPORTED);
    stage
};

const COLL_STATS: StageOptions = stage(
    "$collStats",
    Types::OBJECT,
    refusal(5_447_000, "$collStats must take a nested object but found: {value}"),
)
.fields(
    &[
        optional("latencyStats", Types::OBJECT).null(Null::Missing).with(&LATENCY),
        optional("storageStats", Types::OBJECT).null(Null::Missing).with(&STORAGE),
        optional("count", Types::OBJECT).null(Null::Missing),
        optional("queryExecStats", Types::OBJECT).null(Null::Missing),
        flag("targetAllNodes"),
    ],
    UNKNOWN,
)
.once()
.on_server();
const LATENCY: StageOptions = inner("$collStats.latencyStats", &[optional("histograms", BOOL)]).once();
const STORAGE: StageOptions = inner(
    "$collStats.storageStats",
    &[
        optional("scale", Types::NUMBER).null(Null::Missing),
        flag("verbose"),
        flag("waitForLock"),
        flag("numericOnly"),
    ],
)
.once();

/// Null is no flag.
const CURRENT_OP: StageOptions = stage("$currentOp", Types::OBJECT, NO_OBJECT)
    .fields(
        &[
            optional("allUsers", BOOL),
            optional("idleConnections", BOOL),
            optional("idleCursors", BOOL),
            optional("idleSessions", BOOL),
            optional("localOps", BOOL),
            optional("truncateOps", BOOL),
            optional("backtrace", BOOL),
            optional("targetAllNodes", BOOL),
        ],
        UNKNOWN,
    )
    .on_server();

const SESSIONS: &[Field] = &[
    flag("allUsers"),
    optional("users", Types::ARRAY).null(Null::Missing).of(Types::OBJECT, WRONG_TYPE).with(&SESSION_USER),
];
/// An item of `users`.
const SESSION_USER: StageOptions =
    inner("$listSessions.users", &[required("user", Types::STRING), required("db", Types::STRING)]).once();

const DATA_DISTRIBUTION: StageOptions = {
    let mut stage = answered("$shardedDataDistribution", &[]);
    stage.runs = Runs::Refused(UNSUPPORTED);
    stage
};
