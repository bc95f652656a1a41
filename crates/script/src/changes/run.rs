//! The pool's side of a run: waits for a worker of the lane for changes, sends the order, and answers reads.

use std::time::Duration;

use shardlake_model::{Error, Result};

use super::{
    ChangesInvocation, ChangesOutcome, ChangesStore, FUNCTION_TIME_MAX, FunctionContainer, QUERY_BYTES_MAX,
};
use crate::Scripts;
use crate::conversation::Conversation;
use crate::endings::lost;
use crate::meter::Meter;
use crate::protocol::{ChangesOrder, FunctionAsk, Order, OrderedContainer, Report};
use crate::store::StoreFailure;
use crate::turns::{Lane, ScriptKey};

/// Bytes of one answer; a larger one would not fit into a message.
const ANSWER_BYTES_MAX: usize = 32 << 20;
const TOO_LARGE: u16 = 413;

impl Scripts {
    /// Runs a function over changes. The kinds of errors are those of [`Scripts::run`]: `BadRequest` for an
    /// exception, `Forbidden` past a limit of time or memory; [`crate::is_worker_lost`] for a lost worker.
    pub async fn run_changes(
        &self,
        key: ScriptKey,
        invocation: &ChangesInvocation<'_>,
        store: &mut dyn ChangesStore,
    ) -> Result<ChangesOutcome> {
        self.run_changes_logged(key, Meter::default(), invocation, store, &mut Vec::new()).await
    }

    /// [`Scripts::run_changes`] with the lines that a failed function printed, and with the processor time of
    /// any run, also where its worker was stopped.
    pub async fn run_changes_logged(
        &self,
        key: ScriptKey,
        meter: Meter,
        invocation: &ChangesInvocation<'_>,
        store: &mut dyn ChangesStore,
        failed_log: &mut Vec<String>,
    ) -> Result<ChangesOutcome> {
        if invocation.limits.time > FUNCTION_TIME_MAX {
            let seconds = FUNCTION_TIME_MAX.as_secs();
            return Err(Error::bad_request(format!("a function may run for at most {seconds} s")));
        }
        let turn = self.pool.turns().turn(Lane::Changes, key, meter).await?;
        let mut conversation = Conversation::begin(self.pool.lease(&turn)?, invocation.limits.time).await?;
        store.begin();
        conversation.send(&Order::Changes(invocation.order())).await?;
        let Report::Changes { ended, log, used } = outcome(&mut conversation, store).await? else {
            return Err(lost());
        };
        match ended {
            Ok(done) => {
                conversation.end(used);
                let (writes, letters) = (done.writes, done.letters);
                Ok(ChangesOutcome { writes, letters, log, processor_ms: milliseconds(used.processor) })
            }
            Err(failure) => {
                *failed_log = log;
                Err(crate::ended_badly(conversation, failure, used))
            }
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The report that ends the run; reads before it are answered one by one, in order.
async fn outcome(conversation: &mut Conversation, store: &mut dyn ChangesStore) -> Result<Report> {
    loop {
        match conversation.receive().await? {
            Report::Reads(asks) => {
                for ask in asks {
                    let answer = answer(ask, store).await;
                    conversation.send(&Order::Answer(answer)).await?;
                }
            }
            ended => return Ok(ended),
        }
    }
}

async fn answer(ask: FunctionAsk, store: &mut dyn ChangesStore) -> Result<Option<String>, StoreFailure> {
    let (answer, bytes_max) = match ask {
        FunctionAsk::Read(read) => (store.read(read).await?, ANSWER_BYTES_MAX),
        FunctionAsk::Query(query) => (Some(store.query(query).await?), QUERY_BYTES_MAX),
    };
    let bytes = answer.as_ref().map_or(0, String::len);
    if bytes > bytes_max {
        let message = format!(
            "the answer has {bytes} bytes, more than the limit of {bytes_max}: select fewer properties, or give the \
             query a smaller 'max' and a condition"
        );
        return Err(StoreFailure { number: TOO_LARGE, message });
    }
    Ok(answer)
}

impl ChangesInvocation<'_> {
    fn order(&self) -> ChangesOrder {
        ChangesOrder {
            name: self.name.to_owned(),
            version: self.version,
            attempt: self.attempt,
            source: self.source.to_owned(),
            changes: self.changes.to_owned(),
            containers: self.containers.iter().map(FunctionContainer::order).collect(),
            limits: self.limits,
        }
    }
}

impl FunctionContainer<'_> {
    fn order(&self) -> OrderedContainer {
        OrderedContainer {
            name: self.name.to_owned(),
            key_paths: self.key_paths.to_vec(),
            may_write: self.may_write,
        }
    }
}
