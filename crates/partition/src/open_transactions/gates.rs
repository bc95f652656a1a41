//! Gates of logical partitions that transactions hold, and the writers that wait at them.
//!
//! A logical partition has a *gate* for as long as a writer or transaction holds it or waits at it.
//! A transaction passes the gate before it begins and holds it to its end. A plain writer looks for
//! a gate with the sequencer in its hand: where there is none it writes at once; where there is one
//! it releases the sequencer, waits for the gate, and keeps the gate until its commit is queued.
//! Gates are passed in the order of arrival, so neither writers nor transactions can keep the
//! others out.
//!
//! Lock order: gate, then sequencer. The holder of the sequencer never waits for a gate, so the
//! fence of a relocation, which is the sequencer, waits for no script.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use shardlake_model::{Error, ErrorKind, Result};
use tokio::sync::OwnedMutexGuard;

type Gate = Arc<tokio::sync::Mutex<()>>;

#[derive(Debug, Default)]
pub(crate) struct Gates {
    /// How many there are: writers look no further where there is none.
    count: AtomicUsize,
    by_key: Mutex<FxHashMap<Vec<u8>, Gate>>,
}

impl Gates {
    fn by_key(&self) -> MutexGuard<'_, FxHashMap<Vec<u8>, Gate>> {
        // Every change of the map is one step.
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn are_none(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// A place at the gate of a logical partition, which exists from now on. `key` is the common
    /// prefix of its items' keys.
    pub fn place(self: &Arc<Self>, key: Vec<u8>) -> Place {
        let mut by_key = self.by_key();
        let gate = by_key.entry(key.clone()).or_default().clone();
        self.count.store(by_key.len(), Ordering::Release);
        drop(by_key);
        Place { gates: self.clone(), key, gate: Some(gate), passed: None }
    }

    /// A place at the gate, where there is one. Only for the holder of the sequencer: a transaction
    /// takes it once more after it has passed the gate.
    pub fn place_if_any(self: &Arc<Self>, key: impl FnOnce() -> Vec<u8>) -> Option<Place> {
        if self.are_none() {
            return None;
        }
        let key = key();
        let gate = self.by_key().get(&key).cloned()?;
        Some(Place { gates: self.clone(), key, gate: Some(gate), passed: None })
    }
}

/// A place in the queue of a gate; the gate is removed with the last place.
#[derive(Debug)]
pub(crate) struct Place {
    gates: Arc<Gates>,
    key: Vec<u8>,
    /// Until it is dropped.
    gate: Option<Gate>,
    passed: Option<OwnedMutexGuard<()>>,
}

impl Place {
    /// Waits for the gate: from then on no other task writes to the logical partition.
    pub async fn pass(&mut self, patience: Duration) -> Result<()> {
        let gate = self.gate.clone().expect("a place has a gate until it is dropped");
        let passed = match gate.try_lock_owned() {
            Ok(passed) => Ok(passed),
            Err(_) => {
                let gate = self.gate.clone().expect("a place has a gate until it is dropped");
                tokio::time::timeout(patience, gate.lock_owned()).await
            }
        };
        self.passed = Some(passed.map_err(|_| {
            Error::new(
                ErrorKind::Timeout,
                "scripts kept the logical partition to themselves for as long as the request could wait: retry",
            )
        })?);
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_key = self.gates.by_key();
        drop(self.passed.take());
        drop(self.gate.take());
        // A gate is cloned only under the lock of the map, or by the owner of a place.
        if by_key.get(&self.key).is_some_and(|gate| Arc::strong_count(gate) == 1) {
            by_key.remove(&self.key);
            self.gates.count.store(by_key.len(), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn gates_are_passed_one_at_a_time_and_go_with_the_last() {
        let gates = Arc::<Gates>::default();
        assert!(gates.place_if_any(|| b"a".to_vec()).is_none());
        let mut first = gates.place(b"a".to_vec());
        first.pass(SOON).await.expect("free");
        assert!(gates.place_if_any(|| b"b".to_vec()).is_none(), "others are free");
        let mut second = gates.place_if_any(|| b"a".to_vec()).expect("taken");
        let waiting = tokio::spawn(async move {
            second.pass(SOON).await.expect("its turn comes");
            second
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        drop(waiting.await.expect("ends"));
        assert!(gates.place_if_any(|| b"a".to_vec()).is_none(), "nobody is left");
        assert!(gates.by_key().is_empty());
    }

    #[tokio::test]
    async fn who_gives_up_leaves_nothing_behind() {
        let gates = Arc::<Gates>::default();
        let mut first = gates.place(b"a".to_vec());
        first.pass(SOON).await.expect("free");
        let mut second = gates.place(b"a".to_vec());
        let refused = second.pass(Duration::ZERO).await.expect_err("taken");
        assert_eq!(refused.kind(), ErrorKind::Timeout);
        drop(first);
        assert!(!gates.by_key().is_empty(), "the second still has its place");
        drop(second);
        assert!(gates.by_key().is_empty());
        assert_eq!(gates.count.load(Ordering::Acquire), 0);
    }
}
