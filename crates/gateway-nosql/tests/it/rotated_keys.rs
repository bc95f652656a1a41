//! The account's keys over the operator's interface: access to them, and their rotation.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use shardlake_admin::{Installation, KeyName, KeyStore, LogRing, NamedKey, ProcessRings};
use shardlake_gateway_nosql::{AccountKey, Gateway, GatewaySettings};
use shardlake_model::Result;
use shardlake_testkit::EMULATOR_KEY;

use crate::harness::{NOW, READ_ONLY_KEY, Server};

const KEYS: &str = "/_shardlake/v1/keys";
/// Base64 of 64 equal bytes.
const NEW_KEY: &str =
    "AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw==";

/// Keys in memory, which a gateway accepts once they are rotated.
#[derive(Default)]
struct Store {
    rotated: Mutex<Vec<KeyName>>,
    gateway: Mutex<Option<Gateway>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("keys of a test")
    }
}

impl KeyStore for Store {
    fn keys(&self) -> Vec<NamedKey> {
        let named = |name, key: &str| NamedKey { name, key: key.to_owned() };
        vec![named(KeyName::Primary, EMULATOR_KEY), named(KeyName::PrimaryReadonly, READ_ONLY_KEY)]
    }

    fn file(&self) -> Option<String> {
        Some("/data/keys.json".to_owned())
    }

    fn rotate(&self, name: KeyName) -> Result<NamedKey> {
        self.rotated.lock().expect("no panic").push(name);
        let made = NamedKey { name, key: NEW_KEY.to_owned() };
        let accepted = AccountKey { name: name.text(), key: made.key.clone(), access: name.access() };
        let gateway = self.gateway.lock().expect("no panic").clone();
        gateway.expect("serving").set_keys(&[accepted])?;
        Ok(made)
    }
}

async fn server() -> (Server, Arc<Store>) {
    let store = Arc::new(Store::default());
    let installation = Installation {
        version: "0.9.9",
        build: "debug".into(),
        label: None,
        durability: "memory",
        started_at: NOW,
        enforces_throughput: true,
        limits_scale: "1/1".into(),
        body_size_bytes_max: 4 << 20,
        certificate_ends: None,
        data_dir: None,
        keys: Some(store.clone()),
        process: Arc::new(ProcessRings::default()),
        log: Arc::new(LogRing::default()),
        diagnostics: json!({ "settings": {} }),
    };
    let installation = Some(Arc::new(installation));
    let server = Server::start_with(GatewaySettings { installation, ..GatewaySettings::default() }).await;
    *store.gateway.lock().expect("no panic") = Some(server.gateway.clone());
    (server, store)
}

#[tokio::test]
async fn fingerprints_are_shown_to_read_write_keys_alone() {
    let (server, store) = server().await;
    let shown = server.get(KEYS).send().await.expect(200);
    assert!(!shown.text.contains(EMULATOR_KEY) && !shown.text.contains(READ_ONLY_KEY), "{}", shown.text);
    let shown = shown.json();
    assert_eq!(shown["file"], "/data/keys.json");
    let names: Vec<&Value> =
        shown["keys"].as_array().expect("a list").iter().map(|key| &key["name"]).collect();
    assert_eq!(names, [&json!("primary"), &json!("primaryReadonly")]);
    assert_eq!(
        (&shown["keys"][0]["access"], &shown["keys"][1]["access"]),
        (&json!("readWrite"), &json!("readOnly"))
    );
    assert_eq!(shown["keys"][0]["fingerprint"].as_str().map(str::len), Some(8));
    let rotate = format!("{KEYS}/primary/rotate");
    let _read_only =
        server.get(KEYS).signed_with(READ_ONLY_KEY).send().await.refused(403, 0, "read-only key");
    let _read_only =
        server.post(rotate.as_str()).signed_with(READ_ONLY_KEY).send().await.refused(403, 0, "read-only key");
    let _unsigned =
        server.post(rotate.as_str()).unsigned().send().await.refused(401, 0, "authorization is missing");
    let _unknown = server.post(format!("{KEYS}/tertiary/rotate")).send().await.refused(404, 0, "tertiary");
    let _method = server.get(rotate.as_str()).send().await.refused(405, 0, "GET");
    let _query = server.post(format!("{rotate}?x=1")).send().await.refused(400, 0, "'x=1'");
    assert!(store.rotated.lock().expect("no panic").is_empty());
}

#[tokio::test]
async fn a_rotated_key_is_accepted_from_then_on_and_the_old_one_refused() {
    let (server, store) = server().await;
    let _before = server.get("/dbs").signed_with(NEW_KEY).send().await.expect(401);
    let made = server.post(format!("{KEYS}/secondary/rotate")).send().await.expect(200).json();
    assert_eq!((&made["name"], &made["key"]), (&json!("secondary"), &json!(NEW_KEY)));
    assert_eq!(*store.rotated.lock().expect("no panic"), [KeyName::Secondary]);
    let _new = server.get("/dbs").signed_with(NEW_KEY).send().await.expect(200);
    let _old = server.get("/dbs").send().await.expect(401);
    let _old = server.post(format!("{KEYS}/primary/rotate")).send().await.expect(401);
}

#[tokio::test]
async fn a_server_without_a_store_of_keys_names_the_gap() {
    let server = Server::start().await;
    let _none = server.get(KEYS).send().await.refused(501, 0, "manages no keys");
}

/// A server on a disk notes complete ones: `crates/server/tests/it/status.rs`.
#[tokio::test]
async fn a_backup_that_is_not_being_copied_is_not_noted() {
    let (server, _store) = server().await;
    let backup = "/_shardlake/v1/backups/0a";
    let _none = server.delete(format!("{backup}?made=a")).send().await.refused(404, 0, "no backup '0a'");
    for odd in ["%22x", "", &"x".repeat(65)] {
        let refused = server.delete(format!("{backup}?made={odd}")).send().await;
        let _refused = refused.refused(400, 0, "no name of a backup");
    }
    let _unknown = server.delete(format!("{backup}?x=1")).send().await.refused(400, 0, "'x=1'");
    let about = server.get("/_shardlake/v1/server").send().await.expect(200).json();
    assert_eq!(about["lastBackup"], Value::Null);
}
