//! Definitions of functions: created, replaced, deleted.

use shardlake_catalog::{
    Checkpoint, Definitions, FunctionDefinition, FunctionRecord, FunctionVersion, Holder, LogHold,
    ProjectionStart,
};
use shardlake_change_log::LogPosition;
use shardlake_model::{Error, ErrorKind, RequestContext, Result};
use shardlake_router::{ContainerEntry, LiveCatalog};

use crate::circle::check_circle;
use crate::definition::{Ends, check_containers, check_values};
use crate::{FUNCTIONS_MAX, Functions, commits, record_of, saver};

/// Codes of one function that are kept, the current one included.
const VERSIONS_MAX: usize = 10;
/// Lives of one function.
const NUMBERS_MAX: usize = 1000;

/// Result of putting a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionPut {
    Created,
    /// It continues with the new definition from its next batch on; or begins anew, where its source is another one.
    Replaced,
    /// The same definition exists already.
    Unchanged,
}

impl Functions {
    /// Creates a function, or replaces its definition.
    pub async fn put(&self, ctx: &RequestContext, definition: FunctionDefinition) -> Result<FunctionPut> {
        check_values(&definition)?;
        let (ends, first) = {
            let live = self.0.router.live_catalog();
            let ends = check_containers(&live, &definition)?;
            let first = first_checkpoint(definition.start, &ends.source);
            (ends, first)
        };
        let source = ends.source.record.container.rid;
        let checked = self.0.scripts.check(source, &definition.code).await;
        checked.map_err(|error| Error::new(error.kind(), format!("'code': {}", error.message())))?;
        // A position must not outlive the commits that it counts.
        saver::settle(self).await?;
        let now = ctx.now.seconds();
        let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
            let found = check_containers(live, &definition)?;
            check_same(&ends, &found)?;
            let old = draft.function(&definition.id).cloned();
            let put = put_in(draft, definition, &found, first, now)?;
            let ended = old.filter(|old| !draft.functions.contains(&old.number));
            Ok((put, ended))
        };
        let ((put, ended), _) = self.0.router.change(plan).await?;
        self.entries();
        if let Some(ended) = ended {
            commits::forget(self.router(), &[ended.number], &ended.access).await;
        }
        Ok(put)
    }

    pub async fn delete(&self, id: &str) -> Result<()> {
        let id = id.to_owned();
        let plan = move |_: &LiveCatalog, draft: &mut Definitions| {
            let record = record_of(draft, &id)?.clone();
            draft.remove_function(record.number);
            Ok(record)
        };
        let (record, _) = self.0.router.change(plan).await?;
        self.entries();
        commits::forget(self.router(), &[record.number], &record.access).await;
        Ok(())
    }
}

/// The first position was taken from the source as it was found before.
fn check_same(before: &Ends, now: &Ends) -> Result<()> {
    let rid = |entry: &ContainerEntry| entry.record.container.rid;
    if rid(&before.source) == rid(&now.source) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Conflict,
        "the source of the function was created anew meanwhile: put the function again",
    ))
}

fn put_in(
    draft: &mut Definitions,
    definition: FunctionDefinition,
    ends: &Ends,
    first: Checkpoint,
    now: u64,
) -> Result<FunctionPut> {
    let id = definition.id.clone();
    if draft.projections.values().any(|record| record.rule.id == id) {
        return Err(Error::bad_request(format!(
            "there is a projection '{id}', and names of copies are unique: choose another id"
        )));
    }
    let source = ends.source.record.container.rid;
    let access = ends.access.iter().map(|entry| entry.record.container.rid).collect();
    let old = draft.function(&id).cloned();
    if old.is_none() && draft.functions.len() >= FUNCTIONS_MAX {
        return Err(Error::bad_request(format!(
            "an account holds at most {FUNCTIONS_MAX} functions: delete one first"
        )));
    }
    let put = if old.is_some() { FunctionPut::Replaced } else { FunctionPut::Created };
    let record = match old {
        Some(old) if old.source == source => {
            let record = replaced(old.clone(), definition, access, now);
            if record == old {
                return Ok(FunctionPut::Unchanged);
            }
            record
        }
        Some(old) => {
            let record = replaced(old.clone(), definition, access, now);
            let record = FunctionRecord { source, ..record };
            begin(draft, record, first, now)?
        }
        None => {
            let record = FunctionRecord {
                number: 0,
                definition,
                source,
                access,
                version: 1,
                earlier: Vec::new(),
                former_numbers: Vec::new(),
                is_paused: false,
                pause_reason: None,
                created: now,
                changed: now,
            };
            begin(draft, record, first, now)?
        }
    };
    check_circle(draft, &record)?;
    draft.functions.put(record.number, record);
    Ok(put)
}

/// The record with another definition; a new code is a new version.
fn replaced(
    mut record: FunctionRecord,
    definition: FunctionDefinition,
    access: Vec<shardlake_model::ContainerRid>,
    now: u64,
) -> FunctionRecord {
    if record.definition.code != definition.code {
        let code = std::mem::take(&mut record.definition.code);
        record.earlier.push(FunctionVersion { version: record.version, changed: record.changed, code });
        let surplus = record.earlier.len().saturating_sub(VERSIONS_MAX - 1);
        record.earlier.drain(..surplus);
        record.version += 1;
        record.changed = now;
    }
    FunctionRecord { definition, access, ..record }
}

/// Gives a function a number, under which it begins at a position.
pub(crate) fn begin(
    draft: &mut Definitions,
    mut record: FunctionRecord,
    first: Checkpoint,
    now: u64,
) -> Result<FunctionRecord> {
    if record.number > 0 {
        draft.remove_function(record.number);
        record.former_numbers.push(record.number);
        if record.former_numbers.len() > NUMBERS_MAX {
            return Err(Error::bad_request(format!(
                "the function began anew {NUMBERS_MAX} times: delete it and put it again"
            )));
        }
    }
    record.number = draft.new_copy_number();
    let holder = Holder::Copy(record.number);
    draft.put_log_hold(LogHold::new(record.source, holder, first.source.clone(), now * 1000));
    draft.checkpoints.put(record.number, first);
    Ok(record)
}

fn first_checkpoint(start: ProjectionStart, source: &ContainerEntry) -> Checkpoint {
    let position = match start {
        ProjectionStart::Beginning => LogPosition::beginning(),
        ProjectionStart::Now => LogPosition::now(source),
    };
    Checkpoint { source: position.records(), ..Checkpoint::default() }
}
