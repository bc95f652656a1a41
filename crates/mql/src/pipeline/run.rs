//! Runs pipelines: documents are pushed through operators one by one, as results are asked for.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::{MEMORY_LIMIT, Result, fail};
use crate::expression::Env;
use crate::value::{Document, Str, Value};
use shardlake_collation::Collation;

/// Other collections, as `$lookup` and its kin read them.
pub trait Collections {
    /// The documents of a collection, of another database if one is named. A missing collection has none.
    fn documents(&self, database: Option<&str>, collection: &str) -> Result<Vec<Value>>;

    /// A view's collection and pipeline; `None` for a collection.
    fn view(&self, _collection: &str) -> Option<(Str, Vec<Value>)> {
        None
    }

    /// The collation of a view.
    fn view_collation(&self, _collection: &str) -> Collation {
        Collation::simple()
    }

    /// The indexes of a collection, for stages that need one.
    fn indexes(&self, _database: Option<&str>, _collection: &str) -> Result<Vec<Document>> {
        Ok(Vec::new())
    }
}

/// The environment of a run of a pipeline.
pub struct Context<'a> {
    pub env: Env,
    pub collections: &'a dyn Collections,
    /// Indexes of the collection that the pipeline reads, if the pipeline
    /// [needs](super::Pipeline::begins_with_geo_near) them.
    pub indexes: Vec<Document>,
    /// Bytes that one blocking stage may hold.
    pub memory_bytes_max: usize,
}

impl Context<'_> {
    /// Fails where a stage holds more than it may.
    pub(super) fn check_memory(&self, stage: &str, bytes: usize) -> Result<()> {
        if bytes > self.memory_bytes_max {
            let most = self.memory_bytes_max;
            fail!(
                MEMORY_LIMIT,
                "Exceeded memory limit for {stage}: {most} bytes. Pass allowDiskUse:true or select fewer documents"
            );
        }
        Ok(())
    }
}

/// A parsed stage, from which each run makes an operator.
pub(super) trait Stage {
    fn start(self: Arc<Self>) -> Box<dyn Operator>;
}

/// A running stage.
pub(super) trait Operator: Send {
    /// Takes a document and emits the results that are ready. False ends the run: no more documents are needed.
    fn push(&mut self, document: Value, context: &mut Context<'_>, out: &mut Vec<Value>) -> Result<bool>;

    /// Emits the remaining results when no more documents come.
    fn finish(&mut self, _context: &mut Context<'_>, _out: &mut Vec<Value>) -> Result<()> {
        Ok(())
    }

    /// Bytes that the operator keeps between documents, if it emits results before the last document.
    fn held_bytes(&self) -> usize {
        0
    }
}

/// Replaces an operator that has emitted everything.
struct Finished;

impl Operator for Finished {
    fn push(&mut self, _: Value, _: &mut Context<'_>, _: &mut Vec<Value>) -> Result<bool> {
        Ok(false)
    }
}

/// Resumable run of a pipeline: it stops behind every result, and continues when the next one is requested.
///
/// ```text
/// push ─► waiting[0] ─► operator 0 ─► waiting[1] ─► operator 1 ─► waiting[2] ─► next
/// ```
///
/// A document is handed to the last operator that has one waiting, so that little waits.
pub struct Run {
    operators: Vec<Box<dyn Operator>>,
    /// Documents before the operator of this place; behind the last operator they are results.
    waiting: Vec<VecDeque<Value>>,
    /// No more documents come, or none are needed.
    has_input_ended: bool,
    /// Whether the operators before this one have ended.
    finished: usize,
    /// Projection of a result.
    shown: fn(Value) -> Value,
}

impl Run {
    pub(super) fn new(stages: &[Arc<dyn Stage + Send + Sync>], shown: fn(Value) -> Value) -> Run {
        let operators: Vec<_> = stages.iter().map(|stage| stage.clone().start()).collect();
        let waiting = (0..=operators.len()).map(|_| VecDeque::new()).collect();
        Run { operators, waiting, has_input_ended: false, finished: 0, shown }
    }

    /// Takes a document; [`Run::next`] works on it.
    pub fn push(&mut self, document: Value) {
        if !self.has_input_ended {
            self.waiting[0].push_back(document);
        }
    }

    /// No more documents come.
    pub fn end(&mut self) {
        self.has_input_ended = true;
    }

    /// Whether documents are of no more use.
    pub fn has_ended(&self) -> bool {
        self.has_input_ended
    }

    /// The next result. `None` where more documents are needed, or, behind the last one, where there are no more results.
    pub fn next(&mut self, context: &mut Context<'_>) -> Result<Option<Value>> {
        let end = self.operators.len();
        loop {
            if let Some(result) = self.waiting[end].pop_front() {
                return Ok(Some((self.shown)(result)));
            }
            match (0..end).rev().find(|at| !self.waiting[*at].is_empty()) {
                Some(at) => self.step(at, context)?,
                None if self.has_input_ended && self.finished < end => self.finish(context)?,
                None => return Ok(None),
            }
        }
    }

    /// The next result, with as many of these documents as it needs.
    pub(super) fn next_of<'v>(
        &mut self,
        input: &mut impl Iterator<Item = &'v Value>,
        context: &mut Context<'_>,
    ) -> Result<Option<Value>> {
        loop {
            let result = self.next(context)?;
            if result.is_some() || self.has_input_ended {
                return Ok(result);
            }
            match input.next() {
                Some(document) => self.push(document.clone()),
                None => self.end(),
            }
        }
    }

    /// Hands a document to an operator.
    fn step(&mut self, at: usize, context: &mut Context<'_>) -> Result<()> {
        let Some(document) = self.waiting[at].pop_front() else { return Ok(()) };
        context.env.repeat()?;
        assert!(at >= self.finished, "a stage that has finished takes no documents");
        let mut out = Vec::new();
        let needs_more = self.operators[at].push(document, context, &mut out)?;
        self.waiting[at + 1].extend(out);
        if !needs_more {
            // This operator would skip all further input.
            self.has_input_ended = true;
            self.finished = self.finished.max(at);
            self.waiting[..=at].iter_mut().for_each(VecDeque::clear);
        }
        Ok(())
    }

    fn finish(&mut self, context: &mut Context<'_>) -> Result<()> {
        context.env.look_at_time()?;
        let at = self.finished;
        assert!(self.has_input_ended, "stages finish after the last document");
        assert!(
            self.waiting[..=at].iter().all(VecDeque::is_empty),
            "a stage finishes after each document before it"
        );
        self.finished += 1;
        let mut out = Vec::new();
        let mut operator = std::mem::replace(&mut self.operators[at], Box::new(Finished));
        operator.finish(context, &mut out)?;
        self.waiting[at + 1].extend(out);
        Ok(())
    }

    /// Bytes that are kept until the next result is asked for, as if no value were shared.
    pub fn held_bytes(&self) -> usize {
        let waiting = self.waiting.iter().flatten().map(Value::size).sum::<usize>();
        waiting + self.operators.iter().map(|operator| operator.held_bytes()).sum::<usize>()
    }
}
