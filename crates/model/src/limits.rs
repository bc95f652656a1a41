//! Every limit of the engine in one place, each with its source; `scaled` shrinks the large ones, for tests.

use std::time::Duration;

use crate::{Error, ErrorKind, LimitScale};

/// Handling of integers in items that neither 64 bits nor a double can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Numbers {
    /// It is refused: a number that is read back is the number that was sent.
    #[default]
    Exact,
    /// It becomes the nearest double, as in the service.
    Rounded,
}

/// engine.md §4.4 unless another source is named.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// UTF-8 JSON size of one item: 2 MB.
    pub item_size_bytes_max: usize,
    /// BSON size of one item of a collection: 16 MiB of the document that its client sent, plus space for the
    /// names that are stored under longer ones (mongo.md §11.1, §11.6).
    pub collection_item_size_bytes_max: usize,
    /// Ours: values of one item that its container's indexing policy covers: distinct ones per path,
    /// and one per object and array. 2 MB of JSON holds at most as many as the default: each is a
    /// character and a separator.
    pub item_index_terms_max: usize,
    /// Ours: values of one item beyond which new generations of an index summarise its large arrays. A commit
    /// then has hardly more rows than one batch of large commits. A vector of 3,072 numbers stays exact.
    pub index_terms_exact_max: usize,
    /// Ours: entries of each index that one transaction of several operations changes.
    pub transaction_index_entries_max: usize,
    /// Nesting levels of an item (wire.md §17).
    pub nesting_max: usize,
    /// Ours: the service rounds.
    pub numbers: Numbers,
    /// Bytes of an item id: 1,023.
    pub item_id_bytes_max: usize,
    /// Database and container names.
    pub resource_id_bytes_max: usize,
    /// Items of one feed page without a number from the client.
    pub page_items_default: usize,
    /// Items of one feed page when the client leaves their number to the server.
    pub page_items_own: usize,
    /// Items of one feed page at most; a page of larger items ends by its bytes.
    pub page_items_max: usize,
    /// Bytes of one response page, and of the items that a batch or bulk request reads.
    pub page_size_bytes_max: usize,
    pub batch_operations_max: usize,
    /// Request body of a transactional batch: 2 MB, plus the envelope around the items.
    pub batch_size_bytes_max: usize,
    pub patch_operations_max: usize,
    /// Ours: writes of one transaction of a script. They become one commit.
    pub transaction_operations_max: usize,
    /// Ours: writes of one transaction of a MongoDB client. Unless the writes are small, the limit in bytes
    /// is reached first.
    pub snapshot_transaction_writes_max: usize,
    /// Ours: bytes of all records that a transaction writes; a record that a later write replaces counts, too.
    pub transaction_size_bytes_max: usize,
    /// Ours: the request units that one run of a script may spend, in hundredths; near the limit, further
    /// calls are refused. Equal to a second's budget of the largest physical partition.
    pub script_charge_centi_max: u64,
    pub partition_key_paths_max: usize,
    /// Total bytes of string components of a version 2 partition key value.
    pub partition_key_bytes_max: usize,
    /// The same for version 1. The reference documents 101, the part that it hashes; its SDKs' tests write
    /// longer ones.
    pub partition_key_bytes_max_v1: usize,
    pub unique_keys_max: usize,
    /// Paths over all unique keys of a container.
    pub unique_key_paths_max: usize,
    pub index_paths_max: usize,
    pub composite_indexes_max: usize,
    pub composite_paths_max: usize,
    pub computed_properties_max: usize,
    pub procedures_max: usize,
    pub functions_max: usize,
    pub triggers_max: usize,
    /// Ours: text of one script. All scripts of a container are kept in memory.
    pub script_body_bytes_max: usize,
    /// Databases plus containers of an account.
    pub resources_max: usize,
    /// Containers without their own throughput in a database that has throughput.
    pub shared_throughput_containers_max: usize,
    /// Ours: the reference names no limit, and the catalog is held in memory.
    pub users_per_database_max: usize,
    pub permissions_per_user_max: usize,
    /// Ours, for the same reason.
    pub logins_max: usize,
    /// Validity of a resource token: 10 minutes to 24 hours, 1 hour unless the client chooses otherwise.
    pub resource_token_seconds_min: u64,
    pub resource_token_seconds_default: u64,
    pub resource_token_seconds_max: u64,
    pub throughput_min: u64,
    pub throughput_max: u64,
    pub autoscale_max_throughput_min: u64,
    /// JSON of all items with one partition key value: 20 GB.
    pub logical_partition_size_bytes_max: u64,
    /// JSON of all items of a physical partition: 50 GB. Beyond it the partition is to be split.
    pub physical_partition_size_bytes_max: u64,
    /// Ours: the size at which an unsplit partition refuses to grow, twice the size at which it should have
    /// been split.
    pub physical_partition_size_bytes_hard_max: u64,
    /// RU/s that no physical partition exceeds, however much its container has: 10,000.
    pub partition_throughput_max: u64,
    /// RU/s of manual throughput one physical partition is created for (wire.md §14: 30,000 RU/s make 5).
    pub throughput_per_partition: u64,
    /// RU/s of autoscale maximum one physical partition is created for.
    pub autoscale_throughput_per_partition: u64,
    /// Ours: parameters of one query, far more than any statement needs.
    pub query_parameters_max: usize,
    /// Time after which a page of a query is cut: 5 s.
    pub query_page_time: Duration,
    /// Ours: how long all versions may be kept: a year.
    pub change_feed_retention_minutes_max: i64,
    /// How long containers without a change feed policy keep versions that have ended: as long as the account
    /// can be restored to a point in time, like the service with continuous backup. `None`: not kept.
    pub versions_kept: Option<Duration>,
    /// Ours: physical partitions of one container on one node.
    pub partitions_per_container_max: usize,
    /// Ours: operations that one bulk (non-atomic) request may carry.
    pub bulk_operations_max: usize,
    /// Ours: the last entries of a change log, which compaction keeps for followers if no versions are kept.
    /// Compaction begins at twice as many.
    pub change_log_entries_kept: u64,
    /// Ours: superseded operations allowed in a change log, plus half the number of items, before it is
    /// compacted.
    pub change_log_operations_in_vain: u64,
}

/// Limits of one query. The account document publishes them, and the parser and the binder enforce them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LanguageLimits {
    /// UTF-16 code units of the text: the service's 512 KB.
    pub text_length_max: usize,
    /// `JOIN`s of one `FROM`: the service's, which plans queries with more of them over several subqueries.
    pub joins_max: usize,
    /// `AND`s of the whole text, subqueries included. The service publishes 500 to 2,000; ours are more,
    /// because clients that read a thousand items at once by id and hierarchical partition key write 3,000.
    pub ands_max: usize,
    /// `OR`s of the whole text: the service publishes 500 to 2,000.
    pub ors_max: usize,
    /// Items of one list after `IN`: the service's published limit.
    pub list_items_max: usize,
    /// Different calls of user-defined functions: the service's.
    pub user_functions_max: usize,
}

impl LanguageLimits {
    pub const PUBLISHED: LanguageLimits = LanguageLimits {
        text_length_max: 512 * 1024,
        joins_max: 10,
        ands_max: 4000,
        ors_max: 2000,
        list_items_max: 16_000,
        user_functions_max: 10,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            item_size_bytes_max: 2 * 1024 * 1024,
            collection_item_size_bytes_max: 16 * 1024 * 1024 + 16 * 1024,
            item_index_terms_max: 1 << 20,
            index_terms_exact_max: 8192,
            transaction_index_entries_max: 100_000,
            nesting_max: 128,
            numbers: Numbers::Exact,
            item_id_bytes_max: 1023,
            resource_id_bytes_max: 255,
            page_items_default: 100,
            page_items_own: 1000,
            page_items_max: 50_000,
            page_size_bytes_max: 4 * 1024 * 1024,
            batch_operations_max: 100,
            batch_size_bytes_max: 2 * 1024 * 1024 + 200 * 1024,
            patch_operations_max: 10,
            transaction_operations_max: 2000,
            snapshot_transaction_writes_max: 100_000,
            transaction_size_bytes_max: 16 * 1024 * 1024,
            script_charge_centi_max: 1_000_000,
            partition_key_paths_max: 3,
            partition_key_bytes_max: 2048,
            partition_key_bytes_max_v1: 2048,
            unique_keys_max: 10,
            unique_key_paths_max: 16,
            index_paths_max: 1500,
            composite_indexes_max: 100,
            composite_paths_max: 8,
            computed_properties_max: 20,
            procedures_max: 100,
            functions_max: 50,
            triggers_max: 25,
            script_body_bytes_max: 512 * 1024,
            resources_max: 10_000,
            shared_throughput_containers_max: 25,
            users_per_database_max: 10_000,
            permissions_per_user_max: 1_000,
            logins_max: 10_000,
            resource_token_seconds_min: 10 * 60,
            resource_token_seconds_default: 60 * 60,
            resource_token_seconds_max: 24 * 60 * 60,
            throughput_min: 400,
            throughput_max: 1_000_000,
            autoscale_max_throughput_min: 1000,
            logical_partition_size_bytes_max: 20 << 30,
            physical_partition_size_bytes_max: 50 << 30,
            physical_partition_size_bytes_hard_max: 100 << 30,
            partition_throughput_max: 10_000,
            throughput_per_partition: 6000,
            autoscale_throughput_per_partition: 10_000,
            query_parameters_max: 10_000,
            query_page_time: Duration::from_secs(5),
            change_feed_retention_minutes_max: 366 * 24 * 60,
            versions_kept: None,
            partitions_per_container_max: 200,
            bulk_operations_max: 1000,
            change_log_entries_kept: 1024,
            change_log_operations_in_vain: 4096,
        }
    }
}

/// The reference's substatus for an answer that is too large; its SDKs then repeat the reads of a bulk
/// request, fewer at a time.
const SUBSTATUS_SIZE_LIMIT: u32 = 3402;

impl Limits {
    /// The error of a read or a patch of a batch or bulk request whose answer has no space for another item.
    pub fn answer_too_large(&self) -> Error {
        let message = format!(
            "the items that one request reads and patches may have {} bytes together: name fewer items in a request, or ask for patches without content",
            self.page_size_bytes_max
        );
        Error::new(ErrorKind::TooLarge, message).with_substatus(SUBSTATUS_SIZE_LIMIT)
    }

    /// Partitions become smaller and slower, and so more of them are made, while everything that a single item, request or
    /// offer needs stays as it is: items of 2 MB, and throughput from 400 in steps of 100.
    pub fn scaled(self, scale: LimitScale) -> Limits {
        Limits {
            logical_partition_size_bytes_max: scale.of(self.logical_partition_size_bytes_max),
            physical_partition_size_bytes_max: scale.of(self.physical_partition_size_bytes_max),
            physical_partition_size_bytes_hard_max: scale.of(self.physical_partition_size_bytes_hard_max),
            partition_throughput_max: scale.of(self.partition_throughput_max),
            throughput_per_partition: scale.of(self.throughput_per_partition),
            autoscale_throughput_per_partition: scale.of(self.autoscale_throughput_per_partition),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_shrinks_partitions_and_nothing_else() {
        let limits = Limits::default();
        assert_eq!(limits.clone().scaled(LimitScale::default()), limits);
        let small = limits.clone().scaled("0.001".parse().expect("a scale"));
        assert_eq!(small.logical_partition_size_bytes_max, (20 << 30) / 1000);
        assert_eq!(small.partition_throughput_max, 10);
        assert_eq!(small.throughput_per_partition, 6);
        let unscaled = Limits {
            logical_partition_size_bytes_max: limits.logical_partition_size_bytes_max,
            physical_partition_size_bytes_max: limits.physical_partition_size_bytes_max,
            physical_partition_size_bytes_hard_max: limits.physical_partition_size_bytes_hard_max,
            partition_throughput_max: limits.partition_throughput_max,
            throughput_per_partition: limits.throughput_per_partition,
            autoscale_throughput_per_partition: limits.autoscale_throughput_per_partition,
            ..small
        };
        assert_eq!(unscaled, limits);
    }
}
