//! Queries parsed, bound and planned once: applications send the same few texts over and over, and every page of a query is a
//! request of its own.
//!
//! A text is parsed once, whatever its container and parameters. Binding, merge planning and access planning
//! happen once for each set of parameters and each state of the container's definition: constants are folded
//! with the parameters, and the results decide how the index is used. Both caches are bounded in number and
//! in the size of their entries.

use std::mem::{Discriminant, discriminant};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use quick_cache::sync::Cache;
use shardlake_document::Value;
use shardlake_model::{ContainerScripts, Result};
use shardlake_partition::ContainerSchema;
use shardlake_sql::{
    AccessPlan, KeyValue, PreparedQuery, Query, QueryEnvironment, QueryPlan, SqlError, check_parameters,
    parse_query, plan_access, plan_prepared, with_hint,
};

use shardlake_router::ContainerEntry;
use xxhash_rust::xxh3::xxh3_64;

const QUERIES_MAX: usize = 1024;
/// Longer texts are parsed every time: they seldom repeat, and the cache stays below 8 MB of text.
const TEXT_BYTES_MAX: usize = 8 * 1024;

#[derive(Debug)]
pub struct QueryCache {
    parsed: Cache<String, Query>,
    /// By the number of the container, and the hash of text and parameters.
    known: Cache<(u32, u64), Arc<KnownQuery>>,
    bound: AtomicU64,
}

/// A client's query and its parameters.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub query: &'a Query,
    /// Names with their `@`.
    pub parameters: &'a [(String, Value)],
    /// Hash of the text and the parameters.
    pub hash: u64,
}

/// A query with its parameters, bound to one state of a container's definition; its pages share it.
#[derive(Debug)]
pub struct KnownQuery {
    pub query: Query,
    parameters: Vec<(String, Value)>,
    shape: Weak<ContainerSchema>,
    scripts: Weak<ContainerScripts>,
    /// Prepared at the time of the first request.
    pub prepared: PreparedQuery,
    plan: OnceLock<Arc<QueryPlan>>,
    order_hash: OnceLock<Option<u64>>,
    /// Hash of text and parameters.
    pub hash: u64,
    /// The access plan for the last partition key that needed another plan.
    access: Mutex<Option<(Vec<KeyValue>, Arc<AccessPlan>)>>,
}

impl Default for QueryCache {
    fn default() -> Self {
        let (parsed, known) = (Cache::new(QUERIES_MAX), Cache::new(QUERIES_MAX));
        QueryCache { parsed, known, bound: AtomicU64::new(0) }
    }
}

impl QueryCache {
    /// The query of a text. Mistakes in the names of its parameters are reported before those in the text.
    pub fn parsed(&self, text: &str, parameters: &[(String, Value)]) -> Result<Query, SqlError> {
        if let Some(query) = self.parsed.get(text) {
            return Ok(query);
        }
        let query = parse_query(text).map_err(|error| {
            check_parameters(parameters).err().unwrap_or_else(|| with_hint(error, text, None))
        })?;
        if text.len() <= TEXT_BYTES_MAX {
            self.parsed.insert(text.to_owned(), query.clone());
        }
        Ok(query)
    }

    /// The query, bound in `environment`, the environment of the container's entry.
    pub fn known(
        &self,
        entry: &ContainerEntry,
        asked: Asked<'_>,
        environment: &QueryEnvironment<'_>,
    ) -> Result<Arc<KnownQuery>, SqlError> {
        let key = (entry.record.container.rid.number, asked.hash);
        if let Some(known) = self.known.get(&key)
            && known.answers(entry, asked)
        {
            assert_eq!(known.hash, asked.hash, "a query is kept under the hash of its text");
            return Ok(known);
        }
        self.bound.fetch_add(1, Ordering::Relaxed);
        let prepared = PreparedQuery::prepare(asked.query, asked.parameters, environment)
            .map_err(|error| with_hint(error, asked.query.text(), Some(asked.query)))?;
        let known = Arc::new(KnownQuery {
            query: asked.query.clone(),
            parameters: asked.parameters.to_vec(),
            shape: Arc::downgrade(&entry.shape),
            scripts: Arc::downgrade(&entry.scripts),
            prepared,
            plan: OnceLock::new(),
            order_hash: OnceLock::new(),
            hash: asked.hash,
            access: Mutex::default(),
        });
        if known.prepared.is_lasting() {
            self.known.insert(key, known.clone());
        }
        Ok(known)
    }

    /// How often a query was bound.
    pub fn bound(&self) -> u64 {
        self.bound.load(Ordering::Relaxed)
    }
}

impl KnownQuery {
    /// Whether the query is the same, and the container's definition has not changed since.
    fn answers(&self, entry: &ContainerEntry, asked: Asked<'_>) -> bool {
        std::ptr::eq(self.shape.as_ptr(), Arc::as_ptr(&entry.shape))
            && std::ptr::eq(self.scripts.as_ptr(), Arc::as_ptr(&entry.scripts))
            && self.query.text() == asked.query.text()
            && self.parameters == asked.parameters
    }

    pub fn parameters(&self) -> &[(String, Value)] {
        &self.parameters
    }

    /// The plan for merging the partitions' rows.
    pub fn plan(&self, entry: &ContainerEntry) -> Result<Arc<QueryPlan>, SqlError> {
        if let Some(plan) = self.plan.get() {
            return Ok(plan.clone());
        }
        let definition = &entry.record.container.definition.partition_key;
        let plan = plan_prepared(&self.prepared, &self.query, &self.parameters, definition)?;
        Ok(self.plan.get_or_init(|| Arc::new(plan)).clone())
    }

    /// Hash that binds tokens to this query: of its order, or `text_hash` for a query without an order.
    pub fn token_hash(&self, text_hash: u64) -> u64 {
        let of_order = || self.prepared.order_identity().map(|identity| xxh3_64(identity.as_bytes()));
        self.order_hash.get_or_init(of_order).unwrap_or(text_hash)
    }

    /// How the index serves it for items that have these values of the partition key.
    pub fn access(&self, entry: &ContainerEntry, key: Vec<KeyValue>) -> Result<Arc<AccessPlan>, SqlError> {
        let last = || self.access.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, access)) = &*last()
            && (*of == key || (access.fits_other_keys && of.iter().map(kind).eq(key.iter().map(kind))))
        {
            return Ok(access.clone());
        }
        let access = Arc::new(plan_access(&self.prepared, &entry.shape.index_schema(), &key)?);
        *last() = Some((key, access.clone()));
        Ok(access)
    }
}

fn kind(known: &KeyValue) -> (&[String], Discriminant<Value>) {
    (&known.path, discriminant(&known.value))
}
