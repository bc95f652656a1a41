//! Databases, collections and views: made, listed, renamed, changed and dropped.

use shardlake_definitions::{Keeping, Redefined};
use shardlake_model::{
    ChangeFeedPolicy, Container, ContainerDefinition, Database, ErrorKind, PartitionKeyDefinition,
    Preconditions, Throughput,
};
use shardlake_mql::kept_collation;
use shardlake_mql::write::{ShardKey, UNSHARDED_PATH};
use shardlake_mql::{Document, Value};
use shardlake_stdx::Timestamp;

use crate::collated::{PROPERTIES_MAX, is_property, properties_of};
use crate::collections::{Collection, Collections, Found, Namespace};
use crate::failure::{Failure, Result};
use crate::index_policy::{Uniqueness, add_paths, default_ttl_of, policy_of, uniqueness_of};
use crate::meta::{DatabaseMeta, Meta, Rename, View};
use crate::request::Request;

/// Options of a new collection.
#[derive(Debug, Clone, Default)]
pub struct Creation {
    /// As `listCollections` shows them.
    pub options: Document,
    /// Fields and how they are spread; none for a collection that is not sharded.
    pub shard_key: Option<Document>,
    pub throughput: Option<Throughput>,
    /// For the command's own use, deleted at its end.
    pub is_temporary: bool,
}

/// A collection or a view, as it is listed.
#[derive(Debug, Clone)]
pub struct Listed {
    pub name: String,
    pub view: Option<View>,
    pub collection: Option<Collection>,
}

impl Collection {
    /// The UUID of a collection, constant for the life of its container.
    pub fn uuid(&self) -> [u8; 16] {
        let rid = self.handle.container().rid;
        let mut uuid = [0; 16];
        uuid[..4].copy_from_slice(&rid.database.0.to_be_bytes());
        uuid[4..6].copy_from_slice(&(rid.number >> 16).to_be_bytes()[2..]);
        uuid[10..12].copy_from_slice(&(rid.number & 0xFFFF).to_be_bytes()[2..]);
        let seconds = self.handle.container().timestamp.to_be_bytes();
        uuid[12..].copy_from_slice(&seconds[4..]);
        // Version 4, variant 1.
        uuid[6] = 0x40;
        uuid[8] = 0x80;
        uuid
    }

    pub fn is_sharded(&self) -> bool {
        self.shard_key().is_sharded()
    }

    pub fn items(&self) -> u64 {
        self.handle.usage().items
    }
}

impl Collections {
    pub async fn create_database(&self, request: &Request, database: &str) -> Result<()> {
        match self.resources.create_database(&request.ctx, database, None).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// All databases. The caller refuses a new name that differs from an existing one by case only.
    pub fn databases(&self) -> Vec<std::sync::Arc<Database>> {
        self.resources.router().databases()
    }

    /// Makes a collection and, where there is none, its database. Error 48 where there is one of the name.
    pub async fn create(
        &self,
        request: &Request,
        namespace: &Namespace,
        creation: Creation,
    ) -> Result<Collection> {
        if !matches!(self.find_name(namespace)?, Found::Nothing) {
            return Err(exists(namespace));
        }
        self.create_database(request, &namespace.database).await?;
        let meta = Meta {
            is_open: true,
            is_own: true,
            collation: kept_collation(&creation.options)?,
            options: creation.options,
            shard_key: creation.shard_key.clone(),
            is_temporary: creation.is_temporary,
            ..Meta::default()
        };
        let partition_key = partition_key_of(creation.shard_key.as_ref());
        let mut definition = ContainerDefinition::new(&namespace.container_id(), partition_key);
        set_properties(&meta, &mut definition)?;
        definition.indexing_policy = policy_of(&meta, &definition);
        definition.change_feed_policy = Some(policy_of_versions(&meta));
        let unique = uniqueness_of(&meta)?;
        definition.unique_key_policy.unique_keys = unique.keys;
        let made = self
            .resources
            .create_container_keeping(
                &request.ctx,
                &namespace.database,
                definition,
                creation.throughput,
                Some(Keeping { kept: meta.encoded(), bounds: meta.bounds(), narrowings: unique.narrowings }),
            )
            .await;
        match made {
            Ok(handle) => self.of_handle(namespace, handle),
            Err(error) if error.kind() == ErrorKind::Conflict => Err(exists(namespace)),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the collection for a write, like the command `create`.
    pub(crate) async fn create_implicitly(
        &self,
        request: &Request,
        namespace: &Namespace,
    ) -> Result<Collection> {
        match self.create(request, namespace, Creation::default()).await {
            Err(failure) if failure.code == NAMESPACE_EXISTS => {
                let made = self.writable(namespace)?;
                made.ok_or_else(|| Failure::new(NAMESPACE_NOT_FOUND, format!("ns not found: {namespace}")))
            }
            Ok(made) => {
                request.note_creation(namespace);
                Ok(made)
            }
            other => other,
        }
    }

    /// A container that another front end made is opened to this one before it is written to.
    pub(crate) async fn opened(&self, request: &Request, collection: Collection) -> Result<Collection> {
        if collection.meta.is_open {
            return Ok(collection);
        }
        self.redefine(request, &collection, |meta, _| {
            meta.is_open = true;
            Ok(())
        })
        .await
    }

    /// Changes the metadata of a collection, and the parts of its definition that follow from the metadata.
    pub async fn redefine(
        &self,
        request: &Request,
        collection: &Collection,
        change: impl Fn(&mut Meta, &mut ContainerDefinition) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Collection> {
        let namespace = &collection.namespace;
        let told = std::sync::Arc::new(std::sync::Mutex::new(None));
        let tell = told.clone();
        let redefined = move |container: &Container| {
            let changed = || -> Result<Redefined> {
                let mut meta = Meta::of(container)?;
                let mut definition = container.definition.clone();
                change(&mut meta, &mut definition)?;
                let unique = if meta.is_own { uniqueness_of(&meta)? } else { Uniqueness::default() };
                if meta.is_own {
                    definition.unique_key_policy.unique_keys = unique.keys;
                }
                let narrowings = unique.narrowings;
                let bounds = meta.bounds();
                Ok(Redefined { definition, kept: Some(meta.encoded()), narrowings, bounds })
            };
            changed().map_err(|failure| {
                let message = failure.message.clone();
                *tell.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(failure);
                shardlake_model::Error::bad_request(message)
            })
        };
        let outcome = self
            .resources
            .redefine_container(&request.ctx, &namespace.database, &namespace.container_id(), redefined)
            .await;
        let failure = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        match (outcome, failure) {
            (Ok(handle), _) => self.of_handle(namespace, handle),
            (Err(_), Some(failure)) => Err(failure),
            (Err(error), None) => Err(error.into()),
        }
    }

    /// Sets indexes, and the policy and unique keys that follow from them.
    pub(crate) async fn set_indexes(
        &self,
        request: &Request,
        collection: &Collection,
        change: impl Fn(&mut Meta) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Collection> {
        self.redefine(request, collection, move |meta, definition| {
            meta.is_open = true;
            let before = default_ttl_of(meta);
            change(meta)?;
            meta.forget_gone();
            if meta.is_own {
                set_properties(meta, definition)?;
            }
            let policy = policy_of(meta, definition);
            if meta.is_own {
                definition.indexing_policy = policy;
            } else {
                // Paths that another front end has asked for stay.
                add_paths(&mut definition.indexing_policy, policy);
            }
            let after = default_ttl_of(meta);
            if before != after {
                definition.default_ttl = after;
            }
            Ok(())
        })
        .await
    }

    pub async fn create_view(&self, request: &Request, database: &str, view: View) -> Result<()> {
        let namespace = Namespace::new(database, &*view.name);
        if !matches!(self.find_name(&namespace)?, Found::Nothing) {
            return Err(exists(&namespace));
        }
        self.create_database(request, database).await?;
        self.change_database(database, move |meta| meta.views.push(view.clone())).await
    }

    /// Gives a view another definition.
    pub async fn replace_view(&self, database: &str, view: View) -> Result<()> {
        self.change_database(database, move |meta| {
            meta.views.retain(|known| known.name != view.name);
            meta.views.push(view.clone());
        })
        .await
    }

    /// Changes the metadata of a database.
    pub async fn change_database(
        &self,
        database: &str,
        change: impl Fn(&mut DatabaseMeta) + Send + 'static,
    ) -> Result<()> {
        let kept = move |database: &Database| {
            let mut meta = DatabaseMeta::of(database)
                .map_err(|failure| shardlake_model::Error::new(ErrorKind::Corrupt, failure.message))?;
            change(&mut meta);
            Ok(meta.encoded())
        };
        Ok(self.resources.keep_with_database(database, kept).await?)
    }

    /// Collections and views, by name.
    pub fn list(&self, database: &str) -> Result<Vec<Listed>> {
        let mut listed = Vec::new();
        match self.resources.router().containers(database) {
            Ok(handles) => {
                for handle in handles {
                    let namespace = Namespace::of_container(database, &handle.container().definition.id);
                    let name = namespace.collection.to_string();
                    let collection = Some(self.of_handle(&namespace, handle)?);
                    listed.push(Listed { name, view: None, collection });
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::OwnerNotFound | ErrorKind::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
        for view in self.database_meta(database)?.views {
            listed.push(Listed { name: view.name.clone(), view: Some(view), collection: None });
        }
        listed.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(listed)
    }

    /// Drops a collection or a view; `None` if there is neither.
    pub async fn drop(&self, request: &Request, namespace: &Namespace) -> Result<Option<Collection>> {
        match self.find_name(namespace)? {
            Found::Nothing => Ok(None),
            Found::View(view) => {
                let name = view.name;
                self.change_database(&namespace.database, move |meta| {
                    meta.views.retain(|known| known.name != name);
                })
                .await?;
                Ok(None)
            }
            Found::Collection(collection) => {
                let (database, id) = (&namespace.database, namespace.container_id());
                let anything = Preconditions::default();
                let dropped = self.resources.delete_container(&request.ctx, database, &id, &anything).await;
                match dropped {
                    Ok(()) => Ok(Some(collection)),
                    Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::OwnerNotFound) => {
                        Ok(None)
                    }
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    /// Drops a database; returns whether it existed.
    pub async fn drop_database(&self, request: &Request, database: &str) -> Result<bool> {
        let anything = Preconditions::default();
        match self.resources.delete_database(&request.ctx, database, &anything).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Within one database.
    pub async fn rename(&self, from: &Namespace, to: &Namespace, drops_target: bool) -> Result<()> {
        match self.find_name(from)? {
            Found::Nothing => {
                return Err(Failure::new(
                    NAMESPACE_NOT_FOUND,
                    format!("Source collection {from} does not exist"),
                ));
            }
            Found::View(_) => {
                return Err(Failure::new(166, format!("cannot rename view: {from}")));
            }
            Found::Collection(_) => {}
        }
        if from == to {
            return Err(Failure::new(20, "Can't rename a collection to itself"));
        }
        if from.database != to.database {
            return Err(Failure::new(
                20,
                "renameCollection between databases is not supported: copy the documents with $out or $merge",
            ));
        }
        match self.find_name(to)? {
            Found::View(_) => {
                return Err(Failure::new(48, format!("a view already exists with the name {to}")));
            }
            Found::Collection(_) if !drops_target => {
                return Err(Failure::new(NAMESPACE_EXISTS, "target namespace exists"));
            }
            _ => {}
        }
        let (times, names) =
            (self.queries.router().times().clone(), (from.collection.clone(), to.collection.clone()));
        let last = self.last_time(from).await?;
        let kept = move |container: &Container| {
            // Metadata would open a container of another front end.
            let Some(kept) = &container.kept else { return Ok(None) };
            let Ok(mut meta) = Meta::of(container) else { return Ok(Some(kept.clone())) };
            let (from, to) = names;
            let last_ms = meta.renames.last().map_or(0, |rename| rename.at_ms);
            let at_ms = times.between(last.max(Timestamp(last_ms))).milliseconds();
            meta.note_rename(Rename { at_ms, from: from.to_string(), to: to.to_string() });
            meta.is_temporary = false;
            Ok(Some(meta.encoded()))
        };
        let renamed = self
            .resources
            .rename_container(&from.database, &from.container_id(), &to.container_id(), (drops_target, kept))
            .await;
        renamed.map_err(|error| match error.kind() {
            ErrorKind::Conflict => Failure::new(NAMESPACE_EXISTS, "target namespace exists"),
            _ => error.into(),
        })?;
        self.pass_rename(to).await
    }

    /// The time of the last commit in a collection, whichever of its partitions has it.
    async fn last_time(&self, namespace: &Namespace) -> Result<Timestamp> {
        let mut last = Timestamp::default();
        if let Some(collection) = self.collection(namespace)? {
            for partition in collection.handle.entry.map.iter() {
                last = last.max(partition.hosted().partition().last_time().await);
            }
        }
        Ok(last)
    }

    /// Passes the time of the last rename in each partition: changes planned before the rename are queued, and later
    /// changes have no earlier time, even where a partition's log is ahead of the clock.
    async fn pass_rename(&self, namespace: &Namespace) -> Result<()> {
        let Some(collection) = self.collection(namespace)? else { return Ok(()) };
        let Some(rename) = collection.meta.renames.last() else { return Ok(()) };
        for partition in collection.handle.entry.map.iter() {
            partition.hosted().partition().pass(Timestamp(rename.at_ms)).await;
        }
        Ok(())
    }
}

/// Default retention of versions: a change stream can be resumed this far back.
const VERSIONS_MINUTES: i64 = 60;

/// Retention of versions: as long as the collection keeps its images.
pub fn policy_of_versions(meta: &Meta) -> ChangeFeedPolicy {
    let images = meta.options.get("changeStreamPreAndPostImages").and_then(Value::as_document);
    let seconds = images.and_then(|images| images.get("expireAfterSeconds")).and_then(Value::to_f64);
    let minutes = seconds.map_or(VERSIONS_MINUTES, |seconds| (seconds / 60.0).ceil().max(1.0) as i64);
    ChangeFeedPolicy { retention_duration: minutes }
}

pub const NAMESPACE_NOT_FOUND: i32 = 26;
pub const NAMESPACE_EXISTS: i32 = 48;

/// Gives a container the computed properties that hold sort keys; others stay.
fn set_properties(meta: &Meta, definition: &mut ContainerDefinition) -> Result<()> {
    let wanted = properties_of(&meta.collation, &meta.indexes)?;
    let mut properties = definition.computed_properties.take().unwrap_or_default();
    properties.retain(|property| !is_property(&property.name));
    let room = PROPERTIES_MAX.saturating_sub(properties.len());
    properties.extend(wanted.into_iter().take(room));
    definition.computed_properties = (!properties.is_empty()).then_some(properties);
    // A computed property of another API's client may have a name that an index needs.
    shardlake_partition::validate_computed_properties(definition).map_err(|error| {
        Failure::new(67, format!("the container's computed properties rule out the index: {error}"))
    })
}

fn exists(namespace: &Namespace) -> Failure {
    Failure::new(NAMESPACE_EXISTS, format!("Collection {namespace} already exists."))
}

/// Without a shard key all documents are one logical partition.
fn partition_key_of(shard_key: Option<&Document>) -> PartitionKeyDefinition {
    match shard_key {
        None => {
            let mut definition = PartitionKeyDefinition::hash(&format!("/{UNSHARDED_PATH}"));
            definition.system_key = Some(true);
            definition
        }
        Some(pattern) => {
            let paths = ShardKey::stored_paths(pattern.iter().map(|(name, _)| name));
            match &paths[..] {
                [path] => PartitionKeyDefinition::hash(path),
                paths => {
                    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
                    PartitionKeyDefinition::multi_hash(&paths)
                }
            }
        }
    }
}
