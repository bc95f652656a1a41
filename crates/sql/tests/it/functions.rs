//! The built-in functions: the specification's examples, edge cases, and how wrong calls are refused.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

use crate::support::table::check_table;
use shardlake_sql::{SqlError, parse_condition};

const ITEM: &str = r#"{"id":"1","text":"Straße","list":[1,"x",{"k":1}],"n":5,"o":{"b":1,"a":[2,{"c":3}]},
    "objects":[{"a":1,"b":{"c":2,"d":3}},{"a":2}],"big":9007199254740993}"#;

#[test]
fn types_and_texts() {
    check_table(include_str!("functions/types_and_texts.txt"), ITEM);
}

#[test]
fn arrays_and_numbers() {
    check_table(include_str!("functions/arrays_and_numbers.txt"), ITEM);
}

#[test]
fn dates() {
    check_table(include_str!("functions/dates.txt"), ITEM);
}

#[test]
fn wrong_calls_are_refused_with_the_references_texts() {
    for (expression, code, message) in [
        ("STARTSWITH('a')", "SC2050", "The STARTSWITH function requires 2 to 3 argument(s)."),
        (
            "ARRAY_CONTAINS_ANY([])",
            "SC2050",
            "The ARRAY_CONTAINS_ANY function requires at least 2 argument(s).",
        ),
        ("arraylength()", "SC2050", "The arraylength function requires 1 argument(s)."),
        ("ToString(1, 2)", "SC2050", "The ToString function requires 1 argument(s)."),
        ("PI(1)", "SC2050", "The PI function requires 0 argument(s)."),
        ("BADFUNC(1)", "SC2005", "'BADFUNC' is not a recognized built-in function name."),
        ("_LENGTH('a')", "SC2005", "'_LENGTH' is not a recognized built-in function name."),
    ] {
        let error = parse_condition(&format!("FROM c WHERE {expression}")).unwrap_err();
        assert_eq!((error.code(), &*error.to_string()), (Some(code), message), "{expression}");
    }
}

#[test]
fn functions_that_are_not_there_are_refused_by_name() {
    for name in ["FullTextContains", "FULLTEXTCONTAINSALL", "HASH"] {
        let error = parse_condition(&format!("FROM c WHERE {name}(c.text, 'a')")).unwrap_err();
        let expected = format!("the function {}", name.to_uppercase());
        assert!(matches!(error, SqlError::Unsupported { feature } if feature == expected), "{name}");
    }
}

#[test]
fn results_have_a_largest_size() {
    let ten_kilobytes = "REPLICATE('0123456789', 1000)";
    let grown = |times: usize| {
        (0..times).fold(ten_kilobytes.to_string(), |text, _| format!("CONCAT({text}, {text}, {text})"))
    };
    let run = |expression: String| {
        let body = shardlake_document::parse_document(ITEM.as_bytes(), &Default::default()).unwrap();
        let condition = parse_condition(&format!("FROM c WHERE IS_DEFINED({expression})")).unwrap();
        condition.matches(body.raw())
    };
    assert_eq!(run(grown(5)), Ok(true));
    let too_large = |result| matches!(result, Err(SqlError::ResultTooLarge { .. }));
    assert!(too_large(run(grown(6))));
    assert!(too_large(run(format!("REPLACE({}, '0', {ten_kilobytes})", grown(1)))));
    assert!(too_large(run(format!("StringSplit({}, '0')", grown(5)))));
    let words = format!("StringSplit({}, '0')", grown(1));
    assert!(too_large(run(format!("StringJoin({words}, {})", grown(1)))));
}

#[test]
fn spatial_functions() {
    let item = r#"{"id":"1","place":{"type":"Point","coordinates":[-122.128,47.64]}}"#;
    check_table(include_str!("functions/spatial.txt"), item);
}
