//! Capped collections: of bounded size, with the newest documents in the order of their insertion.
//!
//! The options state the size of a collection as clients see it. The bounds that follow from the options are kept with
//! the container, and the partition enforces them at every write, whichever front end it comes from. So a collection is
//! converted in place: once its definition has changed, each insert removes the oldest documents. Documents beyond the
//! bounds at that time are removed before the command ends, or before the next start serves clients.

use std::sync::Arc;
use std::time::Duration;

use shardlake_model::{Bounds, ContainerDefinition, RequestContext};
use shardlake_mql::write::document_of;
use shardlake_mql::{Document, Value};
use shardlake_partition::InsertionPosition;

use crate::catalog::{Creation, NAMESPACE_EXISTS, NAMESPACE_NOT_FOUND};
use crate::collections::{Collection, Collections, Found, Namespace};
use crate::failure::{Failure, Result};
use crate::meta::{BESIDE, Meta, flag};
use crate::request::Request;
use crate::temporary::guarded;

/// Sizes are multiples of this one.
const SIZE_STEP: i64 = 256;
const SIZE_MIN: i64 = 4096;
/// Each commit that removes documents waits for so long where a script holds the collection.
const PATIENCE: Duration = Duration::from_secs(60);
const ILLEGAL_OPERATION: i32 = 20;

impl Meta {
    pub fn is_capped(&self) -> bool {
        flag(&self.options, "capped")
    }

    /// Size limit of all documents together, and of each of them.
    pub fn capped_size(&self) -> Option<u64> {
        self.bounds().map(|bounds| bounds.size_bytes_max)
    }

    /// How many documents a capped collection has at most, where that is bounded.
    pub fn capped_max(&self) -> Option<u64> {
        self.bounds().and_then(|bounds| bounds.items_max)
    }

    /// The bounds that the options set for the engine.
    pub(crate) fn bounds(&self) -> Option<Bounds> {
        let number = |name: &str| self.options.get(name).and_then(Value::to_i64_exact);
        let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
        let size_bytes_max = number("size").filter(|_| self.is_capped()).and_then(positive)?;
        Some(Bounds { size_bytes_max, items_max: number("max").and_then(positive) })
    }
}

/// Options of a capped collection of such a size, as `listCollections` shows them. `max` is left out if any number is
/// allowed.
pub fn capped_options(size: i64, max: Option<i64>) -> Document {
    let mut options = Document::one("capped", Value::Bool(true));
    options.push("size", whole(rounded(size)));
    if let Some(max) = max.filter(|max| *max > 0) {
        options.push("max", whole(max));
    }
    options
}

/// The size that a collection gets where another one is asked for.
fn rounded(size: i64) -> i64 {
    let steps = size.max(SIZE_MIN).saturating_add(SIZE_STEP - 1) / SIZE_STEP;
    let rounded = steps.saturating_mul(SIZE_STEP);
    debug_assert!(rounded >= SIZE_MIN && rounded % SIZE_STEP == 0, "a size is whole steps");
    rounded
}

fn whole(number: i64) -> Value {
    i32::try_from(number).map_or(Value::Long(number), Value::Int)
}

/// Changes of bounds by `collMod`.
#[derive(Debug, Clone, Copy, Default)]
pub struct CappedChange {
    pub size: Option<i64>,
    /// 0 for any number.
    pub max: Option<i64>,
}

/// Makes a collection capped: it keeps its newest documents of such a size, its indexes and its options. Ends when it is
/// within the size.
pub async fn convert_to_capped(
    collections: &Collections,
    request: &Arc<Request>,
    namespace: &Namespace,
    size: i64,
) -> Result<()> {
    let collection = cappable(collections, namespace)?;
    let collection = collections.opened(request, collection).await?;
    let options = capped_options(size, None);
    redefine_capped(collections, request, &collection, move |meta| {
        meta.options.remove("max");
        options.iter().for_each(|(name, value)| meta.options.set(name, value.clone()));
        Ok(())
    })
    .await
}

/// Changes the bounds of a capped collection.
pub async fn change_capped(
    collections: &Collections,
    request: &Arc<Request>,
    collection: &Collection,
    change: CappedChange,
) -> Result<()> {
    redefine_capped(collections, request, collection, move |meta| {
        if !meta.is_capped() {
            return Err(Failure::new(72, "Collection must be capped."));
        }
        if let Some(size) = change.size {
            meta.options.set(&"size".into(), whole(rounded(size)));
        }
        match change.max {
            Some(max) if max > 0 => meta.options.set(&"max".into(), whole(max)),
            Some(_) => drop(meta.options.remove("max")),
            None => {}
        }
        Ok(())
    })
    .await
}

/// Changes bounds and removes documents beyond them, even if the client disconnects.
async fn redefine_capped(
    collections: &Collections,
    request: &Arc<Request>,
    collection: &Collection,
    change: impl Fn(&mut Meta) -> Result<()> + Send + Sync + 'static,
) -> Result<()> {
    let (collections, request, collection) = (collections.clone(), request.clone(), collection.clone());
    guarded(|_| async move {
        let change = move |meta: &mut Meta, _: &mut ContainerDefinition| change(meta);
        let changed = collections.redefine(&request, &collection, change).await?;
        trim(&collections, &changed).await
    })
    .await
}

/// Removes the oldest documents of a capped collection until it is within its bounds.
async fn trim(collections: &Collections, collection: &Collection) -> Result<()> {
    let key = collection.shard_key().of_stored(&Document::new());
    let context = RequestContext::internal(
        collections.queries.router().clock(),
        collections.queries.router().random().guid(),
    );
    Ok(shardlake_items::trim(collections.queries.items(), &context, &collection.handle, &key, PATIENCE)
        .await?)
}

/// Brings all capped collections within their bounds. For a start, before any client is served: a command that changed the
/// bounds may have been interrupted.
pub(crate) async fn trim_all(collections: &Collections) -> Result<()> {
    for database in collections.databases() {
        let listed = collections.list(&database.id)?.into_iter().filter_map(|listed| listed.collection);
        for collection in listed.filter(|collection| collection.meta.is_capped()) {
            trim(collections, &collection).await?;
        }
    }
    Ok(())
}

/// Copies the newest documents of a collection into a new capped one. A client that sees the copy sees all of it.
pub async fn clone_as_capped(
    collections: &Collections,
    request: &Arc<Request>,
    from: &Namespace,
    to: &Namespace,
    size: i64,
) -> Result<()> {
    let source = cappable(collections, from)?;
    if !matches!(collections.find_name(to)?, Found::Nothing) {
        let words = format!("cloneCollectionAsCapped failed - destination collection {to} already exists");
        return Err(Failure::new(NAMESPACE_EXISTS, words));
    }
    let (collections, request, to) = (collections.clone(), request.clone(), to.clone());
    guarded(move |interruption| async move {
        let beside = format!("{BESIDE}{}", collections.queries.router().random().guid());
        let beside = Namespace::new(&*to.database, beside);
        let mut options = source.meta.options.clone();
        options.remove("max");
        capped_options(size, None).iter().for_each(|(name, value)| options.set(name, value.clone()));
        let creation = Creation { options, is_temporary: true, ..Creation::default() };
        let made = collections.create(&request, &beside, creation).await?;
        let filling = Box::pin(copy_in_order(&collections, &request, &source, &beside));
        let outcome = match interruption.or(filling).await {
            Ok(()) => collections.rename(&beside, &to, false).await,
            Err(failure) => Err(failure),
        };
        if outcome.is_err()
            && let Err(failure) = collections.drop_temporary(made.container()).await
        {
            tracing::warn!(?failure, collection = %beside, "a temporary collection stays until the next start");
        }
        outcome
    })
    .await
}

async fn copy_in_order(
    collections: &Collections,
    request: &Request,
    from: &Collection,
    to: &Namespace,
) -> Result<()> {
    let mut position = InsertionPosition::default();
    loop {
        let page = collections.in_order_of_insertion(request, from, position, None).await?;
        let documents = page.items.iter().map(|item| document_of(item.body().as_bytes()).map(Arc::new));
        let documents = documents.collect::<Result<Vec<_>, _>>()?;
        let inserted = collections.insert(request, to, documents, (true, false), None).await?;
        if let Some((_, failure)) = inserted.failures.into_iter().next() {
            return Err(failure);
        }
        if page.is_last {
            return Ok(());
        }
        position.after = page.last;
    }
}

/// A collection that can be capped, or copied into a capped one.
fn cappable(collections: &Collections, namespace: &Namespace) -> Result<Collection> {
    match collections.find_name(namespace)? {
        Found::Nothing => {
            let words = format!("source collection {namespace} does not exist");
            Err(Failure::new(NAMESPACE_NOT_FOUND, words))
        }
        Found::View(_) => {
            Err(Failure::new(166, format!("Namespace {namespace} is a view, not a collection")))
        }
        Found::Collection(collection) if collection.is_sharded() => Err(Failure::new(
            ILLEGAL_OPERATION,
            format!("{namespace} is sharded: a capped collection has no shard key"),
        )),
        Found::Collection(collection) => Ok(collection),
    }
}
