//! Dead letters: a document for each change that a function could not handle, for people to act on.
//!
//! Its id is made of the function and the item, so that another failure of the item replaces the document. The document has
//! no body of the item.

use std::hash::Hasher;

use serde_json::{Value as Json, json};
use shardlake_document::{ItemName, partition_key_text};
use shardlake_items::{ItemRead, ReadCommand, WriteCommand, item_of_json};
use shardlake_model::{
    ContainerDefinition, ErrorKind, KeyComponent, PartitionKey, PartitionKeyDefinition, Preconditions, Result,
};
use shardlake_router::ContainerHandle;
use xxhash_rust::xxh3::Xxh3;

use crate::at_work::FunctionAtWork;
use crate::batch::Given;
use crate::recent::LETTERS_MAX;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Letter<'a> {
    pub change: &'a Given,
    pub reason: &'a str,
    pub attempts: u32,
}

impl Letter<'_> {
    fn id(&self, at: &FunctionAtWork<'_>) -> String {
        let mut hasher = Xxh3::new();
        for text in [partition_key_text(&self.change.logical.partition_key).as_str(), &self.change.id] {
            hasher.write_usize(text.len());
            hasher.write(text.as_bytes());
        }
        format!("{}-{:016x}", at.record.definition.id, hasher.finish())
    }

    fn document(&self, at: &FunctionAtWork<'_>, first: u64, now: u64) -> Json {
        let source = &at.record.definition.source;
        let key = partition_key_text(&self.change.logical.partition_key);
        json!({
            "id": self.id(at),
            "copy": at.record.definition.id,
            "kind": "function",
            "reason": self.reason,
            "attempts": self.attempts,
            "first": first,
            "time": now,
            "version": at.record.version,
            "source": {
                "database": source.database,
                "container": source.container,
                "id": self.change.id,
                "partitionKey": serde_json::from_str::<Json>(&key).unwrap_or_default(),
                "lsn": self.change.lsn,
                "operation": self.change.operation,
            },
        })
    }
}

/// Stores a letter. May be repeated.
pub(crate) async fn send(at: &FunctionAtWork<'_>, letter: Letter<'_>) -> Result<()> {
    let container = container(at).await?;
    let now = at.serving().clock().now();
    let known = first_of(at, &container, letter.id(at)).await?;
    let document = letter.document(at, known.unwrap_or(now.seconds()), now.seconds()).to_string();
    let command = WriteCommand::upsert(item_of_json(document.as_bytes(), at.serving().limits())?);
    at.functions.0.queries.items().write_item(&at.context(), &container, command).await?;
    let is_too_many = {
        let mut live = at.entry.status.live();
        live.checkpoint.counts.dead_letters += 1;
        known.is_none() && live.recent.note(now.milliseconds())
    };
    tracing::warn!(
        function = at.record.definition.id,
        item = letter.change.id,
        reason = letter.reason,
        "a function could not handle a change; see the dead letters"
    );
    if is_too_many {
        let reason = format!(
            "more than {LETTERS_MAX} dead letters within 10 minutes: mend the function, put it again, and resume it"
        );
        at.functions.pause_for(at.record.number, reason).await?;
    }
    Ok(())
}

/// When the letter was first stored.
async fn first_of(at: &FunctionAtWork<'_>, container: &ContainerHandle, id: String) -> Result<Option<u64>> {
    let key = PartitionKey::single(KeyComponent::String(at.record.definition.id.clone()));
    let read = ItemRead { item: ItemName::Id(id.into()), preconditions: Preconditions::default() };
    let command = ReadCommand { key: Some(key), read };
    let reply = match at.functions.0.queries.items().read(&at.context(), container, command).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        reply => reply?,
    };
    let Some(stored) = reply.item else { return Ok(None) };
    let mut text = Vec::new();
    stored.write_json(&mut text);
    let document: Json = serde_json::from_slice(&text).unwrap_or_default();
    Ok(Some(document["first"].as_u64().unwrap_or_default()))
}

/// Created when it is missing.
async fn container(at: &FunctionAtWork<'_>) -> Result<ContainerHandle> {
    let (database, name) = (&at.record.definition.source.database, &at.record.definition.dead_letters);
    match at.serving().container_for_items(database, name) {
        Err(error) if error.kind() == ErrorKind::OwnerNotFound => {}
        found => return found,
    }
    let definition = ContainerDefinition::new(name, PartitionKeyDefinition::hash("/copy"));
    match at.functions.0.resources.create_container(&at.context(), database, definition, None).await {
        // Another function was faster.
        Err(error) if error.kind() == ErrorKind::Conflict => at.serving().container_for_items(database, name),
        created => created,
    }
}
