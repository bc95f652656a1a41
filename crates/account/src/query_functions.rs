//! User-defined functions of a container, for one page of one partition.
//!
//! A worker is taken when a page calls first and given back at its end; those of procedures are counted apart, so that a procedure
//! whose query calls functions waits for no procedure. Calls of one batch are made in portions of about a twentieth of a
//! second, so that a page can be cut between them; one call that does not end is stopped by the limits of scripts, or by the
//! request's deadline where that comes first.

use std::sync::Arc;
use std::time::Duration;

use shardlake_model::{ContainerScripts, Error, ErrorKind, Result, ScriptKind};
use shardlake_script::{Functions, ScriptLimits, Scripts};
use shardlake_sql::{Arguments, PreparedQuery, SqlError, UserFunctions};
use shardlake_stdx::Clock;

use crate::query::Running;

/// How long a portion of calls should take.
const PORTION_TIME: Duration = Duration::from_millis(50);
/// Calls made before it is known how long one takes.
const FIRST_CALLS: usize = 16;
const CALLS_MAX: usize = 1024;

/// What a page needs to call the functions that its query names.
#[derive(Debug, Clone)]
pub(crate) struct FunctionSource {
    scripts: Scripts,
    container: Arc<ContainerScripts>,
    prepared: Arc<PreparedQuery>,
    clock: Clock,
    deadline: Duration,
}

impl Running<'_> {
    pub(crate) fn function_source(&self) -> FunctionSource {
        FunctionSource {
            scripts: self.account.0.scripts.clone(),
            container: self.entry.scripts.clone(),
            prepared: self.prepared.clone(),
            clock: self.account.clock().clone(),
            deadline: self.ctx.deadline,
        }
    }
}

impl FunctionSource {
    pub fn open(&self) -> Box<dyn UserFunctions> {
        Box::new(PageFunctions { source: self.clone(), functions: None, calls_at_once: FIRST_CALLS })
    }

    /// Waits for a worker: not for the threads that serve requests.
    fn functions(&self) -> Result<Functions> {
        let left = self.deadline.saturating_sub(self.clock.elapsed());
        if left.is_zero() {
            return Err(SqlError::Interrupted.into());
        }
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
        self.scripts.functions(&definitions, limits)
    }
}

struct PageFunctions {
    source: FunctionSource,
    /// None before the first call, and when a call has cost its worker.
    functions: Option<Functions>,
    /// As many as a portion's time allowed when last measured.
    calls_at_once: usize,
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
            answers.extend(self.call_portion(name, portion)?);
            let now = clock.elapsed();
            self.calls_at_once = calls_in(PORTION_TIME, portion.len(), now.saturating_sub(before));
            if now.saturating_sub(began) >= PORTION_TIME {
                break;
            }
        }
        Ok(answers)
    }
}

impl PageFunctions {
    /// After an error that is not the function's own, the next call starts afresh.
    fn call_portion(&mut self, name: &str, rows: &[Arguments]) -> Result<Vec<Option<String>>> {
        let mut functions = match self.functions.take() {
            Some(functions) => functions,
            None => self.source.functions()?,
        };
        let answers = functions.call(name, rows);
        if !matches!(&answers, Err(error) if error.kind() != ErrorKind::BadRequest) {
            self.functions = Some(functions);
        }
        answers
    }
}

/// How many calls fit a time when so many took so long.
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
