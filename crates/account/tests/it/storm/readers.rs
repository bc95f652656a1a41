//! Readers that drain queries and feeds, page by page, while everything moves: in each of the ways that clients do it.
//!
//! Every drained answer has each permanent item exactly once, and no item twice. Items are
//! identified by `_rid`: an item that was deleted and created anew in the middle is another.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use shardlake_account::{FeedScope, QueryRequest, QueryWants};
use shardlake_model::{Error, ErrorKind, ReplyMeta, RequestContext, Result};
use shardlake_stdx::Random;

use super::session::Session;
use super::world::{STABLE_ITEMS, World, count};
use crate::support::json;

/// Pages that one answer may take; the items are some hundreds.
const PAGES_MAX: usize = 20_000;

struct Reader {
    world: Arc<World>,
    random: Random,
    session: Session,
}

/// Source of a read: a query's text, or the feed.
#[derive(Debug, Clone)]
struct Source {
    text: Option<String>,
    /// Only items of this third.
    third: Option<i64>,
    /// Ranks rise, or fall.
    order: Option<Order>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Up,
    Down,
}

const SELECTION: &str = "SELECT c.id, c.pk, c._rid, c.rank, c.stable FROM c";

pub async fn run_reader(world: Arc<World>, number: u32) {
    let random = world.random("reader", number);
    let mut reader = Reader { world, random, session: Session::default() };
    while !reader.world.is_over() {
        reader.drain_something().await;
        tokio::task::yield_now().await;
    }
}

impl Reader {
    async fn drain_something(&mut self) {
        let page = [1, 3, 7, 40, 1000][self.random.below(5) as usize];
        let third = (self.random.below(2) == 0).then(|| self.random.below(3) as i64);
        let filter = third.map_or_else(String::new, |third| format!(" WHERE c.third = {third}"));
        let plain = Source { text: Some(format!("{SELECTION}{filter}")), third, order: None };
        let feed = Source { text: None, third: None, order: None };
        let (how, source, rows) = match self.random.below(7) {
            0 | 1 => ("query by ranges", plain.clone(), self.by_ranges(&plain, page).await),
            2 => ("query as a whole", plain.clone(), self.as_a_whole(&plain, page).await),
            3 => ("feed by ranges", feed.clone(), self.by_ranges(&feed, page).await),
            4 => ("feed as a whole", feed.clone(), self.as_a_whole(&feed, page).await),
            5 => {
                let (order, word) = match self.random.below(2) {
                    0 => (Order::Up, "ASC"),
                    _ => (Order::Down, "DESC"),
                };
                let text = Some(format!("{SELECTION}{filter} ORDER BY c.rank {word}"));
                if self.random.below(2) == 0 {
                    // Each range is in order for itself.
                    let source = Source { text, third, order: None };
                    ("ordered query by ranges", source.clone(), self.by_ranges(&source, page).await)
                } else {
                    let source = Source { text, third, order: Some(order) };
                    ("ordered query", source.clone(), self.as_a_whole(&source, page).await)
                }
            }
            _ => return self.count_stable().await,
        };
        match rows {
            Ok(rows) => {
                count(&self.world.counts.drained);
                if let Some(problem) = wrong(&rows, &source) {
                    self.world.problem(format!("{how} in pages of {page}: {problem}"));
                }
            }
            Err(error) => self.failed(how, &error),
        }
    }

    fn failed(&self, how: &str, error: &Error) {
        let is_expected =
            matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) && self.world.weather.crashes;
        if !is_expected {
            self.world.problem(format!("{how}: {error} ({:?})", error.kind()));
        }
    }

    async fn count_stable(&mut self) {
        let text = "SELECT VALUE COUNT(1) FROM c WHERE c.stable";
        let source = Source { text: Some(text.into()), third: None, order: None };
        match self.as_a_whole(&source, 100).await {
            Ok(rows) if rows == [Value::from(STABLE_ITEMS)] => {}
            Ok(rows) => self.world.problem(format!("{text}: {rows:?}")),
            Err(error) => self.failed(text, &error),
        }
    }

    /// The server continues from range to range.
    async fn as_a_whole(&mut self, source: &Source, page: i64) -> Result<Vec<Value>> {
        let (mut rows, mut token) = (Vec::new(), None::<String>);
        for _ in 0..PAGES_MAX {
            let (more, next) = self.page(source, FeedScope::All, page, token.as_deref(), true).await?;
            rows.extend(more);
            token = next;
            if token.is_none() {
                return Ok(rows);
            }
            tokio::task::yield_now().await;
        }
        Err(Error::internal("pages without end"))
    }

    /// The client continues from range to range. Where a range has ended, it continues in the
    /// ranges that now have its part of the hash space, from the same position.
    async fn by_ranges(&mut self, source: &Source, page: i64) -> Result<Vec<Value>> {
        let mut rows = Vec::new();
        // Spans of the hash space with the position to continue from, the next one last.
        let mut open = vec![(String::new(), "FF".to_owned(), None::<String>)];
        let mut pages = 0;
        while let Some((min, max, mut token)) = open.pop() {
            let ranges = self.world.container().partition_key_ranges();
            let inside = ranges.iter().filter(|range| range.min_inclusive < max && min < range.max_exclusive);
            let parts: Vec<_> = inside
                .map(|range| {
                    let (low, high) =
                        (range.min_inclusive.clone().max(min.clone()), range.max_exclusive.clone());
                    (range.id, low, high.min(max.clone()), range.clone())
                })
                .collect();
            let [(id, low, high, range)] = &parts[..] else {
                // The token holds for every part: they are in the token's order.
                open.extend(parts.into_iter().rev().map(|(_, low, high, _)| (low, high, token.clone())));
                continue;
            };
            let is_whole = *low == range.min_inclusive && *high == range.max_exclusive;
            let epk = (!is_whole).then(|| (low.clone(), high.clone()));
            let scope = FeedScope::Range { range_id: Some(*id), epk };
            loop {
                pages += 1;
                if pages > PAGES_MAX {
                    return Err(Error::internal("pages without end"));
                }
                match self.page(source, scope.clone(), page, token.as_deref(), false).await {
                    Ok((more, next)) => {
                        rows.extend(more);
                        token = next;
                        if token.is_none() {
                            break;
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::PartitionGone => {
                        count(&self.world.counts.ranges_gone);
                        open.push((low.clone(), high.clone(), token));
                        break;
                    }
                    Err(error) => return Err(error),
                }
                tokio::task::yield_now().await;
            }
        }
        Ok(rows)
    }

    async fn page(
        &mut self,
        source: &Source,
        scope: FeedScope,
        page: i64,
        continuation: Option<&str>,
        fans_out: bool,
    ) -> Result<(Vec<Value>, Option<String>)> {
        let container = self.world.container();
        let session = Some(self.session.token(&container));
        let ctx = RequestContext { session, ..self.world.ctx() };
        let account = &self.world.account;
        let Some(text) = &source.text else {
            let page = account.items().read_feed(&ctx, &container, scope, Some(page), continuation).await?;
            self.note(&page.meta);
            return Ok((page.items.iter().map(json).collect(), page.continuation));
        };
        let request = QueryRequest {
            text,
            parameters: &[],
            scope,
            max_items: Some(page),
            continuation,
            resume_filter: None,
            allows_cross_partition: true,
            fans_out,
            wants: QueryWants::default(),
        };
        let reply = account.queries().query(&ctx, &container, request).await?;
        self.note(&reply.meta);
        let rows = reply.rows.iter().map(|row| serde_json::from_slice(row).expect("rows are JSON"));
        Ok((rows.collect(), reply.continuation))
    }

    fn note(&mut self, meta: &ReplyMeta) {
        if let Some(problem) = self.session.note(&self.world.container(), meta) {
            self.world.problem(format!("reader: {problem}"));
        }
    }
}

/// Problem of a drained answer.
fn wrong(rows: &[Value], source: &Source) -> Option<String> {
    let mut seen = BTreeMap::new();
    let mut stable: BTreeMap<&str, u64> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        if let Some((first, before)) = seen.insert(row["_rid"].as_str()?, (at, row)) {
            return Some(format!("{row} came as row {at} after {before} as row {first} of {}", rows.len()));
        }
        if row["stable"] == true {
            *stable.entry(row["pk"].as_str()?).or_default() += 1;
        }
    }
    for number in 0..STABLE_ITEMS {
        let pk = format!("stable {number}");
        let item: Value = serde_json::from_str(&super::world::body("s", &pk, 0, true)).expect("JSON");
        let is_wanted = source.third.is_none_or(|third| item["third"] == third);
        if stable.contains_key(&pk[..]) != is_wanted {
            return Some(format!("item '{pk}' should be there: {is_wanted}"));
        }
    }
    let ranks = rows.iter().map(|row| row["rank"].as_i64());
    let is_ordered = match source.order {
        None => true,
        Some(Order::Up) => ranks.is_sorted(),
        Some(Order::Down) => ranks.rev().is_sorted(),
    };
    (!is_ordered).then(|| "the rows are not in order".to_owned())
}
