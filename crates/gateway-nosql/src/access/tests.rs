//! Every route with every method, and the rights that it requires. The table is complete: all other combinations are 405.

use http::Method;
use shardlake_model::ErrorKind;

use super::*;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// One path for every route.
const PATHS: [&str; 28] = [
    "/",
    "/dbs",
    "/dbs/d",
    "/dbs/d/colls",
    "/dbs/d/colls/c",
    "/dbs/d/colls/c/pkranges",
    "/dbs/d/colls/c/docs",
    "/dbs/d/colls/c/docs/i",
    "/dbs/d/colls/c/operations/partitionkeydelete",
    "/dbs/d/colls/c/sprocs",
    "/dbs/d/colls/c/sprocs/s",
    "/dbs/d/colls/c/triggers",
    "/dbs/d/colls/c/triggers/s",
    "/dbs/d/colls/c/udfs",
    "/dbs/d/colls/c/udfs/s",
    "/dbs/d/colls/c/conflicts",
    "/dbs/d/colls/c/conflicts/x",
    "/dbs/d/users",
    "/dbs/d/users/u",
    "/dbs/d/users/u/permissions",
    "/dbs/d/users/u/permissions/p",
    "/offers",
    "/offers/o",
    "/addresses",
    "/operations/dtc",
    "/dbs/d/clientencryptionkeys",
    "/dbs/d/colls/c/docs/i/attachments",
    "/dbs/d/colls/c/operations/else",
];

fn plain() -> RequestHeaders<'static> {
    RequestHeaders::default()
}

fn query() -> RequestHeaders<'static> {
    RequestHeaders { is_query: Some("True"), ..plain() }
}

fn upsert() -> RequestHeaders<'static> {
    RequestHeaders { is_upsert: Some("true"), ..plain() }
}

fn needed(method: &str, path: &str, headers: &RequestHeaders<'_>) -> Result<Need> {
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    let route = Path::parse(path).and_then(|path| path.route())?;
    Operation::of(route, &method, headers).map(need)
}

/// The table for requests without headers.
fn expected(method: &str, path: &str) -> Option<Need> {
    use Effect::{Read, Write};
    let segments: Vec<&str> = path.split('/').skip(1).filter(|segment| !segment.is_empty()).collect();
    Some(match (segments.as_slice(), method) {
        ([], "GET") => Need::Anyone,
        (["dbs"] | ["dbs", _] | ["dbs", _, "colls" | "users"] | ["dbs", _, "users", _], "GET") => {
            Need::Key(Read)
        }
        (["dbs"] | ["dbs", _, "colls" | "users"], "POST") => Need::Key(Write),
        (["dbs", _] | ["dbs", _, "colls" | "users", _], "DELETE") => Need::Key(Write),
        (["dbs", _, "colls" | "users", _] | ["offers", _], "PUT") => Need::Key(Write),
        (["offers"] | ["offers", _], "GET") => Need::Key(Read),
        (["dbs", _, "users", _, "permissions"] | ["dbs", _, "users", _, "permissions", _], "GET") => {
            Need::ReadWriteKey
        }
        (["dbs", _, "users", _, "permissions"], "POST") => Need::Key(Write),
        (["dbs", _, "users", _, "permissions", _], "PUT" | "DELETE") => Need::Key(Write),
        (["dbs", _, "colls", _] | ["dbs", _, "colls", _, "pkranges"], "GET") => {
            Need::Within(Part::Frame, Read)
        }
        (["dbs", _, "colls", _, "docs"], "GET") => Need::Within(Part::Keyed, Read),
        (["dbs", _, "colls", _, "docs"], "POST") => Need::Within(Part::Keyed, Write),
        (["dbs", _, "colls", _, "docs", _], "GET") => Need::Within(Part::Item, Read),
        (["dbs", _, "colls", _, "docs", _], "PUT" | "PATCH" | "DELETE") => Need::Within(Part::Item, Write),
        (["dbs", _, "colls", _, "operations", "partitionkeydelete"], "POST") => {
            Need::Within(Part::Keyed, Write)
        }
        (["dbs", _, "colls", _, "operations", "partitionkeydelete"], _) => return None,
        (["dbs", _, "colls", _, "sprocs" | "triggers" | "udfs"], "GET") => Need::Within(Part::Shared, Read),
        (["dbs", _, "colls", _, "sprocs" | "triggers" | "udfs"], "POST") => Need::Key(Write),
        (["dbs", _, "colls", _, "sprocs", _], "GET") => {
            Need::Within(Part::Script(ScriptKind::Procedure), Read)
        }
        (["dbs", _, "colls", _, "triggers", _], "GET") => {
            Need::Within(Part::Script(ScriptKind::Trigger), Read)
        }
        (["dbs", _, "colls", _, "udfs", _], "GET") => Need::Within(Part::Script(ScriptKind::Function), Read),
        (["dbs", _, "colls", _, "sprocs", _], "POST") => Need::Within(Part::Procedure, Write),
        (["dbs", _, "colls", _, "sprocs" | "triggers" | "udfs", _], "PUT" | "DELETE") => Need::Key(Write),
        (["dbs", _, "colls", _, "conflicts"] | ["dbs", _, "colls", _, "conflicts", _], "GET") => {
            Need::Within(Part::Whole, Read)
        }
        (["dbs", _, "colls", _, "conflicts", _], "DELETE") => Need::Within(Part::Whole, Write),
        (["addresses"], "GET") => Need::Within(Part::Frame, Read),
        (["dbs", _, "clientencryptionkeys"], _) => Need::Key(Read),
        ([.., "attachments"] | [.., "operations", _], _) => Need::Key(Read),
        _ => return None,
    })
}

#[test]
fn every_route_and_method_asks_what_the_table_says() {
    for path in PATHS {
        for method in METHODS {
            match (needed(method, path, &plain()), expected(method, path)) {
                (Ok(need), Some(expected)) => assert_eq!(need, expected, "{method} {path}"),
                (Err(error), None) => {
                    assert_eq!(error.kind(), ErrorKind::MethodNotAllowed, "{method} {path}")
                }
                (outcome, expected) => {
                    panic!("{method} {path}: {outcome:?}, and the table says {expected:?}")
                }
            }
        }
        for method in ["HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "FETCH"] {
            let outcome = needed(method, path, &plain());
            let is_unsupported = expected("GET", path) == Some(Need::Key(Effect::Read)) && outcome.is_ok();
            assert!(is_unsupported || outcome.is_err(), "{method} {path}: {outcome:?}");
        }
    }
}

#[test]
fn frames_ask_for_barriers_and_otherwise_for_the_same() {
    let of_frame = |method: &str, path: &str| {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let route = Path::parse(path).and_then(|path| path.route())?;
        Operation::of_frame(route, &method, &plain()).map(need)
    };
    for path in PATHS {
        for method in METHODS {
            assert_eq!(of_frame(method, path).ok(), needed(method, path, &plain()).ok(), "{method} {path}");
        }
        let expected = match path {
            "/dbs" => Some(Need::Key(Effect::Read)),
            "/dbs/d/colls/c" => Some(Need::Within(Part::Frame, Effect::Read)),
            _ => None,
        };
        assert_eq!(of_frame("HEAD", path).ok(), expected, "{path}");
    }
    assert_eq!(need(Operation::ListMasterAddresses), Need::Key(Effect::Read));
}

#[test]
fn headers_tell_operations_of_one_path_apart() {
    let items = "/dbs/d/colls/c/docs";
    let within = |part, effect| Need::Within(part, effect);
    for (path, headers, expected) in [
        (items, query(), within(Part::Keyed, Effect::Read)),
        (
            items,
            RequestHeaders { content_type: Some("application/query+json"), ..plain() },
            within(Part::Keyed, Effect::Read),
        ),
        (
            items,
            RequestHeaders { is_query_plan: Some("true"), ..plain() },
            within(Part::Shared, Effect::Read),
        ),
        (
            items,
            RequestHeaders { is_query_plan: Some("true"), is_batch: Some("true"), ..query() },
            within(Part::Shared, Effect::Read),
        ),
        (items, upsert(), within(Part::Keyed, Effect::Write)),
        (
            items,
            RequestHeaders { is_batch: Some("True"), batch_atomic: Some("True"), ..plain() },
            within(Part::Keyed, Effect::Write),
        ),
        (
            items,
            RequestHeaders { is_batch: Some("True"), ..plain() },
            within(Part::KeyedByBody, Effect::Write),
        ),
        (items, RequestHeaders { is_query: Some("false"), ..plain() }, within(Part::Keyed, Effect::Write)),
        ("/dbs/d/colls/c/conflicts", query(), within(Part::Whole, Effect::Read)),
        ("/dbs/d/colls/c/udfs", query(), within(Part::Shared, Effect::Read)),
        ("/dbs/d/colls/c/udfs", upsert(), Need::Key(Effect::Write)),
        // Running a procedure is no query, with any headers.
        ("/dbs/d/colls/c/sprocs/s", query(), within(Part::Procedure, Effect::Write)),
        ("/dbs", query(), Need::Key(Effect::Read)),
        ("/dbs/d/colls", query(), Need::Key(Effect::Read)),
        ("/dbs/d/users", query(), Need::Key(Effect::Read)),
        ("/dbs/d/users", upsert(), Need::Key(Effect::Write)),
        ("/offers", query(), Need::Key(Effect::Read)),
        ("/dbs/d/users/u/permissions", query(), Need::ReadWriteKey),
        ("/dbs/d/users/u/permissions", upsert(), Need::Key(Effect::Write)),
    ] {
        assert_eq!(needed("POST", path, &headers).expect("an operation"), expected, "{path} {headers:?}");
    }
    // Only a POST is a query, whatever its headers are.
    for (method, expected) in
        [("PUT", Effect::Write), ("PATCH", Effect::Write), ("DELETE", Effect::Write), ("GET", Effect::Read)]
    {
        let outcome = needed(method, "/dbs/d/colls/c/docs/i", &query()).expect("an operation");
        assert_eq!(outcome, Need::Within(Part::Item, expected), "{method}");
    }
    let feed = RequestHeaders { a_im: Some("Incremental feed"), ..plain() };
    assert_eq!(needed("GET", items, &feed).expect("a feed"), within(Part::Keyed, Effect::Read));
    let unclear = RequestHeaders { is_query: Some("perhaps"), ..plain() };
    assert_eq!(needed("POST", items, &unclear).expect_err("no flag").kind(), ErrorKind::BadRequest);
}
