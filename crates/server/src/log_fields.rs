//! The fields of a log line with their types: numbers are numbers, and lists are arrays.
//!
//! `tracing` records a list as the text of its `Debug` form. Where that text is a JSON array, as of numbers and of names, it is
//! kept as one.

use std::error::Error;
use std::fmt::Debug;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};

#[derive(Debug, Default)]
pub struct Fields {
    pub message: String,
    pub others: Map<String, Value>,
}

impl Fields {
    fn set(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => {
                self.others.insert(name.to_owned(), value);
            }
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        let list = (text.starts_with('[') && field.name() != "message").then(|| serde_json::from_str(&text));
        match list {
            Some(Ok(list)) => self.set(field, Value::Array(list)),
            _ => self.set(field, Value::String(text)),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.set(field, Value::String(value.to_string()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, Value::from(value));
    }
}
