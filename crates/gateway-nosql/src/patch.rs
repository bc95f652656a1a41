//! Patch bodies (wire.md §8.1): an object with `operations` and perhaps a `condition`, or a bare array of operations.
//!
//! Values are read from the text they arrived in, so that numbers keep their exact form.

use serde::Deserialize;
use serde_json::value::RawValue;
use shardlake_account::Patch;
use shardlake_account::sql::{SqlError, parse_condition};
use shardlake_document::{DocumentError, ParseLimits, PatchOperation, Value, parse_path};
use shardlake_model::{Error, ErrorKind, Limits, Result};

use crate::known_members;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<'a> {
    #[serde(borrow, default)]
    operations: Option<Vec<Operation<'a>>>,
    #[serde(default)]
    condition: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Operation<'a> {
    op: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    from: Option<String>,
    #[serde(borrow, default, deserialize_with = "known_members::present")]
    value: Option<&'a RawValue>,
}

/// A patch whose condition is still a text.
#[derive(Debug, Default)]
pub(crate) struct PatchBody {
    pub operations: Vec<PatchOperation>,
    /// `from c where …`: the patch applies only where it holds.
    pub condition: Option<String>,
}

impl PatchBody {
    pub fn with_condition(self) -> Result<Patch> {
        let parsed = self.condition.as_deref().map(parse_condition).transpose();
        let condition = parsed.map_err(|error| match error {
            SqlError::Unsupported { .. } => Error::unsupported(error.to_string()),
            _ => Error::bad_request(error.to_string()),
        })?;
        Ok(Patch { operations: self.operations, condition })
    }
}

pub(crate) fn parse(text: &[u8], limits: &Limits) -> Result<PatchBody> {
    let invalid =
        |error: serde_json::Error| Error::bad_request(format!("the patch is not valid JSON: {error}"));
    let bare = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let document = if bare {
        Document { operations: Some(serde_json::from_slice(text).map_err(invalid)?), condition: None }
    } else {
        serde_json::from_slice(text).map_err(invalid)?
    };
    let operations = document.operations.unwrap_or_default();
    if operations.is_empty() {
        return Err(Error::bad_request("the patch has no operations"));
    }
    if operations.len() > limits.patch_operations_max {
        return Err(Error::bad_request(format!(
            "The number of patch operations can't exceed {}: the request has {}",
            limits.patch_operations_max,
            operations.len()
        )));
    }
    let values = ParseLimits::of_items(limits);
    let operations = operations
        .iter()
        .enumerate()
        .map(|(index, operation)| {
            operation.read(&values).map_err(|refusal| {
                Error::new(refusal.kind(), format!("patch operation {index}: {}", refusal.message()))
            })
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(PatchBody { operations, condition: document.condition })
}

impl Operation<'_> {
    fn read(&self, limits: &ParseLimits) -> Result<PatchOperation> {
        let path = pointer("path", self.path.as_deref())?;
        let value = || {
            let text =
                self.value.ok_or_else(|| Error::bad_request(format!("'{}' needs a value", self.op)))?;
            Value::from_json(text.get().as_bytes(), limits).map_err(|error| self.invalid(error))
        };
        Ok(match self.op.to_ascii_lowercase().as_str() {
            "add" => PatchOperation::Add { path, value: value()? },
            "set" => PatchOperation::Set { path, value: value()? },
            "replace" => PatchOperation::Replace { path, value: value()? },
            "remove" => PatchOperation::Remove { path },
            "incr" | "increment" => {
                let by = value()?.as_number();
                let by = by.ok_or_else(|| Error::bad_request("the value of 'incr' must be a number"))?;
                PatchOperation::Increment { path, by }
            }
            "move" => PatchOperation::Move { from: pointer("from", self.from.as_deref())?, path },
            _ => {
                return Err(Error::bad_request(format!(
                    "'{}' is unknown: use add, set, replace, remove, incr or move",
                    self.op
                )));
            }
        })
    }

    fn invalid(&self, error: DocumentError) -> Error {
        match error {
            DocumentError::TooLarge { .. } => Error::new(ErrorKind::TooLarge, error.to_string()),
            DocumentError::NumberNotKept { path: inner, number } => {
                let path = format!("{}{inner}", self.path.as_deref().unwrap_or_default());
                Error::bad_request(DocumentError::NumberNotKept { path, number }.to_string())
            }
            error => Error::bad_request(error.to_string()),
        }
    }
}

fn pointer(member: &str, text: Option<&str>) -> Result<Vec<String>> {
    let text = text.ok_or_else(|| Error::bad_request(format!("the member '{member}' is missing")))?;
    parse_path(text).map_err(|error| Error::bad_request(error.to_string()))
}

#[cfg(test)]
mod tests {
    use shardlake_document::Number;

    use super::*;

    fn patch(text: &str) -> Result<PatchBody> {
        parse(text.as_bytes(), &Limits::default())
    }

    #[test]
    fn every_operation_is_read_from_both_forms() {
        let operations = r#"[
            {"op":"add","path":"/a/b","value":{"x":[1]}},
            {"op":"Set","path":"/a~1b","value":null},
            {"op":"replace","path":"/c/0","value":"t"},
            {"op":"remove","path":"/d"},
            {"op":"incr","path":"/e","value":9007199254740993},
            {"op":"move","from":"/f","path":"/g"}]"#;
        let bare = patch(operations).expect("a bare array");
        assert_eq!(bare.condition, None);
        let wrapped = patch(&format!(r#"{{"condition":"from c where c.x = 1","operations":{operations}}}"#));
        let wrapped = wrapped.expect("an object");
        assert_eq!(wrapped.condition.as_deref(), Some("from c where c.x = 1"));
        assert_eq!(wrapped.operations, bare.operations);
        assert_eq!(wrapped.operations.len(), 6);
        assert_eq!(bare.operations[1], PatchOperation::Set { path: vec!["a/b".into()], value: Value::Null });
        let exact =
            PatchOperation::Increment { path: vec!["e".into()], by: Number::Int(9_007_199_254_740_993) };
        assert_eq!(bare.operations[4], exact);
    }

    #[test]
    fn wrong_patches_are_refused_in_words() {
        let eleven = [r#"{"op":"remove","path":"/a"}"#; 11].join(",");
        for (text, word) in [
            ("", "JSON"),
            ("{}", "no operations"),
            ("[]", "no operations"),
            (r#"[{"op":"test","path":"/a"}]"#, "unknown"),
            (r#"[{"op":"set","path":"/a"}]"#, "needs a value"),
            (r#"[{"op":"incr","path":"/a","value":"1"}]"#, "number"),
            (r#"[{"op":"remove"}]"#, "'path' is missing"),
            (r#"[{"op":"move","path":"/a"}]"#, "'from' is missing"),
            (r#"[{"op":"remove","path":"a"}]"#, "must start with '/'"),
            (&format!("[{eleven}]"), "can't exceed 10"),
        ] {
            let error = patch(text).err().unwrap_or_else(|| panic!("{text} is accepted"));
            assert!(error.message().contains(word), "{text}: {error}");
        }
    }
}
