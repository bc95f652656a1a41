//! Choice of a client's next operation: mostly possible ones, under names from small sets, so that
//! names are used again.

use crate::model::{
    Container, Database, Definition, ItemChange, Key, Operation, Place, Put, Question, State,
};
use shardlake_stdx::Random;
use std::sync::atomic::{AtomicU64, Ordering};

const CONTAINERS: [&str; 3] = ["c0", "c1", "c2"];
const USERS: [&str; 3] = ["u0", "u1", "u2"];
const PERMISSIONS: [&str; 2] = ["p0", "p1"];
const SCRIPTS: [&str; 2] = ["s0", "s1"];
const PARTITIONS: [&str; 4] = ["k0", "k1", "k2", "k3"];

/// Numbers that are given out once: tags and versions of all clients.
#[derive(Debug, Default)]
pub struct Numbers(AtomicU64);

impl Numbers {
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

pub struct Chooser<'c> {
    pub random: &'c Random,
    pub numbers: &'c Numbers,
    pub state: &'c State,
}

impl Chooser<'_> {
    /// Definitions and items of these databases.
    pub fn in_databases(&self, databases: &[String]) -> Operation {
        let database = self.one_of(databases).clone();
        let Some(found) = self.state.databases.get(&database) else {
            return self.create_database(database);
        };
        let place = Place { database: database.clone(), container: self.one_of(&CONTAINERS).to_string() };
        let container = found.containers.get(&place.container);
        match (self.random.below(100), container) {
            (0, _) => Operation::DeleteDatabase { database },
            (1, _) => self.create_database(database),
            (2..6, _) if found.throughput.is_some() => {
                let throughput = self.throughput();
                Operation::ReplaceOffer { database, container: None, throughput }
            }
            (6..24, _) => self.of_users(database, found, place),
            (24..42, Some(container)) => self.change_container(place, container),
            (42..44, _) => self.create_container(place),
            (44..60, Some(container)) => self.of_scripts(place, container),
            (_, Some(container)) => {
                let partition = self.one_of(&PARTITIONS).to_string();
                self.of_items(place, container, partition, 6)
            }
            (_, None) => self.create_container(place),
        }
    }

    /// Items of one logical partition.
    pub fn in_partition(&self, at: &Place, partition: &str) -> Operation {
        let container = &self.state.databases[&at.database].containers[&at.container];
        self.of_items(at.clone(), container, partition.to_owned(), 30)
    }

    /// A question about an object that the operation touches.
    pub fn question_about(&self, operation: &Operation) -> Question {
        match operation {
            Operation::Items { at, partition, changes, .. } => {
                let id = changes[0].id().to_owned();
                Question::Item(at.clone(), Key { partition: partition.clone(), id })
            }
            Operation::CreateContainer { at, .. }
            | Operation::ReplaceContainer { at, .. }
            | Operation::DeleteContainer { at }
            | Operation::PutPermission { at, .. }
            | Operation::PutScript { at, .. }
            | Operation::DeleteScript { at, .. } => Question::Container(at.clone()),
            Operation::CreateDatabase { database, .. }
            | Operation::DeleteDatabase { database }
            | Operation::ReplaceOffer { database, .. }
            | Operation::CreateUser { database, .. }
            | Operation::RenameUser { database, .. }
            | Operation::DeleteUser { database, .. }
            | Operation::DeletePermission { database, .. } => {
                let container = self.one_of(&CONTAINERS).to_string();
                Question::Container(Place { database: database.clone(), container })
            }
        }
    }

    fn create_database(&self, database: String) -> Operation {
        let throughput = (self.random.below(2) == 0).then(|| self.throughput());
        Operation::CreateDatabase { database, throughput }
    }

    fn create_container(&self, at: Place) -> Operation {
        let (tag, throughput) = (self.numbers.next(), self.throughput());
        Operation::CreateContainer { at, tag, definition: self.definition(), throughput }
    }

    fn change_container(&self, at: Place, container: &Container) -> Operation {
        let tag = container.tag;
        match self.random.below(8) {
            0..2 => Operation::DeleteContainer { at },
            2..6 => Operation::ReplaceContainer { at, tag, definition: self.definition() },
            _ => {
                let throughput = self.throughput();
                Operation::ReplaceOffer {
                    database: at.database,
                    container: Some((at.container, tag)),
                    throughput,
                }
            }
        }
    }

    fn of_users(&self, database: String, found: &Database, at: Place) -> Operation {
        let user = self.one_of(&USERS).to_string();
        let Some(permissions) = found.users.get(&user) else {
            return Operation::CreateUser { database, user };
        };
        let permission = self.one_of(&PERMISSIONS).to_string();
        let is_there = permissions.contains_key(&permission);
        match self.random.below(10) {
            0 => Operation::DeleteUser { database, user },
            1 => Operation::RenameUser { database, user, to: self.one_of(&USERS).to_string() },
            2..4 => Operation::DeletePermission { database, user, permission },
            _ => {
                let put = if is_there { Put::Replace } else { Put::Create };
                Operation::PutPermission { put, at, user, permission, tag: self.numbers.next() }
            }
        }
    }

    fn of_scripts(&self, at: Place, container: &Container) -> Operation {
        let script = self.one_of(&SCRIPTS).to_string();
        let is_there = container.scripts.contains_key(&script);
        if is_there && self.random.below(3) == 0 {
            return Operation::DeleteScript { at, script };
        }
        let put = if is_there { Put::Replace } else { Put::Create };
        Operation::PutScript { put, at, script, tag: self.numbers.next() }
    }

    fn of_items(&self, at: Place, container: &Container, partition: String, ids: u64) -> Operation {
        let id = || format!("i{}", self.random.below(ids));
        let version = || self.numbers.next();
        let changes = match self.random.below(11) {
            0..3 => vec![ItemChange::Create { id: id(), version: version() }],
            3..5 => vec![ItemChange::Upsert { id: id(), version: version() }],
            5 => vec![ItemChange::Replace { id: id(), version: version() }],
            6 => vec![ItemChange::Patch { id: id(), version: version() }],
            7 => vec![ItemChange::Delete { id: id() }],
            // Some of these are refused as a whole: their second item is there already.
            8 => vec![
                ItemChange::Upsert { id: "counter".to_owned(), version: version() },
                ItemChange::Create { id: id(), version: version() },
                ItemChange::Upsert { id: "counter".to_owned(), version: version() },
            ],
            _ => vec![
                ItemChange::Upsert { id: "counter".to_owned(), version: version() },
                ItemChange::Upsert { id: id(), version: version() },
                ItemChange::Upsert { id: id(), version: version() },
                ItemChange::Upsert { id: "twin".to_owned(), version: version() },
            ],
        };
        Operation::Items { at, home: container.tag, partition, changes }
    }

    fn definition(&self) -> Definition {
        Definition { ttl: self.numbers.next(), excluded: self.random.below(4) }
    }

    fn throughput(&self) -> u64 {
        400 + 100 * self.random.below(6)
    }

    fn one_of<'t, T>(&self, all: &'t [T]) -> &'t T {
        &all[self.random.below(all.len() as u64) as usize]
    }
}
