//! Abusive queries: each ends with an answer or a described error, and the account continues to serve others.
//!
//! The clock stands still except where a test moves it, so that no page and no request runs out of
//! time by itself, however busy the machine is. A query that needed more than linear time here
//! would not end at all, which the test runner notices.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use crate::support::json_door::JsonDoor;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use crate::support::queries::request;
use crate::support::{Fixture, ended, none};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use shardlake_account::{ContainerHandle, QueryRequest, Value};
use shardlake_model::{ContainerDefinition, ErrorKind, PartitionKeyDefinition, RequestContext};
use shardlake_stdx::Random;

async fn filled(throughput: u64, items: impl IntoIterator<Item = String>) -> (Fixture, ContainerHandle) {
    let fixture = Fixture::new().await;
    let container = fixture.container(throughput).await;
    for item in items {
        let ctx = fixture.ctx();
        fixture.account.upsert_item(&ctx, &container, None, item.as_bytes(), &none()).await.unwrap();
    }
    (fixture, container)
}

fn numbered(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!(r#"{{"id":"{number}","pk":"{}","n":{number}}}"#, number % 7))
}

fn ctx_for(fixture: &Fixture, time: Duration) -> RequestContext {
    RequestContext { deadline: fixture.clock.elapsed() + time, ..fixture.ctx() }
}

fn list(numbers: impl Iterator<Item = usize>) -> String {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn huge_lists_are_answered() {
    let (fixture, container) = filled(12_000, numbered(50)).await;
    let distinct = |count: usize| list((0..count).map(|number| number * 2));
    let repeated = |count: usize| list((0..count).map(|number| number % 10));
    // As long as a list behind IN may be, and a longer one.
    let pairs = [(distinct(15_999), distinct(70_000), 25), (repeated(15_999), repeated(100_000), 10)];
    for (list, longer, inside) in &pairs {
        let inside = *inside;
        for (not, expected) in [("", inside), ("NOT ", 50 - inside)] {
            let text = format!("SELECT VALUE c.id FROM c WHERE c.n {not}IN ({list})");
            let rows = fixture.answer(&container, &text, 1000).await.unwrap().rows;
            assert_eq!(rows.len(), expected);
        }
        let text = format!("SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS([{longer}], c.n)");
        assert_eq!(fixture.answer(&container, &text, 1000).await.unwrap().rows.len(), inside);
        let text = format!("SELECT VALUE COUNT(1) FROM c WHERE c.pk IN ('1', {list})");
        assert_eq!(fixture.answer(&container, &text, 1000).await.unwrap().rows, [Value::Int(7)]);
    }
    let numbers = (0..100_000).map(|number| Value::Int(number * 2)).collect();
    let parameters = [("@list".to_owned(), Value::Array(numbers))];
    let text = "SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(@list, c.n) ORDER BY c.n";
    let request = QueryRequest { parameters: &parameters, ..request(text, 1000, None) };
    let reply = fixture.account.queries().query(&fixture.ctx(), &container, request).await.unwrap();
    assert_eq!(reply.rows.len(), 25);
}

/// Changes the content of a token, with a correct checksum.
fn forge(token: &str, change: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut bytes = URL_SAFE_NO_PAD.decode(token).unwrap();
    bytes.truncate(bytes.len() - 4);
    change(&mut bytes);
    let checksum = crc32fast::hash(&bytes).to_be_bytes();
    bytes.extend_from_slice(&checksum);
    URL_SAFE_NO_PAD.encode(bytes)
}

const PAGED: [&str; 9] = [
    "SELECT VALUE c.n FROM c",
    "SELECT VALUE c.n FROM c WHERE c.n >= 3",
    "SELECT VALUE c.n FROM c WHERE c.n IN (1, 2, 30) OR c.pk > '3'",
    "SELECT VALUE c.n FROM c ORDER BY c.n DESC",
    "SELECT VALUE [c.n, c.pk] FROM c ORDER BY c.pk, c.n",
    "SELECT DISTINCT VALUE c.pk FROM c",
    "SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk",
    "SELECT VALUE t FROM c JOIN t IN (SELECT VALUE [1, 2, 3]) WHERE c.n > 1 OFFSET 2 LIMIT 30",
    "SELECT TOP 20 VALUE c.n FROM c WHERE c.n < 20",
];

const COMPOSITE: &str = r#"{"compositeIndexes":[[{"path":"/pk"},{"path":"/n"}]]}"#;

async fn paged(throughput: u64) -> (Fixture, ContainerHandle) {
    let fixture = Fixture::new().await;
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.indexing_policy = serde_json::from_str(COMPOSITE).unwrap();
    let container = fixture.container_with(definition, throughput).await;
    for item in numbered(40) {
        let ctx = fixture.ctx();
        fixture.account.upsert_item(&ctx, &container, None, item.as_bytes(), &none()).await.unwrap();
    }
    (fixture, container)
}

/// Tokens of the first pages of a query.
async fn tokens(fixture: &Fixture, container: &ContainerHandle, text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = vec![];
    while tokens.len() < 4 {
        let reply = fixture.page(container, text, 2, tokens.last().map(String::as_str)).await.unwrap();
        match reply.continuation {
            Some(token) => tokens.push(token),
            None => break,
        }
    }
    assert!(!tokens.is_empty(), "{text}");
    tokens
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_tokens_and_those_of_other_queries_are_refused() {
    for throughput in [400, 30_000] {
        let (fixture, container) = paged(throughput).await;
        let other = ContainerDefinition::new("other", PartitionKeyDefinition::hash("/pk"));
        let other = fixture.container_with(other, throughput).await;
        let parameters = [("@p".to_owned(), Value::Int(1))];
        for text in PAGED {
            let token = &tokens(&fixture, &container, text).await[0];
            let mut damaged: Vec<String> = (0..token.len()).map(|end| token[..end].to_owned()).collect();
            for at in 0..token.len() {
                let mut bytes = token.clone().into_bytes();
                bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
                damaged.push(String::from_utf8(bytes).unwrap());
            }
            damaged.extend([format!("{token}AAAA"), "x".repeat(100_000), "\u{0}\u{fffd}".into()]);
            // Another spelling of the same bytes is not damaged.
            damaged.retain(|other| URL_SAFE_NO_PAD.decode(other) != URL_SAFE_NO_PAD.decode(token));
            for damaged in damaged.iter().filter(|damaged| !damaged.is_empty()) {
                let error = fixture.page(&container, text, 2, Some(damaged)).await.expect_err(damaged);
                assert_eq!(error.kind(), ErrorKind::BadRequest, "{text}: {error}");
            }
            let elsewhere = fixture.page(&other, text, 2, Some(token)).await;
            let otherwise = fixture.page(&container, &format!("{text} "), 2, Some(token)).await;
            let request = QueryRequest { parameters: &parameters, ..request(text, 2, Some(token)) };
            let with_parameters = fixture.account.queries().query(&fixture.ctx(), &container, request).await;
            for reply in [elsewhere, otherwise, with_parameters] {
                assert_eq!(reply.expect_err(text).kind(), ErrorKind::BadRequest);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_tokens_give_rows_or_an_error() {
    let random = Random::seeded(7);
    for throughput in [400, 30_000] {
        let (fixture, container) = paged(throughput).await;
        for text in PAGED {
            for token in tokens(&fixture, &container, text).await {
                for _ in 0..60 {
                    let forged = forge(&token, |bytes| damage(bytes, &random));
                    match fixture.page(&container, text, 2, Some(&forged)).await {
                        Ok(reply) => assert!(reply.rows.len() <= 2, "{text}"),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::BadRequest, "{text}: {error}"),
                    }
                }
            }
        }
        let text = "SELECT VALUE COUNT(1) FROM c";
        assert_eq!(fixture.answer(&container, text, 1).await.unwrap().rows, [Value::Int(40)]);
    }
}

/// Changes bytes after the hash, since a wrong hash is only refused.
fn damage(bytes: &mut Vec<u8>, random: &Random) {
    const HEAD: usize = 13;
    let at = |length: usize| HEAD + random.below((length - HEAD) as u64) as usize;
    let place = at(bytes.len());
    match at(HEAD + 4) - HEAD {
        0 => bytes[place] = at(HEAD + 256) as u8,
        1 => bytes[place] ^= 1 << (at(HEAD + 8) - HEAD),
        2 => bytes.truncate(place),
        _ => bytes.insert(place, 0xFF),
    }
}

/// A JOIN for each of ten variables over an array of a thousand: 10^30 rows.
fn explosions() -> Vec<String> {
    let mut joins = String::new();
    for number in 0..10 {
        write!(joins, " JOIN t{number} IN c.list").unwrap();
    }
    vec![
        format!("SELECT VALUE COUNT(1) FROM c{joins}"),
        format!("SELECT VALUE c.id FROM c{joins} WHERE t8 + t9 < 0"),
        format!("SELECT DISTINCT VALUE 1 FROM c{joins} WHERE t0 + t1 + t2 + t3 + t9 > 100000"),
        format!("SELECT t9, COUNT(1) FROM c{joins} GROUP BY t9"),
        format!("SELECT VALUE c.id FROM c{joins} ORDER BY c.id OFFSET 4000000000 LIMIT 1"),
        format!("SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE 1 FROM c{joins} WHERE t8 + t9 < 0)"),
        format!("SELECT VALUE (SELECT VALUE SUM(t9) FROM c{joins}) FROM c"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exploding_joins_end_at_the_deadline_and_disturb_nobody() {
    let item =
        |number: usize| format!(r#"{{"id":"{number}","pk":"{number}","n":1,"list":[{}]}}"#, list(0..1000));
    let (fixture, container) = filled(400, (0..3).map(item)).await;
    let fixture = Arc::new(fixture);
    for text in explosions() {
        let time = Duration::from_millis(300);
        let explosion = tokio::spawn({
            let (ctx, fixture, container) = (ctx_for(&fixture, time), fixture.clone(), container.clone());
            let text = text.clone();
            async move { fixture.account.queries().query(&ctx, &container, request(&text, 100, None)).await }
        });
        for _ in 0..20 {
            let text = "SELECT VALUE c.id FROM c WHERE c.n = 1 ORDER BY c.n";
            assert_eq!(fixture.answer(&container, text, 100).await.unwrap().rows.len(), 3);
        }
        assert!(!explosion.is_finished(), "{text}: others were answered meanwhile, and its time is not over");
        fixture.clock.advance(time + Duration::from_millis(1));
        let error = ended(&text, explosion).await.expect("no panic").expect_err(&text);
        assert_eq!(error.kind(), ErrorKind::Timeout, "{text}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_behind_heavy_queries_waits_to_the_deadline() {
    let item = format!(r#"{{"id":"1","pk":"1","list":[{}]}}"#, list(0..1000));
    let (fixture, container) = filled(400, [item]).await;
    let text = &explosions()[0];
    let end = async |time| {
        let ctx = ctx_for(&fixture, time);
        let reply = fixture.account.queries().query(&ctx, &container, request(text, 100, None)).await;
        assert_eq!(reply.expect_err("no time").kind(), ErrorKind::Timeout);
    };
    let time = Duration::from_secs(3600);
    let heavy = futures::future::join_all((0..63).map(|_| end(time)));
    // Its permit never comes, because the clock of the running ones stands still; its own timeout
    // ends the wait all the same.
    let last = end(Duration::from_millis(200));
    let heavy = match ended("waiting", futures::future::select(Box::pin(heavy), Box::pin(last))).await {
        futures::future::Either::Left(_) => panic!("the heavy queries ended first"),
        futures::future::Either::Right(((), heavy)) => heavy,
    };
    fixture.clock.advance(time + Duration::from_millis(1));
    ended("the heavy queries", heavy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patterns_and_texts_take_linear_time() {
    let text = format!("{}!", "a".repeat(100_000));
    let item = format!(r#"{{"id":"1","pk":"1","s":"{text}"}}"#);
    let (fixture, container) = filled(400, [item]).await;
    const COMPILED: &str = "a regular expression is not valid: it is too large once compiled";
    const VALUE: &str = "the query makes a value of more than 4194304 bytes";
    let cases = [
        ("RegexMatch(c.s, '^(a+)+$')", Ok(0)),
        ("RegexMatch(c.s, '(a|a)*b')", Ok(0)),
        ("RegexMatch(c.s, '(.*)*(.*)*(.*)*x')", Ok(0)),
        ("RegexMatch(c.s, 'a{1,1000}{1,1000}{1,1000}')", Err(COMPILED)),
        ("RegexMatch(c.s, '((((((a{1,50}){1,50}){1,50}){1,50}){1,50}){1,50})')", Err(COMPILED)),
        ("c.s LIKE '%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%b'", Ok(0)),
        ("c.s LIKE '%a_%_a%_%_%_%_%!'", Ok(1)),
        ("CONTAINS(c.s, REPLICATE('a', 5000) || 'b')", Ok(0)),
        ("LENGTH(REPLACE(c.s, 'a', REPLICATE('b', 10000))) > 0", Err(VALUE)),
        ("ARRAY_LENGTH(StringSplit(c.s, 'a')) > 0", Ok(1)),
    ];
    for (condition, expected) in cases {
        let text = format!("SELECT VALUE c.id FROM c WHERE {condition}");
        let answer = fixture.answer(&container, &text, 100).await;
        expect_rows_or_refusal(&text, answer.map(|answer| answer.rows.len()), expected);
    }
}

/// The expected number of rows, or a refusal with the expected text.
#[track_caller]
fn expect_rows_or_refusal(
    text: &str,
    found: shardlake_model::Result<usize>,
    expected: Result<usize, &'static str>,
) {
    match (found, expected) {
        (Ok(rows), Ok(expected)) => assert_eq!(rows, expected, "{text:.80}"),
        (Err(error), Err(words)) => {
            assert_eq!(error.kind(), ErrorKind::BadRequest, "{text:.80}: {error}");
            assert!(error.to_string().contains(words), "{text:.80}: {error:.300}");
        }
        (found, expected) => panic!("{text:.80}: {found:?}, not {expected:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_grow_are_stopped() {
    let (fixture, container) = filled(400, numbered(3)).await;
    let mut doubling = "'0123456789'".to_owned();
    let mut nesting = "[c.n]".to_owned();
    for _ in 0..12 {
        doubling = format!("REPLICATE({doubling}, 100)");
        nesting = format!("ARRAY_CONCAT({nesting}, {nesting})");
    }
    let mut pairs = "(SELECT VALUE c)".to_owned();
    for _ in 0..30 {
        pairs = format!("(SELECT VALUE [x, x] FROM (SELECT VALUE {pairs}) x)");
    }
    const NESTED: &str = "the query is nested deeper than 200 levels";
    // A text that is too long is undefined; so are its rows.
    for (value, expected) in [(doubling, Ok(0)), (nesting, Ok(3)), (pairs, Err(NESTED))] {
        let text = format!("SELECT VALUE {value} FROM c");
        let answer = fixture.answer(&container, &text, 100).await;
        expect_rows_or_refusal(&text, answer.map(|answer| answer.rows.len()), expected);
    }
}

/// Texts of this depth or length, and the depth up to which each is answered.
fn deep(depth: usize) -> Vec<(String, usize)> {
    // Some thousand logical operators at most. Two hundred levels at most; where each repetition is two levels or three, fewer repetitions.
    let [any, operators, nested, pairs, none] = [20_000, 1_000, 150, 40, 0];
    let around = |open: &str, inner: &str, close: &str| {
        format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    let chain = |first: &str, next: &str| format!("{first}{}", next.repeat(depth));
    vec![
        (format!("SELECT VALUE {} FROM c", around("(", "c.n", ")")), any),
        (format!("SELECT VALUE {} FROM c", around("[", "c.n", "]")), nested),
        (format!("SELECT VALUE {} FROM c", around("{\"a\":", "c.n", "}")), nested),
        (format!("SELECT VALUE {} FROM c", around("NOT ", "c.n", "")), nested),
        (format!("SELECT VALUE {} FROM c", around("- ", "c.n", "")), nested),
        (format!("SELECT VALUE {} FROM c", around("~", "c.n", "")), nested),
        (format!("SELECT VALUE {} FROM c", around("ABS(", "c.n", ")")), nested),
        (format!("SELECT VALUE {} FROM c", around("(SELECT VALUE ", "c.n", ")")), none),
        (format!("SELECT VALUE {} FROM c", around("ARRAY(SELECT VALUE ", "c.n", ")")), none),
        (
            format!("SELECT VALUE c.id FROM c WHERE {}", around("EXISTS(SELECT VALUE 1 WHERE ", "c.n", ")")),
            none,
        ),
        (format!("SELECT VALUE {} FROM c", around("c.n ? 1 : ", "c.n", "")), nested),
        (format!("SELECT VALUE {} FROM c", around("c.n ?? ", "c.n", "")), any),
        (format!("SELECT VALUE {} FROM c", chain("c", ".a")), nested),
        (format!("SELECT VALUE {} FROM c", chain("c", "[0]")), nested),
        (format!("SELECT VALUE {} FROM c", chain("c.n", " + 1")), nested),
        (format!("SELECT VALUE {} FROM c", chain("'a'", " || 'b'")), any),
        (format!("SELECT VALUE c.id FROM c WHERE {}", chain("c.n = 1", " OR c.n = 2")), operators),
        (format!("SELECT VALUE c.id FROM c WHERE {}", chain("c.n = 1", " AND c.n = 2")), operators),
        (
            format!("SELECT VALUE c.id FROM c WHERE {}", chain("c.n = 1", " AND c.n = 1 OR c.n = 3")),
            operators,
        ),
        (format!("SELECT VALUE c.id FROM c WHERE {}", chain("c.n", " = 1")), nested),
        (format!("SELECT VALUE c.id FROM c WHERE {}", around("(c.n = 1 OR ", "c.n = 2", ")")), pairs),
        (format!("SELECT VALUE c.id FROM c WHERE {}", around("(c.n = 1 AND ", "c.n = 2", ")")), pairs),
        (format!("SELECT VALUE c.id FROM c ORDER BY {}", chain("c", ".a")), nested),
        (format!("SELECT c.n{} FROM c", (0..depth).map(|i| format!(",c.a{i}")).collect::<String>()), any),
        (format!("SELECT c.n FROM c GROUP BY {}", chain("c.n", ",c.n")), any),
        (format!("SELECT VALUE c.id FROM c ORDER BY {}", chain("c.n", ",c.n")), none),
        (format!("SELECT VALUE c.id FROM c WHERE {}", around("((", "c.n", "")), none),
        (format!("SELECT VALUE {}", around("[{\"a\":(", "", "")), none),
        (format!("SELECT VALUE '{}", chain("", "\\'")), none),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deep_and_long_queries_are_answered_or_refused() {
    let (fixture, container) = filled(30_000, numbered(5)).await;
    for depth in [40, 150, 1_000, 20_000] {
        for (text, answered_to) in deep(depth) {
            let answer = fixture.answer(&container, &text, 100).await;
            assert_eq!(answer.is_ok(), depth <= answered_to, "{text:.60} ({depth}): {:?}", answer.err());
            if let Err(error) = answer {
                assert_eq!(error.kind(), ErrorKind::BadRequest, "{text:.60} ({depth}): {error}");
                let length = error.to_string().len();
                assert!(length < 10_000, "{text:.60}: a message of {length} bytes");
            }
        }
    }
}

#[tokio::test]
async fn a_text_over_the_limit_is_refused_by_its_size() {
    let (fixture, container) = filled(400, numbered(1)).await;
    let text = format!("SELECT VALUE '{}' FROM c", "x".repeat(600 * 1024));
    let error = fixture.answer(&container, &text, 1).await.expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::BadRequest);
    assert!(error.to_string().contains("exceeded the maximum limit of 524288 characters"), "{error}");
    let text = format!("SELECT VALUE '{}' FROM c", "x".repeat(500 * 1024));
    assert_eq!(fixture.answer(&container, &text, 1).await.unwrap().rows.len(), 1);
}
