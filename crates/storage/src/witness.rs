//! Proof that no planner waits for an engine while it plans a commit.
//!
//! A planner holds its partition's sequencer, behind which every other writer of the partition
//! queues: on a store with reads of 20 ms, one read there costs all of them 20 ms. So a planner
//! marks its task as planning, and every wait of the same task for a read, a permit or durability
//! is a panic. Only in builds with debug assertions: others pay nothing.

#[cfg(debug_assertions)]
use std::collections::HashMap;
#[cfg(debug_assertions)]
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// While this lives, its task (or thread, outside of tasks) must not wait for an engine.
#[derive(Debug)]
#[must_use = "planning ends when this is dropped"]
pub struct Planning {
    #[cfg(debug_assertions)]
    place: Place,
}

impl Planning {
    pub fn begin() -> Planning {
        #[cfg(debug_assertions)]
        {
            let place = Place::current();
            *planning().entry(place).or_insert(0) += 1;
            Planning { place }
        }
        #[cfg(not(debug_assertions))]
        Planning {}
    }
}

#[cfg(debug_assertions)]
impl Drop for Planning {
    fn drop(&mut self) {
        let mut planning = planning();
        if let Some(count) = planning.get_mut(&self.place) {
            *count -= 1;
            if *count == 0 {
                planning.remove(&self.place);
            }
        }
    }
}

/// Called before every wait.
///
/// # Panics
/// When the caller is planning, in builds with debug assertions.
#[inline]
pub fn may_wait(what: &str) {
    #[cfg(debug_assertions)]
    {
        let is_planning = planning().contains_key(&Place::current());
        assert!(!is_planning, "a planner waits for {what} with its sequencer in hand");
    }
    #[cfg(not(debug_assertions))]
    let _ = what;
}

#[cfg(debug_assertions)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Task(tokio::task::Id),
    Thread(std::thread::ThreadId),
}

#[cfg(debug_assertions)]
impl Place {
    fn current() -> Place {
        tokio::task::try_id().map_or_else(|| Place::Thread(std::thread::current().id()), Place::Task)
    }
}

#[cfg(debug_assertions)]
fn planning() -> MutexGuard<'static, HashMap<Place, usize>> {
    static PLANNING: LazyLock<Mutex<HashMap<Place, usize>>> = LazyLock::new(Mutex::default);
    PLANNING.lock().unwrap_or_else(PoisonError::into_inner)
}
