//! `explain`: how a command would be answered, and its cost. Nothing is written.

use shardlake_account::collections::{Access, Aggregation, Collection, Find, Found, Namespace, access};
use shardlake_mql::{Collation, Document, Filter, Pipeline, Value};

use super::common::{is_from_end, sort};
use super::find::{self, check_hint, source};
use super::{modify, write};
use crate::arguments::{self, Arguments, Field, Types, optional, required};
use crate::call::Call;
use crate::errors::{Result, code, error, fail};
use crate::reply::Reply;

mod counted;
mod sharded;

use counted::Counted;

/// Level of detail of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    Planner,
    Execution,
    AllPlans,
}

/// The read of a command.
struct Question {
    namespace: Namespace,
    filter: Document,
    sort: Document,
    hint: Option<Value>,
    collation: Option<Value>,
    skip: u64,
    limit: u64,
}

pub async fn explain(call: &Call) -> Result<Reply> {
    let arguments =
        call.arguments(&[required("explain", Types::OBJECT), optional("verbosity", Types::STRING)])?;
    let verbosity = match arguments.string("verbosity") {
        None | Some("allPlansExecution") => Verbosity::AllPlans,
        Some("executionStats") => Verbosity::Execution,
        Some("queryPlanner") => Verbosity::Planner,
        Some(other) => {
            fail!(
                code::BAD_VALUE,
                "Enumeration value '{other}' for field 'explain.verbosity' is not a valid value."
            )
        }
    };
    let Some(command) = arguments.document("explain") else { return Ok(Reply::ok()) };
    let Some((name, first)) = command.first() else {
        fail!(code::COMMAND_NOT_FOUND, "Explain failed due to unknown command: ");
    };
    if &**name == "aggregate" {
        return Box::pin(explain_aggregate(call, command, verbosity)).await;
    }
    let is_known = ["find", "count", "distinct", "update", "delete", "findAndModify", "findandmodify"];
    if !is_known.contains(&&**name) {
        let code = match (call.deployment.knows_command)(name) {
            true => code::ILLEGAL_OPERATION,
            false => code::COMMAND_NOT_FOUND,
        };
        return Err(error!(code, "Explain failed due to unknown command: {name}"));
    }
    let namespace = Namespace::new(call.database(), arguments::collection(call.database(), first)?);
    check_explained(name, command)?;
    let question = question(name, command, namespace)?;
    let told = Box::pin(answer(call, &question, verbosity)).await?;
    Ok(finished(told, command).into())
}

/// Checks that the explained command could be run.
fn check_explained(name: &str, command: &Document) -> Result<()> {
    let statements = |arguments: &Arguments<'_>, list: &str, fields: &[Field]| {
        arguments.documents(list)?.into_iter().try_for_each(|statement| {
            Arguments::of_document(&format!("{name}.{list}"), statement, fields).map(drop)
        })
    };
    match name {
        "find" => {
            let arguments = Arguments::of_command(command, find::FIND)?;
            ["limit", "skip", "batchSize"].iter().try_for_each(|count| arguments.count(count).map(drop))
        }
        "count" => Arguments::of_command(command, find::COUNT)?.count("skip").map(drop),
        "distinct" => Arguments::of_command(command, find::DISTINCT).map(drop),
        "update" => {
            statements(&Arguments::of_command(command, write::UPDATE)?, "updates", write::UPDATE_STATEMENT)
        }
        "delete" => {
            statements(&Arguments::of_command(command, write::DELETE)?, "deletes", write::DELETE_STATEMENT)
        }
        _ => Arguments::of_command(command, modify::FIELDS).map(drop),
    }
}

fn question(name: &str, command: &Document, namespace: Namespace) -> Result<Question> {
    let of = |from: &Document, field: &str| match from.get(field) {
        Some(Value::Document(found)) => Ok(Document::clone(found)),
        None | Some(Value::Null) => Ok(Document::new()),
        Some(other) => {
            fail!(
                code::TYPE_MISMATCH,
                "BSON field '{name}.{field}' is the wrong type '{}', expected type 'object'",
                other.type_name()
            )
        }
    };
    let first_of = |field: &str| match command.get(field) {
        Some(Value::Array(items)) => {
            items.first().and_then(Value::as_document).map(|item| Document::clone(item))
        }
        _ => None,
    };
    let count =
        |field: &str| command.get(field).and_then(Value::to_i64_exact).and_then(|n| u64::try_from(n).ok());
    let mut question = Question {
        namespace,
        filter: Document::new(),
        sort: Document::new(),
        hint: command.get("hint").cloned(),
        collation: command.get("collation").cloned(),
        skip: count("skip").unwrap_or(0),
        limit: count("limit").unwrap_or(0),
    };
    match name {
        "find" => {
            question.filter = of(command, "filter")?;
            question.sort = of(command, "sort")?;
        }
        "update" | "delete" => {
            let field = if name == "update" { "updates" } else { "deletes" };
            let Some(statement) = first_of(field) else {
                fail!(code::MISSING_FIELD, "BSON field '{name}.{field}' is missing but a required field");
            };
            question.filter = of(&statement, "q")?;
            question.hint = statement.get("hint").cloned();
            question.collation = statement.get("collation").cloned();
        }
        "findAndModify" | "findandmodify" => {
            question.filter = of(command, "query")?;
            question.sort = of(command, "sort")?;
            question.limit = 1;
        }
        _ => question.filter = of(command, "query")?,
    }
    Ok(question)
}

/// The planner's part of the answer and, if requested, that of an execution.
async fn answer(call: &Call, question: &Question, verbosity: Verbosity) -> Result<Document> {
    let request = call.request();
    let collation = call.collation(&question.namespace, question.collation.as_ref())?;
    let (scope, env) = request.bound(&collation, &Document::new())?;
    let parsed = Filter::parse_ordering(&question.filter, &scope)?;
    let order = sort(&question.sort, &collation)?;
    let found = call.collections().find_name(&question.namespace)?;
    let collection = match &found {
        Found::Collection(collection) => Some(collection),
        _ => None,
    };
    if let Some(collection) = collection {
        check_hint(collection, question.hint.as_ref(), (&question.filter, parsed.near().is_some()))?;
        collection.check_near(&parsed)?;
    }
    let is_sorted = !order.is_empty() && !order.is_from_end();
    let asked = collection.filter(|collection| collection.is_sharded());
    let asked = asked.map(|collection| (collection, collection.asked(&question.filter, &collation)));
    let mut plan = planner(question, (collection, &collation), is_sorted);
    if let Some((_, asked)) = &asked {
        plan = sharded::planner(plan, asked, is_sorted);
    }
    let mut told = Document::one("explainVersion", "1");
    told.push("queryPlanner", Value::document(plan));
    if verbosity == Verbosity::Planner {
        return Ok(told);
    }
    let find = Find {
        filter: question.filter.clone(),
        parsed,
        projection: None,
        sort: order,
        skip: question.skip,
        limit: question.limit,
        env,
    };
    let stage = stage_name(question, (collection, &collation), is_sorted);
    let stats = match &asked {
        Some((collection, asked)) if asked.len() > 1 => {
            sharded::execution_of_all(call, collection, asked, &find, stage).await?
        }
        _ => {
            let parsed = (&question.filter, &find.parsed);
            let order = (question.hint.as_ref(), find.sort.is_from_end());
            let source = source(call, &request, &question.namespace, parsed, order).await?;
            let counted = Counted::run(call, &request, find, source).await?;
            match asked.as_ref().and_then(|(collection, asked)| Some((collection, asked.first()?))) {
                Some((collection, asked)) => sharded::execution_of_one(collection, *asked, &counted, stage),
                None => counted.shown(stage),
            }
        }
    };
    told.push("executionStats", Value::document(with_plans(stats, verbosity)));
    Ok(told)
}

fn with_plans(mut stats: Document, verbosity: Verbosity) -> Document {
    if verbosity == Verbosity::AllPlans {
        stats.push("allPlansExecution", Value::array(Vec::new()));
    }
    stats
}

fn stage_name(
    question: &Question,
    (collection, collation): (Option<&Collection>, &Collation),
    is_sorted: bool,
) -> &'static str {
    match (collection, access_of(question, collection, collation)) {
        (None, _) => "EOF",
        (_, _) if is_sorted => "SORT",
        (_, Access::Identity) => "IDHACK",
        (_, Access::Index(_)) => "FETCH",
        (_, Access::Scan) => "COLLSCAN",
    }
}

fn access_of(question: &Question, collection: Option<&Collection>, collation: &Collation) -> Access {
    collection.map_or(Access::Scan, |collection| {
        access(&question.filter, collation, collection.shard_key(), &collection.indexes())
    })
}

fn planner(
    question: &Question,
    (collection, collation): (Option<&Collection>, &Collation),
    is_sorted: bool,
) -> Document {
    let mut stage = match (collection, access_of(question, collection, collation)) {
        (None, _) => Document::one("stage", "EOF"),
        (_, Access::Identity) => Document::one("stage", "IDHACK"),
        (_, Access::Scan) => {
            let mut stage = Document::one("stage", "COLLSCAN");
            stage.push("filter", Value::document(question.filter.clone()));
            let hint = question.hint.as_ref().and_then(Value::as_document);
            let is_backward = is_from_end(&question.sort) || hint.is_some_and(|hint| is_from_end(hint));
            stage.push("direction", Value::string(if is_backward { "backward" } else { "forward" }));
            stage
        }
        (Some(collection), Access::Index(name)) => {
            let index =
                collection.indexes().into_iter().find(|index| index.value("name").as_str() == Some(&name));
            let mut scan = Document::one("stage", "IXSCAN");
            scan.push("keyPattern", index.map(|index| index.value("key")).unwrap_or_default());
            scan.push("indexName", Value::string(&name));
            let mut stage = Document::one("stage", "FETCH");
            stage.push("filter", Value::document(question.filter.clone()));
            stage.push("inputStage", Value::document(scan));
            stage
        }
    };
    if is_sorted {
        let mut sort = Document::one("stage", "SORT");
        sort.push("sortPattern", Value::document(question.sort.clone()));
        sort.push("inputStage", Value::document(stage));
        stage = sort;
    }
    let mut planner = Document::one("namespace", question.namespace.to_string().as_str());
    planner.push("indexFilterSet", Value::Bool(false));
    planner.push("parsedQuery", Value::document(question.filter.clone()));
    planner.push("winningPlan", Value::document(stage));
    planner.push("rejectedPlans", Value::array(Vec::new()));
    planner
}

fn finished(mut told: Document, command: &Document) -> Document {
    told.push("command", Value::document(command.clone()));
    let mut server = Document::one("host", "shardlake");
    server.push("version", Value::string(env!("CARGO_PKG_VERSION")));
    told.push("serverInfo", Value::document(server));
    told
}

/// Whether a `find` could run these stages. They are then shown as one plan.
fn is_plain(stages: &[Value]) -> bool {
    stages.iter().filter_map(Value::as_document).all(|stage| {
        stage.first().is_some_and(|(name, _)| matches!(&**name, "$match" | "$sort" | "$limit" | "$skip"))
    })
}

/// Explanation of a pipeline: its read, followed by the stages that process the documents read.
pub async fn explain_aggregate(call: &Call, command: &Document, verbosity: Verbosity) -> Result<Reply> {
    let Some(Value::Array(stages)) = command.get("pipeline") else {
        fail!(code::MISSING_FIELD, "BSON field 'aggregate.pipeline' is missing but a required field");
    };
    let collection = match command.first() {
        Some((_, value @ Value::String(_))) => {
            Some(arguments::collection(call.database(), value)?.to_owned())
        }
        _ => None,
    };
    let request = call.request();
    let variables = command.get("let").and_then(Value::as_document).map(|found| Document::clone(found));
    let name = collection.clone().unwrap_or_else(|| "$cmd.aggregate".to_owned());
    let namespace = Namespace::new(call.database(), name);
    let collation = call.collation(&namespace, command.get("collation"))?;
    let (scope, env) = request.bound(&collation, &variables.unwrap_or_default())?;
    let parsed = Pipeline::parse(stages, &scope)?;
    let first = stages.first().and_then(Value::as_document).and_then(|stage| stage.get("$match"));
    let filter = first.and_then(Value::as_document).map(|filter| Document::clone(filter)).unwrap_or_default();
    let hint = command.get("hint").cloned();
    let (sort, stated) = (Document::new(), None);
    let question = Question { namespace, filter, sort, hint, collation: stated, skip: 0, limit: 0 };
    let found = match call.collections().find_name(&question.namespace)? {
        Found::Collection(found) => Some(found),
        _ => None,
    };
    if let Some(found) = &found {
        check_hint(found, question.hint.as_ref(), (&question.filter, false))?;
    }
    let mut cursor = Document::one(
        "queryPlanner",
        Value::document(planner(&question, (found.as_ref(), &collation), false)),
    );
    if verbosity != Verbosity::Planner {
        let started = call.deployment.account.router().clock().elapsed();
        let read: Vec<Value> = match parsed.output() {
            Some(_) => stages[..stages.len() - 1].to_vec(),
            None => stages.to_vec(),
        };
        let database = call.database().to_owned();
        let aggregation = Aggregation { database, collection, stages: read, is_from_end: false, scope, env };
        let rows = call.collections().aggregate(aggregation)?.all(&request).await?;
        let took = call.deployment.account.router().clock().elapsed().saturating_sub(started);
        let (documents, keys) = request.examined();
        let counted = Counted {
            returned: rows.len() as u64,
            documents,
            keys,
            charge_centi: request.charge_centi(),
            milliseconds: took.as_millis() as u64,
        };
        let stats = counted.shown(stage_name(&question, (found.as_ref(), &collation), false));
        cursor.push("executionStats", Value::document(with_plans(stats, verbosity)));
    }
    let mut told = Document::one("explainVersion", "1");
    if is_plain(stages) {
        cursor.iter().for_each(|(name, value)| told.push(name.clone(), value.clone()));
    } else {
        let mut shown = vec![Value::document(Document::one("$cursor", Value::document(cursor)))];
        let behind = usize::from(first.is_some());
        shown.extend(stages[behind..].iter().cloned());
        told.push("stages", Value::array(shown));
    }
    Ok(finished(told, command).into())
}
