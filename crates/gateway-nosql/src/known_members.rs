//! Bodies of which every member is known: acted on, kept, passed over by decision, or refused by its name.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use shardlake_model::{Error, Result};

/// Members with one of a few values, by name. Values are read in any case.
const ENUMERATIONS: [(&str, &[&str]); 12] = [
    ("indexingMode", &["consistent", "lazy", "none"]),
    ("order", &["ascending", "descending"]),
    ("mode", &["LastWriterWins", "Custom"]),
    ("type", &["Geography", "Geometry", "flat", "quantizedFlat", "diskANN"]),
    ("types", &["Point", "LineString", "Polygon", "MultiPolygon"]),
    ("dataType", &["float32", "float16", "int8", "uint8"]),
    ("distanceFunction", &["cosine", "euclidean", "dotproduct"]),
    ("quantizerType", &["product", "spherical"]),
    ("package", &["legacy", "standard"]),
    ("tokenizer", &["word"]),
    ("filters", &["stop", "lowercase", "stem", "ascii"]),
    ("stopWordListKind", &["none", "basic", "extended"]),
];

/// Reads a body; fails with the name of the first member, at any depth, that nothing reads and that is not passed over.
/// Paths of members that are: names with dots between them, without places in arrays.
pub(crate) fn read<'de, T, D>(body: D, passed_over: &[&str]) -> Result<Result<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let mut unknown = None;
    let value = serde_ignored::deserialize(body, |path| {
        let path = path.to_string();
        // `serde_ignored` marks an optional member with a segment of its own.
        let segments: Vec<&str> = path.split('.').filter(|segment| *segment != "?").collect();
        let is_name = |segment: &&str| segment.parse::<usize>().is_err();
        let names = segments.iter().copied().filter(is_name).collect::<Vec<_>>().join(".");
        if !passed_over.contains(&names.as_str()) {
            unknown.get_or_insert(segments.join("."));
        }
    })?;
    Ok(match unknown {
        None => Ok(value),
        Some(path) => Err(Error::bad_request(format!(
            "One of the specified inputs is invalid: the member '{path}' is not known here, and nothing was done"
        ))),
    })
}

/// Gives the values of enumerations the case that is declared.
pub(crate) fn with_declared_case(body: &mut Value) {
    match body {
        Value::Object(members) => {
            for (name, value) in members {
                match ENUMERATIONS.iter().find(|(member, _)| member == name) {
                    Some((_, declared)) => declare(value, declared),
                    None => with_declared_case(value),
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(with_declared_case),
        _ => {}
    }
}

fn declare(value: &mut Value, declared: &[&str]) {
    match value {
        Value::String(text) => {
            if let Some(one) = declared.iter().find(|one| one.eq_ignore_ascii_case(text)) {
                *text = (*one).to_owned();
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| declare(element, declared)),
        _ => {}
    }
}

/// `null` is a value of its own: only a member that is absent is `None`.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Deserialize, Debug, PartialEq)]
    struct Inner {
        #[serde(default)]
        a: Option<u8>,
    }

    #[derive(Deserialize, Debug, PartialEq)]
    struct Outer {
        #[serde(default)]
        list: Vec<Inner>,
        #[serde(default)]
        one: Option<Inner>,
    }

    #[test]
    fn the_first_unknown_member_is_named_with_its_place() {
        let read = |body: Value| read::<Outer, _>(&body, &["list.old"]).expect("the form is right");
        assert!(read(json!({ "list": [{ "a": 1, "old": [{ "x": 1 }] }], "one": { "a": 2 } })).is_ok());
        for (body, place) in [
            (json!({ "list": [{}, { "b": 1 }] }), "'list.1.b'"),
            (json!({ "one": { "old": 1 } }), "'one.old'"),
            (json!({ "two": 2 }), "'two'"),
        ] {
            let message = read(body).expect_err(place).message().to_owned();
            assert!(message.contains(place), "{message}");
        }
    }

    #[test]
    fn enumerations_are_read_in_any_case_at_any_depth() {
        let mut body = json!({ "indexingMode": "CONSISTENT", "x": [[{ "order": "Descending", "types": ["POINT", 7] }]], "mode": "other" });
        with_declared_case(&mut body);
        assert_eq!(
            body,
            json!({ "indexingMode": "consistent", "x": [[{ "order": "descending", "types": ["Point", 7] }]], "mode": "other" })
        );
    }
}
