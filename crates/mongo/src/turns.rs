//! Commands that wait for each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

/// One lock per collection for index creation: the next command finds complete indexes, not unfinished ones. Holds no
/// more entries than there are such commands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns(Arc<Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>>);

impl Turns {
    pub async fn take(&self, namespace: String) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| turn.strong_count() > 0);
            turns.get(&namespace).and_then(Weak::upgrade).unwrap_or_else(|| {
                let turn = Arc::default();
                turns.insert(namespace, Arc::downgrade(&turn));
                turn
            })
        };
        turn.lock_owned().await
    }
}
