//! Operations on stored procedures, triggers and user-defined functions as resources of a container.
//!
//! Scripts are records of the catalog and are in memory with their container, so that an operation that runs one finds its
//! text without a read, and keeps that text to its end whatever happens to the resource meanwhile. Nothing here runs a
//! script; a text that is not a function is refused when it arrives.

use std::sync::Arc;

use shardlake_catalog::Definitions;
use shardlake_model::{
    ContainerRid, Error, ErrorKind, Preconditions, RequestContext, Result, Script, ScriptDefinition,
    ScriptKind,
};

use crate::Resources;
use shardlake_router::ContainerEntry;
use shardlake_router::ContainerHandle;
use shardlake_router::LiveCatalog;
use shardlake_router::was_deleted;
use shardlake_router::{ScriptSegment, find_script};
use shardlake_router::{check_preconditions, conflict};

/// Whether an upsert replaced an existing script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptWrite {
    Created,
    Replaced,
}

/// Requirement of a write on the container's scripts at the time of the write.
enum Intent {
    Create,
    /// Preconditions apply to an existing script; there need not be one.
    Upsert(Preconditions),
    /// The script that the path names is to be replaced.
    Replace {
        text: String,
        by_rid: bool,
        preconditions: Preconditions,
    },
}

impl Resources {
    pub async fn create_script(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        definition: ScriptDefinition,
    ) -> Result<Arc<Script>> {
        let (script, _) = self.write_script(ctx, container, definition, Intent::Create).await?;
        Ok(script)
    }

    /// `If-Match` counts only for an existing script, as for items.
    pub async fn upsert_script(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        definition: ScriptDefinition,
        preconditions: &Preconditions,
    ) -> Result<(Arc<Script>, ScriptWrite)> {
        self.write_script(ctx, container, definition, Intent::Upsert(preconditions.clone())).await
    }

    /// The definition may have another id, if no other script has it.
    pub async fn replace_script(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        segment: &str,
        definition: ScriptDefinition,
        preconditions: &Preconditions,
    ) -> Result<Arc<Script>> {
        // A missing script is reported before any error in the text.
        container.script(definition.kind, segment)?;
        let (text, preconditions) = (segment.to_owned(), preconditions.clone());
        let intent = Intent::Replace { text, by_rid: container.by_rid, preconditions };
        let (script, _) = self.write_script(ctx, container, definition, intent).await?;
        Ok(script)
    }

    pub async fn delete_script(
        &self,
        container: &ContainerHandle,
        kind: ScriptKind,
        segment: &str,
        preconditions: &Preconditions,
    ) -> Result<()> {
        let rid = container.entry.record.container.rid;
        let (text, by_rid) = (segment.to_owned(), container.by_rid);
        let preconditions = preconditions.clone();
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let entry = live.container_of_rid(rid).ok_or_else(was_deleted)?;
            let script = find_script(entry, kind, ScriptSegment { text: &text, by_rid })?;
            check_preconditions(script.etag, &preconditions)?;
            draft.scripts.remove(&(rid, script.number));
            Ok(())
        };
        self.router().change(plan).await?;
        Ok(())
    }

    async fn write_script(
        &self,
        ctx: &RequestContext,
        container: &ContainerHandle,
        definition: ScriptDefinition,
        intent: Intent,
    ) -> Result<(Arc<Script>, ScriptWrite)> {
        definition.validate(self.router().limits())?;
        // Before the lock: a worker may have to start for this.
        let rid = container.entry.record.container.rid;
        self.0.scripts.check(rid, &definition.body).await.map_err(|error| about(&definition, error))?;
        let (resources, now) = (self.clone(), ctx.now);
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let entry = live.container_of_rid(rid).ok_or_else(was_deleted)?;
            let replaced = replaced_by(entry, &definition, &intent)?;
            if replaced.is_none() {
                resources.check_script_room(entry, definition.kind)?;
            }
            let number =
                replaced.as_ref().map_or_else(|| resources.new_script_number(draft, rid), |old| old.number);
            let script = Script {
                kind: definition.kind,
                id: definition.id,
                number,
                etag: resources.router().random().guid().0,
                timestamp: now.seconds(),
                body: definition.body,
                trigger: definition.trigger,
                spelling: definition.spelling,
            };
            let write = if replaced.is_some() { ScriptWrite::Replaced } else { ScriptWrite::Created };
            Ok((draft.scripts.put((rid, number), script), write))
        };
        Ok(self.router().change(plan).await?.0)
    }

    fn check_script_room(&self, entry: &ContainerEntry, kind: ScriptKind) -> Result<()> {
        let max = kind.count_max(self.router().limits());
        if entry.scripts.of_kind(kind).count() < max {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Forbidden,
            format!(
                "Quota exceeded: a container holds at most {max} resources of the kind '{}'",
                kind.name()
            ),
        ))
    }

    /// Random, so that clients' cached rids of a deleted script never match a new one.
    fn new_script_number(&self, draft: &Definitions, container: ContainerRid) -> u64 {
        loop {
            let number = self.router().random().below(1 << 56);
            if number != 0 && !draft.scripts.contains(&(container, number)) {
                return number;
            }
        }
    }
}

fn replaced_by(
    entry: &ContainerEntry,
    definition: &ScriptDefinition,
    intent: &Intent,
) -> Result<Option<Arc<Script>>> {
    let named = entry.scripts.get(definition.kind, &definition.id);
    let taken = || Err(conflict(definition.kind.name(), &definition.id));
    match (intent, named) {
        (Intent::Create, Some(_)) => taken(),
        (Intent::Create | Intent::Upsert(_), None) => Ok(None),
        (Intent::Upsert(preconditions), Some(script)) => {
            check_preconditions(script.etag, preconditions)?;
            Ok(Some(script.clone()))
        }
        (Intent::Replace { text, by_rid, preconditions }, named) => {
            let script = find_script(entry, definition.kind, ScriptSegment { text, by_rid: *by_rid })?;
            check_preconditions(script.etag, preconditions)?;
            if named.is_some_and(|named| named.number != script.number) {
                return taken();
            }
            Ok(Some(script.clone()))
        }
    }
}

/// A message from the parser of the text, under the script's name.
fn about(definition: &ScriptDefinition, error: Error) -> Error {
    if error.kind() != ErrorKind::BadRequest {
        return error;
    }
    Error::bad_request(format!(
        "the body of {} '{}' is not a JavaScript function: {}",
        definition.kind.name(),
        definition.id,
        error.message()
    ))
}
