//! The context of a command: time limit, random seed and charge.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shardlake_model::RequestContext;
use shardlake_mql::{Collation, Document, Env, Scope, TimeTest, Value};
use shardlake_stdx::Clock;

use crate::collections::Namespace;
use crate::failure::Result;

/// Time slice for which a command keeps its thread. Between two slices other commands run, and a disconnect is noticed.
pub(crate) struct Slice<'c> {
    clock: &'c Clock,
    began: Duration,
}

impl Slice<'_> {
    const MAX: Duration = Duration::from_millis(2);

    /// Ends the slice after its time, and begins another.
    pub async fn pass(&mut self) {
        if self.clock.elapsed().saturating_sub(self.began) > Slice::MAX {
            tokio::task::yield_now().await;
            self.began = self.clock.elapsed();
        }
    }
}

/// How a command learns in the middle of an evaluation that it is to end.
pub trait Ending: std::fmt::Debug + Send + Sync {
    fn is_wanted(&self) -> bool;
}

/// Receives the collections that a write creates because they are missing.
pub trait CreationLog: std::fmt::Debug + Send + Sync {
    fn note(&self, created: &Namespace);
}

/// One command at work.
#[derive(Debug)]
pub struct Request {
    pub ctx: RequestContext,
    charge_centi: Arc<AtomicU64>,
    documents_examined: AtomicU64,
    keys_examined: AtomicU64,
    seed: u64,
    clock: Clock,
    end: Option<Arc<dyn Ending>>,
    keeps_empty_timestamps: bool,
    skips_validators: bool,
    creations: Option<Arc<dyn CreationLog>>,
}

impl Request {
    /// `seed` decides random choices; charges are added to `charge_centi`.
    pub fn charged_to(ctx: RequestContext, seed: u64, charge_centi: Arc<AtomicU64>, clock: Clock) -> Request {
        Request {
            ctx,
            charge_centi,
            documents_examined: AtomicU64::new(0),
            keys_examined: AtomicU64::new(0),
            seed,
            clock,
            end: None,
            keeps_empty_timestamps: false,
            skips_validators: false,
            creations: None,
        }
    }

    /// Stores `Timestamp(0, 0)` of documents as it is, for restores of data from another server.
    pub fn keeping_empty_timestamps(self, keeps: bool) -> Request {
        Request { keeps_empty_timestamps: keeps, ..self }
    }

    /// Writes the results of a pipeline without asking the validator of the collection.
    pub fn skipping_validators(self, skips: bool) -> Request {
        Request { skips_validators: skips, ..self }
    }

    pub(crate) fn asks_validators(&self) -> bool {
        !self.skips_validators
    }

    /// Whether a value stands for the time at which the server gets it.
    pub(crate) fn replaces(&self, value: &Value) -> bool {
        !self.keeps_empty_timestamps && matches!(value, Value::Timestamp(0, 0))
    }

    pub fn logging_creations(self, log: Arc<dyn CreationLog>) -> Request {
        Request { creations: Some(log), ..self }
    }

    pub(crate) fn note_creation(&self, created: &Namespace) {
        if let Some(log) = &self.creations {
            log.note(created);
        }
    }

    pub fn ending_with(self, end: Arc<dyn Ending>) -> Request {
        Request { end: Some(end), ..self }
    }

    /// Hundredths of a request unit, so far.
    pub fn charge_centi(&self) -> u64 {
        self.charge_centi.load(Ordering::Relaxed)
    }

    pub(crate) fn charge(&self, centi: u64) {
        self.charge_centi.fetch_add(centi, Ordering::Relaxed);
    }

    /// Documents read, and entries of the index, so far.
    pub fn examined(&self) -> (u64, u64) {
        (self.documents_examined.load(Ordering::Relaxed), self.keys_examined.load(Ordering::Relaxed))
    }

    pub(crate) fn examine(&self, documents: u64, keys: u64) {
        self.documents_examined.fetch_add(documents, Ordering::Relaxed);
        self.keys_examined.fetch_add(keys, Ordering::Relaxed);
    }

    /// The environment of the command's expressions.
    pub fn env(&self) -> Env {
        let now = self.ctx.now;
        let mut env =
            Env::new(now.milliseconds() as i64, self.seed).with_cluster_time((now.seconds() as u32, 1));
        env.set_time(self.time_test());
        env
    }

    /// The time test for expressions that an earlier command began to evaluate.
    pub(crate) fn time_test(&self) -> TimeTest {
        TimeTest::new(self.time_is_over())
    }

    /// Whether the command's time is over, or the command is to end.
    pub(crate) fn time_is_over(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let (clock, deadline, end) = (self.clock.clone(), self.ctx.deadline, self.end.clone());
        move || end.as_ref().is_some_and(|end| end.is_wanted()) || clock.elapsed() > deadline
    }

    /// A time slice for work on many documents.
    pub(crate) fn slice(&self) -> Slice<'_> {
        Slice { clock: &self.clock, began: self.clock.elapsed() }
    }

    /// Scope and environment with the variables of a command's `let`, under its collation.
    pub fn bound(&self, collation: &Collation, variables: &Document) -> Result<(Scope, Env)> {
        Ok(Scope::with_variables(collation, variables, self.env())?)
    }
}
