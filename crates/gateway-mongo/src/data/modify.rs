//! `findAndModify`: one document, changed and shown as one step.

use shardlake_account::collections::{Action, Done, Statement};
use shardlake_mql::{Document, Filter, FindProjection, Value};

use super::collation::check_collation;
use super::common::{check_created, document, sort};
use super::find::hinted_write;
use super::write::statement;
use crate::arguments::{Arguments, Field, Types, optional};
use crate::call::Call;
use crate::errors::{Result, code, fail};
use crate::reply::Reply;

const FIELDS: &[Field] = &[
    optional("query", Types::OBJECT),
    optional("sort", Types::OBJECT),
    optional("remove", Types::BOOL),
    optional("update", Types::OBJECT.or(Types::ARRAY)),
    optional("new", Types::BOOL),
    optional("fields", Types::OBJECT),
    optional("upsert", Types::BOOL),
    optional("bypassDocumentValidation", Types::BOOL),
    optional("collation", Types::OBJECT),
    optional("arrayFilters", Types::ARRAY),
    optional("hint", Types::STRING.or(Types::OBJECT)),
    optional("let", Types::OBJECT),
    optional("stmtId", Types::INTEGER),
    optional("runtimeConstants", Types::OBJECT),
];

/// What goes together: an update or a removal, and of a removal only what there was.
fn check_modes(arguments: &Arguments<'_>) -> Result<()> {
    let is = |name: &str| arguments.bool(name) == Some(true);
    let (removes, upserts, shows_new) = (is("remove"), is("upsert"), is("new"));
    let update = arguments.given("update");
    if removes {
        if update.is_some() {
            fail!(code::FAILED_TO_PARSE, "Cannot specify both an update and remove=true");
        }
        if upserts {
            fail!(code::FAILED_TO_PARSE, "Cannot specify both upsert=true and remove=true");
        }
        if shows_new {
            fail!(
                code::FAILED_TO_PARSE,
                "Cannot specify both new=true and remove=true; 'remove' always returns the deleted document"
            );
        }
        if arguments.given("arrayFilters").is_some() {
            fail!(code::FAILED_TO_PARSE, "Cannot specify arrayFilters and remove=true");
        }
    } else if update.is_none() {
        fail!(code::FAILED_TO_PARSE, "Either an update or remove=true must be specified");
    }
    Ok(())
}

pub async fn find_and_modify(call: &Call) -> Result<Reply> {
    let namespace = call.written_namespace()?;
    let arguments = call.arguments(FIELDS)?;
    check_collation(arguments.given("collation"))?;
    let is = |name: &str| arguments.bool(name) == Some(true);
    let (removes, upserts, shows_new) = (is("remove"), is("upsert"), is("new"));
    let update = arguments.given("update");
    check_modes(&arguments)?;
    let request = call.request();
    let lets = document(&arguments, "let");
    let (scope, mut env) = request.bound(&lets)?;
    let fields = document(&arguments, "fields");
    let projection = match fields.is_empty() {
        true => None,
        false => Some(FindProjection::parse(&fields, &scope)?),
    };
    let filter = document(&arguments, "query");
    let sort = sort(&document(&arguments, "sort"))?;
    let id = arguments.i64("stmtId").unwrap_or(0) as i32;
    if let Some(retryable) = &call.retryable
        && let Some(reply) = retryable.replay(id)?
    {
        return Ok(Document::clone(&reply).into());
    }
    let filter = hinted_write(call, &namespace, filter, (arguments.given("hint"), upserts))?;
    if upserts {
        check_created(&namespace)?;
    }
    let checks = arguments.bool("bypassDocumentValidation") != Some(true);
    let array_filters = arguments.array("arrayFilters").unwrap_or_default();
    let mut statement = match update {
        Some(update) => {
            statement(call, filter, (update, array_filters), &lets, (false, upserts), sort, checks)?
        }
        None => {
            let parsed = Filter::parse_ordering(&filter, &scope)?;
            let env = env.clone();
            Statement { filter, parsed, action: Action::Remove, is_multi: false, sort, env, checks: false }
        }
    };
    let Done { matched, upserted, before, after, met, .. } =
        call.collections().run_statement(&request, &namespace, &mut statement).await?;
    let mut last = Document::one("n", Value::Int(matched as i32));
    if !removes {
        last.push("updatedExisting", Value::Bool(matched > 0 && upserted.is_none()));
        if let Some(id) = &upserted {
            last.push("upserted", id.clone());
        }
    }
    let shown = if shows_new { after } else { before };
    let value = match (shown, &projection) {
        (None, _) => Value::Null,
        (Some(document), None) => Value::document(document),
        (Some(document), Some(projection)) => projection.apply(&Value::document(document), met, &mut env)?,
    };
    let mut reply = Document::one("lastErrorObject", Value::document(last));
    reply.push("value", value);
    if let Some(retryable) = &call.retryable {
        retryable.record(id, reply.clone());
    }
    Ok(reply.into())
}
