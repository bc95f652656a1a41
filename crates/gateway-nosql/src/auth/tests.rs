//! Signatures against published vectors, and every way in which a token can be wrong.

use super::*;

/// The well-known key of the reference's emulator.
const KEY: &str = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
const DATE: &str = "Thu, 27 Apr 2017 00:51:12 GMT";
const NOW: Timestamp = Timestamp(1_493_254_272_000);

fn keyring(access: Access) -> Keyring {
    Keyring::new(&[AccountKey { name: "primary", key: KEY.into(), access }], Duration::from_secs(900))
        .expect("a valid key")
}

fn payload<'r>(verb: &'r str, resource_type: &'r str, resource_link: &'r str) -> Payload<'r> {
    Payload { verb, resource_type, resource_link, ms_date: DATE, date: "" }
}

#[test]
fn published_signatures_are_accepted_in_every_encoding() {
    for (verb, resource_type, link, signature) in [
        ("GET", "", "", "gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc="),
        ("POST", "docs", "dbs/ToDoList/colls/Items", "xsGOVdJuhdfCMSf88b/z4eUsnekTR9zZqIIh8juDTYo="),
        ("GET", "pkranges", "dbs/ToDoList/colls/Items", "JdKBC8MLrC5G54uKYVaIhq/7Zc6tfFSHW4jR7yNCSKQ="),
        (
            "GET",
            "docs",
            "dbs/ToDoList/colls/Items/docs/H\u{e9}llo w\u{f6}rld",
            "8ABDZjtjXXMk9nK82BeMHEwJb0v0puH1xjQrZlbz9Eo=",
        ),
    ] {
        let plain = format!("type=master&ver=1.0&sig={signature}");
        let encoded =
            percent_encoding::utf8_percent_encode(&plain, percent_encoding::NON_ALPHANUMERIC).to_string();
        for token in [plain, encoded] {
            let access = keyring(Access::Full).authenticate_key(
                Some(&token),
                &[payload(verb, resource_type, link)],
                NOW,
            );
            assert_eq!(access.expect("accepted"), Access::Full, "{token}");
        }
    }
}

/// Vectors as both files of them are written.
fn expect_accepted(vectors: &[serde_json::Value]) {
    for vector in vectors {
        let member = |name: &str| vector[name].as_str().expect("text");
        let (resource_type, id) = (member("resourceType"), member("resourceId"));
        // The vectors name an offer as it is; its lower-case form is signed, which the router makes.
        let link = if resource_type == "offers" { id.to_lowercase() } else { id.to_owned() };
        let date = member("date");
        let form = Payload { ms_date: date, ..payload(member("verb"), resource_type, &link) };
        let now = httpdate::parse_http_date(date).expect("a date").duration_since(std::time::UNIX_EPOCH);
        let now = Timestamp(now.expect("after 1970").as_millis() as u64);
        let access = keyring(Access::Full).authenticate_key(Some(member("token")), &[form], now);
        assert!(access.is_ok(), "{vector}: {access:?}");
    }
}

#[test]
fn signatures_of_another_implementation_are_accepted() {
    expect_accepted(&shardlake_testkit::own_vectors("signatures"));
}

#[test]
fn the_shared_vectors_are_accepted() {
    let test = "the_shared_vectors_are_accepted";
    let Some(directory) = shardlake_testkit::shared_directory("conformance", test) else { return };
    let text = std::fs::read_to_string(directory.join("auth_vectors.json")).expect("the file is there");
    let vectors: Vec<serde_json::Value> = serde_json::from_str(&text).expect("valid JSON");
    assert!(vectors.len() >= 8, "{}", vectors.len());
    expect_accepted(&vectors);
}

#[test]
fn a_second_key_and_a_second_form_are_tried() {
    let other = AccountKey { name: "primary", key: STANDARD.encode([1; 64]), access: Access::Full };
    let known = AccountKey { name: "secondaryReadonly", key: KEY.into(), access: Access::ReadOnly };
    let keyring = Keyring::new(&[other, known], Duration::from_secs(900)).expect("valid keys");
    let token = "type=master&ver=1.0&sig=gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc=";
    let forms = [payload("GET", "dbs", "dbs/x"), payload("GET", "", "")];
    assert_eq!(keyring.authenticate_key(Some(token), &forms, NOW).expect("accepted"), Access::ReadOnly);
    // The name is that of the key, also where others are missing.
    assert_eq!(keyring.key_name(Some(token), &forms), "secondaryReadonly key");
}

#[test]
fn wrong_tokens_are_unauthorized_and_the_message_shows_what_was_expected() {
    let keyring = keyring(Access::Full);
    let forms = [payload("GET", "docs", "dbs/Db/colls/C/docs/1")];
    for token in [
        "",
        "x",
        "type=master",
        "type=master&ver=1.0&sig=",
        "type=master&ver=1.0&sig=****",
        "type=master&ver=2.0&sig=AA==",
        "Bearer abc",
        "type=resource&ver=1.0",
        "type=resource&ver=1.0&sig=abc;def;",
        "type=resource&ver=2.0&sig=abc;def;",
        "%ff",
    ] {
        let error = keyring.authenticate_key(Some(token), &forms, NOW).expect_err(token);
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{token}");
    }
    assert_eq!(
        keyring.authenticate_key(None, &forms, NOW).expect_err("none").kind(),
        ErrorKind::Unauthorized
    );
    let wrong = "type=master&ver=1.0&sig=gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc=";
    let error = keyring.authenticate_key(Some(wrong), &forms, NOW).expect_err("another request's signature");
    assert!(
        error.message().contains("'get\ndocs\ndbs/Db/colls/C/docs/1\nthu, 27 apr 2017 00:51:12 gmt\n\n'"),
        "{error}"
    );
    let undated = Payload { ms_date: "", ..forms[0] };
    assert_eq!(
        keyring.authenticate_key(Some(wrong), &[undated], NOW).expect_err("undated").kind(),
        ErrorKind::Unauthorized
    );
}

#[test]
fn other_kinds_of_token_are_refused_by_name() {
    let forms = [payload("GET", "", "")];
    for (token, name) in [("type=aad&ver=1.0&sig=a.b.c", "Entra ID"), ("type=sas&ver=1.0&sig=a;b", "SAS")] {
        let error = keyring(Access::Full).authenticate_key(Some(token), &forms, NOW).expect_err(token);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains(name), "{error}");
    }
}

#[test]
fn dates_too_far_from_the_clock_are_forbidden() {
    let token = "type=master&ver=1.0&sig=gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc=";
    let at = |seconds: i64| {
        let now = Timestamp(NOW.0.checked_add_signed(seconds * 1000).expect("in range"));
        keyring(Access::Full).authenticate_key(Some(token), &[payload("GET", "", "")], now)
    };
    assert!(at(899).is_ok() && at(-899).is_ok());
    for late in [901, -901] {
        assert_eq!(at(late).expect_err("skewed").kind(), ErrorKind::Forbidden);
    }
}

#[test]
fn unusable_keys_are_refused_at_start() {
    for key in ["", "not base64!"] {
        let key = AccountKey { name: "primary", key: key.into(), access: Access::Full };
        assert!(Keyring::new(&[key], Duration::ZERO).is_err());
    }
    assert!(Keyring::new(&[], Duration::ZERO).is_err());
}

#[test]
fn escapes_are_read_as_the_library_reads_them() {
    let random = shardlake_stdx::Random::seeded(3);
    let alphabet = ["%", "%%", "2", "f", "F", "g", "%4", "%41", "%c3%a9", "%ff", "é", "+", "&", "=", "%00"];
    for _ in 0..5_000 {
        let text: String =
            (0..random.below(12)).map(|_| alphabet[random.below(alphabet.len() as u64) as usize]).collect();
        let expected = percent_encoding::percent_decode_str(&text).decode_utf8().ok();
        assert_eq!(unescaped(&text), expected, "{text}");
    }
}
