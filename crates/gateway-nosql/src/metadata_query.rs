//! Queries over the feeds of databases, containers and offers: `SELECT * FROM x [WHERE …]` with parameters.
//!
//! Clients look resources up this way, offers above all. The condition is evaluated by the query language's own code; a
//! query that does anything but select whole resources is refused.

use shardlake_account::sql::Filter;
use shardlake_document::{ParseLimits, Value};
use shardlake_model::{Error, Result};

use crate::call::Call;
use crate::query_body::QueryBody;

/// The rows that the request's query selects, in order. A row is a resource as JSON text.
pub(crate) fn select(call: &Call<'_>, rows: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    let body = QueryBody::read(call)?;
    let filter = Filter::parse(&body.text, &body.parameters)?;
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
