//! Measures groups: a million changes, half of them deletions, with doubles of mixed size and values that are no
//! numbers; then all rows are compared with the items.
//!
//! `cargo run --release -p shardlake-copies --example groups -- [CHANGES]`. Everything is in memory. It fails if a row
//! differs, and asserts nothing about speed.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shardlake_account::FeedScope;
use shardlake_account_fixture::json_door::{JsonDoor, KeyInput};
use shardlake_account_fixture::{Fixture, json as json_of, none};
use shardlake_model::{ContainerDefinition, PartitionKeyDefinition, SecondaryIndexDefinition, Throughput};
use shardlake_stdx::{Clock, Random};

const CUSTOMERS: u64 = 200;
const ITEMS_OF_CUSTOMER: u64 = 500;
const DEFINITION: &str = "SELECT c.pk, 'all' AS board, COUNT(1) AS n, SUM(c.x) AS sum, MIN(c.x) AS low, \
                          MAX(c.x) AS high FROM c GROUP BY c.pk";

fn value(random: &Random) -> Value {
    if random.below(2_000) == 0 {
        return json!("no number");
    }
    match random.below(200) {
        0..=20 => json!([1e300, -1e300, 1e-300, 0.1, 1e16][random.below(5) as usize]),
        21..=80 => json!(random.below(2_000_000) as f64 / 100.0 - 10_000.0),
        _ => json!(random.below(2_000) as i64 - 1_000),
    }
}

/// The sum of doubles in units of 2^-1074, as decimal-free limbs of 32 bits: an accumulator of its own.
#[derive(Clone)]
struct Wide(Vec<i64>);

impl Wide {
    fn add(&mut self, number: f64) {
        let bits = number.to_bits();
        let exponent = (bits >> 52 & 0x7FF) as usize;
        let fraction = bits & ((1 << 52) - 1);
        let (mantissa, shift) =
            if exponent == 0 { (fraction, 0) } else { (fraction | 1 << 52, exponent - 1) };
        let wide = u128::from(mantissa) << (shift % 32);
        for part in 0..4 {
            let limb = (wide >> (32 * part) & 0xFFFF_FFFF) as i64;
            self.0[shift / 32 + part as usize] += if number < 0.0 { -limb } else { limb };
        }
    }

    /// Whether a double is as near to the sum as any: twice the difference is at most the gap to its neighbours.
    fn is_rounded_to(&self, number: f64) -> bool {
        let distance = |other: f64| {
            let mut rest = self.clone();
            rest.add(-other);
            rest.magnitude()
        };
        let own = distance(number);
        own <= distance(number.next_up()) && own <= distance(number.next_down())
    }

    /// Limbs of the magnitude, the highest first.
    fn magnitude(&self) -> Vec<i64> {
        let carried = |limbs: &[i64]| {
            let (mut out, mut carry) = (Vec::with_capacity(limbs.len()), 0_i64);
            for limb in limbs {
                let sum = limb + carry;
                out.push(sum & 0xFFFF_FFFF);
                carry = sum >> 32;
            }
            (out, carry)
        };
        let (mut limbs, carry) = carried(&self.0);
        if carry < 0 {
            let negated: Vec<i64> = self.0.iter().map(|limb| -limb).collect();
            limbs = carried(&negated).0;
        }
        limbs.reverse();
        limbs
    }
}

#[tokio::main]
async fn main() {
    let changes: u64 = std::env::args().nth(1).map_or(1_000_000, |text| text.parse().expect("a number"));
    let (fixture, random, clock) = (Fixture::new().await, Random::seeded(12), Clock::System);
    let source = ContainerDefinition::new("source", PartitionKeyDefinition::hash("/pk"));
    let source = fixture.container_with(source, 1_000_000).await;
    let index = SecondaryIndexDefinition {
        source_collection_id: "source".into(),
        source_collection_rid: None,
        definition: DEFINITION.into(),
        shardlake: Default::default(),
    };
    let container = ContainerDefinition::new("board", PartitionKeyDefinition::hash("/board"));
    let (account, throughput) = (&fixture.account, Some(Throughput::Manual(1_000_000)));
    let definitions = account.definitions();
    definitions
        .create_secondary_index(&fixture.ctx(), "db", container, index, throughput)
        .await
        .expect("created");
    let mut items: BTreeMap<(u64, u64), Value> = BTreeMap::new();
    let (begun, mut deleted) = (clock.elapsed(), 0);
    for number in 0..changes {
        let (pk, id) = (random.below(CUSTOMERS), random.below(ITEMS_OF_CUSTOMER));
        let (customer, name) = (format!("p{pk}"), id.to_string());
        // Budgets live by this clock.
        fixture.clock.advance(std::time::Duration::from_micros(500));
        match items.remove(&(pk, id)) {
            Some(_) if random.below(100) < 98 => {
                let key = json!([customer]).to_string();
                let gone =
                    account.delete_item(&fixture.ctx(), &source, Some(KeyInput(&key)), &name, &none()).await;
                gone.expect("deleted");
                deleted += 1;
            }
            _ => {
                let x = value(&random);
                let item = json!({ "id": name, "pk": customer, "x": x }).to_string();
                let put = account.upsert_item(&fixture.ctx(), &source, None, item.as_bytes(), &none()).await;
                put.expect("written");
                items.insert((pk, id), x);
            }
        }
        if number % 100_000 == 0 {
            println!("{number} changes, {:?}", clock.elapsed() - begun);
        }
    }
    let written = clock.elapsed();
    println!("{changes} changes, {deleted} of them deletions, in {:?}", written - begun);
    loop {
        fixture.clock.advance(std::time::Duration::from_millis(10));
        let report = account.copies().index("db", "board").await.expect("there");
        if report.state == "Active" && report.lag.changes == 0 {
            println!(
                "level {:?} later: {} rows written, {} deleted",
                clock.elapsed() - written,
                report.written,
                report.deleted
            );
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let index = account.router().container("db", "board").expect("there");
    let page = account.items().read_feed(&fixture.ctx(), &index, FeedScope::All, Some(-1), None).await;
    let rows: Vec<Value> = page.expect("read").items.iter().map(json_of).collect();
    compare(&items, &rows);
    println!("{} rows are those of {} items", rows.len(), items.len());
}

fn compare(items: &BTreeMap<(u64, u64), Value>, rows: &[Value]) {
    let mut groups: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for ((pk, _), x) in items {
        groups.entry(format!("p{pk}")).or_default().push(x);
    }
    assert_eq!(groups.len(), rows.len());
    let mut poisoned = 0;
    for row in rows {
        let values = &groups[row["pk"].as_str().expect("a text")];
        assert_eq!(row["n"], values.len(), "{row}");
        let numbers: Vec<f64> = values.iter().filter_map(|value| value.as_f64()).collect();
        let texts = values.iter().filter(|value| value.is_string()).count();
        let low = numbers.iter().copied().reduce(f64::min);
        assert_eq!(row["low"].as_f64(), low, "{row}");
        match texts {
            0 => {
                let mut sum = Wide(vec![0; 70]);
                numbers.iter().for_each(|number| sum.add(*number));
                assert!(sum.is_rounded_to(row["sum"].as_f64().expect("a number")), "{row}");
                assert_eq!(row["high"].as_f64(), numbers.iter().copied().reduce(f64::max), "{row}");
            }
            _ => {
                poisoned += 1;
                assert_eq!((row.get("sum"), row["high"].as_str()), (None, Some("no number")), "{row}");
            }
        }
    }
    println!("{poisoned} groups have values that are no numbers");
}
