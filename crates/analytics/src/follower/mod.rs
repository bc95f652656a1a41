//! The thread that keeps all tables true, one step at a time.
//!
//! ```text
//!             ┌ first copy or rebuild: a chunk of items (copy.rs) ──┐
//! most overdue┤ a round of the change log (round.rs)                ├─> one commit of the table
//!             └ retention, compaction, vacuum, orders (upkeep.rs)  ──┘
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the thread: which table is next, new and ended tables |
//! | `step.rs`, `tracked.rs` | parameters of a step; the table as all parts know it |
//! | `table.rs` | the follower of one container: its step, its failures |
//! | `folders.rs` | the files of a table: options, opening, deleting |
//! | `names_file.rs` | `tables.json`, for people |
//! | `paced.rs` | writing no faster than allowed |
//! | `rests.rs` | rests for the sake of requests |
//! | `places.rs` | the position: parts of the hash space, divided and joined with the partitions |
//! | `rows.rs` | stored items as rows |
//! | `copy.rs` | the first copy, and the copies of rebuilds |
//! | `round.rs` | changes of the log as rows and ended rows |
//! | `reconcile.rs` | a table that the change log does not reach back to |
//! | `upkeep.rs` | retention, compaction, vacuum |
//! | `rewrite.rs` | the thread of compaction and widening |
//! | `columns.rs`, `shown.rs` | columns as people write them; the newest version in reports |
//! | `history.rs` | rows without an item |
//! | `verify.rs` | every item against its row |
//!
//! It has a thread of its own with a low priority, because encoding columns takes processors that requests need more. The
//! thread only ever waits for the shards' reads and for durability; catalog changes run on the server's threads.

mod columns;
mod copy;
mod folders;
mod history;
mod names_file;
mod paced;
mod places;
mod reconcile;
mod rests;
mod rewrite;
mod round;
mod rows;
mod shown;
mod step;
mod table;
mod tracked;
mod upkeep;
mod verify;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use shardlake_model::{ContainerRid, Error, Result};
use tokio::runtime::Handle;

use crate::State;
use names_file::NamesFile;
use paced::Pace;
use step::{Rewrites, Server};
use table::Follower;

/// Between two looks at containers whose changes no wake announces.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Starts the thread. It ends once the account is dropped or closes.
pub(crate) fn start(state: &Arc<State>) -> Result<()> {
    let rate = state.options.as_ref().expect("a follower has options").write_rate;
    let pace = Arc::new(Pace::new(rate));
    let server = Server { runtime: Handle::current(), pace, rewrites: Rewrites::default() };
    let state = Arc::downgrade(state);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime =
        runtime.map_err(|error| Error::internal(format!("no runtime for the analytical stores: {error}")))?;
    let run = move || {
        shardlake_stdx::lower_thread_priority();
        runtime.block_on(run(&state, &server));
    };
    let spawned = std::thread::Builder::new().name("analytics".into()).spawn(run);
    spawned
        .map(drop)
        .map_err(|error| Error::internal(format!("no thread for the analytical stores: {error}")))
}

fn look_every(_state: &Weak<State>) -> Duration {
    #[cfg(feature = "testing")]
    if let Some(asked) = _state.upgrade().and_then(|state| state.options.as_ref()?.hooks.look_every()) {
        return asked;
    }
    LOOK_EVERY
}

async fn run(state: &Weak<State>, server: &Server) {
    let mut followers = Followers::default();
    let look_every = look_every(state);
    loop {
        let pause = {
            let Some(state) = state.upgrade().filter(|state| !state.resources.router().is_closing()) else {
                return;
            };
            followers.step(&state, server).await
        };
        if !pause.is_zero() {
            let Some(state) = state.upgrade() else { return };
            let _woken_early =
                tokio::time::timeout(pause.min(look_every), state.statuses.changed.notified()).await;
        }
    }
}

#[derive(Default)]
struct Followers {
    by_container: BTreeMap<ContainerRid, Follower>,
    /// Version of the catalog that they are in line with; `None` before the first look.
    version: Option<u64>,
    names: NamesFile,
}

impl Followers {
    /// One step of the table that waits longest. Returns the time until the next is due.
    async fn step(&mut self, state: &Arc<State>, server: &Server) -> Duration {
        self.follow_catalog(state).await;
        self.names.show(state, self.by_container.values());
        let now = state.resources.router().clock().elapsed();
        let Some(next) = self.by_container.values_mut().min_by_key(|follower| follower.due(server)) else {
            return LOOK_EVERY;
        };
        match next.due(server).saturating_sub(now) {
            Duration::ZERO => {
                // A broken invariant ends the table that it concerns, not the thread of all tables.
                let stepped = AssertUnwindSafe(next.step(state, server)).catch_unwind().await;
                if stepped.is_err() {
                    next.give_up(state.resources.router());
                }
                Duration::ZERO
            }
            early => early,
        }
    }

    async fn follow_catalog(&mut self, state: &Arc<State>) {
        let live = state.resources.router().catalog().load_full();
        let version = live.definitions.numbers.version;
        if self.version == Some(version) {
            return;
        }
        let options = state.options.as_ref().expect("a follower has options");
        if self.version.is_none() {
            folders::remove_strays(options, &live.definitions);
        }
        self.version = Some(version);
        let gone: Vec<ContainerRid> = self.by_container.keys().copied().collect();
        for rid in gone.into_iter().filter(|rid| !live.definitions.analytical.contains(rid)) {
            let follower = self.by_container.remove(&rid).expect("its key was just read");
            follower.delete(options);
            state.statuses.forget(rid);
        }
        for (rid, record) in live.definitions.analytical.iter() {
            let Some(database) = live.definitions.databases.get(&rid.database) else { continue };
            let Some(container) = live.container_of_rid(*rid) else { continue };
            let names = (database.id.clone(), container.record.container.definition.id.clone());
            let folder = record.folder(&names.0, &names.1);
            let follower = self.by_container.entry(*rid).or_insert_with(|| {
                Follower::new(*rid, names, folder, record.clone(), state.statuses.of(*rid))
            });
            follower.set_record(record, options);
        }
    }
}
