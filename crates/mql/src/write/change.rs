//! Change of one document as one step: matched again, updated and checked against the stored version under the write's
//! lock.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardlake_document::{Body, RawDocument};
use shardlake_model::PartitionKey;

use super::refusal::Refusal;
use super::rules::DocumentRules;
use super::step::{Action, ActionSource, DocumentStep};
use super::stored::{body_of, document_of, refused_body};
use crate::expression::Env;
use crate::filter::{Filter, Matched};
use crate::value::{Document, Value};

/// The change that a statement makes to each of its documents.
///
/// It is pure: a plan that stops is made again, and the last answer counts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DocumentChange {
    pub step: Arc<DocumentStep>,
    pub rules: Arc<DocumentRules>,
    pub env: Env,
    /// Whether the validator is evaluated.
    pub checks: bool,
}

/// Result of a change of an item.
#[derive(Debug)]
pub enum Changed {
    /// It stays as it is, or stays away.
    Nothing,
    /// A body with the same identity and partition key.
    Put(Body),
    /// Like `Put`, where parts of the stored version changed and the rest stayed: change streams
    /// report it as an update.
    Altered(Body),
    Removed,
}

/// Effect of a change of one document.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChangeOutcome {
    pub before: Option<Document>,
    pub after: Option<Document>,
    /// Which element of an array the filter matched.
    pub matched: Matched,
    pub is_modified: bool,
    /// The `_id` of a document that was made.
    pub upserted: Option<Value>,
}

impl DocumentChange {
    pub fn filter(&self) -> &Filter {
        &self.step.value().filter
    }

    /// Whether it stores a new document.
    pub fn inserts(&self) -> bool {
        matches!(self.step.value().action, Action::Insert(_))
    }

    /// `None` for the outcome if no document matches the filter; for an insert, if the document exists already.
    pub fn apply(
        &self,
        existing: Option<RawDocument<'_>>,
        key: &PartitionKey,
    ) -> Result<(Changed, Option<ChangeOutcome>), Refusal> {
        let old = existing.map(|body| document_of(body.as_bytes())).transpose()?;
        let Some((old, stored)) = old.zip(existing) else {
            return Ok(self
                .inserted()
                .map_or((Changed::Nothing, None), |(body, outcome)| (Changed::Put(body), Some(outcome))));
        };
        let step = self.step.value();
        let update = match &step.action {
            Action::Insert(_) => return Ok((Changed::Nothing, None)),
            Action::Rewrite => {
                let body = Body::from_bson(stored.as_bytes().to_vec());
                return Ok((Changed::Put(body.map_err(|error| refused_body(&error))?), None));
            }
            Action::Remove => None,
            Action::Update(update) => Some(update),
        };
        let mut env = self.env.clone();
        let Some(matched) = step.filter.matched(&old, &mut env)? else { return Ok((Changed::Nothing, None)) };
        let outcome = |old, after, is_modified| {
            Some(ChangeOutcome { before: Some(old), after, matched, is_modified, upserted: None })
        };
        let Some(update) = update else { return Ok((Changed::Removed, outcome(old, None, true))) };
        let updated = update.apply(&old, matched, false, &mut env)?;
        let new = updated.document;
        if !updated.modified {
            return Ok((Changed::Nothing, outcome(old, Some(new), false)));
        }
        let rules = self.rules.value();
        if self.checks {
            rules.check_change(&old, &new, &mut env)?;
        }
        rules.places.check(&new)?;
        rules.check_key(&new, key)?;
        let (body, _) = body_of(&new)?;
        rules.arrays.check(&new, body.raw())?;
        let changed = if update.is_replacement() { Changed::Put(body) } else { Changed::Altered(body) };
        Ok((changed, outcome(old, Some(new), true)))
    }

    fn inserted(&self) -> Option<(Body, ChangeOutcome)> {
        let (Action::Insert(body), ActionSource::Insert(document)) =
            (&self.step.value().action, &self.step.source().action)
        else {
            return None;
        };
        let outcome = ChangeOutcome {
            before: None,
            after: Some(Document::clone(document)),
            matched: Matched::default(),
            is_modified: true,
            upserted: Some(document.value("_id")),
        };
        Some((body.clone(), outcome))
    }
}
