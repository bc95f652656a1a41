//! Writes of a command of many statements, which waits for the disk once for many of them.
//!
//! Readers see acknowledged documents alone. A later statement of the command has to see the work of the earlier ones, so their
//! documents are kept here until the command has waited: a scan for a statement leaves out the stored form of these documents and has
//! them behind all others. Each document is matched again when it is changed, on the version that the write is planned on, so that a
//! document which others have changed meanwhile is not written over.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardlake_model::{ContainerRid, PartitionKey};
use shardlake_mql::{Document, Env, Filter};
use shardlake_partition::Deferred;

use crate::failure::Result;

/// Documents kept before the command waits. Each statement that names no document by its identity looks at all of them.
const DOCUMENTS_MAX: usize = 256;
const BYTES_MAX: usize = 4 << 20;

#[derive(Default)]
pub(crate) struct OwnWrites {
    pub deferred: Arc<Deferred>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    documents: HashMap<ContainerRid, HashMap<String, Vec<OwnDocument>>>,
    count: usize,
    size_bytes: usize,
}

struct OwnDocument {
    key: PartitionKey,
    /// `None` where it is deleted.
    document: Option<Document>,
}

impl fmt::Debug for OwnWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} own writes", self.kept().count)
    }
}

impl OwnWrites {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A document was written: `None` where it was deleted.
    pub fn note(
        &self,
        container: ContainerRid,
        (key, id): (PartitionKey, String),
        document: Option<Document>,
    ) {
        let mut kept = self.kept();
        kept.count += 1;
        kept.size_bytes += id.len() + document.as_ref().map_or(0, Document::size);
        let own = kept.documents.entry(container).or_default().entry(id).or_default();
        match own.iter_mut().find(|own| own.key.same(&key)) {
            Some(own) => own.document = document,
            None => own.push(OwnDocument { key, document }),
        }
    }

    /// Whether the command should wait before it continues.
    pub fn is_full(&self) -> bool {
        let kept = self.kept();
        kept.count >= DOCUMENTS_MAX || kept.size_bytes >= BYTES_MAX
    }

    /// Waits until everything that was written and met is durable.
    pub async fn settle(&self) -> shardlake_model::Result<()> {
        self.deferred.wait().await?;
        *self.kept() = Kept::default();
        Ok(())
    }

    /// Whether a document was written, so that its stored form is not the last one.
    pub fn has(&self, container: ContainerRid, (key, id): (&PartitionKey, &str)) -> bool {
        let kept = self.kept();
        let own = kept.documents.get(&container).and_then(|documents| documents.get(id));
        own.is_some_and(|own| own.iter().any(|own| own.key.same(key)))
    }

    /// Whether anything of a collection was written.
    pub fn is_about(&self, container: ContainerRid) -> bool {
        self.kept().documents.contains_key(&container)
    }

    /// The written documents that a filter matches.
    pub fn matching(&self, container: ContainerRid, filter: &Filter, env: &mut Env) -> Result<Vec<Document>> {
        let kept = self.kept();
        let own = kept.documents.get(&container).into_iter().flat_map(HashMap::values).flatten();
        let mut matching = Vec::new();
        for document in own.filter_map(|own| own.document.as_ref()) {
            if filter.matches(document, env)? {
                matching.push(document.clone());
            }
        }
        Ok(matching)
    }
}
