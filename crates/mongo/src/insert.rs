//! Inserting documents: many of one logical partition in one commit.

use std::sync::Arc;

use futures::StreamExt;
use shardlake_document::Body;
use shardlake_items::{ItemWrite, OpenTransaction, WriteCommand};
use shardlake_model::{ErrorKind, PartitionKey};
use shardlake_mql::write::{AnswerForm, document_of, id_first};
use shardlake_mql::{Document, Value};
use shardlake_partition::{BEYOND_BOUNDS, CommitOptions, Permit, SessionWrite, StatementNote};

use crate::answers::NumberedInserts;
use crate::change_stream::operation_time;
use crate::collections::{Collection, Collections, Namespace};
use crate::duplicates::duplicate;
use crate::failure::{Failure, Result, refuses_command};
use crate::request::Request;

/// Bytes of bodies in one commit, small enough for other requests in between.
const BATCH_BYTES_MAX: usize = 512 * 1024;
/// Bytes of bodies that an unordered insert groups by their logical partitions.
const WINDOW_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The latest batches that are searched for a document's logical partition.
const BATCHES_SEARCHED: usize = 64;
/// Commits of one command that wait for durability concurrently.
const BATCHES_AT_WORK: usize = 4;

/// Result of a write command of several statements.
#[derive(Debug, Default)]
pub struct Inserted {
    pub count: u64,
    /// By the statement's index.
    pub failures: Vec<(usize, Failure)>,
}

impl Inserted {
    /// Notes documents that the server refused, which fails the command as a whole.
    fn refuse(&mut self, documents: &[Ready], failure: &Failure) {
        self.failures.extend(documents.iter().map(|ready| (ready.index, failure.clone())));
    }
}

/// A document on its way.
struct Ready {
    index: usize,
    key: PartitionKey,
    body: Body,
    /// The statement, if it is retryable.
    statement: Option<(SessionWrite, i32)>,
}

/// A document ready to be written, or the statement index and the failure of an invalid document.
type Made = std::result::Result<Ready, (usize, Failure)>;

/// Documents of one logical partition, for one commit.
#[derive(Default)]
struct Batch {
    ready: Vec<Ready>,
    bytes: usize,
}

impl Batch {
    fn of(ready: Ready) -> Batch {
        let mut batch = Batch::default();
        batch.push(ready);
        batch
    }

    fn has_room(&self, ready: &Ready, bounds: BatchBounds) -> bool {
        let Some(first) = self.ready.first() else { return true };
        first.key.same(&ready.key)
            && self.ready.len() < bounds.documents_max
            && self.bytes + ready.body.as_bytes().len() <= bounds.bytes_max
    }

    fn push(&mut self, ready: Ready) {
        self.bytes += ready.body.as_bytes().len();
        self.ready.push(ready);
    }

    fn take(&mut self) -> Vec<Ready> {
        std::mem::take(self).ready
    }
}

/// The documents of one commit. A capped collection refuses a commit of more than it may hold.
#[derive(Clone, Copy)]
struct BatchBounds {
    documents_max: usize,
    bytes_max: usize,
}

impl BatchBounds {
    fn of(collection: &Collection, documents_max: usize) -> BatchBounds {
        let within = |max: usize, capped: Option<u64>| {
            let capped = capped.and_then(|capped| usize::try_from(capped).ok());
            capped.map_or(max, |capped| max.min(capped.max(1)))
        };
        BatchBounds {
            documents_max: within(documents_max, collection.meta.capped_max()),
            bytes_max: within(BATCH_BYTES_MAX, collection.meta.capped_size()),
        }
    }
}

fn too_large_for_capped() -> Failure {
    Failure::new(2, "object to insert exceeds cappedMaxSize")
}

impl Collections {
    /// Inserts documents, in order or not, with or without validation. A document without an `_id` gets one. Creates
    /// the collection if it does not exist.
    pub async fn insert(
        &self,
        request: &Request,
        namespace: &Namespace,
        documents: Vec<Arc<Document>>,
        (is_ordered, checks): (bool, bool),
        numbered: Option<&NumberedInserts>,
    ) -> Result<Inserted> {
        let collection = match self.writable(namespace)? {
            Some(collection) => collection,
            None => self.create_implicitly(request, namespace).await?,
        };
        let collection = self.opened(request, collection).await?;
        let statement_of =
            |index: usize| numbered.map(|numbered| (numbered.write, numbered.statements[index]));
        let made = documents.into_iter().enumerate().map(|(index, document)| {
            let ready = self.ready(request, &collection, document, checks);
            ready.map_err(|failure| (index, failure)).map(|(key, body)| {
                let statement = statement_of(index);
                Ready { index, key, body, statement }
            })
        });
        // A capped collection keeps the order.
        match is_ordered || self.transaction.is_some() || collection.meta.is_capped() {
            true => self.insert_in_turn(request, &collection, made, is_ordered).await,
            false => self.insert_in_any_order(request, &collection, made).await,
        }
    }

    /// One logical partition after the other, as documents come.
    async fn insert_in_turn(
        &self,
        request: &Request,
        collection: &Collection,
        documents: impl Iterator<Item = Made>,
        is_ordered: bool,
    ) -> Result<Inserted> {
        let (mut inserted, mut batch) = (Inserted::default(), Batch::default());
        let bounds = BatchBounds::of(collection, self.queries.router().limits().batch_operations_max);
        for made in documents {
            match made {
                Ok(ready) => {
                    if !batch.has_room(&ready, bounds) {
                        self.flush(request, collection, batch.take(), is_ordered, &mut inserted).await?;
                        if is_ordered && !inserted.failures.is_empty() {
                            return Ok(inserted);
                        }
                    }
                    batch.push(ready);
                }
                Err(failed) if is_ordered => {
                    self.flush(request, collection, batch.take(), is_ordered, &mut inserted).await?;
                    if inserted.failures.is_empty() {
                        inserted.failures.push(failed);
                    }
                    return Ok(inserted);
                }
                Err(failed) => inserted.failures.push(failed),
            }
        }
        self.flush(request, collection, batch.take(), is_ordered, &mut inserted).await?;
        inserted.failures.sort_by_key(|(index, _)| *index);
        Ok(inserted)
    }

    /// Groups documents by logical partition, out of order too, and writes several logical partitions concurrently.
    async fn insert_in_any_order(
        &self,
        request: &Request,
        collection: &Collection,
        documents: impl Iterator<Item = Made>,
    ) -> Result<Inserted> {
        let bounds = BatchBounds::of(collection, self.queries.router().limits().batch_operations_max);
        let mut inserted = Inserted::default();
        let mut documents = documents.peekable();
        while documents.peek().is_some() {
            let (mut batches, mut bytes): (Vec<Batch>, usize) = (Vec::new(), 0);
            while bytes < WINDOW_BYTES_MAX
                && let Some(made) = documents.next()
            {
                let ready = match made {
                    Ok(ready) => ready,
                    Err(failed) => {
                        inserted.failures.push(failed);
                        continue;
                    }
                };
                bytes += ready.body.as_bytes().len();
                let mut latest = batches.iter_mut().rev().take(BATCHES_SEARCHED);
                match latest.find(|batch| batch.has_room(&ready, bounds)) {
                    Some(batch) => batch.push(ready),
                    None => batches.push(Batch::of(ready)),
                }
            }
            let batches = futures::stream::iter(batches);
            let mut done = batches
                .map(|batch| self.flushed(request, collection, batch))
                .buffer_unordered(BATCHES_AT_WORK);
            // Every batch ends before the command does, also after a failure: a client that repeats the command would meet
            // its own writes.
            let mut outcome = Ok(());
            while let Some(done) = done.next().await {
                let done = done.map(|Inserted { count, failures }| {
                    inserted.count += count;
                    inserted.failures.extend(failures);
                });
                outcome = outcome.and(done);
            }
            outcome?;
        }
        inserted.failures.sort_by_key(|(index, _)| *index);
        Ok(inserted)
    }

    async fn flushed(&self, request: &Request, collection: &Collection, batch: Batch) -> Result<Inserted> {
        let mut inserted = Inserted::default();
        self.flush(request, collection, batch.ready, false, &mut inserted).await?;
        Ok(inserted)
    }

    fn ready(
        &self,
        request: &Request,
        collection: &Collection,
        document: Arc<Document>,
        checks: bool,
    ) -> Result<(PartitionKey, Body)> {
        let document = self.prepared(request, document)?;
        let rules = collection.rules.value();
        if checks && rules.validator().is_some() {
            rules.check(&document, &mut request.env())?;
        }
        let stored = rules.stored(&document)?;
        if collection.meta.capped_size().is_some_and(|max| document.size() as u64 > max) {
            return Err(too_large_for_capped());
        }
        Ok(stored)
    }

    /// The document with `_id` in front, and with empty timestamps filled in. Most documents arrive so.
    pub(crate) fn prepared(&self, request: &Request, document: Arc<Document>) -> Result<Arc<Document>> {
        let has_empty_time = document.iter().any(|(name, value)| &**name != "_id" && request.replaces(value));
        let is_complete = document.first().is_some_and(|(name, _)| &**name == "_id") && !has_empty_time;
        let document = if is_complete { document } else { Arc::new(self.completed(request, document)) };
        debug_assert!(
            document.first().is_some_and(|(name, _)| &**name == "_id"),
            "a document that is stored begins with its id"
        );
        if let Some(Value::Document(id)) = document.get("_id")
            && let Some((name, _)) = id.iter().find(|(name, _)| name.starts_with('$'))
        {
            let words =
                format!("_id fields may not contain '$'-prefixed fields: {name} is not valid for storage");
            return Err(Failure::new(52, words));
        }
        Ok(document)
    }

    fn completed(&self, request: &Request, document: Arc<Document>) -> Document {
        let mut document = Arc::unwrap_or_clone(document);
        if !document.has("_id") {
            document.push_front("_id", Value::ObjectId(self.new_object_id(request)));
        }
        let mut document = id_first(document);
        self.fill_timestamps(request, &mut document);
        document
    }

    /// Puts the time in the place of empty timestamps at the top level, but for the identity.
    pub fn fill_timestamps(&self, request: &Request, document: &mut Document) {
        let now = operation_time(request.ctx.now.milliseconds());
        let empty = document.iter().filter(|(name, value)| &***name != "_id" && request.replaces(value));
        let names: Vec<_> = empty.map(|(name, _)| name.clone()).collect();
        for name in names {
            let (seconds, increment) = self.ascending.timestamp(now);
            document.set(&name, Value::Timestamp(seconds, increment));
        }
    }

    pub(crate) fn new_object_id(&self, request: &Request) -> [u8; 12] {
        self.ascending.object_id(request.ctx.now, self.queries.router().random())
    }

    /// Writes the waiting documents, which are of one logical partition. A batch with a failing document writes
    /// nothing: then the documents before it are written without it, and those behind it if the order does not matter.
    /// A batch that the server refuses is not sent again: the refusal may come from a store that has the documents
    /// already.
    async fn flush(
        &self,
        request: &Request,
        collection: &Collection,
        mut rest: Vec<Ready>,
        is_ordered: bool,
        inserted: &mut Inserted,
    ) -> Result<()> {
        if let Some(transaction) = self.transaction.clone() {
            return self.insert_within(request, collection, (&transaction, rest), inserted).await;
        }
        while !rest.is_empty() {
            match self.insert_batch(request, collection, &rest).await {
                Ok(()) => {
                    inserted.count += rest.len() as u64;
                    return Ok(());
                }
                Err((_, failure)) if refuses_command(failure.code) => {
                    inserted.refuse(&rest, &failure);
                    return Ok(());
                }
                Err((_, failure)) if rest.len() == 1 => {
                    inserted.failures.push((rest[0].index, failure));
                    return Ok(());
                }
                Err((Some(0), failure)) => {
                    inserted.failures.push((rest[0].index, failure));
                    if is_ordered {
                        return Ok(());
                    }
                    rest.remove(0);
                }
                Err((at, failure)) => {
                    // A batch that fails as a whole is cut in two, which ends with single documents.
                    assert!(at.is_none_or(|at| at < rest.len()), "the failed document is one of the batch");
                    let behind = rest.split_off(at.unwrap_or(rest.len() / 2));
                    assert!(!behind.is_empty(), "a batch that fails is cut before its last document");
                    let Err((_, again)) = self.insert_batch(request, collection, &rest).await else {
                        inserted.count += rest.len() as u64;
                        rest = behind;
                        if at.is_some() {
                            inserted.failures.push((rest[0].index, failure));
                            if is_ordered {
                                return Ok(());
                            }
                            rest.remove(0);
                        }
                        continue;
                    };
                    if refuses_command(again.code) {
                        inserted.refuse(&rest, &again);
                        inserted.refuse(&behind, &again);
                        return Ok(());
                    }
                    if rest.len() == 1 {
                        inserted.failures.push((rest[0].index, again));
                        if is_ordered {
                            return Ok(());
                        }
                        rest = behind;
                    } else {
                        rest.extend(behind);
                        self.flush_one_by_one(request, collection, rest, is_ordered, inserted).await;
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Inserts one document after the other up to the first failure, which also ends the transaction.
    async fn insert_within(
        &self,
        request: &Request,
        collection: &Collection,
        (transaction, documents): (&OpenTransaction, Vec<Ready>),
        inserted: &mut Inserted,
    ) -> Result<()> {
        for Ready { index, key, body, .. } in documents {
            let bytes = body.as_bytes().to_vec();
            let command = WriteCommand::of(Some(key), ItemWrite::Create { body });
            match self
                .queries
                .items()
                .write_within(&request.ctx, &collection.handle, transaction, command)
                .await
            {
                Ok(reply) => {
                    request.charge(reply.meta.charge_centi);
                    inserted.count += 1;
                }
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    inserted.failures.push((index, duplicate(collection, &error, Some(&bytes))));
                    return Ok(());
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    async fn flush_one_by_one(
        &self,
        request: &Request,
        collection: &Collection,
        rest: Vec<Ready>,
        is_ordered: bool,
        inserted: &mut Inserted,
    ) {
        for (at, ready) in rest.iter().enumerate() {
            match self.insert_batch(request, collection, std::slice::from_ref(ready)).await {
                Ok(()) => inserted.count += 1,
                Err((_, failure)) if refuses_command(failure.code) => {
                    inserted.refuse(&rest[at..], &failure);
                    return;
                }
                Err((_, failure)) => {
                    inserted.failures.push((ready.index, failure));
                    if is_ordered {
                        return;
                    }
                }
            }
        }
    }

    /// A permit for documents that are larger than an item of the REST protocol: few of them are inserted at a
    /// time.
    async fn room_for(
        &self,
        request: &Request,
        documents: &[Ready],
    ) -> shardlake_model::Result<Option<Permit>> {
        let size_bytes: usize = documents.iter().map(|ready| ready.body.as_bytes().len()).sum();
        if size_bytes <= self.queries.router().limits().item_size_bytes_max {
            return Ok(None);
        }
        self.queries.router().room_for(&request.ctx, size_bytes).await
    }

    fn note_inserted(&self, collection: &Collection, documents: &[Ready]) -> Result<()> {
        let Some(own) = &self.own else { return Ok(()) };
        for Ready { key, body, .. } in documents {
            let document = document_of(body.as_bytes())?;
            let id = shardlake_mql::write::identity_text(&document.value("_id"))?;
            own.note(collection.container(), (key.clone(), id), Some(document));
        }
        Ok(())
    }

    /// Inserts all documents or none. The error names the document at fault, if there is one.
    async fn insert_batch(
        &self,
        request: &Request,
        collection: &Collection,
        documents: &[Ready],
    ) -> Result<(), (Option<usize>, Failure)> {
        let key = &documents[0].key;
        let _room = self.room_for(request, documents).await.map_err(|error| (None, error.into()))?;
        let bodies = documents.iter().map(|ready| ready.body.clone());
        let statements: Vec<i32> = documents.iter().filter_map(|ready| Some(ready.statement?.1)).collect();
        let note = documents[0].statement.map(|(write, _)| StatementNote {
            write,
            statements,
            answer: AnswerForm::Inserted,
        });
        let commit = CommitOptions { note, ..self.commit_options() };
        let items = self.queries.items();
        let reply = items.create_all(&request.ctx, &collection.handle, key.clone(), bodies, commit).await;
        let reply = reply.map_err(|error| (None, Failure::from(error)))?;
        request.charge(reply.meta.charge_centi);
        match reply.outcome {
            Ok(_) => {
                self.note_inserted(collection, documents).map_err(|failure| (None, failure))?;
                Ok(())
            }
            Err(failed) => {
                let failure = match failed.error.kind() {
                    // A part of them may fit. Each is refused by itself where it does not.
                    ErrorKind::TooLarge if failed.error.message() == BEYOND_BOUNDS => {
                        let at = (documents.len() == 1).then_some(0);
                        return Err((at, too_large_for_capped()));
                    }
                    ErrorKind::Conflict => {
                        let body = documents.get(failed.index).map(|ready| ready.body.as_bytes());
                        duplicate(collection, &failed.error, body)
                    }
                    _ => failed.error.into(),
                };
                Err((Some(failed.index), failure))
            }
        }
    }
}
