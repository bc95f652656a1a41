//! Histories that are wrong, which the oracle has to notice, and odd ones that are right.

use crate::difference::{Breach, differences, torn};
use crate::model::{Definition, ItemChange, Key, Operation, Place, Question, Seen, State, Stored};
use crate::oracle::Worlds;

const HOME: u64 = 7;

fn at(container: &str) -> Place {
    Place { database: "d".to_owned(), container: container.to_owned() }
}

fn create_container(container: &str, tag: u64) -> Operation {
    let definition = Definition { ttl: tag, excluded: 0 };
    Operation::CreateContainer { at: at(container), tag, definition, throughput: 400 }
}

fn items(changes: Vec<ItemChange>) -> Operation {
    Operation::Items { at: at("c"), home: HOME, partition: "p".to_owned(), changes }
}

fn create(id: &str, version: u64) -> Operation {
    items(vec![ItemChange::Create { id: id.to_owned(), version }])
}

fn upsert(id: &str, version: u64) -> Operation {
    items(vec![ItemChange::Upsert { id: id.to_owned(), version }])
}

fn delete(id: &str) -> Operation {
    items(vec![ItemChange::Delete { id: id.to_owned() }])
}

fn batch(version: u64) -> Operation {
    let change = |id: &str, version| ItemChange::Upsert { id: id.to_owned(), version };
    items(vec![change("a", version), change("b", version + 1)])
}

/// A database with one container of tag [`HOME`].
fn start() -> State {
    state_after(&[
        Operation::CreateDatabase { database: "d".to_owned(), throughput: None },
        create_container("c", HOME),
    ])
}

fn state_after(operations: &[Operation]) -> State {
    let mut state = State::default();
    more(&mut state, operations);
    state
}

fn more(state: &mut State, operations: &[Operation]) {
    for operation in operations {
        let status = state.apply(operation);
        assert!(status < 300 && status != 207, "{operation:?} is refused with {status}");
    }
}

/// The start and then these.
fn stored(operations: &[Operation]) -> State {
    let mut state = start();
    more(&mut state, operations);
    state
}

fn after(acknowledged: &[(Operation, u16)]) -> Worlds {
    let mut worlds = Worlds::new(start());
    for (operation, status) in acknowledged {
        worlds.answered(operation, *status).expect("a possible answer");
    }
    worlds
}

#[test]
fn what_was_acknowledged_is_exactly_what_may_be_stored() {
    let mut worlds = after(&[(create("a", 1), 201), (upsert("a", 2), 200), (create("b", 3), 201)]);
    let all = stored(&[create("a", 2), create("b", 3)]);
    assert_eq!(worlds.settle(&all).expect("just that"), 0);
}

#[test]
fn a_lost_write_an_older_version_and_a_resurrected_item_are_noticed() {
    let history = [(create("a", 1), 201), (upsert("a", 2), 200), (create("b", 3), 201), (delete("b"), 204)];
    let breach = |wrong: &State| {
        let nearest = after(&history).settle(wrong).expect_err("noticed").nearest;
        let found = differences(&nearest, wrong);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].0
    };
    assert_eq!(breach(&stored(&[])), Breach::Lost);
    assert_eq!(breach(&stored(&[create("a", 1)])), Breach::Lost);
    assert_eq!(breach(&stored(&[create("a", 2), create("b", 3)])), Breach::Extra);
}

#[test]
fn a_refused_write_has_no_effect() {
    let mut worlds = after(&[(create("a", 1), 201), (create("a", 2), 409)]);
    assert!(worlds.settle(&stored(&[create("a", 2)])).is_err());
    let mut worlds = after(&[(create("a", 1), 201), (create("a", 2), 409)]);
    assert!(worlds.settle(&stored(&[create("a", 1)])).is_ok());
}

#[test]
fn a_wrong_answer_is_noticed() {
    let mut worlds = after(&[(create("a", 1), 201)]);
    assert!(worlds.answered(&create("a", 2), 201).is_err(), "it is there already");
    let mut worlds = after(&[(create("a", 1), 201)]);
    assert!(worlds.answered(&delete("a"), 404).is_err(), "nobody deleted it");
}

#[test]
fn a_pending_write_is_there_wholly_or_not_at_all() {
    let pending = || {
        let mut worlds = after(&[(upsert("a", 1), 201), (upsert("b", 2), 201)]);
        worlds.unanswered(batch(10));
        worlds
    };
    let stored_with = |a: u64, b: u64| stored(&[create("a", a), create("b", b)]);
    assert_eq!(pending().settle(&stored_with(1, 2)).expect("not at all"), 0);
    assert_eq!(pending().settle(&stored_with(10, 11)).expect("wholly"), 1);
    for wrong in [stored_with(10, 2), stored_with(1, 11)] {
        let nearest = pending().settle(&wrong).expect_err("half of it").nearest;
        let operation = batch(10);
        let found = torn(std::iter::once(&operation), &nearest, &wrong);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}

#[test]
fn a_pending_write_may_come_after_later_ones_but_only_once() {
    let mut worlds = after(&[(create("a", 1), 201)]);
    worlds.unanswered(upsert("a", 2));
    worlds.answered(&upsert("a", 3), 200).expect("whatever became of the other");
    assert!(worlds.settle(&stored(&[create("a", 2)])).is_ok(), "it came last");

    let question = Question::Item(at("c"), Key { partition: "p".to_owned(), id: "a".to_owned() });
    let version = |version| Seen::Item(Stored { home: HOME, version });
    let mut worlds = after(&[(create("a", 1), 201)]);
    worlds.unanswered(upsert("a", 2));
    worlds.seen(&question, &version(2)).expect("it has taken effect");
    worlds.answered(&upsert("a", 3), 200).expect("possible");
    assert!(worlds.seen(&question, &version(2)).is_err(), "it came back");
    assert!(worlds.settle(&stored(&[create("a", 2)])).is_err(), "it was there already");
}

#[test]
fn reads_do_not_go_back() {
    let question = Question::Item(at("c"), Key { partition: "p".to_owned(), id: "a".to_owned() });
    let mut worlds = after(&[]);
    worlds.unanswered(create("a", 1));
    worlds.seen(&question, &Seen::Item(Stored { home: HOME, version: 1 })).expect("it may be there");
    assert!(worlds.seen(&question, &Seen::Nothing).is_err(), "what was read is gone");
}

#[test]
fn a_pending_creation_and_an_acknowledged_one_of_the_same_name_exclude_each_other() {
    let pending = || {
        let mut worlds = after(&[]);
        worlds.unanswered(create_container("x", 20));
        worlds.answered(&create_container("x", 21), 201).expect("the other was not there yet");
        worlds
    };
    assert!(pending().settle(&stored(&[create_container("x", 21)])).is_ok());
    assert!(pending().settle(&stored(&[create_container("x", 20)])).is_err(), "the acknowledged one is gone");
}

#[test]
fn a_deleted_container_does_not_come_back_and_takes_nothing_of_others_with_it() {
    let delete = Operation::DeleteContainer { at: at("x") };
    let history = || {
        let mut worlds = after(&[(create_container("x", 20), 201), (create("a", 1), 201)]);
        worlds.answered(&delete, 204).expect("possible");
        worlds
    };
    assert!(history().settle(&stored(&[create("a", 1)])).is_ok());
    let back = stored(&[create_container("x", 20), create("a", 1)]);
    assert!(history().settle(&back).is_err(), "it is back");
    assert!(history().settle(&stored(&[])).is_err(), "another's item went with it");
}

#[test]
fn an_item_of_another_container_is_foreign() {
    let mut wrong = start();
    let container =
        wrong.databases.get_mut("d").and_then(|found| found.containers.get_mut("c")).expect("there");
    let key = Key { partition: "p".to_owned(), id: "a".to_owned() };
    container.items.insert(key, Stored { home: HOME + 1, version: 1 });
    let nearest = after(&[]).settle(&wrong).expect_err("noticed").nearest;
    assert_eq!(differences(&nearest, &wrong)[0].0, Breach::Foreign);
}

#[test]
fn definitions_are_compared_too() {
    let replace = |ttl| Operation::ReplaceContainer {
        at: at("c"),
        tag: HOME,
        definition: Definition { ttl, excluded: 1 },
    };
    let user = |name: &str| Operation::CreateUser { database: "d".to_owned(), user: name.to_owned() };
    let offer = Operation::ReplaceOffer {
        database: "d".to_owned(),
        container: Some(("c".to_owned(), HOME)),
        throughput: 900,
    };
    let history = || after(&[(replace(50), 200), (user("u"), 201), (offer.clone(), 200)]);
    assert!(history().settle(&stored(&[replace(50), user("u"), offer.clone()])).is_ok());
    for wrong in [
        stored(&[user("u"), offer.clone()]),
        stored(&[replace(51), user("u"), offer.clone()]),
        stored(&[replace(50), offer.clone()]),
        stored(&[replace(50), user("u")]),
        stored(&[replace(50), user("u"), user("v"), offer.clone()]),
    ] {
        assert!(history().settle(&wrong).is_err(), "{wrong:?}");
    }
}
