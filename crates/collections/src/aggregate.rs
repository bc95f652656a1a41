//! Pipelines over collections: documents are read here page by page, and pushed through the stages beside the threads that
//! answer requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use shardlake_mql::{Context, Document, Env, Pipeline, Scope, Str, Value};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::collections::{Collections, Found, Namespace};
use crate::failure::{Failure, Result};
use crate::needed::Needed;
use crate::reads::{MEMORY_BYTES_MAX, Page, Scan, Source};
use crate::request::Request;

/// Pages that wait for the stages.
const PAGES_WAITING_MAX: usize = 2;

/// A pipeline with what it runs on.
#[derive(Debug)]
pub struct Aggregation {
    pub database: String,
    /// `None` for a pipeline that makes its documents itself.
    pub collection: Option<String>,
    /// As they were sent.
    pub stages: Vec<Value>,
    pub scope: Scope,
    pub env: Env,
}

impl Collections {
    /// What a pipeline gives, within the bound of memory. Where its results go elsewhere is for the caller to do.
    pub async fn aggregate(&self, request: &Arc<Request>, aggregation: Aggregation) -> Result<Vec<Value>> {
        let Aggregation { database, collection, mut stages, scope, env } = aggregation;
        let mut indexes = Vec::new();
        let source = match collection {
            None => Source::Ready(VecDeque::new()),
            Some(name) => {
                let namespace = Namespace::new(&database, name);
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
                self.scan(found, &pipeline_filter)
            }
        };
        let pipeline = (Pipeline::parse(&stages, &scope)?, Needed::by(&stages));
        self.run((request, database), pipeline, (source, indexes), env).await
    }

    /// What the stages behind the first give of its documents.
    pub async fn run_on(
        &self,
        request: &Arc<Request>,
        database: &str,
        stages: &[Value],
        documents: Vec<Value>,
        scope: Scope,
        env: Env,
    ) -> Result<Vec<Value>> {
        let pipeline = (Pipeline::parse_behind_first(stages, &scope)?, None);
        let source = Source::Ready(documents.into());
        self.run((request, database.to_owned()), pipeline, (source, Vec::new()), env).await
    }

    async fn run(
        &self,
        (request, database): (&Arc<Request>, String),
        (pipeline, needed): (Pipeline, Option<Needed>),
        (source, indexes): (Source, Vec<Document>),
        env: Env,
    ) -> Result<Vec<Value>> {
        let (pages, mut read) = mpsc::channel::<Result<Page>>(PAGES_WAITING_MAX);
        let refused: Refused = Arc::default();
        let others = Others {
            collections: self.clone(),
            request: request.clone(),
            database,
            runtime: Handle::current(),
            refused: refused.clone(),
        };
        let stages = tokio::task::spawn_blocking(move || {
            let told = others.refused.clone();
            // Made here, so that reading goes on meanwhile, and the thread that needs the documents gives them back.
            let input = std::iter::from_fn(move || read.blocking_recv())
                .flat_map(move |page| documents(page, needed.as_ref(), &told));
            let mut context =
                Context { env, collections: &others, indexes, memory_bytes_max: MEMORY_BYTES_MAX };
            pipeline.run(input, &mut context)
        });
        let feeding = feed(request, source, pages);
        let (_, results) = futures::join!(feeding, stages);
        let results = results.map_err(|_| Failure::new(1, "a pipeline ended without an answer"))?;
        results.map_err(|error| {
            let refused = refused.lock().unwrap_or_else(PoisonError::into_inner).take();
            refused.filter(|failure| failure.code == error.code()).unwrap_or_else(|| error.into())
        })
    }

    /// All that a view shows.
    pub async fn view_documents(
        &self,
        request: &Arc<Request>,
        database: &str,
        name: &str,
    ) -> Result<VecDeque<Value>> {
        let aggregation = Aggregation {
            database: database.to_owned(),
            collection: Some(name.to_owned()),
            stages: Vec::new(),
            scope: Scope::new(),
            env: request.env(),
        };
        let shown = Box::pin(self.aggregate(request, aggregation)).await?;
        Ok(shown.into())
    }
}

/// What the engine refused to a pipeline, whole: the language knows code and message alone.
type Refused = Arc<Mutex<Option<Failure>>>;

/// Notes a failure, and tells the language of it.
fn told(failure: Failure, refused: &Refused) -> shardlake_mql::Error {
    let error = shardlake_mql::Error::new(failure.code, failure.message.as_str());
    *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    error
}

/// The documents of a page, or why there are none.
fn documents(
    page: Result<Page>,
    needed: Option<&Needed>,
    refused: &Refused,
) -> Vec<shardlake_mql::Result<Value>> {
    match page.and_then(|page| page.documents(needed)) {
        Ok(documents) => documents.into_iter().map(Ok).collect(),
        Err(failure) => vec![Err(told(failure, refused))],
    }
}

/// Hands pages to the stages until there are no more, or no more are wanted.
async fn feed(request: &Request, source: Source, pages: mpsc::Sender<Result<Page>>) {
    let mut source = source;
    loop {
        let page = match source.next_raw(request, None).await {
            Ok(Some(page)) => Ok(page),
            Ok(None) => return,
            Err(failure) => Err(failure),
        };
        let is_last = page.is_err();
        if pages.send(page).await.is_err() || is_last {
            return;
        }
    }
}

/// The filter that a pipeline begins with: what it does not let through need not be read.
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
            let mut scan = Scan::new(&self.collections, collection, &Document::new());
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
        let namespace = Namespace::new(&self.database, collection);
        match self.collections.find_name(&namespace) {
            Ok(Found::View(view)) => Some((view.on.as_str().into(), view.pipeline)),
            _ => None,
        }
    }
}
