//! Names of the rows of a unique index: the text of their key, so that a look-up is a point read.
//!
//! ```text
//! rows of the key "ada"     id                    `_row`        `_id`
//! holder: the least `_id`   ada                   <hash 1>      7
//! the others                ada~<hash 2>          <hash 2>      9
//! ```
//! An index cannot refuse a source's write, so several items may have one key. `_row` is the row's name among them, which it keeps when
//! the name of the key passes on.

use shardlake_document::{Body, DocumentError, RawDocument, RawValue, Value};
use shardlake_model::{KeyComponent, PartitionKey};

/// Member of a row of a unique index: the id that it has in an index that is not unique.
pub const ROW_NAME: &str = "_row";
/// Member with the id of the source's item.
const ITEM_ID: &str = "_id";
/// Longest text of a key that is a name.
const NAME_BYTES_MAX: usize = 255;
/// Characters that clients cannot write in the path of an item.
const NOT_IN_NAMES: [char; 4] = ['/', '\\', '?', '#'];

/// The name that a row of a key has; `None` where the key names nothing: it is null or undefined, empty or too long, or has a character
/// that no path has. Rows of such a key have their own names as ids, and are no duplicates.
pub fn key_name(key: &PartitionKey) -> Option<String> {
    let is_nothing =
        |component: &KeyComponent| matches!(component, KeyComponent::Undefined | KeyComponent::Null);
    if key.0.iter().any(is_nothing) {
        return None;
    }
    let text = match key.0.as_slice() {
        [KeyComponent::String(text)] => text.clone(),
        [_] => {
            let list = shardlake_document::partition_key_text(key);
            list.trim_start_matches('[').trim_end_matches(']').to_owned()
        }
        _ => shardlake_document::partition_key_text(key),
    };
    let is_name = !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.contains(NOT_IN_NAMES);
    is_name.then_some(text)
}

/// The id of a row of a key that another row holds.
pub fn duplicate_id(name: &str, row: &str) -> String {
    format!("{name}~{row}")
}

/// Which of the rows of a key holds its name: the least.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    pub item: String,
    pub row: String,
}

impl Rank {
    /// Of a row's body; `None` for a body that is none of a unique index.
    pub fn of(body: RawDocument<'_>) -> Option<Rank> {
        let text = |name: &str| match body.get(name) {
            Some(RawValue::String(text)) => Some(text.to_owned()),
            _ => None,
        };
        Some(Rank { item: text(ITEM_ID)?, row: text(ROW_NAME)? })
    }
}

/// The body under another id.
pub fn renamed(body: RawDocument<'_>, id: &str) -> Result<Body, DocumentError> {
    let Value::Object(mut members) = Value::from_document(body) else {
        unreachable!("a document is an object")
    };
    if let Some((_, value)) = members.iter_mut().find(|(name, _)| name == "id") {
        *value = Value::String(id.to_owned());
    }
    Value::Object(members).to_body()
}

/// The body of a row of a unique index: its id is its name among the rows of its key, until it is stored.
pub fn with_row_name(body: RawDocument<'_>, id: &str) -> Result<Body, DocumentError> {
    let Value::Object(mut members) = Value::from_document(body) else {
        unreachable!("a document is an object")
    };
    members.retain(|(name, _)| name != ROW_NAME);
    let place = members.iter().position(|(name, _)| name == ITEM_ID).map_or(members.len(), |place| place + 1);
    members.insert(place, (ROW_NAME.to_owned(), Value::String(id.to_owned())));
    Value::Object(members).to_body()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> PartitionKey {
        PartitionKey::single(KeyComponent::String(text.to_owned()))
    }

    #[test]
    fn keys_are_names_where_a_path_may_have_them() {
        assert_eq!(key_name(&string("ada@example.com")).as_deref(), Some("ada@example.com"));
        assert_eq!(
            key_name(&PartitionKey::single(KeyComponent::double(5.0).expect("finite"))).as_deref(),
            Some("5")
        );
        assert_eq!(key_name(&PartitionKey::single(KeyComponent::Bool(true))).as_deref(), Some("true"));
        let pair = PartitionKey(vec![KeyComponent::String("a".into()), KeyComponent::String("b".into())]);
        assert_eq!(key_name(&pair).as_deref(), Some(r#"["a","b"]"#));
        for text in ["", "a/b", "a\\b", "a?", "#", &"x".repeat(256)] {
            assert_eq!(key_name(&string(text)), None, "{text}");
        }
        assert_eq!(key_name(&string(&"x".repeat(255))).map(|name| name.len()), Some(255));
        for nothing in [KeyComponent::Null, KeyComponent::Undefined] {
            assert_eq!(key_name(&PartitionKey::single(nothing)), None);
        }
    }

    #[test]
    fn names_change_and_bodies_stay() {
        let body = shardlake_document::parse_item(
            br#"{"id":"h","_id":"7","_row":1,"a":[1.5,null]}"#,
            &Default::default(),
        );
        let body = with_row_name(body.expect("a body").raw(), "h").expect("a body");
        let text = |body: &Body| Value::from_document(body.raw()).to_json().expect("finite");
        assert_eq!(text(&body), r#"{"id":"h","_id":"7","_row":"h","a":[1.5,null]}"#);
        let other = renamed(body.raw(), "ada").expect("a body");
        assert_eq!(text(&other), r#"{"id":"ada","_id":"7","_row":"h","a":[1.5,null]}"#);
        assert_eq!(renamed(other.raw(), "h").expect("a body").as_bytes(), body.as_bytes());
        assert_eq!(Rank::of(body.raw()), Some(Rank { item: "7".into(), row: "h".into() }));
    }
}
