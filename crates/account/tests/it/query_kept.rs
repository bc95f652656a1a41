//! Queries over items that stay in memory answer and cost what they did the first time.

use std::time::Duration;

use shardlake_account::ContainerHandle;
use shardlake_model::{ContainerDefinition, PartitionKeyDefinition};

use crate::support::json_door::JsonDoor;
use crate::support::{Fixture, none};

/// Read, read and kept, checked in memory, taken out of their rows, and found there.
const TIMES: usize = 6;
const ITEMS: usize = 80;

/// Of every kind, side by side.
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
    let padding = "x".repeat(300);
    format!(r#"{{"id":"{number}","pk":"{}","pad":"{padding}","w":{number}{value}{ttl}}}"#, number % 2)
}

async fn store(fixture: &Fixture, container: &ContainerHandle, number: usize, value: &str) {
    fixture
        .account
        .upsert_item(&fixture.ctx(), container, None, body(number, value).as_bytes(), &none())
        .await
        .expect("stored");
}

/// Asked again and again, in one logical partition and in all: the numbers of the items.
async fn ask(fixture: &Fixture, container: &ContainerHandle, condition: &str) -> Vec<String> {
    let mut numbers = Vec::new();
    for scope in ["", " AND c.pk = '1'"] {
        let text = format!("SELECT VALUE c.id FROM c WHERE ({condition}){scope}");
        let mut first = None;
        for time in 0..TIMES {
            for page_size in [1000, 7] {
                let (mut pages, mut token) = (Vec::new(), None::<String>);
                loop {
                    let reply =
                        fixture.page(container, &text, page_size, token.as_deref()).await.expect("answered");
                    let rows: Vec<Vec<u8>> = reply.rows.iter().map(<[u8]>::to_vec).collect();
                    pages.push((rows, reply.statistics, reply.meta.charge_centi));
                    token = reply.continuation;
                    if token.is_none() {
                        break;
                    }
                }
                let first: &mut Vec<Vec<_>> = first.get_or_insert_with(Vec::new);
                if time == 0 {
                    first.push(pages);
                } else {
                    assert_eq!(pages, first[usize::from(page_size == 7)], "{text}, time {time}");
                }
            }
        }
        let first = first.expect("asked");
        let of = |pages: &[(Vec<Vec<u8>>, _, _)]| {
            pages.iter().flat_map(|(rows, ..)| rows.clone()).collect::<Vec<_>>()
        };
        assert_eq!(of(&first[0]), of(&first[1]), "{text}");
        numbers = of(&first[0]);
    }
    numbers.iter().map(|row| String::from_utf8_lossy(row).trim_matches('"').to_owned()).collect()
}

#[tokio::test]
async fn what_stays_in_memory_answers_and_costs_as_what_is_read() {
    let fixture = Fixture::new().await;
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.default_ttl = Some(-1);
    let container = fixture.container_with(definition, 400).await;
    for number in 0..ITEMS {
        store(&fixture, &container, number, VALUES[number % VALUES.len()]).await;
    }
    let mut found = Vec::new();
    for condition in CONDITIONS {
        found.push(ask(&fixture, &container, condition).await);
    }
    assert_eq!(found[0].len(), ITEMS / 2);
    assert!(
        found[1].iter().all(|number| [1, 2].contains(&(number.parse::<usize>().unwrap() % VALUES.len())))
    );
    assert!(!found[1].is_empty() && found[9].is_empty());
    // What is written is seen by the next who asks, and no later.
    store(&fixture, &container, 21, "2").await;
    let after = ask(&fixture, &container, CONDITIONS[1]).await;
    assert_eq!(after.len(), found[1].len() + 1, "{after:?}");
    // What runs out is not, although it stays where it lies.
    fixture.clock.advance(Duration::from_secs(100));
    let left = ask(&fixture, &container, "true").await;
    assert_eq!(left.len(), ITEMS / 2 - ITEMS / 10);
}
