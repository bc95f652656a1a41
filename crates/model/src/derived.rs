//! A command's source, and the value that was made of it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Data that a value is made of. The value depends on nothing else.
pub trait Source<T> {
    type Error: fmt::Display;

    fn remake(&self) -> Result<T, Self::Error>;
}

/// A source and its value. The value stays in the process: only the source is encoded, and decoding makes the value
/// again.
#[derive(Debug, Clone)]
pub struct Derived<S, T> {
    source: S,
    value: T,
}

impl<S: Source<T>, T> Derived<S, T> {
    /// Makes the value of a source.
    pub fn of(source: S) -> Result<Derived<S, T>, S::Error> {
        let value = source.remake()?;
        Ok(Derived { source, value })
    }
}

impl<S, T> Derived<S, T> {
    pub fn source(&self) -> &S {
        &self.source
    }

    pub fn value(&self) -> &T {
        &self.value
    }
}

impl<S: Serialize, T> Serialize for Derived<S, T> {
    fn serialize<Out: Serializer>(&self, serializer: Out) -> Result<Out::Ok, Out::Error> {
        self.source.serialize(serializer)
    }
}

impl<'de, S: Source<T> + Deserialize<'de>, T> Deserialize<'de> for Derived<S, T> {
    fn deserialize<In: Deserializer<'de>>(deserializer: In) -> Result<Self, In::Error> {
        Derived::of(S::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}
