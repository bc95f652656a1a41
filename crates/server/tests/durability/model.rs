//! Model of an account as a client knows it, and of the effect of each operation.
//!
//! This is a second, tiny implementation of the server's rules: it answers with the status that the
//! server has to answer with. Every container has a *tag*, a number no other container ever has.
//! The tag is in the path of the partition key, which nothing can change, and in every item
//! (`home`), so that an item in a foreign container is recognised.

use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct State {
    pub databases: BTreeMap<String, Database>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Database {
    pub throughput: Option<u64>,
    pub containers: BTreeMap<String, Container>,
    /// User, and the tags of its permissions.
    pub users: BTreeMap<String, BTreeMap<String, u64>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Container {
    pub tag: u64,
    pub definition: Definition,
    pub throughput: u64,
    pub scripts: BTreeMap<String, u64>,
    pub items: BTreeMap<Key, Stored>,
    /// It is listed, and its items are not to be had. Never, in the model.
    pub is_out_of_service: bool,
}

/// The settings that a replace of a container changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Definition {
    pub ttl: u64,
    /// The path that the indexing policy excludes.
    pub excluded: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub partition: String,
    pub id: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stored {
    /// Tag of the container that the writer meant.
    pub home: u64,
    /// A number that no other write of any item has.
    pub version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub database: String,
    pub container: String,
}

/// Whether an operation on a named thing makes it or changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    Create,
    Replace,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    CreateDatabase {
        database: String,
        throughput: Option<u64>,
    },
    DeleteDatabase {
        database: String,
    },
    CreateContainer {
        at: Place,
        tag: u64,
        definition: Definition,
        throughput: u64,
    },
    ReplaceContainer {
        at: Place,
        tag: u64,
        definition: Definition,
    },
    DeleteContainer {
        at: Place,
    },
    /// The offer of the container with this tag, or of the database.
    ReplaceOffer {
        database: String,
        container: Option<(String, u64)>,
        throughput: u64,
    },
    CreateUser {
        database: String,
        user: String,
    },
    RenameUser {
        database: String,
        user: String,
        to: String,
    },
    DeleteUser {
        database: String,
        user: String,
    },
    PutPermission {
        put: Put,
        at: Place,
        user: String,
        permission: String,
        tag: u64,
    },
    DeletePermission {
        database: String,
        user: String,
        permission: String,
    },
    PutScript {
        put: Put,
        at: Place,
        script: String,
        tag: u64,
    },
    DeleteScript {
        at: Place,
        script: String,
    },
    /// One change, or several that are a batch.
    Items {
        at: Place,
        home: u64,
        partition: String,
        changes: Vec<ItemChange>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemChange {
    Create {
        id: String,
        version: u64,
    },
    Upsert {
        id: String,
        version: u64,
    },
    Replace {
        id: String,
        version: u64,
    },
    /// Sets the version and leaves the rest alone.
    Patch {
        id: String,
        version: u64,
    },
    Delete {
        id: String,
    },
}

impl ItemChange {
    pub fn id(&self) -> &str {
        let (ItemChange::Create { id, .. }
        | ItemChange::Upsert { id, .. }
        | ItemChange::Replace { id, .. }
        | ItemChange::Patch { id, .. }
        | ItemChange::Delete { id }) = self;
        id
    }

    /// `None` for a deletion.
    pub fn version(&self) -> Option<u64> {
        match self {
            ItemChange::Create { version, .. }
            | ItemChange::Upsert { version, .. }
            | ItemChange::Replace { version, .. }
            | ItemChange::Patch { version, .. } => Some(*version),
            ItemChange::Delete { .. } => None,
        }
    }
}

/// A read in the middle of the writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    Container(Place),
    Item(Place, Key),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Nothing,
    Container(u64, Definition),
    Item(Stored),
}

impl Operation {
    /// The word under which it is counted.
    pub fn kind(&self) -> &'static str {
        use Operation::*;
        match self {
            CreateDatabase { .. } => "create database",
            DeleteDatabase { .. } => "delete database",
            CreateContainer { .. } => "create container",
            ReplaceContainer { .. } => "replace container",
            DeleteContainer { .. } => "delete container",
            ReplaceOffer { .. } => "replace offer",
            CreateUser { .. } => "create user",
            RenameUser { .. } => "rename user",
            DeleteUser { .. } => "delete user",
            PutPermission { .. } => "put permission",
            DeletePermission { .. } => "delete permission",
            PutScript { .. } => "put script",
            DeleteScript { .. } => "delete script",
            Items { changes, .. } if changes.len() > 1 => "batch",
            Items { changes, .. } => match changes[0] {
                ItemChange::Create { .. } => "create item",
                ItemChange::Upsert { .. } => "upsert item",
                ItemChange::Replace { .. } => "replace item",
                ItemChange::Patch { .. } => "patch item",
                ItemChange::Delete { .. } => "delete item",
            },
        }
    }

    pub fn changes_a_definition(&self) -> bool {
        !matches!(self, Operation::Items { .. })
    }
}

impl State {
    /// Carries the operation out and returns the status of the answer. A refusal changes nothing.
    pub fn apply(&mut self, operation: &Operation) -> u16 {
        self.try_apply(operation).unwrap_or_else(|refused| refused)
    }

    fn try_apply(&mut self, operation: &Operation) -> Result<u16, u16> {
        use Operation::*;
        match operation {
            CreateDatabase { database, throughput } => {
                let new = Database { throughput: *throughput, ..Database::default() };
                create(&mut self.databases, database, new)
            }
            DeleteDatabase { database } => delete(&mut self.databases, database),
            CreateContainer { at, tag, definition, throughput } => {
                let new = Container {
                    tag: *tag,
                    definition: *definition,
                    throughput: *throughput,
                    ..Container::default()
                };
                create(&mut self.database(&at.database)?.containers, &at.container, new)
            }
            ReplaceContainer { at, tag, definition } => {
                let container = self.container(at)?;
                refuse_unless(container.tag == *tag, 400)?;
                container.definition = *definition;
                Ok(200)
            }
            DeleteContainer { at } => delete(&mut self.database(&at.database)?.containers, &at.container),
            ReplaceOffer { database, container, throughput } => {
                self.replace_offer(database, container.as_ref(), *throughput)
            }
            PutScript { put: Put::Create, at, script, tag } => {
                create(&mut self.container(at)?.scripts, script, *tag)
            }
            PutScript { put: Put::Replace, at, script, tag } => {
                replace(&mut self.container(at)?.scripts, script, *tag)
            }
            DeleteScript { at, script } => delete(&mut self.container(at)?.scripts, script),
            Items { at, home, partition, changes } => {
                self.container(at)?.change_items(*home, partition, changes)
            }
            _ => self.try_apply_of_users(operation),
        }
    }

    fn try_apply_of_users(&mut self, operation: &Operation) -> Result<u16, u16> {
        use Operation::*;
        match operation {
            CreateUser { database, user } => {
                create(&mut self.database(database)?.users, user, BTreeMap::new())
            }
            RenameUser { database, user, to } => {
                let users = &mut self.database(database)?.users;
                refuse_unless(users.contains_key(user), 404)?;
                refuse_unless(user == to || !users.contains_key(to), 409)?;
                let permissions = users.remove(user).expect("looked up just now");
                users.insert(to.clone(), permissions);
                Ok(200)
            }
            DeleteUser { database, user } => delete(&mut self.database(database)?.users, user),
            PutPermission { put, at, user, permission, tag } => {
                let database = self.database(&at.database)?;
                let permissions = database.users.get_mut(user).ok_or(404_u16)?;
                match put {
                    Put::Create => refuse_unless(!permissions.contains_key(permission), 409)?,
                    Put::Replace => refuse_unless(permissions.contains_key(permission), 404)?,
                }
                // The container need not be there.
                permissions.insert(permission.clone(), *tag);
                Ok(if *put == Put::Create { 201 } else { 200 })
            }
            DeletePermission { database, user, permission } => {
                let permissions = self.database(database)?.users.get_mut(user).ok_or(404_u16)?;
                delete(permissions, permission)
            }
            _ => unreachable!("{operation:?} is none of users"),
        }
    }

    fn replace_offer(
        &mut self,
        database: &str,
        container: Option<&(String, u64)>,
        new: u64,
    ) -> Result<u16, u16> {
        let owner = self.database(database)?;
        let throughput = match container {
            None => owner.throughput.as_mut(),
            Some((name, tag)) => {
                let container = owner.containers.get_mut(name).filter(|container| container.tag == *tag);
                container.map(|container| &mut container.throughput)
            }
        };
        *throughput.ok_or(404_u16)? = new;
        Ok(200)
    }

    pub fn look(&self, question: &Question) -> Seen {
        let container = |at: &Place| self.databases.get(&at.database)?.containers.get(&at.container);
        match question {
            Question::Container(at) => {
                container(at).map_or(Seen::Nothing, |found| Seen::Container(found.tag, found.definition))
            }
            Question::Item(at, key) => container(at)
                .and_then(|container| container.items.get(key))
                .map_or(Seen::Nothing, |stored| Seen::Item(*stored)),
        }
    }

    fn database(&mut self, name: &str) -> Result<&mut Database, u16> {
        self.databases.get_mut(name).ok_or(404)
    }

    fn container(&mut self, at: &Place) -> Result<&mut Container, u16> {
        self.database(&at.database)?.containers.get_mut(&at.container).ok_or(404)
    }
}

impl Container {
    fn change_items(&mut self, home: u64, partition: &str, changes: &[ItemChange]) -> Result<u16, u16> {
        if let [change] = changes {
            return change_item(&mut self.items, self.tag, home, partition, change);
        }
        let mut items = self.items.clone();
        for change in changes {
            change_item(&mut items, self.tag, home, partition, change).map_err(|_| 207_u16)?;
        }
        self.items = items;
        Ok(200)
    }
}

fn change_item(
    items: &mut BTreeMap<Key, Stored>,
    tag: u64,
    home: u64,
    partition: &str,
    change: &ItemChange,
) -> Result<u16, u16> {
    let key = |id: &String| Key { partition: partition.to_owned(), id: id.clone() };
    let stored = |version: &u64| Stored { home, version: *version };
    if !matches!(change, ItemChange::Delete { .. } | ItemChange::Patch { .. }) {
        // The body has no partition key where the container of this tag looks for it.
        refuse_unless(home == tag, 400)?;
    }
    match change {
        ItemChange::Create { id, version } => create(items, &key(id), stored(version)),
        ItemChange::Replace { id, version } => replace(items, &key(id), stored(version)),
        ItemChange::Patch { id, version } => {
            items.get_mut(&key(id)).ok_or(404_u16)?.version = *version;
            Ok(200)
        }
        ItemChange::Delete { id } => delete(items, &key(id)),
        ItemChange::Upsert { id, version } => {
            Ok(if items.insert(key(id), stored(version)).is_none() { 201 } else { 200 })
        }
    }
}

fn refuse_unless(condition: bool, status: u16) -> Result<(), u16> {
    if condition { Ok(()) } else { Err(status) }
}

fn create<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, key: &K, value: V) -> Result<u16, u16> {
    refuse_unless(!map.contains_key(key), 409)?;
    map.insert(key.clone(), value);
    Ok(201)
}

fn replace<K: Ord, V>(map: &mut BTreeMap<K, V>, key: &K, value: V) -> Result<u16, u16> {
    *map.get_mut(key).ok_or(404_u16)? = value;
    Ok(200)
}

fn delete<K: Ord, V>(map: &mut BTreeMap<K, V>, key: &K) -> Result<u16, u16> {
    map.remove(key).map(|_| 204).ok_or(404)
}
