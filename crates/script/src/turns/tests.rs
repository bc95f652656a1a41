//! Turns are counted, never timed: who is next, who waits, who is refused.

use futures::FutureExt;
use futures::future::BoxFuture;
use shardlake_model::DatabaseRid;
use shardlake_stdx::Timestamp;

use super::*;

const RULES: Rules = Rules { workers_max: 3, waiting_max: 20, waiting_of_container_max: 8 };

fn container(number: u32) -> ContainerRid {
    ContainerRid { database: DatabaseRid(1), number }
}

fn turns(rules: Rules) -> (Arc<Turns>, Clock) {
    let clock = Clock::manual(Timestamp(1_000));
    (Turns::new(rules, clock.clone()), clock)
}

fn try_turn(turns: &Arc<Turns>, number: u32) -> Option<Turn> {
    turns.try_turn(Lane::Scripts, container(number), Meter::default())
}

/// A request for a turn that has taken its place in the queue.
fn queued(turns: &Arc<Turns>, number: u32) -> BoxFuture<'static, Result<Turn>> {
    let turns = Arc::clone(turns);
    let turn = async move { turns.turn(Lane::Scripts, container(number), Meter::default()).await };
    let mut turn = turn.boxed();
    assert!((&mut turn).now_or_never().is_none(), "container {number} should wait");
    turn
}

#[test]
fn a_container_never_holds_all_workers() {
    let (turns, _) = turns(RULES);
    let held = [try_turn(&turns, 1), try_turn(&turns, 1)];
    assert!(held.iter().all(Option::is_some));
    let _waits = queued(&turns, 1);
    assert!(try_turn(&turns, 2).is_some(), "there is a worker for others");
    let (turns, _) = super::tests::turns(Rules { workers_max: 1, ..RULES });
    assert!(try_turn(&turns, 1).is_some(), "a lone worker is for everybody");
}

#[test]
fn containers_take_turns_however_many_of_one_wait() {
    let (turns, _) = turns(Rules { workers_max: 1, ..RULES });
    let mut running = try_turn(&turns, 1);
    let mut waiting: Vec<_> = (0..8).map(|_| (1, queued(&turns, 1))).collect();
    waiting.extend([(2, queued(&turns, 2)), (2, queued(&turns, 2)), (3, queued(&turns, 3))]);
    let mut order = Vec::new();
    while running.is_some() {
        drop(running.take());
        let next = waiting.iter_mut().position(|(number, turn)| match turn.now_or_never() {
            Some(turn) => {
                order.push(*number);
                running = Some(turn.expect("has its turn"));
                true
            }
            None => false,
        });
        next.map(|next| waiting.remove(next));
    }
    assert_eq!(order, [1, 2, 3, 1, 2, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn an_offender_has_one_worker_for_a_while_and_offenders_leave_one_to_others() {
    let (turns, clock) = turns(RULES);
    let offend = |number| try_turn(&turns, number).expect("is free").offended();
    (1..4).for_each(offend);
    let one = try_turn(&turns, 1).expect("has one");
    assert!(try_turn(&turns, 1).is_none(), "and no more");
    let two = try_turn(&turns, 2).expect("has one, too");
    assert!(try_turn(&turns, 3).is_none(), "all offenders leave a worker to others");
    drop(try_turn(&turns, 4).expect("which is there"));
    let mut third = queued(&turns, 3);
    drop((one, two));
    drop((&mut third).now_or_never().expect("comes next").expect("has its turn"));
    // The lanes differ, the offender does not.
    let functions = |number| turns.try_turn(Lane::Functions, container(number), Meter::default());
    let held = functions(1).expect("has one");
    assert!(functions(1).is_none());
    drop(held);
    clock.advance(OFFENCE_TIME);
    let both = [try_turn(&turns, 1), try_turn(&turns, 1)];
    assert!(both.iter().all(Option::is_some), "it is forgiven");
}

#[test]
fn queues_are_bounded_for_each_container_and_for_all() {
    let (turns, _) = turns(Rules { workers_max: 1, waiting_max: 10, waiting_of_container_max: 8 });
    let _running = try_turn(&turns, 1);
    let turn = |number| {
        let turn = turns.turn(Lane::Scripts, container(number), Meter::default()).now_or_never();
        turn.expect("is refused at once").map(drop).expect_err("is refused")
    };
    let mut waiting: Vec<_> = (0..8).map(|_| queued(&turns, 1)).collect();
    let error = turn(1);
    assert_eq!((error.kind(), error.retry_after_ms()), (ErrorKind::TooManyRequests, Some(RETRY_AFTER_MS)));
    waiting.extend([queued(&turns, 2), queued(&turns, 3)]);
    assert_eq!(turn(4).kind(), ErrorKind::Unavailable);
    drop(waiting.split_off(9));
    drop(queued(&turns, 4));
}

#[test]
fn who_goes_away_leaves_the_queue_or_gives_the_turn_back() {
    let (turns, _) = turns(Rules { workers_max: 1, ..RULES });
    let running = try_turn(&turns, 1);
    let (first, granted, mut last) = (queued(&turns, 2), queued(&turns, 3), queued(&turns, 4));
    drop(first);
    drop(running);
    assert!((&mut last).now_or_never().is_none(), "the turn is another's");
    drop(granted);
    drop((&mut last).now_or_never().expect("is next").expect("has its turn"));
    let state = turns.state();
    assert_eq!(state.waiting(container(1)), (0, 0));
    assert!(state.lanes.iter().all(|lane| lane.held.is_empty()), "{state:?}");
}
