//! The account's keys: their fingerprints, and a new key in place of one of them.
//!
//! | request below `keys` | answer |
//! |---|---|
//! | `GET` | name, access and fingerprint of each key, and the file that holds them |
//! | `POST {name}/rotate` | 200: the new key, which is the only one of that name from then on |
//!
//! Names are `primary`, `secondary`, `primaryReadonly` and `secondaryReadonly`. Clients continue without a refused request in two
//! steps: a new secondary key, to which they change, then a new primary key. Both requests need a read-write key.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_signature::{Access, fingerprint};

use crate::pieces::written;
use crate::{OperatorCall, OperatorReply};

/// One of the four keys of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyName {
    Primary,
    Secondary,
    PrimaryReadonly,
    SecondaryReadonly,
}

impl KeyName {
    pub const ALL: [KeyName; 4] =
        [KeyName::Primary, KeyName::Secondary, KeyName::PrimaryReadonly, KeyName::SecondaryReadonly];

    /// As in paths and in the file.
    pub fn text(self) -> &'static str {
        match self {
            KeyName::Primary => "primary",
            KeyName::Secondary => "secondary",
            KeyName::PrimaryReadonly => "primaryReadonly",
            KeyName::SecondaryReadonly => "secondaryReadonly",
        }
    }

    pub fn parse(text: &str) -> Option<KeyName> {
        KeyName::ALL.into_iter().find(|name| name.text() == text)
    }

    pub fn access(self) -> Access {
        match self {
            KeyName::Primary | KeyName::Secondary => Access::Full,
            KeyName::PrimaryReadonly | KeyName::SecondaryReadonly => Access::ReadOnly,
        }
    }
}

/// A key with its name.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedKey {
    pub name: KeyName,
    pub key: String,
}

impl fmt::Debug for NamedKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {}", self.name, fingerprint(&self.key))
    }
}

/// The keys of a running server.
pub trait KeyStore: fmt::Debug + Send + Sync {
    fn keys(&self) -> Vec<NamedKey>;

    /// The file that holds the keys; `None` for the emulators' well-known key.
    fn file(&self) -> Option<String>;

    /// Makes a new key, stores it durably, then accepts it in place of the old one. May block.
    fn rotate(&self, name: KeyName) -> Result<NamedKey>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyTarget {
    All,
    Rotate(KeyName),
}

impl KeyTarget {
    /// The target of the segments behind `keys`.
    pub fn of(segments: &[&str]) -> Result<Option<KeyTarget>> {
        Ok(match segments {
            [] => Some(KeyTarget::All),
            [name, "rotate"] => {
                Some(KeyTarget::Rotate(KeyName::parse(name).ok_or_else(|| no_such_key(name))?))
            }
            _ => None,
        })
    }
}

fn no_such_key(name: &str) -> Error {
    let names = KeyName::ALL.map(KeyName::text).join(", ");
    Error::new(ErrorKind::NotFound, format!("an account has no key '{name}': there are {names}"))
}

pub(crate) fn serve(call: &OperatorCall<'_>, target: KeyTarget) -> Result<OperatorReply> {
    call.address.only_parameter("")?;
    let store = call.installation.and_then(|installation| installation.keys.clone());
    let store: Arc<dyn KeyStore> = store.ok_or_else(|| Error::unsupported("this server manages no keys"))?;
    match (target, call.method.as_str()) {
        (KeyTarget::All, "GET") => {
            let keys: Vec<Value> = store.keys().iter().map(shown).collect();
            Ok(crate::ok(written(&json!({ "keys": keys, "file": store.file() }))))
        }
        (KeyTarget::Rotate(name), "POST") => {
            let made = store.rotate(name)?;
            let mut answer = shown(&made);
            answer["key"] = json!(made.key);
            answer["file"] = json!(store.file());
            Ok(OperatorReply::json(StatusCode::OK, written(&answer)))
        }
        _ => Err(crate::wrong_method(call)),
    }
}

/// A key without its text.
fn shown(key: &NamedKey) -> Value {
    let access = match key.name.access() {
        Access::Full => "readWrite",
        Access::ReadOnly => "readOnly",
    };
    json!({ "name": key.name.text(), "access": access, "fingerprint": fingerprint(&key.key) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_one_of_the_four_keys() {
        assert_eq!(KeyTarget::of(&[]).expect("all"), Some(KeyTarget::All));
        for name in KeyName::ALL {
            let target = KeyTarget::of(&[name.text(), "rotate"]).expect("a key");
            assert_eq!(target, Some(KeyTarget::Rotate(name)));
        }
        assert_eq!(KeyTarget::of(&["primary"]).expect("no path"), None);
        assert_eq!(KeyTarget::of(&["Primary", "rotate"]).expect_err("no key").kind(), ErrorKind::NotFound);
    }

    #[test]
    fn no_debug_text_has_a_key() {
        let key = NamedKey { name: KeyName::Primary, key: "c2VjcmV0".to_owned() };
        assert!(!format!("{key:?}").contains("c2VjcmV0"));
        assert_ne!(fingerprint("c2VjcmV0"), fingerprint("b3RoZXI="));
    }
}
