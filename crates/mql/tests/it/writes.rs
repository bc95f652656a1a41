//! The writing commands.

use std::sync::Arc;

use crate::commands::{Server, bound, document_of, env, find_sort, name_of, wrong};
use shardlake_mql::write::{body_of, document_of as stored_document_of};
use shardlake_mql::{
    Collation, Document, Error, Filter, FindProjection, Matched, MergeTarget, Output, Pipeline, Result,
    Scope, Str, Update, Value, WhenMatched, WhenNotMatched, compare_by, upsert_base,
};

fn new_id(server: &mut Server) -> Value {
    server.ids += 1;
    let mut id = [0; 12];
    id[4..].copy_from_slice(&server.ids.to_be_bytes());
    Value::ObjectId(id)
}

fn write_error(index: usize, error: &Error) -> Value {
    let mut entry = Document::one("index", Value::Int(index as i32));
    entry.push("code", Value::Int(error.code()));
    entry.push("errmsg", Value::string(error.message()));
    Value::document(entry)
}

/// Checks unique indexes and the validator, and stores the document in place of another one.
pub fn store(
    server: &mut Server,
    database: &str,
    name: &str,
    document: Document,
    at: Option<usize>,
) -> Result<()> {
    let id = document.value("_id");
    match &id {
        Value::Array(_) | Value::Regex(_) | Value::Undefined => {
            return wrong(53, "the _id has a type that is not allowed");
        }
        Value::Document(inner) if inner.iter().any(|(name, _)| name.starts_with('$')) => {
            return wrong(52, "_id fields may not start with '$'");
        }
        _ => {}
    }
    let collection = server.collection_mut(database, name);
    if collection.view.is_some() {
        return wrong(166, "a view cannot be written");
    }
    let key = |document: &Document, paths: &[Str]| -> Vec<Value> {
        let value = |path: &Str| {
            crate::compare::walk(&Value::document(document.clone()), path).unwrap_or(Value::Null)
        };
        paths.iter().map(value).collect()
    };
    let identity = (vec![Str::from("_id")], collection.collation.clone());
    for (paths, collation) in [&identity].into_iter().chain(&collection.unique) {
        let own = key(&document, paths);
        let taken = collection.documents.iter().enumerate().any(|(place, other)| {
            let equal = |(left, right): (&Value, &Value)| compare_by(collation, left, right).is_eq();
            Some(place) != at && key(other, paths).iter().zip(&own).all(equal)
        });
        if taken {
            return wrong(11000, "E11000 duplicate key error");
        }
    }
    if let Some(validator) = &collection.validator
        && !Filter::parse(validator, &Scope::with_collation(collection.collation.clone()))?
            .matches(&document, &mut env())?
    {
        return wrong(121, "Document failed validation");
    }
    match at {
        Some(at) => collection.documents[at] = document,
        None => collection.documents.push(document),
    }
    Ok(())
}

pub fn insert(server: &mut Server, database: &str, command: &Document) -> Result<Document> {
    let name = name_of(command)?;
    let documents = match command.get("documents") {
        Some(Value::Array(items)) if items.is_empty() => return wrong(16, "'documents' must not be empty"),
        Some(Value::Array(items)) => items.to_vec(),
        Some(_) => return wrong(14, "'documents' must be an array"),
        None => return wrong(40414, "'documents' is missing"),
    };
    let ordered = !matches!(command.get("ordered"), Some(Value::Bool(false)));
    let (mut count, mut errors) = (0, Vec::new());
    for (index, document) in documents.iter().enumerate() {
        let Value::Document(document) = document else { return wrong(14, "a document must be an object") };
        let mut document = (**document).clone();
        let id = document.remove("_id").unwrap_or_else(|| new_id(server));
        document.push_front("_id", id);
        match store(server, database, &name, document, None) {
            Ok(()) => count += 1,
            Err(error) => {
                errors.push(write_error(index, &error));
                if ordered {
                    break;
                }
            }
        }
    }
    let mut reply = Document::one("n", Value::Int(count));
    if !errors.is_empty() {
        reply.push("writeErrors", Value::array(errors));
    }
    Ok(reply)
}

/// The effect of an update of one document.
struct Done {
    old: Option<Document>,
    new: Document,
    modified: bool,
    inserted: bool,
}

struct Statement<'a> {
    filter: Document,
    update: &'a Value,
    array_filters: Vec<Value>,
    variables: Document,
    upsert: bool,
    multi: bool,
    sort: Document,
    collation: Collation,
}

fn run_update(
    server: &mut Server,
    database: &str,
    name: &str,
    statement: &Statement<'_>,
) -> Result<Vec<Done>> {
    let (scope, mut env) = bound(&statement.variables, &statement.collation)?;
    let filter = Filter::parse(&statement.filter, &scope)?;
    let update = Update::parse(statement.update, &statement.array_filters, &scope)?;
    if statement.multi && update.is_replacement() {
        return wrong(9, "multi update is not supported for replacement-style update");
    }
    let mut done = Vec::new();
    for at in matching_places(server, database, name, &filter, &statement.sort, &mut env)? {
        let old = server.collection_mut(database, name).documents[at.0].clone();
        let updated = update.apply(&old, at.1, false, &mut env)?;
        if updated.modified {
            store(server, database, name, updated.document.clone(), Some(at.0))?;
        }
        done.push(Done {
            old: Some(old),
            new: updated.document,
            modified: updated.modified,
            inserted: false,
        });
        if !statement.multi {
            break;
        }
    }
    if done.is_empty() && statement.upsert {
        let base = if update.is_replacement() {
            let whole = upsert_base(&statement.filter)?;
            whole.get("_id").map_or_else(Document::new, |id| Document::one("_id", id.clone()))
        } else {
            upsert_base(&statement.filter)?
        };
        let mut document = update.apply(&base, Matched::default(), true, &mut env)?.document;
        if !document.has("_id") {
            let id = new_id(server);
            document.push_front("_id", id);
        }
        store(server, database, name, document.clone(), None)?;
        done.push(Done { old: None, new: document, modified: true, inserted: true });
    }
    Ok(done)
}

fn matching_places(
    server: &Server,
    database: &str,
    name: &str,
    filter: &Filter,
    sort: &Document,
    env: &mut shardlake_mql::Env,
) -> Result<Vec<(usize, Matched)>> {
    let Some(collection) = server.collection(database, name) else { return Ok(Vec::new()) };
    if collection.view.is_some() {
        return wrong(166, "a view cannot be written");
    }
    let order = find_sort(sort, filter.collation())?;
    let mut places = Vec::new();
    for (at, document) in collection.documents.iter().enumerate() {
        if let Some(matched) = filter.matched(document, env)? {
            places.push((order.key(&Value::document(document.clone()))?, at, matched));
        }
    }
    places.sort_by(|(left, ..), (right, ..)| order.compare_keys(left, right));
    Ok(places.into_iter().map(|(_, at, matched)| (at, matched)).collect())
}

pub fn update(server: &mut Server, database: &str, command: &Document) -> Result<Document> {
    let name = name_of(command)?;
    let updates = match command.get("updates") {
        Some(Value::Array(items)) if items.is_empty() => return wrong(16, "'updates' must not be empty"),
        Some(Value::Array(items)) => items.to_vec(),
        Some(_) => return wrong(14, "'updates' must be an array"),
        None => return wrong(40414, "'updates' is missing"),
    };
    let ordered = !matches!(command.get("ordered"), Some(Value::Bool(false)));
    let (mut matched, mut modified, mut upserted, mut errors) = (0, 0, Vec::new(), Vec::new());
    for (index, statement) in updates.iter().enumerate() {
        let Value::Document(statement) = statement else { return wrong(14, "an update must be an object") };
        match one_update(server, database, &name, command, statement) {
            Ok(done) => {
                matched += done.len() as i32;
                modified += done.iter().filter(|done| done.modified && !done.inserted).count() as i32;
                for done in done.iter().filter(|done| done.inserted) {
                    let mut entry = Document::one("index", Value::Int(index as i32));
                    entry.push("_id", done.new.value("_id"));
                    upserted.push(Value::document(entry));
                }
            }
            Err(error) => {
                errors.push(write_error(index, &error));
                if ordered {
                    break;
                }
            }
        }
    }
    let mut reply = Document::one("n", Value::Int(matched));
    reply.push("nModified", Value::Int(modified));
    if !upserted.is_empty() {
        reply.push("upserted", Value::array(upserted));
    }
    if !errors.is_empty() {
        reply.push("writeErrors", Value::array(errors));
    }
    Ok(reply)
}

fn one_update(
    server: &mut Server,
    database: &str,
    name: &str,
    command: &Document,
    statement: &Document,
) -> Result<Vec<Done>> {
    let collation = server.collation(database, name, statement)?;
    let mut variables = document_of(command, "let")?;
    let constants = document_of(statement, "c")?;
    constants.iter().for_each(|(name, value)| variables.set(name, value.clone()));
    let update = statement.value("u");
    if !constants.is_empty() && !matches!(update, Value::Array(_)) {
        return wrong(51198, "Constant values may only be specified for pipeline updates");
    }
    let array_filters = match statement.get("arrayFilters") {
        None => Vec::new(),
        Some(Value::Array(items)) => items.to_vec(),
        Some(_) => return wrong(14, "'arrayFilters' must be an array"),
    };
    let statement = Statement {
        filter: document_of(statement, "q")?,
        update: &update,
        array_filters,
        variables,
        upsert: statement.get("upsert").is_some_and(Value::is_true),
        multi: statement.get("multi").is_some_and(Value::is_true),
        sort: document_of(statement, "sort")?,
        collation,
    };
    run_update(server, database, name, &statement)
}

pub fn delete(server: &mut Server, database: &str, command: &Document) -> Result<Document> {
    let name = name_of(command)?;
    let deletes = match command.get("deletes") {
        Some(Value::Array(items)) if items.is_empty() => return wrong(16, "'deletes' must not be empty"),
        Some(Value::Array(items)) => items.to_vec(),
        Some(_) => return wrong(14, "'deletes' must be an array"),
        None => return wrong(40414, "'deletes' is missing"),
    };
    let mut count = 0;
    for statement in &deletes {
        let Value::Document(statement) = statement else { return wrong(14, "a delete must be an object") };
        let collation = server.collation(database, &name, statement)?;
        let limit = match statement.get("limit").and_then(Value::to_f64) {
            Some(0.0) => usize::MAX,
            Some(1.0) => 1,
            Some(_) => return wrong(9, "the limit of a delete must be 0 or 1"),
            None => return wrong(40414, "'limit' is missing"),
        };
        let (scope, mut env) = bound(&document_of(command, "let")?, &collation)?;
        let filter = Filter::parse(&document_of(statement, "q")?, &scope)?;
        let mut places = matching_places(server, database, &name, &filter, &Document::new(), &mut env)?;
        places.truncate(limit);
        places.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        count += places.len() as i32;
        for (at, _) in places {
            server.collection_mut(database, &name).documents.remove(at);
        }
    }
    Ok(Document::one("n", Value::Int(count)))
}

pub fn find_and_modify(server: &mut Server, database: &str, command: &Document) -> Result<Document> {
    let name = name_of(command)?;
    let collation = server.collation(database, &name, command)?;
    let is = |name: &str| command.get(name).is_some_and(Value::is_true);
    let remove = is("remove");
    if remove && (command.has("update") || is("upsert") || is("new")) {
        return wrong(9, "Cannot specify both an update and remove=true, nor 'upsert' or 'new' with it");
    }
    if !remove && !command.has("update") {
        return wrong(9, "Either an update or remove=true must be specified");
    }
    let query = document_of(command, "query")?;
    let (scope, mut env) = bound(&document_of(command, "let")?, &collation)?;
    let filter = Filter::parse(&query, &scope)?;
    let fields = document_of(command, "fields")?;
    let projection = FindProjection::parse(&fields, &scope)?;
    let show = |document: Option<Document>, matched: Matched, env: &mut shardlake_mql::Env| match document {
        Some(document) if fields.is_empty() => Ok(Value::document(document)),
        Some(document) => projection.apply(&Value::document(document), matched, env),
        None => Ok(Value::Null),
    };
    let sort = document_of(command, "sort")?;
    let mut last = Document::new();
    let value = if remove {
        let places = matching_places(server, database, &name, &filter, &sort, &mut env)?;
        last.push("n", Value::Int(i32::from(!places.is_empty())));
        match places.first() {
            Some((at, matched)) => {
                let removed = server.collection_mut(database, &name).documents.remove(*at);
                show(Some(removed), *matched, &mut env)?
            }
            None => Value::Null,
        }
    } else {
        let statement = Statement {
            filter: query,
            update: &command.value("update"),
            array_filters: command
                .get("arrayFilters")
                .and_then(Value::as_array)
                .map_or_else(Vec::new, |items| items.to_vec()),
            variables: document_of(command, "let")?,
            upsert: is("upsert"),
            multi: false,
            sort,
            collation,
        };
        let done = run_update(server, database, &name, &statement)?.pop();
        last.push("n", Value::Int(i32::from(done.is_some())));
        last.push("updatedExisting", Value::Bool(done.as_ref().is_some_and(|done| !done.inserted)));
        match done {
            Some(done) => {
                if done.inserted {
                    last.push("upserted", done.new.value("_id"));
                }
                let matched =
                    filter.matched(done.old.as_ref().unwrap_or(&done.new), &mut env)?.unwrap_or_default();
                show(if is("new") { Some(done.new) } else { done.old }, matched, &mut env)?
            }
            None => Value::Null,
        }
    };
    let mut reply = Document::one("lastErrorObject", Value::document(last));
    reply.push("value", value);
    Ok(reply)
}

pub fn write_output(
    server: &mut Server,
    database: &str,
    output: &Output,
    collation: &Collation,
    rows: Vec<Value>,
) -> Result<()> {
    match output {
        Output::Replace { database: other, collection } => {
            let database = other.as_deref().unwrap_or(database).to_owned();
            server.collection_mut(&database, collection).documents.clear();
            for row in rows {
                let mut document = row.as_document().map_or_else(Document::new, |row| (**row).clone());
                if !document.has("_id") {
                    document.push_front("_id", new_id(server));
                }
                store(server, &database, collection, document, None)?;
            }
            Ok(())
        }
        Output::Merge(target) => {
            let database = target.database.as_deref().unwrap_or(database).to_owned();
            merge(server, &database, (target, collation), rows)
        }
    }
}

fn merge(
    server: &mut Server,
    database: &str,
    (target, collation): (&MergeTarget, &Collation),
    rows: Vec<Value>,
) -> Result<()> {
    let on = if target.on.is_empty() { vec![Str::from("_id")] } else { target.on.clone() };
    let is_unique = |paths: &[Str]| paths.len() == on.len() && paths.iter().all(|path| on.contains(path));
    let known = server.collection_mut(database, &target.collection);
    let by_identity = is_unique(&[Str::from("_id")]) && known.collation == *collation;
    if !by_identity && !known.unique.iter().any(|(paths, own)| is_unique(paths) && own == collation) {
        return wrong(51183, "Cannot find index to verify that join fields will be unique");
    }
    for row in rows {
        merge_row(server, database, (target, collation), &on, &row)?;
    }
    Ok(())
}

fn merge_row(
    server: &mut Server,
    database: &str,
    (target, collation): (&MergeTarget, &Collation),
    on: &[Str],
    row: &Value,
) -> Result<()> {
    let name = &*target.collection;
    let mut new = row.as_document().map_or_else(Document::new, |row| (**row).clone());
    if !new.has("_id") && on.iter().any(|path| &**path == "_id") {
        new.push_front("_id", new_id(server));
    }
    let value =
        |document: &Document, path: &str| crate::compare::walk(&Value::document(document.clone()), path);
    let mut key = Vec::new();
    for path in on {
        match value(&new, path) {
            None | Some(Value::Null | Value::Undefined) => {
                return wrong(51132, "$merge write error: 'on' field cannot be missing, null or undefined");
            }
            Some(Value::Array(_)) => {
                return wrong(51185, "$merge write error: 'on' field cannot be an array");
            }
            Some(value) => key.push(value),
        }
    }
    let documents = &server.collection_mut(database, name).documents;
    let at = documents.iter().position(|document| {
        let is_equal = |found: Value, key: &Value| compare_by(collation, &found, key).is_eq();
        on.iter().zip(&key).all(|(path, key)| value(document, path).is_some_and(|found| is_equal(found, key)))
    });
    let Some(at) = at else {
        return match target.not_matched {
            WhenNotMatched::Insert => {
                if !new.has("_id") {
                    new.push_front("_id", new_id(server));
                }
                store(server, database, name, new, None)
            }
            WhenNotMatched::Discard => Ok(()),
            WhenNotMatched::Fail => wrong(
                13113,
                "$merge could not find a matching document in the target collection for at least one document",
            ),
        };
    };
    let old = server.collection_mut(database, name).documents[at].clone();
    let update = match &target.matched {
        WhenMatched::Keep => return Ok(()),
        WhenMatched::Fail => return wrong(11000, "$merge found a matching document"),
        WhenMatched::Replace => Update::parse(&Value::document(new.clone()), &[], &Scope::new())?,
        WhenMatched::Merge => Update::parse(
            &Value::document(Document::one("$set", Value::document(new.clone()))),
            &[],
            &Scope::new(),
        )?,
        WhenMatched::Pipeline(stages) => {
            let mut variables = Document::one(
                "new",
                Value::document(Document::one("$literal", Value::document(new.clone()))),
            );
            for (variable, expression) in target.variables.iter().flat_map(Document::iter) {
                let mut env = env();
                let value =
                    shardlake_mql::parse_expression(expression, &Scope::new())?.evaluate_on(&mut env, row)?;
                variables.set(variable, Value::document(Document::one("$literal", value.clone())));
            }
            let (scope, mut env) = bound(&variables, collation)?;
            Pipeline::parse(stages, &scope)?;
            let update = Update::parse(&Value::array(stages.clone()), &[], &scope)?;
            let updated = update.apply(&old, Matched::default(), false, &mut env)?;
            return store(server, database, name, updated.document, Some(at));
        }
    };
    let updated = update.apply(&old, Matched::default(), false, &mut env())?;
    store(server, database, name, updated.document, Some(at))
}

/// A document with so many levels below the root, each made by a function.
fn deep(levels: usize, level: impl Fn(Value) -> Value) -> Document {
    let value = (0..levels).fold(Value::Int(1), |value, _| level(value));
    let mut document = Document::one("_id", 1);
    document.push("a", value);
    document
}

#[test]
fn stored_documents_are_read_back_and_deeper_ones_are_refused() {
    let object = |value| Value::document(Document::one("a", value));
    let array = |value| Value::array(vec![value]);
    let scope = |value| Value::CodeWithScope(Arc::new(("x".to_owned(), Document::one("a", value))));
    let outcome = |document: &Document| match body_of(document) {
        Ok((body, _)) => {
            let read = stored_document_of(body.as_bytes()).expect("a stored document is read");
            assert_eq!(read.to_string(), document.to_string(), "a stored document is read as it was");
            None
        }
        Err(error) => Some((error.code(), error.message().to_owned())),
    };
    for levels in [1, 100, 199, 200] {
        assert_eq!(outcome(&deep(levels, object)), None, "{levels} objects");
        assert_eq!(outcome(&deep(levels, array)), None, "{levels} arrays");
    }
    for levels in [201, 230, 300, 1_000] {
        let refused = Some((15, "Document exceeds maximum nesting depth of 200".to_owned()));
        assert_eq!(outcome(&deep(levels, object)), refused, "{levels} objects");
        assert_eq!(outcome(&deep(levels, array)), refused, "{levels} arrays");
    }
    // `{"$code":"x","$scope":{…}}`
    assert_eq!(outcome(&deep(127, scope)), None);
    for levels in [128, 180, 200] {
        let refused = Some((15, "Document exceeds maximum nesting depth of 256 in its JSON form".to_owned()));
        assert_eq!(outcome(&deep(levels, scope)), refused, "{levels} scopes");
    }
}
