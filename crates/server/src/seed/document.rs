//! The format of a seed file. Members that nothing reads are errors, with their line.

use std::fmt;
use std::path::Path;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seed {
    pub databases: Vec<SeedDatabase>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SeedDatabase {
    pub id: String,
    #[serde(default)]
    pub throughput: Option<u64>,
    #[serde(default)]
    pub autoscale_max_throughput: Option<u64>,
    #[serde(default)]
    pub containers: Vec<SeedContainer>,
}

#[derive(Debug, Default)]
pub struct SeedContainer {
    /// The container as the REST API takes it.
    pub definition: Map<String, Value>,
    pub throughput: Option<u64>,
    pub autoscale_max_throughput: Option<u64>,
    /// The items as they were written, so that numbers keep their exact form.
    pub items: Vec<Box<RawValue>>,
    pub items_file: Option<String>,
}

/// Fields of a container's definition besides those that a seed adds.
const DEFINITION: &[&str] = &[
    "id",
    "partitionKey",
    "indexingPolicy",
    "uniqueKeyPolicy",
    "conflictResolutionPolicy",
    "geospatialConfig",
    "defaultTtl",
    "analyticalStorageTtl",
    "computedProperties",
    "changeFeedPolicy",
    "previousImageRetentionPolicy",
    "vectorEmbeddingPolicy",
    "fullTextPolicy",
    "throughput",
    "autoscaleMaxThroughput",
    "items",
    "itemsFile",
];

impl<'de> Deserialize<'de> for SeedContainer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = SeedContainer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a container")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<SeedContainer, A::Error> {
                let mut container = SeedContainer::default();
                while let Some(name) = members.next_key::<String>()? {
                    match name.as_str() {
                        "throughput" => container.throughput = members.next_value()?,
                        "autoscaleMaxThroughput" => {
                            container.autoscale_max_throughput = members.next_value()?
                        }
                        "items" => container.items = members.next_value()?,
                        "itemsFile" => container.items_file = members.next_value()?,
                        known if DEFINITION.contains(&known) => {
                            container.definition.insert(name, members.next_value()?);
                        }
                        unknown => return Err(A::Error::unknown_field(unknown, DEFINITION)),
                    }
                }
                Ok(container)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

impl Seed {
    pub fn read(path: &Path) -> Result<Seed, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("the seed file '{}' cannot be read: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("the seed file '{}': {error}", path.display()))
    }
}

/// The items of a file: the elements of one array, or one value after another.
pub fn read_items(path: &Path) -> Result<Vec<Box<RawValue>>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("the file of items '{}' cannot be read: {error}", path.display()))?;
    let items = if text.trim_start().starts_with('[') {
        serde_json::from_str(&text)
    } else {
        serde_json::Deserializer::from_str(&text).into_iter::<Box<RawValue>>().collect()
    };
    items.map_err(|error| format!("the file of items '{}': {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_read_with_its_numbers_as_written() {
        let text = r#"{"databases":[{"id":"a","containers":[{"id":"b","partitionKey":{"paths":["/k"]},"throughput":500,
            "items":[{"id":"1","n":1.10}],"itemsFile":"x"}]}]}"#;
        let seed: Seed = serde_json::from_str(text).expect("valid");
        let container = &seed.databases[0].containers[0];
        assert_eq!(container.items[0].get(), r#"{"id":"1","n":1.10}"#);
        assert_eq!((container.throughput, container.items_file.as_deref()), (Some(500), Some("x")));
        assert_eq!(container.definition.keys().collect::<Vec<_>>(), ["id", "partitionKey"]);
    }

    #[test]
    fn unknown_members_are_refused_with_their_place() {
        for text in [
            "{\n\"database\":[]}",
            "{\"databases\":[\n{\"id\":\"a\",\"colls\":[]}]}",
            "{\"databases\":[{\"id\":\"a\",\"containers\":[\n{\"id\":\"b\",\"ttl\":1}]}]}",
        ] {
            let error = serde_json::from_str::<Seed>(text).expect_err(text).to_string();
            assert!(error.contains("unknown field") && error.contains("line 2"), "{error}");
        }
    }

    #[test]
    fn items_come_as_an_array_or_one_after_another() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        for text in [" [{\"id\":\"1\"},{\"id\":\"2\"}]", "{\"id\":\"1\"}\n\n{\"id\":\"2\"}\n"] {
            std::fs::write(file.path(), text).expect("written");
            let items = read_items(file.path()).expect(text);
            assert_eq!(
                items.iter().map(|item| item.get()).collect::<Vec<_>>(),
                [r#"{"id":"1"}"#, r#"{"id":"2"}"#]
            );
        }
        std::fs::write(file.path(), "{\"id\":\"1\"}\n{").expect("written");
        assert!(read_items(file.path()).expect_err("broken").contains("line 2"));
    }
}
