//! Whether a table has the writes that a query asks for.
//!
//! A query asks for everything acknowledged so far, or for the writes that a session has seen. Both are a position in the container's
//! change log, taken once. The version that readers see has reached it, or its follower will, or nothing will move the table until an
//! operator acts.

use std::sync::Arc;

use shardlake_change_log::{AtLeast, LogPart, LogPosition, has_reached};
use shardlake_model::{ContainerRid, Result};
use shardlake_router::ContainerEntry;

use crate::{Analytics, TableState};

/// The position that a container's table has to reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    container: ContainerRid,
    position: LogPosition,
}

/// A table, compared with a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Freshness {
    /// It has everything, or is not there any more.
    Reached,
    /// It will have everything.
    Behind,
    /// It lacks something and does not follow. The state has the reason.
    NotFollowing(TableState),
}

impl Analytics {
    /// Whether a container has an analytical store; `None` where there is no such container.
    pub fn has_store(&self, database: &str, container: &str) -> Option<bool> {
        let rid = self.named(database, container)?.record.container.rid;
        Some(self.router().catalog().load().definitions.analytical.contains(&rid))
    }

    /// The position that a table has to reach; `None` where there is no such container. A session token beyond the container's last
    /// commit is refused as reads refuse it.
    pub fn wanted(&self, database: &str, container: &str, at_least: &AtLeast) -> Result<Option<Wanted>> {
        let Some(entry) = self.named(database, container) else { return Ok(None) };
        let position = at_least.position(&entry)?;
        Ok(Some(Wanted { container: entry.record.container.rid, position }))
    }

    /// Compares a table with a position.
    pub async fn freshness(&self, wanted: &Wanted) -> Result<Freshness> {
        let live = self.router().catalog().load_full();
        let record = live.definitions.analytical.get(&wanted.container);
        let (Some(record), Some(entry)) = (record, live.container_of_rid(wanted.container)) else {
            return Ok(Freshness::Reached);
        };
        let status = self.0.statuses.of(wanted.container).live().clone();
        let state = self.state_of(record, status.state);
        let served = status.served.iter();
        let served = served.map(|place| LogPart { span: place.span.clone(), after: place.after }).collect();
        // Readers are refused until the state shows that the first copy is complete.
        let is_shown = !matches!(state, TableState::Building { .. });
        if is_shown && has_reached(entry, &LogPosition::new(served), &wanted.position).await? {
            return Ok(Freshness::Reached);
        }
        Ok(match state {
            // The list of tables refuses it.
            TableState::Closed => Freshness::Reached,
            // A pause holds as soon as it is asked for.
            _ if record.is_paused => Freshness::NotFollowing(TableState::Paused),
            state @ TableState::Stopped => Freshness::NotFollowing(state),
            state @ TableState::Failed(_) if status.state_of == record.generation => {
                Freshness::NotFollowing(state)
            }
            // A rebuild, or a resumption, is asked for and begins with the next step.
            TableState::Failed(_)
            | TableState::Paused
            | TableState::Building { .. }
            | TableState::Following
            | TableState::Waiting(_)
            | TableState::Rebuilding { .. } => Freshness::Behind,
        })
    }

    fn named(&self, database: &str, container: &str) -> Option<Arc<ContainerEntry>> {
        let live = self.router().catalog().load_full();
        live.databases.get(database)?.containers.get(container).cloned()
    }
}
