//! A schema in Delta's JSON form, and back.
//!
//! `shardlake.property` in a field's metadata is the JSON name of a property whose column has another name.

use std::fmt;

use serde_json::{Map, Value as Json, json};

use super::arrow_types::ELEMENT;
use super::column_type::{ColumnType, Field, Fields, Member, Members, Scalar};
use super::exclude::Exclusions;
use super::table_schema::{
    SYSTEM_COLUMNS_AFTER, SYSTEM_COLUMNS_BEFORE, SchemaLimits, SchemaMode, TableSchema,
};

const PROPERTY: &str = "shardlake.property";

/// A schema text that no table of this mode has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaError(String);

impl TableSchema {
    /// The text for `schemaString` of Delta's `metaData`.
    pub fn delta(&self) -> String {
        let system = |name: &&str| field_json(name, name, json!(system_type(name).delta()));
        let mut fields: Vec<Json> = SYSTEM_COLUMNS_BEFORE.iter().map(system).collect();
        fields.extend(fields_json(&self.fields));
        fields.extend(SYSTEM_COLUMNS_AFTER.iter().map(system));
        json!({ "type": "struct", "fields": fields }).to_string()
    }

    /// Reads a text that [`TableSchema::delta`] wrote for a table of this mode.
    pub fn of_delta<S: AsRef<str>>(
        schema: &str,
        mode: SchemaMode,
        limits: SchemaLimits,
        exclude: &[S],
    ) -> Result<TableSchema, SchemaError> {
        let json: Json = serde_json::from_str(schema).map_err(|error| SchemaError(error.to_string()))?;
        let all = array(&json, "fields")?;
        let is_system =
            |name: &str| [&SYSTEM_COLUMNS_BEFORE[..], &SYSTEM_COLUMNS_AFTER].concat().contains(&name);
        let mut columns = Vec::with_capacity(all.len());
        for field in all {
            if !is_system(text(field, "name")?) {
                columns.push(field);
            }
        }
        if columns.len() + SYSTEM_COLUMNS_BEFORE.len() + SYSTEM_COLUMNS_AFTER.len() != all.len() {
            return Err(SchemaError("system columns are missing".to_owned()));
        }
        let fields = Reader { mode }.fields(columns.into_iter())?;
        let property_count = ColumnType::Object(fields.clone()).property_count();
        Ok(TableSchema { mode, limits, exclude: Exclusions::new(exclude), fields, property_count })
    }
}

/// The type of a system column.
fn system_type(name: &str) -> Scalar {
    if matches!(name, "_ts" | "_lsn") { Scalar::Long } else { Scalar::String }
}

fn fields_json(fields: &Fields) -> impl Iterator<Item = Json> {
    fields.iter().map(|field| field_json(&field.column, &field.property, type_json(&field.column_type)))
}

fn field_json(column: &str, property: &str, data_type: Json) -> Json {
    let mut metadata = Map::new();
    if column != property {
        metadata.insert(PROPERTY.to_owned(), property.into());
    }
    json!({ "name": column, "type": data_type, "nullable": true, "metadata": metadata })
}

fn type_json(column_type: &ColumnType) -> Json {
    match column_type {
        ColumnType::Scalar(scalar) => json!(scalar.delta()),
        ColumnType::Object(fields) => {
            assert!(!fields.is_empty(), "a complete schema has no struct without fields");
            json!({ "type": "struct", "fields": fields_json(fields).collect::<Vec<_>>() })
        }
        ColumnType::List(element) => {
            let element = element.as_ref().expect("a complete schema has no list without an element type");
            json!({ "type": "array", "elementType": type_json(element), "containsNull": true })
        }
        ColumnType::Value(members) => {
            assert!(!members.is_empty(), "a complete schema has no value without members");
            let member = |(member, inner): &(Member, ColumnType)| {
                field_json(member.name(), member.name(), type_json(inner))
            };
            json!({ "type": "struct", "fields": members.iter().map(member).collect::<Vec<_>>() })
        }
    }
}

struct Reader {
    mode: SchemaMode,
}

impl Reader {
    fn fields<'j>(&self, fields: impl Iterator<Item = &'j Json>) -> Result<Fields, SchemaError> {
        let mut read = Fields::default();
        for field in fields {
            let column = text(field, "name")?.to_owned();
            let property = field["metadata"][PROPERTY].as_str().unwrap_or(&column).to_owned();
            if read.find(property.as_bytes(), &mut 0).is_some() {
                return Err(SchemaError(format!("two columns of one name: {column}")));
            }
            let column_type = self.value(&field["type"])?;
            read.push_field(Field { property, column, column_type });
        }
        Ok(read)
    }

    fn value(&self, json: &Json) -> Result<ColumnType, SchemaError> {
        if !self.mode.is_full_fidelity() {
            return self.part(json);
        }
        let mut members = Members::default();
        for field in array(json, "fields")? {
            let name = text(field, "name")?;
            let member = Member::of_name(name);
            let member = member.ok_or_else(|| SchemaError(format!("no member of full fidelity: {name}")))?;
            let inner = self.part(&field["type"])?;
            members.push(member, inner);
        }
        if members.is_empty() {
            return Err(SchemaError(format!("a {ELEMENT} or a field without members")));
        }
        Ok(ColumnType::Value(members))
    }

    /// A type of well-defined mode, or of a member.
    fn part(&self, json: &Json) -> Result<ColumnType, SchemaError> {
        if let Some(name) = json.as_str() {
            let scalar = Scalar::ALL.into_iter().find(|scalar| scalar.delta() == name);
            let scalar = scalar.ok_or_else(|| SchemaError(format!("no type of a column: {name}")))?;
            return Ok(ColumnType::Scalar(scalar));
        }
        match json["type"].as_str() {
            Some("struct") => {
                let fields = self.fields(array(json, "fields")?.iter())?;
                if fields.is_empty() {
                    return Err(SchemaError("a struct without fields".to_owned()));
                }
                Ok(ColumnType::Object(fields))
            }
            Some("array") => Ok(ColumnType::List(Some(Box::new(self.value(&json["elementType"])?)))),
            _ => Err(SchemaError(format!("no type of a column: {json}"))),
        }
    }
}

fn array<'j>(json: &'j Json, name: &str) -> Result<&'j Vec<Json>, SchemaError> {
    json[name].as_array().ok_or_else(|| SchemaError(format!("{name} is missing")))
}

fn text<'j>(json: &'j Json, name: &str) -> Result<&'j str, SchemaError> {
    json[name].as_str().ok_or_else(|| SchemaError(format!("{name} is missing")))
}

impl Scalar {
    const ALL: [Scalar; 7] = {
        use Scalar::*;
        [String, Boolean, Integer, Long, Double, Timestamp, Binary]
    };

    /// Delta's name of the type.
    pub fn delta(self) -> &'static str {
        match self {
            Scalar::String => "string",
            Scalar::Boolean => "boolean",
            Scalar::Integer => "integer",
            Scalar::Long => "long",
            Scalar::Double => "double",
            Scalar::Timestamp => "timestamp",
            Scalar::Binary => "binary",
        }
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "not the schema of an analytical table: {}", self.0)
    }
}

impl std::error::Error for SchemaError {}
