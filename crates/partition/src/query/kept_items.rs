//! What scans ask of the items of a range that stays in memory, taken out of their rows once.
//!
//! A condition looks at one or two values of each of a hundred items, and each look walks over an item and waits for memory. The values of a
//! property, and what is counted of each item, lie here side by side. What a scan comes to is the same: an item that the filter
//! leaves out is counted and passed over, any other is read where it lies.

use std::sync::{Arc, PoisonError, RwLock};

use shardlake_document::Record;
use shardlake_sql::ScalarColumn;
use shardlake_storage::{Extract, KeptRows, Row};

use crate::shape::ContainerShape;

#[derive(Debug)]
pub(super) struct KeptItems {
    /// In the order of the rows; empty where no filter can use them.
    heads: Box<[ItemHead]>,
    columns: RwLock<Columns>,
}

impl Extract for KeptItems {}

/// What is counted of an item, and when it runs out.
#[derive(Debug, Clone, Copy)]
pub(super) struct ItemHead {
    timestamp_seconds: u32,
    /// [`NO_TTL`] where the item has none of its own.
    ttl_seconds: i32,
    pub json_size_bytes: u32,
    pub body_bytes: u32,
}

/// No item has it: the least that clients may ask for is -1.
const NO_TTL: i32 = i32::MIN;

/// Properties that are tried for one range: more are left to the items.
const COLUMNS_MAX: usize = 16;

#[derive(Debug)]
struct Columns {
    /// By name; `None` for one that takes too much memory.
    tried: Vec<(Box<str>, Option<Arc<ScalarColumn>>)>,
    bytes_left: usize,
}

impl KeptItems {
    /// Of rows that were all checked.
    pub fn of(rows: &KeptRows) -> Option<&KeptItems> {
        rows.extract(KeptItems::new)
    }

    fn new(rows: &[Row], bytes_max: usize) -> KeptItems {
        let bytes_left = bytes_max.checked_sub(rows.len() * size_of::<ItemHead>());
        let heads = bytes_left.and_then(|_| rows.iter().map(|(_, value)| ItemHead::of(value)).collect());
        KeptItems {
            heads: heads.unwrap_or_default(),
            columns: RwLock::new(Columns { tried: Vec::new(), bytes_left: bytes_left.unwrap_or(0) }),
        }
    }

    /// What is counted of each item, and its values of some properties; `None` where there is no room for them.
    pub fn values(&self, names: &[Box<str>], rows: &[Row]) -> Option<(&[ItemHead], Vec<Arc<ScalarColumn>>)> {
        let heads = (self.heads.len() == rows.len()).then_some(&*self.heads)?;
        let known = self.columns.read().unwrap_or_else(PoisonError::into_inner).all(names);
        let columns = known.unwrap_or_else(|| {
            let mut columns = self.columns.write().unwrap_or_else(PoisonError::into_inner);
            names.iter().map(|name| columns.find_or_make(name, rows)).collect()
        });
        Some((heads, columns?))
    }
}

impl Columns {
    /// What trying a name came to; `None` where nobody has.
    fn get(&self, name: &str) -> Option<Option<&Arc<ScalarColumn>>> {
        self.tried.iter().find(|(tried, _)| **tried == *name).map(|(_, column)| column.as_ref())
    }

    /// Outer `None` where one was not tried, inner where one has no room.
    fn all(&self, names: &[Box<str>]) -> Option<Option<Vec<Arc<ScalarColumn>>>> {
        let columns: Option<Vec<Option<&Arc<ScalarColumn>>>> =
            names.iter().map(|name| self.get(name)).collect();
        Some(columns?.into_iter().map(Option::<&_>::cloned).collect())
    }

    fn find_or_make(&mut self, name: &str, rows: &[Row]) -> Option<Arc<ScalarColumn>> {
        if let Some(tried) = self.get(name) {
            return tried.cloned();
        }
        if self.tried.len() == COLUMNS_MAX {
            return None;
        }
        let column = column_of(name, rows, self.bytes_left).map(Arc::new);
        self.bytes_left -= column.as_ref().map_or(0, |column| column.size_bytes());
        self.tried.push((name.into(), column.clone()));
        column
    }
}

/// The values of a property in rows that were checked.
fn column_of(name: &str, rows: &[Row], bytes_max: usize) -> Option<ScalarColumn> {
    let records: Result<Vec<Record<'_>>, _> =
        rows.iter().map(|(_, value)| Record::decode_again(value)).collect();
    ScalarColumn::new(name, records.ok()?.iter().map(|record| record.body), bytes_max)
}

impl ItemHead {
    /// `None` for a time or a time to live that it cannot hold.
    fn of(record: &[u8]) -> Option<ItemHead> {
        let Record { envelope, body } = Record::decode_again(record).ok()?;
        Some(ItemHead {
            timestamp_seconds: u32::try_from(envelope.timestamp_seconds).ok()?,
            ttl_seconds: match envelope.ttl_seconds {
                Some(NO_TTL) => return None,
                ttl => ttl.unwrap_or(NO_TTL),
            },
            json_size_bytes: envelope.json_size_bytes,
            body_bytes: u32::try_from(body.as_bytes().len()).ok()?,
        })
    }

    pub fn is_expired(&self, shape: &ContainerShape, now_seconds: u64) -> bool {
        let ttl = (self.ttl_seconds != NO_TTL).then_some(self.ttl_seconds);
        shape.is_expired(u64::from(self.timestamp_seconds), ttl, now_seconds)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use shardlake_document::{Envelope, ParseLimits, parse_document};
    use shardlake_stdx::Guid;

    use super::*;

    fn row(number: usize, ttl_seconds: Option<i32>, timestamp_seconds: u64) -> Row {
        let json = format!(r#"{{"a":{number},"long":"{}"}}"#, "x".repeat(100));
        let body = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
        let envelope = Envelope {
            lsn: 1,
            timestamp_seconds,
            etag: Guid([1; 16]),
            ordinal: number as u64,
            ttl_seconds,
            json_size_bytes: json.len() as u32,
            is_altered: false,
        };
        (Bytes::from(vec![number as u8]), Record::encode(&envelope, body.raw()).into())
    }

    fn names(names: &[&str]) -> Vec<Box<str>> {
        names.iter().map(|name| Box::from(*name)).collect()
    }

    #[test]
    fn values_are_taken_out_once_while_there_is_room() {
        let rows: Vec<Row> = (0..20).map(|number| row(number, None, 7)).collect();
        // Room for the heads and two columns of numbers.
        let items = KeptItems::new(&rows, 20 * (16 + 2 * 16));
        let (heads, columns) = items.values(&names(&["a"]), &rows).expect("room");
        assert_eq!((heads.len(), columns.len()), (20, 1));
        assert_eq!(heads[3].body_bytes as usize, Record::decode(&rows[3].1).unwrap().body.as_bytes().len());
        let (_, again) = items.values(&names(&["a"]), &rows).expect("room");
        assert!(Arc::ptr_eq(&columns[0], &again[0]));
        assert!(items.values(&names(&["a", "long"]), &rows).is_none(), "texts are too long");
        assert!(items.values(&names(&["none"]), &rows).is_some(), "what was refused takes no room");
        assert!(items.values(&names(&["more"]), &rows).is_none());
        assert!(items.values(&names(&["a"]), &rows).is_some());
        assert!(KeptItems::new(&rows, 100).values(&names(&["a"]), &rows).is_none(), "no room for heads");
    }

    #[test]
    fn times_that_a_head_cannot_hold_leave_the_items_to_themselves() {
        for odd in [row(1, Some(i32::MIN), 7), row(1, None, u64::MAX)] {
            let rows = [row(0, Some(-1), 7), odd];
            assert!(KeptItems::new(&rows, 1000).values(&[], &rows).is_none());
        }
        let rows = [row(0, Some(-1), 7)];
        assert!(KeptItems::new(&rows, 1000).values(&[], &rows).is_some());
    }
}
