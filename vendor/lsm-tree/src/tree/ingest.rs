// Copyright (c) 2024-present, fjall-rs
// This source code is licensed under both the Apache 2.0 and MIT License
// (found in the LICENSE-* files in the repository)

use super::Tree;
use crate::{
    config::FilterPolicyEntry, table::multi_writer::MultiWriter, AbstractTree, BlobFile,
    BlobIndirection, Checksum, SeqNo, Table, TableId, UserKey, UserValue,
};

/// Bulk ingestion
///
/// Items NEED to be added in ascending key order.
///
/// Ingested data bypasses memtables and is written directly into new tables,
/// using the same table writer configuration that is used for flush and compaction.
pub struct Ingestion<'a> {
    tree: &'a Tree,
    pub(crate) writer: MultiWriter,
    seqno: SeqNo,
}

impl<'a> Ingestion<'a> {
    /// Creates a new ingestion.
    ///
    /// # Errors
    ///
    /// Will return `Err` if an IO error occurs.
    pub fn new(tree: &'a Tree) -> crate::Result<Self> {
        let folder = tree.config.path.join(crate::file::TABLES_FOLDER);
        log::debug!("Ingesting into tables in {}", folder.display());

        // The tables are to lie in the last level: see `Version::level_for_ingested`.
        let canonical_level = tree.current_version().canonical_last_level();

        let index_partitioning = tree
            .config
            .index_block_partitioning_policy
            .get(canonical_level);

        let filter_partitioning = tree
            .config
            .filter_block_partitioning_policy
            .get(canonical_level);

        // TODO: maybe create a PrepareMultiWriter that can be used by flush, ingest and compaction worker
        let mut writer =
            MultiWriter::new(folder, tree.table_id_counter.clone(), 64 * 1_024 * 1_024, 6)?
                .use_key_kinds(tree.config.key_kinds)
                .use_bloom_policy({
                    if tree.config.expect_point_read_hits {
                        crate::config::BloomConstructionPolicy::BitsPerKey(0.0)
                    } else if let FilterPolicyEntry::Bloom(p) =
                        tree.config.filter_policy.get(canonical_level)
                    {
                        p
                    } else {
                        crate::config::BloomConstructionPolicy::BitsPerKey(0.0)
                    }
                })
                .use_data_block_size(
                    tree.config
                        .data_block_size_policy
                        .get(canonical_level),
                )
                .use_data_block_hash_ratio(
                    tree.config
                        .data_block_hash_ratio_policy
                        .get(canonical_level),
                )
                .use_data_block_compression(
                    tree.config
                        .data_block_compression_policy
                        .get(canonical_level),
                )
                .use_index_block_compression(
                    tree.config
                        .index_block_compression_policy
                        .get(canonical_level),
                )
                .use_data_block_restart_interval(
                    tree.config
                        .data_block_restart_interval_policy
                        .get(canonical_level),
                )
                .use_index_block_restart_interval(
                    tree.config
                        .index_block_restart_interval_policy
                        .get(canonical_level),
                );

        if index_partitioning {
            writer = writer.use_partitioned_index();
        }
        if filter_partitioning {
            writer = writer.use_partitioned_filter();
        }

        Ok(Self {
            tree,
            writer,
            seqno: 0,
        })
    }

    fn assert_follows(&self, key: &UserKey) {
        assert!(
            self.writer.last_key() < Some(key),
            "next key in ingestion must be greater than last key"
        );
    }

    /// Writes a key-value pair.
    ///
    /// # Errors
    ///
    /// Will return `Err` if an IO error occurs.
    pub(crate) fn write_indirection(
        &mut self,
        key: UserKey,
        indirection: BlobIndirection,
    ) -> crate::Result<()> {
        use crate::coding::Encode;

        self.assert_follows(&key);

        self.writer.write(crate::InternalValue::from_components(
            key,
            indirection.encode_into_vec(),
            self.seqno,
            crate::ValueType::Indirection,
        ))?;

        self.writer.register_blob(indirection);

        Ok(())
    }

    /// Writes a key-value pair.
    ///
    /// # Errors
    ///
    /// Will return `Err` if an IO error occurs.
    pub fn write(&mut self, key: UserKey, value: UserValue) -> crate::Result<()> {
        self.assert_follows(&key);

        self.writer.write(crate::InternalValue::from_components(
            key,
            value,
            self.seqno,
            crate::ValueType::Value,
        ))?;

        Ok(())
    }

    /// Writes a tombstone for a key.
    ///
    /// # Errors
    ///
    /// Will return `Err` if an IO error occurs.
    pub fn write_tombstone(&mut self, key: UserKey) -> crate::Result<()> {
        self.assert_follows(&key);

        self.writer.write(crate::InternalValue::from_components(
            key,
            crate::UserValue::empty(),
            self.seqno,
            crate::ValueType::Tombstone,
        ))?;

        Ok(())
    }

    /// Writes a weak tombstone for a key.
    ///
    /// # Errors
    ///
    /// Will return `Err` if an IO error occurs.
    pub fn write_weak_tombstone(&mut self, key: UserKey) -> crate::Result<()> {
        self.assert_follows(&key);

        self.writer.write(crate::InternalValue::from_components(
            key,
            crate::UserValue::empty(),
            self.seqno,
            crate::ValueType::WeakTombstone,
        ))?;

        Ok(())
    }

    /// Finishes the ingestion.
    ///
    /// Nobody may write to the tree meanwhile, see [`Ingestion::finish_beside_writers`].
    ///
    /// # Errors
    ///
    /// Will return `Err` if an IO error occurs.
    pub fn finish(self) -> crate::Result<()> {
        self.finish_beside_writers(|| Ok::<_, crate::Error>(()))
    }

    /// Finishes the ingestion while others write.
    ///
    /// `hold_writers` gives what keeps everybody from writing until it is dropped. It is called
    /// twice, and each time dropped again before anything waits for a disk.
    ///
    /// # Errors
    ///
    /// Will return `Err` if an IO error occurs, or if writers cannot be held.
    pub fn finish_beside_writers<G, E: From<crate::Error>>(
        self,
        hold_writers: impl Fn() -> Result<G, E>,
    ) -> Result<(), E> {
        if self.writer.last_key().is_none() {
            log::trace!("No data written to Ingestion, returning early");
            return Ok(());
        }

        // Finalize the ingestion writer, writing all buffered data to disk.
        let results = self.writer.finish()?;

        log::info!("Finished ingestion writer");

        register_ingested(self.tree, results, None, hold_writers)
    }
}

/// Registers what an ingestion has written, beside writers.
///
/// ```text
/// writers    … 7 8 │  held: seal the memtable, take sequence number 9  │ 10 11 … 17 │ held: publish │
/// this                                                                   sort the memtables that were
///                                                                        sealed; list the tables: 18
/// ```
///
/// The tables get the number that was taken while writers were held (9), so:
///
/// 1. What was written before (8) is below them, and what is written afterwards (10) above: in the
///    order of lookups, because the sealed memtables are sorted into tables first, and memtables that
///    are sealed later are not sorted before these tables are listed (flush lock).
/// 2. A tree's tables up to a sequence number never lack a write up to it. Recovery skips all
///    entries of the journal up to the highest sequence number of the tables; a journal is deleted by it.
/// 3. No write spreads over two memtables, because writers are held while one is sealed.
///
/// Snapshots that are open see none of it: the list of tables gets a number of its own (18), which is
/// above all of them. Those that are opened once it is published see all of it. It is published while
/// writers are held, so that no snapshot begins in the middle of a write.
pub(crate) fn register_ingested<G, E: From<crate::Error>>(
    tree: &Tree,
    results: Vec<(TableId, Checksum)>,
    blob_files: Option<&[BlobFile]>,
    hold_writers: impl Fn() -> Result<G, E>,
) -> Result<(), E> {
    // Before writers are held: somebody may be sorting.
    let flush_lock = tree.get_flush_lock();

    let (sealed, global_seqno) = {
        let _held = hold_writers()?;

        tree.rotate_memtable();

        let sealed = tree
            .get_version_history_lock()
            .latest_version()
            .sealed_memtables;

        (sealed, tree.config.seqno.next())
    };

    tree.flush_memtables(&flush_lock, &sealed, 0)?;
    drop(sealed);

    // We intentionally do NOT pin filter/index blocks here. Large ingests
    // are typically placed in the last level, and pinning would increase memory
    // pressure unnecessarily.
    let tables = results
        .into_iter()
        .map(|(table_id, checksum)| -> crate::Result<Table> {
            Table::recover(
                tree.config
                    .path
                    .join(crate::file::TABLES_FOLDER)
                    .join(table_id.to_string()),
                checksum,
                global_seqno,
                tree.id,
                tree.config.cache.clone(),
                tree.config.descriptor_table.clone(),
                false,
                false,
                #[cfg(feature = "metrics")]
                tree.metrics.clone(),
            )
        })
        .collect::<crate::Result<Vec<_>>>()?;

    let shown_from = {
        let changes = tree.lock_table_list();
        let list = tree.table_list(&changes);
        let version = list.latest().version;
        let level = version.level_for_ingested(&tables, changes.hidden_set());
        let next = version.with_new_run(level, &tables, blob_files, None);

        list.replace(&tree.config.path, next, |_| {}, &tree.config.seqno)?
    };

    drop(flush_lock);

    let _held = hold_writers()?;
    tree.config.visible_seqno.fetch_max(shown_from + 1);

    Ok(())
}
