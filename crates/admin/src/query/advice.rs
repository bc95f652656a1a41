//! The rules of the query advisor in plain words, by their numbers.

/// The problem of a query, and its remedy.
pub(super) fn words(id: &str) -> &'static str {
    match id {
        "QA1000" => "ARRAY_CONTAINS with a partial match reads items; compare a whole element where you can.",
        "QA1001" => {
            "DISTINCT over a JOIN removes what the JOIN has multiplied; a subquery with EXISTS multiplies nothing."
        }
        "QA1002" => {
            "CONTAINS looks at every value of the path; where the text begins with what you look for, use STARTSWITH."
        }
        "QA1003" => {
            "Ignoring case looks at every value of the path; keep a copy in one case and compare with that."
        }
        "QA1004" => {
            "ENDSWITH looks at every value of the path; keep the text reversed beside it and use STARTSWITH."
        }
        "QA1006" => "LIKE with a wildcard in front looks at every value of the path.",
        "QA1007" => {
            "GetCurrentDateTime differs from item to item; GetCurrentDateTimeStatic is computed once and uses the index."
        }
        "QA1008" => {
            "GetCurrentTicks differs from item to item; GetCurrentTicksStatic is computed once and uses the index."
        }
        "QA1009" => {
            "GetCurrentTimestamp differs from item to item; GetCurrentTimestampStatic is computed once and uses the index."
        }
        _ => "The query advisor has a rule about this query.",
    }
}
