//! Values and headers of the items of a cached range, extracted from their rows once for scans.
//!
//! A condition looks at one or two values of each of a hundred items, and each look walks over an
//! item and waits for memory. The values of a property, and the header of each item, lie here side
//! by side. The result of a scan is the same: an item that the filter leaves out is counted and
//! passed over, any other is read where it lies.

use std::sync::{Arc, PoisonError, RwLock};

use shardlake_document::Record;
use shardlake_sql::ScalarColumn;
use shardlake_storage::{Extract, KeptRows, Row};

use crate::feed::created::{RowOrder, order_of};
use crate::shape::ContainerSchema;

/// All of it in the order of creation, by numbers.
#[derive(Debug)]
pub(super) struct KeptItems {
    order: RowOrder,
    /// Empty where no filter can use them.
    heads: Box<[ItemHead]>,
    columns: RwLock<Columns>,
}

impl Extract for KeptItems {}

/// Header of an item for statistics, and its expiry.
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
    /// By name; `None` for a property that needs too much memory.
    tried: Vec<(Box<str>, Option<Arc<ScalarColumn>>)>,
    bytes_left: usize,
}

impl KeptItems {
    /// Items of rows that were all checked.
    pub fn of(rows: &KeptRows) -> Option<&KeptItems> {
        rows.extract(KeptItems::new)
    }

    fn new(rows: &[Row], bytes_max: usize) -> KeptItems {
        let order = order_of(rows).unwrap_or(RowOrder::AsTheyLie);
        let needed = rows.len() * (size_of::<ItemHead>() + size_of::<u32>());
        let bytes_left = bytes_max.checked_sub(needed);
        let heads =
            bytes_left.and_then(|_| in_order(rows, &order).map(|(_, value)| ItemHead::of(value)).collect());
        KeptItems {
            order,
            heads: heads.unwrap_or_default(),
            columns: RwLock::new(Columns { tried: Vec::new(), bytes_left: bytes_left.unwrap_or(0) }),
        }
    }

    pub fn order(&self) -> &RowOrder {
        &self.order
    }

    /// The n-th of these rows.
    #[inline]
    pub fn row<'r>(&self, rows: &'r [Row], number: usize) -> &'r Row {
        &rows[self.order.place(number)]
    }

    /// The header of each item, and its values of some properties; `None` where there is no room
    /// for them.
    pub fn values(&self, names: &[Box<str>], rows: &[Row]) -> Option<(&[ItemHead], Vec<Arc<ScalarColumn>>)> {
        let heads = (self.heads.len() == rows.len()).then_some(&*self.heads)?;
        let known = self.columns.read().unwrap_or_else(PoisonError::into_inner).all(names);
        let columns = known.unwrap_or_else(|| {
            let mut columns = self.columns.write().unwrap_or_else(PoisonError::into_inner);
            names.iter().map(|name| columns.find_or_make(name, rows, &self.order)).collect()
        });
        Some((heads, columns?))
    }
}

impl Columns {
    /// The result of trying a name; `None` where it was not tried.
    fn get(&self, name: &str) -> Option<Option<&Arc<ScalarColumn>>> {
        self.tried.iter().find(|(tried, _)| **tried == *name).map(|(_, column)| column.as_ref())
    }

    /// Outer `None` where one was not tried, inner where one has no room.
    fn all(&self, names: &[Box<str>]) -> Option<Option<Vec<Arc<ScalarColumn>>>> {
        let columns: Option<Vec<Option<&Arc<ScalarColumn>>>> =
            names.iter().map(|name| self.get(name)).collect();
        Some(columns?.into_iter().map(Option::<&_>::cloned).collect())
    }

    fn find_or_make(&mut self, name: &str, rows: &[Row], order: &RowOrder) -> Option<Arc<ScalarColumn>> {
        if let Some(tried) = self.get(name) {
            return tried.cloned();
        }
        if self.tried.len() == COLUMNS_MAX {
            return None;
        }
        let column = column_of(name, (rows, order), self.bytes_left).map(Arc::new);
        self.bytes_left -= column.as_ref().map_or(0, |column| column.size_bytes());
        self.tried.push((name.into(), column.clone()));
        column
    }
}

fn in_order<'r>(rows: &'r [Row], order: &RowOrder) -> impl Iterator<Item = &'r Row> {
    (0..rows.len()).map(|number| &rows[order.place(number)])
}

/// The values of a property in rows that were checked.
fn column_of(name: &str, (rows, order): (&[Row], &RowOrder), bytes_max: usize) -> Option<ScalarColumn> {
    let records: Result<Vec<Record<'_>>, _> =
        in_order(rows, order).map(|(_, value)| Record::decode_again(value)).collect();
    ScalarColumn::new(name, records.ok()?.iter().map(|record| record.body), bytes_max)
}

impl ItemHead {
    /// `None` for a time or a time to live that it cannot hold.
    fn of(record: &[u8]) -> Option<ItemHead> {
        let Record { envelope, body } = Record::decode_again(record).ok()?;
        Some(ItemHead {
            timestamp_seconds: u32::try_from(envelope.timestamp_seconds()).ok()?,
            ttl_seconds: match envelope.ttl_seconds {
                Some(NO_TTL) => return None,
                ttl => ttl.unwrap_or(NO_TTL),
            },
            json_size_bytes: envelope.json_size_bytes,
            body_bytes: u32::try_from(body.as_bytes().len()).ok()?,
        })
    }

    pub fn is_expired(&self, shape: &ContainerSchema, now_seconds: u64) -> bool {
        let ttl = (self.ttl_seconds != NO_TTL).then_some(self.ttl_seconds);
        shape.is_expired(u64::from(self.timestamp_seconds), ttl, now_seconds)
    }
}

#[cfg(test)]
mod tests {
    use shardlake_document::{Envelope, ParseLimits, parse_document};
    use shardlake_model::PartitionKey;
    use shardlake_routing::Epk;
    use shardlake_stdx::Guid;

    use super::*;
    use crate::keys::{self, PartitionUid};
    use shardlake_routing::LogicalKey;

    fn row(number: usize, ttl_seconds: Option<i32>, timestamp_seconds: u64) -> Row {
        let json = format!(r#"{{"a":{number},"long":"{}"}}"#, "x".repeat(100));
        let body = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
        let envelope = Envelope {
            lsn: 1,
            time: shardlake_stdx::HybridTime::from_seconds(timestamp_seconds),
            region: 0,
            etag: Guid([1; 16]),
            ordinal: number as u64,
            ttl_seconds,
            json_size_bytes: json.len() as u32,
            is_altered: false,
        };
        let logical = LogicalKey { epk: Epk::from(vec![7; 16]), partition_key: PartitionKey(Vec::new()) };
        let key = keys::item_key(PartitionUid(1), &logical, &format!("{:03}", 100 - number));
        (key.into(), Record::encode(&envelope, body.raw()).into())
    }

    fn names(names: &[&str]) -> Vec<Box<str>> {
        names.iter().map(|name| Box::from(*name)).collect()
    }

    #[test]
    fn values_are_taken_out_once_while_there_is_room() {
        // The last that was created comes first by its key.
        let rows: Vec<Row> = (0..20).rev().map(|number| row(number, None, 7)).collect();
        // Room for the heads, an order and two columns of numbers.
        let items = KeptItems::new(&rows, 20 * (16 + 4 + 2 * 16));
        let (heads, columns) = items.values(&names(&["a"]), &rows).expect("room");
        assert_eq!((heads.len(), columns.len()), (20, 1));
        let (third, body) =
            (rows[16].clone(), |row: &Row| Record::decode(&row.1).unwrap().body.as_bytes().len());
        assert_eq!(items.order().place(3), 16);
        assert_eq!(heads[3].body_bytes as usize, body(&third));
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
            let rows = [odd, row(0, Some(-1), 7)];
            assert!(KeptItems::new(&rows, 1000).values(&[], &rows).is_none());
        }
        let rows = [row(0, Some(-1), 7)];
        assert!(KeptItems::new(&rows, 1000).values(&[], &rows).is_some());
    }
}
