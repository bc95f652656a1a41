//! The follower of one container: which step is next, and the effects of failures.

use std::sync::Arc;
use std::time::Duration;

use shardlake_analytical_table::error::TableError;
use shardlake_analytical_table::log::Place;
use shardlake_analytical_table::table::{Commit, Location, Table, TableFolders};
use shardlake_catalog::{AnalyticalRecord, HoldState, Holder, PlaceRecord};
use shardlake_model::{ContainerRid, Error, ErrorKind};
use shardlake_router::Serving;
use shardlake_stdx::thread_processor_time;

use super::rewrite::Rewrite;
use super::step::{Server, Step, StepError, Stepped};
use super::tracked::{Tracked, hold_position};
use super::{copy, folders, history, places, reconcile, round, shown, upkeep, verify};
use crate::report::{ErrorReport, OrderReport, TableState};
use crate::status::Status;
use crate::{AnalyticsOptions, State};

/// Interval to look whether a table is still paused or closed.
const IDLE_LOOK: Duration = Duration::from_secs(5);
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// Commits of a former server that may come after this one has opened a table in an object store.
const LATE_COMMITS_MAX: u32 = 3;
/// Free bytes of the disk below which tables that share it with the data are not written.
const FREE_BYTES_MIN: u64 = 2 << 30;

/// The follower of a container between two steps.
pub struct Follower {
    tracked: Tracked,
    /// The files; `None` until the first step, and after a failure.
    opened: Option<Opened>,
    due: Duration,
    retry: Duration,
    /// A failure that an operator has to mend, and the generation that it is of.
    failed: Option<(u32, String)>,
    late_commits: u32,
}

/// The open files of a table.
pub struct Opened {
    pub folders: TableFolders,
    /// The table of readers; `None` before the first swap.
    pub serving: Option<Table>,
    /// The generation that is being built.
    pub building: Option<Table>,
    /// Files of `serving` that are written anew.
    pub rewrite: Option<Rewrite>,
}

impl Opened {
    fn show(&self, status: &Status) {
        shown::show(status, self.serving.as_ref(), self.building.as_ref());
    }
}

impl Follower {
    pub fn new(
        rid: ContainerRid,
        names: (String, String),
        folder: String,
        record: Arc<AnalyticalRecord>,
        status: Arc<Status>,
    ) -> Follower {
        let tracked =
            Tracked { rid, names, folder, record, status, retained: None, vacuumed: None, order: None };
        Follower {
            tracked,
            opened: None,
            due: Duration::ZERO,
            retry: RETRY_FIRST,
            failed: None,
            late_commits: 0,
        }
    }

    /// Database, container, and folder below the root.
    pub fn names(&self) -> (&str, &str, &str) {
        let Tracked { names: (database, container), folder, .. } = &self.tracked;
        (database, container, folder)
    }

    pub fn state_name(&self) -> &'static str {
        let live = self.tracked.status.live();
        live.state.as_ref().map_or(TableState::Building { percent: 0 }.name(), TableState::name)
    }

    /// Orders are carried out at once, unless the last step failed or files are written anew. New files are committed at once.
    pub fn due(&self, server: &Server) -> Duration {
        let rewrite = self.opened.as_ref().and_then(|opened| opened.rewrite.as_ref());
        let is_finished = rewrite.is_some_and(Rewrite::is_finished);
        let is_free = self.retry == RETRY_FIRST && rewrite.is_none() && server.rewrites.are_free();
        let is_asked = is_free && !self.tracked.status.live().orders.is_empty();
        if is_finished || is_asked { Duration::ZERO } else { self.due }
    }

    /// Closes the files. They are opened again by the next step.
    fn close_files(&mut self) {
        self.opened = None;
        self.tracked.put_back_order();
        assert!(self.tracked.order.is_none(), "an order of closed files begins again");
    }

    /// Takes a changed record: settings, a pause, another generation.
    pub fn set_record(&mut self, record: &Arc<AnalyticalRecord>, options: &AnalyticsOptions) {
        if Arc::ptr_eq(record, &self.tracked.record) || *record == self.tracked.record {
            return;
        }
        if record.table != self.tracked.record.table {
            folders::delete(options, Some(&self.tracked.folder), &self.tracked.record.table);
        }
        self.tracked.record = record.clone();
        // Options are read when files are opened.
        self.close_files();
        self.due = Duration::ZERO;
    }

    /// Deletes the files of an ended container.
    pub fn delete(self, options: &AnalyticsOptions) {
        drop(self.opened);
        folders::delete(options, Some(&self.tracked.folder), &self.tracked.record.table);
    }

    /// Does the next piece of work, and sets when the one after it is due.
    pub async fn step(&mut self, state: &State, server: &Server) {
        let router = state.resources.router();
        let begun = thread_processor_time();
        let outcome = self.try_step(state, server).await;
        let now = router.clock().elapsed();
        let wait = match outcome {
            Ok(wait) => {
                self.retry = RETRY_FIRST;
                wait
            }
            Err(error) => self.put_off(state, server, error).await,
        };
        self.due = now + wait;
        if let (Some(begun), Some(ended)) = (begun, thread_processor_time()) {
            self.tracked.status.live().counts.cpu_seconds += ended.saturating_sub(begun).as_secs_f64();
        }
    }

    /// Ends the table after a panic in a step; a rebuild begins anew.
    pub fn give_up(&mut self, router: &Serving) {
        let reason =
            "the follower broke off at an invariant that does not hold: see the log, and rebuild the table";
        tracing::error!(container = %self.tracked.rid, reason, "an analytical table failed");
        self.close_files();
        self.failed = Some((self.tracked.record.generation, reason.to_owned()));
        self.due = router.clock().elapsed() + IDLE_LOOK;
        self.set_state(TableState::Failed(reason.to_owned()));
        let error = ErrorReport { message: reason.to_owned(), time: router.clock().now().seconds() };
        self.tracked.status.live().last_error = Some(error);
    }

    async fn try_step(&mut self, state: &State, server: &Server) -> Stepped {
        let (router, options) =
            (state.resources.router(), state.options.as_ref().expect("a follower has options"));
        let Ok(entry) = router.entry_of_rid(self.tracked.rid) else { return Ok(IDLE_LOOK) };
        if self.tracked.record.is_paused || self.tracked.record.closed.is_some() {
            shown::show_left(&self.tracked, options);
        }
        if let Some(closed) = self.tracked.record.closed {
            return self.close(state, server, closed).await;
        }
        if self.tracked.record.is_paused {
            self.set_state(TableState::Paused);
            self.refuse_orders(router, "the table is paused: resume it first");
            return Ok(IDLE_LOOK);
        }
        if let Some((generation, reason)) = &self.failed {
            if *generation == self.tracked.record.generation {
                let reason = reason.clone();
                self.refuse_orders(router, &format!("the table failed, rebuild it: {reason}"));
                self.set_state(TableState::Failed(reason));
                return Ok(IDLE_LOOK);
            }
            self.failed = None;
        }
        let step = Step { router, options, entry: &entry, server };
        self.check_room(&step)?;
        let mut opened = match self.opened.take() {
            Some(opened) => opened,
            None => self.open(&step).await?,
        };
        let stepped = self.step_of(&step, &mut opened).await;
        // After a failure the files are opened anew: the state in memory may be ahead of them.
        match stepped {
            Ok(_) => {
                opened.show(&self.tracked.status);
                self.opened = Some(opened);
            }
            Err(_) => self.tracked.put_back_order(),
        }
        stepped
    }

    async fn step_of(&mut self, step: &Step<'_>, opened: &mut Opened) -> Stepped {
        match (self.next_step(step, opened).await, opened.serving.as_mut()) {
            (Err(StepError::Hole), Some(serving)) => {
                let reason =
                    "the change log no longer reaches back to the table: it is compared with its items";
                tracing::warn!(container = %self.tracked.rid, reason, "an analytical table is reconciled");
                self.set_state(TableState::Waiting(reason.to_owned()));
                // The log is kept from here on, so that rounds can follow.
                self.hold_log(step, self.tracked.record.generation, ends_of(step)).await?;
                reconcile::step(&self.tracked, step, serving).await?;
                Ok(Duration::ZERO)
            }
            (stepped, _) => stepped,
        }
    }

    async fn next_step(&mut self, step: &Step<'_>, opened: &mut Opened) -> Stepped {
        if let Some(building) = &mut opened.building {
            if let Some(gap) = places::first_gap(building.places())? {
                let percent = percent_of(building.places());
                self.set_state(match opened.serving {
                    None => TableState::Building { percent },
                    Some(_) => TableState::Rebuilding { percent },
                });
                return copy::step(&self.tracked, step, building, &gap).await;
            }
            let round = match round::step(&self.tracked, step, building).await {
                Err(StepError::Hole) => {
                    Err(StepError::Apart("the change log no longer reaches back to its copy"))
                }
                round => round,
            }?;
            if !round.is_level {
                return Ok(Duration::ZERO);
            }
            return self.swap(step, opened).await;
        }
        #[cfg(feature = "testing")]
        assert!(!step.options.hooks.has(crate::testing::SeededBug::Panic), "a test asks for it");
        let serving = opened.serving.as_mut().expect("a table is served or built");
        let order = self.tracked.status.live().orders.take_verification();
        if let Some(order) = order {
            let compared = verify::step(&self.tracked, step, serving, order).await;
            if compared.is_err() {
                self.tracked.status.live().orders.put_back_verification(order);
            }
            return compared.map(|()| Duration::ZERO);
        }
        let round = round::step(&self.tracked, step, serving).await?;
        upkeep::step(&mut self.tracked, step, serving, &mut opened.rewrite)?;
        opened.show(&self.tracked.status);
        self.set_state(TableState::Following);
        Ok(if round.is_level { self.lag(step) } else { Duration::ZERO })
    }

    fn lag(&self, step: &Step<'_>) -> Duration {
        let asked =
            self.tracked.record.settings.lag_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        asked.unwrap_or(step.options.lag)
    }

    async fn open(&mut self, step: &Step<'_>) -> Result<Opened, StepError> {
        let container = &step.entry.record.container;
        let rid = container.rid.to_string();
        let is_known = folders::is_known(step.options, &self.tracked.record)?;
        let folders = folders::open(step, &self.tracked.folder, &self.tracked.record)?;
        let options = folders::table_options(step.options, step.router, container, &self.tracked.record);
        let mut serving = Table::open(&folders, Location::Serving, options.clone())?;
        if serving.as_ref().is_some_and(|table| table.version().info.container != rid) {
            // The table of an ended container of this name.
            drop(serving.take());
            folders::delete(step.options, Some(&self.tracked.folder), &self.tracked.record.table);
            return Err(StepError::Account(Error::new(
                ErrorKind::Unavailable,
                "the table of a deleted container of this name was removed first",
            )));
        }
        let generation = self.tracked.record.generation;
        let is_current = serving.as_ref().is_some_and(|table| table.version().info.generation >= generation);
        if is_current && !is_known {
            return Err(StepError::Apart(
                "its local files are missing: the data may be of a backup, and the table of later changes",
            ));
        }
        let is_of_other_history =
            |table: &Table| is_current && table.version().info.history != self.tracked.record.history;
        if serving.as_ref().is_some_and(is_of_other_history) {
            return Err(StepError::Apart(
                "the account was restored from a backup, and the table may have later changes",
            ));
        }
        #[cfg(feature = "testing")]
        if let Some(table) = &mut serving
            && step.options.hooks.has(crate::testing::SeededBug::RestartAhead)
        {
            let ahead = places::in_partitions(step.entry, table.places())?.into_iter();
            let ahead = ahead.map(|(partition, _, place)| Place { lsn: partition.durable_lsn(), ..place });
            let same = Commit::same(table.version(), step.now_ms());
            table.commit_state(&Commit { places: ahead.collect(), ..same })?;
        }
        if !is_known {
            // Only now: a failure before must find the table unknown again.
            folders::note_known(step.options, &self.tracked.folder, &self.tracked.record)?;
        }
        self.tracked.status.live().location = Some(step.options.root.address(&self.tracked.folder));
        if is_current {
            self.release_former(step).await?;
            self.hold(step, serving.as_ref().expect("just seen").places()).await?;
            return Ok(Opened { folders, serving, building: None, rewrite: None });
        }
        let building = match Table::open(&folders, Location::Building(generation), options.clone())? {
            Some(building) if building.version().info.history != self.tracked.record.history => {
                return Err(StepError::Apart(
                    "the account was restored from a backup, and its copy is of before",
                ));
            }
            Some(building) => {
                self.hold(step, building.places()).await?;
                building
            }
            None => {
                // The log is kept from here on, so that no deletion after a chunk is missed.
                self.hold_log(step, generation, ends_of(step)).await?;
                let commit = Commit { places: Vec::new(), state: "building".into(), time: step.now_ms() };
                Table::create(&folders, Location::Building(generation), generation, options, &commit)?
            }
        };
        Ok(Opened { folders, serving, building: Some(building), rewrite: None })
    }

    /// Makes sure that the log is kept from the table's position on.
    async fn hold(&self, step: &Step<'_>, places: &[Place]) -> Result<(), StepError> {
        let holder = Holder::Analytics(self.tracked.record.generation);
        match step.router.hold_state(self.tracked.rid, holder) {
            Some(HoldState::Held) => Ok(()),
            // Rounds find out whether the log still has the changes that the table lacks.
            Some(HoldState::Lost) | None => {
                self.hold_log(step, self.tracked.record.generation, hold_position(places)?).await
            }
        }
    }

    async fn hold_log(
        &self,
        step: &Step<'_>,
        generation: u32,
        position: Vec<PlaceRecord>,
    ) -> Result<(), StepError> {
        let (router, rid) = (step.router.clone(), self.tracked.rid);
        let hold = async move { router.hold_log(rid, Holder::Analytics(generation), position).await };
        Ok(step.server.run(hold).await?)
    }

    /// Makes the built generation the one that readers see.
    async fn swap(&mut self, step: &Step<'_>, opened: &mut Opened) -> Stepped {
        let mut building = opened.building.take().expect("a generation is built");
        if let Some(serving) = &opened.serving {
            history::carry(&self.tracked, step, serving, &mut building).await?;
        }
        let commit =
            Commit { places: building.places().to_vec(), state: "following".into(), time: step.now_ms() };
        let generation = self.tracked.record.generation;
        opened.rewrite = None;
        opened.serving = Some(building.swap(&opened.folders, &commit)?);
        // A copy has items that are past the analytical time to live.
        self.tracked.retained = None;
        self.tracked.count_commit("swap");
        tracing::info!(container = %self.tracked.rid, generation, "an analytical table is complete");
        self.release_former(step).await?;
        Ok(Duration::ZERO)
    }

    /// Former generations need no log any more. Also after a failure behind the swap, when the table is opened.
    async fn release_former(&self, step: &Step<'_>) -> Result<(), StepError> {
        self.release_holds(step.router, step.server, 1..self.tracked.record.generation).await
    }

    async fn release_holds(
        &self,
        router: &Serving,
        server: &Server,
        generations: impl Iterator<Item = u32>,
    ) -> Result<(), StepError> {
        for holder in generations.map(Holder::Analytics) {
            if router.hold_state(self.tracked.rid, holder).is_some() {
                let (router, rid) = (router.clone(), self.tracked.rid);
                server.run(async move { router.release_hold(rid, holder).await }).await?;
            }
        }
        Ok(())
    }

    async fn close(&mut self, state: &State, server: &Server, closed: u64) -> Stepped {
        let (router, options) =
            (state.resources.router(), state.options.as_ref().expect("a follower has options"));
        self.set_state(TableState::Closed);
        self.close_files();
        self.refuse_orders(router, "the table is closed: set analyticalStorageTtl first");
        self.release_holds(router, server, 1..=self.tracked.record.generation).await?;
        let age = router.clock().now().seconds().saturating_sub(closed);
        if age >= options.closed_retention.as_secs() {
            folders::delete(options, Some(&self.tracked.folder), &self.tracked.record.table);
            let (resources, rid, table) =
                (state.resources.clone(), self.tracked.rid, self.tracked.record.table.clone());
            server.run(async move { resources.forget_analytical(rid, &table).await }).await?;
        }
        Ok(IDLE_LOOK)
    }

    /// Tables that share a disk with the data leave it some room.
    fn check_room(&self, step: &Step<'_>) -> Result<(), StepError> {
        let shards = step.router.stores().iter();
        let root = step.options.root.directory();
        let shares = root.is_some_and(|root| root.parent() == step.options.local.parent());
        let free = shards.filter_map(|shard| shard.disk_free_bytes()).min();
        match free.filter(|free| shares && *free < FREE_BYTES_MIN) {
            Some(free) => Err(StepError::Account(Error::new(
                ErrorKind::Unavailable,
                format!("the disk has {free} bytes free, and {FREE_BYTES_MIN} are left to the data"),
            ))),
            None => Ok(()),
        }
    }

    /// The effect of a failure on the table. Returns the time until the next step.
    async fn put_off(&mut self, state: &State, server: &Server, error: StepError) -> Duration {
        if state.resources.router().is_closing() {
            return IDLE_LOOK;
        }
        let now = state.resources.router().clock().now();
        let note = |words: String| Some(ErrorReport { message: words, time: now.seconds() });
        let words = match error {
            // Split, merged or moved just now: the next look sees its successors.
            StepError::Account(error) if error.kind() == ErrorKind::PartitionGone => return Duration::ZERO,
            StepError::Account(error) => error.message().to_owned(),
            StepError::Table(TableError::Store(error)) => error.to_string(),
            StepError::Table(TableError::Unsure) => TableError::Unsure.to_string(),
            // A request of the server before may have been under way when this one took the account. Its commit is whole, and has
            // its position with it. Without the lease it could not be known which of two servers is the former one.
            StepError::Table(TableError::AnotherWriter { version })
                if self.late_commits < LATE_COMMITS_MAX
                    && state.options.as_ref().is_some_and(|options| options.root.directory().is_none())
                    && state.resources.router().stores().is_leased() =>
            {
                self.late_commits += 1;
                tracing::info!(container = %self.tracked.rid, version, "an analytical table is opened again behind a version of another writer");
                return Duration::ZERO;
            }
            StepError::Table(error) => {
                let words = error.to_string();
                tracing::warn!(container = %self.tracked.rid, reason = words, "an analytical table failed: rebuild it");
                self.failed = Some((self.tracked.record.generation, words.clone()));
                self.set_state(TableState::Failed(words.clone()));
                self.tracked.status.live().last_error = note(words);
                return IDLE_LOOK;
            }
            // Met again and again: a comparison holds the log first.
            StepError::Hole => "the change log no longer reaches back to the table".to_owned(),
            StepError::Apart(reason) => {
                tracing::warn!(container = %self.tracked.rid, reason, "an analytical table is made anew");
                self.tracked.status.live().last_error = note(reason.to_owned());
                let (resources, rid) = (state.resources.clone(), self.tracked.rid);
                match server.run(async move { resources.rebuild_analytical(rid).await }).await {
                    Ok(()) => return Duration::ZERO,
                    Err(error) => error.message().to_owned(),
                }
            }
        };
        let is_new = !matches!(self.tracked.status.live().state, Some(TableState::Waiting(_)));
        if is_new {
            tracing::warn!(container = %self.tracked.rid, reason = words, "an analytical table waits");
        }
        self.set_state(TableState::Waiting(words.clone()));
        self.tracked.status.live().last_error = note(words);
        let wait = self.retry;
        self.retry = (wait * 2).min(RETRY_MAX);
        wait
    }

    /// Ends the orders of a table that carries none out.
    fn refuse_orders(&self, router: &Serving, reason: &str) {
        let time = router.clock().now().seconds();
        let mut live = self.tracked.status.live();
        // The record is old: an operator has resumed the table, and the next step carries out the orders.
        // New orders wait for this lock.
        let catalog = router.catalog().load();
        let record = catalog.definitions.analytical.get(&self.tracked.rid);
        if record.is_none_or(|record| *record != self.tracked.record) {
            return;
        }
        let compaction = live.orders.take_compaction().map(|(number, _)| (number, "compact"));
        let verification = live.orders.take_verification().map(|number| (number, "verify"));
        for (number, order) in compaction.into_iter().chain(verification) {
            let outcome = reason.to_owned();
            live.orders.finish(OrderReport { number, order, outcome, is_right: false, time });
        }
    }

    fn set_state(&self, state: TableState) {
        let mut live = self.tracked.status.live();
        live.state = Some(state);
        live.state_of = self.tracked.record.generation;
    }
}

/// The ends of the logs now.
fn ends_of(step: &Step<'_>) -> Vec<PlaceRecord> {
    let parts = step.entry.map.iter();
    parts.map(|part| PlaceRecord::new(part.epk_range(), part.durable_lsn())).collect()
}

/// Hundredths of the hash space that places cover, for people.
fn percent_of(places: &[Place]) -> u8 {
    let number = |hex: &str| {
        let digits = format!("{hex:0<8.8}");
        u64::from_str_radix(&digits, 16).unwrap_or(0)
    };
    // Hashes are below 2^126, so their texts begin with at most 3F.
    let bound = |hex: &str| number(hex).min(0x4000_0000);
    let covered: u64 =
        places.iter().map(|place| bound(&place.span.max).saturating_sub(bound(&place.span.min))).sum();
    (covered * 100 / 0x4000_0000).min(99) as u8
}
