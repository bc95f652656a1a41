//! Work of a projection: small steps, each of which may be repeated.
//!
//! The order is: a place's page of changes, the items in it one after the other, each item's counterparts page by page,
//! a few of them at a time. A failed step stays at its place in the queue, so that a spent budget or a moved partition
//! costs no more than the step in progress. A place advances past its page once all writes that the page led to are
//! done. A change that arrives while its item is in progress lies behind it in the feed and is processed later, so the
//! newest version wins.

use std::collections::VecDeque;
use std::sync::Mutex;

use bytes::Bytes;
use futures::StreamExt;
use rustc_hash::FxHashSet;
use shardlake_catalog::{Checkpoint, PlaceRecord, ProjectionRecord};
use shardlake_change_log::{Followed, FollowerPage, LogFollower, LogPosition, Needs, NextPage, written};
use shardlake_document::Value;
use shardlake_model::{ContainerRid, ErrorKind, Result};
use shardlake_partition::item_of_position;

use crate::Projections;
use crate::apply::{Applied, Failure, Item, SourceValues, apply, context, is_key, parameters, read};
use crate::dead_letters::{DeadLetter, send};
use crate::path::{elements, get};
use crate::records::ProjectionEntry;
use crate::rule::Compiled;
use shardlake_items::FeedScope;
use shardlake_queries::{QueryRequest, QueryWants};
use shardlake_router::ContainerHandle;

/// Operations of one page of the feed.
const OPERATIONS_MAX: usize = 64;
/// Target items of one page of a query.
const ITEMS_MAX: i64 = 100;
/// Target items written at once.
const CONCURRENT: usize = 16;
/// Limit for reading the source items of one target item, to detect that there are too many.
const SOURCES_MAX: i64 = 10;
/// Bound on the remembered own writes, the latest first; others are checked like a client's.
const OWN_WRITES_MAX: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Worked,
    /// There was nothing to do in one place.
    Looked,
    /// All places are read to their ends.
    Idle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Target,
}

/// Position of a projection, in memory. Its stored part is [`Work::checkpoint`].
#[derive(Debug)]
pub(crate) struct Work {
    source: LogFollower,
    target: LogFollower,
    /// The side to read next.
    turn: Side,
    page: Option<Page>,
    own: Mutex<OwnWrites>,
}

/// A page of the feed with items in progress.
#[derive(Debug)]
struct Page {
    side: Side,
    read: FollowerPage,
    items: VecDeque<Bytes>,
    task: Option<Task>,
}

/// A changed item in progress.
#[derive(Debug)]
enum Task {
    /// A source item: its counterparts, page by page.
    Copying { source: SourceValues, items: VecDeque<Item>, next: Option<String>, is_found: bool },
    /// A target item: the source items that its values name.
    Checking { item: Item, keys: VecDeque<Vec<Value>> },
}

/// One step's surroundings.
struct Step<'a> {
    projections: &'a Projections,
    entry: &'a ProjectionEntry,
    source: ContainerHandle,
    target: ContainerHandle,
    own: &'a Mutex<OwnWrites>,
}

/// The last versions of target items that the projection wrote itself. They appear in the target's feed, and need no
/// check: they were right when they were written, and a later change of the source is in its own feed.
#[derive(Debug, Default)]
struct OwnWrites {
    versions: FxHashSet<(Bytes, u64)>,
    /// The remembered versions, oldest first.
    order: VecDeque<(Bytes, u64)>,
}

impl OwnWrites {
    fn note(&mut self, key: Vec<u8>, lsn: u64) {
        let key = Bytes::from(key);
        if self.versions.insert((key.clone(), lsn)) {
            self.order.push_back((key, lsn));
        }
        if self.order.len() > OWN_WRITES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.versions.remove(&oldest);
        }
    }
}

impl Work {
    pub fn new(record: &ProjectionRecord, checkpoint: &Checkpoint) -> Result<Work> {
        // Each step reads the newest version of its item: deletions leave nothing to copy.
        let follower = |container: ContainerRid, places: &[PlaceRecord]| -> Result<LogFollower> {
            Ok(LogFollower::open(container, LogPosition::of_records(places)?, Needs::LastVersions))
        };
        Ok(Work {
            source: follower(record.source, &checkpoint.source)?,
            target: follower(record.target, &checkpoint.target)?,
            turn: Side::Source,
            page: None,
            own: Mutex::default(),
        })
    }

    /// How far everything is done.
    pub fn checkpoint(&self, entry: &ProjectionEntry) -> Checkpoint {
        let counts = entry.status.live().checkpoint.counts;
        let (source, target) = (self.source.position().records(), self.target.position().records());
        Checkpoint { source, target, counts }
    }

    pub async fn step(&mut self, projections: &Projections, entry: &ProjectionEntry) -> Result<Progress> {
        let source = handle(projections, entry.record.source)?;
        let target = handle(projections, entry.record.target)?;
        let Some(page) = &mut self.page else { return self.read_on(projections).await };
        let step = Step { projections, entry, source, target, own: &self.own };
        if let Some(task) = &mut page.task {
            if step.go_on(task).await? {
                page.task = None;
            }
        } else if let Some(position) = page.items.front() {
            page.task = step.begin(page.side, position).await?;
            page.items.pop_front();
            entry.status.count(|counts| counts.changes += 1);
        } else {
            let page = self.page.take().expect("it is at work");
            self.follower(page.side).done(&page.read.span, page.read.upto);
            self.show(entry);
        }
        Ok(Progress::Worked)
    }

    /// Publishes the progress.
    fn show(&self, entry: &ProjectionEntry) {
        let checkpoint = self.checkpoint(entry);
        entry.status.live().checkpoint = checkpoint;
    }

    async fn read_on(&mut self, projections: &Projections) -> Result<Progress> {
        for _ in Side::BOTH {
            let side = self.turn;
            self.turn = side.other();
            match self.follower(side).next_page(projections.router(), OPERATIONS_MAX).await? {
                NextPage::End => {}
                NextPage::Nothing => return Ok(Progress::Looked),
                NextPage::Page(read) => {
                    let own = self.own.lock().expect("nothing panics under this lock");
                    let is_news =
                        |version: &(Bytes, u64)| side == Side::Source || !own.versions.contains(version);
                    let news = written(&read.changes).into_iter().filter(is_news);
                    let items = news.map(|(key, _)| key).collect();
                    drop(own);
                    self.page = Some(Page { side, read, items, task: None });
                    // While this side is processed, the other may get new changes.
                    self.follower(side.other()).look_again(projections.router());
                    return Ok(Progress::Worked);
                }
            }
        }
        Side::BOTH.into_iter().for_each(|side| self.follower(side).look_again(projections.router()));
        Ok(Progress::Idle)
    }

    fn follower(&mut self, side: Side) -> &mut LogFollower {
        match side {
            Side::Source => &mut self.source,
            Side::Target => &mut self.target,
        }
    }

    /// The partitions with their LSNs, to wait for the next commit.
    pub fn followed(&self, projections: &Projections) -> Vec<Followed> {
        let [source, target] =
            [&self.source, &self.target].map(|follower| follower.followed(projections.router()));
        source.into_iter().chain(target).collect()
    }
}

impl Side {
    const BOTH: [Side; 2] = [Side::Source, Side::Target];

    fn other(self) -> Side {
        match self {
            Side::Source => Side::Target,
            Side::Target => Side::Source,
        }
    }
}

fn handle(projections: &Projections, rid: ContainerRid) -> Result<ContainerHandle> {
    Ok(ContainerHandle { entry: projections.router().entry_of_rid(rid)?, by_rid: false })
}

impl Step<'_> {
    fn rule(&self) -> &Compiled {
        &self.entry.rule
    }

    /// Reads the item as it is now; `None` if nothing is to be done for it.
    async fn begin(&self, side: Side, position: &[u8]) -> Result<Option<Task>> {
        let (logical, id) = item_of_position(position)?;
        let container = if side == Side::Source { &self.source } else { &self.target };
        let Some((mut item, lsn)) = read(self.projections, container, &logical, &id).await? else {
            return Ok(None);
        };
        Ok(match side {
            Side::Source => SourceValues::of(self.rule(), &item, Some(lsn)).map(|source| Task::Copying {
                source,
                items: VecDeque::new(),
                next: None,
                is_found: false,
            }),
            Side::Target => {
                let keys = keys_of(self.rule(), &mut item.value);
                (!keys.is_empty()).then_some(Task::Checking { item, keys })
            }
        })
    }

    /// Whether the task is done.
    async fn go_on(&self, task: &mut Task) -> Result<bool> {
        match task {
            Task::Copying { source, items, next, is_found } => {
                if !items.is_empty() {
                    self.copy(source, items).await?;
                } else if *is_found {
                    return Ok(true);
                } else {
                    let query = (self.rule().target_query.as_str(), source.keys.as_slice());
                    let found = self.find(&self.target, query, ITEMS_MAX, next.as_deref()).await?;
                    (*items, *next) = (found.0.into(), found.1);
                    *is_found = next.is_none();
                }
                Ok(false)
            }
            Task::Checking { item, keys } => {
                let Some(values) = keys.front() else { return Ok(true) };
                self.check(item, values).await?;
                keys.pop_front();
                Ok(false)
            }
        }
    }

    async fn find(
        &self,
        container: &ContainerHandle,
        (text, keys): (&str, &[Value]),
        max_items: i64,
        continuation: Option<&str>,
    ) -> Result<(Vec<Item>, Option<String>)> {
        let request = QueryRequest {
            text,
            parameters: &parameters(keys),
            scope: FeedScope::All,
            max_items: Some(max_items),
            continuation,
            resume_filter: None,
            allows_cross_partition: true,
            fans_out: true,
            wants: QueryWants::default(),
        };
        let reply = self.projections.0.queries.query(&context(self.projections), container, request).await?;
        let items = reply.rows.iter().map(|row| Item::of_json(container, row)).collect::<Result<_>>()?;
        Ok((items, reply.continuation))
    }

    /// Corrects some of the queued items. Items that fail for an external reason return to the queue.
    async fn copy(&self, source: &SourceValues, items: &mut VecDeque<Item>) -> Result<()> {
        let some: Vec<Item> = items.drain(..items.len().min(CONCURRENT)).collect();
        let mut outcomes = futures::stream::iter(some)
            .map(|item| async move {
                let outcome = self.settle(source, &item).await;
                (item, outcome)
            })
            .buffer_unordered(CONCURRENT);
        let mut first = Ok(());
        while let Some((item, outcome)) = outcomes.next().await {
            if outcome.is_err() {
                items.push_back(item);
                first = first.and(outcome);
            }
        }
        first
    }

    async fn settle(&self, source: &SourceValues, item: &Item) -> Result<()> {
        match apply(self.projections, &self.target, self.rule(), source, item).await {
            Ok(Applied::Written(key, lsn)) => {
                self.entry.status.count(|counts| counts.applied += 1);
                self.own.lock().expect("nothing panics under this lock").note(key, lsn);
            }
            Ok(Applied::WasRight) => self.entry.status.count(|counts| counts.unchanged += 1),
            Ok(Applied::Gone) => {}
            Err(Failure::Other(error)) => return Err(error),
            Err(Failure::OfItem { kind, words, attempts }) => {
                let target = (&item.logical, item.id());
                let letter = DeadLetter { kind, reason: &words, attempts, source: Some(source), target };
                send(self.projections, self.entry, letter).await?;
            }
        }
        Ok(())
    }

    /// Has a target item that was written follow the source item that it names.
    async fn check(&self, item: &Item, values: &[Value]) -> Result<()> {
        let query = (self.rule().source_query.as_str(), values);
        let mut sources: Vec<SourceValues> = Vec::new();
        let mut next = None;
        loop {
            let (found, continuation) = self.find(&self.source, query, SOURCES_MAX, next.as_deref()).await?;
            let found = found.iter().filter_map(|item| SourceValues::of(self.rule(), item, None));
            sources.extend(found);
            // Of several with equal copies, each is as good as the others.
            sources.dedup_by(|a, b| a.copies == b.copies);
            next = continuation;
            if next.is_none() || sources.len() > 1 {
                break;
            }
        }
        match sources.as_slice() {
            [] => Ok(()),
            [source] => self.settle(source, item).await,
            several => {
                let names: Vec<_> = several.iter().take(3).map(|source| source.id.as_str()).collect();
                let reason = format!(
                    "several items of the source match it and say different things, such as '{}': which is true cannot be told",
                    names.join("' and '")
                );
                let target = (&item.logical, item.id());
                let kind = ErrorKind::Conflict;
                let letter = DeadLetter { kind, reason: &reason, attempts: 1, source: None, target };
                send(self.projections, self.entry, letter).await
            }
        }
    }
}

/// The values that a target item names source items by: one list, or one for each element.
fn keys_of(rule: &Compiled, item: &mut Value) -> VecDeque<Vec<Value>> {
    let of_item: Vec<Option<Value>> = rule
        .matches
        .iter()
        .map(|(_, target)| target.array.is_none().then(|| get(item, &target.names).clone()))
        .collect();
    let mut keys: VecDeque<Vec<Value>> = VecDeque::new();
    let mut add = |element: &Value| {
        let value = |((_, target), known): (&(_, crate::path::Path), &Option<Value>)| {
            known.clone().unwrap_or_else(|| get(element, &target.names).clone())
        };
        let values: Vec<Value> = rule.matches.iter().zip(&of_item).map(value).collect();
        if values.iter().all(is_key) && !keys.contains(&values) {
            keys.push_back(values);
        }
    };
    match &rule.array {
        None => add(&Value::Undefined),
        Some(array) => elements(item, array).iter().for_each(add),
    }
    keys
}
