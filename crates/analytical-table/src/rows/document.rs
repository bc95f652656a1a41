//! A row of a batch back to its document: the columns, and `_rest` put in its places.

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch, StructArray};
use shardlake_document::{NESTING_CEILING, ParseLimits, RawDocument, Value};
use shardlake_model::Numbers;

use crate::schema::{ColumnType, Fields, Member, Members, Scalar, TableSchema, lower_case};

/// The document of a row, without the system properties. Members with a column have the spelling of the
/// column's property. `None` for a batch of another schema, or a `_rest` that is not ours.
pub fn document_of(schema: &TableSchema, batch: &RecordBatch, row: usize) -> Option<Value> {
    let mut members = Vec::new();
    if let Some(ids) = batch.column_by_name("id").and_then(|ids| ids.as_string_opt::<i32>())
        && ids.is_valid(row)
    {
        members.push(("id".to_owned(), Value::String(ids.value(row).to_owned())));
    }
    read_fields(
        schema.fields(),
        |column| batch.column_by_name(column).map(|array| &**array),
        row,
        &mut members,
    )?;
    let mut document = Value::Object(members);
    if let Some(rests) = batch.column_by_name("_rest")
        && rests.is_valid(row)
    {
        put_rest(&mut document, rests.as_string_opt::<i32>()?.value(row))?;
    }
    Some(document)
}

fn read_fields<'b>(
    fields: &Fields,
    array_of: impl Fn(&str) -> Option<&'b dyn Array>,
    row: usize,
    members: &mut Vec<(String, Value)>,
) -> Option<()> {
    for field in fields.iter() {
        let Some(array) = array_of(&field.column) else { continue };
        if array.is_valid(row) {
            members.push((field.property.clone(), read(&field.column_type, array, row)?));
        }
    }
    Some(())
}

/// A value that is not NULL.
fn read(column_type: &ColumnType, array: &dyn Array, row: usize) -> Option<Value> {
    match column_type {
        ColumnType::Scalar(scalar) => read_scalar(*scalar, array, row),
        ColumnType::Object(fields) => {
            let array = array.as_struct_opt()?;
            let mut members = Vec::new();
            read_fields(fields, |column| child(array, column), row, &mut members)?;
            Some(Value::Object(members))
        }
        ColumnType::List(element) => {
            let (array, element) = (array.as_list_opt::<i32>()?, element.as_ref()?);
            let offsets = array.value_offsets();
            let values = array.values();
            let places = offsets[row] as usize..offsets[row + 1] as usize;
            let elements = places.map(|place| match values.is_valid(place) {
                true => read(element, values, place),
                false => Some(Value::Null),
            });
            Some(Value::Array(elements.collect::<Option<_>>()?))
        }
        ColumnType::Value(members) => read_value(members, array.as_struct_opt()?, row),
    }
}

fn child<'a>(array: &'a StructArray, name: &str) -> Option<&'a dyn Array> {
    array.column_by_name(name).map(|array| &**array)
}

fn read_scalar(scalar: Scalar, array: &dyn Array, row: usize) -> Option<Value> {
    Some(match scalar {
        Scalar::String => Value::String(array.as_string_opt::<i32>()?.value(row).to_owned()),
        Scalar::Boolean => Value::Bool(array.as_boolean_opt()?.value(row)),
        Scalar::Integer => Value::Int(array.as_primitive_opt::<Int32Type>()?.value(row).into()),
        Scalar::Long => Value::Int(array.as_primitive_opt::<Int64Type>()?.value(row)),
        Scalar::Double => {
            let number = array.as_primitive_opt::<Float64Type>()?.value(row);
            if number.is_finite() { Value::Double(number) } else { shown(0x01, &number.to_le_bytes())? }
        }
        Scalar::Timestamp => {
            let microseconds = array.as_primitive_opt::<TimestampMicrosecondType>()?.value(row);
            shown(0x09, &(microseconds / 1000).to_le_bytes())?
        }
        Scalar::Binary => {
            let content = array.as_binary_opt::<i32>()?.value(row);
            let length = i32::try_from(content.len()).ok()?;
            shown(0x05, &[&length.to_le_bytes()[..], &[0], content].concat())?
        }
    })
}

fn read_value(members: &Members, array: &StructArray, row: usize) -> Option<Value> {
    for (member, inner) in members.iter() {
        let Some(values) = child(array, member.name()).filter(|values| values.is_valid(row)) else {
            continue;
        };
        let value = read(inner, values, row)?;
        let text = |name: &str, value: Value| Value::Object(vec![(name.to_owned(), value)]);
        return Some(match member {
            Member::Null => Value::Null,
            Member::ObjectId => text("$oid", value),
            Member::Decimal128 => text("$numberDecimal", value),
            _ => value,
        });
    }
    None
}

/// The JSON form of a BSON value of a kind that JSON lacks.
fn shown(kind: u8, bytes: &[u8]) -> Option<Value> {
    let length = i32::try_from(4 + 2 + bytes.len() + 1).ok()?;
    let document = [&length.to_le_bytes()[..], &[kind, 0], bytes, &[0]].concat();
    RawDocument::validate(&document).ok()?.get("").map(Value::from_raw)
}

fn put_rest(document: &mut Value, rest: &str) -> Option<()> {
    let limits =
        ParseLimits { nesting_max: NESTING_CEILING, size_max_bytes: rest.len(), numbers: Numbers::Rounded };
    let Value::Object(entries) = Value::from_json(rest.as_bytes(), &limits).ok()? else { return None };
    for (pointer, value) in entries {
        let steps: Vec<String> =
            pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
        let (last, parents) = steps.split_last()?;
        let mut target = &mut *document;
        for step in parents {
            target = inside(target, step)?;
        }
        match target {
            Value::Array(elements) => *elements.get_mut(last.parse::<usize>().ok()?)? = value,
            Value::Object(members) => add_member(members, last, value),
            _ => return None,
        }
    }
    Some(())
}

/// The part of a value that a step of a pointer names, in any spelling.
fn inside<'v>(value: &'v mut Value, step: &str) -> Option<&'v mut Value> {
    match value {
        Value::Array(elements) => elements.get_mut(step.parse::<usize>().ok()?),
        Value::Object(members) => {
            let name = lower_case(step);
            let member = members.iter_mut().find(|(candidate, _)| lower_case(candidate) == name);
            member.map(|(_, value)| value)
        }
        _ => None,
    }
}

/// Adds a member of `_rest`. If a column's property has this very spelling, the document had the column's
/// value under another one, which is not known.
fn add_member(members: &mut Vec<(String, Value)>, name: &str, value: Value) {
    if let Some(at) = members.iter().position(|(known, _)| known == name) {
        let spellings = [name.to_lowercase(), name.to_uppercase()];
        let free = spellings.into_iter().find(|spelling| members.iter().all(|(known, _)| known != spelling));
        members[at].0 = free.unwrap_or_else(|| name.to_lowercase());
    }
    members.push((name.to_owned(), value));
}
