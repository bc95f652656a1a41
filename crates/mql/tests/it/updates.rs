//! An update is one point in time: all operators and array filters see the document before it.
//!
//! The oracle works on JSON. It finds the places of every path in the document before the update,
//! refuses updates that meet in one place, and applies the rest one by one, in the order in which
//! the client wrote them. `MQL_UPDATES` sets the number of rounds.

use crate::commands::env;
use crate::tagged;
use serde_json::{Map, Value as Json, json};
use shardlake_mql::{Document, Matched, Result, Scope, Update, Value};
use shardlake_stdx::Random;
use std::collections::BTreeSet;

fn document(json: &Json) -> Document {
    let Value::Document(document) = tagged::value(json) else { panic!("{json} is a document") };
    (*document).clone()
}

/// The form of a value that the oracle compares; the order of fields is left out.
fn json_of(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Int(number) => json!(number),
        Value::String(text) => json!(&**text),
        Value::Array(items) => items.iter().map(json_of).collect(),
        Value::Document(document) => document
            .iter()
            .map(|(name, value)| (name.to_string(), json_of(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => panic!("the cases have no {other}"),
    }
}

fn apply_at(old: &Json, update: &Json, filters: &[Json], matched: Matched) -> Result<Document> {
    let filters: Vec<Value> = filters.iter().map(tagged::value).collect();
    let update = Update::parse(&tagged::value(update), &filters, &Scope::new())?;
    Ok(update.apply(&document(old), matched, false, &mut env())?.document)
}

fn apply(old: &Json, update: &Json, filters: &[Json]) -> Result<Json> {
    apply_at(old, update, filters, Matched::default()).map(|new| json_of(&Value::document(new)))
}

#[track_caller]
fn check(old: Json, update: Json, filters: &[Json], new: Json) {
    assert_eq!(apply(&old, &update, filters), Ok(new), "{update} with {filters:?}");
}

#[track_caller]
fn refused(old: Json, update: Json, filters: &[Json], code: i32, words: &str) {
    let error = apply(&old, &update, filters).expect_err("an error");
    assert_eq!((error.code(), error.message()), (code, words), "{update} with {filters:?}");
}

#[test]
fn array_filters_see_the_elements_before_the_update() {
    let old = json!({"l": [{"k": 1, "x": 0}, {"k": 2, "x": 0}]});
    check(
        old.clone(),
        json!({"$set": {"l.$[e].k": 9, "l.$[e].x": 9}}),
        &[json!({"e.k": 1})],
        json!({"l": [{"k": 9, "x": 9}, {"k": 2, "x": 0}]}),
    );
    check(
        old.clone(),
        json!({"$set": {"l.$[e].k": 2}, "$inc": {"l.$[f].x": 1}}),
        &[json!({"e.k": 1}), json!({"f.k": 2})],
        json!({"l": [{"k": 2, "x": 0}, {"k": 2, "x": 1}]}),
    );
    check(
        old,
        json!({"$unset": {"l.$[e].k": 1}, "$rename": {"l2": "l3"}, "$set": {"l.$[].y": 1}}),
        &[json!({"e.k": {"$exists": true}})],
        json!({"l": [{"x": 0, "y": 1}, {"x": 0, "y": 1}]}),
    );
}

/// The expressions of one stage see the document before the stage.
#[test]
fn stages_of_pipelines_see_the_document_before_them() {
    let old = json!({"a": 1, "b": 2, "l": [{"x": 1, "y": 2}]});
    for stage in ["$set", "$addFields", "$project"] {
        let mut update = json!({"a": "$b", "b": "$a"});
        if stage == "$project" {
            update["l"] = json!(1);
        }
        check(old.clone(), json!([{stage: update}]), &[], json!({"a": 2, "b": 1, "l": [{"x": 1, "y": 2}]}));
    }
    check(
        old,
        json!([{"$set": {"l.x": "$l.y", "l.y": "$l.x"}}, {"$set": {"a": "$l.x"}}, {"$unset": "l"}]),
        &[],
        json!({"a": [[2]], "b": 2}),
    );
}

#[test]
fn updates_that_meet_are_refused() {
    let old = json!({"l": [{"k": 1, "m": {}}], "a": 1});
    let both = [json!({"e.k": 1}), json!({"f.k": {"$gt": 0}})];
    let one = &both[..1];
    for (update, filters, words) in [
        (
            json!({"$set": {"a": 1}, "$inc": {"a": 1}}),
            &[][..],
            "Updating the path 'a' would create a conflict at 'a'",
        ),
        (
            json!({"$set": {"a": 1}, "$inc": {"a.b": 1}}),
            &[],
            "Updating the path 'a.b' would create a conflict at 'a'",
        ),
        (
            json!({"$inc": {"a.b": 1}, "$set": {"a": 1}}),
            &[],
            "Updating the path 'a' would create a conflict at 'a'",
        ),
        (
            json!({"$rename": {"a": "b"}, "$set": {"b.c": 1}}),
            &[],
            "Updating the path 'b.c' would create a conflict at 'b'",
        ),
        (
            json!({"$inc": {"l.0.x": 1}, "$set": {"l.$[e].y": 1}}),
            one,
            "Updating the path 'l.$[e].y' would create a conflict at 'l'",
        ),
        (
            json!({"$set": {"l.$[e].y": 1}, "$inc": {"l.0.x": 1}}),
            one,
            "Updating the path 'l.0.x' would create a conflict at 'l'",
        ),
        (
            json!({"$set": {"l.$[e].x": 1}, "$inc": {"l.$[f].x": 1}}),
            &both,
            "Update created a conflict at 'l.0.x'",
        ),
        (
            json!({"$set": {"l.$[e]": 1}, "$inc": {"l.$[f].x": 1}}),
            &both,
            "Update created a conflict at 'l.0'",
        ),
        (
            json!({"$unset": {"l.$[e].m.n.o": 1}, "$pull": {"l.$[f].m.n.o": 1}}),
            &both,
            "Update created a conflict at 'l.0.m.n.o'",
        ),
    ] {
        refused(old.clone(), update, filters, 40, words);
    }
    let positional = json!({"$set": {"l.$.k": 1}, "$inc": {"l.0.k": 1}});
    let error = apply_at(&old, &positional, &[], Matched { index: Some(0) }).expect_err("a conflict");
    assert_eq!((error.code(), error.message()), (40, "Update created a conflict at 'l.0.k'"));
}

#[test]
fn renamed_fields_keep_the_order_of_their_new_names() {
    let old = json!({"z": 1});
    let update = json!({"$rename": {"z": "a"}, "$set": {"m": 2}});
    let new = apply_at(&old, &update, &[], Matched::default()).expect("applied");
    let names: Vec<&str> = new.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["a", "m"]);
    check(
        json!({"a": {"b": 1}}),
        json!({"$rename": {"a.b": "c"}, "$set": {"a.d": 2}}),
        &[],
        json!({"a": {"d": 2}, "c": 1}),
    );
}

#[test]
fn fields_cannot_be_renamed_through_scalars_or_to_the_identity() {
    refused(
        json!({"a": 5}),
        json!({"$rename": {"a.b": "c"}}),
        &[],
        28,
        "cannot use the path 'a.b' to traverse 5",
    );
    refused(
        json!({"_id": 1, "a": 1}),
        json!({"$rename": {"a": "_id"}}),
        &[],
        66,
        "Performing an update on the path '_id' would modify the immutable field '_id'",
    );
    check(json!({"a": {}}), json!({"$rename": {"a.b.c": "d"}}), &[], json!({"a": {}}));
}

#[test]
fn paths_that_no_field_can_be_created_at_name_the_element() {
    for (old, update, words) in [
        (
            json!({"a": [1, 2, 3]}),
            json!({"$set": {"a.b": 1}}),
            "Cannot create field 'b' in element {a: [ 1, 2, 3 ]}",
        ),
        (json!({"a": 5}), json!({"$inc": {"a.b.c": 1}}), "Cannot create field 'b' in element {a: 5}"),
        (json!({"a": [null]}), json!({"$set": {"a.0.b": 1}}), "Cannot create field 'b' in element {0: null}"),
        (json!({"a": [5]}), json!({"$set": {"a.$[].b": 1}}), "Cannot create field 'b' in element {0: 5}"),
    ] {
        refused(old, update, &[], 28, words);
    }
    check(json!({"a": 5}), json!({"$unset": {"a.b": 1}}), &[], json!({"a": 5}));
    for (update, path) in [(json!({"$pull": {"a.b.c": 1}}), "a.b.c"), (json!({"$pop": {"a.b": 1}}), "a.b")] {
        let words = format!("Cannot use the part (b) of ({path}) to traverse the element ({{a: 5}})");
        refused(json!({"a": 5}), update, &[], 28, &words);
    }
    refused(
        json!({"a": {}}),
        json!({"$unset": {"a.b.c.$[].d": 1}}),
        &[],
        2,
        "The path 'a.b.c' must exist in the document in order to apply array updates.",
    );
    refused(
        json!({"a": {"b": 5}}),
        json!({"$unset": {"a.b.$[].d": 1}}),
        &[],
        2,
        "Cannot apply array updates to non-array element b: 5",
    );
}

/// One operator on one path.
#[derive(Clone, Debug)]
struct Step {
    operator: &'static str,
    path: &'static str,
    operand: Json,
}

impl Step {
    fn parts(&self) -> Vec<&'static str> {
        self.path.split('.').collect()
    }
}

/// An update, and the parts of it that the oracle needs.
struct Case {
    old: Json,
    steps: Vec<Step>,
    /// The number that the filter of each identifier compares with.
    bounds: [i64; 4],
    matched: Option<usize>,
}

const IDENTIFIERS: [&str; 4] = ["e", "f", "d", "g"];

const PATHS: &[&str] = &[
    "n",
    "m.a",
    "m.c",
    "m",
    "o.p.q",
    "l.$[e].k",
    "l.$[e].x",
    "l.$[e].y",
    "l.$[e]",
    "l.$[f].k",
    "l.$[f].x",
    "l.$[f].y",
    "l.$[].x",
    "l.$[].k",
    "l.$[e].in.$[d].k",
    "l.$[e].in.$[d].z",
    "l.$[e].in.$[g].z",
    "l.$[f].in.$[d].k",
    "l.$[f].in.$[g].k",
    "l.$[].in.$[g].y",
    "l.$[e].in.0.z",
    "l.$[f].in.1.k",
    "l.$[e].w.v",
    "l.$[f].w.v",
    "l.0.x",
    "l.1.k",
    "l.3.x",
    "l.$.x",
    "l.$.k",
    "l.$.in.$[d].k",
    "l.0.in.$[g].k",
];

impl Case {
    fn random(random: &Random) -> Case {
        let number = |bound| random.below(bound) as i64;
        let inner = || json!({"k": number(3), "z": number(3)});
        let element = || {
            let mut element = json!({"in": (0..number(3)).map(|_| inner()).collect::<Vec<_>>()});
            for name in ["k", "x"] {
                if number(5) > 0 {
                    element[name] = json!(number(3));
                }
            }
            element
        };
        let elements: Vec<Json> = (0..number(4)).map(|_| element()).collect();
        let matched = (number(8) > 0 && !elements.is_empty()).then(|| number(elements.len() as u64) as usize);
        let step = |_| {
            let path = PATHS[random.below(PATHS.len() as u64) as usize];
            let operators: &[&str] = match path {
                "m" | "l.$[e]" => &["$set", "$unset"],
                _ => &["$set", "$set", "$inc", "$mul", "$unset", "$min", "$max"],
            };
            let operator = operators[random.below(operators.len() as u64) as usize];
            Step { operator, path, operand: json!(number(4)) }
        };
        Case {
            old: json!({"_id": 1, "n": 1, "m": {"a": 1, "b": 1}, "l": elements}),
            steps: (0..=number(4)).map(step).collect(),
            bounds: [number(3), number(3), number(3), number(3)],
            matched,
        }
    }

    /// Whether the filter of an identifier accepts an element: the first identifier of each level
    /// compares for equality, the second one for order.
    fn accepts(&self, identifier: &str, element: &Json) -> bool {
        let Some(at) = IDENTIFIERS.iter().position(|known| *known == identifier) else { return true };
        let key = element["k"].as_i64();
        key.is_some_and(|key| if at % 2 == 0 { key == self.bounds[at] } else { key >= self.bounds[at] })
    }

    fn filters(&self) -> Vec<Json> {
        let used = |identifier: &&str| {
            let part = format!("$[{identifier}]");
            self.steps.iter().any(|step| step.parts().contains(&part.as_str()))
        };
        let filter = |identifier: &str| {
            let at = IDENTIFIERS.iter().position(|known| *known == identifier).unwrap();
            let name = format!("{identifier}.k");
            if at % 2 == 0 {
                json!({name: self.bounds[at]})
            } else {
                json!({name: {"$gte": self.bounds[at]}})
            }
        };
        IDENTIFIERS.iter().filter(|name| used(name)).map(|name| filter(name)).collect()
    }

    /// The update with its operators in the order of the steps.
    fn update(&self, steps: &[Step]) -> Value {
        let mut operators: Vec<(&str, Document)> = Vec::new();
        for step in steps {
            if !operators.iter().any(|(known, _)| *known == step.operator) {
                operators.push((step.operator, Document::new()));
            }
            let (_, paths) = operators.iter_mut().find(|(known, _)| *known == step.operator).unwrap();
            paths.push(step.path, tagged::value(&step.operand));
        }
        let operators = operators.into_iter().map(|(name, paths)| (name.into(), Value::document(paths)));
        Value::document(operators.collect())
    }

    fn run(&self, steps: &[Step]) -> Result<Document> {
        let filters: Vec<Value> = self.filters().iter().map(tagged::value).collect();
        let update = Update::parse(&self.update(steps), &filters, &Scope::new())?;
        let matched = Matched { index: self.matched };
        Ok(update.apply(&document(&self.old), matched, false, &mut env())?.document)
    }

    /// The document after the update, or the codes of the possible errors.
    fn expected(&self) -> std::result::Result<Json, BTreeSet<i32>> {
        let mut codes = BTreeSet::new();
        for (at, step) in self.steps.iter().enumerate() {
            let other = &self.steps[..at];
            if other.iter().any(|other| self.meet(&step.parts(), &other.parts(), Some(&self.old))) {
                codes.insert(40);
            }
            let has_no_element = step.path.contains("$.") && self.matched.is_none();
            let has_no_array = step.path == "l.0.in.$[g].k" && self.old["l"].get(0).is_none();
            if has_no_element || has_no_array {
                codes.insert(2);
            }
        }
        if !codes.is_empty() {
            return Err(codes);
        }
        let mut new = self.old.clone();
        for step in &self.steps {
            for place in self.places(&step.parts(), Some(&self.old)) {
                change(&mut new, &place, step);
            }
        }
        Ok(new)
    }

    /// Whether two paths meet, by themselves or in one element of the document.
    fn meet(&self, left: &[&str], right: &[&str], value: Option<&Json>) -> bool {
        let (Some((left, left_rest)), Some((right, right_rest))) = (left.split_first(), right.split_first())
        else {
            return true;
        };
        let identifier = |part: &str| Some(part.strip_prefix("$[")?.strip_suffix(']')?.to_owned());
        match (identifier(left), identifier(right)) {
            (None, None) => {
                let concrete = |part: &str| match (part, self.matched) {
                    ("$", Some(index)) => index.to_string(),
                    (part, _) => part.to_owned(),
                };
                let name = concrete(left);
                name == concrete(right)
                    && self.meet(left_rest, right_rest, value.and_then(|value| member(value, &name)))
            }
            (Some(left), Some(right)) => {
                let elements = value.and_then(Json::as_array).into_iter().flatten();
                let mut shared =
                    elements.filter(|item| self.accepts(&left, item) && self.accepts(&right, item));
                (left == right && self.meet(left_rest, right_rest, None))
                    || shared.any(|item| self.meet(left_rest, right_rest, Some(item)))
            }
            _ => true,
        }
    }

    /// The places that a path names in a document.
    fn places(&self, parts: &[&str], value: Option<&Json>) -> Vec<Vec<String>> {
        let Some((part, rest)) = parts.split_first() else { return vec![Vec::new()] };
        let names: Vec<String> = match part.strip_prefix("$[").and_then(|part| part.strip_suffix(']')) {
            Some(identifier) => {
                let items = value.and_then(Json::as_array).into_iter().flatten().enumerate();
                items
                    .filter(|(_, item)| self.accepts(identifier, item))
                    .map(|(at, _)| at.to_string())
                    .collect()
            }
            None if *part == "$" => self.matched.iter().map(usize::to_string).collect(),
            None => vec![(*part).to_owned()],
        };
        let below = |name: String| {
            let places = self.places(rest, value.and_then(|value| member(value, &name)));
            places.into_iter().map(move |mut place| {
                place.insert(0, name.clone());
                place
            })
        };
        names.into_iter().flat_map(below).collect()
    }
}

fn member<'a>(value: &'a Json, name: &str) -> Option<&'a Json> {
    match value {
        Json::Array(items) => items.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    }
}

/// Applies one operator at one place. Missing documents are created, and arrays fill with nulls.
fn change(value: &mut Json, place: &[String], step: &Step) {
    let (name, rest) = place.split_first().unwrap();
    let removes = step.operator == "$unset";
    if member(value, name).is_none() {
        if removes {
            return;
        }
        let created = if rest.is_empty() { Json::Null } else { json!({}) };
        if let Json::Array(items) = value {
            items.resize(name.parse().unwrap(), Json::Null);
            items.push(created);
        } else {
            value[name] = created;
        }
        if rest.is_empty() {
            let created = if step.operator == "$mul" { json!(0) } else { step.operand.clone() };
            *member_mut(value, name) = created;
            return;
        }
    }
    if !rest.is_empty() {
        return change(member_mut(value, name), rest, step);
    }
    if removes {
        match value {
            Json::Array(_) => *member_mut(value, name) = Json::Null,
            value => drop(value.as_object_mut().unwrap().remove(name)),
        }
        return;
    }
    let slot = member_mut(value, name);
    let (old, operand) = (slot.as_i64(), step.operand.as_i64().unwrap());
    *slot = match (step.operator, old) {
        ("$inc", Some(old)) => json!(old + operand),
        ("$mul", Some(old)) => json!(old * operand),
        ("$min", Some(old)) => json!(old.min(operand)),
        ("$max", Some(old)) => json!(old.max(operand)),
        _ => step.operand.clone(),
    };
}

fn member_mut<'a>(value: &'a mut Json, name: &str) -> &'a mut Json {
    match value {
        Json::Array(items) => &mut items[name.parse::<usize>().unwrap()],
        value => &mut value[name],
    }
}

/// Fields that an update adds to a document stand behind the others, in the order of their names.
fn check_order(old: &Json, new: &Value, words: &str) {
    match new {
        Value::Document(document) => {
            let names: Vec<&str> = document.iter().map(|(name, _)| &**name).collect();
            let added: Vec<&str> = names.iter().copied().skip_while(|name| old.get(name).is_some()).collect();
            assert!(
                added.is_sorted() && added.iter().all(|name| old.get(name).is_none()),
                "{words}: {names:?}"
            );
            for (name, value) in document.iter() {
                check_order(&old[&**name], value, words);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                check_order(old.get(at).unwrap_or(&Json::Null), item, words);
            }
        }
        _ => {}
    }
}

fn shuffled(steps: &[Step], random: &Random) -> Vec<Step> {
    let mut steps = steps.to_vec();
    for at in (1..steps.len()).rev() {
        steps.swap(at, random.below(at as u64 + 1) as usize);
    }
    steps
}

#[test]
fn updates_equal_an_oracle_in_every_order_of_their_operators() {
    let rounds =
        std::env::var_os("MQL_UPDATES").map_or(2_000, |rounds| rounds.to_str().unwrap().parse().unwrap());
    let (mut applied, mut conflicts) = (0, 0);
    for seed in 0..rounds {
        let random = Random::seeded(seed);
        let case = Case::random(&random);
        let expected = case.expected();
        match &expected {
            Ok(_) => applied += 1,
            Err(_) => conflicts += 1,
        }
        for _ in 0..3 {
            let steps = shuffled(&case.steps, &random);
            let words =
                format!("seed {seed}: {} with {:?} of {}", case.update(&steps), case.filters(), case.old);
            match (case.run(&steps), &expected) {
                (Ok(new), Ok(expected)) => {
                    let new = Value::document(new);
                    assert_eq!(&json_of(&new), expected, "{words}");
                    check_order(&case.old, &new, &words);
                }
                (Err(error), Err(codes)) => assert!(codes.contains(&error.code()), "{words}: {error}"),
                (Ok(new), Err(codes)) => panic!("{words}: {new} instead of an error of {codes:?}"),
                (Err(error), Ok(_)) => panic!("{words}: {error}"),
            }
        }
    }
    assert!(applied > rounds / 5 && conflicts > rounds / 10, "{applied} applied, {conflicts} refused");
}
