//! The sizes of logical partitions that were written to lately, so that the next write need not ask the engine.
//!
//! It holds the sizes after the newest queued commits, under the sequencer, and is bounded: sizes
//! gather in a young half, which becomes the old half when it is full; sizes in the old half that
//! were not written again are forgotten.

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::LogicalSize;

const HALF_ENTRIES: usize = 512;
/// Longer keys are not kept, which bounds the memory: about 200 KB.
const KEY_BYTES_MAX: usize = 128;

#[derive(Debug, Default)]
pub(crate) struct RecentSizes {
    young: FxHashMap<Bytes, LogicalSize>,
    old: FxHashMap<Bytes, LogicalSize>,
}

impl RecentSizes {
    pub fn get(&self, key: &[u8]) -> Option<LogicalSize> {
        self.young.get(key).or_else(|| self.old.get(key)).copied()
    }

    /// Records the size after a commit. The old half's size of the key is outdated from now on, and
    /// hidden as long as it is there: the young half replaces the old one as a whole.
    pub fn put(&mut self, key: Bytes, size: LogicalSize) {
        if let Some(known) = self.young.get_mut(&key) {
            *known = size;
        } else if key.len() <= KEY_BYTES_MAX {
            if self.young.len() == HALF_ENTRIES {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(key, size);
            debug_assert!(self.young.len() <= HALF_ENTRIES, "a full half becomes the old one");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn what_is_known_is_the_newest(
            writes in prop::collection::vec((0usize..1500, any::<u64>()), 0..4000),
        ) {
            let (mut recent, mut model) = (RecentSizes::default(), HashMap::new());
            for (key, size_bytes) in writes {
                // One key in a hundred is too long to be kept.
                let text = vec![b'k'; if key % 100 == 0 { KEY_BYTES_MAX } else { 4 }];
                let key = Bytes::from([&key.to_be_bytes()[..], &text].concat());
                let size = LogicalSize { items: 1, size_bytes };
                recent.put(key.clone(), size);
                model.insert(key, size);
                prop_assert!(recent.young.len() <= HALF_ENTRIES && recent.old.len() <= HALF_ENTRIES);
            }
            for (key, size) in model {
                prop_assert!(recent.get(&key).is_none_or(|known| known == size));
            }
        }
    }
}
