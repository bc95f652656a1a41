//! Groups of indexes over items that come, change and go: equal to the query over the items, with sums that are
//! rounded once.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use std::collections::BTreeMap;

use proptest::prelude::*;
use shardlake_document::{Body, Envelope, ItemView, ParseLimits, Value, compare, json_size};
use shardlake_model::{ContainerRid, DatabaseRid, KeyComponent, PartitionKey};
use shardlake_sql::{Argument, Contribution, Derivation, DeriveSource, Dialect, GroupState, derive};
use shardlake_stdx::{Guid, HybridTime};

use crate::support::{Items, prepare};

const DEFINITIONS: [&str; 4] = [
    "SELECT c.pk, c.g, COUNT(1) AS n, COUNT(c.x) AS nx, COUNTIF(c.x > 1) AS big, SUM(c.x) AS sum, AVG(c.x) AS avg, \
     MIN(c.s) AS low, MAX(c.s) AS high FROM c GROUP BY c.pk, c.g",
    "SELECT c.pk, t AS g, COUNT(1) AS n, SUM(t) AS sum, AVG(c.x) AS avg, MIN(c.x) AS low, MAX(t) AS high \
     FROM c JOIN t IN c.tags GROUP BY t, c.pk",
    "SELECT VALUE { pk: c.pk, board: 'all', both: [MIN(c.x), MAX(c.s)], sum: SUM(c.x), avg: AVG(c.x) } \
     FROM c WHERE NOT IS_NULL(c.s) GROUP BY c.pk",
    "SELECT c.pk, LOWER(c.s) AS g, SUM(c.x + 1) AS sum, AVG(c.x * 0.1) AS avg, COUNT(c.g) AS n FROM c \
     GROUP BY c.pk, LOWER(c.s)",
];

fn derivation(text: &str) -> Derivation {
    derive(text, &DeriveSource::default(), Dialect::Shardlake).expect(text)
}

fn view<'b>(body: &'b Body, envelope: &'b Envelope) -> ItemView<'b> {
    let container = ContainerRid { database: DatabaseRid(1), number: 2 };
    ItemView { body: body.raw(), envelope, container, items_link: "dbs/a/colls/b/docs/" }
}

/// The contributions of an item, and their arguments as the log has them.
fn contributions(derivation: &Derivation, item: &Value) -> Vec<(Contribution, Vec<Argument>)> {
    let body = item.to_body().unwrap();
    let envelope = Envelope {
        lsn: 7,
        time: HybridTime::from_seconds(1_700_000_000),
        region: 0,
        etag: Guid([7; 16]),
        ordinal: 3,
        ttl_seconds: None,
        json_size_bytes: json_size(body.raw()) as u32,
        is_altered: false,
    };
    let pk = item.get("pk").and_then(Value::as_str).unwrap();
    let key = PartitionKey::single(KeyComponent::String(pk.to_owned()));
    let found = derivation.contributions(&view(&body, &envelope), &key).unwrap();
    found.into_iter().map(|one| (one.clone(), logged(&one.arguments))).collect()
}

fn logged(arguments: &[Argument]) -> Vec<Argument> {
    let mut bytes = Vec::new();
    arguments.iter().for_each(|argument| argument.write(&mut bytes));
    let mut rest = &bytes[..];
    let read: Vec<Argument> = arguments.iter().map(|_| Argument::read(&mut rest).unwrap()).collect();
    assert!(rest.is_empty());
    read
}

/// Groups as an index keeps them: in the stored form between two changes.
struct Index<'d> {
    derivation: &'d Derivation,
    rows: BTreeMap<String, Value>,
    /// Groups that had to be counted anew.
    recounts: usize,
}

impl Index<'_> {
    fn state(&self, id: &str) -> (Option<Vec<Value>>, GroupState) {
        let Some(row) = self.rows.get(id) else { return (None, self.derivation.new_group()) };
        let state = row.get("_state").and_then(Value::as_str).unwrap();
        let (keys, state) = self.derivation.read_group(state).expect("its own");
        (Some(keys), state)
    }

    fn store(&mut self, id: &str, keys: &[Value], state: &GroupState) {
        match state.is_empty() {
            true => drop(self.rows.remove(id)),
            false => {
                let row = self.derivation.group_row(id, keys, state).unwrap();
                self.rows.insert(id.to_owned(), Value::from_document(row.raw()));
            }
        }
    }

    /// One change of an item, among the items after it.
    fn change(&mut self, old: Option<&Value>, new: Option<&Value>, items: &[Value]) {
        let of = |item: Option<&Value>| item.map_or(Vec::new(), |item| contributions(self.derivation, item));
        let (old, new) = (of(old), of(new));
        let mut ids: Vec<String> = old.iter().chain(&new).map(|(one, _)| one.id.clone()).collect();
        ids.sort();
        ids.dedup();
        for id in ids {
            let (keys, mut state) = self.state(&id);
            let ours = |list: &[(Contribution, Vec<Argument>)]| -> Vec<(Contribution, Vec<Argument>)> {
                list.iter().filter(|(one, _)| one.id == id).cloned().collect()
            };
            let (gone, come) = (ours(&old), ours(&new));
            come.iter().for_each(|(one, _)| state.add(&one.arguments));
            gone.iter().for_each(|(_, arguments)| assert_eq!(state.take_out(arguments), Ok(())));
            let keys = keys.or(come.first().map(|(one, _)| one.keys.clone())).unwrap_or_default();
            if !state.is_known() {
                self.recounts += 1;
                state = self.derivation.new_group();
                for (one, _) in items.iter().flat_map(|item| contributions(self.derivation, item)) {
                    if one.id == id {
                        state.add(&one.arguments);
                    }
                }
            }
            self.store(&id, &keys, &state);
        }
    }

    /// Rows by the text of their keys, without the members of the index.
    fn outputs(&self) -> BTreeMap<String, Value> {
        let row = |row: &Value| {
            let Value::Object(mut members) = row.clone() else { panic!("an object") };
            members.retain(|(name, _)| name != "id" && name != "_state");
            named(Value::Object(members))
        };
        self.rows.values().map(row).collect()
    }
}

fn named(row: Value) -> (String, Value) {
    let keys =
        ["pk", "g"].map(|name| row.get(name).map(normal).map_or(String::new(), |key| format!("{key:?}")));
    (keys.join(" "), row)
}

/// Equal numbers in one form.
fn normal(value: &Value) -> Value {
    match value {
        Value::Double(number) if number.trunc() == *number && number.abs() < 9.2e18 => {
            Value::Int(*number as i64)
        }
        Value::Object(members) => {
            let mut members: Vec<_> =
                members.iter().map(|(name, value)| (name.clone(), normal(value))).collect();
            members.sort_by(|left, right| left.0.cmp(&right.0));
            Value::Object(members)
        }
        Value::Array(elements) => Value::Array(elements.iter().map(normal).collect()),
        other => other.clone(),
    }
}

/// Sum of doubles, rounded once: the parts do not overlap, and the last one decides a tie.
fn exact_sum(numbers: &[f64]) -> f64 {
    let mut parts: Vec<f64> = Vec::new();
    for number in numbers {
        let (mut sum, mut kept) = (*number, 0);
        for place in 0..parts.len() {
            let (large, small) =
                if sum.abs() >= parts[place].abs() { (sum, parts[place]) } else { (parts[place], sum) };
            sum = large + small;
            let rest = small - (sum - large);
            if rest != 0.0 {
                parts[kept] = rest;
                kept += 1;
            }
        }
        parts.truncate(kept);
        parts.push(sum);
    }
    let Some(mut sum) = parts.pop() else { return 0.0 };
    while let Some(part) = parts.pop() {
        let (large, rest) = (sum, part);
        sum = large + rest;
        let lost = rest - (sum - large);
        if lost != 0.0 {
            let next = parts.last().copied().unwrap_or(0.0);
            if (lost < 0.0 && next < 0.0) || (lost > 0.0 && next > 0.0) {
                let doubled = lost * 2.0;
                if doubled == (sum + doubled) - sum {
                    sum += doubled;
                }
            }
            break;
        }
    }
    sum
}

/// SUM and AVG of each group by the exact sum, from the rows that the query groups.
fn exact_of(text: &str, items: &[Value]) -> BTreeMap<String, (Option<f64>, Option<f64>)> {
    let derivation = derivation(text);
    let mut groups: BTreeMap<String, Vec<Contribution>> = BTreeMap::new();
    for (one, _) in items.iter().flat_map(|item| contributions(&derivation, item)) {
        groups.entry(one.id.clone()).or_default().push(one);
    }
    let summed = |list: &[Contribution], place: usize| {
        let poison = list.iter().any(|one| one.arguments[place] == Argument::Poison);
        let numbers = list.iter().filter_map(|one| match one.arguments[place] {
            Argument::Number(number) => Some(number),
            _ => None,
        });
        let numbers: Vec<f64> = numbers.collect();
        (!poison).then(|| (exact_sum(&numbers), numbers.len()))
    };
    let (sum, average) = match text.find("SUM") < text.find("AVG") {
        true => ("SUM(", "AVG("),
        false => panic!("sums come first"),
    };
    let place_of = |name: &str| {
        let names = ["COUNT(", "COUNTIF(", "SUM(", "AVG(", "MIN(", "MAX("];
        let mut places: Vec<(usize, &str)> =
            names.iter().flat_map(|name| text.match_indices(name).map(|(at, _)| (at, *name))).collect();
        places.sort();
        places.iter().position(|(_, found)| *found == name).unwrap()
    };
    let (sum, average) = (place_of(sum), place_of(average));
    let mut found = BTreeMap::new();
    for list in groups.values() {
        let outputs = derivation.group_outputs(&list[0].id, &list[0].keys).unwrap();
        let (name, _) = named(Value::from_document(outputs.raw()));
        let average = summed(list, average).filter(|(_, count)| *count > 0);
        let average = average.map(|(sum, count)| sum / count as f64);
        found.insert(name, (summed(list, sum).map(|(sum, _)| sum), average));
    }
    found
}

fn check(text: &str, index: &Index<'_>, items: &[Value]) -> Result<(), TestCaseError> {
    let found = index.outputs();
    prop_assert_eq!(found.len(), index.rows.len(), "each group has keys of its own: {:?}", index.rows);
    let queried = Items::new(items).rows(&prepare(text).unwrap()).unwrap();
    let queried: BTreeMap<String, Value> = queried
        .iter()
        .map(|row| named(Value::from_json(row.as_bytes(), &ParseLimits::default()).unwrap()))
        .collect();
    prop_assert_eq!(found.keys().collect::<Vec<_>>(), queried.keys().collect::<Vec<_>>());
    let exact = exact_of(text, items);
    for (name, row) in &found {
        let (Value::Object(ours), Value::Object(theirs)) = (row, &queried[name]) else { panic!("objects") };
        let names =
            |members: &[(String, Value)]| members.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        prop_assert_eq!(names(ours), names(theirs), "{} of {}", name, text);
        for ((member, own), (_, other)) in ours.iter().zip(theirs) {
            let number = |value: &Value| value.as_number().map(|number| number.as_f64());
            match member.as_str() {
                "sum" => prop_assert_eq!(number(own), exact[name].0, "{} of {}", name, text),
                "avg" => prop_assert_eq!(number(own), exact[name].1, "{} of {}", name, text),
                _ => prop_assert!(compare(own, other).is_eq(), "{member} of {name}: {own:?} and {other:?}"),
            }
        }
    }
    Ok(())
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (-20..20i64).prop_map(Value::Int),
        3 => prop::sample::select(&[1e300, -1e300, 1e-300, 1e16, -1e16, 0.1, 0.2, 0.3, -0.0][..])
            .prop_map(Value::Double),
        1 => (-1e10..1e10f64).prop_map(Value::Double),
        1 => Just(Value::Int(9_007_199_254_740_993)),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let text = |text: &str| Just(Value::String(text.into()));
    prop_oneof![
        6 => number(),
        1 => prop_oneof![text("a"), text("B"), text("b"), Just(Value::String("x".repeat(90)))],
        1 => prop_oneof![Just(Value::Null), Just(Value::Bool(true)), Just(Value::Bool(false))],
        1 => Just(Value::Array(vec![Value::Int(1)])),
        1 => Just(Value::Object(vec![("a".into(), Value::Int(2))])),
        1 => Just(Value::Undefined),
    ]
}

fn key_value() -> impl Strategy<Value = Value> {
    let object = |members: &[(&str, Value)]| {
        Just(Value::Object(members.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()))
    };
    prop_oneof![
        Just(Value::Int(1)),
        Just(Value::Double(1.0)),
        Just(Value::Double(-0.0)),
        Just(Value::Int(0)),
        Just(Value::Null),
        Just(Value::Undefined),
        Just(Value::String("a".into())),
        object(&[("a", Value::Int(1)), ("b", Value::Int(2))]),
        object(&[("b", Value::Double(2.0)), ("a", Value::Int(1))]),
    ]
}

/// A change of one of few items: its new members, or its end.
fn act() -> impl Strategy<Value = (usize, Option<Vec<(String, Value)>>)> {
    let members = (
        prop::sample::select(&["p", "q"][..]),
        key_value(),
        value(),
        value(),
        prop::collection::vec(value(), 0..3),
    );
    let members = members.prop_map(|(pk, g, x, s, tags)| {
        let tags = tags.into_iter().filter(|tag| !tag.is_undefined()).collect();
        let members =
            [("pk", Value::String(pk.into())), ("g", g), ("x", x), ("s", s), ("tags", Value::Array(tags))];
        let members = members.into_iter().filter(|(_, value)| !value.is_undefined());
        members.map(|(name, value)| (name.to_owned(), value)).collect()
    });
    (0..10usize, prop::option::weighted(0.7, members))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn groups_are_those_of_the_query(
        definition in 0..DEFINITIONS.len(), acts in prop::collection::vec(act(), 1..30), looks in 1..8usize,
    ) {
        let (text, mut items) = (DEFINITIONS[definition], BTreeMap::<usize, Value>::new());
        let derivation = derivation(text);
        let mut index = Index { derivation: &derivation, rows: BTreeMap::new(), recounts: 0 };
        for (number, (item, members)) in acts.iter().enumerate() {
            let old = items.remove(item);
            if let Some(members) = members {
                let id = ("id".to_owned(), Value::String(item.to_string()));
                items.insert(*item, Value::Object([vec![id], members.clone()].concat()));
            }
            let all: Vec<Value> = items.values().cloned().collect();
            index.change(old.as_ref(), items.get(item), &all);
            if number % looks == 0 {
                check(text, &index, &all)?;
            }
        }
        check(text, &index, &items.values().cloned().collect::<Vec<_>>())?;
        for item in items.values() {
            index.change(Some(item), None, &[]);
        }
        prop_assert!(index.rows.is_empty(), "a group without items has no row");
    }

    #[test]
    fn other_texts_are_no_states(text in "[A-Za-z0-9_-]{0,60}") {
        // It must not panic, and it takes no state that it would not write.
        let _read = derivation(DEFINITIONS[0]).read_group(&text);
    }
}

#[test]
fn few_extremes_are_lost() {
    let derivation = derivation("SELECT c.pk, MAX(c.x) AS best FROM c GROUP BY c.pk");
    let mut index = Index { derivation: &derivation, rows: BTreeMap::new(), recounts: 0 };
    let item = |number: i64| {
        Value::Object(vec![
            ("id".into(), Value::String(number.to_string())),
            ("pk".into(), Value::String("p".into())),
            ("x".into(), Value::Int(number)),
        ])
    };
    let mut items: Vec<Value> = (0..400).map(item).collect();
    for item in &items.clone() {
        index.change(None, Some(item), &items);
    }
    while let Some(item) = items.pop() {
        index.change(Some(&item), None, &items);
        let best = index.rows.values().next().and_then(|row| row.get("best").cloned());
        assert_eq!(best, items.last().and_then(|item| item.get("x").cloned()));
    }
    assert!(index.recounts <= 50, "one for eight values: {}", index.recounts);
}
