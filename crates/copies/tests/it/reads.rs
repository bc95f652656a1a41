//! Reads that ask for their own writes find them, while partitions of the source and of the index split and merge.

use std::cell::Cell;
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use shardlake_account::{AtLeast, FeedScope, SplitAt};
use shardlake_model::{ErrorKind, KeyComponent, PartitionKey, ReplyMeta, SessionEntry, SessionToken};
use shardlake_stdx::Random;

use crate::indexes::seeds;
use crate::store::Store;
use crate::support::json_door::JsonDoor;
use crate::support::{Fixture, json as json_of, none, some_time};

const WRITERS: u64 = 8;

fn token(meta: &ReplyMeta) -> SessionToken {
    let range_id = meta.range_id.expect("a write is answered by a range");
    SessionToken {
        entries: vec![SessionEntry { range_id, version: meta.session_version, lsn: meta.lsn as i64 }],
    }
}

/// Joins tokens as clients do: one entry of each range.
fn join(session: &mut SessionToken, new: SessionToken) {
    for entry in new.entries {
        match session.entries.iter_mut().find(|known| known.range_id == entry.range_id) {
            Some(known) => known.lsn = known.lsn.max(entry.lsn),
            None => session.entries.push(entry),
        }
    }
}

/// Writes items of its own, and reads each from the index.
async fn writer(store: &Store<'_>, (seed, number): (u64, u64), writes: u64) -> u64 {
    let random = Random::seeded(seed * 100 + number);
    let (mut session, mut found) = (SessionToken { entries: Vec::new() }, 0);
    for n in 0..writes {
        let id = format!("{number}-{}", random.below(3));
        let (pk, k) = (format!("p{}", random.below(6)), format!("k{}", random.below(9)));
        let item = json!({ "id": id, "pk": pk, "k": k, "n": n });
        let account = &store.fixture.account;
        let written = loop {
            store.fixture.clock.advance(Duration::from_millis(2));
            let source = store.container("source");
            let context = store.fixture.ctx();
            let written =
                account.upsert_item(&context, &source, None, item.to_string().as_bytes(), &none()).await;
            match written {
                Ok(written) => break written,
                Err(error) if error.kind() == ErrorKind::TooManyRequests => {}
                Err(error) => panic!("seed {seed}: {error}"),
            }
        };
        join(&mut session, token(&written.meta));
        let at_least = match random.below(3) {
            0 => AtLeast::Now,
            1 => AtLeast::Session(session.clone()),
            _ => AtLeast::Session(token(&written.meta)),
        };
        level(store, at_least, seed).await;
        let row = rows(store, &k).await.into_iter().find(|row| row["_id"] == id && row["n"] == n);
        assert!(row.is_some(), "seed {seed}: {item} is not in the index");
        found += 1;
    }
    found
}

/// Waits for the index; on a busy machine more than once.
async fn level(store: &Store<'_>, at_least: AtLeast, seed: u64) {
    for _ in 0..100 {
        store.fixture.clock.advance(Duration::from_millis(2));
        let (context, index) = (store.fixture.ctx(), store.container("by_k"));
        match store.fixture.account.wait_for_index(&context, &index, Some(at_least.clone())).await {
            Ok(_) => return,
            Err(error) if error.kind() == ErrorKind::Timeout => {}
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    panic!("seed {seed}: the index does not become level: {:#?}", store.report("by_k").await);
}

async fn rows(store: &Store<'_>, k: &str) -> Vec<serde_json::Value> {
    let scope = || FeedScope::Key(PartitionKey(vec![KeyComponent::String(k.to_owned())]));
    let (mut rows, mut next) = (Vec::new(), None);
    loop {
        let (context, index) = (store.fixture.ctx(), store.container("by_k"));
        let items = store.fixture.account.items();
        let page = items.read_feed(&context, &index, scope(), Some(-1), next.as_deref()).await;
        let page = match page {
            Err(error) if error.kind() == ErrorKind::TooManyRequests => {
                store.fixture.clock.advance(Duration::from_millis(10));
                continue;
            }
            page => page.expect("read"),
        };
        rows.extend(page.items.iter().map(json_of));
        next = page.continuation;
        if next.is_none() {
            return rows;
        }
    }
}

async fn relocate(store: &Store<'_>, container: &str) {
    let account = &store.fixture.account;
    let handle = store.container(container);
    let ids: Vec<u32> = handle.partition_key_ranges().iter().map(|range| range.id).collect();
    let ticket = match ids.as_slice() {
        [one] => account.maintenance().split(&handle, *one, SplitAt::Middle).await,
        several => account.maintenance().merge(&handle, several).await,
    };
    if let Ok(ticket) = ticket {
        let _outcome = ticket.finished().await;
    }
}

async fn storm(seed: u64, writes: u64) -> u64 {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, None, 8000).await;
    store.index("source", "by_k", "/k", "SELECT c.k, c.n FROM c").await;
    let left = Cell::new(WRITERS);
    let motion = async {
        let random = Random::seeded(seed);
        while left.get() > 0 {
            relocate(&store, ["source", "by_k"][random.below(2) as usize]).await;
            some_time(&random, 10).await;
        }
    };
    let writers = (0..WRITERS).map(|number| {
        let (store, left) = (&store, &left);
        async move {
            let found = writer(store, (seed, number), writes).await;
            left.set(left.get() - 1);
            found
        }
    });
    let (found, ()) = tokio::join!(join_all(writers.collect::<Vec<_>>()), motion);
    store.settled().await;
    store.check("source", "by_k").await;
    found.iter().sum()
}

#[tokio::test]
async fn reads_find_their_own_writes_through_splits_and_merges() {
    for seed in seeds(2) {
        assert_eq!(storm(seed, 60).await, WRITERS * 60);
    }
}

#[tokio::test]
async fn reads_wait_while_an_index_is_built() {
    let fixture = Fixture::new().await;
    let store = Store::new(&fixture, None, 100_000).await;
    for number in 0..300 {
        store.put(&format!("p{}", number % 9), &number.to_string(), &format!("k{}", number % 40)).await;
    }
    for rebuild in [false, true] {
        match rebuild {
            false => store.index("source", "by_k", "/k", "SELECT c.k, c.n FROM c").await,
            true => {
                store.delete("p0", "0").await.expect("deleted");
                fixture.account.copies().rebuild("db", "by_k").await.expect("begun");
            }
        }
        level(&store, AtLeast::Now, 0).await;
        store.check("source", "by_k").await;
    }
}
