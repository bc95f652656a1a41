//! Items that a page of the change log records as written.

use std::collections::BTreeMap;

use shardlake_partition::{ChangeKind, ChangePage};

/// Keys of the items that a page records as written, each once, with their LSNs and in the order of
/// these. Deletions leave nothing to copy.
pub fn written(page: &ChangePage) -> Vec<(Vec<u8>, u64)> {
    let mut last: BTreeMap<&[u8], (u64, ChangeKind)> = BTreeMap::new();
    for (lsn, entry) in &page.entries {
        let versions = entry.operations.iter().map(|operation| (&operation.key[..], (*lsn, operation.kind)));
        last.extend(versions);
    }
    let is_written = |kind: ChangeKind| matches!(kind, ChangeKind::Create | ChangeKind::Replace);
    let written = last.into_iter().filter(|(_, (_, kind))| is_written(*kind));
    let mut keys: Vec<(Vec<u8>, u64)> = written.map(|(key, (lsn, _))| (key.to_vec(), lsn)).collect();
    keys.sort_by_key(|(_, lsn)| *lsn);
    keys
}

#[cfg(test)]
mod tests {
    use shardlake_partition::{Counters, LogEntry, LogOperation};

    use super::*;

    #[test]
    fn the_last_change_of_an_item_decides_whether_it_is_there() {
        let entry = |operations: &[(ChangeKind, &[u8])]| LogEntry {
            timestamp_ms: 0,
            counters: Counters::default(),
            operations: operations
                .iter()
                .map(|(kind, key)| LogOperation {
                    kind: *kind,
                    ordinal: 0,
                    previous_lsn: 0,
                    key: key.to_vec(),
                })
                .collect(),
        };
        use ChangeKind::{Create, Delete, Expire, Replace};
        let page = ChangePage {
            entries: vec![
                (1, entry(&[(Create, b"a"), (Create, b"b"), (Create, b"c")])),
                (2, entry(&[(Delete, b"b"), (Replace, b"a")])),
                (3, entry(&[(Expire, b"d"), (Delete, b"c"), (Create, b"c")])),
            ],
            last_lsn: 3,
            is_last: true,
        };
        assert_eq!(written(&page), [(b"a".to_vec(), 2), (b"c".to_vec(), 3)]);
    }
}
