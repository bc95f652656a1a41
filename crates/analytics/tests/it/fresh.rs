//! Whether tables have the writes that queries ask for: through pauses, splits, merges and rebuilds.

use shardlake_account::{AnalyticalSettings, SplitAt};
use shardlake_analytics::{AtLeast, Freshness, TableState, Wanted};
use shardlake_model::{ErrorKind, SessionToken};

use crate::support::{Fixture, eventually};

async fn put(fixture: &Fixture, number: u64) -> u64 {
    let json = format!(r#"{{"id":"i{number}","pk":"p{}","n":{number}}}"#, number % 7);
    fixture.upsert_at(&fixture.again(), &json).await
}

fn token(text: &str) -> AtLeast {
    AtLeast::Session(SessionToken::parse(text).expect("a token"))
}

fn wanted(fixture: &Fixture, at_least: &AtLeast) -> Wanted {
    fixture.analytics.wanted("db", "c", at_least).expect("it can be reached").expect("a container")
}

async fn freshness(fixture: &Fixture, wanted: &Wanted) -> Freshness {
    // A relocation may end a partition under a look.
    fixture.analytics.freshness(wanted).await.expect("it is compared")
}

async fn reached(fixture: &Fixture, wanted: &Wanted) {
    eventually("the table has the writes", async || match freshness(fixture, wanted).await {
        Freshness::Reached => Some(()),
        Freshness::Behind => None,
        Freshness::NotFollowing(state) => panic!("{state:?}"),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_table_has_earlier_writes_and_lacks_later_ones() {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    let version = container.session_version();
    let first = put(&fixture, 1).await;
    let before = wanted(&fixture, &token(&format!("0:{version}#{first}")));
    reached(&fixture, &before).await;
    let rid = container.container().rid;
    fixture.analytics.pause(rid, true).await.expect("paused");
    eventually("it is paused", async || (fixture.report().await.state == TableState::Paused).then_some(()))
        .await;
    let second = put(&fixture, 2).await;
    let after = wanted(&fixture, &token(&format!("0:{version}#{second}")));
    let now = wanted(&fixture, &AtLeast::Now);
    for lacking in [&after, &now] {
        assert_eq!(freshness(&fixture, lacking).await, Freshness::NotFollowing(TableState::Paused));
    }
    assert_eq!(freshness(&fixture, &before).await, Freshness::Reached);
    // A server that starts with a paused table knows its version, too.
    let fixture = fixture.restart().await;
    eventually("it is paused", async || (fixture.report().await.state == TableState::Paused).then_some(()))
        .await;
    assert_eq!(freshness(&fixture, &before).await, Freshness::Reached);
    assert_eq!(freshness(&fixture, &after).await, Freshness::NotFollowing(TableState::Paused));
    fixture.analytics.pause(rid, false).await.expect("resumed");
    reached(&fixture, &after).await;
    reached(&fixture, &now).await;
    let fixture = fixture.restart_unfollowed().await;
    let third = put(&fixture, 3).await;
    let later = wanted(&fixture, &token(&format!("0:{version}#{third}")));
    assert_eq!(freshness(&fixture, &later).await, Freshness::NotFollowing(TableState::Stopped));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_hold_through_splits_and_merges() {
    let fixture = Fixture::new().await;
    let version = fixture.container(400).await.session_version();
    let mut last = 0;
    for number in 0..30 {
        last = put(&fixture, number).await;
    }
    let of_parent = token(&format!("0:{version}#{last}"));
    let before_split = wanted(&fixture, &of_parent);
    let maintenance = fixture.account.maintenance();
    let ticket = maintenance.split(&fixture.again(), 0, SplitAt::Middle).await.expect("begins");
    ticket.finished().await.expect("it finishes");
    reached(&fixture, &before_split).await;
    // The token is of a range that has ended.
    reached(&fixture, &wanted(&fixture, &of_parent)).await;
    let container = fixture.again();
    let ranges: Vec<u32> = container.range_ids().collect();
    let mut tokens = Vec::new();
    for number in 30..60 {
        put(&fixture, number).await;
    }
    for range in &ranges {
        let lsn = container.position_of_range(*range).expect("it is there").lsn;
        tokens.push(format!("{range}:{version}#{lsn}"));
    }
    let of_children = token(&tokens.join(","));
    let ticket = maintenance.merge(&fixture.again(), &ranges).await.expect("begins");
    ticket.finished().await.expect("it finishes");
    reached(&fixture, &wanted(&fixture, &of_children)).await;
    reached(&fixture, &wanted(&fixture, &of_parent)).await;
    // A range that is not known may be one of before a change of the partition key.
    reached(&fixture, &wanted(&fixture, &token(&format!("77:{version}#900")))).await;
    fixture.assert_level().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_other_containers_are_refused_or_mean_nothing() {
    let fixture = Fixture::new().await;
    let version = fixture.container(400).await.session_version();
    let lsn = put(&fixture, 1).await;
    for ahead in
        [format!("0:{version}#{}", lsn + 1), format!("0:{}#1", version + 1), format!("77:{}#1", version + 1)]
    {
        let refused = fixture.analytics.wanted("db", "c", &token(&ahead)).expect_err("it is ahead");
        assert_eq!(refused.kind(), ErrorKind::SessionNotAvailable, "{ahead}");
    }
    let earlier = wanted(&fixture, &token(&format!("0:{}#{},77:1#5", version - 1, lsn + 9)));
    reached(&fixture, &earlier).await;
    // Without a version, as the oldest clients send it.
    reached(&fixture, &wanted(&fixture, &token(&format!("0:{lsn}")))).await;
    assert!(fixture.analytics.wanted("db", "none", &AtLeast::Now).expect("asked").is_none());
    assert_eq!(fixture.analytics.has_store("db", "c"), Some(true));
    assert_eq!(fixture.analytics.has_store("db", "none"), None);
}

/// While a generation is built, the position in reports is that of the new one, and readers see the old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_under_a_rebuild_is_judged_by_the_version_of_readers() {
    let fixture = Fixture::new().await;
    let rid = fixture.container(400).await.container().rid;
    for number in 0..200 {
        put(&fixture, number).await;
    }
    fixture.level().await;
    for turn in 0..10 {
        let number = 1_000 + turn;
        if turn % 2 == 0 {
            fixture.analytics.rebuild(rid).await.expect("asked for");
        } else {
            let settings = AnalyticalSettings::default();
            fixture.analytics.set_settings(rid, settings, true).await.expect("set");
        }
        put(&fixture, number).await;
        let now = wanted(&fixture, &AtLeast::Now);
        reached(&fixture, &now).await;
        assert_eq!(fixture.rows().len() as u64, 201 + turn, "turn {turn}");
    }
}
