//! Valid and invalid logins, and the commands that need none.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use shardlake_gateway_mongo::{Access, Key, MongoSettings};
use shardlake_mql::{Document, Value};

use crate::client::{Client, OP_MSG, OP_QUERY, Server, body_section, doc, framed, message, query};

const KEY: &str = "cHJpbWFyeQ==";
const READ_ONLY: &str = "cmVhZG9ubHk=";

async fn server() -> Server {
    let key = |text: &str, access| Key { text: text.to_owned(), access };
    let settings = MongoSettings {
        keys: vec![key(KEY, Access::Full), key(READ_ONLY, Access::ReadOnly)],
        requires_authentication: true,
        ..MongoSettings::default()
    };
    Server::start_with(settings).await
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn salted(password: &str, salt: &[u8], rounds: u32) -> Vec<u8> {
    let keyed = Hmac::<Sha256>::new_from_slice(password.as_bytes()).expect("any length");
    let step = |text: &[u8]| {
        let mut mac = keyed.clone();
        mac.update(text);
        mac.finalize().into_bytes().to_vec()
    };
    let mut block = step(&[salt, &[0, 0, 0, 1]].concat());
    let mut sum = block.clone();
    for _ in 1..rounds {
        block = step(&block);
        sum.iter_mut().zip(&block).for_each(|(sum, byte)| *sum ^= byte);
    }
    sum
}

fn payload(text: &str) -> Value {
    Value::Binary(0, text.as_bytes().into())
}

fn text_of(reply: &Document) -> String {
    match reply.value("payload") {
        Value::Binary(0, bytes) => String::from_utf8(bytes.to_vec()).expect("a text"),
        other => panic!("{other} is no payload"),
    }
}

/// The client's last message, and the required end of the server's.
fn last_words(password: &str, first: &str, challenge: &str) -> (String, String) {
    let field = |name: &str| challenge.split(',').find_map(|part| part.strip_prefix(name)).expect("there");
    let salt = STANDARD.decode(field("s=")).expect("base64");
    let salted = salted(password, &salt, field("i=").parse().expect("a number"));
    let client_key = mac(&salted, "Client Key");
    let unproved = format!("c=biws,r={}", field("r="));
    let signed = format!("{first},{challenge},{unproved}");
    let signature = mac(&Sha256::digest(&client_key), &signed);
    let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
    let verifier = mac(&mac(&salted, "Server Key"), &signed);
    (format!("{unproved},p={}", STANDARD.encode(proof)), format!("v={}", STANDARD.encode(verifier)))
}

fn start(user: &str, skips: bool) -> Document {
    doc([
        ("saslStart", Value::Int(1)),
        ("mechanism", Value::string("SCRAM-SHA-256")),
        ("payload", payload(&format!("n,,n={user},r=abcdef"))),
        ("options", Document::one("skipEmptyExchange", skips).into()),
    ])
}

fn go_on(text: &str) -> Document {
    doc([("saslContinue", Value::Int(1)), ("conversationId", Value::Int(1)), ("payload", payload(text))])
}

/// The reply to the last message of a user of a database.
pub async fn prove_at(client: &mut Client, database: &str, user: &str, password: &str) -> Document {
    prove_with(client, (database, user), password, true).await
}

async fn prove(client: &mut Client, user: &str, password: &str, skips: bool) -> Document {
    prove_with(client, ("admin", user), password, skips).await
}

async fn prove_with(
    client: &mut Client,
    (database, user): (&str, &str),
    password: &str,
    skips: bool,
) -> Document {
    let challenge = client.ok(database, start(user, skips)).await;
    assert!(!challenge.value("done").is_true());
    let (words, verifier) = last_words(password, &format!("n={user},r=abcdef"), &text_of(&challenge));
    let reply = client.run(database, go_on(&words)).await;
    if reply.value("ok").is_true() {
        assert_eq!(text_of(&reply), verifier, "the server knows the password, too");
    }
    reply
}

/// Sends a command as .NET drivers do before they are logged in.
async fn ask(client: &mut Client, command: Document) -> Document {
    client.send(OP_QUERY, &query("admin.$cmd", &command)).await;
    client.receive().await.document_of_reply()
}

#[tokio::test]
async fn a_login_by_old_queries_proves_the_account() {
    let server = server().await;
    let mut client = server.connect();
    let challenge = ask(&mut client, start("localhost", false)).await;
    assert_eq!(challenge.value("ok").to_f64(), Some(1.0), "{challenge}");
    let (words, verifier) = last_words(KEY, "n=localhost,r=abcdef", &text_of(&challenge));
    let reply = ask(&mut client, go_on(&words)).await;
    assert_eq!(text_of(&reply), verifier);
    assert!(!reply.value("done").is_true());
    let last = ask(&mut client, go_on("")).await;
    assert!(last.value("done").is_true(), "{last}");
    client.ok("d", doc([("count", Value::string("c"))])).await;
    let mut stranger = server.connect();
    let challenge = ask(&mut stranger, start("localhost", true)).await;
    let (words, _) = last_words("another", "n=localhost,r=abcdef", &text_of(&challenge));
    let refused = ask(&mut stranger, go_on(&words)).await;
    assert_eq!(refused.value("code").to_i32_exact(), Some(18), "{refused}");
    assert_eq!(stranger.fails("d", doc([("count", Value::string("c"))])).await, 13);
}

#[tokio::test]
async fn each_key_proves_the_account_with_its_rights() {
    let server = server().await;
    for (key, role) in [(KEY, "root"), (READ_ONLY, "readAnyDatabase")] {
        let mut client = server.connect();
        let reply = prove(&mut client, "localhost", key, true).await;
        assert!(reply.value("done").is_true());
        let status = client.ok("admin", doc([("connectionStatus", Value::Int(1))])).await;
        let info = status.value("authInfo");
        let roles = info.as_document().expect("a document").value("authenticatedUserRoles");
        let first = roles.as_array().expect("a list")[0].as_document().expect("a document").clone();
        assert_eq!(first.value("role").as_str(), Some(role));
        let insert = doc([
            ("insert", Value::string("c")),
            ("documents", Value::array(vec![Document::one("_id", key).into()])),
        ]);
        let reply = client.run("d", insert).await;
        assert_eq!(reply.value("ok").is_true(), role == "root", "{role} may write or not");
        client.ok("d", doc([("find", Value::string("c"))])).await;
        client.ok("admin", doc([("logout", Value::Int(1))])).await;
        assert_eq!(client.fails("d", doc([("find", Value::string("c"))])).await, 13);
    }
}

#[tokio::test]
async fn the_empty_round_is_waited_for_where_the_client_wants_it() {
    let server = server().await;
    let mut client = server.connect();
    let reply = prove(&mut client, "localhost", KEY, false).await;
    assert!(!reply.value("done").is_true());
    assert_eq!(client.fails("d", doc([("find", Value::string("c"))])).await, 13);
    assert!(client.ok("admin", go_on("")).await.value("done").is_true());
    client.ok("d", doc([("find", Value::string("c"))])).await;
}

#[tokio::test]
async fn wrong_passwords_and_unknown_users_fail_with_the_same_words() {
    let server = server().await;
    let mut words = std::collections::BTreeSet::new();
    for (user, password) in [("localhost", "cHJpbWFyeR=="), ("nobody", KEY), ("localhost", "")] {
        let mut client = server.connect();
        let reply = prove(&mut client, user, password, true).await;
        assert_eq!(reply.value("code").to_i32_exact(), Some(18));
        words.insert(reply.value("errmsg").as_str().expect("words").to_owned());
        // The conversation is over.
        assert_eq!(client.fails("admin", go_on("")).await, 17);
    }
    assert_eq!(words.len(), 1);
}

#[tokio::test]
async fn a_name_that_does_not_exist_always_has_the_same_salt() {
    let server = server().await;
    let mut salts = std::collections::BTreeSet::new();
    for user in ["nobody", "nobody", "somebody", "localhost"] {
        let challenge = text_of(&server.connect().ok("admin", start(user, true)).await);
        salts.insert(challenge.split(",s=").nth(1).expect("a salt").to_owned());
    }
    assert_eq!(salts.len(), 3);
}

#[tokio::test]
async fn a_proof_is_good_for_its_own_challenge_only() {
    let server = server().await;
    let mut client = server.connect();
    let challenge = text_of(&client.ok("admin", start("localhost", true)).await);
    let (words, _) = last_words(KEY, "n=localhost,r=abcdef", &challenge);
    // Another conversation, another nonce.
    client.ok("admin", start("localhost", true)).await;
    assert_eq!(client.fails("admin", go_on(&words)).await, 18);
}

#[tokio::test]
async fn mechanisms_that_are_not_there_are_named() {
    let server = server().await;
    let mut client = server.connect();
    for mechanism in ["PLAIN", "MONGODB-X509", "GSSAPI", "MONGODB-OIDC", "MONGODB-AWS", "scram-sha-256"] {
        let start = doc([
            ("saslStart", Value::Int(1)),
            ("mechanism", Value::string(mechanism)),
            ("payload", payload("")),
        ]);
        assert_eq!(client.fails("admin", start).await, 334, "{mechanism}");
    }
}

#[tokio::test]
async fn little_may_be_asked_before_a_proof() {
    let server = server().await;
    let mut client = server.connect();
    for open in ["hello", "isMaster", "ping", "buildInfo", "connectionStatus", "getnonce", "logout"] {
        client.ok("admin", doc([(open, Value::Int(1))])).await;
    }
    client.ok("admin", doc([("endSessions", Value::array(vec![]))])).await;
    for closed in
        ["listDatabases", "serverStatus", "getParameter", "find", "insert", "aggregate", "startSession"]
    {
        assert_eq!(client.fails("admin", doc([(closed, Value::Int(1))])).await, 13, "{closed}");
    }
    assert_eq!(client.fails("admin", doc([("nosuch", Value::Int(1))])).await, 59);
}

#[tokio::test]
async fn a_greeting_may_carry_the_first_words_of_a_proof() {
    let server = server().await;
    let mut client = server.connect();
    let mut first = start("localhost", true);
    first.push("db", Value::string("admin"));
    let hello = doc([
        ("hello", Value::Int(1)),
        ("saslSupportedMechs", Value::string("admin.localhost")),
        ("speculativeAuthenticate", first.into()),
    ]);
    let reply = client.ok("admin", hello).await;
    let answer = reply.value("speculativeAuthenticate");
    let challenge = text_of(answer.as_document().expect("an answer"));
    let (words, _) = last_words(KEY, "n=localhost,r=abcdef", &challenge);
    assert!(client.ok("admin", go_on(&words)).await.value("done").is_true());
    let wrong = Document::one("saslStart", 1);
    let reply =
        client.ok("admin", doc([("hello", Value::Int(1)), ("speculativeAuthenticate", wrong.into())])).await;
    assert!(!reply.has("speculativeAuthenticate"), "what fails there is no error");
}

#[tokio::test]
async fn long_messages_are_for_clients_that_have_proved_who_they_are() {
    let server = server().await;
    let long = || doc([("ping", Value::string("x".repeat(100 << 10)))]);
    let mut client = server.connect();
    prove(&mut client, "localhost", KEY, true).await;
    client.ok("admin", long()).await;
    let mut stranger = server.connect();
    let body = body_section(&doc([("ping", Value::string("x".repeat(100 << 10)))]));
    stranger.send_bytes(&framed(1, OP_MSG, &message(0, &[body]))[..1000]).await;
    assert!(stranger.is_closed().await);
}

/// A connection that is logged in stays so; the salt of the account stays, too, so that drivers need not derive theirs anew.
#[tokio::test]
async fn a_rotated_key_proves_the_account_and_the_old_one_does_not() {
    let server = server().await;
    let mut before = server.connect();
    assert!(prove(&mut before, "localhost", KEY, true).await.value("done").is_true());
    let new = "bmV3";
    server.gateway.set_keys(vec![Key { text: new.to_owned(), access: Access::Full }]);
    before.ok("d", doc([("find", Value::string("c"))])).await;
    let mut client = server.connect();
    assert!(!prove(&mut client, "localhost", KEY, true).await.value("ok").is_true(), "the old key");
    let mut client = server.connect();
    assert!(prove(&mut client, "localhost", new, true).await.value("done").is_true(), "the new key");
    client.ok("d", doc([("find", Value::string("c"))])).await;
}
