//! Effects of a statement, and how it is answered.

use shardlake_mql::write::{AnswerForm, ChangeOutcome, Summary};
use shardlake_mql::{Document, Matched, Value};
use shardlake_partition::{SessionWrite, StatementNote};

use crate::failure::Failure;

/// Effect of a statement.
#[derive(Debug, Default)]
pub struct Done {
    pub matched: u64,
    pub modified: u64,
    /// The `_id` of a document that was made.
    pub upserted: Option<Value>,
    /// The document before and after, for a statement for one document.
    pub before: Option<Document>,
    pub after: Option<Document>,
    /// How the filter matched the document.
    pub met: Matched,
    /// The failure that ended a statement for many documents early: the counts cover its changes up to then.
    pub failure: Option<Failure>,
}

impl Done {
    /// The effect of an upsert that made a document.
    pub(crate) fn of_insert(outcome: ChangeOutcome) -> Done {
        let ChangeOutcome { after, upserted, .. } = outcome;
        Done { matched: 1, after, upserted, ..Done::default() }
    }

    pub(crate) fn note(&mut self, outcome: ChangeOutcome) {
        self.matched += 1;
        self.modified += u64::from(outcome.is_modified);
        (self.before, self.after, self.met) = (outcome.before, outcome.after, outcome.matched);
    }

    pub fn summary(&self) -> Summary<'_> {
        Summary {
            matched: self.matched,
            modified: self.modified,
            upserted: self.upserted.as_ref(),
            before: self.before.as_ref(),
            after: self.after.as_ref(),
            met: self.met,
        }
    }
}

/// A statement that may come again, and how it is answered.
#[derive(Debug, Clone)]
pub struct Numbered {
    pub write: SessionWrite,
    pub statement: i32,
    pub form: AnswerForm,
}

impl Numbered {
    pub(crate) fn note(&self) -> StatementNote {
        StatementNote { write: self.write, statements: vec![self.statement], answer: self.form.clone() }
    }
}
