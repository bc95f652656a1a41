//! The member of full fidelity that holds a value.

use shardlake_document::{BsonKind, NonJson, RawElement, RawValue};

use super::column_type::Member;
use super::numbers::double_of_long;
use super::table_schema::SchemaMode;

/// Milliseconds of the years 1 to 9999, the range that all readers show.
const DATES: std::ops::RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;

/// The member for a value; `None` for kinds of BSON that have none.
pub fn member_of(mode: SchemaMode, element: &RawElement<'_>) -> Option<Member> {
    let is_mongo = mode == SchemaMode::FullFidelity { is_mongo: true };
    Some(match element.kind()? {
        BsonKind::String => Member::String,
        BsonKind::Document => Member::Object,
        BsonKind::Array => Member::Array,
        BsonKind::Bool => Member::Bool,
        BsonKind::Null => Member::Null,
        BsonKind::Int32 => {
            if is_mongo {
                Member::Int32
            } else {
                Member::Num
            }
        }
        BsonKind::Int64 if is_mongo => Member::Int64,
        BsonKind::Double if is_mongo => Member::Float64,
        _ => return of_value(is_mongo, element.value()?),
    })
}

fn of_value(is_mongo: bool, value: RawValue<'_>) -> Option<Member> {
    Some(match value {
        RawValue::Int(value) if double_of_long(value).is_none() => Member::Int64,
        RawValue::NonJson(value) if is_mongo => return of_non_json(&value),
        RawValue::NonJson(_) => Member::Object,
        _ => Member::Num,
    })
}

fn of_non_json(value: &NonJson<'_>) -> Option<Member> {
    Some(match value.kind()? {
        BsonKind::ObjectId => Member::ObjectId,
        BsonKind::Decimal128 => Member::Decimal128,
        BsonKind::Binary => {
            binary_of(value)?;
            Member::Binary
        }
        BsonKind::Date => {
            microseconds_of(value)?;
            Member::Timestamp
        }
        _ => return None,
    })
}

/// The content of a binary value of the generic subtype. Columns have no place for another subtype.
pub fn binary_of<'a>(value: &NonJson<'a>) -> Option<&'a [u8]> {
    let (subtype, content) = value.bytes().get(4..)?.split_first()?;
    (*subtype == 0).then_some(content)
}

/// A date in the unit of the column.
pub fn microseconds_of(value: &NonJson<'_>) -> Option<i64> {
    let milliseconds = i64::from_le_bytes(*value.bytes().first_chunk()?);
    DATES.contains(&milliseconds).then(|| milliseconds * 1000)
}
