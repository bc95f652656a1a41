//! `shardlake copies set`, and settings of a new index: `NAME=VALUE` on the command line as members of JSON.

use http::Method;
use serde_json::{Map, Value};
use shardlake_admin::OperatorRequest;

use crate::operate::ContainerName;

/// One setting, as `reads=caughtUp`.
#[derive(Debug, Clone)]
pub struct Setting {
    name: String,
    value: Value,
}

impl std::str::FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Setting, String> {
        let Some((name, value)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(format!("'{text}' is no setting: write it as reads=caughtUp"));
        };
        let value = match value {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            text => Value::String(text.to_owned()),
        };
        Ok(Setting { name: name.to_owned(), value })
    }
}

/// The settings as members. The server knows their names and values.
pub fn members_of(settings: &[Setting]) -> Map<String, Value> {
    settings.iter().map(|setting| (setting.name.clone(), setting.value.clone())).collect()
}

/// The request that changes settings of an index.
pub fn request(name: &ContainerName, settings: &[Setting]) -> OperatorRequest {
    let (database, container) = name.names();
    let request = OperatorRequest::of_copies(Method::PATCH, &["index", database, container]);
    OperatorRequest { body: Some(Value::Object(members_of(settings)).to_string()), ..request }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_texts_or_truth_values() {
        let of = |text: &str| text.parse::<Setting>();
        let settings = [of("reads=caughtUp").expect("valid"), of("unique=true").expect("valid")];
        assert_eq!(Value::Object(members_of(&settings)).to_string(), r#"{"reads":"caughtUp","unique":true}"#);
        for text in ["reads", "=x", ""] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
