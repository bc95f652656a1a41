//! Queries over items that stay in memory have the same answers and costs as the first time.

use std::time::Duration;

use shardlake_account::{ContainerHandle, QueryStatistics};
use shardlake_model::{ContainerDefinition, PartitionKeyDefinition};
use shardlake_storage::{Shard, ShardOptions};

use crate::support::json_door::JsonDoor;
use crate::support::{Fixture, none};

/// Read, read and kept, checked in memory, taken out of their rows, and found there.
const TIMES: usize = 6;
const ITEMS: usize = 80;

/// Values of every kind.
const VALUES: [&str; 13] = [
    "1",
    "2",
    "2.0",
    "-0.0",
    "9007199254740993",
    "true",
    "null",
    "\"2\"",
    "\"\"",
    "\"a text that is longer than sixty-four bytes, so that comparing it has a price of its own\"",
    "[2]",
    "{\"n\":2}",
    "",
];

const CONDITIONS: [&str; 14] = [
    "true",
    "c.v = 2",
    "c.v != 2",
    "c.v >= '2'",
    "c.v + 0 = 2",
    "c.v = 'a text that is longer than sixty-four bytes, so that comparing it has a price of its own'",
    "c.v = null OR c.w > 40",
    "c.v = 2 AND c.w % 2 = 0",
    "NOT (c.w < 70)",
    "c.none = 1",
    "c.v = undefined",
    "c.v = [2]",
    "c.v.n = 2",
    "c._ts > 0 AND c.w = 3",
];

fn body(number: usize, value: &str) -> String {
    let value = if value.is_empty() { String::new() } else { format!(r#","v":{value}"#) };
    let ttl = if number % 10 == 9 { r#","ttl":60"# } else { "" };
    let padding = "x".repeat(1200);
    format!(r#"{{"id":"{number}","pk":"{}","pad":"{padding}","w":{number}{value}{ttl}}}"#, number % 2)
}

/// The pages of a query: their rows, their work, and their charges.
type Pages = Vec<(Vec<Vec<u8>>, QueryStatistics, u64)>;

async fn pages(fixture: &Fixture, container: &ContainerHandle, text: &str, page_size: i64) -> Pages {
    let (mut pages, mut token) = (Vec::new(), None::<String>);
    loop {
        let reply = fixture.page(container, text, page_size, token.as_deref()).await.expect("answered");
        let rows: Vec<Vec<u8>> = reply.rows.iter().map(<[u8]>::to_vec).collect();
        pages.push((rows, reply.statistics, reply.meta.charge_centi));
        token = reply.continuation;
        if token.is_none() {
            return pages;
        }
    }
}

/// The same items twice: with ranges kept in memory, and without.
struct Both {
    kept: (Fixture, ContainerHandle),
    read: (Fixture, ContainerHandle),
}

impl Both {
    async fn new() -> Both {
        let container = async |cache_bytes| {
            let options = ShardOptions { cache_bytes, ..ShardOptions::memory() };
            let fixture = Fixture::over(Shard::open(options).await.expect("opens")).await;
            let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
            definition.default_ttl = Some(-1);
            let container = fixture.container_with(definition, 400).await;
            (fixture, container)
        };
        Both { kept: container(64 << 20).await, read: container(0).await }
    }

    async fn store(&self, number: usize, value: &str) {
        for (fixture, container) in [&self.kept, &self.read] {
            let (body, ctx) = (body(number, value), fixture.ctx());
            fixture
                .account
                .upsert_item(&ctx, container, None, body.as_bytes(), &none())
                .await
                .expect("stored");
        }
    }

    /// The numbers of the items, asked again and again, in one logical partition and in all.
    async fn ask(&self, condition: &str) -> Vec<String> {
        let mut rows = Vec::new();
        for scope in ["", " AND c.pk = '1'"] {
            let text = format!("SELECT VALUE c.id FROM c WHERE ({condition}){scope}");
            for page_size in [7, 1000] {
                let expected = pages(&self.read.0, &self.read.1, &text, page_size).await;
                for time in 0..TIMES {
                    let found = pages(&self.kept.0, &self.kept.1, &text, page_size).await;
                    assert_eq!(found, expected, "{text} in pages of {page_size}, time {time}");
                }
                rows = expected.into_iter().flat_map(|(rows, ..)| rows).collect();
            }
        }
        rows.iter().map(|row| String::from_utf8_lossy(row).trim_matches('"').to_owned()).collect()
    }
}

#[tokio::test]
async fn what_stays_in_memory_answers_and_costs_as_what_is_read() {
    let both = Both::new().await;
    for number in 0..ITEMS {
        both.store(number, VALUES[number % VALUES.len()]).await;
    }
    let mut found = Vec::new();
    for condition in CONDITIONS {
        found.push(both.ask(condition).await);
    }
    assert_eq!(found[0].len(), ITEMS / 2);
    assert!(
        found[1].iter().all(|number| [1, 2].contains(&(number.parse::<usize>().unwrap() % VALUES.len())))
    );
    assert!(!found[1].is_empty() && found[9].is_empty());
    // The next query sees a write.
    both.store(21, "2").await;
    let after = both.ask(CONDITIONS[1]).await;
    assert_eq!(after.len(), found[1].len() + 1, "{after:?}");
    // Expired items are not seen, although they stay where they are.
    for (fixture, _) in [&both.kept, &both.read] {
        fixture.clock.advance(Duration::from_secs(100));
    }
    let left = both.ask("true").await;
    assert_eq!(left.len(), ITEMS / 2 - ITEMS / 10);
}
