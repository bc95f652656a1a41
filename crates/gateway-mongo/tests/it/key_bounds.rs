//! `min` and `max` of a find: keys of the hinted index from the one on and before the other.

use std::cmp::Ordering;

use bson::{Bson, doc};
use shardlake_mql::Document;

use crate::client::{Client, Server, first_batch, of};

fn ids(reply: &Document) -> Vec<i32> {
    first_batch(reply).iter().filter_map(|found| found.value("_id").to_i32_exact()).collect()
}

fn find(hint: impl Into<Bson>, bounds: bson::Document) -> Document {
    let mut command = doc! { "find": "c", "hint": hint.into() };
    command.extend(bounds);
    of(&command)
}

/// A server with 60 documents: `a` is a number, a list of two, or missing, and `b` is a number.
async fn filled() -> (Server, Client) {
    let server = Server::start().await;
    let mut client = server.connect();
    let document = |n: i32| {
        let mut document = doc! { "_id": n, "b": (n * 7) % 5 };
        match n % 6 {
            0 => None,
            1 => document.insert("a", vec![n % 5, (n + 2) % 5]),
            _ => document.insert("a", n % 5),
        };
        document
    };
    let documents: Vec<_> = (0..60).map(document).collect();
    client.ok("d", of(&doc! { "insert": "c", "documents": documents })).await;
    let indexes = [
        doc! { "key": { "a": 1, "b": -1 }, "name": "ab" },
        doc! { "key": { "b": 1 }, "name": "b" },
        doc! { "key": { "$**": 1 }, "name": "all" },
    ];
    client.ok("d", of(&doc! { "createIndexes": "c", "indexes": indexes })).await;
    (server, client)
}

/// The keys of a document in the index of `a` and, descending, `b`; a missing value is below all numbers.
fn keys(n: i32) -> Vec<(i32, i32)> {
    let b = -((n * 7) % 5);
    match n % 6 {
        0 => vec![(-1, b)],
        1 => vec![(n % 5, b), ((n + 2) % 5, b)],
        _ => vec![(n % 5, b)],
    }
}

#[tokio::test]
async fn documents_are_found_whose_keys_are_within_the_bounds() {
    let (_server, mut client) = filled().await;
    for least in [None, Some((0, 3)), Some((1, 0)), Some((2, 2))] {
        for beyond in [None, Some((2, 1)), Some((3, 1)), Some((9, 0))] {
            let mut bounds = doc! { "sort": { "_id": 1 }, "batchSize": 100 };
            for (name, bound) in [("min", least), ("max", beyond)] {
                if let Some((a, b)) = bound {
                    bounds.insert(name, doc! { "a": a, "b": b });
                }
            }
            let within = |n: &i32| {
                keys(*n).into_iter().any(|key| {
                    let order = |(a, b): (i32, i32)| key.cmp(&(a, -b));
                    least.is_none_or(|least| order(least) != Ordering::Less)
                        && beyond.is_none_or(|beyond| order(beyond) == Ordering::Less)
                })
            };
            let wanted: Vec<i32> = (0..60).filter(within).collect();
            for hint in [Bson::from("ab"), Bson::from(doc! { "a": 1, "b": -1 })] {
                let reply = client.ok("d", find(hint, bounds.clone())).await;
                assert_eq!(ids(&reply), wanted, "{bounds}");
            }
        }
    }
}

#[tokio::test]
async fn bounds_go_with_filters_limits_and_the_order_of_the_index() {
    let (_server, mut client) = filled().await;
    let reply = client.ok("d", find("b", doc! { "min": { "b": 3 }, "batchSize": 100 })).await;
    let values: Vec<i32> =
        first_batch(&reply).iter().filter_map(|found| found.value("b").to_i32_exact()).collect();
    assert_eq!(values.len(), 24);
    assert!(values.is_sorted(), "without a sort in the order of the index: {values:?}");
    let bounds =
        doc! { "min": { "b": 3 }, "filter": { "_id": { "$lt": 20 } }, "sort": { "_id": 1 }, "limit": 3 };
    assert_eq!(ids(&client.ok("d", find("b", bounds)).await), [2, 4, 7]);
    let one = doc! { "min": { "b": 3 }, "filter": { "_id": 2 } };
    assert_eq!(ids(&client.ok("d", find("b", one)).await), [2]);
    let other = doc! { "max": { "b": 3 }, "filter": { "_id": 2 } };
    assert_eq!(ids(&client.ok("d", find("b", other)).await), [0; 0]);
}

#[tokio::test]
async fn bounds_that_do_not_fit_the_index_are_refused() {
    let (_server, mut client) = filled().await;
    for (hint, bounds, code) in [
        (Bson::from("b"), doc! { "min": { "a": 1 } }, 51174),
        (Bson::from("ab"), doc! { "min": { "b": 1, "a": 1 } }, 51174),
        (Bson::from("ab"), doc! { "max": { "a": 1 } }, 51174),
        (Bson::from("all"), doc! { "max": { "a": 1 } }, 51174),
        (Bson::from(doc! { "$natural": 1 }), doc! { "max": { "a": 1 } }, 51174),
        (Bson::from("b"), doc! { "min": { "b": 3 }, "max": { "b": 3 } }, 51175),
        (Bson::from("b"), doc! { "min": { "b": 4 }, "max": { "b": 3 } }, 51175),
        (Bson::from("none"), doc! { "min": { "b": 4 } }, 2),
    ] {
        assert_eq!(client.fails("d", find(hint, bounds.clone())).await, code, "{bounds}");
    }
    let without = of(&doc! { "find": "c", "min": { "b": 4 } });
    assert_eq!(client.fails("d", without).await, 51173);
}
