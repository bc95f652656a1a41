//! Texts that are meant to harm: deep, long, or no SQL at all. Tests run on threads with stacks of 2 MB, as those that serve requests.

use proptest::prelude::*;
use shardlake_analytics_dialect::{DialectError, Settings, TEXT_BYTES_MAX, parse};

use crate::tables::tables;

fn refusal(statement: &str) -> Option<DialectError> {
    let tables = tables();
    parse(statement, &Settings { database: Some("shop"), tables: &tables }).err()
}

#[test]
fn deep_texts_are_refused() {
    let many = 10_000;
    let deep = [
        format!("SELECT {}1{}", "(".repeat(many), ")".repeat(many)),
        format!("SELECT {}", "(".repeat(many)),
        format!("SELECT * FROM {}customer{}", "(".repeat(many), ")".repeat(many)),
        format!("SELECT * FROM {}customer{}", "(SELECT * FROM ".repeat(many), ")".repeat(many)),
        format!("{}SELECT 1{}", "(".repeat(many), ")".repeat(many)),
        format!("SELECT 1{}", " + 1".repeat(many)),
        format!("SELECT 1{}", " OR 1 = 1".repeat(many)),
        format!("SELECT {}1", "- ".repeat(many)),
        format!("SELECT {}true", "NOT ".repeat(many)),
        format!("SELECT 1{}", " IS NULL".repeat(many)),
        format!("SELECT 1{}", "::int".repeat(many)),
        format!("SELECT 1{}", " UNION ALL SELECT 1, 2".repeat(many)),
        format!("SELECT 1 FROM customer{}", " JOIN customer ON true".repeat(many)),
        format!("SELECT {}1{}", "CASE WHEN true THEN ".repeat(many), " END".repeat(many)),
        format!("SELECT CAST(1 AS {}INT{})", "ARRAY<".repeat(many), ">".repeat(many)),
        format!("SELECT {}1{}", "[".repeat(many), "]".repeat(many)),
        format!("SELECT tags{} FROM customer", "[1]".repeat(many)),
        format!("SELECT {}1{}", "{a: ".repeat(many), "}".repeat(many)),
        format!("{}SELECT 1", "EXPLAIN ".repeat(many)),
        format!("{}SELECT 1{}", "WITH a AS (".repeat(many), ") SELECT 1".repeat(many)),
        format!("SELECT {}1{}", "EXISTS(SELECT ".repeat(many), ")".repeat(many)),
        format!("SELECT {}x", "INTERVAL ".repeat(many)),
        format!("SELECT {}1", "PRIOR ".repeat(many)),
        format!("SELECT {}x", "x -> ".repeat(many)),
        format!("SELECT 1 FROM customer{}", ", UNNEST(tags) AS x".repeat(many)),
        format!("SELECT {}1", "[a".repeat(many)),
        format!("SELECT {}'1'", "DATE ".repeat(many)),
        format!("SELECT {}1", "~ ".repeat(many)),
        format!("SELECT {}1", "ARRAY".repeat(many)),
        format!("SELECT {}1", "ROW(".repeat(many)),
        format!("SELECT {}1", "1 BETWEEN ".repeat(many)),
        format!("SELECT 1 LIKE {}1", "1 LIKE ".repeat(many)),
        format!("SELECT * FROM {}", "LATERAL (SELECT * FROM ".repeat(many)),
        format!("SELECT * FROM {}", "TABLE(".repeat(many)),
        format!("SELECT * FROM customer {}", "PIVOT (SUM(n) FOR type IN (1)) ".repeat(many)),
        format!("SELECT 1 AT TIME ZONE {}", "'x' AT TIME ZONE ".repeat(many)),
        format!("SELECT id FROM customer ORDER BY {}", "x COLLATE y COLLATE ".repeat(many)),
        format!("SELECT TOP {}", "(TOP ".repeat(many)),
        format!("SELECT {}", "CONVERT(int, ".repeat(many)),
        format!("SELECT {} FROM customer", "OPENROWSET('CosmosDB', 'Database=shop', ".repeat(many)),
        format!("SELECT {} FROM customer", "/*".repeat(many)),
        format!("SELECT {} FROM customer", "$a$".repeat(many + 1)),
    ];
    for statement in deep {
        assert!(refusal(&statement).is_some(), "{}…", &statement[..60]);
    }
}

#[test]
fn long_texts_are_read_or_refused_by_their_length() {
    let list = format!("SELECT id FROM customer WHERE n IN ({})", vec!["12"; 10_000].join(", "));
    assert_eq!(refusal(&list), None);
    let columns = format!("SELECT {} FROM customer", vec!["n AS m"; 5_000].join(", "));
    assert_eq!(refusal(&columns), None);
    let conditions = format!("SELECT id FROM customer WHERE {}", vec!["n = 1"; 150].join(" OR "));
    assert_eq!(refusal(&conditions), None);
    let long = format!("SELECT '{}'", "x".repeat(TEXT_BYTES_MAX));
    let error = refusal(&long).expect("too long");
    assert!(error.message.contains("bytes"), "{error}");
}

/// Groups that the parser tries in several ways multiply its work with each level, so the levels are few.
#[test]
fn nested_tables_are_read_in_bounded_steps() {
    for levels in 0..50 {
        let joins =
            format!("SELECT 1 FROM {}customer{}", "(customer CROSS JOIN ".repeat(levels), ")".repeat(levels));
        let groups = format!("SELECT 1 FROM {}customer{}", "(".repeat(levels), ")".repeat(levels));
        let calls = format!("SELECT {}1{}", "abs(".repeat(levels), ")".repeat(levels));
        let groups_of_values = format!("SELECT {}1{}", "(".repeat(levels), ")".repeat(levels));
        let is_few = levels <= 5;
        for statement in [joins, groups, calls, groups_of_values] {
            let refused = refusal(&statement);
            assert!(refused.is_none() || !is_few, "{statement}: {refused:?}");
        }
    }
}

#[test]
fn secrets_of_connection_strings_are_never_repeated() {
    for statement in [
        "SELECT * FROM OPENROWSET('CosmosDB', 'Account=a;Database=shop;Key=SECRET', nothing) AS d",
        "SELECT * FROM OPENROWSET('CosmosDB', 'Account=a;Database=shop;Key=SECRET') AS d",
        "SELECT * FROM OPENROWSET('CosmosDB' 'Account=a;Database=shop;Key=SECRET', x) AS d",
        "SELECT * FROM OPENROWSET(PROVIDER = 'CosmosDB', CONNECTION 'Key=SECRET') AS d",
        "SELECT * FROM OPENROWSET(PROVIDER = 'CosmosDB', KEY = 'Key=x') AS d",
        "SELECT * FROM x('Key=SECRET')",
    ] {
        let error = refusal(statement).expect("refused");
        assert!(!error.to_string().contains("=SECRET") && !error.to_string().contains("'SECRET'"), "{error}");
    }
}

#[test]
fn places_are_those_of_the_text() {
    let error = refusal("SELECT id\nFROM customer\nWHERE [type] = 'ä' AND nn = 1").expect("refused");
    assert_eq!((error.line, error.column), (3, 24), "{error}");
    let error = refusal("SELECT /* é\n */ [id], [idd] FROM customer").expect("refused");
    assert_eq!((error.line, error.column), (2, 11), "{error}");
}

const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "customer",
    "c",
    "AS",
    "*",
    ",",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    "UNNEST",
    "tags",
    "x",
    "JOIN",
    "LEFT",
    "ON",
    "true",
    "WHERE",
    "=",
    "+",
    "-",
    "'a'",
    "N'b'",
    "1",
    "1.5",
    "TOP",
    "DATEADD",
    "DATEDIFF",
    "day",
    "OPENROWSET",
    "OPENJSON",
    "WITH",
    "CROSS",
    "APPLY",
    "CAST",
    "CONVERT",
    "varchar",
    "int",
    "$p",
    "@q",
    "?",
    "\"",
    "'",
    "`",
    "/*",
    "*/",
    "--",
    "\n",
    ";",
    "NULL",
    "CASE",
    "WHEN",
    "THEN",
    "END",
    "UNION",
    "ALL",
    "ORDER",
    "BY",
    "GROUP",
    "LIMIT",
    "OVER",
    "IS",
    "NOT",
    "IN",
    "EXPLAIN",
    "DESCRIBE",
    "SHOW",
    "TABLES",
    "details",
    "address",
    "city",
    "id",
    "ISNULL",
    "LEN",
    "JSON_VALUE",
    "'$.city'",
    "->",
    "::",
    "$$",
    "É",
    "\u{0}",
    "\u{1F600}",
    "'CosmosDB'",
    "'Database=shop'",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in ".{0,200}") {
        let _outcome = refusal(&text);
        let _outcome = refusal(&format!("SELECT {text} FROM customer"));
    }

    #[test]
    fn no_words_panic(words in prop::collection::vec(prop::sample::select(WORDS), 0..40)) {
        let _outcome = refusal(&words.join(" "));
        let _outcome = refusal(&format!("SELECT {}", words.concat()));
        let _outcome = refusal(&format!("SELECT * FROM customer c, UNNEST(c.details) AS x WHERE {}", words.join(" ")));
    }

    #[test]
    fn a_refusal_names_a_place(words in prop::collection::vec(prop::sample::select(WORDS), 0..20)) {
        let text = words.join(" ");
        if let Some(error) = refusal(&text) {
            prop_assert!(error.line >= 1 && error.column >= 1 && !error.message.is_empty());
            prop_assert!(error.line <= text.lines().count() as u64 + 1);
        }
    }
}
