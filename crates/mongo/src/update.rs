//! Updates, deletes and `findAndModify`: matching documents are changed one by one, each as one step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use shardlake_mql::write::{
    Action, ActionSource, ChangeOutcome, DocumentChange, DocumentStep, StepSource, identity_text,
};
use shardlake_mql::{Document, Env, Filter, Matched, SortPattern, Value, upsert_base};

use crate::change::Name;
use crate::collections::{Collection, Collections, Namespace};
use crate::effect::{Done, Numbered};
use crate::failure::{Failure, Result, TOO_MANY_REQUESTS};
use crate::order::Order;
use crate::reads::{MEMORY_BYTES_MAX, Scan};
use crate::request::Request;

/// Documents of one statement that are changed at a time; enough to fill a group commit.
const CONCURRENCY: usize = 32;
/// Retries of a statement after concurrent writers won.
const ROUNDS_MAX: usize = 64;

/// A filter, and the change of its documents.
#[derive(Debug)]
pub struct Statement {
    /// Filter and action.
    pub step: Arc<DocumentStep>,
    pub is_upsert: bool,
    pub is_multi: bool,
    pub sort: SortPattern,
    pub env: Env,
    /// Whether validators are evaluated.
    pub checks: bool,
    /// Set for a retryable statement, which changes one document.
    pub numbered: Option<Numbered>,
}

impl Statement {
    /// A scan over the documents that may match.
    fn scan(&self, collections: &Collections, collection: &Collection) -> Scan {
        Scan::of_statement(collections, collection, self.filter(), self.parsed(), &self.env)
    }

    pub fn filter(&self) -> &Document {
        &self.step.source().filter
    }

    pub fn parsed(&self) -> &Filter {
        &self.step.value().filter
    }

    fn matches(&mut self, document: &Document) -> Result<bool> {
        Ok(self.step.value().filter.matches(document, &mut self.env)?)
    }

    /// The change that it makes to each of its documents.
    fn change(&self, collection: &Collection) -> Arc<DocumentChange> {
        Arc::new(DocumentChange {
            step: self.step.clone(),
            rules: collection.rules.clone(),
            env: self.env.clone(),
            checks: self.checks,
        })
    }
}

impl Collections {
    /// Runs one statement. An upsert creates the collection if needed.
    pub async fn run_statement(
        &self,
        request: &Request,
        namespace: &Namespace,
        statement: &mut Statement,
    ) -> Result<Done> {
        let collection = match self.writable(namespace)? {
            Some(collection) => self.opened(request, collection).await?,
            None if statement.is_upsert => self.create_implicitly(request, namespace).await?,
            None => return Ok(Done::default()),
        };
        collection.check_near(statement.parsed())?;
        statement.env.set_latest_timestamp(self.ascending.latest_timestamp());
        let mut refused = None;
        for _ in 0..ROUNDS_MAX {
            let done = match statement.is_multi {
                true => Box::pin(self.change_all(request, &collection, statement)).await?,
                false => Box::pin(self.change_one(request, &collection, statement)).await?,
            };
            if done.matched > 0 {
                return Ok(done);
            }
            if !statement.is_upsert {
                return Ok(done);
            }
            if let Some(failure) = refused {
                return Err(failure);
            }
            match Box::pin(self.upsert(request, &collection, statement)).await {
                Ok(Some(done)) => return Ok(done),
                Ok(None) => {}
                // Another writer may have stored the document first: it is searched again.
                Err(failure) if failure.code == 11000 && self.transaction.is_none() => {
                    // The other document may not be durable yet.
                    self.settle().await?;
                    refused = Some(failure)
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::new(
            112,
            "other writers changed the same documents again and again: nothing was done, retry",
        ))
    }

    async fn change_all(
        &self,
        request: &Request,
        collection: &Collection,
        statement: &mut Statement,
    ) -> Result<Done> {
        // Collect all names first: a changed document may appear again later in an index.
        let names = self.names(request, collection, statement).await?;
        let change = statement.change(collection);
        let stops = AtomicBool::new(false);
        let mut effects = futures::stream::iter(names)
            .take_while(|_| futures::future::ready(!stops.load(Ordering::Relaxed)))
            .map(|name| self.change(request, collection, name, &change, None))
            .buffered(CONCURRENCY);
        let mut done = Done::default();
        while let Some(effect) = effects.next().await {
            match effect {
                Ok(Some(effect)) => done.note(ChangeOutcome { before: None, after: None, ..effect }),
                Ok(None) => {}
                Err(failure) if failure.code != TOO_MANY_REQUESTS || self.transaction.is_some() => {
                    return Err(failure);
                }
                // Changes that are running complete, because they count; no further change begins.
                Err(failure) => {
                    stops.store(true, Ordering::Relaxed);
                    done.failure.get_or_insert(failure);
                }
            }
            // The command may have to wait for its earlier writes.
            self.pause().await?;
        }
        debug_assert!(done.modified <= done.matched, "only matched documents are modified");
        match done.failure.take() {
            Some(failure) if done.matched == 0 => Err(failure),
            // If a statement failed, drivers show only its error.
            Some(failure) => {
                let mut info = Document::one("n", Value::Int(done.matched as i32));
                if matches!(statement.step.value().action, Action::Update(_)) {
                    info.push("nModified", Value::Int(done.modified as i32));
                }
                Ok(Done { failure: Some(failure.with("errInfo", info)), ..done })
            }
            None => Ok(done),
        }
    }

    async fn names(
        &self,
        request: &Request,
        collection: &Collection,
        statement: &mut Statement,
    ) -> Result<Vec<Name>> {
        let mut scan = statement.scan(self, collection);
        let (mut names, mut bytes) = (Vec::new(), 0);
        while let Some(page) = scan.next(request).await? {
            for document in page {
                if statement.matches(&document)? {
                    let name = collection.name_of(&document)?;
                    bytes += 2 * name.id.len() + 128;
                    names.push(name);
                }
            }
            if bytes > MEMORY_BYTES_MAX {
                return Err(Failure::new(292, "the statement means too many documents: narrow its filter"));
            }
        }
        Ok(names)
    }

    async fn change_one(
        &self,
        request: &Request,
        collection: &Collection,
        statement: &mut Statement,
    ) -> Result<Done> {
        let mut done = Done::default();
        if let Some(order) = Order::of(&statement.sort, statement.parsed()) {
            let names = self.names_in_order(request, collection, statement, &order).await?;
            let change = statement.change(collection);
            for name in names {
                if let Some(effect) =
                    self.change_named(request, collection, (statement, &change), name).await?
                {
                    done.note(effect);
                    break;
                }
            }
            return Ok(done);
        }
        let plan =
            crate::plan::plan(statement.filter(), statement.parsed().collation(), collection.shard_key());
        if plan.key.is_some() && plan.id.is_some() {
            collection.uses.note_plan(&plan, &collection.meta.indexes);
        }
        if let (Some(key), Some(id)) = (plan.key, plan.id) {
            // The key names the only possible document: no scan is needed.
            let (change, name) = (statement.change(collection), Name { key, id });
            let effect = self.change_named(request, collection, (statement, &change), name).await?;
            effect.into_iter().for_each(|effect| done.note(effect));
            return Ok(done);
        }
        let mut scan = statement.scan(self, collection);
        while let Some(page) = scan.next(request).await? {
            for document in page {
                if !statement.matches(&document)? {
                    continue;
                }
                let (change, name) = (statement.change(collection), collection.name_of(&document)?);
                if let Some(effect) =
                    self.change_named(request, collection, (statement, &change), name).await?
                {
                    done.note(effect);
                    return Ok(done);
                }
            }
        }
        Ok(done)
    }

    async fn change_named(
        &self,
        request: &Request,
        collection: &Collection,
        (statement, change): (&Statement, &Arc<DocumentChange>),
        name: Name,
    ) -> Result<Option<ChangeOutcome>> {
        self.change(request, collection, name, change, statement.numbered.as_ref()).await
    }

    async fn names_in_order(
        &self,
        request: &Request,
        collection: &Collection,
        statement: &mut Statement,
        order: &Order,
    ) -> Result<Vec<Name>> {
        let mut scan = statement.scan(self, collection);
        let mut keyed = Vec::new();
        let mut bytes = 0;
        while let Some(page) = scan.next(request).await? {
            for document in page {
                if statement.matches(&document)? {
                    let name = collection.name_of(&document)?;
                    let document = Value::document(document);
                    let key = order.key(&document)?;
                    bytes += key.values().iter().map(Value::size).sum::<usize>() + name.id.len() + 128;
                    keyed.push((key, name));
                }
            }
            if bytes > MEMORY_BYTES_MAX {
                return Err(Failure::new(292, "the statement means too many documents: narrow its filter"));
            }
        }
        if order.is_from_end() {
            keyed.reverse();
        } else {
            keyed.sort_by(|(left, _), (right, _)| order.compare(left, right));
        }
        Ok(keyed.into_iter().map(|(_, name)| name).collect())
    }

    /// `None` if a matching document of the identity appeared meanwhile: the caller updates it.
    async fn upsert(
        &self,
        request: &Request,
        collection: &Collection,
        statement: &mut Statement,
    ) -> Result<Option<Done>> {
        let step = statement.step.clone();
        let Action::Update(update) = &step.value().action else { return Ok(None) };
        let equalities = upsert_base(&step.source().filter)?;
        let base = match update.is_replacement() {
            true => equalities.get("_id").map_or_else(Document::new, |id| Document::one("_id", id.clone())),
            false => equalities.clone(),
        };
        let updated = update.apply(&base, Matched::default(), true, &mut statement.env);
        let mut document = updated.map_err(|error| Failure::from(error).of_document())?.document;
        // The shard key of a replacement may come from the filter alone.
        for path in collection.shard_key().paths() {
            if !path.contains('.')
                && !document.has(path)
                && let Some(value) = equalities.get(path)
            {
                document.push(path.as_str(), value.clone());
            }
        }
        let document = self.prepared(request, Arc::new(document))?;
        let rules = collection.rules.value();
        if statement.checks {
            let checked = rules.check(&document, &mut statement.env);
            checked.map_err(|refusal| Failure::from(refusal).of_document())?;
        }
        rules.places.check(&document)?;
        let key = rules.shard_key.of_new(&document)?;
        let step = DocumentStep::of(StepSource::of_any(ActionSource::Insert(document.clone())))?;
        if let Action::Insert(body) = &step.value().action {
            rules.arrays.check(&document, body.raw())?;
        }
        let name = Name { key, id: identity_text(&document.value("_id"))? };
        let (rules, env) = (collection.rules.clone(), statement.env.clone());
        let change = Arc::new(DocumentChange { step: Arc::new(step), rules, env, checks: false });
        let effect = self.change(request, collection, name, &change, statement.numbered.as_ref()).await?;
        if let Some(effect) = effect {
            return Ok(Some(Done::of_insert(effect)));
        }
        // Does the existing document match the filter, or does it only have the same identity? It may not be durable
        // yet.
        self.settle().await?;
        let mut scan = statement.scan(self, collection);
        while let Some(page) = scan.next(request).await? {
            for found in page {
                if statement.matches(&found)? {
                    return Ok(None);
                }
            }
        }
        let taken = shardlake_model::Error::new(shardlake_model::ErrorKind::Conflict, "");
        Err(crate::duplicates::duplicate_of(collection, &taken, &document).of_document())
    }
}
