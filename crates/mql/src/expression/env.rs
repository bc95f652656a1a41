//! Values of variables while expressions are evaluated.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::error::{MAX_TIME_EXPIRED, Result, fail};
use crate::value::Value;

/// Slots of the variables that every scope has.
pub(crate) const ROOT: usize = 0;
pub(crate) const CURRENT: usize = 1;

/// Repetitions between two checks of the time: a check costs about as much as a short repetition.
const REPETITIONS_PER_LOOK: u32 = 16;

/// Test whether a command's time is over.
#[derive(Clone)]
pub struct TimeTest(Arc<dyn Fn() -> bool + Send + Sync>);

impl TimeTest {
    pub fn new(is_over: impl Fn() -> bool + Send + Sync + 'static) -> TimeTest {
        TimeTest(Arc::new(is_over))
    }
}

impl fmt::Debug for TimeTest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("TimeTest")
    }
}

/// The environment of an evaluation: variables, the time of the command, its time limit, and random numbers.
///
/// Its encoding has neither the time limit nor the sequence of timestamps: the receiver has its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Env {
    slots: Vec<Value>,
    now: i64,
    cluster_time: Option<(u32, u32)>,
    random: u64,
    #[serde(skip)]
    time: Option<TimeTest>,
    /// The latest one of a sequence: seconds, and the increment in the low half.
    #[serde(skip)]
    latest_timestamp: Option<Arc<AtomicU64>>,
    #[serde(skip)]
    repetitions: u32,
}

impl Env {
    /// Milliseconds since 1970 that `$$NOW` answers, and a seed for `$rand` and `$sample`.
    pub fn new(now: i64, seed: u64) -> Env {
        Env {
            slots: vec![Value::Missing; 2],
            now,
            cluster_time: None,
            random: seed | 1,
            time: None,
            latest_timestamp: None,
            repetitions: 0,
        }
    }

    /// Seconds and increment that `$$CLUSTER_TIME` answers.
    pub fn with_cluster_time(mut self, time: (u32, u32)) -> Env {
        self.cluster_time = Some(time);
        self
    }

    /// The command that evaluates from now on: a cursor's next batch has a time of its own.
    pub fn set_time(&mut self, time: TimeTest) {
        self.time = Some(time);
    }

    /// The latest of the timestamps that `$currentDate` continues from.
    pub fn set_latest_timestamp(&mut self, latest: Arc<AtomicU64>) {
        self.latest_timestamp = Some(latest);
    }

    /// A timestamp of now, or above the latest one.
    pub(crate) fn next_timestamp(&self) -> (u32, u32) {
        let first = (((self.now / 1000) as u64) << 32) | 1;
        let next = |latest: u64| first.max(latest + 1);
        let raised = self.latest_timestamp.as_ref().map_or(first, |latest| {
            let before =
                latest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |latest| Some(next(latest)));
            before.map_or(first, next)
        });
        ((raised >> 32) as u32, raised as u32)
    }

    /// Counts one more repetition of work that a statement can repeat without limit: a pass through an array, or a
    /// document through a stage. Error 50 if the command's time is over.
    pub(crate) fn repeat(&mut self) -> Result<()> {
        self.repetitions = self.repetitions.wrapping_add(1);
        if self.repetitions.is_multiple_of(REPETITIONS_PER_LOOK) { self.look_at_time() } else { Ok(()) }
    }

    /// Error 50 if the command's time is over.
    pub fn look_at_time(&self) -> Result<()> {
        if self.time.as_ref().is_some_and(|time| (time.0)()) {
            fail!(MAX_TIME_EXPIRED, "operation exceeded time limit");
        }
        Ok(())
    }

    /// Sets the document that paths start from.
    pub fn set_root(&mut self, root: Value) {
        self.slots[CURRENT] = root.clone();
        self.slots[ROOT] = root;
    }

    pub(crate) fn set(&mut self, slot: usize, value: Value) {
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, Value::Missing);
        }
        self.slots[slot] = value;
    }

    pub(crate) fn get(&self, slot: usize) -> &Value {
        self.slots.get(slot).unwrap_or(&Value::Missing)
    }

    pub(crate) fn replace(&mut self, slot: usize, value: Value) -> Value {
        let old = self.get(slot).clone();
        self.set(slot, value);
        old
    }

    pub fn now(&self) -> i64 {
        self.now
    }

    pub(crate) fn cluster_time(&self) -> Option<(u32, u32)> {
        self.cluster_time
    }

    /// A number of 64 random bits (xorshift, from the seed).
    pub(crate) fn random_bits(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from 0 up to and without 1.
    pub(crate) fn random(&mut self) -> f64 {
        (self.random_bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Env {
    /// Sets the level of the document that paths without a variable start from.
    pub(crate) fn set_current(&mut self, current: Value) {
        self.slots[CURRENT] = current;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::{Document, Scope, parse_expression};

    #[test]
    fn repetitions_end_at_the_first_look_that_finds_the_time_over() {
        let reduce = |items: i32| {
            let range = Value::array(vec![Value::Int(0), Value::Int(items)]);
            let mut operand = Document::one("input", Value::document(Document::one("$range", range)));
            operand.push("initialValue", Value::Int(0));
            operand.push("in", "$$this".into());
            parse_expression(
                &Value::document(Document::one("$reduce", Value::document(operand))),
                &Scope::new(),
            )
        };
        let looks = Arc::new(AtomicU32::new(0));
        let seen = looks.clone();
        let mut env = Env::new(0, 0);
        env.set_time(TimeTest::new(move || seen.fetch_add(1, Ordering::Relaxed) >= 2));
        let ended = reduce(1_000_000).and_then(|reduce| reduce.evaluate(&mut env)).expect_err("it is over");
        assert_eq!((ended.code(), ended.code_name().as_str()), (50, "MaxTimeMSExpired"));
        assert_eq!(looks.load(Ordering::Relaxed), 3);
        let mut endless = Env::new(0, 0);
        let done = reduce(1_000).and_then(|reduce| reduce.evaluate(&mut endless));
        let done = done.expect("who sets no time has all of it");
        assert_eq!(done.to_i32_exact(), Some(999));
    }
}
