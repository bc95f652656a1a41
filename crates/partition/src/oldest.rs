//! The oldest items of a logical partition with bounds, at hand for the plans that remove them.
//!
//! A plan waits for nothing, so it cannot look for the oldest items by itself. The sequencer keeps their ordinals, which are the
//! order of creation, from the first plan on that asks for them:
//!
//! ```text
//! known  ascending, read from the engine   gap  not read yet   newer  ascending, created since
//! ```
//!
//! Every item of the logical partition is in `known`, in `newer`, or has an ordinal in the gap. A plan that has used up `known`
//! while there is a gap stops; its caller reads the beginning of the gap ([`Partition::find_oldest`]) and plans anew. Both lists
//! are bounded: a small logical partition is in memory as a whole, of a large one a part is read now and then.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use shardlake_model::Result;
use shardlake_storage::ScanOptions;

use crate::keys;
use crate::partition::Partition;

/// Items of each list.
const LIST_MAX: usize = 1024;

/// An item by its place in the order of creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    pub ordinal: u64,
    /// With its header.
    pub key: Bytes,
}

#[derive(Debug)]
pub(crate) struct Oldest {
    /// Of the logical partition.
    prefix: Vec<u8>,
    known: VecDeque<Placed>,
    gap: Range<u64>,
    newer: VecDeque<Placed>,
}

impl Oldest {
    /// Nothing is known of items with ordinals below this one.
    fn new(prefix: Vec<u8>, next_ordinal: u64) -> Oldest {
        Oldest { prefix, known: VecDeque::new(), gap: 0..next_ordinal, newer: VecDeque::new() }
    }

    pub fn is_of(&self, prefix: &[u8]) -> bool {
        self.prefix == prefix
    }

    /// The oldest items, up to the gap, and whether there is one.
    pub fn items(&self) -> (impl Iterator<Item = &Placed>, bool) {
        let has_gap = !self.gap.is_empty();
        let newer = self.newer.iter().filter(move |_| !has_gap);
        (self.known.iter().chain(newer), has_gap)
    }

    /// What a commit has written is so from now on.
    pub fn note(&mut self, writes: &[(Bytes, Option<Bytes>)], next_ordinal: u64) {
        for (key, value) in writes.iter().filter(|(key, _)| keys::is_ordinal(key)) {
            let Some(ordinal) = keys::ordinal_of(key) else { continue };
            match value {
                Some(item) => {
                    let key = Bytes::from(keys::with_header(keys::uid_of(key), keys::ITEMS, item));
                    let is_new = self.newer.back().is_none_or(|last| last.ordinal < ordinal);
                    if is_new && ordinal >= self.gap.end && key.starts_with(&self.prefix) {
                        self.newer.push_back(Placed { ordinal, key });
                    }
                }
                None => [&mut self.known, &mut self.newer].into_iter().for_each(|list| remove(list, ordinal)),
            }
        }
        if self.newer.len() > LIST_MAX {
            if self.gap.is_empty() {
                self.gap.start = self.newer.front().map_or(next_ordinal, |first| first.ordinal);
            }
            self.newer.clear();
            self.gap.end = next_ordinal;
        }
    }
}

fn remove(list: &mut VecDeque<Placed>, ordinal: u64) {
    if let Ok(place) = list.binary_search_by_key(&ordinal, |placed| placed.ordinal) {
        list.remove(place);
    }
}

impl Partition {
    /// Reads the beginning of the gap between the oldest items of a logical partition that are known and those that are new.
    pub(crate) async fn find_oldest(&self, prefix: &[u8]) -> Result<()> {
        let (gap, last, kept) = {
            let mut sequencer = self.sequencer.hold().await;
            self.check_open()?;
            let next_ordinal = self.next_ordinal(&sequencer);
            if sequencer.oldest.as_ref().is_none_or(|oldest| !oldest.is_of(prefix)) {
                sequencer.oldest = Some(Box::new(Oldest::new(prefix.to_vec(), next_ordinal)));
            }
            let gap = sequencer.oldest.as_ref().map(|oldest| oldest.gap.clone()).unwrap_or_default();
            let kept = sequencer.pending.keep_behind(self.shard().applied());
            (gap, self.last_queued(&sequencer), kept)
        };
        // Then the engine shows every item of the gap.
        self.wait_for(last).await?;
        let (start, end) = (keys::ordinal_key(self.uid, gap.start), keys::ordinal_key(self.uid, gap.end));
        let (mut found, mut read_to) = (Vec::new(), gap.end);
        let mut scan = self.shard().snapshot().scan(start..end, ScanOptions::default());
        'read: while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
            for (key, item) in rows {
                let ordinal = keys::ordinal_of(&key).ok_or_else(crate::malformed_key)?;
                if found.len() == LIST_MAX {
                    read_to = ordinal;
                    break 'read;
                }
                let key = Bytes::from(keys::with_header(self.uid, keys::ITEMS, &item));
                if key.starts_with(prefix) {
                    found.push(Placed { ordinal, key });
                }
            }
        }
        drop(scan);
        let mut sequencer = self.sequencer.hold().await;
        // Items that were removed meanwhile: the overlay has kept every commit that the scan may not show.
        found.retain(|placed| {
            sequencer.pending.get(&keys::ordinal_key(self.uid, placed.ordinal)) != Some(None)
        });
        drop(kept);
        if let Some(oldest) = sequencer.oldest.as_mut().filter(|oldest| oldest.is_of(prefix))
            && oldest.gap.start == gap.start
            && oldest.gap.end >= read_to
        {
            oldest.known.extend(found);
            oldest.gap.start = read_to;
        }
        Ok(())
    }

    /// The ordinal that the next new item gets.
    pub(crate) fn next_ordinal(&self, sequencer: &crate::sequencer::Sequencer) -> u64 {
        u64::from(self.rid_prefix) << 40 | sequencer.counters.next_ordinal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::HEADER;
    use shardlake_model::PartitionUid;

    const UID: PartitionUid = PartitionUid(7);

    fn item(number: u64) -> Bytes {
        Bytes::from(keys::with_header(UID, keys::ITEMS, format!("p{number}").as_bytes()))
    }

    fn write(ordinal: u64, is_there: bool) -> (Bytes, Option<Bytes>) {
        let key = Bytes::from(keys::ordinal_key(UID, ordinal));
        (key, is_there.then(|| item(ordinal).slice(HEADER..)))
    }

    fn ordinals(oldest: &Oldest) -> Vec<u64> {
        oldest.items().0.map(|placed| placed.ordinal).collect()
    }

    #[test]
    fn new_items_come_last_and_removed_ones_go() {
        let mut oldest = Oldest::new(keys::with_header(UID, keys::ITEMS, b"p"), 5);
        oldest.note(&[write(5, true), write(6, true)], 7);
        assert_eq!((ordinals(&oldest), oldest.items().1), (vec![], true), "the gap comes first");
        oldest.known.push_back(Placed { ordinal: 3, key: item(3) });
        oldest.gap.start = oldest.gap.end;
        assert_eq!((ordinals(&oldest), oldest.items().1), (vec![3, 5, 6], false));
        oldest.note(&[write(3, false), write(6, false), write(7, true)], 8);
        assert_eq!(ordinals(&oldest), vec![5, 7]);
    }

    #[test]
    fn more_new_items_than_are_kept_become_a_gap() {
        let mut oldest = Oldest::new(keys::with_header(UID, keys::ITEMS, b"p"), 0);
        for ordinal in 0..=LIST_MAX as u64 {
            oldest.note(&[write(ordinal, true)], ordinal + 1);
        }
        assert_eq!(oldest.gap, 0..LIST_MAX as u64 + 1);
        assert!(oldest.newer.is_empty());
    }
}
