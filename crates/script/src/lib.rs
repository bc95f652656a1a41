//! Server-side JavaScript in worker processes: stored procedures, triggers and user-defined functions
//! (engine.md §6), and functions over the change feed (copies.md §6).
//!
//! The engine's own built-in functions cannot all be interrupted, so scripts run in processes that can be
//! killed. A worker serves one invocation at a time and keeps no state between two; it reaches data only by
//! asking the [`Store`] of its invocation. Nothing here knows a partition: implementations of [`Store`]
//! define the transaction.

pub mod changes;
mod confined;
mod conversation;
mod endings;
mod function_store;
mod functions;
mod line;
mod meter;
mod pool;
mod protocol;
mod settings;
mod store;
mod turns;
mod worker;

use std::sync::Arc;

use shardlake_model::{ContainerRid, Error, Result, TriggerOperation};

use conversation::Conversation;
use endings::{failed, lost, misjudged};
use pool::Pool;
use protocol::{Failure, FailureKind, Order, OrderedRole, Report, RunOrder, Used};
use turns::Lane;

pub use confined::{Confined, Layer};
pub use endings::{is_misjudged, is_worker_lost};
pub use functions::Functions;
pub use meter::Meter;
pub use settings::{ScriptLimits, ScriptSettings, WorkerKind};
pub use store::{Store, StoreAnswer, StoreFailure, StoreOperation, StoreReply, StoreRequest};
pub use turns::{ScriptKey, Turn};
pub use worker::{confine, worker_main};

/// A pool of workers, started when first needed. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Scripts {
    pool: Arc<Pool>,
}

fn unregistered(container: ContainerRid) -> ScriptKey {
    ScriptKey { container, script: 0 }
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
    /// The use of the container's storage, in the text that scripts see.
    pub usage: &'a str,
    /// The limit of the container's storage.
    pub quota: &'a str,
    /// Whether `console.log` is kept.
    pub logs: bool,
    /// Writes whose callbacks look at nothing but errors may be assumed to succeed before the store is asked,
    /// which saves asking it one by one. The run may then end with [`is_misjudged`], and must be repeated
    /// without foresight.
    pub foresees: bool,
    pub limits: ScriptLimits,
}

/// The role of a script in an invocation; bodies are JSON text.
#[derive(Debug, Clone)]
pub enum Role<'a> {
    /// `arguments` is the JSON of a list: an array, or an object with a length, as for
    /// `Function.prototype.apply`.
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

/// The outcome of a successful run; bodies are JSON text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// The body set with `getResponse().setBody`.
    pub response_body: Option<String>,
    /// The request's current body, for a pre-trigger.
    pub request_body: Option<String>,
    /// The output of `console.log`, if it was to be kept.
    pub log: String,
}

impl Scripts {
    pub fn new(settings: ScriptSettings) -> Scripts {
        Scripts { pool: Arc::new(Pool::new(settings)) }
    }

    /// Refuses a text that is not exactly one function, with line and column. If the worker is killed from
    /// outside, another one checks.
    pub async fn check(&self, container: ContainerRid, source: &str) -> Result<()> {
        match self.check_once(container, source).await {
            Err(error) if is_worker_lost(&error) => self.check_once(container, source).await,
            checked => checked,
        }
    }

    async fn check_once(&self, container: ContainerRid, source: &str) -> Result<()> {
        let lease = self.pool.lease(&self.turn(unregistered(container), Meter::default()).await?)?;
        let mut conversation = Conversation::begin(lease, ScriptLimits::of_check().time).await?;
        conversation.send(&Order::Check { source: source.to_owned() }).await?;
        match conversation.receive().await? {
            Report::Completed { used, .. } => {
                conversation.end(used);
                Ok(())
            }
            Report::Failed { failure, used } => Err(ended_badly(conversation, failure, used)),
            _ => Err(lost()),
        }
    }

    /// Runs a script to its end. Errors: [`shardlake_model::ErrorKind::BadRequest`] for errors that it
    /// throws, `Forbidden` past its limits of time and memory, `TooLarge` for its response, `Unavailable`
    /// when no worker is free. After an error the caller rolls back; if [`is_worker_lost`], it may then try
    /// again.
    pub async fn run(
        &self,
        container: ContainerRid,
        invocation: Invocation<'_>,
        store: &mut dyn Store,
    ) -> Result<Completion> {
        let turn = self.turn(unregistered(container), Meter::default()).await?;
        self.run_in(&turn, invocation, store).await
    }

    /// Waits for a turn, which [`Scripts::run_in`] needs. The processor time of its scripts is added to `meter`.
    pub async fn turn(&self, key: ScriptKey, meter: Meter) -> Result<Turn> {
        self.pool.turns().turn(Lane::Scripts, key, meter).await
    }

    /// A turn, if one is free at once.
    pub fn try_turn(&self, key: ScriptKey, meter: Meter) -> Option<Turn> {
        self.pool.turns().try_turn(Lane::Scripts, key, meter)
    }

    /// Waits for a turn that [`Scripts::functions`] needs.
    pub async fn function_turn(&self, key: ScriptKey, meter: Meter) -> Result<Turn> {
        self.pool.turns().turn(Lane::Functions, key, meter).await
    }

    /// [`Scripts::run`] for the holder of a turn.
    pub async fn run_in(
        &self,
        turn: &Turn,
        invocation: Invocation<'_>,
        store: &mut dyn Store,
    ) -> Result<Completion> {
        self.run_logged(turn, invocation, store, &mut String::new()).await
    }

    /// Like [`Scripts::run_in`]; also returns the output of a failed script.
    pub async fn run_logged(
        &self,
        turn: &Turn,
        invocation: Invocation<'_>,
        store: &mut dyn Store,
        failed_log: &mut String,
    ) -> Result<Completion> {
        debug_assert!(turn.is_for(Lane::Scripts), "scripts and functions take different turns");
        let mut conversation = Conversation::begin(self.pool.lease(turn)?, invocation.limits.time).await?;
        store.begin();
        conversation.foresees(invocation.foresees);
        conversation.send(&Order::Run(invocation.order())).await?;
        let ended = conversation.outcome(store).await;
        if conversation.is_misjudged {
            if let Ok(Report::Completed { used, .. } | Report::Failed { used, .. }) = ended {
                conversation.end(used);
            }
            return Err(misjudged());
        }
        *failed_log = std::mem::take(&mut conversation.log);
        match ended? {
            Report::Completed { response_body, request_body, log, used } => {
                conversation.end(used);
                Ok(Completion { response_body, request_body, log })
            }
            Report::Failed { failure, used } => Err(ended_badly(conversation, failure, used)),
            _ => Err(lost()),
        }
    }

    /// Prepares functions for one query; holds a worker until they are dropped. `definitions` are ids and texts.
    pub fn functions(
        &self,
        turn: &Turn,
        definitions: &[(&str, &str)],
        limits: ScriptLimits,
    ) -> Result<Functions> {
        Functions::prepare(&self.pool, turn, definitions, limits)
    }

    /// The confinement of worker processes; `None` before the first one was started.
    pub fn confined(&self) -> Option<Confined> {
        self.pool.confined()
    }
}

fn ended_badly(conversation: Conversation, failure: Failure, used: Used) -> Error {
    if failure.kind == FailureKind::Limit {
        conversation.offended();
    }
    conversation.end(used);
    failed(failure)
}

impl Invocation<'_> {
    fn order(&self) -> RunOrder {
        RunOrder {
            name: self.name.to_owned(),
            source: self.source.to_owned(),
            role: self.role.order(),
            self_link: self.self_link.to_owned(),
            alt_link: self.alt_link.to_owned(),
            usage: self.usage.to_owned(),
            quota: self.quota.to_owned(),
            logs: self.logs,
            foresees: self.foresees,
            limits: self.limits,
        }
    }
}

impl Role<'_> {
    fn order(&self) -> OrderedRole {
        match *self {
            Role::Procedure { arguments } => OrderedRole::Procedure { arguments: arguments.to_owned() },
            Role::PreTrigger { operation, request_body } => OrderedRole::PreTrigger {
                operation: format!("{operation:?}"),
                request_body: request_body.map(str::to_owned),
            },
            Role::PostTrigger { operation, request_body, response_body } => OrderedRole::PostTrigger {
                operation: format!("{operation:?}"),
                request_body: request_body.map(str::to_owned),
                response_body: response_body.map(str::to_owned),
            },
        }
    }
}
