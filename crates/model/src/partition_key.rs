//! Partition keys: their definition on a container and their values on items.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Properties the server owns. They live in the record's envelope and are rendered, never stored in a body.
pub const SYSTEM_PROPERTIES: [&str; 5] = ["_rid", "_self", "_etag", "_attachments", "_ts"];

/// One component of a partition key value. A missing property, an array or an object is `Undefined`;
/// undefined and null are different logical partitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum KeyComponent {
    Undefined,
    Null,
    Bool(bool),
    /// All numbers are doubles here, as in the hash. Numbers that queries would confuse with another are
    /// refused before they become keys (`serving/src/keys.rs`).
    Number(f64),
    String(String),
}

/// Why a number cannot be a key: keys are hashed as doubles, and equal only where their bits are; queries
/// compare numbers by value. Numbers on which the two disagree are refused, so that they agree on everything
/// that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyNumberError {
    #[error("-0, which queries take for 0 and the hash does not: send 0")]
    NegativeZero,
    #[error(
        "{0}, which the hash cannot tell from its neighbours, since it takes numbers as doubles: send a string"
    )]
    NotADouble(i128),
}

impl KeyComponent {
    pub fn integer(number: impl Into<i128>) -> Result<KeyComponent, KeyNumberError> {
        let number = number.into();
        let double = number as f64;
        match double as i128 == number {
            true => Ok(KeyComponent::Number(double)),
            false => Err(KeyNumberError::NotADouble(number)),
        }
    }

    pub fn double(number: f64) -> Result<KeyComponent, KeyNumberError> {
        match number == 0.0 && number.is_sign_negative() {
            false => Ok(KeyComponent::Number(number)),
            true => Err(KeyNumberError::NegativeZero),
        }
    }

    /// Equality of logical partitions: by bits for numbers, so that it agrees with the hash and the key encoding.
    pub fn same(&self, other: &KeyComponent) -> bool {
        match (self, other) {
            (KeyComponent::Number(a), KeyComponent::Number(b)) => a.to_bits() == b.to_bits(),
            _ => self == other,
        }
    }
}

/// A partition key value: one component per path of the definition, or fewer for a prefix of a hierarchical key.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PartitionKey(pub Vec<KeyComponent>);

impl PartitionKey {
    pub fn single(component: KeyComponent) -> Self {
        PartitionKey(vec![component])
    }

    pub fn same(&self, other: &PartitionKey) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(a, b)| a.same(b))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
pub enum KeyKind {
    #[default]
    Hash,
    MultiHash,
    /// Accepted by old clients only; refused at creation.
    Range,
}

impl<'de> Deserialize<'de> for KeyKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KeyKind, D::Error> {
        let text = String::deserialize(deserializer)?;
        let kinds = [("Hash", KeyKind::Hash), ("MultiHash", KeyKind::MultiHash), ("Range", KeyKind::Range)];
        let found = kinds.iter().find(|(name, _)| name.eq_ignore_ascii_case(&text));
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            D::Error::custom(format!("unknown partition key kind '{text}': use 'Hash' or 'MultiHash'"))
        })
    }
}

/// A number, or a text as the Java SDK sends it: `V1`, `V2`.
fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Version {
        Number(u64),
        Text(String),
    }
    let Some(version) = Option::<Version>::deserialize(deserializer)? else { return Ok(None) };
    let text = match version {
        Version::Number(number) => number.to_string(),
        Version::Text(text) => text,
    };
    let digits = text.strip_prefix(['v', 'V']).unwrap_or(&text);
    let number = digits.parse().map_err(|_| {
        D::Error::custom(format!("unknown partition key version '{text}': use 1, 2, 'V1' or 'V2'"))
    })?;
    Ok(Some(number))
}

/// `partitionKey` of a container. Build it with [`PartitionKeyDefinition::validate`]d input only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionKeyDefinition {
    pub paths: Vec<String>,
    #[serde(default)]
    pub kind: KeyKind,
    /// As the client sent it; [`PartitionKeyDefinition::version`] has the default for an absent one.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "version",
        deserialize_with = "version"
    )]
    pub version_sent: Option<u8>,
    /// Marks containers migrated from unpartitioned ones, whose key is the absent path `/_partitionKey`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_key: Option<bool>,
}

impl PartitionKeyDefinition {
    pub fn hash(path: &str) -> Self {
        PartitionKeyDefinition {
            paths: vec![path.to_owned()],
            kind: KeyKind::Hash,
            version_sent: Some(2),
            system_key: None,
        }
    }

    pub fn multi_hash(paths: &[&str]) -> Self {
        PartitionKeyDefinition {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            kind: KeyKind::MultiHash,
            version_sent: Some(2),
            system_key: None,
        }
    }

    /// How keys are hashed: when absent 1, for hierarchical keys 2, as in the reference; SDKs send 2.
    pub fn version(&self) -> u8 {
        let absent = if self.kind == KeyKind::MultiHash { 2 } else { 1 };
        self.version_sent.unwrap_or(absent)
    }

    /// Whether both give items the same keys in the same places.
    pub fn same(&self, other: &PartitionKeyDefinition) -> bool {
        let version_sent = other.version_sent;
        self.version() == other.version() && PartitionKeyDefinition { version_sent, ..self.clone() } == *other
    }

    /// The parsed paths, or the mistake in the definition, in words for the user.
    pub fn validate(&self, paths_max: usize) -> Result<Vec<KeyPath>, PartitionKeyPathError> {
        let error = |message: String| Err(PartitionKeyPathError(message));
        if !matches!(self.version(), 1 | 2) {
            return error(format!("partition key version {} is not supported: use 1 or 2", self.version()));
        }
        match self.kind {
            KeyKind::Range => return error("partition key kind 'Range' is not supported: use 'Hash'".into()),
            KeyKind::Hash if self.paths.len() != 1 => {
                return error(format!(
                    "Too many partition key paths: kind 'Hash' takes exactly one, not {}; use 'MultiHash' for a hierarchical key",
                    self.paths.len()
                ));
            }
            KeyKind::MultiHash if self.version() != 2 => {
                return error("partition key kind 'MultiHash' needs version 2".into());
            }
            KeyKind::MultiHash if self.paths.is_empty() => {
                return error("a hierarchical partition key names at least one path".into());
            }
            KeyKind::MultiHash if self.paths.len() > paths_max => {
                return error(format!(
                    "Too many partition key paths ({}) specified. A maximum of {paths_max} is allowed.",
                    self.paths.len()
                ));
            }
            KeyKind::Hash | KeyKind::MultiHash => {}
        }
        let parsed: Vec<KeyPath> =
            self.paths.iter().map(|path| KeyPath::parse(path)).collect::<Result<_, _>>()?;
        for (index, path) in parsed.iter().enumerate() {
            if let [name] = path.0.as_slice()
                && SYSTEM_PROPERTIES.contains(&name.as_str())
            {
                return error(format!(
                    "partition key path '{}' names a system property, which the server sets after an item has its place: choose a property of your items",
                    self.paths[index]
                ));
            }
            if parsed[..index].contains(path) {
                return error(format!("partition key path '{}' is listed twice", self.paths[index]));
            }
        }
        Ok(parsed)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PartitionKeyPathError(pub String);

/// Property names from an item's root to its key value: `/a/"b c"/d` is `["a", "b c", "d"]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyPath(pub Vec<String>);

impl KeyPath {
    /// Whether it is the path of the item id, which is a text for ids of any kind.
    pub fn is_id(&self) -> bool {
        matches!(&self.0[..], [only] if only == "id")
    }

    pub fn parse(path: &str) -> Result<KeyPath, PartitionKeyPathError> {
        let invalid =
            |why: &str| PartitionKeyPathError(format!("partition key path '{path}' is invalid: {why}"));
        let mut names = Vec::new();
        let mut rest = path;
        while !rest.is_empty() {
            rest = rest.strip_prefix('/').ok_or_else(|| invalid("each segment starts with '/'"))?;
            let (name, after) = match rest.chars().next().filter(|first| matches!(first, '"' | '\'')) {
                Some(quote) => {
                    read_quoted(&rest[1..], quote).ok_or_else(|| invalid("a quoted segment is not closed"))?
                }
                None => {
                    let end = rest.find('/').unwrap_or(rest.len());
                    (rest[..end].to_owned(), &rest[end..])
                }
            };
            if name.is_empty() {
                return Err(invalid("a segment is empty"));
            }
            if name == "*" || name == "?" || name == "[]" {
                return Err(invalid("wildcards and array indexes are not allowed"));
            }
            names.push(name);
            rest = after;
        }
        if names.is_empty() { Err(invalid("it names no property")) } else { Ok(KeyPath(names)) }
    }
}

/// Reads up to the closing quote; a backslash before a quote stands for the quote. Returns the name and the
/// rest of the text.
fn read_quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            character if character == quote => return Some((name, &text[at + 1..])),
            '\\' if text[at + 1..].starts_with(quote) => {
                characters.next();
                name.push(quote);
            }
            other => name.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_parse_with_and_without_quotes() {
        assert_eq!(KeyPath::parse("/a/b").expect("valid").0, ["a", "b"]);
        assert_eq!(KeyPath::parse(r#"/"a/b"/c"#).expect("valid").0, ["a/b", "c"]);
        assert_eq!(KeyPath::parse(r#"/"say \"hi\"""#).expect("valid").0, [r#"say "hi""#]);
        assert_eq!(
            KeyPath::parse(r#"/'level" 1*()'/'le/vel2'"#).expect("valid").0,
            [r#"level" 1*()"#, "le/vel2"]
        );
        assert_eq!(KeyPath::parse("/mi-xed name").expect("valid").0, ["mi-xed name"]);
        for broken in ["", "/", "a", "/a/", "//a", r#"/"a"#, r#"/"a"b"#, "/*", "/a/[]"] {
            assert!(KeyPath::parse(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn definitions_that_the_reference_refuses_are_refused() {
        let bad = [
            PartitionKeyDefinition { version_sent: Some(3), ..PartitionKeyDefinition::hash("/a") },
            PartitionKeyDefinition { paths: vec![], ..PartitionKeyDefinition::hash("/a") },
            PartitionKeyDefinition {
                kind: KeyKind::Hash,
                ..PartitionKeyDefinition::multi_hash(&["/a", "/b"])
            },
            PartitionKeyDefinition { version_sent: Some(1), ..PartitionKeyDefinition::multi_hash(&["/a"]) },
            PartitionKeyDefinition::multi_hash(&["/a", "/b", "/c", "/d"]),
            PartitionKeyDefinition::multi_hash(&["/a", "/a"]),
            PartitionKeyDefinition { kind: KeyKind::Range, ..PartitionKeyDefinition::hash("/a") },
        ];
        for definition in bad {
            assert!(definition.validate(3).is_err(), "{definition:?}");
        }
        assert_eq!(PartitionKeyDefinition::multi_hash(&["/a", "/b"]).validate(3).expect("valid").len(), 2);
    }
}
