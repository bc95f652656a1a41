//! `getMore` and `killCursors`.

use std::time::Duration;

use shardlake_mql::{Document, Value};

use crate::arguments::{Field, Types, check_collection, optional, required, wrong_type};
use crate::call::{Call, Command, command};
use crate::cursors::{Killed, Wants};
use crate::errors::{Result, code, fail};
use crate::reply::{CursorReply, Reply};

/// Default time for which a cursor waits for new documents.
const WAIT: Duration = Duration::from_secs(1);

pub static CURSORS: &[Command] = &[
    command!("getMore", get_more).in_transaction().stable().with_batch(),
    command!("killCursors", kill_cursors).stable(),
];

async fn get_more(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        required("getMore", Types::LONG),
        required("collection", Types::STRING),
        optional("batchSize", Types::NUMBER),
        optional("term", Types::LONG),
        optional("lastKnownCommittedOpTime", Types::OBJECT),
        optional("includeQueryStatsMetrics", Types::BOOL),
    ];
    let arguments = call.arguments(FIELDS)?;
    let id = arguments.i64("getMore").unwrap_or_default();
    let collection = arguments.string("collection").unwrap_or_default();
    check_collection(call.database(), collection)?;
    let batch_size = arguments.count("batchSize")?;
    let namespace = format!("{}.{collection}", call.database());
    let mut cursor = call.deployment.cursors.borrow(id, &namespace, &call.owner())?;
    let waits = cursor.source().waits();
    let has_time =
        call.body.get("maxTimeMS").is_some_and(|value| !matches!(value, Value::Null | Value::Undefined));
    if has_time && !waits {
        fail!(code::BAD_VALUE, "cannot set maxTimeMS on getMore command for a non-awaitData cursor");
    }
    let (mut context, mut wait) = (call.context.clone(), Duration::ZERO);
    if waits {
        // The client's time limits the wait alone, not the reads after it.
        wait = match call.body.get("maxTimeMS").filter(|_| has_time).map(Value::to_f64) {
            None => WAIT.min(call.time_left()),
            // Of other commands zero is no limit.
            Some(Some(0.0)) => Duration::ZERO,
            Some(_) => call.time_left(),
        };
        let now = call.deployment.account.router().clock().elapsed();
        context.deadline = now + call.deployment.settings.request_timeout;
    }
    let wants = Wants {
        // `None` and zero set no limit besides the bytes.
        documents_max: batch_size.filter(|size| *size > 0),
        size_bytes_max: call.batch_bytes_max,
        wait,
        context,
        charged: call.charged.clone(),
        end: call.end.clone(),
    };
    let batch = match cursor.next(&wants).await {
        // Drivers regard the cursor as closed after these errors.
        Err(error) if matches!(error.code(), code::QUERY_PLAN_KILLED | code::CAPPED_POSITION_LOST) => {
            cursor.close();
            return Err(error);
        }
        batch => batch?,
    };
    let left = if batch.is_last { 0 } else { id };
    match batch.is_last {
        true => cursor.close(),
        false => cursor.settle()?,
    }
    let cursor = CursorReply {
        id: left,
        namespace,
        is_first: false,
        documents: batch.documents,
        resume_token: batch.resume_token,
    };
    Ok(Reply { fields: Document::new(), cursor: Some(cursor) })
}

async fn kill_cursors(call: &Call) -> Result<Reply> {
    call.collection()?;
    let arguments = call.arguments(&[required("cursors", Types::ARRAY)])?;
    let items = arguments.array("cursors").unwrap_or_default().iter().enumerate();
    let present = items.filter(|(_, item)| !matches!(item, Value::Null | Value::Undefined));
    let id = |(place, item): (usize, &Value)| match item {
        Value::Long(id) => Ok(*id),
        other => Err(wrong_type(&format!("killCursors.cursors.{place}"), other, Types::LONG)),
    };
    // All ids are parsed before a cursor is killed.
    let ids = present.map(id).collect::<Result<Vec<i64>>>()?;
    let owner = call.owner();
    let (mut killed, mut missing, mut alive) = (Vec::new(), Vec::new(), Vec::new());
    for id in ids {
        let list = match call.deployment.cursors.kill(id, &owner) {
            Killed::Yes => &mut killed,
            Killed::NotFound => &mut missing,
            Killed::Alive => &mut alive,
        };
        list.push(Value::Long(id));
    }
    let mut reply = Document::one("cursorsKilled", Value::array(killed));
    reply.push("cursorsNotFound", Value::array(missing));
    reply.push("cursorsAlive", Value::array(alive));
    reply.push("cursorsUnknown", Value::array(Vec::new()));
    Ok(reply.into())
}
