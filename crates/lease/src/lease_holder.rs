//! Having the lease: taking it, renewing it, losing it, giving it back.

use std::sync::Arc;
use std::time::Duration;

use shardlake_stdx::Clock;
use shardlake_storage::{Began, Lease};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::{Append, ClusterError, Look, Record, Register, State, Watch, deadline, patience};

/// Renewals in the time of a lease.
const RENEWALS: u32 = 3;
/// Time limit of a look at the register.
const LOOK_MAX: Duration = Duration::from_secs(10);
/// Between attempts to renew, where the store fails.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// How often a watcher looks.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// Behaviour while another process has the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Give up, once the other process is known to be alive.
    Refuse,
    /// Wait for its end, without a limit.
    StandBy,
    /// Take it at once. For as long as its lease lasts, the other process may answer reads that are out of date.
    TakeOver,
}

/// A process that wants the lease.
#[derive(Debug, Clone)]
pub struct Node {
    pub name: String,
    /// Random, for this run of the process.
    pub incarnation: String,
    /// An incarnation that is known to have ended.
    pub former: Option<String>,
    pub ttl: Duration,
    pub manner: Manner,
    pub clock: Clock,
}

/// A held lease; it is renewed until this is dropped.
#[derive(Debug)]
pub struct LeaseHolder {
    /// Grows with each holder.
    pub term: u64,
    pub lease: Arc<Lease>,
    renewing: JoinHandle<()>,
    /// The number of the present record, which the holder wrote.
    number: watch::Receiver<u64>,
    lost: watch::Receiver<Option<String>>,
    holder: Holder,
}

#[derive(Debug, Clone)]
struct Holder {
    register: Register,
    record: Record,
    lease: Arc<Lease>,
    ttl: Duration,
}

/// Takes the lease when it is available.
///
/// # Errors
/// [`ClusterError::Held`] where another process has it and `node` does not wait; otherwise the store's error.
pub async fn take(register: Register, node: Node) -> Result<LeaseHolder, ClusterError> {
    let lease = Arc::new(Lease::new(node.clock.clone()));
    let mut watch = Watch::default();
    let mut is_told = false;
    loop {
        let last = look(&register).await?;
        let found = watch.look(last.as_ref(), node.former.as_deref(), node.clock.since_boot());
        let number = match (found, &last) {
            (Look::Take { number }, _) => number,
            (Look::Wait { .. }, Some(last)) if node.manner == Manner::TakeOver => last.number + 1,
            (Look::Wait { .. }, Some(last)) if node.manner == Manner::Refuse && watch.is_alive => {
                return Err(ClusterError::Held { node: last.record.node.clone() });
            }
            (Look::Wait { until }, last) => {
                if let Some(last) = last.as_ref().filter(|_| !std::mem::replace(&mut is_told, true)) {
                    let node = &last.record.node;
                    tracing::info!(node, "another server has the lease of this account: waiting for its end");
                }
                sleep(until.saturating_sub(node.clock.since_boot()).min(WATCH_PAUSE)).await;
                continue;
            }
        };
        let is_higher = |last: &crate::Entry| number > last.number && number > last.record.term;
        assert!(last.as_ref().is_none_or(is_higher), "each term of a lease is above all earlier terms");
        let record = Record {
            node: node.name.clone(),
            incarnation: node.incarnation.clone(),
            term: number,
            ttl_ms: u64::try_from(node.ttl.as_millis()).unwrap_or(u64::MAX),
            state: State::Held,
        };
        let began = lease.begin();
        let holder = Holder { register: register.clone(), record, lease: lease.clone(), ttl: node.ttl };
        if register.append(number, &holder.record).await? == Append::Stored
            && look(&register).await?.is_some_and(|last| last.number == number)
        {
            register.forget_behind(number).await?;
            return Ok(holder.begin(number, began));
        }
    }
}

async fn look(register: &Register) -> Result<Option<crate::Entry>, ClusterError> {
    let silent = ClusterError::Silent { seconds: LOOK_MAX.as_secs() };
    timeout(LOOK_MAX, register.last()).await.unwrap_or(Err(silent))
}

impl Holder {
    fn begin(self, number: u64, began: Began) -> LeaseHolder {
        assert!(
            deadline(Duration::ZERO, self.ttl) < patience(self.ttl),
            "a lease ends before another server may take it"
        );
        self.lease.renew(began, deadline(began.since_boot, self.ttl));
        let (numbers, number) = watch::channel(number);
        let (losing, lost) = watch::channel(None);
        let holder = self.clone();
        let renewing = tokio::spawn(async move {
            let reason = holder.renew_until_lost(&numbers, began.since_boot).await;
            holder.lease.end();
            losing.send_replace(Some(reason));
        });
        LeaseHolder {
            term: self.record.term,
            lease: self.lease.clone(),
            renewing,
            number,
            lost,
            holder: self,
        }
    }

    /// Ends with the reason why the lease is lost.
    async fn renew_until_lost(&self, numbers: &watch::Sender<u64>, mut renewed: Duration) -> String {
        loop {
            sleep(self.ttl / RENEWALS).await;
            let began = self.lease.begin();
            let number = *numbers.borrow() + 1;
            assert!(number > self.record.term, "renewals are numbered after the term they belong to");
            let outcome = self.renew(number).await;
            let taken = match outcome {
                Append::Stored if began.since_boot.saturating_sub(renewed) < patience(self.ttl) => None,
                // After a long sleep the number may have been used and removed before.
                Append::Stored => self.later_than(number).await,
                // Its own record, of an attempt that was abandoned but stored after all.
                Append::Taken(entry) if entry.record.incarnation == self.record.incarnation => None,
                Append::Taken(entry) => Some(entry.record.node),
            };
            if let Some(node) = taken {
                return format!("the server '{node}' has taken the lease of this account");
            }
            assert!(began.since_boot >= renewed, "a deadline never moves back");
            self.lease.renew(began, deadline(began.since_boot, self.ttl));
            renewed = began.since_boot;
            numbers.send_replace(number);
            if let Err(error) = self.register.forget_one_behind(number).await {
                tracing::debug!(%error, "an old record of the lease could not be removed");
            }
        }
    }

    /// Tries until the store answers.
    async fn renew(&self, number: u64) -> Append {
        let mut is_told = false;
        loop {
            let attempt = timeout(self.ttl / RENEWALS, self.register.append(number, &self.record)).await;
            let error = match attempt {
                Ok(Ok(outcome)) => return outcome,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };
            if !std::mem::replace(&mut is_told, true) {
                tracing::warn!(error, "the lease could not be renewed: trying again");
            }
            sleep(RETRY_PAUSE.min(self.ttl / RENEWALS)).await;
        }
    }

    /// The node of a record later than `number`, if there is one.
    async fn later_than(&self, number: u64) -> Option<String> {
        loop {
            match look(&self.register).await {
                Ok(last) => return last.filter(|last| last.number > number).map(|last| last.record.node),
                Err(error) => tracing::warn!(%error, "the lease could not be looked at: trying again"),
            }
            sleep(RETRY_PAUSE).await;
        }
    }
}

impl LeaseHolder {
    /// Ends when the lease is permanently lost to another process, with the reason.
    pub async fn lost(&self) -> String {
        let mut lost = self.lost.clone();
        let reason = lost.wait_for(Option::is_some).await.map(|reason| reason.clone());
        reason.ok().flatten().unwrap_or_else(|| "the task that renews the lease has ended".into())
    }

    /// Gives the lease back, so that the next one need not wait. Nothing may be written or answered any more.
    pub async fn release(self) -> Result<(), ClusterError> {
        self.renewing.abort();
        self.holder.lease.end();
        let free = Record { state: State::Free, ..self.holder.record.clone() };
        let mut number = *self.number.borrow();
        let give = async {
            loop {
                number += 1;
                match self.holder.register.append(number, &free).await? {
                    // A renewal that was under way.
                    Append::Taken(entry) if entry.record.incarnation == free.incarnation => {}
                    Append::Stored | Append::Taken(_) => return Ok(()),
                }
            }
        };
        let silent = ClusterError::Silent { seconds: LOOK_MAX.as_secs() };
        timeout(LOOK_MAX, give).await.unwrap_or(Err(silent))
    }
}

impl Drop for LeaseHolder {
    fn drop(&mut self) {
        self.renewing.abort();
        self.holder.lease.end();
    }
}
