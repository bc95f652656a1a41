//! One command while it runs: its body, its user, and the parts of the server that it may use.

mod command;
mod connection;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shardlake_account::collections::{Collections, Numbered};
use shardlake_model::RequestContext;
use shardlake_mql::write::AnswerForm;
use shardlake_mql::{Document, Value};
use shardlake_stdx::Timestamp;

pub use command::Command;
pub(crate) use command::command;
pub use connection::{Connection, Ends, application_of};

use crate::access::{Identity, Principal, Privilege, Rights};
use crate::arguments::{self, Arguments, Field, Generic};
use crate::cursors::{BatchSource, FIRST_BATCH_DOCUMENTS, NewCursor, Owner, Wants};
use crate::deployment::Deployment;
use crate::errors::Result;
use crate::expressions;
use crate::operations::End;
use crate::reply::{CursorReply, Reply};
use crate::sessions::{RetryableWrite, Session, TransactionTurn};

/// A command, its client, and the server.
pub struct Call {
    pub deployment: Arc<Deployment>,
    pub connection: Arc<Connection>,
    /// As the table has it, whatever spelling came.
    pub name: &'static str,
    /// The whole command. Its first field is the command's.
    pub body: Document,
    pub generic: Generic,
    /// `None` where the client proved nothing, and need not.
    pub principal: Option<Arc<Principal>>,
    /// Of the `lsid`, where there is one.
    pub session: Option<Arc<Session>>,
    /// Where the command has a `txnNumber` and is no part of a transaction.
    pub retryable: Option<RetryableWrite>,
    /// Where the command is part of a transaction and does not end it.
    pub transaction: Option<TransactionTurn>,
    /// As the transaction sees them.
    pub collections: Option<Collections>,
    /// Deadline, activity and time, for the engine.
    pub context: RequestContext,
    /// Time before which the command sees every commit: taken before it begins, or before its
    /// transaction began. `None` for a write, whose reply carries the time of its end.
    pub seen_before: Option<Timestamp>,
    /// A batch has no more bytes, but one document at least.
    pub batch_bytes_max: usize,
    /// Hundredths of a request unit, of all that is done in its name.
    pub charged: Arc<AtomicU64>,
    /// Number of random seeds drawn so far.
    pub seeds: AtomicU64,
    /// It ends by `killOp`, with its session, or when the client of a read has gone.
    pub end: Arc<End>,
}

/// How a client wants to read a result.
#[derive(Debug, Clone, Copy, Default)]
pub struct CursorOptions {
    /// `None`: 101 documents, within the limit in bytes. Zero opens the cursor and reads nothing.
    pub batch_size: Option<u64>,
    /// The cursor ends with its first batch.
    pub is_single_batch: bool,
    /// It ends with its session and not before.
    pub is_kept: bool,
}

impl Call {
    /// A statement of this command as its result is stored with its write, if a client may repeat it.
    pub fn numbered(&self, statement: i32, form: &AnswerForm) -> Option<Numbered> {
        let write = self.retryable.as_ref()?.write(self.context.now);
        Some(Numbered { write, statement, form: form.clone() })
    }

    /// Random seed, a new one for each statement. It is made of the activity's random name, because asking the system for random bytes
    /// costs as much as looking a document up.
    pub fn seed(&self) -> u64 {
        const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
        let name = u128::from_le_bytes(self.context.activity_id.0);
        let number = self.seeds.fetch_add(1, Ordering::Relaxed);
        (name as u64) ^ ((name >> 64) as u64) ^ number.wrapping_mul(GOLDEN_GAMMA)
    }

    pub fn database(&self) -> &str {
        &self.generic.database
    }

    /// Whether the client may do something on a database, or on all. Always true for a key of the account and for a server without
    /// authentication: the dispatcher has checked their access before the command runs.
    pub fn may(&self, privilege: Privilege, database: Option<&str>) -> bool {
        self.rights().is_none_or(|rights| rights.has(privilege, database))
    }

    /// Whether the client may know of a database.
    pub fn may_see(&self, database: &str) -> bool {
        self.rights().is_none_or(|rights| rights.reaches(database))
    }

    /// Of a user that was made.
    pub fn rights(&self) -> Option<Arc<Rights>> {
        match self.principal.as_ref()?.identity {
            Identity::Account(_) => None,
            Identity::User(number) => {
                Some(self.deployment.users.rights(&self.deployment.account, number).unwrap_or_default())
            }
        }
    }

    /// The value of the command's first field.
    pub fn first(&self) -> &Value {
        self.body.first().map_or(&Value::Null, |(_, value)| value)
    }

    /// The collection that the first field names.
    pub fn collection(&self) -> Result<&str> {
        arguments::collection(self.database(), self.first())
    }

    /// The fields of the command, checked.
    pub fn arguments(&self, fields: &[Field]) -> Result<Arguments<'_>> {
        Arguments::of_command(&self.body, fields)
    }

    /// Owner of the cursors that the command opens.
    pub fn owner(&self) -> Owner {
        let user = self.principal.as_ref().map(|principal| principal.key());
        let session = self.session.as_ref().map(|session| session.key.id);
        Owner { user, session, transaction: self.transaction.as_ref().map(TransactionTurn::number) }
    }

    /// Returns the first batch of a source, and keeps the rest for `getMore`. `namespace` is `database.collection`.
    pub async fn open_cursor(
        &self,
        namespace: String,
        mut source: Box<dyn BatchSource>,
        options: CursorOptions,
    ) -> Result<Reply> {
        let mut answer =
            CursorReply { id: 0, namespace, is_first: true, documents: Vec::new(), resume_token: None };
        let mut is_last = false;
        if options.batch_size != Some(0) {
            let wants = Wants {
                documents_max: Some(options.batch_size.unwrap_or(FIRST_BATCH_DOCUMENTS)),
                size_bytes_max: self.batch_bytes_max,
                wait: Duration::ZERO,
                context: self.context.clone(),
                charged: self.charged.clone(),
                end: self.end.clone(),
            };
            let batch = source.next(&wants).await?;
            is_last = batch.is_last;
            answer.documents = batch.documents;
            answer.resume_token = batch.resume_token;
        } else {
            answer.resume_token = source.resume_token();
        }
        if !is_last && !options.is_single_batch {
            answer.id = self.deployment.cursors.open(NewCursor {
                namespace: answer.namespace.clone(),
                owner: self.owner(),
                source,
                is_kept: options.is_kept,
                connection: self.connection.id,
                is_evaluated: self.name != "aggregate" && expressions::is_evaluated(&self.body),
            })?;
        }
        Ok(Reply { fields: Document::new(), cursor: Some(answer) })
    }

    /// Time that is left of the command's.
    pub fn time_left(&self) -> Duration {
        self.context.deadline.saturating_sub(self.deployment.account.router().clock().elapsed())
    }
}
