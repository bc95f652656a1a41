//! Users and roles. The one user is the account, by its name; others cannot be made yet.

use shardlake_mql::{Document, Value};

use crate::access::Mechanism;
use crate::arguments::{Field, Types, optional};
use crate::call::{Call, Command, command};
use crate::errors::{CommandError, Result};
use crate::reply::Reply;

pub static USERS: &[Command] = &[
    command!("usersInfo", users_info),
    command!("createUser", refuse).write(),
    command!("updateUser", refuse).write(),
    command!("dropUser", refuse).write(),
    command!("dropAllUsersFromDatabase", refuse).write(),
    command!("grantRolesToUser", refuse).write(),
    command!("revokeRolesFromUser", refuse).write(),
    command!("createRole", refuse).write(),
    command!("updateRole", refuse).write(),
    command!("dropRole", refuse).write(),
    command!("rolesInfo", refuse),
];

async fn refuse(call: &Call) -> Result<Reply> {
    let (name, account) = (call.name, &call.deployment.settings.account_name);
    Err(CommandError::not_supported(format!(
        "{name} is not supported: the only user is '{account}', and its passwords are the account's keys"
    )))
}

async fn users_info(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        optional("showCredentials", Types::BOOL),
        optional("showCustomData", Types::BOOL),
        optional("showPrivileges", Types::BOOL),
        optional("showAuthenticationRestrictions", Types::BOOL),
        optional("filter", Types::OBJECT),
    ];
    call.arguments(FIELDS)?;
    let name = &call.deployment.settings.account_name;
    let users = if is_asked_for(call.first(), name) { vec![account(name).into()] } else { Vec::new() };
    Ok(Document::one("users", Value::array(users)).into())
}

/// By its name, in a document or a list of those, or all users by a number.
fn is_asked_for(asked: &Value, name: &str) -> bool {
    match asked {
        Value::String(text) => **text == *name,
        Value::Document(user) => user.has("forAllDBs") || user.value("user").as_str() == Some(name),
        Value::Array(users) => users.iter().any(|user| is_asked_for(user, name)),
        other => other.is_number(),
    }
}

fn account(name: &str) -> Document {
    let mut role = Document::one("role", "root");
    role.push("db", Value::string("admin"));
    let mechanisms = Mechanism::ALL.map(|mechanism| Value::string(mechanism.name()));
    let mut user = Document::one("_id", format!("admin.{name}").as_str());
    user.push("user", Value::string(name));
    user.push("db", Value::string("admin"));
    user.push("roles", Value::array(vec![role.into()]));
    user.push("mechanisms", Value::array(mechanisms.to_vec()));
    user
}
