//! Position in an ordered query, by sort keys. Clients that merge partitions send it with the request for a page.
//!
//! Such a client cannot return a page's token in the middle of the page. It names the sort keys of the last
//! row that it used, and, if that row came from this partition, the row's item.

use serde::{Deserialize, Serialize};
use shardlake_document::Value;
use shardlake_stdx::codec::Writer;

use super::sort_value::{SortValue, sort_value};
use super::state::{ResumeKey, write_key};
use crate::bound::BoundQuery;
use crate::error::SqlError;
use crate::evaluate::scope::Scope;
use crate::prepared::PreparedQuery;

/// A position in the order of a query, before its first wanted row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResumeFilter {
    keys: Vec<ResumeKey>,
    /// Which of the rows with exactly these keys are wanted.
    alike: Alike,
}

/// Which rows with the keys of a position are wanted. Such rows are ordered by the ordinals of their items, backwards where the
/// first key descends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Alike {
    All,
    None,
    /// The rows of this item and of later items.
    FromItem(u64),
}

impl ResumeFilter {
    pub fn new(keys: &[SortValue], alike: Alike) -> ResumeFilter {
        let keys = keys.iter().map(|key| ResumeKey::of(key, usize::MAX)).collect();
        ResumeFilter { keys, alike }
    }

    /// Refuses a position that does not fit the order of this query.
    pub fn check(&self, query: &PreparedQuery) -> Result<(), SqlError> {
        let query = query.bound();
        let is_ordered = !query.order_by.is_empty() && query.grouping.is_none();
        if !is_ordered || query.reads_a_whole_result() || query.order_by.len() != self.keys.len() {
            return Err(SqlError::ResumeFilter { expected: query.order_by.len() });
        }
        Ok(())
    }

    /// Whether a row is before the position.
    pub(super) fn is_behind(
        &self,
        query: &BoundQuery,
        row: &Scope<'_>,
        ordinal: u64,
    ) -> Result<bool, SqlError> {
        for (key, resume) in query.order_by.iter().zip(&self.keys) {
            let order = resume.compare(&sort_value(&key.expression, row)?);
            if order.is_ne() {
                return Ok(if key.descending { order.is_gt() } else { order.is_lt() });
            }
        }
        let walks_back = query.order_by.first().is_some_and(|key| key.descending);
        Ok(match self.alike {
            Alike::All => false,
            Alike::None => true,
            Alike::FromItem(item) if walks_back => ordinal > item,
            Alike::FromItem(item) => ordinal < item,
        })
    }

    /// The keys, each a value, or with true the start of a string.
    pub fn keys(&self) -> Vec<(Value, bool)> {
        self.keys.iter().map(ResumeKey::to_value).collect()
    }

    pub fn alike(&self) -> Alike {
        self.alike
    }

    /// Bytes that identify the position.
    pub fn fingerprint(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes(format!("{:?}", self.alike).as_bytes());
        self.keys.iter().for_each(|key| write_key(key, &mut out));
        out.into_bytes()
    }
}
