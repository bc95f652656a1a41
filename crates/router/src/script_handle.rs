//! Scripts of a container as operations find them.

use std::sync::Arc;

use shardlake_model::{Result, Rid, Script, ScriptKind, ScriptRid};

use crate::container_handle::{ContainerEntry, ContainerHandle};
use crate::refusals::not_found;

/// How a path names a script.
#[derive(Debug, Clone, Copy)]
pub struct ScriptSegment<'a> {
    pub text: &'a str,
    /// The container was named by rid, and so are scripts in it.
    pub by_rid: bool,
}

impl ContainerHandle {
    /// By creation, then id.
    pub fn scripts(&self, kind: ScriptKind) -> Vec<Arc<Script>> {
        let mut scripts: Vec<_> = self.entry.scripts.of_kind(kind).cloned().collect();
        scripts.sort_by(|a, b| (a.timestamp, &a.id).cmp(&(b.timestamp, &b.id)));
        scripts
    }

    /// `segment` is an id, or a rid where the container was named by rid too.
    pub fn script(&self, kind: ScriptKind, segment: &str) -> Result<Arc<Script>> {
        find_script(&self.entry, kind, ScriptSegment { text: segment, by_rid: self.by_rid }).cloned()
    }

    pub fn script_rid(&self, script: &Script) -> ScriptRid {
        ScriptRid { container: self.entry.record.container.rid, kind: script.kind, number: script.number }
    }
}

pub fn find_script<'e>(
    entry: &'e ContainerEntry,
    kind: ScriptKind,
    segment: ScriptSegment<'_>,
) -> Result<&'e Arc<Script>> {
    let found = match Rid::parse(segment.text) {
        Some(Rid::Script(rid)) if segment.by_rid && rid.container == entry.record.container.rid => {
            entry.scripts.of_kind(kind).find(|script| rid.kind == kind && script.number == rid.number)
        }
        _ => entry.scripts.get(kind, segment.text),
    };
    found.ok_or_else(|| not_found(kind.name(), segment.text))
}
