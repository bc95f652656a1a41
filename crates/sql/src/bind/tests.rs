//! Whole queries over one item, from text to rows; the mistakes that binding finds.

use std::ops::ControlFlow::Continue;

use proptest::prelude::*;
use shardlake_document::{Envelope, ItemView, ParseLimits, Value, parse_document};
use shardlake_model::{ContainerRid, DatabaseRid};

use super::*;
use crate::bound::OrderRefusal;
use crate::evaluate::rows::for_each_result;
use crate::evaluate::scope::Scope;
use crate::syntax::parse;
use crate::value::context::{EvaluationContext, FunctionContext};
use crate::value::meter::Meter;

const ITEM: &str = r#"{"id":"1","n":5,"s":"abc","z":null,"o":{"p":{"q":"deep"},"r":[10,20]},
    "tags":[{"name":"a","v":1,"sub":[1,2]},{"name":"b","v":2,"sub":[]},{"name":"a","v":3,"sub":[3]},{"v":"x"}],
    "mixed":[1,"x",true,null,2.5],"numbers":[3,1,2],"none":[],"big":[1,[2]]}"#;

fn with_item<T>(run: impl FnOnce(&ItemView<'_>) -> T) -> T {
    let body = parse_document(ITEM.as_bytes(), &ParseLimits::default()).unwrap();
    let envelope = Envelope {
        lsn: 1,
        time: shardlake_stdx::HybridTime::from_seconds(1_700_000_000),
        region: 0,
        etag: shardlake_stdx::Guid([7; 16]),
        ordinal: 42,
        ttl_seconds: None,
        json_size_bytes: 0,
        is_altered: false,
    };
    let container = ContainerRid { database: DatabaseRid(1), number: 1 };
    run(&ItemView { body: body.raw(), envelope: &envelope, container, items_link: "dbs/x/colls/y/docs/" })
}

fn bind_text(text: &str, computed: &ComputedProperties) -> Result<BoundQuery, SqlError> {
    bind_tree(text, &parse(text)?, computed)
}

fn bind_tree(text: &str, tree: &ast::Query, computed: &ComputedProperties) -> Result<BoundQuery, SqlError> {
    let parameters = [("@two".to_string(), Value::Int(2)), ("@name".to_string(), Value::from("n"))];
    let functions = FunctionContext::default();
    let meter = &Meter::default();
    let (parameters, functions) = (&parameters, &functions);
    bind(text, tree, &Environment { parameters, computed, functions, scripts: None, meter, is_own: false })
}

fn evaluate_rows(query: &BoundQuery, item: &ItemView<'_>) -> Result<String, SqlError> {
    let (functions, meter) = (FunctionContext::default(), Meter::default());
    let context = EvaluationContext::new(&functions, &|| false, &meter);
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

/// Ten joins of a hundred elements each: only conditions that are tested early keep this from never ending.
#[test]
fn conditions_are_tested_as_early_as_they_can_be() {
    let joins: String = (0..10).map(|n| format!(" JOIN t{n} IN (SELECT VALUE c.many)")).collect();
    let many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let text = format!(
        "SELECT VALUE t9 FROM (SELECT VALUE {{many: [{}], n: c.n}} FROM c) AS c{joins}",
        many.join(",")
    );
    assert_eq!(rows(&format!("{text} WHERE c.n = 6")), "[]");
    let tests: String = (0..10).map(|n| format!(" AND t{n} = {n}")).collect();
    assert_eq!(rows(&format!("{text} WHERE c.n = 5{tests}")), "[9]");
}

/// Values, sets and groups that a query makes are bounded; time is asked for while rows stream by.
#[test]
fn what_grows_is_bounded() {
    let mut text = "(LET v0 = [c.tags, c.tags] IN ".to_string();
    for n in 1..40 {
        text += &format!("(LET v{n} = [v{}, v{}] IN ", n - 1, n - 1);
    }
    text += &format!("v39{}", ")".repeat(40));
    assert!(rows(&format!("SELECT VALUE {text} FROM c")).contains("more than 4194304 bytes"));
    let joins: String = (0..10).map(|n| format!(" JOIN t{n} IN c.tags JOIN u{n} IN c.mixed")).collect();
    let joins: String = joins.split(" JOIN ").take(11).collect::<Vec<_>>().join(" JOIN ");
    for (endless, expected) in [
        (
            format!("ARRAY(SELECT VALUE t0 FROM c{joins})"),
            SqlError::ResultTooLarge { size_bytes_max: 4 << 20 },
        ),
        (format!("(SELECT VALUE COUNT(1) FROM c{joins})"), SqlError::Interrupted),
    ] {
        let query =
            bind_text(&format!("SELECT VALUE {endless} FROM c"), &ComputedProperties::default()).unwrap();
        let asked = std::cell::Cell::new(0);
        let functions = FunctionContext::default();
        let interrupt = || {
            asked.set(asked.get() + 1);
            asked.get() > 1500
        };
        let meter = Meter::default();
        let context = EvaluationContext::new(&functions, &interrupt, &meter);
        let outcome = with_item(|item| {
            for_each_result(&query, &Scope::of_item(&context, item), &mut |_| Ok(Continue(())))
        });
        assert_eq!(outcome, Err(expected), "{endless}");
    }
}

#[test]
fn subqueries_are_values() {
    for (expression, expected) in [
        ("(SELECT VALUE 1)", "[1]"),
        ("FIRST(SELECT VALUE t.v FROM t IN c.tags WHERE t.v = 2)", "[2]"),
        ("(SELECT VALUE t FROM c.o AS t WHERE t.none = 9) ?? 'none'", "[\"none\"]"),
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

type Mistake = (Option<&'static str>, String, Option<(usize, usize)>);

/// Code, text and place of each mistake, as far as they have them.
fn mistakes(text: &str) -> Vec<Mistake> {
    let errors = match bind_text(text, &ComputedProperties::default()) {
        Ok(_) => Vec::new(),
        Err(SqlError::Several(errors)) => errors,
        Err(error) => vec![error],
    };
    let place = |error: &SqlError| error.location().map(|location| (location.start, location.end));
    errors.iter().map(|error| (error.code(), error.to_string(), place(error))).collect()
}

#[test]
fn mistakes_have_codes_texts_and_places() {
    for (text, code, part, place) in [
        ("SELECT VALUE a.x FROM c", Some("SC2001"), "Identifier 'a'", Some((13, 14))),
        ("SELECT VALUE c.x", Some("SC2001"), "Identifier 'c'", Some((13, 14))),
        ("SELECT VALUE c.x FROM c AS d", Some("SC2001"), "Identifier 'c'", Some((13, 14))),
        ("SELECT VALUE C.x FROM c", Some("SC2001"), "Identifier 'C'", Some((13, 14))),
        ("SELECT VALUE 1 FROM c JOIN x IN d.y", Some("SC2001"), "Identifier 'd'", Some((32, 33))),
        (
            "SELECT VALUE EXISTS(SELECT VALUE 1 FROM d) FROM c",
            Some("SC2001"),
            "Identifier 'd'",
            Some((40, 41)),
        ),
        ("SELECT VALUE EXISTS(SELECT VALUE 1 FROM d)", Some("SC2001"), "Identifier 'd'", Some((40, 41))),
        (
            "SELECT VALUE r FROM c JOIN r IN c.t JOIN r IN c.u",
            Some("SC2021"),
            "'r' is specified more",
            Some((41, 42)),
        ),
        (
            "SELECT VALUE t FROM c JOIN (SELECT VALUE x FROM x IN c.a) AS t WHERE x",
            Some("SC2001"),
            "'x'",
            Some((69, 70)),
        ),
        ("SELECT VALUE BADFUNC(c.x) FROM c", Some("SC2005"), "'BADFUNC' is not", Some((13, 20))),
        ("SELECT VALUE abs(c.x, 1) FROM c", Some("SC2050"), "The abs function", Some((13, 24))),
        ("SELECT VALUE SUM() FROM c", Some("SC2050"), "requires 1 argument", Some((13, 18))),
        ("SELECT VALUE IIF(c) FROM c", Some("SC2050"), "The IIF function requires 3", Some((13, 19))),
        ("SELECT * FROM c GROUP BY c.x", Some("SC2041"), "not allowed with GROUP BY", Some((7, 8))),
        ("SELECT TOP 4294967296 * FROM c", Some("SC2060"), "must be an integer", Some((11, 21))),
        ("SELECT TOP 1.5 * FROM c", Some("SC2060"), "must be an integer", Some((11, 14))),
        ("SELECT TOP @name * FROM c", Some("SC2060"), "must be an integer", Some((11, 16))),
        (
            "SELECT * FROM c OFFSET 0 LIMIT 4294967296",
            Some("SC2061"),
            "LIMIT count value exceeds",
            Some((31, 41)),
        ),
        (
            "SELECT * FROM c OFFSET 4294967296 LIMIT 1",
            Some("SC2062"),
            "OFFSET count value exceeds",
            Some((23, 33)),
        ),
        (
            "SELECT * FROM c OFFSET @name LIMIT 1",
            Some("SC2062"),
            "OFFSET count value exceeds",
            Some((23, 28)),
        ),
        ("SELECT VALUE SUM(MAX(c.x)) FROM c", Some("SC2101"), "aggregate function on", Some((13, 26))),
        (
            "SELECT VALUE SUM(MAX(c.x) + MIN(c.y)) FROM c",
            Some("SC2101"),
            "aggregate function on",
            Some((13, 37)),
        ),
        ("SELECT c.a, COUNT(1) FROM c", Some("SC2102"), "'c.a'", Some((7, 10))),
        ("SELECT c.b, c.a.x FROM c GROUP BY c.b", Some("SC2102"), "'c.a.x'", Some((12, 17))),
        ("SELECT ABS(c.a['q']) FROM c GROUP BY c.b", Some("SC2102"), "'c.a['q']'", Some((11, 19))),
        ("SELECT VALUE ABS(SUM(c.a)) FROM c", None, "Compositions of aggregates", None),
        ("SELECT MIN(c.a) / 2 FROM c", None, "Compositions of aggregates", None),
        ("SELECT VALUE 1 FROM c WHERE COUNT(1) > 1", None, "Compositions of aggregates", None),
        ("SELECT * FROM c ORDER BY LOWER(c.a)", Some("2206"), "could not be mapped", None),
        ("SELECT * FROM c ORDER BY 1", Some("2206"), "could not be mapped", None),
        ("SELECT c.a, COUNT(1) FROM c GROUP BY c.a ORDER BY COUNT(1)", Some("2206"), "could not be", None),
        ("SELECT 1 FROM c GROUP BY LOWER(c.a) ORDER BY LOWER(c.a)", Some("2206"), "could not be", None),
        ("SELECT c.a AS k FROM c GROUP BY c.a ORDER BY k", Some("SC2001"), "'k'", Some((45, 46))),
        ("SELECT c.a FROM c GROUP BY c.a ORDER BY c.b", Some("SC2103"), "'c.b'", Some((40, 43))),
        (
            "SELECT VALUE EXISTS(SELECT * FROM c ORDER BY c.a) FROM c",
            Some("SC2202"),
            "'ORDER BY'",
            Some((36, 48)),
        ),
        ("SELECT VALUE EXISTS(SELECT TOP 1 * FROM c) FROM c", Some("SC2203"), "'TOP'", Some((27, 32))),
        (
            "SELECT VALUE EXISTS(SELECT * FROM c OFFSET 1 LIMIT 2) FROM c",
            Some("SC2204"),
            "OFFSET LIMIT",
            Some((36, 52)),
        ),
        ("SELECT VALUE c FROM (SELECT TOP 1 * FROM c) AS c", Some("SC2203"), "'TOP'", Some((28, 33))),
        ("SELECT VALUE c[c.x] FROM c", Some("SC2990"), "'member indexer'", Some((13, 19))),
        ("SELECT c.a, c.b AS a FROM c", Some("SC2022"), "'a' specified more", Some((19, 20))),
        ("SELECT c.a, c['a'] FROM c", Some("SC2022"), "'a' specified more", Some((14, 17))),
        ("SELECT * FROM c JOIN t IN c.t", Some("SC2042"), "a single input set", Some((7, 8))),
        ("SELECT *", Some("SC1021"), "if FROM clause is omitted", Some((7, 8))),
        ("SELECT TOP 1 * FROM c OFFSET 1 LIMIT 1", Some("SC2205"), "A TOP cannot", Some((0, 38))),
        ("SELECT (SELECT VALUE t FROM t IN c.t) FROM c", Some("SC2201"), "The cardinality", Some((8, 36))),
        ("SELECT 1 FROM c GROUP BY (1 + 2)", Some("SC2110"), "at least one property", Some((26, 31))),
        ("SELECT c.a FROM c WHERE c.a LIKE 'x' ESCAPE 'ab'", Some("SC2207"), "'ab'", Some((44, 48))),
        ("SELECT c[true] FROM c", Some("SC2990"), "'member indexer'", Some((7, 14))),
        (
            "SELECT COUNT(1) FROM c ORDER BY -c.a",
            Some("SC2103"),
            "'c.a' is invalid in the ORDER",
            Some((33, 36)),
        ),
        (
            "SELECT (SELECT VALUE COUNT(1) FROM t IN c.a) FROM c GROUP BY c.b",
            Some("SC2102"),
            "'c.a' is invalid in the select list",
            Some((40, 43)),
        ),
        ("SELECT VALUE DateTimeAdd('dd', c.a) FROM c", Some("SC2053"), "timespan", Some((13, 35))),
        ("SELECT VALUE udf.f(c.a) FROM c", None, "the user-defined function 'f'", None),
        ("SELECT * FROM c ORDER BY RANK ABS(c.a)", Some("SC2221"), "must be followed by", Some((16, 38))),
        ("SELECT * FROM c ORDER BY RANK FullTextScore(c.a, 'x')", None, "ORDER BY RANK is not", None),
        ("SELECT VALUE FullTextScore(c.a, 'x') FROM c", Some("SC2240"), "only allowed in", Some((13, 36))),
    ] {
        let found = mistakes(text);
        let [(found_code, message, found_place)] = &found[..] else { panic!("{text}: {found:?}") };
        assert_eq!((found_code, found_place), (&code, &place), "{text}: {message}");
        assert!(message.contains(part), "{text}: {message}");
    }
    let several =
        mistakes("SELECT VALUE a FROM (SELECT TOP 1 VALUE b FROM c) AS d WHERE e OFFSET 4294967296 LIMIT 1");
    let codes: Vec<_> = several.iter().map(|(code, ..)| code.unwrap()).collect();
    assert_eq!(codes, ["SC2001", "SC2203", "SC2001", "SC2001", "SC2062"]);
}

#[test]
fn some_orders_have_a_plan_and_no_execution() {
    for (text, refusal) in [
        ("SELECT VALUE t FROM c JOIN t IN c.t ORDER BY t.x", Some(OrderRefusal::Correlated)),
        ("SELECT * FROM c ORDER BY c", Some(OrderRefusal::WholeItem)),
        ("SELECT VALUE t FROM c JOIN t IN c.t ORDER BY c.x", None),
    ] {
        let query = bind_text(text, &ComputedProperties::default()).unwrap();
        assert_eq!(query.order_refusal, refusal, "{text}");
    }
}

#[test]
fn what_is_allowed_is_not_refused() {
    for text in [
        "SELECT * FROM c ORDER BY c.a, c['b'].d[0] DESC",
        "SELECT TOP 0 * FROM c",
        "SELECT TOP @two * FROM c",
        "SELECT * FROM c OFFSET @two LIMIT 4294967295",
        "SELECT VALUE r1 FROM (SELECT VALUE {'a': root.b, 'd': root} FROM root) AS r1 ORDER BY r1.a, r1.d.e",
        "SELECT VALUE [{'item': {'sum': SUM(c.a), 'count': COUNT(c.a)}}] FROM c",
        "SELECT [{'item': c.a}] AS groupByItems, {'k': c.a, 'n': {'item': COUNT(1)}} AS payload FROM c GROUP BY c.a",
        "SELECT c._rid, [{'item': c.a}] AS orderByItems, c AS payload FROM c WHERE (true AND (true)) ORDER BY c.a",
        "SELECT VALUE AVG(t.a) FROM c JOIN t IN c.t ORDER BY t.a",
        "SELECT VALUE MAX((SELECT VALUE COUNT(1) FROM t IN c.t)) FROM c",
        "SELECT c.a.b, ABS(c.a.b), COUNT(1) FROM c GROUP BY c.a",
        "SELECT VALUE LOWER(c.a) FROM c GROUP BY LOWER(c.a)",
        "SELECT VALUE (LET c = 1 IN c) FROM c",
        "SELECT VALUE NaN = Infinity",
    ] {
        assert_eq!(mistakes(text), [], "{text}");
    }
}

fn computed(list: &[(&str, &str)]) -> Result<ComputedProperties, SqlError> {
    let list: Vec<_> = list.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
    ComputedProperties::compile(&list)
}

#[test]
fn computed_properties_stand_for_their_expressions() {
    let computed = computed(&[
        ("upper", "SELECT VALUE UPPER(c.s) FROM c"),
        ("n", "SELECT VALUE x.o.r[0] + 1 FROM ROOT x"),
        ("missing", "SELECT VALUE c.nothing FROM c"),
    ])
    .unwrap();
    for (text, expected) in [
        ("SELECT VALUE c.upper FROM c", "[\"ABC\"]"),
        ("SELECT VALUE c['upper'] FROM c WHERE c.upper = 'ABC'", "[\"ABC\"]"),
        ("SELECT c.upper, c.n FROM c", r#"[{"upper":"ABC","n":11}]"#),
        ("SELECT VALUE r.n FROM (SELECT VALUE root FROM root) AS r", "[11]"),
        ("SELECT VALUE EXISTS(SELECT VALUE 1 FROM t IN c.tags WHERE c.n = 11) FROM c", "[true]"),
        ("SELECT VALUE c.missing FROM c", "[]"),
        ("SELECT VALUE c.o.n FROM c", "[]"),
        ("SELECT VALUE COUNT(1) FROM c GROUP BY c.upper", "[1]"),
    ] {
        let query = bind_text(text, &computed).unwrap();
        assert_eq!(with_item(|item| evaluate_rows(&query, item)).unwrap(), expected, "{text}");
    }
    let star = bind_text("SELECT * FROM c", &computed).unwrap();
    let star = with_item(|item| evaluate_rows(&star, item)).unwrap();
    assert!(star.contains("\"n\":5") && !star.contains("upper"), "{star}");
    let ordered = bind_text("SELECT * FROM c ORDER BY c.a, c.n DESC", &computed).unwrap();
    let keys: Vec<_> = ordered.order_by.iter().map(|key| key.computed).collect();
    assert_eq!(keys, [None, Some(1)]);
    assert_eq!(with_item(|item| computed.evaluate(0, item)), Value::from("ABC"));
    assert_eq!(computed.names().collect::<Vec<_>>(), ["upper", "n", "missing"]);
}

/// Queries that become queries over the container's items, and queries that need the whole result of another.
#[test]
fn subqueries_over_the_container_are_spliced() {
    for (text, is_spliced) in [
        ("SELECT VALUE r FROM (SELECT VALUE c FROM c WHERE c.a) AS r WHERE r.b", true),
        ("SELECT VALUE r.x FROM (SELECT c.x FROM c JOIN t IN c.t) AS r", true),
        ("SELECT VALUE COUNT(1) FROM (SELECT VALUE c FROM c) AS r", true),
        ("SELECT VALUE r FROM (SELECT DISTINCT VALUE c.x FROM c) AS r WHERE r > 1", true),
        ("SELECT DISTINCT VALUE r.y FROM (SELECT DISTINCT VALUE c.x FROM c) AS r", true),
        ("SELECT VALUE r FROM (SELECT c.x, COUNT(1) AS n FROM c GROUP BY c.x) AS r", true),
        ("SELECT * FROM (SELECT c.x, COUNT(1) AS n FROM c GROUP BY c.x) AS r", true),
        ("SELECT VALUE r.y FROM (SELECT DISTINCT VALUE c.x FROM c) AS r", false),
        ("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.x FROM c) AS r", false),
        ("SELECT * FROM (SELECT c.x, COUNT(1) AS n FROM c GROUP BY c.x) AS r WHERE r.n > 1", false),
        ("SELECT VALUE x FROM c JOIN (SELECT DISTINCT VALUE t FROM t IN c.t) AS x", true),
    ] {
        let query = bind_text(text, &ComputedProperties::default()).unwrap();
        assert_eq!(query.reads_a_whole_result(), !is_spliced, "{text}");
        assert_eq!(query.sources.first() == Some(&crate::bound::BoundSource::Item), is_spliced, "{text}");
    }
}

#[test]
fn invalid_computed_properties_are_refused() {
    for (name, text) in [
        ("a", "SELECT c.x FROM c"),
        ("a", "SELECT * FROM c"),
        ("a", "SELECT VALUE 1"),
        ("a", "SELECT VALUE c.x FROM c WHERE c.y"),
        ("a", "SELECT VALUE c.x FROM c ORDER BY c.x"),
        ("a", "SELECT TOP 1 VALUE c.x FROM c"),
        ("a", "SELECT VALUE t FROM t IN c.x"),
        ("a", "SELECT VALUE c.x FROM c JOIN t IN c.t"),
        ("a", "SELECT VALUE ARRAY(SELECT VALUE t FROM t IN c.t) FROM c"),
        ("a", "SELECT VALUE COUNT(1) FROM c"),
        ("a", "SELECT VALUE udf.f(c.x) FROM c"),
        ("a", "SELECT VALUE ST_AREA(c.x) FROM c"),
        ("a", "SELECT VALUE GetCurrentDateTime() FROM c"),
        ("a", "SELECT VALUE c.x + @p FROM c"),
        ("a", "SELECT VALUE c.a FROM c"),
        ("a", "SELECT VALUE d.x FROM c"),
        ("a", "SELECT"),
        ("id", "SELECT VALUE c.x FROM c"),
        ("_ts", "SELECT VALUE c.x FROM c"),
        ("", "SELECT VALUE c.x FROM c"),
    ] {
        assert!(computed(&[(name, text)]).is_err(), "{name}: {text}");
    }
    let twice = [("a", "SELECT VALUE c.x FROM c"), ("a", "SELECT VALUE c.y FROM c")];
    assert!(computed(&twice).is_err());
    let each_other = [("a", "SELECT VALUE c.x FROM c"), ("b", "SELECT VALUE LOWER(c.a) FROM c")];
    assert!(computed(&each_other).is_err());
    let many: Vec<_> = (0..21).map(|n| (format!("p{n}"), "SELECT VALUE c.x FROM c".to_string())).collect();
    assert!(ComputedProperties::compile(&many).is_err());
    assert!(ComputedProperties::compile(&many[..20]).is_ok());
}

/// Rows without folding and the steps after binding.
fn plain_rows(text: &str) -> Result<String, SqlError> {
    let functions = FunctionContext::default();
    let none = ComputedProperties::default();
    let meter = &Meter::default();
    let environment = Environment {
        parameters: &[],
        computed: &none,
        functions: &functions,
        scripts: None,
        meter,
        is_own: false,
    };
    let mut binder = Binder::new(text, &environment);
    binder.folds = false;
    let query = binder.query(&parse(text)?, Level::Outermost);
    let query = binder.finish(query)?;
    with_item(|item| evaluate_rows(&query, item))
}

fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "1",
        "2.5",
        "-3",
        "0",
        "'a'",
        "'abc'",
        "''",
        "true",
        "false",
        "null",
        "undefined",
        "NaN",
        "[1, 'a']",
        "{'k': 1}",
        "c.n",
        "c.s",
        "c.z",
        "c.o.p",
        "c.numbers",
        "c.tags",
        "c.nothing",
        "c.mixed",
        "[]",
        "{}",
    ])
    .prop_map(str::to_string);
    leaf.prop_recursive(4, 40, 3, |inner| {
        let binary = prop::sample::select(vec![
            "=", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", ">>>", "||",
            "AND", "OR", "??", "LIKE",
        ]);
        prop_oneof![
            (inner.clone(), binary, inner.clone())
                .prop_map(|(a, operator, b)| format!("({a} {operator} {b})")),
            (prop::sample::select(vec!["NOT ", "- ", "+ ", "~"]), inner.clone())
                .prop_map(|(operator, a)| format!("({operator}{a})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} IN ({b}, {c}))")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} NOT BETWEEN {b} AND {c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}, {b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{'k': {a}, 'l': {b}}}")),
            inner.clone().prop_map(|a| format!("{a}.k")),
            inner.clone().prop_map(|a| format!("{a}[0]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("CONTAINS({a}, {b})")),
            inner.clone().prop_map(|a| format!("IS_DEFINED({a})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("IIF({a}, {b}, 0)")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("CHOOSE({a}, {b}, 7)")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(LET v = {a} IN [v, {b}])")),
            inner.prop_map(|a| format!("EXISTS(SELECT VALUE t FROM t IN c.numbers WHERE t = {a})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn folding_and_simplifying_change_no_result(value in expressions(), filter in expressions()) {
        for text in [
            format!("SELECT VALUE {{'v': {value}}} FROM c"),
            format!("SELECT VALUE 1 FROM c WHERE {filter}"),
            format!("SELECT r.v.x, r.v, r.f AS g FROM (SELECT VALUE {{'v': {value}, 'f': c.o}} FROM c WHERE {filter} OR true) AS r WHERE r.f.p ?? {filter}"),
            format!("SELECT VALUE r FROM (SELECT VALUE {value} FROM c) AS r"),
        ] {
            let bound = bind_text(&text, &ComputedProperties::default());
            let folded = bound.and_then(|query| with_item(|item| evaluate_rows(&query, item)));
            prop_assert_eq!(folded, plain_rows(&text), "{}", text);
        }
    }
}

/// In half the stack that threads have by default, unoptimised.
#[test]
fn the_deepest_accepted_queries_are_bound_and_evaluated() {
    let nested = |open: &str, inner: &str, close: &str, times: usize| {
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    let tower = |template: &dyn Fn(usize) -> String| {
        // As deep as the parser goes.
        let deepest = (1..400).take_while(|times| parse(&template(*times)).is_ok()).last().unwrap();
        template(deepest)
    };
    let texts = [
        tower(&|times| format!("SELECT VALUE {} FROM c", nested("(SELECT VALUE ", "c.n", ")", times))),
        tower(&|times| {
            format!("SELECT VALUE {} FROM c", nested("EXISTS(SELECT VALUE 1 WHERE ", "c.n = 5", ")", times))
        }),
        tower(&|times| nested("SELECT VALUE r FROM (", "SELECT VALUE c FROM c", ") AS r", times)),
        tower(&|times| nested("SELECT VALUE r.x FROM (", "SELECT c AS x FROM c", ") AS r", times)),
        tower(&|times| {
            nested("SELECT VALUE COUNT(1) FROM (", "SELECT DISTINCT VALUE c FROM c", ") AS r", times)
        }),
        tower(&|times| format!("SELECT VALUE {} FROM c", nested("(LET v = c IN ", "v.n", ")", times))),
        tower(&|times| {
            format!("SELECT c{}, COUNT(1) FROM c GROUP BY c{}", ".o".repeat(times), ".o".repeat(times))
        }),
        tower(&|times| format!("SELECT VALUE {} FROM c", nested("CHOOSE(1, ", "c.n", ")", times))),
        tower(&|times| format!("SELECT VALUE {} FROM c", nested("{'a': ", "c.n", "}", times))),
    ];
    let parsed = texts.map(|text| (parse(&text).unwrap(), text));
    let check = move || {
        for (tree, text) in parsed {
            let query = bind_tree(&text, &tree, &ComputedProperties::default()).unwrap();
            assert!(with_item(|item| evaluate_rows(&query, item)).is_ok(), "{text}");
        }
    };
    std::thread::Builder::new().stack_size(1024 * 1024).spawn(check).unwrap().join().unwrap();
}

#[test]
fn functions_of_collations_are_for_queries_of_the_server() {
    let none = ComputedProperties::default();
    for text in [
        r#"SELECT VALUE SORTKEY(c.s, "en/2-------") FROM c"#,
        r#"SELECT VALUE sort_key(c.s, "en/2-------") FROM c"#,
        r#"SELECT * FROM c WHERE SORTKEYOFID(c.id, "en/2-------") > """#,
        r#"SELECT VALUE 1 FROM c JOIN d IN (SELECT VALUE SORTKEY(c.s, "en/2-------"))"#,
    ] {
        let refused = bind_text(text, &none).expect_err(text);
        assert!(refused.to_json().contains("SC2005"), "{text}: {refused}");
    }
    let key = crate::SortKey { path: vec!["s".into()], rules: "en/2-------".into(), is_of_id: false };
    let definitions = [("k".to_owned(), key.computed_query())];
    ComputedProperties::compile(&definitions).expect("a definition may call it");
    let filter = crate::Predicate::SortKey { key, is: crate::Compared::Equal, value: "78".into() };
    let query = crate::ItemQuery { filter: Some(filter), ..crate::ItemQuery::default() }.build();
    let environment = crate::QueryEnvironment {
        computed: &none,
        geometry: Default::default(),
        now: Default::default(),
        random_seed: 0,
        scripts: None,
    };
    crate::PreparedQuery::prepare(&query.query, &query.parameters, &environment).expect("the server's query");
}
