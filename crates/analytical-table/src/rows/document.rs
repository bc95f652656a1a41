//! Rows of a batch back to documents: the columns, and `_rest` put in its places.

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ListArray, RecordBatch, StringArray, StructArray};
use shardlake_document::{NESTING_CEILING, ParseLimits, RawDocument, Value};
use shardlake_model::Numbers;

use crate::schema::{ColumnType, Fields, Member, Members, Scalar, TableSchema, lower_case};

/// The documents of a batch.
pub struct Documents<'b> {
    ids: Option<&'b StringArray>,
    fields: Vec<(&'b str, Part<'b>)>,
    rests: Option<&'b StringArray>,
}

/// A column, a field or an element, with its array.
enum Part<'b> {
    Scalar(Scalar, &'b dyn Array),
    Object(&'b StructArray, Vec<(&'b str, Part<'b>)>),
    List(&'b ListArray, Box<Part<'b>>),
    Value(&'b StructArray, Vec<(Member, Part<'b>)>),
}

impl<'b> Documents<'b> {
    /// `None` for a batch of another schema.
    pub fn new(schema: &'b TableSchema, batch: &'b RecordBatch) -> Option<Documents<'b>> {
        let texts = |name: &str| match batch.column_by_name(name) {
            Some(array) => array.as_string_opt::<i32>().map(Some),
            None => Some(None),
        };
        let array_of = |name: &str| batch.column_by_name(name).map(|array| &**array);
        let fields = fields_of(schema.fields(), array_of)?;
        Some(Documents { ids: texts("id")?, fields, rests: texts("_rest")? })
    }

    /// The document of a row, without the system properties. Members with a column have the spelling of the
    /// column's property. `None` for a `_rest` that is not ours.
    pub fn document(&self, row: usize) -> Option<Value> {
        let text = |texts: Option<&'b StringArray>| {
            texts.filter(|texts| texts.is_valid(row)).map(|texts| texts.value(row))
        };
        let id = text(self.ids).map(|id| ("id".to_owned(), id.into()));
        let mut document = Value::Object(id.into_iter().chain(members_of(&self.fields, row)).collect());
        if let Some(rest) = text(self.rests) {
            put_rest(&mut document, rest)?;
        }
        Some(document)
    }
}

/// One document of a batch; [`Documents`] is faster for several.
pub fn document_of(schema: &TableSchema, batch: &RecordBatch, row: usize) -> Option<Value> {
    Documents::new(schema, batch)?.document(row)
}

fn fields_of<'b>(
    fields: &'b Fields,
    array_of: impl Fn(&str) -> Option<&'b dyn Array>,
) -> Option<Vec<(&'b str, Part<'b>)>> {
    let arrays = fields.iter().filter_map(|field| Some((field, array_of(&field.column)?)));
    arrays.map(|(field, array)| Some((&*field.property, Part::new(&field.column_type, array)?))).collect()
}

fn child<'b>(array: &'b StructArray, name: &str) -> Option<&'b dyn Array> {
    array.column_by_name(name).map(|array| &**array)
}

fn members_of(fields: &[(&str, Part<'_>)], row: usize) -> impl Iterator<Item = (String, Value)> {
    fields.iter().filter_map(move |(name, part)| Some(((*name).to_owned(), part.value(row)?)))
}

impl<'b> Part<'b> {
    fn new(column_type: &'b ColumnType, array: &'b dyn Array) -> Option<Part<'b>> {
        Some(match column_type {
            ColumnType::Scalar(scalar) if scalar.arrow() == *array.data_type() => {
                Part::Scalar(*scalar, array)
            }
            ColumnType::Scalar(_) => return None,
            ColumnType::Object(fields) => {
                let array = array.as_struct_opt()?;
                Part::Object(array, fields_of(fields, |column| child(array, column))?)
            }
            ColumnType::List(element) => {
                let array = array.as_list_opt::<i32>()?;
                Part::List(array, Box::new(Part::new(element.as_ref()?, array.values())?))
            }
            ColumnType::Value(members) => {
                let array = array.as_struct_opt()?;
                Part::Value(array, Part::of_members(members, array)?)
            }
        })
    }

    fn of_members(members: &'b Members, array: &'b StructArray) -> Option<Vec<(Member, Part<'b>)>> {
        let arrays =
            members.iter().filter_map(|(member, inner)| Some((member, inner, child(array, member.name())?)));
        arrays.map(|(member, inner, array)| Some((*member, Part::new(inner, array)?))).collect()
    }

    fn array(&self) -> &dyn Array {
        match self {
            Part::Scalar(_, array) => *array,
            Part::Object(array, _) | Part::Value(array, _) => *array,
            Part::List(array, _) => *array,
        }
    }

    /// The value at a place; `None` for NULL.
    fn value(&self, place: usize) -> Option<Value> {
        if self.array().is_null(place) {
            return None;
        }
        match self {
            Part::Scalar(scalar, array) => Some(scalar_at(*scalar, *array, place)),
            Part::Object(_, fields) => Some(Value::Object(members_of(fields, place).collect())),
            Part::List(array, element) => {
                let offsets = array.value_offsets();
                let places = offsets[place] as usize..offsets[place + 1] as usize;
                Some(Value::Array(places.map(|place| element.value(place).unwrap_or(Value::Null)).collect()))
            }
            Part::Value(_, members) => {
                members.iter().find_map(|(member, part)| Some(value_of_member(*member, part.value(place)?)))
            }
        }
    }
}

fn value_of_member(member: Member, value: Value) -> Value {
    let form = |name: &str, value: Value| Value::Object(vec![(name.to_owned(), value)]);
    match member {
        Member::Null => Value::Null,
        Member::ObjectId => form("$oid", value),
        Member::Decimal128 => form("$numberDecimal", value),
        _ => value,
    }
}

/// A value of an array with the scalar's type.
fn scalar_at(scalar: Scalar, array: &dyn Array, place: usize) -> Value {
    match scalar {
        Scalar::String => Value::String(array.as_string::<i32>().value(place).to_owned()),
        Scalar::Boolean => Value::Bool(array.as_boolean().value(place)),
        Scalar::Integer => Value::Int(array.as_primitive::<Int32Type>().value(place).into()),
        Scalar::Long => Value::Int(array.as_primitive::<Int64Type>().value(place)),
        Scalar::Double => match array.as_primitive::<Float64Type>().value(place) {
            number if number.is_finite() => Value::Double(number),
            number => shown(0x01, &number.to_le_bytes()),
        },
        Scalar::Timestamp => {
            let microseconds = array.as_primitive::<TimestampMicrosecondType>().value(place);
            shown(0x09, &(microseconds / 1000).to_le_bytes())
        }
        Scalar::Binary => {
            let content = array.as_binary::<i32>().value(place);
            let length = i32::try_from(content.len()).expect("an array is shorter than 2 GB");
            shown(0x05, &[&length.to_le_bytes()[..], &[0], content].concat())
        }
    }
}

/// The JSON form of a BSON value of a kind that JSON lacks.
fn shown(kind: u8, bytes: &[u8]) -> Value {
    let length = i32::try_from(4 + 2 + bytes.len() + 1).expect("a value is shorter than 2 GB");
    let document = [&length.to_le_bytes()[..], &[kind, 0], bytes, &[0]].concat();
    RawDocument::assume_valid(&document).get("").map_or(Value::Undefined, Value::from_raw)
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
        let is_free = |spelling: &String| members.iter().all(|(known, _)| known != spelling);
        if let Some(free) = spellings(name).find(is_free) {
            members[at].0 = free;
        }
    }
    members.push((name.to_owned(), value));
}

/// Names that are equal to a name but for their case: common ones first, then with one other character.
fn spellings(name: &str) -> impl Iterator<Item = String> {
    let lower = lower_case(name);
    let with_other = name.char_indices().flat_map(move |(at, character)| {
        let others =
            ('\0'..='\u{1FFFF}').filter(move |other| other.to_lowercase().eq(character.to_lowercase()));
        others.map(move |other| format!("{}{other}{}", &name[..at], &name[at + character.len_utf8()..]))
    });
    let common = [name.to_lowercase(), name.to_uppercase()].into_iter();
    common.chain(with_other).filter(move |spelling| lower_case(spelling) == lower)
}
