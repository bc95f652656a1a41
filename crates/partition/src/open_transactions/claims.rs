//! Rows that open transactions have written, and the writers that wait for them.
//!
//! A transaction that continues for several commands *claims* every item and unique value that it
//! writes. Another transaction that writes to the same row gets a conflict at once. A plain writer
//! finds the claim while it holds the sequencer, after it has planned and before its commit is
//! queued; it gives everything back, waits for the end of the claim, and plans anew. Claims are
//! taken and looked for under the sequencer, so none is overlooked.
//!
//! A writer that waits for a claim holds neither gate nor sequencer, so the transaction can commit
//! or be given up meanwhile. Claims only decide who writes first: a commit compares the rows that
//! it rests on with the stored ones.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use shardlake_model::{Error, ErrorKind, Result};
use tokio::sync::watch;

/// The claims on the rows of one partition.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// How many there are: writers look no further where there is none.
    count: AtomicUsize,
    by_key: Mutex<FxHashMap<Bytes, Claim>>,
}

/// Claim of a transaction on a row.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    claimant: u64,
    stands: watch::Receiver<()>,
}

impl Claims {
    fn by_key(&self) -> MutexGuard<'_, FxHashMap<Bytes, Claim>> {
        // Every change of the map is one step.
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn are_none(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// A claim on one of the rows that a commit writes.
    pub fn on(&self, writes: &[(Bytes, Option<Bytes>)]) -> Option<Claim> {
        if self.are_none() {
            return None;
        }
        let by_key = self.by_key();
        writes.iter().find_map(|(key, _)| by_key.get(key).cloned())
    }
}

impl Claim {
    /// Waits for its end.
    pub async fn ended(mut self, patience: Duration) -> Result<()> {
        let gone = async { while self.stands.changed().await.is_ok() {} };
        tokio::time::timeout(patience, gone).await.map_err(|_| {
            Error::new(
                ErrorKind::Timeout,
                "an open transaction kept the item to itself for as long as the request could wait: retry",
            )
        })
    }
}

/// The claims of one transaction on the rows of one partition. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Claimed {
    claims: Arc<Claims>,
    claimant: u64,
    keys: Vec<Bytes>,
    /// Writers that wait, wait for its end.
    _stands: watch::Sender<()>,
    claim: Claim,
}

impl Claimed {
    pub fn none(claims: &Arc<Claims>) -> Claimed {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let claimant = LAST.fetch_add(1, Ordering::Relaxed);
        let (stands, receiver) = watch::channel(());
        let claim = Claim { claimant, stands: receiver };
        Claimed { claims: claims.clone(), claimant, keys: Vec::new(), _stands: stands, claim }
    }

    /// Claims rows: all of them, or none where one of them is another's.
    pub fn take(&mut self, keys: impl Iterator<Item = Bytes> + Clone) -> bool {
        let mut by_key = self.claims.by_key();
        let mut others = keys.clone().filter_map(|key| by_key.get(&key).map(|claim| claim.claimant));
        if others.any(|claimant| claimant != self.claimant) {
            return false;
        }
        for key in keys {
            if by_key.insert(key.clone(), self.claim.clone()).is_none() {
                self.keys.push(key);
            }
        }
        self.claims.count.store(by_key.len(), Ordering::Release);
        true
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let mut by_key = self.claims.by_key();
        for key in &self.keys {
            by_key.remove(key);
        }
        self.claims.count.store(by_key.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[tokio::test]
    async fn a_row_is_one_transactions_until_that_ends() {
        let claims = Arc::<Claims>::default();
        let (mut one, mut two) = (Claimed::none(&claims), Claimed::none(&claims));
        assert!(one.take([key("a"), key("b")].into_iter()));
        assert!(one.take([key("a")].into_iter()), "it is its own");
        assert!(!two.take([key("c"), key("b")].into_iter()));
        assert!(claims.on(&[(key("c"), None)]).is_none(), "all or none");
        assert!(two.take([key("c")].into_iter()));
        let found = claims.on(&[(key("x"), None), (key("b"), None)]).expect("it is claimed");
        let refused = found.clone().ended(Duration::ZERO).await.expect_err("it stands");
        assert_eq!(refused.kind(), ErrorKind::Timeout);
        let waiting = tokio::spawn(found.ended(Duration::from_secs(60)));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(one);
        waiting.await.expect("ends").expect("the claim has ended");
        assert!(claims.on(&[(key("b"), None)]).is_none());
        drop(two);
        assert_eq!(claims.count.load(Ordering::Acquire), 0);
    }
}
