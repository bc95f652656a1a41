//! Archiving the log of a shard, for restores to a point in time: see `wal_archive/`.

use shardlake_stdx::Activity;

use crate::wal_archive::{History, HistoryOptions};
use crate::{Batch, Shard, Stamp, StorageError, View};

impl Stamp {
    /// The stamp of the last group that a view shows; `None` where the log of the shard is not kept.
    pub async fn of(view: &View, key: &[u8]) -> Result<Option<Stamp>, StorageError> {
        view.get(key).await?.map(|found| Stamp::decode(&found)).transpose()
    }
}

impl Shard {
    /// Archives the log from now on, and keeps the log that is archived already. Called before the
    /// first commit, once.
    ///
    /// # Errors
    /// Where the engine has no log to keep.
    pub async fn keep_history(&self, options: &HistoryOptions) -> Result<(), StorageError> {
        let window = options.window;
        let links = Activity::begin("links the journals of the archived log");
        self.work(move |engine| engine.keep_log(Some(window))).await?;
        drop(links);
        let last = Stamp::of(&self.view(), &options.key).await?;
        let kept = self.shared().history.set(History::after(last, options));
        kept.map_err(|_| StorageError::io("the log of the shard is kept already"))?;
        if last.is_none() {
            let _writes = Activity::begin("writes the first stamp of the archived log");
            // So that the next backup records its place in the log, though no write comes before
            // it.
            self.commit(Batch::new())?.await?;
        }
        Ok(())
    }

    /// Archives no log, and deletes the archived log. Called before the first commit.
    pub async fn forget_history(&self, key: &[u8]) -> Result<(), StorageError> {
        let _forgets = Activity::begin("deletes the archived log");
        self.work(|engine| engine.keep_log(None)).await?;
        if self.view().get(key).await?.is_some() {
            // A later log must not look like the continuation of an earlier one.
            let mut batch = Batch::new();
            batch.delete(key.to_vec());
            self.commit(batch)?.await?;
        }
        Ok(())
    }
}
