//! Each contradiction is found, and a change runs the predicates that it could break.

use proptest::prelude::*;
use shardlake_model::{
    Container, ContainerDefinition, ContainerRid, Database, DatabaseRid, PartitionKeyDefinition,
    PartitionUid, Script, ScriptKind, User, UserRid,
};

use super::*;
use crate::{DroppedMark, FormerRange, Holder, LogHold, Numbers, PlaceRecord, RelocationRecord};

fn range(uid: u32, range_id: u32, min: &str, max: &str) -> RangeRecord {
    RangeRecord {
        uid,
        range_id,
        min: min.into(),
        max: max.into(),
        rid_prefix: range_id,
        parents: vec![],
        shard: 0,
        throughput: None,
    }
}

const DATABASE: DatabaseRid = DatabaseRid(7);

fn rid(number: u32) -> ContainerRid {
    ContainerRid { database: DATABASE, number }
}

fn container(number: u32, id: &str, ranges: Vec<RangeRecord>) -> ContainerRecord {
    let definition = ContainerDefinition::new(id, PartitionKeyDefinition::hash("/pk"));
    ContainerRecord {
        container: Container {
            rid: rid(number),
            etag: [0; 16],
            timestamp: 0,
            definition,
            kept: None,
            is_collection: false,
            narrowings: Vec::new(),
            bounds: None,
        },
        ranges,
        generation: 1,
        session_version: 0,
        index: Default::default(),
        relocation: None,
        former: Vec::new(),
    }
}

/// Two containers; the second is being split.
fn sound() -> Definitions {
    let mut definitions =
        Definitions { numbers: Numbers { partition: 10, ..Numbers::default() }, ..Definitions::default() };
    let database = Database { id: "d".into(), rid: DATABASE, etag: [0; 16], timestamp: 0, kept: None };
    definitions.databases.put(DATABASE, database);
    let ranges = vec![range(1, 0, "", "20"), range(2, 1, "20", "FF")];
    definitions.containers.put(rid(1), container(1, "one", ranges));
    let mut split = container(2, "two", vec![range(3, 0, "", "FF")]);
    split.relocation = Some(RelocationRecord {
        kind: RelocationKind::Split,
        sources: vec![0],
        targets: vec![range(4, 1, "", "1F"), range(5, 2, "1F", "FF")],
    });
    definitions.containers.put(rid(2), split);
    definitions.dropped.put(PartitionUid(6), DroppedMark::On { shard: 1 });
    definitions
}

fn edited(edit: impl FnOnce(&mut ContainerRecord)) -> Definitions {
    let mut definitions = sound();
    let mut record = ContainerRecord::clone(definitions.containers.get(&rid(2)).expect("the second"));
    edit(&mut record);
    definitions.containers.put(rid(2), record);
    definitions
}

fn targets(record: &mut ContainerRecord) -> &mut Vec<RangeRecord> {
    &mut record.relocation.as_mut().expect("it is being split").targets
}

fn former(range_id: u32, min: &str, max: &str) -> FormerRange {
    FormerRange { range_id, min: min.into(), max: max.into() }
}

/// The container's one range is the successor of these.
fn ended(record: &mut ContainerRecord, former: Vec<FormerRange>) {
    record.relocation = None;
    record.ranges[0].range_id = 7;
    record.former = former;
}

#[test]
fn sound_definitions_have_no_problems() {
    let merged = edited(|record| ended(record, vec![former(0, "", "20"), former(3, "20", "FF")]));
    assert_eq!(broken(&merged), Vec::<String>::new());
    assert_eq!(broken(&sound()), Vec::<String>::new());
    assert_eq!(loose_ends(&sound()), Vec::<String>::new());
    assert_eq!(broken(&Definitions::default()), Vec::<String>::new());
}

#[test]
fn each_contradiction_is_named() {
    let cases: Vec<(&str, Definitions)> = vec![
        ("in use twice", edited(|record| record.ranges[0].uid = 1)),
        ("in use twice", edited(|record| targets(record)[0].uid = 3)),
        ("in use twice", edited(|record| targets(record)[0].uid = 6)),
        ("in use twice", edited(|record| record.ranges[0].uid = 0)),
        ("never handed out", edited(|record| record.ranges[0].uid = 10)),
        ("never handed out", edited(|record| targets(record)[1].uid = 11)),
        ("do not fit together", edited(|record| record.ranges[0].max = "3F".into())),
        ("do not fit together", edited(|record| record.ranges[0].min = "not hexadecimal".into())),
        ("do not fit together", edited(|record| record.ranges.push(range(7, 0, "FF", "FF")))),
        ("do not fit together", edited(|record| record.ranges.clear())),
        ("does not fit its ranges", edited(|record| targets(record)[1].min = "20".into())),
        ("does not fit its ranges", edited(|record| drop(targets(record).pop()))),
        ("does not fit its ranges", edited(|record| targets(record)[0].range_id = 0)),
        ("does not fit its ranges", edited(|record| record.ranges[0].range_id = 5)),
        ("former ranges", edited(|record| record.former.push(former(0, "", "20")))),
        ("former ranges", edited(|record| record.former = vec![former(1, "", "20")])),
        ("former ranges", edited(|record| ended(record, vec![former(1, "20", "20")]))),
        ("former ranges", edited(|record| ended(record, vec![former(1, "", "x")]))),
        ("former ranges", edited(|record| ended(record, vec![former(1, "", "20"), former(1, "20", "FF")]))),
        ("two containers", edited(|record| record.container.definition.id = "one".into())),
    ];
    for (words, definitions) in cases {
        let problems = broken(&definitions);
        assert!(problems.iter().any(|problem| problem.contains(words)), "'{words}' in {problems:?}");
    }
}

#[test]
fn records_without_their_owner_are_named() {
    let mut definitions = sound();
    definitions.databases.remove(&DATABASE);
    assert_eq!(broken(&definitions).len(), 2, "both containers");
    let mut definitions = sound();
    let script = Script {
        kind: ScriptKind::Function,
        id: "f".into(),
        number: 1,
        etag: [0; 16],
        timestamp: 0,
        body: String::new(),
        trigger: None,
        spelling: None,
    };
    definitions.scripts.put((rid(1), 1), script.clone());
    assert_eq!(broken(&definitions), Vec::<String>::new());
    definitions.scripts.put((rid(1), 2), script.clone());
    definitions.scripts.put((rid(9), 1), script);
    assert_eq!(broken(&definitions).len(), 2, "a twin and an orphan");
    let mut definitions = sound();
    let user = |database, number| UserRid { database, number };
    for rid in [user(DATABASE, 1), user(DATABASE, 2), user(DatabaseRid(8), 1)] {
        definitions.users.put(rid, User { id: "u".into(), rid, etag: [0; 16], timestamp: 0 });
    }
    assert_eq!(broken(&definitions).len(), 2, "a twin and an orphan");
}

#[test]
fn holds_have_a_container_and_positions_that_can_be_read() {
    let hold = |number, min: &str| {
        let place = PlaceRecord { min: min.into(), max: "FF".into(), after: 1 };
        LogHold::new(rid(number), Holder::Projection(3), vec![place], 0)
    };
    let mut definitions = sound();
    definitions.put_log_hold(hold(1, ""));
    definitions.put_log_hold(LogHold { holder: Holder::Copy(3), ..hold(1, "") });
    definitions.put_log_hold(hold(2, "20"));
    assert_eq!(broken(&definitions), Vec::<String>::new());
    assert_eq!(definitions.log_holds_of(rid(1)).count(), 2);
    let mut malformed = definitions.clone();
    malformed.put_log_hold(hold(1, "x"));
    malformed.put_log_hold(hold(9, ""));
    let problems = broken(&malformed);
    assert!(problems.iter().any(|problem| problem.contains("position of Projection(3)")), "{problems:?}");
    assert!(problems.iter().any(|problem| problem.contains("which does not exist")), "{problems:?}");
    let change = Change::between(std::sync::Arc::new(sound()), malformed);
    assert_eq!(broken_by(&change), problems, "a draft is refused for them");
    // They end with their followers and with their containers.
    definitions.remove_projection(3);
    assert_eq!(definitions.log_holds.len(), 1);
    definitions.remove_container(rid(1));
    assert!(definitions.log_holds.is_empty());
}

/// One random edit of a draft.
fn edit(draft: &mut Definitions, (kind, number, text): (u8, u32, u8)) {
    let number = number % 4;
    let id = format!("{}", text % 3);
    let mut change = |edit: &dyn Fn(&mut ContainerRecord)| {
        if let Some(record) = draft.containers.get(&rid(number)).cloned() {
            let mut record = ContainerRecord::clone(&record);
            edit(&mut record);
            draft.containers.put(rid(number), record);
        }
    };
    match kind % 8 {
        0 => drop(
            draft
                .containers
                .put(rid(number), container(number, &id, vec![range(u32::from(text), 0, "", "FF")])),
        ),
        1 => draft.remove_container(rid(number)),
        2 => change(&|record| record.ranges[0].uid = u32::from(text)),
        3 => change(&|record| record.ranges[0].max = format!("{text:02X}")),
        4 => change(&|record| record.relocation = None),
        5 => draft.remove_database(DATABASE),
        6 => drop(draft.dropped.put(PartitionUid(u32::from(text)), DroppedMark::On { shard: 0 })),
        _ => change(&|record| record.container.definition.id.clone_from(&id)),
    }
}

proptest! {
    /// A commit runs the predicates that its change concerns: those must be all that the change could break.
    #[test]
    fn what_a_change_breaks_is_found_by_the_predicates_that_it_concerns(
        edits in prop::collection::vec((any::<u8>(), any::<u32>(), 0u8..12), 1..4),
    ) {
        let before = std::sync::Arc::new(sound());
        let mut draft = Definitions::clone(&before);
        for one in edits {
            edit(&mut draft, one);
        }
        let change = Change::between(before, draft);
        prop_assert_eq!(broken_by(&change).is_empty(), broken(&change.after).is_empty());
    }
}

fn index(number: u32, source: u32) -> crate::SecondaryIndexRecord {
    crate::SecondaryIndexRecord {
        number,
        source: rid(source),
        source_id: "one".into(),
        definition: "SELECT c.a FROM c".into(),
        settings: Default::default(),
        state: Default::default(),
        generation: 1,
        created: 0,
    }
}

/// The second container is an index of the first.
fn indexed() -> Definitions {
    let mut definitions = sound();
    let number = definitions.new_copy_number();
    definitions.secondary_indexes.put(rid(2), index(number, 1));
    definitions
}

#[test]
fn indexes_have_containers_sources_and_numbers() {
    assert_eq!(broken(&indexed()), Problems::new());
    let problem_of = |edit: fn(&mut Definitions)| {
        let mut definitions = indexed();
        edit(&mut definitions);
        broken(&definitions).join("; ")
    };
    for (problem, edit) in [
        (
            "which does not exist",
            (|definitions| drop(definitions.containers.remove(&rid(2)))) as fn(&mut Definitions),
        ),
        ("the source", |definitions| drop(definitions.containers.remove(&rid(1)))),
        ("never handed out", |definitions| drop(definitions.secondary_indexes.put(rid(2), index(9, 1)))),
        ("its own source", |definitions| drop(definitions.secondary_indexes.put(rid(2), index(1, 2)))),
        ("two copies", |definitions| drop(definitions.secondary_indexes.put(rid(1), index(1, 2)))),
    ] {
        assert!(problem_of(edit).contains(problem), "{problem}: {}", problem_of(edit));
    }
}

#[test]
fn an_index_ends_with_its_container() {
    let mut definitions = indexed();
    definitions.checkpoints.put(1, Default::default());
    definitions.put_log_hold(LogHold::new(rid(1), Holder::Copy(1), Vec::new(), 0));
    assert_eq!(definitions.secondary_indexes_of(rid(1)).map(|(rid, _)| rid).collect::<Vec<_>>(), [rid(2)]);
    assert_eq!(
        (definitions.secondary_index_depth(rid(1)), definitions.secondary_index_depth(rid(2))),
        (0, 1)
    );
    assert_eq!(loose_ends(&definitions), Problems::new());
    definitions.remove_container(rid(2));
    assert_eq!(definitions.secondary_indexes_of(rid(1)).count(), 0);
    assert!(definitions.checkpoints.is_empty() && definitions.log_holds.is_empty());
    assert_eq!((broken(&definitions), loose_ends(&definitions)), (Problems::new(), Problems::new()));
}

fn function(number: u32) -> crate::FunctionRecord {
    let source = serde_json::json!({ "database": "d", "container": "one" });
    let definition =
        serde_json::json!({ "id": "f", "source": source, "access": { "two": "read" }, "code": "x" });
    crate::FunctionRecord {
        number,
        definition: serde_json::from_value(definition).expect("complete"),
        source: rid(1),
        access: vec![rid(2)],
        version: 1,
        earlier: Vec::new(),
        former_numbers: Vec::new(),
        is_paused: false,
        pause_reason: None,
        created: 0,
        changed: 0,
    }
}

#[test]
fn functions_have_numbers_and_ids_of_their_own_and_outlive_their_containers() {
    let mut definitions = indexed();
    let number = definitions.new_copy_number();
    definitions.functions.put(number, function(number));
    definitions.checkpoints.put(number, Default::default());
    definitions.put_log_hold(LogHold::new(rid(1), Holder::Copy(number), Vec::new(), 0));
    assert_eq!((broken(&definitions), loose_ends(&definitions)), (Problems::new(), Problems::new()));
    for (problem, wrong) in [
        ("never handed out", function(9)),
        ("in use twice", function(1)),
        ("two functions", function(2)),
        ("other containers", crate::FunctionRecord { access: Vec::new(), ..function(2) }),
    ] {
        let mut draft = definitions.clone();
        draft.numbers.projection = if problem == "two functions" { 3 } else { 2 };
        let key = if problem == "two functions" { 3 } else { wrong.number };
        draft.functions.put(key, wrong);
        let problems = broken(&draft).join("; ");
        assert!(problems.contains(problem), "{problem}: {problems}");
        let change = Change::between(std::sync::Arc::new(definitions.clone()), draft);
        assert!(!broken_by(&change).is_empty(), "a draft is refused for it: {problem}");
    }
    definitions.remove_container(rid(2));
    definitions.remove_container(rid(1));
    assert_eq!(definitions.function("f").map(|record| record.number), Some(number));
    definitions.remove_function(number);
    assert!(definitions.checkpoints.is_empty() && definitions.functions.is_empty());
}
