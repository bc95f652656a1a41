//! Sources of a cursor's documents: a reading command hands one to the registry.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use shardlake_account::collections::Ending;
use shardlake_model::RequestContext;
use shardlake_mql::Document;

use crate::errors::Result;

/// Default number of documents in a first batch.
pub const FIRST_BATCH_DOCUMENTS: u64 = 101;

/// Source of documents, batch by batch. Between two calls it holds no snapshot and no lock, only the position
/// that it has reached, so that an idle cursor costs memory and nothing else.
pub trait BatchSource: Send {
    /// The next documents, within the bounds. After an error the position is where it was before, and the call may be made again.
    fn next<'s>(&'s mut self, wants: &'s Wants) -> BoxFuture<'s, Result<Batch>>;

    /// Whether this is a change stream, which waits for future events. It outlives its collection and returns the drop as an event.
    fn is_stream(&self) -> bool {
        false
    }

    /// Whether it waits for documents if a batch would be empty.
    fn waits(&self) -> bool {
        self.is_stream()
    }

    /// Bytes of results that are kept for the next call.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Start of a change stream, for a first batch that is to be empty.
    fn resume_token(&self) -> Option<Document> {
        None
    }
}

/// Limits of a batch.
#[derive(Debug)]
pub struct Wants {
    /// No more documents than this; `None` for no limit besides the bytes. Never zero.
    pub documents_max: Option<u64>,
    /// The batch ends before the document that would go beyond it, but has at least one.
    pub size_bytes_max: usize,
    /// Time for which a stream without new documents waits.
    pub wait: Duration,
    /// Deadline, activity and time of the command.
    pub context: RequestContext,
    /// The command's charge so far, in hundredths of a request unit.
    pub charged: Arc<AtomicU64>,
    /// Whether the command is to end.
    pub end: Arc<dyn Ending>,
}

#[derive(Debug, Default)]
pub struct Batch {
    /// Each is BSON.
    pub documents: Vec<Bytes>,
    /// Nothing follows: the cursor is closed with this batch.
    pub is_last: bool,
    /// Where a change stream can be resumed after this batch.
    pub resume_token: Option<Document>,
}

/// Documents that are in memory already, for commands whose result is a list.
pub struct Listed(std::vec::IntoIter<Bytes>);

impl Listed {
    pub fn new(documents: impl IntoIterator<Item = Document>) -> Listed {
        let bytes: Vec<Bytes> =
            documents.into_iter().map(|document| Bytes::from(document.to_bytes())).collect();
        Listed(bytes.into_iter())
    }
}

impl BatchSource for Listed {
    fn next<'s>(&'s mut self, wants: &'s Wants) -> BoxFuture<'s, Result<Batch>> {
        let mut documents = Vec::new();
        let mut size = 0;
        while let Some(next) = self.0.as_slice().first() {
            let is_full = wants.documents_max.is_some_and(|max| documents.len() as u64 >= max);
            if is_full || (!documents.is_empty() && size + next.len() > wants.size_bytes_max) {
                break;
            }
            size += next.len();
            documents.extend(self.0.next());
        }
        let batch = Batch { documents, is_last: self.0.as_slice().is_empty(), resume_token: None };
        Box::pin(std::future::ready(Ok(batch)))
    }

    fn held_bytes(&self) -> usize {
        self.0.as_slice().iter().map(Bytes::len).sum()
    }
}
