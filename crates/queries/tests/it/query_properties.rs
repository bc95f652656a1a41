//! Queries give the same answers with an index and without, in one partition and in five, in one
//! page and in many, with any indexing policy, with and without summaries of arrays. The charges of
//! the pages add up to the charge of the whole, except for the fixed price of each page.

use crate::support::json_door::JsonDoor;
use std::cmp::Ordering;

use crate::support::queries::ASKED_CENTI;
use crate::support::{Fixture, none};
use proptest::prelude::*;
use shardlake_account::{
    AccountOptions, ContainerHandle, FeedScope, ParseLimits, QueryReply, QueryRequest, Value,
};
use shardlake_document::compare;
use shardlake_model::{ContainerDefinition, Limits, PartitionKeyDefinition};

/// Values that meet one another in filters and orders.
fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("null".to_string()),
        Just("true".to_string()),
        Just("false".to_string()),
        (-3i64..4).prop_map(|number| number.to_string()),
        Just("2.5".to_string()),
        Just("9007199254740993".to_string()),
        Just("9007199254740992".to_string()),
        prop::sample::select(vec!["", "a", "ab", "b", "\u{1F600}", "\u{e000}"])
            .prop_map(|text| format!("\"{text}\"")),
        // Longer than the part that the index keeps, alike at the start.
        "[xy]{1,2}".prop_map(|end| format!("\"{}{end}\"", "long ".repeat(26))),
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => scalar(),
        1 => prop::collection::vec(scalar(), 0..3).prop_map(|list| format!("[{}]", list.join(","))),
        1 => scalar().prop_map(|value| format!("{{\"x\":{value}}}")),
    ]
}

fn item() -> impl Strategy<Value = String> {
    let member = |name: &'static str| {
        prop::option::weighted(0.8, value())
            .prop_map(move |value| value.map(|value| format!("\"{name}\":{value}")))
    };
    (member("a"), member("b"), member("o"), prop::option::of(prop::collection::vec(scalar(), 0..4))).prop_map(
        |(a, b, o, tags)| {
            let tags = tags.map(|tags| format!("\"tags\":[{}]", tags.join(",")));
            let members: Vec<String> = [a, b, o, tags].into_iter().flatten().collect();
            members.join(",")
        },
    )
}

fn leaf() -> impl Strategy<Value = String> {
    let path = || prop::sample::select(vec!["c.a", "c.b", "c.o.x", "c[\"a\"]", "c.tags[0]", "c.missing"]);
    let operator = prop::sample::select(vec!["=", "!=", "<", "<=", ">", ">="]);
    let check = prop::sample::select(vec![
        "IS_DEFINED",
        "IS_NULL",
        "IS_BOOL",
        "IS_NUMBER",
        "IS_STRING",
        "IS_ARRAY",
        "IS_OBJECT",
        "IS_PRIMITIVE",
        "NOT IS_DEFINED",
    ]);
    let search = prop::sample::select(vec!["STARTSWITH", "CONTAINS", "ENDSWITH", "STRINGEQUALS"]);
    prop_oneof![
        4 => (path(), operator, scalar()).prop_map(|(path, operator, value)| format!("{path} {operator} {value}")),
        1 => (path(), prop::collection::vec(scalar(), 1..4)).prop_map(|(path, list)| format!("{path} IN ({})", list.join(","))),
        1 => (path(), scalar(), scalar()).prop_map(|(path, low, high)| format!("({path} BETWEEN {low} AND {high})")),
        2 => (check, path()).prop_map(|(check, path)| format!("{check}({path})")),
        1 => (search, path(), "[abl]{0,2}", any::<bool>()).prop_map(|(search, path, text, fold)| format!("{search}({path}, '{text}', {fold})")),
        1 => (path(), prop::sample::select(vec!["a%", "%b", "_", "a", "%", "l%y"])).prop_map(|(path, pattern)| format!("{path} LIKE '{pattern}'")),
        1 => scalar().prop_map(|value| format!("ARRAY_CONTAINS(c.tags, {value})")),
        1 => scalar().prop_map(|value| format!("EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = {value})")),
        1 => path().prop_map(str::to_string),
    ]
}

fn filter() -> impl Strategy<Value = String> {
    leaf().prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" AND "))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" OR "))),
            inner.prop_map(|part| format!("(NOT ({part}))")),
        ]
    })
}

/// How answers are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Answers {
    /// As a multiset.
    Rows,
    /// Row by row: rows with equal keys look alike.
    Sequence,
    /// Their number: which of them is open.
    Count,
}

fn query() -> impl Strategy<Value = (String, Answers)> {
    let filter = || {
        prop::option::weighted(0.8, filter())
            .prop_map(|filter| filter.map_or(String::new(), |filter| format!(" WHERE {filter}")))
    };
    let direction = prop::sample::select(vec!["", " DESC"]);
    let top = || prop_oneof![Just(String::new()), (0u8..9).prop_map(|n| format!("TOP {n} "))];
    let ordered = "VALUE [IS_DEFINED(c.a), IS_ARRAY(c.a) OR IS_OBJECT(c.a) ? 0 : c.a] FROM c";
    prop_oneof![
        3 => filter().prop_map(|filter| (format!("SELECT VALUE c.id FROM c{filter}"), Answers::Rows)),
        3 => (top(), filter(), direction.clone()).prop_map(move |(top, filter, direction)| {
            (format!("SELECT {top}{ordered}{filter} ORDER BY c.a{direction}"), Answers::Sequence)
        }),
        1 => (top(), filter(), direction).prop_map(move |(top, filter, direction)| {
            (format!("SELECT {top}{ordered}{filter} GROUP BY c.a ORDER BY c.a{direction}"), Answers::Sequence)
        }),
        1 => (filter(), 0u8..5, 0u8..9).prop_map(|(filter, offset, limit)| {
            (format!("SELECT VALUE c.id FROM c{filter} OFFSET {offset} LIMIT {limit}"), Answers::Count)
        }),
        1 => filter().prop_map(|filter| (format!("SELECT VALUE COUNT(1) FROM c{filter}"), Answers::Rows)),
        1 => filter().prop_map(|filter| (format!("SELECT COUNT(c.b) AS n, MIN(c.b) AS low, MAX(c.a) AS high, COUNT(c.tags) AS t FROM c{filter}"), Answers::Rows)),
        1 => filter().prop_map(|filter| (format!("SELECT DISTINCT VALUE c.a FROM c{filter}"), Answers::Rows)),
        1 => filter().prop_map(|filter| (format!("SELECT c.a, COUNT(1) AS n, MAX(c.b) AS m FROM c{filter} GROUP BY c.a"), Answers::Rows)),
        1 => filter().prop_map(|filter| (format!("SELECT c.id, t FROM c JOIN t IN c.tags{filter}"), Answers::Rows)),
    ]
}

fn policy() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        r#"{"includedPaths":[{"path":"/*"},{"path":"/a/?"}],"excludedPaths":[{"path":"/b/*"}]}"#,
        r#"{"includedPaths":[{"path":"/a/*"},{"path":"/tags/[]/?"}],"excludedPaths":[{"path":"/*"}]}"#,
        r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/o/x/?"}],"compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"descending"}],[{"path":"/b","order":"descending"},{"path":"/a"}]]}"#,
    ])
}

struct Containers {
    fixture: Fixture,
    /// Without an index: every answer comes from reading everything.
    bare: ContainerHandle,
    others: Vec<ContainerHandle>,
}

impl Containers {
    /// The index has summaries of the arrays of items with more than `exact_max` values.
    async fn new(policy: &str, exact_max: usize) -> Containers {
        let limits = Limits { index_terms_exact_max: exact_max, ..Limits::default() };
        let fixture = Fixture::with_options(AccountOptions { limits, ..AccountOptions::default() }).await;
        let definition = |id: &str, policy: &str| {
            let mut definition = ContainerDefinition::new(id, PartitionKeyDefinition::hash("/pk"));
            definition.indexing_policy = serde_json::from_str(policy).expect("a policy");
            definition
        };
        let none = r#"{"indexingMode":"none","automatic":false}"#;
        let bare = fixture.container_with(definition("bare", none), 400).await;
        let others = vec![
            fixture.container_with(definition("one", "{}"), 400).await,
            fixture.container_with(definition("five", "{}"), 30_000).await,
            fixture.container_with(definition("picky", policy), 12_000).await,
        ];
        Containers { fixture, bare, others }
    }

    fn all(&self) -> impl Iterator<Item = &ContainerHandle> {
        std::iter::once(&self.bare).chain(&self.others)
    }

    async fn fill(&self, items: &[(u8, u8, Option<String>)]) {
        for (key, id, members) in items {
            for container in self.all() {
                let (account, ctx) = (&self.fixture.account, self.fixture.ctx());
                match members {
                    Some(members) => {
                        let comma = if members.is_empty() { "" } else { "," };
                        let body = format!(r#"{{"id":"i{id}","pk":"k{key}"{comma}{members}}}"#);
                        account
                            .upsert_item(&ctx, container, None, body.as_bytes(), &none())
                            .await
                            .expect("written");
                    }
                    None => {
                        let key = format!(r#"["k{key}"]"#);
                        let key = Some(crate::support::json_door::KeyInput(&key));
                        let _ = account.delete_item(&ctx, container, key, &format!("i{id}"), &none()).await;
                    }
                }
            }
        }
    }

    async fn page(
        &self,
        container: &ContainerHandle,
        text: &str,
        max_items: i64,
        token: Option<&str>,
    ) -> QueryReply {
        let request = QueryRequest {
            text,
            parameters: &[],
            scope: FeedScope::All,
            max_items: Some(max_items),
            continuation: token,
            resume_filter: None,
            allows_cross_partition: true,
            fans_out: true,
            wants: Default::default(),
        };
        let reply = self.fixture.account.queries().query(&self.fixture.ctx(), container, request).await;
        reply.unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// Every row, and the charge without the price that each page pays for each partition that it asks.
    async fn answer(&self, container: &ContainerHandle, text: &str, max_items: i64) -> (Vec<Value>, u64) {
        let (mut rows, mut charge, mut token) = (Vec::new(), 0, None::<String>);
        for _ in 0..1000 {
            let reply = self.page(container, text, max_items, token.as_deref()).await;
            assert!(reply.rows.len() as i64 <= max_items, "{text}: a page has {} rows", reply.rows.len());
            rows.extend(
                reply.rows.iter().map(|row| Value::from_json(row, &ParseLimits::default()).expect("JSON")),
            );
            charge += reply.meta.charge_centi - ASKED_CENTI * reply.ranges.len() as u64;
            token = reply.continuation;
            match &token {
                None => return (rows, charge),
                Some(token) => assert!(token.len() < 1024, "{text}: a token of {} bytes", token.len()),
            }
        }
        panic!("{text}: pages without end");
    }
}

fn sorted(mut rows: Vec<Value>) -> Vec<Value> {
    rows.sort_by(compare);
    rows
}

fn is_same(left: &[Value], right: &[Value]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).all(|(left, right)| compare(left, right) == Ordering::Equal)
}

fn check(expected: &[Value], found: Vec<Value>, answers: Answers, context: &str) {
    let same = match answers {
        Answers::Count => expected.len() == found.len(),
        Answers::Sequence => is_same(expected, &found),
        Answers::Rows => is_same(&sorted(expected.to_vec()), &sorted(found.clone())),
    };
    assert!(same, "{context}\nexpected {expected:?}\nfound    {found:?}");
}

/// Result of a query without any index; `ORDER BY`, which needs one, is done here.
async fn expected(containers: &Containers, text: &str) -> Vec<Value> {
    let Some(at) = text.find(" ORDER BY") else {
        return containers.answer(&containers.bare, text, 1000).await.0;
    };
    let (unordered, descending) = (&text[..at], text.ends_with("DESC"));
    let (top, unordered) = match unordered.strip_prefix("SELECT TOP ") {
        Some(rest) => {
            let (count, rest) = rest.split_once(' ').expect("a number and more");
            (count.parse().expect("a number"), format!("SELECT {rest}"))
        }
        None => (usize::MAX, unordered.to_string()),
    };
    let rank = |row: &Value| {
        let Value::Array(parts) = row else { panic!("{row:?}") };
        let is_defined = compare(&parts[0], &Value::Bool(true)).is_eq();
        (is_defined, parts.get(1).cloned().unwrap_or_default())
    };
    let mut rows = containers
        .answer(
            &containers.bare,
            &unordered.replace("IS_ARRAY(c.a) OR IS_OBJECT(c.a) ? 0 : c.a", "c.a"),
            1000,
        )
        .await
        .0;
    rows.sort_by(|left, right| {
        let (left, right) = (rank(left), rank(right));
        let is_complex = |value: &Value| matches!(value, Value::Array(_) | Value::Object(_));
        let order = match (&left.1, &right.1) {
            (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => Ordering::Equal,
            (a, b) if is_complex(a) || is_complex(b) => compare(a, b),
            (a, b) => left.0.cmp(&right.0).then_with(|| compare(a, b)),
        };
        if descending { order.reverse() } else { order }
    });
    for row in &mut rows {
        if let Value::Array(parts) = row
            && let Some(part @ (Value::Array(_) | Value::Object(_))) = parts.get_mut(1)
        {
            *part = Value::Int(0);
        }
    }
    rows.truncate(top);
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 1500, ..ProptestConfig::default() })]

    #[test]
    fn index_partitions_and_pages_do_not_show(
        items in prop::collection::vec((0u8..5, 0u8..8, prop::option::weighted(0.9, item())), 1..40),
        queries in prop::collection::vec(query(), 1..6),
        policy in policy(),
        page in prop::sample::select(vec![1i64, 2, 3, 7]),
        exact_max in prop::sample::select(vec![0usize, 6, 8192]),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let containers = Containers::new(policy, exact_max).await;
            containers.fill(&items).await;
            for (text, answers) in &queries {
                let expected = expected(&containers, text).await;
                for container in &containers.others {
                    let name = &container.container().definition.id;
                    if text.contains("ORDER BY") && name == "picky" && policy.contains("\"/a/\"") {
                        continue;
                    }
                    let (rows, charge) = containers.answer(container, text, 1000).await;
                    check(&expected, rows, *answers, &format!("{text} in {name}"));
                    let (rows, paged_charge) = containers.answer(container, text, page).await;
                    check(&expected, rows, *answers, &format!("{text} in {name}, {page} a page"));
                    assert_eq!(paged_charge, charge, "{text} in {name}: the charge of its pages");
                }
            }
        });
    }

    #[test]
    fn composite_indexes_give_the_order_of_all_keys(
        items in prop::collection::vec((prop::option::of(scalar()), prop::option::of(scalar())), 1..30),
        page in prop::sample::select(vec![1i64, 3, 1000]),
        filtered in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let policy = r#"{"includedPaths":[{"path":"/*"}],"compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"descending"}]]}"#;
            let containers = Containers::new(policy, 4).await;
            let member = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("\"{name}\":{value}"));
            let items: Vec<_> = items.iter().enumerate().map(|(number, (a, b))| {
                let members: Vec<String> = [member("a", a), member("b", b)].into_iter().flatten().collect();
                (number as u8 % 3, number as u8, Some(members.join(",")))
            }).collect();
            containers.fill(&items).await;
            let filter = if filtered { " WHERE IS_DEFINED(c.a)" } else { "" };
            let (mut rows, _) = containers.answer(&containers.bare, &format!("SELECT c.a, c.b FROM c{filter}"), 1000).await;
            let key = |row: &Value, name: &str| match row {
                Value::Object(members) => members.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone()).unwrap_or_default(),
                _ => Value::Undefined,
            };
            rows.sort_by(|left, right| {
                compare(&key(left, "a"), &key(right, "a")).then_with(|| compare(&key(right, "b"), &key(left, "b")))
            });
            let picky = &containers.others[2];
            for (order, backwards) in [("c.a, c.b DESC", false), ("c.a DESC, c.b", true)] {
                let text = format!("SELECT c.a, c.b FROM c{filter} ORDER BY {order}");
                let mut expected = rows.clone();
                if backwards {
                    expected.reverse();
                }
                let (found, _) = containers.answer(picky, &text, page).await;
                check(&expected, found, Answers::Sequence, &format!("{text}, {page} a page"));
            }
        });
    }
}

/// As in the service, where twenty items in pages of two cost about 35 RU.
#[tokio::test]
async fn every_page_pays_for_asking_its_partition() {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    for number in 0..20 {
        let body = format!(r#"{{"id":"{number}","pk":"k"}}"#);
        fixture
            .account
            .upsert_item(&fixture.ctx(), &container, None, body.as_bytes(), &none())
            .await
            .expect("written");
    }
    let text = "SELECT * FROM c";
    let whole = fixture.answer(&container, text, 100).await.expect("answered");
    let paged = fixture.answer(&container, text, 2).await.expect("answered");
    assert_eq!((whole.pages, paged.pages), (1, 10));
    assert_eq!(whole.charge_centi, 280 + 20 * 13);
    assert_eq!(paged.charge_centi, whole.charge_centi + 9 * 280);
}
