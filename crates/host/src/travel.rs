//! Values that travel between nodes: commands, replies, errors, and the caller of a command.
//!
//! A value travels in a form that has all of it that is not derived. The node that receives the form derives the rest anew,
//! under the container's definition that it has: the terms of a body, the parsed text of a condition.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shardlake_document::{Body, PatchOperation};
use shardlake_model::{
    ConsistencyLevel, Error, ErrorKind, Preconditions, Priority, ReplyMeta, RequestContext, Result,
    SessionToken,
};
use shardlake_mql::write::{ChangeOutcome, DocumentChange};
use shardlake_partition::{
    BatchFailure, BatchReply, CommandContext, CommitOptions, ContainerSchema, InsertionPage, ItemReply,
    LogicalKey, Operation, Outcome, PartitionPage, PartitionWrite, PreparedBody, StatementNote, StoredItem,
    prepare_body,
};
use shardlake_stdx::{Clock, Guid, Timestamp};

/// A value with a form in which it travels.
pub trait Travels: Sized {
    type Form: Serialize + DeserializeOwned + Send + 'static;

    fn form(&self) -> Self::Form;

    fn of_form(form: Self::Form, schema: &Arc<ContainerSchema>) -> Result<Self>;
}

/// Values that are their own form.
macro_rules! travels_as_itself {
    ($($name:ty),* $(,)?) => {$(
        impl $crate::travel::Travels for $name {
            type Form = $name;

            fn form(&self) -> $name {
                self.clone()
            }

            fn of_form(form: $name, _: &std::sync::Arc<shardlake_partition::ContainerSchema>) -> shardlake_model::Result<$name> {
                Ok(form)
            }
        }
    )*};
}
pub(crate) use travels_as_itself;

travels_as_itself!((), bool, u64, Option<u64>, Option<String>, ReplyMeta);

/// The bytes of a form.
pub fn to_bytes(form: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(form)
        .map_err(|error| Error::internal("a command could not be encoded").with_source(error))
}

/// The form in bytes, which may come from anywhere.
pub fn of_bytes<F: DeserializeOwned>(bytes: &[u8]) -> Result<F> {
    match postcard::take_from_bytes(bytes) {
        Ok((form, [])) => Ok(form),
        Ok(_) => Err(Error::bad_request("a command of another node is followed by other bytes")),
        Err(error) => Err(Error::bad_request("a command of another node is malformed").with_source(error)),
    }
}

/// The context of a command as it travels: a request's, without the memory of its answer, which is of its own node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Caller {
    activity_id: Guid,
    now: Timestamp,
    /// Clocks of nodes differ: the owner makes its deadline of it.
    time_left: Duration,
    consistency: ConsistencyLevel,
    session: Option<SessionToken>,
    priority: Priority,
}

impl Caller {
    pub fn of(ctx: &RequestContext, clock: &Clock) -> Caller {
        Caller {
            activity_id: ctx.activity_id,
            now: ctx.now,
            time_left: ctx.deadline.saturating_sub(clock.elapsed()),
            consistency: ctx.consistency,
            session: ctx.session.clone(),
            priority: ctx.priority,
        }
    }

    pub fn context(self, clock: &Clock) -> RequestContext {
        RequestContext {
            activity_id: self.activity_id,
            now: self.now,
            deadline: clock.elapsed().saturating_add(self.time_left),
            consistency: self.consistency,
            session: self.session,
            priority: self.priority,
            answer_space: None,
        }
    }
}

/// An error without its source, which is of the node where it happened.
#[derive(Debug, Serialize, Deserialize)]
pub struct ErrorForm {
    kind: ErrorKind,
    message: String,
    meta: ReplyMeta,
    retry_after_ms: Option<u64>,
    substatus: Option<u32>,
    code: Option<i32>,
    details: Vec<u8>,
    document: Option<Vec<u8>>,
}

impl ErrorForm {
    pub fn of(error: &Error) -> ErrorForm {
        ErrorForm {
            kind: error.kind(),
            message: error.message().to_owned(),
            meta: *error.meta(),
            retry_after_ms: error.retry_after_ms(),
            substatus: error.substatus(),
            code: error.code(),
            details: error.details().to_vec(),
            document: error.document().map(<[u8]>::to_vec),
        }
    }

    pub fn error(self) -> Error {
        let mut error = Error::new(self.kind, self.message).with_meta(self.meta);
        if let Some(milliseconds) = self.retry_after_ms {
            error = error.with_retry_after_ms(milliseconds);
        }
        if let Some(substatus) = self.substatus {
            error = error.with_substatus(substatus);
        }
        if let Some(code) = self.code {
            error = error.with_code(code, self.details);
        }
        match &self.document {
            Some(body) => error.with_document(body),
            None => error,
        }
    }
}

/// A write as it travels: the bodies as they were sent.
#[derive(Debug, Serialize, Deserialize)]
pub struct WriteForm {
    key: LogicalKey,
    operations: Vec<OperationForm>,
    now: Timestamp,
    consistency: ConsistencyLevel,
    etags: Vec<Guid>,
    unwanted: Vec<usize>,
    patience: Duration,
    note: Option<StatementNote>,
}

#[derive(Debug, Serialize, Deserialize)]
enum OperationForm {
    Create {
        body: Vec<u8>,
    },
    Upsert {
        body: Vec<u8>,
        preconditions: Preconditions,
    },
    Replace {
        id: String,
        body: Vec<u8>,
        preconditions: Preconditions,
    },
    Delete {
        id: String,
        preconditions: Preconditions,
    },
    Patch {
        id: String,
        operations: Vec<PatchOperation>,
        condition: Option<String>,
        preconditions: Preconditions,
    },
    Read {
        id: String,
        preconditions: Preconditions,
    },
    Change {
        id: String,
        change: Arc<DocumentChange>,
    },
}

impl Travels for Arc<PartitionWrite> {
    type Form = WriteForm;

    fn form(&self) -> WriteForm {
        let PartitionWrite { key, operations, context } = &**self;
        WriteForm {
            key: key.clone(),
            operations: operations.iter().map(OperationForm::of).collect(),
            now: context.now,
            consistency: context.consistency,
            etags: context.etags.clone(),
            unwanted: context.unwanted.clone(),
            patience: context.patience,
            note: context.commit.note.clone(),
        }
    }

    fn of_form(form: WriteForm, schema: &Arc<ContainerSchema>) -> Result<Arc<PartitionWrite>> {
        if form.operations.len() != form.etags.len() {
            return Err(Error::bad_request(
                "a write of another node has other counts of operations and etags",
            ));
        }
        let operations = form.operations.into_iter().map(|operation| operation.operation(schema));
        let context = CommandContext {
            now: form.now,
            consistency: form.consistency,
            etags: form.etags,
            unwanted: form.unwanted,
            patience: form.patience,
            // It is waited for at the owner.
            commit: CommitOptions { note: form.note, deferred: None },
        };
        Ok(Arc::new(PartitionWrite {
            key: form.key,
            operations: operations.collect::<Result<_>>()?,
            context,
        }))
    }
}

impl OperationForm {
    fn of(operation: &Operation) -> OperationForm {
        let body = |item: &PreparedBody| item.body.as_bytes().to_vec();
        match operation.clone() {
            Operation::Create { item } => OperationForm::Create { body: body(&item) },
            Operation::Upsert { item, preconditions } => {
                OperationForm::Upsert { body: body(&item), preconditions }
            }
            Operation::Replace { id, item, preconditions } => {
                OperationForm::Replace { id, body: body(&item), preconditions }
            }
            Operation::Delete { id, preconditions } => OperationForm::Delete { id, preconditions },
            Operation::Patch { id, operations, condition, preconditions } => {
                let condition = condition.map(|condition| condition.text().to_owned());
                OperationForm::Patch { id, operations, condition, preconditions }
            }
            Operation::Read { id, preconditions } => OperationForm::Read { id, preconditions },
            Operation::Change { id, change } => OperationForm::Change { id, change },
        }
    }

    fn operation(self, schema: &Arc<ContainerSchema>) -> Result<Operation> {
        let item = |body: Vec<u8>| prepare_body(body_of(body)?, schema);
        Ok(match self {
            OperationForm::Create { body } => Operation::Create { item: item(body)? },
            OperationForm::Upsert { body, preconditions } => {
                Operation::Upsert { item: item(body)?, preconditions }
            }
            OperationForm::Replace { id, body, preconditions } => {
                Operation::Replace { id, item: item(body)?, preconditions }
            }
            OperationForm::Delete { id, preconditions } => Operation::Delete { id, preconditions },
            OperationForm::Patch { id, operations, condition, preconditions } => {
                let condition = condition.as_deref().map(shardlake_sql::parse_condition).transpose()?;
                Operation::Patch { id, operations, condition, preconditions }
            }
            OperationForm::Read { id, preconditions } => Operation::Read { id, preconditions },
            OperationForm::Change { id, change } => Operation::Change { id, change },
        })
    }
}

fn body_of(bytes: Vec<u8>) -> Result<Body> {
    Body::from_stored(bytes).map_err(|error| Error::bad_request(error.to_string()))
}

/// A version as it travels: its record.
pub(crate) type ItemForm = Vec<u8>;

pub(crate) fn item_form(item: &StoredItem) -> ItemForm {
    item.record_bytes().to_vec()
}

pub(crate) fn item_of(form: ItemForm, schema: &Arc<ContainerSchema>) -> Result<StoredItem> {
    StoredItem::decode(Bytes::from(form), schema)
}

fn items_of(forms: Vec<ItemForm>, schema: &Arc<ContainerSchema>) -> Result<Vec<StoredItem>> {
    forms.into_iter().map(|form| item_of(form, schema)).collect()
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ReplyForm {
    outcome: Outcome,
    item: Option<ItemForm>,
    etag: Option<Guid>,
    change: Option<Box<ChangeOutcome>>,
    meta: ReplyMeta,
}

impl Travels for ItemReply {
    type Form = ReplyForm;

    fn form(&self) -> ReplyForm {
        let ItemReply { outcome, item, etag, change, meta } = self;
        let item = item.as_ref().map(item_form);
        ReplyForm { outcome: *outcome, item, etag: *etag, change: change.clone(), meta: *meta }
    }

    fn of_form(form: ReplyForm, schema: &Arc<ContainerSchema>) -> Result<ItemReply> {
        let item = form.item.map(|item| item_of(item, schema)).transpose()?;
        let ReplyForm { outcome, etag, change, meta, .. } = form;
        Ok(ItemReply { outcome, item, etag, change, meta })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct BatchForm {
    outcome: Result<Vec<ReplyForm>, FailureForm>,
    meta: ReplyMeta,
}

#[derive(Debug, Serialize, Deserialize)]
struct FailureForm {
    index: usize,
    error: ErrorForm,
    done_centi: Vec<u64>,
}

impl Travels for BatchReply {
    type Form = BatchForm;

    fn form(&self) -> BatchForm {
        let outcome = match &self.outcome {
            Ok(replies) => Ok(replies.iter().map(Travels::form).collect()),
            Err(failure) => Err(FailureForm {
                index: failure.index,
                error: ErrorForm::of(&failure.error),
                done_centi: failure.done_centi.clone(),
            }),
        };
        BatchForm { outcome, meta: self.meta }
    }

    fn of_form(form: BatchForm, schema: &Arc<ContainerSchema>) -> Result<BatchReply> {
        let outcome = match form.outcome {
            Ok(replies) => {
                let replies = replies.into_iter().map(|reply| ItemReply::of_form(reply, schema));
                Ok(replies.collect::<Result<_>>()?)
            }
            Err(FailureForm { index, error, done_centi }) => {
                let mut failure = BatchFailure::of(index, error.error())?;
                failure.done_centi = done_centi;
                Err(failure)
            }
        };
        Ok(BatchReply { outcome, meta: form.meta })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct PageForm {
    items: Vec<ItemForm>,
    next: Option<Vec<u8>>,
    size_bytes: usize,
}

impl Travels for PartitionPage {
    type Form = PageForm;

    fn form(&self) -> PageForm {
        let PartitionPage { items, next, size_bytes } = self;
        let items = items.iter().map(item_form).collect();
        PageForm { items, next: next.clone(), size_bytes: *size_bytes }
    }

    fn of_form(form: PageForm, schema: &Arc<ContainerSchema>) -> Result<PartitionPage> {
        let PageForm { items, next, size_bytes } = form;
        Ok(PartitionPage { items: items_of(items, schema)?, next, size_bytes })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct InsertionForm {
    items: Vec<ItemForm>,
    last: Option<u64>,
    is_last: bool,
    has_position: bool,
    lsn: u64,
    size_bytes: usize,
}

impl Travels for InsertionPage {
    type Form = InsertionForm;

    fn form(&self) -> InsertionForm {
        let InsertionPage { items, last, is_last, has_position, lsn, size_bytes } = self;
        InsertionForm {
            items: items.iter().map(item_form).collect(),
            last: *last,
            is_last: *is_last,
            has_position: *has_position,
            lsn: *lsn,
            size_bytes: *size_bytes,
        }
    }

    fn of_form(form: InsertionForm, schema: &Arc<ContainerSchema>) -> Result<InsertionPage> {
        let InsertionForm { items, last, is_last, has_position, lsn, size_bytes } = form;
        let items = items_of(items, schema)?;
        Ok(InsertionPage { items, last, is_last, has_position, lsn, size_bytes })
    }
}
