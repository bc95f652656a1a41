//! Queries of drivers, shells and tools about the server.

use shardlake_mql::{Document, Value};

use super::handshake::OBJECT_SIZE_BYTES_MAX;
use super::parameters::get_parameter;
use super::status::{diagnostic_data, host_info, server_status};
use super::version::{VERSION, version_text};
use crate::access::Identity;
use crate::arguments::{Arguments, Field, Types, optional, required};
use crate::call::{Call, Command, command};
use crate::errors::{CommandError, Result, code, error};
use crate::reply::Reply;

pub static DIAGNOSTIC: &[Command] = &[
    command!("ping", ping).open().stable(),
    command!("buildInfo", build_info).alias(&["buildinfo"]).open(),
    command!("connectionStatus", connection_status).open().stable(),
    command!("whatsmyuri", whats_my_uri).open(),
    command!("getParameter", get_parameter).admin_only(),
    command!("setParameter", set_parameter).admin_only(),
    command!("getCmdLineOpts", get_cmd_line_opts).admin_only(),
    command!("serverStatus", server_status),
    command!("getDiagnosticData", diagnostic_data).admin_only(),
    command!("hostInfo", host_info),
    command!("getLog", get_log).admin_only(),
    command!("features", features),
    command!("connPoolStats", conn_pool_stats),
    command!("top", top).admin_only(),
    command!("lockInfo", lock_info).admin_only(),
    command!("profile", profile),
    command!("getDefaultRWConcern", get_default_rw_concern).admin_only(),
    command!("setDefaultRWConcern", set_default_rw_concern).admin_only(),
    command!("replSetGetStatus", repl_set_get_status).admin_only(),
    command!("planCacheClear", plan_cache_clear),
];

async fn ping(call: &Call) -> Result<Reply> {
    call.arguments(&[])?;
    Ok(Reply::ok())
}

async fn build_info(call: &Call) -> Result<Reply> {
    call.arguments(&[])?;
    let mut reply = Document::new();
    reply.push("version", Value::string(version_text()));
    reply.push("gitVersion", Value::string("unknown"));
    reply.push("modules", Value::array(Vec::new()));
    reply.push("allocator", Value::string("mimalloc"));
    reply.push("javascriptEngine", Value::string("none"));
    reply.push("sysInfo", Value::string("deprecated"));
    reply.push("versionArray", Value::array(VERSION.map(Value::Int).to_vec()));
    reply.push("openssl", Document::one("running", "none").into());
    reply.push("bits", Value::Int(64));
    reply.push("debug", Value::Bool(false));
    reply.push("maxBsonObjectSize", Value::Int(OBJECT_SIZE_BYTES_MAX));
    reply.push("storageEngines", Value::array(vec![Value::string("shardlake")]));
    reply.push("shardlake", Document::one("version", call.deployment.settings.version).into());
    Ok(reply.into())
}

async fn connection_status(call: &Call) -> Result<Reply> {
    let arguments = call.arguments(&[optional("showPrivileges", Types::BOOL)])?;
    let (mut users, mut roles, mut privileges) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(principal) = &call.principal {
        let mut user = Document::one("user", principal.name.as_str());
        user.push("db", Value::string(&principal.database));
        users.push(user.into());
        match (call.rights(), principal.identity) {
            (Some(rights), _) => {
                roles.extend(rights.0.iter().map(|role| Value::document(role.document())));
                privileges.extend(rights.0.iter().map(|role| Value::document(role.privileges())));
            }
            (None, Identity::Account(access)) => {
                let mut role = Document::one("role", access.role());
                role.push("db", Value::string("admin"));
                roles.push(role.into());
            }
            (None, Identity::User(_)) => {}
        }
    }
    let mut info = Document::new();
    info.push("authenticatedUsers", Value::array(users));
    info.push("authenticatedUserRoles", Value::array(roles));
    if arguments.bool("showPrivileges").unwrap_or(false) {
        info.push("authenticatedUserPrivileges", Value::array(privileges));
    }
    let mut reply = Document::one("authInfo", info);
    reply.push("uuid", Value::Binary(4, call.connection.guid.0.as_slice().into()));
    Ok(reply.into())
}

async fn whats_my_uri(call: &Call) -> Result<Reply> {
    call.arguments(&[])?;
    Ok(Document::one("you", call.connection.ends.client.to_string().as_str()).into())
}

async fn set_parameter(_call: &Call) -> Result<Reply> {
    Err(CommandError::not_supported("setParameter: this server is configured at its start"))
}

async fn get_cmd_line_opts(call: &Call) -> Result<Reply> {
    call.arguments(&[])?;
    let arguments = call.deployment.settings.arguments.iter().map(Value::string);
    let mut reply = Document::one("argv", Value::array(arguments.collect()));
    reply.push("parsed", Document::new().into());
    Ok(reply.into())
}

async fn get_log(call: &Call) -> Result<Reply> {
    let arguments = call.arguments(&[required("getLog", Types::STRING)])?;
    let names = || Value::array(vec![Value::string("global"), Value::string("startupWarnings")]);
    match arguments.string("getLog").unwrap_or_default() {
        "*" => Ok(Document::one("names", names()).into()),
        "startupWarnings" => Ok(log_of(&[])),
        // The server keeps no log lines in memory.
        "global" => Ok(log_of(&["the log of this server goes to its standard error"])),
        name => Err(error!(code::OPERATION_FAILED, "No log named '{name}'")),
    }
}

fn log_of(lines: &[&str]) -> Reply {
    let mut reply = Document::one("totalLinesWritten", lines.len() as i32);
    reply.push("log", Value::array(lines.iter().map(Value::string).collect()));
    reply.into()
}

async fn features(call: &Call) -> Result<Reply> {
    call.arguments(&[optional("oidReset", Types::BOOL)])?;
    let mut reply = Document::one("js", Document::one("utf8", false));
    reply.push("oidMachine", Value::Int(0));
    Ok(reply.into())
}

async fn conn_pool_stats(call: &Call) -> Result<Reply> {
    call.arguments(&[])?;
    // There are no servers behind this one.
    let mut reply = Document::one("numClientConnections", 0);
    reply.push("totalInUse", Value::Int(0));
    reply.push("totalAvailable", Value::Int(0));
    reply.push("hosts", Document::new().into());
    Ok(reply.into())
}

async fn top(_call: &Call) -> Result<Reply> {
    Err(CommandError::not_supported("top: load is told by /metrics of the other port"))
}

async fn lock_info(call: &Call) -> Result<Reply> {
    call.arguments(&[])?;
    Ok(Document::one("lockInfo", Value::array(Vec::new())).into())
}

async fn profile(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        required("profile", Types::NUMBER),
        optional("slowms", Types::NUMBER),
        optional("sampleRate", Types::NUMBER),
        optional("filter", Types::OBJECT.or(Types::STRING)),
    ];
    let arguments = call.arguments(FIELDS)?;
    match arguments.i64("profile") {
        Some(i64::MIN..=0) => {
            let mut reply = Document::one("was", 0);
            reply.push("slowms", Value::Int(100));
            reply.push("sampleRate", Value::Double(1.0));
            Ok(reply.into())
        }
        _ => Err(CommandError::not_supported("profile: slow requests are in the server's log")),
    }
}

async fn get_default_rw_concern(call: &Call) -> Result<Reply> {
    call.arguments(&[optional("inMemory", Types::BOOL_ONLY)])?;
    let mut write = Document::one("w", "majority");
    write.push("wtimeout", Value::Int(0));
    let mut reply = Document::one("defaultReadConcern", Document::one("level", "local"));
    reply.push("defaultWriteConcern", write.into());
    reply.push("defaultWriteConcernSource", Value::string("implicit"));
    reply.push("defaultReadConcernSource", Value::string("implicit"));
    reply.push("localUpdateWallClockTime", Value::Date(call.context.now.milliseconds() as i64));
    Ok(reply.into())
}

async fn set_default_rw_concern(_call: &Call) -> Result<Reply> {
    Err(CommandError::not_supported("setDefaultRWConcern: give the concern with the command"))
}

async fn repl_set_get_status(_call: &Call) -> Result<Reply> {
    Err(error!(code::NO_REPLICATION_ENABLED, "not running with --replSet"))
}

async fn plan_cache_clear(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        optional("query", Types::OBJECT),
        optional("sort", Types::OBJECT),
        optional("projection", Types::OBJECT),
        optional("collation", Types::OBJECT),
    ];
    let _checked: Arguments<'_> = call.arguments(FIELDS)?;
    call.collection()?;
    // Plans are made anew for every query, so there is nothing to clear.
    Ok(Reply::ok())
}
