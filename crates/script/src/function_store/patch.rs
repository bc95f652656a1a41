//! Patch operations from the JSON array that a function gives, for the worker's own view and for the commit.

use shardlake_document::{ParseLimits, PatchOperation, Value, is_system_property, parse_path};
use shardlake_model::{Error, KeyPath, Limits, Result};

/// Reads a JSON array of operations, at most [`Limits::patch_operations_max`]. Refuses paths that no patch
/// may change: the id, system properties and the partition key.
pub fn patch_operations(text: &str, key_paths: &[KeyPath], limits: &Limits) -> Result<Vec<PatchOperation>> {
    let parsed = Value::from_json(text.as_bytes(), &ParseLimits::of_items(limits));
    let given =
        match parsed.map_err(|error| Error::bad_request(format!("the patch is not valid: {error}")))? {
            Value::Array(given) => given,
            _ => return Err(Error::bad_request("a patch must be an array of operations")),
        };
    if given.is_empty() || given.len() > limits.patch_operations_max {
        let max = limits.patch_operations_max;
        let message = format!("a patch has 1 to {max} operations, and this one has {}", given.len());
        return Err(Error::bad_request(message));
    }
    let read = |(index, operation)| {
        let read = operation_of(operation).and_then(|read| check_paths(read, key_paths));
        read.map_err(|error: Error| {
            Error::bad_request(format!("patch operation {index}: {}", error.message()))
        })
    };
    let operations = given.into_iter().enumerate().map(read).collect::<Result<Vec<_>>>()?;
    assert!(!operations.is_empty(), "a patch changes something");
    Ok(operations)
}

/// The members of one operation.
#[derive(Default)]
struct Members {
    op: Option<Value>,
    path: Option<Value>,
    from: Option<Value>,
    value: Option<Value>,
}

impl Members {
    fn of(operation: Value) -> Result<Members> {
        let Value::Object(given) = operation else {
            return Err(Error::bad_request("an operation must be an object"));
        };
        let mut members = Members::default();
        for (name, value) in given {
            let member = match name.as_str() {
                "op" => &mut members.op,
                "path" => &mut members.path,
                "from" => &mut members.from,
                "value" => &mut members.value,
                _ => return Err(Error::bad_request(format!("there is no member '{name}' in an operation"))),
            };
            *member = Some(value);
        }
        Ok(members)
    }
}

fn operation_of(operation: Value) -> Result<PatchOperation> {
    let Members { op, path, from, value } = Members::of(operation)?;
    let op = text("op", op)?;
    let path = pointer("path", path)?;
    let value = || value.ok_or_else(|| Error::bad_request(format!("'{op}' needs a value")));
    Ok(match op.to_ascii_lowercase().as_str() {
        "add" => PatchOperation::Add { path, value: value()? },
        "set" => PatchOperation::Set { path, value: value()? },
        "replace" => PatchOperation::Replace { path, value: value()? },
        "remove" => PatchOperation::Remove { path },
        "incr" | "increment" => {
            let by = value()?.as_number();
            let by = by.ok_or_else(|| Error::bad_request("the value of 'incr' must be a number"))?;
            PatchOperation::Increment { path, by }
        }
        "move" => PatchOperation::Move { from: pointer("from", from)?, path },
        _ => {
            let message = format!("'{op}' is unknown: use add, set, replace, remove, incr or move");
            return Err(Error::bad_request(message));
        }
    })
}

fn text(member: &str, value: Option<Value>) -> Result<String> {
    match value {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Error::bad_request(format!("the member '{member}' must be a text"))),
        None => Err(Error::bad_request(format!("the member '{member}' is missing"))),
    }
}

fn pointer(member: &str, value: Option<Value>) -> Result<Vec<String>> {
    parse_path(&text(member, value)?).map_err(|error| Error::bad_request(error.to_string()))
}

fn check_paths(operation: PatchOperation, key_paths: &[KeyPath]) -> Result<PatchOperation> {
    for path in operation.paths() {
        let refused =
            |why| Error::bad_request(format!("a patch may not change '/{}': {why}", path.join("/")));
        if path.first().is_none_or(|name| name == "id" || is_system_property(name)) {
            return Err(refused("the id and system properties belong to the server"));
        }
        // Neither the key itself, nor an object that holds it, nor anything below it.
        if key_paths.iter().any(|key| key.0.iter().zip(path).all(|(a, b)| a == b)) {
            return Err(refused("it is part of the partition key"));
        }
    }
    Ok(operation)
}

#[cfg(test)]
mod tests {
    use shardlake_document::Number;

    use super::*;

    fn read(text: &str) -> Result<Vec<PatchOperation>> {
        let key = KeyPath::parse("/a/key").expect("a path");
        patch_operations(text, &[key], &Limits::default())
    }

    #[test]
    fn every_operation_is_read() {
        let text = r#"[{"op": "add", "path": "/x", "value": null}, {"op": "Set", "path": "/x/0", "value": [1]},
            {"op": "replace", "path": "/a~1b", "value": "t"}, {"op": "remove", "path": "/x"},
            {"op": "incr", "path": "/n", "value": 1.5}, {"op": "move", "from": "/x", "path": "/y"}]"#;
        let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let expected = [
            PatchOperation::Add { path: path(&["x"]), value: Value::Null },
            PatchOperation::Set { path: path(&["x", "0"]), value: Value::Array(vec![Value::Int(1)]) },
            PatchOperation::Replace { path: path(&["a/b"]), value: Value::String("t".into()) },
            PatchOperation::Remove { path: path(&["x"]) },
            PatchOperation::Increment { path: path(&["n"]), by: Number::Double(1.5) },
            PatchOperation::Move { from: path(&["x"]), path: path(&["y"]) },
        ];
        assert_eq!(read(text).expect("is read"), expected);
    }

    #[test]
    fn mistakes_are_refused_with_their_place() {
        let many = format!("[{}]", [r#"{"op": "remove", "path": "/x"}"#; 11].join(","));
        for (text, words) in [
            ("{}", "must be an array"),
            ("[]", "1 to 10 operations, and this one has 0"),
            (many.as_str(), "this one has 11"),
            (r#"[{"op": "set", "path": "/x"}]"#, "operation 0: 'set' needs a value"),
            (r#"[{"op": "put", "path": "/x", "value": 1}]"#, "'put' is unknown"),
            ("[1]", "operation 0: an operation must be an object"),
            ("[{]", "the patch is not valid"),
            (r#"[{"op": 1, "path": "/x"}]"#, "'op' must be a text"),
            (r#"[{"op": "set", "value": 1}]"#, "the member 'path' is missing"),
            (r#"[{"op": "set", "path": "x", "value": 1}]"#, "must start with '/'"),
            (r#"[{"op": "incr", "path": "/x", "value": "1"}]"#, "must be a number"),
            (r#"[{"op": "move", "path": "/x"}]"#, "'from' is missing"),
            (r#"[{"op": "set", "path": "/x", "value": 1, "if": 1}]"#, "there is no member 'if'"),
            (r#"[{"op": "set", "path": "/id", "value": 1}]"#, "belong to the server"),
            (r#"[{"op": "remove", "path": "/_etag"}]"#, "belong to the server"),
            (r#"[{"op": "remove", "path": "/a/key/x"}]"#, "part of the partition key"),
            (r#"[{"op": "move", "from": "/a", "path": "/b"}]"#, "part of the partition key"),
        ] {
            let message = read(text).expect_err(text).message().to_owned();
            assert!(message.contains(words), "{text}: {message}");
        }
        assert!(read(r#"[{"op": "set", "path": "/a/other", "value": 1}]"#).is_ok());
    }
}
