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

fn key(number: u32, script: u64) -> ScriptKey {
    ScriptKey { container: container(number), script }
}

fn try_turn(turns: &Arc<Turns>, number: u32) -> Option<Turn> {
    try_turn_of(turns, key(number, 1))
}

fn try_turn_of(turns: &Arc<Turns>, key: ScriptKey) -> Option<Turn> {
    turns.try_turn(Lane::Scripts, key, Meter::default())
}

/// A request for a turn that has taken its place in the queue.
fn queued(turns: &Arc<Turns>, number: u32) -> BoxFuture<'static, Result<Turn>> {
    queued_of(turns, key(number, 1))
}

fn queued_of(turns: &Arc<Turns>, key: ScriptKey) -> BoxFuture<'static, Result<Turn>> {
    let turns = Arc::clone(turns);
    let turn = async move { turns.turn(Lane::Scripts, key, Meter::default()).await };
    let mut turn = turn.boxed();
    assert!((&mut turn).now_or_never().is_none(), "{key:?} should wait");
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
    let functions = |number| turns.try_turn(Lane::Functions, key(number, 1), Meter::default());
    let held = functions(1).expect("has one");
    assert!(functions(1).is_none());
    drop(held);
    clock.advance(OFFENCE_TIME);
    let both = [try_turn(&turns, 1), try_turn(&turns, 1)];
    assert!(both.iter().all(Option::is_some), "it is forgiven");
}

/// Endless runs of one script hold one of the container's two workers; a script that is known to end gets the
/// other.
#[test]
fn an_honest_script_waits_for_no_endless_one_of_its_container() {
    let (turns, clock) = turns(RULES);
    let (endless, honest, new) = (key(1, 1), key(1, 2), key(1, 3));
    let end_well = |key| try_turn_of(&turns, key).expect("is free").ended();
    end_well(honest);
    try_turn_of(&turns, endless).expect("is free").offended();
    let loops = try_turn_of(&turns, endless).expect("has one worker");
    let mut waiting: Vec<_> = (0..4).map(|_| queued_of(&turns, endless)).collect();
    end_well(honest);
    end_well(honest);
    // A new script runs after one endless run, however many endless runs wait.
    let mut first_run = queued_of(&turns, new);
    drop(loops);
    let second = (&mut waiting[0]).now_or_never().expect("was first").expect("has its turn");
    drop(second);
    let third = (&mut first_run).now_or_never().expect("scripts take turns").expect("has its turn");
    third.ended();
    drop(third);
    let loops = (&mut waiting[1]).now_or_never().expect("is next").expect("has its turn");
    end_well(new);
    // A script that had to be stopped is no longer proven. Proof expires.
    try_turn_of(&turns, new).expect("is free").offended();
    assert!(try_turn_of(&turns, new).is_none());
    clock.advance(PROOF_TIME);
    loops.offended();
    assert!(try_turn_of(&turns, honest).is_none());
}

#[test]
fn proven_scripts_are_bounded() {
    let (turns, clock) = turns(RULES);
    let end_well = |script| try_turn_of(&turns, key(1, script)).expect("is free").ended();
    (0..PROVEN_MAX as u64 + 9).for_each(end_well);
    assert_eq!(turns.state().records(Lane::Scripts).proven.len(), PROVEN_MAX);
    clock.advance(PROOF_TIME);
    end_well(0);
    end_well(PROVEN_MAX as u64 + 10);
    assert!(turns.state().records(Lane::Scripts).proven.len() <= 2, "those whose time is over make room");
}

#[test]
fn queues_are_bounded_for_each_container_and_for_all() {
    let (turns, _) = turns(Rules { workers_max: 1, waiting_max: 10, waiting_of_container_max: 8 });
    let _running = try_turn(&turns, 1);
    let turn = |number| {
        let turn = turns.turn(Lane::Scripts, key(number, 1), Meter::default()).now_or_never();
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

fn try_changes(turns: &Arc<Turns>, number: u32) -> Option<Turn> {
    turns.try_turn(Lane::Changes, key(number, 1), Meter::default())
}

fn queued_changes(turns: &Arc<Turns>, number: u32) -> BoxFuture<'static, Result<Turn>> {
    let turns = Arc::clone(turns);
    let turn = async move { turns.turn(Lane::Changes, key(number, 1), Meter::default()).await };
    let mut turn = turn.boxed();
    assert!((&mut turn).now_or_never().is_none(), "container {number} should wait");
    turn
}

#[test]
fn functions_over_changes_hold_at_most_half_of_the_workers() {
    for (workers_max, half) in [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (9, 4)] {
        let (turns, _) = turns(Rules { workers_max, ..RULES });
        let held: Vec<Turn> = (1..20).filter_map(|number| try_changes(&turns, number)).collect();
        assert_eq!(held.len(), half, "of {workers_max}");
    }
}

#[test]
fn functions_over_changes_never_take_the_last_free_worker() {
    let (turns, _) = turns(Rules { workers_max: 5, ..RULES });
    let mut scripts: Vec<_> = (1..=4).map(|number| try_turn(&turns, number).expect("is free")).collect();
    let own = try_changes(&turns, 1).expect("one worker is theirs");
    let mut waits = queued_changes(&turns, 2);
    assert!(scripts.pop().is_some());
    let second = (&mut waits).now_or_never().expect("two were free").expect("has its turn");
    let last = try_turn(&turns, 5).expect("the last one is free for scripts");
    assert!(try_turn(&turns, 6).is_none(), "all are in use");
    // A worker that functions give back serves scripts that wait.
    let mut script = queued(&turns, 6);
    drop(second);
    assert!((&mut script).now_or_never().is_some());
    drop((own, last));
}

#[test]
fn scripts_without_end_leave_functions_over_changes_a_worker() {
    let (turns, _) = turns(RULES);
    let scripts: Vec<_> = [1, 1, 2].into_iter().map(|number| try_turn(&turns, number)).collect();
    assert!(scripts.iter().all(Option::is_some));
    let first = try_changes(&turns, 1).expect("has a worker");
    let mut next = queued_changes(&turns, 2);
    drop(first);
    assert!((&mut next).now_or_never().is_some(), "and the next function has it then");
}

#[test]
fn offences_of_functions_over_changes_slow_no_script_down() {
    let (turns, _) = turns(RULES);
    try_changes(&turns, 1).expect("is free").offended();
    let scripts = [try_turn_of(&turns, key(1, 1)), try_turn_of(&turns, key(1, 2))];
    assert!(scripts.iter().all(Option::is_some), "its container may use all but one");
}
