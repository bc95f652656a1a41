//! A function at work: the surroundings of one step.

use std::sync::Arc;

use shardlake_catalog::{FunctionAccess, FunctionRecord};
use shardlake_model::{Error, Priority, RequestContext, Result};
use shardlake_router::{ContainerEntry, ContainerHandle, Serving};

use crate::Functions;
use crate::entries::FunctionEntry;
use crate::filter::Filter;
use crate::log::FunctionLogLine;

/// A container of `access`.
#[derive(Debug, Clone)]
pub(crate) struct Accessed {
    /// As the code names it.
    pub name: String,
    pub may_write: bool,
    pub handle: ContainerHandle,
    /// Paths of its partition key.
    pub key_paths: Vec<String>,
}

/// One step's surroundings.
pub(crate) struct FunctionAtWork<'a> {
    pub functions: &'a Functions,
    pub entry: &'a FunctionEntry,
    pub record: &'a FunctionRecord,
    pub source: Arc<ContainerEntry>,
    pub access: Vec<Accessed>,
    pub filter: Filter,
}

impl<'a> FunctionAtWork<'a> {
    pub fn new(
        functions: &'a Functions,
        entry: &'a FunctionEntry,
        record: &'a FunctionRecord,
    ) -> Result<FunctionAtWork<'a>> {
        let serving = functions.router();
        let source = serving.entry_of_rid(record.source)?;
        let mut access = Vec::new();
        for ((name, right), rid) in record.definition.access.iter().zip(&record.access) {
            let entry = serving.entry_of_rid(*rid)?;
            let definition = &entry.record.container.definition;
            let key_paths = definition.partition_key.paths.iter().map(ToString::to_string).collect();
            let may_write = *right == FunctionAccess::ReadWrite;
            let handle = ContainerHandle { entry, by_rid: false };
            access.push(Accessed { name: name.clone(), may_write, handle, key_paths });
        }
        let filter = Filter::of(&record.definition.source.filter)?;
        Ok(FunctionAtWork { functions, entry, record, source, access, filter })
    }

    pub fn serving(&self) -> &Serving {
        self.functions.router()
    }

    /// The container that the code calls by a name.
    pub fn accessed(&self, name: &str) -> Result<&Accessed> {
        self.access.iter().find(|accessed| accessed.name == name).ok_or_else(|| {
            Error::bad_request(format!(
                "the function has no access to a container '{name}': add it to \"access\""
            ))
        })
    }

    /// Whether the work is to end at the next place where it may: the record has changed, or the server stops.
    pub fn is_interrupted(&self) -> bool {
        let live = self.serving().live_catalog();
        let now = live.definitions.functions.get(&self.record.number);
        now.is_none_or(|now| **now != *self.record) || self.serving().is_closing()
    }

    /// Adds lines to the function's log.
    pub fn log(&self, (attempt, upto): (u32, u64), lines: impl IntoIterator<Item = String>) {
        let (now, version) = (self.serving().clock().now(), self.record.version);
        let mut live = self.entry.status.live();
        for text in lines {
            live.log.add(FunctionLogLine { time: now, version, attempt, upto, text });
        }
    }

    /// The request of a step. It pays, and gives way to others.
    pub fn context(&self) -> RequestContext {
        context(self.serving())
    }
}

pub(crate) fn context(serving: &Serving) -> RequestContext {
    let context = RequestContext::internal(serving.clock(), serving.random().guid());
    RequestContext { priority: Priority::Background, ..context }
}
