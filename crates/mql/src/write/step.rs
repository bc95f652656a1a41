//! Filter and action of a statement.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardlake_document::Body;
use shardlake_model::{Derived, Source};

use super::stored::body_of;
use crate::error::{Error, Result};
use crate::expression::Scope;
use crate::filter::{Filter, encodable_filter, received_filter};
use crate::update::Update;
use crate::value::{Document, Value};

/// A filter, and an action on a document that matches it. Parsed once, also where the statement changes many documents.
pub type DocumentStep = Derived<StepSource, Step>;

/// Filter and action as the client sent them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "EncodedStep", from = "EncodedStep")]
pub struct StepSource {
    pub filter: Document,
    pub action: ActionSource,
    /// Names of the variables in both, and the collation of the filter. The values are in the environment.
    pub scope: Scope,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ActionSource {
    /// Operators, a replacement or a pipeline.
    Update {
        update: Value,
        array_filters: Vec<Value>,
    },
    Remove,
    /// Stored if no document has the identity.
    Insert(Arc<Document>),
    /// Written unchanged.
    Rewrite,
}

/// A parsed step.
#[derive(Debug)]
pub struct Step {
    pub filter: Filter,
    pub action: Action,
}

#[derive(Debug)]
pub enum Action {
    Update(Update),
    Remove,
    Insert(Body),
    Rewrite,
}

/// A step in bytes.
#[derive(Serialize, Deserialize)]
struct EncodedStep {
    filter: Document,
    action: ActionSource,
    scope: Scope,
}

impl From<StepSource> for EncodedStep {
    fn from(StepSource { filter, action, scope }: StepSource) -> EncodedStep {
        EncodedStep { filter: encodable_filter(&filter), action, scope }
    }
}

impl From<EncodedStep> for StepSource {
    fn from(EncodedStep { filter, action, scope }: EncodedStep) -> StepSource {
        StepSource { filter: received_filter(&filter), action, scope }
    }
}

impl StepSource {
    /// A step on every document.
    pub fn of_any(action: ActionSource) -> StepSource {
        StepSource { filter: Document::new(), action, scope: Scope::new() }
    }
}

impl Source<Step> for StepSource {
    type Error = Error;

    fn remake(&self) -> Result<Step> {
        let filter = Filter::parse_ordering(&self.filter, &self.scope)?;
        let action = match &self.action {
            ActionSource::Update { update, array_filters } => {
                Action::Update(Update::parse(update, array_filters, &self.scope)?)
            }
            ActionSource::Remove => Action::Remove,
            ActionSource::Insert(document) => Action::Insert(body_of(document)?.0),
            ActionSource::Rewrite => Action::Rewrite,
        };
        Ok(Step { filter, action })
    }
}
