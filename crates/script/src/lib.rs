//! Server-side JavaScript in worker processes: stored procedures, triggers and user-defined functions (engine.md §6).
//!
//! The engine's own built-in functions cannot all be interrupted, so scripts run in processes that can be killed. A worker
//! serves one invocation at a time and keeps nothing between two; it reaches data only by asking the [`Store`] of its
//! invocation. Nothing here knows a partition: whoever implements [`Store`] decides what a transaction is.

mod settings;
mod store;

use std::sync::Arc;

use shardlake_model::{Error, Result, TriggerOperation};

pub use settings::{ScriptLimits, ScriptSettings, WorkerKind};
pub use store::{Store, StoreAnswer, StoreFailure, StoreOperation, StoreReply, StoreRequest};

/// A pool of workers, started when first needed. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Scripts {
    settings: Arc<ScriptSettings>,
}

/// One run of a stored procedure or trigger.
#[derive(Debug, Clone)]
pub struct Invocation<'a> {
    /// The script's id, for messages.
    pub name: &'a str,
    pub source: &'a str,
    pub role: Role<'a>,
    /// `dbs/{rid}/colls/{rid}/`.
    pub self_link: &'a str,
    /// `dbs/{name}/colls/{name}`.
    pub alt_link: &'a str,
    /// Whether `console.log` is kept.
    pub logs: bool,
    pub limits: ScriptLimits,
}

/// What the script is run as; bodies are JSON text.
#[derive(Debug, Clone)]
pub enum Role<'a> {
    /// `arguments` is a JSON array.
    Procedure {
        arguments: &'a str,
    },
    PreTrigger {
        operation: TriggerOperation,
        request_body: Option<&'a str>,
    },
    PostTrigger {
        operation: TriggerOperation,
        request_body: Option<&'a str>,
        response_body: Option<&'a str>,
    },
}

/// What a run that ended well left behind; bodies are JSON text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// What was set with `getResponse().setBody`.
    pub response_body: Option<String>,
    /// Of a pre-trigger: the request's body as it is now.
    pub request_body: Option<String>,
    /// What `console.log` printed, if it was to be kept.
    pub log: String,
}

/// User-defined functions made ready for one query. Calls block: they belong beside the threads that serve requests.
#[derive(Debug)]
pub struct Functions {}

impl Scripts {
    pub fn new(settings: ScriptSettings) -> Scripts {
        Scripts { settings: Arc::new(settings) }
    }

    /// Refuses a text that is not one function, with line and column.
    pub async fn check(&self, source: &str) -> Result<()> {
        let _ = source;
        Err(self.unavailable())
    }

    /// Runs a script to its end. Errors: [`shardlake_model::ErrorKind::BadRequest`] for what it throws, `Forbidden` past its limits of
    /// time and memory, `TooLarge` for its response, `Unavailable` when no worker can be had. After an error the
    /// caller rolls back.
    pub async fn run(&self, invocation: Invocation<'_>, store: &mut dyn Store) -> Result<Completion> {
        let _ = (invocation, store);
        Err(self.unavailable())
    }

    /// `definitions` are ids and texts.
    pub fn functions(&self, definitions: &[(&str, &str)], limits: ScriptLimits) -> Result<Functions> {
        let _ = (definitions, limits);
        Err(self.unavailable())
    }

    fn unavailable(&self) -> Error {
        Error::unsupported(format!("scripts are not supported yet ({:?})", self.settings.workers))
    }
}

impl Functions {
    /// Calls one function for many rows. An argument or result that is undefined is `None`, all others are JSON text.
    pub fn call(&mut self, name: &str, rows: &[Vec<Option<String>>]) -> Result<Vec<Option<String>>> {
        let _ = (name, rows);
        Err(Error::unsupported("user-defined functions are not supported yet"))
    }
}
