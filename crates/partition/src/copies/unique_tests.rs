//! Rows of a unique index against a model: after every commit the least row of each key has the key's name, in any order of work.

use std::collections::BTreeMap;

use proptest::prelude::*;
use shardlake_document::parse_item;
use shardlake_storage::{Shard, ShardOptions};

use crate::test_fixture::{Settings, TestContainer, block_on, identity};
use crate::{CopyBatch, CopyRow, Partition, RowStamp, duplicate_id, key_name};

const KEYS: [&str; 3] = ["ada", "bob", "a/b"];

fn container() -> TestContainer {
    TestContainer::new(&Settings { default_ttl: None, is_unique: false, retention: None })
}

fn stamp(item: u8, lsn: u64) -> RowStamp {
    RowStamp { lsn, source: [item; 4], generation: 1, number: 0 }
}

fn name(item: u8) -> String {
    format!("h{}", 9 - item)
}

fn row(container: &TestContainer, pk: &str, item: u8, lsn: u64) -> CopyRow {
    let id = name(item);
    let json = format!(r#"{{"id":"{id}","_id":"{item}","_row":"{id}","pk":"{pk}","v":{lsn}}}"#);
    let body = parse_item(json.as_bytes(), &Default::default()).expect("a body").as_bytes().to_vec();
    CopyRow { key: container.logical(pk), id, stamp: stamp(item, lsn), body: Some(body) }
}

fn end(container: &TestContainer, pk: &str, item: u8, lsn: u64) -> CopyRow {
    CopyRow { body: None, ..row(container, pk, item, lsn) }
}

/// Ids of rows, with the LSN of each.
async fn ids(container: &TestContainer, partition: &Partition) -> BTreeMap<(String, String), u64> {
    let items = container.items(partition).await;
    let of = |item: &crate::StoredItem| {
        let json: serde_json::Value = serde_json::from_slice(&item.json_text()).expect("JSON");
        let text = |name: &str| json[name].as_str().expect("a text").to_owned();
        let lsn = RowStamp::of_etag(item.etag()).lsn;
        assert_eq!(json["v"].as_u64(), Some(lsn), "a row is of one version");
        ((text("pk"), text("id")), lsn)
    };
    items.iter().map(of).collect()
}

async fn apply(container: &TestContainer, partition: &Partition, rows: Vec<CopyRow>) -> i64 {
    let batch = CopyBatch { copy: 7, rows };
    let reply =
        partition.apply_unique(&container.shape, &container.command(0), &batch).await.expect("applied");
    assert!(reply.reply.refused.is_empty(), "{reply:?}");
    reply.duplicates
}

#[tokio::test]
async fn the_least_item_has_the_name_of_its_key() {
    let (container, shard) = (container(), Shard::open(ShardOptions::memory()).await.expect("opens"));
    let partition = container.open(&shard, &identity(3)).await;
    let find = |rows: &[(&str, &str, u64)]| -> BTreeMap<(String, String), u64> {
        rows.iter().map(|(pk, id, lsn)| (((*pk).to_owned(), (*id).to_owned()), *lsn)).collect()
    };
    assert_eq!(apply(&container, &partition, vec![row(&container, "ada", 5, 1)]).await, 0);
    assert_eq!(ids(&container, &partition).await, find(&[("ada", "ada", 1)]));
    // A lower one takes the name, a higher one does not.
    assert_eq!(apply(&container, &partition, vec![row(&container, "ada", 3, 2)]).await, 1);
    assert_eq!(apply(&container, &partition, vec![row(&container, "ada", 7, 3)]).await, 1);
    let three = find(&[("ada", "ada", 2), ("ada", "ada~h2", 3), ("ada", "ada~h4", 1)]);
    assert_eq!(ids(&container, &partition).await, three);
    // Work that is repeated changes nothing.
    let again =
        vec![row(&container, "ada", 5, 1), row(&container, "ada", 3, 2), row(&container, "ada", 7, 3)];
    assert_eq!(apply(&container, &partition, again).await, 0);
    assert_eq!(ids(&container, &partition).await, three);
    // The name passes on in the commit that takes the holder away.
    let before = partition.durable_lsn();
    assert_eq!(apply(&container, &partition, vec![end(&container, "ada", 3, 2)]).await, -1);
    assert_eq!(partition.durable_lsn(), before + 1);
    assert_eq!(ids(&container, &partition).await, find(&[("ada", "ada", 1), ("ada", "ada~h2", 3)]));
    assert_eq!(apply(&container, &partition, vec![end(&container, "ada", 5, 1)]).await, -1);
    assert_eq!(apply(&container, &partition, vec![end(&container, "ada", 7, 3)]).await, 0);
    assert!(ids(&container, &partition).await.is_empty());
    // A key that is no name: rows have their own.
    let rows = vec![row(&container, "a/b", 1, 1), row(&container, "a/b", 2, 1)];
    assert_eq!(apply(&container, &partition, rows).await, 0);
    assert_eq!(ids(&container, &partition).await, find(&[("a/b", "h7", 1), ("a/b", "h8", 1)]));
}

/// The key that an item has, or its end.
type Write = (u8, Option<u8>);

async fn run(batches: Vec<Vec<Write>>) -> Result<(), TestCaseError> {
    let (container, shard) = (container(), Shard::open(ShardOptions::memory()).await.expect("opens"));
    let partition = container.open(&shard, &identity(3)).await;
    // Key and LSN of each row.
    let (mut model, mut lsn, mut duplicates) = (BTreeMap::<(usize, u8), u64>::new(), 0, 0);
    for batch in batches {
        lsn += 1;
        let mut rows: BTreeMap<(usize, u8), CopyRow> = BTreeMap::new();
        for (item, key) in batch {
            for (place, key_text) in KEYS.iter().enumerate() {
                let is_there = key.is_some_and(|key| usize::from(key) % KEYS.len() == place);
                match is_there {
                    true => {
                        rows.insert((place, item), row(&container, key_text, item, lsn));
                        model.insert((place, item), lsn);
                    }
                    false => {
                        rows.insert((place, item), end(&container, key_text, item, lsn));
                        model.remove(&(place, item));
                    }
                }
            }
        }
        let rows: Vec<CopyRow> = rows.into_values().collect();
        duplicates += apply(&container, &partition, rows.clone()).await;
        prop_assert_eq!(apply(&container, &partition, rows).await, 0, "repeated work changes nothing");
        let found = ids(&container, &partition).await;
        let mut expected = BTreeMap::new();
        for (place, key) in KEYS.iter().enumerate() {
            let of_key = model.iter().filter(|((at, _), _)| *at == place);
            for (rank, ((_, item), lsn)) in of_key.enumerate() {
                let id = match (key_name(&container.logical(key).partition_key), rank) {
                    (Some(text), 0) => text,
                    (Some(text), _) => duplicate_id(&text, &name(*item)),
                    (None, _) => name(*item),
                };
                expected.insert(((*key).to_owned(), id), *lsn);
            }
        }
        prop_assert_eq!(&found, &expected);
        let counted = found.keys().filter(|(_, id)| id.contains('~')).count();
        prop_assert_eq!(duplicates, counted as i64);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn names_follow_from_the_rows_alone(
        batches in prop::collection::vec(prop::collection::vec((0..6u8, prop::option::weighted(0.7, 0..3u8)), 1..6), 1..8)
    ) {
        block_on(run(batches))?;
    }
}
