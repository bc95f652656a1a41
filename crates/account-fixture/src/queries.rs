//! Queries of tests, drained page by page: answered by the account alone, or merged from its partitions as a
//! client merges them with the query plan. Also the comparison of rows with recorded results.

use shardlake_account::sql::{KeyFilter, Merger, PageLimits, Rows, SupportedFeatures};
use shardlake_account::{
    ContainerHandle, FeedScope, Number, ParseLimits, QueryReply, QueryRequest, QueryWants, Value,
};
use shardlake_document::NESTING_CEILING;
use shardlake_model::Result;

use super::Fixture;

/// More pages than any test's query has.
const PAGES_MAX: usize = 100_000;

/// Cost of asking a partition, for every page that asks it.
pub const ASKED_CENTI: u64 = 280;

/// Complete result of a query.
#[derive(Debug, Default)]
pub struct Answer {
    pub rows: Vec<Value>,
    pub charge_centi: u64,
    pub pages: usize,
    /// Partitions, as often as pages have asked them.
    pub asked: usize,
}

impl Answer {
    /// The charge without the price of asking partitions.
    pub fn work_centi(&self) -> u64 {
        self.charge_centi - ASKED_CENTI * self.asked as u64
    }
}

pub fn request<'a>(text: &'a str, max_items: i64, continuation: Option<&'a str>) -> QueryRequest<'a> {
    QueryRequest {
        text,
        parameters: &[],
        scope: FeedScope::All,
        max_items: Some(max_items),
        continuation,
        resume_filter: None,
        allows_cross_partition: true,
        fans_out: true,
        wants: QueryWants::default(),
    }
}

pub fn parse(row: &[u8]) -> Value {
    let limits =
        ParseLimits { size_max_bytes: row.len(), nesting_max: NESTING_CEILING, ..ParseLimits::default() };
    Value::from_json(row, &limits).expect("rows are JSON")
}

impl Fixture {
    pub async fn page(
        &self,
        container: &ContainerHandle,
        text: &str,
        max_items: i64,
        continuation: Option<&str>,
    ) -> Result<QueryReply> {
        self.account.queries().query(&self.ctx(), container, request(text, max_items, continuation)).await
    }

    /// All rows of all pages; the server merges.
    pub async fn answer(&self, container: &ContainerHandle, text: &str, max_items: i64) -> Result<Answer> {
        self.answer_of(container, &FeedScope::All, text, max_items).await
    }

    /// The answer over a part of the container.
    pub async fn answer_of(
        &self,
        container: &ContainerHandle,
        scope: &FeedScope,
        text: &str,
        max_items: i64,
    ) -> Result<Answer> {
        let (mut answer, mut token) = (Answer::default(), None::<String>);
        loop {
            let request = QueryRequest { scope: scope.clone(), ..request(text, max_items, token.as_deref()) };
            let reply = self.account.queries().query(&self.ctx(), container, request).await?;
            assert!(reply.rows.len() as i64 <= max_items, "{text}: a page has {} rows", reply.rows.len());
            answer.rows.extend(reply.rows.iter().map(parse));
            answer.charge_centi += reply.meta.charge_centi;
            answer.pages += 1;
            answer.asked += reply.ranges.len();
            assert!(answer.pages < PAGES_MAX, "{text}: pages without end");
            token = reply.continuation;
            match &token {
                None => return Ok(answer),
                Some(token) => assert!(token.len() < 1024, "{text}: a token of {} bytes", token.len()),
            }
        }
    }

    /// All rows of all pages, merged from the partitions with the plan, as clients do.
    pub async fn merged(
        &self,
        container: &ContainerHandle,
        text: &str,
        max_items: usize,
    ) -> Result<Vec<Value>> {
        let all = SupportedFeatures::all();
        let plan = self.account.queries().query_plan(&self.ctx(), container, text, &[], &all)?.plan;
        let mut ranges: Vec<u32> = container.partition_key_ranges().iter().map(|range| range.id).collect();
        if plan.keys == KeyFilter::Nothing {
            // The plan's range is the start of the hash space.
            ranges.truncate(1);
        }
        let limits = PageLimits { rows: max_items, size_bytes: 4 << 20 };
        let (mut rows, mut state) = (Vec::new(), None::<Vec<u8>>);
        for _ in 0..PAGES_MAX {
            let mut merger = Merger::new(&plan.info, text, ranges.len(), limits, state.as_deref())?;
            let openings: Vec<_> = (0..ranges.len()).map(|source| merger.opening(source)).collect();
            let mut positions: Vec<_> = openings.iter().map(|opening| opening.position.clone()).collect();
            let chunk = merger.chunk_limits().rows.min(1000) as i64;
            while !merger.needs().is_empty() {
                for source in merger.needs() {
                    let position =
                        positions[source].take().map(|bytes| String::from_utf8(bytes).expect("a token"));
                    let scope = FeedScope::Range { range_id: Some(ranges[source]), epk: None };
                    let request = QueryRequest {
                        scope,
                        fans_out: false,
                        ..request(&openings[source].text, chunk, position.as_deref())
                    };
                    let reply = self.account.queries().query(&self.ctx(), container, request).await?;
                    let next = reply.continuation.map(String::into_bytes);
                    positions[source].clone_from(&next);
                    merger.feed(source, &reply.rows, next)?;
                }
            }
            let page = merger.take_page()?;
            collect(&mut rows, &page.rows);
            state = page.state;
            if state.is_none() {
                return Ok(rows);
            }
        }
        panic!("{text}: merged pages without end");
    }
}

fn collect(all: &mut Vec<Value>, rows: &Rows) {
    all.extend(rows.iter().map(parse));
}

pub fn shown(rows: &[Value]) -> String {
    rows.iter().map(|row| row.to_json().expect("JSON")).collect::<Vec<_>>().join(" ")
}

/// How rows are compared.
#[derive(Debug, Clone, Copy)]
pub struct Tolerance {
    /// Relative tolerance of numbers.
    pub relative: f64,
    pub in_order: bool,
}

pub fn same_rows(rows: &[Value], expected: &[Value], tolerance: Tolerance) -> bool {
    if rows.len() != expected.len() {
        return false;
    }
    if tolerance.in_order {
        return rows.iter().zip(expected).all(|(row, expected)| alike(row, expected, tolerance.relative));
    }
    let mut left: Vec<&Value> = expected.iter().collect();
    rows.iter().all(|row| {
        let found = left.iter().position(|expected| alike(row, expected, tolerance.relative));
        found.map(|index| left.swap_remove(index)).is_some()
    })
}

fn alike(left: &Value, right: &Value, tolerance: f64) -> bool {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| alike(left, right, tolerance))
        }
        (Value::Object(members), Value::Object(others)) => {
            members.len() == others.len()
                && members
                    .iter()
                    .all(|(name, value)| right.get(name).is_some_and(|other| alike(value, other, tolerance)))
        }
        _ => match (left.as_number(), right.as_number()) {
            (Some(left), Some(right)) => same_number(left, right, tolerance),
            _ => left == right,
        },
    }
}

fn same_number(left: Number, right: Number, tolerance: f64) -> bool {
    let (left, right) = (left.as_f64(), right.as_f64());
    (left - right).abs() <= tolerance * left.abs().max(right.abs())
}
