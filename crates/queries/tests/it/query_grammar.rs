//! Random queries of the whole grammar over random items, through updates and deletes: answers do
//! not depend on the index, indexing policy, number of partitions, page size, restart or
//! explanation, nor on whether client or server merges.
//!
//! The expected answer comes from a container without an index, all at once; order is checked
//! against the keys that the rows show. `query_properties.rs` does the same for fewer kinds of
//! queries, and for composite orders in every detail.

use crate::support::json_door::{JsonDoor, KeyInput, key_scope};
use std::cmp::Ordering;

use crate::support::queries::{parse, request, shown};
use crate::support::random::{COMPOSITES, RandomQuery, members, policy, query};
use crate::support::{Fixture, none};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use shardlake_account::sql::SupportedFeatures;
use shardlake_account::sql::compare_sort_keys;
use shardlake_account::{ContainerHandle, FeedScope, QueryRequest, QueryWants, Value};
use shardlake_document::compare;
use shardlake_model::{ContainerDefinition, PartitionKeyDefinition};
use shardlake_storage::{Shard, ShardOptions};

/// A write: the key, the id, and the members, or none to delete.
type Write = (u8, u8, Option<String>);

struct World {
    fixture: Fixture,
    shard: Shard,
}

/// Name, throughput, policy; the first has no index.
fn containers(policy: &str) -> [(&'static str, u64, String); 4] {
    let all = format!(r#"{{"compositeIndexes":{COMPOSITES}}}"#);
    [
        ("bare", 400, r#"{"indexingMode":"none","automatic":false}"#.to_owned()),
        ("one", 400, all.clone()),
        ("five", 30_000, all),
        ("picky", 12_000, policy.to_owned()),
    ]
}

impl World {
    async fn new(policy: &str) -> World {
        let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
        let fixture = Fixture::over(shard.clone()).await;
        for (name, throughput, policy) in containers(policy) {
            let mut definition = ContainerDefinition::new(name, PartitionKeyDefinition::hash("/pk"));
            definition.indexing_policy = serde_json::from_str(&policy).expect("a policy");
            fixture.container_with(definition, throughput).await;
        }
        World { fixture, shard }
    }

    fn container(&self, name: &str) -> ContainerHandle {
        self.fixture.account.router().container("db", name).expect("there")
    }

    async fn write(&self, writes: &[Write]) {
        let account = &self.fixture.account;
        for name in ["bare", "one", "five", "picky"] {
            let container = self.container(name);
            for (key, id, members) in writes {
                let (ctx, id) = (self.fixture.ctx(), format!("i{id}"));
                match members {
                    Some(members) => {
                        let body = format!(r#"{{"id":"{id}","pk":"k{key}"{members}}}"#);
                        account
                            .upsert_item(&ctx, &container, None, body.as_bytes(), &none())
                            .await
                            .expect("written");
                    }
                    None => {
                        let key = format!(r#"["k{key}"]"#);
                        let _ =
                            account.delete_item(&ctx, &container, Some(KeyInput(&key)), &id, &none()).await;
                    }
                }
            }
        }
    }

    /// All rows, with the account opened anew before each page.
    async fn answer_through_restarts(&mut self, name: &str, text: &str, page: i64) -> Vec<Value> {
        let (mut rows, mut token) = (vec![], None::<String>);
        loop {
            self.fixture = Fixture::over(self.shard.clone()).await;
            let reply = self.fixture.page(&self.container(name), text, page, token.as_deref()).await;
            let reply = reply.expect("answered before, too");
            rows.extend(reply.rows.iter().map(parse));
            token = reply.continuation;
            if token.is_none() {
                return rows;
            }
        }
    }

    async fn check(&self, query: &RandomQuery, page: i64) -> Result<(), TestCaseError> {
        let text = query.text();
        // A query that fails on some item fails everywhere, or nowhere that reads less.
        let Ok(bare) = self.fixture.answer(&self.container("bare"), &query.bare().text(), 1000).await else {
            return Ok(());
        };
        let expected = Expected::new(query, bare.rows);
        for name in ["one", "five", "picky"] {
            let container = self.container(name);
            let whole = match self.fixture.answer(&container, &text, 1000).await {
                Ok(whole) => whole,
                Err(error) if name == "picky" && is_refused_order(&error.to_string()) => continue,
                Err(error) => return Err(TestCaseError::fail(format!("{text} in {name}: {error}"))),
            };
            expected.check(&whole.rows, &format!("{text} in {name}"))?;
            let paged = self.fixture.answer(&container, &text, page).await.expect("answered at once, too");
            expected.check(&paged.rows, &format!("{text} in {name}, pages of {page}"))?;
            prop_assert_eq!(
                paged.work_centi(),
                whole.work_centi(),
                "{} in {}, pages of {}",
                text,
                name,
                page
            );
            let merged = self.fixture.merged(&container, &text, page as usize).await;
            let merged =
                merged.map_err(|error| TestCaseError::fail(format!("{text} merged in {name}: {error}")))?;
            expected.check(&merged, &format!("{text} merged in {name}, pages of {page}"))?;
            self.check_explained(&container, &text, page).await?;
            Box::pin(self.check_scopes(&container, query, page)).await?;
        }
        Ok(())
    }

    /// A logical partition, and a span of the hash space that cuts through partitions.
    async fn check_scopes(
        &self,
        container: &ContainerHandle,
        query: &RandomQuery,
        page: i64,
    ) -> Result<(), TestCaseError> {
        let span = FeedScope::Range { range_id: None, epk: Some(("08".into(), "35".into())) };
        for scope in [key_scope(r#"["k1"]"#), span.clone()] {
            let bare =
                self.fixture.answer_of(&self.container("bare"), &scope, &query.bare().text(), 1000).await;
            let expected = Expected::new(query, bare.expect("answered for all").rows);
            let found = self.fixture.answer_of(container, &scope, &query.text(), page).await;
            let context = format!("{} in {scope:?}, pages of {page}", query.text());
            expected.check(&found.expect("answered for all").rows, &context)?;
        }
        if let [(_, descending), ..] = query.order_by[..] {
            self.check_ties(container, &FeedScope::All, &query.text(), descending).await?;
            self.check_ties(container, &span, &query.text(), descending).await?;
        }
        Ok(())
    }

    /// Clients continue after a row by its sort keys and its `_rid`: rows of equal keys must be in
    /// the order of `_rid`, descending where the first key is.
    async fn check_ties(
        &self,
        container: &ContainerHandle,
        within: &FeedScope,
        text: &str,
        descending: bool,
    ) -> Result<(), TestCaseError> {
        let ctx = self.fixture.ctx();
        let plan =
            self.fixture.account.queries().query_plan(&ctx, container, text, &[], &SupportedFeatures::all());
        let Some(rewritten) = plan.expect("answered before").plan.info.rewritten_query else {
            // No item can match, so that there is nothing to merge.
            let rows =
                self.fixture.answer_of(container, within, text, 3).await.expect("answered before").rows;
            prop_assert!(rows.is_empty(), "{text} is not merged\n{}", shown(&rows));
            return Ok(());
        };
        for range in container.partition_key_ranges() {
            let epk = match within {
                FeedScope::Range { epk, .. } => epk.clone(),
                _ => None,
            };
            let scope = FeedScope::Range { range_id: Some(range.id), epk };
            for filter in ["true", "IS_DEFINED(c.id)"] {
                let text = rewritten.replace("{documentdb-formattableorderbyquery-filter}", filter);
                let rows =
                    self.fixture.answer_of(container, &scope, &text, 3).await.expect("answered before").rows;
                for pair in rows.windows(2) {
                    let (left, right) = (ordinal(&pair[0]), ordinal(&pair[1]));
                    let is_tie = pair[0].get("orderByItems") == pair[1].get("orderByItems");
                    let is_in_order = if descending { left >= right } else { left <= right };
                    prop_assert!(!is_tie || is_in_order, "{text} in {scope:?}\n{}", shown(&rows));
                }
            }
        }
        Ok(())
    }

    /// Explaining a query does not change its execution.
    async fn check_explained(
        &self,
        container: &ContainerHandle,
        text: &str,
        page: i64,
    ) -> Result<(), TestCaseError> {
        let wants = QueryWants {
            explanation: true,
            utilization: true,
            advice: true,
            figures: true,
            any_order: false,
        };
        let request = QueryRequest { wants, ..request(text, page, None) };
        let explained = self.fixture.account.queries().query(&self.fixture.ctx(), container, request).await;
        let explained = explained.expect("answered without words, too");
        let plain = self.fixture.page(container, text, page, None).await.expect("answered");
        prop_assert_eq!(explained.rows, plain.rows, "{}", text);
        prop_assert_eq!(explained.continuation, plain.continuation, "{}", text);
        prop_assert_eq!(explained.meta.charge_centi, plain.meta.charge_centi, "{}", text);
        Ok(())
    }
}

/// The policy does not index the order's paths.
fn is_refused_order(error: &str) -> bool {
    error.contains("order-by item is excluded")
        || error.contains("does not have a corresponding composite index")
}

/// Expected result.
struct Expected {
    /// All rows that are not cut off.
    rows: Vec<Value>,
    /// The keys of the rows that are left, in order; empty without `ORDER BY`.
    keys: Vec<Vec<Value>>,
    count: usize,
    descending: Vec<bool>,
}

impl Expected {
    fn new(query: &RandomQuery, mut rows: Vec<Value>) -> Expected {
        let (offset, limit) = (query.offset as usize, query.limit.map_or(usize::MAX, |limit| limit as usize));
        let count = rows.len().saturating_sub(offset).min(limit);
        let descending: Vec<bool> = query.order_by.iter().map(|(_, down)| *down).collect();
        let mut keys: Vec<Vec<Value>> = vec![];
        if !descending.is_empty() {
            keys = rows.iter().map(|row| keys_of(row, descending.len())).collect();
            keys.sort_by(|left, right| order_of(left, right, &descending));
            keys = keys.into_iter().skip(offset).take(limit).collect();
        }
        rows.sort_by(compare);
        Expected { rows, keys, count, descending }
    }

    fn check(&self, found: &[Value], context: &str) -> Result<(), TestCaseError> {
        prop_assert_eq!(
            found.len(),
            self.count,
            "{}\nfound {}\nof    {}",
            context,
            shown(found),
            shown(&self.rows)
        );
        for (row, expected) in found.iter().zip(&self.keys) {
            let keys = keys_of(row, self.descending.len());
            let is_same = order_of(&keys, expected, &self.descending).is_eq();
            prop_assert!(is_same, "{}\nfound {}\nwhere the keys are {:?}", context, shown(found), self.keys);
        }
        let mut left = self.rows.iter().peekable();
        let mut sorted: Vec<&Value> = found.iter().collect();
        sorted.sort_by(|left, right| compare(left, right));
        for row in sorted {
            while left.next_if(|other| compare(other, row).is_lt()).is_some() {}
            let is_there = left.next_if(|other| compare(other, row).is_eq()).is_some();
            prop_assert!(is_there, "{}\nfound {}\nof    {}", context, shown(found), shown(&self.rows));
        }
        Ok(())
    }
}

/// The number of an item in its partition, from the `_rid` of a row for a merge.
fn ordinal(row: &Value) -> u64 {
    let rid = row.get("_rid").and_then(Value::as_str).expect("rows name their item");
    let bytes = STANDARD.decode(rid.replace('-', "/")).expect("base64");
    u64::from_le_bytes(bytes[8..].try_into().expect("8 bytes"))
}

fn keys_of(row: &Value, count: usize) -> Vec<Value> {
    (0..count).map(|at| row.get(&format!("k{at}")).cloned().unwrap_or_default()).collect()
}

fn order_of(left: &[Value], right: &[Value], descending: &[bool]) -> Ordering {
    let pairs = left.iter().zip(right).zip(descending);
    let orders = pairs.map(|((left, right), down)| {
        let order = compare_sort_keys(left, right);
        if *down { order.reverse() } else { order }
    });
    orders.into_iter().fold(Ordering::Equal, Ordering::then)
}

fn writes(count: usize) -> impl Strategy<Value = Vec<Write>> {
    prop::collection::vec((0u8..4, 0u8..10, prop::option::weighted(0.8, members())), 1..count)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_but_the_items_shows_in_answers(
        rounds in prop::collection::vec((writes(25), prop::collection::vec(query(), 1..8)), 1..3),
        policy in policy(),
        page in prop::sample::select(vec![1i64, 2, 3, 7]),
        restarts in prop::bool::weighted(0.2),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut world = World::new(&policy).await;
            for (writes, queries) in &rounds {
                world.write(writes).await;
                for query in queries {
                    Box::pin(world.check(query, page)).await?;
                }
            }
            let query = &rounds[0].1[0];
            let five = world.fixture.answer(&world.container("five"), &query.text(), page).await;
            if let (true, Ok(expected)) = (restarts, five) {
                let rows = world.answer_through_restarts("five", &query.text(), page).await;
                prop_assert_eq!(shown(&rows), shown(&expected.rows), "{} through restarts", query.text());
            }
            Ok(())
        })?;
    }
}

/// Clients that merge continue with another condition, and so perhaps with another access to the
/// items, in the middle of an item's rows.
#[tokio::test]
async fn rows_of_an_item_keep_their_order_whether_sorted_or_not() {
    let world = World::new("{}").await;
    world
        .write(&[
            (0, 0, Some(r#","n":1,"tags":[1,2,3]"#.into())),
            (0, 1, Some(r#","n":1,"tags":[4,5]"#.into())),
        ])
        .await;
    let one = world.container("one");
    for filter in
        ["", " WHERE c.n = 1", " WHERE c.id < 'x'", " WHERE c.id IN ('i0', 'i1') AND c.missing != 1"]
    {
        for (order, expected) in
            [("c.n", "1 2 3 4 5"), ("c.n DESC", "4 5 1 2 3"), ("c.b", "1 2 3 4 5"), ("c.b DESC", "4 5 1 2 3")]
        {
            let text = format!("SELECT VALUE t FROM c JOIN t IN c.tags{filter} ORDER BY {order}");
            let rows = world.fixture.answer(&one, &text, 2).await.expect("answered").rows;
            let expected = if filter.contains("!=") { "" } else { expected };
            assert_eq!(shown(&rows), expected, "{text}");
        }
    }
}
