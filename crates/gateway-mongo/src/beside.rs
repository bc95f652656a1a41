//! Commands with expressions of their clients run beside the threads that serve connections.
//!
//! An expression may take as long as its command may. On such a thread it would stop all clients of both APIs for that time, and its own
//! client could neither end it nor be seen to have gone. Pipelines (`aggregate`) do their work beside those threads by themselves.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use shardlake_mql::Document;
use tokio::runtime::Handle;

use crate::call::Connection;
use crate::deployment::Deployment;
use crate::dispatch::{self, Answered, Asked};
use crate::errors::{code, error};
use crate::expressions::has_expression;

/// [`dispatch::answer`], wherever the command has to run.
pub fn answer<'a>(
    deployment: &'a Arc<Deployment>,
    connection: &'a Arc<Connection>,
    asked: Asked,
) -> BoxFuture<'a, Answered> {
    if !is_evaluated(deployment, &asked.body) {
        // In memory of its own: a connection that waits for its client should be small.
        return dispatch::answer(deployment, connection, asked).boxed();
    }
    let (deployment, connection) = (deployment.clone(), connection.clone());
    let answering = async move {
        let waiting = deployment.places.0.clone().acquire_owned();
        let Ok(Ok(_place)) = tokio::time::timeout(deployment.settings.request_timeout, waiting).await else {
            let error = error!(code::MAX_TIME_EXPIRED, "too many commands evaluate expressions: retry");
            return dispatch::failed("", &error);
        };
        let runtime = Handle::current();
        let work = move || runtime.block_on(dispatch::answer(&deployment, &connection, asked));
        let answered = tokio::task::spawn_blocking(work).await;
        answered.unwrap_or_else(|_| {
            dispatch::failed("", &error!(code::INTERNAL_ERROR, "a defect of the server: see its log"))
        })
    };
    answering.boxed()
}

fn is_evaluated(deployment: &Deployment, body: &Document) -> bool {
    match body.first() {
        Some((name, id)) if &**name == "getMore" => {
            id.to_i64_exact().is_some_and(|id| deployment.cursors.is_evaluated(id))
        }
        Some((name, _)) => has_expression(name, body),
        None => false,
    }
}
