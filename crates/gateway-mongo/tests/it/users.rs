//! Users made by `createUser`: their logins, the rights of their roles, and the replies about them.

use bson::doc;
use shardlake_gateway_mongo::{Access, Key, MongoSettings};
use shardlake_mql::{Document, Value};
use shardlake_stdx::Clock;
use shardlake_storage::{Shard, ShardOptions};

use crate::authentication::prove_at;
use crate::client::{Client, NOW, Server, of};

const KEY: &str = "cHJpbWFyeQ==";
const PASSWORD: &str = "a password that is shown nowhere";
const UNAUTHORIZED: i32 = 13;

fn settings() -> MongoSettings {
    MongoSettings {
        keys: vec![Key { text: KEY.to_owned(), access: Access::Full }],
        requires_authentication: true,
        ..MongoSettings::default()
    }
}

async fn ok(client: &mut Client, database: &str, command: bson::Document) -> Document {
    client.ok(database, of(&command)).await
}

async fn fails(client: &mut Client, database: &str, command: bson::Document) -> i32 {
    client.fails(database, of(&command)).await
}

/// A connection of the account.
async fn owner(server: &Server) -> Client {
    let mut client = server.connect();
    assert!(prove_at(&mut client, "admin", "localhost", KEY).await.value("done").is_true());
    client
}

/// A connection of a user of the database `d`.
async fn signed_in(server: &Server, user: &str) -> Client {
    let mut client = server.connect();
    let reply = prove_at(&mut client, "d", user, PASSWORD).await;
    assert!(reply.value("done").is_true(), "{reply:?}");
    client
}

async fn make(client: &mut Client, user: &str, roles: Vec<bson::Bson>) {
    ok(client, "d", doc! { "createUser": user, "pwd": PASSWORD, "roles": roles }).await;
}

fn of_admin(role: &str) -> bson::Bson {
    doc! { "role": role, "db": "admin" }.into()
}

#[tokio::test]
async fn a_user_signs_in_with_its_password_on_its_database_alone() {
    let server = Server::start_with(settings()).await;
    let mut account = owner(&server).await;
    make(&mut account, "ada", vec!["readWrite".into()]).await;
    let mut ada = signed_in(&server, "ada").await;
    let status = ok(&mut ada, "d", doc! { "connectionStatus": 1, "showPrivileges": true }).await;
    let text = Value::from(status).to_string();
    assert!(text.contains("readWrite") && text.contains("insert") && text.contains("ada"), "{text}");
    for (database, user, password) in
        [("d", "ada", "wrong"), ("admin", "ada", PASSWORD), ("d", "bob", PASSWORD), ("e", "ada", PASSWORD)]
    {
        let reply = prove_at(&mut server.connect(), database, user, password).await;
        assert_eq!(reply.value("code").to_i32_exact(), Some(18), "{database} {user}");
    }
    assert_eq!(fails(&mut account, "d", doc! { "createUser": "ada", "pwd": "x", "roles": [] }).await, 51003);
    assert_eq!(
        fails(&mut account, "d", doc! { "createUser": "localhost", "pwd": "x", "roles": [] }).await,
        51003
    );
}

#[tokio::test]
async fn roles_decide_what_a_user_may_do_and_where() {
    let server = Server::start_with(settings()).await;
    let mut account = owner(&server).await;
    for database in ["d", "e"] {
        ok(&mut account, database, doc! { "insert": "c", "documents": [{ "_id": 1 }] }).await;
    }
    for (user, role) in [
        ("reader", "read".into()),
        ("writer", "readWrite".into()),
        ("admin", "dbAdmin".into()),
        ("keeper", "userAdmin".into()),
        ("owner", "dbOwner".into()),
        ("monitor", of_admin("clusterMonitor")),
        ("anyreader", of_admin("readAnyDatabase")),
        ("root", of_admin("root")),
    ] {
        make(&mut account, user, vec![role]).await;
    }
    // Permitted users by the first letter of each kind; a capital for another database.
    let commands: Vec<(&str, bson::Document, &[&str])> = vec![
        ("d", doc! { "find": "c" }, &["reader", "writer", "owner", "anyreader", "root"]),
        ("e", doc! { "find": "c" }, &["anyreader", "root"]),
        ("d", doc! { "insert": "c", "documents": [{}] }, &["writer", "owner", "root"]),
        ("e", doc! { "insert": "c", "documents": [{}] }, &["root"]),
        (
            "d",
            doc! { "listCollections": 1 },
            &["reader", "writer", "admin", "owner", "monitor", "anyreader", "root"],
        ),
        ("d", doc! { "collMod": "c", "validationLevel": "strict" }, &["admin", "owner", "root"]),
        (
            "d",
            doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] },
            &["writer", "admin", "owner", "root"],
        ),
        ("d", doc! { "usersInfo": 1 }, &["keeper", "owner", "root"]),
        ("admin", doc! { "serverStatus": 1 }, &["monitor", "root"]),
        ("admin", doc! { "killAllSessions": [] }, &["root"]),
        (
            "d",
            doc! { "aggregate": "c", "pipeline": [{ "$out": "o" }], "cursor": {} },
            &["writer", "owner", "root"],
        ),
        (
            "d",
            doc! { "aggregate": "c", "pipeline": [{ "$lookup": { "from": { "db": "e", "coll": "c" }, "pipeline": [], "as": "x" } }], "cursor": {} },
            &["anyreader", "root"],
        ),
        (
            "d",
            doc! { "explain": { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }] } },
            &["writer", "owner", "root"],
        ),
        (
            "admin",
            doc! { "bulkWrite": 1, "ops": [{ "insert": 0, "document": {} }], "nsInfo": [{ "ns": "d.c" }] },
            &["writer", "owner", "root"],
        ),
        (
            "d",
            doc! { "ping": 1 },
            &["reader", "writer", "admin", "keeper", "owner", "monitor", "anyreader", "root"],
        ),
    ];
    for user in ["reader", "writer", "admin", "keeper", "owner", "monitor", "anyreader", "root"] {
        let mut client = signed_in(&server, user).await;
        for (database, command, may) in &commands {
            let reply = client.run(database, of(command)).await;
            let is_refused = reply.value("code").to_i32_exact() == Some(UNAUTHORIZED);
            assert_eq!(!is_refused, may.contains(&user), "{user}: {command} on {database}: {reply:?}");
        }
        let listed = ok(&mut client, "admin", doc! { "listDatabases": 1, "nameOnly": true }).await;
        let listed = listed.value("databases").as_array().expect("a list").len();
        // `root` sees the users in `admin`, because it may back them up.
        let expected = match user {
            "root" => 3,
            "monitor" | "anyreader" => 2,
            _ => 1,
        };
        assert_eq!(listed, expected, "{user}");
    }
}

#[tokio::test]
async fn changes_of_a_user_hold_at_once_for_open_connections() {
    let server = Server::start_with(settings()).await;
    let mut account = owner(&server).await;
    make(&mut account, "ada", vec!["read".into()]).await;
    let mut ada = signed_in(&server, "ada").await;
    let insert = || doc! { "insert": "c", "documents": [{}] };
    assert_eq!(fails(&mut ada, "d", insert()).await, UNAUTHORIZED);
    ok(&mut account, "d", doc! { "grantRolesToUser": "ada", "roles": ["readWrite"] }).await;
    ok(&mut ada, "d", insert()).await;
    ok(&mut account, "d", doc! { "revokeRolesFromUser": "ada", "roles": ["readWrite"] }).await;
    assert_eq!(fails(&mut ada, "d", insert()).await, UNAUTHORIZED);
    ok(&mut ada, "d", doc! { "find": "c" }).await;
    let update = doc! { "updateUser": "ada", "pwd": "another", "customData": { "a": 1 }, "mechanisms": ["SCRAM-SHA-256"] };
    ok(&mut account, "d", update).await;
    let reply = prove_at(&mut server.connect(), "d", "ada", PASSWORD).await;
    assert_eq!(reply.value("code").to_i32_exact(), Some(18), "the old password");
    assert!(prove_at(&mut server.connect(), "d", "ada", "another").await.value("done").is_true());
    let hello = ok(&mut server.connect(), "admin", doc! { "hello": 1, "saslSupportedMechs": "d.ada" }).await;
    assert_eq!(hello.value("saslSupportedMechs").as_array().expect("a list").len(), 1);
    ok(&mut account, "d", doc! { "dropUser": "ada" }).await;
    assert_eq!(fails(&mut ada, "d", doc! { "find": "c" }).await, UNAUTHORIZED);
    make(&mut account, "ada", vec!["read".into()]).await;
    assert_eq!(fails(&mut ada, "d", doc! { "find": "c" }).await, UNAUTHORIZED, "another user of that name");
    make(&mut account, "bob", vec![]).await;
    let dropped = ok(&mut account, "d", doc! { "dropAllUsersFromDatabase": 1 }).await;
    assert_eq!(dropped.value("n").to_i32_exact(), Some(2));
    for command in [
        doc! { "dropUser": "ada" },
        doc! { "updateUser": "ada", "pwd": "x" },
        doc! { "grantRolesToUser": "ada", "roles": ["read"] },
    ] {
        assert_eq!(fails(&mut account, "d", command).await, 11);
    }
}

#[tokio::test]
async fn nobody_grants_what_is_not_theirs_to_grant() {
    let server = Server::start_with(settings()).await;
    let mut account = owner(&server).await;
    make(&mut account, "keeper", vec!["userAdmin".into()]).await;
    let mut keeper = signed_in(&server, "keeper").await;
    make(&mut keeper, "ada", vec!["dbOwner".into()]).await;
    for roles in [vec![of_admin("root")], vec![doc! { "role": "read", "db": "e" }.into()]] {
        let create = doc! { "createUser": "eve", "pwd": "x", "roles": roles.clone() };
        assert_eq!(fails(&mut keeper, "d", create).await, UNAUTHORIZED);
        let grant = doc! { "grantRolesToUser": "keeper", "roles": roles };
        assert_eq!(fails(&mut keeper, "d", grant).await, UNAUTHORIZED);
    }
    let elsewhere = doc! { "createUser": "eve", "pwd": "x", "roles": [] };
    assert_eq!(fails(&mut keeper, "e", elsewhere).await, UNAUTHORIZED);
    assert_eq!(fails(&mut keeper, "d", doc! { "find": "c" }).await, UNAUTHORIZED);
}

#[tokio::test]
async fn what_is_told_of_users_shows_no_secret_and_mistakes_are_named() {
    let server = Server::start_with(settings()).await;
    let mut account = owner(&server).await;
    make(&mut account, "ada", vec!["read".into()]).await;
    make(&mut account, "bob", vec![]).await;
    let told = ok(&mut account, "d", doc! { "usersInfo": 1, "showPrivileges": true }).await;
    let users = told.value("users");
    assert_eq!(users.as_array().expect("a list").len(), 2);
    let text = users.to_string();
    assert!(text.contains("SCRAM-SHA-256") && text.contains("inheritedPrivileges"), "{text}");
    assert!(!text.contains("storedKey") && !text.contains(PASSWORD), "{text}");
    let all =
        ok(&mut account, "d", doc! { "usersInfo": { "forAllDBs": true }, "filter": { "user": "ada" } }).await;
    assert_eq!(all.value("users").as_array().expect("a list").len(), 1);
    let mut bob = signed_in(&server, "bob").await;
    ok(&mut bob, "d", doc! { "usersInfo": "bob" }).await;
    assert_eq!(fails(&mut bob, "d", doc! { "usersInfo": "ada" }).await, UNAUTHORIZED);
    let roles = ok(&mut account, "d", doc! { "rolesInfo": 1, "showBuiltinRoles": true }).await;
    assert_eq!(roles.value("roles").as_array().expect("a list").len(), 5);
    for (command, code) in [
        (doc! { "usersInfo": 1, "showCredentials": true }, 238),
        (doc! { "createRole": "mine", "privileges": [], "roles": [] }, 115),
        (doc! { "createUser": "x", "pwd": "x", "roles": ["mine"] }, 31),
        (doc! { "createUser": "x", "pwd": "x", "roles": ["root"] }, 31),
        (doc! { "createUser": "x", "pwd": "x" }, 40414),
        (doc! { "createUser": "x", "roles": [] }, 2),
        (doc! { "createUser": "", "pwd": "x", "roles": [] }, 2),
        (doc! { "createUser": "x", "pwd": "x", "roles": [], "mechanisms": ["PLAIN"] }, 2),
        (doc! { "createUser": "x", "pwd": "x", "roles": [], "digestPassword": false }, 2),
        (doc! { "updateUser": "ada" }, 2),
        (doc! { "grantRolesToUser": "ada", "roles": [] }, 2),
    ] {
        assert_eq!(fails(&mut account, "d", command.clone()).await, code, "{command}");
    }
    ok(&mut account, "d", doc! { "updateUser": "ada", "mechanisms": ["SCRAM-SHA-1"] }).await;
    let more = doc! { "updateUser": "ada", "mechanisms": ["SCRAM-SHA-1", "SCRAM-SHA-256"] };
    assert_eq!(
        fails(&mut account, "d", more).await,
        2,
        "what was not kept cannot come back without a password"
    );
}

#[tokio::test]
async fn users_are_there_after_a_restart() {
    let shard = Shard::open(ShardOptions::memory()).await.expect("a shard in memory opens");
    let server = Server::over(vec![shard.clone()], settings(), Clock::manual(NOW)).await;
    let mut account = owner(&server).await;
    make(&mut account, "ada", vec!["read".into()]).await;
    drop((account, server));
    let server = Server::over(vec![shard], settings(), Clock::manual(NOW)).await;
    let mut ada = signed_in(&server, "ada").await;
    ok(&mut ada, "d", doc! { "find": "c" }).await;
    assert_eq!(fails(&mut ada, "d", doc! { "insert": "c", "documents": [{}] }).await, UNAUTHORIZED);
}

#[tokio::test]
async fn a_greeting_speculates_only_on_what_it_offers_the_user() {
    let server = Server::start_with(settings()).await;
    let mut account = owner(&server).await;
    for mechanism in ["SCRAM-SHA-1", "SCRAM-SHA-256"] {
        let made = doc! { "createUser": mechanism, "pwd": PASSWORD, "roles": [], "mechanisms": [mechanism] };
        ok(&mut account, "d", made).await;
        let payload = format!("n,,n={mechanism},r=abcdef").into_bytes();
        let payload = bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: payload };
        let first = doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": payload, "db": "d" };
        let hello = doc! {
            "hello": 1, "saslSupportedMechs": format!("d.{mechanism}"), "speculativeAuthenticate": first,
        };
        let reply = ok(&mut server.connect(), "admin", hello).await;
        assert_eq!(reply.has("speculativeAuthenticate"), mechanism == "SCRAM-SHA-256", "{reply:?}");
    }
}
