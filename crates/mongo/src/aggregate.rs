//! Pipelines over collections: documents are read here page by page, and pushed through the stages on the blocking pool.
//!
//! A pipeline runs as far as its results are asked for ([`Aggregating`]), and each call has a time of its own. Between two calls it holds its
//! position, the state of its stages and the rest of a page; no thread and no snapshot.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shardlake_mql::{Collation, Context, Document, Env, Pipeline, Run, Scope, Str, TimeTest, Value};
use tokio::runtime::Handle;

use crate::collections::{Collections, Found, Namespace};
use crate::failure::{Failure, Result};
use crate::meta::View;
use crate::needed::Needed;
use crate::reads::{MEMORY_BYTES_MAX, Page, Position, Scan, Source};
use crate::request::Request;

/// Size limit of a result document: 16 MiB and the reference server's internal allowance.
pub const RESULT_BYTES_MAX: usize = (16 << 20) + (16 << 10);
const OBJECT_TOO_LARGE: i32 = 10334;
const CURSOR_NOT_FOUND: i32 = 43;

/// A pipeline with its database, collection and variables.
#[derive(Debug)]
pub struct Aggregation {
    pub database: String,
    /// `None` for a pipeline that makes its documents itself.
    pub collection: Option<String>,
    /// As they were sent.
    pub stages: Vec<Value>,
    /// Reads the collection from its end.
    pub is_from_end: bool,
    pub scope: Scope,
    pub env: Env,
}

impl Collections {
    /// Starts a pipeline. The caller writes its results if they have another target than the client.
    pub fn aggregate(&self, aggregation: Aggregation) -> Result<Aggregating> {
        let Aggregation { database, collection, mut stages, is_from_end, scope, env } = aggregation;
        let (mut indexes, mut reads) = (Vec::new(), None);
        let source = match collection {
            None => Source::Ready(VecDeque::new()),
            Some(name) => {
                let namespace = Namespace::new(&*database, name);
                let namespace = match self.find_name(&namespace)? {
                    Found::View(view) => {
                        let (base, of_view) = self.resolved_view(&database, &view)?;
                        stages = of_view.into_iter().chain(stages).collect();
                        base
                    }
                    _ => namespace,
                };
                let pipeline_filter = first_match(&stages);
                let found = self.collection(&namespace)?;
                if begins_with_geo_near(&stages) {
                    let words =
                        || format!("$geoNear requires a geo index to run, but {namespace} does not exist");
                    indexes = found.as_ref().ok_or_else(|| Failure::new(26, words()))?.indexes();
                }
                reads = Some(namespace);
                let scan = self.scan(found, &pipeline_filter, scope.collation());
                match is_from_end {
                    true => scan.backwards(),
                    false if shows_no_order(&stages) => scan.in_any_order(),
                    false => scan,
                }
            }
        };
        let pipeline = (Pipeline::parse(&stages, &scope)?, Needed::by(&stages));
        let aggregating = Aggregating::new(self, database, pipeline, (source, indexes), env);
        Ok(Aggregating { reads, ..aggregating })
    }

    /// Runs the stages behind the first one over the first one's documents.
    pub fn aggregate_on(
        &self,
        database: &str,
        stages: &[Value],
        documents: Vec<Value>,
        (scope, env): (&Scope, Env),
    ) -> Result<Aggregating> {
        let pipeline = (Pipeline::parse_behind_first(stages, scope)?, None);
        let source = Source::Ready(documents.into());
        Ok(Aggregating::new(self, database.to_owned(), pipeline, (source, Vec::new()), env))
    }

    /// All documents of a view, made from its collection or from that collection's end.
    pub async fn view_documents(
        &self,
        request: &Arc<Request>,
        (database, view): (&str, &View),
        is_from_end: bool,
    ) -> Result<VecDeque<Value>> {
        let aggregation = Aggregation {
            database: database.to_owned(),
            collection: Some(view.name.clone()),
            stages: Vec::new(),
            is_from_end,
            scope: Scope::with_collation(view.collation.clone()),
            env: request.env(),
        };
        Ok(self.aggregate(aggregation)?.all(request).await?.into())
    }
}

/// A pipeline at work.
pub struct Aggregating {
    collections: Collections,
    database: String,
    /// The collection that the documents come from.
    reads: Option<Namespace>,
    source: Source,
    needed: Option<Arc<Needed>>,
    /// Read, and not yet given to the stages, with the position before it.
    page: Option<(Page, Option<Position>)>,
    /// `None` while a thread uses them, and after that thread failed or was cancelled.
    stages: Option<Box<Stages>>,
}

/// The part that a blocking thread works on.
struct Stages {
    pipeline: Pipeline,
    /// None before the first call.
    run: Option<Run>,
    env: Env,
    indexes: Vec<Document>,
    /// Documents of a page.
    input: VecDeque<shardlake_mql::Result<Value>>,
    /// A result that did not fit into the last batch.
    left: Option<Value>,
    has_ended: bool,
    /// Bytes that stay in memory until the next call.
    held_bytes: usize,
}

/// Results that are asked for.
enum Results {
    Rows(Rows),
    Batch(Batch),
}

/// Results as values, until they have so many bytes.
struct Rows {
    values: Vec<Value>,
    size_bytes: usize,
    size_bytes_max: usize,
}

/// Results as BSON, within bounds.
struct Batch {
    documents: Vec<Vec<u8>>,
    size_bytes: usize,
    documents_max: usize,
    size_bytes_max: usize,
}

/// Set when the results are no longer waited for.
#[derive(Default)]
struct Abandoned(Arc<AtomicBool>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Aggregating {
    fn new(
        collections: &Collections,
        database: String,
        (pipeline, needed): (Pipeline, Option<Needed>),
        (source, indexes): (Source, Vec<Document>),
        env: Env,
    ) -> Aggregating {
        let (run, input, left) = (None, VecDeque::new(), None);
        let (has_ended, held_bytes) = (false, 0);
        let stages = Stages { pipeline, run, env, indexes, input, left, has_ended, held_bytes };
        Aggregating {
            collections: collections.clone(),
            database,
            reads: None,
            source,
            needed: needed.map(Arc::new),
            page: None,
            stages: Some(Box::new(stages)),
        }
    }

    /// All results.
    pub async fn all(mut self, request: &Arc<Request>) -> Result<Vec<Value>> {
        Ok(self.rows(request, usize::MAX).await?.0)
    }

    /// The next results until they reach this size (the last result may exceed it), and whether they were the last.
    pub async fn rows(
        &mut self,
        request: &Arc<Request>,
        size_bytes_max: usize,
    ) -> Result<(Vec<Value>, bool)> {
        let rows = Rows { values: Vec::new(), size_bytes: 0, size_bytes_max };
        match self.results(request, Results::Rows(rows)).await? {
            (Results::Rows(rows), is_last) => Ok((rows.values, is_last)),
            (Results::Batch(_), _) => Err(Failure::new(1, "a pipeline ended without an answer")),
        }
    }

    /// The next results as BSON, and whether they were the last. A batch ends before the document that would go beyond its bytes, but has
    /// at least one.
    pub async fn batch(
        &mut self,
        request: &Arc<Request>,
        documents_max: usize,
        size_bytes_max: usize,
    ) -> Result<(Vec<Vec<u8>>, bool)> {
        let batch = Batch { documents: Vec::new(), size_bytes: 0, documents_max, size_bytes_max };
        match self.results(request, Results::Batch(batch)).await? {
            (Results::Batch(batch), is_last) => Ok((batch.documents, is_last)),
            (Results::Rows(_), _) => Err(Failure::new(1, "a pipeline ended without an answer")),
        }
    }

    /// Whether the documents come from this collection.
    pub(crate) fn reads(&self, namespace: &Namespace) -> bool {
        self.reads.as_ref() == Some(namespace)
    }

    /// Bytes that stay in memory until the next call.
    pub fn held_bytes(&self) -> usize {
        self.stages.as_ref().map_or(0, |stages| stages.held_bytes)
    }

    /// Runs until the results are complete, or there are no more.
    async fn results(&mut self, request: &Arc<Request>, results: Results) -> Result<(Results, bool)> {
        let abandoned = Abandoned::default();
        let mut results = results;
        // Few pipelines need a second page for a batch. While a pipeline works on the second page, the third is read.
        let mut reads_ahead = false;
        loop {
            if self.needs_page()
                && let Err(failure) = self.read(request).await
            {
                return results.before(failure);
            }
            let Some(mut stages) = self.stages.take() else {
                return Err(Failure::new(CURSOR_NOT_FOUND, "the pipeline ended with an error"));
            };
            let others = self.others(request);
            let refused = others.refused.clone();
            stages.env.set_time(time_test(request, &abandoned));
            let page = if stages.input.is_empty() { self.page.take() } else { None };
            let is_last = self.source.is_done() && self.page.is_none();
            let needed = self.needed.clone();
            let working = tokio::task::spawn_blocking(move || {
                if let Some((page, _)) = page {
                    stages.input.extend(documents(page, needed.as_deref(), &others.refused));
                }
                let worked = stages.work(&others, is_last, &mut results);
                stages.held_bytes = stages.count_held();
                (stages, results, worked)
            });
            let reading = async {
                match reads_ahead && !is_last && self.page.is_none() {
                    true => self.read(request).await,
                    false => Ok(()),
                }
            };
            let (worked, read) = futures::join!(working, reading);
            let (stages, made, worked) =
                worked.map_err(|_| Failure::new(1, "a pipeline ended without an answer"))?;
            results = made;
            let is_complete = worked.map_err(|error| {
                let refused = refused.lock().unwrap_or_else(PoisonError::into_inner).take();
                refused.filter(|failure| failure.code == error.code()).unwrap_or_else(|| error.into())
            })?;
            let has_ended = stages.has_ended;
            self.stages = Some(stages);
            if is_complete || has_ended {
                // A page that could not be read is asked for again, where it is needed.
                self.put_page_back();
                return Ok((results, has_ended));
            }
            if let Err(failure) = read {
                return results.before(failure);
            }
            reads_ahead = !results.is_begun();
        }
    }

    fn needs_page(&self) -> bool {
        let is_empty = self.stages.as_ref().is_some_and(|stages| stages.input.is_empty());
        is_empty && self.page.is_none() && !self.source.is_done()
    }

    async fn read(&mut self, request: &Request) -> Result<()> {
        assert!(self.page.is_none(), "a page is read when the one before is at work");
        let before = self.source.position();
        self.page = self.source.next_raw(request, None).await?.map(|page| (page, before));
        Ok(())
    }

    /// A page that was read ahead is read again when it is needed, so that an idle cursor does not keep it.
    fn put_page_back(&mut self) {
        if let Some((_, Some(before))) = self.page.take_if(|(_, before)| before.is_some()) {
            self.source.return_to(before);
        }
    }

    fn others(&self, request: &Arc<Request>) -> Others {
        Others {
            collections: self.collections.clone(),
            request: request.clone(),
            database: self.database.clone(),
            runtime: Handle::current(),
            refused: Refused::default(),
        }
    }
}

/// The failure for a document that is too large for clients.
pub fn too_large(size: usize) -> Failure {
    let words = format!(
        "BSONObj size: {size} (0x{size:X}) is invalid. Size must be between 0 and {RESULT_BYTES_MAX}(16MB)"
    );
    Failure::new(OBJECT_TOO_LARGE, words)
}

fn time_test(request: &Request, abandoned: &Abandoned) -> TimeTest {
    let (is_over, abandoned) = (request.time_is_over(), abandoned.0.clone());
    TimeTest::new(move || abandoned.load(Ordering::Relaxed) || is_over())
}

impl Stages {
    /// Makes results until they are complete, which is answered as true, or needs more documents.
    fn work(&mut self, others: &Others, is_last: bool, results: &mut Results) -> shardlake_mql::Result<bool> {
        let env = std::mem::replace(&mut self.env, Env::new(0, 0));
        let indexes = std::mem::take(&mut self.indexes);
        let mut context = Context { env, collections: others, indexes, memory_bytes_max: MEMORY_BYTES_MAX };
        let worked = self.work_with(&mut context, is_last, results);
        let Context { env, indexes, .. } = context;
        (self.env, self.indexes) = (env, indexes);
        worked
    }

    fn count_held(&self) -> usize {
        let input = self.input.iter().flatten().chain(&self.left).map(Value::size).sum::<usize>();
        input + self.run.as_ref().map_or(0, Run::held_bytes)
    }

    fn work_with(
        &mut self,
        context: &mut Context<'_>,
        is_last: bool,
        results: &mut Results,
    ) -> shardlake_mql::Result<bool> {
        context.env.look_at_time()?;
        let run = match &mut self.run {
            Some(run) => run,
            none => none.insert(self.pipeline.start(context)?),
        };
        loop {
            let next = match self.left.take() {
                Some(left) => Some(left),
                None => run.next(context)?,
            };
            match next {
                Some(result) => {
                    if let Some(left) = results.take(result, context)? {
                        self.left = Some(left);
                        return Ok(true);
                    }
                }
                None if run.has_ended() => {
                    self.has_ended = true;
                    return Ok(true);
                }
                None => match self.input.pop_front() {
                    Some(document) => run.push(document?),
                    None if is_last => run.end(),
                    None => return Ok(false),
                },
            }
        }
    }
}

impl Results {
    /// Takes a result, or returns it if it does not fit.
    fn take(&mut self, result: Value, context: &Context<'_>) -> shardlake_mql::Result<Option<Value>> {
        match self {
            Results::Rows(rows) if rows.size_bytes >= rows.size_bytes_max => Ok(Some(result)),
            Results::Rows(rows) => {
                if rows.size_bytes_max < usize::MAX {
                    rows.size_bytes += result.size();
                }
                rows.values.push(result);
                Ok(None)
            }
            Results::Batch(batch) => batch.take(result, context),
        }
    }
}

impl Results {
    /// Whether a client can use them as they are.
    fn is_begun(&self) -> bool {
        matches!(self, Results::Batch(batch) if !batch.documents.is_empty())
    }

    /// The client gets the results so far, and the failure with its next request.
    fn before(self, failure: Failure) -> Result<(Results, bool)> {
        if self.is_begun() { Ok((self, false)) } else { Err(failure) }
    }
}

impl Batch {
    fn take(&mut self, result: Value, context: &Context<'_>) -> shardlake_mql::Result<Option<Value>> {
        let Value::Document(document) = &result else { return Ok(None) };
        if self.documents.len() >= self.documents_max {
            return Ok(Some(result));
        }
        // Results share values, so their bytes are counted before they are made.
        let size = document.size();
        if size > RESULT_BYTES_MAX {
            let Failure { code, message, .. } = too_large(size);
            return Err(shardlake_mql::Error::new(code, message.as_str()));
        }
        if !self.documents.is_empty() && self.size_bytes + size > self.size_bytes_max {
            return Ok(Some(result));
        }
        context.env.look_at_time()?;
        self.size_bytes += size;
        self.documents.push(document.to_bytes());
        Ok(None)
    }
}

/// The complete failure behind an error of the engine: the expression language keeps only code and message.
type Refused = Arc<Mutex<Option<Failure>>>;

/// Records a failure and returns it as an error of the language.
fn told(failure: Failure, refused: &Refused) -> shardlake_mql::Error {
    let error = shardlake_mql::Error::new(failure.code, failure.message.as_str());
    *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    error
}

/// The documents of a page, or why there are none.
fn documents(page: Page, needed: Option<&Needed>, refused: &Refused) -> Vec<shardlake_mql::Result<Value>> {
    match page.documents(needed) {
        Ok(documents) => documents.into_iter().map(Ok).collect(),
        Err(failure) => vec![Err(told(failure, refused))],
    }
}

/// Stages that make one document of each, and accumulators to which the order of documents makes no difference.
const OF_EACH: [&str; 6] = ["$match", "$project", "$addFields", "$set", "$unset", "$replaceRoot"];
const OF_ANY_ORDER: [&str; 6] = ["$sum", "$avg", "$min", "$max", "$count", "$stdDevPop"];

/// Whether the order in which documents are read makes no difference to a pipeline: it groups or counts them first.
fn shows_no_order(stages: &[Value]) -> bool {
    let mut stages = stages.iter().filter_map(|stage| stage.as_document()?.first());
    let first = stages.find(|(name, _)| !OF_EACH.contains(&&***name));
    let Some((name, value)) = first else { return false };
    let is_any = |(field, accumulator): (&Str, &Value)| {
        let named = accumulator.as_document().and_then(|accumulator| accumulator.first());
        &**field == "_id" || named.is_some_and(|(name, _)| OF_ANY_ORDER.contains(&&**name))
    };
    match (&**name, value.as_document()) {
        ("$count", _) => true,
        ("$group", Some(fields)) => fields.iter().all(is_any),
        _ => false,
    }
}

/// The filter of a leading `$match`: documents that do not match it need not be read.
fn first_match(stages: &[Value]) -> Document {
    let first = stages.first().and_then(Value::as_document);
    let filter = first.and_then(|stage| stage.get("$match")).and_then(Value::as_document);
    filter.map(|filter| Document::clone(filter)).unwrap_or_default()
}

fn begins_with_geo_near(stages: &[Value]) -> bool {
    let first = stages.first().and_then(Value::as_document);
    first.is_some_and(|stage| stage.has("$geoNear"))
}

/// Other collections for a pipeline's stages, which run on a thread that may block.
struct Others {
    collections: Collections,
    request: Arc<Request>,
    database: String,
    runtime: Handle,
    refused: Refused,
}

impl shardlake_mql::Collections for Others {
    fn documents(&self, database: Option<&str>, collection: &str) -> shardlake_mql::Result<Vec<Value>> {
        let namespace = Namespace::new(database.unwrap_or(&self.database), collection);
        let read = async {
            let collection = self.collections.collection(&namespace)?;
            let Some(collection) = collection else { return Ok(Vec::new()) };
            let mut scan = Scan::of_all(&self.collections, collection);
            let (mut all, mut bytes) = (Vec::new(), 0);
            while let Some(page) = scan.next(&self.request).await? {
                for document in page {
                    let value = Value::document(document);
                    bytes += value.size();
                    all.push(value);
                }
                if bytes > MEMORY_BYTES_MAX {
                    let words = format!(
                        "more than {MEMORY_BYTES_MAX} bytes of '{namespace}' would be needed at once"
                    );
                    return Err(Failure::new(292, words));
                }
            }
            Ok(all)
        };
        let read: Result<Vec<Value>> = self.runtime.block_on(read);
        read.map_err(|failure| told(failure, &self.refused))
    }

    fn indexes(&self, database: Option<&str>, collection: &str) -> shardlake_mql::Result<Vec<Document>> {
        let namespace = Namespace::new(database.unwrap_or(&self.database), collection);
        let found = self.collections.collection(&namespace);
        let found = found.map_err(|failure| shardlake_mql::Error::new(failure.code, failure.message))?;
        Ok(found.map(|found| found.indexes()).unwrap_or_default())
    }

    fn view(&self, collection: &str) -> Option<(Str, Vec<Value>)> {
        let namespace = Namespace::new(&*self.database, collection);
        match self.collections.find_name(&namespace) {
            Ok(Found::View(view)) => Some((view.on.as_str().into(), view.pipeline)),
            _ => None,
        }
    }

    fn view_collation(&self, collection: &str) -> Collation {
        let namespace = Namespace::new(&*self.database, collection);
        match self.collections.find_name(&namespace) {
            Ok(Found::View(view)) => view.collation,
            _ => Collation::simple(),
        }
    }
}
