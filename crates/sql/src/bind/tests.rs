//! Whole queries over one item, from text to rows; the mistakes that binding finds.

use std::ops::ControlFlow::Continue;

use shardlake_document::{Envelope, ItemView, ParseLimits, Value, parse_document};
use shardlake_model::{ContainerRid, DatabaseRid};

use super::*;
use crate::evaluate::rows::for_each_result;
use crate::evaluate::scope::{EvaluationContext, Scope};
use crate::syntax::parse;

const ITEM: &str = r#"{"id":"1","n":5,"s":"abc","z":null,"o":{"p":{"q":"deep"},"r":[10,20]},
    "tags":[{"name":"a","v":1,"sub":[1,2]},{"name":"b","v":2,"sub":[]},{"name":"a","v":3,"sub":[3]},{"v":"x"}],
    "mixed":[1,"x",true,null,2.5],"numbers":[3,1,2],"none":[],"big":[1,[2]]}"#;

fn with_item<T>(run: impl FnOnce(&ItemView<'_>) -> T) -> T {
    let body = parse_document(ITEM.as_bytes(), &ParseLimits::default()).unwrap();
    let envelope = Envelope {
        lsn: 1,
        timestamp_seconds: 1_700_000_000,
        etag: shardlake_stdx::Guid([7; 16]),
        ordinal: 42,
        ttl_seconds: None,
        json_size_bytes: 0,
    };
    let container = ContainerRid { database: DatabaseRid(1), number: 1 };
    run(&ItemView { body: body.raw(), envelope: &envelope, container, items_link: "dbs/x/colls/y/docs/" })
}

fn bind_text(text: &str, computed: &ComputedProperties) -> Result<BoundQuery, SqlError> {
    let parameters = [("@two".to_string(), Value::Int(2)), ("@name".to_string(), Value::from("n"))];
    let functions = FunctionContext::default();
    bind(text, &parse(text)?, &Environment { parameters: &parameters, computed, functions: &functions })
}

fn evaluate_rows(query: &BoundQuery, item: &ItemView<'_>) -> Result<String, SqlError> {
    let functions = FunctionContext::default();
    let context = EvaluationContext::new(&functions, &|| false);
    let mut rows = Vec::new();
    let _ = for_each_result(query, &Scope::of_item(&context, item), &mut |row| {
        rows.push(row.into_value());
        Ok(Continue(()))
    })?;
    Ok(Value::Array(rows).to_json().unwrap_or_else(|error| error.to_string()))
}

fn rows(text: &str) -> String {
    let query =
        bind_text(text, &ComputedProperties::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
    with_item(|item| evaluate_rows(&query, item)).unwrap_or_else(|error| error.to_string())
}

#[test]
fn sources_make_rows() {
    for (text, expected) in [
        ("SELECT VALUE 1", "[1]"),
        ("SELECT VALUE COUNT(1)", "[1]"),
        ("SELECT VALUE undefined", "[]"),
        ("SELECT undefined", "[{}]"),
        ("SELECT VALUE c.n FROM c", "[5]"),
        ("SELECT VALUE r.n FROM ROOT r", "[5]"),
        (
            "SELECT c.n, c.s AS t, c.o.p, c['z'], 1, c.o.r[0], c.x FROM c",
            r#"[{"n":5,"t":"abc","p":{"q":"deep"},"z":null,"$1":1,"$2":10}]"#,
        ),
        ("SELECT c.n AS a, c.s AS a FROM c", r#"[{"a":"abc"}]"#),
        ("SELECT * FROM c.o.p", r#"[{"q":"deep"}]"#),
        ("SELECT VALUE p.q FROM c.o.p", r#"["deep"]"#),
        ("SELECT VALUE r FROM c.o.r[1]", "[20]"),
        ("SELECT * FROM c.nothing", "[]"),
        ("SELECT VALUE t.v FROM t IN c.tags", r#"[1,2,3,"x"]"#),
        ("SELECT VALUE t FROM t IN c.n", "[]"),
        ("SELECT VALUE [t.v, s] FROM c JOIN t IN c.tags JOIN s IN t.sub", "[[1,1],[1,2],[3,3]]"),
        ("SELECT VALUE s FROM c JOIN t IN c.tags JOIN s IN t.sub WHERE t.name = 'a' AND s > 1", "[2,3]"),
        ("SELECT VALUE x.v FROM c JOIN (SELECT VALUE t FROM t IN c.tags WHERE t.v < 3) AS x", "[1,2]"),
        ("SELECT VALUE x FROM x IN (SELECT VALUE c.numbers FROM c)", "[3,1,2]"),
        (
            "SELECT VALUE r0.n FROM (SELECT VALUE root FROM root WHERE root.n = 5) AS r0 WHERE r0.s = 'abc'",
            "[5]",
        ),
        (
            "SELECT VALUE r1.L.n FROM (SELECT VALUE {'L': r0} FROM (SELECT VALUE root FROM root) AS r0) AS r1",
            "[5]",
        ),
        ("SELECT VALUE r0 FROM (SELECT VALUE root.nothing FROM root) AS r0", "[]"),
        ("SELECT VALUE COUNT(1) FROM c JOIN (SELECT DISTINCT VALUE t.name FROM t IN c.tags) AS x", "[2]"),
        ("SELECT VALUE c._ts FROM c", "[1700000000]"),
        ("SELECT VALUE DOCUMENTID(c) FROM c", "[42]"),
        ("SELECT VALUE IS_DEFINED(c._rid) AND IS_DEFINED(c._etag) AND c.id = '1' FROM c", "[true]"),
        ("SELECT VALUE c[@name] FROM c WHERE c.n > @two", "[5]"),
    ] {
        assert_eq!(rows(text), expected, "{text}");
    }
    assert!(rows("SELECT * FROM c").contains("\"_ts\":1700000000"));
    assert_eq!(rows("SELECT * FROM c"), rows("SELECT VALUE c FROM c"));
    assert_eq!(rows("SELECT * FROM c"), rows("SELECT VALUE r FROM (SELECT * FROM c) AS r"));
}

#[test]
fn subqueries_are_values() {
    for (expression, expected) in [
        ("(SELECT VALUE 1)", "[1]"),
        ("(SELECT VALUE t.v FROM t IN c.tags WHERE t.v = 2)", "[2]"),
        ("(SELECT VALUE t.v FROM t IN c.tags WHERE t.v = 9) ?? 'none'", "[\"none\"]"),
        ("(SELECT VALUE t FROM t IN c.tags)", "A scalar subquery returned more than one row."),
        ("(SELECT VALUE COUNT(1) / 2 FROM t IN c.tags)", "[2]"),
        ("EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t.name = 'b')", "[true]"),
        ("EXISTS(SELECT VALUE undefined)", "[false]"),
        ("EXISTS(SELECT undefined)", "[true]"),
        ("EXISTS(SELECT * FROM t IN c.none)", "[false]"),
        ("ARRAY(SELECT VALUE t.name FROM t IN c.tags)", r#"[["a","b","a"]]"#),
        ("ARRAY(SELECT t.name FROM t IN c.tags)", r#"[[{"name":"a"},{"name":"b"},{"name":"a"},{}]]"#),
        ("ARRAY(SELECT DISTINCT VALUE t.name FROM t IN c.tags)", r#"[["a","b"]]"#),
        (
            "ARRAY(SELECT DISTINCT VALUE x FROM x IN (SELECT VALUE [1, 1.0, '1', {a:1,b:2}, {b:2,a:1}]))",
            r#"[[1,"1",{"a":1,"b":2}]]"#,
        ),
        ("FIRST(SELECT VALUE t.v FROM t IN c.tags)", "[1]"),
        ("LAST(SELECT VALUE t.v FROM t IN c.tags)", "[\"x\"]"),
        ("FIRST(SELECT VALUE t FROM t IN c.none)", "[]"),
        ("ALL(SELECT VALUE t FROM t IN c.numbers WHERE t > 0)", "[true]"),
        ("ALL(SELECT VALUE t FROM t IN c.numbers WHERE t > 1)", "[false]"),
        ("ALL(SELECT VALUE t FROM t IN c.none WHERE t > 1)", "[true]"),
        ("(LET x = c.n IN x + x)", "[10]"),
        ("(LET x = c.o IN x.p.q)", "[\"deep\"]"),
        ("(LET c = 1 IN c)", "[1]"),
        ("ARRAY(SELECT VALUE (LET w = t.v IN w + c.n) FROM t IN c.tags)", "[[6,7,8]]"),
        (
            "ARRAY(SELECT t.name, COUNT(1) AS k FROM t IN c.tags GROUP BY t.name)",
            r#"[[{"name":"a","k":2},{"name":"b","k":1},{"k":1}]]"#,
        ),
        ("(SELECT VALUE SUM(x) FROM x IN c.numbers) + (SELECT VALUE MAX(x) FROM x IN c.numbers)", "[9]"),
        ("CHOOSE(2, c.n, c.s, c.z)", "[\"abc\"]"),
        ("CHOOSE(4, c.n, c.s)", "[]"),
        ("IIF(c.n, 1, 2)", "[2]"),
        ("IIF(c.n = 5, 1, 2)", "[1]"),
    ] {
        assert_eq!(rows(&format!("SELECT VALUE {expression} FROM c")), expected, "{expression}");
    }
}

#[test]
fn groups_and_aggregates_follow_the_table() {
    for (aggregate, expected) in [
        ("COUNT(x) FROM x IN c.mixed", "[5]"),
        ("SUM(x) FROM x IN c.mixed", "[]"),
        ("AVG(x) FROM x IN c.mixed", "[]"),
        ("MIN(x) FROM x IN c.mixed", "[null]"),
        ("MAX(x) FROM x IN c.mixed", "[\"x\"]"),
        ("COUNT(x) FROM x IN c.none", "[0]"),
        ("SUM(x) FROM x IN c.none", "[0]"),
        ("AVG(x) FROM x IN c.none", "[]"),
        ("MIN(x) FROM x IN c.none", "[]"),
        ("MAKELIST(x) FROM x IN c.none", "[[]]"),
        ("SUM(x) FROM x IN c.numbers", "[6]"),
        ("AVG(x) FROM x IN c.numbers", "[2]"),
        ("MIN(x) FROM x IN c.big", "[]"),
        ("COUNT(x) FROM x IN c.big", "[2]"),
        ("SUM(t.v) FROM t IN c.tags", "[]"),
        ("SUM(t.nothing) FROM t IN c.tags", "[0]"),
        ("COUNT(t.name) FROM t IN c.tags", "[3]"),
        ("COUNTIF(t.name = 'a') FROM t IN c.tags", "[2]"),
        ("MAKESET(t.name) FROM t IN c.tags", r#"[["a","b"]]"#),
        ("MAKELIST(t.name) FROM t IN c.tags", r#"[["a","b","a"]]"#),
        (
            "{'n': COUNT(1), 'k': t.name} FROM t IN c.tags GROUP BY t.name",
            r#"[{"n":2,"k":"a"},{"n":1,"k":"b"},{"n":1}]"#,
        ),
        ("t.name FROM t IN c.tags GROUP BY t.name", r#"["a","b"]"#),
        ("[{'item': t.name}] FROM t IN c.tags GROUP BY t.name", r#"[[{"item":"a"}],[{"item":"b"}],[{}]]"#),
        ("t.name || '!' FROM t IN c.tags GROUP BY t.name", r#"["a!","b!"]"#),
        ("(SELECT VALUE LENGTH(t.name)) FROM t IN c.tags GROUP BY t.name", "[1,1]"),
    ] {
        assert_eq!(rows(&format!("SELECT VALUE {aggregate}")), expected, "{aggregate}");
    }
}
