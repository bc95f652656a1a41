//! `customAction`: databases and collections with throughput, as Cosmos DB for MongoDB has them (spec mongo.md §10.2).

use std::sync::Arc;

use shardlake_account::collections::{
    BeforeChange, Collection, Creation, FullDocument, Namespace, StreamOptions, StreamStart, Watched,
    milliseconds_of,
};
use shardlake_model::{Autoscale, Offer, Preconditions, Throughput};
use shardlake_mql::{Document, SIMPLE, Value};

use super::common::{check_created, check_written};
use crate::arguments::{Arguments, Field, Types, check_collection, optional, required};
use crate::call::Call;
use crate::errors::{Result, code, fail};
use crate::reply::Reply;

const FIELDS: &[Field] = &[
    required("customAction", Types::STRING),
    optional("collection", Types::STRING),
    optional("shardKey", Types::STRING),
    optional("offerThroughput", Types::NUMBER),
    optional("autoScaleSettings", Types::OBJECT),
    optional("indexes", Types::ARRAY),
    optional("startAtOperationTime", Types::TIMESTAMP),
];

pub async fn custom_action(call: &Call) -> Result<Reply> {
    let arguments = call.arguments(FIELDS)?;
    match arguments.string("customAction").unwrap_or_default() {
        "CreateDatabase" => create_database(call, &arguments).await,
        "UpdateDatabase" => {
            let database = call.deployment.account.router().database(call.database())?;
            set_throughput(call, &database.rid.to_string(), throughput_of(&arguments)?).await?;
            Ok(Reply::ok())
        }
        "GetDatabase" => {
            let database = call.deployment.account.router().database(call.database())?;
            let mut reply = Document::one("database", Value::string(call.database()));
            show_throughput(call, &database.rid.to_string(), &mut reply);
            Ok(reply.into())
        }
        "CreateCollection" => Box::pin(create_collection(call, &arguments)).await,
        "UpdateCollection" => Box::pin(update_collection(call, &arguments)).await,
        "GetCollection" => get_collection(call, &arguments),
        "GetChangeStreamTokens" => change_stream_tokens(call, &arguments).await,
        other => fail!(code::BAD_VALUE, "unknown customAction '{other}'"),
    }
}

/// Throughput that a command requests, of one kind at most.
fn throughput_of(arguments: &Arguments<'_>) -> Result<Option<Throughput>> {
    let manual = arguments.i64("offerThroughput");
    let autoscale = arguments.document("autoScaleSettings");
    let units = |number: i64| match u64::try_from(number) {
        Ok(units) => Ok(units),
        Err(_) => fail!(code::BAD_VALUE, "a throughput cannot be negative: {number}"),
    };
    match (manual, autoscale) {
        (Some(_), Some(_)) => {
            fail!(code::BAD_VALUE, "'offerThroughput' and 'autoScaleSettings' exclude each other")
        }
        (Some(manual), None) => Ok(Some(Throughput::Manual(units(manual)?))),
        (None, Some(settings)) => {
            let fields = [required("maxThroughput", Types::NUMBER)];
            let settings = Arguments::of_document("autoScaleSettings", settings, &fields)?;
            let max_throughput = units(settings.i64("maxThroughput").unwrap_or_default())?;
            Ok(Some(Throughput::Autoscale(Autoscale::new(max_throughput))))
        }
        (None, None) => Ok(None),
    }
}

async fn create_database(call: &Call, arguments: &Arguments<'_>) -> Result<Reply> {
    let throughput = throughput_of(arguments)?;
    check_written(&Namespace::new(call.database(), "any"))?;
    call.deployment.account.definitions().create_database(&call.context, call.database(), throughput).await?;
    Ok(Reply::ok())
}

async fn create_collection(call: &Call, arguments: &Arguments<'_>) -> Result<Reply> {
    let namespace = named(call, arguments)?;
    check_written(&namespace)?;
    check_created(&namespace)?;
    let throughput = throughput_of(arguments)?;
    let shard_key = match arguments.string("shardKey") {
        None => None,
        Some("") => fail!(code::BAD_VALUE, "'shardKey' cannot be empty"),
        Some(path) => Some(Document::one(path, Value::string("hashed"))),
    };
    let limits = call.deployment.account.router().limits();
    let units_max = limits.autoscale_throughput_per_partition;
    let units = throughput.map_or(0, Throughput::maximum);
    if shard_key.is_none() && units > units_max {
        fail!(
            code::BAD_VALUE,
            "a collection without a shardKey takes at most {units_max} RU/s: it is one partition"
        );
    }
    // This throughput would create several partitions. A collection without a shard key has one, so it is created with the throughput of
    // one new partition, which is then raised.
    let raised = throughput.filter(|wanted| shard_key.is_none() && wanted.partition_count(limits) > 1);
    if let Some(wanted) = raised {
        wanted.validate(limits, 0)?;
    }
    let first = raised.map(|_| Throughput::Manual(limits.throughput_per_partition)).or(throughput);
    let indexes = indexes_of(arguments)?;
    let creation = Creation { shard_key, throughput: first, ..Creation::default() };
    let made = call.collections().create(&call.request(), &namespace, creation).await?;
    if raised.is_some() {
        set_throughput(call, &made.handle.container().rid.to_string(), raised).await?;
    }
    if let Some(indexes) = indexes {
        call.collections().create_indexes(&call.request(), &namespace, indexes).await?;
    }
    Ok(Reply::ok())
}

async fn update_collection(call: &Call, arguments: &Arguments<'_>) -> Result<Reply> {
    let (collection, throughput) = (found(call, arguments)?, throughput_of(arguments)?);
    let indexes = indexes_of(arguments)?;
    if throughput.is_some() {
        let rid = collection.handle.container().rid.to_string();
        set_throughput(call, &rid, throughput).await?;
    }
    if let Some(indexes) = indexes {
        // Indexes that stay are not rebuilt.
        let is_wanted = |name: &str| {
            indexes
                .iter()
                .any(|index| index.get("name").and_then(Value::as_str).is_some_and(|own| own == name))
        };
        let known = collection.meta.indexes.iter();
        let names = known.filter_map(|index| index.get("name").and_then(Value::as_str).map(str::to_owned));
        let gone: Vec<Value> = names.filter(|name| !is_wanted(name)).map(Value::string).collect();
        if !gone.is_empty() {
            call.collections().drop_indexes(&call.request(), &collection, &Value::array(gone)).await?;
        }
        call.collections().create_indexes(&call.request(), &collection.namespace, indexes).await?;
    }
    Ok(Reply::ok())
}

fn get_collection(call: &Call, arguments: &Arguments<'_>) -> Result<Reply> {
    let collection = found(call, arguments)?;
    let mut reply = Document::one("database", Value::string(call.database()));
    reply.push("collection", Value::string(&*collection.namespace.collection));
    if let Some(pattern) = collection.meta.shard_key_pattern(collection.shard_key()) {
        let hashed = pattern.iter().map(|(path, _)| (path.clone(), Value::string("hashed")));
        reply.push("shardKeyDefinition", Value::document(hashed.collect()));
    }
    show_throughput(call, &collection.handle.container().rid.to_string(), &mut reply);
    Ok(reply.into())
}

/// One token, which is valid for all partitions: a stream follows them through splits, merges and moves.
async fn change_stream_tokens(call: &Call, arguments: &Arguments<'_>) -> Result<Reply> {
    let collection = found(call, arguments)?;
    let start = match arguments.given("startAtOperationTime") {
        Some(Value::Timestamp(seconds, increment)) => StreamStart::At(milliseconds_of(*seconds, *increment)),
        _ => StreamStart::Now,
    };
    let asked = (start, StreamOptions { full_document: FullDocument::Default, before: BeforeChange::Off });
    let (scope, env) = call.request().bound(&SIMPLE, &Document::new())?;
    let watched = Watched::Collection(collection.namespace);
    let stream = call.collections().watch(watched, asked, &[], (&scope, env)).await?;
    let tokens = vec![Value::document(stream.token())];
    Ok(Document::one("resumeAfterTokens", Value::array(tokens)).into())
}

fn named(call: &Call, arguments: &Arguments<'_>) -> Result<Namespace> {
    let Some(name) = arguments.string("collection") else {
        fail!(code::BAD_VALUE, "this customAction needs a 'collection'");
    };
    check_collection(call.database(), name)?;
    Ok(Namespace::new(call.database(), name))
}

fn found(call: &Call, arguments: &Arguments<'_>) -> Result<Collection> {
    let namespace = named(call, arguments)?;
    match call.collections().collection(&namespace)? {
        Some(collection) => Ok(collection),
        None => fail!(code::NAMESPACE_NOT_FOUND, "ns does not exist: {namespace}"),
    }
}

/// The indexes of a command without that of `_id`, which it has to name.
fn indexes_of(arguments: &Arguments<'_>) -> Result<Option<Vec<Document>>> {
    let Some(_) = arguments.given("indexes") else { return Ok(None) };
    let indexes: Vec<Document> =
        arguments.documents("indexes")?.into_iter().map(|index| Document::clone(index)).collect();
    let is_identity = |index: &Document| {
        index.get("key").and_then(Value::as_document).is_some_and(|key| key.len() == 1 && key.has("_id"))
    };
    if !indexes.iter().any(is_identity) {
        fail!(code::BAD_VALUE, "'indexes' has to hold the index of _id");
    }
    Ok(Some(indexes.into_iter().filter(|index| !is_identity(index)).collect()))
}

fn offer_of(call: &Call, rid: &str) -> Option<Arc<Offer>> {
    call.deployment.account.definitions().offers().into_iter().find(|offer| offer.resource_rid == rid)
}

async fn set_throughput(call: &Call, rid: &str, throughput: Option<Throughput>) -> Result<()> {
    let Some(throughput) = throughput else {
        fail!(code::BAD_VALUE, "nothing to update: give 'offerThroughput' or 'autoScaleSettings'");
    };
    let Some(offer) = offer_of(call, rid) else {
        fail!(
            code::BAD_VALUE,
            "it has no throughput of its own: it shares that of its database, or was made without"
        );
    };
    let account = &call.deployment.account;
    account
        .definitions()
        .replace_offer(&call.context, &offer.rid.to_string(), throughput, &Preconditions::default())
        .await?;
    Ok(())
}

/// Adds the throughput to the reply, if the resource has one of its own.
fn show_throughput(call: &Call, rid: &str, reply: &mut Document) {
    let Some(offer) = offer_of(call, rid) else { return };
    reply.push("provisionedThroughput", Value::Int(offer.throughput.current() as i32));
    if let Throughput::Autoscale(autoscale) = offer.throughput {
        let settings = Document::one("maxThroughput", Value::Int(autoscale.max_throughput as i32));
        reply.push("autoScaleSettings", Value::document(settings));
    }
}
