//! User-defined functions of a container, for one page of one partition.
//!
//! The page waits for its turn at the workers before it runs, and occupies a worker from its first call.
//! Turns of procedures are counted separately, so that a procedure whose query calls functions waits for no
//! procedure. Calls of one batch are made in portions of about a twentieth of a second, so that a page can be
//! cut between them.
//!
//! All calls of a page together have the time of one script, and no longer than the request may run. The
//! results of a batch that was stopped are lost: its rows are then called one by one, as far as they are
//! needed, and each of them has a portion's time at least.

use shardlake_router::PartitionHandle;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use shardlake_model::{ContainerScripts, Error, ErrorKind, Result, ScriptKind};
use shardlake_script::{Functions, ScriptKey, ScriptLimits, Scripts, Turn, is_worker_lost};
use shardlake_sql::{Arguments, PreparedQuery, SqlError, UserFunctions};
use shardlake_stdx::Clock;
use xxhash_rust::xxh3::Xxh3;

use crate::processor_tab::ProcessorTab;
use crate::running::Running;

/// The target time of a portion of calls.
const PORTION_TIME: Duration = Duration::from_millis(50);
/// Calls made before the time of a call is known.
const FIRST_CALLS: usize = 16;
const CALLS_MAX: usize = 1024;

/// The inputs of a page for calling the query's functions.
#[derive(Debug, Clone)]
pub struct FunctionSource {
    scripts: Scripts,
    container: Arc<ContainerScripts>,
    prepared: PreparedQuery,
    clock: Clock,
    deadline: Duration,
    /// None where the query calls none.
    place: Option<(Turn, Arc<ProcessorTab>)>,
}

impl Running<'_> {
    /// Waits for the page's turn, if it calls functions.
    pub async fn function_source(&self, partition: &PartitionHandle) -> Result<FunctionSource> {
        let mut source = FunctionSource {
            scripts: self.queries.0.scripts.clone(),
            container: self.entry.scripts.clone(),
            prepared: self.prepared.clone(),
            clock: self.queries.router().clock().clone(),
            deadline: self.ctx.deadline,
            place: None,
        };
        if !self.prepared.user_functions().is_empty() {
            let tab = Arc::new(ProcessorTab::open(self.queries.router(), self.ctx, self.entry, partition));
            let turn = source.scripts.function_turn(self.functions_key(), tab.meter());
            let turn = tokio::time::timeout(source.time_left(), turn).await;
            source.place = Some((turn.map_err(|_| Error::from(SqlError::Interrupted))??, tab));
        }
        Ok(source)
    }
}

impl Running<'_> {
    /// All functions of a query share one turn.
    fn functions_key(&self) -> ScriptKey {
        let mut hasher = Xxh3::new();
        self.prepared.user_functions().hash(&mut hasher);
        ScriptKey { container: self.entry.record.container.rid, script: hasher.finish() }
    }
}

impl FunctionSource {
    /// The scripts of the container.
    pub fn scripts(&self) -> &ContainerScripts {
        &self.container
    }

    pub fn open(&self) -> Box<dyn UserFunctions> {
        self.open_within(ScriptLimits::default().time)
    }

    /// Like `open`, for calls that share a time limit.
    pub fn open_within(&self, time_left: Duration) -> Box<dyn UserFunctions> {
        Box::new(PageFunctions {
            source: self.clone(),
            functions: None,
            calls_at_once: FIRST_CALLS,
            time_left,
        })
    }

    pub fn tab(&self) -> Option<Arc<ProcessorTab>> {
        self.place.as_ref().map(|(_, tab)| tab.clone())
    }

    fn time_left(&self) -> Duration {
        self.deadline.saturating_sub(self.clock.elapsed())
    }

    /// Gets a worker, which blocks: not for the threads that serve requests.
    fn functions(&self) -> Result<Functions> {
        let left = self.time_left();
        if left.is_zero() {
            return Err(SqlError::Interrupted.into());
        }
        let (turn, _) =
            self.place.as_ref().ok_or_else(|| Error::internal("a page calls functions unasked"))?;
        let limits = ScriptLimits::default();
        let limits = ScriptLimits { time: limits.time.min(left), ..limits };
        let found: Option<Vec<_>> = self
            .prepared
            .user_functions()
            .iter()
            .map(|name| self.container.get(ScriptKind::Function, name))
            .collect();
        let found = found.ok_or_else(|| Error::internal("a query was bound to other scripts"))?;
        let definitions: Vec<(&str, &str)> =
            found.iter().map(|script| (script.id.as_str(), script.body.as_str())).collect();
        self.scripts.functions(turn, &definitions, limits)
    }
}

struct PageFunctions {
    source: FunctionSource,
    /// None before the first call, and after a call that cost its worker.
    functions: Option<Functions>,
    /// The number that a portion's time allowed when last measured.
    calls_at_once: usize,
    /// The rest of the page's time after stopped calls.
    time_left: Duration,
}

impl UserFunctions for PageFunctions {
    fn call(&mut self, name: &str, rows: &[Arguments]) -> Result<Vec<Option<String>>> {
        let clock = self.source.clock.clone();
        let began = clock.elapsed();
        let mut answers = Vec::with_capacity(rows.len());
        while answers.len() < rows.len() {
            let portion = &rows[answers.len()..];
            let portion = &portion[..portion.len().min(self.calls_at_once)];
            let before = clock.elapsed();
            let called = self.call_portion(name, portion)?;
            let now = clock.elapsed();
            self.calls_at_once = calls_in(PORTION_TIME, called.len(), now.saturating_sub(before));
            answers.extend(called);
            if now.saturating_sub(began) >= PORTION_TIME {
                break;
            }
        }
        Ok(answers)
    }
}

impl PageFunctions {
    /// Functions are pure: if their worker was killed from outside, another one is asked.
    fn call_portion(&mut self, name: &str, rows: &[Arguments]) -> Result<Vec<Option<String>>> {
        match self.call_once(name, rows) {
            Err(error) if is_worker_lost(&error) => self.call_once(name, rows),
            answers => answers,
        }
    }

    /// After an error that is not the function's own, the next call starts afresh.
    fn call_once(&mut self, name: &str, rows: &[Arguments]) -> Result<Vec<Option<String>>> {
        let mut functions = match self.functions.take() {
            Some(functions) => functions,
            None => self.source.functions()?,
        };
        let began = self.source.clock.elapsed();
        let time = self.time_left.max(PORTION_TIME).min(self.source.time_left());
        let answers = functions.call(name, rows, time);
        match &answers {
            Err(error) if error.kind() != ErrorKind::BadRequest => {
                let taken = self.source.clock.elapsed().saturating_sub(began);
                self.time_left = self.time_left.saturating_sub(taken);
            }
            _ => self.functions = Some(functions),
        }
        answers
    }
}

/// The number of calls that fit a time, by the measured time of earlier calls.
fn calls_in(time: Duration, calls: usize, taken: Duration) -> usize {
    let fit = time.as_nanos().saturating_mul(calls as u128) / taken.as_nanos().max(1);
    usize::try_from(fit).unwrap_or(CALLS_MAX).clamp(1, CALLS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_follow_the_time_that_calls_take() {
        let calls = |calls, micros| calls_in(PORTION_TIME, calls, Duration::from_micros(micros));
        assert_eq!(calls(16, 16 * 10), CALLS_MAX);
        assert_eq!(calls(16, 16 * 1000), 50);
        assert_eq!(calls(16, 5_000_000), 1);
        assert_eq!(calls(16, 0), CALLS_MAX);
    }
}
