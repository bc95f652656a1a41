//! Budgets hand out their rate, never more, never less than is asked of them, in any order of events.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use shardlake_capacity::budget::*;

const START: Duration = Duration::from_secs(1_000);

fn after_ms(milliseconds: u64) -> Duration {
    START + Duration::from_millis(milliseconds)
}

/// The cost of an operation, in hundredths, and the milliseconds until the next one.
fn operations() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((1u64..5_000, prop_oneof![4 => 0u64..20, 1 => 0u64..5_000]), 1..400)
}

/// Runs operations one after the other; returns the total charge and the time.
fn run(bucket: &mut Bucket, operations: &[(u64, u64)], urgency: Urgency) -> (u64, u64) {
    let (mut charged, mut at_ms) = (0, 0);
    for (charge, pause_ms) in operations {
        if bucket.admit(*charge, urgency, after_ms(at_ms)).is_ok() {
            bucket.settle(*charge, *charge);
            charged += charge;
        }
        at_ms += pause_ms;
    }
    (charged, at_ms)
}

proptest! {
    #[test]
    fn never_more_than_rate_times_time_and_capacity(rate in 1u64..2_000_000, operations in operations()) {
        let mut bucket = Bucket::new(rate, Burst::Off, START);
        let (charged, took_ms) = run(&mut bucket, &operations, Urgency::High);
        let last = operations.iter().map(|(charge, _)| *charge).max().unwrap();
        let capacity = rate.max(100);
        prop_assert!(charged <= rate * took_ms / 1000 + capacity + last + 1, "{charged} in {took_ms} ms");
    }

    #[test]
    fn bursts_spend_what_was_banked_and_no_faster_than_the_ceiling(rate in 1u64..400_000, idle_ms in 0u64..900_000,
        operations in operations()) {
        let mut bucket = Bucket::new(rate, Burst::On, START);
        let banked = bucket.bank_centi(after_ms(idle_ms));
        prop_assert!(banked <= rate * idle_ms / 1000 && banked <= rate * 300);
        prop_assert!(rate < 300_000 || banked == 0, "faster partitions have no credit");
        let shifted: Vec<_> = [(0, idle_ms)].into_iter().chain(operations.iter().copied()).collect();
        let (charged, took_ms) = run(&mut bucket, &shifted, Urgency::High);
        let (busy_ms, last) = (took_ms - idle_ms, operations.iter().map(|(charge, _)| *charge).max().unwrap());
        let capacity = rate.max(100);
        // Throughput that is idle in between is banked again, so the bank never releases more than the rate brought in.
        prop_assert!(charged <= rate * busy_ms / 1000 + banked + capacity + last + 1);
        prop_assert!(charged <= rate.max(300_000) * busy_ms / 1000 + capacity + last + 1);
    }

    #[test]
    fn the_first_time_to_wait_is_right_to_the_millisecond(rate in 100u64..2_000_000, debt in 1u64..1_000_000, low in any::<bool>()) {
        let urgency = if low { Urgency::Low } else { Urgency::High };
        let mut bucket = Bucket::new(rate, Burst::Off, START);
        bucket.admit(0, Urgency::High, START).unwrap();
        bucket.settle(0, rate + 100 + debt);
        let refusal = bucket.admit(1, urgency, START).unwrap_err();
        prop_assert!(refusal.retry_after_ms >= 1);
        let early = bucket.clone().admit(1, urgency, after_ms(refusal.retry_after_ms - 1));
        prop_assert!(early.is_err(), "a millisecond earlier is too early");
        if refusal.retry_after_ms < 30_000 {
            prop_assert!(bucket.admit(1, urgency, after_ms(refusal.retry_after_ms)).is_ok());
        }
    }

    #[test]
    fn debt_is_paid_by_waiting_and_then_the_bucket_is_as_new(rate in 100u64..2_000_000, debt in 0u64..10_000_000) {
        let mut bucket = Bucket::new(rate, Burst::Off, START);
        let full = bucket.level_centi(START);
        bucket.settle(0, debt);
        let healed_ms = debt * 1000 / rate + 1;
        prop_assert_eq!(bucket.level_centi(after_ms(healed_ms)), full);
    }

    #[test]
    fn low_priority_is_never_admitted_where_high_is_refused(rate in 100u64..100_000, operations in operations()) {
        let mut bucket = Bucket::new(rate, Burst::Off, START);
        let mut at_ms = 0;
        for (charge, pause_ms) in operations {
            let now = after_ms(at_ms);
            let low = bucket.clone().admit(charge, Urgency::Low, now).is_ok();
            let high = bucket.admit(charge, Urgency::High, now).is_ok();
            prop_assert!(high || !low);
            at_ms += pause_ms;
        }
    }

    #[test]
    fn shares_add_up_and_keep_proportions(total in 0u64..100_000_000,
        weights in prop::collection::vec(prop::option::of(0u64..10_000), 1..200)) {
        let shares = shares_of(total, &weights);
        prop_assert_eq!(shares.iter().sum::<u64>(), total);
        let sum: u64 = weights.iter().flatten().sum();
        if weights.iter().all(Option::is_some) && sum > 0 {
            for (share, weight) in shares.iter().zip(weights.iter().flatten()) {
                prop_assert!(share.abs_diff(total * weight / sum) <= 1);
            }
        }
        if weights.iter().all(Option::is_none) {
            prop_assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn a_clock_that_stands_or_steps_back_brings_nothing(rate in 100u64..100_000, back_ms in 0u64..1_000_000) {
        let mut bucket = Bucket::new(rate, Burst::On, START);
        bucket.settle(0, rate * 10);
        let level = bucket.level_centi(START);
        let earlier = START - Duration::from_millis(back_ms);
        prop_assert_eq!(bucket.level_centi(earlier), level);
        prop_assert_eq!(bucket.level_centi(START), level);
    }
}

const RULES: BudgetRules = BudgetRules { burst: Burst::Off, partition_throughput_max: 10_000 };

fn ranges(ids: &[u32]) -> Vec<RangeThroughput<'static>> {
    ids.iter().map(|id| RangeThroughput { range_id: *id, parents: &[], by_hand: None }).collect()
}

fn rates(container: &ContainerBudget) -> Vec<(u32, u64)> {
    container.report(START).into_iter().map(|(id, report)| (id, report.rate_centi / 100)).collect()
}

#[test]
fn a_container_divides_its_throughput_and_keeps_debts_through_changes() {
    let container = ContainerBudget::default();
    assert!(container.admit(7, Urgency::High, || unreachable!("unlimited")).unwrap().is_none());
    container.follow(&ranges(&[0, 1]), &Allowance::Own { throughput: 1_000 }, RULES, START);
    assert_eq!(rates(&container), [(0, 500), (1, 500)]);
    let reservation = container.admit(0, Urgency::High, || START).unwrap().expect("limited");
    reservation.settle(100_000);
    container.follow(&ranges(&[2, 0]), &Allowance::Own { throughput: 800 }, RULES, START);
    assert_eq!(rates(&container), [(0, 400), (2, 400)]);
    assert!(container.admit(0, Urgency::High, || START).is_err(), "the debt outlives the change");
    assert!(container.admit(2, Urgency::High, || START).is_ok());
    assert!(container.admit(1, Urgency::High, || START).unwrap().is_none(), "not of this container any more");
    container.follow(&ranges(&[0]), &Allowance::Own { throughput: 30_000 }, RULES, START);
    assert_eq!(rates(&container), [(0, 10_000)], "no partition exceeds its ceiling");
}

#[test]
fn splits_and_merges_neither_make_nor_lose_budget() {
    let container = ContainerBudget::default();
    let own = Allowance::Own { throughput: 1_000 };
    let levels = || -> Vec<i64> {
        container.report(START).into_iter().map(|(_, report)| report.level_centi).collect()
    };
    container.follow(&ranges(&[0]), &own, RULES, START);
    container.admit(0, Urgency::High, || START).unwrap().expect("limited").settle(140_000);
    assert_eq!(levels(), [-40_000]);
    let child = |range_id, parents| RangeThroughput { range_id, parents, by_hand: None };
    container.follow(&[child(1, &[0]), child(2, &[0])], &own, RULES, START);
    assert_eq!(levels(), [-20_000, -20_000]);
    container.follow(&[child(3, &[0, 1]), child(4, &[0, 1]), child(2, &[0])], &own, RULES, START);
    assert!(levels()[1..].iter().all(|level| (-13_334..=-13_332).contains(level)), "{:?}", levels());
    container.follow(&[child(5, &[0, 1, 3, 4, 2])], &own, RULES, START);
    assert!(levels()[0] < -39_000, "{:?}", levels());
}

#[test]
fn what_is_dropped_unsettled_is_given_back() {
    let database = Arc::new(PartitionBudget::new(40_000, Burst::Off, START));
    let container = ContainerBudget::default();
    container.follow(&ranges(&[0]), &Allowance::Shared(database.clone()), RULES, START);
    let before = (container.report(START), database.report(START));
    let reservation = container.admit(0, Urgency::High, || START).unwrap().expect("limited");
    assert_ne!((container.report(START), database.report(START)), before);
    drop(reservation);
    assert_eq!((container.report(START), database.report(START)), before);
}

#[test]
fn containers_of_a_database_draw_from_one_bucket() {
    let database = Arc::new(PartitionBudget::new(40_000, Burst::Off, START));
    let containers = [ContainerBudget::default(), ContainerBudget::default()];
    for container in &containers {
        container.follow(&ranges(&[0]), &Allowance::Shared(database.clone()), RULES, START);
    }
    containers[0].admit(0, Urgency::High, || START).unwrap().expect("limited").settle(100_000);
    let spent = containers[1].admit(0, Urgency::High, || START).unwrap_err();
    // 1,000 RU were taken of 400, and 400 come back every second.
    assert_eq!(spent, Spent::Database(Refusal { retry_after_ms: 1_501 }));
    assert_eq!(
        containers[1].report(START)[0].1.level_centi,
        1_000_000,
        "the partition gets its reservation back"
    );
}

#[test]
fn many_at_once_do_not_overdraw_once_their_cost_is_known() {
    let budget = PartitionBudget::new(40_000, Burst::Off, START);
    let cost = 1_000;
    for _ in 0..60 {
        let reserved = budget.admit(Urgency::High, START).unwrap();
        budget.settle(reserved, cost);
        budget.set_rate(40_000, Burst::Off, START);
        // As new: only the estimate is to be learned.
        budget.release(cost);
    }
    let mut admitted = Vec::new();
    while let Ok(reserved) = budget.admit(Urgency::High, START) {
        admitted.push(reserved);
    }
    assert_eq!(admitted.len(), 40, "400 RU of capacity are 40 operations of 10");
    admitted.iter().for_each(|reserved| budget.settle(*reserved, cost));
    assert!(budget.report(START).level_centi > -100, "{:?}", budget.report(START));
}

#[test]
fn autoscale_shows_the_busiest_recent_second() {
    let container = ContainerBudget::default();
    container.follow(&ranges(&[0, 1]), &Allowance::Own { throughput: 4_000 }, RULES, START);
    let scaled = |now| scaled_throughput(4_000, &container.report(now));
    assert_eq!(scaled(START), 400, "a tenth at rest");
    container.admit(1, Urgency::High, || START).unwrap().expect("limited").settle(100_000);
    assert_eq!(scaled(START), 2_000, "one partition at half of its share");
    assert_eq!(scaled(START + Duration::from_secs(180)), 400);
    container.admit(0, Urgency::High, || START).unwrap().expect("limited").settle(900_000);
    assert_eq!(scaled(START), 4_000);
}

#[test]
fn those_who_wait_as_told_come_one_after_the_other() {
    let mut bucket = Bucket::new(40_000, Burst::Off, START);
    bucket.settle(0, 40_000);
    let cost = 1_000;
    let mut waits = Vec::new();
    for _ in 0..100 {
        waits.push(bucket.admit(cost, Urgency::High, START).unwrap_err().retry_after_ms);
    }
    assert!(waits.windows(2).all(|pair| pair[0] < pair[1]), "{waits:?}");
    // 1,000 RU at 400 RU/s.
    assert!((2_470..=2_480).contains(waits.last().unwrap()), "{waits:?}");
    for wait_ms in waits {
        bucket.admit(cost, Urgency::High, after_ms(wait_ms)).expect("its time has come");
    }
    for _ in 0..1_000 {
        let refusal = bucket.admit(cost, Urgency::High, after_ms(2_480)).unwrap_err();
        assert!(refusal.retry_after_ms <= 4_100, "promises have an end");
    }
    let low = bucket.admit(cost, Urgency::Low, after_ms(2_480)).unwrap_err().retry_after_ms;
    let high = bucket.admit(cost, Urgency::High, after_ms(2_480)).unwrap_err().retry_after_ms;
    assert!(low > high, "low priority waits for all of high priority and does not delay it");
    assert!(bucket.admit(cost, Urgency::High, after_ms(10_000)).is_ok());
}

#[test]
fn serverless_containers_grow_with_their_partitions() {
    assert_eq!([1, 5, 6, 20].map(serverless_throughput), [5_000, 5_000, 6_000, 20_000]);
}

#[test]
fn an_idle_container_spends_a_second_of_its_throughput_at_once() {
    let budget = ContainerBudget::default();
    let ranges = [RangeThroughput { range_id: 0, parents: &[], by_hand: None }];
    let rules = BudgetRules { burst: Burst::Off, partition_throughput_max: 10_000 };
    budget.follow(&ranges, &Allowance::Own { throughput: 400 }, rules, START);
    let mut spent = 0;
    while let Ok(reservation) = budget.admit(0, Urgency::High, || START) {
        reservation.expect("it is limited").settle(1_000);
        spent += 1_000;
    }
    assert_eq!(spent, 40_000, "hundredths of 400 RU");
    // Another second brings as much again, and no more.
    let mut again = 0;
    while let Ok(reservation) = budget.admit(0, Urgency::High, || after_ms(1_000)) {
        reservation.expect("it is limited").settle(1_000);
        again += 1_000;
    }
    assert_eq!(again, 40_000);
}
