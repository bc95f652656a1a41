//! Queries over the feeds of databases, containers and offers: `SELECT * FROM x [WHERE …]` with parameters.
//!
//! Clients look resources up this way, offers above all. The condition is evaluated by the query language's own code; a
//! query that does anything but select whole resources is refused.

use serde::Deserialize;
use serde_json::value::RawValue;
use shardlake_account::sql::Filter;
use shardlake_document::{ParseLimits, Value};
use shardlake_model::{Error, Result};

use crate::gateway::Call;

#[derive(Deserialize)]
struct Query<'a> {
    query: String,
    #[serde(borrow, default)]
    parameters: Vec<Parameter<'a>>,
}

#[derive(Deserialize)]
struct Parameter<'a> {
    name: String,
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
}

/// The rows that the request's query selects, in order. A row is a resource as JSON text.
pub(crate) fn select(call: &Call<'_>, rows: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    let is_text = call.headers.content_type.is_some_and(|kind| kind.starts_with("application/sql"));
    let filter = if is_text { parse_text(&call.body)? } else { parse(&call.body)? };
    let mut selected = Vec::new();
    for row in rows {
        let value = Value::from_json(&row, &ParseLimits::default())
            .map_err(|error| Error::internal("a resource is not valid JSON").with_source(error))?;
        if filter.matches(&value) {
            selected.push(row);
        }
    }
    Ok(selected)
}

fn parse_text(body: &[u8]) -> Result<Filter> {
    let text = std::str::from_utf8(body).map_err(|_| Error::bad_request("the query is not UTF-8 text"))?;
    Filter::parse(text, &[])
}

fn parse(body: &[u8]) -> Result<Filter> {
    let query: Query<'_> = serde_json::from_slice(body)
        .map_err(|error| Error::bad_request(format!("the query request is not valid: {error}")))?;
    let parameters = query.parameters.iter().map(Parameter::read).collect::<Result<Vec<_>>>()?;
    Filter::parse(&query.query, &parameters)
}

impl Parameter<'_> {
    fn read(&self) -> Result<(String, Value)> {
        let value = match self.value {
            Some(text) => {
                Value::from_json(text.get().as_bytes(), &ParseLimits::default()).map_err(|error| {
                    Error::bad_request(format!("the query parameter '{}' is not valid: {error}", self.name))
                })?
            }
            None => Value::Null,
        };
        Ok((self.name.clone(), value))
    }
}
