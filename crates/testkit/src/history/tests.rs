//! Histories that are possible and histories that are not, by hand and at random.

use shardlake_stdx::{Guid, Random};

use crate::history::{Action, Answer, Call, Failure, Guard, Recorder, Reply, SeenItem, Verdict};
use crate::history::{check, check_with_bound};

fn etag(number: u8) -> Guid {
    Guid([number; 16])
}

/// Calls on item "i" of logical partition "p".
fn call(asked: u64, answered: u64, action: Action, reply: Reply) -> Call {
    calls_of(asked, answered, vec![("i", action)], reply)
}

fn calls_of(asked: u64, answered: u64, actions: Vec<(&str, Action)>, reply: Reply) -> Call {
    let actions = actions.into_iter().map(|(id, action)| (id.to_owned(), action)).collect();
    Call { client: 0, logical: "p".into(), actions, asked, answered, reply }
}

fn create(value: i64) -> Action {
    Action::Create { value }
}

fn created(number: u8) -> Reply {
    Reply::Done(vec![Answer::Created { etag: etag(number) }])
}

fn upsert(value: i64) -> Action {
    Action::Upsert { value }
}

fn replaced(number: u8) -> Reply {
    Reply::Done(vec![Answer::Replaced { etag: etag(number) }])
}

fn increment(by: i64) -> Action {
    Action::Increment { by, guard: Guard::None }
}

fn incremented(value: i64, number: u8) -> Reply {
    Reply::Done(vec![Answer::Incremented { value, etag: etag(number) }])
}

fn read() -> Action {
    Action::Read { guard: Guard::None }
}

fn found(value: i64, number: u8) -> Reply {
    Reply::Done(vec![Answer::Found { value, etag: etag(number) }])
}

fn failed(failure: Failure) -> Reply {
    Reply::Failed { index: 0, failure }
}

fn delete() -> Action {
    Action::Delete { guard: Guard::None }
}

fn deleted() -> Reply {
    Reply::Done(vec![Answer::Deleted])
}

fn assert_possible(calls: &[Call]) {
    let verdict = check(calls);
    assert!(verdict.is_possible(), "{verdict:?}");
}

fn assert_impossible(calls: &[Call]) {
    let verdict = check(calls);
    assert!(matches!(verdict, Verdict::Impossible { .. }), "{verdict:?}");
}

#[test]
fn a_life_in_sequence_is_possible() {
    assert_possible(&[
        call(0, 1, read(), failed(Failure::NotFound)),
        call(2, 3, create(1), created(1)),
        call(4, 5, create(2), failed(Failure::Conflict)),
        call(6, 7, increment(4), incremented(5, 2)),
        call(8, 9, read(), found(5, 2)),
        call(10, 11, upsert(9), replaced(3)),
        call(12, 13, delete(), deleted()),
        call(14, 15, delete(), failed(Failure::NotFound)),
        call(16, 17, upsert(7), created(4)),
    ]);
}

#[test]
fn overlapping_writes_come_in_the_order_that_the_reads_show() {
    let write = |number: u8| call(2, 20, upsert(i64::from(number)), replaced(number));
    let start = call(0, 1, create(0), created(9));
    assert_possible(&[start.clone(), write(1), write(2), call(21, 22, read(), found(1, 1))]);
    assert_possible(&[start.clone(), write(1), write(2), call(21, 22, read(), found(2, 2))]);
    // Two reads one after the other, during both writes, cannot see them in both orders.
    let (first, second) = (call(3, 4, read(), found(1, 1)), call(5, 6, read(), found(2, 2)));
    let third = call(7, 8, read(), found(1, 1));
    assert_possible(&[start.clone(), write(1), write(2), first.clone(), second.clone()]);
    assert_impossible(&[start, write(1), write(2), first, second, third]);
}

#[test]
fn a_stale_read_is_found() {
    let before = [call(0, 1, create(1), created(1)), call(2, 5, upsert(2), replaced(2))];
    let during = call(3, 4, read(), found(1, 1));
    assert_possible(&[before[0].clone(), before[1].clone(), during]);
    let after = call(6, 7, read(), found(1, 1));
    assert_impossible(&[before[0].clone(), before[1].clone(), after]);
}

#[test]
fn a_lost_write_is_found() {
    assert_impossible(&[call(0, 1, create(1), created(1)), call(2, 3, read(), failed(Failure::NotFound))]);
    // Two increments that both start from the same number.
    assert_impossible(&[
        call(0, 1, create(0), created(1)),
        call(2, 8, increment(1), incremented(1, 2)),
        call(3, 9, increment(1), incremented(1, 3)),
    ]);
    // A number that comes back with another etag than its write's.
    assert_impossible(&[call(0, 1, create(1), created(1)), call(2, 3, read(), found(1, 2))]);
}

#[test]
fn an_item_is_created_once_only() {
    let (one, two) = (call(0, 10, create(1), created(1)), call(1, 9, create(2), created(2)));
    assert_impossible(&[one.clone(), two.clone()]);
    assert_possible(&[one.clone(), call(1, 9, create(2), failed(Failure::Conflict))]);
    assert_possible(&[one, two, call(2, 8, delete(), deleted())]);
    assert_impossible(&[call(0, 1, create(1), failed(Failure::Conflict))]);
}

#[test]
fn an_unanswered_write_happens_once_or_never_and_at_no_time_before_its_question() {
    let maybe = call(2, u64::MAX, upsert(2), Reply::Unknown);
    let start = call(0, 1, create(1), created(1));
    assert_possible(&[start.clone(), maybe.clone(), call(3, 4, read(), found(1, 1))]);
    assert_possible(&[start.clone(), maybe.clone(), call(3, 4, read(), found(2, 7))]);
    let (old, new) = (call(3, 4, read(), found(1, 1)), call(5, 6, read(), found(2, 7)));
    assert_possible(&[start.clone(), maybe.clone(), old.clone(), new.clone()]);
    let back = call(7, 8, read(), found(1, 1));
    assert_impossible(&[start.clone(), maybe.clone(), old, new.clone(), back]);
    // Its etag does not change from one read to the next, and it does not happen twice.
    assert_impossible(&[start.clone(), maybe.clone(), new, call(7, 8, read(), found(2, 8))]);
    let maybe_more = call(2, u64::MAX, increment(1), Reply::Unknown);
    assert_possible(&[start.clone(), maybe_more.clone(), call(3, 4, read(), found(2, 5))]);
    assert_impossible(&[start, maybe_more, call(3, 4, read(), found(3, 5))]);
    let early = call(0, 1, read(), found(2, 7));
    assert_impossible(&[early, maybe]);
}

#[test]
fn a_refused_write_never_happened() {
    let start = call(0, 1, create(1), created(1));
    let refused = call(2, 3, upsert(2), Reply::Refused);
    assert_possible(&[start.clone(), refused.clone(), call(4, 5, read(), found(1, 1))]);
    assert_impossible(&[start, refused, call(4, 5, read(), found(2, 2))]);
}

#[test]
fn conditions_on_etags_hold() {
    let start = call(0, 1, create(1), created(1));
    let guarded = |value, number| Action::Replace { value, guard: Guard::Match(etag(number)) };
    assert_possible(&[start.clone(), call(2, 3, guarded(2, 1), replaced(2))]);
    assert_impossible(&[start.clone(), call(2, 3, guarded(2, 9), replaced(2))]);
    let stopped = failed(Failure::PreconditionFailed);
    assert_possible(&[start.clone(), call(2, 3, guarded(2, 9), stopped.clone())]);
    assert_impossible(&[start.clone(), call(2, 3, guarded(2, 1), stopped)]);
    // Only one of two replacements of the same version may succeed.
    let (one, two) = (call(2, 9, guarded(2, 1), replaced(2)), call(3, 8, guarded(3, 1), replaced(3)));
    assert_impossible(&[start.clone(), one, two]);
    let unchanged = Action::Read { guard: Guard::NoneMatch(etag(1)) };
    let not_modified = call(4, 5, unchanged.clone(), Reply::Done(vec![Answer::NotModified]));
    assert_possible(&[start.clone(), not_modified.clone()]);
    assert_impossible(&[start.clone(), call(2, 3, upsert(2), replaced(2)), not_modified]);
    assert_impossible(&[start, call(4, 5, unchanged, found(1, 1))]);
}

#[test]
fn a_batch_happens_at_one_moment() {
    let both = |value| vec![("a", upsert(value)), ("b", upsert(value))];
    let answers = |a: u8, b: u8| {
        Reply::Done(vec![Answer::Replaced { etag: etag(a) }, Answer::Replaced { etag: etag(b) }])
    };
    let start = calls_of(
        0,
        1,
        vec![("a", create(0)), ("b", create(0))],
        Reply::Done(vec![Answer::Created { etag: etag(1) }, Answer::Created { etag: etag(2) }]),
    );
    let write = calls_of(2, 20, both(5), answers(3, 4));
    let look = |at: u64, a: (i64, u8), b: (i64, u8)| {
        let item = |id: &str, seen: (i64, u8)| SeenItem { id: id.into(), value: seen.0, etag: etag(seen.1) };
        calls_of(at, at + 1, vec![], Reply::Snapshot(vec![item("a", a), item("b", b)]))
    };
    assert_possible(&[start.clone(), write.clone(), look(4, (0, 1), (0, 2)), look(6, (5, 3), (5, 4))]);
    assert_impossible(&[start.clone(), write.clone(), look(4, (5, 3), (0, 2))]);
    // The same impossible state through reads of single items, one after the other.
    let single =
        |at: u64, id: &str, value, number| calls_of(at, at + 1, vec![(id, read())], found(value, number));
    assert_impossible(&[start.clone(), write.clone(), single(4, "a", 5, 3), single(6, "b", 0, 2)]);
    assert_possible(&[start.clone(), write, single(4, "b", 0, 2), single(6, "a", 5, 3)]);
    // A look without an item, and a look with an item twice.
    let SeenItem { id, value, etag } = SeenItem { id: "a".into(), value: 0, etag: etag(1) };
    let one = || SeenItem { id: id.clone(), value, etag };
    assert_impossible(&[start.clone(), calls_of(2, 3, vec![], Reply::Snapshot(vec![one()]))]);
    assert_impossible(&[start, calls_of(2, 3, vec![], Reply::Snapshot(vec![one(), one()]))]);
}

#[test]
fn a_failed_batch_changes_nothing() {
    let start = call(0, 1, create(1), created(1));
    let batch = vec![("j", create(2)), ("i", create(3))];
    let stopped = calls_of(2, 3, batch.clone(), Reply::Failed { index: 1, failure: Failure::Conflict });
    let missing = calls_of(4, 5, vec![("j", read())], failed(Failure::NotFound));
    assert_possible(&[start.clone(), stopped.clone(), missing]);
    assert_impossible(&[start.clone(), stopped, calls_of(4, 5, vec![("j", read())], found(2, 2))]);
    assert_impossible(&[
        start,
        calls_of(2, 3, batch, Reply::Failed { index: 0, failure: Failure::Conflict }),
    ]);
}

#[test]
fn what_is_dropped_without_an_answer_counts_as_unknown() {
    let recorder = Recorder::default();
    drop(recorder.asks(1, "p", vec![("i".into(), create(1))]));
    recorder.asks(2, "p", vec![("i".into(), read())]).answered(found(1, 1));
    let calls = recorder.calls();
    assert_eq!((calls[0].reply.clone(), calls[0].answered), (Reply::Unknown, u64::MAX));
    assert_possible(&calls);
    assert_impossible(&calls[1..]);
}

/// Histories of one item made by giving every operation a point in time first, and an interval around it afterwards.
fn random_history(seed: u64, length: u64) -> Vec<Call> {
    let random = Random::seeded(seed);
    let mut item: Option<(i64, Guid)> = None;
    let mut calls = Vec::new();
    for number in 0..length {
        let fresh = random.guid();
        let value = random.below(100) as i64;
        let (action, reply) = match (random.below(5), item) {
            (0, None) => {
                item = Some((value, fresh));
                (create(value), Reply::Done(vec![Answer::Created { etag: fresh }]))
            }
            (0, Some(_)) => (create(value), failed(Failure::Conflict)),
            (1, Some((old, _))) => {
                item = Some((old + 1, fresh));
                (increment(1), Reply::Done(vec![Answer::Incremented { value: old + 1, etag: fresh }]))
            }
            (2, Some(_)) if random.below(3) == 0 => {
                item = None;
                (delete(), deleted())
            }
            (_, Some((value, etag))) => (read(), Reply::Done(vec![Answer::Found { value, etag }])),
            (_, None) => (read(), failed(Failure::NotFound)),
        };
        // About five open at a time.
        let (asked, answered) = (number * 100, number * 100 + 1);
        let (asked, answered) = (asked.saturating_sub(random.below(300)), answered + random.below(300));
        let reply = if random.below(40) == 0 { Reply::Unknown } else { reply };
        let answered = if reply == Reply::Unknown { u64::MAX } else { answered };
        calls.push(call(asked * 2, answered.saturating_mul(2).saturating_add(1), action, reply));
    }
    calls
}

#[test]
fn what_did_happen_in_some_order_is_possible_and_quickly_found() {
    for seed in 0..50 {
        let verdict = check_with_bound(&random_history(seed, 600), 200_000);
        assert!(verdict.is_possible(), "seed {seed}: {verdict:?}");
    }
}

#[test]
fn one_falsified_answer_is_found_in_every_random_history() {
    for seed in 0..50 {
        let mut calls = random_history(seed, 200);
        let answers = calls.iter_mut().filter_map(|call| match &mut call.reply {
            Reply::Done(answers) => answers.iter_mut().find_map(|answer| match answer {
                Answer::Found { value, .. } => Some(value),
                _ => None,
            }),
            _ => None,
        });
        let mut numbers: Vec<&mut i64> = answers.collect();
        let at = Random::seeded(seed).below(numbers.len() as u64) as usize;
        *numbers[at] += 1;
        assert!(!check(&calls).is_possible(), "seed {seed}");
    }
}

#[test]
fn a_search_that_grows_too_far_is_given_up() {
    let mut calls: Vec<Call> =
        (0..24).map(|number: u8| call(0, 1000, upsert(i64::from(number)), replaced(number))).collect();
    calls.push(call(2000, 2001, read(), failed(Failure::NotFound)));
    calls.insert(0, call(0, 1000, create(-1), created(100)));
    assert!(matches!(check_with_bound(&calls, 1000), Verdict::Undecided { .. }));
}
