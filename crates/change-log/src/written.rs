//! Items that changes of the log record as written.

use std::collections::BTreeMap;

use bytes::Bytes;
use shardlake_partition::{ChangeKind, LogChange};

/// Keys of the items that the changes record as written, each once, with their LSNs and in the order of
/// these. For followers of last versions: deletions leave nothing to copy.
pub fn written(changes: &[LogChange]) -> Vec<(Bytes, u64)> {
    let last: BTreeMap<&Bytes, &LogChange> = changes.iter().map(|change| (&change.key, change)).collect();
    let is_written = |change: &&LogChange| matches!(change.kind, ChangeKind::Create | ChangeKind::Replace);
    let written = last.into_values().filter(is_written);
    let mut keys: Vec<(Bytes, u64)> = written.map(|change| (change.key.clone(), change.lsn)).collect();
    keys.sort_by_key(|(_, lsn)| *lsn);
    keys
}

#[cfg(test)]
mod tests {
    use shardlake_partition::Image;
    use shardlake_stdx::Timestamp;

    use super::*;

    #[test]
    fn the_last_change_of_an_item_decides_whether_it_is_there() {
        use ChangeKind::{Create, Delete, Expire, Replace};
        let change = |(lsn, kind, key): (u64, ChangeKind, &'static str)| LogChange {
            lsn,
            time: Timestamp(0),
            kind,
            ordinal: 0,
            previous_lsn: 0,
            ended_ordinal: None,
            ended: Vec::new(),
            origin: 0,
            key: Bytes::from_static(key.as_bytes()),
            new: Image::NotAsked,
            old: Image::NotAsked,
        };
        let changes = [
            (1, Create, "a"),
            (1, Create, "b"),
            (1, Create, "c"),
            (2, Delete, "b"),
            (2, Replace, "a"),
            (3, Expire, "d"),
            (3, Delete, "c"),
            (3, Create, "c"),
        ];
        let changes: Vec<LogChange> = changes.into_iter().map(change).collect();
        assert_eq!(written(&changes), [(Bytes::from("a"), 2), (Bytes::from("c"), 3)]);
    }
}
