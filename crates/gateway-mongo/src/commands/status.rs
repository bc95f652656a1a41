//! `serverStatus` and `hostInfo`: what is counted, and what is known of the machine. Sections that would be made up are left out.

use std::sync::atomic::{AtomicU64, Ordering};

use shardlake_mql::{Document, Value};

use super::diagnostic::version_text;
use crate::call::Call;
use crate::deployment::Counters;
use crate::errors::Result;
use crate::reply::Reply;

pub async fn server_status(call: &Call) -> Result<Reply> {
    let deployment = &call.deployment;
    let up = deployment.account.clock().elapsed().saturating_sub(deployment.started);
    let mut reply = Document::new();
    reply.push("host", Value::string(call.connection.ends.server.to_string()));
    reply.push("version", Value::string(version_text()));
    reply.push("process", Value::string("mongos"));
    reply.push("pid", Value::Long(i64::from(std::process::id())));
    reply.push("uptime", Value::Double(up.as_secs() as f64));
    reply.push("uptimeMillis", Value::Long(up.as_millis() as i64));
    reply.push("uptimeEstimate", Value::Long(up.as_secs() as i64));
    reply.push("localTime", Value::Date(call.context.now.milliseconds() as i64));
    reply.push("connections", connections(&deployment.counters).into());
    reply.push("network", network(&deployment.counters).into());
    reply.push("opcounters", operations(&deployment.counters).into());
    reply.push("logicalSessionRecordCache", sessions(call).into());
    reply.push("storageEngine", Document::one("name", "shardlake").into());
    reply.push("metrics", metrics(call).into());
    Ok(reply.into())
}

fn long(counter: &AtomicU64) -> Value {
    Value::Long(counter.load(Ordering::Relaxed) as i64)
}

fn connections(counters: &Counters) -> Document {
    let current = counters.connections.load(Ordering::Relaxed);
    let mut section = Document::one("current", i32::try_from(current).unwrap_or(i32::MAX));
    section.push("totalCreated", long(&counters.connections_made));
    section
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
