//! `createIndexes`, `listIndexes`, `dropIndexes`.

use std::sync::Arc;

use shardlake_account::collections::{Found, identity_index, is_index_option};
use shardlake_mql::{Document, Value};

use super::admin_database;
use super::collation::with_collation;
use super::common::check_created;
use crate::arguments::{Arguments, Field, Types, optional, required, wrong_type};
use crate::call::{Call, CursorOptions};
use crate::cursors::Listed;
use crate::errors::{Result, code, fail};
use crate::reply::Reply;

pub async fn create_indexes(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        required("indexes", Types::ARRAY),
        optional("ignoreUnknownIndexOptions", Types::BOOL),
        optional("commitQuorum", Types::STRING.or(Types::NUMBER)),
        optional("returnOnStart", Types::BOOL),
    ];
    let namespace = call.written_namespace()?;
    let arguments = call.arguments(FIELDS)?;
    check_created(&namespace)?;
    let drops_unknown = arguments.bool("ignoreUnknownIndexOptions") == Some(true);
    let specification = |found: &Arc<Document>| match drops_unknown {
        true => found
            .iter()
            .filter(|(name, _)| is_index_option(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        false => Document::clone(found),
    };
    let specifications: Vec<Document> = arguments
        .documents("indexes")?
        .into_iter()
        .map(specification)
        .map(with_collation)
        .collect::<Result<_>>()?;
    if specifications.is_empty() {
        fail!(code::BAD_VALUE, "Must specify at least one index to create");
    }
    check_quorum(arguments.given("commitQuorum"))?;
    if call.transaction.is_some()
        && call.collections().collection(&namespace)?.is_some_and(|found| found.items() > 0)
    {
        fail!(
            code::NOT_IN_TRANSACTION,
            "Cannot create new indexes on existing collection {namespace} in a multi-document transaction."
        );
    }
    let change = call.collections().create_indexes(&call.request(), &namespace, specifications).await?;
    let mut reply = Document::one("numIndexesBefore", Value::Int(change.before as i32));
    reply.push("numIndexesAfter", Value::Int(change.after as i32));
    reply.push("createdCollectionAutomatically", Value::Bool(change.made_collection));
    if change.before == change.after {
        reply.push("note", Value::string("all indexes already exist"));
    }
    Ok(reply.into())
}

/// Checks the form of a commit quorum. There is one copy, so it has no effect.
fn check_quorum(quorum: Option<&Value>) -> Result<()> {
    match quorum {
        None => Ok(()),
        Some(Value::String(word)) if matches!(&**word, "votingMembers" | "majority") => Ok(()),
        Some(Value::String(word)) => {
            fail!(79, "No write concern mode named '{word}' found in replica set configuration")
        }
        Some(number) => match number.to_f64() {
            Some(count) if count < 0.0 => {
                fail!(code::FAILED_TO_PARSE, "commitQuorum has to be a non-negative value, not {number}")
            }
            Some(count) if count > 1.0 => {
                fail!(100, "Not enough data-bearing nodes: the commit quorum asks for {number}, there is 1")
            }
            _ => Ok(()),
        },
    }
}

pub async fn list_indexes(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        optional("cursor", Types::OBJECT),
        optional("includeBuildUUIDs", Types::BOOL),
        optional("includeIndexBuildInfo", Types::BOOL),
    ];
    let namespace = call.namespace()?;
    let arguments = call.arguments(FIELDS)?;
    let batch_size = match arguments.document("cursor") {
        Some(cursor) => Arguments::of_document("cursor", cursor, &[optional("batchSize", Types::NUMBER)])?
            .count("batchSize")?,
        None => None,
    };
    let collection = match call.collections().find_name(&namespace)? {
        Found::Collection(collection) => collection,
        Found::View(_) => fail!(166, "Namespace {namespace} is a view, not a collection"),
        Found::Nothing if &*namespace.collection == "system.views" => {
            let options = CursorOptions::default();
            return call
                .open_cursor(namespace.to_string(), Box::new(Listed::new([identity_index()])), options)
                .await;
        }
        Found::Nothing if let Some(indexes) = admin_database::indexes(&namespace) => {
            let options = CursorOptions::default();
            return call.open_cursor(namespace.to_string(), Box::new(Listed::new(indexes)), options).await;
        }
        Found::Nothing => fail!(code::NAMESPACE_NOT_FOUND, "ns does not exist: {namespace}"),
    };
    let is = |name: &str| arguments.bool(name) == Some(true);
    if is("includeBuildUUIDs") && is("includeIndexBuildInfo") {
        fail!(code::INVALID_OPTIONS, "Cannot specify both includeBuildUUIDs and includeIndexBuildInfo");
    }
    let indexes =
        collection.indexes().into_iter().map(shown).map(|index| match is("includeIndexBuildInfo") {
            true => Document::one("spec", Value::document(index)),
            false => index,
        });
    let options =
        CursorOptions { batch_size: Some(batch_size.unwrap_or(u64::MAX)), ..CursorOptions::default() };
    call.open_cursor(namespace.to_string(), Box::new(Listed::new(indexes)), options).await
}

/// An index in the form of the list: the bounds of a plane are doubles, however they were given.
fn shown(mut index: Document) -> Document {
    for bound in ["min", "max"] {
        if let Some(number) = index.get(bound).and_then(Value::to_f64) {
            index.set(&bound.into(), Value::Double(number));
        }
    }
    index
}

pub async fn drop_indexes(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[required("index", Types::ANY)];
    let namespace = call.written_namespace()?;
    if let Some(index @ Value::Null) = call.body.get("index") {
        return Err(wrong_type("dropIndexes.index", index, Types::STRING.or(Types::OBJECT)));
    }
    let arguments = call.arguments(FIELDS)?;
    let which = arguments.given("index").cloned().unwrap_or_default();
    let collection = match call.collections().find_name(&namespace)? {
        Found::Collection(collection) => collection,
        Found::View(_) => fail!(166, "Namespace {namespace} is a view, not a collection"),
        Found::Nothing => fail!(code::NAMESPACE_NOT_FOUND, "ns not found {namespace}"),
    };
    let before = call.collections().drop_indexes(&call.request(), &collection, &which).await?;
    let mut reply = Document::one("nIndexesWas", Value::Int(before as i32));
    if matches!(&which, Value::String(name) if &**name == "*") {
        reply.push("msg", Value::string("non-_id indexes dropped for collection"));
    }
    Ok(reply.into())
}
