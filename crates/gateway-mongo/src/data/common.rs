//! Helpers shared by the commands on documents.

use std::sync::Arc;

use bytes::Bytes;
use shardlake_account::collections::{Collections, Failure, Namespace, Request, refuses_command};
use shardlake_mql::{Collation, Document, SortPattern, Value};
use shardlake_stdx::Clock;

use crate::arguments::Arguments;
use crate::call::Call;
use crate::errors::{CommandError, RETRYABLE_WRITE, Result, code, ends_transaction, fail};

impl From<Failure> for CommandError {
    fn from(failure: Failure) -> CommandError {
        let Failure { code, message, details, is_retryable, .. } = failure;
        let mut told = CommandError::new(code, message);
        for (name, value) in details.iter() {
            told = told.with_field(name, value.clone());
        }
        if is_retryable { told.with_label(RETRYABLE_WRITE) } else { told }
    }
}

impl Call {
    pub(super) fn collections(&self) -> &Collections {
        self.collections.as_ref().unwrap_or_else(|| self.deployment.account.collections())
    }

    /// Returns the error of a statement if it fails the whole command.
    pub(super) fn check_goes_on(&self, error: &CommandError) -> Result<()> {
        let code = error.code();
        match refuses_command(code) || self.transaction.is_some() && ends_transaction(code) {
            true => Err(error.clone()),
            false => Ok(()),
        }
    }

    /// Request under which the engine works for this command.
    pub(super) fn request(&self) -> Arc<Request> {
        let request =
            Request::charged_to(self.context.clone(), self.seed(), self.charged.clone(), self.clock());
        // Commands that do not take the option refuse it.
        let keeps = self.body.get("bypassEmptyTsReplacement").is_some_and(Value::is_true);
        let skips = self.body.get("bypassDocumentValidation").is_some_and(Value::is_true);
        let request = request.keeping_empty_timestamps(keeps).skipping_validators(skips);
        let request = request.logging_creations(self.connection.clone());
        Arc::new(request.ending_with(self.end.clone()))
    }

    /// Clock of the deadlines.
    pub(super) fn clock(&self) -> Clock {
        self.deployment.account.router().clock().clone()
    }

    /// Whether the client has a read-only key.
    pub(super) fn is_read_only(&self) -> bool {
        self.principal.as_ref().is_some_and(|principal| principal.is_read_only())
    }

    /// The namespace of the command's first field.
    pub(super) fn namespace(&self) -> Result<Namespace> {
        Ok(Namespace::new(self.generic.database.clone(), self.collection()?))
    }

    /// The namespace for a write. Names that belong to the server are refused.
    pub(super) fn written_namespace(&self) -> Result<Namespace> {
        let namespace = self.namespace()?;
        check_written(&namespace)?;
        Ok(namespace)
    }
}

/// Maximum length of a container's id. Characters that an id may not have are escaped, which makes the id longer than the name.
const CONTAINER_ID_BYTES_MAX: usize = 255;

/// Checks that a client may write to a collection of this name.
pub fn check_written(namespace: &Namespace) -> Result<()> {
    let name = &namespace.collection;
    if name.contains('$') {
        fail!(code::INVALID_NAMESPACE, "Invalid collection name: '{name}'");
    }
    if name.starts_with("system.") {
        fail!(code::INVALID_NAMESPACE, "cannot write to {namespace}");
    }
    if matches!(&*namespace.database, "config" | "local") {
        fail!(code::UNAUTHORIZED, "the database '{}' is read only", namespace.database);
    }
    Ok(())
}

/// Checks that a collection of this name may be created.
pub fn check_created(namespace: &Namespace) -> Result<()> {
    check_written(namespace)?;
    let id = namespace.container_id();
    if id.len() > CONTAINER_ID_BYTES_MAX {
        fail!(
            code::INVALID_NAMESPACE,
            "Invalid collection name: '{}' is a container '{id}' of {} bytes, at most {CONTAINER_ID_BYTES_MAX}",
            namespace.collection,
            id.len()
        );
    }
    Ok(())
}

/// A document field, or an empty one.
pub fn document(arguments: &Arguments<'_>, name: &str) -> Document {
    arguments.document(name).map(|found| Document::clone(found)).unwrap_or_default()
}

/// The sort order of a command. The order of storage needs no sort, unless it is to be reversed.
pub fn sort(pattern: &Document, collation: &Collation) -> Result<SortPattern> {
    if pattern.has("$natural") {
        if pattern.len() > 1 {
            fail!(code::BAD_VALUE, "Cannot include '$natural' in compound sort");
        }
        return Ok(if is_from_end(pattern) { SortPattern::from_end() } else { SortPattern::default() });
    }
    Ok(SortPattern::parse(pattern, collation)?)
}

/// Whether a sort or a hint asks for the reverse order of storage.
pub fn is_from_end(pattern: &Document) -> bool {
    pattern.get("$natural").and_then(Value::to_f64).is_some_and(|direction| direction < 0.0)
}

/// A document as a cursor keeps it.
pub fn bytes_of(value: &Value) -> Bytes {
    value.as_document().map(|document| Bytes::from(document.to_bytes())).unwrap_or_default()
}
