//! Commands on sessions. The end of a session ends its cursors.

use std::collections::HashSet;
use std::sync::Arc;

use shardlake_mql::{Document, Value};

use crate::arguments::{Arguments, Field, SessionId, Types, required, wrong_type};
use crate::call::{Call, Command, command};
use crate::errors::Result;
use crate::reply::Reply;
use crate::sessions::{SessionKey, TIMEOUT_MINUTES};

pub static SESSIONS: &[Command] = &[
    command!("startSession", start_session),
    command!("refreshSessions", refresh_sessions).stable(),
    command!("endSessions", end_sessions).open().stable(),
    command!("killSessions", kill_sessions),
    command!("killAllSessions", kill_all_sessions),
    command!("killAllSessionsByPattern", kill_all_sessions_by_pattern),
];

fn user(call: &Call) -> Option<Arc<str>> {
    call.principal.as_ref().map(|principal| principal.key())
}

async fn start_session(call: &Call) -> Result<Reply> {
    call.arguments(&[])?;
    let session = call.deployment.sessions.start(user(call))?;
    let mut reply = Document::one("id", session.key.id.document());
    reply.push("timeoutMinutes", Value::Int(TIMEOUT_MINUTES));
    Ok(reply.into())
}

/// The sessions of this user that the command names. A set, because a client may name a million and a server may have as many.
fn named(call: &Call) -> Result<HashSet<SessionKey>> {
    let name = call.name;
    let arguments = Arguments::of_open_command(&call.body, &[required(name, Types::ARRAY)])?;
    let user = user(call);
    let key = |document: &Arc<Document>| -> Result<SessionKey> {
        Ok(SessionKey { id: SessionId::parse(name, document)?, user: user.clone() })
    };
    present(name, arguments.array(name).unwrap_or_default())?.into_iter().map(key).collect()
}

/// The documents of an array; nulls in it are ignored.
fn present<'b>(name: &str, items: &'b [Value]) -> Result<Vec<&'b Arc<Document>>> {
    let items = items.iter().enumerate().filter(|(_, item)| !matches!(item, Value::Null | Value::Undefined));
    let document = |(place, item): (usize, &'b Value)| {
        item.as_document().ok_or_else(|| wrong_type(&format!("{name}.{place}"), item, Types::OBJECT))
    };
    items.map(document).collect()
}

fn end(call: &Call, ends: impl Fn(&SessionKey) -> bool) {
    call.deployment.sessions.end(&ends);
    call.deployment.cursors.kill_of_sessions(|owner| {
        owner.session.is_some_and(|id| ends(&SessionKey { id, user: owner.user.clone() }))
    });
}

/// Ends sessions with the commands that run in them.
fn kill(call: &Call, ends: impl Fn(&SessionKey) -> bool) {
    call.deployment.operations.kill_of_sessions(&ends);
    end(call, ends);
}

async fn refresh_sessions(call: &Call) -> Result<Reply> {
    let keys = named(call)?;
    call.deployment.sessions.refresh(&keys);
    Ok(Reply::ok())
}

async fn end_sessions(call: &Call) -> Result<Reply> {
    let keys = named(call)?;
    end(call, |key| keys.contains(key));
    Ok(Reply::ok())
}

async fn kill_sessions(call: &Call) -> Result<Reply> {
    let keys = named(call)?;
    if keys.is_empty() {
        // All sessions of the user.
        let user = user(call);
        kill(call, |key| key.user == user);
    } else {
        kill(call, |key| keys.contains(key));
    }
    Ok(Reply::ok())
}

async fn kill_all_sessions(call: &Call) -> Result<Reply> {
    const USER: &[Field] = &[required("user", Types::STRING), required("db", Types::STRING)];
    let fields = [required("killAllSessions", Types::ARRAY)];
    let arguments = Arguments::of_open_command(&call.body, &fields)?;
    let mut users = HashSet::new();
    let items = arguments.array("killAllSessions").unwrap_or_default();
    for document in present("killAllSessions", items)? {
        let fields = Arguments::of_document("killAllSessions", document, USER)?;
        let name = |name| fields.string(name).unwrap_or_default();
        users.insert(Some(Arc::<str>::from(format!("{}.{}", name("db"), name("user")))));
    }
    kill(call, |key| items.is_empty() || users.contains(&key.user));
    Ok(Reply::ok())
}

async fn kill_all_sessions_by_pattern(call: &Call) -> Result<Reply> {
    let name = call.name;
    let arguments = Arguments::of_open_command(&call.body, &[required(name, Types::ARRAY)])?;
    let items = arguments.array(name).unwrap_or_default();
    let patterns = present(name, items)?;
    let mut ids = HashSet::new();
    for pattern in &patterns {
        const PATTERN: &[Field] = &[required("lsid", Types::OBJECT)];
        if pattern.is_empty() {
            continue;
        }
        let fields = Arguments::of_document(name, pattern, PATTERN)?;
        if let Some(document) = fields.document("lsid") {
            ids.insert(SessionId::parse("lsid", document)?);
        }
    }
    let is_all = items.is_empty() || patterns.iter().any(|pattern| pattern.is_empty());
    kill(call, |key| is_all || ids.contains(&key.id));
    Ok(Reply::ok())
}
