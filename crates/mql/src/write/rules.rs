//! Rules of a collection for its documents.

use serde::{Deserialize, Serialize};
use shardlake_document::Body;
use shardlake_model::{Derived, KeyPath, PartitionKey, Source};

use super::arrays::ArrayRules;
use super::refusal::Refusal;
use super::shard_key::ShardKey;
use super::stored::body_of;
use crate::error::{Error, Result, error};
use crate::expression::{Env, Scope};
use crate::filter::{Filter, Places, unmet};
use crate::value::{Document, Str, Value};

const VALIDATION_FAILED: i32 = 121;
const SHARD_KEY_IS_IMMUTABLE: i32 = 66;

/// The rules of a collection, made once for each version of its definition.
pub type DocumentRules = Derived<RulesSource, Rules>;

/// The parts of a collection's definition that documents have to meet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RulesSource {
    /// Specifications of the indexes.
    pub indexes: Vec<Document>,
    /// Empty without a validator.
    pub validator: Document,
    pub strictness: Strictness,
    /// The collection's collation.
    pub scope: Scope,
    /// Stored paths of the partition key.
    pub shard_key: Vec<Vec<String>>,
}

/// The documents that a validator refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strictness {
    None,
    /// Invalid ones, unless the version before was invalid too.
    Moderate,
    Strict,
}

#[derive(Debug)]
pub struct Rules {
    validator: Option<Validator>,
    pub places: PlaceRules,
    pub arrays: ArrayRules,
    pub shard_key: ShardKey,
}

#[derive(Debug)]
struct Validator {
    filter: Filter,
    /// As the client stated it.
    rules: Document,
    strictness: Strictness,
    scope: Scope,
}

impl Strictness {
    /// From the options of a collection.
    pub fn of(options: &Document) -> Strictness {
        let has = |name: &str, word: &str| options.get(name).and_then(Value::as_str) == Some(word);
        if has("validationLevel", "off") || has("validationAction", "warn") {
            Strictness::None
        } else if has("validationLevel", "moderate") {
            Strictness::Moderate
        } else {
            Strictness::Strict
        }
    }
}

impl Source<Rules> for RulesSource {
    type Error = Error;

    fn remake(&self) -> Result<Rules> {
        let validator = match self.validator.is_empty() {
            true => None,
            false => Some(Validator {
                filter: Filter::parse(&self.validator, &self.scope)?,
                rules: self.validator.clone(),
                strictness: self.strictness,
                scope: self.scope.clone(),
            }),
        };
        let paths: Vec<KeyPath> = self.shard_key.iter().cloned().map(KeyPath).collect();
        let (places, arrays) = (PlaceRules::of(&self.indexes), ArrayRules::of(&self.indexes));
        Ok(Rules { validator, places, arrays, shard_key: ShardKey::of(&paths) })
    }
}

impl Rules {
    /// The validator, whether it refuses documents or not.
    pub fn validator(&self) -> Option<&Filter> {
        self.validator.as_ref().map(|validator| &validator.filter)
    }

    /// Refuses a document that the validator refuses.
    pub fn check(&self, document: &Document, env: &mut Env) -> Result<(), Refusal> {
        match &self.validator {
            Some(validator) if validator.strictness != Strictness::None => validator.check(document, env),
            _ => Ok(()),
        }
    }

    /// Checks a document that replaces another.
    pub fn check_change(&self, old: &Document, new: &Document, env: &mut Env) -> Result<(), Refusal> {
        match &self.validator {
            Some(validator)
                if validator.strictness == Strictness::Moderate && !validator.filter.matches(old, env)? =>
            {
                Ok(())
            }
            _ => self.check(new, env),
        }
    }

    /// The shard key and the body of a new document that the indexes take.
    pub fn stored(&self, document: &Document) -> Result<(PartitionKey, Body)> {
        self.places.check(document)?;
        let key = self.shard_key.of_new(document)?;
        let (body, _) = body_of(document)?;
        self.arrays.check(document, body.raw())?;
        Ok((key, body))
    }

    /// Refuses the next version of a document if its shard key differs.
    pub fn check_key(&self, new: &Document, key: &PartitionKey) -> Result<()> {
        let shard_key = &self.shard_key;
        if shard_key.is_sharded() && !shard_key.of_stored(new).same(key) {
            let paths = shard_key.paths().join(", ");
            return Err(error!(
                SHARD_KEY_IS_IMMUTABLE,
                "the update would change the shard key '{paths}', which is immutable: delete the document and insert it anew"
            ));
        }
        Ok(())
    }
}

impl Validator {
    fn check(&self, document: &Document, env: &mut Env) -> Result<(), Refusal> {
        if self.filter.matches(document, env)? {
            return Ok(());
        }
        let mut info = Document::one("failingDocumentId", document.value("_id"));
        let details = unmet(&self.rules, document, (&self.scope, env));
        info.push("details", Value::document(details));
        let error = error!(VALIDATION_FAILED, "Document failed validation");
        Err(Refusal { error, details: Document::one("errInfo", Value::document(info)) })
    }
}

/// Fields of geographic indexes, and the values that they accept.
#[derive(Debug)]
pub struct PlaceRules(Vec<(Str, Places)>);

impl PlaceRules {
    pub fn of(indexes: &[Document]) -> PlaceRules {
        let keys = indexes.iter().filter_map(|index| Some((index, index.get("key")?.as_document()?)));
        let places = keys.flat_map(|(index, key)| {
            let places = |kind: &Value| Places::of_kind(kind.as_str()?, index);
            key.iter().filter_map(move |(field, kind)| Some((field.clone(), places(kind)?)))
        });
        PlaceRules(places.collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses a document that an index of places cannot take.
    pub fn check(&self, document: &Document) -> Result<()> {
        self.0.iter().try_for_each(|(field, places)| places.check(document, field))
    }
}
