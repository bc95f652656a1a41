//! Emulator mode. Each client form is a start with its variables and arguments, then its probe, certificate and first requests.
//!
//! | client | image that it expects | test |
//! |---|---|---|
//! | Aspire, `RunAsEmulator` | vNext | `aspire_waits_for_ready_and_creates_resources`, `aspire_brings_its_developer_certificate` |
//! | Aspire, `RunAsClassicEmulator` | classic | `aspire_reads_the_account_of_the_classic_emulator` |
//! | Testcontainers for .NET, Go, Node | vNext | `testcontainers_for_dotnet`, `…_go`, `…_node` |
//! | Testcontainers for Java, Python | classic | `testcontainers_for_java`, `…_python` |
//!
//! `tests-sdk` runs the modules for Python, Node.js and Java themselves, with a process in the container's place.

use serde_json::{Value as Json, json};
use shardlake_testkit::{Client, EMULATOR_KEY, Request};

use crate::direct_client::{Ask, CREATE, DirectClient, READ, Text, item, on_item};
use crate::emulator_support::{
    Emulator, Form, STARTED, body, downloaded_certificate, get, signed_get_over_tls,
};
use crate::support::{command, refused};

const DEVELOPER: &[u8] = include_bytes!("../certificates/developer.pem");

/// The account document, read by a client that calls the server `host`.
fn account(server: &Emulator, host: &str) -> Json {
    server.client().get("/", &[("host", host)]).expect_status(200).json()
}

fn endpoint(account: &Json) -> &str {
    account["writableLocations"][0]["databaseAccountEndpoint"].as_str().unwrap()
}

/// Requests of `CreateDatabaseIfNotExistsAsync` and `CreateContainerIfNotExistsAsync`.
fn create_if_missing(server: &Emulator, host: &str) {
    let client = server.client();
    let host = [("host", host)];
    for (path, parent, body) in [
        ("/dbs/db", "/dbs", json!({ "id": "db" })),
        ("/dbs/db/colls/c", "/dbs/db/colls", json!({ "id": "c", "partitionKey": { "paths": ["/pk"] } })),
    ] {
        assert_eq!(client.get(path, &host).status, 404, "{path}");
        let _made = client.post_json(parent, &host, &body).expect_status(201);
        let _there = client.get(path, &host).expect_status(200);
    }
}

#[test]
fn aspire_waits_for_ready_and_creates_resources() {
    let server = Form { variables: &[("ENABLE_EXPLORER", "false")], ..Form::default() }.start();
    assert_eq!(server.listeners().len(), 2, "API and health");
    assert_eq!(body(&get(server.health(), "localhost:54321", "/ready", "")), "ready\n");
    let read = account(&server, "localhost:54322");
    assert_eq!((endpoint(&read), &read["id"]), ("http://localhost:54322/", &json!("cosmosdev")));
    create_if_missing(&server, "localhost:54322");
    assert!(get(server.api(), "localhost", "/_explorer/", "accept: text/html\r\n").contains(" 404 "));
}

/// The application trusts the developer certificate alone, so that the server has to show it.
#[test]
fn aspire_brings_its_developer_certificate() {
    for name in ["aes.pfx", "des.pfx"] {
        let file = format!("{}/tests/certificates/{name}", env!("CARGO_MANIFEST_DIR"));
        let variables = [
            ("PROTOCOL", "https"),
            ("EXPLORER_PROTOCOL", "https"),
            ("CERT_PATH", file.as_str()),
            ("CERT_SECRET", "developer"),
            ("NODE_EXTRA_CA_CERTS", "/none"),
        ];
        let server = Form { variables: &variables, ..Form::default() }.start();
        assert!(server.output.contains("\nNow listening on: https://0.0.0.0:"), "{}", server.output);
        assert!(
            signed_get_over_tls(&server, DEVELOPER, "localhost", "/dbs").starts_with("HTTP/1.1 200"),
            "{name}"
        );
        assert_eq!(body(&get(server.health(), "localhost:8080", "/ready", "")), "ready\n");
        assert_eq!(downloaded_certificate(server.api()), DEVELOPER, "{name}");
    }
}

#[test]
fn a_certificate_that_does_not_open_ends_the_start() {
    let file = format!("{}/tests/certificates/aes.pfx", env!("CARGO_MANIFEST_DIR"));
    for (path, words) in [(file.as_str(), "CERT_SECRET"), ("/nowhere/x.pfx", "/nowhere/x.pfx")] {
        let variables = [("CERT_PATH", path), ("CERT_SECRET", "wrong")];
        let directory = tempfile::tempdir().unwrap();
        let ended = Form { variables: &variables, ..Form::default() }.command(&directory).output().unwrap();
        let log = std::fs::read_to_string(directory.path().join("log")).unwrap();
        assert_eq!((ended.status.code(), ended.stdout.as_slice()), (Some(1), &b""[..]), "{log}");
        assert!(log.contains(words) && !log.contains("wrong"), "{log}");
    }
}

#[test]
fn aspire_reads_the_account_of_the_classic_emulator() {
    let variables = [
        ("AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE", "true"),
        ("AZURE_COSMOS_EMULATOR_PARTITION_COUNT", "25"),
    ];
    let server = Form { variables: &variables, ..Form::default() }.start();
    let trusted = downloaded_certificate(server.api());
    let answer = signed_get_over_tls(&server, &trusted, "127.0.0.1", "/");
    let account: Json = serde_json::from_str(body(&answer)).unwrap();
    assert!(endpoint(&account).starts_with("https://"), "{account}");
    let log = server.log();
    let ignored = log.lines().find(|line| line.contains("accepts and ignores")).expect("named");
    assert!(variables.iter().all(|(name, _)| ignored.contains(name)), "{ignored}");
}

/// Every request has the host and port that Docker mapped, as the module's handler rewrites them.
#[test]
fn testcontainers_for_dotnet() {
    let variables = [("ENABLE_EXPLORER", "false"), ("ENABLE_TELEMETRY", "false")];
    let server = Form { variables: &variables, ..Form::default() }.start();
    let log = server.log();
    assert_eq!((server.output.matches("Started").count(), log.matches("Started").count()), (1, 0), "{log}");
    assert_eq!(account(&server, "127.0.0.1:49153")["id"], "cosmosdev");
    let made = server.client().post_json("/dbs", &[("host", "127.0.0.1:49153")], &json!({ "id": "db" }));
    assert_eq!(made.status, 201, "{made}");
}

/// The module takes the first certificate of the PEM file into a trust store, and waits for a line that ends in CR LF.
#[test]
fn testcontainers_for_java() {
    let server = Form::default().start();
    assert!(server.output.ends_with("\nStarted\r\n"), "{:?}", server.output);
    let trusted = downloaded_certificate(server.api());
    for name in ["localhost", "127.0.0.1"] {
        assert!(signed_get_over_tls(&server, &trusted, name, "/dbs").starts_with("HTTP/1.1 200"), "{name}");
    }
    let _database = server.client().create_database("Azure").expect_status(201);
    let _container =
        server.client().create_container("Azure", "ServiceContainer", "/name").expect_status(201);
}

/// The module appends its command to the image's entry point, and waits for the line and the port.
#[test]
fn testcontainers_for_go() {
    let server = Form { arguments: &["--enable-explorer", "false"], ..Form::default() }.start();
    assert_eq!(server.listeners().len(), 2, "API and health");
    create_if_missing(&server, "localhost:32768");
}

/// The module maps the port that it names in `PORT` to itself.
#[test]
fn testcontainers_for_node() {
    let variables =
        [("PROTOCOL", "http"), ("PORT", "0"), ("ENABLE_TELEMETRY", "false"), ("ENABLE_EXPLORER", "false")];
    let server = Form { variables: &variables, ..Form::default() }.start();
    let line = format!("\nNow listening on: http://0.0.0.0:{}\n", server.api().port());
    assert!(server.output.contains(&line), "{line} in {}", server.output);
    create_if_missing(&server, &server.api().to_string());
}

/// The module copies the certificate out of the container's file system.
#[test]
fn testcontainers_for_python() {
    let place = tempfile::tempdir().unwrap();
    let pem =
        place.path().join("appdata/.system/profiles/Client/AppData/Local/CosmosDBEmulator/emulator.pem");
    let variables = [
        ("AZURE_COSMOS_EMULATOR_PARTITION_COUNT", "10"),
        ("AZURE_COSMOS_EMULATOR_IP_ADDRESS_OVERRIDE", "10.1.2.3"),
        ("AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE", "false"),
        ("AZURE_COSMOS_EMULATOR_KEY", EMULATOR_KEY),
        ("SHARDLAKE_EMULATOR_PEM", pem.to_str().unwrap()),
    ];
    let server = Form { variables: &variables, ..Form::default() }.start();
    assert!(server.output.ends_with(STARTED));
    let trusted = downloaded_certificate(server.api());
    assert_eq!(std::fs::read(pem).unwrap(), trusted);
    assert!(get(server.api(), "localhost:8081", "/_explorer/index.html", "").starts_with("HTTP/1.1 200"));
    assert!(signed_get_over_tls(&server, &trusted, "10.1.2.3", "/dbs").starts_with("HTTP/1.1 200"));
}

#[test]
fn any_host_name_is_answered_and_the_log_warns_of_it() {
    let server = Form::default().start();
    assert_eq!(server.log().matches("WARN").count(), 1, "{}", server.log());
    assert!(server.log().contains("EMULATOR MODE"), "{}", server.log());
    for host in ["cosmos.team.example:8081", "cosmosdb", "192.0.2.7:1", "[::1]:9"] {
        assert_eq!(endpoint(&account(&server, host)), format!("http://{host}/"));
        let page = get(server.api(), host, "/readyz", "origin: https://forwarded.example\r\n");
        assert_eq!(body(&page), "ready\n", "{host}");
    }
    for malformed in ["a\"b", "x:99999999", ""] {
        assert_eq!(server.client().get("/", &[("host", malformed)]).status, 400, "{malformed:?}");
    }
}

#[test]
fn the_account_document_needs_no_signature_and_all_else_does() {
    let server = Form::default().start();
    for address in server.listeners() {
        let read: Json = serde_json::from_str(body(&get(address, "localhost:8081", "/", ""))).unwrap();
        assert_eq!((endpoint(&read), &read["id"]), ("http://localhost:8081/", &json!("cosmosdev")));
    }
    assert!(get(server.api(), "localhost", "/dbs", "").starts_with("HTTP/1.1 401"));
    let wrong = Client::new(server.api(), "d3Jvbmc=");
    assert_eq!(wrong.get("/", &[]).status, 401, "a signature that is sent is checked");
    assert_eq!(wrong.get("/dbs", &[]).status, 401);
}

/// The page signs in by itself at a loopback name, where browsers give it the means to sign.
#[test]
fn the_explorer_has_a_port_of_its_own() {
    let server = Form::default().start();
    let [_, explorer, _] = server.listeners()[..] else { panic!("three listeners") };
    let root = get(explorer, "localhost:1234", "/", "accept: text/html\r\n");
    assert!(root.starts_with("HTTP/1.1 303") && root.contains("location: /_explorer/"), "{root}");
    assert!(
        body(&get(explorer, "localhost:1234", "/_explorer/", "accept: text/html\r\n")).contains("<script")
    );
}

#[test]
fn a_key_of_the_classic_emulator_replaces_the_well_known_one() {
    let own = "b3duIGtleSBvZiBhIHRlc3Q=";
    let form = [("AZURE_COSMOS_EMULATOR_KEY", own)];
    let server = Form { variables: &form, ..Form::default() }.start();
    let _account = Client::new(server.api(), own).get("/dbs", &[]).expect_status(200);
    assert_eq!(server.client().get("/dbs", &[]).status, 401);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("key");
    std::fs::write(&file, format!("{own}\n")).unwrap();
    let file = file.to_str().unwrap();
    for form in [
        Form { variables: &[("KEY_FILE", file)], ..Form::default() },
        Form { arguments: &["--key-file", file], ..Form::default() },
    ] {
        let server = form.start();
        let _account = Client::new(server.api(), own).get("/dbs", &[]).expect_status(200);
    }
}

/// The key of the variable is the one that clients use, also where key files exist.
#[test]
fn the_key_of_the_variable_wins_over_key_files_and_the_log_names_them() {
    let (own, other) = ("b3duIGtleSBvZiBhIHRlc3Q=", "b3RoZXIga2V5IG9mIGEgdGVzdA==");
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let stored = data.join("keys.json");
    std::fs::write(&stored, json!({ "primary": other }).to_string()).unwrap();
    let file = place.path().join("key");
    std::fs::write(&file, other).unwrap();
    let (file, data) = (file.to_str().unwrap(), data.to_str().unwrap());
    let variables = [("AZURE_COSMOS_EMULATOR_KEY", own), ("KEY_FILE", file), ("DATA_PATH", data)];
    let server = Form { variables: &variables, ..Form::default() }.start();
    let status = |server: &Emulator, key: &str| Client::new(server.api(), key).get("/dbs", &[]).status;
    assert_eq!((status(&server, own), status(&server, other)), (200, 401));
    for named in [file, stored.to_str().unwrap()] {
        assert!(server.log().contains(&format!("the key file is not read file={named}")), "{}", server.log());
    }
    // Without the variable, the keys of the data directory are not served, which is on record.
    let server = Form { variables: &variables[2..], ..Form::default() }.start();
    assert_eq!((status(&server, EMULATOR_KEY), status(&server, other)), (200, 401));
    let words = format!("name them with --key-file to serve them file={}", stored.display());
    assert!(server.log().contains(&words), "{}", server.log());
}

#[test]
fn unknown_names_are_logged_and_end_no_start() {
    let server = Form {
        variables: &[("AZURE_COSMOS_EMULATOR_NEW_SETTING", "1"), ("ENABLE_OTLP_EXPORTER", "false")],
        arguments: &["--new-argument", "7", "/NoUI", "--protocol", "https-insecure"],
    }
    .start();
    let log = server.log();
    let named = log.lines().find(|line| line.contains("does not know")).expect("a warning");
    for name in ["AZURE_COSMOS_EMULATOR_NEW_SETTING", "--new-argument", "/NoUI"] {
        assert!(named.contains(name), "{name}: {named}");
    }
    assert!(!named.contains("--protocol"), "{named}");
    let _served = server.client().get("/", &[]).expect_status(200);
}

/// Without the mode the server takes no argument of an emulator, and refuses the well-known key beyond loopback.
#[test]
fn the_mode_alone_lifts_the_rules() {
    let ended = command(&["serve", "--enable-explorer", "false"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    let place = tempfile::tempdir().unwrap();
    let key = place.path().join("keys.json");
    std::fs::write(&key, json!({ "primary": EMULATOR_KEY }).to_string()).unwrap();
    let key = format!("--key-file={}", key.display());
    let data = format!("--data-dir={}", place.path().join("data").display());
    let message = refused(&mut command(&["serve", "--listen=0.0.0.0:0", "--log-level=error", &key, &data]));
    assert!(message.contains("well-known"), "{message}");
    let message = refused(&mut command(&["serve", "--emulator-pem=/nowhere"]));
    assert!(message.contains("--emulator-pem needs --emulator"), "{message}");
}

/// Without the mode, frames come from this machine alone while the well-known key is accepted.
#[test]
fn direct_mode_serves_clients_beyond_loopback() {
    let server = Form::default().start();
    let outside = server.api_from_outside();
    let client = Client::new(outside, EMULATOR_KEY);
    let _database = client.create_database("d").expect_status(201);
    let container = client.create_container("d", "c", "/pk").expect_status(201).json();
    let replica = replica(&client, container["_rid"].as_str().unwrap());
    assert!(replica.starts_with(&format!("rntbd://{outside}/")), "{replica}");
    let path = replica[replica.find("/apps").unwrap()..].trim_end_matches('/').to_owned();
    let at = |ask: Ask| ask.with(0x13, Text::Long(path.clone()));
    let mut frames = DirectClient::open_at(outside, &downloaded_certificate(outside));
    let made = frames.answer(&at(on_item(CREATE, None, &json!(["k"]), &item("1", "k"))));
    assert_eq!(made.status, 201, "{made:?}");
    let read = frames.answer(&at(on_item(READ, Some("1"), &json!(["k"]), &[])));
    assert_eq!((read.status, read.json()), (200, made.json()));
}

/// The address of the first range of the container `d`/`c`.
fn replica(client: &Client, container: &str) -> String {
    let database = client.get("/dbs/d", &[]).expect_status(200).json();
    let resolved = format!("dbs/{}/colls/{container}/docs", database["_rid"].as_str().unwrap());
    let resolved = resolved.replace('/', "%2f").replace('=', "%3d").replace('+', "%2b");
    let path =
        format!("//addresses/?$resolveFor={resolved}&$filter=protocol%20eq%20rntbd&$partitionKeyRangeIds=0");
    let link = container.to_lowercase();
    let request =
        Request { method: "GET", path: &path, resource: Some(("docs", &link)), ..Request::default() };
    let feed = client.send(&request).expect("an answer").expect_status(200).json();
    feed["Addresss"][0]["physcialUri"].as_str().unwrap().to_owned()
}
