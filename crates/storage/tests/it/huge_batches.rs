//! Batches of very many rows, which a memtable of the local engine keeps as they come.

use std::collections::BTreeMap;

use shardlake_stdx::Random;
use shardlake_storage::{Batch, Durability, ScanOptions, Shard, ShardOptions, View};

/// Beyond the batches whose rows enter the memtable one by one.
const ROWS: u32 = 12_000;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(number: u32) -> Vec<u8> {
    [&[0, 0, 0, 1][..], &number.to_be_bytes()].concat()
}

/// Commits to the shard and to the model: each row is put or deleted by chance.
async fn commit(shard: &Shard, model: &mut Model, numbers: impl Iterator<Item = u32>, random: &Random) {
    let mut batch = Batch::new();
    for number in numbers {
        let key = key(number);
        if random.below(3) == 0 {
            model.remove(&key);
            batch.delete(key);
        } else {
            let value = random.below(1_000).to_be_bytes().to_vec();
            model.insert(key.clone(), value.clone());
            batch.put(key, value);
        }
    }
    shard.commit(batch).expect("room").await.expect("commits");
}

async fn rows(view: &View, from: u32, to: u32, reverse: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut scan = view.scan(key(from)..key(to), ScanOptions { reverse, ..ScanOptions::default() });
    let mut rows = Vec::new();
    while let Some(chunk) = scan.next_chunk().await.expect("scans") {
        rows.extend(chunk.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
    }
    rows
}

async fn is_model(view: &View, model: &Model, random: &Random) {
    for _ in 0..200 {
        let key = key(random.below(u64::from(ROWS)) as u32);
        assert_eq!(view.get(&key).await.expect("reads").as_deref(), model.get(&key).map(|value| &value[..]));
    }
    for _ in 0..10 {
        let from = random.below(u64::from(ROWS)) as u32;
        let to = from + random.below(500) as u32;
        let mut expected: Vec<_> =
            model.range(key(from)..key(to)).map(|(key, value)| (key.clone(), value.clone())).collect();
        assert_eq!(rows(view, from, to, false).await, expected);
        expected.reverse();
        assert_eq!(rows(view, from, to, true).await, expected);
    }
    assert_eq!(rows(view, 0, u32::MAX, false).await.len(), model.len());
}

#[tokio::test]
async fn huge_batches_are_read_like_small_ones() {
    let directory = tempfile::tempdir().expect("a directory");
    let options =
        ShardOptions { durability: Durability::Async, ..ShardOptions::local(directory.path().join("shard")) };
    let (random, mut model) = (Random::seeded(35), Model::new());
    let mut shard = Shard::open(options.clone()).await.expect("opens");
    // More batches than a memtable keeps so, with small ones between them.
    for round in 0..18 {
        let before = (shard.view(), model.clone());
        commit(&shard, &mut model, 0..ROWS, &random).await;
        let few: Vec<u32> = (0..50).map(|_| random.below(u64::from(ROWS)) as u32).collect();
        commit(&shard, &mut model, few.into_iter(), &random).await;
        if round % 5 == 0 {
            is_model(&shard.view(), &model, &random).await;
            is_model(&before.0, &before.1, &random).await;
        }
        if round == 7 {
            shard.flush().await.expect("flushes");
        }
        if round == 12 {
            drop((before, shard));
            shard = Shard::open(options.clone()).await.expect("opens again");
            is_model(&shard.view(), &model, &random).await;
        }
    }
    is_model(&shard.view(), &model, &random).await;
}
