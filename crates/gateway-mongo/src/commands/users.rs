//! Commands on users: passwords, roles and custom data. Roles defined by an application are refused.

use shardlake_model::ErrorKind;
use shardlake_mql::Document;

use super::users_info::{roles_info, users_info};
use crate::access::{Kept, Mechanism, Privilege, Proof, Role};
use crate::arguments::{Arguments, Field, Types, optional, required};
use crate::call::{Call, Command, command};
use crate::errors::{CommandError, Result, code, error, fail};
use crate::reply::Reply;

const NAME_BYTES_MAX: usize = 255;
const CUSTOM_DATA_BYTES_MAX: usize = 16 << 10;

pub static USERS: &[Command] = &[
    command!("usersInfo", users_info),
    command!("rolesInfo", roles_info),
    command!("createUser", create_user).write(),
    command!("updateUser", update_user).write(),
    command!("dropUser", drop_user).write(),
    command!("dropAllUsersFromDatabase", drop_all_users).write(),
    command!("grantRolesToUser", grant_roles).write(),
    command!("revokeRolesFromUser", revoke_roles).write(),
    command!("createRole", refuse).write(),
    command!("updateRole", refuse).write(),
    command!("dropRole", refuse).write(),
    command!("dropAllRolesFromDatabase", refuse).write(),
    command!("grantPrivilegesToRole", refuse).write(),
    command!("revokePrivilegesFromRole", refuse).write(),
    command!("grantRolesToRole", refuse).write(),
    command!("revokeRolesFromRole", refuse).write(),
];

const CREATE: &[Field] = &[
    required("createUser", Types::STRING),
    optional("pwd", Types::STRING),
    optional("customData", Types::OBJECT),
    required("roles", Types::ARRAY),
    optional("digestPassword", Types::BOOL_ONLY),
    optional("authenticationRestrictions", Types::ARRAY),
    optional("mechanisms", Types::ARRAY),
];

const UPDATE: &[Field] = &[
    required("updateUser", Types::STRING),
    optional("pwd", Types::STRING),
    optional("customData", Types::OBJECT),
    optional("roles", Types::ARRAY),
    optional("digestPassword", Types::BOOL_ONLY),
    optional("authenticationRestrictions", Types::ARRAY),
    optional("mechanisms", Types::ARRAY),
];

async fn refuse(call: &Call) -> Result<Reply> {
    let name = call.name;
    Err(CommandError::not_supported(format!(
        "{name} is not supported: there are built-in roles only, which rolesInfo lists with showBuiltinRoles"
    )))
}

async fn create_user(call: &Call) -> Result<Reply> {
    let arguments = call.arguments(CREATE)?;
    let (database, name) = (call.database(), arguments.string("createUser").unwrap_or_default());
    check_may(call, database)?;
    check_name(database, name)?;
    let roles = roles_of(call, &arguments)?.unwrap_or_default();
    let custom_data = custom_data_of(&arguments)?;
    let mechanisms = mechanisms_of(&arguments)?.unwrap_or_else(|| Mechanism::ALL.to_vec());
    check_options(&arguments)?;
    let Some(password) = arguments.string("pwd").filter(|password| !password.is_empty()) else {
        // An empty password has an error code of its own.
        let code = if arguments.string("pwd").is_some() { code::EMPTY_PASSWORD } else { code::BAD_VALUE };
        fail!(code, "Must provide a non-empty 'pwd' field for all user documents");
    };
    let account = &call.deployment.account;
    if call.deployment.users.is_account(name) {
        return Err(taken(database, name));
    }
    let proofs = derived(call, name, password, mechanisms).await?;
    let kept = Kept { id: account.router().random().guid().0, roles, proofs, custom_data };
    match account.definitions().create_login(database, name, kept.encoded()).await {
        Ok(_) => Ok(Reply::ok()),
        Err(error) if error.kind() == ErrorKind::Conflict => Err(taken(database, name)),
        Err(error) => Err(error.into()),
    }
}

async fn update_user(call: &Call) -> Result<Reply> {
    let arguments = call.arguments(UPDATE)?;
    let name = arguments.string("updateUser").unwrap_or_default();
    check_may(call, call.database())?;
    let roles = roles_of(call, &arguments)?;
    let custom_data = custom_data_of(&arguments)?;
    let mechanisms = mechanisms_of(&arguments)?;
    check_options(&arguments)?;
    let password = arguments.string("pwd");
    if password.is_none() && roles.is_none() && custom_data.is_none() && mechanisms.is_none() {
        fail!(code::BAD_VALUE, "Must specify at least one field to update in updateUser");
    }
    let proofs = match password {
        Some("") => fail!(code::EMPTY_PASSWORD, "User passwords must not be empty"),
        Some(password) => {
            let before = call.deployment.account.definitions().login(call.database(), name);
            let before = before.and_then(|login| Kept::decoded(&login.kept)).map(|kept| kept.mechanisms());
            let mechanisms = mechanisms.clone().or(before).unwrap_or_else(|| Mechanism::ALL.to_vec());
            Some(derived(call, name, password, mechanisms).await?)
        }
        None => None,
    };
    change(call, name, move |kept| {
        if let Some(proofs) = proofs {
            kept.proofs = proofs;
        } else if let Some(mechanisms) = mechanisms {
            if mechanisms.iter().any(|mechanism| !kept.mechanisms().contains(mechanism)) {
                return Err("mechanisms field must be a subset of previously set mechanisms".to_owned());
            }
            kept.proofs.retain(|proof| mechanisms.contains(&proof.mechanism));
        }
        if let Some(roles) = roles {
            kept.roles = roles;
        }
        if custom_data.is_some() {
            kept.custom_data = custom_data;
        }
        Ok(())
    })
    .await
}

async fn drop_user(call: &Call) -> Result<Reply> {
    let arguments = call.arguments(&[required("dropUser", Types::STRING)])?;
    let name = arguments.string("dropUser").unwrap_or_default();
    check_may(call, call.database())?;
    match call.deployment.account.definitions().remove_logins(call.database(), Some(name)).await? {
        0 => Err(not_found(call, name)),
        _ => Ok(Reply::ok()),
    }
}

async fn drop_all_users(call: &Call) -> Result<Reply> {
    call.arguments(&[])?;
    check_may(call, call.database())?;
    let count = call.deployment.account.definitions().remove_logins(call.database(), None).await?;
    Ok(Document::one("n", i32::try_from(count).unwrap_or(i32::MAX)).into())
}

async fn grant_roles(call: &Call) -> Result<Reply> {
    let (name, roles) = named_roles(call, "grantRolesToUser")?;
    change(call, &name, move |kept| {
        let new: Vec<Role> = roles.into_iter().filter(|role| !kept.roles.contains(role)).collect();
        kept.roles.extend(new);
        Ok(())
    })
    .await
}

async fn revoke_roles(call: &Call) -> Result<Reply> {
    let (name, roles) = named_roles(call, "revokeRolesFromUser")?;
    change(call, &name, move |kept| {
        kept.roles.retain(|role| !roles.contains(role));
        Ok(())
    })
    .await
}

fn named_roles(call: &Call, command: &'static str) -> Result<(String, Vec<Role>)> {
    let arguments = call.arguments(&[required(command, Types::STRING), required("roles", Types::ARRAY)])?;
    check_may(call, call.database())?;
    let roles = roles_of(call, &arguments)?.unwrap_or_default();
    if roles.is_empty() {
        fail!(code::BAD_VALUE, "{command} command requires a non-empty \"roles\" array");
    }
    Ok((arguments.string(command).unwrap_or_default().to_owned(), roles))
}

/// Changes the record of a user of the command's database, in one step.
async fn change(
    call: &Call,
    name: &str,
    change: impl FnOnce(&mut Kept) -> Result<(), String> + Send + 'static,
) -> Result<Reply> {
    let change = move |text: &str| {
        let unreadable = || shardlake_model::Error::internal("what is kept of a user cannot be read");
        let mut kept = Kept::decoded(text).ok_or_else(unreadable)?;
        change(&mut kept).map_err(shardlake_model::Error::bad_request)?;
        Ok(kept.encoded())
    };
    match call.deployment.account.definitions().change_login(call.database(), name, change).await {
        Ok(()) => Ok(Reply::ok()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(not_found(call, name)),
        Err(error) => Err(error.into()),
    }
}

/// Checks that the client may change users of a database and grant its roles.
fn check_may(call: &Call, database: &str) -> Result<()> {
    match call.may(Privilege::Users, Some(database)) {
        true => Ok(()),
        false => fail!(
            code::UNAUTHORIZED,
            "not authorized on {} to execute command {}: it takes userAdmin on {database}",
            call.database(),
            call.name
        ),
    }
}

fn check_name(database: &str, name: &str) -> Result<()> {
    if matches!(database, "local" | "$external") {
        fail!(code::BAD_VALUE, "Cannot create users in the {database} database");
    }
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        fail!(code::BAD_VALUE, "Username must be 1 to {NAME_BYTES_MAX} bytes without a zero byte");
    }
    Ok(())
}

/// The roles that a command names. The client must be allowed to grant them.
fn roles_of(call: &Call, arguments: &Arguments<'_>) -> Result<Option<Vec<Role>>> {
    let Some(roles) = arguments.array("roles") else { return Ok(None) };
    let roles = Role::parse_all(roles, call.database())?;
    for role in &roles {
        check_may(call, &role.database)?;
    }
    Ok(Some(roles))
}

fn custom_data_of(arguments: &Arguments<'_>) -> Result<Option<Document>> {
    let Some(data) = arguments.document("customData") else { return Ok(None) };
    if data.size() > CUSTOM_DATA_BYTES_MAX {
        fail!(code::BAD_VALUE, "customData takes at most {CUSTOM_DATA_BYTES_MAX} bytes");
    }
    Ok(Some(Document::clone(data)))
}

fn mechanisms_of(arguments: &Arguments<'_>) -> Result<Option<Vec<Mechanism>>> {
    let Some(names) = arguments.array("mechanisms") else { return Ok(None) };
    let mut mechanisms = Vec::new();
    for name in names {
        let known = Mechanism::ALL.into_iter().find(|known| name.as_str() == Some(known.name()));
        let Some(mechanism) = known.filter(|known| !mechanisms.contains(known)) else {
            fail!(code::BAD_VALUE, "mechanisms are SCRAM-SHA-1 and SCRAM-SHA-256, each once, and not {name}");
        };
        mechanisms.push(mechanism);
    }
    match mechanisms.is_empty() {
        true => fail!(code::BAD_VALUE, "mechanisms field must not be empty"),
        false => Ok(Some(mechanisms)),
    }
}

fn check_options(arguments: &Arguments<'_>) -> Result<()> {
    if arguments.bool("digestPassword") == Some(false) {
        fail!(code::BAD_VALUE, "digestPassword has to be true: the server makes what it keeps of a password");
    }
    if arguments.array("authenticationRestrictions").is_some_and(|list| !list.is_empty()) {
        fail!(code::NOT_IMPLEMENTED, "authenticationRestrictions are not supported");
    }
    Ok(())
}

/// Stored credentials for a password. Derived on the blocking pool, because deriving is slow on purpose.
async fn derived(call: &Call, name: &str, password: &str, mechanisms: Vec<Mechanism>) -> Result<Vec<Proof>> {
    let (name, password) = (name.to_owned(), password.to_owned());
    let random = call.deployment.account.router().random().clone();
    let derive = move || {
        let proof = |mechanism: Mechanism| Proof::derive(mechanism, &name, &password, &random);
        mechanisms.into_iter().map(proof).collect::<Result<Vec<Proof>>>()
    };
    let derived = tokio::task::spawn_blocking(derive).await;
    derived.map_err(|_| error!(code::INTERNAL_ERROR, "a password cannot be kept"))?
}

fn taken(database: &str, name: &str) -> CommandError {
    error!(code::USER_EXISTS, "User \"{name}@{database}\" already exists")
}

fn not_found(call: &Call, name: &str) -> CommandError {
    error!(code::USER_NOT_FOUND, "User '{name}@{}' not found", call.database())
}
