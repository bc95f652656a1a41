// Copyright (c) 2024-present, fjall-rs
// This source code is licensed under both the Apache 2.0 and MIT License
// (found in the LICENSE-* files in the repository)

use crate::{flush::Task as FlushTask, worker_pool::WorkerMessage, Keyspace};
use lsm_tree::{AnyIngestion, UserKey, UserValue};
use std::sync::Arc;

pub struct Ingestion<'a> {
    keyspace: &'a Keyspace,
    inner: AnyIngestion<'a>,
}

impl<'a> Ingestion<'a> {
    pub fn new(keyspace: &'a Keyspace) -> crate::Result<Self> {
        let inner = keyspace.tree.ingestion()?;
        Ok(Self { keyspace, inner })
    }

    pub fn write<K: Into<UserKey>, V: Into<UserValue>>(
        &mut self,
        key: K,
        value: V,
    ) -> crate::Result<()> {
        self.inner.write(key, value).map_err(Into::into)
    }

    pub fn write_tombstone<K: Into<UserKey>>(&mut self, key: K) -> crate::Result<()> {
        self.inner.write_tombstone(key).map_err(Into::into)
    }

    #[doc(hidden)]
    pub fn write_weak_tombstone<K: Into<UserKey>>(&mut self, key: K) -> crate::Result<()> {
        self.inner.write_weak_tombstone(key).map_err(Into::into)
    }

    pub fn finish(self) -> crate::Result<()> {
        let keyspace = self.keyspace;

        // NOTE: We hold writers to avoid a race condition with concurrent writes:
        //
        // write         ingest
        // lock journal
        // |
        // next seqno=1
        // |
        // --------------seal memtable
        //                 seqno=2
        //                 |
        // -----------------
        // |
        // insert seqno=1
        //
        // They are not held while tables are written, synced and registered.
        let result = self
            .inner
            .finish_beside_writers(|| keyspace.supervisor.journal.get_writer());

        if result.is_ok() {
            keyspace
                .worker_messager
                .try_send(WorkerMessage::Compact(keyspace.clone()))
                .ok();

            keyspace.supervisor.snapshot_tracker.gc();
        } else {
            // A memtable may be sealed that is not sorted, so a worker has to.
            keyspace
                .supervisor
                .flush_manager
                .enqueue(Arc::new(FlushTask {
                    keyspace: keyspace.clone(),
                }));

            keyspace.worker_messager.try_send(WorkerMessage::Flush).ok();
        }

        result
    }
}
