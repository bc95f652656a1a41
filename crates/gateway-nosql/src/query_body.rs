//! Query requests: a text with parameters as JSON, or the text alone.
//!
//! A member that is not known here is refused by its name: such a member would change the meaning of the query.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use shardlake_account::ContainerHandle;
use shardlake_account::sql::{Alike, DistinctHash, ResumeFilter, SortValue};
use shardlake_document::{ParseLimits, Value};
use shardlake_model::{Error, ItemRid, Result, Rid};

use crate::call::Call;
use crate::known_members;

/// A query as it was sent. Parameter names have their `@`.
pub(crate) struct QueryBody {
    pub text: String,
    pub parameters: Vec<(String, Value)>,
    resume_filter: Option<ResumePosition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Json<'a> {
    query: String,
    #[serde(borrow, default)]
    parameters: Option<Vec<Parameter<'a>>>,
    #[serde(borrow, default, rename = "resumeFilter")]
    resume_filter: Option<JsonPosition<'a>>,
    /// Which plans of the service a client can read; plans here have one form.
    #[serde(default, rename = "clientQLCompatibilityLevel")]
    _compatibility: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameter<'a> {
    name: String,
    /// `None` where it is absent, which null is not.
    #[serde(borrow, default, deserialize_with = "known_members::present")]
    value: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonPosition<'a> {
    #[serde(borrow)]
    value: Vec<&'a RawValue>,
    #[serde(default)]
    rid: Option<String>,
    #[serde(default)]
    exclude: bool,
}

/// An array or an object as a sort key: by its hash, as clients know it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hashed {
    r#type: HashedType,
    low: i128,
    high: i128,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum HashedType {
    Array,
    Object,
}

/// Position from which a client that merges continues.
struct ResumePosition {
    keys: Vec<SortValue>,
    item: Option<ItemRid>,
    excludes_alike: bool,
}

impl QueryBody {
    pub fn read(call: &Call<'_>) -> Result<QueryBody> {
        let body = call.text()?;
        if call.headers.content_type.is_some_and(|kind| kind.starts_with("application/sql")) {
            let text =
                std::str::from_utf8(&body).map_err(|_| Error::bad_request("the query is not UTF-8 text"))?;
            return Ok(QueryBody { text: text.to_owned(), parameters: vec![], resume_filter: None });
        }
        let json: Json<'_> = serde_json::from_slice(&body)
            .map_err(|error| Error::bad_request(format!("the query request is not valid: {error}")))?;
        let parameters = json.parameters.unwrap_or_default();
        let max = call.account.router().limits().query_parameters_max;
        if parameters.len() > max {
            return Err(Error::bad_request(format!(
                "the query has {} parameters, more than the limit of {max}",
                parameters.len()
            )));
        }
        let parameters = parameters.iter().map(Parameter::read).collect::<Result<Vec<_>>>()?;
        let resume_filter = json.resume_filter.as_ref().map(JsonPosition::read).transpose()?;
        Ok(QueryBody { text: json.query, parameters, resume_filter })
    }

    /// A query of a kind that has no order in which a client could continue it.
    pub fn read_whole(call: &Call<'_>) -> Result<QueryBody> {
        let body = QueryBody::read(call)?;
        match body.resume_filter {
            None => Ok(body),
            Some(_) => Err(Error::bad_request("'resumeFilter' belongs to queries over items")),
        }
    }

    pub fn resume_filter(&self, container: &ContainerHandle) -> Result<Option<Arc<ResumeFilter>>> {
        let Some(position) = &self.resume_filter else { return Ok(None) };
        let alike = match position.item {
            _ if position.excludes_alike => Alike::None,
            None => Alike::All,
            Some(item) if item.container.to_string() == container.rid_text() => Alike::FromItem(item.ordinal),
            Some(_) => return Err(invalid("its 'rid' is of another container")),
        };
        Ok(Some(Arc::new(ResumeFilter::new(&position.keys, alike))))
    }
}

impl Parameter<'_> {
    fn read(&self) -> Result<(String, Value)> {
        let invalid =
            |error| Error::bad_request(format!("the query parameter '{}' is not valid: {error}", self.name));
        let value = match self.value {
            Some(text) => parse(text).map_err(invalid)?,
            None => Value::Undefined,
        };
        Ok((self.name.clone(), value))
    }
}

impl JsonPosition<'_> {
    fn read(&self) -> Result<ResumePosition> {
        let keys = self.value.iter().map(|value| sort_key(value)).collect::<Result<Vec<_>>>()?;
        let item = match self.rid.as_deref().filter(|rid| !rid.is_empty()).map(Rid::parse) {
            None => None,
            Some(Some(Rid::Item(item))) => Some(item),
            Some(_) => return Err(invalid("its 'rid' is not that of an item")),
        };
        Ok(ResumePosition { keys, item, excludes_alike: self.exclude })
    }
}

/// `[]` stands for undefined.
fn sort_key(text: &RawValue) -> Result<SortValue> {
    match parse(text).map_err(|error| invalid(&error.to_string()))? {
        Value::Array(elements) if elements.is_empty() => Ok(SortValue::Scalar(Value::Undefined)),
        Value::Array(_) => Err(invalid("an array in 'value' must be empty, for undefined")),
        Value::Object(_) => {
            let hashed: Hashed = serde_json::from_str(text.get()).map_err(|error| {
                invalid(&format!("an object in 'value' has 'type', 'low' and 'high': {error}"))
            })?;
            hashed.sort_value()
        }
        scalar => Ok(SortValue::Scalar(scalar)),
    }
}

impl Hashed {
    fn sort_value(&self) -> Result<SortValue> {
        let (high, low) = (half(self.high)?, half(self.low)?);
        let hash = DistinctHash::from(high) << 64 | DistinctHash::from(low);
        Ok(match self.r#type {
            HashedType::Array => SortValue::Array(hash),
            HashedType::Object => SortValue::Object(hash),
        })
    }
}

/// A half of a hash; some clients write its bits as a signed number.
fn half(number: i128) -> Result<u64> {
    let bits = u64::try_from(number).or_else(|_| i64::try_from(number).map(|signed| signed as u64));
    bits.map_err(|_| invalid("'low' and 'high' are numbers of 64 bits"))
}

fn parse(text: &RawValue) -> std::result::Result<Value, shardlake_document::DocumentError> {
    let limits = ParseLimits { size_max_bytes: text.get().len(), ..ParseLimits::default() };
    Value::from_json(text.get().as_bytes(), &limits)
}

fn invalid(reason: &str) -> Error {
    Error::bad_request(format!("'resumeFilter' is not valid: {reason}"))
}
