//! The items of one logical partition as the rows `N` name them.

use std::iter::Peekable;

use bytes::Bytes;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_storage::{Row, Scan, ScanOptions};

use super::order::ordinal_of;
use super::source::Source;
use crate::key_list::KeyList;
use crate::keys::{self, HEADER};
use crate::open_transactions::OwnItems;

/// Items that are looked up in the row cache, and cached there. A walk over more would evict rows
/// that others read again.
const HOT_ITEMS_MAX: usize = 256;

/// In which order a logical partition is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

impl Direction {
    fn is_before(self, one: u64, other: u64) -> bool {
        if self == Direction::Forward { one < other } else { one > other }
    }
}

pub(crate) struct Walk {
    /// The common prefix of the keys of its items.
    prefix: Vec<u8>,
    direction: Direction,
    scan: Scan,
    named: Peekable<std::vec::IntoIter<Row>>,
    own: Option<Own>,
    walked: usize,
    /// The ordinal of the last row that was passed.
    last: Option<u64>,
}

/// The writes of a transaction in the logical partition.
struct Own {
    items: OwnItems,
    /// Those that are there, by their ordinals.
    in_order: Peekable<std::vec::IntoIter<(u64, Row)>>,
}

/// The next item, whose record is there if a transaction has written it.
type Named = (Bytes, Option<Bytes>);

impl Walk {
    /// `prefix` is the common prefix of the keys of the items; the walk begins behind the item with an ordinal.
    pub fn new(
        source: &Source<'_>,
        prefix: Vec<u8>,
        after: Option<u64>,
        direction: Direction,
    ) -> Result<Walk> {
        let (uid, logical) = (source.uid, &prefix[HEADER..]);
        let all = keys::with_header(uid, keys::CREATED, logical);
        let (mut start, mut end) = (all.clone(), keys::after_prefix(&all));
        match (after, direction) {
            (Some(ordinal), Direction::Backward) => end = keys::created_key(uid, logical, ordinal),
            (Some(u64::MAX), Direction::Forward) => start.clone_from(&end),
            (Some(ordinal), Direction::Forward) => start = keys::created_key(uid, logical, ordinal + 1),
            (None, _) => {}
        }
        let own = source.own.map(|own| own.of_prefix(&prefix)).filter(|own| !own.is_empty());
        let own = own.map(|own| Own::new(own, after, direction)).transpose()?;
        let options = ScanOptions { reverse: direction == Direction::Backward, ..ScanOptions::default() };
        let scan = source.hot.scan(start..end, options);
        Ok(Walk {
            prefix,
            direction,
            scan,
            named: Vec::new().into_iter().peekable(),
            own,
            walked: 0,
            last: None,
        })
    }

    /// The common prefix of the keys of its items.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The next items, at most so many; none at the end.
    pub async fn next(&mut self, source: &Source<'_>, wanted: usize) -> Result<Vec<Row>> {
        let (mut rows, mut missing) = (Vec::with_capacity(wanted), KeyList::default());
        while rows.len() < wanted
            && let Some((key, record)) = self.next_named().await?
        {
            if record.is_none() {
                missing.push(&[&key]);
            }
            rows.push((key, record));
        }
        let missing = missing.finish();
        if missing.is_empty() {
            return Ok(rows
                .into_iter()
                .filter_map(|(key, record)| record.map(|record| (key, record)))
                .collect());
        }
        let is_hot = self.walked < HOT_ITEMS_MAX;
        self.walked += rows.len();
        let records = match is_hot {
            true => source.hot.get_many(missing).await,
            false => source.hot.view().get_many(missing).await,
        };
        let mut records = records.map_err(crate::storage_error)?.into_iter();
        let row = |(key, own): Named| {
            let record = own.or_else(|| records.next().flatten());
            let record = record.ok_or_else(|| {
                Error::new(ErrorKind::Corrupt, "the order of creation names an item that is not there")
            })?;
            Ok((key, record))
        };
        rows.into_iter().map(row).collect()
    }

    async fn next_named(&mut self) -> Result<Option<Named>> {
        loop {
            if self.named.peek().is_none()
                && let Some(rows) = self.scan.next_chunk().await.map_err(crate::storage_error)?
            {
                self.named = rows.into_iter().peekable();
            }
            let stored = match self.named.peek() {
                Some((key, _)) => Some(parse(key)?),
                None => None,
            };
            if let (Some(last), Some(stored)) = (self.last, stored) {
                assert!(self.direction.is_before(last, stored), "a walk goes one way");
            }
            let own = self.own.as_mut();
            if let Some(own) = own
                && let Some((ordinal, (key, record))) = own.in_order.next_if(|(ordinal, _)| {
                    stored.is_none_or(|stored| !self.direction.is_before(stored, *ordinal))
                })
            {
                if stored == Some(ordinal) {
                    self.named.next();
                    self.last = stored;
                }
                return Ok(Some((key, Some(record))));
            }
            let Some((_, id)) = self.named.next() else { return Ok(None) };
            self.last = stored;
            let key = Bytes::from([&self.prefix[..], &id].concat());
            // It was written with another ordinal, or deleted.
            if self.own.as_ref().is_none_or(|own| own.items.get(&key).is_none()) {
                return Ok(Some((key, None)));
            }
        }
    }
}

impl Own {
    fn new(items: OwnItems, after: Option<u64>, direction: Direction) -> Result<Own> {
        let mut in_order = Vec::with_capacity(items.len());
        for (key, record) in items.iter() {
            let Some(record) = record else { continue };
            let row = (key.clone(), record.clone());
            let ordinal = ordinal_of(&row)?;
            if after.is_none_or(|after| direction.is_before(after, ordinal)) {
                in_order.push((ordinal, row));
            }
        }
        in_order.sort_unstable_by_key(|(ordinal, _)| *ordinal);
        if direction == Direction::Backward {
            in_order.reverse();
        }
        Ok(Own { items, in_order: in_order.into_iter().peekable() })
    }
}

fn parse(key: &[u8]) -> Result<u64> {
    let (_, ordinal) = keys::parse_created_key(&key[HEADER..]).ok_or_else(crate::malformed_key)?;
    Ok(ordinal)
}
