//! `serverStatus` and `hostInfo`: the server's counters, and facts about the machine. Sections without real data are left out.

use std::sync::atomic::{AtomicU64, Ordering};

use shardlake_account::collections::Collection;
use shardlake_mql::{Document, Value};

use super::version::version_text;
use crate::call::Call;
use crate::deployment::Counters;
use crate::errors::Result;
use crate::reply::Reply;

pub async fn server_status(call: &Call) -> Result<Reply> {
    Ok(status(call).into())
}

/// `getDiagnosticData`: the server status within the section that MongoDB samples for its own diagnosis. Some monitors read it instead.
pub async fn diagnostic_data(call: &Call) -> Result<Reply> {
    call.arguments(&[])?;
    let now = || Value::Date(call.deployment.account.router().clock().now().milliseconds() as i64);
    let start = now();
    let mut section = Document::one("start", start.clone());
    status(call).iter().for_each(|(name, value)| section.push(name.clone(), value.clone()));
    section.push("end", now());
    let mut data = Document::one("start", start);
    data.push("serverStatus", section.into());
    data.push("end", now());
    Ok(Document::one("data", data).into())
}

fn status(call: &Call) -> Document {
    let deployment = &call.deployment;
    let up = deployment.account.router().clock().elapsed().saturating_sub(deployment.started);
    let mut reply = Document::new();
    reply.push("host", Value::string(call.connection.ends.server.to_string()));
    reply.push("version", Value::string(version_text()));
    reply.push("process", Value::string("mongos"));
    reply.push("pid", Value::Long(i64::from(std::process::id())));
    reply.push("uptime", Value::Double(up.as_secs() as f64));
    reply.push("uptimeMillis", Value::Long(up.as_millis() as i64));
    reply.push("uptimeEstimate", Value::Long(up.as_secs() as i64));
    reply.push("localTime", Value::Date(call.context.now.milliseconds() as i64));
    reply.push("connections", connections(&deployment.counters, deployment.settings.connections_max).into());
    reply.push("asserts", asserts(&deployment.counters).into());
    reply.push("globalLock", Document::one("totalTime", up.as_micros() as i64).into());
    reply.push("network", network(&deployment.counters).into());
    reply.push("opcounters", operations(&deployment.counters).into());
    reply.push("logicalSessionRecordCache", sessions(call).into());
    reply.push("catalogStats", catalog(call).into());
    if let Some(memory) = memory() {
        reply.push("mem", memory.into());
    }
    reply.push("storageEngine", Document::one("name", "shardlake").into());
    reply.push("metrics", metrics(call).into());
    reply
}

fn long(counter: &AtomicU64) -> Value {
    Value::Long(counter.load(Ordering::Relaxed) as i64)
}

fn connections(counters: &Counters, connections_max: usize) -> Document {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let current = counters.connections.load(Ordering::Relaxed);
    let mut section = Document::one("current", number(current));
    section.push("available", Value::Int(number(connections_max.saturating_sub(current))));
    section.push("totalCreated", long(&counters.connections_made));
    section
}

/// Counts of errors. Failed commands count as user errors; faults of the server itself are in its log.
fn asserts(counters: &Counters) -> Document {
    let mut section = Document::one("regular", 0);
    section.push("warning", Value::Int(0));
    section.push("msg", Value::Int(0));
    section.push("user", long(&counters.failures));
    section.push("rollovers", Value::Int(0));
    section
}

fn catalog(call: &Call) -> Document {
    let containers = call.deployment.account.statistics().containers;
    let mut section = Document::one("collections", i32::try_from(containers).unwrap_or(i32::MAX));
    let collections = call.deployment.account.collections();
    let views = |database: &str| collections.database_meta(database).map_or(0, |meta| meta.views.len());
    let views: usize = collections.databases().iter().map(|database| views(&database.id)).sum();
    section.push("views", Value::Int(i32::try_from(views).unwrap_or(i32::MAX)));
    let listed = |database: &str| collections.list(database).unwrap_or_default();
    let is_capped = |collection: &Collection| collection.meta.is_capped();
    let capped = |database: &str| {
        listed(database).iter().filter(|listed| listed.collection.as_ref().is_some_and(is_capped)).count()
    };
    let capped: usize = collections.databases().iter().map(|database| capped(&database.id)).sum();
    section.push("capped", Value::Int(i32::try_from(capped).unwrap_or(i32::MAX)));
    section.push("timeseries", Value::Int(0));
    section
}

/// Memory in megabytes, as the operating system reports it; `None` where it does not.
fn memory() -> Option<Document> {
    const PAGE_SIZE_BYTES: u64 = 4096;
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split_ascii_whitespace().map(str::parse::<u64>);
    let mut next = || pages.next()?.ok().map(|pages| ((pages * PAGE_SIZE_BYTES) >> 20) as i32);
    let (total, resident) = (next()?, next()?);
    let mut section = Document::one("bits", usize::BITS as i32);
    section.push("resident", Value::Int(resident));
    section.push("virtual", Value::Int(total));
    section.push("supported", Value::Bool(true));
    Some(section)
}

fn network(counters: &Counters) -> Document {
    let mut section = Document::one("bytesIn", long(&counters.bytes_in));
    section.push("bytesOut", long(&counters.bytes_out));
    section.push("numRequests", long(&counters.requests));
    section
}

fn operations(counters: &Counters) -> Document {
    let operations = &counters.operations;
    let mut section = Document::one("insert", long(&operations.insert));
    section.push("query", long(&operations.query));
    section.push("update", long(&operations.update));
    section.push("delete", long(&operations.delete));
    section.push("getmore", long(&operations.getmore));
    section.push("command", long(&operations.command));
    section
}

fn sessions(call: &Call) -> Document {
    let count = call.deployment.sessions.count();
    Document::one("activeSessionsCount", i32::try_from(count).unwrap_or(i32::MAX))
}

fn metrics(call: &Call) -> Document {
    let open = Document::one("total", call.deployment.cursors.count() as i64);
    Document::one("cursor", Document::one("open", open))
}

pub async fn host_info(call: &Call) -> Result<Reply> {
    call.arguments(&[])?;
    let mut system = Document::one("currentTime", Value::Date(call.context.now.milliseconds() as i64));
    system.push("hostname", Value::string(call.connection.ends.server.to_string()));
    system.push("cpuAddrSize", Value::Int(usize::BITS as i32));
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    system.push("numCores", Value::Int(i32::try_from(cores).unwrap_or(i32::MAX)));
    system.push("cpuArch", Value::string(std::env::consts::ARCH));
    let mut os = Document::one("type", std::env::consts::OS);
    os.push("name", Value::string(std::env::consts::FAMILY));
    let mut reply = Document::one("system", system);
    reply.push("os", os.into());
    reply.push("extra", Document::new().into());
    Ok(reply.into())
}
