//! `usersInfo` and `rolesInfo`: the users and the roles. Stored credentials are never shown.

use shardlake_mql::{Document, Env, Filter, Scope, Value};

use crate::access::{Kept, Mechanism, Privilege, Role};
use crate::arguments::{Arguments, Field, Types, optional};
use crate::call::Call;
use crate::errors::{Result, code, fail};
use crate::reply::Reply;

/// A user as the command names one.
struct Named {
    database: String,
    name: String,
}

pub async fn users_info(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        optional("showCredentials", Types::BOOL),
        optional("showCustomData", Types::BOOL),
        optional("showPrivileges", Types::BOOL),
        optional("showAuthenticationRestrictions", Types::BOOL),
        optional("filter", Types::OBJECT),
    ];
    let arguments = call.arguments(FIELDS)?;
    if arguments.bool("showCredentials") == Some(true) {
        fail!(
            code::NOT_IMPLEMENTED,
            "showCredentials is not supported: what proves a password is never shown"
        );
    }
    let filter = arguments.document("filter").map(|filter| Document::clone(filter)).unwrap_or_default();
    let filter = Filter::parse(&filter, &Scope::new())?;
    let now = call.context.now.milliseconds() as i64;
    let mut env = Env::new(now, call.deployment.account.router().random().u64());
    let mut shown = Vec::new();
    for user in asked(call)? {
        let user = shaped(user, &arguments);
        if filter.matches(&user, &mut env)? {
            shown.push(user.into());
        }
    }
    Ok(Document::one("users", Value::array(shown)).into())
}

/// Details of a user that a reply may show.
struct Told {
    database: String,
    name: String,
    id: Option<[u8; 16]>,
    roles: Vec<Role>,
    mechanisms: Vec<Mechanism>,
    custom_data: Option<Document>,
}

/// The users that a command asks for: by a name or a document, a list of those, all of the database, or all users.
fn asked(call: &Call) -> Result<Vec<Told>> {
    let all = all_users(call);
    match call.first() {
        Value::Document(user) if user.has("forAllDBs") => {
            check_sees(call, None)?;
            Ok(all)
        }
        number if number.is_number() => {
            check_sees(call, Some(call.database()))?;
            Ok(all.into_iter().filter(|user| user.database == call.database()).collect())
        }
        Value::Array(list) => named_users(call, all, list),
        one => named_users(call, all, std::slice::from_ref(one)),
    }
}

fn named_users(call: &Call, all: Vec<Told>, list: &[Value]) -> Result<Vec<Told>> {
    let named = list.iter().map(|user| Named::parse(user, call.database())).collect::<Result<Vec<_>>>()?;
    for user in named.iter().filter(|user| !user.is_client(call)) {
        check_sees(call, Some(&user.database))?;
    }
    let is_named =
        |told: &Told| named.iter().any(|user| user.name == told.name && user.database == told.database);
    Ok(all.into_iter().filter(is_named).collect())
}

impl Named {
    fn parse(value: &Value, database: &str) -> Result<Named> {
        match value {
            Value::String(name) => Ok(Named { database: database.to_owned(), name: name.to_string() }),
            Value::Document(user) => {
                let part = |name: &str| user.value(name).as_str().map(str::to_owned);
                match (part("user"), part("db")) {
                    (Some(name), Some(database)) => Ok(Named { database, name }),
                    _ => fail!(code::BAD_VALUE, "usersInfo names a user by 'user' and 'db'"),
                }
            }
            other => fail!(code::BAD_VALUE, "usersInfo cannot name a user by {}", other.type_name()),
        }
    }

    /// Every user may ask for its own details.
    fn is_client(&self, call: &Call) -> bool {
        let own = call.principal.as_ref();
        own.is_some_and(|own| own.name == self.name && own.database == self.database)
    }
}

fn check_sees(call: &Call, database: Option<&str>) -> Result<()> {
    match call.may(Privilege::Users, database) {
        true => Ok(()),
        false => fail!(
            code::UNAUTHORIZED,
            "not authorized to see users of {}",
            database.unwrap_or("all databases")
        ),
    }
}

/// All users and the account, whose name belongs to `admin`.
fn all_users(call: &Call) -> Vec<Told> {
    let account = Told {
        database: "admin".to_owned(),
        name: call.deployment.settings.account_name.clone(),
        id: None,
        roles: Role::parse(&Value::string("root"), "admin").into_iter().collect(),
        mechanisms: Mechanism::ALL.to_vec(),
        custom_data: None,
    };
    let made = call.deployment.account.definitions().logins();
    let made = made.iter().filter_map(|login| {
        let kept = Kept::decoded(&login.kept)?;
        Some(Told {
            database: login.database.clone(),
            name: login.name.clone(),
            id: Some(kept.id),
            mechanisms: kept.mechanisms(),
            roles: kept.roles,
            custom_data: kept.custom_data,
        })
    });
    std::iter::once(account).chain(made).collect()
}

fn shaped(told: Told, arguments: &Arguments<'_>) -> Document {
    let Told { database, name, id, roles, mechanisms, custom_data } = told;
    let mut user = Document::one("_id", format!("{database}.{name}").as_str());
    if let Some(id) = id {
        user.push("userId", Value::Binary(4, id.as_slice().into()));
    }
    user.push("user", Value::string(name));
    user.push("db", Value::string(database));
    if let Some(data) = custom_data.filter(|_| arguments.bool("showCustomData") != Some(false)) {
        user.push("customData", Value::document(data));
    }
    let list = |documents: Vec<Document>| Value::array(documents.into_iter().map(Value::document).collect());
    user.push("roles", list(roles.iter().map(Role::document).collect()));
    let names = mechanisms.into_iter().map(|mechanism| Value::string(mechanism.name()));
    user.push("mechanisms", Value::array(names.collect()));
    if arguments.bool("showPrivileges") == Some(true) {
        user.push("inheritedRoles", list(roles.iter().map(Role::document).collect()));
        user.push("inheritedPrivileges", list(roles.iter().map(Role::privileges).collect()));
    }
    user
}

pub async fn roles_info(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        optional("showBuiltinRoles", Types::BOOL),
        optional("showPrivileges", Types::BOOL),
        optional("showAuthenticationRestrictions", Types::BOOL),
    ];
    let arguments = call.arguments(FIELDS)?;
    let (database, shows_privileges) = (call.database(), arguments.bool("showPrivileges") == Some(true));
    let roles = match call.first() {
        number if number.is_number() => match arguments.bool("showBuiltinRoles") {
            Some(true) => Role::of_database(database),
            // Roles defined by an application, which are not supported.
            _ => Vec::new(),
        },
        Value::Array(list) => list.iter().filter_map(|role| Role::parse(role, database).ok()).collect(),
        one @ (Value::String(_) | Value::Document(_)) => Role::parse(one, database).into_iter().collect(),
        other => fail!(code::BAD_VALUE, "rolesInfo cannot name a role by {}", other.type_name()),
    };
    let shown = roles.iter().map(|role| {
        let mut shown = role.document();
        shown.push_front("_id", Value::string(format!("{}.{}", role.database, role.kind.name())));
        shown.push("isBuiltin", Value::Bool(true));
        for none in ["roles", "inheritedRoles"] {
            shown.push(none, Value::array(Vec::new()));
        }
        if shows_privileges {
            for all in ["privileges", "inheritedPrivileges"] {
                shown.push(all, Value::array(vec![role.privileges().into()]));
            }
        }
        shown.into()
    });
    Ok(Document::one("roles", Value::array(shown.collect())).into())
}
