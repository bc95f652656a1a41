//! Effects of a change and of its statement, and their answer.

use std::fmt;
use std::sync::Arc;

use shardlake_mql::{Document, Matched, Value};
use shardlake_partition::{SessionWrite, StatementRow};

use crate::failure::{Failure, Result};

/// Effect of a change of one document.
#[derive(Debug, Clone)]
pub(crate) struct Effect {
    pub before: Option<Document>,
    pub after: Option<Document>,
    pub matched: Matched,
    pub is_modified: bool,
    /// The `_id` of a document that was made.
    pub upserted: Option<Value>,
}

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
    /// The effect of a statement for one document.
    pub(crate) fn of(effect: Effect) -> Done {
        let mut done = Done::default();
        match &effect.upserted {
            Some(id) => {
                done.upserted = Some(id.clone());
                (done.matched, done.after) = (1, effect.after);
            }
            None => done.note(effect),
        }
        done
    }

    pub(crate) fn note(&mut self, effect: Effect) {
        self.matched += 1;
        self.modified += u64::from(effect.is_modified);
        (self.before, self.after, self.met) = (effect.before, effect.after, effect.matched);
    }
}

/// Converts the effect of a statement to its answer.
pub type Form = Arc<dyn Fn(&Done) -> Result<Document> + Send + Sync>;

/// A statement that may come again, and how it is answered.
#[derive(Clone)]
pub struct Numbered {
    pub write: SessionWrite,
    pub statement: i32,
    pub form: Form,
}

impl fmt::Debug for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Numbered").field(&self.write).field(&self.statement).finish()
    }
}

impl Numbered {
    /// The row of a stored answer; `None` if the answer cannot be made: a retry fails again.
    pub(crate) fn row(&self, done: &Done) -> Option<StatementRow> {
        let answer = (self.form)(done).ok()?;
        Some(self.write.row(&[self.statement], &answer.to_bytes()))
    }
}
