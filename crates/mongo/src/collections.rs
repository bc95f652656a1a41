//! The collections of an account: lookup by name, and reads of their documents.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shardlake_definitions::Resources;
use shardlake_items::OpenTransaction;
use shardlake_model::{ContainerRid, Error, ErrorKind, RequestContext};
use shardlake_mql::write::{DocumentRules, ShardKey};
use shardlake_mql::{Collation, Document, Str, Value};
use shardlake_partition::{CommitOptions, TRANSACTION_TOO_LARGE};
use shardlake_queries::Queries;
use shardlake_router::ContainerHandle;

use crate::ascending::Ascending;
use crate::expressions::has_expression;
use crate::failure::{Failure, Result};
use crate::index_locks::IndexLocks;
use crate::meta::{DatabaseMeta, KnownMeta, Meta, View};
use crate::names;
use crate::own_writes::OwnWrites;
use crate::uses::IndexUses;

/// Collections whose metadata are kept read; more than an account has by default.
const KNOWN_MAX: usize = 16_384;
const IN_TRANSACTION: i32 = 263;
/// Views over views.
const VIEW_DEPTH_MAX: usize = 20;

/// Collections over the containers of an account. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Collections {
    pub(crate) queries: Queries,
    pub(crate) resources: Resources,
    known: Arc<Mutex<HashMap<ContainerRid, KnownMeta>>>,
    /// A validator with expressions was seen: every write may evaluate one.
    validators_evaluate: Arc<AtomicBool>,
    pub(crate) index_locks: IndexLocks,
    pub(crate) ascending: Arc<Ascending>,
    /// Reads and writes belong to this transaction.
    pub(crate) transaction: Option<Arc<OpenTransaction>>,
    /// Writes of a command that waits for durability at its end.
    pub(crate) own: Option<Arc<OwnWrites>>,
}

impl Collections {
    /// An error of the engine as a failure; some errors have another code in a transaction.
    pub(crate) fn failed(&self, error: Error) -> Failure {
        let code = match error.kind() {
            _ if self.transaction.is_none() => None,
            ErrorKind::TooLarge if error.message().starts_with(TRANSACTION_TOO_LARGE) => Some(257),
            ErrorKind::Unsupported => Some(263),
            _ => None,
        };
        let failure = Failure::from(error);
        Failure { code: code.unwrap_or(failure.code), ..failure }
    }
}

/// A database and a collection in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    pub database: Str,
    pub collection: Str,
}

impl Namespace {
    pub fn new(database: impl Into<Str>, collection: impl Into<Str>) -> Namespace {
        Namespace { database: database.into(), collection: collection.into() }
    }

    /// The collection of a container.
    pub fn of_container(database: &str, id: &str) -> Namespace {
        Namespace::new(database, names::collection_name(id))
    }

    /// The id of the collection's container.
    pub fn container_id(&self) -> Cow<'_, str> {
        names::container_id(&self.collection)
    }
}

impl std::fmt::Display for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.database, self.collection)
    }
}

/// A collection as one command sees it.
#[derive(Debug, Clone)]
pub struct Collection {
    pub namespace: Namespace,
    pub handle: ContainerHandle,
    pub meta: Arc<Meta>,
    pub rules: Arc<DocumentRules>,
    pub uses: Arc<IndexUses>,
}

/// A physical partition that is asked for documents, and the storage shard that it lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub range_id: u32,
    pub shard: u16,
}

impl Collection {
    /// The physical partitions that a filter has to be asked of: those of the shard key that it names, or all.
    pub fn asked(&self, filter: &Document, collation: &Collation) -> Vec<Asked> {
        let key = crate::plan::key_of(filter, collation, self.shard_key());
        let partitions = self.handle.partitions_of(&key).into_iter();
        partitions.map(|(range_id, shard)| Asked { range_id, shard }).collect()
    }

    /// The place of the shard key in documents.
    pub fn shard_key(&self) -> &ShardKey {
        &self.rules.value().shard_key
    }

    pub(crate) fn container(&self) -> ContainerRid {
        self.handle.container().rid
    }
}

/// The object behind a name.
#[derive(Debug, Clone)]
pub enum Found {
    Nothing,
    Collection(Collection),
    View(View),
}

impl Collections {
    pub fn new(queries: Queries, resources: Resources) -> Collections {
        let (known, validators_evaluate) = (Arc::default(), Arc::default());
        let latest_timestamp = queries.router().latest_timestamp();
        Collections {
            queries,
            resources,
            known,
            validators_evaluate,
            index_locks: IndexLocks::default(),
            ascending: Arc::new(Ascending::continuing(latest_timestamp)),
            transaction: None,
            own: None,
        }
    }

    /// Whether writes may evaluate expressions of a collection's validator.
    pub fn validators_evaluate(&self) -> bool {
        self.validators_evaluate.load(Ordering::Relaxed)
    }

    /// Records a validator that a collection has, or is to have.
    pub fn note_validator(&self, validator: &Value) {
        if has_expression(validator) {
            self.validators_evaluate.store(true, Ordering::Relaxed);
        }
    }

    /// The same collections within a transaction. Definitions are not transactional: changes of them apply at once.
    pub fn within(&self, transaction: Arc<OpenTransaction>) -> Collections {
        Collections { transaction: Some(transaction), ..self.clone() }
    }

    /// Whether reads and writes are part of a transaction.
    pub fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Collections for a command of many statements, which calls [`Collections::settle`] before it answers, even after
    /// a failure.
    pub fn gathering(&self) -> Collections {
        // A transaction waits for durability at its commit.
        let mut gathering = self.clone();
        gathering.own = self.transaction.is_none().then(Arc::default);
        gathering
    }

    /// Waits between two statements if many writes are not durable yet.
    pub async fn pause(&self) -> Result<()> {
        match self.own.as_ref().is_some_and(|own| own.is_full()) {
            true => self.settle().await,
            false => Ok(()),
        }
    }

    /// Waits until everything that the command has written and met is durable.
    pub async fn settle(&self) -> Result<()> {
        match &self.own {
            Some(own) => Ok(own.settle().await?),
            None => Ok(()),
        }
    }

    pub(crate) fn commit_options(&self) -> CommitOptions {
        CommitOptions { note: None, deferred: self.own.as_ref().map(|own| own.deferred.clone()) }
    }

    /// Fixes the point in time at which the transaction reads, at its first command.
    pub async fn begin_transaction(&self, ctx: &RequestContext) {
        if let Some(transaction) = &self.transaction {
            transaction.begin(self.queries.items(), ctx).await;
        }
    }

    /// The object behind a name. An unknown name is no error: it reads as empty.
    pub fn find_name(&self, namespace: &Namespace) -> Result<Found> {
        if let Some(collection) = self.collection(namespace)? {
            return Ok(Found::Collection(collection));
        }
        Ok(match self.database_meta(&namespace.database)?.view(&namespace.collection) {
            Some(view) => Found::View(view.clone()),
            None => Found::Nothing,
        })
    }

    pub fn collection(&self, namespace: &Namespace) -> Result<Option<Collection>> {
        match self.resources.router().container(&namespace.database, &namespace.container_id()) {
            // A resource id is no name here.
            Ok(handle) if handle.is_by_rid() => Ok(None),
            Ok(handle) => self.of_handle(namespace, handle).map(Some),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::OwnerNotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn of_handle(&self, namespace: &Namespace, handle: ContainerHandle) -> Result<Collection> {
        let KnownMeta { meta, rules, uses, .. } = self.known_of(&handle)?;
        Ok(Collection { namespace: namespace.clone(), handle, meta, rules, uses })
    }

    /// The parsed metadata of a container, cached for each version of its record.
    fn known_of(&self, handle: &ContainerHandle) -> Result<KnownMeta> {
        let container = handle.container();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let old = known.get(&container.rid);
        if let Some(found) = old.filter(|found| found.etag == container.etag) {
            return Ok(found.clone());
        }
        let uses = match old {
            Some(old) => old.uses.clone(),
            None => Arc::new(IndexUses::from(self.queries.router().clock().now())),
        };
        let meta = Arc::new(Meta::of(container)?);
        let rules = Arc::new(meta.rules(&handle.entry.shape.key_paths)?);
        self.note_validator(&meta.options.value("validator"));
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        let found = KnownMeta { etag: container.etag, meta, rules, uses };
        known.insert(container.rid, found.clone());
        Ok(found)
    }

    pub fn database_meta(&self, database: &str) -> Result<DatabaseMeta> {
        match self.resources.router().database(database) {
            Ok(database) => DatabaseMeta::of(&database),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(DatabaseMeta::default()),
            Err(error) => Err(error.into()),
        }
    }

    /// The collection that a view is of in the end, and the stages from there to the view.
    pub fn resolved_view(
        &self,
        database: &str,
        view: &View,
    ) -> Result<(Namespace, Vec<shardlake_mql::Value>)> {
        let meta = self.database_meta(database)?;
        let (mut on, mut stages) = (view.on.clone(), view.pipeline.clone());
        for _ in 0..VIEW_DEPTH_MAX {
            match meta.view(&on) {
                None => return Ok((Namespace::new(database, on), stages)),
                Some(next) => {
                    stages = next.pipeline.iter().cloned().chain(stages).collect();
                    on = next.on.clone();
                }
            }
        }
        Err(Failure::new(165, format!("View depth too deep: views over views end at {VIEW_DEPTH_MAX}")))
    }

    /// Refuses a write of a transaction to a capped collection.
    fn check_in_transaction(&self, collection: &Collection) -> Result<()> {
        if self.transaction.is_some() && collection.meta.is_capped() {
            let words = format!(
                "Collection '{}' is a capped collection. Writes in transactions are not allowed on capped collections.",
                collection.namespace
            );
            return Err(Failure::new(IN_TRANSACTION, words));
        }
        Ok(())
    }

    /// The collection for a write; error 166 for a view or a global secondary index.
    pub(crate) fn writable(&self, namespace: &Namespace) -> Result<Option<Collection>> {
        match self.find_name(namespace)? {
            Found::View(_) => {
                Err(Failure::new(166, format!("Namespace {namespace} is a view, not a collection")))
            }
            Found::Collection(collection) => {
                self.check_in_transaction(&collection)?;
                collection.handle.entry.check_takes_writes()?;
                Ok(Some(collection))
            }
            Found::Nothing => Ok(None),
        }
    }
}
