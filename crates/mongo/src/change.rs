//! Changes of single documents, each as one step under its write lock.

use std::sync::Arc;

use shardlake_document::ItemName;
use shardlake_items::{ItemRead, ItemWrite, ReadCommand, WriteCommand};
use shardlake_model::{ErrorKind, PartitionKey, Preconditions};
use shardlake_mql::Document;
use shardlake_mql::write::{ChangeOutcome, DocumentChange, document_of, identity_text};
use shardlake_partition::{CommitOptions, Outcome};

use crate::collections::{Collection, Collections};
use crate::duplicates::duplicate;
use crate::effect::Numbered;
use crate::failure::{Failure, Result};
use crate::request::Request;

/// A document by its place.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    pub key: PartitionKey,
    pub id: String,
}

impl Collection {
    pub(crate) fn name_of(&self, document: &Document) -> Result<Name> {
        let id = identity_text(&document.value("_id"))?;
        Ok(Name { key: self.shard_key().of_stored(document), id })
    }
}

impl Collections {
    /// `None` if no document matches the filter; for an insert, if the document exists already.
    pub(crate) async fn change(
        &self,
        request: &Request,
        collection: &Collection,
        name: Name,
        change: &Arc<DocumentChange>,
        numbered: Option<&Numbered>,
    ) -> Result<Option<ChangeOutcome>> {
        if !change.inserts() && !self.is_meant(request, collection, &name, change).await? {
            return Ok(None);
        }
        let write = ItemWrite::Change { item: ItemName::from(name.id.as_str()), change: change.clone() };
        let commit = CommitOptions { note: numbered.map(Numbered::note), ..self.commit_options() };
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
        match reply {
            Ok(reply) => {
                request.charge(reply.meta.charge_centi);
                let outcome = reply.change.map(|outcome| *outcome);
                debug_assert!(reply.outcome != Outcome::Deleted || outcome.is_some(), "deleted what matched");
                let modified = outcome.as_ref().filter(|outcome| outcome.is_modified);
                if let (Some(own), Some(outcome)) = (&self.own, modified) {
                    own.note(collection.container(), (name.key, name.id), outcome.after.clone());
                }
                Ok(outcome)
            }
            Err(error) => {
                request.charge(error.meta().charge_centi);
                Err(match error.kind() {
                    _ if error.code().is_some() => Failure::from(error).of_document(),
                    ErrorKind::Conflict => duplicate(collection, &error, error.document()).of_document(),
                    _ => self.failed(error),
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
        change: &DocumentChange,
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
        Ok(change.filter().matched(&document, &mut change.env.clone())?.is_some())
    }
}
