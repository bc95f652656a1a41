//! The words every crate shares: resources and their policies, identifiers, limits, the request context, errors.
//!
//! Pure data: nothing here does I/O, hashes, or knows a protocol. Policies carry `serde` names because users
//! and the catalog use the same JSON form; no other wire spelling lives here.

mod answer_space;
mod bounds;
mod context;
mod derived;
mod error;
mod full_text_policy;
mod index_path;
mod indexing;
mod limit_scale;
mod limits;
mod login;
mod narrowing;
mod partition_key;
mod path_matcher;
mod previous_images;
mod resource;
mod rid;
mod script;
mod secondary_index;
mod throughput;
mod user;
mod vector_policy;

pub use answer_space::{AnswerSpace, SpaceFuture};
pub use bounds::Bounds;
pub use context::{
    ConsistencyLevel, ETagCondition, Preconditions, Priority, RequestContext, SessionEntry, SessionToken,
};
pub use derived::{Derived, Source};
pub use error::{Error, ErrorKind, ReplyMeta, Result};
pub use full_text_policy::{FullTextPath, FullTextPolicy, FullTextSpec};
pub use index_path::{IndexPath, IndexPathSegment, PathKind};
pub use indexing::BoundingBox;
pub use indexing::{
    CompositePath, ExcludedPath, FullTextIndex, IncludedPath, IndexingMode, IndexingPolicy, SortOrder,
    SpatialIndex, VectorIndex,
};
pub use limit_scale::LimitScale;
pub use limits::{LanguageLimits, Limits, Numbers};
pub use login::Login;
pub use narrowing::{ItemRule, Narrowing, RuleScalar, ValueKind, ValueTest};
pub use partition_key::{
    KeyComponent, KeyKind, KeyNumberError, KeyPath, PartitionKey, PartitionKeyDefinition,
    PartitionKeyPathError, SYSTEM_PROPERTIES,
};
pub use path_matcher::{PathMatcher, PathState};
pub use previous_images::{
    PreviousImageFeature, PreviousImageRetentionPolicy, PreviousImages, SupportedFeatures,
};
pub use resource::{
    ChangeFeedPolicy, ComputedProperty, ConflictResolutionPolicy, Container, ContainerDefinition, Database,
    GeospatialConfig, PartitionKeyRange, UniqueKey, UniqueKeyPolicy, validate_resource_id,
};
pub use rid::{
    ContainerRid, DatabaseRid, ItemRid, OfferRid, PartitionUid, PermissionRid, Rid, ScriptKind, ScriptRid,
    UserRid,
};
pub use script::{
    ContainerScripts, Script, ScriptDefinition, TriggerDefinition, TriggerOperation, TriggerSpelling,
    TriggerType,
};
pub use secondary_index::{
    ExpiredRows, INDEX_CHAIN_MAX, INDEX_DEFINITION_BYTES_MAX, INDEXES_OF_SOURCE_MAX,
    INDEXES_OF_SOURCE_MAX_STRICT, IndexCharge, IndexReads, IndexSettings, SecondaryIndexDefinition,
};
pub use throughput::{Autoscale, Offer, Throughput};
pub use user::{Permission, PermissionDefinition, PermissionMode, User};
pub use vector_policy::{VectorEmbedding, VectorEmbeddingPolicy};
