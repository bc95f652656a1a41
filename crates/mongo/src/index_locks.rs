//! Locks of commands that create indexes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

/// One lock per collection for index creation: the next command finds complete indexes, not unfinished ones. Holds no
/// more entries than there are such commands.
#[derive(Debug, Clone, Default)]
pub(crate) struct IndexLocks(Arc<Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>>);

impl IndexLocks {
    pub async fn take(&self, namespace: String) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| lock.strong_count() > 0);
            locks.get(&namespace).and_then(Weak::upgrade).unwrap_or_else(|| {
                let lock = Arc::default();
                locks.insert(namespace, Arc::downgrade(&lock));
                lock
            })
        };
        lock.lock_owned().await
    }
}
