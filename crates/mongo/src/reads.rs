//! Documents of a collection that may meet a filter, page by page.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use shardlake_document::RawDocument;
use shardlake_items::{FeedScope, OpenTransaction};
use shardlake_mql::write::{document_of, members_of};
use shardlake_mql::{Collation, Document, Env, Filter, FindProjection, Matched, SIMPLE, SortPattern, Value};
use shardlake_partition::{InsertionPage, InsertionPosition, StoredItem};
use shardlake_queries::ItemsRequest;
use shardlake_sql::{BuiltQuery, Rows};

use crate::bounds::KeyBounds;
use crate::collated::served;
use crate::collections::{Asked, Collection, Collections};
use crate::failure::{Failure, Result};
use crate::needed::Needed;
pub use crate::order::MEMORY_BYTES_MAX;
use crate::order::{Order, Sorter};
use crate::own_writes::OwnWrites;
use crate::plan::{Access, Plan, access_of, plan};
use crate::request::Request;
use crate::shown::Shown;

/// Least number of documents of a page: some of the documents that an index names do not match.
const PAGE_DOCUMENTS_MIN: u32 = 8;
/// Documents that one batch reads again.
const READ_AGAIN_MAX: usize = 2 * PAGE_DOCUMENTS_MIN as usize;

/// A walk over the documents that a plan names.
#[derive(Debug)]
pub struct Scan {
    collections: Collections,
    collection: Collection,
    plan: Plan,
    /// Made for the first page; one document by its key needs none.
    built: OnceLock<BuiltQuery>,
    continuation: Option<String>,
    is_done: bool,
    /// Position of a read in the order of insertion.
    in_order: Option<InsertionPosition>,
    in_any_order: bool,
    /// Documents that the command has written itself, still to come.
    own: Option<(Arc<OwnWrites>, Filter, Env)>,
}

impl Scan {
    /// Documents that may meet a filter which compares strings by `collation`.
    pub fn new(
        collections: &Collections,
        collection: Collection,
        filter: &Document,
        collation: &Collation,
    ) -> Scan {
        let mut plan = plan(filter, collation, collection.shard_key());
        plan.narrow(filter, collation, &served(&collection.handle.container().definition, collation));
        collection.uses.note_plan(&plan, &collection.meta.indexes);
        let (collections, built) = (collections.clone(), OnceLock::new());
        let mut scan = Scan {
            collections,
            collection,
            plan,
            built,
            continuation: None,
            is_done: false,
            in_order: None,
            in_any_order: false,
            own: None,
        };
        // A query that an index answers has an order of its own.
        if scan.collection.meta.is_capped()
            && access_of(&scan.plan, scan.collection.indexes().iter()) == Access::Scan
        {
            scan.read_in_order(false);
        }
        scan
    }

    /// Reads in the order of insertion or from its end, where the collection allows it, outside of a transaction.
    fn read_in_order(&mut self, is_backwards: bool) -> bool {
        let is_scanned = || access_of(&self.plan, self.collection.indexes().iter()) == Access::Scan;
        let is_read_so = self.collection.meta.is_capped()
            || (is_backwards && !self.collection.shard_key().is_sharded() && is_scanned());
        let is_ordered = is_read_so && self.transaction().is_none();
        self.in_order = is_ordered.then_some(InsertionPosition { after: None, is_backwards });
        is_ordered
    }

    /// All documents.
    pub fn of_all(collections: &Collections, collection: Collection) -> Scan {
        Scan::new(collections, collection, &Document::new(), &SIMPLE)
    }

    /// In one physical partition alone.
    fn within(mut self, range_id: u32) -> Scan {
        self.plan.scope = FeedScope::Range { range_id: Some(range_id), epk: None };
        self
    }

    /// A scan for a statement of a command that may have written documents of the collection.
    pub(crate) fn of_statement(
        collections: &Collections,
        collection: &Collection,
        filter: &Document,
        parsed: &Filter,
        env: &Env,
    ) -> Scan {
        let own = collections.own.as_ref().filter(|own| own.is_about(collection.container()));
        let own = own.map(|own| (own.clone(), parsed.clone(), env.clone()));
        Scan { own, ..Scan::new(collections, collection.clone(), filter, parsed.collation()) }
    }

    /// All documents from the last to the first, within the bound of memory.
    async fn reversed(&mut self, request: &Request) -> Result<VecDeque<Value>> {
        // From the beginning: an earlier attempt may have been interrupted.
        self.restart();
        let (mut documents, mut bytes) = (VecDeque::new(), 0);
        while let Some(page) = self.next(request).await? {
            for document in page.into_iter().map(Value::document) {
                bytes += document.size();
                documents.push_front(document);
            }
            if bytes > MEMORY_BYTES_MAX {
                let words = format!(
                    "{{$natural: -1}} exceeded memory limit of {MEMORY_BYTES_MAX} bytes: begin with a $match that an index serves"
                );
                return Err(Failure::new(292, words));
            }
        }
        Ok(documents)
    }

    fn restart(&mut self) {
        (self.continuation, self.is_done) = (None, false);
        self.in_order = self.in_order.map(|position| InsertionPosition { after: None, ..position });
    }

    fn position(&self) -> Position {
        Position { continuation: self.continuation.clone(), in_order: self.in_order, is_done: self.is_done }
    }

    fn transaction(&self) -> Option<&OpenTransaction> {
        self.collections.transaction.as_deref()
    }

    /// The next documents, perhaps none; `None` at the end.
    pub async fn next(&mut self, request: &Request) -> Result<Option<Vec<Document>>> {
        let Some(bodies) = self.next_bodies(request, None).await? else { return self.own_documents() };
        let mut documents = bodies.iter().map(document_of).collect::<Result<Vec<_>, _>>()?;
        if let Some((own, ..)) = &self.own {
            let mut stored = Vec::with_capacity(documents.len());
            for document in documents {
                let name = self.collection.name_of(&document)?;
                if !own.has(self.collection.container(), (&name.key, &name.id)) {
                    stored.push(document);
                }
            }
            documents = stored;
        }
        Ok(Some(documents))
    }

    fn own_documents(&mut self) -> Result<Option<Vec<Document>>> {
        let Some((own, filter, mut env)) = self.own.take() else { return Ok(None) };
        own.matching(self.collection.container(), &filter, &mut env).map(Some)
    }

    /// The next documents as they are stored, at most as many as are wanted.
    pub async fn next_bodies(&mut self, request: &Request, wanted: Option<u32>) -> Result<Option<Bodies>> {
        if self.is_done {
            return Ok(None);
        }
        if let Some(position) = &mut self.in_order {
            let (collection, from) = (&self.collection, *position);
            let page = self.collections.in_order_of_insertion(request, collection, from, wanted).await?;
            (position.after, self.is_done) = (page.last, page.is_last);
            return Ok(Some(Bodies::Items(page.items)));
        }
        if let (Some(key), Some(id)) = (&self.plan.key, &self.plan.id) {
            let name = (key.clone(), id.clone());
            let item = self.collections.read_named(request, &self.collection, name).await?;
            self.is_done = true;
            return Ok(Some(Bodies::One(item)));
        }
        let asked = ItemsRequest {
            built: self.built.get_or_init(|| self.plan.query.build()),
            scope: self.plan.scope.clone(),
            max_items: Some(wanted.map_or(-1, i64::from)),
            continuation: self.continuation.as_deref(),
            in_any_order: self.in_any_order,
            within: self.transaction(),
        };
        let page = self.collections.queries.find_items(&request.ctx, &self.collection.handle, asked).await;
        let page = page.map_err(|error| self.collections.failed(error))?;
        request.charge(page.meta.charge_centi);
        let done = page.statistics;
        request.examine(done.items_loaded + done.items_scanned, done.postings_read + done.entries_passed);
        self.continuation = page.continuation;
        self.is_done = self.continuation.is_none();
        Ok(Some(Bodies::Rows(page.rows)))
    }
}

/// Position of a scan between two pages.
#[derive(Debug, Clone)]
pub(crate) struct Position {
    continuation: Option<String>,
    in_order: Option<InsertionPosition>,
    is_done: bool,
}

/// Bodies of items, as a page brings them.
#[derive(Debug)]
pub enum Bodies {
    One(Option<StoredItem>),
    Items(Vec<StoredItem>),
    Rows(Rows),
}

impl Bodies {
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let (items, rows) = match self {
            Bodies::One(item) => (item.as_slice(), None),
            Bodies::Items(items) => (items.as_slice(), None),
            Bodies::Rows(rows) => (&[][..], Some(rows)),
        };
        let items = items.iter().map(|item| item.body().as_bytes());
        items.chain(rows.into_iter().flat_map(Rows::iter))
    }
}

/// Results that are not yet decoded, or documents that are ready.
#[derive(Debug)]
pub enum Page {
    Bodies(Bodies),
    Ready(VecDeque<Value>),
}

impl Page {
    /// The documents, with those members that are needed.
    pub(crate) fn documents(self, needed: Option<&Needed>) -> Result<Vec<Value>> {
        let made = |body: &[u8]| match needed {
            None => document_of(body).map(Value::document),
            Some(needed) => {
                members_of(RawDocument::assume_valid(body), |name| needed.has(name)).map(Value::document)
            }
        };
        match self {
            Page::Bodies(bodies) => Ok(bodies.iter().map(made).collect::<Result<_, _>>()?),
            Page::Ready(ready) => Ok(ready.into()),
        }
    }
}

/// The parsed form of a `find`.
#[derive(Debug, Clone)]
pub struct Find {
    pub filter: Document,
    pub parsed: Filter,
    pub projection: Option<FindProjection>,
    pub sort: SortPattern,
    pub skip: u64,
    /// 0 for all.
    pub limit: u64,
    pub env: Env,
}

/// Where documents come from.
#[derive(Debug)]
pub enum Source {
    Scan(Box<Scan>),
    /// The documents of a scan from the last to the first: all of them are read with the first page.
    FromEnd(Box<Scan>),
    /// Documents in memory: those of a view, or none if the collection does not exist.
    Ready(VecDeque<Value>),
}

impl Source {
    pub(crate) async fn next_page(&mut self, request: &Request) -> Result<Option<Vec<Value>>> {
        match self.next_raw(request, None).await? {
            Some(page) => page.documents(None).map(Some),
            None => Ok(None),
        }
    }

    /// The next page, before it is decoded.
    pub(crate) async fn next_raw(&mut self, request: &Request, wanted: Option<u32>) -> Result<Option<Page>> {
        Ok(match self {
            Source::Scan(scan) => scan.next_bodies(request, wanted).await?.map(Page::Bodies),
            Source::FromEnd(scan) => {
                let documents = scan.reversed(request).await?;
                *self = Source::Ready(VecDeque::new());
                Some(Page::Ready(documents))
            }
            Source::Ready(ready) if ready.is_empty() => None,
            Source::Ready(ready) => Some(Page::Ready(std::mem::take(ready))),
        })
    }

    /// Whether the last page was read.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Source::Scan(scan) => scan.is_done,
            Source::FromEnd(_) => false,
            Source::Ready(ready) => ready.is_empty(),
        }
    }

    /// `None` for documents that cannot be read again.
    pub(crate) fn position(&self) -> Option<Position> {
        match self {
            Source::Scan(scan) => Some(scan.position()),
            Source::FromEnd(_) | Source::Ready(_) => None,
        }
    }

    /// The same documents in any order.
    pub(crate) fn in_any_order(mut self) -> Source {
        if let Source::Scan(scan) = &mut self {
            scan.in_any_order = true;
        }
        self
    }

    /// The same documents in the reverse order.
    pub fn backwards(self) -> Source {
        match self {
            Source::Scan(mut scan) => match scan.read_in_order(true) {
                true => Source::Scan(scan),
                false => Source::FromEnd(scan),
            },
            other => other,
        }
    }

    /// Documents of a capped collection in the order of their insertion, whichever index answers the filter.
    pub fn forwards(mut self) -> Source {
        if let Source::Scan(scan) = &mut self {
            scan.read_in_order(false);
        }
        self
    }

    /// Whether the documents come from the end of a collection without being reversed.
    pub fn is_backwards(&self) -> bool {
        matches!(self, Source::Scan(scan) if scan.in_order.is_some_and(|position| position.is_backwards))
    }

    pub(crate) fn return_to(&mut self, position: Position) {
        if let Source::Scan(scan) = self {
            (scan.continuation, scan.is_done) = (position.continuation, position.is_done);
            scan.in_order = position.in_order;
        }
    }
}

/// A running `find`. Results are made on demand; a sort reads everything first.
#[derive(Debug)]
pub struct Finding {
    find: Find,
    source: Source,
    /// Read, and not yet compared with the filter.
    unmatched: VecDeque<Value>,
    /// Found, and not yet handed out.
    ready: VecDeque<(Value, Matched)>,
    /// Documents of the batch in the making: they become ready again if the batch fails.
    handed: Vec<(Value, Matched)>,
    left: u64,
    to_skip: u64,
    /// `None` once everything is read and sorted.
    order: Option<Order>,
    is_sorted: bool,
    /// Documents to read for the next page: documents that lie ready in an idle cursor use memory and were charged.
    page: Option<u32>,
    is_done: bool,
    /// Documents that lie ready were read for an earlier batch.
    is_stale: bool,
    shown: Shown,
    bounds: Option<KeyBounds>,
}

impl Finding {
    pub fn new(find: Find, source: Source) -> Finding {
        let left = if find.limit == 0 { u64::MAX } else { find.limit };
        let to_skip = find.skip;
        let order = Order::of(&find.sort, &find.parsed);
        let (unmatched, ready, handed) = (VecDeque::new(), VecDeque::new(), Vec::new());
        let (page, is_done, shown) = (None, false, Shown::default());
        let (is_sorted, bounds) = (order.is_some(), None);
        Finding {
            find,
            source,
            unmatched,
            ready,
            handed,
            left,
            to_skip,
            order,
            is_sorted,
            page,
            is_done,
            is_stale: false,
            shown,
            bounds,
        }
    }

    /// Finds only documents with a key within these bounds.
    pub fn within(self, bounds: Option<KeyBounds>) -> Finding {
        Finding { bounds, ..self }
    }

    /// Answers keys or numbers of the documents.
    pub fn showing(self, shown: Shown) -> Finding {
        Finding { shown, ..self }
    }

    /// Up to so many documents and about so many bytes, one at least where there is one; and whether there may be more. A call that
    /// fails, or is dropped, leaves the position where it was.
    pub async fn next(
        &mut self,
        request: &Request,
        documents_max: usize,
        bytes_max: usize,
    ) -> Result<(Vec<Value>, bool)> {
        self.left = self.left.saturating_add(self.handed.len() as u64);
        debug_assert!(
            self.left >= self.handed.len() as u64,
            "documents that are handed out again are counted"
        );
        self.handed.drain(..).rev().for_each(|found| self.ready.push_front(found));
        // A repeated batch has its documents as they are: reading them again each time might take all of a small budget.
        if self.is_stale {
            self.read_again(request).await?;
            self.is_stale = false;
        }
        let batch = self.batch(request, documents_max, bytes_max).await?;
        debug_assert!(batch.0.len() <= documents_max, "a batch has no more documents than were asked for");
        self.handed.clear();
        self.is_stale = true;
        Ok(batch)
    }

    /// Bytes that stay in memory until the next call.
    pub fn held_bytes(&self) -> usize {
        let ready = self.ready.iter().map(|(document, _)| document);
        ready.chain(&self.unmatched).map(Value::size).sum()
    }

    async fn batch(
        &mut self,
        request: &Request,
        documents_max: usize,
        bytes_max: usize,
    ) -> Result<(Vec<Value>, bool)> {
        let (mut out, mut bytes) = (Vec::new(), 0);
        self.page = self.page_for(documents_max as u64);
        self.find.env.set_time(request.time_test());
        while out.len() < documents_max && self.left > 0 {
            let Some((document, matched)) = self.take(request).await? else { break };
            if self.to_skip > 0 {
                self.to_skip -= 1;
                continue;
            }
            self.handed.push((document.clone(), matched));
            self.left -= 1;
            let mut shown = match &self.find.projection {
                Some(projection) => projection.apply(&document, matched, &mut self.find.env)?,
                None => document.clone(),
            };
            if !self.shown.is_plain() {
                let told = (&document, shown);
                let Some(other) = self.shown.answer(request, &mut self.find.env, told).await? else {
                    self.handed.pop();
                    self.left += 1;
                    continue;
                };
                shown = other;
            }
            let size = shown.size();
            if !out.is_empty() && bytes + size > bytes_max {
                self.handed.pop().into_iter().for_each(|found| self.ready.push_front(found));
                self.left += 1;
                break;
            }
            bytes += size;
            out.push(shown);
        }
        assert!(out.len() <= documents_max, "a batch has no more documents than were asked for");
        assert_eq!(out.len(), self.handed.len(), "each document of a batch is kept until the next batch");
        // A full batch does not look for another document: the next batch may be empty.
        let is_full = out.len() >= documents_max;
        let more = self.left > 0 && (is_full || !self.ready.is_empty() || self.look(request).await?);
        Ok((out, more))
    }

    /// Reads documents again that were read ahead with an earlier batch, so that those deleted meanwhile are not given. The results of a
    /// sort stay as they were sorted, and so do many documents: reading them again would cost as much as the batch.
    async fn read_again(&mut self, request: &Request) -> Result<()> {
        let Source::Scan(scan) = &self.source else { return Ok(()) };
        let count = self.ready.len() + self.unmatched.len();
        if self.is_sorted || count == 0 || count > READ_AGAIN_MAX || scan.transaction().is_some() {
            return Ok(());
        }
        let ahead = self.ready.iter().map(|(document, _)| document).chain(&self.unmatched);
        let mut read = VecDeque::with_capacity(count);
        for document in ahead.filter_map(Value::as_document) {
            let name = scan.collection.name_of(document)?;
            let item = scan.collections.read_named(request, &scan.collection, (name.key, name.id)).await?;
            if let Some(item) = item {
                read.push_back(Value::document(document_of(item.body().as_bytes())?));
            }
        }
        self.ready.clear();
        self.unmatched = read;
        Ok(())
    }

    /// Documents to read for a batch.
    fn page_for(&self, documents_max: u64) -> Option<u32> {
        let needed = self.left.min(documents_max);
        let needed = needed.saturating_add(self.to_skip).saturating_sub(self.ready.len() as u64);
        u32::try_from(needed)
            .ok()
            .filter(|_| self.order.is_none())
            .map(|needed| needed.max(PAGE_DOCUMENTS_MIN))
    }

    async fn look(&mut self, request: &Request) -> Result<bool> {
        match self.take(request).await? {
            Some(found) => {
                self.ready.push_front(found);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    async fn take(&mut self, request: &Request) -> Result<Option<(Value, Matched)>> {
        if let Some(order) = self.order.clone() {
            // Starts from the beginning: an earlier attempt may have been interrupted.
            self.unmatched.clear();
            self.ready.clear();
            self.is_done = false;
            if let Source::Scan(scan) = &mut self.source {
                scan.restart();
            }
            self.sort(request, order).await?;
            self.order = None;
        }
        loop {
            if let Some(found) = self.ready.pop_front() {
                return Ok(Some(found));
            }
            if !self.fill(request).await? {
                return Ok(None);
            }
        }
    }

    /// Matches another page; false at the end.
    async fn fill(&mut self, request: &Request) -> Result<bool> {
        if self.unmatched.is_empty() {
            if self.is_done {
                return Ok(false);
            }
            let Some(page) = self.source.next_raw(request, self.page).await? else {
                self.is_done = true;
                return Ok(false);
            };
            // If few of them match, the next page is larger.
            self.page = self.page.and_then(|documents| documents.checked_mul(2));
            self.unmatched = page.documents(None)?.into();
        }
        let mut slice = request.slice();
        while let Some(value) = self.unmatched.front() {
            let is_within = self.bounds.as_ref().map_or(Ok(true), |bounds| bounds.has_key_of(value))?;
            let matched = match value {
                Value::Document(document) if is_within => {
                    self.find.parsed.matched(document, &mut self.find.env)?
                }
                _ => None,
            };
            let value = self.unmatched.pop_front();
            self.ready.extend(value.zip(matched));
            slice.pass().await;
        }
        Ok(true)
    }

    async fn sort(&mut self, request: &Request, order: Order) -> Result<()> {
        let wanted = usize::try_from(self.to_skip.saturating_add(self.left)).unwrap_or(usize::MAX);
        let mut sorter = Sorter::new(order, wanted);
        loop {
            for (value, matched) in std::mem::take(&mut self.ready) {
                sorter.push(value, matched)?;
            }
            if !self.fill(request).await? {
                break;
            }
        }
        self.ready = sorter.finish().into();
        Ok(())
    }
}

impl Collections {
    /// Documents of a collection without a shard key in the order of their insertion: a page behind a position.
    pub(crate) async fn in_order_of_insertion(
        &self,
        request: &Request,
        collection: &Collection,
        position: InsertionPosition,
        wanted: Option<u32>,
    ) -> Result<InsertionPage> {
        let key = collection.shard_key().of_stored(&Document::new());
        let (ctx, handle) = (&request.ctx, &collection.handle);
        let page =
            shardlake_items::read_in_order(self.queries.items(), ctx, handle, &key, position, wanted).await;
        let page = page.map_err(|error| self.failed(error))?;
        request.charge(shardlake_items::charge_in_order(self.queries.items(), &page, ctx));
        request.examine(page.items.len() as u64, 0);
        Ok(page)
    }

    /// The documents of a collection that may match a filter; empty if there is no collection.
    pub fn scan(&self, collection: Option<Collection>, filter: &Document, collation: &Collation) -> Source {
        match collection {
            Some(collection) => Source::Scan(Box::new(Scan::new(self, collection, filter, collation))),
            None => Source::Ready(VecDeque::new()),
        }
    }

    /// Like [`Collections::scan`], for one physical partition.
    pub fn scan_of_partition(
        &self,
        collection: Collection,
        (filter, collation): (&Document, &Collation),
        partition: Asked,
    ) -> Source {
        let scan = Scan::new(self, collection, filter, collation);
        Source::Scan(Box::new(scan.within(partition.range_id)))
    }
}
