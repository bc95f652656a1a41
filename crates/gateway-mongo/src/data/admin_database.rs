//! Collections of the database `admin` that backups carry: users, and versions of stored data. They are generated from the catalog
//! at each read; a restore creates users by `_mergeAuthzCollections`.

use std::collections::BTreeSet;

use shardlake_account::collections::{Namespace, identity_index};
use shardlake_model::ErrorKind;
use shardlake_mql::{Document, Filter, Scope, Value};

use crate::access::{Kept, Privilege, SystemUser};
use crate::arguments::{Field, Types, optional};
use crate::call::Call;
use crate::commands::release_text;
use crate::errors::{Result, code, fail};
use crate::reply::Reply;

pub const ADMIN: &str = "admin";
const ROLES: &str = "system.roles";
const USERS: &str = "system.users";
const VERSIONS: &str = "system.version";
/// Version of stored users.
const AUTHENTICATION_VERSION: i32 = 5;

/// Names of the collections with contents, for a client that may back them up.
pub fn names(call: &Call) -> Vec<&'static str> {
    match may_read(call) {
        true if has_users(call) => vec![USERS, VERSIONS],
        true => vec![VERSIONS],
        false => Vec::new(),
    }
}

/// Whether the database is listed without a collection of its own: tools dump each listed database.
pub fn is_listed(call: &Call) -> bool {
    has_users(call) && may_read(call)
}

fn has_users(call: &Call) -> bool {
    !call.deployment.account.definitions().logins().is_empty()
}

fn may_read(call: &Call) -> bool {
    !call.is_read_only() && call.may(Privilege::ReadUsers, None)
}

/// The documents of one of these collections; `None` for every other name.
pub fn documents(call: &Call, namespace: &Namespace) -> Result<Option<Vec<Value>>> {
    let name = &*namespace.collection;
    if &*namespace.database != ADMIN || ![ROLES, USERS, VERSIONS].contains(&name) {
        return Ok(None);
    }
    if !may_read(call) {
        fail!(code::UNAUTHORIZED, "not authorized on {ADMIN} to read {name}: the role 'backup' is");
    }
    let documents = match name {
        USERS => users(call),
        VERSIONS => versions(call),
        // Roles defined by an application are not supported.
        _ => Vec::new(),
    };
    Ok(Some(documents.into_iter().map(Value::document).collect()))
}

/// The indexes of one of these collections, as the reference has them.
pub fn indexes(namespace: &Namespace) -> Option<Vec<Document>> {
    if &*namespace.database != ADMIN {
        return None;
    }
    match &*namespace.collection {
        VERSIONS => Some(vec![identity_index()]),
        USERS => Some(vec![identity_index(), unique_index("user")]),
        ROLES => Some(vec![identity_index(), unique_index("role")]),
        _ => None,
    }
}

fn unique_index(field: &str) -> Document {
    let mut key = Document::one(field, 1);
    key.push("db", Value::Int(1));
    let mut index = Document::one("v", 2);
    index.push("unique", Value::Bool(true));
    index.push("key", Value::document(key));
    index.push("name", Value::string(format!("{field}_1_db_1")));
    index
}

fn users(call: &Call) -> Vec<Document> {
    let logins = call.deployment.account.definitions().logins();
    let users = logins.iter().filter_map(|login| {
        let kept = Kept::decoded(&login.kept)?;
        let (database, name) = (login.database.clone(), login.name.clone());
        Some(SystemUser { database, name, kept, lost_roles: Vec::new() }.document())
    });
    users.collect()
}

fn versions(call: &Call) -> Vec<Document> {
    let mut authentication = Document::one("_id", "authSchema");
    authentication.push("currentVersion", Value::Int(AUTHENTICATION_VERSION));
    let mut compatible = Document::one("_id", "featureCompatibilityVersion");
    compatible.push("version", Value::string(release_text()));
    match has_users(call) {
        true => vec![authentication, compatible],
        false => vec![compatible],
    }
}

/// Creates users from the documents of a collection that a restore has filled. With `drop`, existing users that are not among them are
/// removed, and the others are replaced. Without `drop`, existing users stay as they are. A user that cannot be kept is skipped and
/// named in the log and in the reply, so that a restore continues.
pub async fn merge_users(call: &Call) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        optional("tempUsersCollection", Types::STRING),
        optional("tempRolesCollection", Types::STRING),
        optional("db", Types::STRING),
        optional("drop", Types::BOOL),
    ];
    let arguments = call.arguments(FIELDS)?;
    let (users, roles) = (arguments.string("tempUsersCollection"), arguments.string("tempRolesCollection"));
    if users.unwrap_or_default().is_empty() && roles.unwrap_or_default().is_empty() {
        fail!(
            code::BAD_VALUE,
            "Must provide at least one of \"tempUsersCollection\" and \"tempRolesCollection\""
        );
    }
    let (database, drops) =
        (arguments.string("db").unwrap_or_default(), arguments.bool("drop") == Some(true));
    let mut notes = Vec::new();
    if let Some(name) = roles.filter(|name| !name.is_empty()) {
        for role in temporary(call, name).await? {
            notes.push(format!(
                "the role {} was not restored: there are built-in roles only",
                role.value("_id")
            ));
        }
    }
    if let Some(name) = users.filter(|name| !name.is_empty()) {
        let users = temporary(call, name).await?;
        merge(call, &users, (database, drops), &mut notes).await?;
    }
    let mut reply = Document::new();
    if !notes.is_empty() {
        notes.iter().for_each(|note| tracing::info!(%note, "users were restored with exceptions"));
        reply.push("notes", Value::array(notes.iter().map(Value::string).collect()));
    }
    Ok(reply.into())
}

/// The documents of a collection that a restore has filled.
async fn temporary(call: &Call, name: &str) -> Result<Vec<Document>> {
    let Some((database, collection)) = name.split_once('.') else {
        fail!(code::BAD_VALUE, "'{name}' is no name of a database and a collection");
    };
    let namespace = Namespace::new(database, collection);
    let request = call.request();
    let (everything, mut env) = (Document::new(), request.env());
    let filter = Filter::parse(&everything, &Scope::new())?;
    let collections = call.collections();
    let source = collections.scan(collections.collection(&namespace)?, &everything, filter.collation());
    let found = source.matching(&request, &filter, &mut env).await?;
    Ok(found.iter().filter_map(Value::as_document).map(|document| Document::clone(document)).collect())
}

async fn merge(
    call: &Call,
    users: &[Document],
    (database, drops): (&str, bool),
    notes: &mut Vec<String>,
) -> Result<()> {
    let account = &call.deployment.account;
    let mut kept = BTreeSet::new();
    for document in users {
        let Some(user) = SystemUser::of(document, account.router().random()) else {
            notes.push(format!(
                "the user {} was not restored: it has no SCRAM credentials",
                document.value("_id")
            ));
            continue;
        };
        if !database.is_empty() && user.database != database {
            continue;
        }
        let name = format!("{}.{}", user.database, user.name);
        if !user.lost_roles.is_empty() {
            notes.push(format!("the user {name} was restored without {}", user.lost_roles.join(", ")));
        }
        if call.deployment.users.is_account(&user.name) {
            notes.push(format!("the user {name} was not restored: it has the name of the account"));
            continue;
        }
        let made = account.definitions().create_login(&user.database, &user.name, user.kept.encoded()).await;
        match made {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Conflict && drops => {
                let encoded = user.kept.encoded();
                account.definitions().change_login(&user.database, &user.name, move |_| Ok(encoded)).await?;
            }
            Err(error) if error.kind() == ErrorKind::Conflict => {
                notes.push(format!("the user {name} was there and stays as it was"));
            }
            Err(error) => return Err(error.into()),
        }
        kept.insert(name);
    }
    if drops {
        for login in account.definitions().logins() {
            let is_meant = database.is_empty() || login.database == database;
            if is_meant && !kept.contains(&format!("{}.{}", login.database, login.name)) {
                account.definitions().remove_logins(&login.database, Some(&login.name)).await?;
            }
        }
    }
    Ok(())
}
