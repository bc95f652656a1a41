//! Golden cases: rounds of documents → columns, rows, `_rest`, as `tests/cases/README.md` describes them.

use std::collections::BTreeMap;
use std::path::Path;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::DataType;
use serde_json::Value as Json;
use shardlake_analytical_table::rows::Reason;
use shardlake_analytical_table::schema::{SchemaLimits, SchemaMode};
use shardlake_document::{Number, Value, with_non_json};

use crate::rounds::{Rounds, json};

/// The suite has at least this many cases.
const CASES_MIN: usize = 60;

#[test]
fn golden_cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let (mut failures, mut names) = (Vec::new(), BTreeMap::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Value::Array(cases) = json(&std::fs::read_to_string(&path).unwrap()) else {
            panic!("{file} holds a list of cases")
        };
        for case in &cases {
            let name = format!("{file}: {}", case.get("case").and_then(Value::as_str).unwrap());
            assert_eq!(names.insert(name.clone(), ()), None, "a name twice");
            if let Err(failure) = run(case) {
                failures.push(format!("{name}\n{failure}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(names.len() >= CASES_MIN, "{} cases", names.len());
}

fn run(case: &Value) -> Result<(), String> {
    let known = ["case", "mode", "limits", "exclude", "rounds", "columns", "rows", "overflow", "files"];
    for (member, _) in members(case) {
        assert!(known.contains(&&**member), "a case has no member {member}");
    }
    let mode = match case.get("mode").map(|mode| mode.as_str().unwrap()) {
        None | Some("wellDefined") => SchemaMode::WellDefined,
        Some("fullFidelity") => SchemaMode::FullFidelity { is_mongo: false },
        Some("mongo") => SchemaMode::FullFidelity { is_mongo: true },
        Some(mode) => panic!("no mode {mode}"),
    };
    let exclude: Vec<String> = case.get("exclude").map_or(Vec::new(), texts);
    let mut rounds = Rounds::new(mode, limits(case.get("limits")), &exclude);
    for round in elements(case.get("rounds").unwrap()) {
        let documents = elements(round).iter().map(|document| with_non_json(document.to_body().unwrap()));
        rounds.round(documents.collect());
    }
    rounds.check()?;
    let columns = columns(&rounds);
    same("columns", &columns, &texts(case.get("columns").unwrap()))?;
    let rows: Vec<String> = rounds.batches.iter().flat_map(rows).collect();
    let expected: Vec<String> = elements(case.get("rows").unwrap()).iter().map(sorted).collect();
    same("rows", &rows, &expected)?;
    if let Some(expected) = case.get("files") {
        let files: Vec<String> = rounds.batches.iter().map(|batch| names_of(batch).join(" ")).collect();
        same("columns of files", &files, &texts(expected))?;
    }
    if let Some(expected) = case.get("overflow") {
        let counts = Reason::ALL.map(|reason| (reason.name(), rounds.overflow.count(reason)));
        let counts = counts.iter().filter(|(_, count)| *count > 0);
        let found: Vec<String> = counts.map(|(name, count)| format!("{name} {count}")).collect();
        same("overflow", &found, &texts(expected))?;
    }
    Ok(())
}

fn same(of: &str, found: &[String], expected: &[String]) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("  {of}:\n    {}\n  expected:\n    {}", found.join("\n    "), expected.join("\n    ")))
}

fn members(value: &Value) -> &[(String, Value)] {
    let Value::Object(members) = value else { panic!("not an object: {value:?}") };
    members
}

fn elements(value: &Value) -> &[Value] {
    let Value::Array(elements) = value else { panic!("not a list: {value:?}") };
    elements
}

fn texts(value: &Value) -> Vec<String> {
    elements(value).iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn limits(value: Option<&Value>) -> SchemaLimits {
    let mut limits = SchemaLimits::default();
    for (name, number) in value.map_or(&[][..], members) {
        let Some(Number::Int(number)) = number.as_number() else { panic!("{name}: {number:?}") };
        match &**name {
            "properties" => limits.properties = number as usize,
            "levels" => limits.levels = number as usize,
            "nameBytes" => limits.name_bytes = number as usize,
            name => panic!("no limit {name}"),
        }
    }
    limits
}

/// The columns of properties, with types as in `DESCRIBE`, from the schema's Delta text.
fn columns(rounds: &Rounds) -> Vec<String> {
    let schema: Json = serde_json::from_str(&rounds.schema.delta()).unwrap();
    let fields = schema["fields"].as_array().unwrap();
    let names: Vec<&str> = fields.iter().map(|field| field["name"].as_str().unwrap()).collect();
    assert_eq!(names[..4], ["_rid", "_ts", "id", "_etag"]);
    assert_eq!(names[names.len() - 2..], ["_lsn", "_rest"]);
    fields[4..fields.len() - 2].iter().map(field_text).collect()
}

fn field_text(field: &Json) -> String {
    assert_eq!(field["nullable"], true);
    let property = field["metadata"]["shardlake.property"].as_str();
    let of = property.map_or(String::new(), |property| format!(" of {property:?}"));
    format!("{} {}{of}", field["name"].as_str().unwrap(), type_text(&field["type"]))
}

fn type_text(data_type: &Json) -> String {
    match data_type["type"].as_str() {
        None => data_type.as_str().unwrap().to_owned(),
        Some("struct") => {
            let fields: Vec<String> =
                data_type["fields"].as_array().unwrap().iter().map(field_text).collect();
            format!("struct<{}>", fields.join(", "))
        }
        Some("array") => {
            assert_eq!(data_type["containsNull"], true);
            format!("list<{}>", type_text(&data_type["elementType"]))
        }
        Some(other) => panic!("{other}"),
    }
}

fn names_of(batch: &RecordBatch) -> Vec<String> {
    batch.schema().fields().iter().map(|field| field.name().clone()).collect()
}

/// Rows as canonical JSON, without NULL columns and fields, and without columns that are the same in all cases.
fn rows(batch: &RecordBatch) -> Vec<String> {
    let columns: ArrayRef = std::sync::Arc::new(StructArray::from(batch.clone()));
    let rows = (0..batch.num_rows()).map(|number| {
        let Value::Object(members) = value_of(&columns, number) else { unreachable!("a struct") };
        let shown =
            members.into_iter().filter(|(name, _)| !["_rid", "_ts", "_etag", "_lsn"].contains(&&**name));
        let parsed = shown.map(|(name, value)| match (&*name, value) {
            ("_rest", Value::String(text)) => (name, json(&text)),
            (_, value) => (name, value),
        });
        sorted(&Value::Object(parsed.collect()))
    });
    rows.collect()
}

/// Independent of the code under test: by the Arrow types alone.
fn value_of(array: &ArrayRef, number: usize) -> Value {
    if array.is_null(number) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Utf8 => Value::String(array.as_string::<i32>().value(number).to_owned()),
        DataType::Boolean => Value::Bool(array.as_boolean().value(number)),
        DataType::Int32 => Value::Int(array.as_primitive::<Int32Type>().value(number).into()),
        DataType::Int64 => Value::Int(array.as_primitive::<Int64Type>().value(number)),
        DataType::Float64 => match array.as_primitive::<Float64Type>().value(number) {
            double if double.is_finite() => Value::Double(double),
            double => Value::String(format!("double {double}")),
        },
        DataType::Timestamp(..) => {
            let microseconds = array.as_primitive::<TimestampMicrosecondType>().value(number);
            Value::String(format!("{microseconds} µs"))
        }
        DataType::Binary => {
            let bytes = array.as_binary::<i32>().value(number);
            Value::String(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
        }
        DataType::List(_) => {
            let elements = array.as_list::<i32>().value(number);
            Value::Array((0..elements.len()).map(|place| value_of(&elements, place)).collect())
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let values = fields.iter().zip(columns).filter(|(_, column)| column.is_valid(number));
            Value::Object(
                values.map(|(field, column)| (field.name().clone(), value_of(column, number))).collect(),
            )
        }
        other => panic!("{other}"),
    }
}

/// Canonical text: members sorted, whole doubles as digits, negative zero as `-0`.
fn sorted(value: &Value) -> String {
    fn sort(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let mut members: Vec<_> =
                    members.iter().map(|(name, value)| (name.clone(), sort(value))).collect();
                members.sort_by(|one, other| one.0.cmp(&other.0));
                Value::Object(members)
            }
            Value::Array(elements) => Value::Array(elements.iter().map(sort).collect()),
            value => value.clone(),
        }
    }
    sort(value).to_json().unwrap()
}
