//! Whole conditions and lookups: the items they select, and how they are refused.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use proptest::prelude::*;
use shardlake_document::{Body, ParseLimits, Value, parse_document};
use shardlake_sql::{Filter, LanguageLimit, SqlError, parse_condition, parse_filter_query};

const ITEM: &str = r#"{"id":"1","n":5,"d":2.5,"big":9007199254740993,"s":"Straße 😀","t":true,"f":false,"z":null,
    "a":[1,"x",{"k":1,"l":[2]},null],"o":{"p":{"q":"deep"},"order":7},"date":"2024-02-29T12:30:00.1234567Z"}"#;

fn item() -> Body {
    parse_document(ITEM.as_bytes(), &ParseLimits::default()).unwrap()
}

/// The condition's result for the item, which must be the same over stored bytes and over a tree.
fn holds(condition: &str) -> bool {
    let body = item();
    let tree = Value::from_document(body.raw());
    let condition = parse_condition(&format!("FROM c WHERE {condition}"))
        .unwrap_or_else(|error| panic!("{condition}: {error}"));
    let result = condition.matches(body.raw()).unwrap();
    assert_eq!(condition.matches(&tree).unwrap(), result);
    result
}

/// `true`, `false` or `undefined`.
fn truth(expression: &str) -> &'static str {
    match (holds(expression), holds(&format!("({expression}) = false"))) {
        (true, false) => "true",
        (false, true) => "false",
        (false, false) => "undefined",
        (true, true) => panic!("{expression} is both"),
    }
}

#[test]
fn expressions_have_the_values_of_the_specification() {
    for (expression, expected) in [
        // Comparison (§1.7)
        ("c.n = 5", "true"),
        ("c.n = 5.0", "true"),
        ("c.n = '5'", "false"),
        ("c.n != '5'", "true"),
        ("5 != null", "true"),
        ("c.z = null", "true"),
        ("c.none = null", "undefined"),
        ("c.none != 1", "undefined"),
        ("c.none = undefined", "undefined"),
        ("c.n < 6 AND c.n >= 5 AND c.n <= 5 AND c.n > 4.5", "true"),
        ("c.n < '6'", "undefined"),
        ("c.a < c.a", "undefined"),
        ("null <= null", "true"),
        ("false < true", "true"),
        ("c.big > 9007199254740992", "true"),
        ("c.big = 9007199254740993", "true"),
        ("'😀' < '\u{E000}'", "true"),
        ("'a' < 'B'", "false"),
        ("c.o.p = {'q': 'deep'}", "true"),
        ("{'a': 1, 'b': [2]} = {'b': [2.0], 'a': 1}", "true"),
        ("[1, 2] = [2, 1]", "false"),
        ("c.a = [1, 'x', {'l': [2], 'k': 1}, null]", "true"),
        ("NaN = NaN", "undefined"),
        ("Infinity > 1e300", "true"),
        // Logic (§1.6)
        ("c.t AND c.none", "undefined"),
        ("c.f AND c.none", "false"),
        ("c.none AND c.f", "false"),
        ("c.t OR c.none", "true"),
        ("c.none OR c.t", "true"),
        ("c.f OR c.none", "undefined"),
        ("c.t AND 1", "undefined"),
        ("c.f OR 'true'", "undefined"),
        ("NOT c.f", "true"),
        ("NOT c.n", "undefined"),
        ("NOT c.none", "undefined"),
        ("(c.none ? 1 : 2) = 2", "true"),
        ("(1 ? 1 : 2) = 2", "true"),
        ("(c.t ? 1 : 2) = 1", "true"),
        ("(c.none ?? c.n) = 5", "true"),
        ("(c.z ?? 1) = null", "true"),
        ("(c.none ?? c.nothing) = 1", "undefined"),
        // Membership
        ("c.n IN (1, '5', 5.0)", "true"),
        ("c.n IN (1, c.none)", "false"),
        ("c.none IN (1)", "undefined"),
        ("c.n NOT IN (1, 2)", "true"),
        ("c.none NOT IN (1)", "undefined"),
        ("NOT c.n IN (5)", "undefined"),
        ("c.n BETWEEN 5 AND 6", "true"),
        ("c.n BETWEEN 6 AND 'x'", "false"),
        ("c.n BETWEEN 1 AND 'x'", "undefined"),
        ("c.n NOT BETWEEN 1 AND 4", "true"),
        ("c.s LIKE 'Str_%e%'", "true"),
        ("c.s LIKE '%' || '😀'", "true"),
        ("c.n LIKE '5'", "undefined"),
        ("c.s NOT LIKE 'x%'", "true"),
        ("'50%' LIKE '50!%' ESCAPE '!'", "true"),
        ("IS_NULL(c.z)", "true"),
        ("IS_NULL(c.none)", "false"),
        ("0x1F = 31", "true"),
        ("'\\d+' = 'd+'", "true"),
        // Paths
        ("c.o.p.q = 'deep'", "true"),
        ("c['o']['p'].q = c.o['p']['q']", "true"),
        ("c.o['order'] = 7", "true"),
        ("c.a[0] = 1", "true"),
        ("c.a[2].l[0] = 2", "true"),
        ("c.a[4] = 1", "undefined"),
        ("c.a[-1] = 1", "undefined"),
        ("c.a['0'] = 1", "undefined"),
        ("c.a[1.0] = 'x'", "true"),
        ("c.a[0.5] = 'x'", "undefined"),
        ("c.n.x = 1", "undefined"),
        ("[10, 20][1] = 20 AND {'a': 3}.a = 3", "true"),
        ("[1, c.none, 2] = [1, 2]", "true"),
        // Operators
        ("c.n + c.d = 7.5", "true"),
        ("c.n - 1 = 4 AND c.n * 2 = 10 AND c.n / 2 = 2.5 AND c.n % 3 = 2", "true"),
        ("-c.n = -5 AND +c.n = 5", "true"),
        ("-7 % 3 = -1", "true"),
        ("c.n + 'x' = 1", "undefined"),
        ("c.n / 0 > 1e308", "true"),
        ("'a' || 'b' || 'c' = 'abc'", "true"),
        ("'a' || 1 = 'a1'", "undefined"),
        ("(5 & 3) = 1 AND (5 | 3) = 7 AND (5 ^ 3) = 6 AND ~5 = -6", "true"),
        ("(1 << 33) = 2", "true"),
        ("(-8 >> 1) = -4", "true"),
        ("(-1 >>> 0) = -1", "true"),
        ("(4294967297 & 3.9) = 1", "true"),
        ("(c.s & 1) = 1", "undefined"),
        // Functions
        ("IS_DEFINED(c.z) AND NOT IS_DEFINED(c.none)", "true"),
        ("IS_NULL(c.none)", "false"),
        (
            "IS_ARRAY(c.a) AND IS_OBJECT(c.o) AND IS_STRING(c.s) AND IS_NUMBER(c.n) AND IS_BOOL(c.t) AND Is_Boolean(c.f)",
            "true",
        ),
        ("IS_PRIMITIVE(c.z) AND NOT IS_PRIMITIVE(c.a) AND NOT IS_PRIMITIVE(c.none)", "true"),
        (
            "IS_INTEGER(c.n) AND IS_INTEGER(2.0) AND NOT IS_INTEGER(c.d) AND NOT IS_INTEGER(18446744073709551615)",
            "true",
        ),
        (
            "IS_INTEGER(9223372036854775807) AND IS_INTEGER(-9223372036854775808) AND NOT IS_INTEGER(9223372036854775808)",
            "true",
        ),
        ("IS_FINITE_NUMBER(1) AND NOT IS_FINITE_NUMBER(1/0) AND NOT IS_FINITE_NUMBER('1')", "true"),
        ("IS_DATETIME(c.date) AND IS_DATETIME('2024-01-31') AND IS_DATETIME('2024-01-31T23:59:59')", "true"),
        (
            "IS_DATETIME('2023-02-29') OR IS_DATETIME('2024-1-1') OR IS_DATETIME('2024-01-01T24:00:00Z') OR IS_DATETIME(1)",
            "false",
        ),
        (
            "CONTAINS(c.s, 'aß') AND STARTSWITH(c.s, 'Str') AND ENDSWITH(c.s, '😀') AND CONTAINS(c.s, '')",
            "true",
        ),
        ("CONTAINS(c.s, 'STRA')", "false"),
        (
            "CONTAINS(c.s, 'STRA', true) AND STARTSWITH(c.s, 'sTR', true) AND NOT ENDSWITH(c.s, 'x', false)",
            "true",
        ),
        ("CONTAINS(c.s, 'x', 1)", "undefined"),
        ("CONTAINS(c.n, '5')", "undefined"),
        ("LENGTH(c.s) = 9", "true"),
        ("LENGTH(c.n) = 1", "undefined"),
        ("LOWER('ÄB') = 'äb' AND UPPER('äß') = 'Äß'", "true"),
        ("ARRAY_CONTAINS(c.a, 'x') AND ARRAY_CONTAINS(c.a, null) AND ARRAY_CONTAINS(c.a, 1.0)", "true"),
        ("ARRAY_CONTAINS(c.a, {'k': 1})", "false"),
        ("ARRAY_CONTAINS(c.a, {'k': 1}, true)", "true"),
        ("ARRAY_CONTAINS(c.a, {'k': 2}, true)", "false"),
        ("ARRAY_CONTAINS(['x'], c.a[1]) AND NOT ARRAY_CONTAINS([], 1)", "true"),
        ("ARRAY_CONTAINS(c.n, 1)", "undefined"),
        ("ARRAY_LENGTH(c.a) = 4 AND ARRAY_LENGTH([]) = 0", "true"),
        ("ABS(-5) = 5 AND ABS(-2.5) = 2.5 AND ABS(-9223372036854775808) = 9223372036854775808", "true"),
    ] {
        assert_eq!(truth(expression), expected, "{expression}");
    }
}

/// In half the stack that threads have by default, unoptimised.
#[test]
fn the_deepest_accepted_conditions_are_evaluated() {
    for (condition, expected) in [
        (format!("c.n{} = 395", "+1".repeat(390)), true),
        (format!("{}c.t{}", "(".repeat(190), ")".repeat(190)), true),
        (format!("{}c.t", "NOT ".repeat(190)), true),
        (format!("c{} = 1", ".o".repeat(390)), false),
        (format!("c{} = 1", "[0]".repeat(390)), false),
        (format!("{}c.n{} = 5", "ABS(".repeat(190), ")".repeat(190)), true),
        (format!("{}c.n{} = 5", "[".repeat(190), "]".repeat(190)), false),
        (format!("{}c.t", "c.f ? 1 : ".repeat(190)), true),
        (format!("c.t{}", " IN (c.t".repeat(90) + &")".repeat(90)), true),
        (format!("{}c.t{}", "(c.t AND ".repeat(95), ")".repeat(95)), true),
        (format!("{}c.t{}", "ABS(c.t AND c.n = ".repeat(65), ")".repeat(65)), false),
        (format!("c.f{} OR c.t", " OR c.f".repeat(1_999)), true),
        (format!("c.t{}", " AND c.t".repeat(4_000)), true),
    ] {
        let check = move || assert_eq!(holds(&condition), expected, "{condition}");
        std::thread::Builder::new().stack_size(1024 * 1024).spawn(check).unwrap().join().unwrap();
    }
}

#[test]
fn lookups_select_rows_with_aliases_and_parameters() {
    let body = item();
    let parameters = [("@id".to_string(), Value::from("1")), ("@n".to_string(), Value::Int(6))];
    for (query, expected) in [
        ("SELECT * FROM root", true),
        ("select * from root r where r.id=@id", true),
        ("SELECT * from root where root.id = \"1\"", true),
        ("SELECT * FROM c AS x WHERE x.n = @n OR x.id IN (@n, @id)", true),
        ("SELECT * FROM databases d WHERE d.id = @n", false),
        ("SELECT\n*\nFROM first WHERE first.n < @n", true),
    ] {
        let filter = parse_filter_query(query).unwrap();
        assert_eq!(filter.matches(body.raw(), &parameters), Ok(expected), "{query}");
        assert_eq!(Filter::parse(query, &parameters).unwrap().matches(body.raw()), expected);
    }
    // A parameter without a value is undefined.
    let query = "SELECT * FROM c WHERE c.id = @x";
    assert_eq!(parse_filter_query(query).unwrap().matches(body.raw(), &parameters), Ok(false));
    assert!(!Filter::parse(query, &parameters).unwrap().matches(body.raw()));
    assert_eq!(parse_condition("from c where c.id = @x").unwrap().matches(body.raw()), Ok(false));
}

#[test]
fn mistakes_are_refused_with_code_place_and_text() {
    for (query, code, message, start, end) in [
        ("SELEC * FROM c", "SC1001", "Syntax error, incorrect syntax near 'SELEC'.", 0, 5),
        ("SELECT", "SC1002", "Syntax error, unexpected end-of-file.", 6, 6),
        ("SELECT * FROM c WHERE", "SC1002", "Syntax error, unexpected end-of-file.", 21, 21),
        ("SELECT * FROM c WHERE true, true", "SC1001", "Syntax error, incorrect syntax near ','.", 26, 27),
        ("SELECT * FROM c d e", "SC1001", "Syntax error, incorrect syntax near 'e'.", 18, 19),
        ("SELECT * FROM c WHERE a.x = 1", "SC2001", "Identifier 'a' could not be resolved.", 22, 23),
        ("SELECT * FROM c AS d WHERE c.x = 1", "SC2001", "Identifier 'c' could not be resolved.", 27, 28),
        (
            "SELECT * FROM c WHERE BADFUNC(c.x)",
            "SC2005",
            "'BADFUNC' is not a recognized built-in function name.",
            22,
            29,
        ),
        (
            "SELECT * FROM c WHERE StartsWith(c.x)",
            "SC2050",
            "The StartsWith function requires 2 to 3 argument(s).",
            22,
            37,
        ),
        ("SELECT * FROM c WHERE abs()", "SC2050", "The abs function requires 1 argument(s).", 22, 27),
    ] {
        let error = parse_filter_query(query).unwrap_err();
        let location = error.location().unwrap();
        assert_eq!((error.code(), error.to_string().as_str()), (Some(code), message), "{query}");
        assert_eq!((location.start, location.end), (start, end), "{query}");
    }
    assert!(matches!(parse_condition("from c"), Err(SqlError::UnexpectedEnd { .. })));
    assert!(matches!(parse_condition("c.x = 1"), Err(SqlError::Syntax { .. })));
    let long = format!("SELECT * FROM c WHERE c.x = '{}'", "x".repeat(512 * 1024));
    assert!(matches!(parse_filter_query(&long), Err(SqlError::Limit { limit: LanguageLimit::Text, .. })));
}

#[test]
fn the_rest_of_the_language_is_refused_by_name() {
    for (query, feature) in [
        ("SELECT c.id FROM c", "a projection other than *"),
        ("SELECT VALUE c FROM c", "SELECT VALUE"),
        ("SELECT DISTINCT * FROM c", "SELECT DISTINCT"),
        ("SELECT TOP 1 * FROM c", "SELECT TOP"),
        ("SELECT * FROM c JOIN d IN c.d", "JOIN"),
        ("SELECT * FROM d IN c.d", "iteration with IN in FROM"),
        ("SELECT * FROM c.d", "a path in FROM"),
        ("SELECT * FROM (SELECT * FROM c)", "a subquery in FROM"),
        ("SELECT * FROM c ORDER BY c.x", "ORDER BY"),
        ("SELECT * FROM c WHERE true GROUP BY c.x", "GROUP BY"),
        ("SELECT * FROM c OFFSET 1 LIMIT 2", "OFFSET LIMIT"),
        ("SELECT * FROM c WHERE udf.f(c)", "the user-defined function 'f'"),
        ("SELECT * FROM c WHERE FULLTEXTCONTAINS(c.s, 'a')", "the function FULLTEXTCONTAINS"),
    ] {
        let refused = SqlError::Unsupported { feature: feature.into() };
        assert_eq!(parse_filter_query(query).unwrap_err(), refused, "{query}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn no_text_panics(text in prop_oneof![
        any::<String>(),
        prop::collection::vec(prop::sample::select(vec![
            "SELECT", "*", "FROM", "c", "WHERE", "(", ")", "[", "]", "{", "}", ",", ".", ":", "?", "??", "||", "NOT", "IN", "LIKE",
            "BETWEEN", "AND", "OR", "IS", "NULL", "ESCAPE", "'a'", "\"b\"", "1", "-", "2.5", "@p", "=", "!=", "<<", ">>>", "ABS", "LENGTH",
            "undefined", "true", "--", "/*", "*/", "\\", "'", "é", "c.a", "ARRAY_CONTAINS", "LET", "x",
        ]), 0..30).prop_map(|words| words.join(" ")),
    ]) {
        let body = item();
        for text in [text.clone(), format!("SELECT * FROM c WHERE {text}")] {
            if let Ok(filter) = parse_filter_query(&text) {
                let _ = filter.matches(body.raw(), &[("@p".into(), Value::Int(1))]);
            }
            if let Err(error) = parse_condition(&text) {
                let _ = (error.to_string(), error.location(), error.code());
            }
        }
    }
}
