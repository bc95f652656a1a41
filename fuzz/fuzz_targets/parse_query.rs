//! Any text as a query: no panic and no deep recursion, places inside the text, and printed queries parse to themselves.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardlake_sql::{Query, SqlError, parse_query};

fuzz_target!(|text: &str| {
    match parse_query(text) {
        Ok(query) => {
            printed(&query, Query::to_service_text);
            printed(&query, Query::to_canonical_text);
        }
        Err(error) => {
            let units = text.encode_utf16().count();
            if let Some(location) = error.location() {
                assert!(location.start <= location.end && location.end <= units, "{error}");
            }
            assert!(serde_json::from_str::<serde_json::Value>(&error.to_json()).is_ok());
        }
    }
});

fn printed(query: &Query, print: fn(&Query) -> String) {
    let text = print(query);
    match parse_query(&text) {
        Ok(again) => assert_eq!(print(&again), text),
        // Parentheses that the printer adds may be too many, and so may its spaces.
        Err(SqlError::TooDeep { .. } | SqlError::Limit { .. }) => {}
        Err(error) => panic!("{error}: {text}"),
    }
}
