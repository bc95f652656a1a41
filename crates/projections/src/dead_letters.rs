//! Dead letters of a projection: a document for each target item that it could not correct, for people to act on.
//!
//! Its id is made of the rule and of both items, so that the same failure replaces the document rather than adding one.
//! The document stays after the failure is resolved: the person who handled it deletes it.

use std::hash::Hasher;

use serde_json::{Value as Json, json};
use shardlake_document::partition_key_text;
use shardlake_model::{ContainerDefinition, ErrorKind, PartitionKeyDefinition, Result};
use shardlake_partition::LogicalKey;
use xxhash_rust::xxh3::Xxh3;

use crate::Projections;
use crate::apply::{SourceValues, context};
use crate::records::ProjectionEntry;
use shardlake_items::{WriteCommand, item_of_json};
use shardlake_router::ContainerHandle;

pub(crate) struct DeadLetter<'a> {
    pub kind: ErrorKind,
    pub reason: &'a str,
    pub attempts: u32,
    /// `None` where it is not known which source item is meant.
    pub source: Option<&'a SourceValues>,
    pub target: (&'a LogicalKey, &'a str),
}

impl DeadLetter<'_> {
    fn id(&self, entry: &ProjectionEntry) -> String {
        let mut hasher = Xxh3::new();
        let mut add = |logical: &LogicalKey, id: &str| {
            for text in [partition_key_text(&logical.partition_key).as_str(), id] {
                hasher.write_usize(text.len());
                hasher.write(text.as_bytes());
            }
        };
        add(self.target.0, self.target.1);
        if let Some(source) = self.source {
            add(&source.logical, &source.id);
        }
        format!("{}-{:016x}", entry.id(), hasher.finish())
    }

    fn document(&self, entry: &ProjectionEntry, now_seconds: u64) -> Json {
        let rule = &entry.record.rule;
        let mut source = json!({ "database": rule.source.database, "container": rule.source.container });
        if let Some(item) = self.source {
            source["id"] = item.id.clone().into();
            source["partitionKey"] = key_of(&item.logical);
            if let Some(lsn) = item.lsn {
                source["lsn"] = lsn.into();
            }
        }
        json!({
            "id": self.id(entry),
            "projection": entry.id(),
            "reason": self.reason,
            "kind": format!("{:?}", self.kind),
            "attempts": self.attempts,
            "time": now_seconds,
            "source": source,
            "target": {
                "database": rule.target.database,
                "container": rule.target.container,
                "id": self.target.1,
                "partitionKey": key_of(self.target.0),
            },
        })
    }
}

/// As clients write a partition key.
fn key_of(logical: &LogicalKey) -> Json {
    serde_json::from_str(&partition_key_text(&logical.partition_key)).unwrap_or_default()
}

pub(crate) async fn send(
    projections: &Projections,
    entry: &ProjectionEntry,
    letter: DeadLetter<'_>,
) -> Result<()> {
    let container = container(projections, entry).await?;
    let context = context(projections);
    let document = letter.document(entry, context.now.seconds()).to_string();
    let command = WriteCommand::upsert(item_of_json(document.as_bytes(), projections.router().limits())?);
    projections.items().write_item(&context, &container, command).await?;
    entry.status.count(|counts| counts.dead_letters += 1);
    let rule = &entry.record.rule;
    tracing::warn!(
        projection = entry.id(),
        container = format!("{}/{}", rule.target.database, rule.target.container),
        item = letter.target.1,
        reason = letter.reason,
        "a copy could not be corrected; see the dead letters"
    );
    Ok(())
}

/// Created when it is missing.
async fn container(projections: &Projections, entry: &ProjectionEntry) -> Result<ContainerHandle> {
    let rule = &entry.record.rule;
    let (database, name) = (&rule.target.database, &rule.dead_letters);
    match projections.0.resources.router().container_for_items(database, name) {
        Err(error) if error.kind() == ErrorKind::OwnerNotFound => {}
        found => return found,
    }
    let definition = ContainerDefinition::new(name, PartitionKeyDefinition::hash("/projection"));
    match projections.0.resources.create_container(&context(projections), database, definition, None).await {
        // Another projection was faster.
        Err(error) if error.kind() == ErrorKind::Conflict => {
            projections.0.resources.router().container_for_items(database, name)
        }
        created => created,
    }
}
