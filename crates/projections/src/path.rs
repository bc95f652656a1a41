//! Paths in the rules of projections: property names from an item's root, through at most one array.
//!
//! They are written as in an indexing policy, without its end: `/category/name`, `/"odd name"`, and `/tags/[]/name` for the
//! name of every element of `tags`.

use shardlake_document::{Value, write_json_string};
use shardlake_model::{Error, IndexPath, IndexPathSegment, Result};

/// A path, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    /// Names from the root to the array with the addressed elements; `None` without an array.
    pub array: Option<Vec<String>>,
    /// Names from an element, or from the root where there is no array.
    pub names: Vec<String>,
}

impl Path {
    pub fn parse(text: &str) -> Result<Path> {
        let invalid = |why: &str| Error::bad_request(format!("the path '{text}' is invalid: {why}"));
        let segments = match text.ends_with("/*") || text.ends_with("/?") {
            true => return Err(invalid("it names one property, without '/?' or '/*' at its end")),
            false => IndexPath::parse(&format!("{text}/?")),
        };
        let segments = segments.map_err(|_| {
            invalid("write '/name', '/\"odd name\"' or '/array/[]/name', with '[]' for every element")
        })?;
        let (mut array, mut names) = (None, Vec::new());
        for segment in segments.segments {
            match segment {
                IndexPathSegment::Name(name) => names.push(name),
                IndexPathSegment::AnyElement if array.is_none() && !names.is_empty() => {
                    array = Some(std::mem::take(&mut names));
                }
                IndexPathSegment::AnyElement => return Err(invalid("it goes through one array at most")),
                IndexPathSegment::Element(_) => {
                    return Err(invalid("'[]' stands for every element, single ones cannot be named"));
                }
            }
        }
        match names.is_empty() {
            true => Err(invalid("it ends in no property name")),
            false => Ok(Path { array, names }),
        }
    }

    /// As an indexing policy sees it.
    pub fn segments(&self) -> Vec<IndexPathSegment> {
        let name = |name: &String| IndexPathSegment::Name(name.clone());
        let array = self.array.iter().flat_map(|names| {
            let names: Vec<_> = names.iter().map(name).collect();
            names.into_iter().chain([IndexPathSegment::AnyElement])
        });
        array.chain(self.names.iter().map(name)).collect()
    }

    /// Whether one path equals the other or is a prefix of it.
    pub fn overlaps(&self, other: &Path) -> bool {
        self.segments().iter().zip(&other.segments()).all(|(a, b)| a == b)
    }
}

/// The value below `value`; `Undefined` where there is none.
pub(crate) fn get<'v>(value: &'v Value, names: &[String]) -> &'v Value {
    names.iter().try_fold(value, |value, name| value.get(name)).unwrap_or(&Value::Undefined)
}

/// Puts a value in its place, with the objects around it, or removes the existing one. Returns
/// whether that changed anything.
pub(crate) fn put(object: &mut Value, names: &[String], new: &Value) -> Result<bool, NotAnObject> {
    if get(object, names) == new {
        return Ok(false);
    }
    let (last, around) = names.split_last().expect("a path ends in a name");
    let mut at = object;
    for name in around {
        at = member(at, name)?;
    }
    let Value::Object(members) = at else { return Err(NotAnObject(last.clone())) };
    match members.iter().position(|(name, _)| name == last) {
        Some(place) if new.is_undefined() => drop(members.remove(place)),
        Some(place) => members[place].1 = new.clone(),
        None => members.push((last.clone(), new.clone())),
    }
    Ok(true)
}

/// Obstacle to a copy: the value at the parent name exists and is no object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotAnObject(pub String);

fn member<'v>(object: &'v mut Value, name: &str) -> Result<&'v mut Value, NotAnObject> {
    let Value::Object(members) = object else { return Err(NotAnObject(name.to_owned())) };
    let place = members.iter().position(|(other, _)| other == name).unwrap_or(members.len());
    if place == members.len() {
        members.push((name.to_owned(), Value::Object(Vec::new())));
    }
    Ok(&mut members[place].1)
}

/// An array in an item, to be changed.
pub(crate) fn elements<'v>(value: &'v mut Value, names: &[String]) -> &'v mut [Value] {
    let mut at = value;
    for name in names {
        let Value::Object(members) = at else { return &mut [] };
        let Some((_, next)) = members.iter_mut().find(|(other, _)| other == name) else { return &mut [] };
        at = next;
    }
    let Value::Array(elements) = at else { return &mut [] };
    elements
}

/// `root["a"]["b"]`, for a query.
pub(crate) fn expression(root: &str, names: &[String]) -> String {
    let mut text = root.as_bytes().to_vec();
    for name in names {
        text.push(b'[');
        write_json_string(name, &mut text);
        text.push(b']');
    }
    String::from_utf8(text).expect("JSON strings are UTF-8")
}

#[cfg(test)]
mod tests {
    use shardlake_document::ParseLimits;

    use super::*;

    fn value(json: &str) -> Value {
        Value::from_json(json.as_bytes(), &ParseLimits::default()).expect("JSON")
    }

    fn names(text: &str) -> Vec<String> {
        text.split('/').map(str::to_owned).collect()
    }

    #[test]
    fn paths_go_through_one_array_at_most() {
        let path = Path::parse("/a/\"b c\"/[]/d").expect("valid");
        assert_eq!((path.array, path.names), (Some(vec!["a".into(), "b c".into()]), vec!["d".into()]));
        for broken in ["", "a", "/", "/a/", "/a/?", "/a/*", "/[]/a", "/a/[]", "/a/[]/b/[]/c", "/a/[3]/b"] {
            assert!(Path::parse(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn paths_overlap_where_one_holds_the_other() {
        let overlap = |a: &str, b: &str| Path::parse(a).expect(a).overlaps(&Path::parse(b).expect(b));
        assert!(overlap("/a", "/a") && overlap("/a", "/a/b") && overlap("/a/[]/b", "/a"));
        assert!(!overlap("/a", "/b") && !overlap("/a/[]/b", "/a/[]/c") && !overlap("/a/b", "/a/c"));
    }

    #[test]
    fn values_are_put_replaced_and_taken_away() {
        let mut item = value(r#"{"a":{"b":1},"s":"x"}"#);
        assert_eq!(put(&mut item, &names("a/b"), &value("1")), Ok(false));
        assert_eq!(put(&mut item, &names("a/b"), &value("2")), Ok(true));
        assert_eq!(put(&mut item, &names("n/m"), &value("[3]")), Ok(true));
        assert_eq!(put(&mut item, &names("s/t"), &value("4")), Err(NotAnObject("t".into())));
        assert_eq!(put(&mut item, &names("zz"), &Value::Undefined), Ok(false));
        assert_eq!(item.to_json().expect("JSON"), r#"{"a":{"b":2},"s":"x","n":{"m":[3]}}"#);
        assert_eq!(put(&mut item, &names("n/m"), &Value::Undefined), Ok(true));
        assert_eq!(put(&mut item, &names("n/m"), &Value::Undefined), Ok(false), "it is gone already");
        assert_eq!(item.to_json().expect("JSON"), r#"{"a":{"b":2},"s":"x","n":{}}"#);
    }

    #[test]
    fn names_are_quoted_for_queries() {
        assert_eq!(expression("c", &names("a/b\"c")), r#"c["a"]["b\"c"]"#);
    }
}
