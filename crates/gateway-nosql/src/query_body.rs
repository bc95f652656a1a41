//! Query requests: a text with parameters as JSON, or the text alone.

use serde::Deserialize;
use serde_json::value::RawValue;
use shardlake_document::{ParseLimits, Value};
use shardlake_model::{Error, Result};

use crate::call::Call;

/// A query as it was sent. Parameter names have their `@`.
pub(crate) struct QueryBody {
    pub text: String,
    pub parameters: Vec<(String, Value)>,
}

#[derive(Deserialize)]
struct Json<'a> {
    query: String,
    #[serde(borrow, default)]
    parameters: Option<Vec<Parameter<'a>>>,
}

#[derive(Deserialize)]
struct Parameter<'a> {
    name: String,
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
}

impl QueryBody {
    pub fn read(call: &Call<'_>) -> Result<QueryBody> {
        let body = call.text()?;
        if call.headers.content_type.is_some_and(|kind| kind.starts_with("application/sql")) {
            let text =
                std::str::from_utf8(&body).map_err(|_| Error::bad_request("the query is not UTF-8 text"))?;
            return Ok(QueryBody { text: text.to_owned(), parameters: vec![] });
        }
        let json: Json<'_> = serde_json::from_slice(&body)
            .map_err(|error| Error::bad_request(format!("the query request is not valid: {error}")))?;
        let parameters = json.parameters.unwrap_or_default();
        let max = call.account.limits().query_parameters_max;
        if parameters.len() > max {
            return Err(Error::bad_request(format!(
                "the query has {} parameters, more than the limit of {max}",
                parameters.len()
            )));
        }
        let parameters = parameters.iter().map(Parameter::read).collect::<Result<Vec<_>>>()?;
        Ok(QueryBody { text: json.query, parameters })
    }
}

impl Parameter<'_> {
    fn read(&self) -> Result<(String, Value)> {
        let invalid =
            |error| Error::bad_request(format!("the query parameter '{}' is not valid: {error}", self.name));
        let value = match self.value {
            Some(text) => {
                let limits = ParseLimits { size_max_bytes: text.get().len(), ..ParseLimits::default() };
                Value::from_json(text.get().as_bytes(), &limits).map_err(invalid)?
            }
            None => Value::Null,
        };
        Ok((self.name.clone(), value))
    }
}
