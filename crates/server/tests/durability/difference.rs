//! Differences between the stored and the expected state: missing, extra or partial objects, as text.

use crate::model::{Operation, State};
use std::collections::BTreeMap;

/// How a promise was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breach {
    /// Something acknowledged is not there, or an older version of it is.
    Lost,
    /// Something is there that was deleted, refused or never sent.
    Extra,
    /// A part of a batch is there.
    Torn,
    /// A container holds an item that was written to another.
    Foreign,
    /// The server gave an answer that could not be, or none.
    Answer,
    /// `shardlake verify` found the directory wrong.
    Verify,
}

pub const BREACHES: [Breach; 6] =
    [Breach::Lost, Breach::Extra, Breach::Torn, Breach::Foreign, Breach::Answer, Breach::Verify];

impl Breach {
    pub fn word(self) -> &'static str {
        match self {
            Breach::Lost => "lost",
            Breach::Extra => "extra",
            Breach::Torn => "torn",
            Breach::Foreign => "foreign",
            Breach::Answer => "impossible answers",
            Breach::Verify => "complaints of verify",
        }
    }
}

/// One line for each difference between a `possible` state and the `stored` one.
pub fn differences(possible: &State, stored: &State) -> Vec<(Breach, String)> {
    let (possible, stored) = (flat(possible), flat(stored));
    let mut found = Vec::new();
    for (name, value) in &possible {
        match stored.get(name) {
            None => found.push((Breach::Lost, format!("{name} is gone, was {value:?}"))),
            Some(other) if other.foreign => {
                found.push((Breach::Foreign, format!("{name} is {other:?}, was {value:?}")));
            }
            Some(other) if other != value => {
                found.push((Breach::Lost, format!("{name} is {other:?}, was {value:?}")));
            }
            Some(_) => {}
        }
    }
    for (name, value) in stored.iter().filter(|(name, _)| !possible.contains_key(*name)) {
        let breach = if value.foreign { Breach::Foreign } else { Breach::Extra };
        found.push((breach, format!("{name} is there: {value:?}")));
    }
    found
}

/// Batches of which only some versions are stored, while `possible` has all or none of them.
pub fn torn<'o>(
    pending: impl Iterator<Item = &'o Operation>,
    possible: &State,
    stored: &State,
) -> Vec<(Breach, String)> {
    let has = |state: &State, version: u64| {
        let databases = state.databases.values();
        let mut containers = databases.flat_map(|database| database.containers.values());
        containers.any(|container| container.items.values().any(|item| item.version == version))
    };
    let mut found = Vec::new();
    for operation in pending {
        let Operation::Items { changes, .. } = operation else { continue };
        // Only the last version of an item that a batch changes twice can be stored.
        let mut last = BTreeMap::new();
        for change in changes {
            last.insert(change.id(), change.version());
        }
        let versions: Vec<u64> = last.into_values().flatten().collect();
        let differ = versions.iter().filter(|version| has(stored, **version) != has(possible, **version));
        if versions.len() > 1 && (1..versions.len()).contains(&differ.count()) {
            found.push((Breach::Torn, format!("{operation:?}")));
        }
    }
    found
}

#[derive(PartialEq, Eq)]
struct Value {
    text: String,
    foreign: bool,
}

impl std::fmt::Debug for Value {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Everything in a state under a name of its own.
fn flat(state: &State) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    let mut put = |name: String, text: String, foreign: bool| {
        all.insert(name, Value { text, foreign });
    };
    for (database, entry) in &state.databases {
        put(format!("database {database}"), format!("{:?} RU/s", entry.throughput), false);
        for (user, permissions) in &entry.users {
            put(format!("user {database}/{user}"), "a user".to_owned(), false);
            for (permission, tag) in permissions {
                put(format!("permission {database}/{user}/{permission}"), tag.to_string(), false);
            }
        }
        for (name, container) in &entry.containers {
            let at = format!("{database}/{name}");
            put(format!("container {at}"), format!("tag {}", container.tag), false);
            put(format!("definition of {at}"), format!("{:?}", container.definition), false);
            put(format!("offer of {at}"), container.throughput.to_string(), false);
            if container.is_out_of_service {
                put(format!("container {at} is listed and answers 404"), "so".to_owned(), false);
            }
            for (script, tag) in &container.scripts {
                put(format!("script {at}/{script}"), tag.to_string(), false);
            }
            for (key, item) in &container.items {
                let name = format!("item {at}/{}/{}", key.partition, key.id);
                put(name, format!("{item:?}"), item.home != container.tag);
            }
        }
    }
    all
}
