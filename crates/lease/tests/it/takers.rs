//! Servers that want one lease, over stores, in a time that the tests move on.

use std::sync::Arc;
use std::time::Duration;

use shardlake_lease::{ClusterError, LeaseHolder, Location, Manner, Node, Register, take};
use shardlake_stdx::{Clock, Timestamp};
use shardlake_storage::object::object_store::memory::InMemory;
use shardlake_storage::object::object_store::path::Path;

const TTL: Duration = Duration::from_secs(9);
const STEP: Duration = Duration::from_millis(10);

/// One clock for all, which follows the runtime's paused time.
struct Place {
    clock: Clock,
    register: Register,
}

impl Place {
    fn new() -> Place {
        let clock = Clock::manual(Timestamp(1_000_000));
        let hand = clock.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(STEP).await;
                hand.advance(STEP);
            }
        });
        let location =
            Location { store: Arc::new(InMemory::new()), prefix: Path::from("a"), url: "test".into() };
        Place { clock, register: Register::new(location.store.clone(), location.place("lease")) }
    }

    fn node(&self, name: &str, manner: Manner) -> Node {
        Node {
            name: name.into(),
            incarnation: format!("run of {name}"),
            former: None,
            ttl: TTL,
            manner,
            clock: self.clock.clone(),
        }
    }

    async fn take(&self, name: &str, manner: Manner) -> Result<LeaseHolder, ClusterError> {
        take(self.register.clone(), self.node(name, manner)).await
    }

    fn seconds(&self) -> f64 {
        self.clock.since_boot().as_secs_f64()
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_server_is_refused_while_the_first_is_alive() {
    let place = Place::new();
    let first = place.take("first", Manner::Refuse).await.unwrap();
    assert_eq!(first.term, 1);
    let refused = place.take("second", Manner::Refuse).await.expect_err("refused").to_string();
    assert!(refused.contains("'first'") && refused.contains("--take-over"), "{refused}");
    tokio::time::sleep(TTL * 10).await;
    assert!(first.lease.is_held(), "it is renewed");
}

#[tokio::test(start_paused = true)]
async fn a_spare_waits_for_the_end_of_a_server_that_died() {
    let place = Place::new();
    let first = place.take("first", Manner::Refuse).await.unwrap();
    tokio::time::sleep(TTL * 3).await;
    let died = place.seconds();
    drop(first);
    let second = place.take("second", Manner::StandBy).await.unwrap();
    let waited = place.seconds() - died;
    assert!((TTL.as_secs_f64()..TTL.as_secs_f64() + 2.0).contains(&waited), "{waited}");
    assert!(second.lease.is_held() && second.term > 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_in_good_order_leaves_at_once() {
    let place = Place::new();
    let first = place.take("first", Manner::Refuse).await.unwrap();
    tokio::time::sleep(TTL).await;
    let lease = first.lease.clone();
    first.release().await.unwrap();
    assert!(!lease.is_held());
    let before = place.seconds();
    let second = place.take("second", Manner::Refuse).await.unwrap();
    assert!(place.seconds() - before < 1.0);
    assert!(second.lease.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_starts_again_takes_its_own_lease_at_once() {
    let place = Place::new();
    drop(place.take("first", Manner::Refuse).await.unwrap());
    let before = place.seconds();
    let again = Node { former: Some("run of first".into()), ..place.node("again", Manner::Refuse) };
    let again = take(place.register.clone(), again).await.unwrap();
    assert!(place.seconds() - before < 1.0);
    assert!(again.lease.is_held() && again.term == 2);
}

#[tokio::test(start_paused = true)]
async fn who_takes_over_ends_the_other_one() {
    let place = Place::new();
    let first = place.take("first", Manner::Refuse).await.unwrap();
    let second = place.take("second", Manner::TakeOver).await.unwrap();
    let reason = first.lost().await;
    assert!(reason.contains("'second'"), "{reason}");
    assert!(!first.lease.is_held() && second.lease.is_held());
    tokio::time::sleep(TTL * 3).await;
    assert!(second.lease.is_held(), "the first one is no trouble to it");
}

/// Many standby nodes: each holds the lease alone, and all have held it in the end.
#[tokio::test(start_paused = true)]
async fn of_many_that_want_it_one_has_it() {
    let place = Place::new();
    let held = Arc::new(std::sync::Mutex::new(Vec::<Arc<shardlake_storage::Lease>>::new()));
    let wanting: Vec<_> = (0..8)
        .map(|number| {
            let (register, node) =
                (place.register.clone(), place.node(&format!("n{number}"), Manner::StandBy));
            let held = held.clone();
            tokio::spawn(async move {
                let lease_holder = take(register, node).await.unwrap();
                held.lock().unwrap().push(lease_holder.lease.clone());
                for _ in 0..(TTL.as_millis() / STEP.as_millis()) {
                    tokio::time::sleep(STEP).await;
                    let holders = held.lock().unwrap().iter().filter(|lease| lease.is_held()).count();
                    assert_eq!(holders, 1);
                }
                // Every second one dies.
                if number % 2 == 0 { lease_holder.release().await.unwrap() } else { drop(lease_holder) }
            })
        })
        .collect();
    for wanting in wanting {
        wanting.await.unwrap();
    }
    assert_eq!(held.lock().unwrap().len(), 8);
}
