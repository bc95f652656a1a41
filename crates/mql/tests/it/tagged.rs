//! BSON as JSON text without loss, as the recorded cases write it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;
use shardlake_mql::{Decimal, Document, Value};
use std::sync::Arc;

/// A placeholder in a case for a value that is not known before it runs.
pub enum Special {
    Reference(usize, String),
    Session(u64),
    Near(f64, f64),
}

/// The special form that a value of a case is, if it is one.
pub fn special(value: &Value) -> Option<Special> {
    let Value::Document(document) = value else { return None };
    let (name, payload) = document.first().filter(|_| document.len() == 1)?;
    let item = |at: usize| payload.as_array().and_then(|items| items.get(at));
    match &**name {
        "@ref" => Some(Special::Reference(item(0)?.to_i64_exact()? as usize, item(1)?.as_str()?.to_owned())),
        "@session" => Some(Special::Session(payload.to_i64_exact()? as u64)),
        "@approx" => Some(Special::Near(item(0)?.to_f64()?, item(1)?.to_f64()?)),
        _ => None,
    }
}

/// The value of a case's JSON.
pub fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(value) => Value::Int(i32::try_from(value).expect("a number of a case is an int32")),
            None => Value::Double(number.as_f64().unwrap()),
        },
        Json::String(text) => Value::string(text),
        Json::Array(items) => Value::array(items.iter().map(value).collect()),
        Json::Object(members) => match members.iter().next() {
            Some((tag, payload)) if members.len() == 1 && tag.starts_with('@') => typed(tag, payload),
            _ => Value::document(
                members.iter().map(|(name, member)| (name.as_str().into(), value(member))).collect(),
            ),
        },
    }
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap()
}

fn bytes_of_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn typed(tag: &str, payload: &Json) -> Value {
    match tag {
        "@long" => Value::Long(text(payload).parse().unwrap()),
        "@double" => Value::Double(text(payload).parse().unwrap()),
        "@dec" => Value::Decimal(Decimal::from_bytes(bytes_of_hex(text(payload)).try_into().unwrap())),
        "@oid" => Value::ObjectId(bytes_of_hex(text(payload)).try_into().unwrap()),
        "@date" => Value::Date(payload.as_i64().unwrap()),
        "@ts" => Value::Timestamp(payload[0].as_u64().unwrap() as u32, payload[1].as_u64().unwrap() as u32),
        "@bin" => Value::Binary(
            payload[0].as_u64().unwrap() as u8,
            Arc::from(STANDARD.decode(text(&payload[1])).unwrap()),
        ),
        "@regex" => Value::Regex(Arc::new((text(&payload[0]).to_owned(), text(&payload[1]).to_owned()))),
        "@code" => Value::Code(text(payload).into()),
        "@codews" => {
            let scope = value(&payload[1]);
            let scope = scope.as_document().unwrap();
            Value::CodeWithScope(Arc::new((text(&payload[0]).to_owned(), (**scope).clone())))
        }
        "@sym" => Value::Symbol(text(payload).into()),
        "@dbptr" => {
            let id = bytes_of_hex(text(&payload[1])).try_into().unwrap();
            Value::DbPointer(Arc::new((text(&payload[0]).to_owned(), id)))
        }
        "@undef" => Value::Undefined,
        "@min" => Value::MinKey,
        "@max" => Value::MaxKey,
        "@rep" => Value::string(text(&payload[0]).repeat(payload[1].as_u64().unwrap() as usize)),
        "@doc" => {
            let pair = |pair: &Json| (text(&pair[0]).into(), value(&pair[1]));
            Value::document(payload.as_array().unwrap().iter().map(pair).collect())
        }
        // Filled in while the case runs, or understood by the comparison.
        "@ref" | "@session" | "@approx" => Value::document(Document::one(tag, value(payload))),
        other => panic!("no value for {other}"),
    }
}
