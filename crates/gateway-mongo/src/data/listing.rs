//! `listDatabases`, `listCollections`.

use shardlake_account::collections::{Listed, identity_index};
use shardlake_mql::{Document, Filter, Scope, Value, document_of_collation};

use super::admin_database::{self, ADMIN};
use super::common::document;
use super::config_database::{COLLECTIONS, CONFIG};
use crate::arguments::{Arguments, Field, Types, check_database, optional};
use crate::call::{Call, CursorOptions};
use crate::cursors::Listed as ListedSource;
use crate::errors::Result;
use crate::reply::Reply;

pub async fn list_databases(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        optional("filter", Types::OBJECT),
        optional("nameOnly", Types::BOOL),
        optional("authorizedDatabases", Types::BOOL_ONLY),
    ];
    let arguments = call.arguments(FIELDS)?;
    let names_only = arguments.bool("nameOnly") == Some(true);
    let filter = Filter::parse(&document(&arguments, "filter"), &Scope::new())?;
    let mut databases: Vec<Value> = Vec::new();
    let mut total = 0;
    let mut env = call.request().env();
    let mut known: Vec<String> =
        call.collections().databases().iter().map(|database| database.id.to_string()).collect();
    if admin_database::is_listed(call) && !known.iter().any(|name| name == ADMIN) {
        known.push(ADMIN.to_owned());
    }
    known.sort_unstable();
    for database in known {
        // Databases are hidden if the MongoDB API cannot name them or the client has no rights on them.
        if check_database(&database).is_err() || !call.may_see(&database) {
            continue;
        }
        let collections = call.collections().list(&database)?;
        let is_empty = collections.is_empty() && database != ADMIN;
        let size: u64 = collections
            .iter()
            .filter_map(|listed| listed.collection.as_ref())
            .map(|collection| collection.handle.usage().size_bytes)
            .sum();
        let mut shown = Document::one("name", database.as_str());
        if !names_only {
            shown.push("sizeOnDisk", Value::Long(size as i64));
            shown.push("empty", Value::Bool(is_empty));
        }
        let mut whole = Document::one("name", database.as_str());
        whole.push("sizeOnDisk", Value::Long(size as i64));
        whole.push("empty", Value::Bool(is_empty));
        if filter.matches(if names_only { &shown } else { &whole }, &mut env)? {
            total += size;
            databases.push(Value::document(shown));
        }
    }
    let mut reply = Document::one("databases", Value::array(databases));
    if !names_only {
        reply.push("totalSize", Value::Long(total as i64));
        reply.push("totalSizeMb", Value::Long((total >> 20) as i64));
    }
    Ok(reply.into())
}

pub async fn list_collections(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        optional("filter", Types::OBJECT),
        optional("nameOnly", Types::BOOL_ONLY),
        optional("authorizedCollections", Types::BOOL_ONLY),
        optional("cursor", Types::OBJECT),
    ];
    let arguments = call.arguments(FIELDS)?;
    let names_only = arguments.bool("nameOnly") == Some(true);
    let filter = Filter::parse(&document(&arguments, "filter"), &Scope::new())?;
    let batch_size = match arguments.document("cursor") {
        Some(cursor) => Arguments::of_document("cursor", cursor, &[optional("batchSize", Types::NUMBER)])?
            .count("batchSize")?,
        None => None,
    };
    let mut env = call.request().env();
    let mut shown = Vec::new();
    let listed = call.collections().list(call.database())?;
    let has_views = listed.iter().any(|listed| listed.view.is_some());
    let mut all: Vec<Document> = listed.iter().map(description).collect();
    if has_views {
        all.push(own_description("system.views"));
    }
    if call.database() == CONFIG {
        all.extend(COLLECTIONS.map(own_description));
    }
    if call.database() == ADMIN {
        all.extend(admin_database::names(call).into_iter().map(own_description));
    }
    for document in all {
        let document = match names_only {
            true => document
                .iter()
                .filter(|(name, _)| matches!(&***name, "name" | "type"))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            false => document,
        };
        if filter.matches(&document, &mut env)? {
            shown.push(document);
        }
    }
    let namespace = format!("{}.$cmd.listCollections", call.database());
    let options =
        CursorOptions { batch_size: Some(batch_size.unwrap_or(u64::MAX)), ..CursorOptions::default() };
    call.open_cursor(namespace, Box::new(ListedSource::new(shown)), options).await
}

fn description(listed: &Listed) -> Document {
    let mut shown = Document::one("name", listed.name.as_str());
    if let Some(view) = &listed.view {
        shown.push("type", Value::string("view"));
        let mut options = Document::one("viewOn", view.on.as_str());
        options.push("pipeline", Value::array(view.pipeline.clone()));
        if let Some(collation) = document_of_collation(&view.collation) {
            options.push("collation", Value::document(collation));
        }
        shown.push("options", Value::document(options));
        shown.push("info", Value::document(Document::one("readOnly", Value::Bool(true))));
        return shown;
    }
    shown.push("type", Value::string("collection"));
    if let Some(collection) = &listed.collection {
        shown.push("options", Value::document(collection.meta.options.clone()));
        let mut info = Document::one("readOnly", Value::Bool(false));
        info.push("uuid", Value::Binary(4, collection.uuid().as_slice().into()));
        shown.push("info", Value::document(info));
        shown.push("idIndex", Value::document(collection.identity_index()));
    }
    shown
}

/// Description of a collection that the server generates.
fn own_description(name: &str) -> Document {
    let mut shown = Document::one("name", name);
    shown.push("type", Value::string("collection"));
    shown.push("options", Value::document(Document::new()));
    shown.push("info", Value::document(Document::one("readOnly", Value::Bool(false))));
    shown.push("idIndex", Value::document(identity_index()));
    shown
}
