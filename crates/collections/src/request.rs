//! What a command carries through all that it does: time, chance, and what it costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shardlake_model::RequestContext;
use shardlake_mql::{Document, Env, Scope, TimeTest};
use shardlake_stdx::Clock;

use crate::failure::Result;

/// One command at work.
#[derive(Debug)]
pub struct Request {
    pub ctx: RequestContext,
    charge_centi: Arc<AtomicU64>,
    documents_examined: AtomicU64,
    keys_examined: AtomicU64,
    seed: u64,
    clock: Clock,
}

impl Request {
    /// `seed` decides what is drawn by chance; charges are added to `charge_centi`.
    pub fn charged_to(ctx: RequestContext, seed: u64, charge_centi: Arc<AtomicU64>, clock: Clock) -> Request {
        Request {
            ctx,
            charge_centi,
            documents_examined: AtomicU64::new(0),
            keys_examined: AtomicU64::new(0),
            seed,
            clock,
        }
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

    /// What expressions know of the command.
    pub fn env(&self) -> Env {
        let now = self.ctx.now;
        let mut env =
            Env::new(now.milliseconds() as i64, self.seed).with_cluster_time((now.seconds() as u32, 1));
        env.set_time(self.time_test());
        env
    }

    /// Of expressions that go on from an earlier command.
    pub(crate) fn time_test(&self) -> TimeTest {
        TimeTest::new(self.time_is_over())
    }

    /// Whether the command has had its time.
    pub(crate) fn time_is_over(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let (clock, deadline) = (self.clock.clone(), self.ctx.deadline);
        move || clock.elapsed() > deadline
    }

    /// With the variables of a command's `let`.
    pub fn bound(&self, variables: &Document) -> Result<(Scope, Env)> {
        Ok(Scope::with_variables(variables, self.env())?)
    }
}
