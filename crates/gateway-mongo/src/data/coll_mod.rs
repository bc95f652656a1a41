//! `collMod`: changes of validators, views and options of indexes.

use std::sync::Arc;

use shardlake_account::collections::{Collection, Found, Namespace, View, change_capped, policy_of_versions};
use shardlake_mql::{Document, Value};

use super::capped;
use super::catalog::{check_images, check_validation, check_validator, checked_view};
use crate::arguments::{Arguments, Field, Types, optional};
use crate::call::Call;
use crate::errors::{Result, code, fail};
use crate::reply::Reply;

const COLL_MOD: &[Field] = &[
    optional("index", Types::OBJECT),
    optional("validator", Types::OBJECT),
    optional("validationLevel", Types::STRING),
    optional("validationAction", Types::STRING),
    optional("viewOn", Types::STRING),
    optional("pipeline", Types::ARRAY),
    optional("changeStreamPreAndPostImages", Types::OBJECT),
    optional("cappedSize", Types::NUMBER),
    optional("cappedMax", Types::NUMBER),
    optional("expireAfterSeconds", Types::NUMBER.or(Types::STRING)),
    optional("timeseries", Types::OBJECT),
    optional("dryRun", Types::BOOL),
];

const INDEX: &[Field] = &[
    optional("name", Types::STRING),
    optional("keyPattern", Types::OBJECT),
    optional("expireAfterSeconds", Types::NUMBER),
    optional("hidden", Types::BOOL),
    optional("unique", Types::BOOL),
    optional("prepareUnique", Types::BOOL),
    optional("forceNonUnique", Types::BOOL),
];

pub async fn coll_mod(call: &Call) -> Result<Reply> {
    let namespace = call.written_namespace()?;
    let arguments = call.arguments(COLL_MOD)?;
    for option in ["timeseries", "expireAfterSeconds"] {
        if arguments.given(option).is_some() {
            fail!(
                code::INVALID_OPTIONS,
                "option {option} is for clustered and time-series collections, which are not supported"
            );
        }
    }
    let capped = capped::change_of(&arguments)?;
    check_images(arguments.document("changeStreamPreAndPostImages"))?;
    let is_dry_run = arguments.bool("dryRun") == Some(true);
    if is_dry_run && arguments.document("index").is_none_or(|index| !index.has("unique")) {
        fail!(code::INVALID_OPTIONS, "dryRun is for the conversion of an index to a unique one");
    }
    let found = call.collections().find_name(&namespace)?;
    let changes_view = arguments.given("viewOn").is_some() || arguments.given("pipeline").is_some();
    let collection = match found {
        Found::Nothing => fail!(code::NAMESPACE_NOT_FOUND, "ns does not exist: {namespace}"),
        Found::View(view) => return change_view(call, &namespace, view, &arguments).await,
        Found::Collection(collection) => collection,
    };
    if changes_view {
        fail!(
            code::INVALID_OPTIONS,
            "'viewOn' and 'pipeline' are options of views: {namespace} is a collection"
        );
    }
    if capped.is_some() && !collection.meta.is_capped() {
        fail!(code::INVALID_OPTIONS, "Collection must be capped.");
    }
    check_validation(&arguments)?;
    let validator = arguments.document("validator");
    if let Some(validator) = call.body.get("validator") {
        call.collections().note_validator(validator);
    }
    if let Some(validator) = validator {
        let collation = call.collation(&namespace, None)?;
        check_validator(&namespace, validator, &collation)?;
    }
    let mut reply = Document::new();
    let request = call.request();
    if let Some(index) = arguments.document("index") {
        change_index(call, &collection, index, is_dry_run, &mut reply).await?;
    }
    let changed: Vec<(String, Value)> =
        ["validator", "validationLevel", "validationAction", "changeStreamPreAndPostImages"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), arguments.given(name)?.clone())))
            .collect();
    if !changed.is_empty() {
        call.collections()
            .redefine(&request, &collection, move |meta, definition| {
                meta.is_open = true;
                for (name, value) in &changed {
                    let is_empty = value.as_document().is_some_and(|document| document.is_empty());
                    let value = if name == "validator" && is_empty { Value::Missing } else { value.clone() };
                    meta.options.set(&name.as_str().into(), value);
                    if name == "changeStreamPreAndPostImages" {
                        definition.change_feed_policy = Some(policy_of_versions(meta));
                    }
                }
                Ok(())
            })
            .await?;
    }
    if let Some(capped) = capped {
        change_capped(call.collections(), &request, &collection, capped).await?;
    }
    Ok(reply.into())
}

async fn change_view(
    call: &Call,
    namespace: &Namespace,
    view: View,
    arguments: &Arguments<'_>,
) -> Result<Reply> {
    let others = [
        "index",
        "validator",
        "validationLevel",
        "validationAction",
        "changeStreamPreAndPostImages",
        "cappedSize",
        "cappedMax",
    ];
    if let Some(option) = others.iter().find(|option| arguments.given(option).is_some()) {
        fail!(code::INVALID_OPTIONS, "option not supported on a view: {option}");
    }
    let (on, stages) = (arguments.string("viewOn"), arguments.array("pipeline"));
    match on {
        Some("") => fail!(code::BAD_VALUE, "'viewOn' cannot be empty"),
        Some(on) if on.starts_with('$') => {
            fail!(code::INVALID_NAMESPACE, "Invalid name of a collection for 'viewOn': '{on}'")
        }
        _ => {}
    }
    if on.is_some() || stages.is_some() {
        // Options that the command leaves out keep their values.
        let (on, stages) = (on.unwrap_or(&view.on), stages.unwrap_or(&view.pipeline));
        let changed = View {
            name: view.name.clone(),
            ..checked_view(call, namespace, (on, view.collation.clone()), stages)?
        };
        call.collections().replace_view(&namespace.database, changed).await?;
    }
    Ok(Reply::ok())
}

async fn change_index(
    call: &Call,
    collection: &Collection,
    index: &Arc<Document>,
    is_dry_run: bool,
    reply: &mut Document,
) -> Result<()> {
    let fields = Arguments::of_document("collMod.index", index, INDEX)?;
    let hint = match (fields.string("name"), fields.document("keyPattern")) {
        (Some(_), Some(_)) => fail!(code::INVALID_OPTIONS, "Cannot specify both key pattern and name."),
        (None, None) => fail!(code::INVALID_OPTIONS, "Must specify either index name or key pattern."),
        (Some(name), None) => Value::string(name),
        (None, Some(key)) => Value::Document(key.clone()),
    };
    if fields.given("unique").is_some() && fields.bool("unique") != Some(true) {
        fail!(code::BAD_VALUE, "'unique: false' is not allowed");
    }
    let Some(known) = collection.indexes().into_iter().find(|known| is_hinted(known, &hint)) else {
        fail!(27, "cannot find index {hint} for ns {}", collection.namespace)
    };
    let name = known.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let changes_others = fields.given("expireAfterSeconds").is_some() || fields.given("hidden").is_some();
    let changes_uniqueness =
        ["unique", "prepareUnique", "forceNonUnique"].iter().any(|name| fields.given(name).is_some());
    if !changes_others && !changes_uniqueness {
        fail!(
            code::INVALID_OPTIONS,
            "no expireAfterSeconds, hidden, unique, prepareUnique or forceNonUnique field"
        );
    }
    if name == "_id_" {
        let code = if fields.given("hidden").is_some() { code::BAD_VALUE } else { code::INVALID_OPTIONS };
        fail!(code, "can't hide, expire or convert the _id index");
    }
    let uniqueness = UniquenessChange::of(&fields, &known)?;
    if changes_others && uniqueness != UniquenessChange::Nothing {
        fail!(
            code::INVALID_OPTIONS,
            "'unique' and 'prepareUnique' cannot be changed together with other options of an index"
        );
    }
    change_uniqueness(call, collection, &known, (uniqueness, is_dry_run), reply).await?;
    if !changes_others || is_dry_run {
        return Ok(());
    }
    let options = options_of(&fields, &known, reply)?;
    let remove_hidden = options.get("hidden").is_some_and(|hidden| !hidden.is_true());
    call.collections()
        .redefine(&call.request(), collection, move |meta, definition| {
            meta.is_open = true;
            for index in meta.indexes.iter_mut() {
                if index.get("name").and_then(Value::as_str) == Some(&name) {
                    for (option, value) in options.iter() {
                        let gone = remove_hidden && &**option == "hidden";
                        index.set(option, if gone { Value::Missing } else { value.clone() });
                    }
                    let is_time =
                        index.get("key").and_then(Value::as_document).is_some_and(|key| key.has("_ts"));
                    if let Some(seconds) = options.get("expireAfterSeconds").filter(|_| is_time) {
                        definition.default_ttl = seconds.to_i64_exact();
                    }
                }
            }
            Ok(())
        })
        .await?;
    Ok(())
}

fn is_hinted(known: &Document, hint: &Value) -> bool {
    match hint {
        Value::String(name) => known.get("name").and_then(Value::as_str) == Some(name),
        Value::Document(key) => known.get("key").and_then(Value::as_document).is_some_and(|own| {
            shardlake_mql::equal(&Value::Document(own.clone()), &Value::Document(key.clone()))
        }),
        _ => false,
    }
}

/// Change of an existing index's uniqueness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UniquenessChange {
    Nothing,
    Prepare,
    Unprepare,
    Convert,
    /// Allows duplicates from now on.
    Allow,
}

impl UniquenessChange {
    fn of(fields: &Arguments<'_>, known: &Document) -> Result<UniquenessChange> {
        let has = |option: &str| known.get(option).is_some_and(Value::is_true);
        let (is_unique, is_prepared) = (has("unique"), has("prepareUnique"));
        match fields.bool("forceNonUnique") {
            None => {}
            Some(false) => fail!(code::BAD_VALUE, "'forceNonUnique: false' is not allowed"),
            Some(true) if fields.given("unique").or(fields.given("prepareUnique")).is_some() => fail!(
                code::INVALID_OPTIONS,
                "collMod does not support 'forceNonUnique' together with 'unique' or 'prepareUnique'"
            ),
            Some(true) if is_unique => return Ok(UniquenessChange::Allow),
            Some(true) => return Ok(UniquenessChange::Nothing),
        }
        Ok(match (fields.bool("unique"), fields.bool("prepareUnique")) {
            (Some(true), Some(_)) => fail!(
                code::INVALID_OPTIONS,
                "collMod does not support 'unique' and 'prepareUnique' at the same time"
            ),
            (Some(true), None) if !is_unique => UniquenessChange::Convert,
            (_, Some(true)) if !is_prepared => UniquenessChange::Prepare,
            (_, Some(false)) if is_prepared => UniquenessChange::Unprepare,
            _ => UniquenessChange::Nothing,
        })
    }
}

async fn change_uniqueness(
    call: &Call,
    collection: &Collection,
    known: &Document,
    (change, is_dry_run): (UniquenessChange, bool),
    reply: &mut Document,
) -> Result<()> {
    let (collections, request) = (call.collections(), call.request());
    match change {
        UniquenessChange::Nothing => {}
        UniquenessChange::Prepare | UniquenessChange::Unprepare => {
            let is_prepared = change == UniquenessChange::Prepare;
            collections.prepare_unique(&request, collection, known, is_prepared).await?;
            reply.push("prepareUnique_old", Value::Bool(!is_prepared));
            reply.push("prepareUnique_new", Value::Bool(is_prepared));
        }
        UniquenessChange::Allow => {
            if !is_dry_run {
                collections.allow_duplicates(&request, collection, known).await?;
                reply.push("forceNonUnique_new", Value::Bool(true));
            }
        }
        UniquenessChange::Convert => {
            collections.check_convertible(&request, collection, known).await?;
            if !known.get("prepareUnique").is_some_and(Value::is_true) {
                fail!(
                    code::INVALID_OPTIONS,
                    "Cannot make an index unique that is not prepared: run collMod with prepareUnique: true first"
                );
            }
            if !is_dry_run {
                collections.make_unique(&request, collection, known).await?;
                reply.push("unique_new", Value::Bool(true));
            }
        }
    }
    Ok(())
}

/// The options to change. The reply gets their old and new values.
fn options_of(fields: &Arguments<'_>, known: &Document, reply: &mut Document) -> Result<Document> {
    let mut options = Document::new();
    if let Some(seconds) = fields.given("expireAfterSeconds") {
        let whole = match seconds {
            Value::Decimal(_) => seconds.to_f64().map(f64::round_ties_even),
            _ => seconds.to_f64().map(f64::trunc),
        };
        let whole = whole.map_or(-1.0, |whole| if whole.is_nan() { 0.0 } else { whole });
        // Larger values count as the maximum.
        let whole = whole.min(2_147_483_647.0);
        let key = known.get("key").and_then(Value::as_document);
        // Wildcard indexes have many fields.
        let is_single = key
            .is_some_and(|key| key.len() == 1 && key.first().is_some_and(|(path, _)| !path.ends_with("$**")));
        if whole < 0.0 || !is_single {
            fail!(
                code::INVALID_OPTIONS,
                "TTL index 'expireAfterSeconds' option must be within an acceptable range"
            );
        }
        let old = known.value("expireAfterSeconds");
        if !old.is_missing() {
            reply.push("expireAfterSeconds_old", Value::Long(old.to_i64_exact().unwrap_or_default()));
        }
        reply.push("expireAfterSeconds_new", Value::Long(whole as i64));
        options.push("expireAfterSeconds", Value::Int(whole as i32));
    }
    if let Some(hidden) = fields.bool("hidden") {
        let old = known.get("hidden").is_some_and(Value::is_true);
        if old != hidden {
            reply.push("hidden_old", Value::Bool(old));
            reply.push("hidden_new", Value::Bool(hidden));
        }
        options.push("hidden", Value::Bool(hidden));
    }
    Ok(options)
}
