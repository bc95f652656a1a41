//! Change of one document as one step: matched again, updated and checked against the stored version under the write's
//! lock.

use std::sync::{Arc, Mutex, PoisonError};

use shardlake_document::{Body, ItemName};
use shardlake_items::{ItemRead, ItemWrite, ReadCommand, WriteCommand};
use shardlake_model::{Error, ErrorKind, PartitionKey, Preconditions};
use shardlake_mql::{Document, Env, Filter, Matched, Update};
use shardlake_partition::{
    Changed, CommitNote, CommitOptions, ItemChange, Outcome, StatementRow, StoredItem,
};

use crate::collections::{Collection, Collections};
use crate::duplicates::duplicate_of;
use crate::effect::{Done, Effect, Numbered};
use crate::failure::{Failure, Result};
use crate::request::Request;
use crate::stored::{body_of, document_of};

/// The intended change of a document.
#[derive(Debug, Clone)]
pub(crate) enum Intent {
    Update(Arc<Update>),
    Remove,
    /// Stored if no document has the identity.
    Insert(Document),
    /// Written unchanged.
    Rewrite,
}

/// A change of one document, and the result of its latest planning.
#[derive(Debug)]
struct DocumentChange {
    collection: Collection,
    key: PartitionKey,
    filter: Filter,
    intent: Intent,
    env: Env,
    checks: bool,
    numbered: Option<Numbered>,
    came_to: Mutex<CameTo>,
}

#[derive(Debug, Default)]
struct CameTo {
    failure: Option<Failure>,
    effect: Option<Effect>,
    /// The document to be stored, for the message of a duplicate key error.
    written: Document,
}

impl ItemChange for DocumentChange {
    fn change(&self, existing: Option<&StoredItem>) -> shardlake_model::Result<Changed> {
        let mut came_to = self.came_to.lock().unwrap_or_else(PoisonError::into_inner);
        *came_to = CameTo::default();
        self.changed(existing, &mut came_to).map_err(|failure| {
            let error = Error::bad_request(failure.message.clone());
            came_to.failure = Some(failure);
            error
        })
    }
}

impl CommitNote for DocumentChange {
    fn row(&self) -> Option<StatementRow> {
        let numbered = self.numbered.as_ref()?;
        let came_to = self.came_to.lock().unwrap_or_else(PoisonError::into_inner);
        numbered.row(&Done::of(came_to.effect.clone()?))
    }
}

impl DocumentChange {
    /// `None` for the effect if no document matches the filter.
    fn changed(&self, existing: Option<&StoredItem>, came_to: &mut CameTo) -> Result<Changed> {
        let old = existing.map(|item| document_of(item.body().as_bytes())).transpose()?;
        let mut env = self.env.clone();
        if let Intent::Insert(document) = &self.intent {
            if old.is_some() {
                return Ok(Changed::Nothing);
            }
            let (body, _) = body_of(document)?;
            came_to.written = document.clone();
            came_to.effect = Some(Effect {
                before: None,
                after: Some(document.clone()),
                matched: Matched::default(),
                is_modified: true,
                upserted: Some(document.value("_id")),
            });
            return Ok(Changed::Put(body));
        }
        let Some(old) = old else { return Ok(Changed::Nothing) };
        if let (Intent::Rewrite, Some(item)) = (&self.intent, existing) {
            let body = Body::from_bson(item.body().as_bytes().to_vec());
            return Ok(Changed::Put(body.map_err(|error| Failure::new(2, error.to_string()))?));
        }
        let Some(matched) = self.filter.matched(&old, &mut env)? else { return Ok(Changed::Nothing) };
        let effect = |after, is_modified| {
            let before = Some(old.clone());
            Effect { before, after, matched, is_modified, upserted: None }
        };
        let Intent::Update(update) = &self.intent else {
            came_to.effect = Some(effect(None, true));
            return Ok(Changed::Removed);
        };
        let updated = update.apply(&old, matched, false, &mut env)?;
        if !updated.modified {
            came_to.effect = Some(effect(Some(updated.document), false));
            return Ok(Changed::Nothing);
        }
        let new = updated.document;
        if self.checks {
            self.collection.meta.check_change(&old, &new, &mut env)?;
        }
        self.collection.meta.check_places(&new)?;
        self.check_key(&new)?;
        let (body, _) = body_of(&new)?;
        self.collection.meta.check_arrays(&new, body.raw())?;
        came_to.written = new.clone();
        came_to.effect = Some(effect(Some(new), true));
        Ok(if update.is_replacement() { Changed::Put(body) } else { Changed::Altered(body) })
    }

    fn check_key(&self, new: &Document) -> Result<()> {
        let shard_key = &self.collection.shard_key;
        if shard_key.is_sharded() && !shard_key.of_stored(new).same(&self.key) {
            let paths = shard_key.paths().join(", ");
            let words = format!(
                "the update would change the shard key '{paths}', which is immutable: delete the document and insert it anew"
            );
            return Err(Failure::new(66, words));
        }
        Ok(())
    }
}

/// A document by its place.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    pub key: PartitionKey,
    pub id: String,
}

impl Collection {
    pub(crate) fn name_of(&self, document: &Document) -> Result<Name> {
        let id = crate::identity::text_of(&document.value("_id"))?;
        Ok(Name { key: self.shard_key.of_stored(document), id })
    }
}

impl Collections {
    /// `None` if no document matches the filter; for an insert, if the document exists already.
    pub(crate) async fn change(
        &self,
        request: &Request,
        collection: &Collection,
        name: Name,
        (filter, intent, numbered): (&Filter, Intent, Option<&Numbered>),
        env: &Env,
        checks: bool,
    ) -> Result<Option<Effect>> {
        if !matches!(intent, Intent::Insert(_))
            && !self.is_meant(request, collection, &name, filter, env).await?
        {
            return Ok(None);
        }
        let change = Arc::new(DocumentChange {
            collection: collection.clone(),
            key: name.key.clone(),
            filter: filter.clone(),
            intent,
            env: env.clone(),
            checks,
            numbered: numbered.cloned(),
            came_to: Mutex::default(),
        });
        let write = ItemWrite::Change { item: ItemName::from(name.id.as_str()), change: change.clone() };
        let note = numbered.is_some().then(|| change.clone() as Arc<dyn CommitNote>);
        let commit = CommitOptions { note, ..self.commit_options() };
        let command = WriteCommand { key: Some(name.key.clone()), write, commit };
        let reply = match &self.transaction {
            Some(transaction) => {
                self.queries
                    .items()
                    .write_within(&request.ctx, &collection.handle, transaction, command)
                    .await
            }
            None => self.queries.items().write_item(&request.ctx, &collection.handle, command).await,
        };
        let came_to = std::mem::take(&mut *change.came_to.lock().unwrap_or_else(PoisonError::into_inner));
        match reply {
            Ok(reply) => {
                request.charge(reply.meta.charge_centi);
                debug_assert!(
                    reply.outcome != Outcome::Deleted || came_to.effect.is_some(),
                    "deleted what matched"
                );
                let modified = came_to.effect.as_ref().filter(|effect| effect.is_modified);
                if let (Some(own), Some(effect)) = (&self.own, modified) {
                    own.note(collection.container(), (name.key, name.id), effect.after.clone());
                }
                Ok(came_to.effect)
            }
            Err(error) => {
                request.charge(error.meta().charge_centi);
                Err(match (came_to.failure, error.kind()) {
                    (Some(failure), _) => failure.of_document(),
                    (None, ErrorKind::Conflict) => {
                        duplicate_of(collection, &error, &came_to.written).of_document()
                    }
                    (None, _) => self.failed(error),
                })
            }
        }
    }

    /// Whether a document may match a statement's filter. A transaction checks this before it writes: it may skip a
    /// document that it does not see or that does not match, whatever other clients write to it.
    async fn is_meant(
        &self,
        request: &Request,
        collection: &Collection,
        name: &Name,
        filter: &Filter,
        env: &Env,
    ) -> Result<bool> {
        let Some(transaction) = &self.transaction else { return Ok(true) };
        let read =
            ItemRead { item: ItemName::from(name.id.as_str()), preconditions: Preconditions::default() };
        let command = ReadCommand { key: Some(name.key.clone()), read };
        let reply =
            self.queries.items().read_within(&request.ctx, &collection.handle, transaction, command).await;
        let item = match reply {
            Ok(reply) => reply.item,
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(self.failed(error)),
        };
        let Some(item) = item else { return Ok(false) };
        let document = document_of(item.body().as_bytes())?;
        Ok(filter.matched(&document, &mut env.clone())?.is_some())
    }
}
