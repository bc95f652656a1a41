//! Answers of statements, as they are returned and as they are stored with the write.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardlake_model::{Derived, Source};

use super::change::ChangeOutcome;
use crate::error::{Error, Result};
use crate::expression::{Env, Scope};
use crate::filter::Matched;
use crate::projection::FindProjection;
use crate::value::{Document, Value};

/// Form of a statement's answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum AnswerForm {
    /// One document of an insert.
    Inserted,
    Updated,
    /// A statement of `bulkWrite`.
    UpdatedInBulk,
    Removed,
    FindAndModify(Arc<ShownDocument>),
}

/// The answer of `findAndModify`.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShownDocument {
    pub removes: bool,
    pub shows_new: bool,
    pub projection: Option<Derived<ProjectionSource, FindProjection>>,
    pub env: Env,
}

/// A projection as the client sent it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ProjectionSource {
    pub fields: Document,
    pub scope: Scope,
}

impl Source<FindProjection> for ProjectionSource {
    type Error = Error;

    fn remake(&self) -> Result<FindProjection> {
        FindProjection::parse(&self.fields, &self.scope)
    }
}

/// Effect of a statement.
#[derive(Debug, Clone, Copy, Default)]
pub struct Summary<'d> {
    pub matched: u64,
    pub modified: u64,
    /// The `_id` of a document that was made.
    pub upserted: Option<&'d Value>,
    /// The document before and after, for a statement for one document.
    pub before: Option<&'d Document>,
    pub after: Option<&'d Document>,
    /// How the filter matched the document.
    pub met: Matched,
}

impl ChangeOutcome {
    /// The effect of a statement for one document.
    pub fn summary(&self) -> Summary<'_> {
        let after = self.after.as_ref();
        match &self.upserted {
            Some(id) => Summary { matched: 1, upserted: Some(id), after, ..Summary::default() },
            None => Summary {
                matched: 1,
                modified: u64::from(self.is_modified),
                upserted: None,
                before: self.before.as_ref(),
                after,
                met: self.matched,
            },
        }
    }
}

impl AnswerForm {
    pub fn answer(&self, done: Summary<'_>) -> Result<Document> {
        debug_assert!(done.modified <= done.matched, "only matched documents are modified");
        let mut answer = Document::one("n", Value::Int(done.matched as i32));
        match self {
            AnswerForm::Inserted => return Ok(inserted_answer()),
            AnswerForm::Removed => {}
            AnswerForm::Updated | AnswerForm::UpdatedInBulk => {
                answer.push("nModified", Value::Int(done.modified as i32));
                if let Some(id) = done.upserted.cloned() {
                    let is_in_bulk = matches!(self, AnswerForm::UpdatedInBulk);
                    let shown = if is_in_bulk { Value::document(Document::one("_id", id)) } else { id };
                    answer.push("upserted", shown);
                }
            }
            AnswerForm::FindAndModify(shown) => return shown.answer(done, answer),
        }
        Ok(answer)
    }

    /// The answer of a statement for one document; `None` if there is none to store: a retry runs again, or fails again.
    pub fn of_commit(&self, outcome: Option<&ChangeOutcome>) -> Option<Document> {
        match (self, outcome) {
            (AnswerForm::Inserted, _) => Some(inserted_answer()),
            (_, outcome) => self.answer(outcome?.summary()).ok(),
        }
    }
}

/// The answer of an insert of one document.
pub fn inserted_answer() -> Document {
    Document::one("n", Value::Int(1))
}

impl ShownDocument {
    /// `last` has the number of documents.
    fn answer(&self, done: Summary<'_>, mut last: Document) -> Result<Document> {
        if !self.removes {
            last.push("updatedExisting", Value::Bool(done.matched > 0 && done.upserted.is_none()));
            if let Some(id) = done.upserted {
                last.push("upserted", id.clone());
            }
        }
        let document = if self.shows_new { done.after } else { done.before };
        let document = document.cloned().map(Value::document);
        let value = match (document, &self.projection) {
            (None, _) => Value::Null,
            (Some(document), None) => document,
            (Some(document), Some(projection)) => {
                projection.value().apply(&document, done.met, &mut self.env.clone())?
            }
        };
        let mut answer = Document::one("lastErrorObject", Value::document(last));
        answer.push("value", value);
        Ok(answer)
    }
}
