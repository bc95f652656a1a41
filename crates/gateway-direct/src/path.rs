//! The path of the REST protocol for the names in a frame, or for its resource id where it has no names.
//!
//! Names come as they are: an escape in one is part of it. The .NET client sends the container's resource id beside
//! the names; the names decide. The length of a resource id gives its kind: four bytes for a database, eight for a
//! container or a user, more for a resource in one.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::alphabet::Alphabet;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::PAD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use crate::kinds::{OperationType, ResourceType};
use crate::token::{Tokens, Value};

const RESOURCE_ID: u16 = 0x00;
const DATABASE: u16 = 0x15;
const CONTAINER: u16 = 0x16;
const USER: u16 = 0x19;

const DATABASE_BYTES: usize = 4;
/// Of a container or a user: its database's bytes are the first of them.
const OWNER_BYTES: usize = 8;

/// Clients escape all but these characters in a path.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// `None` where a name that the operation needs is missing.
pub(crate) fn path(resource: ResourceType, operation: OperationType, tokens: &Tokens<'_>) -> Option<String> {
    let mut path = String::with_capacity(64);
    match name(tokens, DATABASE) {
        Some(database) => by_names(&mut path, resource, operation, (database, tokens))?,
        None => match tokens.get(RESOURCE_ID) {
            Some(Value::Bytes(rid)) => by_rid(&mut path, resource, operation, rid)?,
            _ if resource == ResourceType::Database && operation.is_of_feed() => path.push_str("/dbs"),
            _ => return None,
        },
    }
    Some(path)
}

/// The segment of a resource's feed, and the token of a resource's name.
fn feed(resource: ResourceType) -> (&'static str, u16) {
    match resource {
        ResourceType::Database => ("dbs", DATABASE),
        ResourceType::Container => ("colls", CONTAINER),
        ResourceType::Item => ("docs", 0x17),
        ResourceType::User => ("users", USER),
        ResourceType::Permission => ("permissions", 0x1a),
        ResourceType::StoredProcedure => ("sprocs", 0x1b),
        ResourceType::Function => ("udfs", 0x1c),
        ResourceType::Trigger => ("triggers", 0x1d),
        ResourceType::Conflict => ("conflicts", 0x20),
    }
}

/// The resource between a resource and its database.
fn owner(resource: ResourceType) -> Option<ResourceType> {
    match resource {
        ResourceType::Database | ResourceType::Container | ResourceType::User => None,
        ResourceType::Permission => Some(ResourceType::User),
        _ => Some(ResourceType::Container),
    }
}

fn by_names(
    path: &mut String,
    resource: ResourceType,
    operation: OperationType,
    (database, tokens): (&[u8], &Tokens<'_>),
) -> Option<()> {
    push(path, "dbs", database);
    if resource == ResourceType::Database {
        return (!operation.is_of_feed()).then_some(());
    }
    if let Some(owner) = owner(resource) {
        let (segment, token) = feed(owner);
        push(path, segment, name(tokens, token)?);
    }
    let (segment, token) = feed(resource);
    if operation.is_of_feed() {
        path.push('/');
        path.push_str(segment);
    } else {
        push(path, segment, name(tokens, token)?);
    }
    Some(())
}

fn by_rid(path: &mut String, resource: ResourceType, operation: OperationType, rid: &[u8]) -> Option<()> {
    let own_bytes = match resource {
        ResourceType::Database => DATABASE_BYTES..=DATABASE_BYTES,
        ResourceType::Container | ResourceType::User => OWNER_BYTES..=OWNER_BYTES,
        _ => OWNER_BYTES + 1..=usize::MAX,
    };
    let owner_bytes = match owner(resource) {
        None => DATABASE_BYTES,
        Some(_) => OWNER_BYTES,
    };
    let is_meant =
        if operation.is_of_feed() { rid.len() == owner_bytes } else { own_bytes.contains(&rid.len()) };
    if !is_meant || (resource == ResourceType::Database && operation.is_of_feed()) {
        return None;
    }
    push_rid(path, "dbs", &rid[..DATABASE_BYTES]);
    if let Some(owner) = owner(resource) {
        push_rid(path, feed(owner).0, &rid[..OWNER_BYTES]);
    }
    let (segment, _) = feed(resource);
    match (operation.is_of_feed(), resource) {
        (true, _) => {
            path.push('/');
            path.push_str(segment);
        }
        (false, ResourceType::Database) => {}
        (false, _) => push_rid(path, segment, rid),
    }
    Some(())
}

fn name<'f>(tokens: &Tokens<'f>, id: u16) -> Option<&'f [u8]> {
    tokens.get(id)?.as_bytes().filter(|name| !name.is_empty())
}

fn push(path: &mut String, segment: &str, name: &[u8]) {
    write!(path, "/{segment}/{}", percent_encode(name, ENCODED)).expect("a text takes what is written");
}

fn push_rid(path: &mut String, segment: &str, rid: &[u8]) {
    push(path, segment, RID.encode(rid).as_bytes());
}

/// Resource ids as texts: base64 with `-` for `/`.
const RID: GeneralPurpose = GeneralPurpose::new(
    &match Alphabet::new("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-") {
        Ok(alphabet) => alphabet,
        Err(_) => panic!("64 different characters"),
    },
    PAD,
);
