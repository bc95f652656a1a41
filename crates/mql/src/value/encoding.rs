//! Values and documents in commands that are sent: as BSON.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Document, Value};

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.to_bytes())
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Document, D::Error> {
        deserializer.deserialize_bytes(Bson)
    }
}

/// As a document of one member; a missing value is an empty document.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Document::one("", self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        Document::deserialize(deserializer).map(|document| document.value(""))
    }
}

struct Bson;

impl Visitor<'_> for Bson {
    type Value = Document;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the bytes of a BSON document")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Document, E> {
        Document::from_bytes(bytes).map_err(E::custom)
    }
}
