//! How many rows each partition collects for a round of a merge.
//!
//! A merge of rows in order needs the rows of each partition that come before the last row of the page, and
//! one more, which shows that none was left out. The index can often count them: the partitions show their
//! next sort keys (`Partition::query_outlook`), and a merge of the keys alone gives the shares. So a page of
//! 100 rows of 5 partitions reads about 105 items, and not 100 of each.
//!
//! ```text
//! partition 1   10 20 30 40 …        the page wants 5 rows: the bound is the fifth key of all, 20
//! partition 2   12 50 60 70 …        keys up to the bound: 2, 1 and 2
//! partition 3   15 16 80 90 …        shares: 3, 2 and 3
//! ```
//! Where the order is not that of an index, a partition reads all matching items, whatever its share: it
//! collects the whole page. A share that proves too small costs another round, never a row: the partition
//! collects the missing rows in the next round.

use bytes::Bytes;
use shardlake_model::Result;
use shardlake_partition::{Outlook, PageWork, QueryPageRequest};
use shardlake_sql::PageLimits;

use crate::loopback::outlook_sent;
use crate::query_targets::Part;
use crate::running::Running;

impl Running<'_> {
    /// The rows that each part collects. `to_come` counts the rows that the merge can still return, if they
    /// are the first of the collected ones.
    pub async fn shares(
        &self,
        parts: &[Part],
        position: Option<&[u8]>,
        room: PageLimits,
        to_come: Option<usize>,
    ) -> Result<Vec<usize>> {
        if !self.prepared.is_ordered() {
            return Ok(vec![room.rows; parts.len()]);
        }
        if let Some(to_come) = to_come.filter(|_| parts.len() > 1)
            && let Some(outlooks) = self.outlooks(parts, position, even_share(to_come, parts.len())).await?
        {
            let reverse = self.access.order.as_ref().is_some_and(|order| order.reverse);
            return Ok(shares_of(&outlooks, to_come, reverse));
        }
        Ok(vec![room.rows.min(even_share(room.rows, parts.len())); parts.len()])
    }

    /// The next sort keys of all parts; `None` where a part cannot show them.
    async fn outlooks(
        &self,
        parts: &[Part],
        resume: Option<&[u8]>,
        keys_max: usize,
    ) -> Result<Option<Vec<Outlook>>> {
        // The outlook is not charged: the pages count the entries they read themselves.
        let work = PageWork::default();
        let mut outlooks = Vec::with_capacity(parts.len());
        for part in parts {
            let filter = self.key.within(part);
            let request = QueryPageRequest {
                query: &self.prepared,
                access: &self.access,
                filter: &filter,
                own: self.own.as_deref(),
                within: self.within.as_ref(),
                resume,
                resume_filter: self.resume_filter.as_ref(),
                limits: PageLimits { rows: keys_max, size_bytes: usize::MAX },
                collects: Some(keys_max),
                kept: None,
                functions: None,
                is_page_time_spent: &|| false,
                is_interrupted: &|| false,
                work: &work,
                clock: None,
            };
            let shape = &self.entry.shape;
            let partition = part.partition.hosted().partition();
            let mut outlook = partition.query_outlook(shape, &self.command, request, keys_max).await?;
            if part.partition.is_elsewhere() {
                outlook = outlook_sent(outlook)?;
            }
            match outlook {
                Some(outlook) => outlooks.push(outlook),
                None => return Ok(None),
            }
        }
        Ok(Some(outlooks))
    }
}

/// Slightly more than an even share of the rows.
fn even_share(rows: usize, parts: usize) -> usize {
    rows.saturating_mul(3) / (2 * parts.max(1)) + 10
}

/// The number of each part's keys up to the last key that the merge can return, plus one.
fn shares_of(outlooks: &[Outlook], to_come: usize, reverse: bool) -> Vec<usize> {
    let is_before = |left: &Bytes, right: &Bytes| if reverse { left > right } else { left < right };
    let mut keys: Vec<&Bytes> = outlooks.iter().flat_map(|outlook| &outlook.keys).collect();
    keys.sort_unstable_by(|left, right| if reverse { right.cmp(left) } else { left.cmp(right) });
    let mut bound = keys.get(to_come.saturating_sub(1)).copied();
    for outlook in outlooks.iter().filter(|outlook| !outlook.is_all) {
        // The keys after these are unknown.
        if let Some(last) = outlook.keys.last()
            && bound.is_none_or(|bound| is_before(last, bound))
        {
            bound = Some(last);
        }
    }
    let is_needed = |key: &Bytes| bound.is_none_or(|bound| !is_before(bound, key));
    outlooks.iter().map(|outlook| outlook.keys.partition_point(is_needed) + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outlook(keys: &[u8], is_all: bool) -> Outlook {
        Outlook { keys: keys.iter().map(|key| Bytes::from(vec![*key])).collect(), is_all }
    }

    #[test]
    fn each_part_collects_what_comes_before_the_last_row_and_one_more() {
        let outlooks =
            [outlook(&[10, 20, 30, 40], false), outlook(&[12, 50, 60], false), outlook(&[15, 16], true)];
        assert_eq!(shares_of(&outlooks, 4, false), [2, 2, 3]);
        assert_eq!(shares_of(&outlooks, 5, false), [3, 2, 3]);
        // After 40, the first part may have any number of keys before 50.
        assert_eq!(shares_of(&outlooks, 100, false), [5, 2, 3]);
    }

    #[test]
    fn keys_that_are_alike_are_collected_by_all_parts() {
        let outlooks = [outlook(&[7, 7, 7], false), outlook(&[7, 7, 7], false)];
        assert_eq!(shares_of(&outlooks, 2, false), [4, 4]);
    }

    #[test]
    fn descending_keys_are_counted_from_the_greatest() {
        let outlooks = [outlook(&[90, 80, 10], false), outlook(&[85, 84], true)];
        assert_eq!(shares_of(&outlooks, 3, true), [2, 3]);
    }

    #[test]
    fn parts_that_have_shown_everything_bound_nothing() {
        assert_eq!(shares_of(&[outlook(&[1], true), outlook(&[], true)], 10, false), [2, 1]);
    }
}
