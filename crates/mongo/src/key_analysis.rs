//! Quality of a field as shard key: the number of its values, and the frequencies of the commonest ones.

use std::collections::HashMap;

use shardlake_mql::write::body_of;
use shardlake_mql::{Document, Value};
use shardlake_partition::unique_values_of;

use crate::collections::{Collection, Collections};
use crate::failure::{Failure, Result};
use crate::index_policy::unique_key_of;
use crate::meta::flag;
use crate::reads::{MEMORY_BYTES_MAX, Scan};
use crate::request::Request;

/// Number of commonest values in the report.
const COMMONEST: usize = 5;

/// Statistics of the documents under a shard key.
#[derive(Debug, Default)]
pub struct KeyCharacteristics {
    pub documents: u64,
    pub average_bytes: u64,
    pub sampled: u64,
    pub is_unique: bool,
    pub distinct: u64,
    /// Values and how many of the sampled documents have them, the commonest first.
    pub commonest: Vec<(Document, u64)>,
}

impl Collections {
    /// Reads the collection, for as long as the command may run, and looks at each document with this probability.
    pub async fn analyze_key(
        &self,
        request: &Request,
        collection: &Collection,
        key: &Document,
        rate: f64,
    ) -> Result<KeyCharacteristics> {
        let unique_key = unique_key_of(key);
        let (mut sampled, mut bytes) = (0, 0);
        let mut seen: HashMap<Vec<u8>, (Document, u64)> = HashMap::new();
        let mut scan = Scan::of_all(self, collection.clone());
        while let Some(page) = scan.next(request).await? {
            for document in page {
                if rate < 1.0 && !self.is_drawn(rate) {
                    continue;
                }
                sampled += 1;
                let (body, _) = body_of(&document)?;
                // Equal values of different types are one value.
                let values = unique_values_of(&unique_key, None, body.raw())?;
                let place = values.into_iter().next().map(|value| value.to_vec()).unwrap_or_default();
                if let Some((_, count)) = seen.get_mut(&place) {
                    *count += 1;
                    continue;
                }
                let shown = values_of(key, &document);
                bytes += place.len() + shown.size() + 128;
                if bytes > MEMORY_BYTES_MAX {
                    let words = "the key has too many values to be counted in memory: ask with a smaller 'sampleRate' or 'sampleSize'";
                    return Err(Failure::new(292, words));
                }
                seen.insert(place, (shown, 1));
            }
        }
        let usage = collection.handle.usage();
        let distinct = seen.len() as u64;
        assert!(distinct <= sampled, "each distinct key was sampled");
        let mut commonest: Vec<(Vec<u8>, (Document, u64))> = seen.into_iter().collect();
        commonest.sort_by(|(one, (_, left)), (other, (_, right))| right.cmp(left).then(one.cmp(other)));
        commonest.truncate(COMMONEST);
        Ok(KeyCharacteristics {
            documents: usage.items,
            average_bytes: usage.size_bytes.checked_div(usage.items).unwrap_or_default(),
            sampled,
            is_unique: is_unique(collection, key),
            distinct,
            commonest: commonest.into_iter().map(|(_, found)| found).collect(),
        })
    }

    fn is_drawn(&self, rate: f64) -> bool {
        const PARTS: u64 = 1 << 53;
        (self.queries.router().random().below(PARTS) as f64) < rate * PARTS as f64
    }
}

fn values_of(key: &Document, document: &Document) -> Document {
    let value = |path: &str| {
        let start = Value::document(document.clone());
        let step =
            |value: Value, part: &str| value.as_document().map(|inner| inner.value(part)).unwrap_or_default();
        path.split('.').fold(start, step).or_null()
    };
    key.iter().map(|(path, _)| (path.clone(), value(path))).collect()
}

/// Whether no two documents can have the same values.
fn is_unique(collection: &Collection, key: &Document) -> bool {
    let is_identity = key.len() == 1 && key.has("_id") && !collection.is_sharded();
    is_identity
        || collection.meta.indexes.iter().filter(|index| flag(index, "unique")).any(|index| {
            index
                .get("key")
                .and_then(Value::as_document)
                .is_some_and(|own| own.len() == key.len() && own.iter().all(|(path, _)| key.has(path)))
        })
}
