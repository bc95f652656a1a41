//! Body of a query request: unknown members are refused, and values stay exactly as they were written.

use serde::Deserialize;
use serde_json::value::RawValue;
use shardlake_account::{FeedScope, ParseLimits, Value, parse_partition_key};
use shardlake_model::{Error, Limits, Result};

#[derive(Debug)]
pub(super) struct QueryBody {
    pub query: String,
    /// Names with their `@`.
    pub parameters: Vec<(String, Value)>,
    pub mode: Mode,
    pub scope: FeedScope,
    pub max_items: Option<i64>,
    pub continuation: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Mode {
    #[default]
    Run,
    /// Neither run nor charged.
    Plan,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Json<'a> {
    query: String,
    #[serde(borrow, default)]
    parameters: Vec<Parameter<'a>>,
    #[serde(default)]
    mode: Mode,
    #[serde(borrow, default)]
    scope: Option<Scope<'a>>,
    #[serde(default)]
    max_items: Option<i64>,
    #[serde(default)]
    continuation: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameter<'a> {
    name: String,
    #[serde(borrow)]
    value: &'a RawValue,
}

/// Either a partition key, a range by id, or a span of the hash space.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Scope<'a> {
    #[serde(borrow, default)]
    partition_key: Option<&'a RawValue>,
    #[serde(default)]
    range: Option<String>,
    #[serde(default)]
    min_inclusive: Option<String>,
    #[serde(default)]
    max_exclusive: Option<String>,
}

impl QueryBody {
    pub fn read(body: &[u8], limits: &Limits) -> Result<QueryBody> {
        let json: Json<'_> = serde_json::from_slice(body)
            .map_err(|error| Error::bad_request(format!("the request body is no query: {error}")))?;
        if json.parameters.len() > limits.query_parameters_max {
            return Err(Error::bad_request(format!(
                "the query has {} parameters, more than the limit of {}",
                json.parameters.len(),
                limits.query_parameters_max
            )));
        }
        Ok(QueryBody {
            query: json.query,
            parameters: json.parameters.iter().map(Parameter::read).collect::<Result<_>>()?,
            mode: json.mode,
            scope: json.scope.map_or(Ok(FeedScope::All), |scope| scope.read())?,
            max_items: json.max_items,
            continuation: json.continuation,
        })
    }
}

impl Parameter<'_> {
    pub(crate) fn read(&self) -> Result<(String, Value)> {
        let text = self.value.get();
        let limits = ParseLimits { size_max_bytes: text.len(), ..ParseLimits::default() };
        let value = Value::from_json(text.as_bytes(), &limits).map_err(|error| {
            Error::bad_request(format!("the query parameter '{}' is not valid: {error}", self.name))
        })?;
        Ok((self.name.clone(), value))
    }
}

impl Scope<'_> {
    fn read(self) -> Result<FeedScope> {
        match (self.partition_key, self.range, self.min_inclusive, self.max_exclusive) {
            (Some(key), None, None, None) => {
                let key = parse_partition_key(key.get()).map_err(|error| {
                    Error::bad_request(format!("the partition key of the scope is invalid: {error}"))
                })?;
                Ok(FeedScope::Key(key))
            }
            (None, Some(range), None, None) => {
                Ok(FeedScope::Range { range_id: Some(crate::address::range_id(&range)?), epk: None })
            }
            (None, None, Some(min), Some(max)) => {
                Ok(FeedScope::Range { range_id: None, epk: Some((min, max)) })
            }
            _ => Err(Error::bad_request(
                "the scope is one of 'partitionKey', 'range', and 'minInclusive' with 'maxExclusive'",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_one_thing_and_members_are_known() {
        let read = |body: &str| QueryBody::read(body.as_bytes(), &Limits::default());
        let scope =
            |text: &str| read(&format!(r#"{{"query":"SELECT 1","scope":{text}}}"#)).map(|body| body.scope);
        assert!(matches!(scope(r#"{"partitionKey":["a"]}"#), Ok(FeedScope::Key(_))));
        assert!(matches!(scope(r#"{"range":"3"}"#), Ok(FeedScope::Range { range_id: Some(3), epk: None })));
        assert!(matches!(
            scope(r#"{"minInclusive":"","maxExclusive":"20"}"#),
            Ok(FeedScope::Range { range_id: None, epk: Some(_) })
        ));
        for wrong in [
            "{}",
            r#"{"range":"x"}"#,
            r#"{"range":"1","partitionKey":["a"]}"#,
            r#"{"minInclusive":""}"#,
            r#"{"partitionKey":"a"}"#,
            r#"{"key":["a"]}"#,
        ] {
            assert!(scope(wrong).is_err(), "{wrong}");
        }
        for wrong in [r#"{"text":"x"}"#, r#"{"query":"x","mode":"walk"}"#, "", r#"{"query":"x","page":1}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_of_parameters_stay_as_they_were_written() {
        let body = r#"{"query":"x","parameters":[{"name":"@a","value":9007199254740993}]}"#;
        let body = QueryBody::read(body.as_bytes(), &Limits::default()).expect("valid");
        assert_eq!(body.parameters[0].1.to_json().ok().as_deref(), Some("9007199254740993"));
    }
}
