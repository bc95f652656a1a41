//! First stages of pipelines that report the server's state: `$currentOp`, `$listLocalSessions`, `$listSessions`, `$planCacheStats`,
//! `$querySettings`, `$queryStats`, `$listClusterCatalog`, `$shardedDataDistribution`. Those of one collection are in `statistics.rs`.
//!
//! Plans are made anew for every query, and there are neither settings nor statistics of queries: the stages for those answer no documents.

use std::sync::Arc;

use shardlake_account::collections::Namespace;
use shardlake_mql::{Document, Value};

use super::statistics;
use crate::access::Mechanism;
use crate::arguments::{Arguments, ReadLevel};
use crate::call::Call;
use crate::commands::describe_operation;
use crate::errors::{Result, code, fail};

/// The documents of a first stage that the server answers; `None` for a pipeline that begins otherwise.
pub fn answered(
    call: &Call,
    namespace: &Namespace,
    has_collection: bool,
    stages: &[Value],
) -> Result<Option<Vec<Value>>> {
    let first = stages.first().and_then(Value::as_document).filter(|stage| stage.len() == 1);
    let Some((name, options)) = first.and_then(|stage| stage.first()) else { return Ok(None) };
    let documents = match &**name {
        "$currentOp" => current_op(call, has_collection, options)?,
        "$listLocalSessions" => {
            check_without_collection(name, has_collection)?;
            sessions(call, name, options)?
        }
        "$listSessions" => {
            if &*namespace.database != "config" || &*namespace.collection != "system.sessions" {
                fail!(
                    code::INVALID_NAMESPACE,
                    "$listSessions may only be run against config.system.sessions"
                );
            }
            sessions(call, name, options)?
        }
        "$planCacheStats" => {
            if !has_collection {
                fail!(code::INVALID_NAMESPACE, "$planCacheStats is only valid on a collection");
            }
            check_local(call, name)?;
            Arguments::of_stage(name, options)?;
            Vec::new()
        }
        "$querySettings" => {
            check_without_collection(name, has_collection)?;
            Arguments::of_stage(name, options)?;
            Vec::new()
        }
        "$queryStats" => {
            check_admin(call, name, has_collection)?;
            Arguments::of_stage(name, options)?;
            Vec::new()
        }
        "$shardedDataDistribution" => {
            check_admin(call, name, has_collection)?;
            Arguments::of_stage(name, options)?;
            statistics::data_distribution(call)?
        }
        "$listClusterCatalog" => cluster_catalog(call, has_collection, options)?,
        _ => return statistics::answered_stage(call, namespace, has_collection, stages),
    };
    Ok(Some(documents))
}

fn check_without_collection(stage: &str, has_collection: bool) -> Result<()> {
    if has_collection {
        fail!(code::INVALID_NAMESPACE, "{stage} must be run against a database with {{aggregate: 1}}");
    }
    Ok(())
}

fn check_admin(call: &Call, stage: &str, has_collection: bool) -> Result<()> {
    if has_collection || call.database() != "admin" {
        fail!(
            code::INVALID_NAMESPACE,
            "{stage} must be run against the 'admin' database with {{aggregate: 1}}"
        );
    }
    Ok(())
}

/// Refuses read concerns other than `local` for state in this server's memory.
fn check_local(call: &Call, stage: &str) -> Result<()> {
    let level = call.generic.read_concern.and_then(|concern| concern.level);
    match level {
        None | Some(ReadLevel::Local) => Ok(()),
        Some(level) => fail!(
            code::INVALID_OPTIONS,
            "Aggregation stage {stage} cannot run with a readConcern other than 'local'. Current readConcern: {}",
            level.name()
        ),
    }
}

fn current_op(call: &Call, has_collection: bool, options: &Value) -> Result<Vec<Value>> {
    check_admin(call, "$currentOp", has_collection)?;
    check_local(call, "$currentOp")?;
    let options = Arguments::of_stage("$currentOp", options)?;
    let is = |name: &str| options.bool(name) == Some(true);
    if is("targetAllNodes") {
        fail!(code::FAILED_TO_PARSE, "$currentOp with targetAllNodes is not supported: there is one node");
    }
    let operations = call.deployment.operations.list();
    let mut shown: Vec<Value> =
        operations.iter().map(|operation| describe_operation(call, operation).into()).collect();
    if is("idleCursors") {
        shown.extend(call.deployment.cursors.idle().into_iter().map(|(id, namespace)| {
            let mut cursor = Document::one("cursorId", Value::Long(id));
            cursor.push("tailable", Value::Bool(false));
            let mut described = Document::one("type", "idleCursor");
            described.push("ns", Value::string(namespace));
            described.push("cursor", cursor.into());
            described.into()
        }));
    }
    if is("idleSessions") {
        for (key, _) in call.deployment.sessions.list() {
            let mut described = Document::one("type", "idleSession");
            described.push("lsid", named(&key.id.document(), key.user.as_deref()).into());
            described.push("active", Value::Bool(false));
            shown.push(described.into());
        }
    }
    Ok(shown)
}

/// The id of a session with a digest of its user.
fn named(id: &Document, user: Option<&str>) -> Document {
    let mut named = id.clone();
    let digest = Mechanism::Sha256.digest(user.unwrap_or_default().as_bytes());
    named.push("uid", Value::Binary(0, digest.into()));
    named
}

fn sessions(call: &Call, stage: &str, options: &Value) -> Result<Vec<Value>> {
    check_local(call, stage)?;
    let options = Arguments::of_stage(stage, options)?;
    let is_all = options.bool("allUsers") == Some(true);
    if is_all && options.given("users").is_some() {
        fail!(12, "{stage} may not specify {{allUsers: true}} and {{users: [...]}} at the same time");
    }
    let mut users = Vec::new();
    for user in options.documents("users")? {
        let part = |name| user.get(name).and_then(Value::as_str).unwrap_or_default();
        users.push(format!("{}.{}", part("db"), part("user")));
    }
    let own = call.principal.as_ref().map(|principal| principal.key());
    let is_wanted = |user: &Option<Arc<str>>| match options.given("users") {
        _ if is_all => true,
        Some(_) => user.as_deref().is_some_and(|user| users.iter().any(|wanted| wanted == user)),
        None => *user == own,
    };
    let (now, since) =
        (call.context.now.milliseconds() as i64, call.deployment.account.router().clock().elapsed());
    let listed = call.deployment.sessions.list().into_iter().filter(|(key, _)| is_wanted(&key.user));
    let shown = listed.map(|(key, last_used)| {
        let unused = since.saturating_sub(last_used).as_millis() as i64;
        let mut shown = Document::one("_id", named(&key.id.document(), key.user.as_deref()));
        shown.push("lastUse", Value::Date(now - unused));
        shown.into()
    });
    Ok(shown.collect())
}

fn cluster_catalog(call: &Call, has_collection: bool, options: &Value) -> Result<Vec<Value>> {
    const STAGE: &str = "$listClusterCatalog";
    check_without_collection(STAGE, has_collection)?;
    let options = Arguments::of_stage(STAGE, options)?;
    for option in ["shards", "balancingConfiguration", "tracked"] {
        if options.bool(option) == Some(true) {
            fail!(code::NOT_IMPLEMENTED, "{STAGE} with {option} is not supported");
        }
    }
    let collections = call.collections();
    let databases: Vec<String> = match call.database() {
        "admin" => collections.databases().iter().map(|database| database.id.to_string()).collect(),
        database => vec![database.to_owned()],
    };
    let mut shown = Vec::new();
    for database in databases {
        for listed in collections.list(&database)? {
            let mut entry = Document::one("db", database.as_str());
            entry.push("ns", Value::string(format!("{database}.{}", listed.name)));
            let kind = if listed.view.is_some() { "view" } else { "collection" };
            entry.push("type", Value::string(kind));
            if let Some(collection) = &listed.collection {
                entry.push("options", Value::document(collection.meta.options.clone()));
                entry.push("sharded", Value::Bool(collection.is_sharded()));
                if let Some(pattern) = collection.meta.shard_key_pattern(collection.shard_key()) {
                    entry.push("shardKey", Value::document(pattern));
                }
            }
            shown.push(Value::document(entry));
        }
    }
    Ok(shown)
}
