//! The pool's side of a run: waits for a worker of the lane for changes, sends the order, and answers reads.

use std::time::Duration;

use shardlake_document::{NESTING_CEILING, ParseLimits, Value};
use shardlake_model::{Error, Numbers, Result};

use super::{
    ChangesInvocation, ChangesOutcome, ChangesStore, FUNCTION_TIME_MAX, FUNCTION_WRITE_BYTES_MAX,
    FUNCTION_WRITES_MAX, FunctionContainer, QUERY_BYTES_MAX,
};
use crate::Scripts;
use crate::conversation::Conversation;
use crate::endings::lost;
use crate::meter::Meter;
use crate::protocol::{ChangesDone, ChangesOrder, FunctionAsk, Order, OrderedContainer, Report};
use crate::store::StoreFailure;
use crate::turns::{Lane, ScriptKey};

/// Bytes of one answer; a larger one would not fit into a message.
const ANSWER_BYTES_MAX: usize = 32 << 20;
const TOO_LARGE: u16 = 413;
/// A batch of changes, which has items with all levels that stored items may have.
const BATCH_LIMITS: ParseLimits =
    ParseLimits { nesting_max: NESTING_CEILING, size_max_bytes: 64 << 20, numbers: Numbers::Rounded };

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
        let Report::Changes { ended, log, used } = outcome(&mut conversation, invocation, store).await?
        else {
            return Err(lost());
        };
        match ended {
            Ok(done) => {
                // A worker that breaks the rules of its own methods is not reused.
                if !invocation.allows(&done) {
                    return Err(lost());
                }
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
async fn outcome(
    conversation: &mut Conversation,
    invocation: &ChangesInvocation<'_>,
    store: &mut dyn ChangesStore,
) -> Result<Report> {
    loop {
        match conversation.receive().await? {
            Report::Reads(asks) => {
                for ask in asks {
                    if invocation.container(ask.container()).is_none() {
                        return Err(lost());
                    }
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

impl FunctionAsk {
    fn container(&self) -> &str {
        match self {
            FunctionAsk::Read(read) => &read.container,
            FunctionAsk::Query(query) => &query.container,
        }
    }
}

impl ChangesInvocation<'_> {
    fn container(&self, name: &str) -> Option<&FunctionContainer<'_>> {
        self.containers.iter().find(|container| container.name == name)
    }

    /// Whether a function may have these results. Its worker has checked them, but a script that controls its
    /// worker could send any.
    fn allows(&self, done: &ChangesDone) -> bool {
        let may_write = |name: &str| self.container(name).is_some_and(|container| container.may_write);
        let bytes = done.writes.iter().map(|write| write.kind.bytes()).sum::<usize>();
        let is_change = |place: u32| match Value::from_json(self.changes.as_bytes(), &BATCH_LIMITS) {
            Ok(Value::Array(changes)) => (place as usize) < changes.len(),
            _ => false,
        };
        done.writes.len() <= FUNCTION_WRITES_MAX
            && bytes <= FUNCTION_WRITE_BYTES_MAX
            && done.writes.iter().all(|write| may_write(&write.container))
            && done.letters.iter().map(|(place, _)| *place).max().is_none_or(is_change)
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::{FunctionWriteKind, FunctionWriteOrder};
    use crate::settings::ScriptLimits;

    fn write(container: &str, item: String) -> FunctionWriteOrder {
        let container = container.to_owned();
        FunctionWriteOrder { container, kind: FunctionWriteKind::Upsert { item }, if_match: None }
    }

    #[test]
    fn results_of_a_worker_that_a_script_controls_are_refused() {
        let containers = [
            FunctionContainer { name: "product", key_paths: &[], may_write: true },
            FunctionContainer { name: "meta", key_paths: &[], may_write: false },
        ];
        let invocation = ChangesInvocation {
            name: "f",
            version: 1,
            attempt: 1,
            source: "",
            changes: "[{}, {}]",
            containers: &containers,
            limits: ScriptLimits::default(),
        };
        let done = |writes, places: &[u32]| ChangesDone {
            writes,
            letters: places.iter().map(|place| (*place, String::new())).collect(),
        };
        let small = || write("product", "{}".into());
        assert!(invocation.allows(&done(vec![small()], &[0, 1])));
        assert!(!invocation.allows(&done(vec![small()], &[1, 2])), "there are two changes");
        assert!(!invocation.allows(&done(vec![write("meta", "{}".into())], &[])), "it may not be written");
        assert!(
            !invocation.allows(&done(vec![write("orders", "{}".into())], &[])),
            "there is no such container"
        );
        assert!(!invocation.allows(&done(vec![small(); 1_001], &[])), "too many");
        assert!(!invocation.allows(&done(vec![write("product", "x".repeat(5 << 20))], &[])), "too large");
    }
}
