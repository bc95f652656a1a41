//! Commands over collections in memory: as much of a server as shows the language.

use crate::writes;
use shardlake_mql::{
    Collation, Collections, Context, Document, Env, Error, Filter, FindProjection, Matched, Pipeline, Result,
    Scope, SortPattern, Str, Value, collation_of, compare_by,
};
use std::collections::BTreeMap;

/// A moment for `$$NOW`, and a seed.
pub const NOW: i64 = 1_760_000_000_000;
pub const SEED: u64 = 42;

#[derive(Default)]
pub struct Collection {
    pub documents: Vec<Document>,
    pub view: Option<(Str, Vec<Value>)>,
    /// Paths of unique indexes.
    pub unique: Vec<(Vec<Str>, Collation)>,
    /// Its own default, or that of the view.
    pub collation: Collation,
    pub indexes: Vec<Document>,
    pub validator: Option<Document>,
}

#[derive(Default)]
pub struct Server {
    pub databases: BTreeMap<String, BTreeMap<String, Collection>>,
    cursors: BTreeMap<i64, (String, Vec<Value>)>,
    pub ids: u64,
}

/// One database of a server.
pub struct Database<'a> {
    pub server: &'a Server,
    pub name: &'a str,
}

impl Collections for Database<'_> {
    fn documents(&self, database: Option<&str>, collection: &str) -> Result<Vec<Value>> {
        let found = self.server.collection(database.unwrap_or(self.name), collection);
        Ok(found
            .map_or_else(Vec::new, |found| found.documents.iter().cloned().map(Value::document).collect()))
    }

    fn indexes(&self, database: Option<&str>, collection: &str) -> Result<Vec<Document>> {
        let found = self.server.collection(database.unwrap_or(self.name), collection);
        Ok(found.map(|found| found.indexes.clone()).unwrap_or_default())
    }

    fn view_collation(&self, collection: &str) -> Collation {
        self.server.collection(self.name, collection).map(|found| found.collation.clone()).unwrap_or_default()
    }

    fn view(&self, collection: &str) -> Option<(Str, Vec<Value>)> {
        self.server.collection(self.name, collection)?.view.clone()
    }
}

pub fn wrong<T>(code: i32, words: &str) -> Result<T> {
    Err(Error::new(code, words))
}

pub fn env() -> Env {
    Env::new(NOW, SEED).with_cluster_time((1_760_000_000, 1))
}

impl Server {
    pub fn collection(&self, database: &str, collection: &str) -> Option<&Collection> {
        self.databases.get(database)?.get(collection)
    }

    pub fn collection_mut(&mut self, database: &str, collection: &str) -> &mut Collection {
        self.databases.entry(database.to_owned()).or_default().entry(collection.to_owned()).or_default()
    }

    /// Runs a command; `None` for a command that does not exercise the language.
    pub fn run(&mut self, database: &str, command: &Document) -> Option<Document> {
        let (name, target) = command.first()?;
        let answer = match &**name {
            "insert" => writes::insert(self, database, command),
            "update" => writes::update(self, database, command),
            "delete" => writes::delete(self, database, command),
            "findAndModify" | "findandmodify" => writes::find_and_modify(self, database, command),
            "find" => self.find(database, command),
            "aggregate" => self.aggregate(database, command),
            "count" => self.count(database, command),
            "distinct" => self.distinct(database, command),
            "getMore" => self.get_more(command),
            "create" => self.create(database, command),
            "createIndexes" => self.create_indexes(database, command),
            "drop" => {
                let name = target.as_str().unwrap_or_default();
                self.databases.entry(database.to_owned()).or_default().remove(name);
                Ok(Document::new())
            }
            "dropDatabase" => {
                self.databases.remove(database);
                Ok(Document::new())
            }
            _ => return None,
        };
        Some(match answer {
            Ok(mut reply) => {
                reply.push("ok", Value::Double(1.0));
                reply
            }
            Err(error) => error_reply(&error),
        })
    }

    /// The collation of a command, else the default of the collection.
    pub fn collation(&self, database: &str, name: &str, command: &Document) -> Result<Collation> {
        let found = self.collection(database, name);
        match (stated(command)?, found) {
            (Some(stated), Some(found)) if found.view.is_some() && found.collation != stated => {
                wrong(167, "a view has its own collation")
            }
            (Some(stated), _) => Ok(stated),
            (None, found) => Ok(found.map(|found| found.collation.clone()).unwrap_or_default()),
        }
    }

    fn create(&mut self, database: &str, command: &Document) -> Result<Document> {
        let name = name_of(command)?;
        for option in ["capped", "timeseries", "clusteredIndex", "encryptedFields"] {
            if command.get(option).is_some_and(Value::is_true) {
                return wrong(303, &format!("{option} is not supported"));
            }
        }
        let collation = stated(command)?.unwrap_or_default();
        if self.collection(database, &name).is_some() {
            let plain = command.iter().all(|(name, _)| matches!(&**name, "create" | "lsid" | "comment"));
            return if plain { Ok(Document::new()) } else { wrong(48, "the collection exists") };
        }
        let view = match (command.get("viewOn"), command.get("pipeline")) {
            (Some(Value::String(on)), pipeline) => {
                let stages =
                    pipeline.and_then(Value::as_array).map_or_else(Vec::new, |stages| stages.to_vec());
                Pipeline::parse(&stages, &Scope::with_collation(collation.clone()))?;
                Some((on.clone(), stages))
            }
            _ => None,
        };
        let validator = command.get("validator").and_then(Value::as_document).map(|found| (**found).clone());
        let collection = self.collection_mut(database, &name);
        (collection.view, collection.validator) = (view, validator);
        collection.collation = collation;
        Ok(Document::new())
    }

    fn create_indexes(&mut self, database: &str, command: &Document) -> Result<Document> {
        let name = name_of(command)?;
        let indexes = command.get("indexes").and_then(Value::as_array).cloned().unwrap_or_default();
        for index in indexes.iter().filter_map(Value::as_document) {
            let default = self.collection_mut(database, &name).collation.clone();
            let collation = stated(index)?.unwrap_or(default);
            self.collection_mut(database, &name).indexes.push((**index).clone());
            if let (Some(Value::Bool(true)), Some(Value::Document(key))) =
                (index.get("unique"), index.get("key"))
            {
                let paths = key.iter().map(|(name, _)| name.clone()).collect();
                self.collection_mut(database, &name).unique.push((paths, collation));
            }
        }
        self.collection_mut(database, &name);
        Ok(Document::new())
    }

    /// The documents of a collection, or the results of a view.
    pub fn rows(&self, database: &str, name: &str) -> Result<Vec<Value>> {
        let Some(collection) = self.collection(database, name) else { return Ok(Vec::new()) };
        let Some((on, stages)) = &collection.view else {
            return Ok(collection.documents.iter().cloned().map(Value::document).collect());
        };
        let input = self.rows(database, on)?;
        self.pipeline((database, on), stages, (&Document::new(), &collection.collation), input)
    }

    fn pipeline(
        &self,
        (database, collection): (&str, &str),
        stages: &[Value],
        (lets, collation): (&Document, &Collation),
        input: Vec<Value>,
    ) -> Result<Vec<Value>> {
        let (scope, mut env) = bound(lets, collation)?;
        let parsed = Pipeline::parse(stages, &scope)?;
        env.set_root(Value::Missing);
        let collections = Database { server: self, name: database };
        let indexes = collections.indexes(None, collection)?;
        let mut context =
            Context { env, collections: &collections, indexes, memory_bytes_max: 100 * 1024 * 1024 };
        parsed.run(input.into_iter().map(Ok), &mut context)
    }

    fn find(&mut self, database: &str, command: &Document) -> Result<Document> {
        let name = name_of(command)?;
        let collation = self.collation(database, &name, command)?;
        let (scope, mut env) = bound(&document_of(command, "let")?, &collation)?;
        let filter = Filter::parse_ordering(&document_of(command, "filter")?, &scope)?;
        if let Some((near, found)) = filter.near().zip(self.collection(database, &name)) {
            near.check_served(&found.indexes)?;
        }
        let projection = document_of(command, "projection")?;
        let parsed = match projection.is_empty() {
            true => None,
            false => Some(FindProjection::parse(&projection, &scope)?),
        };
        let order = document_of(command, "sort")?;
        let order = if order.has("$natural") { Document::new() } else { order };
        let order = find_sort(&order, &collation)?;
        let mut rows: Vec<(Value, Matched)> = Vec::new();
        for row in self.rows(database, &name)? {
            if let Value::Document(document) = &row
                && let Some(matched) = filter.matched(document, &mut env)?
            {
                rows.push((row, matched));
            }
        }
        let near = filter.near().filter(|_| order.is_empty());
        let order = if near.is_some() { SortPattern::one_ascending() } else { order };
        if !order.is_empty() {
            let mut keyed = Vec::new();
            for (row, matched) in rows {
                let key = match near {
                    Some(near) => near.sort_key(row.as_document().unwrap()),
                    None => order.key(&row)?,
                };
                keyed.push((key, row, matched));
            }
            keyed.sort_by(|(left, ..), (right, ..)| order.compare_keys(left, right));
            rows = keyed.into_iter().map(|(_, row, matched)| (row, matched)).collect();
        }
        let skip = whole(command, "skip", 2)?.unwrap_or(0);
        let limit = whole(command, "limit", 2)?.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let mut shown = Vec::new();
        for (row, matched) in rows.into_iter().skip(skip).take(limit) {
            shown.push(match &parsed {
                Some(projection) => projection.apply(&row, matched, &mut env)?,
                None => row,
            });
        }
        self.cursor(database, &name, command, command.get("batchSize"), shown)
    }

    fn cursor(
        &mut self,
        database: &str,
        name: &str,
        command: &Document,
        batch: Option<&Value>,
        mut rows: Vec<Value>,
    ) -> Result<Document> {
        let size = batch.and_then(Value::to_i64_exact).map_or(101, |size| size as usize);
        let rest = rows.split_off(size.min(rows.len()));
        let keep = (!rest.is_empty() || size == 0) && !command.get("singleBatch").is_some_and(Value::is_true);
        let id = if keep { 1000 + self.cursors.len() as i64 } else { 0 };
        let namespace = format!("{database}.{name}");
        if keep {
            self.cursors.insert(id, (namespace.clone(), rest));
        }
        Ok(cursor_reply(id, &namespace, "firstBatch", rows))
    }

    fn get_more(&mut self, command: &Document) -> Result<Document> {
        let id = command.value("getMore");
        let Value::Long(id) = id else { return wrong(14, "getMore needs an int64") };
        let Some((namespace, mut rows)) = self.cursors.remove(&id) else {
            return wrong(43, "no such cursor");
        };
        let size =
            command.get("batchSize").and_then(Value::to_i64_exact).map_or(usize::MAX, |size| size as usize);
        let rest = rows.split_off(size.min(rows.len()));
        let next = if rest.is_empty() { 0 } else { id };
        if next != 0 {
            self.cursors.insert(id, (namespace.clone(), rest));
        }
        Ok(cursor_reply(next, &namespace, "nextBatch", rows))
    }

    fn aggregate(&mut self, database: &str, command: &Document) -> Result<Document> {
        let target = command.value("aggregate");
        let stages = match command.get("pipeline") {
            Some(Value::Array(stages)) => stages.to_vec(),
            Some(_) => return wrong(14, "'pipeline' must be an array"),
            None => return wrong(40414, "'pipeline' is missing"),
        };
        let name = target.as_str().unwrap_or("$cmd.aggregate").to_owned();
        let collation = self.collation(database, &name, command)?;
        let batch = match command.get("cursor") {
            Some(Value::Document(cursor)) => cursor.get("batchSize").cloned(),
            Some(_) => return wrong(14, "'cursor' must be an object"),
            None if command.has("explain") => None,
            None => {
                return wrong(
                    9,
                    "The 'cursor' option is required, except for aggregate with the explain argument",
                );
            }
        };
        let lets = document_of(command, "let")?;
        let (scope, _) = bound(&lets, &collation)?;
        let parsed = Pipeline::parse(&stages, &scope)?;
        if target.as_str().is_none() && !parsed.makes_documents() {
            return wrong(73, "the pipeline needs a collection");
        }
        if target.as_str().is_some() && parsed.makes_documents() {
            return wrong(73, "$documents is only valid without a collection");
        }
        let input = self.rows(database, &name)?;
        let rows = self.pipeline((database, &name), &stages, (&lets, &collation), input)?;
        let rows = match parsed.output() {
            Some(output) => {
                writes::write_output(self, database, output, &collation, rows)?;
                Vec::new()
            }
            None => rows,
        };
        self.cursor(database, &name, command, batch.as_ref(), rows)
    }

    fn matching(&self, database: &str, command: &Document) -> Result<Vec<Document>> {
        let name = name_of(command)?;
        let collation = self.collation(database, &name, command)?;
        let (scope, mut env) = bound(&Document::new(), &collation)?;
        let filter = Filter::parse(&document_of(command, "query")?, &scope)?;
        let mut found = Vec::new();
        for row in self.rows(database, &name)? {
            if let Value::Document(document) = row
                && filter.matches(&document, &mut env)?
            {
                found.push((*document).clone());
            }
        }
        Ok(found)
    }

    fn count(&self, database: &str, command: &Document) -> Result<Document> {
        let found = self.matching(database, command)?.len();
        let skip = whole(command, "skip", 2)?.unwrap_or(0);
        let limit = match command.get("limit") {
            None => 0,
            Some(limit) => limit.to_f64().ok_or_else(|| Error::new(14, "'limit' must be a number"))? as i64,
        };
        let limit = if limit == 0 { usize::MAX } else { limit.unsigned_abs() as usize };
        Ok(Document::one("n", Value::Int(found.saturating_sub(skip).min(limit) as i32)))
    }

    fn distinct(&self, database: &str, command: &Document) -> Result<Document> {
        let Some(Value::String(key)) = command.get("key") else {
            let code = if command.has("key") { 14 } else { 40414 };
            return wrong(code, "'key' must be a string");
        };
        let collation = self.collation(database, &name_of(command)?, command)?;
        let mut values: Vec<Value> = Vec::new();
        let path: Vec<Str> = key.split('.').map(Str::from).collect();
        for document in self.matching(database, command)? {
            let mut found = Vec::new();
            reach(&Value::document(document), &path, &mut found);
            for value in found {
                if !values.iter().any(|known| compare_by(&collation, known, &value).is_eq()) {
                    values.push(value);
                }
            }
        }
        values.sort_by(|left, right| compare_by(&collation, left, right));
        Ok(Document::one("values", Value::array(values)))
    }
}

/// The values at a path, arrays taken apart.
fn reach(value: &Value, path: &[Str], found: &mut Vec<Value>) {
    match (value, path.split_first()) {
        (Value::Array(items), None) => found.extend(items.iter().cloned()),
        (Value::Missing, _) => {}
        (value, None) => found.push(value.clone()),
        (Value::Document(document), Some((name, rest))) => reach(&document.value(name), rest, found),
        (Value::Array(items), Some((name, rest))) => {
            if let Some(item) = name.parse::<usize>().ok().and_then(|at| items.get(at)) {
                reach(item, rest, found);
            }
            items
                .iter()
                .filter(|item| item.as_document().is_some())
                .for_each(|item| reach(item, path, found));
        }
        _ => {}
    }
}

fn cursor_reply(id: i64, namespace: &str, batch: &str, rows: Vec<Value>) -> Document {
    let mut cursor = Document::one("id", Value::Long(id));
    cursor.push("ns", Value::string(namespace));
    cursor.push(batch, Value::array(rows));
    Document::one("cursor", Value::document(cursor))
}

pub fn error_reply(error: &Error) -> Document {
    let mut reply = Document::one("ok", Value::Double(0.0));
    reply.push("errmsg", Value::string(error.message()));
    reply.push("code", Value::Int(error.code()));
    reply.push("codeName", Value::string(error.code_name()));
    reply
}

pub fn name_of(command: &Document) -> Result<String> {
    match command.first() {
        Some((_, Value::String(name))) if !name.is_empty() => Ok(name.to_string()),
        _ => wrong(73, "the name of a collection must be a string that is not empty"),
    }
}

pub fn document_of(command: &Document, name: &str) -> Result<Document> {
    match command.get(name) {
        None => Ok(Document::new()),
        Some(Value::Document(document)) => Ok((**document).clone()),
        Some(Value::Null) if matches!(name, "query" | "let") => Ok(Document::new()),
        Some(other) => wrong(14, &format!("'{name}' must be an object, is {}", other.type_name())),
    }
}

fn whole(command: &Document, name: &str, negative: i32) -> Result<Option<usize>> {
    match command.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.to_f64() {
            Some(number) if number < 0.0 => wrong(negative, &format!("'{name}' must not be negative")),
            Some(number) => Ok(Some(number as usize)),
            None => wrong(14, &format!("'{name}' must be a number")),
        },
    }
}

/// The collation that a command, a statement or an index states.
pub fn stated(command: &Document) -> Result<Option<Collation>> {
    match command.get("collation") {
        Some(Value::Document(collation)) if !collation.is_empty() => match collation_of(collation) {
            Ok(collation) => Ok(Some(collation)),
            Err(unsupported) => wrong(303, &unsupported.0),
        },
        _ => Ok(None),
    }
}

/// The sort of a `find`, with its own errors.
pub fn find_sort(order: &Document, collation: &Collation) -> Result<SortPattern> {
    SortPattern::parse(order, collation)
}

/// The scope and the values of `let`.
pub fn bound(lets: &Document, collation: &Collation) -> Result<(Scope, Env)> {
    Scope::with_variables(collation, lets, env())
}
