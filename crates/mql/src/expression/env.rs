//! Values of variables while expressions are evaluated.

use crate::value::Value;

/// Slots of the variables that every scope has.
pub(crate) const ROOT: usize = 0;
pub(crate) const CURRENT: usize = 1;

/// What an evaluation knows besides its document: variables, the time of the command, and chance.
#[derive(Clone, Debug)]
pub struct Env {
    slots: Vec<Value>,
    now: i64,
    cluster_time: Option<(u32, u32)>,
    random: u64,
}

impl Env {
    /// Milliseconds since 1970 that `$$NOW` answers, and a seed for `$rand` and `$sample`.
    pub fn new(now: i64, seed: u64) -> Env {
        Env { slots: vec![Value::Missing; 2], now, cluster_time: None, random: seed | 1 }
    }

    /// Seconds and increment that `$$CLUSTER_TIME` answers.
    pub fn with_cluster_time(mut self, time: (u32, u32)) -> Env {
        self.cluster_time = Some(time);
        self
    }

    /// Makes a document the one that paths speak of.
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
    /// Makes a level of the document the one that paths without a variable speak of.
    pub(crate) fn set_current(&mut self, current: Value) {
        self.slots[CURRENT] = current;
    }
}
