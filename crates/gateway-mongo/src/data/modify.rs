//! `findAndModify`: one document, changed and shown as one step.

use std::sync::Arc;

use shardlake_account::collections::{Failure, Statement};
use shardlake_model::Derived;
use shardlake_mql::Document;
use shardlake_mql::write::{
    ActionSource, AnswerForm, DocumentStep, ProjectionSource, ShownDocument, StepSource,
};

use super::common::{check_created, document, sort};
use super::find::hinted_write;
use super::write::statement;
use crate::arguments::{Arguments, Field, Types, hint, optional};
use crate::call::Call;
use crate::errors::{Result, code, fail};
use crate::reply::Reply;

pub const FIELDS: &[Field] = &[
    optional("query", Types::OBJECT).coded(code::FAILED_TO_PARSE),
    optional("sort", Types::OBJECT).coded(code::FAILED_TO_PARSE),
    optional("remove", Types::BOOL),
    optional("update", Types::OBJECT.or(Types::ARRAY)).coded(code::FAILED_TO_PARSE),
    optional("new", Types::BOOL),
    optional("fields", Types::OBJECT).coded(code::FAILED_TO_PARSE),
    optional("upsert", Types::BOOL),
    optional("bypassDocumentValidation", Types::BOOL),
    optional("bypassEmptyTsReplacement", Types::BOOL_ONLY),
    optional("collation", Types::OBJECT),
    optional("arrayFilters", Types::ARRAY).coded(code::FAILED_TO_PARSE),
    hint(),
    optional("let", Types::OBJECT),
    optional("stmtId", Types::INTEGER),
    optional("runtimeConstants", Types::OBJECT),
];

/// Refuses contradictory options: a command either updates or removes, and a removal can only return the old document.
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

/// The failure of a change, with the reference's prefix.
fn in_execution(failure: Failure) -> Failure {
    if !failure.is_of_document {
        return failure;
    }
    let message = format!("Plan executor error during findAndModify :: caused by :: {}", failure.message);
    Failure { message, ..failure }
}

pub async fn find_and_modify(call: &Call) -> Result<Reply> {
    let namespace = call.written_namespace()?;
    let arguments = call.arguments(FIELDS)?;
    let collation = call.collation(&namespace, arguments.given("collation"))?;
    let is = |name: &str| arguments.bool(name) == Some(true);
    let (removes, upserts, shows_new) = (is("remove"), is("upsert"), is("new"));
    let update = arguments.given("update");
    check_modes(&arguments)?;
    let request = call.request();
    let lets = document(&arguments, "let");
    let (scope, env) = request.bound(&collation, &lets)?;
    let fields = document(&arguments, "fields");
    let projection = match fields.is_empty() {
        true => None,
        false => Some(Derived::of(ProjectionSource { fields, scope: scope.clone() })?),
    };
    let filter = document(&arguments, "query");
    let sort = sort(&document(&arguments, "sort"), &collation)?;
    let id = arguments.i64("stmtId").unwrap_or(0) as i32;
    if let Some(retryable) = &call.retryable
        && let Some(reply) = retryable.replay(id)?
    {
        return Ok(Document::clone(&reply).into());
    }
    let filter = hinted_write(call, &namespace, (filter, &collation), (arguments.given("hint"), upserts))?;
    if upserts {
        check_created(&namespace)?;
    }
    let checks = arguments.bool("bypassDocumentValidation") != Some(true);
    let array_filters = arguments.array("arrayFilters").unwrap_or_default();
    let mut statement = match update {
        Some(update) => statement(
            call,
            filter,
            (update, array_filters),
            (&lets, &collation),
            (false, upserts),
            sort,
            checks,
        )?,
        None => {
            let step = DocumentStep::of(StepSource { filter, action: ActionSource::Remove, scope })?;
            Statement {
                step: Arc::new(step),
                is_upsert: false,
                is_multi: false,
                sort,
                env: env.clone(),
                checks: false,
                numbered: None,
            }
        }
    };
    let form = AnswerForm::FindAndModify(Arc::new(ShownDocument { removes, shows_new, projection, env }));
    statement.numbered = call.numbered(id, &form);
    let done = call.collections().run_statement(&request, &namespace, &mut statement).await;
    let done = done.map_err(in_execution)?;
    let reply = form.answer(done.summary())?;
    if let Some(retryable) = &call.retryable {
        retryable.record(id, reply.clone());
    }
    Ok(reply.into())
}
