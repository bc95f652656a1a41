//! `find`, `count`, `distinct`.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use shardlake_account::collections::{
    Collection, Failure, Find, Finding, Found, IndexKeys, KeyBounds, Namespace, Point, RESULT_BYTES_MAX,
    Request, Shown, Source, reach, too_large,
};
use shardlake_mql::{
    Collation, DistinctValues, Document, Filter, FindProjection, Pipeline, Scope, SortPattern, Str, Value,
};
use shardlake_stdx::Clock;

use super::admin_database::ADMIN;
use super::capped::{check_tailable, tail};
use super::collation::{in_force, stated};
use super::common::{bytes_of, document, is_from_end, sort};
use super::config_database::CONFIG;
use super::own_databases::own_documents;
use crate::arguments::{Arguments, Field, Types, hint, optional, required};
use crate::call::{Call, CursorOptions};
use crate::cursors::{Batch, BatchSource, Wants};
use crate::errors::{Result, code, fail};
use crate::reply::Reply;

/// Error for options that a view, which is read by a pipeline, does not support.
const INVALID_PIPELINE_OPERATOR: i32 = 168;

pub const FIND: &[Field] = &[
    optional("filter", Types::OBJECT).not_null(code::TYPE_MISMATCH),
    optional("projection", Types::OBJECT),
    optional("sort", Types::OBJECT),
    hint(),
    optional("skip", Types::NUMBER),
    optional("limit", Types::NUMBER),
    optional("batchSize", Types::NUMBER),
    optional("singleBatch", Types::BOOL),
    optional("max", Types::OBJECT),
    optional("min", Types::OBJECT),
    optional("returnKey", Types::BOOL),
    optional("showRecordId", Types::BOOL),
    optional("tailable", Types::BOOL),
    optional("awaitData", Types::BOOL),
    optional("noCursorTimeout", Types::BOOL),
    optional("allowDiskUse", Types::BOOL),
    optional("allowPartialResults", Types::BOOL),
    optional("oplogReplay", Types::BOOL),
    optional("collation", Types::OBJECT),
    optional("let", Types::OBJECT),
    optional("term", Types::LONG),
];

pub async fn find(call: &Call) -> Result<Reply> {
    let namespace = call.namespace()?;
    let arguments = call.arguments(FIND)?;
    if namespace.collection.starts_with('$') {
        fail!(code::INVALID_NAMESPACE, "Invalid collection name: '{}'", namespace.collection);
    }
    let stated = stated(arguments.given("collation"))?;
    let found = call.collections().find_name(&namespace)?;
    let collation = in_force(&namespace, &found, stated)?;
    check_options(&arguments)?;
    let request = call.request();
    let (scope, env) = request.bound(&collation, &document(&arguments, "let"))?;
    let filter = document(&arguments, "filter");
    let filter = hinted_filter(call, &namespace, (filter, &collation), arguments.given("hint"))?;
    let parsed = Filter::parse_ordering(&filter, &scope)?;
    let projection = document(&arguments, "projection");
    let projection = match projection.is_empty() {
        true => None,
        false => {
            if matches!(found, Found::View(_)) {
                check_projection_of_view(&projection, &scope)?;
            }
            Some(FindProjection::parse(&projection, &scope)?)
        }
    };
    let mut sort = sort(&document(&arguments, "sort"), &collation)?;
    let hinted = arguments.given("hint").and_then(Value::as_document);
    if sort.is_empty() && hinted.is_some_and(|hint| is_from_end(hint)) {
        sort = SortPattern::from_end();
    }
    let skip = arguments.count("skip")?.unwrap_or(0);
    let limit = arguments.count("limit")?.unwrap_or(0);
    let batch_size = arguments.count("batchSize")?;
    let shown = shown(call, &arguments, (&found, &filter), &scope)?;
    let bounds = bounds(&arguments, &found)?;
    if let (Some(bounds), true) = (&bounds, sort.is_empty()) {
        sort = bounds.order()?;
    }
    let mut find = Find { filter, parsed, projection, sort, skip, limit, env };
    let is = |name: &str| arguments.bool(name) == Some(true);
    let options =
        CursorOptions { batch_size, is_single_batch: is("singleBatch"), is_kept: is("noCursorTimeout") };
    if is("tailable") {
        return Box::pin(tail(call, namespace, find, (is("awaitData"), options))).await;
    }
    if batch_size != Some(0)
        && shown.is_none()
        && bounds.is_none()
        && arguments.given("hint").is_none()
        && let Some((collection, point)) = point_of(&namespace, &found, &find)
    {
        let asked = (&find.filter, &find.parsed);
        let found = call.collections().find_at(&request, collection, point, asked, &mut find.env).await?;
        return Ok(Reply::of_all(namespace.to_string(), found.map(Bytes::from)));
    }
    // A sort by the order of insertion acts as a hint, too.
    let natural =
        arguments.given("sort").filter(|sort| sort.as_document().is_some_and(|sort| sort.has("$natural")));
    let hint = arguments.given("hint").or(natural);
    // Boxed, because a read by key does not need this future's memory.
    Box::pin(find_many(call, &request, namespace, (find, hint, shown, bounds), options)).await
}

/// Index keys or record numbers to show, if the command asks for them.
fn shown(
    call: &Call,
    arguments: &Arguments<'_>,
    (found, filter): (&Found, &Document),
    scope: &Scope,
) -> Result<Option<Shown>> {
    let asked = ["returnKey", "showRecordId"].map(|option| arguments.bool(option) == Some(true));
    let [shows_keys, shows_numbers] = asked;
    if asked == [false; 2] {
        return Ok(None);
    }
    match found {
        Found::Nothing => Ok(None),
        Found::View(_) => {
            let option = if shows_keys { "returnKey" } else { "showRecordId" };
            fail!(INVALID_PIPELINE_OPERATOR, "Option {option} not supported in aggregation.")
        }
        Found::Collection(collection) => {
            let keys = || IndexKeys::of_find(collection, filter, arguments.given("hint"), scope);
            let keys = shows_keys.then(keys).transpose()?;
            let numbered = shows_numbers.then(|| (call.collections().clone(), collection.clone()));
            Ok(Some(Shown { keys, numbered }))
        }
    }
}

/// Refuses options that do not go together.
fn check_options(arguments: &Arguments<'_>) -> Result<()> {
    check_tailable(arguments)?;
    for (bound, missing) in [("min", 51173), ("max", 51174)] {
        let is_bounded = arguments.document(bound).is_some_and(|bound| !bound.is_empty());
        if is_bounded && arguments.given("hint").is_none() {
            fail!(missing, "When using {bound}() a hint of which index to use must be provided");
        }
    }
    Ok(())
}

/// The bounds of `min` and `max`.
fn bounds(arguments: &Arguments<'_>, found: &Found) -> Result<Option<KeyBounds>> {
    let [min, max] = ["min", "max"].map(|bound| document(arguments, bound));
    let Some(hint) = arguments.given("hint") else { return Ok(None) };
    match found {
        Found::Collection(collection) => Ok(KeyBounds::of(collection, hint, &min, &max)?),
        Found::View(_) if !min.is_empty() || !max.is_empty() => {
            fail!(INVALID_PIPELINE_OPERATOR, "Option min or max not supported in aggregation.")
        }
        Found::View(_) | Found::Nothing => Ok(None),
    }
}

/// The place of the one document that a `find` can match, if no option needs a cursor.
fn point_of<'f>(namespace: &Namespace, found: &'f Found, find: &Find) -> Option<(&'f Collection, Point)> {
    let is_plain = find.projection.is_none()
        && find.skip == 0
        && find.sort.is_empty()
        && find.parsed.near().is_none()
        && !matches!(&*namespace.database, CONFIG | ADMIN);
    match found {
        Found::Collection(collection) if is_plain && find.filter.has("_id") => {
            Some((collection, Point::of(&find.filter, find.parsed.collation(), collection)?))
        }
        _ => None,
    }
}

async fn find_many(
    call: &Call,
    request: &Arc<Request>,
    namespace: Namespace,
    (mut find, hint, shown, bounds): (Find, Option<&Value>, Option<Shown>, Option<KeyBounds>),
    options: CursorOptions,
) -> Result<Reply> {
    let is_from_end = find.sort.is_from_end();
    let asked = (&find.filter, &find.parsed);
    let source = source(call, request, &namespace, asked, (hint, is_from_end)).await?;
    let is_view = || call.collections().find_name(&namespace).map(|found| matches!(found, Found::View(_)));
    if is_from_end && (source.is_backwards() || is_view()?) {
        // The documents are already read in this order.
        find.sort = SortPattern::default();
    }
    let finding = Finding::new(find, source).showing(shown.unwrap_or_default()).within(bounds);
    let source = FindSource { finding, clock: call.clock() };
    call.open_cursor(namespace.to_string(), Box::new(source), options).await
}

/// The documents of a collection or of a view.
pub async fn source(
    call: &Call,
    request: &Arc<Request>,
    namespace: &Namespace,
    (filter, parsed): (&Document, &Filter),
    (hint, is_from_end): (Option<&Value>, bool),
) -> Result<Source> {
    if let Some(documents) = own_documents(call, namespace)? {
        return Ok(Source::Ready(documents.into()));
    }
    let collections = call.collections();
    Ok(match collections.find_name(namespace)? {
        Found::Nothing => Source::Ready(VecDeque::new()),
        Found::View(_) if parsed.near().is_some() => {
            fail!(5_626_500, "$near is not allowed on a view: {namespace}")
        }
        Found::View(view) => {
            let (base, _) = collections.resolved_view(&namespace.database, &view)?;
            if let Some(base) = collections.collection(&base)? {
                check_hint(&base, hint, (filter, false))?;
            }
            let named = (&*namespace.database, &view);
            Source::Ready(collections.view_documents(request, named, is_from_end).await?)
        }
        Found::Collection(collection) => {
            check_hint(&collection, hint, (filter, parsed.near().is_some()))?;
            collection.check_near(parsed)?;
            let is_capped = collection.meta.is_capped();
            let is_natural = hint.and_then(Value::as_document).is_some_and(|hint| hint.has("$natural"));
            let scan = collections.scan(Some(collection), filter, parsed.collation());
            match (is_capped, is_from_end) {
                (true, true) => scan.backwards(),
                (true, false) if is_natural => scan.forwards(),
                _ => scan,
            }
        }
    })
}

/// A hint as `count`, `distinct` and `aggregate` accept it: error 9 for another type, and `$natural` needs a direction.
pub fn hint_of(call: &Call) -> Result<Option<Value>> {
    let Some(hint) = call.body.get("hint") else { return Ok(None) };
    match hint {
        Value::String(name) if &**name == "$natural" => {
            fail!(code::BAD_VALUE, "hint '$natural' has to be an object with a direction")
        }
        Value::String(_) => {}
        Value::Document(key) if key.has("$natural") => {
            let direction = key.get("$natural").and_then(Value::to_f64);
            if key.len() != 1 || !matches!(direction, Some(1.0 | -1.0)) {
                fail!(
                    code::BAD_VALUE,
                    "$natural hint must be specified with 1 or -1 and nothing else: {hint}"
                );
            }
        }
        Value::Document(_) => {}
        other => {
            fail!(code::FAILED_TO_PARSE, "Hint must be a string or an object, not {}", other.type_name())
        }
    }
    Ok(Some(hint.clone()))
}

/// A filter, extended by the filter of a hinted sparse or partial index. The engine chooses its own access path, so a hint of
/// another index changes nothing.
pub fn hinted_filter(
    call: &Call,
    namespace: &Namespace,
    (filter, collation): (Document, &Collation),
    hint: Option<&Value>,
) -> Result<Document> {
    let Some(rows) = rows_of_hint(call, namespace, (hint, collation))? else { return Ok(filter) };
    if filter.is_empty() {
        return Ok(rows);
    }
    let parts = vec![Value::document(filter), Value::document(rows)];
    Ok(Document::one("$and", Value::array(parts)))
}

/// The filter of a write with a hint. An upsert inserts values of its filter, so its hint is checked and changes nothing.
pub fn hinted_write(
    call: &Call,
    namespace: &Namespace,
    (filter, collation): (Document, &Collation),
    (hint, is_upsert): (Option<&Value>, bool),
) -> Result<Document> {
    if !is_upsert {
        return hinted_filter(call, namespace, (filter, collation), hint);
    }
    rows_of_hint(call, namespace, (hint, collation))?;
    Ok(filter)
}

/// The filter of a hinted sparse or partial index, in a form for queries with this collation; `None` for other hints.
pub fn rows_of_hint(
    call: &Call,
    namespace: &Namespace,
    (hint, collation): (Option<&Value>, &Collation),
) -> Result<Option<Document>> {
    let Some(hint) = hint else { return Ok(None) };
    match call.collections().find_name(namespace)? {
        Found::Collection(collection) => Ok(collection.rows_of_hint(hint, collation)?),
        _ => Ok(None),
    }
}

/// A hint that names no index is an error, and so is one of an index that cannot answer the filter.
pub fn check_hint(
    collection: &Collection,
    hint: Option<&Value>,
    (filter, is_near): (&Document, bool),
) -> Result<()> {
    const NO_PLAN: i32 = 291;
    match hint {
        Some(hint) if !collection.is_answered_by(hint, filter, is_near)? => fail!(
            NO_PLAN,
            "error processing query: planner returned error: no query solutions: the hinted index does not answer the filter"
        ),
        _ => Ok(()),
    }
}

/// A view is read by a pipeline, so its projection is one of pipelines.
fn check_projection_of_view(projection: &Document, scope: &Scope) -> Result<()> {
    let operator = |value: &Value| {
        let document = value.as_document()?;
        document.first().map(|(name, _)| name.clone())
    };
    if projection.iter().any(|(_, value)| operator(value).as_deref() == Some("$elemMatch")) {
        fail!(INVALID_PIPELINE_OPERATOR, "Unrecognized expression '$elemMatch'");
    }
    let stage = Document::one("$project", Value::document(projection.clone()));
    Pipeline::parse(&[Value::document(stage)], scope)?;
    Ok(())
}

/// A `find` as the source of a cursor.
struct FindSource {
    finding: Finding,
    clock: Clock,
}

impl BatchSource for FindSource {
    fn next<'s>(&'s mut self, wants: &'s Wants) -> BoxFuture<'s, Result<Batch>> {
        Box::pin(async move {
            let request =
                Request::charged_to(wants.context.clone(), 1, wants.charged.clone(), self.clock.clone())
                    .ending_with(wants.end.clone());
            let documents_max = wants.documents_max.map_or(usize::MAX, |max| max as usize);
            let (found, more) = self.finding.next(&request, documents_max, wants.size_bytes_max).await?;
            if let Some(size) = found.iter().map(Value::size).find(|size| *size > RESULT_BYTES_MAX) {
                return Err(too_large(size).into());
            }
            let documents = found.iter().map(bytes_of).collect();
            Ok(Batch { documents, is_last: !more, resume_token: None })
        })
    }

    fn held_bytes(&self) -> usize {
        self.finding.held_bytes()
    }
}

pub const COUNT: &[Field] = &[
    optional("query", Types::OBJECT),
    optional("limit", Types::NUMBER).coded(code::BAD_VALUE).not_null(code::BAD_VALUE),
    optional("skip", Types::NUMBER).coded(code::BAD_VALUE),
    optional("hint", Types::ANY),
    optional("collation", Types::OBJECT),
    optional("fields", Types::ANY),
];
pub const DISTINCT: &[Field] = &[
    required("key", Types::STRING),
    optional("query", Types::OBJECT),
    optional("hint", Types::ANY),
    optional("collation", Types::OBJECT),
];

pub async fn count(call: &Call) -> Result<Reply> {
    let namespace = call.namespace()?;
    let arguments = call.arguments(COUNT)?;
    let hint = hint_of(call)?;
    let collation = call.collation(&namespace, arguments.given("collation"))?;
    let query = hinted_filter(call, &namespace, (document(&arguments, "query"), &collation), hint.as_ref())?;
    let skip = arguments.count("skip")?.unwrap_or(0);
    let limit = arguments.i64("limit").unwrap_or(0).unsigned_abs();
    let request = call.request();
    let (scope, mut env) = request.bound(&collation, &Document::new())?;
    let filter = Filter::parse_ordering(&query, &scope)?;
    let found = call.collections().find_name(&namespace)?;
    let all = match &found {
        // The item count is kept up to date, so nothing is read.
        Found::Collection(collection)
            if query.is_empty() && collection.handle.container().definition.default_ttl.is_none() =>
        {
            check_hint(collection, hint.as_ref(), (&query, false))?;
            collection.items()
        }
        _ => {
            let source =
                source(call, &request, &namespace, (&query, &filter), (hint.as_ref(), false)).await?;
            source.count_matching(&request, &filter, &mut env).await?
        }
    };
    let counted = all.saturating_sub(skip).min(if limit == 0 { u64::MAX } else { limit });
    let counted = i32::try_from(counted).map_or(Value::Long(counted as i64), Value::Int);
    Ok(Document::one("n", counted).into())
}

pub async fn distinct(call: &Call) -> Result<Reply> {
    let namespace = call.namespace()?;
    let arguments = call.arguments(DISTINCT)?;
    let hint = hint_of(call)?;
    let collation = call.collation(&namespace, arguments.given("collation"))?;
    let key = arguments.string("key").unwrap_or_default();
    if key.is_empty() {
        fail!(40352, "FieldPath cannot be constructed with empty string");
    }
    if key.contains('\0') {
        fail!(code::FAILED_TO_PARSE, "Key field cannot contain an embedded null byte");
    }
    let query = hinted_filter(call, &namespace, (document(&arguments, "query"), &collation), hint.as_ref())?;
    let request = call.request();
    let (scope, mut env) = request.bound(&collation, &Document::new())?;
    let filter = Filter::parse_ordering(&query, &scope)?;
    let source = source(call, &request, &namespace, (&query, &filter), (hint.as_ref(), false)).await?;
    let path: Vec<Str> = key.split('.').map(Str::from).collect();
    let mut values = DistinctValues::new(collation.clone());
    let gather = |document: Value| {
        let mut reached = Vec::new();
        reach(&document, &path, &mut reached);
        reached.into_iter().try_for_each(|value| values.add(value)).map_err(Failure::from)
    };
    source.each_matching(&request, (&filter, &mut env), gather).await?;
    Ok(Document::one("values", Value::array(values.into_values())).into())
}
