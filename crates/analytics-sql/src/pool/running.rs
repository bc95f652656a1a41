//! Queries that wait or run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardlake_stdx::Clock;
use tokio::sync::Notify;

/// A query that waits or runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningQuery {
    pub id: String,
    /// The statement without its literals.
    pub template: String,
    pub database: Option<String>,
    pub age: Duration,
    pub state: QueryState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryState {
    /// For a worker.
    Waits,
    /// Until its tables are new enough.
    AwaitsTables,
    Runs,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Running(Arc<Mutex<BTreeMap<String, Entry>>>);

#[derive(Debug)]
struct Entry {
    template: String,
    database: Option<String>,
    since: Duration,
    state: QueryState,
    cancelled: Arc<Notify>,
}

/// Takes the query off the list when it is dropped.
#[derive(Debug)]
pub(super) struct Listed {
    id: String,
    pub cancelled: Arc<Notify>,
    list: Running,
}

impl Running {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn enter(&self, id: &str, template: String, database: Option<String>) -> Listed {
        let cancelled = Arc::new(Notify::new());
        let since = Clock::System.elapsed();
        let entry =
            Entry { template, database, since, state: QueryState::Waits, cancelled: cancelled.clone() };
        let before = self.entries().insert(id.to_owned(), entry);
        debug_assert!(before.is_none(), "ids are unique");
        Listed { id: id.to_owned(), cancelled, list: self.clone() }
    }

    pub fn list(&self) -> Vec<RunningQuery> {
        let entries = self.entries();
        let listed = entries.iter().map(|(id, entry)| RunningQuery {
            id: id.clone(),
            template: entry.template.clone(),
            database: entry.database.clone(),
            age: Clock::System.elapsed().saturating_sub(entry.since),
            state: entry.state,
        });
        let mut listed: Vec<RunningQuery> = listed.collect();
        listed.sort_by_key(|query| std::cmp::Reverse(query.age));
        listed
    }

    pub fn cancel(&self, id: &str) -> bool {
        let entries = self.entries();
        let found = entries.get(id);
        if let Some(entry) = found {
            entry.cancelled.notify_one();
        }
        found.is_some()
    }
}

impl Listed {
    pub fn state(&self) -> QueryState {
        self.list.entries().get(&self.id).map_or(QueryState::Runs, |entry| entry.state)
    }

    pub fn set_state(&self, state: QueryState) {
        if let Some(entry) = self.list.entries().get_mut(&self.id) {
            entry.state = state;
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.list.entries().remove(&self.id);
    }
}
