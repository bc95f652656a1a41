//! BSON as JSON text without loss, as the shared vectors write it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;
use shardlake_mql::{Decimal, Value};

pub fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::Int(i32::try_from(whole).unwrap()),
            None => Value::Double(number.as_f64().unwrap()),
        },
        Json::String(text) => Value::string(text),
        Json::Array(items) => Value::array(items.iter().map(value).collect()),
        Json::Object(members) => match members.iter().next() {
            Some((tag, payload)) if members.len() == 1 && tag.starts_with('@') => typed(tag, payload),
            _ => Value::document(
                members.iter().map(|(name, own)| (name.as_str().into(), value(own))).collect(),
            ),
        },
    }
}

fn bytes_of_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn typed(tag: &str, payload: &Json) -> Value {
    let text = || payload.as_str().unwrap();
    let number = |at: usize| payload[at].as_u64().unwrap();
    match tag {
        "@long" => Value::Long(text().parse().unwrap()),
        "@double" => Value::Double(text().parse().unwrap()),
        "@dec" => Value::Decimal(Decimal::from_bytes(bytes_of_hex(text()).try_into().unwrap())),
        "@oid" => Value::ObjectId(bytes_of_hex(text()).try_into().unwrap()),
        "@date" => Value::Date(payload.as_i64().unwrap()),
        "@ts" => Value::Timestamp(number(0) as u32, number(1) as u32),
        "@bin" => {
            let content = STANDARD.decode(payload[1].as_str().unwrap()).unwrap();
            Value::Binary(number(0) as u8, Arc::from(content))
        }
        "@regex" => {
            let part = |at: usize| payload[at].as_str().unwrap().to_owned();
            Value::Regex(Arc::new((part(0), part(1))))
        }
        "@undef" => Value::Undefined,
        "@min" => Value::MinKey,
        "@max" => Value::MaxKey,
        "@rep" => Value::string(payload[0].as_str().unwrap().repeat(number(1) as usize)),
        other => panic!("no value for {other}"),
    }
}
