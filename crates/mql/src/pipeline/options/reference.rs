//! `docs/mongodb-stages.md`, rendered from the table, and a test of every entry.
//!
//! `UPDATE=1 cargo test -p shardlake-mql --lib options` writes the page; without the variable the test fails when it differs.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::super::Pipeline;
use super::{Field, Fields, Null, Range, Refusal, Runs, StageOptions, server, table};
use crate::decimal::Decimal;
use crate::expression::Scope;
use crate::types::Types;
use crate::value::{Document, Value};

fn stages() -> impl Iterator<Item = &'static StageOptions> {
    table::STAGES.iter().chain(server::STAGES)
}

fn fields_of(stage: &StageOptions) -> &'static [Field] {
    match stage.fields {
        Fields::Named { fields, .. } | Fields::Open(fields) => fields,
        Fields::Free => &[],
    }
}

fn words(types: Types) -> String {
    if types == Types::ANY {
        return "any".to_owned();
    }
    let text = types.describe().replace("double, int, long, decimal", "number");
    text.replace("type ", "").replace("types ", "").replace(['\'', '[', ']'], "")
}

fn values(ranges: &[(Range, Refusal)]) -> String {
    let shown = |(range, refusal): &(Range, Refusal)| {
        let range = match range {
            Range::Whole => "whole".to_owned(),
            Range::Whole32 => "whole, 32 bits".to_owned(),
            Range::NotNegative => "≥ 0".to_owned(),
            Range::Positive => "> 0".to_owned(),
            Range::One => "≥ 1".to_owned(),
            Range::NotEmpty => "not empty".to_owned(),
            Range::Items => "an array has items".to_owned(),
            Range::OneOf(words) => {
                words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
            }
        };
        format!("{range} ({})", refusal.code)
    };
    ranges.iter().map(shown).collect::<Vec<_>>().join("; ")
}

fn rows(stage: &StageOptions, text: &mut String) {
    let unknown = match stage.fields {
        Fields::Named { unknown, .. } => unknown.code.to_string(),
        Fields::Open(_) | Fields::Free => String::new(),
    };
    let wrong = match stage.argument {
        Types::ANY => String::new(),
        _ => stage.wrong.code.to_string(),
    };
    let (name, types) = (stage.name, words(stage.argument));
    let _ = writeln!(text, "| `{name}` | | {types} | {} | {wrong} | {unknown} | |", values(stage.ranges));
    for field in fields_of(stage) {
        let (name, stage) = (field.name, stage.name);
        if let Some(refused) = field.refused {
            let _ = writeln!(text, "| `{stage}` | `{name}` | | refused ({}) | | | |", refused.code);
            continue;
        }
        let mut types = words(field.types);
        if let Some((items, refusal)) = field.items {
            let _ = write!(types, ", items {} ({})", words(items), refusal.code);
        }
        match field.null {
            Null::Value => {}
            Null::Missing => types.push_str(", null"),
            Null::Refused(refusal) => {
                let _ = write!(types, ", not null ({})", refusal.code);
            }
        }
        let wrong = match field.types {
            Types::ANY => String::new(),
            _ => field.wrong.code.to_string(),
        };
        let missing = field.missing.map_or_else(String::new, |missing| missing.code.to_string());
        let _ = writeln!(
            text,
            "| `{stage}` | `{name}` | {types} | {} | {wrong} | | {missing} |",
            values(field.ranges)
        );
        if let Some(inner) = field.inner {
            rows(inner, text);
        }
    }
}

fn page() -> String {
    let mut text = "# Options of aggregation stages\n\nWritten by a test from the table that the parser of pipelines reads. A row without a field is the argument of \
                    the stage. Numbers are error\ncodes: for a value of another type, for a field that the stage does not have, for a required field that is missing, and in \
                    parentheses for a\nvalue out of range. `null` among the types counts as a missing field. `number` is double, int, long or decimal. Fields are checked in \
                    the order in\nwhich they were written; missing fields are reported last.\n\n| stage | field | types | values | wrong type | unknown field | missing |\n\
                    |---|---|---|---|---|---|---|\n"
        .to_owned();
    let mut refused = String::new();
    for stage in stages() {
        match stage.runs {
            Runs::Refused(refusal) if fields_of(stage).is_empty() => {
                let _ = writeln!(refused, "- `{}` ({})", stage.name, refusal.code);
            }
            _ => rows(stage, &mut text),
        }
    }
    text.push_str("\n## Refused\n\nThese stages are refused by name.\n\n");
    text + &refused
}

#[test]
fn the_page_lists_every_option() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/mongodb-stages.md");
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "UPDATE=1 cargo test -p shardlake-mql --lib options writes docs/mongodb-stages.md"
    );
    for row in [
        "| `$group` | `_id` | any |  |  | | 15955 |",
        "| `$unwind` | `path` | string |  | 28808 | | 28812 |",
        "| `$bucketAuto` | `buckets` | number | whole, 32 bits (40242); > 0 (40243) | 40241 | | 40246 |",
        "| `$densify.range` | `step` | number | > 0 (5733401) | 14 | | 40414 |",
        "| `$collStats.storageStats` | `scale` | number, null |  | 14 | |  |",
    ] {
        assert!(page.contains(row), "{row}");
    }
}

/// A value of every type that a client can send.
fn samples() -> Vec<Value> {
    vec![
        Value::Double(1.5),
        Value::string("x"),
        Value::document(Document::one("a", Value::Int(1))),
        Value::array(vec![Value::Int(1)]),
        Value::Binary(0, vec![1].into()),
        Value::Undefined,
        Value::ObjectId([7; 12]),
        Value::Bool(true),
        Value::Date(1),
        Value::Null,
        Value::Regex(("x".to_owned(), String::new()).into()),
        Value::Int(1),
        Value::Timestamp(1, 1),
        Value::Long(1),
        Value::Decimal(Decimal::from_i64(1)),
        Value::MinKey,
        Value::MaxKey,
    ]
}

/// A value that the field takes.
fn valid(stage: &'static StageOptions, field: &'static Field) -> Value {
    let inside = field.inner.map(|inner| Value::document(whole(inner)));
    let items = inside.clone().into_iter().chain(samples()).map(|item| Value::array(vec![item]));
    let words = field.ranges.iter().filter_map(|(range, _)| match range {
        Range::OneOf(words) => Some(Value::string(words[0])),
        _ => None,
    });
    let candidates: Vec<Value> = words.chain(inside.clone()).chain(samples()).chain(items).collect();
    let found = candidates.into_iter().find(|value| {
        let counts = !(value.is_nullish() && field.types != Types::ANY);
        counts && stage.check_field(field, value).is_ok()
    });
    found.unwrap_or_else(|| panic!("{}.{} takes no sample", stage.name, field.name))
}

/// A document with every field.
fn whole(stage: &'static StageOptions) -> Document {
    let mut document = Document::new();
    for field in fields_of(stage).iter().filter(|field| field.refused.is_none()) {
        document.push(field.name, valid(stage, field));
    }
    document
}

fn with(document: &Document, name: &str, value: Value) -> Document {
    let mut changed = document.clone();
    changed.set(&name.into(), value);
    changed
}

/// Arguments with one fault each, and the code of its error.
fn faults(stage: &'static StageOptions) -> Vec<(Document, i32)> {
    let whole = whole(stage);
    let without = |field: &Field| {
        let mut less = whole.clone();
        less.remove(field.name);
        less
    };
    if let Fields::Open(fields) = stage.fields {
        let missing = |field: &Field| field.missing.map(|refusal| (without(field), refusal.code));
        return fields.iter().filter_map(missing).collect();
    }
    let Fields::Named { fields, unknown, duplicate } = stage.fields else { return Vec::new() };
    let mut found = vec![(with(&whole, "noSuchOption", Value::Int(1)), unknown.code)];
    for field in fields {
        if let Some(refusal) = field.refused {
            found.push((with(&whole, field.name, Value::Int(1)), refusal.code));
            continue;
        }
        if let Some(refusal) = duplicate {
            let mut twice = whole.clone();
            twice.push(field.name, whole.value(field.name));
            found.push((twice, refusal.code));
        }
        if let Some(refusal) = field.missing {
            found.push((without(field), refusal.code));
        }
        for value in samples().into_iter().filter(|value| !field.types.has(value)) {
            let code = match (value.is_nullish(), field.null, field.missing) {
                (true, Null::Missing, Some(missing)) => missing.code,
                (true, Null::Missing, None) => continue,
                (true, Null::Refused(refusal), _) => refusal.code,
                _ => field.wrong.code,
            };
            found.push((with(&whole, field.name, value), code));
        }
        if let Some((types, refusal)) = field.items {
            let wrong = samples().into_iter().filter(|item| !types.has(item));
            found
                .extend(wrong.map(|item| (with(&whole, field.name, Value::array(vec![item])), refusal.code)));
        }
        for (inner, code) in field.inner.map(self::faults).unwrap_or_default() {
            let inner = match field.types.has(&Value::document(Document::new())) {
                true => Value::document(inner),
                false => Value::array(vec![Value::document(inner)]),
            };
            found.push((with(&whole, field.name, inner), code));
        }
    }
    found
}

#[test]
fn every_fault_of_every_option_has_its_code() {
    let code_of = |stage: &'static StageOptions, argument: Value| {
        let pipeline = [Value::document(Document::one(stage.name, argument.clone()))];
        let parsed = match stage.runs {
            Runs::Refused(_) => stage.check(&argument).err(),
            Runs::Here | Runs::OnServer => Pipeline::parse(&pipeline, &Scope::default()).err(),
        };
        parsed.unwrap_or_else(|| panic!("{} takes {argument}", stage.name)).code()
    };
    let mut tried = 0;
    for stage in stages() {
        for argument in samples().into_iter().filter(|argument| !stage.argument.has(argument)) {
            assert_eq!(code_of(stage, argument.clone()), stage.wrong.code, "{} {argument}", stage.name);
            tried += 1;
        }
        for (argument, code) in faults(stage) {
            let argument = Value::document(argument);
            assert_eq!(code_of(stage, argument.clone()), code, "{} {argument}", stage.name);
            tried += 1;
        }
    }
    assert!(tried > 1_500, "only {tried} faults");
}

#[test]
fn values_out_of_range_have_their_code() {
    let number = |number: f64| Value::Double(number);
    for (range, refused, taken) in [
        (Range::Whole, number(1.5), number(-1.0)),
        (Range::Whole32, Value::Long(1 << 40), Value::Long(5)),
        (Range::NotNegative, number(-0.5), number(0.5)),
        (Range::NotNegative, number(f64::NAN), number(0.0)),
        (Range::Positive, number(0.0), number(0.5)),
        (Range::One, number(0.9), number(1.5)),
        (Range::One, number(f64::NAN), Value::Int(1)),
        (Range::NotEmpty, Value::string(""), Value::string("x")),
        (Range::NotEmpty, Value::document(Document::new()), Value::Int(0)),
        (Range::Items, Value::array(Vec::new()), Value::string("")),
        (Range::OneOf(&["a", "b"]), Value::string("c"), Value::array(Vec::new())),
    ] {
        assert!(!range.has(&refused), "{range:?} {refused}");
        assert!(range.has(&taken), "{range:?} {taken}");
    }
    let stage = |name: &str, argument: Value| {
        let pipeline = [Value::document(Document::one(name, argument))];
        Pipeline::parse(&pipeline, &Scope::default()).err().map(|error| error.code())
    };
    let mut auto = Document::one("groupBy", "$a");
    auto.push("buckets", Value::Int(0));
    assert_eq!(stage("$bucketAuto", auto.into()), Some(40243));
    assert_eq!(stage("$limit", Value::Int(0)), Some(15958));
    assert_eq!(stage("$limit", Value::Int(-1)), Some(5_107_201));
    assert_eq!(stage("$skip", Value::Double(0.5)), Some(5_107_200));
}
