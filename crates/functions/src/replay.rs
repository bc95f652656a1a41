//! Functions that begin anew: from a time, or from the beginning.

use shardlake_catalog::{Checkpoint, Definitions, FunctionRecord, FunctionVersion};
use shardlake_change_log::{LogPart, LogPosition};
use shardlake_model::{Error, ErrorKind, RequestContext, Result};
use shardlake_router::ContainerEntry;
use shardlake_stdx::Timestamp;

use crate::put::{FunctionPut, begin};
use crate::{Functions, commits, record_of, saver};

/// Where a replay begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayFrom {
    Beginning,
    /// Changes from this time on.
    Time(Timestamp),
}

impl Functions {
    /// Gives a function the changes of its source again. It gets another number, so that its progress from before does not
    /// count.
    pub async fn replay(&self, ctx: &RequestContext, id: &str, from: ReplayFrom) -> Result<()> {
        let source = record_of(&self.router().live_catalog().definitions, id)?.source;
        let entry = self.router().entry_of_rid(source)?;
        let position = match from {
            ReplayFrom::Beginning => LogPosition::beginning(),
            ReplayFrom::Time(time) => position_before(&entry, time).await?,
        };
        // A position must not outlive the commits that it counts.
        saver::settle(self).await?;
        let (id, now) = (id.to_owned(), ctx.now.seconds());
        let plan = move |_: &_, draft: &mut Definitions| {
            let record = record_of(draft, &id)?.clone();
            if record.source != source {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    "the function got another source meanwhile: replay it again",
                ));
            }
            let counts = draft.checkpoints.get(&record.number).map(|known| known.counts).unwrap_or_default();
            let first = Checkpoint { source: position.records(), counts, ..Checkpoint::default() };
            let record = begin(draft, record, first, now)?;
            let ended = record.former_numbers.last().copied();
            let access = record.access.clone();
            draft.functions.put(record.number, record);
            Ok((ended, access))
        };
        let ((ended, access), _) = self.router().change(plan).await?;
        self.entries();
        commits::forget(self.router(), ended.as_slice(), &access).await;
        Ok(())
    }

    /// Puts an earlier code as a new version: the one before the current one, if none is named.
    pub async fn rollback(
        &self,
        ctx: &RequestContext,
        id: &str,
        version: Option<u64>,
    ) -> Result<FunctionPut> {
        let record = record_of(&self.router().live_catalog().definitions, id)?.clone();
        let found = match version {
            None => record.earlier.last(),
            Some(version) => record.earlier.iter().find(|earlier| earlier.version == version),
        };
        let found = found.ok_or_else(|| {
            let kept: Vec<String> =
                record.earlier.iter().map(|earlier| earlier.version.to_string()).collect();
            let named =
                version.map_or("an earlier version".to_owned(), |version| format!("version {version}"));
            let kept = if kept.is_empty() { "none".to_owned() } else { kept.join(", ") };
            Error::bad_request(format!(
                "the function '{id}' does not have {named}: earlier versions are {kept}"
            ))
        })?;
        let mut definition = record.definition.clone();
        definition.code.clone_from(&found.code);
        self.put(ctx, definition).await
    }

    /// The codes that are kept, the current one last.
    pub fn versions(&self, id: &str) -> Result<Vec<FunctionVersion>> {
        let live = self.router().live_catalog();
        let record = record_of(&live.definitions, id)?;
        let FunctionRecord { version, changed, definition, earlier, .. } = record;
        let current = FunctionVersion { version: *version, changed: *changed, code: definition.code.clone() };
        Ok(earlier.iter().cloned().chain([current]).collect())
    }
}

/// The position behind everything that was written before a time.
async fn position_before(entry: &ContainerEntry, time: Timestamp) -> Result<LogPosition> {
    let mut parts = Vec::new();
    for partition in entry.map.iter() {
        let after = partition.hosted().partition().last_before(time).await?;
        parts.push(LogPart { span: partition.epk_range().clone(), after });
    }
    Ok(LogPosition::new(parts))
}
