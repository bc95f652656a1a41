//! The signature this crate computes is the one the SDKs compute.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use percent_encoding::percent_decode_str;
use serde_json::Value;
use shardlake_testkit::{EMULATOR_KEY, authorization, own_vectors, resource_of_path, shared_directory};

const DATE: &str = "Thu, 27 Apr 2017 00:51:12 GMT";

fn token(verb: &str, resource_type: &str, link: &str, date: &str) -> String {
    let header = authorization(verb, resource_type, link, date, EMULATOR_KEY);
    percent_decode_str(&header).decode_utf8().unwrap().into_owned()
}

#[test]
fn four_published_signatures() {
    let signature = |verb, path| {
        let (resource_type, link) = resource_of_path(path);
        token(verb, &resource_type, &link, DATE).replace("type=master&ver=1.0&sig=", "")
    };
    assert_eq!(signature("GET", "/"), "gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc=");
    assert_eq!(
        signature("POST", "/dbs/ToDoList/colls/Items/docs/"),
        "xsGOVdJuhdfCMSf88b/z4eUsnekTR9zZqIIh8juDTYo="
    );
    assert_eq!(
        signature("GET", "/dbs/ToDoList/colls/Items/pkranges"),
        "JdKBC8MLrC5G54uKYVaIhq/7Zc6tfFSHW4jR7yNCSKQ="
    );
    assert_eq!(
        signature("GET", "/dbs/ToDoList/colls/Items/docs/H%C3%A9llo%20w%C3%B6rld"),
        "8ABDZjtjXXMk9nK82BeMHEwJb0v0puH1xjQrZlbz9Eo="
    );
}

fn expect_tokens(vectors: &[Value]) {
    assert!(!vectors.is_empty());
    for vector in vectors {
        let field = |name: &str| vector[name].as_str().unwrap();
        // A rid is recorded as it is written, and signed in lower case.
        let of_rid = field("resourceType") == "offers";
        let link = if of_rid { field("resourceId").to_lowercase() } else { field("resourceId").to_owned() };
        let got = token(field("verb"), field("resourceType"), &link, field("date"));
        assert_eq!(got, field("token"), "{vector}");
    }
}

#[test]
fn tokens_are_those_of_another_implementation() {
    expect_tokens(&own_vectors("signatures"));
}

#[test]
fn the_shared_vectors() {
    let Some(directory) = shared_directory("conformance", "signature_vectors::the_shared_vectors") else {
        return;
    };
    let text = std::fs::read_to_string(directory.join("auth_vectors.json")).unwrap();
    expect_tokens(&serde_json::from_str::<Vec<Value>>(&text).unwrap());
}
